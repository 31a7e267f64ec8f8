"""Rates taken in turn, and rows that give them as ratios of medians. What is measured isn't here."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Callable, Sequence
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter

ROUNDS = 7

PACKAGES = ("numpy", "numba", "onnxruntime")
"""Those whose versions say what was measured, where they are installed."""


def interleaved(*measurements: Callable[[int], float], rounds: int = ROUNDS) -> list[list[float]]:
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


def row(*cells: str) -> None:
    """One row of the table, in columns for the terminal and in Markdown."""
    widths = (58, 16, 0)
    print("| " + " | ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)) + " |", flush=True)


def report(name: str, unit: str, ours: Sequence[float], other: Sequence[float] | None = None, than: str = "") -> None:
    """What was measured: the median, and the median of the ratios to what was measured in turn with it."""
    comparison = ""
    if other is not None:
        ratio = statistics.median(a / b for a, b in zip(ours, other, strict=True))
        comparison = f"{ratio:.3g} x {than} ({statistics.median(other):,.0f})"
    row(name, f"{statistics.median(ours):,.0f} {unit}", comparison)


def skipped(name: str, reason: str) -> None:
    row(name, "skipped", reason)


def machine() -> str:
    """Where and with what it was measured, in one line."""
    names = [
        line.partition(":")[2].strip()
        for line in (Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else "").splitlines()
        if line.startswith("model name")
    ]
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return (
        f"{date.today()}, {names[0] if names else platform.processor() or platform.machine()}, "
        f"{len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()} cores{load}, "
        f"Python {platform.python_version()}, {', '.join(_versions())}"
    )


def _versions() -> list[str]:
    found = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return found
