"""A figure in Elo and how sure it is: scores into Elo, 95 % intervals, and what is left where the games give no end."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

# scipy.special is imported where it is used: it takes longer to load than the rest of this package and numpy together.

K = 400 / math.log(10)  # Elo in one unit of log odds
Z95 = 1.959963984540054  # 95 % of a normal distribution lie within this many standard deviations

FloatArray = NDArray[np.float64]

VIRTUAL_GAMES = 0.2
"""The prior of a rating, in games drawn with a phantom: a player who won everything has a finite estimate, too."""


@dataclass(frozen=True, slots=True)
class Interval:
    """The ends of a 95 % interval, in Elo; None where the games don't bound that side."""

    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure in Elo with its 95 % interval.

    Where the games don't bound it on both sides, the `value` owes its size to the prior. `str()` is how every screen
    writes it: `+40.7 ± 30.4` where both ends are as far away, else `+338 (+120 to +640)`; `+910 (+600 to ∞)`,
    `+0 (-∞ to ∞)`; `0` of the player that all others are measured from.
    """

    value: float
    interval: Interval

    @property
    def is_zero(self) -> bool:
        """Whether this is the player that all others are measured from."""
        return self.value == self.interval.low == self.interval.high == 0

    @property
    def is_bounded(self) -> bool:
        """Whether the games bound it on both sides."""
        return None not in (self.interval.low, self.interval.high)

    @property
    def known(self) -> tuple[float, ...]:
        """The value and the ends of the interval that the games give."""
        return tuple(end for end in (self.value, self.interval.low, self.interval.high) if end is not None)

    def __str__(self) -> str:
        if self.is_zero:
            return "0"
        value, low, high = self.value, self.interval.low, self.interval.high
        if low is not None and high is not None and abs((high - value) - (value - low)) < 1:
            return f"{round(value, 1) + 0.0:+.1f} ± {(high - low) / 2:.1f}"  # adding 0 leaves no minus before 0
        ends = "-∞" if low is None else f"{low:+.0f}", "∞" if high is None else f"{high:+.0f}"
        return f"{round(value) + 0.0:+.0f} ({' to '.join(ends)})"


ZERO = Estimate(0.0, Interval(0.0, 0.0))
"""Of the player that all others are measured from."""


def elo(score: float) -> float:
    """The Elo difference at which `score`, strictly between 0 and 1, is expected; ValueError outside."""
    if not 0 < score < 1:
        raise ValueError(f"a score of {score} has no finite Elo; give one strictly between 0 and 1")
    return K * (math.log(score) - math.log1p(-score))


def expected_score(difference: float) -> float:
    """The expected score in [0, 1] of a player who is `difference` Elo stronger."""
    return 1 / (1 + 10 ** (-difference / 400))


def normal_tail(x: float) -> float:
    """The probability that a standard normal variable is below `x`."""
    return math.erfc(-x / math.sqrt(2)) / 2


def share_interval(hits: int, trials: int) -> tuple[float, float]:
    """The ends that 95 % certainty gives to a share in [0, 1] of which ``hits`` out of ``trials`` were seen.

    Jeffreys, with 0 and 1 as ends where nothing or everything hit (L. Brown, T. Cai and A. DasGupta, "Interval
    Estimation for a Binomial Proportion", 2001, sec. 4.1). ValueError for counts that can't be.
    """
    from scipy.special import betaincinv

    if not 0 <= hits <= trials:
        raise ValueError(f"{hits} out of {trials} can't be")
    low, high = (float(betaincinv(hits + 0.5, trials - hits + 0.5, end)) for end in (0.025, 0.975))
    return (low if hits else 0.0), (high if hits < trials else 1.0)


def beta_tail(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> FloatArray:
    """The probability that a variable of Beta(a, b) is below x."""
    from scipy.special import betainc

    return np.asarray(betainc(a, b, x))
