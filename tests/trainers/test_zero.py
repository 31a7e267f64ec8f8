"""Learning from one's own searches: the games, the nets that play while they learn, and what a run promises."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from helpers.commandline import arena, refused, torchrun
from helpers.selfplay import replayed

from arena import ConfigError
from arena.contract.bot import Limits
from arena.go.game import Game, Rules
from arena.go.planes import find_encoder
from arena.go.sgf import read_sgf
from arena.players.registry import Registry
from arena.report.progress import ROUND, draw_ratings, self_play_words, strengths
from bots.nets.catalogue import named_network
from bots.nets.checkpoint import Checkpoint, has_own_kernel
from bots.nets.inference import Model, OnnxModel, has_fast_int8, sample_planes
from bots.nets.int8 import PackedModel
from bots.nets.network import Network, win_rates
from trainers import live_inference, zero
from trainers.cluster import Stage
from trainers.export import array, write_models
from trainers.live_inference import LiveEvaluator, evaluate_with
from trainers.ratings import Rating, RatingMatch, SelfPlayProgress, read_ratings
from trainers.replay import Replay
from trainers.selfplay import Parallelism, PlayedGame, Players
from trainers.settings import PRESETS
from trainers.settings import Zero as Config
from trainers.train import Run

SIZE = 5
ENCODER = find_encoder("arena-17")

pytestmark = pytest.mark.xdist_group("selfplay")  # one worker compiles the kernels of self-play, not all of them


def config_of(**changed: object) -> Config:
    usual = {"name": "z", "max_minutes": None, "max_games": 24, "parallel_games": 8, "num_workers": 1, "batch_size": 8}
    usual |= {"visits": 8, "cheap_search_visits": 4, "eval_games": 2, "device": "cpu", "net": "arena-1x16"}
    return replace(PRESETS["zero"]["tiny"], **usual | changed)  # type: ignore[arg-type]


def latest_of(config: Config, komi: float) -> zero.SelfPlayWeights:
    network = named_network("arena-1x16", ENCODER.planes, SIZE).eval()
    return zero.SelfPlayWeights(network, sample_planes(ENCODER, SIZE), config, komi)


def play(config: Config, komi: float, rows: int) -> list[PlayedGame]:
    """Games until they have so many rows."""
    latest, net = latest_of(config, komi), LiveEvaluator(ENCODER, torch.device("cpu"), bf16=False)
    net.take(latest.network, latest.planes)
    engine = partial(zero.play, latest.games(net, Parallelism(8)), lambda: latest, iter(range(100, 10_000)))
    with Players([engine]) as players:
        return players.take(rows)


def test_games_have_a_komi_of_their_own_by_which_they_are_counted() -> None:
    games = play(config_of(), 0.5, 200)
    assert len({game.komi for game in games}) > 4 and all(game.komi % 0.5 == 0 for game in games)
    for game in games:
        list(replayed(game, Rules.preset("cgos", SIZE, game.komi, move_limit=2 * SIZE * SIZE + 38)))


def test_a_game_may_begin_as_an_earlier_one_did_but_not_with_its_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zero, "FORK_GAME_PROB", 1.0)
    recipe, earlier = latest_of(config_of(), 0.5), np.array([7, 12, 25, 3, 25, 25], np.uint16)
    games = [recipe.begin(number, [earlier]) for number in range(50)]
    assert {new.opening for new in games} == {(), (7,), (7, 12)}
    assert all(new.drawn == len(new.opening) + 1 for new in games)
    assert recipe.begin(3, []) == recipe.begin(3, []) and recipe.begin(3, []).opening == ()


def test_a_core_of_a_cluster_plays_with_the_latest_weights_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zero, "SMALL_KOMI_STDEV", 0.0)
    stage = Stage()
    stage.update(1, latest_of(config_of(), 0.5))
    games = zero.play_there(6, ENCODER.name, range(10_000), stage)
    played = [next(games)]
    stage.update(3, latest_of(config_of(), 7.0))
    stage.update(2, latest_of(config_of(), 5.0))  # which was overtaken
    while played[-1].komi != 7.0:
        played.append(next(games))
    stage.is_over = True
    assert {game.komi for game in played} == {0.5, 7.0} and len(list(games)) <= 6
    assert len({game.number for game in played}) == len(played)


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
        monkeypatch.setattr(live_inference, "has_own_kernel", lambda: False)
    network, live = seeded_net("arena-1x16", SIZE), LiveEvaluator(ENCODER, torch.device("cpu"), bf16=False)
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
    network, live = seeded_net("arena-1x16", SIZE), LiveEvaluator(ENCODER, torch.device("cpu"), bf16=False)
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


@pytest.mark.skipif(not has_own_kernel(), reason="the processor has no AVX-512 VNNI")
@pytest.mark.parametrize(("net", "size"), [("arena-1x48", 5), ("arena-2x32", 7)])
def test_a_packed_net_answers_as_torch_does_for_any_shape_and_size(net: str, size: int) -> None:
    network, planes = seeded_net(net, size), sample_planes(ENCODER, size)
    with torch.no_grad():
        for name, tensor in network.state_dict().items():
            if tensor.is_floating_point():
                tensor += 0.1 * torch.rand_like(tensor) * (1 if "var" in name else 2)
    numbers = {name: array(tensor) for name, tensor in network.state_dict().items()}
    model = PackedModel(numbers, size)
    logits, _ = model.run(["policy", "value"], planes)
    alone = [model.run(["value", "policy"], planes[row : row + 1])[1][0] for row in range(len(planes))]
    assert (logits == np.stack(alone)).all()
    wanted, expected = answers(network, planes)
    assert (logits - wanted).var() < 0.003 * wanted.var()
    assert evaluate_with(model, planes)[1] == pytest.approx(expected, abs=0.03)


@pytest.fixture(autouse=True, scope="module")
def quick() -> Iterator[None]:
    """Rounds of few games, matches with few visits, and checkpoints without ONNX."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zero, "ROUND_BATCHES", 4)
        patch.setattr(zero, "EVAL_VISITS", 4)
        patch.setattr("trainers.export.write_models", lambda *_: {})
        yield


@pytest.fixture(scope="module")
def rounds(results: Path) -> list[SelfPlayProgress]:
    """The rounds of a run in ``results``, with a snapshot after each."""
    seen: list[SelfPlayProgress] = []
    zero.train(config_of(max_games=60, snapshot_minutes=1e-9), results, Registry(), seen.append)
    return seen


def test_games_of_a_run_are_written_as_sgf_files(results: Path, rounds: list[SelfPlayProgress], tmp_path: Path) -> None:
    replay = Replay(results / "training" / "z" / "games", SIZE)
    done = arena("games", "--training", "z", "--sgf", "written", "--results", str(results), folder=tmp_path)
    assert f"{len(replay.numbers)} games written to written." in done.stdout, done.stderr
    read = [read_sgf(path.read_bytes()) for path in sorted(tmp_path.rglob("*.sgf"))]
    margins = {}
    for chunk in replay.folder.glob("*.npz"):
        with np.load(chunk) as arrays:
            margins |= dict(zip(arrays["numbers"].tolist(), arrays["margins"].tolist(), strict=True))
    assert [record.outcome.margin for record in read] == [margins[number] for number in sorted(margins)]
    refused(arena("games", "--training", "none", "--sgf", "written", folder=tmp_path), "none has no games")


def test_a_run_ends_and_goes_on_and_its_net_plays(
    results: Path, rounds: list[SelfPlayProgress], monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = Registry(results=results)
    manifest = Checkpoint.open(results / "checkpoints" / "z").manifest
    assert manifest.trainer == "zero" and manifest.metrics["games"] == 60 and manifest.rows > 0
    assert "learns" in self_play_words(ROUND)(rounds[-1]) and "share_against_random" in manifest.metrics
    fills, rates = ([each.figures[name] for each in rounds] for name in ("batch_fill", "evaluations_per_second"))
    figures = rounds[-1].figures
    assert 0 < max(fills) <= 1 and max(rates) > 0 < figures["weights_seconds"]  # the last round may only wait
    assert 0 < figures["validation_policy_floor"] < figures["validation_policy_loss"]  # on games not learned from yet
    further: list[SelfPlayProgress] = []
    monkeypatch.setattr("trainers.export.write_models", write_models)
    zero.train(config_of(max_games=70, eval_opponents=(), learning_rate=0.001), results, registry, further.append)
    assert further[-1].figures["loss"] > 0  # a run may go on at another learning rate
    assert further[0].figures["games"] > 60 and further[0].step >= rounds[-1].step
    bot = registry.resolve("alphago:checkpoint=z,search=gumbel,visits=4").build()
    assert bot.choose(Game(Rules.preset("cgos", SIZE), seed=1), Limits()).visits


def test_a_run_that_learned_nothing_fails_and_keeps_its_games(tmp_path: Path) -> None:
    """It said "trained". Its minutes began with the first step, so that a run without one never ended."""
    config, began = config_of(max_games=None, max_minutes=0.02, batch_size=100_000, eval_opponents=()), time.monotonic()
    with pytest.raises(ConfigError, match=r"nothing was learned, as .* rows for batches of 100000; resume it"):
        zero.train(config, tmp_path, Registry())
    assert Replay(tmp_path / "training" / "z" / "games", SIZE).games and time.monotonic() - began > 1.2


def test_kernels_are_compiled_before_the_minutes_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They took all of the minute of ``--preset tiny`` on a new machine."""
    order, compile_kernels, count = list[str](), zero.compile_kernels, Run.count_minutes

    def noted(name: str, work: Callable[..., None], *given: object) -> None:
        order.append(name)
        work(*given)

    monkeypatch.setattr(zero, "compile_kernels", partial(noted, "compiled", compile_kernels))
    monkeypatch.setattr(Run, "count_minutes", lambda run: noted("counted", count, run))
    zero.train(config_of(max_games=4, eval_opponents=()), tmp_path, Registry())
    assert order[:2] == ["compiled", "counted"] and order.count("compiled") == 1


def test_a_net_plays_the_one_before_it_as_bots_are_soon_outgrown(results: Path, rounds: list[SelfPlayProgress]) -> None:
    """And the curve goes on where a bot loses every game."""
    ratings = read_ratings(results / "training" / "z", 10**6)
    own = [rating for rating in ratings if rating.step is not None]
    assert own and all(rating.against == f"step {rating.step}" and rating.step < rating.iteration for rating in own)
    assert len({rating.iteration for rating in ratings}) > 1
    lost = [Rating(10, "random", 20, 1.0, 0.9, 1.0), Rating(20, "random", 20, 1.0, 0.9, 1.0)]
    lost += [Rating(20, "step 10", 20, 0.8, 0.6, 0.9)]
    curve = strengths(tuple(lost))
    assert curve[20].value > curve[10].value + 100
    assert [line.plain for line in draw_ratings(lost, 80)][-1].startswith("step 20: 80.0% against step 10")


def test_the_net_goes_on_learning_while_matches_are_played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, went_on, steps = threading.Event(), threading.Event(), list[int]()

    def play(match: RatingMatch, *_: object) -> np.ndarray:
        begun.set()
        assert went_on.wait(300), "nothing was learned during a match"
        return np.ones(match.games)

    def watch(progress: SelfPlayProgress) -> None:
        if begun.is_set():
            steps.append(progress.step)
        if steps and steps[-1] > steps[0]:
            went_on.set()
        if progress.ratings:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(RatingMatch, "play", play)
    zero.train(config_of(max_games=100_000, snapshot_minutes=0.01), tmp_path, Registry(), watch)
    assert went_on.is_set()


@pytest.mark.slow
def test_a_run_that_is_killed_again_and_again_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """No file of games is lost that was there before."""
    words = [sys.executable, "-m", "arena", "train", "zero", "--preset", "tiny", "--name", "z"]
    words += ["--max-games", "100000", "--batch-size", "32", "--results", str(tmp_path)]
    folder, counts, random = tmp_path / "training" / "z" / "games", [0], Random(20)
    for _ in range(20):
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            time.sleep(random.uniform(4, 12))
            process.kill()
        counts.append(Replay(folder, SIZE, 20_000).games)
    assert not caplog.messages and counts == sorted(counts) and counts[-1] > 0


@pytest.mark.slow
def test_processes_of_torchrun_share_the_games_and_each_batch(tmp_path: Path) -> None:
    """The first one reports and saves, and a single process continues the run."""
    words = "zero --name z --preset tiny --device cpu --batch-size 8 --parallel-games 4 --visits 8"
    words += " --cheap-search-visits 4 --eval-opponents= --eval-games 2"
    assert torchrun(f"{words} --max-games 40", tmp_path).count("results/checkpoints/z") == 1
    folder = tmp_path / "results" / "training" / "z"
    assert sorted(Replay(folder / "games", SIZE).numbers) == [*range(40)]
    rounds = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    steps = [line["step"] for line in rounds]
    assert steps == sorted(set(steps)) and rounds[-1]["games"] == 40
    assert all(line["rows"] == 8 * line["step"] for line in rounds)
    arena("train", *words.split(), "--max-games", "60", folder=tmp_path)
    assert sorted(Replay(folder / "games", SIZE).numbers) == [*range(60)]
