"""A worker process: builds the players of an event, plays the games it is sent, sends back the records."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import current_process, parent_process, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from threading import Thread
from time import monotonic, sleep
from typing import Any

from arena import UserError
from arena.contract.adjudication import Adjudication
from arena.contract.bot import Bot, Limits
from arena.contract.guard import SET_PDEATHSIG, control
from arena.events.pairing import Pairing
from arena.events.pulse import BEAT, Pulse
from arena.events.room import Room, Table, Turn
from arena.files import scratch
from arena.go.game import Game, Rules
from arena.players.registry import Entry

GLANCE = 0.25
"""Seconds between two looks at the boards that are sent."""

GRACE = 3.0
"""Seconds that a worker has to end by itself when its parent is gone."""

CARDS = "CUDA_VISIBLE_DEVICES"
"""The variable that says which GPUs a process sees, with commas between them."""

READY = "ready"
"""What a worker sends once its players are built and their kernels compiled."""

PAUSE, RESUME = "pause", "resume"
"""The message that pauses a worker: no bot is called, but a call that has begun is finished."""


@dataclass(frozen=True, slots=True)
class Glance:
    """A look at one game under way. ``win_rates`` are those of the side that made each move, where it told;
    ``ownership`` is size² int8 in per cent, positive for Black, the last that a bot told."""

    pairing: Pairing
    moves: tuple[int, ...]
    win_rates: tuple[float | None, ...]
    ownership: bytes | None = None

    @classmethod
    def at(cls, table: Table) -> Glance:
        return cls(table.pairing, tuple(table.game.moves), tuple(table.win_rates), table.ownership)


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker is hired for; plain data. One that plays on a single board tells of it before each call of a bot,
    so that the moves are known when it dies. ``card`` is the one GPU that it sees, where that isn't left open."""

    players: Mapping[str, Entry]
    rules: Rules
    adjudication: Adjudication
    boards: int
    card: str = ""


class CallClock:
    """Who is thinking, and since when: written by a worker, read by its parent, through shared memory.

    All times are those that the worker lived: they stand still while its process is stopped.
    """

    SIZE = 3 + Pulse.SIZE
    """Doubles of shared memory: when the call began (0 between calls), the seconds that it may take, the player; then
    the worker's pulse."""

    def __init__(self, shared: Any):
        """``shared`` is a ctypes array of ``SIZE`` doubles."""
        self._shared = memoryview(shared).cast("B").cast("d")
        self.pulse = Pulse(self._shared[3:])

    def name(self, player: int) -> None:
        """Say who is to blame when the process ends now, without starting the clock."""
        self._shared[2] = player

    def start(self, player: int, allowed: float) -> None:
        self._shared[1], self._shared[2] = allowed, player
        self._shared[0] = max(self.pulse.lived, BEAT)

    def stop(self) -> None:
        self._shared[0] = 0.0

    @property
    def seconds(self) -> float:
        """How long the present call has been going on; 0 between calls."""
        start = self._shared[0]
        return max(0.0, self.pulse.lived - start) if start else 0.0

    @property
    def allowed(self) -> float:
        """How many seconds the call that was made last may take."""
        return float(self._shared[1])

    @property
    def player(self) -> int:
        """The index of the player that was called last."""
        return int(self._shared[2])


def start_method() -> ForkServerContext | SpawnContext:
    """How processes of ours are started: where the system can, from one that has made everything ready once."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["arena.events.ready"])
    current_process()._config["tempdir"] = str(scratch())  # type: ignore[attr-defined]  # else one that a kill leaves
    return context


SAFE_PATH = "PYTHONSAFEPATH", "arena"
"""Has a Python that starts leave the current folder out of where it looks for modules."""


@contextmanager
def safe_path() -> Iterator[None]:
    """Processes of ours that are started in this block don't run a ``random.py`` of the current folder, which Python
    would put first; ``leave_safe_path`` has those that they start be as if they were started by hand."""
    name, value = SAFE_PATH
    if name in os.environ:
        yield
        return
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]


TERMINAL = (signal.SIGINT, signal.SIGHUP)
"""What a terminal sends to all of a job."""


@contextmanager
def spared_by_the_terminal() -> Iterator[None]:
    """What a terminal sends is held back from processes that start in this block, until they call
    ``leave_to_the_parent``. Nothing of it is lost here."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, TERMINAL)
    try:
        resource_tracker.ensure_running()  # starts with the first process, and would unblock some of it
        signal.pthread_sigmask(signal.SIG_BLOCK, TERMINAL)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def leave_to_the_parent() -> None:
    """Have this process, and those that it starts, ignore what a terminal sends to all of a job."""
    for number in TERMINAL:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, TERMINAL)


def leave_safe_path() -> None:
    """Undo ``safe_path`` for what this process starts: an engine in Python looks beside its own file."""
    name, value = SAFE_PATH
    if os.environ.get(name) == value:
        del os.environ[name]


def work(connection: Connection, shared: Any, job: Job, stderr: str, number: int) -> None:
    """The life of a worker; what it prints goes into the file ``stderr``. It ends when it is sent None, when its parent
    is gone, or on SIGTERM.

    Worker ``number`` makes that player ready first, so that workers who start together compile different kernels."""
    leave_to_the_parent()
    leave_safe_path()
    end_with_parent()
    if job.card:
        os.environ[CARDS] = job.card
    log = os.open(stderr, os.O_WRONLY | os.O_APPEND)
    os.dup2(log, 1)  # the terminal is the screen's: what a bot prints goes with its errors
    os.dup2(log, 2)
    os.close(log)
    faulthandler.enable()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # unwinds, so that the bots are closed
    clock = CallClock(shared)
    clock.pulse.begin()
    players: dict[str, Bot] = {}
    names = list(job.players)
    try:
        for place in range(number, number + len(names)):
            place %= len(names)
            clock.name(place)
            entry = job.players[names[place]]
            players[names[place]] = entry.build()
            if entry.bot_kind.boards > 1:
                warm_up(players[names[place]], job.rules)
        connection.send(READY)
        _serve(connection, clock, {name: players[name] for name in names}, job)
    except UserError as error:
        connection.send(error)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the parent is gone
    finally:
        for bot in players.values():
            bot.close()


def end_with_parent() -> None:
    """Have this process outlive its parent by seconds only, even when it hangs or is stopped: nobody watches it."""
    go_on_without_parent()
    Thread(target=_end_after, args=(parent_process(),), daemon=True).start()


def go_on_without_parent() -> None:
    """Have this process go on, if it is stopped, when what started it ends (Linux): by SIGCONT."""
    control(SET_PDEATHSIG, signal.SIGCONT)


def _end_after(parent: BaseProcess | None) -> None:
    if parent is not None:
        parent.join()
        sleep(GRACE)
        os._exit(1)


def warm_up(bot: Bot, rules: Rules) -> None:
    """Have the bot compile or load its kernels before any clock runs. Raises the UserError of one that can't play."""
    try:
        bot.choose_all([Game(rules)], Limits(simulations=2))
    except UserError:
        raise
    except Exception:  # a fault in the choice of a move is judged in a game, and this is none
        pass


class Gone:
    """In place of a message: no more come, as the parent is gone."""


def _listen(connection: Connection, inbox: SimpleQueue[Pairing | str | Gone | None]) -> None:
    """Take in what the parent sends as it comes, in a thread of its own. A parent whose message isn't read waits, and
    doesn't read what this process sends meanwhile: both could wait for each other."""
    with suppress(EOFError, OSError):
        while True:
            message = connection.recv()
            inbox.put(message)
            if message is None:
                return
    inbox.put(Gone())


def _serve(connection: Connection, clock: CallClock, players: Mapping[str, Bot], job: Job) -> None:
    names = list(players)

    def note(turn: Turn | None) -> None:
        if turn is None:
            clock.stop()
            return
        if job.boards == 1:
            connection.send(Glance.at(turn.tables[0]))
        clock.start(names.index(turn.player), turn.allowed)

    limits = {name: entry.limits for name, entry in job.players.items()}
    room = Room(players, job.rules, limits, job.adjudication, on_turn=note, stopped=clock.pulse.stopped)
    inbox: SimpleQueue[Pairing | str | Gone | None] = SimpleQueue()
    Thread(target=_listen, args=(connection, inbox), daemon=True).start()
    waiting: deque[Pairing] = deque()
    glanced = monotonic()
    more, paused = True, False
    while more or waiting or room.tables:
        while more and (paused or not inbox.empty() or not (waiting or room.tables)):
            message = inbox.get()
            if message is None:
                more = False
            elif isinstance(message, Gone):
                raise EOFError
            elif isinstance(message, str):
                paused = message == PAUSE
            else:
                waiting.append(message)
        while waiting and len(room.tables) < job.boards:
            room.seat(waiting.popleft())
        for record in room.play_round():
            connection.send(record)
        if monotonic() - glanced > GLANCE:
            glanced = monotonic()
            for table in room.tables:
                connection.send(Glance.at(table))
