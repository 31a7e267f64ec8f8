"""Distillation: what a teacher found is kept, turns with the board and has the right sign; games go on where they
stopped, and the net that learns comes nearer to its teacher."""

import math
import signal
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.games import random_game
from helpers.selfplay import random_games, replayed
from torch import nn
from torch.nn import functional

from arena import ConfigError
from arena.contract.bot import Limits
from arena.go.coords import BLACK, WHITE, Colour, apply_symmetry
from arena.go.game import Game, Rules
from arena.go.planes import NO_MOVE, encode_game, find_encoder
from arena.go.sgf import write_sgf
from arena.players.registry import Registry
from bots.nets.checkpoint import Checkpoint
from bots.nets.inference import Evaluator, sample_planes
from bots.nets.network import Outputs
from trainers import distill, metrics, replay
from trainers import records as data
from trainers.distill import TeacherGames, split_searches
from trainers.games import DRAW, LOSS, NO_RESULT, WIN, Batch, Games, encode_positions
from trainers.losses import Target, search_loss
from trainers.records import SplitRule
from trainers.replay import Replay, SearchedGames, encode_searches, in_order, play_games, shares_of
from trainers.selfplay import Parallelism, PlayedGame
from trainers.settings import SETTINGS_FILE
from trainers.settings import Distill as Config
from trainers.teachers import Judged, build_teacher, chosen_plies, judged_games
from trainers.train import Progress

SIZE = 5
POINTS = SIZE * SIZE
ENCODER = find_encoder("arena-17")

pytestmark = pytest.mark.xdist_group("selfplay")  # one worker compiles the kernels of self-play, not all of them
ROLLOUTS = "rollout_weight=1,rollouts_full=0,max_tree_mb=1"


@pytest.fixture(scope="module")
def tiny(net: Path) -> Config:
    teacher = f"alphago:checkpoint={net},visits=12,rollout_weight=0.5,rollouts_full=0,max_tree_mb=1"
    played: Any = {"komi": 2.5, "games": 16, "parallel_games": 4, "cheap_search_visits": 4, "test_split": 0.3}
    short: Any = {"batch_size": 16, "max_rows": 8 * 16, "validate_every": 128, "device": "cpu", "validation_split": 0.3}
    return Config("tiny", SIZE, teacher=teacher, start=str(net), net="arena-1x8", **played, **short)


@pytest.fixture(scope="module")
def recipe(tiny: Config) -> TeacherGames:
    return TeacherGames.of(tiny, Registry(), Path())


def play(
    config: Config, recipe: TeacherGames, results: Path, on_made: Callable[[str], None] = lambda _: None
) -> SearchedGames:
    """The games in the order of their numbers, those played that are missing."""
    return play_games(config, recipe, results, on_made).by_number(config.games)[0]


@pytest.fixture(scope="module")
def searched(tiny: Config, recipe: TeacherGames, results: Path) -> SearchedGames:
    """The games of ``tiny``, in ``results``."""
    return play(tiny, recipe, results)


def moves_of(games: Games, game: int) -> list[int]:
    moves: list[int] = games.moves[games.starts[game] : games.starts[game + 1]].tolist()
    return moves


def same(first: SearchedGames, second: SearchedGames) -> bool:
    one, other = ({**asdict(some), **asdict(some.games)} for some in (first, second))
    return all(np.array_equal(column, other[name]) for name, column in one.items() if name != "games")


# --- What is kept of the visits ---


def test_shares_turn_with_the_board(searched: SearchedGames) -> None:
    symmetries = np.arange(8)
    for which in (0, len(searched) // 2):
        turned = encode_searches(searched, ENCODER, np.full(8, which), symmetries)
        plain = shares_of(searched.levels[which : which + 1])[0]
        rows = encode_positions(searched.games, ENCODER, np.full(8, searched.places[which]), symmetries)
        assert np.array_equal(turned.planes, rows.planes)
        for symmetry in range(8):
            points = apply_symmetry(plain[:-1].reshape(SIZE, SIZE), symmetry)
            assert np.array_equal(turned.shares[symmetry, :-1].reshape(SIZE, SIZE), points)
            assert turned.shares[symmetry, -1] == plain[-1]
        assert (turned.moves == turned.shares.argmax(1)).all()


def test_searched_stay_with_their_games_when_some_are_chosen_and_joined(searched: SearchedGames) -> None:
    def found(some: SearchedGames, game: int) -> list[tuple[int, bytes, float]]:
        begin, end = some.games.starts[game : game + 2]
        columns = zip(some.places.tolist(), some.levels, some.win_rates.tolist(), strict=True)
        return [(place - begin, level.tobytes(), rate) for place, level, rate in columns if begin <= place < end]

    both = SearchedGames.joined([searched.select(np.array(chosen)) for chosen in ([7, 2, 11], [3])])
    for number, game in enumerate([7, 2, 11, 3]):
        assert moves_of(both.games, number) == moves_of(searched.games, game)
        assert found(both, number) == found(searched, game)
    assert sum(len(found(both, number)) for number in range(4)) == len(both) > 10


# --- Teachers ---


@pytest.mark.parametrize("teacher", ["alphago:checkpoint={},visits=20," + ROLLOUTS, "policy:checkpoint={}"])
def test_what_a_teacher_finds_is_what_it_would_play(teacher: str, net: Path) -> None:
    rules, player = Rules.preset("cgos", SIZE, 2.5), Registry().resolve(teacher.format(net))
    twin, moves = player.build(), random_games(rules, 1)[0].moves
    positions = [moves[: 3 * number] for number in range(6)]
    with closing(build_teacher(player, rules, 2)) as judge:
        shares, rates, owners = judge.judge(positions, 2.5)
    assert owners is not None and np.abs(owners).max() <= 1 and np.allclose(shares.sum(1), 1)
    for number, (row, rate) in enumerate(zip(shares, rates, strict=True)):
        game = Game(rules, number)
        for move in positions[number].tolist():
            game.play(move)
        assert row[twin.choose(game, Limits()).move] == row.max() and 0 <= rate <= 1
        assert not row[~game.legal_moves()].any()
        assert "policy" not in teacher or ((row > 0) == game.sensible_moves()).all()


@pytest.mark.parametrize("to_play", [BLACK, WHITE])
def test_the_win_rate_of_a_search_is_that_of_the_side_to_move(to_play: Colour, net: Path) -> None:
    """On a board that is one side's but for its eyes."""
    bot = Registry().resolve(f"alphago:checkpoint={net},visits=30,{ROLLOUTS}").build()
    stones = [point for point in range(POINTS) if point not in (0, 12, 24)]
    games = [Game(Rules.preset("cgos", SIZE, 2.5), 3, *sides, to_play) for sides in ((stones, ()), ((), stones))]
    _, rates, *_ = bot.search_targets(games, Limits())  # type: ignore[attr-defined]
    assert np.allclose(rates, [to_play is BLACK, to_play is WHITE], atol=0.1)


# --- Games ---


class Script:
    """A teacher to which all moves are alike. Its win rate tells how many there were, its ownership the first."""

    at_once = 40

    def __init__(self) -> None:
        self.asked: list[list[int]] = []

    def judge(self, moves: Sequence[np.ndarray], komi: float) -> Judged:
        assert komi == 2.5
        self.asked += [each.tolist() for each in moves]
        shares, owners = np.full((len(moves), POINTS + 1), 1 / (POINTS + 1)), np.zeros((len(moves), POINTS))
        for row, each in zip(owners, moves, strict=True):
            row[each[:1]] = -0.5
        return shares, np.array([0.3 + len(each) / 1000 for each in moves]), owners

    def close(self) -> None: ...


def judged(recipe: TeacherGames, script: Script, games: int, workers: int = 0) -> list[PlayedGame]:
    played = recipe.search(Parallelism(8)).play(map(recipe.begin, range(games)))
    return list(judged_games(played, script, recipe.config.full_search_prob, recipe.config.seed, workers))


@pytest.fixture(scope="module")
def with_player(tiny: Config, net: Path) -> Config:
    player = f"alphago:checkpoint={net},visits=10,rollout_weight=0,max_tree_mb=1"
    return replace(tiny, player=player, full_search_prob=0.4, temperature_moves=1000, temperature=1.0)


def test_games_are_legal_start_at_random_and_a_share_of_their_positions_is_judged(with_player: Config) -> None:
    recipe, script = TeacherGames.of(with_player, Registry(), Path()), Script()
    over = judged(recipe, script, 30, workers=2)
    assert {game.number for game in over} == {*range(30)}
    positions = moves = 0
    for finished in over:
        opening = recipe.begin(finished.number).opening
        assert finished.moves[: len(opening)].tolist() == list(opening) and finished.plies.min() >= len(opening)
        list(replayed(finished, recipe.rules))  # which checks its end
        assert (finished.lines == NO_MOVE).all()
        assert np.allclose(finished.win_rates, 0.3 + finished.plies / 1000)  # each with its own position
        positions, moves = positions + len(finished.plies), moves + len(finished.moves) - len(opening)
    assert {len(recipe.begin(number).opening) for number in range(30)} == set(range(recipe.config.plies + 1))
    assert 0.25 < positions / moves < 0.45 and positions == len(script.asked)  # fewer where a game is decided
    assert same_games(over, judged(recipe, script, 30))


def same_games(first: Sequence[PlayedGame], second: Sequence[PlayedGame]) -> bool:
    pairs = zip(*(sorted(some, key=lambda game: game.number) for some in (first, second)), strict=True)
    return all(np.array_equal(a.moves, b.moves) and np.array_equal(a.plies, b.plies) for a, b in pairs)


def test_decided_games_are_judged_a_quarter_as_often() -> None:
    moves, plies = np.zeros(2006, np.uint16), np.arange(6, 2006)
    levels = np.ones((2000, POINTS + 1), np.uint16)
    for rate, share in ((0.04, 0.25), (0.97, 0.25), (0.06, 1.0)):
        game = PlayedGame(0, moves, 2.5, 0.5, True, plies, levels, np.full(2000, rate, np.float32), given=6)
        chosen = chosen_plies(game, 1.0, 1)
        assert chosen[:5].tolist() == [6, 7, 8, 9, 10] and abs(len(chosen) / 2000 - share) < 0.04


def test_games_begin_as_records_do_and_some_are_of_the_policy_alone(
    with_player: Config, archive_of_five: Path, tmp_path: Path
) -> None:
    config = replace(with_player, records=(str(archive_of_five),), record_share=0.6, policy_share=0.3)
    recipe = TeacherGames.of(config, Registry(), tmp_path)
    assert recipe.records is not None and recipe.folder(tmp_path) != replace(recipe, records=None).folder(tmp_path)
    known = [moves_of(recipe.records.games, number) for number in range(len(recipe.records))]
    new = [recipe.begin(number) for number in range(400)]
    alone = [replace(recipe, records=None).begin(number) for number in range(400)]
    of_records = [one for one, other in zip(new, alone, strict=True) if one.opening != other.opening]
    assert 160 < len(of_records) < 240 and len({len(game.opening) for game in of_records}) > 12
    assert all(any(moves[: len(game.opening)] == list(game.opening) for moves in known) for game in of_records)
    drawn = [game.drawn for game in new]
    assert {*drawn} == {0, recipe.rules.move_limit} and 90 < drawn.count(recipe.rules.move_limit) < 150
    for game in judged(recipe, Script(), 12):
        assert game.moves[: game.given].tolist() == list(new[game.number].opening) and (game.plies >= game.given).all()


@pytest.fixture(scope="module")
def archive_of_five(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("records") / "random.sgfs"
    path.write_text("\n".join(write_sgf(random_game(seed, "2018-05-01", SIZE)) for seed in range(12)))
    return path


def test_without_a_player_a_net_judges_games_of_the_students_policy(tiny: Config, net: Path) -> None:
    config = replace(tiny, teacher=f"policy:checkpoint={net}", full_search_prob=1.0)
    recipe = TeacherGames.of(config, Registry(), Path())
    assert recipe.player is not None and recipe.begin(3).drawn == recipe.rules.move_limit
    (engine,) = recipe.engines(deque(range(4)), 4, 1)
    for game in engine(lambda: True):
        assert len(game.plies) == len(game.moves) - game.given and game.owners is not None


def test_positions_of_the_tree_are_judged_too_and_stay_with_their_game(with_player: Config, tmp_path: Path) -> None:
    """Against the moves played one by one: the script's win rate tells how many there were."""
    config = replace(with_player, tree_positions=3, full_search_prob=0.5)
    recipe, script, games = TeacherGames.of(config, Registry(), tmp_path), Script(), 24
    Replay(tmp_path, SIZE).add(judged(recipe, script, games))
    folded = Replay(tmp_path, SIZE).by_number(games)[0]
    flat = folded.tree_positions_as_games()
    assert len(flat) == len(folded) == len(script.asked)

    lengths = set()
    for number in range(games, len(flat.games)):  # those of lines
        moves, game = moves_of(flat.games, number), Game(recipe.rules)
        for move in moves[:-1]:
            game.play(move)
        row = int(np.searchsorted(flat.places, flat.games.starts[number]))
        assert flat.places[row] == flat.games.starts[number + 1] - 1
        assert flat.win_rates[row] == pytest.approx(0.3 + len(game.moves) / 1000)
        batch = encode_searches(flat, ENCODER, np.array([row]), np.zeros(1, np.int64))
        assert np.array_equal(batch.planes[0], encode_game(ENCODER, game).reshape(batch.planes[0].shape))
        assert batch.results[0] == NO_RESULT
    lengths = {int((line != NO_MOVE).sum()) for line in folded.lines}
    assert len(flat.games) > games + 100 and len(lengths) > 2  # some are deeper in the tree

    none = replace(folded, lines=np.full_like(folded.lines, -1)).tree_positions_as_games()  # searches, but no lines
    assert np.array_equal(none.places, folded.places) and none.places.dtype == np.int64
    split = split_searches(folded, [], [SplitRule(validation=0.2, test=0.3, played=True)])
    assert all(len(part.games) for part in split)
    assert sum(len(part.tree_positions_as_games()) for part in split) == len(flat)

    def rows(some: SearchedGames) -> set[tuple[object, ...]]:
        """The game, ply and line of each judged position."""
        owners = np.searchsorted(some.games.starts, some.places, side="right") - 1
        plies = some.places - some.games.starts[owners]
        found = zip(owners.tolist(), plies.tolist(), some.lines, strict=True)
        return {(*moves_of(some.games, game), ply, line.tobytes()) for game, ply, line in found}

    assert rows(folded) == set.union(*map(rows, split)) and len(rows(folded)) == len(folded)


def test_games_that_were_stopped_go_on_and_are_the_same(
    tiny: Config, recipe: TeacherGames, searched: SearchedGames, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the minutes are over no game is begun, but those that are end; nor does another sitting play more: seconds
    in which no game ended weren't counted."""
    monkeypatch.setattr(replay, "CHUNK_SECONDS", 0.01)
    seen: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        play(replace(tiny, games=500), recipe, tmp_path, lambda _: signal.raise_signal(signal.SIGTERM))
    assert (tmp_path / "training" / "tiny" / SETTINGS_FILE).is_file()  # what --resume reads
    folder = recipe.folder(tmp_path / "cache")
    assert 0 < Replay(folder, SIZE).games < 500
    assert same(play(replace(tiny, num_workers=2, parallel_games=3), recipe, tmp_path, seen.append), searched)
    spent, before = Replay(folder, SIZE).seconds / 60, len(seen)
    timed = replace(tiny, games=50_000, play_minutes=spent + 0.04)
    more = len(play(timed, recipe, tmp_path, seen.append).games)
    assert 16 <= more < 50_000 and len(seen) > before
    before = len(seen)
    assert len(play(timed, recipe, tmp_path, seen.append).games) == more and len(seen) == before


# --- The loss ---


def taught(results: Sequence[int], win_rates: Sequence[float], shares: torch.Tensor) -> Target:
    rows = len(results)
    moves, scores = shares.argmax(1), torch.full((rows,), math.nan)
    return Target(moves, torch.tensor(results), torch.zeros(rows, POINTS), scores, shares, torch.tensor(win_rates))


def test_the_policy_is_drawn_to_the_shares_of_the_visits_and_the_value_between_result_and_win_rate() -> None:
    """Draws are left to results."""
    told = torch.tensor([[0.7, 0.3, 0.0], [0.0, 0.25, 0.75]])
    best, target = (told + 1e-12).log(), taught([WIN, LOSS], [0.5, 0.5], told)
    found, wrong = (search_loss(Outputs(logits, torch.zeros(2, 3)), target, 0.5) for logits in (best, best.flip(1)))
    entropy = float(-torch.xlogy(told, told).sum(1).mean())
    assert float(found.policy) == pytest.approx(entropy, abs=1e-4) and found.right == 1
    assert float(wrong.policy) > entropy + 1
    shares, policy = torch.ones(1, 2) / 2, torch.zeros(1, 2)

    def slope(odds: Sequence[float], result: int, rate: float, outcome_share: float) -> torch.Tensor:
        """How the loss would move the logits of win, draw and loss; (3,)."""
        logits = torch.tensor([odds]).log().requires_grad_()
        told = taught([result], [rate], shares)
        search_loss(Outputs(policy, logits), told, outcome_share).value.backward()
        assert logits.grad is not None
        return -logits.grad[0]

    odds = (0.6, 0.2, 0.2)  # which expect 0.7
    assert torch.allclose(slope(odds, LOSS, 0.7, 0.0), torch.zeros(3), atol=1e-3)
    assert (slope(odds, LOSS, 0.9, 0.0)[[WIN, LOSS]] * torch.tensor([1, -1]) > 0).all()
    assert slope(odds, DRAW, 0.7, 1.0)[DRAW] > 0
    by_result, by_rate = slope(odds, WIN, 0.1, 1.0), slope(odds, WIN, 0.1, 0.0)
    assert torch.allclose(slope(odds, WIN, 0.1, 0.25), 0.25 * by_result + 0.75 * by_rate, atol=1e-6)
    assert torch.allclose(slope(odds, WIN, math.nan, 0.25), by_result)  # what alone is known counts in full
    assert torch.allclose(slope(odds, NO_RESULT, 0.1, 0.25), by_rate)
    assert not slope(odds, NO_RESULT, math.nan, 0.25).any()


class Knowing(nn.Module):
    """A net that knows the batches that it is asked about; its value may be the reverse."""

    def __init__(self, batches: Sequence[Batch], reverse: bool = False):
        super().__init__()
        self.unused, self._batches, self._reverse = nn.Parameter(torch.zeros(1)), iter(batches), reverse

    def forward(self, planes: torch.Tensor) -> Outputs:
        batch = next(self._batches)
        value = 50.0 * functional.one_hot(torch.from_numpy(batch.results).clamp(min=0), 3).float()
        return Outputs((torch.from_numpy(batch.shares) + 1e-9).log(), value.flip(1) if self._reverse else value)


def test_a_sure_net_has_the_errors_that_it_should_have(searched: SearchedGames) -> None:
    batches: Any = list(in_order(searched, ENCODER, batch=64))
    found, reverse = (metrics.of_rows(Knowing(batches, wrong), batches, "test") for wrong in (False, True))  # type: ignore[arg-type]  # all that is asked of a net
    best = searched.levels == searched.levels.max(1, keepdims=True)  # moves with as many visits share the place
    assert found["test_positions"] == len(searched) and found["test_top1"] == pytest.approx((1 / best.sum(1)).mean())
    assert found["test_value_mse"] < 1e-9
    assert found["test_policy_loss"] == pytest.approx(found["test_policy_floor"], abs=1e-3)
    assert found["test_win_rate_mse"] == pytest.approx(found["test_teacher_mse"]) and found["test_teacher_mse"] > 0
    assert reverse["test_value_mse"] == pytest.approx(4)


# --- Training ---


def test_the_net_comes_nearer_to_its_teacher_and_can_be_played(
    tiny: Config, searched: SearchedGames, results: Path, unexported: None
) -> None:
    config = replace(tiny, name="learned", max_rows=40 * 16, validate_every=400, ema_decay=0.9, learning_rate=0.03)
    seen: list[Progress] = []
    checkpoint = Checkpoint.open(distill.train(config, results, Registry(), seen.append))
    metrics = checkpoint.manifest.metrics
    assert seen[-1].rows == 40 * 16 and seen[-1].loss < seen[4].loss
    assert metrics["test_policy_floor"] < metrics["test_policy_loss"] < metrics["start_test_policy_loss"]
    assert {"validation_top1", "test_top1", "start_test_top1", "test_value_mse", "test_win_rate_mse"} <= metrics.keys()
    assert checkpoint.manifest.trainer == "distill" and "16 games of alphago:" in checkpoint.manifest.data
    policy, win_rates = Evaluator(checkpoint).evaluate(sample_planes(ENCODER, SIZE))
    assert np.isfinite(policy).all() and ((win_rates > 0) & (win_rates < 1)).all()


def test_games_of_earlier_rounds_are_learned_from_but_test_nothing(
    tiny: Config, results: Path, searched: SearchedGames, tmp_path: Path, unexported: None
) -> None:
    """Held-out games share nothing with the others. Earlier games that the rules hold out were once learned from: a
    net that starts from this one, and has these games for its own, would be tested on them."""
    before = replace(tiny, name="before", seed=5, games=8)
    play(before, TeacherGames.of(before, Registry(), Path()), tmp_path)
    (folder,) = (tmp_path / "cache").iterdir()
    rules, more = (SplitRule.of_played(tiny),), [Replay(folder, SIZE).searched, searched]  # the second adds nothing
    alone, both = (distill.split_searches(searched, earlier, rules) for earlier in ((), more))
    games = [[np.array(moves_of(part.games, number)) for number in range(len(part.games))] for part in alone]
    keys = [{data.canonical_key(moves, SIZE) for moves in part} for part in games]
    assert sum(map(len, keys)) == len(set.union(*keys)) == len(searched.games) and all(keys)
    assert sum(map(len, alone)) == len(searched)
    assert same(alone[2], both[2]) and same(alone[1], both[1])
    kept = int((data.parts_of(more[0].games, rules) == data.TRAIN).sum())
    assert 0 < kept < 8 and len(both[0].games) == len(alone[0].games) + kept
    config = replace(tiny, name="both", earlier=(str(folder), str(folder)))
    checkpoint = Checkpoint.open(distill.train(config, results, Registry()))
    assert checkpoint.manifest.settings["earlier"] == [folder.name] * 2
    assert f"{16 + kept} games of alphago" in checkpoint.manifest.data and "earlier" in checkpoint.manifest.data
    with pytest.raises(ConfigError, match="of another size"):
        distill.train(replace(config, size=6, earlier=(str(folder),)), results, Registry())
