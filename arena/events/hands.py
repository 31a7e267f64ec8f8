"""Who lends a runner hands: worker processes of this machine. What is played, and what a death means, is up to the
runner; ``cluster.py`` lends hands on other machines.
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Protocol, Self

from arena import UserError
from arena.events.pairing import Pairing
from arena.events.worker import (
    CallClock,
    Job,
    Journal,
    Message,
    Unfinished,
    safe_path,
    shared_size,
    shared_views,
    spared_by_the_terminal,
    start_method,
    work,
)
from arena.files import allow_open_files, scratch
from arena.go.record import Record

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a command."""

LAST_WORDS = 4000
"""Characters of what a worker printed that are kept."""


FILES, SPARE_FILES = 5, 32
"""How many files this process has open for each worker, and how many besides."""


class NotLaunched(Exception):
    """What starts workers was killed; it is started again at the next attempt."""


@dataclass(frozen=True, slots=True)
class State:
    """How a worker is. Times are in seconds."""

    alive: bool = True
    exitcode: int | None = None
    """Of a process that has ended; minus the signal that ended it."""
    lost: bool = False
    """Whether its machine is gone, or can't be reached: nobody knows what became of it."""
    called: float = 0.0
    """How long the present call of a bot has been going on; 0 between calls."""
    allowed: float = 0.0
    """How long the call that was made last may take."""
    player: int = 0
    """The player that was built or called last, by its place in the job."""


class Hand(Protocol):
    """One worker, as the runner has it."""

    @property
    def place(self) -> str:
        """The name of its machine; empty for this one."""
        ...

    def state(self) -> State: ...

    def send(self, message: Message) -> None:
        """Never fails: of a worker that is gone ``state`` tells."""

    def take(self) -> Iterator[Any]:
        """What it has sent since the last time; once it was ended, also the ``Unfinished`` games that it had begun."""
        ...

    def stop(self) -> None:
        """Ask it to end now."""

    def end(self, seconds: float) -> None:
        """Wait so long for it to end, then kill it."""

    def last_words(self) -> str:
        """The end of what it printed."""
        ...

    def close(self) -> None:
        """Forget it; it has ended."""


class Hands(Protocol):
    """Who starts workers."""

    @property
    def most(self) -> int:
        """How many there may be at present."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...

    @property
    def nodes(self) -> Collection[str] | None:
        """The names of the machines that there are at present; None where it is always this one."""
        ...

    def news(self) -> list[str]:
        """What is to be said since the last time, a line each."""
        ...

    def has_room(self) -> bool:
        """Whether a worker can be started now. Raises UserError where that will never be."""
        ...

    def hire(self, job: Job) -> Hand:
        """Start a worker. Raises NotLaunched."""
        ...

    def wait(self, hired: Collection[Hand], seconds: float) -> Collection[Hand]:
        """The workers that have sent something, or none after the timeout in seconds."""
        ...


class Local:
    """Hands of this machine, one process each."""

    def __init__(self, workers: int):
        self.most, self.nodes = workers, None
        self._hired = 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        """Raises UserError where so many workers may not be started."""
        few = allow_open_files(needed := self.most * FILES + SPARE_FILES)
        if few < needed:
            most = max(1, (few - SPARE_FILES) // FILES)
            raise UserError(
                f"{self.most} workers need {needed - few} more open files than the system allows; "
                f"use --workers {most} or raise the limit (ulimit -n)"
            )
        self._folder = tempfile.TemporaryDirectory(dir=scratch())
        return self

    def __exit__(self, *_: object) -> None:
        assert self._folder is not None
        self._folder.cleanup()

    def news(self) -> list[str]:
        return []

    def has_room(self) -> bool:
        """All start together: what one compiles the others load."""
        return True

    def hire(self, job: Job) -> Hand:
        assert self._folder is not None
        context = start_method()
        here, there = context.Pipe()
        shared = context.RawArray("d", shared_size(job))
        descriptor, stderr = tempfile.mkstemp(prefix="stderr-", dir=self._folder.name)
        process = context.Process(target=work, args=(there, shared, job, stderr, self._hired))
        self._hired += 1
        with signals_later():  # else a process could be started, and not known
            with safe_path(), spared_by_the_terminal():
                if isinstance(context, ForkServerContext):
                    forkserver.ensure_running()  # workers inherit from it; only ``start`` waits until it is ready
                else:
                    process.start()
            try:
                if process.pid is None:
                    process.start()
            except (EOFError, ConnectionError) as error:
                here.close()
                raise NotLaunched from error
            finally:
                there.close()
                os.close(descriptor)
            return _LocalHand(process, here, *shared_views(shared, job), Path(stderr))

    def wait(self, hired: Collection[Hand], seconds: float) -> Collection[Hand]:
        by_connection = {hand.connection: hand for hand in hired if isinstance(hand, _LocalHand)}
        return [by_connection[ready] for ready in wait(list(by_connection), seconds)]  # type: ignore[index]


@dataclass(slots=True, eq=False)
class _LocalHand:
    """The parent's end of one worker process."""

    process: BaseProcess
    connection: Connection
    clock: CallClock
    journal: Journal
    stderr: Path
    place: str = ""
    games: dict[str, tuple[int, Pairing]] = field(default_factory=dict)
    """Those that it has, by their ids, with their numbers in the order in which it was sent them."""
    sent: int = 0
    ended: bool = False
    called: float = 0.0
    """How long the call had gone on that it was ended in."""

    def state(self) -> State:
        clock = self.clock
        alive = self.process.is_alive()
        return State(alive, self.process.exitcode, False, clock.seconds, clock.allowed, clock.player)

    def send(self, message: Message) -> None:
        if isinstance(message, Pairing | Unfinished):
            self.sent += 1
            self.games[message.id] = self.sent, message if isinstance(message, Pairing) else message.pairing
        with suppress(OSError):  # it has just died
            self.connection.send(message)

    def take(self) -> Iterator[Any]:
        with suppress(EOFError, OSError):
            while self.connection.poll():
                message = self.connection.recv()
                if isinstance(message, Record):
                    del self.games[message.id]
                yield message
        if self.ended:
            pairings = dict(self.games.values())
            for board, number, played, spent in self.journal.games():
                if number in pairings:  # else it ended with its game
                    board_called = self.clock.board
                    was_called = self.called > 0 and board_called in (board, -1)
                    seconds = spent + (self.called if board_called == board else 0.0)
                    yield Unfinished(pairings[number], played, seconds, was_called)

    def stop(self) -> None:
        self.process.terminate()

    def end(self, seconds: float) -> None:
        self.ended, self.called = True, self.clock.seconds
        self.process.join(seconds)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()

    def last_words(self) -> str:
        return self.stderr.read_text(errors="replace")[-LAST_WORDS:]

    def close(self) -> None:
        self.connection.close()


@contextmanager
def signals_later() -> Iterator[None]:
    """Hold what ends a command back until the block is done."""
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
