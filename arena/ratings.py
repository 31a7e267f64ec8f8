"""Scores into Elo with 95 % intervals and SPRT verdicts; not here: reading games, identical games, tables.

Three questions, in this order: how far apart are two players (`compare`), may a test of two players stop (`Sprt`), how
strong is everybody in a league (`rate`). One file, because they share the intervals and how these are written. Every
figure is of the player named first. A draw is half a point. Nothing here is ever nan or infinite: a figure that the
games don't give is None, and its `Bound` says what they give instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

# scipy.special is imported where it is used: it takes longer to load than the rest of this file and numpy together.

K = 400 / math.log(10)  # Elo in one unit of log odds
Z95 = 1.959963984540054  # 95 % of a normal distribution lie within so many standard deviations
ELO_LIMIT = 2000.0  # the hypotheses of an SPRT lie within; beyond, expected scores are too close to 0 and 1
_LEAST_PRIOR = 1e-3  # virtual games; with fewer the covariance drowns in rounding
_EMPTY_COUNT = 1e-3  # stands for a count of zero in a likelihood ratio

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


def _symmetric(value: float, half_width: float) -> Estimate:
    return Estimate(Bound.BOTH, value, half_width, Interval(value - half_width, value + half_width))


# --- Two players ---


def elo(score: float) -> float:
    """The Elo difference at which `score`, strictly between 0 and 1, is expected; ValueError outside."""
    if not 0 < score < 1:
        raise ValueError(f"a score of {score} has no finite Elo; give one strictly between 0 and 1")
    return K * (math.log(score) - math.log1p(-score))


def expected_score(difference: float) -> float:
    """The expected score in [0, 1] of a player who is `difference` Elo stronger."""
    return 1 / (1 + 10 ** (-difference / 400))


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
        los = _jeffreys_los(counts.points, counts.games)
        return Comparison(_jeffreys(counts.points, counts.games), Estimate(Bound.NONE), los)
    error = math.sqrt(variance / n)
    unit = 2 * K / math.sqrt(counts.games / n)
    normalised = _symmetric(unit * (score - 0.5) / math.sqrt(variance), Z95 * unit / math.sqrt(n))
    low, high = score - Z95 * error, score + Z95 * error
    if low > 0 and high < 1:
        ends = Interval(elo(low), elo(high))
        estimate = Estimate(Bound.BOTH, elo(score), (elo(high) - elo(low)) / 2, ends)
    else:
        estimate = _jeffreys(counts.points, counts.games)
    return Comparison(estimate, normalised, _normal_tail((score - 0.5) / error))


def _moments(counts: Counts) -> tuple[float, float]:
    """Mean and variance of the score of one pair or game; exactly zero variance where all scored the same."""
    n = np.array(counts.counts, dtype=float)
    scores = np.linspace(0, 1, n.size)
    mean = counts.points / counts.games
    return mean, float(n @ (scores - mean) ** 2 / n.sum())


def _normal_tail(x: float) -> float:
    """The probability that a standard normal variable is below `x`."""
    return math.erfc(-x / math.sqrt(2)) / 2


def _jeffreys(points: float, games: float) -> Estimate:
    """The end on the side of the lead of the 95 % interval of Beta(points + 1/2, games - points + 1/2)."""
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


def _jeffreys_los(points: float, games: float) -> float:
    return float(_beta_tail(games - points + 0.5, points + 0.5, 0.5))


def _beta_tail(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> FloatArray:
    """The probability that a variable of Beta(a, b) is below x."""
    from scipy.special import betainc

    return np.asarray(betainc(a, b, x))


# --- Sequential tests ---


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


# --- A league ---


@dataclass(frozen=True, slots=True)
class Result:
    """Black's points from some games against one opponent; one game unless said. ValueError if they can't be."""

    black: str
    white: str
    black_points: float
    games: float = 1

    def __post_init__(self) -> None:
        if self.black == self.white:
            raise ValueError(f"{self.black} can't be rated by games against itself")
        if not 0 <= self.black_points <= self.games < math.inf:
            raise ValueError(f"{self.black_points} points from {self.games} games can't be")


@dataclass(frozen=True, slots=True, eq=False)
class Ratings:
    """A league at its fit. Matrices are (n, n) in the order of `players`, row against column, and read-only.

    `elo` (n,) and `covariance` (Elo squared) are relative to the anchor or, without one, to the mean of the largest
    component. Players of different components have no measured distance: there, `elo` owes its size to the prior and
    only sorts a table; `difference` and `estimate` say what may be printed. `black_advantage` is None where it was
    left out, by the caller or because each pairing kept its colours, so that it can't be told from strength.
    """

    players: tuple[str, ...]  # by name
    elo: FloatArray
    covariance: FloatArray
    black_advantage: Estimate | None
    prior: float  # virtual games per player
    anchor: str | None
    components: tuple[tuple[str, ...], ...]  # strongest first; within one, everybody has beaten everybody, see `beaten`
    points: FloatArray  # both colours together
    games: FloatArray
    expected: FloatArray  # points at the fit
    beaten: NDArray[np.bool_]  # directly or through others; a draw beats both ways

    def ranking(self) -> tuple[str, ...]:
        """The players, strongest first."""
        return tuple(self.players[i] for i in _ranked(self.elo))

    def estimate(self, player: str) -> Estimate:
        """The player's Elo relative to the zero of these ratings. ValueError for a player who isn't among them."""
        reference = max(self.components, key=len) if self.anchor is None else (self.anchor,)
        if len(reference) == 1:
            return self.difference(player, reference[0])
        i, member = self._index(player), self._index(reference[0])
        if self.beaten[i, member] and self.beaten[member, i]:
            return _symmetric(float(self.elo[i]), Z95 * math.sqrt(self.covariance[i, i]))
        return self._order(i, member)

    def difference(self, a: str, b: str) -> Estimate:
        """How much stronger a is than b. ValueError for a player who isn't among them.

        Across components it is one-sided: with the Jeffreys end of their own games, or none if they haven't met.
        """
        i, j = self._index(a), self._index(b)
        if self.beaten[i, j] and self.beaten[j, i]:
            return _symmetric(float(self.elo[i] - self.elo[j]), Z95 * self.standard_error(a, b))
        if self.games[i, j]:
            return _jeffreys(self.points[i, j], self.games[i, j])
        return self._order(i, j)

    def standard_error(self, a: str, b: str) -> float:
        """Of the difference of two players, in Elo, from the full covariance; across components the prior's."""
        i, j = self._index(a), self._index(b)
        variance = self.covariance[i, i] + self.covariance[j, j] - 2 * self.covariance[i, j]
        return math.sqrt(max(float(variance), 0.0))

    def los(self, a: str, b: str) -> float:
        """The likelihood in [0, 1] that a is stronger than b; across components from their own games if they met."""
        i, j = self._index(a), self._index(b)
        if i == j:
            return 0.5
        if self.games[i, j] and not (self.beaten[i, j] and self.beaten[j, i]):
            return _jeffreys_los(self.points[i, j], self.games[i, j])
        return _normal_tail(float(self.elo[i] - self.elo[j]) / self.standard_error(a, b))

    def los_matrix(self) -> FloatArray:
        """(n, n): the likelihood that row is stronger than column; 1/2 on the diagonal."""
        return np.array([[self.los(a, b) for b in self.players] for a in self.players])

    def surprise(self) -> FloatArray:
        """(n, n) in [0, 1]: the chance at the fit of a score as far to its side as this one; 1 where they never met.

        A small one is a pairing that a single scale of strength doesn't explain, such as a cycle. The tail is
        binomial, with both colours at their mean expectation, so it errs to the large side.
        """
        games = np.where(self.games > 0, self.games, 1.0)
        # P(binomial >= points), for halves too; no points are always reached
        least = _beta_tail(np.maximum(self.points, 1e-9), games - self.points + 1, self.expected / games)
        return np.where(self.games > 0, np.minimum(least, least.T), 1.0)

    def _index(self, player: str) -> int:
        if player not in self.players:
            raise ValueError(f"{player} has no rated games; rated are {', '.join(self.players)}")
        return self.players.index(player)

    def _order(self, i: int, j: int) -> Estimate:
        if self.beaten[i, j]:
            return Estimate(Bound.BELOW)
        return Estimate(Bound.ABOVE) if self.beaten[j, i] else Estimate(Bound.NONE)


def rate(
    results: Iterable[Result], *, prior: float = 0.2, black_advantage: bool = True, anchor: str | None = None
) -> Ratings:
    """Rates everybody at once: R. Bradley and M. Terry (1952), with a black advantage, at the posterior mode.

    P(Black wins) = sigma(strength_black - strength_white + advantage). `prior` is how many virtual games each player
    drew with a phantom of strength 0; the advantage, where it is fitted, is held by as many. ValueError without
    results, for an unknown anchor, a prior other than 0 below 0.001, or ratings that are unbounded because the prior
    is 0 and some players, or one colour, never lost to the rest. The order of the results doesn't matter.
    """
    if prior != 0 and not _LEAST_PRIOR <= prior < math.inf:
        raise ValueError(f"a prior of {prior} virtual games can't be; give 0 or at least {_LEAST_PRIOR}")
    players, black_points, black_games = _tables(results)
    if anchor is not None and anchor not in players:
        raise ValueError(f"the anchor {anchor} has no rated games; rated are {', '.join(players)}")
    n = len(players)
    games = black_games + black_games.T
    points = black_points + (black_games - black_points).T
    beaten = _closure(points)
    if prior == 0 and not beaten.all():
        raise ValueError("ratings are unbounded: some players never lost to some others; give a prior above 0")
    with_black = black_advantage and _tells_colour_from_strength(black_games)
    fit, hessian = _newton(black_points, black_games, prior, with_black)
    covariance = K**2 * np.linalg.inv(hessian)

    strength = K * fit[:n]
    labels = np.argmax(beaten & beaten.T, axis=1)  # the first player of each one's component
    groups = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    groups.sort(key=lambda group: -strength[group].mean())
    zero = np.zeros(n)
    zero[[players.index(anchor)] if anchor is not None else max(groups, key=len)] = 1
    shift = np.eye(n) - zero / zero.sum()
    relative, spread = shift @ strength, shift @ covariance[:n, :n] @ shift.T

    black_expected = black_games * _sigma(fit[:n, None] - fit[:n] + fit[n])
    advantage = _symmetric(float(K * fit[n]), Z95 * math.sqrt(covariance[n, n])) if with_black else None
    return Ratings(
        players=players,
        elo=_frozen(relative),
        covariance=_frozen((spread + spread.T) / 2),  # so that a difference has one error, from either side
        black_advantage=advantage,
        prior=prior,
        anchor=anchor,
        components=tuple(tuple(players[group[k]] for k in _ranked(relative[group])) for group in groups),
        points=_frozen(points),
        games=_frozen(games),
        expected=_frozen(black_expected + (black_games - black_expected).T),
        beaten=_frozen(beaten),
    )


def _tables(results: Iterable[Result]) -> tuple[tuple[str, ...], FloatArray, FloatArray]:
    """The players by name, and (n, n) Black's points and games, Black's row against White's column."""
    rows = [result for result in results if result.games]
    if not rows:
        raise ValueError("there are no games to rate")
    players = tuple(sorted({row.black for row in rows} | {row.white for row in rows}))
    n, index = len(players), {player: i for i, player in enumerate(players)}
    cell = [index[row.black] * n + index[row.white] for row in rows]
    points, games = np.zeros(n * n), np.zeros(n * n)
    np.add.at(points, cell, [row.black_points for row in rows])
    np.add.at(games, cell, [row.games for row in rows])
    return players, points.reshape(n, n), games.reshape(n, n)


def _closure(points: FloatArray) -> NDArray[np.bool_]:
    """(n, n): row has beaten column, directly or through others; everybody has beaten himself."""
    reach = (points > 0) | np.eye(len(points), dtype=bool)
    while True:
        further = (reach.astype(float) @ reach) > 0
        if np.array_equal(further, reach):
            return reach
        reach = further


def _tells_colour_from_strength(games: FloatArray) -> bool:
    """Whether no choice of strengths does the same as a black advantage in all the games; (n, n), Black's row."""
    both = games + games.T
    laplacian = np.diag(both.sum(1)) - both
    balance = games.sum(1) - games.sum(0)
    explained = balance @ np.linalg.lstsq(laplacian, balance)[0]
    return bool(games.sum() - explained > 1e-9 * games.sum())


def _newton(points: FloatArray, games: FloatArray, prior: float, with_black: bool) -> tuple[FloatArray, FloatArray]:
    """The mode (n + 1,), in log odds, the black advantage last (0 if left out), and minus the Hessian there.

    Steps are cut from d to ln(1 + d), d the most that a step changes a pairing's log odds: on a sum of logistic losses
    that always gains (T. Sun and Q. Tran-Dinh, "Generalized self-concordant functions", 2019). Without a prior the
    Hessian gets a term that holds the mean strength at 0 and has no part in differences.
    """
    n = len(games)
    free = n + with_black
    losses, played = games - points, games > 0
    fit = np.zeros(n + 1)
    hessian = np.empty((n + 1, n + 1))
    for _ in range(500):
        odds = fit[:n, None] - fit[:n] + fit[n]
        if prior == 0 and np.abs(odds[played]).max() > 30:
            break
        win, loss = _sigma(odds), _sigma(-odds)
        pull = points * loss - losses * win
        gradient = np.append(pull.sum(1) - pull.sum(0), pull.sum()) - prior / 2 * np.tanh(fit / 2)
        weight = games * win * loss
        hessian[:n, :n] = np.diag(weight.sum(0) + weight.sum(1)) - weight - weight.T
        hessian[:n, n] = hessian[n, :n] = weight.sum(1) - weight.sum(0)
        hessian[n, n] = weight.sum()
        hessian += np.diag(prior * _sigma(fit) * _sigma(-fit))
        if prior == 0:
            hessian[:n, :n] += weight.sum() / n**2
        step = np.zeros(n + 1)
        try:
            step[:free] = np.linalg.solve(hessian[:free, :free], gradient[:free])
        except np.linalg.LinAlgError:
            break
        if abs(gradient @ step) < 1e-18:  # the square of how many standard errors are left to go
            return fit + step, hessian[:free, :free]
        d = np.abs(step[:n, None] - step[:n] + step[n])[played].max() + np.abs(step).max() * (prior > 0)
        fit += step * (math.log1p(d) / d)
    raise ValueError("ratings are unbounded: some wins have no counterpart in the other colour; give a prior above 0")


def _sigma(x: FloatArray) -> FloatArray:
    return np.exp(-np.logaddexp(0, -x))


def _ranked(strength: FloatArray) -> list[int]:
    """Strongest first; differences in the last digits don't break the order of names."""
    return [int(i) for i in np.argsort(-np.round(strength, 6), kind="stable")]


def _frozen(array: NDArray) -> NDArray:
    array.setflags(write=False)
    return array
