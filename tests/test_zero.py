"""Learning from one's own searches: the games, their files, and what a run promises."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from io import StringIO
from itertools import count
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from lent_cores import CoresHere
from test_gumbel import odd_net

from arena import ConfigError
from arena.contract.bot import Limits
from arena.go.game import Game, Rules
from arena.go.planes import find_encoder
from arena.players.registry import Registry
from arena.report.progress import EloCurve, LookedAt
from arena.report.style import Console
from bots.alphago import Config as Search
from bots.nets import vnni
from bots.nets.catalogue import named_network
from bots.nets.checkpoint import Checkpoint
from bots.nets.inference import Model, OnnxModel, PackedModel, has_fast_int8, sample_planes
from bots.nets.packing import pack
from bots.search import puct
from bots.search.tree import params_of
from trainers import zero
from trainers.export import array, ranges_of
from trainers.far import FarPlayer, SentNet
from trainers.live import HeadsModel, LiveNet
from trainers.players import LEVELS, Chances, Played, Player, Players, Style, Table
from trainers.progress import Rating, Round, strengths
from trainers.replay import Replay, findings_of, stored_form, window
from trainers.settings import METRICS_FILE, ZERO_PRESETS, change
from trainers.teaching import from_levels

SIZE = 5
ENCODER = find_encoder("arena-17")
KNOWLEDGE = params_of(Search(search="gumbel", rollout_weight=0.0, stop_early=False), puct.PuctParams)
STYLE = Style(full_search_prob=0.5, visits=12, cheap_search_visits=4, first_pass=7, gumbel_scale=1.0)
LIMIT = 2 * SIZE * SIZE + 38


class Odd:
    """A net that knows nothing."""

    encoder = ENCODER

    def evaluate(self, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        logits, rates = odd_net(planes)
        logits[:, -1] = -1.0
        return logits / 8, rates


def player(slots: int = 6, style: Style = STYLE) -> Player:
    seeds = count(1)
    lock = threading.Lock()

    def begin() -> tuple[float, int, int]:
        with lock:
            seed = next(seeds)
        return seed % 8 - 0.5, seed, seed % 4

    return Player(Table(SIZE, LIMIT, style, KNOWLEDGE), begin, Odd(), slots)


@pytest.fixture(scope="module")
def played() -> list[Played]:
    with Players([player(), player()]) as players:
        games = players.take(400)
        pace = players.pace
    assert sum(len(game.plies) for game in games) >= 400
    assert pace.moves >= sum(len(game.moves) for game in games) and 0 < pace.net_seconds < pace.seconds
    return games


def test_games_follow_the_rules_and_end_as_the_referee_says(played: list[Played]) -> None:
    for game in played:
        referee = Game(Rules.preset("cgos", SIZE, game.komi, move_limit=LIMIT), seed=1)
        for ply, move in enumerate(game.moves.tolist()):
            assert not (ply < STYLE.first_pass and move == SIZE * SIZE)
            referee.play(move)
        assert referee.outcome is not None and referee.outcome.margin == game.margin
        assert referee.is_passed_out == game.is_sound
    assert any(game.is_sound for game in played)


class Failing(Odd):
    def evaluate(self, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        raise RuntimeError("no more")


def test_lent_cores_play_with_the_weights_that_were_sent_last() -> None:
    komi = 0.5
    network, planes = named_network("arena-1x16", ENCODER.planes, SIZE).eval(), sample_planes(ENCODER, SIZE)
    net = SentNet(lambda: Chances(komi, 0.0, SIZE**2, 0.5, 3))
    net.take(network, planes)
    table = Table(SIZE, LIMIT, STYLE, KNOWLEDGE)
    cores = CoresHere()
    with Players([FarPlayer(cores, table, net, ENCODER, 6)]) as players:  # type: ignore[arg-type]  # what is asked of it
        games = players.take(60)
        assert {game.komi for game in games} == {0.5}
        komi = 7.0
        net.take(network, planes)
        while games[-1].komi != 7.0:
            games += players.take(1)
        assert players.pace.moves >= sum(len(game.moves) for game in games)
    assert cores.asked == [[0]] and len({game.moves.tobytes() for game in games}) == len(games)


def test_what_goes_wrong_in_a_player_is_raised_where_its_games_are_taken() -> None:
    table = Table(SIZE, LIMIT, STYLE, KNOWLEDGE)
    with (
        pytest.raises(RuntimeError, match="no more"),
        Players([Player(table, lambda: (0.5, 1, 0), Failing(), 2)]) as players,
    ):
        players.take(1)


def test_about_as_many_moves_are_searched_in_full_as_was_asked(played: list[Played]) -> None:
    moves, rows = sum(len(game.moves) for game in played), sum(len(game.plies) for game in played)
    assert 0.25 < rows / moves < 0.6  # less than half: the first moves are drawn, and forced ones aren't searched
    for game in played:
        assert (game.levels.max(1, initial=0) == LEVELS).all()
        assert ((game.win_rates >= 0) & (game.win_rates <= 1)).all()


def test_the_policy_to_learn_is_of_legal_moves(played: list[Played]) -> None:
    for game in played[:10]:
        referee, at = Game(Rules.preset("cgos", SIZE, game.komi, move_limit=LIMIT), seed=1), 0
        for ply, move in enumerate(game.moves.tolist()):
            if at < len(game.plies) and game.plies[at] == ply:
                assert not (game.levels[at] > 0)[~referee.legal_moves()].any()
                at += 1
            referee.play(move)


def test_forked_games_begin_as_an_earlier_one_and_follow_the_rules() -> None:
    with Players([player(style=STYLE._replace(fork_game_prob=1.0))]) as players:
        games = players.take(300)
    begun: set[bytes] = set()
    forked = 0
    for game in games:
        referee = Game(Rules.preset("cgos", SIZE, game.komi, move_limit=LIMIT), seed=1)
        for move in game.moves.tolist():
            referee.play(move)
        assert referee.outcome is not None and referee.outcome.margin == game.margin
        forked += game.moves[:3].tobytes() in begun and bool(len(game.plies)) and game.plies[0] > 3
        begun.add(game.moves[:3].tobytes())
    assert forked > 0.2 * len(games)


def test_a_position_under_way_can_be_looked_at_any_time() -> None:
    with Players([player()]) as players:
        looks = []
        for _ in range(20):
            players.take(10)
            looks.append(players.look())
    seen = [look for look in looks if look is not None]
    assert seen and all(look.shares.sum() == pytest.approx(1) and 0 <= look.win_rate <= 1 for look in seen)
    show = StringIO()
    Console(file=show, width=60).print(LookedAt(seen[-1]))
    assert "to move" in show.getvalue() and len(show.getvalue().splitlines()) > SIZE


def test_files_of_games_are_read_as_they_were_written(played: list[Played], tmp_path: Path) -> None:
    replay = Replay(tmp_path, SIZE, 10_000)
    for part in (played[:5], played[5:20], played[20:]):
        replay.add(part)
    again = Replay(tmp_path, SIZE, 10_000)
    assert (again.rows, again.games, again.positions) == (replay.rows, replay.games, replay.positions)
    assert again.games == len(played)
    for one, other in ((replay.findings, again.findings),):
        assert (one.places == other.places).all() and (one.levels == other.levels).all()
        assert (one.games.moves == other.games.moves).all() and (one.games.owners == other.games.owners).all()
    found, row = again.findings, 0
    for number, game in enumerate(played):
        margin = found.games.owners[number].sum() - found.games.komis[number]
        assert margin == game.margin
        for ply, levels in zip(game.plies, game.levels, strict=True):
            assert found.places[row] == found.games.starts[number] + ply
            assert from_levels(found.levels[row]) == pytest.approx(levels / levels.sum())
            row += 1
    rows = again.batch([1], 32, ENCODER)
    assert (rows.planes == again.batch([1], 32, ENCODER).planes).all() and rows.shares.sum(1) == pytest.approx(1)
    size = sum(path.stat().st_size for path in tmp_path.glob("*.npz"))
    assert size / again.positions < 40


def test_damaged_files_are_skipped_and_other_sizes_refused(
    played: list[Played], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    replay = Replay(tmp_path, SIZE, 10_000)
    for part in (played[:5], played[5:10], played[10:15], played[15:20]):
        replay.add(part)
    first, second, third, _ = sorted(tmp_path.glob("*.npz"))
    first.write_bytes(b"")
    second.write_bytes(second.read_bytes()[:-200])
    content = bytearray(third.read_bytes())
    content[len(content) // 2] ^= 0xFF
    third.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        again = Replay(tmp_path, SIZE, 10_000)
    assert again.damaged == [first.name, second.name, third.name] and len(caplog.messages) == 3
    assert again.games == 20 and len(again.findings.games) == 5
    with pytest.raises(ConfigError, match="another name"):
        Replay(tmp_path, 7, 10_000)


def test_the_window_grows_as_in_katago_and_older_files_go(played: list[Played], tmp_path: Path) -> None:
    assert window(200, 250) == 200 and window(250, 250) == 250
    assert window(1_000_000, 250_000) == int(250_000 * (1 + 0.4 * (4**0.75 - 1) / 0.75))
    replay = Replay(tmp_path, SIZE, 50)
    for begin in range(0, 40, 4):
        replay.add(played[begin : begin + 4])
    kept = len(replay.findings)
    assert window(replay.rows, 50) <= kept < replay.rows
    assert len(list(tmp_path.glob("*.npz"))) < 10
    again = Replay(tmp_path, SIZE, 50)
    assert len(again.findings) == kept and again.rows == replay.rows


def test_no_games_make_an_empty_file() -> None:
    assert len(findings_of(SIZE, stored_form([], SIZE))) == 0


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("int8", [True, False])
def test_a_live_net_plays_with_the_weights_that_it_was_given_last(int8: bool, packed: bool) -> None:
    torch.manual_seed(1)
    network = named_network("arena-2x16", ENCODER.planes, SIZE).eval()
    live = LiveNet(ENCODER, torch.device("cpu"), bf16=False, int8=int8, packed=packed)
    planes = np.concatenate([sample_planes(ENCODER, SIZE)] * 4)
    for _ in range(2):
        with torch.no_grad():
            for parameter in network.parameters():
                parameter += 0.1 * torch.randn_like(parameter)
            answer = network(torch.from_numpy(planes))
        live.take(network, planes)
        logits, rates = live.evaluate(planes)
        odds = answer.value.softmax(1).numpy()
        wanted = answer.policy.numpy()
        if live.is_int8:
            assert (logits - wanted).var() < 0.01 * wanted.var()
            assert np.abs(rates - odds[:, 0] - odds[:, 1] / 2).mean() < 0.02
        else:
            assert logits == pytest.approx(wanted, abs=1e-4)
            assert rates == pytest.approx(odds[:, 0] + odds[:, 1] / 2, abs=1e-5)


def test_a_live_net_whose_value_int8_gets_wrong_plays_in_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only its policy was compared."""
    torch.manual_seed(1)
    network = named_network("arena-2x16", ENCODER.planes, SIZE).eval()
    planes = np.concatenate([sample_planes(ENCODER, SIZE)] * 4)
    live = LiveNet(ENCODER, torch.device("cpu"), bf16=False)
    live.take(network, planes)
    assert live.is_int8 or not has_fast_int8()
    for model in (PackedModel, OnnxModel):
        run = model.run

        def wrong(self: Model, asked: Sequence[str], planes: np.ndarray, run: Callable = run) -> list[np.ndarray]:
            policy, value = run(self, asked, planes)
            return [policy, value + np.float32([3, 0, 0])]

        monkeypatch.setattr(model, "run", wrong)
    live.take(network, planes)
    assert not live.is_int8


@pytest.mark.skipif(not vnni.is_supported(), reason="the processor has no AVX-512 VNNI")
@pytest.mark.parametrize(("net", "size"), [("arena-1x48", 5), ("arena-3x32", 7), ("arena-2x64", 9)])
def test_a_packed_net_answers_as_torch_does_for_any_shape_and_size(net: str, size: int) -> None:
    torch.manual_seed(2)
    network = named_network(net, ENCODER.planes, size).eval()
    with torch.no_grad():
        for name, tensor in network.state_dict().items():
            if tensor.is_floating_point():
                tensor += 0.1 * torch.rand_like(tensor) * (1 if "var" in name else 2)
    planes = sample_planes(ENCODER, size)
    numbers = {name: array(tensor) for name, tensor in network.state_dict().items()}
    model = PackedModel(pack(numbers, ranges_of(network, planes)))
    logits, values = model.run(["policy", "value"], planes)
    alone = [model.run(["value", "policy"], planes[row : row + 1])[1][0] for row in range(len(planes))]
    assert (logits == np.stack(alone)).all()
    rates = HeadsModel(model).evaluate(planes)[1]
    with torch.no_grad():
        answer = network(torch.from_numpy(planes))
    wanted, odds = answer.policy.numpy(), answer.value.softmax(1).numpy()
    assert (logits - wanted).var() < 0.003 * wanted.var()
    assert values == pytest.approx(answer.value.numpy(), rel=0.03, abs=0.03)
    assert rates == pytest.approx(odds[:, 0] + odds[:, 1] / 2, abs=0.03)


TINY = {
    "max_games": 40,
    "parallel_games": 8,
    "game_threads": 1,
    "round_rows": 40,
    "batch_size": 16,
    "visits": 8,
    "cheap_search_visits": 4,
    "eval_games": 2,
    "eval_visits": 4,
}


def test_a_run_ends_and_goes_on_and_its_net_plays(tmp_path: Path) -> None:
    config = change(ZERO_PRESETS["tiny"], TINY | {"name": "z"}, "test")
    rounds: list[Round] = []
    results = tmp_path / "results"
    registry = Registry(results=results)
    folder = zero.train(config, results, registry, rounds.append)
    manifest = Checkpoint.open(folder).manifest
    games = manifest.metrics["games"]
    assert manifest.trainer == "zero" and games == 40 and manifest.rows > 0
    assert rounds[-1].games <= games and 0 < rounds[0].net_share < 1 and rounds[-1].rows <= rounds[-1].positions
    assert "share_against_random" in manifest.metrics
    steps = rounds[-1].step

    rounds.clear()
    further = change(config, {"max_games": int(games) + 20, "eval_opponents": []}, "test")
    zero.train(further, results, registry, rounds.append)
    assert rounds[0].games > games and rounds[0].step >= steps
    bot = registry.resolve("alphago:checkpoint=z,search=gumbel,visits=4,rollout_weight=0").build()
    assert bot.choose(Game(Rules.preset("cgos", SIZE), seed=1), Limits()).visits


def test_a_curriculum_goes_through_its_sizes_and_is_resumed_within_it(tmp_path: Path) -> None:
    assert zero.stages_of(replace(ZERO_PRESETS["tiny"], size=9, sizes="5:0.1,7:0.2,9")) == [
        (5, pytest.approx(0.1)),
        (7, pytest.approx(0.3)),
        (9, pytest.approx(1.0)),
    ]
    config = change(ZERO_PRESETS["tiny"], TINY | {"name": "z", "size": 6, "sizes": "5,6", "eval_opponents": []}, "test")
    results, registry, half = tmp_path / "results", Registry(results=tmp_path / "results"), config.max_games or 0
    zero.train(replace(config, max_games=20 * half), results, registry, stop_after(1))
    small, large = (Replay(results / "training" / "z" / name, size, 10_000) for name, size in FOLDERS)
    assert small.games and not large.games
    zero.train(replace(config, max_games=6 * half), results, registry)
    again, large = (Replay(results / "training" / "z" / name, size, 10_000) for name, size in FOLDERS)
    assert small.games <= again.games == 3 * half and large.games == 3 * half and large.rows
    metrics = [json.loads(line) for line in (results / "training" / "z" / METRICS_FILE).read_text().splitlines()]
    assert [line["size"] for line in metrics] == sorted(line["size"] for line in metrics)
    assert {line["size"] for line in metrics} == {5, 6}
    assert Checkpoint.open(results / "checkpoints" / "z").manifest.size == 6


FOLDERS = (("games-5x5", 5), ("games", 6))


def stop_after(rounds: int) -> Callable[[Round], None]:
    """A callback that sends this process SIGTERM in the given round."""
    told: list[Round] = []

    def stop(progress: Round) -> None:
        told.append(progress)
        if len(told) == rounds:
            signal.raise_signal(signal.SIGTERM)

    return stop


def test_the_net_goes_on_learning_while_matches_are_played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, went_on, steps = threading.Event(), threading.Event(), list[int]()

    def spar(*_: object) -> np.ndarray:
        begun.set()
        assert went_on.wait(60), "nothing was learned during a match"
        return np.ones(2)

    def watch(progress: Round) -> None:
        if begun.is_set():
            steps.append(progress.step)
        if steps and steps[-1] > steps[0]:
            went_on.set()
        if progress.ratings:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(zero, "spar", spar)
    config = change(ZERO_PRESETS["tiny"], TINY | {"name": "z", "max_games": 100_000, "snapshot_minutes": 0.01}, "test")
    zero.train(config, tmp_path, Registry(), watch)
    assert went_on.is_set()


def test_elo_is_fitted_to_all_matches_and_drawn() -> None:
    def match(step: int, against: str, points: list[float]) -> Rating:
        return Rating.of(step, against, np.array(points))

    ratings = (
        match(10, "random", [1, 0.5, 0, 1]),
        match(10, "mcts", [0, 0, 0, 0]),
        match(20, "random", [1, 1, 0.5, 1]),
        match(20, "mcts", [1, 0, 0.5, 0]),
    )
    curve = strengths(ratings)
    assert list(curve) == [10, 20]
    values = [elo.value for elo in curve.values()]
    assert values[0] is not None and values[1] is not None and values[1] > values[0] + 100
    show = StringIO()
    Console(file=show, width=70).print(EloCurve(ratings))
    assert "20 steps" in show.getvalue() and "0 is random" in show.getvalue() and "against mcts" in show.getvalue()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"max_games": None, "max_minutes": None}, "needs an end"),
        ({"eval_games": 3}, "even number"),
        ({"sizes": "5,x"}, "not a list of sizes"),
        ({"sizes": "5,7"}, "must be the board size 5"),
        ({"sizes": "7:0.5,7,5"}, "each size once"),
        ({"sizes": "21,5"}, "each size once"),
        ({"sizes": "7:1,5"}, "with a sum of 1"),
        ({"sizes": "7:0.3,5:0.3"}, "with a sum of 1"),
        ({"net": "gocnn-5x64"}, "choose arena-"),
        ({"start": "nowhere"}, "nowhere"),
        ({"start": "rollout-9x9"}, "rollout policy"),
        ({"start": "sl-9x9"}, "sl-9x9"),
    ],
)
def test_settings_that_can_not_be_are_refused(given: dict[str, object], words: str, tmp_path: Path) -> None:
    config = change(ZERO_PRESETS["tiny"], {"name": "z"}, "test")
    config = replace(config, **given)  # type: ignore[arg-type]  # what is tried
    with pytest.raises(Exception, match=words):
        zero.check(config, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_run_that_is_killed_again_and_again_goes_on(tmp_path: Path) -> None:
    """No file of games is lost that was there before, and no step is made twice in the log."""
    words = [sys.executable, "-m", "arena", "train", "zero", "--preset", "tiny", "--name", "z"]
    words += ["--max-games", "100000", "--set", "round_rows=200", "--set", "save_minutes=0", "--results", str(tmp_path)]
    folder, most = tmp_path / "training" / "z" / "games", 0
    random = Random(20)
    for _ in range(20):
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(random.uniform(4, 12))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        games = max((int(path.stem.split("-")[1]) for path in folder.glob("*.npz")), default=0)
        assert games >= most
        assert not Replay(folder, SIZE, 20_000).damaged
        most = games
    assert most > 0
