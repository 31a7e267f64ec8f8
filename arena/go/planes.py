"""Encoders: a position as feature planes for a net, each under a frozen name. No nets, no sampling of positions.

An encoder's name is written into every checkpoint, so what it computes never changes: a better one gets a new name.
Adding one is a function beside ``_arena_17``, a line in ``encode`` and an entry in ``ENCODERS``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from arena import CheckpointError
from arena.go.game import Game
from arena.go.jit import inlined, kernel
from arena.go.kernels import BOARD, CELLS, WIDTH, U, clear, move_of, play_any, point_of
from arena.go.moves import symmetry_table

HISTORY = 5
"""How many of the last moves an encoder may see."""

NO_MOVE = -1


@dataclass(frozen=True, slots=True)
class Encoder:
    """A frozen way to write a position as ``planes`` planes of n x n float32, seen by the side to move."""

    name: str
    number: int
    planes: int


ENCODERS = {encoder.name: encoder for encoder in (Encoder("arena-17", 0, 17),)}


def find_encoder(name: str) -> Encoder:
    """The encoder of this name. Raises CheckpointError."""
    if name not in ENCODERS:
        raise CheckpointError(f"unknown encoder '{name}'; this version has {', '.join(ENCODERS)}")
    return ENCODERS[name]


@inlined
def group_liberties(board, counts):
    """Write to ``counts[head]`` how many different empty points each group has next to it."""
    for p in range(WIDTH * (board.side + 2)):
        counts[p] = 0
    for i in range(board.empty_count):
        p = np.int64(board.empties[U(i)])
        a = np.int64(board.head[U(p - WIDTH)])
        b = np.int64(board.head[U(p - 1)])
        c = np.int64(board.head[U(p + 1)])
        d = np.int64(board.head[U(p + WIDTH)])
        counts[U(a)] += 1
        if b != a:
            counts[U(b)] += 1
        if c != a and c != b:
            counts[U(c)] += 1
        if d != a and d != b and d != c:
            counts[U(d)] += 1


@inlined
def _arena_17(board, colour, recent, komi, table, out):
    """arena-17: 0 own stones, 1 theirs, 2 ones, 3-5 own groups with 1, 2, 3 liberties, 6-8 theirs, 9 simple ko,
    10-14 the last five moves, 15 komi / 15 from the side to move, 16 ones when the last move was a pass."""
    size = np.int64(board.side)
    points = size * size
    counts = np.empty(CELLS, np.int32)
    group_liberties(board, counts)
    signed_komi = np.float32(komi / 15) if colour == 2 else np.float32(-komi / 15)
    passed = np.float32(1) if recent[0] == points else np.float32(0)
    for plane in range(17):
        fill = np.float32(0)
        if plane == 2:
            fill = np.float32(1)
        elif plane == 15:
            fill = signed_komi
        elif plane == 16:
            fill = passed
        for i in range(points):
            out[plane, i] = fill
    for move in range(points):
        p = point_of(board, move)
        there = np.int64(board.colour[U(p)])
        if there:
            at = table[move]
            theirs = int(there != colour)
            out[theirs, at] = 1
            liberties = counts[U(board.head[U(p)])]
            if liberties <= 3:
                out[3 + 3 * theirs + liberties - 1, at] = 1
    if board.ko:
        out[9, table[move_of(board, board.ko)]] = 1
    for age in range(HISTORY):
        if 0 <= recent[age] < points:
            out[10 + age, table[recent[age]]] = 1


@inlined
def encode(number, board, colour, recent, komi, table, out):
    """Write one position to ``out`` (planes, size²) with encoder ``number``.

    ``recent`` are the last ``HISTORY`` moves, the latest first, NO_MOVE where there was none; ``komi`` is White's;
    ``table`` (size² + 1) is a row of ``symmetry_table``: where each point is written.
    """
    if number == 0:
        _arena_17(board, colour, recent, komi, table, out)


@kernel
def _encode_board(number, boards, colour, recent, komi, table, out):
    encode(number, boards[0], colour, recent, komi, table, out)


def encode_game(encoder: Encoder, game: Game, symmetry: int = 0) -> np.ndarray:
    """The planes of a game's present position for the side to move; (planes, n, n) float32."""
    size = game.rules.size
    recent = np.full(HISTORY, NO_MOVE, np.int64)
    last = game.moves[: -HISTORY - 1 : -1]
    recent[: len(last)] = last
    out = np.empty((encoder.planes, size * size), np.float32)
    table = symmetry_table(size)[symmetry]
    _encode_board(encoder.number, game.board.array, int(game.to_play), recent, game.rules.komi, table, out)
    return out.reshape(encoder.planes, size, size)


@kernel
def encode_rows(number, size, moves, starts, komis, games, plies, symmetries, tables, planes, targets):
    """Training rows straight from move lists: the position before ply ``plies[i]`` of game ``games[i]``.

    Game ``g`` is ``moves[starts[g]:starts[g + 1]]``, Black first, no setup stones. Writes ``planes`` (rows, planes,
    size²) and ``targets`` (rows,), both under symmetry ``symmetries[i]`` of ``tables`` (8, size² + 1).
    """
    boards = np.empty(1, BOARD)
    recent = np.empty(HISTORY, np.int64)
    passing = size * size
    for row in range(games.shape[0]):
        board = boards[0]
        clear(board, size)
        start = starts[games[row]]
        ply = np.int64(plies[row])
        colour = 1
        for i in range(start, start + ply):
            move = np.int64(moves[i])
            if move == passing:
                board.ko = 0
            else:
                play_any(board, point_of(board, move), colour)
            colour = 3 - colour
        for age in range(HISTORY):
            recent[age] = np.int64(moves[start + ply - 1 - age]) if age < ply else NO_MOVE
        table = tables[symmetries[row]]
        encode(number, board, colour, recent, komis[games[row]], table, planes[row])
        targets[row] = table[np.int64(moves[start + ply])]
