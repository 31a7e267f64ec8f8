"""An interval for the Elo difference of two players that holds at all times at once, however often one looks."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from arena.ratings.elo import FloatArray, elo

BOUND = math.log(2 / 0.05)  # log capital at which a mean is refuted: 2.5 % for each of the two gamblers
LARGEST_BET = 0.5  # as a share of the bet that can lose everything; c in the paper
GRID = np.sin(np.linspace(0, math.pi / 2, 2003)[1:-1]) ** 2  # means to bet against, half an Elo apart near 1/2
RUIN = math.log(1000)  # how far above BOUND the capital against a mean is from which nobody bets against it any more
FIRST_BATCH, CELLS = 16, 1_000_000  # observations that are counted in one step at first; of them times means, at most


Ends = tuple[float | None, float | None]
"""The ends of an interval in Elo; None on a side that is unbounded."""


class ConfidenceSequence:
    """A 95 % interval for the Elo difference of two players, valid whenever one stops.

    Observations are one player's mean scores in [0, 1], one for each opening, in an order that doesn't depend on
    results. Against each possible mean two gamblers bet, one on higher observations and one on lower ones. The capital
    of either, if that is the true mean, ever reaches 40 times its first one in at most 2.5 % of all sequences; the
    interval has the means against which it hasn't. This needs no model of the observations, only that each has the same
    mean given the ones before it.

    I. Waudby-Smith and A. Ramdas, "Estimating means of bounded random variables by betting" (JRSS B 86, 2024): the
    hedged capital process with predictable plug-in bets (theorem 3 and equation 26).
    """

    def __init__(self) -> None:
        self.count = 0  # observations
        self._sum, self._squares = 0.0, 0.0  # of the observations; of their distances from the mean by then
        self._means = GRID  # (m,)
        self._high = np.zeros(len(GRID))  # (m,) log capital of those who bet on higher observations; it falls with m
        self._low = np.zeros(len(GRID))

    def add(self, observations: Iterable[float]) -> None:
        """Count further observations. The result doesn't depend on how they are divided among calls."""
        left = np.fromiter(observations, float)
        while len(left):
            size = min(max(FIRST_BATCH, self.count), CELLS // len(self._means))
            self._add(left[:size])
            left = left[size:]

    def _add(self, x: FloatArray) -> None:
        number = self.count + np.arange(1, len(x) + 1)
        sums = self._sum + np.cumsum(x)
        squares = self._squares + np.cumsum((x - (0.5 + sums) / (number + 1)) ** 2)
        variance = (0.25 + np.append(self._squares, squares[:-1])) / number  # as estimated before each observation
        bets = np.sqrt(2 * BOUND / (variance * number * np.log1p(number)))[:, None]
        self.count, self._sum, self._squares = int(number[-1]), float(sums[-1]), float(squares[-1])

        means, excess = self._means, x[:, None] - self._means  # (m,), (n, m)
        high = self._high + np.cumsum(np.log1p(np.minimum(bets, LARGEST_BET / means) * excess), axis=0)
        low = self._low + np.cumsum(np.log1p(np.minimum(bets, LARGEST_BET / (1 - means)) * -excess), axis=0)
        kept = np.maximum(high, low).max(0) < BOUND + RUIN
        if kept.any():  # else the observations don't have one mean, and the interval stays as it is
            self._means, self._high, self._low = means[kept], high[-1, kept], low[-1, kept]

    @property
    def ends(self) -> Ends:
        """The ends of the interval in Elo: the outermost means that are refuted. None where none is on that side."""
        below, above = int((self._high >= BOUND).sum()), int((self._low >= BOUND).sum())
        low = elo(self._means[max(0, below - 1)]) if below or self._means[0] > GRID[0] else None
        high = elo(self._means[min(-1, -above)]) if above or self._means[-1] < GRID[-1] else None
        return low, high
