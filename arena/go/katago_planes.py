"""KataGo's inputs of version 7 (Wu 2019, "Accelerating self-play learning in Go", appendix A; nninputs.cpp)."""

from __future__ import annotations

import numpy as np

from arena.go import kernels
from arena.go.alive import mark_alive
from arena.go.jit import inlined, kernel
from arena.go.kernels import AREA_SCORED, BOARD, CELLS, HAS_SUICIDE, HAS_SUPERKO, U, mark_group, point_of
from arena.go.ladders import DEPTH, find_ladders, is_caught

SPATIAL = 22  # planes that differ from point to point; a constant plane for each number follows
TURNS = 5  # the last moves that a net sees
FILTER = 2048  # entries of the filter of hashes, a power of 2
_LONGEST_KOMI = 20.0  # points by which komi may exceed the board's area


@kernel
def play_earlier(earlier, moves, colour, hashes):
    """Play ``moves`` from ``earlier[0]``, ``colour`` first, and make ``earlier`` (2,) the positions one and two moves
    before their end. The hashes of the positions before each move go to ``hashes``, unless it is empty."""
    board = earlier[0]
    for i in range(moves.shape[0]):
        if hashes.shape[0]:
            hashes[i] = board.hash
        if i == moves.shape[0] - 1:
            return
        if i == moves.shape[0] - 2:
            earlier[1] = board
        kernels.play_move(board, np.int64(moves[i]), colour)
        colour = 3 - colour


@kernel
def mark_superko(positions, i, hashes, count):
    """Write 1 to ``positions.banned[i]`` for moves that only superko forbids. ``hashes[:count]`` are the hashes of all
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
        if kernels.illegal_reason(board, p, colour, rules & HAS_SUICIDE != 0) == kernels.LEGAL:
            after = kernels.hash_after(board, p, colour)
            if known[after & U(FILTER - 1)] and kernels.repeats(hashes, count, after) >= 0:
                banned[p] = 1


@inlined
def _visible_turns(recent, passing):
    """How many of the last moves a net sees; after two passes in a row, only those from the second pass on."""
    for age in range(TURNS):
        if recent[age] < 0:
            return age
        if recent[age] == passing and recent[age + 1] == passing:
            return age + 1
    return TURNS


@kernel
def _mark_ladders(boards, liberties, table, chaser, plane, starts):
    """Mark the groups of ``boards[0]`` that a ladder catches in ``plane``, and in ``starts`` the moves of ``chaser``
    that begin a ladder; a ``chaser`` of 0 has none."""
    board = boards[0]
    for move in range(np.int64(board.side) * np.int64(board.side)):
        p = point_of(board, move)
        there = np.int64(board.colour[U(p)])
        if there == 0 or np.int64(board.head[U(p)]) != p:
            continue
        caught = False
        if liberties[U(p)] == 1:
            caught = is_caught(boards, p, True)
        elif liberties[U(p)] == 2:
            caught = find_ladders(boards, p, table, starts if there == 3 - chaser else starts[:0], True)
        if caught:
            mark_group(board, p, table, plane)


@kernel
def _write_area(boards, i, colour, suicide, table, out):
    """Write the area of the side to move to ``out[0]`` and that of the other side to ``out[1]``: pass-alive stones and
    territory first, all other points by Tromp-Taylor area."""
    owners, marks = np.empty(out.shape[1], np.uint8), np.zeros((2, CELLS), np.uint8)
    kernels.owner_map(boards, i, owners)
    for side in range(2):
        mark_alive(boards[i], side + 1, suicide, marks[side])
    for move in range(out.shape[1]):
        p = U(point_of(boards[i], move))
        owner = 1 if marks[0, p] else 2 if marks[1, p] else np.int64(owners[move])
        if owner:
            out[int(owner != colour), table[move]] = 1


@inlined
def _parity_wave(komi, points):
    """A triangle wave of the distance of komi (for the side to move) from the nearest one that allows a draw."""
    odd = points % 2
    delta = komi - (2 * np.floor((komi - odd) / 2) + odd)
    return delta if delta < 0.5 else 1 - delta if delta < 1.5 else delta - 2


@kernel
def katago_22(positions, count, tables, planes):
    """katago-22: 0 ones; 1 own stones, 2 theirs; 3-5 groups with 1, 2, 3 liberties; 6 moves that ko or superko forbids;
    9-13 the last five moves; 14-16 groups that a ladder catches now, one and two moves ago; 17 moves that begin a
    ladder on a group of theirs; 18 own area, 19 theirs, by area scoring. Then numbers, each as a plane: 22-26 whether
    the last five moves were passes; 27 komi / 20 of the side to move; 28-29 superko; 30 suicide; 31 territory scoring;
    36 the last move was a pass; 40 the parity of komi. The other planes are for rules that arena doesn't have."""
    points = planes.shape[2]
    boards, liberties, unused = np.empty(DEPTH, BOARD), np.empty(CELLS, np.int32), np.empty(0, np.float32)
    for i in range(count):
        boards[0] = positions.boards[i]
        board, colour, table, out = boards[0], positions.colours[i], tables[positions.symmetries[i]], planes[i]
        rules, recent, banned = positions.rules[i], positions.recent[i], positions.banned[i]
        out[:] = 0
        out[0] = np.float32(1)
        kernels.group_liberties(board, liberties)
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
                kernels.group_liberties(boards[0], liberties)
                _mark_ladders(boards, liberties, table, 0, out[14 + age], unused)
            else:
                out[14 + age] = out[13 + age]
        board = positions.boards[i]
        komi = positions.komis[i]
        if rules & AREA_SCORED:
            _write_area(positions.boards, i, colour, rules & HAS_SUICIDE != 0, table, out[18:20])
        else:
            komi += kernels.placed_score(board)
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
