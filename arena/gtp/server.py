"""A bot served over GTP: commands in, answers out, for GoGui, Sabaki, CGOS and other runners of games.

It is Farnebäck's draft 2 (2002), with the extensions of KataGo that others rely on.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import chain
from threading import Event, Thread
from typing import TextIO

from arena import ArenaError, ConfigError, IllegalMove, UserError, __version__
from arena.contract.bot import Bot, Candidate, Limits, describe_error
from arena.contract.limits import Clock, TimeLeft, TimeSettings
from arena.go.coords import BLACK, WHITE, Colour, Move, gtp_from_move, move_from_gtp, pass_move
from arena.go.game import Game, GameCopy, Outcome, Rules, handicap_points
from arena.go.sgf import MAX_BYTES, begin_at_last_setup, read_sgf
from arena.gtp.analysis_commands import AnalysisRequest, PositionAnalysis, format_report
from arena.gtp.arguments import (
    WHOLE,
    CommandError,
    parse_colour,
    parse_move,
    parse_number,
    parse_rules,
    parse_whole,
    read_line,
)
from arena.gtp.position import Position

MOVE_DEADLINE_SECONDS = 86400.0  # the deadline of a move without a time limit: in practice none
SLICE_SECONDS = 0.1
"""Seconds of search between two looks at the input: an analysis ends at most this long after the next line."""

FIRST_SLICES = 50  # slices that the first report may take: after one, a slow net may not have visited any move


class Server:
    """A GTP engine: one bot and one board. ``check`` raises a UserError for a board size that the bot can't play. Each
    game uses the next seed after ``seed``. ``limits`` are the bot's own; the controller's clock replaces their time,
    and no game is forfeited. ``analyses`` and ``has_net`` describe the bot. ``judge`` returns the dead stones."""

    def __init__(
        self,
        bot: Bot,
        rules: Rules,
        name: str = "arena",
        seed: int = 0,
        check: Callable[[int], object] = lambda size: None,
        limits: Limits | None = None,
        analyses: bool = False,
        has_net: bool = False,
        judge: Callable[[Game], Sequence[Move]] = lambda game: (),
    ):
        self._bot, self._has_net, self._judge, self._check = bot, has_net, judge, check
        self._rules = rules
        self._position = Position(rules, seed)
        self._copied = self._position.game
        self._copy = GameCopy(self._copied)
        self._limits = limits or Limits()
        self._time = self._limits.time
        self._reset_clocks()
        self._commands: dict[str, Callable[[list[str]], str | Iterator[str] | None]] = {
            "protocol_version": lambda words: "2",
            "name": lambda words: name,
            "version": lambda words: __version__,
            "known_command": lambda words: "true" if words and words[0] in self._commands else "false",
            "list_commands": lambda words: "\n".join(sorted(self._commands)),
            "quit": lambda words: None,
            "boardsize": self._set_size,
            "clear_board": lambda words: self._start_game(),
            "komi": self._set_komi,
            "play": self._play,
            "genmove": lambda words: self._choose(parse_colour(words, 0))[0],
            "undo": self._undo,
            "fixed_handicap": self._place_handicap,
            "place_free_handicap": self._place_handicap,
            "set_free_handicap": self._set_free_handicap,
            "loadsgf": self._load,
            "time_settings": self._set_time,
            "time_left": self._time_left,
            "kata-set-rules": self._set_rules,
            "kata-get-rules": lambda words: json.dumps({**self._rules.katago(), "friendlyPassOk": False}),
            "set_random_seed": self._set_seed,
            "showboard": lambda words: f"\n{self._board()}",
            "final_score": lambda words: Outcome.scored(self._position.game.margin(self._dead())).sgf,
            "final_status_list": self._status_list,
            "stop": lambda words: None,
        }
        if analyses:
            self._commands |= {"kata-analyze": self._analyze, "kata-genmove_analyze": self._genmove_analyze}

    def answer(self, line: str) -> tuple[str, Iterator[str] | None]:
        """Execute a line of input. Returns the answer and, for an analysis, reports until the next line of input."""
        number, words = read_line(line)
        if number is None and not words:
            return "", None
        try:
            if not words or words[0] not in self._commands:
                raise CommandError("unknown command")
            result = self._commands[words[0]](words[1:])
        except CommandError as refusal:
            return f"?{number or ''} {refusal}\n\n", None
        if result is None or isinstance(result, str):
            return f"={number or ''} {result or ''}\n\n", None
        return f"={number or ''}\n", result

    # --- The game ---

    @property
    def _size(self) -> int:
        return self._position.rules.size

    def _start_game(self, black: Sequence[Move] = ()) -> None:
        self._position = Position(self._rules, self._position.seed + 1, (tuple(black), ()))
        self._reset_clocks()

    def _set_size(self, words: list[str]) -> None:
        size = parse_whole(words, 0)
        try:
            if any(word != words[0] for word in words[1:]):  # KataGo's "boardsize X Y"
                raise ConfigError("the board must be square")
            Rules.preset(size=size)
            self._check(size)
        except UserError:
            raise CommandError("unacceptable size") from None
        self._rules = replace(self._rules, size=size, move_limit=3 * size * size)
        self._start_game()

    def _set_komi(self, words: list[str]) -> None:
        self._rules = replace(self._rules, komi=parse_number(words, 0))
        self._position = self._position.again(replace(self._position.rules, komi=self._rules.komi))

    def _play(self, words: list[str]) -> None:
        colour, move = parse_colour(words, 0), parse_move(words, 1, self._size)
        try:
            self._position.play(colour, move)
        except IllegalMove:
            raise CommandError("illegal move") from None

    def _undo(self, words: list[str]) -> None:
        if not self._position.steps:
            raise CommandError("cannot undo")
        self._position = self._position.again(steps=self._position.steps[:-1])

    def _place_handicap(self, words: list[str]) -> str:
        self._require_empty()
        try:
            points = handicap_points(self._size, parse_whole(words, 0))
        except ConfigError:
            raise CommandError("invalid number of stones") from None
        self._start_game(points)
        return self._vertices(points)

    def _load(self, words: list[str]) -> None:
        """Load an SGF file; with a move number N after its name, the position before move N."""
        before = words[-1] if len(words) > 1 and WHOLE.fullmatch(words[-1]) else None
        try:
            with open(" ".join(words if before is None else words[:-1]), "rb") as file:
                record = read_sgf(begin_at_last_setup(file.read(MAX_BYTES + 1)))
            self._check(record.rules.size)
            position = Position(record.rules, self._position.seed + 1, record.setup, record.first)
            for number, move in enumerate(record.moves[: None if before is None else max(0, int(before) - 1)], 1):
                position.play(record.mover(number), move)
        except (OSError, ArenaError, ValueError):
            raise CommandError("cannot load file") from None
        self._rules, self._position = record.rules, position
        self._reset_clocks()

    def _set_free_handicap(self, words: list[str]) -> None:
        self._require_empty()
        try:
            points = [move_from_gtp(word, self._size) for word in words]
            if not 2 <= len(set(points)) == len(points) < self._size**2 or pass_move(self._size) in points:
                raise ValueError(points)
            self._start_game(points)
        except ValueError:
            raise CommandError("bad vertex list") from None

    def _require_empty(self) -> None:
        if self._position.game.board.stones.any():
            raise CommandError("board not empty")

    def _set_rules(self, words: list[str]) -> None:
        try:
            rules = parse_rules(" ".join(words), self._rules)
            self._position = self._position.again(rules)
        except IllegalMove:
            raise CommandError("a move of this game breaks these rules") from None
        self._rules = rules

    def _set_seed(self, words: list[str]) -> None:
        self._position = self._position.again(seed=parse_whole(words, 0))

    # --- Time ---

    def _set_time(self, words: list[str]) -> None:
        main, period, stones = (parse_number(words, index) for index in range(3))
        unlimited = stones < 1 and (period > 0 or main <= 0)
        self._time = None if unlimited else TimeSettings(main, period, int(stones) if period > 0 else 0)
        self._reset_clocks()

    def _reset_clocks(self) -> None:
        self._clocks = {} if self._time is None else {colour: Clock(self._time) for colour in Colour}

    def _time_left(self, words: list[str]) -> None:
        colour, left = parse_colour(words, 0), TimeLeft(parse_number(words, 1), parse_whole(words, 2))
        if colour in self._clocks:
            self._clocks[colour].left = left

    def _limits_for(self, colour: Colour) -> Limits:
        if colour not in self._clocks:
            return replace(self._limits, deadline=MOVE_DEADLINE_SECONDS, lag=None)
        stones = int((self._position.game.board.stones > 0).sum())
        return Limits(
            self._clocks[colour].share(self._size, stones), self._limits.simulations, deadline=MOVE_DEADLINE_SECONDS
        )

    # --- Board and score ---

    def _vertices(self, moves: Sequence[Move]) -> str:
        return " ".join(gtp_from_move(move, self._size) for move in moves)

    def _board(self) -> str:
        position = self._position
        return (
            f"{position.game.board}\n"
            f"Black (X) has captured {position.captured_stones(WHITE)} stones\n"
            f"White (O) has captured {position.captured_stones(BLACK)} stones\n"
            f"{position.game.to_play.name.title()} to play, move {len(position.steps) + 1}, "
            f"{position.rules.name} rules, komi {position.rules.komi:g}"
        )

    def _status_list(self, words: list[str]) -> str:
        dead, stones = self._dead(), self._position.game.board.stones.reshape(-1).nonzero()[0].tolist()
        alive = [move for move in stones if move not in dead]
        found = {"alive": alive, "dead": dead, "seki": ()}.get(" ".join(words))
        if found is None:
            raise CommandError("syntax error")
        return self._vertices(found)

    def _dead(self) -> Sequence[Move]:
        with _faults_refused():
            return self._judge(self._position.game)

    # --- The bot ---

    def _bots_game(self, colour: Colour) -> Game:
        """The bot's copy of the game with ``colour`` to move. The same object, updated, until another game begins."""
        game = self._position.turn(colour)
        if game is not self._copied:
            self._copied, self._copy = game, GameCopy(game)
        return self._copy.update()

    def _genmove_analyze(self, words: list[str]) -> str:
        request = AnalysisRequest.read(words, self._position.game.to_play)
        move, report = self._choose(request.colour, request)
        return "".join(f"\n{line}" for line in (report, f"play {move}") if line)

    def _choose(self, colour: Colour, request: AnalysisRequest | None = None) -> tuple[str, str]:
        """Have the bot choose a move and play it. Returns the move and, on ``request``, a report of its candidates."""
        start, report = time.monotonic(), ""
        with _faults_refused():
            decision = self._bot.choose(self._bots_game(colour), self._limits_for(colour))
            if request:
                analysis = PositionAnalysis(self._bot, self._bots_game(colour), self._has_net)
                report = format_report(analysis, self._bot.analyse(analysis.game, Limits(simulations=1)), request)
            if colour in self._clocks:
                self._clocks[colour].spend(time.monotonic() - start)
            if decision.move is None:
                return "resign", report
            self._position.play(colour, decision.move)
            return gtp_from_move(decision.move, self._size), report

    def _analyze(self, words: list[str]) -> Iterator[str]:
        """Endless reports, a line each; the first is computed before this returns. Empty reports only yield control."""
        request = AnalysisRequest.read(words, self._position.game.to_play)
        analysis = PositionAnalysis(self._bot, self._bots_game(request.colour), self._has_net)
        limits = Limits(min(SLICE_SECONDS, max(request.interval, 0.01)), deadline=MOVE_DEADLINE_SECONDS)

        def reports() -> Iterator[str]:
            found: list[Candidate] = []
            for _ in range(FIRST_SLICES):
                found = found or self._bot.analyse(analysis.game, limits)
            due = started = time.monotonic()
            while True:
                yield format_report(analysis, found, request) if started >= due else ""
                due = started + request.interval if started >= due else due
                found = self._bot.analyse(analysis.game, limits)
                time.sleep(max(0.0, started + SLICE_SECONDS / 2 - time.monotonic()))  # some bots return at once
                started = time.monotonic()

        whole = reports()
        with _faults_refused():
            first = next(whole)

        def rest() -> Iterator[str]:
            with suppress(CommandError), _faults_refused():  # too late to refuse: it is logged, and ends the reports
                yield from whole

        return chain([first], rest())


def serve(server: Server, lines: TextIO, output: TextIO) -> None:
    """Answer ``lines`` on ``output`` until there are no more, or until ``quit``."""

    def write(text: str) -> None:
        output.write(text)
        output.flush()

    line = lines.readline()
    while line:
        text, reports = server.answer(line)
        write(text)
        if read_line(line)[1][:1] == ["quit"]:
            return
        if reports is None:
            line = lines.readline()
            continue
        enough = Event()
        writer = Thread(target=_report, args=(reports, enough, write))
        writer.start()
        try:
            line = lines.readline()
        finally:
            enough.set()
            writer.join()
        write("\n")


def _report(reports: Iterator[str], enough: Event, write: Callable[[str], None]) -> None:
    """Write reports, a line each, until there are enough."""
    with suppress(OSError):  # the reader has left; writing the next answer raises
        for text in reports:
            if text:
                write(f"{text}\n")
            if enough.is_set():
                return


@contextmanager
def _faults_refused() -> Iterator[None]:
    """Turn whatever a bot raises into a refusal of one line; the traceback is logged."""
    try:
        yield
    except CommandError:
        raise
    except Exception as error:
        logging.getLogger(__name__).error("the bot failed", exc_info=error)
        fault = "the bot chose an illegal move" if isinstance(error, IllegalMove) else "the bot failed"
        raise CommandError(f"{fault}: {describe_error(error)}") from error
