"""Compiled ladder reading: whether a chase with a single liberty at each turn ends in a capture."""

from __future__ import annotations

import numpy as np

from arena.go.jit import kernel
from arena.go.kernels import NEIGHBOURS, U, first_liberties, is_legal, last_liberty, move_of, play

# A chase that is longer, in moves, or needs more ataris to be looked at counts as an escape.
DEPTH = 160
EFFORT = 400
_REPLIES = 24


@kernel
def try_move(boards, before, after, p, colour):
    """Make ``boards[after]`` what ``boards[before]`` is after a legal move."""
    boards[after] = boards[before]
    play(boards[after], p, colour)


@kernel
def _replies(boards, index, stone, replies):
    """How a group in atari may try to live, written to ``replies``: its last liberty, captures around it; the count."""
    board = boards[index]
    other = 3 - np.int64(board.colour[U(stone)])
    replies[0] = last_liberty(board, np.int64(board.head[U(stone)]))
    count = 1
    p = np.int64(stone)
    while True:
        for step in NEIGHBOURS:
            q = p + step
            if board.colour[U(q)] == other:
                capture = last_liberty(board, np.int64(board.head[U(q)]))
                known = capture == 0 or count == _REPLIES
                for i in range(count):
                    known = known or replies[i] == capture
                if not known:
                    replies[count] = capture
                    count += 1
        p = np.int64(board.next[U(p)])
        if p == stone:
            return count


@kernel
def is_caught(boards, first, stone):
    """Whether the group of ``stone``, which is in atari on ``boards[first]`` and whose side is to move, is lost: a
    search in depth, every reply and both ataris tried. The boards behind are room for its positions, in turn."""
    levels = (boards.shape[0] - first) // 2
    replies = np.empty((levels, _REPLIES), np.int64)
    count = np.zeros(levels, np.int64)
    tried = np.zeros(levels, np.int64)  # replies
    ataris = np.empty((levels, 2), np.int64)
    atari = np.full(levels, -1)  # the next of the ataris on the last reply, -1 without one that matters
    defender = np.int64(boards[first].colour[U(stone)])
    count[0] = _replies(boards, first, stone, replies[0])
    level = 0
    effort = 0
    while True:
        before, after = first + 2 * level, first + 2 * level + 1
        if atari[level] < 0:
            if tried[level] == count[level]:  # no reply helps
                if level == 0:
                    return True
                level -= 1
                atari[level] = -1
                continue
            reply = replies[level, tried[level]]
            tried[level] += 1
            if not is_legal(boards[before], reply, defender):
                continue
            try_move(boards, before, after, reply, defender)
            liberties, ataris[level, 0], ataris[level, 1], _ = first_liberties(boards[after], stone, 3)
            if liberties < 2:
                continue
            if liberties == 2:
                atari[level] = 0
                continue
        elif atari[level] < 2:
            q = ataris[level, atari[level]]
            atari[level] += 1
            if is_legal(boards[after], q, 3 - defender):
                level += 1
                effort += 1
                if level == levels or after + 2 >= boards.shape[0] or effort > EFFORT:
                    return False
                try_move(boards, after, after + 1, q, 3 - defender)
                count[level] = _replies(boards, after + 1, stone, replies[level])
                tried[level] = 0
                atari[level] = -1
            continue
        if level == 0:  # a reply that no atari answers
            return False
        level -= 1


@kernel
def captures_in_ladder(boards, p, colour):
    """Whether ``colour`` playing the legal point ``p`` of ``boards[0]`` takes a group from two liberties to none."""
    for step in NEIGHBOURS:
        q = p + step
        if boards[0].colour[U(q)] == 3 - colour and first_liberties(boards[0], q, 3)[0] == 2:
            try_move(boards, 0, 1, p, colour)
            if is_caught(boards, 1, q):
                return True
    return False


@kernel
def _is_saved(boards, p, stone, colour):
    """Whether the group of ``stone`` can't be chased down after ``colour`` plays ``p``."""
    try_move(boards, 0, 1, p, colour)
    liberties, first, second, _ = first_liberties(boards[1], stone, 3)
    if liberties < 2:
        return False
    if liberties == 2:
        for q in (first, second):
            if is_legal(boards[1], q, 3 - colour):
                try_move(boards, 1, 2, q, 3 - colour)
                if is_caught(boards, 2, stone):
                    return False
    return True


@kernel
def escapes_a_ladder(boards, p, colour):
    """Whether ``colour`` playing the legal point ``p`` of ``boards[0]``, by extending or capturing there, saves a group
    in atari from being chased down."""
    for step in NEIGHBOURS:
        q = p + step
        there = np.int64(boards[0].colour[U(q)])
        if there == colour and last_liberty(boards[0], np.int64(boards[0].head[U(q)])) == p:
            if _is_saved(boards, p, q, colour):
                return True
        elif there == 3 - colour and last_liberty(boards[0], np.int64(boards[0].head[U(q)])) == p:
            stone = q  # capturing this group saves those of ours in atari that it touches
            while True:
                for other in NEIGHBOURS:
                    r = stone + other
                    if boards[0].colour[U(r)] == colour and last_liberty(boards[0], np.int64(boards[0].head[U(r)])):
                        if _is_saved(boards, p, r, colour):
                            return True
                stone = np.int64(boards[0].next[U(stone)])
                if stone == q:
                    break
    return False


@kernel
def find_rescues(boards, stone, table, plane):
    """Write 1 to ``plane`` (n²,), turned by ``table``, for each move by which the group of ``stone``, in atari on
    ``boards[0]``, can't be chased down; returns whether there is one."""
    board = boards[0]
    colour = np.int64(board.colour[U(stone)])
    replies = np.empty(_REPLIES, np.int64)
    found = False
    for i in range(_replies(boards, 0, stone, replies)):
        if is_legal(board, replies[i], colour) and _is_saved(boards, replies[i], stone, colour):
            plane[table[move_of(board, replies[i])]] = 1
            found = True
    return found
