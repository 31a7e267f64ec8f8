"""Encoders: positions as feature planes for a net, each under a frozen name.

Every checkpoint names its encoder, so an encoder never changes what it computes; a better one gets a new name. To add
one, write a kernel like ``arena_17`` and an entry in ``ENCODERS``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import isqrt
from typing import NamedTuple

import numpy as np

from arena import CheckpointError
from arena.go import kernels
from arena.go.board import Board
from arena.go.classic_planes import alphago_48, gocnn_8c, stones_1
from arena.go.coords import Colour, symmetry_table
from arena.go.game import Game, Scoring
from arena.go.jit import inlined, kernel
from arena.go.katago_planes import katago_22, mark_superko, play_earlier
from arena.go.kernels import BOARD, CELLS, U, clear, group_liberties, is_legal, mark_group, move_of, play_move, point_of
from arena.go.ladders import DEPTH, find_ladders, find_rescues, try_move
from arena.go.ranks import METADATA, PLAYER_PLANES, UNRANKED, player_planes, sgf_metadata

HISTORY = 8  # how many of the last moves an encoder may see
NO_MOVE = -1
ROOM = 64  # positions that are replayed, then encoded, at a time: they fit the processor's cache


class Positions(NamedTuple):
    """Positions to encode, as kernels take them."""

    boards: np.ndarray  # (B,) BOARD
    colours: np.ndarray  # (B,) int64: the side to move
    recent: np.ndarray  # (B, HISTORY) int64: the last moves, the latest first; NO_MOVE where there was none
    komis: np.ndarray  # (B,) float64: White's
    symmetries: np.ndarray  # (B,) int64: how the planes are turned, a row of ``symmetry_table``
    rules: np.ndarray  # (B,) int64: ``Rules.bits``
    earlier: np.ndarray  # (B, 2) BOARD: the positions one and two moves ago; (0, 2) for encoders without a past
    banned: np.ndarray  # (B, CELLS) uint8: 1 where superko forbids to play; (0, CELLS) for encoders without a past

    @classmethod
    def empty(cls, count: int, has_past: bool = False) -> Positions:
        recent, komis = np.zeros((count, HISTORY), np.int64), np.zeros(count, np.float64)
        symmetries, rules = np.zeros(count, np.int64), np.zeros(count, np.int64)
        past = count if has_past else 0
        earlier, banned = np.zeros((past, 2), BOARD), np.zeros((past, CELLS), np.uint8)
        return cls(np.zeros(count, BOARD), np.zeros(count, np.int64), recent, komis, symmetries, rules, earlier, banned)


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
        out[:] = 0
        out[2] = np.float32(1)
        out[15] = np.float32(komi / 15) if colour == 2 else np.float32(-komi / 15)
        if recent[0] == points:
            out[16] = np.float32(1)
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
def arena_31(positions, count, tables, planes):
    """arena-31: the planes of arena-17, then pairs for the side to move and the other side: 17-18 groups in atari that
    no move of their side saves from a ladder; 19-20 groups with two liberties that a ladder catches; 21-22 moves that
    begin such a ladder; 23-24 moves that save a group in atari, by extending or capturing; 25-26 moves that leave their
    own group with one liberty; 27-28 groups with 4 liberties; 29-30 with 5."""
    arena_17(positions, count, tables, planes)
    boards, liberties = np.empty(DEPTH, BOARD), np.empty(CELLS, np.int32)
    for i in range(count):
        boards[0] = positions.boards[i]
        board, table, out = boards[0], tables[positions.symmetries[i]], planes[i]
        group_liberties(board, liberties)
        for move in range(planes.shape[2]):
            p = point_of(board, move)
            there = np.int64(board.colour[U(p)])
            if there == 0:
                for turn in range(2 if board.around[U(p)] & 15 < 2 else 0):
                    colour = positions.colours[i] if turn == 0 else 3 - positions.colours[i]
                    safe = not is_legal(board, p, colour)
                    for step in kernels.NEIGHBOURS:  # a group with three liberties keeps two
                        safe |= board.colour[U(p + step)] == colour and liberties[U(board.head[U(p + step)])] > 2
                    if not safe:
                        try_move(boards, p, colour)
                        out[25 + turn, table[move]] = kernels.count_liberties(boards[1], p, 2) == 1
            elif np.int64(board.head[U(p)]) == p:
                turn, open_points = int(there != positions.colours[i]), liberties[U(p)]
                if open_points == 1:
                    if not find_rescues(boards, p, table, out[23 + turn]):
                        mark_group(board, p, table, out[17 + turn])
                elif open_points == 2:
                    if find_ladders(boards, p, table, out[22 - turn]):
                        mark_group(board, p, table, out[19 + turn])
                elif 4 <= open_points <= 5:
                    mark_group(board, p, table, out[19 + 2 * open_points + turn])


@inlined
def encode_in_search(positions, count, tables, planes, past):
    """Write the planes of katago-22, or if ``past`` is None of arena-17 or arena-31."""
    if past is not None:
        katago_22(positions, count, tables, planes)
    elif planes.shape[1] == 17:
        arena_17(positions, count, tables, planes)
    else:
        arena_31(positions, count, tables, planes)


@dataclass(frozen=True, slots=True)
class Encoder:
    """A frozen way to write a position as ``planes`` planes of n x n float32, as seen by the side to move."""

    name: str
    planes: int
    kernel: Callable[[Positions, int, np.ndarray, np.ndarray], None]
    about_players: Callable[[np.ndarray, np.ndarray, np.ndarray, int], np.ndarray] | None = None
    """Its last planes, constant ones of the players' ranks, such as ``ranks.player_planes``."""
    has_past: bool = False  # whether it reads ``earlier`` and ``banned`` of ``Positions``
    base: str = ""  # the encoder whose planes come first; a net for that encoder can start a net for this one

    @property
    def has_players(self) -> bool:
        return self.about_players is not None

    @property
    def in_search(self) -> bool:
        """Whether ``encode_in_search`` writes its planes."""
        return self.name in ("arena-17", "arena-31", "katago-22")

    def write_players(self, planes: np.ndarray, own: np.ndarray, opponent: np.ndarray, territory: np.ndarray) -> None:
        """Write the planes about players of an encoder that ``has_players`` into ``planes`` (B, planes, n²)."""
        assert self.about_players is not None
        constant = self.about_players(own, opponent, territory, isqrt(planes.shape[2]))
        planes[:, -constant.shape[1] :] = constant[:, :, None]

    def encode(self, positions: Positions, count: int, planes: np.ndarray) -> None:
        """Write the planes (B, planes, n²) float32 of the first ``count`` of some positions."""
        if count:
            self.kernel(positions, count, symmetry_table(int(positions.boards["side"][0])), planes)


ENCODERS = {
    encoder.name: encoder
    for encoder in (
        Encoder("stones-1", 1, stones_1),
        Encoder("gocnn-8c", 8, gocnn_8c),
        Encoder("arena-17", 17, arena_17),
        Encoder("arena-31", 31, arena_31, base="arena-17"),
        Encoder("alphago-48", 48, alphago_48),
        Encoder("katago-22", 41, katago_22, has_past=True),
        Encoder("human-34", 17 + PLAYER_PLANES, arena_17, player_planes, base="arena-17"),
        Encoder("katago-human", 41 + METADATA, katago_22, sgf_metadata, has_past=True),
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


def encode_games(
    encoder: Encoder, games: Sequence[Game], symmetry: int = 0, ranks: tuple[int, int] = (UNRANKED, UNRANKED)
) -> np.ndarray:
    """The planes of the present positions of games on boards of one size; (B, planes, n, n) float32. ``ranks``, of the
    side to move and its opponent, are for an encoder that ``has_players``. Raises ValueError for several sizes."""
    size = games[0].rules.size
    if any(game.rules.size != size for game in games):
        raise ValueError("games on boards of several sizes can't be encoded together")
    positions = Positions.empty(len(games), encoder.has_past)
    positions.recent[:] = NO_MOVE
    positions.symmetries[:] = symmetry
    for i, game in enumerate(games):
        positions.boards[i] = game.board.array[0]
        positions.colours[i] = int(game.to_play)
        last = game.moves[: -HISTORY - 1 : -1]
        positions.recent[i, : len(last)] = last
        positions.komis[i] = game.compensation
        positions.rules[i] = game.rules.bits
        if encoder.has_past:
            write_earlier(game, positions.earlier[i])
            mark_superko(positions, i, game.hashes, len(game.hashes))
    planes = np.empty((len(games), encoder.planes, size * size), np.float32)
    encoder.encode(positions, len(games), planes)
    if encoder.has_players:
        own, opponent = (np.full(len(games), rank) for rank in ranks)
        territory = np.array([game.rules.scoring is Scoring.TERRITORY for game in games])
        encoder.write_players(planes, own, opponent, territory)
    return planes.reshape(len(games), encoder.planes, size, size)


def write_earlier(game: Game, earlier: np.ndarray) -> None:
    """Write the positions one and two moves ago to ``earlier`` (2,) BOARD; fewer at the start of a game."""
    start = Board(game.rules.size)
    for colour, moves in zip(Colour, game.setup, strict=True):
        for move in moves:
            start.put(move, colour)
    earlier[0] = start.array[0]
    play_earlier(earlier, np.array(game.moves, np.int64), int(game.first), np.empty(0, np.uint64))


@inlined
def _replay(board, moves, colour):
    """Play moves, ``colour`` first; returns the side to move."""
    for i in range(len(moves)):
        play_move(board, np.int64(moves[i]), colour)
        colour = 3 - colour
    return colour


@kernel
def _replay_rows(size, moves, starts, komis, rules, games, plies, positions):
    """Write the position before ply ``plies[i]`` of game ``games[i]`` for each i."""
    has_past = positions.earlier.shape[0] > 0
    hashes = np.empty(plies.max() + 1 if has_past else 0, np.uint64)
    for row in range(games.shape[0]):
        start, ply = starts[games[row]], np.int64(plies[row])
        positions.rules[row] = rules[games[row]]
        board, done = positions.boards[row], np.int64(0)
        clear(board, size)
        if has_past:
            earlier, done = positions.earlier[row], max(0, ply - 1)
            earlier[0] = board
            play_earlier(earlier, moves[start : start + ply], 1, hashes)
            positions.boards[row] = earlier[0]
        positions.colours[row] = _replay(board, moves[start + done : start + ply], 1 + done % 2)
        if has_past:
            hashes[ply] = board.hash
            mark_superko(positions, row, hashes, ply + 1)
        for age in range(HISTORY):
            positions.recent[row, age] = np.int64(moves[start + ply - 1 - age]) if age < ply else NO_MOVE
        positions.komis[row] = komis[games[row]]


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
    rules: np.ndarray | None = None,
) -> np.ndarray:
    """Planes (rows, planes, size²) float32 straight from move lists: the position before ply ``plies[i]`` of game
    ``games[i]``, under symmetry ``symmetries[i]``. Game ``g`` is ``moves[starts[g]:starts[g + 1]]``, Black first, no
    setup stones; ``komis`` and ``rules`` (``Rules.bits``, default those of cgos) are (games,). ``threads`` share the
    work without the GIL."""
    if rules is None:
        rules = np.full(len(starts) - 1, kernels.CGOS_RULES)
    planes = np.empty((len(games), encoder.planes, size * size), np.float32)

    def fill(begin: int, end: int) -> None:
        positions = Positions.empty(min(ROOM, end - begin), encoder.has_past)
        for first in range(begin, end, ROOM):
            part = slice(first, min(first + ROOM, end))
            _replay_rows(size, moves, starts, komis, rules, games[part], plies[part], positions)
            positions.symmetries[: part.stop - first] = symmetries[part]
            encoder.encode(positions, part.stop - first, planes[part])

    bounds = [len(games) * part // threads for part in range(threads + 1)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(fill, bounds, bounds[1:]))
    return planes


@kernel
def final_owners(size, moves, starts, owners):
    """Write the owners by area of each game's final position to ``owners`` (games, size²) int8: 1 Black, -1 White, 0
    neither. Dead stones count as alive. ``moves`` and ``starts`` are those of ``encode_rows``."""
    boards = np.empty(1, BOARD)
    areas = np.empty(size * size, np.uint8)
    for game in range(starts.shape[0] - 1):
        clear(boards[0], size)
        _replay(boards[0], moves[starts[game] : starts[game + 1]], 1)
        kernels.owner_map(boards, 0, areas)
        for point in range(size * size):
            owners[game, point] = np.int64(areas[point] == 1) - np.int64(areas[point] == 2)
