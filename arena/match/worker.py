"""A worker process: builds the players of an event, plays the games it is sent, sends back the records."""

from __future__ import annotations

import ctypes
import faulthandler
import multiprocessing
import os
import signal
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import isnan, nan
from multiprocessing import current_process, parent_process, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from struct import Struct
from threading import Thread
from time import monotonic, sleep
from typing import Any

from arena import UserError
from arena.contract.adjudication import Adjudication
from arena.contract.bot import Bot, Limits
from arena.files import scratch
from arena.go.coords import Move
from arena.go.game import Game, Rules
from arena.go.jit import while_compiling
from arena.go.record import MoveStats
from arena.match.game_loop import GameLoop, LiveGame, Turn
from arena.match.schedule import Pairing
from arena.players.player import Player

SNAPSHOT_SECONDS = 0.25
"""Seconds between two looks at the boards that are sent."""

GRACE = 3.0
"""Seconds that a worker has to end by itself when its parent is gone."""

PR_SET_PDEATHSIG = 1  # of prctl(2)

CARDS = "CUDA_VISIBLE_DEVICES"
"""The variable that says which GPUs a process sees, with commas between them."""

READY = "ready"
"""What a worker sends once its players are built and their kernels compiled."""

PAUSE, RESUME = "pause", "resume"
"""The message that pauses a worker: no bot is called, but a call that has begun is finished."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A look at one game under way. ``win_rates`` are those of the side that made each move, where it told;
    ``ownership`` is size² int8 in per cent, positive for Black, the last that a bot told."""

    pairing: Pairing
    moves: tuple[int, ...]
    win_rates: tuple[float | None, ...]
    ownership: bytes | None = None

    @classmethod
    def at(cls, live: LiveGame) -> Snapshot:
        return cls(live.pairing, tuple(live.game.moves), tuple(live.win_rates), live.ownership)


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """What a worker is hired for; plain data. One that plays on a single board tells of it before each call of a bot.
    ``card`` is the one GPU that it sees, where that isn't left open. Bots that are ``cold`` hung when they were warmed
    up: they are built only, and judged in their games."""

    players: Mapping[str, Player]
    rules: Rules
    adjudication: Adjudication
    boards: int
    card: str = ""
    cold: frozenset[str] = frozenset()


class CallClock:
    """Who is thinking, and since when: written by a worker, read by its parent, through shared memory."""

    SIZE = 4
    """Doubles of shared memory: when the call began (0 between calls), the seconds that it may take, the player, and
    the board whose time it is (-1: no single one's)."""

    def __init__(self, shared: Any):
        """``shared`` is a ctypes array of ``SIZE`` doubles, or more."""
        self._shared = memoryview(shared).cast("B").cast("d")

    def name(self, player: int) -> None:
        """Say who is to blame when the process ends now, without starting the clock."""
        self._shared[2] = player

    def start(self, player: int, allowed: float, board: int = -1) -> None:
        self._shared[1], self._shared[2], self._shared[3] = allowed, player, board
        self._shared[0] = monotonic()

    def stop(self) -> None:
        self._shared[0] = 0.0

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """In this block the call goes on, but not its time."""
        start, now = self._shared[0], monotonic()
        self._shared[0] = 0.0
        yield
        self._shared[0] = start and start + monotonic() - now

    @property
    def seconds(self) -> float:
        """How long the present call has been going on; 0 between calls."""
        start = self._shared[0]
        return max(0.0, monotonic() - start) if start else 0.0

    @property
    def allowed(self) -> float:
        """How many seconds the call that was made last may take."""
        return float(self._shared[1])

    @property
    def player(self) -> int:
        """The index of the player that was called last."""
        return int(self._shared[2])

    @property
    def board(self) -> int:
        """The board whose time the last call was; -1 for no single one's."""
        return int(self._shared[3])


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A game whose worker is gone, as it stood: the moves after the opening, with what is known of each. ``seconds`` is
    how long the side to move had thought about the next one, and ``was_called`` whether the worker may have ended in
    that."""

    pairing: Pairing
    played: tuple[tuple[Move, MoveStats], ...]
    seconds: float = 0.0
    was_called: bool = False

    @property
    def id(self) -> str:
        return self.pairing.id

    @property
    def on_move(self) -> str:
        """The player who is to decide next."""
        pairing = self.pairing
        return pairing.white if (len(pairing.opening) + len(self.played)) % 2 else pairing.black


class Journal:
    """The games under way, written move by move by a worker and read when it is gone, through shared memory.

    Each board has a header: the number of its game by the order in which they were sent (from 1; 0: no game), of its
    moves, and the seconds spent on the next one. Then come the moves: the point, win rate, score, visits and seconds.
    """

    _ROW = Struct("5d")

    def __init__(self, shared: Any, boards: int, move_limit: int):
        """``shared`` is a ctypes array of at least ``size(boards, move_limit)`` doubles."""
        self._shared = memoryview(shared).cast("B").cast("d")
        self._boards, self._length = boards, (move_limit + 1) * 5

    @classmethod
    def size(cls, boards: int, move_limit: int) -> int:
        return boards * (move_limit + 1) * 5

    def write(self, board: int, number: int, moves: int = 0, spent: float = 0.0) -> None:
        """Write a header."""
        start = board * self._length
        self._shared[start], self._shared[start + 1], self._shared[start + 2] = number, moves, spent

    def add(self, board: int, move: Move, fact: MoveStats) -> None:
        start = board * self._length
        moves = self._shared[start + 1] + 1
        rate, score, visits, seconds = fact
        self._ROW.pack_into(
            self._shared,
            8 * (start + 5 * int(moves)),
            move,
            nan if rate is None else rate,
            nan if score is None else score,
            nan if visits is None else visits,
            nan if seconds is None else seconds,
        )
        self._shared[start + 1], self._shared[start + 2] = moves, 0.0

    def spend(self, board: int, seconds: float) -> None:
        self._shared[board * self._length + 2] = seconds

    def games(self) -> Iterator[tuple[int, int, tuple[tuple[Move, MoveStats], ...], float]]:
        """The board, number, moves and spent seconds of each game."""
        for board in range(self._boards):
            number, moves, spent = self._shared[board * self._length : board * self._length + 3]
            if number:
                played = tuple(self._played(board, place + 1) for place in range(int(moves)))
                yield board, int(number), played, spent

    def _played(self, board: int, place: int) -> tuple[Move, MoveStats]:
        start = board * self._length + 5 * place
        row = self._shared[start : start + 5]
        rate, score, visits, seconds = (None if isnan(value) else value for value in row[1:])
        return int(row[0]), MoveStats(rate, score, None if visits is None else int(visits), seconds)


def start_method() -> ForkServerContext | SpawnContext:
    """How processes of ours are started: where the system can, from one that has made everything ready once."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["arena.match.ready"])
    config = getattr(current_process(), "_config", None)  # there is no public way; without it a kill leaves a folder
    if isinstance(config, dict):
        config["tempdir"] = str(scratch())
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


def shared_size(spec: WorkerSpec) -> int:
    """Doubles of the memory that a worker shares with its parent: its ``CallClock``, then its ``Journal``."""
    return CallClock.SIZE + Journal.size(spec.boards, spec.rules.move_limit)


def shared_views(shared: Any, spec: WorkerSpec) -> tuple[CallClock, Journal]:
    doubles = memoryview(shared).cast("B").cast("d")
    return CallClock(doubles), Journal(doubles[CallClock.SIZE :], spec.boards, spec.rules.move_limit)


def work(connection: Connection, shared: Any, spec: WorkerSpec, stderr: str, number: int) -> None:
    """The life of a worker; what it prints goes into the file ``stderr``. It ends when it is sent None, when its parent
    is gone, or on SIGTERM.

    Worker ``number`` makes that player ready first, so that workers who start together compile different kernels."""
    leave_to_the_parent()
    leave_safe_path()
    end_with_parent()
    if spec.card:
        os.environ[CARDS] = spec.card
    log = os.open(stderr, os.O_WRONLY | os.O_APPEND)
    os.dup2(log, 1)  # the terminal is the screen's: what a bot prints goes with its errors
    os.dup2(log, 2)
    os.close(log)
    faulthandler.enable()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # unwinds, so that the bots are closed
    clock, journal = shared_views(shared, spec)
    players: dict[str, Bot] = {}
    names = list(spec.players)
    try:
        for place in range(number, number + len(names)):
            place %= len(names)
            clock.name(place)
            entry = spec.players[names[place]]
            players[names[place]] = entry.build()
            if entry.bot_kind.boards > 1 and names[place] not in spec.cold:
                clock.start(place, warm_up_seconds(players[names[place]], entry.limits))
                with while_compiling(clock.standing_still):
                    warm_up(players[names[place]], spec.rules)
                clock.stop()
        connection.send(READY)
        _serve(connection, clock, journal, {name: players[name] for name in names}, spec)
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
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGCONT, 0, 0, 0)


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


WARM_UP = 10.0
"""Seconds that the first decision of a bot may take at least: what isn't loaded yet is loaded then."""


def warm_up_seconds(bot: Bot, limits: Limits) -> float:
    """How long ``warm_up`` may take, without the time in which kernels are compiled."""
    return min(bot.startup, max(limits.allowed, WARM_UP))


class Gone:
    """In place of a message: no more come, as the parent is gone."""


Message = Pairing | Unfinished | str | None
"""What a worker is sent: a game to play or to go on with, ``PAUSE`` or ``RESUME``, None to leave."""


def _listen(connection: Connection, inbox: SimpleQueue[Message | Gone]) -> None:
    """Take in what the parent sends as it comes, in a thread of its own. A parent whose message isn't read waits, and
    doesn't read what this process sends meanwhile: both could wait for each other."""
    with suppress(EOFError, OSError):
        while True:
            message = connection.recv()
            inbox.put(message)
            if message is None:
                return
    inbox.put(Gone())


def _serve(
    connection: Connection, clock: CallClock, journal: Journal, players: Mapping[str, Bot], spec: WorkerSpec
) -> None:
    names = list(players)
    boards: dict[str, int] = {}  # by the ids of the games
    free = list(range(spec.boards))

    def note_turn(turn: Turn | None) -> None:
        if turn is None:
            clock.stop()
            return
        first, *more = turn.live_games
        if spec.boards == 1:
            connection.send(Snapshot.at(first))
        board = -1 if more or not turn.is_charged else boards[first.pairing.id]
        if first.spent:
            journal.spend(boards[first.pairing.id], first.spent)
        clock.start(names.index(turn.player), turn.allowed, board)

    def note_move(live: LiveGame) -> None:
        journal.add(boards[live.pairing.id], live.game.moves[-1], live.facts[-1])

    limits = {name: entry.limits for name, entry in spec.players.items()}
    loop = GameLoop(players, spec.rules, limits, spec.adjudication, on_turn=note_turn, on_move=note_move)
    inbox: SimpleQueue[Message | Gone] = SimpleQueue()
    Thread(target=_listen, args=(connection, inbox), daemon=True).start()
    waiting: deque[Pairing | Unfinished] = deque()
    glanced = monotonic()
    more, paused, number = True, False, 0
    while more or waiting or loop.live_games:
        while more and (paused or not inbox.empty() or not (waiting or loop.live_games)):
            message = inbox.get()
            if message is None:
                more = False
            elif isinstance(message, Gone):
                raise EOFError
            elif isinstance(message, str):
                paused = message == PAUSE
            else:
                waiting.append(message)
        while waiting and free:
            game, number = waiting.popleft(), number + 1
            boards[game.id] = free.pop()
            journal.write(boards[game.id], number)
            if isinstance(game, Unfinished):
                loop.start_game(game.pairing, game.played, game.seconds)
            else:
                loop.start_game(game)
        for record in loop.play_round():
            connection.send(record)
            free.append(boards.pop(record.id))
            journal.write(free[-1], 0)
        if monotonic() - glanced > SNAPSHOT_SECONDS:
            glanced = monotonic()
            for live in loop.live_games:
                connection.send(Snapshot.at(live))
