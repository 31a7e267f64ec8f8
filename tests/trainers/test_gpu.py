"""Training on a GPU: on a pretended one everywhere, and on a real one where there is one. Each in a process of its own,
as torch knows its devices when it first learns."""

import math
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import replace
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.fake_device import COUNTS, KIND, install
from helpers.games import random_game

from arena.go.sgf import write_sgf
from arena.players.registry import Registry
from bots.nets.catalogue import load_network, named_network
from bots.nets.checkpoint import Checkpoint
from trainers import export, losses, processes, train
from trainers.ratings import RatingMatch, SelfPlayProgress, read_ratings
from trainers.settings import RL, SL, Distill, Loop, Ownership, Value, Zero

SIZE = 7

pytestmark = pytest.mark.xdist_group("gpu")

REAL = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"))


def take(kind: str) -> None:
    """Have this process's trainers take devices of this kind for GPUs."""
    processes.GPU = kind
    if kind == KIND:
        install()
        torch.Tensor.pin_memory = torch.Tensor.clone  # type: ignore[method-assign,assignment]  # it has no hosts' memory
        torch.__future__.set_overwrite_module_params_on_conversion(True)


@pytest.fixture(scope="module", params=[KIND, REAL])
def gpu(request: pytest.FixtureRequest) -> Iterator[tuple[str, Executor]]:
    """A kind of device, and a process that has it for its GPU."""
    with ProcessPoolExecutor(1, get_context("spawn"), take, (request.param,)) as process:
        yield request.param, process


@pytest.fixture(scope="module")
def given(net: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with game records and a net."""
    folder = tmp_path_factory.mktemp("given")
    shutil.copytree(net, folder / "net")
    games = [write_sgf(random_game(seed, "2017-05-01")) for seed in range(20)]
    (folder / "random.sgfs").write_text("\n".join(games))
    return folder


def config_of(name: str, given: Path) -> Loop:
    """Settings of a trainer with which it takes seconds."""
    net = str(given / "net")
    rows: dict[str, Any] = {"size": SIZE, "net": "arena-1x8", "batch_size": 16, "max_rows": 64, "validate_every": 32}
    records: dict[str, Any] = {"data": (str(given / "random.sgfs"),), "validation_split": 0.2}
    short: dict[str, Any] = {"max_minutes": None, "eval_opponents": ()}
    teacher = {"teacher": f"alphago:checkpoint={net},visits=8"}
    played: dict[str, Any] = {"visits": 4, "cheap_search_visits": 2, "parallel_games": 12, "max_games": 12}
    learned: dict[str, Any] = {"gae_lambda": 0.9, "optimizer": "muon", "max_iterations": 2}
    configs: dict[str, Loop] = {
        "sl": SL(**rows, **records),
        "ownership": Ownership(**rows | {"net": "gocnn-2x8"}, **records),
        "value": Value(**rows, start=net, policy=net, games=60, test_split=0.3, parallel_games=24),
        "distill": Distill(**rows, **teacher, start=net, games=24, parallel_games=24, test_split=0.2),
        "zero": Zero(size=5, net="arena-1x8", batch_size=16, **played, **short),
        "rl": RL(start=net, size=SIZE, games=4, eval_games=2, pool_every=1, **learned, **short),
    }
    return configs[name]


def learned(name: str, bf16: bool, given: Path, results: Path, device: str) -> dict[str, torch.Tensor]:
    """The weights of a run in two halves. Only what ``sl`` learned on a GPU is exported: that takes longest."""
    config = replace(config_of(name, given), name=device, device=device, bf16=bf16, ema_decay=0.5)
    trained = import_module(f"trainers.{name}").train
    more = [Registry()] if name in ("distill", "rl", "zero") else []
    exporting, export.write_models = export.write_models, lambda *_: {}
    end = {"rl": "max_iterations", "zero": "max_games"}.get(name, "max_rows")
    trained(replace(config, **{end: getattr(config, end) // 2}), results, *more)
    if (name, device) == ("sl", "cuda"):
        export.write_models = exporting
    weights = load_network(Checkpoint.open(trained(config, results, *more))).state_dict()
    export.write_models = exporting
    return weights


@pytest.mark.parametrize(
    ("name", "bf16"),
    [
        ("zero", False),
        *[pytest.param(name, False, marks=pytest.mark.slow) for name in ("sl", "ownership", "value", "distill", "rl")],
        pytest.param("value", True, marks=pytest.mark.slow),
    ],
)
def test_a_trainer_learns_on_a_gpu_and_goes_on_there(
    gpu: tuple[str, Executor], name: str, bf16: bool, given: Path, tmp_path: Path
) -> None:
    """The pretended device computes what the processor does. The games of ``zero`` go on while it learns, so that no
    two of its runs are alike."""
    kind, process = gpu
    there = process.submit(learned, name, bf16, given, tmp_path, "cuda").result()
    assert there.keys() and all(weights.isfinite().all() for weights in there.values())
    if kind == KIND and not bf16 and name != "zero":
        here = process.submit(learned, name, bf16, given, tmp_path, "cpu").result()
        for key, weights in here.items():
            torch.testing.assert_close(there[key], weights, atol=1e-4, rtol=1e-3)


def play_matches_beside(given: Path, results: Path) -> bool:
    """Whether a run learned on while a match was played."""
    begun, went_on = threading.Event(), threading.Event()

    def wait(match: RatingMatch, *_: object, **__: object) -> np.ndarray:
        begun.set()
        return np.full(match.games, 0.5 + 0.5 * went_on.wait(100))

    def watch(progress: SelfPlayProgress) -> None:
        if begun.wait(100) if progress.step == 2 else begun.is_set():
            went_on.set() if progress.step > 2 else None

    RatingMatch.play, play = wait, RatingMatch.play  # type: ignore[method-assign]
    exporting, export.write_models = export.write_models, lambda *_: {}
    config = replace(config_of("rl", given), name="beside", device="cuda", pool_every=2, max_iterations=4)
    import_module("trainers.rl").train(config, results, Registry(), watch)
    RatingMatch.play, export.write_models = play, exporting  # type: ignore[method-assign]
    return all(rating.share == 1 for rating in read_ratings(results / "training" / "beside", 4))


def test_a_gpu_learns_while_matches_are_played(gpu: tuple[str, Executor], given: Path, tmp_path: Path) -> None:
    """It waited for all of them, and they are played by one thread of the processor."""
    assert gpu[1].submit(play_matches_beside, given, tmp_path).result()


def count_a_step(folder: Path) -> tuple[int, int]:
    """The launches of the second step of a run once its gradients are there, and how often all of it waited."""
    train.READ_SECONDS = math.inf  # figures are read in between
    network = named_network("arena-10x128", 17, 9).to(torch.device(KIND, 0), memory_format=torch.channels_last)
    run = train.Run(network, SL("run", max_rows=10**6), folder)
    shapes = (((2,), torch.int64), ((2,), torch.int64), ((2, 81), torch.int8), ((2,), torch.float32))
    planes = torch.zeros(2, 17, 9, 9).to(run.device)
    target = losses.Target(*(torch.zeros(shape, dtype=kind).to(run.device) for shape, kind in shapes))
    COUNTS.clear()
    for _ in range(2):
        parts = losses.loss(network(planes), target)
        run.zero_grad()
        parts.total(SL()).backward()
        before = COUNTS["launches"]
        run.update(2, {"loss": parts.policy, **parts.figures()})
    return COUNTS["launches"] - before, COUNTS["waits"]


def test_a_step_waits_for_nothing_and_launches_little(gpu: tuple[str, Executor], tmp_path: Path) -> None:
    """Of a net of 10 blocks, whose optimizers and averages took 2,520 launches one matrix at a time."""
    kind, process = gpu
    if kind != KIND:
        pytest.skip("launches are counted on the pretended device")
    launches, waits = process.submit(count_a_step, tmp_path).result()
    assert not waits and launches < 250
