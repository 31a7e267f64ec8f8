"""Positions of games with their results, and what playouts say of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from arena.go.kernels import BOARD, new_board, referee
from bots.search.rollouts import run_policy_playouts
from bots.search.tree import point_from_move
from trainers.dead_stones import playout_weights
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

    def by_playouts(self, count: int) -> np.ndarray:
        """The mean result, for the side to move, of ``count`` playouts of the shipped rollout policy from each;
        (positions,) float64."""
        size, weights = self.games.size, playout_weights(self.games.size)
        boards = np.zeros(2, BOARD)
        hashes = np.zeros(int(self.plies.max(initial=0)) + 2, np.uint64)
        margins = np.empty(count, np.float64)
        means = np.empty(len(self))
        for number, (game, ply) in enumerate(zip(self.owners.tolist(), self.plies.tolist(), strict=True)):
            begin = self.games.starts[game]
            moves = self.games.moves[begin : begin + ply].tolist()
            new_board(boards, 0, size)
            for played, move in enumerate(moves):
                referee(boards, 0, move, 1 + played % 2, hashes, played + 1, False, True)
            last, previous = ([point_from_move(move, size) for move in moves[:-3:-1]] + [0, 0])[:2]
            run_policy_playouts(boards, 1 + ply % 2, last, previous, weights, count, number, margins)
            means[number] = np.sign(margins - self.games.komis[game]).mean() * (1 if ply % 2 == 0 else -1)
        return means
