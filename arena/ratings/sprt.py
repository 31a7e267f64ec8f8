"""May a test of two players stop? The sequential probability ratio test, by three models. No other stopping rule."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from arena.ratings.figure import FloatArray, K, expected_score
from arena.ratings.pairs import Counts, PairCounts

ELO_LIMIT = 2000.0  # the hypotheses lie within; beyond, expected scores are too close to 0 and 1
_EMPTY_COUNT = 1e-3  # stands for a count of zero in a likelihood ratio


class Model(StrEnum):
    """What the two hypotheses of an SPRT are about."""

    LOGISTIC = "logistic"  # the Elo; the spread of the scores is estimated
    NORMALISED = "normalised"  # the normalised Elo
    BERNOULLI = "bernoulli"  # the Elo, of single games that know no draws


class Verdict(StrEnum):
    """Where a sequential test stands."""

    RUNNING = "running"
    H0 = "H0"  # the first player isn't stronger by more than elo0
    H1 = "H1"  # the first player is stronger by elo1
    CAPPED = "capped"  # the games are used up and neither was shown


@dataclass(frozen=True, slots=True)
class SprtState:
    """A log-likelihood ratio and its bounds; `model` gave it, LOGISTIC where the normalised one had no solution."""

    llr: float
    lower: float
    upper: float
    verdict: Verdict
    model: Model


@dataclass(frozen=True, slots=True)
class Sprt:
    """A sequential test of H0 "stronger by elo0" against H1 "stronger by elo1" that ends at `max_pairs` at the latest.

    alpha bounds the chance to accept H1 where H0 holds, beta the other one (A. Wald, 1945). Elo are normalised where
    the model is. Count completed pairs only: stopping inside a pair favours a colour. ValueError for hypotheses or
    errors out of range.
    """

    elo0: float
    elo1: float
    alpha: float = 0.05
    beta: float = 0.05
    model: Model = Model.LOGISTIC
    max_pairs: int = 10_000

    def __post_init__(self) -> None:
        if not -ELO_LIMIT <= self.elo0 < self.elo1 <= ELO_LIMIT:
            raise ValueError(f"elo0 = {self.elo0} must be below elo1 = {self.elo1}, both within ±{ELO_LIMIT:.0f}")
        if not (0 < self.alpha < 0.5 and 0 < self.beta < 0.5):
            raise ValueError(f"alpha = {self.alpha} and beta = {self.beta} must lie between 0 and 0.5")
        if self.max_pairs < 1:
            raise ValueError(f"max_pairs = {self.max_pairs} must be at least 1")

    @property
    def bounds(self) -> tuple[float, float]:
        """The ratios at which H0 and H1 are accepted."""
        return math.log(self.beta / (1 - self.alpha)), math.log((1 - self.beta) / self.alpha)

    def state(self, counts: Counts) -> SprtState:
        """Where the test stands after these games. ValueError for pairs or draws under the Bernoulli model."""
        lower, upper = self.bounds
        llr, model = self._llr(counts)
        if llr >= upper:
            verdict = Verdict.H1
        elif llr <= lower:
            verdict = Verdict.H0
        else:
            verdict = Verdict.CAPPED if counts.games >= 2 * self.max_pairs else Verdict.RUNNING
        return SprtState(llr, lower, upper, verdict, model)

    def _llr(self, counts: Counts) -> tuple[float, Model]:
        if self.model is Model.BERNOULLI:
            if isinstance(counts, PairCounts) or counts.draws:
                raise ValueError("the Bernoulli model takes single games without draws; use the logistic model")
            return bernoulli_llr(counts.wins, counts.losses, self.elo0, self.elo1), Model.BERNOULLI
        if self.model is Model.NORMALISED:
            llr = normalised_llr(counts.counts, self.elo0, self.elo1)
            if llr is not None:
                return llr, Model.NORMALISED
        return float(logistic_llr(counts.counts, self.elo0, self.elo1)), Model.LOGISTIC


def bernoulli_llr(wins: float, losses: float, elo0: float, elo1: float) -> float:
    """The log-likelihood ratio of elo1 to elo0 where every game is won or lost."""
    win0, win1 = expected_score(elo0), expected_score(elo1)
    loss0, loss1 = expected_score(-elo0), expected_score(-elo1)
    return wins * math.log(win1 / win0) + losses * math.log(loss1 / loss0)


def logistic_llr(counts: ArrayLike, elo0: float, elo1: float) -> FloatArray:
    """The generalised log-likelihood ratio of elo1 to elo0, for many tests at once.

    counts: (..., 3) games or (..., 5) pairs that scored 0 to 1 in equal steps; returns shape (...). Each hypothesis is
    the most likely distribution whose mean is its expected score (M. Van den Bergh, "The GSPRT approximation"; A.
    Owen, "Empirical Likelihood", 2001, ch. 2). Zero where there are no games.
    """
    total, p, scores = _distribution(counts)
    if not total.any():
        return total
    d0, d1 = scores - expected_score(elo0), scores - expected_score(elo1)
    ratio = np.log1p(_tilt(p, d0)[..., None] * d0) - np.log1p(_tilt(p, d1)[..., None] * d1)
    return total * (p * ratio).sum(-1)


def normalised_llr(counts: ArrayLike, elo0: float, elo1: float) -> float | None:
    """The log-likelihood ratio of normalised elo1 to elo0 for one test; counts (3,) or (5,) as in `logistic_llr`.

    M. Van den Bergh, "Normalized Elo". None where the inner iteration has no
    solution, as with extreme hypotheses.
    """
    total, p, scores = _distribution(counts)
    if not total.any():
        return 0.0
    unit = 2 * K / math.sqrt(2 if scores.size == 5 else 1)
    p0, p1 = (_most_likely(p, scores, hypothesis / unit) for hypothesis in (elo0, elo1))
    if p0 is None or p1 is None:
        return None
    return float(total * (p @ np.log(p1 / p0)))


def _distribution(counts: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
    """How many (zero stays zero), in which parts (none is zero), and their scores."""
    n = np.asarray(counts, dtype=float)
    if n.shape[-1:] not in {(3,), (5,)} or n.min(initial=0) < 0:
        raise ValueError("counts are of 3 results of a game or 5 of a pair, none negative")
    filled = np.where(n > 0, n, _EMPTY_COUNT)
    total = filled.sum(-1)
    return np.where(n.any(-1), total, 0.0), filled / total[..., None], np.linspace(0, 1, n.shape[-1])


def _tilt(p: FloatArray, d: FloatArray) -> FloatArray:
    """The t with sum(p d / (1 + t d)) = 0; p (..., k) positive, d (k,) of both signs; returns (...).

    The sum falls with t from +inf to -inf between the poles: Newton steps, halving the bracket where one would leave
    it.
    """
    low = np.full(p.shape[:-1], -1 / d.max())
    high = np.full(p.shape[:-1], -1 / d.min())
    t = np.zeros(p.shape[:-1])
    for _ in range(100):
        term = d / (1 + t[..., None] * d)
        slack, slope = (p * term).sum(-1), (p * term * term).sum(-1)
        low, high = np.where(slack > 0, t, low), np.where(slack < 0, t, high)
        newton = t + slack / slope
        following = np.where((low < newton) & (newton < high), newton, (low + high) / 2)
        if np.all(np.abs(following - t) <= 1e-14 * (high - low + np.abs(t))):
            break
        t = following
    return t


def _most_likely(p: FloatArray, scores: FloatArray, t: float) -> FloatArray | None:
    """The most likely distribution whose mean is t standard deviations above 1/2; None where none is found."""
    q = np.full(p.size, 1 / p.size)
    for _ in range(50):
        mean = q @ scores
        deviation = math.sqrt(q @ (scores - mean) ** 2)
        if deviation == 0:
            return None
        d = scores - 0.5 - t * deviation * (1 + ((mean - scores) / deviation) ** 2) / 2
        if not d.min() < 0 < d.max():
            return None
        before, q = q, p / (1 + _tilt(p, d) * d)
        if np.abs(q - before).max() < 1e-9:
            return q
    return None
