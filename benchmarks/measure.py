"""Rates taken in turn, and lines that give them as ratios of medians. What is measured isn't here."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from time import perf_counter

ROUNDS = 7


def interleaved(*measurements: Callable[[int], float]) -> list[list[float]]:
    """Rates of each measurement over ROUNDS rounds, taken in turn; every one is warmed up first."""
    for measure in measurements:
        measure(0)
    rounds = [[measure(1 + number) for measure in measurements] for number in range(ROUNDS)]
    return [list(rates) for rates in zip(*rounds, strict=True)]


def report(name: str, unit: str, ours: list[float], other: list[float] | None = None, than: str = "") -> None:
    line = f"{name:<34} {statistics.median(ours):>12,.0f} {unit}"
    if other is not None:
        ratio = statistics.median(a / b for a, b in zip(ours, other, strict=True))
        line += f"   {ratio:.2f} x {than} ({statistics.median(other):,.0f})"
    print(line, flush=True)


def timed(work: Callable[[], float]) -> float:
    """What ``work`` says it did, a second."""
    start = perf_counter()
    done = work()
    return done / (perf_counter() - start)
