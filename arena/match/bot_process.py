"""Bots that don't ship, such as Python files, in a process of their own: positions go in, decisions come out.

Such a bot shares no memory with its opponents and the games: what it breaks, patches, leaks or leaves running affects
only itself. Each worker has a ``BotStarter``, which forks a process for each bot.
"""

import faulthandler
import os
import pickle
import select
import signal
import socket
import sys
import traceback
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import arena
from arena import ArenaError, BotFault, BotKilled, BotTimeout, UserError
from arena.contract.bot import Bot, Candidate, Decision, Limits, describe_error
from arena.contract.guard import guard
from arena.go.game import Game, GameCopy, Rules
from arena.go.jit import while_compiling
from arena.match.game_loop import move_report
from arena.match.process import ignore_terminal_signals
from arena.players.player import Player
from arena.system import retry_killed, running_clock

ANSWER_GRACE = 1.0  # seconds beyond its deadline until a bot that doesn't answer is killed
EXIT_SECONDS = 1.0  # that a bot has to close, and until it is known how a process ended
BUILD_SECONDS = 300.0  # that a bot has to be built, or to compile
LAST_WORDS = 4000  # characters of what it printed that belong to a fault
LONGEST_ANSWER = 1 << 28  # bytes
LONGEST_OUTPUT = 1 << 24  # bytes of what it printed: then the file is emptied

_Decision = tuple[int | None, float | None, float | None, int | None, bytes | None]
"""A decision on its way: the move, what was reported of it (``MoveReport``), and ownership as 32-bit floats."""


class _Answer(msgspec.Struct, array_like=True):
    """A message from a bot's process: one of these fields is set."""

    ready: tuple[list[str], float] | None = None  # the methods that it overrides, and its ``startup``
    decisions: list[_Decision] | None = None
    candidates: list[tuple[int, int, float, tuple[int, ...]]] | None = None  # moves, visits, win rates, lines
    fault: tuple[str, str, str] | None = None  # the class of an error of ours, its text, a traceback
    compiling: bool | None = None  # compiling a kernel begins (True) or ends


EXPECTED = {"ready": "starting", "decisions": "its decisions", "candidates": "an analysis"}
_encoder, _decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(_Answer)


# --- In the worker ---


class BotStarter:
    """A process that forks the processes of bots. It is forked itself while the worker has one thread and no net."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        if not os.fork():
            try:
                ignore_terminal_signals()
                os.closerange(3, theirs.fileno())  # no bot has the worker's memory and connections open
                os.closerange(theirs.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
                _serve_starts(theirs)
            finally:
                os._exit(0)
        theirs.close()

    def start(self, player: Player, stderr: Path) -> tuple[Connection, socket.socket]:
        """Start the process of a player; returns its connection and its lifeline."""
        (mine, theirs), (lifeline, watched) = socket.socketpair(), socket.socketpair()
        with theirs, watched:
            request = pickle.dumps((player, str(stderr)))
            try:
                socket.send_fds(self._socket, [request], [theirs.fileno(), watched.fileno()])
            except OSError:  # it was killed: nobody's fault, and the worker is replaced
                sys.exit(1)
        return Connection(mine.detach()), lifeline


class BotProcess(Bot):
    """A bot in a process of its own. After a fault of the process ``prepare`` starts another one."""

    def __init__(self, starter: BotStarter, player: Player, stderr: Path, may_be_killed: bool = False):
        """Raises UserError when the bot can't be built. If it ``may_be_killed`` meanwhile, ``prepare`` tries again."""
        self._starter, self._player, self._stderr = starter, player, stderr
        self._connection: Connection | None = None
        self._overrides = frozenset[str]()
        try:
            self._start(BUILD_SECONDS)
        except BotFault as fault:
            if not (may_be_killed and isinstance(fault, BotKilled)):
                raise UserError(f"{player.name} can't be built: {fault}") from fault

    def overrides(self, method: str) -> bool:
        return method in self._overrides or (method == "prepare" and self._connection is None)

    def warm_up(self, rules: Rules, seconds: float) -> None:
        """Have the bot make a first decision, without the time in which kernels are compiled. A fault is ignored: it
        is charged in a game, and this isn't one. Raises the UserError of a bot that can't play."""
        with suppress(BotFault):
            self._decide("choose_all", [Game(rules)], Limits(simulations=2), seconds)

    def prepare(self, game: Game, limits: Limits) -> None:
        if self._connection is None:
            self._start(max(self.startup, Bot.startup))
        if "prepare" in self._overrides:
            self._decide("prepare", [game], limits, self.startup)

    def choose(self, game: Game, limits: Limits) -> Decision:
        (decision,) = self._decide("choose", [game], limits, limits.allowed)
        return decision

    def choose_all(self, games: Sequence[Game], limits: Limits) -> list[Decision]:
        return self._decide("choose_all", games, limits, limits.allowed_for(len(games)))

    def analyse(self, game: Game, limits: Limits) -> list[Candidate]:
        return [Candidate(*each) for each in self._ask("analyse", [game], limits, limits.allowed, "candidates")]

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            with suppress(OSError):
                self._lifeline.settimeout(EXIT_SECONDS)
                self._lifeline.recv(4)
            self._stop()

    def _start(self, seconds: float) -> None:
        """Raises BotFault, and the error of a bot that can't be built."""
        retry_killed(lambda: self._start_once(seconds))

    def _start_once(self, seconds: float) -> None:
        self._connection, self._lifeline = self._starter.start(self._player, self._stderr)
        self._poll = select.poll()
        self._poll.register(self._connection.fileno(), select.POLLIN)
        self._sent: weakref.WeakKeyDictionary[Game, list[int]] = weakref.WeakKeyDictionary()
        self._over: list[int] = []  # the keys of games that are gone
        self._count = 0
        self._limits: Limits | None = None
        try:
            overrides, self.startup = self._receive(seconds, "ready")
        except ArenaError:
            self._stop()
            raise
        self._overrides = frozenset(overrides)

    def _decide(self, method: str, games: Sequence[Game], limits: Limits, seconds: float) -> list[Decision]:
        return [
            Decision(move, rate, visits, None if owned is None else np.frombuffer(owned, np.float32), score)
            for move, rate, score, visits, owned in self._ask(method, games, limits, seconds, "decisions")
        ]

    def _ask(self, method: str, games: Sequence[Game], limits: Limits, seconds: float, field: str) -> Any:
        """This field of the answer. Raises BotFault, BotTimeout, BotKilled, and what the bot raised."""
        if self._connection is None:
            self._start(max(self.startup, Bot.startup))
        assert self._connection is not None
        positions, over = [self._position(game) for game in games], self._over[:]
        request = method, None if limits is self._limits else limits, positions, over
        self._limits = limits
        del self._over[: len(over)]
        try:
            self._connection.send_bytes(pickle.dumps(request, pickle.HIGHEST_PROTOCOL))
        except OSError:
            raise self._gone(self._death()) from None
        answer = self._receive(seconds, field)
        with suppress(OSError):  # the bot may have removed it
            if os.stat(self._stderr).st_size > LONGEST_OUTPUT:
                os.truncate(self._stderr, 0)
        return answer

    def _position(self, game: Game) -> tuple[Any, ...]:
        """The key of a game, the moves that its process doesn't have, and how it began where that is new."""
        sent = self._sent.get(game)
        if sent is not None:
            new = game.moves[sent[1] :]
            sent[1] = len(game.moves)
            return sent[0], new
        self._count += 1
        self._sent[game] = [self._count, len(game.moves)]
        weakref.finalize(game, self._over.append, self._count).atexit = False
        return self._count, game.moves, (game.rules, game.seed, *game.setup, game.first)

    def _receive(self, seconds: float, field: str) -> Any:
        """This field of the next answer within ``seconds``, time spent compiling excluded. Raises as ``_ask``."""
        assert self._connection is not None
        deadline, left = running_clock() + seconds, seconds
        while True:
            wait = min(deadline - running_clock() + ANSWER_GRACE, 0.25)  # short, to notice a stop of this process
            if not self._poll.poll(max(0.0, wait) * 1000):
                if wait <= 0:
                    raise self._gone(BotTimeout(f"no answer within {round(seconds, 2):g} s"))
                continue
            try:
                answer = _decoder.decode(self._connection.recv_bytes(LONGEST_ANSWER))
            except (EOFError, OSError):
                raise self._gone(self._death()) from None
            except msgspec.MsgspecError as error:
                raise self._gone(BotFault(f"its process sent what can't be read: {error}")) from None
            if answer.fault is not None:
                name, text, details = answer.fault
                kind: Any = getattr(arena, name, None)
                is_ours = isinstance(kind, type) and issubclass(kind, ArenaError)
                fault: ArenaError = (kind if is_ours else BotFault)(text)
                fault.add_note(details)
                raise fault
            if answer.compiling is None:
                if (found := getattr(answer, field)) is None:
                    raise self._gone(BotFault(f"its process sent something else instead of {EXPECTED[field]}"))
                return found
            if answer.compiling:
                left, deadline = deadline - running_clock(), running_clock() + BUILD_SECONDS
            else:
                deadline = running_clock() + left

    def _death(self) -> BotFault:
        """The fault of a process that ended."""
        status = b""
        with suppress(OSError):
            self._lifeline.settimeout(EXIT_SECONDS)
            status = self._lifeline.recv(4)
        code = os.waitstatus_to_exitcode(int.from_bytes(status, "little")) if status else -signal.SIGKILL
        fault = (BotKilled if code < 0 else BotFault)(f"its process ended with {exit_words(code)}")
        with suppress(OSError):
            fault.add_note(self._stderr.read_text(errors="replace")[-LAST_WORDS:])
        return fault

    def _gone(self, fault: BotFault) -> BotFault:
        self._stop()
        return fault

    def _stop(self) -> None:
        """End the process, whose guardian ends all that it started."""
        if self._connection is not None:
            self._connection.close()
            self._lifeline.close()
            self._connection = None


def exit_words(code: int) -> str:
    """How a process ended: by which signal, or with which code."""
    return signal.Signals(-code).name if -code in set(signal.Signals) else f"exit code {code}"  # some have no name


# --- In the processes of bots ---


def _serve_starts(requests: socket.socket) -> None:
    """Fork what is asked for, until the worker is gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGCONT, signal.SIG_DFL)  # the process that forked the worker handles it
    while True:
        request, (*descriptors,), _, _ = socket.recv_fds(requests, 1 << 16, 2)
        if not request:
            return
        if not os.fork():
            requests.close()
            player, stderr = pickle.loads(request)
            connection, lifeline = descriptors
            guard(lifeline, partial(_run, Connection(connection), player, stderr))
        for descriptor in descriptors:
            os.close(descriptor)


def _run(connection: Connection, player: Player, stderr: str) -> None:
    """Build the bot and answer what is asked, until the worker closes the connection."""
    with open(stderr, "ab") as log:
        for descriptor in (1, 2):
            os.dup2(log.fileno(), descriptor)
    faulthandler.enable()
    code = 0
    try:
        _serve(connection, player)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except (EOFError, ConnectionError):
        pass  # the worker is gone
    except BaseException:
        traceback.print_exc()
        code = 1
    with suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code & 0xFF)


def _serve(connection: Connection, player: Player) -> None:
    def send(answer: _Answer) -> None:
        connection.send_bytes(_encoder.encode(answer))

    @contextmanager
    def compiling() -> Iterator[None]:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # such as a bot's own alarm
        send(_Answer(compiling=True))
        try:
            yield
        finally:
            send(_Answer(compiling=False))
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    try:
        bot = player.build()
    except UserError as error:
        return send(_Answer(fault=(type(error).__name__, str(error), "")))
    except Exception as error:
        words = f"{player.name} can't be built: {describe_error(error)}"
        return send(_Answer(fault=("UserError", words, traceback.format_exc())))
    send(_Answer(ready=([name for name in ("prepare", "choose_all") if bot.overrides(name)], float(bot.startup))))
    try:
        with while_compiling(compiling):
            _answer_requests(connection, bot, send)
    finally:
        bot.close()


def _answer_requests(connection: Connection, bot: Bot, send: Callable[[_Answer], None]) -> None:
    games: dict[int, tuple[Game, GameCopy]] = {}
    limits = Limits()
    while True:
        method, changed, positions, over = pickle.loads(connection.recv_bytes())
        limits = changed or limits
        for key in over:
            games.pop(key, None)
        copies = []
        for key, moves, *begins in positions:
            if begins:
                rules, seed, black, white, first = begins[0]
                new = Game(rules, seed, black, white, to_play=first)
                games[key] = new, GameCopy(new)
            game, copy = games[key]
            for move in moves:
                game.play(move)
            copies.append(copy.update())
        try:
            found = getattr(bot, method)(copies if method == "choose_all" else copies[0], limits)
            if method == "analyse":
                lines = [(int(c.move), int(c.visits), float(c.win_rate), (*map(int, c.line),)) for c in found]
                answer = _Answer(candidates=lines)
            else:
                decisions = found if method == "choose_all" else [found] if method == "choose" else ()
                answer = _Answer(decisions=[_encode(decision, copies[0].rules.size) for decision in decisions])
        except Exception as error:
            kind = type(error).__name__ if isinstance(error, (BotFault, UserError)) else "BotFault"
            answer = _Answer(fault=(kind, describe_error(error), traceback.format_exc()))
        send(answer)


def _encode(decision: Decision, size: int) -> _Decision:
    """Raises TypeError where it is no Decision."""
    rate, score, visits = move_report(decision, size)
    owned, move = decision.ownership, None if decision.move is None else int(decision.move)
    if move is not None and not -(2**63) <= move < 2**63:
        raise TypeError(f"{move} is not a move")
    if visits is not None:
        visits = max(0, min(visits, 1 << 62))  # more can't be sent
    return move, rate, score, visits, None if owned is None else owned.astype(np.float32).tobytes()
