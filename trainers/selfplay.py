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
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from arena.go.coords import symmetry_table
from arena.go.game import Rules
from arena.go.kernels import area_score
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

RANDOM = -1  # who decides a move that is drawn uniformly; else the number of an evaluator
NEVER = -1e4  # a logit of a move that is played only where there is no other, and no infinity to subtract
PIECE = 64  # positions that a thread copies and encodes at a time: as many as stay in the cache


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


class Shape(NamedTuple):
    """How an engine plays."""

    slots: int  # games at once
    threads: int = 1
    groups: int = 1  # of slots: with two, a net evaluates one in a thread of its own while the other is played

    @classmethod
    def of(cls, on_gpu: bool, slots: int, threads: int) -> list[Shape]:
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


Part = TypeVar("Part")
Result = TypeVar("Result")


Evaluations = Generator[tuple[int, np.ndarray], tuple[np.ndarray, np.ndarray], None]
"""Gives the number of an evaluator and planes (B, P, n, n), and is sent what ``Evaluator.evaluate`` returns of them."""


class SelfPlayGames:
    """Games in slots. ``PolicyGames`` and ``SearchGames`` say how moves are decided."""

    def __init__(self, rules: Rules, nets: Sequence[Evaluator], shape: Shape):
        """Raises ConfigError for rules that count prisoners."""
        self.pace: Any = Counter()
        """Of all that was played: moves of games that are over, evaluations, batches, and seconds and net_seconds."""
        self._rules, self._rule_params, self._nets = rules, RuleParams.of(rules), nets
        self._games = GameSlots.empty(shape.slots, rules.move_limit)
        self._numbers = np.full(shape.slots, -1)
        self._groups = np.array_split(np.arange(shape.slots), min(shape.groups, shape.slots))
        self._threads, self._pool = shape.threads, ThreadPoolExecutor(shape.threads)
        self._over: list[PlayedGame] = []

    def play(self, new_games: Iterator[NewGame], goes_on: Callable[[], bool] = lambda: True) -> Iterator[PlayedGame]:
        """Play all of ``new_games``; games as they end. Games under way are lost once it no longer ``goes_on``. To be
        called once. Raises IllegalMove for an opening that can't be played."""
        waiting: deque[tuple[Evaluations, Callable[[], tuple[np.ndarray, np.ndarray]]]] = deque()
        with self._pool, ThreadPoolExecutor(1, "nets") as beside:

            def go_on(group: Evaluations, answer: Callable[[], tuple[np.ndarray, np.ndarray]] | None = None) -> None:
                began = time.perf_counter()
                try:
                    evaluate = partial(self._evaluate, *group.send(answer() if answer else None))  # type: ignore[arg-type]  # the first
                except StopIteration:
                    return
                waiting.append((group, evaluate if len(self._groups) == 1 else beside.submit(evaluate).result))
                self.pace["seconds"] += time.perf_counter() - began

            for slots in self._groups:
                go_on(self._play_group(slots, partial(self._fill, slots, new_games, goes_on)))
            while waiting:
                go_on(*waiting.popleft())
                yield from self._over
                self._over.clear()
            yield from self._over

    def _fill(self, slots: np.ndarray, new_games: Iterator[NewGame], goes_on: Callable[[], bool]) -> bool:
        """Begin games in the free ones of some slots; whether any is played on."""
        if not goes_on():
            return False
        games = self._games
        for slot, new in zip(slots[~games.playing[slots]].tolist(), new_games, strict=False):
            put_game(games, slot, self._rule_params, self._rules.size, new.komi, new.seed, new.opening)
            self._numbers[slot] = new.number
            self._begin(slot, new)
        return bool(games.playing[slots].any())

    def _evaluate(self, number: int, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        began = time.perf_counter()
        answer = self._nets[number].evaluate(planes)
        self.pace.update(net_seconds=time.perf_counter() - began, evaluations=len(planes), batches=1)
        return answer

    def _finish(self, slots: np.ndarray) -> None:
        """Note the games of these slots that are over."""
        size, games = self._rules.size, self._games
        for slot in slots[~games.playing[slots]].tolist():
            moves, komi = games.moves[slot, : games.lengths[slot]].copy(), float(games.komis[slot])
            margin, is_sound = float(area_score(games.boards[slot])) - komi, moves[-2:].tolist() == [size**2, size**2]
            self.pace["moves"] += len(moves)
            self._over.append(PlayedGame(int(self._numbers[slot]), moves, komi, margin, is_sound, *self._found(slot)))

    def _parts(self, count: int) -> list[slice]:
        """``count`` slots in a range a thread, or in one where that is too little for each."""
        parts = self._threads if count >= 2 * self._threads else 1
        return [slice(count * part // parts, count * (part + 1) // parts) for part in range(parts)]

    def _map(self, work: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
        """What work returns for each part, in the threads; without another one where there is one part."""
        return list((self._pool.map if len(parts) > 1 else map)(work, parts))

    def _begin(self, slot: int, new: NewGame) -> None:
        """Prepare a slot for its game."""

    def _play_group(self, slots: np.ndarray, fill: Callable[[], bool]) -> Evaluations:
        """Play in some slots as long as ``fill``, which is called before each round of moves, says so."""
        raise NotImplementedError

    def _found(self, slot: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What searches found: the last fields of a ``PlayedGame``."""
        return np.empty(0, np.int64), np.empty((0, self._rules.size**2 + 1), np.uint16), np.empty(0, np.float32)


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
        shape: Shape,
        temperature: float = 1.0,
    ):
        super().__init__(rules, nets, shape)
        self._seats, self._temperature = seats, temperature

    def _play_group(self, slots: np.ndarray, fill: Callable[[], bool]) -> Evaluations:
        while fill():
            playing = slots[self._games.playing[slots]]
            seated = self._seats(self._numbers[playing], self._games.lengths[playing])
            if (which := playing[seated == RANDOM]).size:
                logits = np.zeros((len(which), self._rules.size**2 + 1), np.float32)
                logits[:, -1] = NEVER
            else:
                most = int(np.bincount(seated).argmax())
                which = playing[seated == most]
                logits, _ = yield most, self._encode(which, self._nets[most].encoder)
            self._play(which, logits)

    def _play(self, which: np.ndarray, logits: np.ndarray) -> None:
        def play(part: slice) -> None:
            play_policy_moves(self._games, which[part], logits[part], self._temperature, self._rule_params)

        self._map(play, self._parts(len(which)))
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

        self._map(encode, self._parts(len(which)))
        return planes.reshape(len(which), encoder.planes, size, size)


class SearchGames(SelfPlayGames):
    """Games with a search by one net at each move, PUCT or Gumbel's, in a range of slots a thread."""

    def __init__(
        self,
        rules: Rules,
        net: Evaluator,
        params: SelfPlayParams,
        puct: PuctParams,
        shape: Shape,
        most_nodes: int = 2**31,
    ):
        super().__init__(rules, [net], shape)
        self._params, self._puct, self._encoder = params, puct, net.encoder
        moves, at_once = rules.size**2 + 1, params.virtual_loss_batch
        capacity = (max(params.visits, params.cheap_search_visits) + at_once) * moves + 1
        self._searches = SearchSlots.empty(shape.slots, min(most_nodes, capacity), rules.move_limit, moves)

    def _begin(self, slot: int, new: NewGame) -> None:
        slots = np.array([slot])
        begin_search(self._games, self._searches, slots, new.drawn, self._rule_params, self._params, self._puct)

    def _play_group(self, slots: np.ndarray, fill: Callable[[], bool]) -> Evaluations:
        size, at_once = self._rules.size, self._params.virtual_loss_batch
        leaves = Leaves.empty(len(slots) * at_once)
        planes = np.empty((len(slots) * at_once, self._encoder.planes, size**2), np.float32)
        params, turns, trees = (self._rule_params, self._params, self._puct), symmetry_table(size), self._searches

        def search(work: tuple[slice, Leaves]) -> int:
            return int(search_on(self._games, trees, playing[work[0]], *params, work[1]))

        def encode(work: tuple[Leaves, slice]) -> None:
            found, part = work
            self._encoder.encode(found.positions, part.stop - part.start, planes[part])

        def expand(work: tuple[Leaves, slice]) -> None:
            found, part = work
            known = (found, part.stop - part.start, logits[part], win_rates[part])
            expand_leaves(trees.roots, trees.nodes, trees.owners, self._puct, turns, *known)

        while fill():
            playing = slots[self._games.playing[slots]]
            parts = self._parts(len(playing))
            of_parts = [_part(leaves, slice(part.start * at_once, part.stop * at_once)) for part in parts]
            bounds = [0, *accumulate(self._map(search, list(zip(parts, of_parts, strict=True))))]
            self._finish(playing)
            if bounds[-1]:
                found = list(zip(of_parts, map(slice, bounds, bounds[1:]), strict=True))
                self._map(encode, found)
                logits, win_rates = yield 0, planes[: bounds[-1]].reshape(bounds[-1], -1, size, size)
                self._map(expand, found)

    def _found(self, slot: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        found, count = self._searches, self._searches.counts[slot]
        plies, levels, win_rates = (column[slot, :count] for column in (found.plies, found.levels, found.win_rates))
        return plies.copy(), levels.copy(), win_rates.copy()


def _part(leaves: Leaves, part: slice) -> Leaves:
    positions = Positions(*(column[part] for column in leaves.positions))
    return Leaves(leaves.slots[part], leaves.paths[part], leaves.depths[part], positions)


# --- Beside a net that learns ---

PlayGames = Callable[[Callable[[], bool]], Iterator[PlayedGame]]
"""Plays while a condition holds, and gives games as they end."""


class Players:
    """Engines that play in threads as long as the context lasts, or until all of them have ended."""

    def __init__(self, engines: Sequence[PlayGames], nice: int = 0):
        """``nice`` is how far the threads step back behind others, on Linux."""
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
        self, rows: float, goes_on: Callable[[], bool] = lambda: True, seconds: float = math.inf
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
