"""Speed of playouts, UCT and nets; each measurement alternates with the one that it is compared with."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable, Iterable
from datetime import date
from importlib.metadata import version
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from arena.contract.bot import Limits
from arena.go.board import Board
from arena.go.game import Game, Rules
from arena.go.planes import find_encoder
from benchmarks import __main__ as commands
from bots import uct
from bots.nets.checkpoint import MODEL_INT8, Checkpoint, Precision, find
from bots.nets.inference import Evaluator, OnnxModel, sample_planes
from bots.nets.int8 import PackedModel
from bots.nets.lanes import has_tiles
from bots.search.playouts import run_playouts

PARTS = ("playouts", "uct", "nets")


def positive(text: str) -> int:
    """A whole number from 1, for argparse."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1")
    return int(text)


def print_row(cells: Iterable[str]) -> None:
    """Print a row of a Markdown table."""
    print(f"| {' | '.join(cells)} |", flush=True)


def print_rates(name: str, count: int, work: Callable[[int], object], other: Any = None, than: str = "") -> None:
    """Print the rate, per second of processor time, of ``work``, which gets a seed and does something ``count`` times;
    and the median of its ratios to ``other`` work, named ``than``. Both are measured in turn, after a first time."""
    rates = []
    for seed in range(12):
        rates.append([])
        for each in (work, other) if other else (work,):
            start = process_time()
            each(seed)
            rates[-1].append(count / (process_time() - start))
    ours, *others = np.array(rates[1:]).T
    comparison = [f"{np.median(ours / theirs):.3g} x {than} ({np.median(theirs):,.0f})" for theirs in others]
    print_row((name, f"{np.median(ours):,.0f} /s", *(comparison or ("",))))


def describe_machine() -> str:
    """Date, processor, load and versions, in one line."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
    packages = ", ".join(f"{package} {version(package)}" for package in ("numpy", "numba", "onnxruntime"))
    cores = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    return f"{date.today()}, {name}, {cores}, Python {platform.python_version()}, {packages}"


def measure_playouts(share: float) -> None:
    for size in (9, 13, 19):
        boards, count = np.repeat(Board(size).array, 2), max(1, int(share * 1_000_000 / size**3))
        margins = np.zeros(count, np.int16)
        name = f"heuristic playouts {size}x{size}"
        print_rates(name, count, lambda seed, given=(boards, 1, count), to=margins: run_playouts(*given, seed, to))


def measure_uct(share: float) -> None:
    """Simulations a second without RAVE and priors, and of mcts."""
    limits, plain = Limits(simulations=max(1, int(share * 40_000))), {"c_uct": 0.7, "rave": 0.0, "priors": 0.0}
    for name, settings in (("UCT without RAVE and priors", plain | {"policy": 0.0}), ("mcts simulations", {})):
        bot = uct.Uct(uct.Config(stop_early=False, **settings))
        game = f"{name}, empty 9x9"
        print_rates(game, limits.simulations or 1, lambda seed, bot=bot: bot.choose(Game(Rules.preset(), seed), limits))


def measure_nets(share: float, names: Iterable[str]) -> None:
    """Evaluations a second with planes ready, beside ONNX Runtime on the same batch and one thread, in int8 where the
    checkpoint has such a model; and with AMX beside without."""
    for checkpoint in (Checkpoint.open(find(name)) for name in names):
        evaluator, is_int8 = Evaluator(checkpoint), MODEL_INT8 in checkpoint.manifest.files
        model = OnnxModel(checkpoint.model(int8=is_int8), threads=1)
        sample = sample_planes(find_encoder(checkpoint.manifest.encoder), 9)
        for batch in (1, 8, 32, 64):
            planes, times = np.resize(sample, (batch, *sample.shape[1:])), max(1, int(share * max(4, 256 // batch)))
            print_rates(
                f"evaluations, {checkpoint.manifest.name} ({evaluator.precision}), batches of {batch}",
                batch * times,
                lambda _, planes=planes, net=evaluator, n=times: [net.evaluate(planes) for _ in range(n)],
                lambda _, planes=planes, net=model, n=times: [net.run(("policy", "value"), planes) for _ in range(n)],
                f"ONNX Runtime, {'int8' if is_int8 else 'fp32'}",
            )
        if evaluator.precision is Precision.INT8 and has_tiles():
            planes, times = np.resize(sample, (8, *sample.shape[1:])), max(1, int(32 * share))
            with_amx, without = (PackedModel(load_file(checkpoint.weights), 9, tiles=tiles) for tiles in (True, False))
            print_rates(
                f"evaluations, {checkpoint.manifest.name} with AMX, batches of 8",
                8 * times,
                lambda _, planes=planes, net=with_amx, n=times: [net.run(("policy",), planes) for _ in range(n)],
                lambda _, planes=planes, net=without, n=times: [net.run(("policy",), planes) for _ in range(n)],
                "without",
            )


def main(words: list[str]) -> int:
    shown = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m benchmarks", description=commands.__doc__, formatter_class=shown)
    parser.add_argument("--share", type=float, default=1.0, help="share of the usual work (default 1)")
    words_of_nets = "a net that 'nets' measures, which may be given several times (default distilled-9x9)"
    parser.add_argument("--net", action="append", metavar="NAME", help=words_of_nets)
    parser.add_argument("part", nargs="*", help=f"what to measure (default: {', '.join(PARTS)})")
    given = parser.parse_args(words)
    if unknown := set(given.part).difference(PARTS):
        parser.error(f"there is no '{min(unknown)}'; there are {', '.join((*PARTS, *commands.COMMANDS))}")
    print(describe_machine(), end="\n\n")
    print_row(("what", "ours", "beside"))
    print_row(["---"] * 3)
    measurements = {"playouts": measure_playouts, "uct": measure_uct}
    for part in given.part or PARTS:
        if part == "nets":
            measure_nets(given.share, given.net or ["distilled-9x9"])
        else:
            measurements[part](given.share)
    return 0
