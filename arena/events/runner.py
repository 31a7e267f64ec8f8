"""An event from pairings to stored records: worker processes that play, one parent that watches and writes.

What is still to be played is the schedule less what the store has; no other state is kept, so an event that was cut
off goes on where it stopped. An event that plans its games in rounds is asked again when those of a round are over.
No ratings and no screen.
"""

from __future__ import annotations

import signal
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from math import exp
from time import monotonic
from typing import Any, Protocol

from arena import StoreBusy, StoreError, UserError
from arena.events.batch import Batch
from arena.events.hands import Hand, Hands, Local, NotLaunched, State, signals_later
from arena.events.pairing import Course
from arena.events.room import DEATHS, lost_record
from arena.events.schedule import Event, Match, Pairing
from arena.events.worker import PAUSE, RESUME, Glance, Job, Unfinished
from arena.go.game import Ending
from arena.go.record import Played, Record

TICK = 0.1
"""Seconds between two updates."""

STARTUP = 300.0
"""Seconds that a worker may take to build its players, compiling included."""

FINISH = 5.0
"""Seconds that the games under way have to end, once the event is to be finished early."""

STARTS = 3
"""How many workers in a row may die while they start; before one has started, an error of its own is enough."""

LAUNCHES = 100
"""How often in a row the process that starts workers may be gone; it takes a moment to end, and is started again. Also
how many workers in a row may be killed while they start, once one has started."""

UNKNOWN = 255
"""The exit code of a worker when what starts workers was killed, and nobody can tell how the worker ended."""

PATIENCE = 2.0
"""Seconds beyond its deadline before a call counts as hanging, and for a worker to go when the event is over."""

LATELY = 60.0
"""Seconds after which what a machine did counts a third of what it does now."""

MAX_AHEAD = 64
"""Games that a worker is sent ahead, at most."""

AHEAD = 10_000
"""Games that are made of a plan at a time, so that they don't fill the memory."""


@dataclass(frozen=True, slots=True)
class Update:
    """What happened since the last update. ``records`` are durable; ``resumed`` ones were played by an earlier run.
    ``paused`` says whether the event rests, where that is decided elsewhere. ``waiting`` finished games can't be stored
    yet, because another program holds the results. ``nodes`` are the machines of a cluster that play, each with its
    games a second of late; None for this one. ``news`` are lines to be said of them."""

    records: Sequence[Played] = ()
    resumed: bool = False
    glances: tuple[Glance, ...] = ()
    workers: int = 0
    paused: bool | None = None
    waiting: int = 0
    nodes: Mapping[str, float] | None = None
    news: tuple[str, ...] = ()


class Unstored(StoreError):
    """An event was ended while another program held the results, and finished games could not be stored."""

    def __init__(self, games: int):
        super().__init__(
            f"another program holds the results: {games} finished game{'s' if games > 1 else ''} could not be stored; "
            "the same command plays them again"
        )
        self.games = games


@dataclass(slots=True)
class Control:
    """What may be asked of a running event, from any thread. While ``paused``, no bot is called and no clock runs. Once
    it is ``finishing``, no game is begun any more, and it ends when those under way are over, or after ``FINISH``
    seconds."""

    paused: bool = False
    finishing: bool = False


class Keeper(Protocol):
    """Where games are kept: a ``Store``, or something that keeps them as safely."""

    def append(self, records: Sequence[Record], patience: float) -> None:
        """Keep finished games; they are durable on return. Raises StoreBusy when another program prevents it for
        ``patience`` seconds."""

    def check_place(self) -> None:
        """Raises StoreError when what games are kept in was moved or deleted."""

    def scores(self, *, event: str) -> Iterator[Batch]: ...
    def count(self, *, event: str) -> int: ...


def play_event(
    event: Event,
    store: Keeper,
    workers: int | Hands,
    control: Control | None = None,
    seat: Callable[[Pairing], Record] | None = None,
) -> Generator[Update, None, None]:
    """Play what ``event`` is missing in ``store``, yielding updates several times a second until all is durable.

    The first updates carry what was played before. A match with a test ends with the update that decides it. Closing
    the generator stops the workers and stores every game they had finished. While another program holds the store,
    games are played on and wait. Games with a person in them are played by ``seat``, one at a time. ``workers``
    is the number of processes of this machine, or an entered lender of processes.

    Raises UserError when a bot can't be built, and Unstored when the event is ended while games wait.
    """
    course = event.course(store.scores(event=event.event))
    hands: AbstractContextManager[Hands] = Local(workers) if isinstance(workers, int) else nullcontext(workers)
    updates = _rest(event, course, store, hands, control or Control(), seat or _no_seat)
    judge = event.judge() if isinstance(event, Match) and event.test is not None else None
    with closing(updates):
        for update in chain(_resumed(course, store.scores(event=event.event)), updates):
            yield update
            if judge is not None:
                judge.add(update.records)
                if judge.is_decided and not update.resumed:
                    with suppress(Unstored):  # what is over besides doesn't count
                        updates.close()
                    return


def _rest(
    event: Event,
    course: Course,
    store: Keeper,
    hands: AbstractContextManager[Hands],
    control: Control,
    seat: Callable[[Pairing], Record],
) -> Generator[Update, None, None]:
    """Play what is missing: the games of bots, then those of people, as long as that leaves more."""
    while True:
        if missing := _missing(event, course):
            with hands as lent:
                yield from _Crew(event, course, missing, store, lent, control).play()
        if control.finishing:
            return
        with_people = _missing(event, course, with_people=True)
        for pairing in with_people:
            record = _identified(seat(pairing), event)
            while not _appended(store, [record], TICK):
                yield Update(waiting=1)
            course.add([record])
            yield Update((record,))
        if not with_people:
            return


def _resumed(course: Course, games: Iterator[Batch]) -> Iterator[Update]:
    """What was played before, some games at a time, so that they are never in memory all at once."""
    is_new = True
    for some in filter(None, map(course.add, games)):
        is_new = False
        yield Update(some, resumed=True)
    if is_new:
        yield Update(resumed=True)


def _missing(event: Event, course: Course, with_people: bool = False) -> list[Pairing]:
    """The games that can be played now, by bots or with people; a bounded number, to save memory."""
    people = {name for name, entry in event.players.items() if entry.is_person}
    found = (pairing for pairing in course.missing() if with_people is bool({pairing.black, pairing.white} & people))
    return list(islice(found, AHEAD))


def _no_seat(pairing: Pairing) -> Record:
    raise UserError(f"no person can play {pairing.id} here")


def _appended(store: Keeper, records: Sequence[Record], patience: float) -> bool:
    """Store finished games, unless another program holds the store."""
    try:
        store.append(records, patience)
    except StoreBusy:
        return False
    return True


def _identified(record: Record, event: Event) -> Record:
    """The record with who exactly played."""
    players = event.players
    return replace(record, black_player=players[record.black].identity, white_player=players[record.white].identity)


@dataclass(slots=True)
class _Pace:
    """How fast games come, of late more than before."""

    games: float = 0.0
    seconds: float = 0.0

    def pass_by(self, seconds: float) -> float:
        """Let this many seconds pass and return the recent games per second."""
        fading = exp(-seconds / LATELY)
        self.games, self.seconds = self.games * fading, self.seconds * fading + seconds
        return self.games / self.seconds if self.seconds else 0.0


@dataclass(slots=True)
class _Worker:
    """What the runner knows of one worker. A solo worker plays suspect games, one at a time."""

    hand: Hand
    solo: bool
    games: dict[str, Pairing | Unfinished] = field(default_factory=dict)
    left: dict[str, Unfinished] = field(default_factory=dict)
    """The games that it had begun when it was ended, as they stood."""
    started: float = field(default_factory=monotonic)
    ready: bool = False
    leaving: bool = False


class _Crew:
    """The workers of one event."""

    def __init__(
        self, event: Event, course: Course, missing: list[Pairing], store: Keeper, hands: Hands, control: Control
    ):
        self._event = event
        self._hands = hands
        self._course = course
        self._store = store
        self._control = control
        self._paused = False
        self._boards = min(entry.bot_kind.boards for entry in event.players.values())
        self._plan(missing)
        self._suspects: deque[Pairing | Unfinished] = deque()  # their worker died or hung: to be played on alone
        self._deaths: dict[str, tuple[int, int]] = {}  # at which move a game's workers died last, and how often there
        self._cold: set[str] = set()  # bots that hung when they were warmed up
        self._workers: list[_Worker] = []
        self._finished: list[Record] = []  # not durable yet
        self._opened = False  # a worker has started
        self._failed_starts = self._failed_launches = 0
        self._taken_in = 0
        self._paces: defaultdict[str, _Pace] = defaultdict(_Pace)  # of machines
        self._started = self._paced = monotonic()

    def _plan(self, missing: list[Pairing]) -> None:
        """Take on games when there are no others left."""
        self._queue = deque(missing)
        self._left = self._planned = len(missing)
        self._all_planned = self._store.count(event=self._event.event) + self._left >= self._event.games

    @property
    def _size(self) -> int:
        """How many workers there are to be."""
        return max(1, min(self._hands.most, self._planned))

    @property
    def _share(self) -> int:
        """How many games a worker plays at once."""
        return min(self._boards, -(-self._planned // self._size))

    def play(self) -> Iterator[Update]:
        try:
            updated, ending = monotonic(), 0.0
            glances: dict[str, Glance] = {}
            while self._left:
                for glance in self._listen(TICK / 2):
                    glances[glance.pairing.id] = glance
                self._heed()
                self._watch()
                self._staff()
                if monotonic() - updated >= TICK or len(self._finished) == self._left:
                    records = self._keep()
                    yield Update(
                        records,
                        glances=tuple(glances.values()),
                        workers=len(self._workers),
                        waiting=len(self._finished),
                        nodes=self._nodes(),
                        news=tuple(self._hands.news()),
                    )
                    glances.clear()
                    updated = monotonic()
                if self._control.finishing:
                    ending = ending or monotonic() + FINISH
                    if monotonic() > ending or not any(worker.games for worker in self._workers):
                        self._dismiss()
                        yield Update(self._keep(PATIENCE), waiting=len(self._finished))
                        return
                if not self._left:
                    self._plan(_missing(self._event, self._course))
            for worker in self._workers:
                _release(worker)
        finally:
            with signals_later():
                self._dismiss()
                self._keep(PATIENCE)
                if self._finished and not isinstance(sys.exception(), UserError):
                    raise Unstored(len(self._finished))

    def _nodes(self) -> dict[str, float] | None:
        """The machines of a cluster that play, and how fast since they were told of last."""
        names = self._hands.nodes
        if names is None:
            return None
        seconds = 0.0 if self._paused else monotonic() - self._paced
        self._paced = monotonic()
        return {name: self._paces[name].pass_by(seconds) for name in names}

    def _keep(self, patience: float = TICK) -> tuple[Record, ...]:
        """Make the finished games durable, in one transaction; where that can't be done now, none of them."""
        self._store.check_place()
        with signals_later():  # a game that is in the store is taken from the list
            records = tuple(_identified(record, self._event) for record in self._finished)
            if not records or not _appended(self._store, records, patience):
                return ()
            self._finished.clear()
            self._left -= len(records)
            self._course.add(records)
            return records

    def _hire(self, solo: bool = False) -> bool:
        """Start a worker, if that can be done now."""
        event = self._event
        job = Job(event.players, event.terms.rules, event.terms.adjudication, 1 if solo else self._boards)
        job = replace(job, cold=frozenset(self._cold))
        try:
            with signals_later():  # else a worker could be started, and not known
                worker = _Worker(self._hands.hire(job), solo)
                self._workers.append(worker)
        except NotLaunched as error:  # `_staff` tries again
            self._failed_launches += 1
            if self._failed_launches >= LAUNCHES:
                raise UserError("workers can't be started: what starts them is killed again and again") from error
            return False
        self._failed_launches = 0
        if self._paused:
            worker.hand.send(PAUSE)
        return True

    def _heed(self) -> None:
        """Pause or go on, as asked."""
        if self._control.paused != self._paused:
            self._paused = not self._paused
            for worker in self._workers:
                worker.hand.send(PAUSE if self._paused else RESUME)

    def _staff(self) -> None:
        """Hire whom is needed, keep everyone supplied, send home who has nothing left to do."""
        if self._control.finishing:
            return
        while self._hands.has_room():
            regular = sum(not worker.solo for worker in self._workers)
            solo = sum(worker.solo and not worker.leaving for worker in self._workers)
            if self._queue and regular < self._size:
                hired = self._hire()
            elif self._suspects and (not solo or solo + regular < self._size):
                hired = self._hire(solo=True)
            else:
                break
            if not hired:
                break
        for worker in self._workers:
            if not worker.ready or worker.leaving:
                continue
            queue: deque[Any] = self._suspects if worker.solo else self._queue
            share = 1 if worker.solo else self._share + self._ahead()
            while queue and len(worker.games) < share:
                game = queue.popleft()
                worker.games[game.id] = game
                worker.hand.send(game)
            if not queue and not worker.games and (worker.solo or self._all_planned):
                _release(worker)

    def _ahead(self) -> int:
        """How many games a worker is sent ahead: those it plays while the parent may be busy writing."""
        rate = self._taken_in / (monotonic() - self._started) / self._size
        return min(MAX_AHEAD, int(rate * TICK * 2))

    def _listen(self, seconds: float) -> Iterator[Glance]:
        """Take in what the workers have sent, waiting ``seconds`` for the first of it; passes looks at boards on."""
        by_hand = {worker.hand: worker for worker in self._workers}
        for hand in self._hands.wait(by_hand.keys(), seconds):
            yield from self._take_in(by_hand[hand])

    def _take_in(self, worker: _Worker) -> Iterator[Glance]:
        for message in worker.hand.take():
            if isinstance(message, UserError):
                raise message
            if isinstance(message, Glance):
                yield message
            elif isinstance(message, Unfinished):
                worker.left[message.id] = message
            elif isinstance(message, Record):
                del worker.games[message.id]
                self._finished.append(message)
                self._taken_in += 1
                self._paces[worker.hand.place].games += 1
            else:
                worker.ready = self._opened = True
                self._failed_starts = 0

    def _watch(self) -> None:
        """Part with workers that died or hang. Their games go on where they stood, alone, or are forfeited. Those of a
        machine that is gone are nobody's fault."""
        for worker in list(self._workers):
            state = worker.hand.state()
            hangs = state.called > state.allowed + PATIENCE
            if not worker.ready and not hangs and monotonic() - worker.started > STARTUP:
                raise UserError(f"{self._called(state)} did not start within {STARTUP:g} s")
            if state.alive and not hangs:
                continue
            worker.hand.end(0.0)
            for _ in self._take_in(worker):
                pass
            state = replace(worker.hand.state(), allowed=state.allowed)
            self._workers.remove(worker)
            worker.hand.close()
            if not worker.ready and not state.lost:
                self._note_failed_start(worker, state, hangs)
            begun = not state.lost
            for game in reversed(worker.games.values()):
                if begun and (worker.solo or game.id in worker.left):
                    sent = game if isinstance(game, Unfinished) else Unfinished(game, ())
                    self._blame(worker.left.get(game.id, sent), worker, state, hangs)
                elif worker.solo:
                    self._suspects.appendleft(game)
                else:
                    self._queue.appendleft(_pairing(game))

    def _note_failed_start(self, worker: _Worker, state: State, hangs: bool) -> None:
        """A bot that hangs in its first decision is judged by its games. Raises UserError where too many fail."""
        if hangs:
            self._cold.add(self._called(state))
            return
        self._failed_starts += 1
        erred = 0 < (state.exitcode or 0) < UNKNOWN  # else a signal may have come from outside
        limit = LAUNCHES if self._opened and not erred else STARTS
        if (erred and not self._opened) or self._failed_starts >= limit:
            raise UserError(start_failure(self._called(state), worker.hand.last_words(), state.exitcode))

    def _blame(self, game: Unfinished, worker: _Worker, state: State, hangs: bool) -> None:
        """Decide about a game whose worker is gone. The bot that was called last is to blame if the game was alone, or
        the call was for this game only and took too long."""
        move, deaths = self._deaths.get(game.id, (0, 0))
        deaths = deaths if move == len(game.played) else 0
        deaths += worker.solo or (game.was_called and game.on_move == self._called(state))
        self._deaths[game.id] = len(game.played), deaths
        if not (game.seconds > state.allowed or worker.solo if hangs else worker.solo and deaths >= DEATHS):
            self._suspects.append(game)
            return
        if hangs:
            ending, reason = Ending.TIME, f"no answer within {round(state.allowed, 2):g} s"
        else:
            ending, reason = Ending.CRASH, f"its process ended with {exit_words(state.exitcode)}"
        rules, words = self._event.terms.rules, worker.hand.last_words()
        self._finished.append(lost_record(game.pairing, rules, self._called(state), ending, reason, words, game.played))

    def _called(self, state: State) -> str:
        """The player that the worker built or called last."""
        return list(self._event.players)[state.player]

    def _dismiss(self) -> None:
        """Stop every worker now, taking in what it has sent; who doesn't go is killed."""
        for worker in self._workers:
            if not worker.leaving:  # who leaves is closing its bots
                worker.hand.stop()
        end = monotonic() + PATIENCE
        for worker in self._workers:
            worker.hand.end(max(0.0, end - monotonic()))
            with suppress(UserError):  # it could not build its bots, and isn't needed any more
                for _ in self._take_in(worker):
                    pass
            worker.hand.close()
        self._workers.clear()


def _pairing(game: Pairing | Unfinished) -> Pairing:
    return game.pairing if isinstance(game, Unfinished) else game


def _release(worker: _Worker) -> None:
    """Send a worker home that has nothing to play any more."""
    if worker.ready and not worker.leaving:
        worker.leaving = True
        worker.hand.send(None)


def start_failure(player: str, last_words: str, code: int | None) -> str:
    """Why a worker died before it was ready: the last line of its traceback, or how its process ended."""
    words = last_words.strip().splitlines()
    reason = words[-1] if words and code == 1 else f"its process ended with {exit_words(code)}"
    return f"{player} can't be built: {reason}"


def exit_words(code: int | None) -> str:
    """How a process ended: by which signal, or with which code."""
    return signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
