"""Compiled knowledge of the next move or two: self-atari, rescues, 3x3 patterns, answers to the last move."""

from __future__ import annotations

import numpy as np

from arena.go.jit import inlined
from arena.go.kernels import AROUND, EDGE, NEIGHBOURS, WIDTH, U, below, is_legal, last_liberty, next_random

# The patterns of MoGo (Gelly, Wang, Munos and Teytaud 2006, section 3.2) around the point to play, in any of the 8
# symmetries and with the colours swapped. x is anything but X, o anything but O, ? anything, # the edge.
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
FAR = 4  # steps from the last move, or more

_MEANING = {".": (0,), "X": (1,), "O": (2,), "x": (0, 2, 3), "o": (0, 1, 3), "?": (0, 1, 2, 3), "#": (3,)}


def _pattern_table() -> np.ndarray:
    """(65536,) bool: whether a ``ring`` of the board is one of the shapes."""
    table = np.zeros(1 << 16, np.bool_)
    for shape in SHAPES.values():
        grid = np.array([list(row) for row in shape])
        for turned in [np.rot90(side, turns) for side in (grid, grid.T) for turns in range(4)]:
            for swapped in (turned, np.vectorize(str.translate)(turned, str.maketrans("XOxo", "OXox"))):
                codes = np.zeros(1, np.int64)
                for place, sign in enumerate(np.delete(swapped.reshape(-1), 4)):
                    codes = np.add.outer(codes, np.array(_MEANING[str(sign)]) << (2 * place)).reshape(-1)
                table[codes] = True
    return table


PATTERNS = _pattern_table()
_BITS = np.packbits(PATTERNS, bitorder="little").view(np.uint64)  # 8 KB, which stay in the first-level cache


@inlined
def is_shape(ring):
    """Whether a ``ring`` of the board is one of the shapes."""
    return (_BITS[U(ring >> 6)] >> U(ring & 63)) & U(1) != 0


@inlined
def is_self_atari(board, p, colour):
    """Whether a stone of ``colour`` on the empty, legal point ``p``, which captures nothing, has a single liberty."""
    around = np.int64(board.around[U(p)])
    if around & 15 >= 2:
        return False
    first = np.int64(0)
    for step in NEIGHBOURS:
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
                    for other in NEIGHBOURS:
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
    """1 if a move at the legal point ``p`` captures a stone or saves one from atari, 2 if several stones, else 0."""
    most = 0
    for step in NEIGHBOURS:
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


@inlined
def _mark_reached(board, p, distance, steps, reached, count):
    """Set the distance of ``p`` and, if there is a stone, of its whole group; returns the number of reached points."""
    stone = np.int64(p)
    while True:
        steps[stone] = distance
        reached[count] = stone
        count += 1
        stone = np.int64(board.next[U(stone)])  # an empty point is a ring of its own
        if stone == p:
            return count


@inlined
def measure_distances(board, last, steps, reached):
    """Write to ``steps`` (CELLS,) the distance of each point from ``last``, 0 to 3 or FAR; all stones of a group are
    equally far. Every point is FAR if ``last`` is 0. ``reached`` (CELLS,) is scratch."""
    for p in range(WIDTH * (board.side + 2)):
        steps[p] = FAR
    if last == 0:
        return
    count = _mark_reached(board, last, 0, steps, reached, 0)
    done = 0
    while done < count:
        p = np.int64(reached[done])
        done += 1
        if steps[p] + 1 == FAR:
            return
        for step in NEIGHBOURS:
            q = p + step
            if steps[q] == FAR and board.colour[U(q)] != EDGE:
                count = _mark_reached(board, q, steps[p] + 1, steps, reached, count)


@inlined
def answer_atari(board, last, colour, state):
    """A random move that captures the group of the stone ``last`` or saves a group beside it; (point or 0, state)."""
    chosen = np.int64(0)
    count = 0
    q = last_liberty(board, np.int64(board.head[U(last)]))
    if q and q != board.ko:
        chosen = q
        count = 1
    previous = np.int64(0)
    for step in NEIGHBOURS:
        neighbour = last + step
        if board.colour[U(neighbour)] != colour:
            continue
        head = np.int64(board.head[U(neighbour)])
        if head == previous:
            continue
        previous = head
        q = last_liberty(board, head)
        if q == 0:
            continue
        if is_legal(board, q, colour) and not is_self_atari(board, q, colour):
            count += 1
            state = next_random(state)
            if below(state, count) == 0:
                chosen = q
        stone = head  # or capture a group around it
        while True:
            for other in NEIGHBOURS:
                r = stone + other
                if board.colour[U(r)] == 3 - colour and board.liberties[U(board.head[U(r)])] <= 4:
                    capture = last_liberty(board, np.int64(board.head[U(r)]))
                    if capture and capture != q and capture != board.ko:
                        count += 1
                        state = next_random(state)
                        if below(state, count) == 0:
                            chosen = capture
            stone = np.int64(board.next[U(stone)])
            if stone == head:
                break
    return chosen, state


@inlined
def answer_pattern(board, last, colour, state):
    """A random point beside ``last`` with one of the shapes, but no self-atari; (point or 0, state)."""
    chosen = np.int64(0)
    count = 0
    for step in AROUND:
        p = last + step
        if board.colour[U(p)] == 0 and is_shape(np.int64(board.ring[U(p)])):
            count += 1
            if count > 1:
                state = next_random(state)
            if count == 1 or below(state, count) == 0:
                chosen = p
    if chosen and (not is_legal(board, chosen, colour) or is_self_atari(board, chosen, colour)):
        chosen = np.int64(0)
    return chosen, state
