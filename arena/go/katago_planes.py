"""KataGo's inputs of version 7 (Wu 2019, "Accelerating self-play learning in Go", appendix A; nninputs.cpp)."""

from __future__ import annotations

import numpy as np

from arena.go.alive import mark_alive
from arena.go.jit import inlined, kernel
from arena.go.kernels import (
    AREA_SCORED,
    BOARD,
    CELLS,
    HAS_SUICIDE,
    HAS_SUPERKO,
    LEGAL,
    U,
    first_liberties,
    group_liberties,
    hash_after,
    illegal_reason,
    mark_group,
    move_of,
    owner_map,
    placed_score,
    play_any,
    point_of,
    repeats,
)
from arena.go.ladders import DEPTH, catches, is_laddered

SPATIAL = 22  # planes that differ from point to point; behind them one for each number
TURNS = 5  # the last moves that a net sees
FILTER = 2048  # a power of 2
_LONGEST_KOMI = 20.0  # points that komi may exceed the board's area by


@inlined
def play_earlier(earlier, moves, colour, hashes):
    """Make ``earlier`` (2,) the positions one and two moves before the end of ``moves``, which begin on its first with
    ``colour``. The hashes of the positions passed go to ``hashes``, if it isn't empty."""
    board = earlier[0]
    for i in range(moves.shape[0]):
        if hashes.shape[0]:
            hashes[i] = board.hash
        if i == moves.shape[0] - 1:
            return
        if i == moves.shape[0] - 2:
            earlier[1] = board
        move = np.int64(moves[i])
        if move == np.int64(board.side) * np.int64(board.side):
            board.ko = 0
        else:
            play_any(board, point_of(board, move), colour)
        colour = 3 - colour


@inlined
def mark_superko(positions, i, hashes, count):
    """Write 1 to ``positions.banned[i]`` where superko alone forbids to play. ``hashes[:count]`` are those of all
    positions, the present one last."""
    board, colour, rules = positions.boards[i], positions.colours[i], positions.rules[i]
    banned = positions.banned[i]
    banned[:] = 0
    if rules & HAS_SUPERKO == 0 or board.prisoners[1] + board.prisoners[2] == 0:  # every move added a stone
        return
    known = np.zeros(FILTER, np.uint8)
    for k in range(count):
        known[hashes[k] & U(FILTER - 1)] = 1
    for k in range(board.empty_count):
        p = np.int64(board.empties[U(k)])
        if illegal_reason(board, p, colour, rules & HAS_SUICIDE != 0) == LEGAL:
            after = hash_after(board, p, colour)
            if known[after & U(FILTER - 1)] and repeats(hashes, count, after) >= 0:
                banned[p] = 1


@inlined
def _visible_turns(recent, passing):
    """How many of the last moves a net sees: none from before the second of two passes."""
    for age in range(TURNS):
        if recent[age] < 0:
            return age
        if recent[age] == passing and recent[age + 1] == passing:
            return age + 1
    return TURNS


@kernel
def _mark_ladders(boards, liberties, table, chaser, plane, starts):
    """Write the groups of ``boards[0]`` that a ladder catches to ``plane``. Moves that begin one on a group of the side
    other than ``chaser`` go to ``starts``; without a chaser (0) nothing does."""
    board = boards[0]
    for move in range(np.int64(board.side) * np.int64(board.side)):
        p = point_of(board, move)
        there = np.int64(board.colour[U(p)])
        if there == 0 or np.int64(board.head[U(p)]) != p:
            continue
        if liberties[U(p)] == 1:
            if is_laddered(boards, p):
                mark_group(board, p, table, plane)
        elif liberties[U(p)] == 2:
            _, first, second, _ = first_liberties(board, p, 3)
            wants_all = there == 3 - chaser
            works = catches(boards, p, first, second)
            if works:
                mark_group(board, p, table, plane)
                if wants_all:
                    starts[table[move_of(board, first)]] = 1
            if (wants_all or not works) and catches(boards, p, second, first):
                mark_group(board, p, table, plane)
                if wants_all:
                    starts[table[move_of(board, second)]] = 1


@kernel
def _write_area(boards, i, colour, suicide, table, out):
    """Write the points of the side to move to ``out[0]`` and those of the other to ``out[1]``: pass-alive stones and
    territory, and else the area as Tromp and Taylor count it."""
    owners, marks = np.empty(out.shape[1], np.uint8), np.zeros((2, CELLS), np.uint8)
    owner_map(boards, i, owners)
    for side in range(2):
        mark_alive(boards[i], side + 1, suicide, marks[side])
    for move in range(out.shape[1]):
        p = U(point_of(boards[i], move))
        owner = 1 if marks[0, p] else 2 if marks[1, p] else np.int64(owners[move])
        if owner:
            out[int(owner != colour), table[move]] = 1


@inlined
def _parity_wave(komi, points):
    """How komi, for the side to move, stands to the nearest at which a game may be drawn, as a triangle wave."""
    odd = points % 2
    delta = komi - (2 * np.floor((komi - odd) / 2) + odd)
    return delta if delta < 0.5 else 1 - delta if delta < 1.5 else delta - 2


@kernel
def katago_22(positions, count, tables, planes):
    """katago-22: 0 ones; 1 own stones, 2 theirs; 3-5 groups with 1, 2, 3 liberties; 6 where ko or superko forbids to
    play; 9-13 the last five moves; 14-16 groups that a ladder catches now, one and two moves ago; 17 moves that begin a
    ladder on a group of theirs; 18 own area, 19 theirs, where area is scored. Then the numbers, each as a plane: 22-26
    whether the last five moves were passes; 27 komi / 20 from the side to move; 28-29 superko; 30 suicide; 31 territory
    scoring; 36 the last move was a pass; 40 the parity of komi. The others are for rules that arena doesn't have."""
    points = planes.shape[2]
    boards, liberties, unused = np.empty(DEPTH, BOARD), np.empty(CELLS, np.int32), np.empty(0, np.float32)
    for i in range(count):
        boards[0] = positions.boards[i]
        board, colour, table, out = boards[0], positions.colours[i], tables[positions.symmetries[i]], planes[i]
        rules, recent, banned = positions.rules[i], positions.recent[i], positions.banned[i]
        out[:] = 0
        out[0] = np.float32(1)
        group_liberties(board, liberties)
        for move in range(points):
            p = point_of(board, move)
            there = np.int64(board.colour[U(p)])
            at = table[move]
            if there:
                out[1 + int(there != colour), at] = 1
                open_points = liberties[U(board.head[U(p)])]
                if open_points <= 3:
                    out[2 + open_points, at] = 1
            elif banned[U(p)] or p == board.ko:
                out[6, at] = 1
        turns = _visible_turns(recent, points)
        for age in range(turns):
            if recent[age] == points:
                out[SPATIAL + age] = np.float32(1)
            else:
                out[9 + age, table[recent[age]]] = 1
        _mark_ladders(boards, liberties, table, colour, out[14], out[17])
        for age in range(1, 3):
            if age <= turns:
                boards[0] = positions.earlier[i, age - 1]
                group_liberties(boards[0], liberties)
                _mark_ladders(boards, liberties, table, 0, out[14 + age], unused)
            else:
                out[14 + age] = out[13 + age]
        board = positions.boards[i]
        komi = positions.komis[i]
        if rules & AREA_SCORED:
            _write_area(positions.boards, i, colour, rules & HAS_SUICIDE != 0, table, out[18:20])
        else:
            komi += placed_score(board)
            out[SPATIAL + 9] = np.float32(1)
        komi = komi if colour == 2 else -komi
        most = points + _LONGEST_KOMI
        komi = max(-most, min(most, komi))
        out[SPATIAL + 5] = np.float32(komi / 20)
        if rules & HAS_SUPERKO:
            out[SPATIAL + 6] = np.float32(1)
            out[SPATIAL + 7] = np.float32(0.5)
        if rules & HAS_SUICIDE:
            out[SPATIAL + 8] = np.float32(1)
        if recent[0] == points:
            out[SPATIAL + 14] = np.float32(1)
        if rules & AREA_SCORED:
            out[SPATIAL + 18] = np.float32(_parity_wave(komi, points))
