"""A figure in Elo and how sure it is: scores into Elo, 95 % intervals, and what is left where the games give no end."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import ArrayLike, NDArray

# scipy.special is imported where it is used: it takes longer to load than the rest of this package and numpy together.

K = 400 / math.log(10)  # Elo in one unit of log odds
Z95 = 1.959963984540054  # 95 % of a normal distribution lie within so many standard deviations

FloatArray = NDArray[np.float64]


class Bound(Enum):
    """How much the games say about a figure."""

    BOTH = "a value with its half width"
    BELOW = "at least the lower end"
    ABOVE = "at most the upper end"
    RANGE = "between both ends, with no half width"
    NONE = "nothing"


@dataclass(frozen=True, slots=True)
class Interval:
    """The ends that 95 % certainty gives, in Elo; None where the games don't bound that side."""

    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure in Elo and how sure it is.

    `value` is None unless `bound` is BOTH or RANGE. `half_width` (95 %) is there for BOTH alone. BELOW and ABOVE
    without an end mean that the order is known and the distance isn't. `str()` is how every screen writes it:
    `+40.7 ± 30.4`, `≥ +223`, `≤ -223`, `≥`, `-216 to +216`, `?`.
    """

    bound: Bound
    value: float | None = None
    half_width: float | None = None
    interval: Interval = Interval(None, None)

    def __str__(self) -> str:
        low, high = self.interval.low, self.interval.high
        match self.bound:
            case Bound.BOTH:
                return f"{self.value:+.1f} ± {self.half_width:.1f}"
            case Bound.BELOW:
                return "≥" if low is None else f"≥ {low:+.0f}"
            case Bound.ABOVE:
                return "≤" if high is None else f"≤ {high:+.0f}"
            case Bound.RANGE:
                return f"{low:+.0f} to {high:+.0f}"
            case Bound.NONE:
                return "?"


def symmetric(value: float, half_width: float) -> Estimate:
    """A value with the same half width on both sides."""
    return Estimate(Bound.BOTH, value, half_width, Interval(value - half_width, value + half_width))


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


def one_sided(points: float, games: float) -> Estimate:
    """Where there is no symmetric interval: the end on the side of the lead of the 95 % interval of
    Beta(points + 1/2, games - points + 1/2); both ends where nobody leads."""
    from scipy.special import betaincinv

    won, lost = max(points, games - points), min(points, games - points)
    low = elo(float(betaincinv(won + 0.5, lost + 0.5, 0.025)))
    if points > games - points:
        return Estimate(Bound.BELOW, interval=Interval(low, None))
    if points < games - points:
        return Estimate(Bound.ABOVE, interval=Interval(None, -low))
    return Estimate(Bound.RANGE, 0.0, interval=Interval(low, -low))


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


def superiority(points: float, games: float) -> float:
    """The chance in [0, 1] that the score which is expected is above 1/2, by the same distribution as `one_sided`."""
    return float(beta_tail(games - points + 0.5, points + 0.5, 0.5))


def beta_tail(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> FloatArray:
    """The probability that a variable of Beta(a, b) is below x."""
    from scipy.special import betainc

    return np.asarray(betainc(a, b, x))
