"""Games that nets play to be learned from: many in lock step, moves by policies alone or by a search at each.

A share of the moves of a search gets all of its visits and is kept to learn from, the others get a few (playout cap
randomization: Wu 2019, "Accelerating self-play learning in Go", section 3.1). Nothing is resigned or adjudicated. A
game depends on its number, seed, opening and nets alone, not on the games beside it; but in torch on a GPU the last
bits of an evaluation depend on the size of the batch.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
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

CERTAIN = 127  # the ownership of a point that is surely the side to move's, as it is stored
NOT_JUDGED = -128  # the same where the teacher told none
RANDOM = -1  # who decides a move that is drawn uniformly; else the number of an evaluator
NEVER = -1e4  # a logit of a move that is played only where there is no other, and no infinity to subtract
PIECE = 64  # games that a thread moves on at a time, at most: as many as stay in the cache


class SelfPlayNet(Protocol):
    """A net; it may get other weights between two calls."""

    encoder: Encoder

    def evaluate(self, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Policy logits (B, n² + 1) and win rates (B,) of ``planes`` (B, P, n, n), float32; for the side to move."""
        ...


class NewGame(NamedTuple):
    """A game to be played."""

    number: int
    seed: int
    komi: float
    opening: Opening = ()
    drawn: int = 0  # moves before this one are drawn from the policy of a search's net


@dataclass(frozen=True, slots=True)
class PlayedGame:
    """A game that is over, and what full searches found."""

    number: int
    moves: np.ndarray  # (moves,) uint16
    komi: float
    margin: float  # Black's, komi counted
    is_sound: bool  # whether both sides passed; else the move limit cut it off
    plies: np.ndarray  # (searches,) int64
    levels: np.ndarray  # (searches, size² + 1) uint16: shares of the moves, up to a factor
    win_rates: np.ndarray  # (searches,) float32, of the side to move
    owners: np.ndarray | None = None  # (searches, size²) int8: whose each point is, the side to move's at CERTAIN
    lines: np.ndarray | None = None
    """(searches, LINE) int16: moves from the game to what was searched, then NO_MOVE. Of a game that wasn't judged yet,
    (searches, most, LINE): the moves to some nodes of each tree."""
    given: int = 0  # moves at its start that nobody chose


class Parallelism(NamedTuple):
    """How an engine plays."""

    slots: int  # games at once
    threads: int = 1
    groups: int = 1  # of slots: with two, a net evaluates one in a thread of its own while the other is played

    @classmethod
    def of(cls, on_gpu: bool, slots: int, threads: int) -> list[Parallelism]:
        """Engines with so many slots a thread: one a thread or, on a GPU, one with all of them, in two groups."""
        return [cls(slots * threads, threads, 2)] if on_gpu else [cls(slots)] * threads


def draw_seeds(count: int, *key: int) -> np.ndarray:
    """Seeds of games, (count,) uint64, by a key of numbers."""
    return np.random.default_rng(key).integers(0, 2**63, count, np.uint64)


def take_each(numbers: deque[int]) -> Iterator[int]:
    """The numbers, each taken from the left when it is asked for; several threads may share them."""
    with suppress(IndexError):
        while True:
            yield numbers.popleft()


Evaluations = Generator[tuple[int, np.ndarray], tuple[np.ndarray, np.ndarray], None]
"""Yields the number of an evaluator and planes (B, P, n, n); is sent what ``SelfPlayNet.evaluate`` returns of them."""

Result = TypeVar("Result")


class SelfPlayGames:
    """Games in slots. ``PolicyGames`` and ``SearchGames`` say how moves are decided."""

    def __init__(
        self, rules: Rules, nets: Sequence[SelfPlayNet], parallel: Parallelism, searched: int = 0, lines: int = 0
    ):
        """``searched`` is size² + 1 where moves are searched, and ``lines`` how many are drawn from each tree."""
        self._rules, self._nets = rules, nets
        self._games = GameSlots.empty(parallel.slots, rules.move_limit, searched, lines)
        self._numbers, self._given = np.full(parallel.slots, -1), np.zeros(parallel.slots, np.int64)
        self._groups = np.array_split(np.arange(parallel.slots), min(parallel.groups, parallel.slots))
        self._threads, self._pool = parallel.threads, ThreadPoolExecutor(parallel.threads)
        self._over: list[PlayedGame] = []

    def play(self, new_games: Iterator[NewGame], goes_on: Callable[[], bool] = lambda: True) -> Iterator[PlayedGame]:
        """Play all of ``new_games``; games as they end. Games under way are lost once it no longer ``goes_on``. To be
        called once. Raises IllegalMove for an opening that can't be played."""
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
        """Begin games in the free ones of some slots; whether any is played on."""
        if not goes_on():
            return False
        games = self._games
        for slot, new in zip(slots[~games.playing[slots]].tolist(), new_games, strict=False):
            put_game(games, slot, self._rules.size, new.komi, new.seed, new.opening)
            self._numbers[slot], games.drawn[slot], self._given[slot] = new.number, new.drawn, len(new.opening)
        return bool(games.playing[slots].any())

    def _finish(self, slots: np.ndarray) -> None:
        """Note the games of these slots that are over."""
        passing, games = self._rules.size**2, self._games
        for slot in slots[~games.playing[slots]].tolist():
            moves, komi = games.moves[slot, : games.lengths[slot]].copy(), float(games.komis[slot])
            margin = float(area_of(games.boards[slot : slot + 1])) - komi
            is_sound = moves[-2:].tolist() == [passing, passing]
            count = games.counts[slot]
            plies, levels, rates = (each[slot, :count].copy() for each in (games.plies, games.levels, games.win_rates))
            game = PlayedGame(int(self._numbers[slot]), moves, komi, margin, is_sound, plies, levels, rates)
            lines = games.lines[slot, :count].copy() if games.lines.shape[2] else None
            self._over.append(replace(game, lines=lines, given=int(self._given[slot])))

    def _in_parts(self, work: Callable[[slice], Result], count: int) -> list[Result]:
        """What work returns for each piece of ``count`` slots; threads share the pieces, so there is one for each."""
        most = min(PIECE, max(2, -(-count // self._threads)))
        pieces = [slice(first, min(first + most, count)) for first in range(0, count, most)]
        return list((self._pool.map if self._threads > 1 else map)(work, pieces))

    def _play_group(self, slots: np.ndarray, fill: Callable[[], bool]) -> Evaluations:
        """Play in some slots as long as ``fill``, which is called before each round of moves, says so."""
        raise NotImplementedError


Seats = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""The player of a move: ``seats(numbers, plies)`` gives for each game's number and the number of moves played there,
both (k,) int64, the number of an evaluator, or RANDOM; (k,) int64."""


class PolicyGames(SelfPlayGames):
    """Games whose moves are drawn from policies. The next net evaluated is the net to move in the most games: so two
    nets with a colour each fall out of step at once, and each evaluates all games at once, not half of them."""

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
    """Games with a search by one net at each move, PUCT or Gumbel's."""

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
        """A tree has at most ``most`` nodes, and ``lines`` are drawn from that of a full search."""
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


# --- Beside a net that learns ---

PlayGames = Callable[[Callable[[], bool]], Iterator[PlayedGame]]
"""Plays while a condition holds, and yields games as they end."""


class Players:
    """Engines that play in threads as long as the context lasts, or until all of them have ended."""

    def __init__(self, engines: Sequence[PlayGames], nice: int = 0):
        """``nice`` is the nice increment of the threads, on Linux."""
        self._engines, self._nice, self._is_over = engines, nice, False
        self._pool = ThreadPoolExecutor(len(engines), "players")
        self._games: deque[PlayedGame] = deque()  # which threads add to without a lock
        self._working: list[Future[None]] = []

    def __enter__(self) -> Players:
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
        """Whether every engine has ended. Raises what one raised."""
        return all([working.done() and working.result() is None for working in self._working])

    def take(
        self, rows: float = math.inf, goes_on: Callable[[], bool] = lambda: True, seconds: float = math.inf
    ) -> list[PlayedGame]:
        """Finished games that weren't taken yet, once they have ``rows`` rows, all have been played, some ``seconds``
        are over, or it no longer ``goes_on``. Raises what an engine raised."""
        until = time.monotonic() + seconds
        while goes_on() and time.monotonic() < until:
            if self.are_done or sum(len(game.plies) for game in list(self._games)) >= rows:
                break
            time.sleep(0.02)
        return self.rest()

    def rest(self) -> list[PlayedGame]:
        """Finished games that weren't taken yet."""
        return [self._games.popleft() for _ in range(len(self._games))]
