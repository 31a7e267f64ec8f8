"""Speed of playouts, UCT and nets; each measurement alternates with the one that it is compared with."""

from __future__ import annotations

import argparse
import os
import platform
import statistics
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from functools import partial
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
from bots.nets.checkpoint import MODEL_INT8, Checkpoint, Precision, find
from bots.nets.inference import Evaluator, OnnxModel, sample_planes
from bots.search.playouts import run_playouts

Rate = Callable[[int], float]
"""Measures a rate per second once, with a seed."""


def measure_in_turn(*measurements: Rate, rounds: int = 7) -> list[list[float]]:
    """The rates of each measurement in a number of rounds; each is warmed up first."""
    for measure in measurements:
        measure(0)
    rates = [[measure(1 + number) for measure in measurements] for number in range(rounds)]
    return [list(each) for each in zip(*rates, strict=True)]


def measure_rate(work: Callable[[], float], clock: Callable[[], float] = perf_counter) -> float:
    """The count that ``work`` returns, per second; with ``process_time`` as clock, per second of processor time."""
    start = clock()
    done = work()
    return done / (clock() - start)


def positive(text: str) -> int:
    """A whole number from 1, for argparse."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1")
    return int(text)


def print_row(cells: Iterable[str]) -> None:
    """Print a row of a Markdown table."""
    print(f"| {' | '.join(cells)} |", flush=True)


def print_rates(name: str, ours: Sequence[float], other: Sequence[float] | None = None, than: str = "") -> None:
    """Print the median of a rate, and the median of its ratios to another one, named ``than``."""
    comparison = ""
    if other is not None:
        ratio = statistics.median(a / b for a, b in zip(ours, other, strict=True))
        comparison = f"{ratio:.3g} x {than} ({statistics.median(other):,.0f})"
    print_row((name, f"{statistics.median(ours):,.0f} /s", comparison))


def describe_machine() -> str:
    """Date, processor, load and versions, in one line."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
    packages = ", ".join(f"{package} {version(package)}" for package in ("numpy", "numba", "onnxruntime"))
    cores = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    return f"{date.today()}, {name}, {cores}, Python {platform.python_version()}, {packages}"


def measure_playouts(share: float) -> None:
    """Playouts of mcts a second."""
    for size in (9, 13, 19):
        boards = np.repeat(Board(size).array, 2)
        count = max(1, int(share * 1_000_000 / size**3))
        margins = np.zeros(count, np.int16)

        def answering(seed: int, boards: Any = boards, count: int = count, margins: Any = margins) -> float:
            return measure_rate(lambda: (run_playouts(boards, 1, count, seed, margins), count)[1])

        print_rates(f"heuristic playouts {size}x{size}", *measure_in_turn(answering))


def measure_uct(share: float) -> None:
    """Simulations a second without RAVE and priors, and of mcts."""
    count = max(1, int(share * 40_000))

    plain = {"c_uct": 0.7, "rave": 0.0, "priors": 0.0, "policy": 0.0}
    for name, settings in (("UCT without RAVE and priors", plain), ("mcts simulations", {})):
        bot = uct.Uct(uct.Config(stop_early=False, **settings))

        def simulations(seed: int, bot: uct.Uct = bot) -> float:
            game = Game(Rules.preset(), seed=seed)
            return measure_rate(lambda: (bot.choose(game, Limits(simulations=count)), count)[1])

        print_rates(f"{name}, empty 9x9", *measure_in_turn(simulations))


def _evaluations(evaluate: Callable[[np.ndarray], Any], planes: np.ndarray, count: int) -> Rate:
    """Positions per second of processor time when ``planes`` are evaluated ``count`` times."""
    return lambda seed: measure_rate(lambda: len([evaluate(planes) for _ in range(count)]) * len(planes), process_time)


def measure_nets(share: float, names: Sequence[str] = ("distilled-9x9",)) -> None:
    """Evaluations a second with planes ready, beside ONNX Runtime on the same batch and one thread: in int8 where the
    checkpoint has such a model."""
    for name in names:
        checkpoint = Checkpoint.open(find(name))
        evaluator, other = Evaluator(checkpoint), Precision.INT8 if MODEL_INT8 in checkpoint.manifest.files else "fp32"
        model = OnnxModel(checkpoint.model(int8=other == Precision.INT8), threads=1)
        sample = sample_planes(find_encoder(checkpoint.manifest.encoder), 9)
        for batch in (1, 8, 32, 64):
            planes = np.resize(sample, (batch, *sample.shape[1:]))
            count = max(1, int(share * max(4, 256 // batch)))
            ours = _evaluations(evaluator.evaluate, planes, count)
            theirs = _evaluations(partial(model.run, ("policy", "value")), planes, count)
            what = f"evaluations, {name} ({evaluator.precision}), batches of {batch}"
            print_rates(what, *measure_in_turn(ours, theirs, rounds=11), f"ONNX Runtime, {other}")


PARTS: dict[str, Callable[[float], None]] = {"playouts": measure_playouts, "uct": measure_uct, "nets": measure_nets}
