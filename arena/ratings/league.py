"""How strong is everybody: a joint Bradley-Terry fit of a league's results. No order of time, no tables."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arena.ratings.figure import (
    Z95,
    Bound,
    Estimate,
    FloatArray,
    K,
    beta_tail,
    normal_tail,
    one_sided,
    superiority,
    symmetric,
)

_LEAST_PRIOR = 1e-3  # virtual games; with fewer the covariance drowns in rounding


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
            return symmetric(float(self.elo[i]), Z95 * math.sqrt(self.covariance[i, i]))
        return self._order(i, member)

    def difference(self, a: str, b: str) -> Estimate:
        """How much stronger a is than b. ValueError for a player who isn't among them.

        Across components it is one-sided: with the Jeffreys end of their own games, or none if they haven't met.
        """
        i, j = self._index(a), self._index(b)
        if self.beaten[i, j] and self.beaten[j, i]:
            return symmetric(float(self.elo[i] - self.elo[j]), Z95 * self.standard_error(a, b))
        if self.games[i, j]:
            return one_sided(self.points[i, j], self.games[i, j])
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
            return superiority(self.points[i, j], self.games[i, j])
        return normal_tail(float(self.elo[i] - self.elo[j]) / self.standard_error(a, b))

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
        least = beta_tail(np.maximum(self.points, 1e-9), games - self.points + 1, self.expected / games)
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
    advantage = symmetric(float(K * fit[n]), Z95 * math.sqrt(covariance[n, n])) if with_black else None
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
