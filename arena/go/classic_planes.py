"""Encoders from the literature, for comparison: after Trencseni, GoCNN and AlphaGo."""

from __future__ import annotations

import numpy as np

from arena.go import kernels
from arena.go.jit import kernel
from arena.go.kernels import U
from arena.go.ladders import DEPTH, find_ladders, find_rescues, try_move


@kernel
def stones_1(positions, count, tables, planes):
    """stones-1 (Trencseni 2019; the simplest of dlgo's): 1 where the side to move has a stone, -1 where the other."""
    for i in range(count):
        board, colour, table = positions.boards[i], positions.colours[i], tables[positions.symmetries[i]]
        for move in range(planes.shape[2]):
            there = np.int64(board.colour[U(kernels.point_of(board, move))])
            planes[i, 0, table[move]] = 0 if there == 0 else 1 if there == colour else -1


@kernel
def gocnn_8c(positions, count, tables, planes):
    """gocnn-8c (GoCNN for 9x9, github.com/godmoves/GoCNN; Gilmer's has ones in 7): 0-2 own stones of groups with 1, 2
    and more liberties, 3-5 theirs, 6 ko, 7 ones if Black is to move."""
    liberties = np.empty(kernels.CELLS, np.int32)
    for i in range(count):
        board, colour, table = positions.boards[i], positions.colours[i], tables[positions.symmetries[i]]
        out = planes[i]
        out[:] = 0
        out[7] = np.float32(positions.colours[i] == 1)
        kernels.group_liberties(board, liberties)
        for move in range(planes.shape[2]):
            p = kernels.point_of(board, move)
            there = np.int64(board.colour[U(p)])
            if there:
                out[3 * int(there != colour) + min(liberties[U(board.head[U(p)])], 3) - 1, table[move]] = 1
        if board.ko:
            out[6, table[kernels.move_of(board, board.ko)]] = 1


@kernel
def alphago_48(positions, count, tables, planes):
    """alphago-48 (Silver et al. 2016, Extended Data Table 2): 0-2 own, other's, empty; 3 ones; 4-11 turns since a stone
    was played, 1 to 8 or more; 12-19 liberties of its group, 1 to 8 or more. Of legal moves: 20-27 captured stones, 0
    to 7 or more; 28-35 own stones in self-atari, 1 to 8 or more; 36-43 liberties after the move, 1 to 8 or more; 44
    captures in a ladder; 45 escapes from a ladder; 46 fills no own eye. 47 zeros."""
    boards, liberties = np.empty(DEPTH, kernels.BOARD), np.empty(kernels.CELLS, np.int32)
    for i in range(count):
        boards[0] = positions.boards[i]
        board, after, table, out = boards[0], boards[1], tables[positions.symmetries[i]], planes[i]
        colour, recent = positions.colours[i], positions.recent[i]
        other = 3 - colour
        out[:] = 0
        out[3] = np.float32(1)
        kernels.group_liberties(board, liberties)
        for move in range(planes.shape[2]):
            p = kernels.point_of(board, move)
            at = table[move]
            there = np.int64(board.colour[U(p)])
            if there:
                out[0 if there == colour else 1, at] = 1
                age = np.int64(7)
                for turn in range(6, -1, -1):
                    if recent[turn] == move:
                        age = turn
                out[4 + age, at] = 1
                open_points = liberties[U(board.head[U(p)])]
                out[12 + min(open_points, 8) - 1, at] = 1
                if there == other and board.head[U(p)] == p and open_points == 2:
                    find_ladders(boards, p, table, out[44])
                elif there == colour and board.head[U(p)] == p and open_points == 1:
                    find_rescues(boards, p, table, out[45])
                continue
            out[2, at] = 1
            if not kernels.is_legal(board, p, colour):
                continue
            try_move(boards, p, colour)
            captured = np.int64(board.stones[U(other)]) - np.int64(after.stones[U(other)])
            out[20 + min(captured, 7), at] = 1
            left = kernels.count_liberties(after, p, 8)
            if left == 1:
                _, _, _, stones = kernels.first_liberties(after, p, 2)
                out[28 + min(stones, 8) - 1, at] = 1
            out[36 + left - 1, at] = 1
            if not kernels.is_eye(board, p, colour):
                out[46, at] = 1
