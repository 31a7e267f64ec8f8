"""How many games it takes: against games that are played by dice, and against what the ratings say of as many."""

from __future__ import annotations

import numpy as np
import pytest

from arena.ratings import PairCounts, Sprt, compare, expected_score, logistic_llr
from arena.results.planning import Outlook, games_for_interval, sprt_games


def chances(score: float, spread: float) -> np.ndarray:
    """(5,) how often a pair scores 0 to 1, with this mean and this variance in units of score * (1 - score)."""
    extreme = np.array([(1 - score) ** 2, 0, 2 * score * (1 - score), 0, score**2])  # a spread of 1/2
    middle = np.zeros(5)
    steps = 4 * score
    middle[int(steps)], middle[int(steps) + 1] = 1 - steps % 1, steps % 1
    own = middle @ (np.linspace(0, 1, 5) - score) ** 2 / (score * (1 - score))
    mixed = (spread - own) / (0.5 - own)
    return mixed * extreme + (1 - mixed) * middle


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


@pytest.mark.parametrize(("difference", "spread"), [(0.0, 0.35), (30.0, 0.5), (90.0, 0.35)])
def test_a_sequential_test_takes_as_many_games_as_foretold(difference: float, spread: float) -> None:
    sprt = Sprt(0, 60)
    foretold = sprt_games(Outlook(0.5, spread), sprt, difference)
    generator, lower, upper = np.random.default_rng(4), *sprt.bounds
    counts, taken = np.zeros((300, 5), int), np.zeros(300)
    running = np.arange(300)
    while running.size:
        counts[running] += generator.multinomial(4, chances(expected_score(difference), spread), size=running.size)
        ratio = logistic_llr(counts[running], sprt.elo0, sprt.elo1)
        taken[running] = 2 * counts[running].sum(axis=1)
        running = running[(lower < ratio) & (ratio < upper)]
    error = 3 * np.std(taken) / np.sqrt(len(taken))
    assert np.mean(taken) == pytest.approx(foretold, abs=error + 0.12 * foretold + 8)


def test_a_sequential_test_takes_longest_between_its_hypotheses() -> None:
    games = [sprt_games(Outlook(0.5, 0.4), Sprt(0, 30), difference) for difference in (-60, 0, 15, 15.0001, 30, 90)]
    assert games[0] < games[1] < games[2] == pytest.approx(games[3], rel=0.01) and games[2] > games[4] > games[5]
    assert games[1] == pytest.approx(games[4], rel=0.05)
