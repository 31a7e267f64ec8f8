"""Compiled ladder reading: whether a chase with a single liberty at each turn ends in a capture."""

from __future__ import annotations

import numpy as np

from arena.go import kernels
from arena.go.jit import inlined, kernel
from arena.go.kernels import EDGE, NEIGHBOURS, WIDTH, U, first_liberties, is_legal, last_liberty, move_of, play

# A group escapes a chase of more moves than DEPTH, or one whose search tries more ataris than EFFORT.
DEPTH = 160
EFFORT = 400
KATAGO_EFFORT = 10_000
_REPLIES = 24


# Functions take ``boards[1:]``, not an index: Numba would compile a function again for each constant.


@kernel
def try_move(boards, p, colour):
    """Write the position after a legal move on ``boards[0]`` to ``boards[1]``."""
    boards[1] = boards[0]
    play(boards[1], p, colour)


@kernel
def _replies(board, stone, replies):
    """Write the moves that may save a group in atari to ``replies``, and return their number: its last liberty, and
    captures around it."""
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
    """Whether a group whose two liberties, ``ataris``, are both kos is lost all the same: connecting either ko gains no
    liberty and there is nothing to capture (KataGo's board.cpp, searchIsLadderCaptured)."""
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
def is_caught(boards, stone, katago=None):
    """Whether the group of ``stone``, in atari on ``boards[0]`` with its side to move, is lost: a depth-first search of
    every reply and both ataris. ``boards[1:]`` are scratch, one board for each move. Unless ``katago`` is None, read as
    KataGo does: the group may retake a ko at once, and escapes when the chase takes a ko, unless
    ``_is_double_ko_death``."""
    most = EFFORT if katago is None else KATAGO_EFFORT
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
                if not retakes or kernels.is_suicide(boards[before], reply, defender):
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
def catches(boards, stone, p, other, katago=None):
    """Whether a ladder that begins at ``p`` catches the group of ``stone``, whose liberties on ``boards[0]`` are ``p``
    and ``other``. ``katago`` as in ``is_caught``."""
    board, attacker = boards[0], 3 - np.int64(boards[0].colour[U(stone)])
    if _gets_away(board, other, p) or not is_legal(board, p, attacker):
        return False
    try_move(boards, p, attacker)
    return is_caught(boards[1:], stone, katago)


@kernel
def find_ladders(boards, stone, table, plane, katago=None):
    """Write 1 to ``plane`` (n²,), turned by ``table``, or (0,) if only the result matters, for each move that begins a
    ladder which catches the group of ``stone``, with two liberties on ``boards[0]``; returns whether there is one.
    ``katago`` as in ``is_caught``."""
    _, first, second, _ = first_liberties(boards[0], stone, 3)
    found = False
    for p, other in ((first, second), (second, first)):
        if (plane.shape[0] or not found) and catches(boards, stone, p, other, katago):
            found = True
            if plane.shape[0]:
                plane[table[move_of(boards[0], p)]] = 1
    return found


@kernel
def _is_saved(boards, p, stone, colour):
    """Whether no ladder catches the group of ``stone`` after ``colour`` plays ``p``."""
    try_move(boards, p, colour)
    liberties, first, second, _ = first_liberties(boards[1], stone, 3)
    if liberties != 2:
        return liberties > 2
    return not (catches(boards[1:], stone, first, second) or catches(boards[1:], stone, second, first))


@kernel
def find_rescues(boards, stone, table, plane):
    """Write 1 to ``plane`` (n²,), turned by ``table``, for each extension or capture that saves the group of ``stone``,
    in atari on ``boards[0]``, from every ladder; returns whether there is one."""
    board = boards[0]
    colour = np.int64(board.colour[U(stone)])
    replies = np.empty(_REPLIES, np.int64)
    found = False
    for i in range(_replies(board, stone, replies)):
        if is_legal(board, replies[i], colour) and _is_saved(boards, replies[i], stone, colour):
            plane[table[move_of(board, replies[i])]] = 1
            found = True
    return found
