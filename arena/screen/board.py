"""A position drawn for the terminal: stones, star points, coordinates, the last move, whose each point will be; over it
a cursor, a stone that isn't placed yet, stones that are as good as taken, and letters.

No game, no captions.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
from rich.text import Text

from arena.go.moves import BLACK, GTP_COLUMNS, Colour, Move, star_points
from arena.screen.themes import DARK, Theme, shade

OWNED = 50
"""Per cent from which an empty point bears the sign of who is to have it."""

SIGNS = {0: "·", 1: "●", 2: "○"}
ASCII_SIGNS = {0: ".", 1: "X", 2: "O"}
STAR = "+"
AREAS = {1: "▪", 2: "▫"}
ASCII_AREAS = {1: "x", 2: "o"}
SMALL = {1: "•", 2: "◦"}
"""Stones that aren't there yet, or soon won't be."""
ASCII_SMALL = {1: "b", 2: "w"}

EDGE = 3
"""Columns to the left of the wood."""


@dataclass(frozen=True, slots=True)
class Overlay:
    """What is drawn over a position. All of it reads without colours.

    The ``cursor`` stands in square brackets; ``ghost`` is a stone of this colour on it that isn't placed yet, where the
    point is empty. Stones in ``taken`` are small: dead ones, or those that the ghost would capture. ``letters`` are of
    one sign each, for empty points; the first of them stands out.
    """

    cursor: Move | None = None
    ghost: Colour | None = None
    taken: Set[Move] = frozenset()
    letters: Mapping[Move, str] = field(default_factory=dict)


NOTHING = Overlay()


def board_width(size: int) -> int:
    """Columns that a drawn board takes."""
    return EDGE + 2 * size + 1


def board_height(size: int) -> int:
    """Lines that a drawn board takes."""
    return size + 1


def stone_sign(colour: Colour, ascii_only: bool = False) -> str:
    return (ASCII_SIGNS if ascii_only else SIGNS)[int(colour)]


def point_at(size: int, row: int, column: int) -> Move | None:
    """The point that is drawn in this line and column of a board, counted from 0; None beside the wood."""
    across = (column - EDGE) // 2
    return (row - 1) * size + across if 1 <= row <= size and 0 <= across < size else None


def draw_board(
    stones: np.ndarray,
    last: Move | None = None,
    *,
    ascii_only: bool = False,
    ownership: bytes | None = None,
    overlay: Overlay = NOTHING,
    theme: Theme = DARK,
) -> list[Text]:
    """The lines of a position, (size, size) with 0 empty, 1 black, 2 white; ``last`` stands in brackets.

    ``ownership``, where it is known, is size² int8, in per cent and positive for Black: the wood is darker where the
    point will be Black's and lighter where it will be White's, and an empty point that is more likely so than not
    bears a small full or hollow sign. Full signs are black and hollow ones white, so the board reads the same without
    colours.
    """
    size = len(stones)
    shares = [0] * (size * size) if ownership is None else np.frombuffer(ownership, np.int8).tolist()
    stars = set(star_points(size))
    lines = [Text("    " + " ".join(GTP_COLUMNS[:size]) + " ", style=theme.label)]
    for row in range(size):
        signs = [" "] * (2 * size + 1)  # left of a point, the point, ..., right of the last
        inks = [""] * len(signs)
        woods = [theme.under] * len(signs)
        for column in range(size):
            move, at = row * size + column, 2 * column + 1
            woods[at - 1] = woods[at] = shade(theme, shares[move])
            stone, areas = int(stones[row, column]), ASCII_AREAS if ascii_only else AREAS
            if not stone and move == overlay.cursor and overlay.ghost is not None:
                stone, small = int(overlay.ghost), True
            else:
                small = move in overlay.taken
            if stone:
                signs[at] = _stone(stone, small, ascii_only)
                inks[at] = theme.black if stone == BLACK else theme.white
            elif move in overlay.letters:
                signs[at] = overlay.letters[move]
                inks[at] = theme.white
                if move == next(iter(overlay.letters)):
                    woods[at] = theme.cursor
            elif abs(shares[move]) > OWNED:
                signs[at] = areas[1 if shares[move] > 0 else 2]
                inks[at] = theme.black if shares[move] > 0 else theme.white
            else:
                signs[at] = STAR if move in stars else _sign(0, ascii_only)
                inks[at] = theme.point
        for marked, (left, right) in ((last, "()"), (overlay.cursor, "[]")):
            if marked is not None and marked // size == row:
                at = 2 * (marked % size) + 1
                signs[at - 1], signs[at + 1] = left, right
                inks[at - 1] = inks[at + 1] = theme.mark
                if marked == overlay.cursor:
                    woods[at - 1 : at + 2] = [theme.cursor] * 3
        line = Text().append(f"{size - row:2d} ", theme.label)
        styles = (f"{ink} {wood}" for ink, wood in zip(inks, woods, strict=True))
        for drawn, run in groupby(zip(signs, styles, strict=True), key=lambda cell: cell[1]):
            line.append("".join(sign for sign, _ in run), drawn)
        lines.append(line)
    return lines


def _sign(stone: int, ascii_only: bool) -> str:
    return (ASCII_SIGNS if ascii_only else SIGNS)[stone]


def _stone(stone: int, small: bool, ascii_only: bool) -> str:
    if small:
        return (ASCII_SMALL if ascii_only else SMALL)[stone]
    return _sign(stone, ascii_only)
