"""Speed, each measurement taken in turn with what it is compared to: playouts, UCT, nets."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

from arena.contract.bot import Limits
from arena.go.board import Board
from arena.go.game import Game, Rules
from arena.go.planes import find_encoder
from bots import uct
from bots.nets.checkpoint import Checkpoint, find
from bots.nets.inference import Evaluator, OnnxModel, Precision, sample_planes
from bots.search.playouts import run_playouts

Rate = Callable[[int], float]
"""Measures once, with a seed; something a second."""


def interleaved(*measurements: Rate, rounds: int = 7) -> list[list[float]]:
    """Rates of each measurement over a number of rounds, taken in turn; each is warmed up first."""
    for measure in measurements:
        measure(0)
    rates = [[measure(1 + number) for measure in measurements] for number in range(rounds)]
    return [list(each) for each in zip(*rates, strict=True)]


def timed(work: Callable[[], float], clock: Callable[[], float] = perf_counter) -> float:
    """What ``work`` says it did, a second; with ``process_time`` as its clock, a second of the processor's."""
    start = clock()
    done = work()
    return done / (clock() - start)


def row(cells: Iterable[str]) -> None:
    """Print a row of a Markdown table."""
    print(f"| {' | '.join(cells)} |", flush=True)


def report(name: str, ours: Sequence[float], other: Sequence[float] | None = None, than: str = "") -> None:
    """Print the median of a rate, and the median of its ratios to what was measured in turn with it."""
    comparison = ""
    if other is not None:
        ratio = statistics.median(a / b for a, b in zip(ours, other, strict=True))
        comparison = f"{ratio:.3g} x {than} ({statistics.median(other):,.0f})"
    row((name, f"{statistics.median(ours):,.0f} /s", comparison))


def machine() -> str:
    """Where and with what it was measured, in one line."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
    packages = ", ".join(f"{package} {version(package)}" for package in ("numpy", "numba", "onnxruntime"))
    cores = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    return f"{date.today()}, {name}, {cores}, Python {platform.python_version()}, {packages}"


def playouts(share: float) -> None:
    """Playouts of mcts a second."""
    for size in (9, 13, 19):
        boards = np.repeat(Board(size).array, 2)
        count = max(1, int(share * 1_000_000 / size**3))
        margins = np.zeros(count, np.int16)

        def answering(seed: int, boards: Any = boards, count: int = count, margins: Any = margins) -> float:
            return timed(lambda: (run_playouts(boards, 1, count, seed, margins), count)[1])

        report(f"heuristic playouts {size}x{size}", *interleaved(answering))


def uct_simulations(share: float) -> None:
    """Simulations a second without RAVE and priors, and of mcts."""
    count = max(1, int(share * 40_000))

    plain = {"c_uct": 0.7, "rave": 0.0, "priors": 0.0, "policy": 0.0}
    for name, settings in (("UCT without RAVE and priors", plain), ("mcts simulations", {})):
        bot = uct.Uct(uct.Config(stop_early=False, **settings))

        def simulations(seed: int, bot: uct.Uct = bot) -> float:
            game = Game(Rules.preset(), seed=seed)
            return timed(lambda: (bot.choose(game, Limits(simulations=count)), count)[1])

        report(f"{name}, empty 9x9", *interleaved(simulations))


def nets(share: float, name: str = "distilled-9x9") -> None:
    """Evaluations a second with planes ready, beside ONNX Runtime on the same batch and one thread."""
    checkpoint = Checkpoint.open(find(name))
    evaluator = Evaluator(checkpoint)
    other = OnnxModel(checkpoint.model(int8=evaluator.precision is Precision.INT8), threads=1)
    sample = sample_planes(find_encoder(checkpoint.manifest.encoder), 9)
    for batch in (1, 8, 32, 64):
        planes = np.resize(sample, (batch, *sample.shape[1:]))
        count = max(1, int(share * max(4, 256 // batch)))

        def ours(seed: int, planes: np.ndarray = planes, count: int = count) -> float:
            return timed(lambda: len([evaluator.evaluate(planes) for _ in range(count)]) * len(planes), process_time)

        def theirs(seed: int, planes: np.ndarray = planes, count: int = count) -> float:
            heads = ("policy", "value")
            return timed(lambda: len([other.run(heads, planes) for _ in range(count)]) * len(planes), process_time)

        what = f"evaluations, {name} ({evaluator.precision}), batches of {batch}"
        report(what, *interleaved(ours, theirs, rounds=11), "ONNX Runtime")


PARTS: dict[str, Callable[[float], None]] = {"playouts": playouts, "uct": uct_simulations, "nets": nets}
