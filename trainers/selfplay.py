"""Games that nets play to be learned from: many in lock step, moves by policies alone or by a search at each.

A share of the moves of a search gets all of its visits and is kept to learn from, the others get a few (playout cap
randomization: Wu 2019, "Accelerating self-play learning in Go", section 3.1). Nothing is resigned or adjudicated. A
game depends on its number, seed, opening and nets alone, whatever is played beside it, as far as a net's sums do: in
torch on a GPU their last bits depend on the size of a batch.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from arena.go.coords import symmetry_table
from arena.go.game import Rules
from arena.go.kernels import area_of
from arena.go.planes import Encoder, Positions
from arena.match.openings import Opening
from bots.search.puct import Leaves, PuctParams, expand_leaves
from trainers.slots import (
    GameSlots,
    RuleParams,
    SearchSlots,
    SelfPlayParams,
    begin_search,
    copy_positions,
    play_policy_moves,
    put_game,
    search_on,
)

RANDOM, GIVEN = -1, -2
"""Who decided a move: a uniformly random one, and one of the opening; else the number of an evaluator."""

NEVER = -1e4
"""A logit of a move that is played only where there is no other, and no infinity to subtract."""

PIECE = 64
"""Positions that a thread copies and encodes at a time: as many as stay in the cache."""


class Evaluator(Protocol):
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
    drawn: int = 0
    """Moves before this one are drawn from the policy of a search's net."""


@dataclass(frozen=True, slots=True)
class PlayedGame:
    """A game that is over, and what full searches found."""

    number: int
    moves: np.ndarray  # (moves,) uint16
    komi: float
    margin: float
    """Black's, komi counted."""
    is_sound: bool
    """Whether both sides passed; else the move limit cut it off."""
    plies: np.ndarray  # (searches,) int64
    levels: np.ndarray  # (searches, size² + 1) uint16: shares of the moves, up to a factor
    win_rates: np.ndarray  # (searches,) float32, of the side to move
    deciders: np.ndarray | None = None  # (moves,) int8: who decided each, without a search


@dataclass(slots=True)
class Pace:
    """What was played, and the seconds that it took, summed over engines; an engine counts its own on."""

    seconds: float = 0.0
    net_seconds: float = 0.0
    evaluations: int = 0
    batches: int = 0
    moves: int = 0
    """Of games that are over."""

    def __add__(self, other: Pace) -> Pace:
        return Pace(*(getattr(self, item.name) + getattr(other, item.name) for item in fields(Pace)))

    def __sub__(self, other: Pace) -> Pace:
        return Pace(*(getattr(self, item.name) - getattr(other, item.name) for item in fields(Pace)))


def draw_seeds(count: int, *key: int) -> np.ndarray:
    """Seeds of games, (count,) uint64, by a key of numbers."""
    return np.random.default_rng(key).integers(0, 2**63, count, np.uint64)


Part = TypeVar("Part")
Result = TypeVar("Result")


class Threads:
    """Threads that share work on slots; with one, whoever calls does it."""

    def __init__(self, count: int):
        self.count = count
        self._pool = ThreadPoolExecutor(count) if count > 1 else None

    def __enter__(self) -> Threads:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def parts(self, count: int) -> list[slice]:
        """``count`` slots in a range a thread, or in one where that is too little for each."""
        parts = self.count if count >= 2 * self.count else 1
        bounds = [count * part // parts for part in range(parts + 1)]
        return list(map(slice, bounds, bounds[1:]))

    def map(self, work: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
        if self._pool is None or len(parts) == 1:
            return list(map(work, parts))
        return list(self._pool.map(work, parts))


class _Request(NamedTuple):
    """Positions of a group that a net is to evaluate, and what its answer is for."""

    evaluator: int
    planes: np.ndarray  # (B, P, n, n)
    waiting: Any


class SelfPlayGames:
    """Games in slots, which are parted into groups: with two, a net evaluates the positions of one in a thread of its
    own while the moves of the other are played. ``PolicyGames`` and ``SearchGames`` say how moves are decided."""

    def __init__(self, rules: Rules, nets: Sequence[Evaluator], slots: int, threads: int = 1, groups: int = 1):
        """Raises ConfigError for rules that count prisoners."""
        self.pace = Pace()
        """Of all that was played so far."""
        self._rules, self._rule_params, self._nets = rules, RuleParams.of(rules), nets
        self._games = GameSlots.empty(slots, rules.move_limit)
        self._numbers = np.full(slots, -1)
        self._groups = np.array_split(np.arange(slots), min(groups, slots))
        self._threads = Threads(threads)
        self._over: list[PlayedGame] = []

    def play(
        self, begin: Callable[[], NewGame | None], goes_on: Callable[[], bool] = lambda: True
    ) -> Iterator[PlayedGame]:
        """Play the games that ``begin`` gives until it gives none; games as they end. Games under way are lost once it
        no longer ``goes_on``. To be called once. Raises IllegalMove for an opening that can't be played."""
        waiting: deque[tuple[int, _Request, Callable[[], Any]]] = deque()
        with self._threads, ThreadPoolExecutor(1, "nets") as beside:

            def ask(group: int) -> None:
                request, began = None, time.perf_counter()
                while request is None and goes_on() and self._fill(group, begin):
                    request = self._request(self._groups[group])
                self.pace.seconds += time.perf_counter() - began
                if request is not None:
                    answer = partial(self._evaluate, request)
                    later = answer if len(self._groups) == 1 else beside.submit(answer).result
                    waiting.append((group, request, later))

            for group in range(len(self._groups)):
                ask(group)
            while waiting:
                group, request, later = waiting.popleft()
                began = time.perf_counter()
                logits, win_rates, seconds = later()
                self._take(request, logits, win_rates)
                self.pace.seconds += time.perf_counter() - began
                self.pace.net_seconds += seconds
                self.pace.evaluations += len(request.planes)
                self.pace.batches += 1
                ask(group)
                yield from self._over
                self._over.clear()
            yield from self._over

    def _fill(self, group: int, begin: Callable[[], NewGame | None]) -> bool:
        """Begin games in the free slots of a group; whether it plays any."""
        slots, playing = self._groups[group], self._games.playing
        for slot in slots[~playing[slots]].tolist():
            new = begin()
            if new is None:
                break
            put_game(self._games, slot, self._rule_params, self._rules.size, new.komi, new.seed, new.opening)
            self._numbers[slot] = new.number
            self._begin(slot, new)
        return bool(playing[slots].any())

    def _evaluate(self, request: _Request) -> tuple[np.ndarray, np.ndarray, float]:
        began = time.perf_counter()
        return *self._nets[request.evaluator].evaluate(request.planes), time.perf_counter() - began

    def _finish(self, slots: np.ndarray) -> None:
        """Note the games of these slots that are over."""
        size, games = self._rules.size, self._games
        for slot in slots[~games.playing[slots]].tolist():
            moves = games.moves[slot, : games.lengths[slot]].copy()
            self.pace.moves += len(moves)
            self._over.append(
                PlayedGame(
                    int(self._numbers[slot]),
                    moves,
                    float(games.komis[slot]),
                    float(area_of(games.boards, slot) - games.komis[slot]),
                    moves[-2:].tolist() == [size**2, size**2],
                    *self._found(slot),
                )
            )

    def _begin(self, slot: int, new: NewGame) -> None:
        raise NotImplementedError

    def _request(self, slots: np.ndarray) -> _Request | None:
        """Go on with a group until a net is needed; None where all of its games have ended instead."""
        raise NotImplementedError

    def _take(self, request: _Request, logits: np.ndarray, win_rates: np.ndarray) -> None:
        raise NotImplementedError

    def _found(self, slot: int) -> tuple[Any, ...]:
        """The last fields of a ``PlayedGame``."""
        raise NotImplementedError


Seats = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Who decides: ``seats(numbers, plies)`` gives for each game's number and the number of moves played there, both (k,)
int64, the number of an evaluator, or RANDOM; (k,) int64."""


class PolicyGames(SelfPlayGames):
    """Games whose moves are drawn from policies. Of the nets that one is asked next which is to move in the most games:
    so two nets with a colour each fall out of step at once, and each is asked about all games, not half of them."""

    def __init__(
        self,
        rules: Rules,
        nets: Sequence[Evaluator],
        seats: Seats,
        slots: int,
        temperature: float = 1.0,
        threads: int = 1,
        groups: int = 1,
    ):
        super().__init__(rules, nets, slots, threads, groups)
        self._seats, self._temperature = seats, temperature
        self._deciders = np.empty((slots, rules.move_limit), np.int8)

    def _begin(self, slot: int, new: NewGame) -> None:
        self._deciders[slot, : len(new.opening)] = GIVEN

    def _request(self, slots: np.ndarray) -> _Request | None:
        while len(slots := slots[self._games.playing[slots]]):
            seated = self._seats(self._numbers[slots], self._games.lengths[slots])
            if not (at_random := slots[seated == RANDOM]).size:
                most = int(np.bincount(seated).argmax())
                which = slots[seated == most]
                return _Request(most, self._encode(which, self._nets[most].encoder), which)
            logits = np.zeros((len(at_random), self._rules.size**2 + 1), np.float32)
            logits[:, -1] = NEVER
            self._play(at_random, logits, RANDOM)
        return None

    def _take(self, request: _Request, logits: np.ndarray, win_rates: np.ndarray) -> None:
        self._play(request.waiting, logits, request.evaluator)

    def _play(self, which: np.ndarray, logits: np.ndarray, decider: int) -> None:
        self._deciders[which, self._games.lengths[which]] = decider

        def play(part: slice) -> None:
            play_policy_moves(self._games, which[part], logits[part], self._temperature, self._rule_params)

        self._threads.map(play, self._threads.parts(len(which)))
        self._finish(which)

    def _encode(self, which: np.ndarray, encoder: Encoder) -> np.ndarray:
        size = self._rules.size
        planes = np.empty((len(which), encoder.planes, size * size), np.float32)

        def encode(part: slice) -> None:
            positions = Positions.empty(min(PIECE, part.stop - part.start))
            for first in range(part.start, part.stop, PIECE):
                some = which[first : min(first + PIECE, part.stop)]
                copy_positions(self._games, some, positions)
                encoder.encode(positions, len(some), planes[first : first + len(some)])

        self._threads.map(encode, self._threads.parts(len(which)))
        return planes.reshape(len(which), encoder.planes, size, size)

    def _found(self, slot: int) -> tuple[Any, ...]:
        length, moves = self._games.lengths[slot], self._rules.size**2 + 1
        none = np.empty(0, np.int64), np.empty((0, moves), np.uint16), np.empty(0, np.float32)
        return *none, self._deciders[slot, :length].copy()


class SearchGames(SelfPlayGames):
    """Games with a search by one net at each move, PUCT or Gumbel's, in a range of slots a thread."""

    def __init__(
        self,
        rules: Rules,
        net: Evaluator,
        params: SelfPlayParams,
        puct: PuctParams,
        slots: int,
        threads: int = 1,
        groups: int = 1,
        most_nodes: int = 2**31,
    ):
        super().__init__(rules, [net], slots, threads, groups)
        self._params, self._puct, self._encoder = params, puct, net.encoder
        moves, at_once = rules.size**2 + 1, params.virtual_loss_batch
        capacity = (max(params.visits, params.cheap_search_visits) + at_once) * moves + 1
        self._searches = SearchSlots.empty(slots, min(most_nodes, capacity), rules.move_limit, moves)
        batch = len(self._groups[0]) * at_once
        self._leaves = {int(group[0]): Leaves.empty(batch) for group in self._groups}
        self._planes = {
            int(group[0]): np.empty((batch, net.encoder.planes, moves - 1), np.float32) for group in self._groups
        }

    def _begin(self, slot: int, new: NewGame) -> None:
        slots = np.array([slot])
        begin_search(self._games, self._searches, slots, new.drawn, self._rule_params, self._params, self._puct)

    def _request(self, group: np.ndarray) -> _Request | None:
        leaves, planes, at_once = (
            self._leaves[int(group[0])],
            self._planes[int(group[0])],
            self._params.virtual_loss_batch,
        )
        slots = group[self._games.playing[group]]
        parts = self._threads.parts(len(slots))
        some = [_part(leaves, slice(part.start * at_once, part.stop * at_once)) for part in parts]

        def search(work: tuple[slice, Leaves]) -> int:
            part, found = work
            trees = (self._games, self._searches, slots[part])
            return int(search_on(*trees, self._rule_params, self._params, self._puct, found))

        counts = self._threads.map(search, list(zip(parts, some, strict=True)))
        self._finish(slots)
        bounds = [0, *accumulate(counts)]
        waiting = [(one, slice(*ends)) for one, ends in zip(some, pairwise(bounds), strict=True)]

        def encode(work: tuple[Leaves, slice]) -> None:
            found, part = work
            self._encoder.encode(found.positions, part.stop - part.start, planes[part])

        self._threads.map(encode, waiting)
        shape = (bounds[-1], self._encoder.planes, self._rules.size, self._rules.size)
        return _Request(0, planes[: bounds[-1]].reshape(shape), waiting) if bounds[-1] else None

    def _take(self, request: _Request, logits: np.ndarray, win_rates: np.ndarray) -> None:
        turns, searches = symmetry_table(self._rules.size), self._searches

        def expand(work: tuple[Leaves, slice]) -> None:
            leaves, part = work
            trees = (searches.roots, searches.nodes, searches.owners, self._puct, turns)
            expand_leaves(*trees, leaves, part.stop - part.start, logits[part], win_rates[part])

        self._threads.map(expand, request.waiting)

    def _found(self, slot: int) -> tuple[Any, ...]:
        searches, count = self._searches, self._searches.counts[slot]
        return tuple(column[slot, :count].copy() for column in (searches.plies, searches.levels, searches.win_rates))


def _part(leaves: Leaves, part: slice) -> Leaves:
    positions = Positions(*(column[part] for column in leaves.positions))
    return Leaves(leaves.slots[part], leaves.paths[part], leaves.depths[part], positions)


# --- Beside a net that learns ---

PlayGames = Callable[[Callable[[], bool]], Iterator[PlayedGame]]
"""Plays while a condition holds, and gives games as they end."""


class Players:
    """Engines that play in threads as long as the context lasts, or until they have finished ``most`` games."""

    def __init__(self, engines: Sequence[PlayGames], most: float = math.inf, nice: int = 0):
        """``nice`` is how far the threads step back behind others, on Linux."""
        self._engines, self._left, self._nice = engines, most, nice
        self._pool = ThreadPoolExecutor(len(engines), "players")
        self._changed = threading.Condition()
        self._finished: list[PlayedGame] = []
        self._rows = 0
        self._stopped = False
        self._working: list[Future[None]] = []

    def __enter__(self) -> Players:
        self._working = [self._pool.submit(self._play, engine) for engine in self._engines]
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped = True
        self._pool.shutdown()

    def _play(self, engine: PlayGames) -> None:
        if sys.platform == "linux" and self._nice:
            usual = os.getpriority(os.PRIO_PROCESS, os.getpid())
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), min(19, usual + self._nice))
        for game in engine(lambda: not self._stopped and self._left > 0):
            with self._changed:
                if self._left > 0:
                    self._left -= 1
                    self._finished.append(game)
                    self._rows += len(game.plies)
                    self._changed.notify_all()

    def take(
        self, rows: float, goes_on: Callable[[], bool] = lambda: True, seconds: float = math.inf
    ) -> list[PlayedGame]:
        """Finished games that weren't taken yet, once they have ``rows`` rows, all have been played, some ``seconds``
        are over, or it no longer ``goes_on``. Raises what an engine raised."""
        until = time.monotonic() + seconds
        while goes_on() and time.monotonic() < until:
            are_done = [working.done() for working in self._working]
            for working in self._working:
                if working.done():
                    working.result()
            with self._changed:
                if self._rows >= rows or self._left <= 0 or all(are_done):
                    break
                self._changed.wait(0.2)
        return self.rest()

    def rest(self) -> list[PlayedGame]:
        """Finished games that weren't taken yet."""
        with self._changed:
            taken, self._finished, self._rows = self._finished, [], 0
        return taken

    @property
    def are_done(self) -> bool:
        """Whether every engine has ended."""
        return all(working.done() for working in self._working)
