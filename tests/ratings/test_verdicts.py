"""A tenth of the simulation of tests and intervals, with players whose strength is known."""

from collections import defaultdict

import numpy as np
import pytest

from benchmarks.verdicts import PARTS

GOALS = {
    "covered at the end": (94, 99),
    "SPRT wrong": (0, 6),
    "covered at the worst moment": (95, 100),
    "ever excludes 0": (0, 6),
    "differences covered": (93, 99),
    "printed intervals covered": (93, 99),
    "tables with a wrong star": (0, 6),
}
"""Per cent, in the mean of all cases; of few leagues, a little wider than what is claimed."""


@pytest.mark.parametrize("part", ["ends", "sequential", "leagues", pytest.param("stops", marks=pytest.mark.slow)])
def test_tests_and_intervals_are_right_as_often_as_they_promise(part: str) -> None:
    simulate, matches = PARTS[part]
    found = defaultdict[str, list[float]](list)
    for what, _, value in simulate(matches // (15 if part == "leagues" else 10), np.random.default_rng(2)):
        found[what].append(value)
    errors = found.pop("error of a difference (Elo)", [])
    for what, values in found.items():
        low, high = GOALS[what]
        assert low <= np.mean(values) <= high, what
    if part == "leagues":  # of 20 players that differ from opening to opening: own openings, and shared ones
        assert errors[14] < 35 < errors[17]
