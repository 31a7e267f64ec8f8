"""Encoders: positions as feature planes for a net, each under a frozen name. No nets, no sampling of positions.

An encoder's name is written into every checkpoint, so what it computes never changes: a better one gets a new name.
Adding one is a kernel like ``arena_17`` and an entry in ``ENCODERS``. A kernel is compiled when it is first asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from arena import CheckpointError
from arena.go.game import Game
from arena.go.jit import inlined, kernel
from arena.go.kernels import (
    BOARD,
    CELLS,
    WIDTH,
    U,
    clear,
    count_liberties,
    is_eye,
    is_legal,
    move_of,
    owner_map,
    play_any,
    point_of,
)
from arena.go.ladders import DEPTH, captures_in_ladder, escapes_a_ladder, try_move
from arena.go.moves import symmetry_table

HISTORY = 8
"""How many of the last moves an encoder may see."""

NO_MOVE = -1


class Positions(NamedTuple):
    """Positions to encode, as kernels take them."""

    boards: np.ndarray  # (B,) BOARD
    colours: np.ndarray  # (B,) int64: who is to move
    recent: np.ndarray  # (B, HISTORY) int64: the last moves, the latest first; NO_MOVE where there was none
    komis: np.ndarray  # (B,) float64: White's
    symmetries: np.ndarray  # (B,) int64: how the planes are turned, a row of ``symmetry_table``

    @classmethod
    def empty(cls, count: int) -> Positions:
        recent, komis = np.zeros((count, HISTORY), np.int64), np.zeros(count, np.float64)
        return cls(np.zeros(count, BOARD), np.zeros(count, np.int64), recent, komis, np.zeros(count, np.int64))


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
def _clear(planes):
    """No planes yet."""
    for plane in range(planes.shape[0]):
        for i in range(planes.shape[1]):
            planes[plane, i] = 0


@inlined
def _fill(planes, number, value):
    for i in range(planes.shape[1]):
        planes[number, i] = value


@kernel
def stones_1(positions, count, tables, planes):
    """stones-1 (Trencseni 2019; the simplest of dlgo's): 1 where the side to move has a stone, -1 where the other."""
    for i in range(count):
        board, colour, table = positions.boards[i], positions.colours[i], tables[positions.symmetries[i]]
        for move in range(planes.shape[2]):
            there = np.int64(board.colour[U(point_of(board, move))])
            planes[i, 0, table[move]] = 0 if there == 0 else 1 if there == colour else -1


@kernel
def gocnn_8(positions, count, tables, planes):
    """gocnn-8 (Gilmer's GoCNN): 0-2 own stones of groups with 1, 2 and more liberties, 3-5 theirs, 6 ko, 7 ones."""
    liberties = np.empty(CELLS, np.int32)
    for i in range(count):
        board, colour, table = positions.boards[i], positions.colours[i], tables[positions.symmetries[i]]
        out = planes[i]
        _clear(out)
        _fill(out, 7, np.float32(1))
        group_liberties(board, liberties)
        for move in range(planes.shape[2]):
            p = point_of(board, move)
            there = np.int64(board.colour[U(p)])
            if there:
                out[3 * int(there != colour) + min(liberties[U(board.head[U(p)])], 3) - 1, table[move]] = 1
        if board.ko:
            out[6, table[move_of(board, board.ko)]] = 1


@kernel
def arena_17(positions, count, tables, planes):
    """arena-17: 0 own stones, 1 theirs, 2 ones, 3-5 own groups with 1, 2, 3 liberties, 6-8 theirs, 9 simple ko,
    10-14 the last five moves, 15 komi / 15 from the side to move, 16 ones when the last move was a pass."""
    points = planes.shape[2]
    liberties = np.empty(CELLS, np.int32)
    for i in range(count):
        board, colour, table = positions.boards[i], positions.colours[i], tables[positions.symmetries[i]]
        komi, recent = positions.komis[i], positions.recent[i]
        out = planes[i]
        _clear(out)
        _fill(out, 2, np.float32(1))
        _fill(out, 15, np.float32(komi / 15) if colour == 2 else np.float32(-komi / 15))
        if recent[0] == points:
            _fill(out, 16, np.float32(1))
        group_liberties(board, liberties)
        for move in range(points):
            p = point_of(board, move)
            there = np.int64(board.colour[U(p)])
            if there:
                at = table[move]
                theirs = int(there != colour)
                out[theirs, at] = 1
                count_here = liberties[U(board.head[U(p)])]
                if count_here <= 3:
                    out[3 + 3 * theirs + count_here - 1, at] = 1
        if board.ko:
            out[9, table[move_of(board, board.ko)]] = 1
        for age in range(5):
            if 0 <= recent[age] < points:
                out[10 + age, table[recent[age]]] = 1


@kernel
def _alphago(boards, colour, recent, table, liberties, out):
    """The 48 planes of one position, on ``boards[0]``; the others are room."""
    board = boards[0]
    points = out.shape[1]
    other = 3 - colour
    _clear(out)
    _fill(out, 3, np.float32(1))
    group_liberties(board, liberties)
    for move in range(points):
        p = point_of(board, move)
        at = table[move]
        there = np.int64(board.colour[U(p)])
        if there:
            out[0 if there == colour else 1, at] = 1
            age = np.int64(7)
            for turn in range(6, -1, -1):
                if recent[turn] == move:
                    age = turn
            out[4 + age, at] = 1
            out[12 + min(liberties[U(board.head[U(p)])], 8) - 1, at] = 1
            continue
        out[2, at] = 1
        if not is_legal(board, p, colour):
            continue
        after = boards[1]
        try_move(boards, 0, 1, p, colour)
        captured = np.int64(board.stones[U(other)]) - np.int64(after.stones[U(other)])
        out[20 + min(captured, 7), at] = 1
        left = count_liberties(after, p, 8)
        if left == 1:
            size = 1
            stone = np.int64(after.next[U(p)])
            while stone != p:
                size += 1
                stone = np.int64(after.next[U(stone)])
            out[28 + min(size, 8) - 1, at] = 1
        out[36 + left - 1, at] = 1
        for step in (-WIDTH, np.int64(-1), np.int64(1), WIDTH):
            if liberties[U(board.head[U(p + step)])] <= 2 and board.colour[U(p + step)] != 0:
                if captures_in_ladder(boards, p, colour):
                    out[44, at] = 1
                if escapes_a_ladder(boards, p, colour):
                    out[45, at] = 1
                break
        if not is_eye(board, p, colour):
            out[46, at] = 1


@kernel
def alphago_48(positions, count, tables, planes):
    """alphago-48 (Silver et al. 2016, Extended Data Table 2): 0-2 own, other's, empty; 3 ones; 4-11 turns since a stone
    was played, 1 to 8 or more; 12-19 liberties of its group, 1 to 8 or more; of legal moves 20-27 how many stones they
    capture, 0 to 7 or more, 28-35 the stones they put into atari themselves, 1 to 8 or more, 36-43 the liberties of
    the group they make, 1 to 8 or more, 44 captures in a ladder, 45 escapes from one, 46 fills no own eye; 47 zeros."""
    boards = np.empty(DEPTH, BOARD)
    liberties = np.empty(CELLS, np.int32)
    for i in range(count):
        boards[0] = positions.boards[i]
        table = tables[positions.symmetries[i]]
        _alphago(boards, positions.colours[i], positions.recent[i], table, liberties, planes[i])


@kernel
def alphago_49(positions, count, tables, planes):
    """alphago-49, for values: alphago-48, and 48 ones when Black is to move."""
    alphago_48(positions, count, tables, planes)
    for i in range(count):
        _fill(planes[i], 48, np.float32(positions.colours[i] == 1))


@dataclass(frozen=True, slots=True)
class Encoder:
    """A frozen way to write a position as ``planes`` planes of n x n float32, seen by the side to move."""

    name: str
    planes: int
    kernel: Callable[[Positions, int, np.ndarray, np.ndarray], None]

    def encode(self, positions: Positions, count: int, planes: np.ndarray) -> None:
        """Write the planes (B, planes, n²) float32 of the first ``count`` of some positions."""
        if count:
            self.kernel(positions, count, symmetry_table(int(positions.boards["side"][0])), planes)


ENCODERS = {
    encoder.name: encoder
    for encoder in (
        Encoder("stones-1", 1, stones_1),
        Encoder("gocnn-8", 8, gocnn_8),
        Encoder("arena-17", 17, arena_17),
        Encoder("alphago-48", 48, alphago_48),
        Encoder("alphago-49", 49, alphago_49),
    )
}


def find_encoder(name: str) -> Encoder:
    """The encoder of this name. Raises CheckpointError."""
    if name not in ENCODERS:
        raise CheckpointError(f"unknown encoder '{name}'; this version has {', '.join(ENCODERS)}")
    return ENCODERS[name]


def encode_game(encoder: Encoder, game: Game, symmetry: int = 0) -> np.ndarray:
    """The planes of a game's present position for the side to move; (planes, n, n) float32."""
    return encode_games(encoder, [game], symmetry)[0]


def encode_games(encoder: Encoder, games: Sequence[Game], symmetry: int = 0) -> np.ndarray:
    """The planes of the present positions of games on boards of one size; (B, planes, n, n) float32."""
    size = games[0].rules.size
    positions = Positions.empty(len(games))
    positions.recent[:] = NO_MOVE
    positions.symmetries[:] = symmetry
    for i, game in enumerate(games):
        positions.boards[i] = game.board.array[0]
        positions.colours[i] = int(game.to_play)
        last = game.moves[: -HISTORY - 1 : -1]
        positions.recent[i, : len(last)] = last
        positions.komis[i] = game.rules.komi
    planes = np.empty((len(games), encoder.planes, size * size), np.float32)
    encoder.encode(positions, len(games), planes)
    return planes.reshape(len(games), encoder.planes, size, size)


@kernel
def _replay(size, moves, starts, komis, games, plies, positions):
    """Write the position before ply ``plies[i]`` of game ``games[i]`` for each i."""
    passing = size * size
    for row in range(games.shape[0]):
        board = positions.boards[row]
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
            positions.recent[row, age] = np.int64(moves[start + ply - 1 - age]) if age < ply else NO_MOVE
        positions.colours[row] = colour
        positions.komis[row] = komis[games[row]]


ROOM = 64
"""Positions that are replayed before they are encoded: as many as stay in the cache."""


def encode_rows(
    encoder: Encoder,
    size: int,
    moves: np.ndarray,
    starts: np.ndarray,
    komis: np.ndarray,
    games: np.ndarray,
    plies: np.ndarray,
    symmetries: np.ndarray,
    threads: int = 1,
) -> np.ndarray:
    """Planes (rows, planes, size²) float32 straight from move lists: the position before ply ``plies[i]`` of game
    ``games[i]``, under symmetry ``symmetries[i]``.

    Game ``g`` is ``moves[starts[g]:starts[g + 1]]``, Black first, no setup stones; ``komis`` is (games,). ``threads``
    share the work and hold no lock of Python.
    """
    planes = np.empty((len(games), encoder.planes, size * size), np.float32)

    def fill(begin: int, end: int) -> None:
        positions = Positions.empty(min(ROOM, end - begin))
        for first in range(begin, end, ROOM):
            part = slice(first, min(first + ROOM, end))
            _replay(size, moves, starts, komis, games[part], plies[part], positions)
            positions.symmetries[: part.stop - first] = symmetries[part]
            encoder.encode(positions, part.stop - first, planes[part])

    bounds = [len(games) * part // threads for part in range(threads + 1)]
    if threads == 1:
        fill(*bounds)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(fill, bounds, bounds[1:]))
    return planes


@kernel
def final_owners(size, moves, starts, owners):
    """Write whose each point is by area where each game of a list (see ``encode_rows``) ends: ``owners`` (games,
    size²) int8, 1 for Black, -1 for White, 0 for neither. No dead stones are taken off."""
    boards = np.empty(1, BOARD)
    areas = np.empty(size * size, np.uint8)
    passing = size * size
    for game in range(starts.shape[0] - 1):
        board = boards[0]
        clear(board, size)
        colour = 1
        for i in range(starts[game], starts[game + 1]):
            move = np.int64(moves[i])
            if move != passing:
                play_any(board, point_of(board, move), colour)
            colour = 3 - colour
        owner_map(boards, 0, areas)
        for point in range(passing):
            owners[game, point] = np.int64(areas[point] == 1) - np.int64(areas[point] == 2)
