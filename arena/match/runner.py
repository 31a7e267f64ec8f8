"""Plays an event: gives the missing games to a crew, stores its records, and ends when the test is decided.

Missing are the planned games whose ids aren't stored. Journals keep the games under way.
"""

import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import chain
from math import inf
from pathlib import Path
from shutil import rmtree
from time import monotonic
from typing import Any, Protocol

from arena import StoreBusy, StoreError, UserError, plural
from arena.go.record import GameRecord, Played
from arena.match.cluster import Cluster
from arena.match.crew import Crew, delay_signals
from arena.match.crew import Update as Update
from arena.match.event import Event
from arena.match.schedule import Pairing
from arena.match.swiss import Swiss
from arena.match.worker import BoardSnapshot

AnyCrew = Crew | Cluster

UPDATE_SECONDS = 0.1  # seconds between two updates
FINISH = 5.0  # seconds that the games under way have to end when the event is finished early
FINISHING = f"Finishing the games under way for at most {FINISH:g} s, then stopping. Again (q, Ctrl-C) stops now."
STORE_WAIT_SECONDS = 2.0  # seconds for which a store that another program holds is tried when the event ends


class GamesNotStored(StoreError):
    """An event was ended while another program held the results, and finished ``games`` could not be stored."""

    def __init__(self, games: int):
        super().__init__(f"another program holds the results: {plural(games, 'finished game')} could not be stored")
        self.games = games


@dataclass(slots=True)
class Control:
    """Requests to a running event, from any thread. While ``paused``, no bot is called and no clock runs. Once
    ``finishing``, no game begins; the event ends with the games under way, after ``FINISH`` seconds at the latest."""

    paused: bool = False
    finishing: bool = False


class RecordStore(Protocol):
    """Where games are kept: a ``Store``, or something that keeps them as safely."""

    def append(self, records: Sequence[GameRecord], patience: float) -> None:
        """Make games durable. Raises StoreBusy when another program prevents it for ``patience`` seconds."""

    def check_place(self) -> None:
        """Raises StoreError when the file was moved or deleted."""

    def game_summaries(self, *, event: str) -> Iterator[Sequence[Played]]: ...

    def journals(self, event: str) -> Path:
        """The folder where the games of an event are kept that are under way."""


def play_event(
    event: Event, store: RecordStore, workers: int | AnyCrew, control: Control | None = None
) -> Generator[Update, None, None]:
    """Play the games that ``store`` lacks, yielding an update several times a second until all are durable.

    The first updates have the games of earlier runs. A match with a test ends with the update that decides it. Closing
    the generator ends the workers and stores every game that they had finished. While another program holds the store,
    play goes on and finished games wait. ``workers`` is a number of processes, or an entered crew. Raises UserError
    when a bot can't be built, and GamesNotStored when the event ends while games wait.
    """
    control = control or Control()
    run, folder = _Run(event, store, control), store.journals(event.event)
    yield from run.resume()
    own: Any = nullcontext(workers)
    if isinstance(workers, int):
        own = Crew(event.players, event.terms, workers, journals=folder)
    with own as crew:
        yield from run.play(crew)
    if not control.finishing or run.standings.is_decided:  # nothing is under way any more
        rmtree(folder, ignore_errors=True)
        with suppress(OSError):
            folder.parent.rmdir()  # if it was the last


class _Run:
    def __init__(self, event: Event, store: RecordStore, control: Control):
        self._event, self._store, self._control = event, store, control
        self._ids: set[int] = set()  # hashes of the stored games' ids, which take half the memory of the ids
        self._played: list[Played] = []  # of a Swiss tournament, which plans by them
        self.standings = event.standings()  # of a match with a test
        self._finished: list[GameRecord] = []  # not durable yet
        self._identities = {name: player.identity for name, player in event.players.items()}
        self._highest: dict[str, int] = {}  # the number of the last game of each series that an earlier run stored

    def resume(self) -> Iterator[Update]:
        """Updates with the games of earlier runs that belong to the event as it is planned now."""
        is_planned = _membership(self._event, self._store)
        for games in self._store.game_summaries(event=self._event.event):
            if known := [game for game in games if is_planned(game.id)]:
                for series, _, number in (game.id.rpartition("/") for game in known):
                    self._highest[series] = max(int(number), self._highest.get(series, 0))
                self._count(known)
                yield Update(known, resumed=True)
        if not self._ids:
            yield Update(resumed=True)

    def play(self, crew: AnyCrew) -> Generator[Update, None, None]:
        """Play the planned games until no more are planned or the event is to end."""

        def had_begun(pairing: Pairing) -> bool:  # the games of a series begin in their order
            series, _, number = pairing.id.rpartition("/")
            return int(number) < self._highest.get(series, 0)

        while not self._is_over:
            missing = self._event.pairings(self._played, lambda id: hash(id) in self._ids)
            crew.add(missing, had_begun)
            try:
                yield from self._play(crew)
            finally:
                if self._is_over or sys.exception() is not None:
                    self._end(crew)
            if not missing or not isinstance(self._event, Swiss):
                return  # no other plans more

    @property
    def _is_over(self) -> bool:
        return self._control.finishing or self.standings.is_decided

    def _play(self, crew: AnyCrew) -> Generator[Update, None, None]:
        """Play until all games of the crew are stored, the test is decided, or the time for games to end is over."""
        control, updated, finish_by = self._control, monotonic(), inf
        snapshots: dict[str, BoardSnapshot] = {}
        while (crew.is_busy or self._finished) and not self.standings.is_decided and monotonic() < finish_by:
            crew.pause(control.paused)
            news = []
            if control.finishing and finish_by == inf:
                finish_by, news = monotonic() + FINISH, [FINISHING]
                crew.finish()
            update = crew.poll(UPDATE_SECONDS / 2)
            news += update.news
            self._finished += [game for game in update.records if isinstance(game, GameRecord)]
            snapshots |= {snapshot.pairing.id: snapshot for snapshot in update.snapshots}
            if monotonic() - updated >= UPDATE_SECONDS or not crew.is_busy or news:
                records, boards = self._append(UPDATE_SECONDS), [*snapshots.values()]
                yield replace(update, records=records, snapshots=boards, waiting=len(self._finished), news=news)
                snapshots.clear()
                updated = monotonic()
        if control.finishing:
            self._finished += crew.stop()
            yield Update(self._append(STORE_WAIT_SECONDS), waiting=len(self._finished))

    def _end(self, crew: AnyCrew) -> None:
        """Stop the crew and store what it had finished. Raises GamesNotStored where that is not possible."""
        with delay_signals():
            self._finished += crew.stop()
            self._append(STORE_WAIT_SECONDS)
            if self._finished and not self.standings.is_decided and not isinstance(sys.exception(), UserError):
                raise GamesNotStored(len(self._finished))

    def _append(self, patience: float) -> list[GameRecord]:
        """Store the finished games in one transaction, and return them; none while another program holds the store."""
        self._store.check_place()
        with delay_signals():  # a game that is in the store is no longer in the list
            records = [
                replace(game, black_player=self._identities[game.black], white_player=self._identities[game.white])
                for game in self._finished
            ]
            try:
                if records:
                    self._store.append(records, patience)
            except StoreBusy:
                return []
            self._finished.clear()
            self._count(records)
            return records

    def _count(self, games: Sequence[Played]) -> None:
        self._ids.update(hash(game.id) for game in games)
        if isinstance(self._event, Swiss):
            self._played += games
        elif self.standings.tests:
            self.standings.add(games)


def _membership(event: Event, store: RecordStore) -> Callable[[str], bool]:
    """Whether the event has the game of an id, as planned now; where stored games decide its test, those that count."""
    if isinstance(event, Swiss):
        round_of = event.round_finder()
        return lambda id: round_of(id) > 0
    played = chain.from_iterable(store.game_summaries(event=event.event)) if event.standings().tests else ()
    numbers = {series.prefix: series.numbers for series in event.series(played)}

    def is_planned(id: str) -> bool:
        prefix, _, number = id.rpartition("/")
        return prefix in numbers and int(number) - 1 in numbers[prefix]

    return is_planned
