"""What many workers cost the one process that plans and stores: on a Ray cluster of this machine, and pretended ones.

The bots think by sleeping, so that a few cores can hold many of them.
"""

from __future__ import annotations

import pickle
import re
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from os import getpid
from pathlib import Path
from time import monotonic, process_time
from typing import Any

from arena import ConfigError
from arena.contract.bot import Bot, BotKind, Decision, Limits, setting
from arena.events.cluster import Cluster
from arena.events.hands import Hand, Hands, State
from arena.events.pairing import Pairing
from arena.events.room import Room
from arena.events.runner import play_event
from arena.events.schedule import Match
from arena.events.terms import Terms
from arena.events.worker import READY, Job
from arena.go.game import Game, Rules
from arena.go.record import Record
from arena.players.registry import Entry
from arena.results.store import Store
from benchmarks.measure import row, skipped
from bots.random import Config as NoSettings
from bots.random import RandomBot

MOVES = 10
"""Moves that each game of sleepers has after its opening; the last is a resignation."""

TERMS = Terms(Rules.preset("cgos", 9), openings=1000, plies=4)

WORKERS = (1, 2, 4, 8, 16, 64)

WARM, MEASURED = 8.0, 15.0
"""Seconds with all workers before anything is measured, and for which it is."""


@dataclass(frozen=True, slots=True)
class Config:
    seconds: float = setting(1.0, "of sleep a game", low=0.0)


class Sleeper(RandomBot):
    """Plays at random, and sleeps over each move."""

    def __init__(self, config: Config):
        super().__init__(NoSettings())
        self.config = config

    def choose(self, game: Game, limits: Limits) -> Decision:
        time.sleep(self.config.seconds / MOVES)
        return Decision(None) if len(game.moves) >= TERMS.plies + MOVES - 1 else super().choose(game, limits)


SLEEPER = BotKind(summary="thinks by sleeping", config=Config, build=Sleeper)


def sleepers(seconds: float, games: int = 300_000) -> Match:
    """A match of two bots that need a given time for a game."""
    entry = Entry("sleeper", "sleeper", "benchmarks.cluster:SLEEPER", (("seconds", seconds),), "the benchmarks")
    return Match(entry, entry, TERMS, games)


@dataclass(frozen=True, slots=True)
class Cost:
    """What was measured of a driver: games a second, its processor's microseconds and its sockets' bytes a game."""

    rate: float
    microseconds: float
    wire: float


def scaling() -> None:
    """Throughput by workers, as a multiple of one worker's, and what a game costs the driver."""
    alone = 0.0
    for workers in WORKERS:
        cost = _measured(1.0, workers)
        alone = alone or cost.rate
        times = f"{cost.rate / alone:.1f} x one worker"
        detail = f"{times}; driver {cost.microseconds:.0f} us and {cost.wire:.0f} bytes a game"
        row(f"a second a game, {workers} workers on a Ray node", f"{cost.rate:.2f} games/s", detail)
    cost = _measured(0.1, 64)
    detail = f"driver {cost.microseconds:.0f} us and {cost.wire:.0f} bytes a game"
    row("a tenth of a second a game, 64 workers on a Ray node", f"{cost.rate:.0f} games/s", detail)


def _measured(seconds: float, workers: int) -> Cost:
    """A match on a number of workers of a node that is started here."""
    event = sleepers(seconds)
    games = 0
    ready = began = 0.0
    before = (0, 0.0, 0)
    with (
        tempfile.TemporaryDirectory() as folder,
        Cluster("local", workers, event.players, TERMS.rules) as hands,
        Store.of(Path(folder), write=True) as store,
    ):
        for update in play_event(event, store, hands):
            games += len(update.records)
            now = monotonic()
            if update.workers == workers and update.records:
                ready = ready or now
            if ready and not began and now - ready > WARM:
                began, before = now, (games, process_time(), _bytes_sent_and_received())
            if began and now - began > MEASURED:
                done = games - before[0]
                cpu, wire = process_time() - before[1], _bytes_sent_and_received() - before[2]
                return Cost(done / (now - began), 1e6 * cpu / done, wire / done)
    raise AssertionError("no match is that short")


def _bytes_sent_and_received() -> int:
    """Of all TCP connections of this process that are open, as the system counts them; 0 where ``ss`` isn't there."""
    try:
        listed = subprocess.run(["ss", "-tinpOH"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return 0
    mine = [line for line in listed.splitlines() if f"pid={getpid()}," in line]
    return sum(int(number) for line in mine for number in re.findall(r"bytes_(?:sent|received):(\d+)", line))


# --- Pretended workers ---


@dataclass(eq=False)
class Pretended:
    """A worker that sends the record of each game a second after the one before, without playing it."""

    on: Crowd
    free_at: float = 0.0
    inbox: list[Any] = field(default_factory=lambda: [READY])
    place: str = ""

    def state(self) -> State:
        return State(lived=1.0)

    def send(self, message: Pairing | str | None) -> None:
        if isinstance(message, Pairing):
            self.free_at = max(monotonic(), self.free_at) + self.on.seconds
            heappush(self.on.due, (self.free_at, id(message), self, message))

    def take(self) -> Iterator[Any]:
        inbox, self.inbox = self.inbox, []
        yield from inbox

    def stop(self) -> None:
        pass

    def end(self, seconds: float) -> None:
        pass

    def last_words(self) -> str:
        return ""

    def close(self) -> None:
        pass


class Crowd:
    """Simulated workers. Their messages pass through pickle, as on a network."""

    def __init__(self, workers: int, seconds: float):
        self.most, self.seconds = workers, seconds
        self.nodes: Collection[str] | None = None
        self.due: list[tuple[float, int, Pretended, Pairing]] = []
        self._new: list[Hand] = []
        self._record = pickle.dumps(_record())

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def news(self) -> list[str]:
        return []

    def has_room(self, hired: Collection[tuple[Hand, bool]]) -> bool:
        return True

    def hire(self, job: Job) -> Hand:
        hand = Pretended(self)
        self._new.append(hand)
        return hand

    def wait(self, hired: Collection[Hand], seconds: float) -> Collection[Hand]:
        new, self._new = self._new, []
        if new:
            return new
        if not self.due or self.due[0][0] > monotonic():
            until = monotonic() + seconds
            time.sleep(max(0.0, min(seconds, (self.due[0][0] if self.due else until) - monotonic())))
        told: dict[Hand, None] = {}
        while self.due and self.due[0][0] <= monotonic():
            _, _, hand, pairing = heappop(self.due)
            record = replace(pickle.loads(self._record), id=pairing.id, seed=pairing.seed)
            hand.inbox.append(record)
            told[hand] = None
        return list(told)


def _record() -> Record:
    """A game of ``random`` against itself."""
    players: dict[str, Bot] = {name: RandomBot(NoSettings()) for name in sleepers(0.0).players}
    room = Room(players, TERMS.rules, dict.fromkeys(players, Limits()))
    room.seat(sleepers(0.0, 2).pairings()[0])
    while True:
        for record in room.play_round():
            return record


def pretended() -> None:
    """Games stored a second by one process, by how many workers it watches."""
    for workers, seconds in ((64, 1.0), (1000, 1.0), (5000, 2.5), (5000, 1.0)):
        event, games = sleepers(1.0), 0
        began, before = 0.0, (0, 0.0)
        hands: Hands = Crowd(workers, seconds)
        with tempfile.TemporaryDirectory() as folder, Store.of(Path(folder), write=True) as store:
            for update in play_event(event, store, hands):
                games += len(update.records)
                if not began and update.workers == workers and games > 2 * workers:
                    began, before = monotonic(), (games, process_time())
                if began and monotonic() - began > MEASURED:
                    break
            done, cpu = games - before[0], process_time() - before[1]
        rate = done / (monotonic() - began)
        wanted = workers / seconds
        detail = f"of {wanted:.0f} that they play; {1e6 * cpu / done:.0f} us a game, {cpu / MEASURED:.0%} of a core"
        row(f"{workers} pretended workers, {seconds:g} s a game", f"{rate:.0f} games/s", detail)


def cluster() -> None:
    pretended()
    try:
        scaling()
    except ConfigError as error:
        skipped("workers on a Ray node", str(error))
