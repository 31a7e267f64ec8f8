"""Whether stones that look dead live in a seki: a small search of the capturing race. No scores, no nets."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

import numpy as np

from arena import IllegalMove
from arena.go.board import Board, point_from_move
from arena.go.coords import Colour, Move, pass_move
from arena.go.game import Game, Rules
from arena.go.kernels import CELLS
from bots.search.alive import SAFE, mark_alive

MOST_POINTS = 9
"""Empty points of a race that is searched."""

MOST_LIBERTIES = 5
"""Liberties of a chain that takes part in a race: one with more isn't captured in it."""

DEPTH = 8
"""Moves in which a chain is captured, or it isn't."""

BUDGET = 4000
"""Positions that are looked at for one group."""


class _TooMany(Exception):
    """A race isn't decided within the budget."""


def survives(board: Board, group: Collection[Move]) -> bool:
    """Whether the other side can't begin to capture this group without loss: wherever it takes away a liberty, the
    stone that does so can be captured, and the group can't be, unless what captures it is captured then. False where
    that isn't decided by a short search."""
    size, colour = board.size, Colour(board.stone(next(iter(group))))
    liberties = {near for move in group for near in _neighbours(move, size) if not board.stone(near)}
    points = _race_of(board, group, colour)
    if points is None or len(liberties) > MOST_LIBERTIES:
        return False
    stones = board.stones.reshape(-1)
    black, white = ([int(move) for move in (stones == each).nonzero()[0]] for each in Colour)
    game = Game(Rules(size=size, move_limit=200), 0, black, white, colour.opponent)
    race = _Race(points)
    anchor = max(sorted(group), key=board.liberties)
    with suppress(_TooMany):
        for move in sorted(liberties):
            with suppress(IllegalMove):
                after = game.after(move)
                if not race.falls(after, move) or race.falls(after, anchor, move):
                    return False
        return True
    return False


def _race_of(board: Board, group: Collection[Move], colour: Colour) -> frozenset[Move] | None:
    """The points that a race is about: the stones that may be captured, and their liberties; None where there is no
    race, or a large one."""
    size = board.size
    around = {near for move in group for near in _neighbours(move, size)}
    around |= {beyond for near in around if not board.stone(near) for beyond in _neighbours(near, size)}
    points = {*group}
    for move in around:
        if board.stone(move) == colour.opponent and board.liberties(move) <= MOST_LIBERTIES:
            points |= _chain(board, move)
    empty = {near for move in points for near in _neighbours(move, size) if not board.stone(near)}
    return frozenset(points | empty) if len(points) > len(group) and len(empty) <= MOST_POINTS else None


class _Race:
    """The points in which both sides play, and how many positions have been looked at."""

    def __init__(self, points: frozenset[Move]):
        self._points = sorted(points)
        self._seen = 0

    def falls(self, game: Game, anchor: Move, last: Move | None = None) -> bool:
        """Whether the stone at ``anchor`` is captured when its own side may pass and the other one has to play. Where
        there is a ``last`` move of the other side, a capture counts only if the stone that makes it can't be captured
        in turn. Raises _TooMany."""
        mine = game.to_play if last is not None else game.to_play.opponent
        known: dict[tuple[int, Colour], tuple[bool, int]] = {}

        def is_taken(game: Game, last: Move | None, depth: int) -> bool:
            if game.board.stone(anchor) != mine:
                return last is None or not self.falls(game, last)
            key = (game.board.hash, game.to_play)
            found, looked = known.get(key, (False, -1))
            if found or looked >= depth:
                return found
            if not depth or _is_alive(game.board, anchor):
                return False
            self._seen += 1
            if self._seen > BUDGET:
                raise _TooMany
            attacks = game.to_play is not mine
            moves = [move for move in self._points if not game.board.stone(move)]
            found = not attacks
            for move in moves if attacks else [*moves, pass_move(game.rules.size)]:
                with suppress(IllegalMove):
                    if is_taken(game.after(move), None if last is None else move, depth - 1) == attacks:
                        found = attacks
                        break
            known[key] = (found, depth)
            return found

        return is_taken(game, last, DEPTH)


def _is_alive(board: Board, move: Move) -> bool:
    """Whether the stone there can't be captured even if its side always passes."""
    marks = np.zeros(CELLS, np.uint8)
    mark_alive(board.array[0], board.stone(move), marks)
    return bool(marks[point_from_move(move, board.size)] == SAFE)


def _neighbours(move: Move, size: int) -> list[Move]:
    row, column = divmod(move, size)
    near = ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1))
    return [r * size + c for r, c in near if 0 <= r < size and 0 <= c < size]


def _chain(board: Board, move: Move) -> set[Move]:
    """The stones of one chain."""
    colour, found, left = board.stone(move), {move}, [move]
    while left:
        for near in _neighbours(left.pop(), board.size):
            if near not in found and board.stone(near) == colour:
                found.add(near)
                left.append(near)
    return found
