"""Playouts that answer: captures, escapes from atari, vital points and 3x3 patterns beside the last move.

After MoGo (Gelly, Wang, Munos and Teytaud 2006, section 3), which has no vital points. Uniform playouts are in
``arena.go.kernels``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from arena.go.jit import inlined, kernel
from arena.go.kernels import WIDTH, U, area_score, below, is_eye, is_legal, longest_playout, next_random, place, seeded
from arena.go.tactics import is_self_atari, is_shape, last_liberty


class Habits(NamedTuple):
    """In how many of 256 cases each rule of a playout is followed, and what ends it early."""

    atari: int = 230  # capture, or save from atari, beside the last move
    nakade: int = 0  # after a capture, play the vital point of the eye space that it left; not shown to pay
    pattern: int = 243  # play one of the shapes beside the last move
    self_atari: int = 230  # elsewhere, put no stone into atari
    mercy: int = 3  # end it when a side is ahead by more than one in so many points of the board in stones; 0 never


HABITS = Habits()

EYE_SPACE = 6
"""The most points of an eye space with a vital point."""


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


@inlined
def vital_point(board, start, colour, region):
    """The vital point of the eye space of ``colour`` that the empty point ``start`` is in; 0 when there is none.

    Three points in a row or a corner, four around one, five as a cross or bulky, six as a rabbit. ``region``
    (EYE_SPACE,) is scratch.
    """
    other = 3 - colour
    region[0] = start
    count = 1
    done = 0
    borders = 0  # counted from both sides
    most = np.int64(0)
    best = np.int64(0)
    while done < count:
        p = np.int64(region[done])
        done += 1
        degree = np.int64(board.around[U(p)]) & 15
        borders += degree
        if degree > most:
            most = degree
            best = p
        for step in (-WIDTH, np.int64(-1), np.int64(1), WIDTH):
            q = p + step
            there = np.int64(board.colour[U(q)])
            if there == other:
                return np.int64(0)
            if there == 0:
                known = False
                for i in range(count):
                    known = known or region[i] == q
                if not known:
                    if count == EYE_SPACE:
                        return np.int64(0)
                    region[count] = q
                    count += 1
    vital = (
        count == 3
        or (count == 4 and most == 3)
        or (count == 5 and (most == 4 or (most == 3 and borders == 10)))
        or (count == 6 and most == 4 and borders == 12)
    )
    return best if vital else np.int64(0)


@inlined
def answer_nakade(board, last, colour, region):
    """The vital point of an eye space beside the opponent's stone ``last`` that the opponent surrounds, or 0."""
    for step in (-WIDTH, np.int64(-1), np.int64(1), WIDTH):
        if board.colour[U(last + step)] == 0:
            vital = vital_point(board, last + step, 3 - colour, region)
            if vital:
                return vital
    return np.int64(0)


@kernel
def answering_playout(board, colour, last, state, when, time, limit, habits=HABITS):
    """Play until both pass, one side is far ahead or ``limit`` moves are made; (Black's margin before komi, moves,
    state).

    ``last`` is the point that was just played, 0 for a pass. Where nobody had played before, ``when`` (CELLS,) gets
    ``2 * time + colour - 1`` of the first stone, ``time`` counting up from the argument.
    """
    passes = 0
    moves = 0
    mercy = board.side * board.side // habits.mercy if habits.mercy else board.side * board.side
    taken = np.int64(2)  # stones that the last move captured; for all one knows, the one before did
    region = np.empty(EYE_SPACE, np.int64)
    while passes < 2 and moves < limit:
        chosen = np.int64(0)
        if last:
            state = next_random(state)
            if _chance(state, habits.atari):
                chosen, state = answer_atari(board, last, colour, state)
            if chosen == 0 and taken > 1 and _chance(state >> np.uint64(18), habits.nakade):
                chosen = answer_nakade(board, last, colour, region)
            if chosen == 0 and _chance(state >> np.uint64(9), habits.pattern):
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
                    if not _chance(state, habits.self_atari) or not is_self_atari(board, p, colour):
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
            place(board, chosen, colour, False, True)
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
        if taken and abs(board.stones[1] - board.stones[2]) > mercy:
            break
    return area_score(board), moves, state


@kernel
def run_answering_playouts(boards, colour, last, count, seed, margins, habits=HABITS):
    """``count`` playouts from ``boards[0]`` (``boards[1]`` is scratch); writes margins, returns the moves played."""
    state = seeded(seed)
    total = 0
    when = np.zeros(boards[0].colour.shape[0], np.uint16)
    for i in range(count):
        boards[1] = boards[0]
        when[:] = 0
        limit = longest_playout(boards[1])
        margin, moves, state = answering_playout(boards[1], colour, last, state, when, 1, limit, habits)
        margins[i] = margin
        total += moves
    return total
