"""Games that a net plays against itself with a search at every move, for trainers: in threads, each with many games in
lock step, whose moves are all made in kernels. No learning, no files.

A share of the moves is searched in full and kept to learn from, the others get a few visits (playout cap randomization:
Wu 2019, "Accelerating self-play learning in Go", section 3.1). Nothing is resigned or adjudicated.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import NamedTuple, Protocol

import numpy as np

from arena.go.coords import symmetry_table
from arena.go.jit import kernel
from arena.go.kernels import BOARD, WIDTH, area_score, clear, move_of, next_random, play_any, seeded
from arena.go.planes import HISTORY, NO_MOVE, Encoder
from bots.search import puct
from bots.search.gumbel import best_move, draw_gumbel, improved_policy
from bots.search.tree import CELLS, MAX_DEPTH, ROOT, Nodes, clear_tree
from trainers.progress import Look

PRIOR, CHEAP, FULL = range(3)
"""How a move is decided: drawn from the net's policy, by few visits, or by all of them."""

LEVELS = 255
"""The improved policy is stored in this many steps of its largest share."""

HOPELESS, TURNS, RARELY = 0.05, 5, 0.25
"""Turns in a row, distance of the win rate from 0 or 1, and the factor on the probability of a full search then."""

BACK = 6
"""Steps of niceness by which players step back."""

NOTHING = np.empty(0, np.uint16)

WIDE, WIDER = 0.1, 5.0
"""The share of games whose komi varies this many times as much, so that the net knows all kinds of komi."""

_SHARE = 2.0**-53
_S11 = np.uint64(11)


class Field(NamedTuple):
    """Games in progress and their trees, one a slot, as kernels take them."""

    boards: np.ndarray  # (slots,) BOARD
    roots: np.ndarray  # (slots,) ROOT
    hashes: np.ndarray  # (slots, limit + MAX_DEPTH + 2) uint64
    moves: np.ndarray  # (slots, limit) uint16
    lengths: np.ndarray  # (slots,) int64: moves played
    drawn: np.ndarray  # (slots,) int64: moves at the start that are drawn from the policy
    states: np.ndarray  # (slots,) uint64: of the game's random numbers
    clear: np.ndarray  # (slots,) int64: turns in a row in which the game was as good as decided
    kinds: np.ndarray  # (slots, limit) uint8: PRIOR, CHEAP or FULL
    levels: np.ndarray  # (slots, limit, size² + 1) uint8: the improved policy at moves searched in full
    win_rates: np.ndarray  # (slots, limit) float32: of the side to move, by the search

    @classmethod
    def empty(cls, slots: int, size: int, limit: int) -> Field:
        return cls(
            np.zeros(slots, BOARD),
            np.zeros(slots, ROOT),
            np.zeros((slots, limit + MAX_DEPTH + 2), np.uint64),
            np.zeros((slots, limit), np.uint16),
            np.zeros(slots, np.int64),
            np.zeros(slots, np.int64),
            np.zeros(slots, np.uint64),
            np.zeros(slots, np.int64),
            np.zeros((slots, limit), np.uint8),
            np.zeros((slots, limit, size * size + 1), np.uint8),
            np.zeros((slots, limit), np.float32),
        )


class Style(NamedTuple):
    """How games are played, as kernels take it."""

    full_search_prob: float
    visits: int
    cheap_search_visits: int
    first_pass: int  # nobody passes before this move
    gumbel_scale: float
    fork_game_prob: float = 0.0


@kernel
def _share_of(state):  # type: ignore[no-untyped-def]
    return np.float64(state >> _S11) * _SHARE


@kernel
def _prepare(field, nodes, slot, style):  # type: ignore[no-untyped-def]
    """Draw how the next move is decided, and set the root to the present position."""
    length = field.lengths[slot]
    root, board = field.roots[slot], field.boards[slot]
    state = next_random(field.states[slot])
    field.states[slot] = state
    often = style.full_search_prob * (RARELY if field.clear[slot] >= TURNS else 1.0)
    if length < field.drawn[slot]:
        kind, visits = PRIOR, 1
    elif _share_of(state) < often:
        kind, visits = FULL, style.visits + 1  # the root's own
    else:
        kind, visits = CHEAP, style.cheap_search_visits + 1
    field.kinds[slot, length] = kind
    passing = board.side * board.side
    clear_tree(nodes, field.roots, slot)
    root.colour = 1 + length % 2
    root.positions = length + 1
    root.budget = visits
    root.simulations = visits - 1
    root.passes = 0
    root.last = 0
    if length:
        last = np.int64(field.moves[slot, length - 1])
        root.passes = int(last == passing)
        root.last = 0 if last == passing else (last // board.side + 1) * WIDTH + last % board.side + 1
    for age in range(HISTORY):
        root.recent[age] = np.int64(field.moves[slot, length - 1 - age]) if age < length else NO_MOVE
    root.random = state
    if visits > 1:
        draw_gumbel(field.roots, slot, passing + 1, style.gumbel_scale)
    which = np.empty(1, np.int64)
    which[0] = slot
    puct.prune_pass_alive(field.boards, field.roots, nodes, which)


@kernel
def begin(field, nodes, slot, size, komi, seed, moves, drawn, style):  # type: ignore[no-untyped-def]
    """Begin a game in a slot with some ``moves``, (moves,) uint16 of points. Up to move ``drawn`` the next ones are
    drawn from the policy."""
    board = field.boards[slot]
    clear(board, size)
    root = field.roots[slot]
    root.superko = 1
    root.area = 1
    root.komi = komi
    field.hashes[slot, 0] = board.hash
    for ply in range(moves.shape[0]):
        move = np.int64(moves[ply])
        play_any(board, (move // size + 1) * WIDTH + move % size + 1, 1 + ply % 2)
        field.moves[slot, ply] = moves[ply]
        field.kinds[slot, ply] = PRIOR
        field.win_rates[slot, ply] = 0.5
        field.hashes[slot, ply + 1] = board.hash
    field.lengths[slot] = moves.shape[0]
    field.drawn[slot] = drawn
    field.clear[slot] = 0
    field.states[slot] = seeded(seed)
    _prepare(field, nodes, slot, style)


@kernel
def _drawn_child(field, nodes, slot):  # type: ignore[no-untyped-def]
    """The root's child at which the summed priors pass a random share."""
    state = next_random(field.states[slot])
    field.states[slot] = state
    first = np.int64(nodes.first[slot, 0])
    last = first + np.int64(nodes.children[slot, 0])
    total = 0.0
    for child in range(first, last):
        total += nodes.prior[slot, child]
    left = _share_of(state) * total
    for child in range(first, last):
        left -= nodes.prior[slot, child]
        if left < 0:
            return child
    return last - 1


@kernel
def take_turns(field, nodes, slots, knowledge, style, limit, over, margins):  # type: ignore[no-untyped-def]
    """Play the moves of the games whose search is done; the others are left as they are. ``over`` (len(slots),) tells
    which games have ended, by two passes or at the ``limit``; ``margins`` (len(slots),) gets Black's of those."""
    for i in range(slots.shape[0]):
        slot = slots[i]
        over[i] = False
        if nodes.first[slot, 0] < 0:
            continue
        board, root, length = field.boards[slot], field.roots[slot], field.lengths[slot]
        passing = np.int64(board.side) * np.int64(board.side)
        first, count = np.int64(nodes.first[slot, 0]), np.int64(nodes.children[slot, 0])
        if count > 1 and length < style.first_pass and nodes.visits[slot, 0] == 1:
            for child in range(first, first + count):
                if nodes.point[slot, child] == 0:
                    nodes.prior[slot, child] = 0
        if count > 1 and nodes.visits[slot, 0] < root.budget:
            continue
        win_rate = np.float32(1) - nodes.value[slot, 0]
        field.win_rates[slot, length] = win_rate
        field.clear[slot] = field.clear[slot] + 1 if min(win_rate, 1 - win_rate) < HOPELESS else 0
        if field.kinds[slot, length] == PRIOR:
            child = _drawn_child(field, nodes, slot)
        else:
            child = best_move(nodes, field.roots, slot, knowledge)
            if count == 1:
                field.kinds[slot, length] = CHEAP
        if field.kinds[slot, length] == FULL:
            shares = np.empty(passing + 1, np.float32)
            improved_policy(field.boards, nodes, slot, knowledge, shares)
            highest = shares.max()
            for move in range(passing + 1):
                field.levels[slot, length, move] = np.uint8(LEVELS * shares[move] / highest + np.float32(0.5))
        p = np.int64(nodes.point[slot, child])
        move = move_of(board, p) if p else passing
        if p:
            play_any(board, p, 1 + length % 2)
        else:
            board.ko = 0
        field.moves[slot, length] = move
        length += 1
        field.lengths[slot] = length
        field.hashes[slot, length] = board.hash
        if (p == 0 and root.passes) or length >= limit:
            over[i] = True
            margins[i] = area_score(board) - root.komi
        else:
            _prepare(field, nodes, slot, style)


class Evaluating(Protocol):
    """A net that is asked from several threads, and may get other weights between two questions."""

    encoder: Encoder

    def evaluate(self, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Policy logits (B, n² + 1) and win rates (B,) of ``planes`` (B, P, n, n), float32; for the side to move."""
        ...


@dataclass(frozen=True, slots=True)
class Played:
    """A game that is over."""

    moves: np.ndarray  # (moves,) uint16
    komi: float
    margin: float
    """Black's, komi counted."""
    is_sound: bool
    """Whether both sides passed; else the move limit cut it off, and its result tells nothing."""
    plies: np.ndarray  # (rows,) int64: of the moves searched in full
    levels: np.ndarray  # (rows, size² + 1) uint8
    win_rates: np.ndarray  # (rows,) float32


@dataclass(frozen=True, slots=True)
class Pace:
    """What players have done, and where their time went, in seconds of the processor, all threads together."""

    seconds: float = 0.0
    net_seconds: float = 0.0
    evaluations: int = 0
    batches: int = 0
    moves: int = 0

    def __add__(self, other: Pace) -> Pace:
        return Pace(*(getattr(self, item.name) + getattr(other, item.name) for item in fields(Pace)))

    def __sub__(self, other: Pace) -> Pace:
        return Pace(*(getattr(self, item.name) - getattr(other, item.name) for item in fields(Pace)))


@dataclass(frozen=True, slots=True)
class Chances:
    """What the beginnings of games are drawn from."""

    komi: float
    """Its mean."""
    komi_stdev: float
    most: int
    """Of komi, on either side."""
    policy_init_prob: float
    policy_init_moves: int

    def draw(self, random: np.random.Generator) -> tuple[float, int, int]:
        """A new game's komi, its seed, and how many moves are drawn from the policy."""
        stdev = self.komi_stdev * (WIDER if random.random() < WIDE else 1.0)
        komi = np.clip(round(2 * random.normal(self.komi, stdev)) / 2, -self.most, self.most)
        drawn = 0
        if random.random() < self.policy_init_prob:
            drawn = int(random.integers(self.policy_init_moves + 1))
        return float(komi), int(random.integers(2**62)), drawn


Begin = Callable[[], tuple[float, int, int]]
"""Gives a new game's komi, its seed and how many of its moves are drawn from the policy."""


@dataclass(frozen=True, slots=True)
class Table:
    """What is played: the board, and how."""

    size: int
    limit: int
    style: Style
    knowledge: puct.PuctParams


class Player:
    """A thread's games."""

    def __init__(self, table: Table, begin: Begin, net: Evaluating, slots: int):
        self._table, self._draw, self._net = table, begin, net
        size, most = table.size, max(table.style.visits, table.style.cheap_search_visits) + 2
        self._nodes = Nodes.empty(slots, 1 + most * (size * size + 1))
        self._field = Field.empty(slots, size, table.limit)
        self._leaves = puct.Leaves.empty(slots)
        self._planes = np.empty((slots, net.encoder.planes, size * size), np.float32)
        self._owners = np.zeros((slots, CELLS), np.int32)
        self._slots = np.arange(slots)
        self._over, self._margins = np.zeros(slots, np.bool_), np.zeros(slots)
        self._earlier: deque[np.ndarray] = deque(maxlen=slots)  # the moves of the latest games
        self.pace = Pace()
        """Of all that was played so far."""
        for slot in range(slots):
            self._begin(slot)

    def _begin(self, slot: int) -> None:
        komi, seed, drawn = self._draw()
        moves = self._fork(seed)
        if len(moves):
            drawn = len(moves) + 1
        begin(self._field, self._nodes, slot, self._table.size, komi, seed, moves, drawn, self._table.style)

    def _fork(self, seed: int) -> np.ndarray:
        """The first moves of an earlier game, up to a random one before half of it and before the first pass; mostly
        none."""
        random = np.random.default_rng(seed)
        if not self._earlier or random.random() >= self._table.style.fork_game_prob:
            return NOTHING
        moves = self._earlier[random.integers(len(self._earlier))]
        moves = moves[: random.integers(1 + len(moves) // 2)]
        return moves[: int(np.argmax(np.append(moves, self._table.size**2) == self._table.size**2))]

    def look(self) -> Look | None:
        """The latest position of a game under way that was searched in full; None before there is one."""
        field = self._field
        plies = np.flatnonzero(field.kinds[0, : int(field.lengths[0])] == FULL)
        if not len(plies):
            return None
        ply = int(plies[-1])
        win_rate = float(field.win_rates[0, ply])
        moves, levels = field.moves[0, :ply].copy(), field.levels[0, ply].astype(np.float32)
        komi = float(field.roots[0]["komi"])
        return Look(self._table.size, moves, komi, win_rate if ply % 2 == 0 else 1 - win_rate, levels / levels.sum())

    def play(self, goes_on: Callable[[], bool], finish: Callable[[Played], None]) -> None:
        """Play while it ``goes_on``, which is asked after every batch, and ``finish`` games that are over. On Linux the
        thread steps back behind others: who learns must not wait for who plays."""
        if sys.platform == "linux" and threading.current_thread() is not threading.main_thread():
            usual = os.getpriority(os.PRIO_PROCESS, os.getpid())
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), min(19, usual + BACK))
        table, field, nodes = self._table, self._field, self._nodes
        trees = (field.boards, field.roots, field.hashes, nodes)
        shape, turns = (-1, self._net.encoder.planes, table.size, table.size), symmetry_table(table.size)
        while goes_on():
            begun = time.thread_time()
            before = int(field.lengths.sum())
            take_turns(field, nodes, self._slots, table.knowledge, table.style, table.limit, self._over, self._margins)
            moves = int(field.lengths.sum()) - before
            for slot in np.flatnonzero(self._over).tolist():
                game = self._finished(slot)
                self._earlier.append(game.moves)
                finish(game)
                self._begin(slot)
            count = puct.select_leaves(*trees, self._slots, table.limit * 2**16, 1, table.knowledge, self._leaves)
            asked = answered = 0.0
            if count:
                self._net.encoder.encode(self._leaves.positions, count, self._planes)
                asked = time.thread_time()
                logits, win_rates = self._net.evaluate(self._planes[:count].reshape(shape))
                answered = time.thread_time()
                puct.expand_leaves(
                    field.roots, nodes, self._owners, table.knowledge, turns, self._leaves, count, logits, win_rates
                )
            self.pace += Pace(time.thread_time() - begun, answered - asked, int(count), int(count > 0), moves)

    def _finished(self, slot: int) -> Played:
        field, length = self._field, int(self._field.lengths[slot])
        moves = field.moves[slot, :length].copy()
        plies = np.flatnonzero(field.kinds[slot, :length] == FULL)
        passing = self._table.size**2
        return Played(
            moves,
            float(field.roots[slot]["komi"]),
            float(self._margins[slot]),
            bool((moves[-2:] == passing).all()),
            plies,
            field.levels[slot, plies],
            field.win_rates[slot, plies],
        )


class Playing(Protocol):
    """Whoever plays in a thread; see ``Player``."""

    @property
    def pace(self) -> Pace: ...

    def play(self, goes_on: Callable[[], bool], finish: Callable[[Played], None]) -> None: ...

    def look(self) -> Look | None: ...


class Players:
    """Players in threads, which play as long as the context lasts, or until they have finished ``most`` games."""

    def __init__(self, players: Sequence[Playing], most: float = math.inf):
        self._players = players
        self._pool = ThreadPoolExecutor(len(players), "players")
        self._changed = threading.Condition()
        self._finished: list[Played] = []
        self._rows = 0
        self._left = most
        self._stopped = False
        self._working: list[Future[None]] = []

    def __enter__(self) -> Players:
        self._working = [self._pool.submit(player.play, self._goes_on, self._finish) for player in self._players]
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped = True
        self._pool.shutdown()

    def _goes_on(self) -> bool:
        return not self._stopped and self._left > 0

    def _finish(self, game: Played) -> None:
        with self._changed:
            if self._left <= 0:
                return
            self._left -= 1
            self._finished.append(game)
            self._rows += len(game.plies)
            self._changed.notify_all()

    def take(self, rows: int, goes_on: Callable[[], bool] = lambda: True) -> list[Played]:
        """Finished games that weren't taken yet, once they have ``rows`` rows, are the last ones, or it no longer
        ``goes_on``. Raises what a player raised."""
        while goes_on():
            for working in self._working:
                if working.done():
                    working.result()
            with self._changed:
                if self._rows >= rows or self._left <= 0:
                    break
                self._changed.wait(0.2)
        with self._changed:
            taken, self._finished, self._rows = self._finished, [], 0
        return taken

    def look(self) -> Look | None:
        """A position of a game under way; see ``Player.look``."""
        return self._players[0].look()

    @property
    def pace(self) -> Pace:
        """Of all players, so far."""
        return sum((player.pace for player in self._players), Pace())
