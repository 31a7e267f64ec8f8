"""Learning from one's own searches: the games, the nets that play while they learn, and what a run promises."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from lent_cores import CoresHere

from arena.contract.bot import Limits
from arena.go.game import Game, Rules
from arena.go.planes import find_encoder
from arena.players.registry import Registry
from arena.report.progress import ROUND, self_play_words
from bots.nets.catalogue import named_network
from bots.nets.checkpoint import Checkpoint
from bots.nets.inference import Model, OnnxModel, has_fast_int8, sample_planes
from bots.nets.int8 import PackedModel, is_supported
from bots.nets.network import Network, win_rates
from trainers import live_inference, zero
from trainers.bot_games import RatingMatch
from trainers.export import array, ranges_of
from trainers.live_inference import LiveEvaluator, evaluate_with
from trainers.progress import SelfPlayProgress
from trainers.replay import Replay
from trainers.selfplay import PlayedGame, Players, Shape
from trainers.settings import METRICS_FILE, ZERO_PRESETS, change
from trainers.settings import Zero as Config

SIZE = 5
ENCODER = find_encoder("arena-17")


# --- The games ---


def config_of(**changes: object) -> Config:
    return replace(ZERO_PRESETS["tiny"], visits=8, cheap_search_visits=4, **changes)  # type: ignore[arg-type]


def latest_of(config: Config, komi: float) -> zero.Latest:
    network = named_network("arena-2x16", ENCODER.planes, SIZE).eval()
    return zero.Latest(network, sample_planes(ENCODER, SIZE), config, SIZE, komi)


def play(
    config: Config, komi: float, rows: int, cores: CoresHere | None = None, komi_later: float | None = None
) -> list[PlayedGame]:
    """Games until they have so many rows, and then one with another mean komi."""
    latest, net = latest_of(config, komi), LiveEvaluator(ENCODER, torch.device("cpu"), bf16=False)
    if cores is None:
        net.take(latest.network, latest.planes)
        engine = partial(zero.play, latest.games(net, Shape(8)), lambda: latest, iter(range(100, 10_000)), 8)
    else:
        work = partial(zero.play_there, 6, ENCODER.name)
        engine = partial(cores.play, work, deque(range(10_000)), 48, sent=lambda: latest)
    with Players([engine]) as players:
        games = players.take(rows)
        if komi_later is not None:
            latest = latest_of(config, komi_later)
            while games[-1].komi != komi_later:
                games += players.take(1)
    return games


def test_games_have_a_komi_of_their_own_and_follow_the_rules() -> None:
    games = play(config_of(), 0.5, 200)
    assert len({game.komi for game in games}) > 4 and all(game.komi % 0.5 == 0 for game in games)
    assert len({game.number for game in games}) == len(games) and min(game.number for game in games) >= 100
    for game in games:
        referee = Game(Rules.preset("cgos", SIZE, game.komi, move_limit=2 * SIZE * SIZE + 38), seed=1)
        for move in game.moves.tolist():
            referee.play(move)
        assert referee.outcome is not None and referee.outcome.margin == game.margin


def test_a_game_may_begin_as_an_earlier_one_did_but_not_with_its_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zero, "FORK_GAME_PROB", 1.0)
    recipe, earlier = latest_of(config_of(), 0.5), np.array([7, 12, 25, 3, 25, 25], np.uint16)
    games = [recipe.begin(number, [earlier]) for number in range(50)]
    assert {new.opening for new in games} == {(), (7,), (7, 12)}
    assert all(new.drawn == len(new.opening) + 1 for new in games)
    assert recipe.begin(3, []) == recipe.begin(3, []) and recipe.begin(3, []).opening == ()


def test_cores_of_a_cluster_play_with_the_weights_that_were_sent_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zero, "SMALL_KOMI_STDEV", 0.0)
    cores = CoresHere()
    games = play(config_of(), 0.5, 40, cores, 7.0)
    assert games[0].komi == 0.5 and cores.asked[0] == list(range(48))
    assert len({game.number for game in games}) == len(games)


# --- Nets that play while they learn ---


def seeded_net(net: str, size: int) -> Network:
    torch.manual_seed(2)
    return named_network(net, ENCODER.planes, size).eval()


def answers(network: Network, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What torch says: logits and win rates."""
    with torch.no_grad():
        answer = network(torch.from_numpy(planes))
    return answer.policy.numpy(), win_rates(answer.value).numpy()


@pytest.mark.parametrize(("positions", "packs"), [(32, True), (32, False), (8, True)])
def test_a_live_net_plays_with_the_weights_that_it_was_given_last(
    positions: int, packs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In our own int8, in that of ONNX Runtime, and in fp32, where positions are too few to compare int8 by."""
    if not packs:
        monkeypatch.setattr(live_inference, "is_supported", lambda: False)
    network, live = seeded_net("arena-2x16", SIZE), LiveEvaluator(ENCODER, torch.device("cpu"), bf16=False)
    planes = np.concatenate([sample_planes(ENCODER, SIZE)] * 4)[:positions]
    for _ in range(2):
        with torch.no_grad():
            for parameter in network.parameters():
                parameter += 0.1 * torch.randn_like(parameter)
        live.take(network, planes)
        (logits, rates), (wanted, expected) = live.evaluate(planes), answers(network, planes)
        if live.is_int8:
            assert (logits - wanted).var() < 0.01 * wanted.var() and np.abs(rates - expected).mean() < 0.02
        else:
            assert logits == pytest.approx(wanted, abs=1e-4) and rates == pytest.approx(expected, abs=1e-5)


def test_a_live_net_whose_value_int8_gets_wrong_plays_in_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only its policy was compared."""
    network, live = seeded_net("arena-2x16", SIZE), LiveEvaluator(ENCODER, torch.device("cpu"), bf16=False)
    planes = np.concatenate([sample_planes(ENCODER, SIZE)] * 4)
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


@pytest.mark.skipif(not is_supported(), reason="the processor has no AVX-512 VNNI")
@pytest.mark.parametrize(("net", "size"), [("arena-1x48", 5), ("arena-2x32", 7)])
def test_a_packed_net_answers_as_torch_does_for_any_shape_and_size(net: str, size: int) -> None:
    network, planes = seeded_net(net, size), sample_planes(ENCODER, size)
    with torch.no_grad():
        for name, tensor in network.state_dict().items():
            if tensor.is_floating_point():
                tensor += 0.1 * torch.rand_like(tensor) * (1 if "var" in name else 2)
    numbers = {name: array(tensor) for name, tensor in network.state_dict().items()}
    model = PackedModel(numbers, ranges_of(network, planes))
    logits, _ = model.run(["policy", "value"], planes)
    alone = [model.run(["value", "policy"], planes[row : row + 1])[1][0] for row in range(len(planes))]
    assert (logits == np.stack(alone)).all()
    wanted, expected = answers(network, planes)
    assert (logits - wanted).var() < 0.003 * wanted.var()
    assert evaluate_with(model, planes)[1] == pytest.approx(expected, abs=0.03)


# --- Runs ---


TINY = {
    "max_games": 24,
    "parallel_games": 8,
    "num_workers": 1,
    "batch_size": 8,
    "visits": 8,
    "cheap_search_visits": 4,
    "eval_games": 2,
}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds of few games, and matches with few visits."""
    monkeypatch.setattr(zero, "ROUND_BATCHES", 4)
    monkeypatch.setattr(zero, "EVAL_VISITS", 4)


def test_a_run_ends_and_goes_on_and_its_net_plays(tmp_path: Path) -> None:
    config = change(ZERO_PRESETS["tiny"], TINY | {"name": "z"}, "test")
    rounds: list[SelfPlayProgress] = []
    results = tmp_path / "results"
    registry = Registry(results=results)
    folder = zero.train(config, results, registry, rounds.append)
    manifest = Checkpoint.open(folder).manifest
    games = manifest.metrics["games"]
    assert manifest.trainer == "zero" and games == 24 and manifest.rows > 0
    last = rounds[-1].figures
    assert last["games"] <= games and last["new_rows"] <= last["positions"]
    assert "learns" in self_play_words(ROUND)(rounds[-1])
    assert "share_against_random" in manifest.metrics
    steps = rounds[-1].step

    rounds.clear()
    further = change(config, {"max_games": int(games) + 10, "eval_opponents": []}, "test")
    zero.train(further, results, registry, rounds.append)
    assert rounds[0].figures["games"] > games and rounds[0].step >= steps
    bot = registry.resolve("alphago:checkpoint=z,search=gumbel,visits=4,rollout_weight=0").build()
    assert bot.choose(Game(Rules.preset("cgos", SIZE), seed=1), Limits()).visits


def test_a_curriculum_goes_through_its_sizes_and_is_resumed_within_it(tmp_path: Path) -> None:
    stages = zero.stages_of(replace(ZERO_PRESETS["tiny"], size=9, sizes="5:0.1,7:0.2,9"))
    assert stages == [(5, pytest.approx(0.1)), (7, pytest.approx(0.3)), (9, 1.0)]
    given = TINY | {"name": "z", "size": 6, "sizes": "5:0.5,6", "eval_opponents": [], "batch_size": 4}
    config, half = change(ZERO_PRESETS["tiny"], given, "test"), 12
    results, registry = tmp_path / "results", Registry(results=tmp_path / "results")
    zero.train(replace(config, max_games=20 * half), results, registry, lambda _: signal.raise_signal(signal.SIGTERM))
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


def test_minutes_count_before_there_is_anything_to_learn(tmp_path: Path) -> None:
    """They began with the first step, so a run that had none never ended."""
    never = {"name": "z", "max_games": None, "max_minutes": 0.02, "batch_size": 100_000, "eval_opponents": []}
    began = time.monotonic()
    folder = zero.train(change(ZERO_PRESETS["tiny"], TINY | never, "test"), tmp_path, Registry())
    manifest = Checkpoint.open(folder).manifest
    assert manifest.rows == 0 and manifest.metrics["games"] and time.monotonic() - began > 1.2


def test_the_net_goes_on_learning_while_matches_are_played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, went_on, steps = threading.Event(), threading.Event(), list[int]()

    def play(match: RatingMatch, *_: object) -> np.ndarray:
        begun.set()
        assert went_on.wait(60), "nothing was learned during a match"
        return np.ones(match.games)

    def watch(progress: SelfPlayProgress) -> None:
        if begun.is_set():
            steps.append(progress.step)
        if steps and steps[-1] > steps[0]:
            went_on.set()
        if progress.ratings:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(RatingMatch, "play", play)
    config = change(ZERO_PRESETS["tiny"], TINY | {"name": "z", "max_games": 100_000, "snapshot_minutes": 0.01}, "test")
    zero.train(config, tmp_path, Registry(), watch)
    assert went_on.is_set()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"max_games": None, "max_minutes": None}, "needs an end"),
        *(
            ({"sizes": sizes}, "give each size but the last its share")
            for sizes in ("5,x", "7,5", "5:0.5,7", "7:0.5,7:0.1,5", "7:1,5", "3:0.1,5")
        ),
        ({"eval_games": 3}, "eval_games = 3 can't be played in pairs"),
        ({"net": "gocnn-5x64"}, "choose arena-"),
        ({"start": "nowhere"}, "nowhere"),
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
def test_a_run_that_is_killed_again_and_again_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """No file of games is lost that was there before, and no step is made twice in the log."""
    words = [sys.executable, "-m", "arena", "train", "zero", "--preset", "tiny", "--name", "z"]
    words += ["--max-games", "100000", "--batch-size", "32", "--results", str(tmp_path)]
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
        with caplog.at_level(logging.WARNING):
            Replay(folder, SIZE, 20_000)
        assert not caplog.messages
        most = games
    assert most > 0
