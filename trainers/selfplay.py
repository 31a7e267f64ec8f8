"""Self-play: nets play many games in lock step, by their policies alone or by a search at each move.

Full searches are stored as training targets, cheap ones are not (playout cap randomization: Wu 2019, "Accelerating
self-play learning in Go", section 3.1). No game is resigned or adjudicated. A game depends on its number, seed, opening
and nets alone; only in torch on a GPU do the last bits of an evaluation depend on the batch size.
"""

import math
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from arena.go.coords import symmetry_table
from arena.go.game import Rules
from arena.go.kernels import area_of
from arena.go.planes import Encoder, Positions
from arena.match.openings import Opening
from bots.search.puct import Leaves, PuctParams, expand_leaves
from trainers.slots import GameSlots, SearchSlots, SelfPlayParams, copy_positions, play_policies, put_game, search_on

CERTAIN = 127  # stored ownership of a point that surely belongs to the side to move
NOT_JUDGED = -128  # stored ownership if the teacher reports none
RANDOM = -1  # the player of a move that is drawn uniformly; other players are numbers of evaluators
NEVER = -1e4  # the logit of a move that is played only if there is no other; finite, for subtraction
PIECE = 64  # most games that a thread advances at a time: as many as stay in the cache


class SelfPlayNet(Protocol):
    """A net, whose weights may change between two calls."""

    encoder: Encoder

    def evaluate(self, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Policy logits (B, n² + 1) and win rates (B,) of ``planes`` (B, P, n, n), float32, of the side to move."""
        ...


class NewGame(NamedTuple):
    number: int
    seed: int
    komi: float
    opening: Opening = ()
    drawn: int = 0  # moves before this one are drawn from the policy, even if the others are searched


@dataclass(frozen=True, slots=True)
class PlayedGame:
    """A finished game, and the results of its full searches."""

    number: int
    moves: np.ndarray  # (moves,) uint16
    komi: float
    margin: float  # Black's, komi counted
    is_sound: bool  # ended by two passes, not by the move limit
    plies: np.ndarray  # (searches,) int64
    levels: np.ndarray  # (searches, size² + 1) uint16: shares of the moves, up to a factor
    win_rates: np.ndarray  # (searches,) float32, of the side to move
    owners: np.ndarray | None = None  # (searches, size²) int8: predicted owners, CERTAIN for the side to move
    lines: np.ndarray | None = None
    """(searches, LINE) int16: moves from the game's position to the searched one, then NO_MOVE; before a teacher judges
    the game (searches, most, LINE): moves to some nodes of each tree."""
    given: int = 0  # moves of the opening


class Parallelism(NamedTuple):
    """The games that an engine plays at once, and its threads."""

    slots: int  # games at once
    threads: int = 1
    groups: int = 1  # with two groups of slots, a net evaluates one in its own thread while the other is played

    @classmethod
    def of(cls, on_gpu: bool, slots: int, threads: int) -> "list[Parallelism]":
        """Engines with ``slots`` for each thread: one engine a thread; on a GPU a single one, with two groups."""
        return [cls(slots * threads, threads, 2)] if on_gpu else [cls(slots)] * threads


def draw_seeds(count: int, *key: int) -> np.ndarray:
    """Seeds of games from a key of numbers; (count,) uint64."""
    return np.random.default_rng(key).integers(0, 2**63, count, np.uint64)


def take_each(numbers: deque[int]) -> Iterator[int]:
    """Pop numbers from the left, one at a time. Thread-safe."""
    with suppress(IndexError):
        while True:
            yield numbers.popleft()


Evaluations = Generator[tuple[int, np.ndarray], tuple[np.ndarray, np.ndarray], None]
"""Yields the number of an evaluator and planes (B, P, n, n); receives the result of ``SelfPlayNet.evaluate``."""

Made = TypeVar("Made")


class SelfPlayGames:
    """Games in slots, whose moves ``PolicyGames`` or ``SearchGames`` decides."""

    def __init__(
        self, rules: Rules, nets: Sequence[SelfPlayNet], parallel: Parallelism, searched: int = 0, lines: int = 0
    ):
        """For ``searched`` and ``lines`` see ``GameSlots.empty``."""
        self._rules, self._nets = rules, nets
        self._games = GameSlots.empty(parallel.slots, rules.move_limit, searched, lines)
        self._numbers, self._given = np.full(parallel.slots, -1), np.zeros(parallel.slots, np.int64)
        self._groups = np.array_split(np.arange(parallel.slots), min(parallel.groups, parallel.slots))
        self._threads, self._pool = parallel.threads, ThreadPoolExecutor(parallel.threads)
        self._over: list[PlayedGame] = []

    def play(self, new_games: Iterator[NewGame], goes_on: Callable[[], bool] = lambda: True) -> Iterator[PlayedGame]:
        """Play ``new_games``, and yield games as they end. Games in progress are dropped once ``goes_on`` is false. May
        be called once. Raises IllegalMove for an illegal opening."""
        groups = [self._play_group(slots, partial(self._fill, slots, new_games, goes_on)) for slots in self._groups]
        waiting: deque[tuple[Evaluations, Callable[[], Any]]] = deque((group, lambda: None) for group in groups)
        with self._pool, ThreadPoolExecutor(1, "nets") as beside:
            while waiting:
                group, answer = waiting.popleft()
                with suppress(StopIteration):  # which ends a group
                    number, planes = group.send(answer())
                    evaluate = partial(self._nets[number].evaluate, planes)
                    waiting.append((group, evaluate if len(groups) == 1 else beside.submit(evaluate).result))
                yield from self._over
                self._over.clear()

    def _fill(self, slots: np.ndarray, new_games: Iterator[NewGame], goes_on: Callable[[], bool]) -> bool:
        """Begin games in free slots of ``slots``; return whether any game is in progress."""
        if not goes_on():
            return False
        games = self._games
        for slot, new in zip(slots[~games.playing[slots]].tolist(), new_games, strict=False):
            put_game(games, slot, self._rules.size, new.komi, new.seed, new.opening)
            self._numbers[slot], games.drawn[slot], self._given[slot] = new.number, new.drawn, len(new.opening)
        return bool(games.playing[slots].any())

    def _finish(self, slots: np.ndarray) -> None:
        """Collect the finished games of ``slots``."""
        passing, games = self._rules.size**2, self._games
        for slot in slots[~games.playing[slots]].tolist():
            moves, komi = games.moves[slot, : games.lengths[slot]].copy(), float(games.komis[slot])
            margin = float(area_of(games.boards[slot : slot + 1])) - komi
            is_sound = moves[-2:].tolist() == [passing, passing]
            count = games.counts[slot]
            plies, levels, rates = (each[slot, :count].copy() for each in (games.plies, games.levels, games.win_rates))
            lines = games.lines[slot, :count].copy() if games.lines.shape[2] else None
            known = (int(self._numbers[slot]), moves, komi, margin, is_sound, plies, levels, rates)
            self._over.append(PlayedGame(*known, lines=lines, given=int(self._given[slot])))

    def _in_parts(self, work: Callable[[slice], Made], count: int) -> list[Made]:
        """The results of ``work`` for pieces of ``count`` slots, which the threads share."""
        most = min(PIECE, max(2, -(-count // self._threads)))
        pieces = [slice(first, min(first + most, count)) for first in range(0, count, most)]
        return list((self._pool.map if self._threads > 1 else map)(work, pieces))

    def _play_group(self, slots: np.ndarray, fill: Callable[[], bool]) -> Evaluations:
        """Play in ``slots``; call ``fill`` before each round of moves, and end once it returns False."""
        raise NotImplementedError


Seats = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Takes the games' numbers and plies, (k,) int64 each; returns who plays the next moves, evaluators or RANDOM, (k,)."""


class PolicyGames(SelfPlayGames):
    """Games whose moves are drawn from policies. The net to move in most games is evaluated next: two nets with a
    colour each fall out of step at once, and then each evaluates all games together, not half of them."""

    def __init__(self, rules: Rules, nets: Sequence[SelfPlayNet], seats: Seats, parallel: Parallelism):
        super().__init__(rules, nets, parallel)
        self._seats = seats

    def _play_group(self, slots: np.ndarray, fill: Callable[[], bool]) -> Evaluations:
        size, games = self._rules.size, self._games

        def encode(part: slice) -> None:
            positions = Positions.empty(part.stop - part.start, encoder.has_past)
            copy_positions(games, which[part], positions)
            encoder.encode(positions, len(positions.boards), planes[part].reshape(len(positions.boards), -1, size**2))

        def play(part: slice) -> None:
            play_policies(games, which[part], logits[part])

        while fill():
            playing = slots[games.playing[slots]]
            seated = self._seats(self._numbers[playing], games.lengths[playing])
            if (which := playing[seated == RANDOM]).size:
                logits = np.zeros((len(which), size**2 + 1), np.float32)
                logits[:, -1] = NEVER
            else:
                most = int(np.bincount(seated).argmax())
                which, encoder = playing[seated == most], self._nets[most].encoder
                planes = np.empty((len(which), encoder.planes, size, size), np.float32)
                self._in_parts(encode, len(which))
                logits, _ = yield most, planes
            self._in_parts(play, len(which))
            self._finish(which)


class SearchGames(SelfPlayGames):
    """Games with a search at each move, PUCT or Gumbel, by one net."""

    def __init__(
        self,
        rules: Rules,
        net: SelfPlayNet,
        params: SelfPlayParams,
        puct: PuctParams,
        parallel: Parallelism,
        most: int = 2**31,
        lines: int = 0,
    ):
        """``most`` is the largest number of nodes of a tree."""
        moves, self._at_once = rules.size**2 + 1, params.virtual_loss_batch
        super().__init__(rules, [net], parallel, moves, lines)
        self._encoder, self._params = net.encoder, (params, puct)
        capacity = (max(params.visits, params.cheap_search_visits) + self._at_once) * moves + 1
        self._trees = SearchSlots.empty(parallel.slots, min(most, capacity))

    def _play_group(self, slots: np.ndarray, fill: Callable[[], bool]) -> Evaluations:
        size, trees, turns = self._rules.size, self._trees, symmetry_table(self._rules.size)
        every = Leaves.empty(len(slots) * self._at_once, self._encoder.has_past)
        planes = np.empty((len(every.slots), self._encoder.planes, size**2), np.float32)  # one array for all rounds

        def search(part: slice) -> tuple[Leaves, slice]:
            mine = slice(part.start * self._at_once, part.stop * self._at_once)
            positions = Positions(*(column[mine] for column in every.positions))
            leaves = Leaves(every.slots[mine], every.paths[mine], every.depths[mine], positions)
            count = int(search_on(self._games, trees, playing[part], *self._params, leaves))
            self._encoder.encode(leaves.positions, count, planes[mine])
            return leaves, slice(mine.start, mine.start + count)

        def expand(leaves: Leaves, part: slice) -> None:
            known = part.stop - part.start, logits[part], win_rates[part], self._params[-1]
            expand_leaves(trees.roots, trees.nodes, trees.owners, self._params[-1], turns, leaves, *known)

        while fill():
            playing, count, parts = slots[self._games.playing[slots]], 0, list[slice]()  # without gaps
            leaves, filled = zip(*self._in_parts(search, len(playing)), strict=True)
            self._finish(playing)
            for part in filled:
                dense = slice(count, count + part.stop - part.start)
                if dense != part:
                    planes[dense] = planes[part]
                parts.append(dense)
                count = dense.stop
            if count:
                logits, win_rates = yield 0, planes[:count].reshape(count, -1, size, size)
                list((self._pool.map if self._threads > 1 else map)(expand, leaves, parts))


PlayGames = Callable[[Callable[[], bool]], Iterator[PlayedGame]]
"""Plays while a condition holds; yields games as they end."""


class Players:
    """Engines that play in threads until the context ends, or all have ended."""

    def __init__(self, engines: Sequence[PlayGames], nice: int = 0):
        """``nice``: the nice increment of the threads (Linux only)."""
        self._engines, self._nice, self._is_over = engines, nice, False
        self._pool = ThreadPoolExecutor(len(engines), "players")
        self._games: deque[PlayedGame] = deque()  # appends are atomic
        self._working: list[Future[None]] = []

    def __enter__(self) -> "Players":
        self._working = [self._pool.submit(self._play, engine) for engine in self._engines]
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._pool.shutdown()

    def _play(self, engine: PlayGames) -> None:
        if sys.platform == "linux" and self._nice:
            usual = os.getpriority(os.PRIO_PROCESS, os.getpid())
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), min(19, usual + self._nice))
        self._games.extend(engine(lambda: not self._is_over))

    @property
    def are_done(self) -> bool:
        """Whether every engine has ended. Raises an engine's error."""
        return all([working.done() and working.result() is None for working in self._working])

    def take(
        self, rows: float = math.inf, goes_on: Callable[[], bool] = lambda: True, seconds: float = math.inf
    ) -> list[PlayedGame]:
        """Wait until new games have ``rows`` rows, all are played, ``seconds`` are over, or ``goes_on`` is false; then
        return the new games. Raises an engine's error."""
        until = time.monotonic() + seconds
        while goes_on() and time.monotonic() < until:
            if self.are_done or sum(len(game.plies) for game in list(self._games)) >= rows:
                break
            time.sleep(0.02)
        return self.rest()

    def rest(self) -> list[PlayedGame]:
        """Finished games that weren't returned yet."""
        return [self._games.popleft() for _ in range(len(self._games))]
