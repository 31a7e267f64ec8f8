"""Playouts that answer: captures, escapes from atari and 3x3 patterns beside the last move.

After MoGo (Gelly, Wang, Munos and Teytaud 2006, section 3).
"""

from __future__ import annotations

import numpy as np

from arena.go.jit import inlined, kernel
from arena.go.kernels import (
    CELLS,
    WIDTH,
    U,
    area_score,
    below,
    is_eye,
    is_legal,
    last_liberty,
    longest_playout,
    next_random,
    place,
    seeded,
)
from bots.search.tactics import is_self_atari, is_shape

ATARI = 230
"""In how many of 256 cases a playout captures, or saves from atari, beside the last move."""

PATTERN = 243
"""In how many of 256 cases it plays one of the shapes beside the last move."""

SELF_ATARI = 230
"""In how many of 256 cases it puts no stone into atari elsewhere."""

MERCY = 3
"""It ends when a side is ahead by more than one in so many points of the board in stones."""


@inlined
def _chance(state, of_256):
    return np.int64((state >> np.uint64(20)) & np.uint64(255)) < of_256


@inlined
def answer_atari(board, last, colour, state):
    """A move that captures the group of the opponent's stone ``last``, or saves a group beside it; (point or 0, state).

    One of them all by chance.
    """
    chosen = np.int64(0)
    count = 0
    q = last_liberty(board, np.int64(board.head[U(last)]))
    if q and q != board.ko:
        chosen = q
        count = 1
    previous = np.int64(0)
    for step in (-WIDTH, np.int64(-1), np.int64(1), WIDTH):
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
        stone = head  # or take what surrounds it
        while True:
            for other in (-WIDTH, np.int64(-1), np.int64(1), WIDTH):
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
    """A point beside ``last`` where one of the patterns fits and that is no self-atari; (point or 0, state)."""
    chosen = np.int64(0)
    count = 0
    for step in (-WIDTH - 1, -WIDTH, -WIDTH + 1, np.int64(-1), np.int64(1), WIDTH - 1, WIDTH, WIDTH + 1):
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


@kernel
def answering_playout(board, colour, last, state, when, time):
    """Play until both pass, or until one side is far ahead; (Black's margin before komi, moves, state).

    ``last`` is the point that was just played, 0 for a pass.
    Where nobody had played before, ``when`` (CELLS,) gets ``2 * time + colour - 1`` of the first stone, ``time``
    counting up from the argument.
    """
    passes = 0
    moves = 0
    limit = longest_playout(board)
    lead = board.side * board.side // MERCY
    while passes < 2 and moves < limit:
        chosen = np.int64(0)
        if last:
            state = next_random(state)
            if _chance(state, ATARI):
                chosen, state = answer_atari(board, last, colour, state)
            if chosen == 0 and _chance(state >> np.uint64(9), PATTERN):
                chosen, state = answer_pattern(board, last, colour, state)
        if chosen == 0:
            left = np.int64(board.empty_count)
            while left > 0:
                state = next_random(state)
                i = below(state, left)
                p = np.int64(board.empties[U(i)])
                around = np.int64(board.around[U(p)]) & 15
                if around >= 2:
                    if p != board.ko:
                        chosen = p
                        break
                elif not is_eye(board, p, colour) and is_legal(board, p, colour):
                    if not _chance(state, SELF_ATARI) or not is_self_atari(board, p, colour):
                        chosen = p
                        break
                left -= 1
                other = board.empties[U(left)]
                board.empties[U(i)] = other
                board.place[U(other)] = i
                board.empties[U(left)] = p
                board.place[U(p)] = left
        taken = np.int64(0)
        if chosen:
            before = np.int64(board.empty_count)
            place(board, chosen, colour, False)
            taken = np.int64(board.empty_count) - before + 1
            if when[U(chosen)] == 0:
                when[U(chosen)] = 2 * (time + moves) + colour - 1
            passes = 0
        else:
            board.ko = 0
            passes += 1
        last = chosen
        colour = 3 - colour
        moves += 1
        if taken and abs(board.stones[1] - board.stones[2]) > lead:
            break
    return area_score(board), moves, state


@kernel
def run_playouts(boards, colour, count, seed, margins):
    """Write Black's margins of ``count`` playouts from ``boards[0]``; ``boards[1]`` is scratch. Returns their moves."""
    state = seeded(seed)
    when = np.zeros(CELLS, np.uint16)
    total = 0
    for i in range(count):
        boards[1] = boards[0]
        margins[i], moves, state = answering_playout(boards[1], colour, 0, state, when, 1)
        total += moves
    return total
