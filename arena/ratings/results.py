"""Results of games, and their sums by opening: what ratings are estimated from."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena.ratings.elo import FloatArray

Indices = NDArray[np.int64]


class Result(NamedTuple):
    """Black's points in games against one opponent. Games with one ``opening`` are one observation; None: each is."""

    black: str
    white: str
    black_points: float
    games: int = 1
    opening: Hashable = None


class Results(NamedTuple):
    """Single games as columns (games,): indices of the players, Black's points, and a number for the opening."""

    players: tuple[str, ...]
    black: Indices
    white: Indices
    points: FloatArray
    opening: NDArray[np.uint64]

    @classmethod
    def of(cls, rows: Iterable[Result]) -> Results:
        """Rows of several games become wins, a draw at most, and losses."""
        players: dict[str, int] = {}
        openings: dict[Hashable, int] = {}
        games: list[tuple[int, int, float, int]] = []
        for row in rows:
            black, white = (players.setdefault(name, len(players)) for name in (row.black, row.white))
            for number in range(row.games):
                opening = openings.setdefault((len(games),) if row.opening is None else row.opening, len(openings))
                games.append((black, white, min(1.0, max(0.0, row.black_points - number)), opening))
        columns = np.array(games, float).reshape(-1, 4).T
        indices = columns[:2].astype(np.int64)
        return cls(tuple(players), indices[0], indices[1], columns[2], columns[3].astype(np.uint64))


@dataclass(frozen=True, slots=True, eq=False)
class OpeningScores:
    """What two players scored on an opening, a row for each two and each opening, (rows,)."""

    players: tuple[str, ...]  # those with games, by name
    first: Indices
    second: Indices  # after the first, by name
    opening: Indices  # from 0 to ``openings`` - 1
    games: FloatArray
    points: FloatArray  # of the first player
    black_games: FloatArray  # in which the first player had Black
    black_points: FloatArray  # of Black in all games

    @classmethod
    def of(cls, results: Results) -> OpeningScores:
        """Raises ValueError without games."""
        if not len(results.points):
            raise ValueError("there are no games to rate")
        present = np.unique(np.concatenate([results.black, results.white]))
        order = sorted(present.tolist(), key=results.players.__getitem__)
        rank = np.zeros(len(results.players), int)
        rank[order] = np.arange(len(order))
        black, white, n = rank[results.black], rank[results.white], len(order)
        _, opening = np.unique(results.opening, return_inverse=True)
        codes = (opening * n + np.minimum(black, white)) * n + np.maximum(black, white)
        rows, row = np.unique(codes, return_inverse=True)
        is_black = black < white
        own = np.where(is_black, results.points, 1 - results.points)
        columns = (np.ones(len(row)), own, is_black.astype(float), results.points)
        sums = [np.bincount(row, column, len(rows)).astype(float) for column in columns]
        names = tuple(results.players[at] for at in order)
        return cls(names, rows // n % n, rows % n, rows // n**2, sums[0], sums[1], sums[2], sums[3])

    @property
    def openings(self) -> int:
        return int(self.opening.max()) + 1

    def table(self, own: FloatArray, other: FloatArray) -> FloatArray:
        """(n, n): the sum of a column in the first player's row, and of another one in the second's."""
        n = len(self.players)
        cells = np.concatenate([self.first * n + self.second, self.second * n + self.first])
        return np.bincount(cells, np.concatenate([own, other]), n * n).reshape(n, n).astype(float)

    def laplacian(self, weight: FloatArray) -> FloatArray:
        """(n, n): the sum over rows of a weight, (rows,), times the outer product of the difference of two players."""
        table = self.table(weight, weight)
        return np.diag(table.sum(0)) - table

    def black_tables(self) -> tuple[FloatArray, FloatArray]:
        """(n, n): Black's points and games, Black's row against White's column."""
        white_games = self.games - self.black_games
        # from the points of the first player and those of Black: each counts those as Black, one those as White
        own = (self.points + self.black_points - white_games) / 2
        return self.table(own, self.black_points - own), self.table(self.black_games, white_games)

    def residuals(self, strength: FloatArray, advantage: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(rows,) each, at these strengths in log odds: the first player's points above the expected ones, Black's, and
        the variance of either for games that don't depend on each other."""
        gap = strength[self.first] - strength[self.second]
        black, white = sigmoid(gap + advantage), sigmoid(gap - advantage)
        white_games = self.games - self.black_games
        excess = self.points - self.black_games * black - white_games * white
        of_black = self.black_points - self.black_games * black - white_games * (1 - white)
        return excess, of_black, self.black_games * black * (1 - black) + white_games * white * (1 - white)


def sigmoid(x: FloatArray) -> FloatArray:
    return np.exp(-np.logaddexp(0, -x))
