"""A crew: the worker processes of this machine that play an event's games, and whose fault it is when one dies."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from pathlib import Path
from time import monotonic
from typing import Any, Self

from arena import UserError
from arena.contract.adjudication import Adjudication
from arena.contract.guard import kill_marked
from arena.files import scratch
from arena.go.game import Ending, Rules
from arena.go.record import GameRecord
from arena.match.game_loop import DEATHS, lost_record
from arena.match.schedule import Pairing
from arena.match.worker import (
    PAUSE,
    RESUME,
    Assignment,
    Message,
    SharedState,
    Snapshot,
    WorkerSpec,
    start_method,
    starting_processes,
    work,
)
from arena.players.player import Player
from arena.system import allow_open_files

STARTUP = 300.0  # seconds that a worker may take to build its players, compiling included
PATIENCE = 2.0  # seconds beyond its deadline until a call counts as hanging, and for a worker to end when told to
MAX_FAILED_STARTS = 3  # workers in a row that may die while they start; of an error of its own, the first may not
MAX_KILLED_STARTS = 100  # workers in a row that may be killed while they start, once one has started, or their starter
UNKNOWN = 255  # the exit code of a worker when what starts workers was killed, and nobody can tell how it ended
FIRST_BOARDS = 8  # games of a worker at first, one more for each that it has finished: early pairs are soon complete
AHEAD = 0.2  # seconds of games that a worker is sent ahead, so that it doesn't wait while the parent writes
MAX_AHEAD = 64  # games that a worker is sent ahead at most
FILES_PER_WORKER, OTHER_FILES = 5, 32  # files that this process has open for each worker, and besides
LAST_WORDS = 4000  # characters of what a worker printed that are kept
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # signals that end a command


@dataclass(frozen=True, slots=True)
class Progress:
    """What happened since the last poll: games that are over, and boards of games under way.

    ``nodes`` are the machines of a cluster with their recent games per second; None on this machine alone. ``news`` are
    lines about them for the user.
    """

    records: Sequence[GameRecord] = ()
    snapshots: Sequence[Snapshot] = ()
    workers: int = 0
    nodes: Mapping[str, float] | None = None
    news: Sequence[str] = ()


class WorkerProcess:
    """One worker, as its parent sees it: its pipe, and the clock and journal that both share."""

    def __init__(self, spec: WorkerSpec, number: int, folder: Path, is_solo: bool = False):
        """Start the process. ``is_solo`` is one that plays suspect games, one at a time. Raises ConnectionError or
        EOFError when the process that starts workers is gone."""
        self.is_solo = is_solo
        self.is_ready = self.is_leaving = False
        self.started = monotonic()
        self.games: dict[int, Assignment] = {}
        """The games that it hasn't finished, by the order in which they were sent, from 1."""
        self._sent = 0
        self._names = list(spec.players)
        context = start_method()
        self.connection, there = context.Pipe()
        shared = context.RawArray("d", SharedState.size(spec))
        self.state = SharedState(shared, spec)
        descriptor, path = tempfile.mkstemp(prefix="stderr-", dir=folder)
        os.close(descriptor)
        self._stderr = Path(path)
        self.process = context.Process(target=work, args=(there, shared, spec, path, number))
        try:
            with starting_processes():
                self.process.start()
        except (EOFError, ConnectionError):
            self.connection.close()
            raise
        finally:
            there.close()

    @property
    def called(self) -> str:
        """The player that was built or called last."""
        return self._names[self.state.player]

    @property
    def is_hanging(self) -> bool:
        return self.state.seconds > self.state.allowed + PATIENCE

    def send(self, message: Message) -> None:
        """Does nothing if the process is gone."""
        if isinstance(message, Assignment):
            self._sent += 1
            self.games[self._sent] = message
        with suppress(OSError):
            self.connection.send(message)

    def receive(self) -> Iterator[Any]:
        """The messages that have come: looks at boards, records, ``READY``, or a UserError."""
        with suppress(EOFError, OSError):
            while self.connection.poll():
                message = self.connection.recv()
                if isinstance(message, GameRecord):
                    del self.games[next(number for number, game in self.games.items() if game.id == message.id)]
                yield message

    def release(self) -> None:
        """Let the process end, which has nothing more to play."""
        if not self.is_leaving:
            self.is_leaving = True
            self.send(None)

    def end(self, seconds: float) -> None:
        """Wait up to ``seconds`` for the process to end, then kill it."""
        self.seconds_in_call = self.state.seconds
        self.process.join(seconds)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        kill_marked(f"{self.process.pid}-")  # what it didn't come to close, and whose watchers may be gone, too

    def unfinished(self) -> dict[str, Assignment]:
        """The games that it had begun when it ended, as they stood."""
        found = {}
        for board, number, played, spent in self.state.games():
            if number in self.games:  # else it ended with its game
                sent = self.games[number]
                was_called = self.seconds_in_call > 0 and self.state.board in (board, -1)
                seconds = spent + (self.seconds_in_call if self.state.board == board else 0.0)
                deaths = sent.deaths if len(played) == len(sent.played) else 0
                found[sent.id] = Assignment(sent.pairing, played, seconds, was_called, deaths)
        return found

    def last_words(self) -> str:
        """The end of what it printed."""
        return self._stderr.read_text(errors="replace")[-LAST_WORDS:]


class Crew:
    """Worker processes that play games between the same players by the same rules. A ``Cluster`` has the same methods.

    A worker that dies or hangs is replaced. Its games go on from their last known positions, each alone in a worker,
    where the bot that was called last is to blame when it dies or hangs again.
    """

    def __init__(
        self,
        players: Mapping[str, Player],
        rules: Rules,
        adjudication: Adjudication,
        workers: int,
        cards: Sequence[str] = (),
    ):
        """``workers`` is the maximum number of processes; ``cards`` are the GPUs that they share, if any."""
        boards = min(player.bot_kind.boards for player in players.values())
        self._spec = WorkerSpec(players, rules, adjudication, boards)
        self.most = workers
        """How many workers there may be at present."""
        self._cards = cards
        self._queue: deque[Assignment] = deque()
        self._suspects: deque[Assignment] = deque()  # their worker died or hung: to be played on alone
        self._workers: list[WorkerProcess] = []
        self._started = 0
        self._finished: list[GameRecord] = []
        self._has_started = False  # any worker
        self._failed_starts = 0  # in a row
        self._records, self._since = 0, monotonic()
        self._is_paused = self._is_finishing = False
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        """Raises UserError if the limit of open files is too low for this many workers."""
        needed = self.most * FILES_PER_WORKER + OTHER_FILES
        allowed = allow_open_files(needed)
        if allowed < needed:
            most = max(1, (allowed - OTHER_FILES) // FILES_PER_WORKER)
            raise UserError(
                f"{self.most} workers need {needed - allowed} more open files than the system allows; "
                f"use --workers {most} or raise the limit (ulimit -n)"
            )
        self._folder = tempfile.TemporaryDirectory(dir=scratch())
        return self

    def __exit__(self, *_: object) -> None:
        assert self._folder is not None
        self.stop()
        self._folder.cleanup()

    def add(self, pairings: Iterable[Pairing]) -> None:
        """Queue games."""
        self._queue.extend(map(Assignment, pairings))

    @property
    def _left(self) -> int:
        """Games that are under way or to be played."""
        queued = 0 if self._is_finishing else len(self._queue) + len(self._suspects)
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
                worker.send(PAUSE if is_paused else RESUME)

    def finish(self) -> None:
        """Begin no further game."""
        self._is_finishing = True

    def poll(self, seconds: float) -> Progress:
        """Wait up to ``seconds`` for news. Raises UserError when a bot can't be built."""
        by_connection = {worker.connection: worker for worker in self._workers}
        ready = [by_connection[connection] for connection in wait(list(by_connection), seconds)]  # type: ignore[index]
        snapshots = {each.pairing.id: each for worker in ready for each in self._receive(worker)}
        self._replace_dead_workers()
        self._assign_games()
        records, self._finished = self._finished, []
        return Progress(records, [*snapshots.values()], len(self._workers))

    def stop(self) -> list[GameRecord]:
        """End all workers; returns the games that were over and not yet reported."""
        with signals_later():
            for worker in self._workers:
                if worker.is_ready and not worker.games:
                    worker.release()
                elif not worker.is_leaving:  # one that is leaving closes its bots
                    worker.process.terminate()
            end = monotonic() + PATIENCE
            for worker in self._workers:
                worker.end(max(0.0, end - monotonic()))
                with suppress(UserError):  # it could not build its bots, and isn't needed any more
                    self._receive(worker)
                worker.connection.close()
            self._workers.clear()
            records, self._finished = self._finished, []
            return records

    def _receive(self, worker: WorkerProcess) -> list[Snapshot]:
        """Take a worker's messages; returns the boards. Raises the UserError of one that can't build its bots."""
        snapshots = []
        for message in worker.receive():
            if isinstance(message, UserError):
                raise message
            if isinstance(message, Snapshot):
                snapshots.append(message)
            elif isinstance(message, GameRecord):
                self._finished.append(message)
                self._records += 1
            else:
                worker.is_ready = self._has_started = True
                self._failed_starts = 0
        return snapshots

    # --- Workers and their games ---

    def _start_worker(self, is_solo: bool) -> bool:
        """Start a worker, and return whether that was possible. Raises UserError after too many attempts."""
        assert self._folder is not None
        card = self._cards[self._started % len(self._cards)] if self._cards else ""
        spec = replace(self._spec, boards=1 if is_solo else self._spec.boards, card=card)
        try:
            with signals_later():  # else a process could be started, and not known
                self._workers.append(WorkerProcess(spec, self._started, Path(self._folder.name), is_solo))
        except (EOFError, ConnectionError) as error:
            self._failed_starts += 1
            if self._failed_starts >= MAX_KILLED_STARTS:
                raise UserError("workers can't be started: what starts them is killed again and again") from error
            return False
        self._started += 1
        if self._is_paused:
            self._workers[-1].send(PAUSE)
        return True

    def _assign_games(self) -> None:
        """Start the workers that are needed, send them games, and release solo workers without games."""
        if self._is_finishing:
            return
        size = max(1, min(self.most, self._left))
        regular = sum(not worker.is_solo for worker in self._workers)
        solo = sum(worker.is_solo and not worker.is_leaving for worker in self._workers)
        while True:
            if self._queue and regular < size and self._start_worker(is_solo=False):
                regular += 1
            elif self._suspects and (not solo or solo + regular < size) and self._start_worker(is_solo=True):
                solo += 1
            else:
                break
        rate = self._records / max(monotonic() - self._since, AHEAD) / size
        share = min(self._spec.boards, -(-self._left // size), FIRST_BOARDS + self._records // size)
        share += min(MAX_AHEAD, int(rate * AHEAD))
        for worker in self._workers:
            if worker.is_ready and not worker.is_leaving:
                queue = self._suspects if worker.is_solo else self._queue
                while queue and len(worker.games) < (1 if worker.is_solo else share):
                    worker.send(queue.popleft())
                if worker.is_solo and not worker.games:
                    worker.release()

    # --- Deaths ---

    def _replace_dead_workers(self) -> None:
        for worker in list(self._workers):
            is_hanging = worker.is_hanging
            if not worker.is_ready and not is_hanging and monotonic() - worker.started > STARTUP:
                raise UserError(f"{worker.called} did not start within {STARTUP:g} s")
            if worker.process.is_alive() and not is_hanging:
                continue
            worker.end(0.0)
            self._receive(worker)
            self._workers.remove(worker)
            worker.connection.close()
            if not worker.is_ready:
                self._note_failed_start(worker, is_hanging)
            unfinished = worker.unfinished()
            for game in reversed(worker.games.values()):
                if worker.is_solo or game.id in unfinished:
                    self._assign_fault(unfinished.get(game.id, game), worker, is_hanging)
                else:
                    self._queue.appendleft(game)

    def _note_failed_start(self, worker: WorkerProcess, is_hanging: bool) -> None:
        """A bot that hangs in its first decision is judged by its games. Raises UserError where too many fail."""
        if is_hanging:
            self._spec = replace(self._spec, cold=self._spec.cold | {worker.called})
            return
        self._failed_starts += 1
        code = worker.process.exitcode or 0
        is_error = 0 < code < UNKNOWN  # else a signal may have come from outside
        limit = MAX_KILLED_STARTS if self._has_started and not is_error else MAX_FAILED_STARTS
        if (is_error and not self._has_started) or self._failed_starts >= limit:
            words = worker.last_words().strip().splitlines()
            reason = words[-1] if words and code == 1 else f"its process ended with {exit_words(code)}"
            raise UserError(f"{worker.called} can't be built: {reason}")

    def _assign_fault(self, game: Assignment, worker: WorkerProcess, is_hanging: bool) -> None:
        """Decide a game whose worker is gone. The bot that was called last is to blame if the game was alone, or if the
        call was for this game only and took too long; otherwise the game goes on alone."""
        deaths = game.deaths + (worker.is_solo or (game.was_called and game.on_move == worker.called))
        if is_hanging:
            is_to_blame = worker.is_solo or game.seconds > worker.state.allowed
        else:
            is_to_blame = worker.is_solo and deaths >= DEATHS
        if not is_to_blame:
            self._suspects.append(replace(game, deaths=deaths))
            return
        if is_hanging:
            ending, reason = Ending.TIME, f"no answer within {round(worker.state.allowed, 2):g} s"
        else:
            ending, reason = Ending.CRASH, f"its process ended with {exit_words(worker.process.exitcode)}"
        words = worker.last_words()
        record = lost_record(game.pairing, self._spec.rules, worker.called, ending, reason, words, game.played)
        self._finished.append(record)


def exit_words(code: int | None) -> str:
    """How a process ended: by which signal, or with which code."""
    return signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"


@contextmanager
def signals_later() -> Iterator[None]:
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
