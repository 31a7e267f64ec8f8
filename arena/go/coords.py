"""Colours, moves, their coordinates and the eight symmetries."""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # loaded where it is used: the store needs none of it
    import numpy as np

Move = int
"""``row * size + column`` from the top left corner; ``size * size`` passes. Also the index of a policy output."""

MIN_SIZE, MAX_SIZE = 5, 19
GTP_COLUMNS = "ABCDEFGHJKLMNOPQRST"
SYMMETRIES = 8


class Colour(IntEnum):
    """The colour of a stone. In arrays, 0 is an empty point."""

    BLACK = 1
    WHITE = 2

    @property
    def opponent(self) -> Colour:
        return WHITE if self is BLACK else BLACK

    @property
    def letter(self) -> str:
        return "B" if self is Colour.BLACK else "W"


BLACK, WHITE = Colour.BLACK, Colour.WHITE


def pass_move(size: int) -> Move:
    return size * size


def gtp_from_move(move: Move, size: int) -> str:
    """``D4`` style, columns A to T without I, rows counted from the bottom; ``pass`` for a pass."""
    if move == size * size:
        return "pass"
    row, column = divmod(move, size)
    return f"{GTP_COLUMNS[column]}{size - row}"


def move_from_gtp(text: str, size: int) -> Move:
    """The move of a GTP vertex, in upper or lower case. Raises ValueError for text that is none on this size."""
    word = text.strip().upper()
    if word == "PASS":
        return size * size
    column = GTP_COLUMNS.find(word[:1]) if word else -1
    if not 0 <= column < size or not word[1:].isdecimal() or not 1 <= int(word[1:]) <= size:
        last = f"{GTP_COLUMNS[size - 1]}{size}"
        raise ValueError(f"'{text}' is not a point of a {size}x{size} board (A1 to {last}, or pass)")
    return (size - int(word[1:])) * size + column


@cache
def sgf_from_move(move: Move, size: int) -> str:
    """Two letters, column then row from the top left; the empty string for a pass."""
    if move == size * size:
        return ""
    row, column = divmod(move, size)
    return chr(97 + column) + chr(97 + row)


@cache
def moves_by_sgf(size: int) -> dict[bytes, Move]:
    """The move of each SGF coordinate. The empty one, ``tt`` and the point beyond the last corner (``ss`` on 18x18)
    pass."""
    beyond = 2 * chr(97 + size)
    passes = dict.fromkeys((b"tt", beyond.encode()), pass_move(size))
    return passes | {sgf_from_move(move, size).encode(): move for move in range(size * size + 1)}


@cache
def symmetry_table(size: int) -> np.ndarray:
    """``table[s, move]`` is the image of ``move`` under symmetry ``s``; (8, size² + 1), read-only. A symmetry
    transposes if bit 2 is set, then mirrors the rows (bit 1) and the columns (bit 0); 0 is the identity."""
    import numpy as np

    points = np.arange(size * size).reshape(size, size)
    table = np.empty((SYMMETRIES, size * size + 1), np.int64)
    for symmetry in range(SYMMETRIES):
        source = apply_symmetry(points, symmetry).reshape(-1)
        table[symmetry, source] = np.arange(size * size)
        table[symmetry, size * size] = size * size
    table.flags.writeable = False
    return table


def apply_symmetry(planes: np.ndarray, symmetry: int) -> np.ndarray:
    """A view of square planes (..., n, n) under one of the 8 symmetries; ``symmetry_table`` does the same to points."""
    if symmetry & 4:
        planes = planes.swapaxes(-1, -2)
    if symmetry & 2:
        planes = planes[..., ::-1, :]
    if symmetry & 1:
        planes = planes[..., ::-1]
    return planes


def star_points(size: int) -> list[Move]:
    """The handicap points in the order of ``fixed_handicap`` (GTP 2, 4.1.1), the centre last; none below 7x7."""
    if size < 7:
        return []
    edge = 2 if size <= 12 else 3
    low, high, middle = edge, size - 1 - edge, size // 2
    corners = [(high, low), (low, high), (low, low), (high, high)]
    sides = [(middle, low), (middle, high), (high, middle), (low, middle)] if size % 2 and size > 7 else []
    centre = [(middle, middle)] if size % 2 else []
    return [row * size + column for row, column in corners + sides + centre]
