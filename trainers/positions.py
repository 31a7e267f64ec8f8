"""Positions of games with their results."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainers.records import NO_RESULT, Games, one_each, results_of


@dataclass(frozen=True, slots=True)
class Positions:
    """One position of each of some games, that before the move at a flat index."""

    games: Games
    places: np.ndarray  # (positions,) int64: of ``games.moves``

    @classmethod
    def some(cls, games: Games, count: int, seed: int, last: bool) -> Positions:
        """One position each of ``count`` games, drawn with ``seed``, or all games for 0; see ``records.one_each``."""
        generator = np.random.default_rng(seed)
        places = one_each(games, None if last else generator)
        order = generator.permutation(len(places))
        return cls(games, places[order[: count or len(order)]])

    def __len__(self) -> int:
        return len(self.places)

    @property
    def owners(self) -> np.ndarray:
        """The game of each; (positions,) int64."""
        return np.searchsorted(self.games.starts, self.places, side="right") - 1

    @property
    def plies(self) -> np.ndarray:
        """Moves played before; (positions,) int64."""
        return self.places - self.games.starts[self.owners]

    @property
    def results(self) -> np.ndarray:
        """1 where the side to move won, 0 for a draw, -1 where it lost; (positions,) float64."""
        results = results_of(self.games.winners[self.owners], self.plies)
        if (results == NO_RESULT).any():
            raise ValueError("a game without a result has no position to judge by")
        return 1.0 - results
