"""Any engine that speaks the Go Text Protocol 2, as a bot. Legality and clocks are the referee's."""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from itertools import takewhile
from math import ceil, isfinite
from os.path import expanduser
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from arena import BotFault, BotKilled, BotTimeout, ConfigError
from arena.contract import guard
from arena.contract.bot import Bot, BotKind, Candidate, Decision, Limits, setting
from arena.contract.code import digest_of_files, find_program
from arena.contract.guard import kill_marked
from arena.contract.limits import TimeSettings
from arena.contract.settings import describe
from arena.go.coords import Move, gtp_from_move, move_from_gtp, pass_move
from arena.system import retry_killed, running_clock

if TYPE_CHECKING:  # listing the kinds of bot stays quick: the game pulls in the compiler
    from arena.go.game import Game, Rules

ENGINE_EXIT_SECONDS = 1.0  # seconds that an engine gets to end by itself
LONGEST_WAIT = 3600.0  # seconds of one call of poll, which takes no infinite ones
LONGEST_ANSWER = 1 << 20  # bytes
KEPT_STDERR = 1 << 16  # bytes
LONGEST_LOG = 1 << 26  # bytes
SEARCH = "kata-genmove_analyze"  # as genmove, with a report of the search
INTERVAL = 100_000  # hundredths of a second between an engine's reports: one at the end of its search is enough

# The answer's sign, its number if any, its text. A banner such as "=== My Bot ===" is not an answer.
ANSWER = re.compile(r"([=?])(?![=?])\d*\s*(.*)")
OWNERSHIP = re.compile(r"\bownership((?: +-?[0-9.]+(?:e-?[0-9]+)?)+)")
CONTROL_SIGNS = {**dict.fromkeys([*range(32), 127]), 9: " "}
ADVICE = "run the command by hand and type 'name'; if it starts slowly, raise 'startup'; for files, set 'cwd' or 'env'"


@dataclass(frozen=True, slots=True)
class Config:
    command: str = setting(help="the engine's command line, such as 'gnugo --mode gtp'; run without a shell")
    startup: float = setting(10.0, "maximum seconds from the engine's start to its first answers", low=0.01)
    cwd: str = setting("", "working directory of the engine; empty for the current folder")
    env: Mapping[str, str] = setting(factory=dict, help='environment: {OMP_NUM_THREADS = "1"}; in arena.toml only')
    analysis: str = setting("", "KataGo's analysis mode, for a teacher: 'katago analysis -config ... -model ...'")
    log: str = setting("", "file to which the engine's stderr is appended; empty keeps only its end, in memory")


class ErrorResponse(BotFault):
    """The engine answered a command with an error."""


def quoted(text: str, most: int = 80) -> str:
    """The text in quotes, on one line and shortened to ``most`` characters."""
    text = " ".join(text.split())
    return f"'{text[:most]}…'" if len(text) > most else f"'{text}'"


# --- The process ---


def read_command(config: Config, setting: str = "command") -> list[str]:
    """The full path of the program and its arguments, from the command line in ``setting``. Raises ConfigError."""
    command = getattr(config, setting)
    try:
        arguments = shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"{setting} {quoted(command)} can't be read: {error}") from None
    if not arguments:
        raise ConfigError(f"{setting} is empty; set it to the engine's command line, such as 'gnugo --mode gtp'")
    if (program := _find(arguments[0], config)) is None:
        raise ConfigError(f"there is no program '{arguments[0]}' to run; install the engine, or give its full path")
    return [program, *arguments[1:]]


def _find(program: str, config: Config) -> str | None:
    """The full path of a program, looked up from the engine's folder and PATH; None if there is none."""
    place = expanduser(program)
    if os.sep in place:
        place = os.path.join(expanduser(config.cwd) or os.curdir, place)
    found = find_program(place, {**os.environ, **config.env}.get("PATH"))
    return found and os.path.abspath(found)


class Engine:
    """One engine process, which answers a command at a time. After a fault other than ErrorResponse an answer may be
    pending, so that only ``stop`` may be called."""

    def __init__(self, config: Config, setting: str = "command"):
        """Start the process, in a session of its own. Raises ConfigError as ``read_command`` does, and BotFault."""
        arguments = read_command(config, setting)
        self.title = describe("command", shlex.join(arguments))[:80]
        self._log = Path(expanduser(config.log)) if config.log else None
        self._unread, self._stderr = bytearray(), bytearray()
        self._lifeline, watched = (end.detach() for end in socket.socketpair())  # closes when the guardian ends
        mark = f"{os.getpid()}-{time.monotonic_ns()}-"
        self._ended: int | None = None  # the engine's exit code; minus the signal's number if a signal ended it
        try:
            if self._log is not None:
                self._log.open("ab").close()
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", guard.__file__, str(watched), *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                cwd=expanduser(config.cwd) or None,
                env={**os.environ, **config.env, guard.MARK: mark},
                pass_fds=(watched,),
                start_new_session=True,
            )
        except (OSError, ValueError) as error:  # such as a missing cwd, or an argument with a null byte
            os.close(self._lifeline)
            raise BotFault(f"{setting} {quoted(self.title)} can't be started: {error}") from None
        finally:
            os.close(watched)
        pipes = [self._process.stdin, self._process.stdout, self._process.stderr]
        self._in, self._out, errors = (pipe.fileno() for pipe in pipes if pipe is not None)
        self._open = {self._out, errors, self._lifeline}
        os.set_blocking(self._in, False)
        self.stop = weakref.finalize(self, _end_engine, self._process, self._lifeline, mark)
        """End the engine and every process that descends from it. Can be called again."""

    def ask(self, command: str, deadline: float) -> str:
        """The text of the answer, without its sign. ``deadline`` is a time of ``running_clock``. Raises ErrorResponse
        for an error answer; BotTimeout; BotFault when the engine ends, or writes too much without answering."""
        self._listen(0)
        self._unread.clear()  # output that no command asked for
        self.write(f"{command}\n", deadline)
        lines = self.lines(command, deadline)
        sign, first = next(found for line in lines if (found := ANSWER.match(line))).groups()
        text = "\n".join([first, *takewhile(bool, lines)])  # an empty line ends the answer
        if sign == "?":
            raise ErrorResponse(self._describe(f"refuses {quoted(command)}: {quoted(text)}"))
        return text

    def write(self, text: str, deadline: float) -> None:
        """Write lines to the engine, reading its output meanwhile. Raises BotFault."""
        left = text.encode()
        while left:
            try:
                left = left[os.write(self._in, left) :]
            except BlockingIOError:
                if running_clock() >= deadline:
                    raise BotFault(self._describe(f"doesn't read {quoted(text)}")) from None
                self._listen(0.01)
            except BrokenPipeError:
                raise self._end_fault(text[:80]) from None

    def lines(self, command: str, deadline: float) -> Iterator[str]:
        """Endless: the engine's next lines of output, without control signs. Raises BotTimeout or BotFault."""
        started, size = running_clock(), 0
        while True:
            while (end := self._unread.find(b"\n")) >= 0:
                line = _decode_line(self._unread[:end])
                del self._unread[: end + 1]
                size += end + 1
                yield line
            if size + len(self._unread) > LONGEST_ANSWER:
                raise BotFault(self._describe(f"wrote over {LONGEST_ANSWER} bytes without answering {quoted(command)}"))
            if self._out not in self._open:
                raise self._end_fault(command)
            now = running_clock()
            if now >= deadline:
                raise BotTimeout(self._describe(f"no answer to {quoted(command)} in {now - started:.1f} s"))
            self._listen(deadline - now)

    def _listen(self, seconds: float) -> None:
        """Wait for output at most this many seconds, which may be infinite, and read what there is."""
        poll = select.poll()
        for descriptor in self._open:
            poll.register(descriptor, select.POLLIN)
        for descriptor, _ in poll.poll(min(max(seconds, 0), LONGEST_WAIT) * 1000):
            chunk = os.read(descriptor, 1 << 16)
            if not chunk:
                self._open.discard(descriptor)
                if descriptor == self._lifeline:  # the guardian was killed, and the engine with it
                    self._ended = -signal.SIGKILL
            elif descriptor == self._lifeline:
                self._ended = os.waitstatus_to_exitcode(int.from_bytes(chunk, "little"))
            elif descriptor == self._out:
                self._unread += chunk
            else:
                self._stderr += chunk
                del self._stderr[:-KEPT_STDERR]
                if self._log is not None:
                    with self._log.open("ab") as log:
                        log.write(chunk[: max(0, LONGEST_LOG - log.tell())])

    def _describe(self, reason: str) -> str:
        """One line: the engine, the reason and the last lines of its stderr."""
        last = [text for line in self._stderr.splitlines()[-9:] if (text := _decode_line(line))][-3:]
        stderr = f"; its stderr ends with {quoted(' / '.join(last), 300)}" if last else ""
        return f"{self.title}: {reason}{stderr}"

    def _end_fault(self, command: str) -> BotFault:
        """The fault of an engine that ended, or closed its output, instead of answering."""
        self._wait()
        code = self._ended
        if code is None:
            how = "closed its output"
        elif code < 0:
            how = f"was ended by signal {-code} ({signal.strsignal(-code)})"
        else:
            how = f"ended with exit code {code}"
        was_killed = code is not None and (code < 0 or code - 128 in signal.valid_signals())  # a shell adds 128
        fault = BotKilled if was_killed else BotFault
        return fault(self._describe(f"{how} instead of answering {quoted(command)}"))

    def _wait(self) -> None:
        """Let the engine end by itself within ENGINE_EXIT_SECONDS, reading its output."""
        until = running_clock() + ENGINE_EXIT_SECONDS
        while self._ended is None and running_clock() < until:
            self._listen(0.02)
            self._unread.clear()
        self._listen(0)  # one read empties a pipe

    def quit(self) -> None:
        """Ask the engine to end and give it a moment; then ``stop``. Can be called again."""
        if self.stop.alive:
            with suppress(OSError):
                os.write(self._in, b"quit\n")
                self._wait()
        self.stop()


def _decode_line(line: bytearray) -> str:
    return line.decode("utf-8", "replace").translate(CONTROL_SIGNS).strip(" \ufeff")  # some write a byte order mark


def _end_engine(process: subprocess.Popen[bytes], lifeline: int, mark: str) -> None:
    """Have the guardian end the engine and its descendants; end them here if the guardian was killed."""
    os.close(lifeline)
    with suppress(subprocess.TimeoutExpired):
        process.wait(2 * guard.END_SECONDS)
    kill_marked(mark)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()


# --- The bot ---


class GtpBot(Bot):
    """Plays what an engine plays. The engine runs from the start; after a fault ``prepare`` starts a new one. ``name``
    is the engine's own name and version."""

    def __init__(self, config: Config):
        """Raises ConfigError when the command can't be started or doesn't answer GTP commands. An engine that is killed
        while it starts is not an error; ``prepare`` starts it again."""
        self._config = config
        self.startup = config.startup
        self.name = ""
        self._commands: frozenset[str] = frozenset()
        self._engine: Engine | None = None
        self._game: Game | None = None  # the game that is set up in the engine
        self._moves: list[Move] = []  # the moves of that game that were sent
        self._limits: tuple[int | None, TimeSettings | None] | None = None  # the limits that were sent last
        self._report: tuple[list[Candidate], np.ndarray | None] = [], None  # on the position of the last decision
        try:
            with suppress(BotKilled):
                retry_killed(self._start)
        except BotFault as fault:
            raise ConfigError(f"{fault}") from None

    def _start(self) -> Engine:
        """Raises BotFault, with advice, when the engine can't be started or doesn't answer in time."""
        deadline = running_clock() + self.startup
        engine = self._engine = Engine(self._config)
        answers = dict.fromkeys(("name", "version", "list_commands"), "")
        try:
            for command in answers:
                with suppress(ErrorResponse):
                    answers[command] = engine.ask(command, deadline)
        except BotFault as fault:
            self._stop()
            raise type(fault)(f"{fault}; {ADVICE}") from None
        self.name = " ".join(f"{answers['name']} {answers['version']}".split())
        self._commands = frozenset(answers["list_commands"].split())
        engine.title = self.name[:80] or engine.title
        return engine

    @contextmanager
    def _running(self) -> Iterator[Engine]:
        """The engine, started if need be. An exception in the block stops it, as an answer may be pending."""
        try:
            yield self._engine or retry_killed(self._start)
        except BaseException:
            self._stop()
            raise

    def _stop(self) -> None:
        if self._engine is not None:
            self._engine.stop()
        self._engine = self._game = None

    def close(self) -> None:
        """End the engine: by ``quit``, or by force when it doesn't."""
        if self._engine is not None:
            self._engine.quit()
        self._stop()

    def prepare(self, game: Game, limits: Limits) -> None:
        """Start an engine if none runs, and send a game that isn't set up yet. Raises BotTimeout, BotFault."""
        deadline = running_clock() + self.startup
        with self._running() as engine:
            if self._game is not game or self._moves != game.moves[: len(self._moves)]:
                self._set_up(engine, game, limits, deadline)
                self._catch_up(engine, game, deadline)

    def choose(self, game: Game, limits: Limits) -> Decision:
        """The engine's move, legal or not. Raises BotTimeout or BotFault; ``prepare`` then starts a new engine."""
        self.prepare(game, limits)
        deadline, letter, move = running_clock() + limits.allowed, game.to_play.letter.lower(), None
        with self._running() as engine:
            self._set_limits(engine, limits, deadline)
            self._catch_up(engine, game, deadline)
            if limits.left is not None and limits.time is not None:
                scale = _whole_period(limits.time.period).denominator if limits.left.stones else 1
                left = f"{_whole(limits.left.seconds * scale)} {limits.left.stones * scale}"
                self._ask_if_known(engine, f"time_left {letter} {left}", deadline)
            answer = self._generate(engine, letter, game.rules.size, deadline)
            if answer.lower() == "resign":
                self._game = None  # the game may go on elsewhere, and is set up again then
            else:
                try:
                    move = move_from_gtp(answer, game.rules.size)
                except ValueError:
                    words = f"{engine.title}: its answer to 'genmove', {quoted(answer)}, is not a move"
                    raise BotFault(words) from None
                self._moves.append(move)
        candidates, ownership = self._report
        if not candidates:
            return Decision(move, ownership=ownership)
        played = next((one for one in candidates if one.move == move), candidates[0])
        return Decision(move, played.win_rate, sum(one.visits for one in candidates), ownership, played.score)

    def analyse(self, game: Game, limits: Limits) -> list[Candidate]:
        """The candidates that the engine reported with its last decision, which was in this game."""
        return list(self._report[0])

    def dead_stones(self, game: Game) -> list[Move]:
        """The dead stones of a finished game, by ``final_status_list``. Raises BotFault, also for points that aren't
        stones; the engine is then started again by the next call."""
        self.prepare(game, Limits())
        deadline = running_clock() + self.startup
        with self._running() as engine:
            self._catch_up(engine, game, deadline)
            answer, size = engine.ask("final_status_list dead", deadline), game.rules.size
            try:
                dead = [move_from_gtp(point, size) for point in answer.split()]
            except ValueError:
                dead = [pass_move(size)]
            if any(move == pass_move(size) or not game.board.stones.flat[move] for move in dead):
                raise BotFault(f"{engine.title}: its answer to 'final_status_list dead', {quoted(answer)}, is wrong")
        return dead

    def ask(self, command: str) -> None:
        """Send a command between games. Raises ErrorResponse, BotTimeout or BotFault, and then stops the engine."""
        with self._running() as engine:
            self._game = None
            engine.ask(command, running_clock() + self.startup)

    # --- Commands to the engine ---

    def _ask_if_known(self, engine: Engine, command: str, deadline: float) -> None:
        """Send a command if the engine lists it. A refusal is ignored: the referee judges moves and clocks."""
        if command.partition(" ")[0] in self._commands:
            with suppress(ErrorResponse):
                engine.ask(command, deadline)

    def _set_up(self, engine: Engine, game: Game, limits: Limits, deadline: float) -> None:
        """Send the rules, setup stones and limits of a game."""
        rules = game.rules
        engine.ask(f"boardsize {rules.size}", deadline)
        engine.ask("clear_board", deadline)
        self._ask_if_known(engine, f"kata-set-rules {katago_rules(rules)}", deadline)
        engine.ask(f"komi {rules.komi}", deadline)
        self._ask_if_known(engine, f"set_random_seed {game.seed & 0x7FFFFFFF}", deadline)
        black, white = ([gtp_from_move(move, rules.size) for move in points] for points in game.setup)
        setup = [*(f"play b {point}" for point in black), *(f"play w {point}" for point in white)]
        if len(black) > 1 and not white and "set_free_handicap" in self._commands:
            setup = [f"set_free_handicap {' '.join(black)}"]
        for command in setup:
            engine.ask(command, deadline)
        self._limits = None
        self._set_limits(engine, limits, deadline)
        self._game, self._moves = game, []

    def _set_limits(self, engine: Engine, limits: Limits, deadline: float) -> None:
        """Send limits that have changed: the clock (GTP 2, section 4.2), or seconds per move as Canadian byo-yomi from
        the first move, in whole numbers (0.5 s per stone become 1 s for two stones); visits to KataGo."""
        clock = limits.time or (None if limits.seconds is None else TimeSettings(0, limits.seconds, 1))
        if self._limits == (limits.simulations, clock):
            return
        self._limits = limits.simulations, clock
        if limits.simulations is not None:
            self._ask_if_known(engine, f"kata-set-param maxVisits {limits.simulations}", deadline)
        if clock is not None:
            period = _whole_period(clock.period)
            settings = f"{_whole(clock.main)} {period.numerator} {clock.stones * period.denominator}"
            self._ask_if_known(engine, f"time_settings {settings}", deadline)

    def _catch_up(self, engine: Engine, game: Game, deadline: float) -> None:
        """Send the moves that the engine doesn't have yet."""
        colour = game.to_play if len(game.moves) % 2 == len(self._moves) % 2 else game.to_play.opponent
        for move in game.moves[len(self._moves) :]:
            engine.ask(f"play {colour.letter.lower()} {gtp_from_move(move, game.rules.size)}", deadline)
            self._moves.append(move)
            colour = colour.opponent

    def _generate(self, engine: Engine, letter: str, size: int, deadline: float) -> str:
        """The engine's answer to ``genmove``; its report, if any, goes to ``_report``."""
        self._report = [], None
        if SEARCH not in self._commands:
            return engine.ask(f"genmove {letter}", deadline).partition("#")[0].strip()  # a comment follows
        lines = engine.ask(f"{SEARCH} {letter} {INTERVAL} ownership true", deadline).splitlines()
        if reports := [line for line in lines if line.startswith("info ")]:
            self._report = read_analysis(reports[-1], size)
        return next((line.removeprefix("play ").strip() for line in lines if line.startswith("play ")), "")


def _whole(seconds: float) -> int:
    """Seconds rounded down, but to at least 1 if there are any: 0 means no time or no clock."""
    return int(seconds) or ceil(seconds)


def _whole_period(seconds: float) -> Fraction:
    """A period as whole seconds (numerator) for a multiple of its stones (denominator)."""
    return max(Fraction(seconds).limit_denominator(100), Fraction(1, 100)) if seconds else Fraction(0)


def katago_rules(rules: Rules) -> str:
    """The rules for ``kata-set-rules``. ``friendlyPassOk`` false makes KataGo capture dead stones before it passes."""
    return json.dumps({**rules.katago(), "friendlyPassOk": False}, separators=(",", ":"))


def read_analysis(line: str, size: int) -> tuple[list[Candidate], np.ndarray | None]:
    """The candidates, the best first, and ownership (size²,) in [-1, 1] or None, both for the side to move, from a line
    of ``kata-analyze`` (KataGo, docs/GTP_Extensions.md). Unreadable parts are left out."""
    ownership, candidates = None, list[Candidate]()
    if (found := OWNERSHIP.search(line)) and len(words := found[1].split()) == size * size:
        ownership = np.clip(np.array(words, np.float32), -1, 1)
    for text in line.split("info move ")[1:]:
        about, _, play = f"move {text}".partition(" pv ")
        words = about.split()
        values = dict(zip(words[::2], words[1::2], strict=False))
        with suppress(KeyError, ValueError):
            moves, score = [move_from_gtp(values["move"], size)], float(values.get("scoreLead", "nan"))
            prior = float(values["prior"]) if "prior" in values else None
            visits, win_rate = int(values["visits"]), float(values["winrate"])
            with suppress(ValueError):  # other fields follow the line of play
                for word in play.split()[1:]:
                    moves.append(move_from_gtp(word, size))
            if 0 <= win_rate <= 1:
                known = score if isfinite(score) else None
                candidates.append(Candidate(moves[0], visits, win_rate, tuple(moves), prior, known))
    return candidates, ownership


# --- The kind ---


def code(config: Config) -> str:
    """A digest of the program and of the files on its command line, such as its net and configuration."""
    try:
        program, *arguments = shlex.split(f"{config.command} {config.analysis}")
    except ValueError:
        return ""
    found, folder = _find(program, config), expanduser(config.cwd) or os.curdir
    named = [Path(folder, part) for argument in arguments for part in {argument, argument.partition("=")[2]}]
    programs = [] if found is None else [Path(found)]
    return digest_of_files([*programs, *(path for path in named if os.path.isfile(path))])


def check(config: Config, size: int) -> str:
    """The engine's name and version, from a process that is ended afterwards. Raises ConfigError when the engine can't
    be started, or refuses this board size or komi 7."""
    with closing(GtpBot(config)) as bot:
        for command, words in ((f"boardsize {size}", f"on {size}x{size}"), ("komi 7", "with komi 7")):
            try:
                bot.ask(command)
            except BotFault as fault:
                advice = f"; it can't play {words}" if isinstance(fault, ErrorResponse) else ""
                raise ConfigError(f"{fault}{advice}") from None
        return bot.name


BOT = BotKind(
    "any engine over GTP, such as GNU Go or KataGo", Config, GtpBot, 1, check, external=True, teaches=True, code=code
)
