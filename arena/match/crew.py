"""A crew: the worker processes of this machine that play an event's games, and who is charged when one dies."""

import os
import resource
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from math import inf
from multiprocessing.connection import wait
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any, Self

from arena import UserError
from arena.contract.guard import kill_marked
from arena.files import scratch
from arena.go.record import GameRecord, Played
from arena.match.bot_process import exit_words
from arena.match.journal import Assignment, Journals, Players, continued
from arena.match.process import is_stopped, start_method, starting_processes
from arena.match.schedule import Pairing, Terms
from arena.match.worker import READY, BoardSnapshot, Message, SharedState, WorkerSpec, work
from arena.system import allow_open_files

STARTUP = 300.0  # seconds that a worker may take to build its players, compiling included
OVERDUE_SECONDS = 2.0  # seconds after its deadline until a call counts as hanging; for a worker to end when told to
MAX_FAILED_STARTS = 3  # workers in a row that may die while they start, before any has started
MAX_KILLED_STARTS = 100  # the same once one has started: something kills them from outside
FIRST_BOARDS = 8  # games of a worker at first, one more for each that it has finished: early pairs are soon complete
AHEAD = 0.2  # seconds of games that a worker is sent ahead, so that it doesn't wait while the parent writes
LEAST_MEMORY = 800_000 << 10  # bytes of addresses that a process needs
MAX_AHEAD = 64  # games that a worker is sent ahead at most
FILES_PER_WORKER, OTHER_FILES = 5, 32  # files that this process has open for each worker, and besides
SEEN_LATE = 0.5  # seconds for which a call is seen to take too long until its worker is killed
LOST = 255  # the exit code of a worker that may be alive: the process that it was forked from is gone
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # signals that end a command


@dataclass(frozen=True, slots=True)
class Update:
    """What happened since the last one: games that are over, and boards of games under way.

    ``nodes`` are a cluster's machines with their games per second; None without one. ``news`` are lines for the user.
    The runner's records are durable; ``resumed`` ones are of an earlier run, and ``waiting`` counts finished games that
    another program keeps from being stored. ``games`` are those under way on a node of a cluster.
    """

    records: Sequence[Played] = ()
    snapshots: Sequence[BoardSnapshot] = ()
    workers: int = 0
    nodes: Mapping[str, float] | None = None
    news: Sequence[str] = ()
    resumed: bool = False
    waiting: int = 0
    games: Sequence[Assignment] = ()


class WorkerProcess:
    """One worker, as its parent sees it: its pipe, and the shared memory with the last call and the journal."""

    def __init__(self, spec: WorkerSpec, number: int, folder: Path, journal: Path):
        """Start the process. Raises ConnectionError or EOFError when the process that starts workers is gone."""
        self.is_ready, self.started, self.journal = False, monotonic(), journal
        self.late_since = inf  # when its call was first seen to take too long
        self.games: dict[str, Assignment] = {}  # that it hasn't finished, by their ids
        context = start_method()
        self.connection, there = context.Pipe()
        shared = context.RawArray("d", SharedState.SIZE)
        self.state = SharedState(shared)
        stderr = str(folder / f"stderr-{number}")
        self.process = context.Process(target=work, args=(there, shared, spec, journal, stderr, number))
        with there, starting_processes():
            self.process.start()

    def send(self, message: Message) -> None:
        """Does nothing if the process is gone."""
        if isinstance(message, Assignment):
            self.games[message.pairing.id] = message
        with suppress(OSError):
            self.connection.send(message)

    def end(self, seconds: float) -> None:
        """Wait up to ``seconds`` for the process to end, then kill it."""
        self.process.join(seconds)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        elif self.process.exitcode == LOST:  # it may play on, start engines, and report what becomes of them
            with suppress(OSError):
                os.kill(self.process.pid or 0, signal.SIGKILL)
        kill_marked(f"{self.process.pid}-")  # engines that it couldn't close, and whose watchers may be dead, too


def boards_of(players: Players) -> int:
    """How many games a worker plays at once."""
    return min((player.bot_kind.boards for player in players.values()), default=1)


class Crew:
    """Worker processes that play games between the same bots by the same rules. A ``Cluster`` has the same methods.

    A worker that dies or hangs is replaced, and its games go on from their last moves. The bot that was called then
    gets a process of its own in all further workers, as bots that don't ship have: there it is charged itself.
    """

    def __init__(
        self, players: Players, terms: Terms, workers: int, cards: Sequence[str] = (), journals: Path | None = None
    ):
        """``workers`` is the maximum number of processes; ``cards`` are the GPUs that they share, if any. Games under
        way are kept in the folder ``journals`` for a later crew, by default in a temporary one."""
        isolated, boards = frozenset(name for name, player in players.items() if not player.ships), boards_of(players)
        self._spec = WorkerSpec(players, terms.rules, terms.adjudication, boards, terms.referee, isolated=isolated)
        self._journal_folder = journals
        self.most, self._cards = workers, cards
        self._queue: deque[Assignment] = deque()
        self._workers: list[WorkerProcess] = []
        self._started = self._failed_starts = 0  # workers; those in a row that failed
        self._finished: list[GameRecord] = []
        self._has_started = False  # any worker
        self._records, self._since = 0, monotonic()
        self._is_paused = self._is_finishing = False

    def __enter__(self) -> Self:
        """Raises UserError if the limit of open files is too low for this many workers, or that of memory for any."""
        memory, _ = resource.getrlimit(resource.RLIMIT_AS)
        if memory != resource.RLIM_INFINITY and memory < LEAST_MEMORY:  # what starts the workers would hang
            limit, least = memory >> 10, LEAST_MEMORY >> 10
            raise UserError(f"workers need more memory than the limit of {limit} kB; raise it (ulimit -v {least})")
        needed = self.most * FILES_PER_WORKER + OTHER_FILES
        if (allowed := allow_open_files(needed)) < needed:
            most = max(1, (allowed - OTHER_FILES) // FILES_PER_WORKER)
            raise UserError(
                f"{self.most} workers need {needed - allowed} more open files than the system allows; "
                f"use --workers {most} or raise the limit (ulimit -n)"
            )
        self._folder = TemporaryDirectory(dir=scratch())
        folder = self._journal_folder or Path(self._folder.name, "journals")
        self._journals = Journals(folder, self._spec.players, self._spec.rules)
        self._journals.load()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._folder.cleanup()

    def add(self, pairings: Iterable[Pairing], had_begun: Callable[[Pairing], bool] = lambda _: False) -> None:
        """Queue games, as they stand in the journals; those that ``had_begun`` elsewhere count as begun again."""
        self._queue.extend(self._journals.assignment(pairing, had_begun(pairing)) for pairing in pairings)

    def resume(self, game: Assignment) -> None:
        self._queue.append(game)

    def games(self) -> list[Assignment]:
        """The games under way, as they stand."""
        return [game for worker in self._workers for game in self._begun(worker)]

    def _begun(self, worker: WorkerProcess) -> Iterator[Assignment]:
        return self._journals.interrupted(worker.journal, worker.games.values())

    @property
    def _left(self) -> int:
        """Games that are under way or to be played."""
        queued = 0 if self._is_finishing else len(self._queue)
        return queued + sum(len(worker.games) for worker in self._workers)

    @property
    def is_busy(self) -> bool:
        """Whether games are to be played, under way, or over and not yet reported."""
        return bool(self._finished) or self._left > 0

    def pause(self, is_paused: bool) -> None:
        """While paused, no bot is called; a call that has begun is finished."""
        if is_paused != self._is_paused:
            self._is_paused = is_paused
            for worker in self._workers:
                worker.send(is_paused)

    def finish(self) -> None:
        """Begin no further game."""
        self._is_finishing = True

    def poll(self, seconds: float) -> Update:
        """Wait up to ``seconds`` for news. Raises UserError when a bot can't be built."""
        by_connection = {worker.connection: worker for worker in self._workers}
        ready = [by_connection[connection] for connection in wait(list(by_connection), seconds)]  # type: ignore[index]
        snapshots = {each.pairing.id: each for worker in ready for each in self._receive(worker)}
        self._replace_dead_workers()
        if not self._is_finishing:
            self._start_workers()
            self._assign_games()
        records, self._finished = self._finished, []
        news, self._journals.news = self._journals.news, []
        return Update(records, [*snapshots.values()], len(self._workers), news=news)

    def stop(self) -> list[GameRecord]:
        """End all workers; returns the games that were over and not yet reported."""
        with delay_signals():
            for worker in self._workers:
                if worker.is_ready and not worker.games:
                    worker.send(None)
                else:
                    worker.process.terminate()
            end = monotonic() + OVERDUE_SECONDS
            for worker in self._workers:
                worker.end(max(0.0, end - monotonic()))
                with suppress(UserError):  # it could not build its bots, and isn't needed any more
                    self._receive(worker)
            self._workers.clear()
            records, self._finished = self._finished, []
            return records

    def _receive(self, worker: WorkerProcess) -> list[BoardSnapshot]:
        """Read a worker's messages; returns the snapshots. Raises its UserError where it can't build its bots."""
        messages, snapshots = list[Any](), []
        with suppress(EOFError, OSError):
            while worker.connection.poll():
                messages.append(worker.connection.recv())
        for message in messages:
            if isinstance(message, UserError):
                raise message
            if isinstance(message, BoardSnapshot):
                snapshots.append(message)
            elif message == READY:
                worker.is_ready = self._has_started = True
                self._failed_starts = 0
            else:
                self._journals.forget(worker.games.pop(message.id).pairing)
                self._finished.append(message)
                self._records += 1
        return snapshots

    def _start_workers(self) -> None:
        """Start the workers that are needed. Raises UserError after too many attempts."""
        while self._queue and len(self._workers) < min(self.most, self._left):
            card = self._cards[self._started % len(self._cards)] if self._cards else ""
            spec = replace(self._spec, card=card, has_started=self._has_started)
            try:
                with delay_signals():  # else a process could be started, and not known
                    journal = self._journals.create(self._started, spec.boards)
                    worker = WorkerProcess(spec, self._started, Path(self._folder.name), journal)
                    self._workers.append(worker)
            except (EOFError, ConnectionError):
                self._note_failed_start("workers can't be started: what starts them is killed again and again")
                return
            self._started += 1
            if self._is_paused:
                worker.send(True)

    def _assign_games(self) -> None:
        size = max(1, min(self.most, self._left))
        rate = self._records / max(monotonic() - self._since, AHEAD) / size
        share = min(self._spec.boards, -(-self._left // size), FIRST_BOARDS + self._records // size)
        share += min(MAX_AHEAD, int(rate * AHEAD))
        for worker in self._workers:
            while worker.is_ready and self._queue and len(worker.games) < share:
                worker.send(self._queue.popleft())

    def _replace_dead_workers(self) -> None:
        """Remove workers that died, kill those that hang, and decide what becomes of their games."""
        names = [*self._spec.players]
        for worker in list(self._workers):
            is_alive, call = worker.process.is_alive(), worker.state.call
            if call.seconds <= call.allowed + OVERDUE_SECONDS or is_stopped(worker.process.pid or 0):
                worker.late_since = inf
            else:
                worker.late_since = min(worker.late_since, monotonic())
            if is_alive and monotonic() - worker.late_since < SEEN_LATE:  # a stop of all of us is noticed meanwhile
                if not worker.is_ready and monotonic() - worker.started > STARTUP:
                    raise UserError(f"{names[call.player]} did not start within {STARTUP:g} s")
                continue
            worker.end(0.0)
            self._receive(worker)
            self._workers.remove(worker)
            last = worker.state.call
            called = names[last.player]
            if not (is_alive or worker.is_ready):
                words = f"{called} can't be built: its process ended with {exit_words(worker.process.exitcode or 0)}"
                self._note_failed_start(words, worker.process.exitcode == LOST)
            elif min(call, last).seconds and not self._spec.players[called].bot_kind.external:
                self._spec = replace(self._spec, isolated=self._spec.isolated | {called})
            begun = {game.pairing.id: game for game in self._begun(worker)}
            self._journals.retire([worker.journal])
            for id, game in reversed(worker.games.items()):
                self._queue.appendleft(continued(begun[id]) if id in begun else game)

    def _note_failed_start(self, words: str, is_lost: bool = False) -> None:
        """Raises UserError where too many fail in a row."""
        self._failed_starts += 1
        if self._failed_starts >= (MAX_KILLED_STARTS if self._has_started or is_lost else MAX_FAILED_STARTS):
            raise UserError(words)


@contextmanager
def delay_signals() -> Iterator[None]:
    """Delay the signals that end a command until the block is done."""
    if threading.current_thread() is not threading.main_thread():  # signals only ever interrupt the main thread
        yield
        return
    came: list[int] = []
    before = {ending: signal.signal(ending, lambda number, _: came.append(number)) for ending in ENDINGS}
    try:
        yield
    finally:
        for ending, handler in before.items():
            signal.signal(ending, handler)
        for number in came[:1]:
            signal.raise_signal(number)
