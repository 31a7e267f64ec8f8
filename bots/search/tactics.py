"""Compiled knowledge of the next move or two: self-atari, rescues, 3x3 patterns.

As in ``arena.go.kernels``, *points* are indices of the padded board, and nothing is checked.
"""

from __future__ import annotations

import numpy as np

from arena.go.jit import inlined
from arena.go.kernels import EDGE, WIDTH, U, last_liberty

SHAPES = {
    "hane, enclosing": ("XOX", "...", "???"),
    "hane, not cutting": ("XO.", "...", "?.?"),
    "turn": ("XO?", "X..", "x.?"),
    "diagonal attachment": (".O.", "X..", "..."),
    "cut": ("XO?", "O.o", "?o?"),
    "cut that is peeped at": ("XO?", "O.X", "???"),
    "wedge": ("?X?", "O.O", "ooo"),
    "cut of a knight's move": ("OX?", "o.O", "???"),
    "chase along the edge": ("X.?", "O.?", "###"),
    "block at the edge": ("OX?", "X.O", "###"),
    "connection at the edge": ("?X?", "x.O", "###"),
    "descent": ("?XO", "x.x", "###"),
    "cut at the edge": ("?OX", "X.O", "###"),
}
"""The patterns of MoGo (Gelly, Wang, Munos and Teytaud 2006, section 3.2), the point to play in the middle.

X and O are either colour and the other, in any of the 8 symmetries; x and o are anything but X and O, ? is anything,
# the edge.
"""

_MEANING = {".": (0,), "X": (1,), "O": (2,), "x": (0, 2, 3), "o": (0, 1, 3), "?": (0, 1, 2, 3), "#": (3,)}
_RING = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (2, 2))


def _pattern_table() -> np.ndarray:
    """(65536,) bool: whether a surrounding, as a board's ``ring`` codes it, is one of the shapes."""
    table = np.zeros(1 << 16, np.bool_)
    for shape in SHAPES.values():
        grid = np.array([list(row) for row in shape])
        for turned in [np.rot90(side, turns) for side in (grid, grid.T) for turns in range(4)]:
            for swapped in (turned, np.vectorize(str.translate)(turned, str.maketrans("XOxo", "OXox"))):
                codes = np.zeros(1, np.int64)
                for place, (row, column) in enumerate(_RING):
                    options = np.array(_MEANING[str(swapped[row, column])]) << (2 * place)
                    codes = np.add.outer(codes, options).reshape(-1)
                table[codes] = True
    return table


PATTERNS = _pattern_table()
_BITS = np.packbits(PATTERNS, bitorder="little").view(np.uint64)  # 8 KB: they stay in the fastest cache


@inlined
def is_shape(ring):
    """Whether the surrounding of a point, its ``ring``, is one of the shapes."""
    return (_BITS[U(ring >> 6)] >> U(ring & 63)) & U(1) != 0


@inlined
def is_self_atari(board, p, colour):
    """Whether a stone of ``colour`` on the empty, legal point ``p``, which captures nothing, has a single liberty."""
    around = np.int64(board.around[U(p)])
    if around & 15 >= 2:
        return False
    first = np.int64(0)
    for step in (-WIDTH, np.int64(-1), np.int64(1), WIDTH):
        q = p + step
        there = np.int64(board.colour[U(q)])
        if there == 0:
            if first and q != first:
                return False
            first = q
        elif there == colour:
            head = np.int64(board.head[U(q)])
            if board.liberties[U(head)] > 8:  # p takes at most 4 of them, another point at most 4
                return False
            stone = head
            while True:
                if board.around[U(stone)] & 15:
                    for other in (-WIDTH, np.int64(-1), np.int64(1), WIDTH):
                        r = stone + other
                        if board.colour[U(r)] == 0 and r != p and r != first:
                            if first:
                                return False
                            first = r
                stone = np.int64(board.next[U(stone)])
                if stone == head:
                    break
        elif there != EDGE and board.liberties[U(board.head[U(q)])] <= 4:
            if last_liberty(board, np.int64(board.head[U(q)])) == p:
                return False  # it captures
    return True


@inlined
def rescue(board, p, colour):
    """0 when a move at the legal point ``p`` neither captures nor takes a group out of atari, 1 when that is a single
    stone, 2 when it is more."""
    most = 0
    for step in (-WIDTH, np.int64(-1), np.int64(1), WIDTH):
        q = p + step
        there = np.int64(board.colour[U(q)])
        if there == 0 or there == EDGE:
            continue
        head = np.int64(board.head[U(q)])
        if last_liberty(board, head) == p and (there != colour or not is_self_atari(board, p, colour)):
            most = max(most, 1 if np.int64(board.next[U(head)]) == head else 2)
    return most


@inlined
def is_lonely(board, p):
    """Whether no stone is within three steps of ``p``."""
    side = np.int64(board.side)
    row, column = p // WIDTH, p % WIDTH
    for r in range(max(1, row - 3), min(side, row + 3) + 1):
        reach = 3 - abs(r - row)
        for c in range(max(1, column - reach), min(side, column + reach) + 1):
            if board.colour[U(r * WIDTH + c)] != 0:
                return False
    return True
