"""Two players: how far apart they are, from pairs of games or single ones. No tests, no third player."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from arena.ratings.figure import Z95, Bound, Estimate, Interval, K, elo, normal_tail, one_sided, superiority, symmetric


@dataclass(frozen=True, slots=True)
class WinDrawLoss:
    """Single games, as the first player saw them. ValueError for a negative count."""

    wins: int
    draws: int
    losses: int

    def __post_init__(self) -> None:
        _refuse_negative(self.counts)

    @property
    def counts(self) -> tuple[int, ...]:
        """How many games scored 0, 1/2, 1."""
        return self.losses, self.draws, self.wins

    @property
    def games(self) -> int:
        return sum(self.counts)

    @property
    def points(self) -> float:
        return self.wins + self.draws / 2


@dataclass(frozen=True, slots=True)
class PairCounts:
    """Pairs of games on one opening, colours swapped, as the first player saw them. ValueError for a negative count.

    Better evidence than single games: what an opening gives to one colour cancels within the pair.
    """

    ll: int
    ld: int
    wl_dd: int
    wd: int
    ww: int

    def __post_init__(self) -> None:
        _refuse_negative(self.counts)

    @classmethod
    def of(cls, points: Iterable[float]) -> PairCounts:
        """Counts pairs by the points, 0 to 2 in halves, that the first player took. ValueError for others."""
        tally = [0] * 5
        for point in points:
            if point * 2 not in range(5):
                raise ValueError(f"a pair of games can't give {point} points; it gives 0, 0.5, 1, 1.5 or 2")
            tally[int(point * 2)] += 1
        return cls(*tally)

    @property
    def counts(self) -> tuple[int, ...]:
        """How many pairs scored 0, 1/4, 1/2, 3/4, 1."""
        return self.ll, self.ld, self.wl_dd, self.wd, self.ww

    @property
    def games(self) -> int:
        return 2 * sum(self.counts)

    @property
    def points(self) -> float:
        return self.ld / 2 + self.wl_dd + self.wd * 1.5 + self.ww * 2


Counts = PairCounts | WinDrawLoss


def _refuse_negative(counts: tuple[int, ...]) -> None:
    if min(counts) < 0:
        raise ValueError(f"a count can't be negative: {counts}")


@dataclass(frozen=True, slots=True)
class Comparison:
    """What games say about the first player: Elo, normalised Elo, and the likelihood of superiority in [0, 1]."""

    elo: Estimate
    normalised: Estimate
    los: float


def compare(counts: Counts) -> Comparison:
    """How much stronger the first player is, from pairs (better) or single games.

    Normalised Elo measures the score in standard deviations of one game, so it foretells how many games a test takes,
    whatever the openings (M. Van den Bergh, "Normalized Elo"). Where every game scored the same or the interval
    of the score leaves (0, 1), the Elo is bounded on one side, that of the lead, by the Jeffreys interval of single
    games; an even score is bounded on both.
    """
    n = sum(counts.counts)
    if n == 0:
        return Comparison(Estimate(Bound.NONE), Estimate(Bound.NONE), los=0.5)
    score, variance = _moments(counts)
    if variance == 0:
        los = superiority(counts.points, counts.games)
        return Comparison(one_sided(counts.points, counts.games), Estimate(Bound.NONE), los)
    error = math.sqrt(variance / n)
    unit = 2 * K / math.sqrt(counts.games / n)
    normalised = symmetric(unit * (score - 0.5) / math.sqrt(variance), Z95 * unit / math.sqrt(n))
    low, high = score - Z95 * error, score + Z95 * error
    if low > 0 and high < 1:
        ends = Interval(elo(low), elo(high))
        estimate = Estimate(Bound.BOTH, elo(score), (elo(high) - elo(low)) / 2, ends)
    else:
        estimate = one_sided(counts.points, counts.games)
    return Comparison(estimate, normalised, normal_tail((score - 0.5) / error))


def _moments(counts: Counts) -> tuple[float, float]:
    """Mean and variance of the score of one pair or game; exactly zero variance where all scored the same."""
    n = np.array(counts.counts, dtype=float)
    scores = np.linspace(0, 1, n.size)
    mean = counts.points / counts.games
    return mean, float(n @ (scores - mean) ** 2 / n.sum())
