"""Bradley-Terry ratings of a pool of players, with the opening as the unit of evidence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from arena.ratings.confidence_sequence import Ends
from arena.ratings.distributions import FloatArray, student_cdf, student_quantile
from arena.ratings.elo import SCORES, TAIL, VIRTUAL_GAMES, Comparison, EloEstimate, K, PairCounts, normalised_elo
from arena.ratings.results import Indices, OpeningScores, Result, Results, sigmoid

STEPS = 200  # Newton steps after which a fit ends in any case
CONVERGED = 1e-18  # squared distance from the optimum, in standard errors
MAX_LOG_ODDS = 10.0  # some 1,700 Elo: an end of an interval that is farther from the value counts as unbounded
MAX_LEVERAGE = 0.9  # of an opening, in the correction of its residual
CHUNK = 2_000  # openings whose sums are kept at once
UNLIKELY = 0.01  # probability below which a result counts as unexplained


class Misfit(NamedTuple):
    """A result of two players that their ratings don't explain: the points of the first, those that the ratings
    predict, and the probability of a result as far from that, corrected for the number of pairs."""

    first: str
    second: str
    points: float
    games: int
    expected: float
    chance: float


class Contrasts(NamedTuple):
    """Players less references, (k,) each, in log odds."""

    gap: FloatArray
    error: FloatArray  # standard; in another component, of both distances to the middle of their components
    openings: FloatArray  # effective number
    lead: FloatArray  # of the lower end before the gap by sweeps; 0 in the reference's component, inf where unbounded
    lag: FloatArray  # the same of the upper end

    @property
    def _freedom(self) -> FloatArray:
        return np.clip(self.openings - 1, 0.05, 1e5)  # above, the normal distribution in all digits that are shown

    def ends(self, tail: float = TAIL) -> tuple[FloatArray, FloatArray]:
        """Of the intervals with this probability beyond each end; infinite where the games don't bound them."""
        freedom = self._freedom
        width = student_quantile(1 - tail, freedom) * self.error
        width[(freedom < 0.1) | (width > MAX_LOG_ODDS)] = np.inf
        return self.gap - np.hypot(width, self.lead), self.gap + np.hypot(width, self.lag)

    def estimates(self, level: float = 0.0) -> list[EloEstimate]:
        """In Elo, above ``level``."""
        values, *ends = ((level + K * column).tolist() for column in (self.gap, *self.ends()))
        known = [[None if math.isinf(end) else end for end in column] for column in ends]
        return [EloEstimate(*row) for row in zip(values, *known, strict=True)]

    @property
    def los(self) -> FloatArray:
        """The likelihood that each player is stronger than the reference."""
        ratio = np.divide(self.gap, self.error, out=np.zeros_like(self.gap), where=self.error > 0)
        los = student_cdf(ratio, self._freedom)
        # after a sweep, 1 less its probability between equals: at the interval's end, that is TAIL
        low, high = self.ends()
        above, below = (np.exp(math.log(TAIL) * math.log(2) / np.logaddexp(0, -end)) for end in (low, -high))
        swept = np.where(np.isinf(low), np.minimum(0.5, below), np.maximum(0.5, 1 - above))
        return np.where(self.lead == 0, los, swept)


class Ratings:
    """A pool of players at its fit. Matrices are (n, n) in the order of ``players``, row against column.

    ``elo`` (n,) is above the mean of the largest component, or as ``relative_to`` says. The games don't measure the
    distance between components: there, ``elo`` depends on the prior, and an estimate is unbounded on one side or both.

    Variances are sums over openings ("sandwich" estimates), corrected for the leverage of each (R. Bell and D.
    McCaffrey, "Bias reduction in standard errors", 2002). For two players with K equal openings, that is the variance
    of K mean scores with the factor K / (K - 1).
    """

    def __init__(self, results: Results, prior: float | None, black_advantage: bool):
        self._scores = scores = OpeningScores.of(results)
        self.players, self.openings, n = scores.players, scores.openings, len(scores.players)
        self.games = scores.table(scores.games, scores.games)  # both colours together
        self.points = scores.table(scores.points, scores.games - scores.points)
        self.beaten = np.isfinite(_shortest_paths(np.where(self.points > 0, 0.0, np.inf)))
        """(n, n): row has beaten column, directly or through others; a draw beats both ways."""
        points, games = scores.black_tables()
        self._has_black = black_advantage and all(_is_black_bounded(points, games, side) for side in (-1, 1))
        is_finite = bool(self.beaten.all())
        usual = 0.0 if is_finite else VIRTUAL_GAMES
        self.prior = usual if prior is None else prior  # virtual games per player
        if not (self.prior or is_finite):
            raise ValueError("some players never lost to the others; only a prior above 0 gives them a rating")
        fit, self._inverse = _fit(points, games, self.prior, self._has_black)
        self._strength, self._advantage = fit[:n], float(fit[n])
        labels = np.argmax(self.beaten & self.beaten.T, axis=1)  # the first player of each one's component
        groups = [np.flatnonzero(labels == label) for label in np.unique(labels)]
        self._groups = groups = sorted(groups, key=lambda group: -self._strength[group].mean())
        self._group = np.empty(n, int)  # of each player
        for number, group in enumerate(self._groups):
            self._group[group] = number
        self.components: tuple[tuple[str, ...], ...] = tuple(
            tuple(self.players[group[k]] for k in _ranked(self._strength[group])) for group in self._groups
        )
        """Strongest first; within one, each has beaten each other."""
        largest = max(groups, key=len)
        self.zero = {self.players[i]: 0.0 for i in largest}  # the players whose mean Elo is fixed, and that mean
        self.is_final = True  # whether ``estimates`` have intervals that hold at the end of an unchanged plan
        self.ends: dict[str, Ends] = {}  # of one of two players: an interval that is valid whenever one stops

    # --- Figures ---

    def ranking(self) -> tuple[str, ...]:
        """The players, strongest first."""
        return tuple(self.players[i] for i in _ranked(self.elo))

    def relative_to(self, zero: Mapping[str, float]) -> Ratings:
        """The same ratings on a scale on which these players have, on average, the given Elo. Raises ValueError for an
        unknown player, and for Elo that the games exclude (with 99 %)."""
        for player in zero:
            self._index(player)
        pairs = list(combinations(zero, 2))
        contrasts = self._between(pairs)
        bounds = zip(*contrasts.ends(UNLIKELY / 2 / max(1, len(pairs))), contrasts.estimates(), strict=True)
        for (one, other), (low, high, measured) in zip(pairs, bounds, strict=True):
            if not K * low <= zero[one] - zero[other] <= K * high:
                words = f"{one}={zero[one]:g} and {other}={zero[other]:g}"
                raise ValueError(f"{words}: the games give a difference of {measured}")
        return self._with(zero=dict(zero))

    def of_plan(self, is_final: bool, ends: Mapping[str, Ends]) -> Ratings:
        """The same ratings, of an event that ended as it was planned (``is_final``) or not: then ``estimates``
        have the interval of ``ends``, which is valid whenever one stops."""
        return self._with(is_final=is_final, ends=dict(ends))

    def _with(self, **changes: Any) -> Ratings:
        other = copy(self)
        for name in ("elo", "estimates", "planned_estimates"):  # cached, and to be computed again
            vars(other).pop(name, None)
        vars(other).update(changes)
        return other

    @property
    def scale(self) -> str:
        """What ``elo`` is measured from, in words."""
        names = list(self.zero)
        if any(self.zero.values()):
            return f"on the scale of {', '.join(f'{name} = {elo:g}' for name, elo in self.zero.items())}"
        if len(names) == 1:
            return f"above {names[0]}"
        return f"above the mean of {'all' if len(names) == len(self.players) else 'the largest group of'} players"

    @cached_property
    def elo(self) -> FloatArray:
        """(n,): the rating of each player."""
        return K * (self._strength - self._reference @ self._strength) + self._level

    @cached_property
    def estimates(self) -> dict[str, EloEstimate]:
        """The Elo of each player on the scale of ``elo``, with the interval that is to be shown."""
        found = dict(self.planned_estimates)
        for name, (low, high) in self.anytime.items() if not self.is_final else ():
            value = found[name].value  # of all games: where some wait for earlier ones, it may lie outside
            low, high = (None if low is None else min(low, value), None if high is None else max(high, value))
            found[name] = EloEstimate(value, low, high)
        return found

    @property
    def anytime(self) -> dict[str, Ends]:
        """The interval that is valid whenever one stops, of the one of two players who isn't fixed, by name."""
        moved = {}
        for name, (low, high) in self.ends.items():
            other = next(player for player in self.players if player != name)
            if other in self.zero:
                moved[name] = (_add(low, self._level), _add(high, self._level))
            elif name in self.zero:
                moved[other] = (_add(high, self._level, -1), _add(low, self._level, -1))
        return moved

    @cached_property
    def planned_estimates(self) -> dict[str, EloEstimate]:
        """The Elo of each player on the scale of ``elo``, with intervals that hold at the end of an unchanged plan."""
        everybody = np.arange(len(self.players))
        shown = self._less(everybody, self._reference[:, None]).estimates(self._level)
        return dict(zip(self.players, shown, strict=True))

    def difference(self, a: str, b: str) -> EloEstimate:
        """How much stronger a is than b, in Elo. Raises ValueError for an unknown player.

        Across components it is bounded on one side at most: from below if a has beaten b, directly or through others.
        """
        return self.differences([(a, b)])[0]

    def differences(self, pairs: Sequence[tuple[str, str]]) -> list[EloEstimate]:
        return self._between(pairs).estimates()

    def los(self, a: str, b: str) -> float:
        """The likelihood in [0, 1] that a is stronger than b."""
        return 0.5 if a == b else float(self.los_matrix[self._index(a), self._index(b)])

    @cached_property
    def los_matrix(self) -> FloatArray:
        """(n, n): the likelihood that the player of the row is stronger than that of the column."""
        everybody, units = np.arange(len(self.players)), np.eye(len(self.players))
        return np.column_stack([self._less(everybody, unit[:, None]).los for unit in units])

    @property
    def black_advantage(self) -> EloEstimate | None:
        """Black's advantage in Elo; None unless asked for and bounded by the games (not if pairings keep colours)."""
        if not self._has_black:
            return None
        one, error = np.ones(1), np.sqrt(self._covariance[-1:, -1])
        return Contrasts(one * self._advantage, error, one * self.openings, 0 * one, 0 * one).estimates()[0]

    def misfits(self) -> list[Misfit]:
        """The results that the fit doesn't explain, the least likely first: Student's test of the sum over openings of
        what a player scored above its expectation."""
        scores, n = self._scores, len(self.players)
        excess, _, variance = scores.residuals(self._strength, self._advantage)
        met, pair = np.unique(scores.first * n + scores.second, return_inverse=True)
        columns = (np.ones(len(pair)), excess, excess**2, variance, scores.points, scores.games)
        count, total, squares, least, points, games = (np.bincount(pair, column) for column in columns)
        freedom = np.maximum(count - 1, 1)
        spread = np.sqrt(np.maximum(squares * count / freedom, least))
        chances = 2 * student_cdf(-np.abs(total) / spread, freedom) * (count > 1).sum()
        found = []
        for at in np.flatnonzero((chances < UNLIKELY) & (count > 1)).tolist():
            first, second = (self.players[place] for place in divmod(int(met[at]), n))
            expected = float(points[at] - total[at])
            found.append(Misfit(first, second, float(points[at]), int(games[at]), expected, float(chances[at])))
        return sorted(found, key=lambda misfit: misfit.chance)

    # --- Inside ---

    def _index(self, player: str) -> int:
        if player not in self.players:
            raise ValueError(f"{player} has no rated games; rated are {', '.join(self.players)}")
        return self.players.index(player)

    @property
    def _reference(self) -> FloatArray:
        """(n,): the weights of the players whose mean is fixed."""
        weights: FloatArray = np.isin(self.players, list(self.zero)) / len(self.zero)
        return weights

    @property
    def _level(self) -> float:
        return sum(self.zero.values()) / len(self.zero)

    def _between(self, pairs: Sequence[tuple[str, str]]) -> Contrasts:
        """The first player of each less the second."""
        places = np.array([[self._index(player) for player in pair] for pair in pairs], int).reshape(-1, 2)
        return self._less(places[:, 0], np.eye(len(self.players))[:, places[:, 1]])

    def _less(self, players: Indices, references: FloatArray) -> Contrasts:
        """Players (k,) less weighted means of players, weights (n, k) or, of one mean for all, (n, 1)."""
        references = np.broadcast_to(references, (len(self.players), len(players)))
        inside, own = self._measure(players, references), self._group[players]
        has = np.array([(references[group] > 0).any(0) for group in self._groups])  # (components, k)
        apart = own != has.argmax(0)  # of the mean of several components, the first counts as inside
        if not apart.any():
            return inside
        middle = self._in_component
        is_player, other = references.max(0) == 1, references.argmax(0)
        to_middle = np.where(is_player, middle.error[other], 0.0)
        openings = np.minimum(middle.openings[players], np.where(is_player, middle.openings[other], np.inf))
        lead, lag = (np.where(has.T, leads[own], 0.0).max(1) for leads in (self._leads, self._leads.T))
        return Contrasts(
            inside.gap,
            np.where(apart, np.hypot(middle.error[players], to_middle), inside.error),
            np.where(apart, np.minimum(openings, inside.openings), inside.openings),
            np.where(apart, lead, 0.0),
            np.where(apart, lag, 0.0),
        )

    def _measure(self, players: Indices, references: FloatArray) -> Contrasts:
        """The same as far as the players are of one component.

        The effective number of openings is that of equal ones which would say as much (F. Satterthwaite, 1946). The
        variance is at least that of one of them which a side wins whole: a few openings may agree by chance.
        """
        n, k = len(self.players), len(players)
        weights = -references
        weights[players, np.arange(k)] += 1
        variance, of_whole, of_games = (
            np.maximum((weights * (matrix[:n, :n] @ weights)).sum(0), 0.0)
            for matrix in (self._covariance, self._whole, self._inverse)
        )
        reach = self._inverse[:n, :n] @ weights  # the influence of each player's points
        squares, table = reach**2, self._scores.table(self._whole_squares**2, self._whole_squares**2)
        # half the sum over two players of (their difference)**4
        terms = table.sum(0)[:, None] * squares - 4 * (table @ reach) * reach + 3 * table @ squares
        fourth = (terms * squares).sum(0)
        own = self._own_openings
        openings = np.minimum(own[players], np.where(references.max(0) == 1, own[references.argmax(0)], np.inf))
        openings = np.minimum(openings, np.divide(of_whole**2, fourth, out=np.full(k, np.inf), where=fourth > 0))
        error = np.sqrt(variance + of_games / np.maximum(openings, 1.0))
        return Contrasts(self._strength @ weights, error, openings, *np.zeros((2, k)))

    @cached_property
    def _in_component(self) -> Contrasts:
        """Each player less the mean of its component."""
        means = (self._group[:, None] == self._group) / np.bincount(self._group)[self._group]
        found = self._measure(np.arange(len(means)), means)
        is_alone = np.bincount(self._group)[self._group] == 1
        return found._replace(openings=np.where(is_alone, np.inf, found.openings))

    @cached_property
    def _leads(self) -> FloatArray:
        """(components, components): by how much the lower end of the distance of two lies below the fit, in log odds.

        One that won all games against another one won K openings whole: the end is where that has the probability
        ``TAIL``. What it means for further components follows from the shortest path.
        """
        scores, m = self._scores, len(self._groups)
        ahead = scores.points > 0
        winner, loser = np.where(ahead, (scores.first, scores.second), (scores.second, scores.first))
        pair = self._group[winner] * m + self._group[loser]
        across = np.flatnonzero(self._group[winner] != self._group[loser])
        codes, row = np.unique(pair[across] * scores.openings + scores.opening[across], return_inverse=True)
        gap = np.full(len(codes), np.inf)
        np.minimum.at(gap, row, (self._strength[winner] - self._strength[loser])[across])
        pairs, of = np.unique(codes // scores.openings, return_inverse=True)
        near, far = np.zeros(len(pairs)), np.full(len(pairs), 4 * MAX_LOG_ODDS)
        for _ in range(50):
            middle = (near + far) / 2
            is_likely = np.bincount(of, -np.logaddexp(0, middle[of] - gap), len(pairs)) > math.log(TAIL)
            near, far = np.where(is_likely, middle, near), np.where(is_likely, far, middle)
        leads = np.full((m, m), np.inf)
        leads[pairs // m, pairs % m] = far
        return _shortest_paths(leads)

    @cached_property
    def _whole_squares(self) -> FloatArray:
        """(rows,): the variance of the points on an opening that one side wins whole."""
        return self._scores.games * self._scores.residuals(self._strength, self._advantage)[2]

    @cached_property
    def _whole(self) -> FloatArray:
        """The covariance, as below, if a side won every opening whole."""
        inner = np.zeros_like(self._inverse)
        inner[: len(self.players), : len(self.players)] = self._scores.laplacian(self._whole_squares)
        return self._inverse @ inner @ self._inverse

    @cached_property
    def _own_openings(self) -> FloatArray:
        """(n,): the effective number of openings of each player."""
        scores, n = self._scores, len(self.players)
        codes = np.concatenate([scores.opening * n + scores.first, scores.opening * n + scores.second])
        met, place = np.unique(codes, return_inverse=True)
        weight = np.bincount(place, np.tile(self._whole_squares, 2))
        return np.bincount(met % n, weight, n) ** 2 / np.bincount(met % n, weight**2, n)

    @cached_property
    def _covariance(self) -> FloatArray:
        """(n + 1, n + 1) in squared log odds; the last row is Black's advantage. Only differences have a meaning."""
        scores, n = self._scores, len(self.players)
        excess, black, variance = scores.residuals(self._strength, self._advantage)
        own, both = self._inverse.diagonal(), self._inverse[scores.first, scores.second]
        distance = np.maximum(own[scores.first] + own[scores.second] - 2 * both, 0.0)
        leverage = np.minimum(np.maximum(variance * distance, 1 / scores.openings), MAX_LEVERAGE)
        excess, black = excess / np.sqrt(1 - leverage), black / np.sqrt(1 - leverage)
        # an opening that two players alone have had is one row; sums of the others are multiplied out
        is_alone = (np.bincount(scores.opening)[scores.opening] == 1) & (not self._has_black)
        inner = np.zeros((n + 1, n + 1))
        inner[:n, :n] = scores.laplacian(np.where(is_alone, excess**2, 0.0))
        rows = np.flatnonzero(~is_alone)
        shared, place = np.unique(scores.opening[rows], return_inverse=True)
        for begin in range(0, len(shared), CHUNK):
            some = (begin <= place) & (place < begin + CHUNK)
            at, row = place[some] - begin, rows[some]
            sums = np.zeros((min(CHUNK, len(shared) - begin), n + 1))
            np.add.at(sums, (at, scores.first[row]), excess[row])
            np.add.at(sums, (at, scores.second[row]), -excess[row])
            if self._has_black:
                sums[:, n] = np.bincount(at, black[row], len(sums))
            inner += sums.T @ sums
        return self._inverse @ inner @ self._inverse


def _add(end: float | None, level: float, sign: int = 1) -> float | None:
    return None if end is None else level + sign * end


def rate(results: Results | Iterable[Result], *, prior: float | None = None, black_advantage: bool = False) -> Ratings:
    """Rate all players at once (R. Bradley and M. Terry, 1952), at the posterior mode.

    P(Black wins) = sigma(strength_black - strength_white + advantage); the advantage is 0 unless it is asked for. Two
    players without it are as far apart as the Elo of their mean score. ``prior`` is the number of virtual games that
    each player draws with a phantom of strength 0: by default ``VIRTUAL_GAMES`` if some players never lost to the rest,
    which would make them infinitely strong, else none. Raises ValueError without games or such a prior.
    """
    return Ratings(results if isinstance(results, Results) else Results.of(results), prior, black_advantage)


def compare(pairs: PairCounts) -> Comparison:
    """How much stronger the first of two players is, from pairs of games on different openings."""
    counts = np.array(pairs)
    n = int(counts.sum())
    if n == 0:
        return Comparison(EloEstimate(0.0), None, los=0.5)
    points = np.repeat(SCORES * 2, counts)
    opening = np.arange(n, dtype=np.uint64)
    halves = [np.minimum(points, 1.0), np.maximum(points - 1, 0.0)]  # of two games of the first player
    zero = np.zeros(2 * n, int)
    ratings = rate(Results(("a", "b"), zero, zero + 1, np.concatenate(halves), np.concatenate([opening, opening])))
    return Comparison(ratings.difference("a", "b"), normalised_elo(pairs), ratings.los("a", "b"))


def _fit(points: FloatArray, games: FloatArray, prior: float, has_black: bool) -> tuple[FloatArray, FloatArray]:
    """The most likely strengths and, last, Black's advantage (0 if it is left out), (n + 1,) in log odds, and the
    inverse of the information, (n + 1, n + 1); from Black's points and games, (n, n).

    Steps are cut from d to ln(1 + d), d the most that a step changes a pairing's log odds: on a sum of logistic losses
    that always gains (T. Sun and Q. Tran-Dinh, "Generalized self-concordant functions", 2019).
    """
    n = len(games)
    free, fit = n + has_black, np.zeros(n + 1)
    for _ in range(STEPS):
        odds = fit[:n, None] - fit[:n] + fit[n]
        win = sigmoid(odds)
        pull, weight = points - games * win, games * win * sigmoid(-odds)
        gradient = np.append(pull.sum(1) - pull.sum(0), pull.sum()) - prior / 2 * np.tanh(fit / 2)
        information = np.empty((n + 1, n + 1))
        information[:n, :n] = np.diag(weight.sum(0) + weight.sum(1)) - weight - weight.T
        information[:n, n] = information[n, :n] = weight.sum(1) - weight.sum(0)
        information[n, n] = weight.sum()
        information += np.diag(prior * sigmoid(fit) * sigmoid(-fit))
        information[:n, :n] += weight.sum() / n**2  # without a prior, the games don't say where the middle is
        step = np.zeros(n + 1)
        step[:free] = np.linalg.solve(information[:free, :free], gradient[:free])
        if abs(gradient @ step) < CONVERGED:
            break
        d = np.abs(step[:n, None] - step[:n] + step[n])[games > 0].max()
        fit = fit + step * (math.log1p(d) / d)
    inverse = np.zeros((n + 1, n + 1))
    inverse[:free, :free] = np.linalg.inv(information[:free, :free])
    return fit, inverse


def _shortest_paths(lengths: FloatArray) -> FloatArray:
    """(n, n): the length of the shortest path from row to column, 0 to itself (R. Floyd, "Algorithm 97", 1962). Where a
    cycle has a length below 0, one of the diagonal is below 0 and the others mean nothing."""
    lengths = np.where(np.eye(len(lengths), dtype=bool), 0.0, lengths)
    for middle in range(len(lengths)):
        lengths = np.minimum(lengths, lengths[:, middle, None] + lengths[middle])
        if lengths.diagonal().min() < 0:
            break
    return lengths


def _is_black_bounded(points: FloatArray, games: FloatArray, side: int) -> bool:
    """Whether the games bound the black advantage from below (side -1) or above (1); Black's points and games (n, n).

    The advantage is unbounded if it can grow without end, strengths growing with it, while no result becomes less
    likely. Each result then limits by how much White's strength may outgrow Black's. Such limits on differences can be
    kept unless they add up to less than 0 around a cycle of players.
    """
    limit = np.where(points > 0, float(side), np.inf)  # by how much White's strength may outgrow Black's
    limit = np.minimum(limit, np.where(games > points, -float(side), np.inf).T)
    return bool(_shortest_paths(limit).diagonal().min() < 0)


def _ranked(strength: FloatArray) -> list[int]:
    """Strongest first; differences in the last digits don't break the order of names."""
    return [int(i) for i in np.argsort(-np.round(strength, 8), kind="stable")]
