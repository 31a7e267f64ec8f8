"""How many games a difference takes, estimated from a few games of the same match."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from arena.ratings import Z95, PairCounts, Sprt, expected_score
from arena.ratings.elo import SCORES

RARE = 0.2  # pairs of each result in the prior of a range: few, as all pairs but one in fifty may be split
TINY = 1e-9  # least score and spread of an outlook


@dataclass(frozen=True, slots=True)
class Outlook:
    """A forecast of more games of the same match from some, from the first player's view.

    ``score`` in (0, 1) is the expected one. ``spread`` is the variance of the mean score of a pair of games, in units
    of the variance of a single game without draws at that score: 1/2 for pairs of independent games, less with draws or
    where what an opening gives to a colour cancels.
    """

    score: float
    spread: float

    @classmethod
    def of(cls, counts: PairCounts) -> Outlook:
        """From pairs, with half a pair of every result added (Jeffreys): a few results are never certain."""
        seen = [count + 0.5 for count in counts]
        score = sum(count * step / 4 for step, count in enumerate(seen)) / sum(seen)
        variance = sum(count * (step / 4 - score) ** 2 for step, count in enumerate(seen)) / sum(seen)
        return cls(score, variance / (score * (1 - score)))

    @classmethod
    def sample(cls, counts: PairCounts) -> list[Outlook]:
        """Outlooks that are about as likely, for the range of a forecast: shares of the results of a pair from their
        posterior, with ``RARE`` pairs of each result as prior. The 95 % range of the games that they give has the true
        number in 90 to 99 % of cases from 5 pairs on, also where 49 in 50 pairs are split (simulated)."""
        shares = np.random.default_rng(1).dirichlet(np.array(counts) + RARE, 400)
        scores = np.clip(shares @ SCORES, TINY, 1 - TINY)
        variances = (shares * (SCORES - scores[:, None]) ** 2).sum(1) / (scores * (1 - scores))
        return [cls(*both) for both in zip(scores.tolist(), np.maximum(variances, TINY).tolist(), strict=True)]

    def variance(self, score: float) -> float:
        """Of the mean score of a pair, where this score is expected."""
        return self.spread * score * (1 - score)


def games_for_interval(outlook: Outlook, half_width: float) -> int:
    """Games until the 95 % interval of the difference, taken as normal, is this wide either way, in Elo, above 0."""
    # the error e of the score with elo(score + e) - elo(score - e) = 2 half_width
    slope = math.tanh(half_width * math.log(10) / 400)
    error = (1 - math.sqrt(1 - 4 * outlook.score * (1 - outlook.score) * slope**2)) / (2 * slope)
    return _games((Z95 / error) ** 2 * outlook.variance(outlook.score))


def sprt_games(outlook: Outlook, sprt: Sprt, difference: float) -> int:
    """The games that a sequential test takes on average where this difference is true (A. Wald, 1945, section 3.5): the
    log-likelihood ratio is a normal walk by the logistic model, and what it oversteps a bound by is nothing."""
    score, low, high = (expected_score(value) for value in (difference, sprt.elo0, sprt.elo1))
    variance = outlook.variance(score)
    drift, step = (high - low) * (2 * score - low - high) / (2 * variance), (high - low) ** 2 / variance
    lower, upper = sprt.bounds
    power = 2 * drift / step
    if abs(power) * max(upper, -lower) < 1e-6:
        return _games(-lower * upper / step)
    # exp(-power * ratio) is a martingale, which the bounds stop
    accepted = math.expm1(-power * lower) / (math.expm1(-power * lower) - math.expm1(-power * upper))
    return _games((accepted * upper + (1 - accepted) * lower) / drift)


def _games(pairs: float) -> int:
    """Whole pairs, as games."""
    return 2 * max(1, math.ceil(pairs))
