"""What a position comes to: the points of both sides, groups, dead stones, and whose each point will be.

Nothing is decided here: who plays marks the dead stones and agrees on the count.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from arena.go.board import Board
from arena.go.game import Game, Scoring
from arena.go.moves import BLACK, WHITE, Colour, Move

if TYPE_CHECKING:
    from bots.search.rollouts import Weights

PLAYOUTS = 400
"""Playouts of an estimate."""


@dataclass(frozen=True, slots=True)
class Count:
    """The points of both sides under the rules in force, the stones at ``dead`` taken off.

    ``black`` and ``white`` are stones and surrounded points by area scoring, surrounded points and prisoners by
    territory scoring; White has ``komi`` besides, and ``bonus`` for handicap stones.
    """

    black: int
    white: int
    komi: float
    bonus: int
    dead: tuple[Move, ...]

    @property
    def margin(self) -> float:
        """Black's."""
        return self.black - self.white - self.komi - self.bonus


@dataclass(frozen=True, slots=True)
class Estimate:
    """What the present position comes to by so many playouts: ``margin`` is Black's, komi counted; ``ownership`` is
    size² int8, in per cent, positive for Black (as ``screen.board.draw_board`` takes it)."""

    margin: float
    ownership: bytes
    playouts: int


def count(game: Game, dead: tuple[Move, ...] = ()) -> Count:
    """The points of both sides as the board stands, the stones at ``dead`` taken off first."""
    board = game.board.without(dead) if dead else game.board
    owners, stones = board.owners(), board.stones.reshape(-1)
    points = {}
    for colour in Colour:
        if game.rules.scoring is Scoring.AREA:
            points[colour] = int((owners == colour).sum())
        else:
            taken = game.prisoners(colour.opponent) + game.board.count(colour.opponent) - board.count(colour.opponent)
            points[colour] = int(((owners == colour) & (stones == 0)).sum()) + taken
    bonus = game.handicap if game.rules.handicap_points else 0
    return Count(points[BLACK], points[WHITE], game.rules.komi, bonus, tuple(dead))


def group_at(board: Board, move: Move) -> set[Move]:
    """The stones that share the fate of the one at ``move``: its chain, and those of its colour that it has two
    liberties in common with, and so on."""
    from bots.search.dead import mark_kin

    kin = np.zeros(board.size**2, np.bool_)
    mark_kin(board.array, move, kin)
    return set(np.flatnonzero(kin).tolist())


# --- Judgement by playouts ---


@cache
def _weights(size: int) -> Weights:
    """The shipped rollout policy on boards of this size."""
    from bots.nets.checkpoint import SHIPPED
    from bots.nets.rollout import RolloutPolicy
    from bots.search.rollouts import SHARPNESS

    return RolloutPolicy.open(SHIPPED / "rollout-9x9").weights(size, SHARPNESS)


def dead_stones(board: Board) -> tuple[Move, ...]:
    """What playouts of the shipped policy take for dead where both sides have passed."""
    from bots.search.dead import judge

    return judge(board, _weights(board.size)).moves


def estimated(game: Game, playouts: int = PLAYOUTS) -> Estimate:
    """What a position comes to by so many playouts, in half of which either side begins."""
    from bots.search.dead import judge

    shares = judge(game.board, _weights(game.rules.size), playouts, game.move_seed() >> 32).ownership
    points = float(shares.sum())
    if game.rules.scoring is Scoring.TERRITORY:  # who has placed a stone more has a point less
        placed = {colour: game.prisoners(colour) + game.board.count(colour) for colour in Colour}
        points -= placed[BLACK] - placed[WHITE]
    bonus = game.handicap if game.rules.handicap_points else 0
    margin = points - game.rules.komi - bonus
    return Estimate(margin, np.rint(100 * shares).astype(np.int8).tobytes(), playouts)
