"""How many games it takes: against games that are played by dice, and against what the ratings say of as many."""

from __future__ import annotations

import numpy as np
import pytest

from arena.ratings import PairCounts, Sprt, compare, expected_score, logistic_llr
from arena.ratings.planning import Outlook, games_for_interval, sprt_games


def test_games_that_all_scored_the_same_are_no_certainty() -> None:
    for counts in (PairCounts(0, 0, 4, 0, 0), PairCounts(0, 0, 0, 0, 4), PairCounts(8, 0, 0, 0, 0)):
        outlook = Outlook.of(counts)
        assert 0 < outlook.score < 1
        assert outlook.spread > 0.05
        assert 10 < games_for_interval(outlook, 30) < 5000


@pytest.mark.parametrize("counts", [PairCounts(30, 20, 100, 30, 40), PairCounts(40, 30, 100, 20, 30)])
def test_the_interval_is_as_foretold_when_so_many_games_are_played(counts: PairCounts) -> None:
    """The very games that were counted, seen from either side; below 100 pairs the forecast is a little short."""
    ends = compare(counts).elo
    assert ends.low is not None and ends.high is not None
    assert games_for_interval(Outlook.of(counts), (ends.high - ends.low) / 2) == pytest.approx(counts.games, rel=0.03)


@pytest.mark.parametrize("difference", [0.0, 30.0, 90.0])
def test_a_sequential_test_takes_as_many_games_as_foretold(difference: float) -> None:
    sprt, score = Sprt(0, 60), expected_score(difference)
    foretold = sprt_games(Outlook(0.5, 0.5), sprt, difference)
    generator, (lower, upper) = np.random.default_rng(4), sprt.bounds
    counts, taken = np.zeros((300, 5), int), np.zeros(300)
    running = np.arange(300)
    chances = [(1 - score) ** 2, 0, 2 * score * (1 - score), 0, score**2]  # of a pair of games without draws
    while running.size:
        counts[running] += generator.multinomial(4, chances, size=running.size)
        ratio = logistic_llr(counts[running], sprt.elo0, sprt.elo1)
        taken[running] = 2 * counts[running].sum(axis=1)
        running = running[(lower < ratio) & (ratio < upper)]
    error = 3 * np.std(taken) / np.sqrt(len(taken))
    assert np.mean(taken) == pytest.approx(foretold, abs=error + 0.12 * foretold + 8)
