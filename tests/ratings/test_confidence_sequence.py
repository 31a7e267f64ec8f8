"""Confidence sequences: against the plain formulas, at every cut, and how often they are ever wrong."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.ratings import ConfidenceSequence
from arena.ratings.elo import elo, expected_score

SCORES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=1, max_size=120)
GRID = [math.sin(math.pi / 2 * k / 2002) ** 2 for k in range(1, 2002)]


def slow_twin(scores: list[float]) -> tuple[float | None, float | None]:
    """The hedged capital against each mean, one observation after the other, as the paper has it."""
    refuted_below, refuted_above = [], []
    for mean in GRID:
        total, squares, up, down = 0.0, 0.0, 1.0, 1.0
        for t, score in enumerate(scores, 1):
            variance = (0.25 + squares) / t
            bet = math.sqrt(2 * math.log(2 / 0.05) / (variance * t * math.log(1 + t)))
            up *= 1 + min(bet, 0.5 / mean) * (score - mean)
            down *= 1 - min(bet, 0.5 / (1 - mean)) * (score - mean)
            total += score
            squares += (score - (0.5 + total) / (t + 1)) ** 2
        refuted_below += [mean] if up / 2 >= 1 / 0.05 else []
        refuted_above += [mean] if down / 2 >= 1 / 0.05 else []
    low, high = max(refuted_below, default=None), min(refuted_above, default=None)
    return low and elo(low), high and elo(high)


@pytest.mark.parametrize("share", [0.5, 0.7, 1.0])
def test_the_ends_are_those_of_the_plain_formulas(share: float) -> None:
    scores = (np.random.default_rng(1).random((60, 2)) < share).mean(1).tolist()
    sequence = ConfidenceSequence()
    sequence.add(scores)
    assert sequence.ends == pytest.approx(slow_twin(scores))


@given(SCORES, st.lists(st.integers(0, 120), max_size=6))
def test_the_ends_do_not_depend_on_how_observations_are_divided(scores: list[float], cuts: list[int]) -> None:
    whole, parts = ConfidenceSequence(), ConfidenceSequence()
    whole.add(scores)
    for start, end in pairwise([0, *sorted(cuts), 120]):
        parts.add(scores[start:end])
    assert parts.count == whole.count == len(scores)
    assert parts.ends == pytest.approx(whole.ends)


@given(SCORES)
def test_the_other_player_has_the_mirrored_interval(scores: list[float]) -> None:
    own, other = ConfidenceSequence(), ConfidenceSequence()
    own.add(scores)
    other.add(1 - score for score in scores)
    low, high = other.ends
    assert own.ends == pytest.approx((None if high is None else -high, None if low is None else -low))


def test_without_observations_nothing_is_bounded_and_a_sweep_is_bounded_on_one_side() -> None:
    sequence = ConfidenceSequence()
    assert sequence.ends == (None, None)
    sequence.add([1.0] * 50)
    low, high = sequence.ends
    assert low is not None and low > 200 and high is None


def test_observations_that_have_no_one_mean_leave_an_interval() -> None:
    sequence = ConfidenceSequence()
    sequence.add([1.0] * 3000 + [0.0] * 30_000)
    low, high = sequence.ends
    assert low is None or high is None or low < high


@pytest.mark.parametrize("difference", [0, 100])
def test_at_most_one_sequence_in_twenty_is_ever_wrong(difference: float) -> None:
    """A look after every pair of 200; the whole table is in benchmarks/verdicts.py."""
    draws = np.random.default_rng(2).random((150, 200, 2)) < expected_score(difference)
    wrong = 0
    for scores in draws.mean(2):
        sequence = ConfidenceSequence()
        for at in range(0, 200, 4):
            sequence.add(scores[at : at + 4])
            low, high = sequence.ends
            if (low is not None and low > difference) or (high is not None and high < difference):
                wrong += 1
                break
    assert wrong <= 0.05 * 150
