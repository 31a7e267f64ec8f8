"""Compiled ladder reading: whether a chase with a single liberty at each turn ends in a capture."""

from __future__ import annotations

import numpy as np

from arena.go.jit import inlined, kernel
from arena.go.kernels import (
    EDGE,
    NEIGHBOURS,
    WIDTH,
    U,
    first_liberties,
    is_legal,
    is_suicide,
    last_liberty,
    move_of,
    play,
)

# A chase that is longer, in moves, or needs more ataris to be looked at counts as an escape.
DEPTH = 160
EFFORT = 400
KATAGO_EFFORT = 10_000
_REPLIES = 24


# Boards are handed over as ``boards[1:]``, not by an index: Numba would compile a function again for each constant.


@kernel
def try_move(boards, p, colour):
    """Make ``boards[1]`` what ``boards[0]`` is after a legal move."""
    boards[1] = boards[0]
    play(boards[1], p, colour)


@kernel
def _replies(board, stone, replies):
    """How a group in atari may try to live, written to ``replies``: its last liberty, captures around it; the count."""
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


@inlined
def _gets_away(board, p, filled):
    """Whether an extension to ``p`` alone gives three liberties once the point ``filled`` (0 for none) is taken."""
    apart = p - filled
    return np.int64(board.around[U(p)] & 15) - int(abs(apart) == 1 or abs(apart) == WIDTH) > 2


@inlined
def is_caught(boards, stone):
    """Whether the group of ``stone``, which is in atari on ``boards[0]`` and whose side is to move, is lost: a search
    in depth, every reply and both ataris tried. The boards behind are room for its positions, in turn."""
    return _chase(boards, stone, np.int64(EFFORT), None)


@inlined
def is_laddered(boards, stone):
    """``is_caught`` as KataGo reads: kos work for the group, except that two of them don't save it."""
    return _chase(boards, stone, np.int64(KATAGO_EFFORT), True)


@kernel
def catches(boards, stone, p, other):
    """Whether a ladder that begins at ``p`` catches the group of ``stone``, which has the liberties ``p`` and ``other``
    on ``boards[0]``, as KataGo reads."""
    board, attacker = boards[0], 3 - np.int64(boards[0].colour[U(stone)])
    if _gets_away(board, other, p) or not is_legal(board, p, attacker):
        return False
    try_move(boards, p, attacker)
    return is_laddered(boards[1:], stone)


@inlined
def _takes_ko(board, p, colour):
    """Whether ``colour`` at the empty point ``p``, surrounded by the other side, captures a single stone."""
    captured = 0
    for step in NEIGHBOURS:
        q = U(p + step)
        if board.colour[q] == EDGE:
            continue
        if board.colour[q] != 3 - colour:
            return False
        if last_liberty(board, np.int64(board.head[q])):
            if board.next[q] != q:
                return False
            captured += 1
    return captured == 1


@kernel
def _is_double_ko_death(boards, stone, ataris):
    """Whether two kos, at both ``ataris`` of a group with two liberties, leave it no way out: connecting either gains
    nothing and there is nothing to capture (as in KataGo's board.cpp, searchIsLadderCaptured)."""
    board = boards[0]
    defender = np.int64(board.colour[U(stone)])
    for p in ataris:
        if not _takes_ko(board, p, 3 - defender):
            return False
    if boards.shape[0] == 1 or _replies(board, stone, np.empty(_REPLIES, np.int64)) > 1:
        return False
    for p in ataris:
        try_move(boards, p, defender)
        if first_liberties(boards[1], p, 3)[0] > 2:
            return False
    return True


@kernel
def _chase(boards, stone, most, katago):
    """What ``is_caught`` promises, with at most ``most`` ataris. Unless ``katago`` is None, the group may retake a ko
    at once and gets away where the chase takes one, but for ``_is_double_ko_death``."""
    if _gets_away(boards[0], last_liberty(boards[0], np.int64(boards[0].head[U(stone)])), np.int64(0)):
        return False
    levels = boards.shape[0] // 2
    replies = np.empty((levels, _REPLIES), np.int64)
    count = np.empty(levels, np.int64)
    tried = np.empty(levels, np.int64)  # replies
    ataris = np.empty((levels, 2), np.int64)
    atari = np.empty(levels, np.int64)  # the next of the ataris on the last reply, -1 without one that matters
    defender = np.int64(boards[0].colour[U(stone)])
    count[0], tried[0], atari[0] = _replies(boards[0], stone, replies[0]), 0, -1
    level = np.int64(0)
    effort = 0
    while True:
        before, after = 2 * level, 2 * level + 1
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
                retakes = katago is not None and level == 0 and reply == boards[before].ko
                if not retakes or is_suicide(boards[before], reply, defender):
                    continue
            if tried[level] > 1 or not _gets_away(boards[before], reply, np.int64(0)):
                try_move(boards[before:], reply, defender)
                liberties, ataris[level, 0], ataris[level, 1], _ = first_liberties(boards[after], stone, 3)
                if liberties < 2:
                    continue
                if liberties == 2:
                    if katago is not None:
                        if _is_double_ko_death(boards[after:], stone, ataris[level]):
                            continue
                    atari[level] = 0
                    continue
        elif atari[level] < 2:
            q, other = ataris[level, atari[level]], ataris[level, 1 - atari[level]]
            atari[level] += 1
            if is_legal(boards[after], q, 3 - defender):
                effort += 1
                if level + 1 == levels or after + 2 >= boards.shape[0] or effort > most:
                    return False
                if _gets_away(boards[after], other, q):
                    continue
                level += 1
                try_move(boards[after:], q, 3 - defender)
                if katago is not None and boards[after + 1].ko:
                    level -= 1
                    continue
                count[level] = _replies(boards[after + 1], stone, replies[level])
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
            try_move(boards, p, colour)
            if is_caught(boards[1:], q):
                return True
    return False


@kernel
def _is_saved(boards, p, stone, colour):
    """Whether the group of ``stone`` can't be chased down after ``colour`` plays ``p``."""
    try_move(boards, p, colour)
    liberties, first, second, _ = first_liberties(boards[1], stone, 3)
    if liberties < 2:
        return False
    if liberties == 2:
        for q in (first, second):
            if is_legal(boards[1], q, 3 - colour):
                try_move(boards[1:], q, 3 - colour)
                if is_caught(boards[2:], stone):
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
    for i in range(_replies(board, stone, replies)):
        if is_legal(board, replies[i], colour) and _is_saved(boards, replies[i], stone, colour):
            plane[table[move_of(board, replies[i])]] = 1
            found = True
    return found
