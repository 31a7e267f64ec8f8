"""How many games a difference takes, estimated from a few games of the same match."""

from __future__ import annotations

import math
from dataclasses import dataclass

from arena.ratings import Z95, PairCounts, Sprt, expected_score


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
        """From pairs. Half a pair of every result is added, after Jeffreys, so that a few that scored the same don't
        look like certainty."""
        seen = [count + 0.5 for count in counts]
        score = sum(count * step / 4 for step, count in enumerate(seen)) / sum(seen)
        variance = sum(count * (step / 4 - score) ** 2 for step, count in enumerate(seen)) / sum(seen)
        return cls(score, variance / (score * (1 - score)))

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
