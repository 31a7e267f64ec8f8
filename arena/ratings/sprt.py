"""The generalised sequential probability ratio test (GSPRT) on pentanomial pair counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from arena.ratings.elo import FloatArray, PairCounts, expected_score

ELO_LIMIT = 2000.0  # of the hypotheses; beyond, expected scores are too close to 0 and 1
_EMPTY_COUNT = 1e-3  # replaces a count of zero in a likelihood ratio


class SprtVerdict(StrEnum):
    """The state of a sequential test."""

    RUNNING = "running"
    H0 = "H0"  # the first player isn't stronger by more than elo0
    H1 = "H1"  # the first player is stronger by elo1


class SprtState(NamedTuple):
    """A log-likelihood ratio, its bounds and the verdict."""

    llr: float
    lower: float
    upper: float
    verdict: SprtVerdict

    @property
    def is_decided(self) -> bool:
        return self.verdict is not SprtVerdict.RUNNING


@dataclass(frozen=True, slots=True)
class Sprt:
    """A sequential test of H0 "stronger by elo0" against H1 "stronger by elo1", in logistic Elo.

    alpha bounds the probability of accepting H1 if H0 is true, beta that of accepting H0 if H1 is true (A. Wald, 1945).
    Pairs must be counted in an order that doesn't depend on their results: as planned, not as they end. Raises
    ValueError for hypotheses or errors out of range.
    """

    elo0: float
    elo1: float
    alpha: float = 0.05
    beta: float = 0.05

    def __post_init__(self) -> None:
        if not -ELO_LIMIT <= self.elo0 < self.elo1 <= ELO_LIMIT:
            raise ValueError(f"elo0 = {self.elo0} must be below elo1 = {self.elo1}, both within ±{ELO_LIMIT:.0f}")
        if not (0 < self.alpha < 0.5 and 0 < self.beta < 0.5):
            raise ValueError(f"alpha = {self.alpha} and beta = {self.beta} must lie between 0 and 0.5")

    @property
    def bounds(self) -> tuple[float, float]:
        """The log-likelihood ratios at which H0 and H1 are accepted."""
        return math.log(self.beta / (1 - self.alpha)), math.log((1 - self.beta) / self.alpha)

    def state(self, pairs: PairCounts) -> SprtState:
        """The state of the test after these pairs."""
        return self.first_decision([pairs])[1]

    def first_decision(self, counts: ArrayLike) -> tuple[int, SprtState]:
        """The number of pairs after which the test is decided, or of all pairs if it isn't; and its state then.

        counts: (n, 5), the counts after each pair, n at least 1.
        """
        lower, upper = self.bounds
        ratios = logistic_llr(counts, self.elo0, self.elo1)
        decided = np.flatnonzero((ratios <= lower) | (ratios >= upper))
        last = int(decided[0]) if len(decided) else len(ratios) - 1
        llr = float(ratios[last])
        verdict = SprtVerdict.H1 if llr >= upper else SprtVerdict.H0 if llr <= lower else SprtVerdict.RUNNING
        return last + 1, SprtState(llr, lower, upper, verdict)


def logistic_llr(counts: ArrayLike, elo0: float, elo1: float) -> FloatArray:
    """The generalised log-likelihood ratio of elo1 to elo0, for many tests at once.

    counts: (..., 3) games or (..., 5) pairs that scored 0 to 1 in equal steps; returns shape (...). Each hypothesis is
    the most likely distribution whose mean is its expected score (M. Van den Bergh, "The GSPRT approximation"; A.
    Owen, "Empirical Likelihood", 2001, ch. 2). Zero where there are no games.
    """
    n = np.asarray(counts, dtype=float)
    filled = np.where(n > 0, n, _EMPTY_COUNT)
    total = np.where(n.any(-1), filled.sum(-1), 0.0)
    p, scores = filled / filled.sum(-1, keepdims=True), np.linspace(0, 1, n.shape[-1])
    d0, d1 = scores - expected_score(elo0), scores - expected_score(elo1)
    ratio = np.log1p(_tilt(p, d0)[..., None] * d0) - np.log1p(_tilt(p, d1)[..., None] * d1)
    return total * (p * ratio).sum(-1)


def _tilt(p: FloatArray, d: FloatArray) -> FloatArray:
    """The t with sum(p d / (1 + t d)) = 0; p (..., k) positive, d (k,) of both signs; returns (...).

    The sum falls with t from +inf to -inf between the poles: Newton steps, halving the bracket where one would leave
    it. Each result is independent of the rest of the batch.
    """
    low = np.full(p.shape[:-1], -1 / d.max())
    high = np.full(p.shape[:-1], -1 / d.min())
    t = np.zeros(p.shape[:-1])
    found = np.zeros(p.shape[:-1], bool)
    for _ in range(100):
        term = d / (1 + t[..., None] * d)
        slack, slope = (p * term).sum(-1), (p * term * term).sum(-1)
        low, high = np.where(slack > 0, t, low), np.where(slack < 0, t, high)
        newton = t + slack / slope
        following = np.where((low < newton) & (newton < high), newton, (low + high) / 2)
        found |= np.abs(following - t) <= 1e-14 * (high - low + np.abs(t))
        if found.all():
            break
        t = np.where(found, t, following)
    return t
