"""Elo of two players from their pairs of games, with a 95 % interval and the likelihood of superiority."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from arena.ratings.distributions import FloatArray as FloatArray
from arena.ratings.distributions import beta_quantile

K = 400 / math.log(10)  # Elo in one unit of log odds
Z95 = 1.959963984540054  # 95 % of a normal distribution lie within this many standard deviations

VIRTUAL_GAMES = 0.2
"""The prior of a rating, in games drawn with a phantom: it keeps the rating of a player who won everything finite."""


class EloEstimate(NamedTuple):
    """A figure in Elo with the ends of its 95 % interval; None where the games don't bound that side.

    Where the games don't bound it on both sides, the `value` depends on the prior. It is written `+40.7 ± 30.4`
    if it is symmetric to within 1 Elo, else `+338 (+120 to +640)` or `+910 (+600 to ∞)`; `0` of the anchor.
    """

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def is_bounded(self) -> bool:
        """Whether the games bound it on both sides."""
        return None not in self

    def __str__(self) -> str:
        value, low, high = self
        if value == low == high:
            return f"{value:g}"
        if low is not None and high is not None and abs((high - value) - (value - low)) < 1:
            return f"{round(value, 1) + 0.0:+.1f} ± {(high - low) / 2:.1f}"  # adding 0 leaves no minus before 0
        ends = "-∞" if low is None else f"{low:+.0f}", "∞" if high is None else f"{high:+.0f}"
        return f"{round(value) + 0.0:+.0f} ({' to '.join(ends)})"


def elo(score: float) -> float:
    """The Elo difference at which `score`, strictly between 0 and 1, is expected."""
    return K * (math.log(score) - math.log1p(-score))


def expected_score(difference: float) -> float:
    """The expected score in [0, 1] of a player who is `difference` Elo stronger."""
    return 1 / (1 + 10 ** (-difference / 400))


class WinDrawLoss(NamedTuple):
    """Results of single games, for the first player."""

    wins: int
    draws: int
    losses: int

    @property
    def games(self) -> int:
        return sum(self)

    @property
    def points(self) -> float:
        return self.wins + self.draws / 2

    @property
    def swapped(self) -> WinDrawLoss:
        """The same for the second player."""
        return WinDrawLoss(self.losses, self.draws, self.wins)

    @property
    def share(self) -> float | None:
        """The share of the points, in [0, 1]; None without games."""
        return self.points / self.games if self.games else None


class PairCounts(NamedTuple):
    """How many pairs of games on one opening, colours swapped, scored 0, 1/4, 1/2, 3/4 and 1 for the first player. The
    advantage that an opening gives to one colour cancels within the pair."""

    ll: int
    ld: int
    wl_dd: int
    wd: int
    ww: int

    @classmethod
    def of(cls, points: Iterable[float]) -> PairCounts:
        """Counts pairs by the points, 0 to 2 in halves, that the first player took."""
        tally = Counter(points)
        return cls(*(tally[points] for points in (0, 0.5, 1, 1.5, 2)))

    @property
    def games(self) -> int:
        return 2 * sum(self)

    @property
    def points(self) -> float:
        return self.ld / 2 + self.wl_dd + self.wd * 1.5 + self.ww * 2


class Comparison(NamedTuple):
    """The first player's advantage: Elo, normalised Elo (None where all pairs scored the same), and the
    likelihood of superiority in [0, 1], None where results may have decided when the games ended."""

    elo: EloEstimate
    normalised: EloEstimate | None
    los: float | None


SCORES = np.linspace(0, 1, 5)  # of a pair


def normalised_elo(pairs: PairCounts) -> EloEstimate | None:
    """The score in standard deviations of one game, with the interval of the normal distribution (M. Van den Bergh,
    "Normalized Elo"). None if all pairs scored the same."""
    counts, n = np.array(pairs, float), sum(pairs)
    variance = float(counts @ (SCORES - counts @ SCORES / n) ** 2 / n) if n else 0.0
    if not variance:
        return None
    unit = 2 * K / math.sqrt(2)
    value, half_width = unit * (pairs.points / pairs.games - 0.5) / math.sqrt(variance), Z95 * unit / math.sqrt(n)
    return EloEstimate(value, value - half_width, value + half_width)


TAIL = 0.025  # the probability beyond each end of a 95 % interval


def share_interval(hits: int, trials: int) -> tuple[float, float]:
    """The 95 % interval of a share in [0, 1], after ``hits`` in ``trials``.

    Jeffreys, with 0 and 1 as ends if there was no hit or no miss (L. Brown, T. Cai and A. DasGupta, "Interval
    Estimation for a Binomial Proportion", 2001, sec. 4.1).
    """
    low, high = (beta_quantile(end, hits + 0.5, trials - hits + 0.5) for end in (TAIL, 1 - TAIL))
    return (low if hits else 0.0), (high if hits < trials else 1.0)
