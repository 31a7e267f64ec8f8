"""Bradley-Terry ratings of a pool of players, fitted to all their results at once."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena.ratings.elo import VIRTUAL_GAMES, Z95, ZERO, Estimate, FloatArray, K, score_estimate, superiority

NEAR, NEAR_ENOUGH = 1e-18, 1e-9
"""The fit has converged at this squared distance from the optimum, in standard errors; with a contrast held fixed."""

STEPS = 200  # Newton steps after which a fit ends in any case
DAMPING = 1e-10  # added to the diagonal of a Hessian, as a share of its largest element
MAX_LOG_ODDS = 10.0  # some 1,700 Elo: an end of an interval that is farther from the value counts as unbounded


class Result(NamedTuple):
    """Black's points in games against one opponent; by default in one game."""

    black: str
    white: str
    black_points: float
    games: float = 1


@dataclass(frozen=True, slots=True, eq=False)
class Ratings:
    """A league at its fit. Matrices are (n, n) in the order of `players`, row against column.

    `elo` (n,) and `covariance` (Elo squared) are relative to the anchor or, without one, to the mean of the largest
    component. The games don't measure the distance between components: there, `elo` depends on the prior, and
    `difference` is unbounded on one side or both.
    """

    players: tuple[str, ...]  # by name
    elo: FloatArray
    covariance: FloatArray
    prior: float  # virtual games per player
    anchor: str | None
    components: tuple[tuple[str, ...], ...]  # strongest first; within one, each has beaten each other, see `beaten`
    points: FloatArray  # both colours together
    games: FloatArray
    beaten: NDArray[np.bool_]  # directly or through others; a draw beats both ways
    likelihood: Likelihood

    def ranking(self) -> tuple[str, ...]:
        """The players, strongest first."""
        return tuple(self.players[i] for i in _ranked(self.elo))

    @property
    def black_advantage(self) -> Estimate | None:
        """Black's advantage in Elo. None if it wasn't fitted, if the games can't separate it from strength (as if each
        pairing keeps its colours), or if they don't bound it on both sides."""
        return self.likelihood.black_advantage()

    def difference(self, a: str, b: str) -> Estimate:
        """How much stronger a is than b. Raises ValueError for an unknown player.

        Across components it is bounded on one side at most: from below if a has beaten b, directly or through others.
        """
        i, j = self._index(a), self._index(b)
        if i == j:
            return ZERO
        if self._is_one_sweep:
            return score_estimate(self._sweep(i, j))
        return self.likelihood.estimate(self._contrast(i, j), bool(self.beaten[i, j]), bool(self.beaten[j, i]))

    def relative_to(self, anchor: str) -> Ratings:
        """The same ratings relative to this player. Raises ValueError for an unknown player."""
        i = self._index(anchor)
        from_anchor = self.covariance - self.covariance[i]
        covariance = _symmetric(from_anchor - from_anchor[:, [i]])
        return replace(self, elo=self.elo - self.elo[i], covariance=covariance, anchor=anchor)

    def standard_error(self, a: str, b: str) -> float:
        """Of the difference of two players, in Elo; across components it depends on the prior."""
        i, j = self._index(a), self._index(b)
        variance = self.covariance[i, i] + self.covariance[j, j] - 2 * self.covariance[i, j]
        return math.sqrt(max(float(variance), 0.0))

    def los(self, a: str, b: str) -> float:
        """The likelihood in [0, 1] that a is stronger than b."""
        i, j = self._index(a), self._index(b)
        if i == j:
            return 0.5
        if self._is_one_sweep:
            return superiority(self._sweep(i, j))
        return math.erfc(-self.likelihood.signed_root(self._contrast(i, j), 0.0) / math.sqrt(2)) / 2

    def _index(self, player: str) -> int:
        if player not in self.players:
            raise ValueError(f"{player} has no rated games; rated are {', '.join(self.players)}")
        return self.players.index(player)

    def _contrast(self, i: int, j: int) -> FloatArray:
        size = len(self.players) + 1
        return _unit(i, size) - _unit(j, size)

    def _sweep(self, i: int, j: int) -> FloatArray:
        """Counts of pairs for the games of two players of whom one took every point."""
        pairs = np.zeros(5)
        pairs[-1 if self.points[i, j] else 0] = self.games[i, j] / 2
        return pairs

    @property
    def _is_one_sweep(self) -> bool:
        """Whether there are two players and one took every point: they are then rated as a match."""
        return len(self.players) == 2 and not self.beaten.all()


def rate(results: Iterable[Result], *, prior: float = VIRTUAL_GAMES, black_advantage: bool = True) -> Ratings:
    """Rate all players at once: R. Bradley and M. Terry (1952), with a black advantage, at the posterior mode.

    P(Black wins) = sigma(strength_black - strength_white + advantage). `prior` is the number of virtual games that each
    player drew with a phantom of strength 0; the advantage has the same prior. If some never lost to the rest, it must
    be at least 0.01, or rounding spoils the errors. Raises ValueError without results.
    """
    players, black_points, black_games = _tables(results)
    n = len(players)
    games = black_games + black_games.T
    points = black_points + (black_games - black_points).T
    beaten = _closure(points)
    likelihood = Likelihood(black_points, black_games, prior, black_advantage and _is_identifiable(black_games))
    fit = likelihood.mode
    strength = K * fit[:n]
    labels = np.argmax(beaten & beaten.T, axis=1)  # the first player of each one's component
    groups = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    groups.sort(key=lambda group: -strength[group].mean())
    zero = np.zeros(n)
    zero[max(groups, key=len)] = 1
    shift = np.eye(n) - zero / zero.sum()
    relative = shift @ strength
    return Ratings(
        players=players,
        elo=relative,
        covariance=_symmetric(shift @ (K**2 * likelihood.inverse)[:n, :n] @ shift.T),
        prior=prior,
        anchor=None,
        components=tuple(tuple(players[group[k]] for k in _ranked(relative[group])) for group in groups),
        points=points,
        games=games,
        beaten=beaten,
        likelihood=likelihood,
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
    """(n, n): row has beaten column, directly or through others; each counts as having beaten himself."""
    reach = (points > 0) | np.eye(len(points), dtype=bool)
    while True:
        further = (reach.astype(float) @ reach) > 0
        if np.array_equal(further, reach):
            return reach
        reach = further


def _is_identifiable(games: FloatArray) -> bool:
    """Whether the games, (n, n) with Black's row, separate a black advantage from strength.

    They don't if strengths exist that change every pairing's log odds as the advantage does, such as in a league where
    the higher-ranked player always had Black. The part of the advantage that strengths explain is found by weighted
    least squares.
    """
    both = games + games.T
    laplacian = np.diag(both.sum(1)) - both
    balance = games.sum(1) - games.sum(0)
    explained = balance @ np.linalg.lstsq(laplacian, balance)[0]
    return bool(games.sum() - explained > 1e-9 * games.sum())


def _is_black_bounded(points: FloatArray, games: FloatArray, side: int) -> bool:
    """Whether the games bound the black advantage from below (side -1) or above (1); Black's points and games (n, n).

    The advantage is unbounded if it can grow without end, strengths growing with it, while no result becomes less
    likely. Each result then limits by how much White's strength may outgrow Black's. Such limits on differences can be
    kept unless they add up to less than 0 around a cycle of players (R. Floyd, "Algorithm 97", 1962).
    """
    limit = np.where(points > 0, float(side), np.inf)  # by how much White's strength may outgrow Black's
    limit = np.minimum(limit, np.where(games > points, -float(side), np.inf).T)
    np.fill_diagonal(limit, 0.0)
    for middle in range(len(limit)):
        limit = np.minimum(limit, limit[:, middle, None] + limit[middle])
        if limit.diagonal().min() < 0:
            return True
    return False


class Likelihood:
    """The penalised log-likelihood of a league's results, its mode, and profile-likelihood intervals.

    Parameters (n + 1,) are strengths in log odds, then the black advantage, which stays 0 if it is left out. A contrast
    (n + 1,) has the weights of a linear combination of them: 1 and -1 for the difference of two players.
    """

    def __init__(self, points: FloatArray, games: FloatArray, prior: float, with_black: bool):
        """Black's points and games (n, n)."""
        self._points, self._losses, self._games = points, games - points, games
        self._prior = prior
        self._free = len(games) + with_black
        self.mode = self._maximize(np.zeros(len(games) + 1))
        self.inverse = np.linalg.inv(self._gradient_and_hessian(self.mode)[1])
        self._top = self._log_likelihood(self.mode)

    def estimate(self, contrast: FloatArray, has_low: bool = True, has_high: bool = True) -> Estimate:
        """The value of a contrast, in Elo, with the ends of its 95 % interval that the games give."""
        value = float(contrast @ self.mode)
        low = self._interval_end(contrast, value, -1) if has_low else None
        high = self._interval_end(contrast, value, 1) if has_high else None
        return Estimate(K * value, low, high)

    def black_advantage(self) -> Estimate | None:
        is_fitted = self._free > len(self._games)
        is_known = is_fitted and all(_is_black_bounded(self._points, self._games, side) for side in (-1, 1))
        return self.estimate(_unit(-1, len(self.mode))) if is_known else None

    def signed_root(self, contrast: FloatArray, value: float) -> float:
        """Standard deviations by which the mode's contrast exceeds this value: the signed root of the deviance."""
        at = float(contrast @ self.mode)
        if at == value:
            return 0.0
        loss = self._top - self._log_likelihood(self._maximize(self._shift_mode(contrast, value), contrast))
        return math.copysign(math.sqrt(max(0.0, 2 * loss)), at - value)

    def _interval_end(self, contrast: FloatArray, value: float, side: int) -> float | None:
        """Where twice the loss of log-likelihood is the 95 % quantile of chi squared, in Elo; None if it stays below.
        The loss grows away from the mode: a Newton step that leaves the bracket becomes a bisection."""
        own = contrast[: self._free]
        inside, outside = value, value + side * MAX_LOG_ODDS
        farthest = outside
        at = value + side * min(MAX_LOG_ODDS, Z95 * math.sqrt(float(own @ self.inverse @ own)))
        point = self._shift_mode(contrast, at)
        for _ in range(100):
            point = self._maximize(point, contrast)
            excess = 2 * (self._top - self._log_likelihood(point)) - Z95**2
            if at == farthest and excess < 0:
                return None
            if abs(excess) < 1e-6:
                break
            inside, outside = (at, outside) if excess < 0 else (inside, at)
            slope = -2 * float(self._gradient_and_hessian(point)[0] @ own) / float(own @ own)
            further = at - excess / slope if slope else math.inf
            if not min(inside, outside) < further < max(inside, outside):
                further = farthest if excess < 0 and outside == farthest else (inside + outside) / 2
            point, at = point + self._direction(contrast) * (further - at), further
        return K * at

    def _direction(self, contrast: FloatArray) -> FloatArray:
        """The change of all parameters, near the mode, when a contrast grows by 1."""
        own = contrast[: self._free]
        move = np.zeros(len(contrast))
        move[: self._free] = self.inverse @ own / (own @ self.inverse @ own)
        return move

    def _shift_mode(self, contrast: FloatArray, value: float) -> FloatArray:
        return self.mode + self._direction(contrast) * (value - float(contrast @ self.mode))

    def _odds(self, fit: FloatArray) -> FloatArray:
        return fit[:-1, None] - fit[:-1] + fit[-1]

    def _log_likelihood(self, fit: FloatArray) -> float:
        odds = self._odds(fit)
        of_games = self._points * np.logaddexp(0, -odds) + self._losses * np.logaddexp(0, odds)
        imagined = self._prior / 2 * (np.logaddexp(0, fit) + np.logaddexp(0, -fit))
        return -float(of_games.sum() + imagined.sum())

    def _gradient_and_hessian(self, fit: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Gradient and minus the Hessian, of the free parameters."""
        n, free = len(self._games), self._free
        odds = self._odds(fit)
        win, loss = _sigma(odds), _sigma(-odds)
        pull = self._points * loss - self._losses * win
        gradient = np.append(pull.sum(1) - pull.sum(0), pull.sum()) - self._prior / 2 * np.tanh(fit / 2)
        weight = self._games * win * loss
        hessian = np.empty((n + 1, n + 1))
        hessian[:n, :n] = np.diag(weight.sum(0) + weight.sum(1)) - weight - weight.T
        hessian[:n, n] = hessian[n, :n] = weight.sum(1) - weight.sum(0)
        hessian[n, n] = weight.sum()
        hessian += np.diag(self._prior * _sigma(fit) * _sigma(-fit))
        return gradient[:free], hessian[:free, :free]

    def _maximize(self, fit: FloatArray, contrast: FloatArray | None = None) -> FloatArray:
        """The most likely parameters; with a contrast, among those that keep its value.

        Steps are cut from d to ln(1 + d), d the most that a step changes a pairing's log odds: on a sum of logistic
        losses that always gains (T. Sun and Q. Tran-Dinh, "Generalized self-concordant functions", 2019).
        """
        free, near = self._free, NEAR if contrast is None else NEAR_ENOUGH
        for _ in range(STEPS):
            gradient, hessian = self._gradient_and_hessian(fit)
            if contrast is not None:  # far from the mode it may be singular to rounding; damped steps gain as well
                hessian = hessian + DAMPING * hessian.diagonal().max() * np.eye(free)
            step = np.zeros(len(fit))
            try:
                if contrast is None:
                    step[:free] = np.linalg.solve(hessian, gradient)
                else:
                    own = contrast[:free]
                    ahead, aside = np.linalg.solve(hessian, np.column_stack([gradient, own])).T
                    pull = (own @ ahead) / (own @ aside)
                    gradient = gradient - pull * own
                    step[:free] = ahead - pull * aside
            except np.linalg.LinAlgError:
                break
            if abs(gradient @ step[:free]) < near:
                return fit + step
            d = np.abs(self._odds(step)[self._games > 0]).max() + np.abs(step).max()
            fit = fit + step * (math.log1p(d) / d)
        return fit  # rounding prevents a closer fit


def _unit(index: int, size: int) -> FloatArray:
    """(size,): 1 at this index, else 0."""
    unit = np.zeros(size)
    unit[index] = 1
    return unit


def _sigma(x: FloatArray) -> FloatArray:
    return np.exp(-np.logaddexp(0, -x))


def _ranked(strength: FloatArray) -> list[int]:
    """Strongest first; differences in the last digits don't break the order of names."""
    return [int(i) for i in np.argsort(-np.round(strength, 6), kind="stable")]


def _symmetric(matrix: FloatArray) -> FloatArray:
    """Without rounding errors, so that a difference has the same error in both directions."""
    return (matrix + matrix.T) / 2
