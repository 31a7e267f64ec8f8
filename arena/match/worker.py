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
from arena.contract.guard import kill_marked
from arena.files import scratch
from arena.go.coords import Move
from arena.go.game import Game, Rules
from arena.go.jit import while_compiling
from arena.go.record import MoveStats
from arena.match.game_loop import GameLoop, LiveGame, Turn
from arena.match.schedule import Pairing
from arena.players.player import Player

SNAPSHOT_SECONDS = 0.25  # seconds between two looks at the boards that are sent
GRACE = 3.0  # seconds that a worker has to end by itself when its parent is gone
PR_SET_PDEATHSIG = 1  # of prctl(2)
CARDS = "CUDA_VISIBLE_DEVICES"  # the variable that says which GPUs a process sees, with commas between them
READY = "ready"  # what a worker sends once its players are built and their kernels compiled

PAUSE, RESUME = "pause", "resume"
"""The message that pauses a worker: no bot is called, but a call that has begun is finished."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One game under way. ``win_rates`` are those of the side that made each move, where it told;
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
    """Whom a worker plays with, and by what rules; plain data. One that plays on a single board tells of it before each
    call of a bot. ``card`` is the one GPU that it sees, where that isn't left open. Bots that are ``cold`` hung when
    they were warmed up: they are built only, and judged in their games."""

    players: Mapping[str, Player]
    rules: Rules
    adjudication: Adjudication
    boards: int
    card: str = ""
    cold: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Assignment:
    """A game for a worker: a new one, or one whose worker is gone, as it stood. ``played`` are the moves after the
    opening, with what is known of each. ``seconds`` is how long the side to move had thought about the next one,
    ``was_called`` whether the worker may have ended in that, ``deaths`` how often workers ended at this position."""

    pairing: Pairing
    played: tuple[tuple[Move, MoveStats], ...] = ()
    seconds: float = 0.0
    was_called: bool = False
    deaths: int = 0

    @property
    def id(self) -> str:
        return self.pairing.id

    @property
    def on_move(self) -> str:
        """The player who is to decide next."""
        pairing = self.pairing
        return pairing.white if (len(pairing.opening) + len(self.played)) % 2 else pairing.black


class SharedState:
    """What a worker writes and its parent reads through shared memory, also when the worker is gone: the call of a bot
    that goes on, and a journal of the games under way.

    Doubles: when the call began (0 between calls), the seconds that it may take, the player, and the board whose time
    it is (-1: no single one's). Then for each board a header: the number of its game by the order in which they were
    sent (from 1; 0: no game), of its moves, and the seconds spent on the next one; then the moves: the point, win rate,
    score, visits and seconds.
    """

    _CALL, _ROW = 4, Struct("5d")

    def __init__(self, memory: Any, spec: WorkerSpec):
        """``memory`` is a ctypes array of ``size(spec)`` doubles."""
        self._memory = memoryview(memory).cast("B").cast("d")
        self._starts = range(self._CALL, self.size(spec), self._length(spec))

    @staticmethod
    def _length(spec: WorkerSpec) -> int:
        return (spec.rules.move_limit + 1) * 5

    @classmethod
    def size(cls, spec: WorkerSpec) -> int:
        return cls._CALL + spec.boards * cls._length(spec)

    def name_player(self, player: int) -> None:
        """Note who is to blame when the process ends now, without starting the clock."""
        self._memory[2] = player

    def start_call(self, player: int, allowed: float, board: int = -1) -> None:
        memory = self._memory
        memory[1], memory[2], memory[3] = allowed, player, board
        memory[0] = monotonic()

    def end_call(self) -> None:
        self._memory[0] = 0.0

    @contextmanager
    def stop_clock(self) -> Iterator[None]:
        """In this block the call goes on, but not its time."""
        start, now = self._memory[0], monotonic()
        self._memory[0] = 0.0
        yield
        self._memory[0] = start and start + monotonic() - now

    @property
    def seconds(self) -> float:
        """How long the present call has been going on; 0 between calls."""
        start = self._memory[0]
        return max(0.0, monotonic() - start) if start else 0.0

    @property
    def allowed(self) -> float:
        """How many seconds the call that was made last may take."""
        return float(self._memory[1])

    @property
    def player(self) -> int:
        """The index of the player that was called last."""
        return int(self._memory[2])

    @property
    def board(self) -> int:
        """The board whose time the last call was; -1 for no single one's."""
        return int(self._memory[3])

    def write_game(self, board: int, number: int) -> None:
        """Begin the journal of a game; 0 for none."""
        start = self._starts[board]
        self._memory[start], self._memory[start + 1], self._memory[start + 2] = number, 0.0, 0.0

    def write_move(self, board: int, number: int, move: Move, stats: MoveStats) -> None:
        """Add the move of this number, from 1."""
        start, memory = self._starts[board], self._memory
        known = (nan if value is None else value for value in stats)
        self._ROW.pack_into(memory, 8 * (start + 5 * number), move, *known)
        memory[start + 1], memory[start + 2] = number, 0.0

    def spend(self, board: int, seconds: float) -> None:
        """Note the seconds that were spent on the next move."""
        self._memory[self._starts[board] + 2] = seconds

    def games(self) -> Iterator[tuple[int, int, tuple[tuple[Move, MoveStats], ...], float]]:
        """The board, number, moves and spent seconds of each game."""
        for board, start in enumerate(self._starts):
            number, moves, spent = self._memory[start : start + 3]
            if number:
                places = range(start + 5, start + 5 + 5 * int(moves), 5)
                yield board, int(number), tuple(self._move_at(place) for place in places), spent

    def _move_at(self, place: int) -> tuple[Move, MoveStats]:
        move, *row = self._memory[place : place + 5]
        rate, score, visits, seconds = (None if isnan(value) else value for value in row)
        return int(move), MoveStats(rate, score, None if visits is None else int(visits), seconds)


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

TERMINAL = (signal.SIGINT, signal.SIGHUP)  # what a terminal sends to all of a job


@contextmanager
def starting_processes() -> Iterator[None]:
    """Processes of ours that start in this block don't import a ``random.py`` of the current folder, which Python would
    put first. What a terminal sends is held back from them until they call ``leave_to_the_parent``; nothing of it is
    lost here."""
    name, value = SAFE_PATH
    is_ours = os.environ.setdefault(name, value) == value
    before = signal.pthread_sigmask(signal.SIG_BLOCK, TERMINAL)
    try:
        resource_tracker.ensure_running()  # starts with the first process, and would unblock some of it
        signal.pthread_sigmask(signal.SIG_BLOCK, TERMINAL)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if is_ours:
            del os.environ[name]


def leave_to_the_parent() -> None:
    """Have this process, and those that it starts, ignore what a terminal sends to all of a job."""
    for number in TERMINAL:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, TERMINAL)


def work(connection: Connection, shared: Any, spec: WorkerSpec, stderr: str, number: int) -> None:
    """The life of a worker; what it prints goes into the file ``stderr``. It ends when it is sent None, when its parent
    is gone, or on SIGTERM.

    Worker ``number`` makes that player ready first, so that workers who start together compile different kernels."""
    leave_to_the_parent()
    if os.environ.get(SAFE_PATH[0]) == SAFE_PATH[1]:
        del os.environ[SAFE_PATH[0]]  # an engine in Python looks beside its own file
    end_with_parent()
    if spec.card:
        os.environ[CARDS] = spec.card
    log = os.open(stderr, os.O_WRONLY | os.O_APPEND)
    os.dup2(log, 1)  # the terminal is the screen's: what a bot prints goes with its errors
    os.dup2(log, 2)
    os.close(log)
    faulthandler.enable()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # unwinds, so that the bots are closed
    state = SharedState(shared, spec)
    players: dict[str, Bot] = {}
    names = list(spec.players)
    try:
        for place in range(number, number + len(names)):
            place %= len(names)
            state.name_player(place)
            entry = spec.players[names[place]]
            players[names[place]] = entry.build()
            if entry.bot_kind.boards > 1 and names[place] not in spec.cold:
                longest = max(entry.limits.allowed, WARM_UP)  # without the time in which kernels are compiled
                state.start_call(place, min(players[names[place]].startup, longest))
                with while_compiling(state.stop_clock):
                    warm_up(players[names[place]], spec.rules)
                state.end_call()
        connection.send(READY)
        _play(connection, state, {name: players[name] for name in names}, spec)
    except UserError as error:
        connection.send(error)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the parent is gone
    finally:
        for bot in players.values():
            bot.close()


def end_with_parent() -> None:
    """Have this process outlive its parent by seconds only, in which it ends its engines, even when it hangs or is
    stopped: nobody watches it."""
    signal.signal(signal.SIGCONT, signal.SIG_DFL)  # what it was forked from ends at once with its parent
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
        kill_marked(f"{os.getpid()}-")  # what its bots started, whose watchers may be gone, too
        os._exit(1)


def warm_up(bot: Bot, rules: Rules) -> None:
    """Have the bot compile or load its kernels before any clock runs. Raises the UserError of one that can't play."""
    try:
        bot.choose_all([Game(rules)], Limits(simulations=2))
    except UserError:
        raise
    except Exception:  # a fault in the choice of a move is judged in a game, and this is none
        pass


WARM_UP = 10.0  # seconds that the first decision of a bot may take at least: what isn't loaded yet is loaded then


Message = Assignment | str | None
"""What a worker is sent: a game to play, ``PAUSE`` or ``RESUME``, None to leave."""


def _listen(connection: Connection, inbox: SimpleQueue[Message | EOFError]) -> None:
    """Take in what the parent sends as it comes, in a thread of its own; an EOFError when it is gone. A parent whose
    message isn't read waits, and doesn't read what this process sends meanwhile: both could wait for each other."""
    with suppress(EOFError, OSError):
        while True:
            message = connection.recv()
            inbox.put(message)
            if message is None:
                return
    inbox.put(EOFError())


def _play(connection: Connection, state: SharedState, players: Mapping[str, Bot], spec: WorkerSpec) -> None:
    """Play the games that come until there are no more."""
    indexes = {name: index for index, name in enumerate(players)}
    boards: dict[str, int] = {}  # by the ids of the games
    free = list(range(spec.boards))

    def note_turn(turn: Turn | None) -> None:
        if turn is None:
            state.end_call()
            return
        live = turn.live_games[0]
        board = boards[live.pairing.id]
        if spec.boards == 1:
            connection.send(Snapshot.at(live))
        if live.spent:
            state.spend(board, live.spent)
        is_shared = len(turn.live_games) > 1 or not turn.is_charged
        state.start_call(indexes[turn.player], turn.allowed, -1 if is_shared else board)

    def note_move(live: LiveGame) -> None:
        pairing, moves = live.pairing, live.game.moves
        state.write_move(boards[pairing.id], len(moves) - len(pairing.opening), moves[-1], live.facts[-1])

    limits = {name: player.limits for name, player in spec.players.items()}
    loop = GameLoop(players, spec.rules, limits, spec.adjudication, on_turn=note_turn, on_move=note_move)
    inbox: SimpleQueue[Message | EOFError] = SimpleQueue()
    Thread(target=_listen, args=(connection, inbox), daemon=True).start()
    waiting: deque[Assignment] = deque()
    reported = monotonic()
    more, is_paused, number = True, False, 0
    while more or waiting or loop.live_games:
        while more and (is_paused or not inbox.empty() or not (waiting or loop.live_games)):
            message = inbox.get()
            if message is None:
                more = False
            elif isinstance(message, EOFError):
                raise message
            elif isinstance(message, str):
                is_paused = message == PAUSE
            else:
                waiting.append(message)
        while waiting and free:
            game, number = waiting.popleft(), number + 1
            boards[game.id] = free.pop()
            state.write_game(boards[game.id], number)
            loop.start_game(game.pairing, game.played, game.seconds)
        for record in loop.play_round():
            connection.send(record)
            free.append(boards.pop(record.id))
            state.write_game(free[-1], 0)
        if monotonic() - reported > SNAPSHOT_SECONDS:
            reported = monotonic()
            for live in loop.live_games:
                connection.send(Snapshot.at(live))
