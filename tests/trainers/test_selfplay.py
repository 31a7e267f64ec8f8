"""Games in slots: the referee replays them, slow twins tell the sensible moves and the games of a search."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from helpers.nets import odd_net
from helpers.reference import ReferenceGame
from helpers.selfplay import play, random_games, replayed

from arena import IllegalMove
from arena.contract.bot import Limits
from arena.go.coords import BLACK
from arena.go.game import Game, Rules
from arena.go.planes import encode_game, find_encoder
from arena.players.registry import Registry
from bots.alphago import Config as Search
from bots.search import puct
from bots.search.tree import params_of
from trainers import selfplay
from trainers.distill import TeacherGames
from trainers.games import DRAWN
from trainers.replay import make_chunk, searched_games
from trainers.selfplay import NewGame, Parallelism, PlayedGame, Players, SearchGames
from trainers.settings import Distill
from trainers.slots import SelfPlayParams, all_sensible, chances, sample_move, to_levels

SIZE = 5

pytestmark = pytest.mark.xdist_group("selfplay")  # one worker compiles the kernels of self-play, not all of them


class ScriptedNet:
    """Evaluates positions by a function, and remembers the planes that it was shown."""

    def __init__(self, answer: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]], encoder: str = "arena-17"):
        self.evaluate_planes, self.encoder, self.shown = answer, find_encoder(encoder), set[bytes]()

    def evaluate(self, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.shown.update(position.tobytes() for position in planes)
        return self.evaluate_planes(planes)


def constant(logits: np.ndarray, encoder: str) -> ScriptedNet:
    """A net with the same logits everywhere, to which all games are even."""
    row = logits.astype(np.float32)
    return ScriptedNet(lambda planes: (np.tile(row, (len(planes), 1)), np.full(len(planes), 0.5, np.float32)), encoder)


def the_first(numbers: np.ndarray, plies: np.ndarray) -> np.ndarray:
    return np.zeros(len(numbers), np.int64)


@pytest.mark.parametrize("rules", [Rules.preset("cgos", 5, 0.0), Rules.preset("cgos", 7, 2.5, 31)], ids=str)
def test_the_referee_and_the_slow_twin_agree_with_every_move_every_end_and_every_score(rules: Rules) -> None:
    """And with what could sensibly have been played, which is no pass while the board is lost."""
    size, fewer, passes = rules.size, 0, 0
    played = random_games(rules, 30, plies=0)
    games = searched_games(size, make_chunk(played, size)).games
    masks = iter(all_sensible(games))
    for number, game in enumerate(played):
        twin = ReferenceGame(size, superko=True, suicide=False)
        *_, (referee, _) = replayed(game, rules)
        for move in game.moves.tolist():
            mask = next(masks)
            if number < 4:
                expected = slow_mask(twin, rules.komi)
                assert np.array_equal(mask, expected)
                free = sum(divmod(point, size) not in twin.board.stones for point in range(size * size))
                fewer, passes = fewer + (int(expected[:-1].sum()) < free), passes + int(expected[-1])
                twin.play(move)
            assert mask[move]
        owners = np.array([0, 1, -1])[referee.board.owners()]
        assert np.array_equal(games.owners[number], owners)
        won = (referee.outcome and referee.outcome.winner) or DRAWN
        assert games.winners[number] == (int(won) if game.is_sound else 0)
    assert any(game.is_sound for game in played) == (rules.move_limit > 31)
    assert fewer > 10 and passes


def slow_mask(game: ReferenceGame, komi: float) -> np.ndarray:
    size = game.board.size
    mask = np.zeros(size * size + 1, np.bool_)
    for move in range(size * size):
        mask[move] = game.refusal(move) is None and not game.board.is_eye(divmod(move, size), game.colour)
    margin = game.board.area_margin() - komi
    is_lost = margin < 0 if game.colour == BLACK else margin > 0
    mask[-1] = not is_lost or not mask.any()
    return mask


def test_a_game_depends_on_its_seed_and_its_opening_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selfplay, "PIECE", 3)  # so that threads share the slots
    rules = Rules.preset("cgos", 7)
    played = random_games(rules, 40)
    for parallel in (Parallelism(3), Parallelism(40, 3, 2), Parallelism(7, 2, 3), Parallelism(2, 1, 5)):
        for one, other in zip(played, random_games(rules, 40, parallel=parallel), strict=True):
            assert np.array_equal(one.moves, other.moves) and one.margin == other.margin
    changed = random_games(rules, 40, seed=2)
    assert all(one.moves[2:].tolist() != other.moves[2:].tolist() for one, other in zip(changed, played, strict=True))


def test_moves_are_drawn_as_often_as_their_logits_and_the_temperature_say() -> None:
    rules = Rules.preset("cgos", 5, -1.0, move_limit=1)  # Black leads, so the pass is among the moves
    wishes = np.linspace(-2, 2, 26)
    played = play(rules, 20_000, [constant(wishes, "stones-1")], the_first, 5)
    expected = np.exp(wishes) / np.exp(wishes).sum()
    found = np.bincount([game.moves[0] for game in played], minlength=26) / 20_000
    assert np.abs(found - expected).max() < 4 * np.sqrt(expected.max() / 20_000)
    weights = np.array([0.0, 1.0, 4.0, 0.0, 3.0])
    assert sample_move(weights, 0.0, 0.99) == 2 and sample_move(weights, 1.0, 0.0) == 1
    shares = np.linspace(0, 1, 1000, endpoint=False)
    drawn = np.bincount([sample_move(weights, 0.5, share) for share in shares], minlength=5) / 1000
    assert drawn == pytest.approx(weights**2 / 26, abs=0.002)


def test_an_opening_is_given_and_one_that_cannot_be_is_refused() -> None:
    rules = Rules.preset("cgos", 5)
    first, second = play(rules, 2, openings=[(12, 7, 3), (25, 6)])
    assert first.moves[:3].tolist() == [12, 7, 3] and second.moves[:2].tolist() == [25, 6]
    for opening in ((12, 12), (25, 25), tuple(range(25)) * 3):
        with pytest.raises(IllegalMove, match="opening"):
            play(rules, 2, openings=[opening, opening])


def slowly_played(bot: Any, recipe: TeacherGames, number: int) -> PlayedGame:
    """A game of a search, one move after the other."""
    new = recipe.begin(number)
    game, found, decided = Game(recipe.rules, new.seed), list[tuple[int, np.ndarray, np.float32]](), 0
    for move in new.opening:
        game.play(move)
    while not game.is_over:
        chance, share = chances(game.move_seed())
        is_full = chance < recipe.config.full_search_prob * (0.25 if decided >= 5 else 1)
        visits = recipe.teacher.limits.simulations if is_full else recipe.config.cheap_search_visits
        (weights,), (rate,), *_ = bot.search_targets([game], Limits(simulations=visits))
        decided = decided + 1 if min(rate, 1 - rate) < 0.05 else 0
        if is_full:
            levels = np.empty(len(weights), np.uint16)
            to_levels(weights, levels)
            found.append((len(game.moves), levels, np.float32(rate)))
        early = len(game.moves) < recipe.config.temperature_moves
        game.play(int(sample_move(weights, recipe.config.temperature if early else 0.0, share)))
    plies, levels, rates = (np.array(column) for column in zip(*found, strict=True))
    moves = np.array(game.moves, np.uint16)
    return PlayedGame(number, moves, new.komi, game.margin(), game.is_passed_out, plies, levels, rates)


@pytest.mark.parametrize(
    "settings",
    ["visits=12,rollout_weight=0.5,rollouts_full=0", "visits=17,virtual_loss_batch=3,stop_early=false@simulations=9"],
)
def test_a_search_in_slots_plays_the_games_that_its_bot_plays(
    settings: str, net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the slots, the threads and the groups; the bot is the slow twin."""
    monkeypatch.setattr(selfplay, "PIECE", 2)
    teacher = f"alphago:checkpoint={net},max_tree_mb=1,{settings}"
    config = Distill(teacher=teacher, size=SIZE, komi=2.5, cheap_search_visits=4)
    recipe, numbers = TeacherGames.of(config, Registry(), tmp_path), range(20, 26)
    bot = recipe.teacher.build()
    expected = [slowly_played(bot, recipe, number) for number in numbers]
    for parallel in ((1, 1, 1), (6, 3, 2), (3, 2, 2)):
        over = recipe.search(Parallelism(*parallel)).play(map(recipe.begin, numbers))
        for fast, one in zip(sorted(over, key=lambda game: game.number), expected, strict=True):
            assert (fast.number, fast.margin, fast.is_sound) == (one.number, one.margin, one.is_sound)
            for name in ("moves", "plies", "levels", "win_rates"):
                told, wanted = getattr(fast, name), getattr(one, name)
                assert told.dtype == wanted.dtype and np.array_equal(told, wanted)


GUMBEL = params_of(Search(search="gumbel", stop_early=False), puct.PuctParams)
PARAMS = SelfPlayParams(13, 5, 0.5, first_pass=7)
LIMIT = 2 * SIZE * SIZE + 38


def odd(planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    logits, rates = odd_net(planes)
    logits[:, -1] = -1.0
    return logits / 8, rates


def play_gumbel(count: int, parallel: Parallelism, evaluate: Any = odd) -> list[PlayedGame]:
    """Games in the order of their numbers."""
    rules = Rules.preset("cgos", SIZE, move_limit=LIMIT)
    games = SearchGames(rules, ScriptedNet(evaluate), PARAMS, GUMBEL, parallel)
    new = (NewGame(number, number, number % 8 - 0.5, (), number % 4) for number in range(1, count + 1))
    with Players([partial(games.play, new)]) as players:
        played = players.take()
        assert players.are_done
    return sorted(played, key=lambda game: game.number)


def test_games_of_gumbel_searches_follow_the_rules_and_teach_legal_moves_whatever_the_shape(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(selfplay, "PIECE", 2)
    games = play_gumbel(20, Parallelism(6))
    for game in games:
        rules = Rules.preset("cgos", SIZE, game.komi, move_limit=LIMIT)
        found = dict(zip(game.plies, game.levels, strict=True))
        for ply, (referee, move) in enumerate(replayed(game, rules)):
            assert not (ply < PARAMS.first_pass and move == SIZE * SIZE)
            if ply in found:
                assert not (found[ply] > 0)[~referee.legal_moves()].any() and found[ply].max() == 255
        assert ((game.win_rates >= 0) & (game.win_rates <= 1)).all()
        assert not len(game.plies) or game.plies[0] >= game.number % 4  # the first moves are drawn from the policy
    assert any(game.is_sound for game in games) and sum(len(game.plies) for game in games) > 50
    for parallel in (Parallelism(1), Parallelism(9, 2), Parallelism(5, 1, 2)):
        for one, other in zip(games, play_gumbel(8, parallel), strict=False):
            assert np.array_equal(one.moves, other.moves) and np.array_equal(one.levels, other.levels)


@pytest.mark.parametrize("searches", [False, True])
def test_an_encoder_with_a_past_sees_in_self_play_what_it_sees_in_a_game(searches: bool) -> None:
    rules, net = Rules.preset("cgos", SIZE, move_limit=LIMIT), constant(np.array([0.0] * 25 + [-3]), "katago-22")
    if searches:
        new = (NewGame(number, number, 6.5) for number in range(6))
        played = list(SearchGames(rules, net, PARAMS, GUMBEL, Parallelism(4, 2, 2)).play(new))
    else:
        played = play(rules, 12, [net], the_first, parallel=Parallelism(5))
    superkos, known = 0, set[bytes]()
    for game in played:
        referee = Game(Rules.preset("cgos", SIZE, game.komi, move_limit=LIMIT))
        for move in game.moves.tolist():
            turned = [encode_game(net.encoder, referee, symmetry) for symmetry in range(8 if searches else 1)]
            assert any(planes.tobytes() in net.shown for planes in turned)
            known.update(planes.tobytes() for planes in turned)
            superkos += turned[0][6].sum() > (referee.board.ko_point is not None)
            referee.play(move)
    assert searches or (superkos and known == net.shown)


@pytest.mark.parametrize("parallel", [Parallelism(4), Parallelism(4, 2, 2)])
def test_what_a_net_raises_comes_through(parallel: Parallelism) -> None:
    def fail(planes: np.ndarray) -> NoReturn:
        raise MemoryError("no room for the net")

    with pytest.raises(MemoryError, match="no room"):
        play_gumbel(1, parallel, fail)
