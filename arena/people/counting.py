"""Counting a position: the points of both sides, groups, dead stones, and ownership."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from arena.go.board import Board
from arena.go.coords import BLACK, SYMMETRIES, WHITE, Colour, Move
from arena.go.game import Game, Rules, Scoring
from arena.go.kernels import BOARD

if TYPE_CHECKING:
    from bots.nets.inference import Evaluator

OWNED_BY = np.array([0, 100, -100], np.int8)  # ownership in per cent by nobody, Black and White
PLAYOUTS = 400  # playouts of an estimate


@dataclass(frozen=True, slots=True)
class Count:
    """The points of both sides without the dead stones: stones and surrounded points by area scoring, surrounded points
    and prisoners by territory scoring. White gets ``komi``, and ``bonus`` for handicap stones, too. ``ownership`` is as
    in ``ScoreEstimate``."""

    black: int
    white: int
    komi: float
    bonus: int
    ownership: bytes

    @property
    def margin(self) -> float:
        """Black's."""
        return self.black - self.white - self.komi - self.bonus


@dataclass(frozen=True, slots=True)
class ScoreEstimate:
    """An estimate by playouts: Black's ``margin`` with komi; ``ownership``, size² int8 in per cent, + for Black."""

    margin: float
    ownership: bytes
    playouts: int


def count(game: Game, dead: tuple[Move, ...] = ()) -> Count:
    """The points of both sides as the board stands, the stones at ``dead`` taken off first."""
    board = game.board.without(dead) if dead else game.board
    owners, stones = board.owners(), board.stones.reshape(-1)
    points = {colour: int((owners == colour).sum()) for colour in Colour}
    if game.rules.scoring is not Scoring.AREA:
        for colour in Colour:
            other = colour.opponent
            taken = game.captured_stones(other) + game.board.count(other) - board.count(other)
            points[colour] = int(((owners == colour) & (stones == 0)).sum()) + taken
    bonus = game.handicap if game.rules.handicap_points else 0
    return Count(points[BLACK], points[WHITE], game.rules.komi, bonus, OWNED_BY[owners].tobytes())


def group_at(board: Board, move: Move) -> set[Move]:
    """The stones that live or die with the one at ``move``: its chain, those that share two liberties with it, etc."""
    from bots.search.dead import mark_kin

    kin = np.zeros(board.size**2, np.bool_)
    mark_kin(board.array, move, kin)
    return set(np.flatnonzero(kin).tolist())


# --- Judgement by playouts ---

NET = "distilled-9x9"  # a net with an ownership head, trained on 9x9
KNOWN_SIZE = 13
"""Up to this size the net counts as much as the playouts. On larger boards, where it takes the stones of an invasion
for living ones, it can only make stones dead."""

STAYING = 0.43  # the share of being there at the end, by playouts and net, below which stones are dead


def agreed_dead(game: Game) -> tuple[Move, ...]:
    """The dead stones by the game's rules: none where they count all as alive."""
    return dead_stones(game.board) if game.rules.agrees_on_dead else ()


def dead_stones(board: Board) -> tuple[Move, ...]:
    """What playouts of the shipped policy and the net take for dead where both sides have passed."""
    from bots.nets.rollout import shipped_weights
    from bots.search.dead import count_owners, mark_dead

    boards = np.zeros(2, BOARD)
    boards[0] = board.array[0]
    counts = np.zeros((2, board.size**2), np.int32)
    count_owners(boards, BLACK, WHITE, shipped_weights(board.size), PLAYOUTS, 0, counts)
    shares, owned = counts / PLAYOUTS, _predict_ownership(board)
    both = np.sqrt(shares * np.stack([(1 + owned) / 2, (1 - owned) / 2]))
    staying = both if board.size <= KNOWN_SIZE else np.minimum(shares, both)
    marked = np.zeros(board.size**2, np.bool_)
    mark_dead(boards, np.rint(staying * 1000).astype(np.int32), STAYING * 1000, marked)
    return tuple(np.flatnonzero(marked).tolist())


def _predict_ownership(board: Board) -> np.ndarray:
    """(size²,) in [-1, 1], positive for Black: the net's mean prediction over symmetries and both sides to move."""
    net = _net()
    black, white = (np.flatnonzero(board.stones.reshape(-1) == each).tolist() for each in (BLACK, WHITE))
    total = np.zeros(board.size**2)
    for colour in Colour:
        game = Game(Rules(size=board.size, move_limit=board.size**2), 0, black, white, colour)
        for symmetry in range(SYMMETRIES):
            [raw_nn] = net.raw_nn([game], symmetry)
            if raw_nn.ownership is not None:
                total += raw_nn.ownership if colour is BLACK else -raw_nn.ownership
    return total / (2 * SYMMETRIES)


@cache
def _net() -> Evaluator:
    from bots.nets.checkpoint import SHIPPED_NETS, Checkpoint
    from bots.nets.inference import Evaluator

    return Evaluator(Checkpoint.open(SHIPPED_NETS / NET))


def estimate_score(game: Game, playouts: int = PLAYOUTS) -> ScoreEstimate:
    """An estimate of a position by playouts; each side moves first in half of them."""
    from bots.nets.rollout import shipped_weights
    from bots.search.dead import judge

    _, shares = judge(game.board, shipped_weights(game.rules.size), playouts, game.move_seed() >> 32)
    return ScoreEstimate(game.expected_margin(shares), np.rint(100 * shares).astype(np.int8).tobytes(), playouts)
