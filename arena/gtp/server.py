"""A bot served over GTP: commands in, answers out, for GoGui, Sabaki, CGOS and other runners of games.

It is Farnebäck's draft 2 (2002), with the extensions of Leela Zero and KataGo that others rely on.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain
from os.path import expanduser
from pathlib import Path
from threading import Event, Thread
from typing import TextIO

from arena import ConfigError, IllegalMove, RecordError, UserError, __version__
from arena.contract.bot import Bot, Candidate, Decision, Limits, fault_words
from arena.contract.limits import Clock, TimeSettings
from arena.go.coords import BLACK, MAX_SIZE, MIN_SIZE, WHITE, Colour, Move, gtp_from_move, move_from_gtp, pass_move
from arena.go.game import Game, GameCopy, Outcome, Rules, handicap_points
from arena.go.record import Stones
from arena.go.sgf import MAX_BYTES, read_sgf
from arena.gtp.analysis_commands import AnalysisRequest, PositionAnalysis, format_lz_report, format_report
from arena.gtp.arguments import Refused, colour_of, move_of, number_of, read_line, rules_of, whole_of
from arena.gtp.position import Position

PATIENCE = 86400.0
"""Seconds after which a move would be given up where nobody set a time."""

SLICE = 0.1
"""Seconds that an analysis thinks at a stretch: it ends so much after the next line has come."""

FIRST_SLICES = 50
"""How many more slices the first report may take: a slow net has visited no move after one."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a line of input is answered with: ``text`` at once, then ``reports``, where there are any: all of them, or
    those of an analysis until the next line comes. The last answer is that to ``quit``."""

    text: str
    reports: Iterator[str] | None = None
    is_endless: bool = False
    is_last: bool = False


class Server:
    """One bot and one board that commands are carried out on, a line at a time. Whatever the line, the answer is GTP.

    ``check`` raises a UserError for a size of board that the bot can't play. Each new game takes the next seed after
    ``seed``, until ``set_random_seed`` sets another. ``limits`` are the bot's own; the controller's clock comes before
    theirs and before their seconds, and nothing forfeits here. A bot that ``analyses`` reports candidates, one that
    ``has_net`` what its net says. ``judge`` tells which stones are dead, and which live in a seki, by a game's rules.
    """

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
        judge: Callable[[Game], tuple[Sequence[Move], Sequence[Move]]] = lambda game: ((), ()),
    ):
        self._bot = bot
        self._has_net = has_net
        self._judge = judge
        self._judged: dict[tuple[int, Rules], tuple[Sequence[Move], Sequence[Move]]] = {}
        self._name = name
        self._check = check
        self._rules = rules
        self._position = Position(rules, seed)
        self._copied = self._position.game
        self._copy = GameCopy(self._copied)
        self._limits = limits or Limits()
        self._time = self._limits.time
        self._reset_clocks()
        self._commands: dict[str, Callable[[list[str]], str | Iterator[str] | None]] = {
            "protocol_version": lambda words: "2",
            "name": lambda words: self._name,
            "version": lambda words: __version__,
            "known_command": lambda words: "true" if words and words[0] in self._commands else "false",
            "list_commands": lambda words: "\n".join(sorted(self._commands)),
            "quit": lambda words: None,
            "boardsize": self._set_size,
            "clear_board": lambda words: self._begin(),
            "komi": self._set_komi,
            "play": self._play,
            "genmove": self._genmove,
            "undo": self._undo,
            "fixed_handicap": self._place_fixed_handicap,
            "place_free_handicap": self._place_free_handicap,
            "set_free_handicap": self._set_free_handicap,
            "loadsgf": self._load,
            "time_settings": self._set_time,
            "time_left": self._time_left,
            "kata-set-rules": self._set_rules,
            "kata-get-rules": lambda words: json.dumps({**self._rules.katago(), "friendlyPassOk": False}),
            "set_random_seed": self._set_seed,
            "showboard": lambda words: f"\n{self._board()}",
            "all_legal": self._all_legal,
            "final_score": lambda words: Outcome.scored(self._position.game.margin(self._fates()[0])).sgf,
            "final_status_list": self._status_list,
            "cputime": lambda words: f"{time.process_time():.3f}",
            "stop": lambda words: None,
        }
        if analyses:
            self._commands |= {
                "lz-analyze": lambda words: self._analyze(words, format_lz_report),
                "kata-analyze": lambda words: self._analyze(words, format_report),
                "lz-genmove_analyze": lambda words: self._genmove_analyze(words, format_lz_report),
                "kata-genmove_analyze": lambda words: self._genmove_analyze(words, format_report),
            }

    def answer(self, line: str) -> Answer | None:
        """Carry out a line of input; None when there is nothing on it."""
        number, words = read_line(line)
        if number is None and not words:
            return None
        command = words[0] if words else ""
        try:
            if command not in self._commands:
                raise Refused("unknown command")
            said = self._commands[command](words[1:])
        except Refused as refusal:
            return Answer(f"?{number or ''} {refusal}\n\n")
        if said is None or isinstance(said, str):
            return Answer(f"={number or ''} {said or ''}\n\n", is_last=command == "quit")
        return Answer(f"={number or ''}\n", said, is_endless=command in _ENDLESS)

    # The game.

    def _begin(self, setup: Stones = ((), ())) -> None:
        self._position = Position(self._rules, self._position.seed + 1, setup)
        self._reset_clocks()

    def _set_size(self, words: list[str]) -> None:
        self._rules = self._sized(whole_of(words, 0))
        self._begin()

    def _sized(self, size: int) -> Rules:
        """The rules in force on a board of this size. Raises Refused."""
        try:
            if not MIN_SIZE <= size <= MAX_SIZE:
                raise UserError(f"size {size}")
            self._check(size)
        except UserError:
            raise Refused("unacceptable size") from None
        return replace(self._rules, size=size, move_limit=3 * size * size)

    def _set_komi(self, words: list[str]) -> None:
        komi = number_of(words, 0)
        self._rules = replace(self._rules, komi=komi)
        self._position = self._position.again(replace(self._position.rules, komi=komi))

    def _play(self, words: list[str]) -> None:
        colour, move = colour_of(words, 0), move_of(words, 1, self._size)
        try:
            self._position.play(colour, move)
        except IllegalMove:
            raise Refused("illegal move") from None

    def _genmove(self, words: list[str]) -> str:
        colour, start = colour_of(words, 0), time.monotonic()
        return self._play_decision(colour, self._choose(colour, self._limits_for(colour)), start)

    def _choose(self, colour: Colour, limits: Limits) -> Decision:
        with _faults_refused():
            return self._bot.choose(self._bots_game(colour), limits)

    def _bots_game(self, colour: Colour) -> Game:
        """A copy of the game with ``colour`` to move that the bot may change, the same until the game is another."""
        game = self._position.turn(colour)
        if game is not self._copied:
            self._copied, self._copy = game, GameCopy(game)
        return self._copy.update()

    def _play_decision(self, colour: Colour, decision: Decision, start: float) -> str:
        """Charge the clock for the time since ``start``, play the move, and return its name. Raises Refused with what
        the bot did instead."""
        if colour in self._clocks:
            self._clocks[colour].spend(time.monotonic() - start)
        with _faults_refused():
            if decision.move is None:
                return "resign"
            self._position.play(colour, decision.move)
            return gtp_from_move(decision.move, self._size)

    def _limits_for(self, colour: Colour) -> Limits:
        if colour not in self._clocks:
            return replace(self._limits, deadline=PATIENCE, lag=None)
        stones = int((self._position.game.board.stones > 0).sum())
        return Limits(self._clocks[colour].share(self._size, stones), self._limits.simulations, deadline=PATIENCE)

    def _undo(self, words: list[str]) -> None:
        if not self._position.steps:
            raise Refused("cannot undo")
        self._position = self._position.again(steps=self._position.steps[:-1])

    def _place_fixed_handicap(self, words: list[str]) -> str:
        wanted = whole_of(words, 0)
        self._require_empty()
        try:
            return self._place(handicap_points(self._size, wanted))
        except ConfigError:
            raise Refused("invalid number of stones") from None

    def _place_free_handicap(self, words: list[str]) -> str:
        """The points of fixed handicap, as far as there are any: fewer stones than asked for are allowed."""
        wanted = whole_of(words, 0)
        self._require_empty()
        for stones in range(min(wanted, 9) if wanted < self._size**2 else 0, 1, -1):
            with suppress(ConfigError):
                return self._place(handicap_points(self._size, stones))
        raise Refused("invalid number of stones")

    def _set_free_handicap(self, words: list[str]) -> None:
        self._require_empty()
        try:
            points = [move_from_gtp(word, self._size) for word in words]
            if not 2 <= len(set(points)) == len(points) < self._size**2 or pass_move(self._size) in points:
                raise ValueError(points)
            self._place(points)
        except ValueError:
            raise Refused("bad vertex list") from None

    def _place(self, points: Sequence[Move]) -> str:
        self._begin((tuple(points), ()))
        return " ".join(gtp_from_move(move, self._size) for move in points)

    def _require_empty(self) -> None:
        if self._position.game.board.stones.any():
            raise Refused("board not empty")

    def _load(self, words: list[str]) -> None:
        """The file's size, komi and moves, up to before the move of a number behind its name, by the rules in force or,
        where those forbid a move, by the file's own."""
        if not words:
            raise Refused("syntax error")
        number = int(words.pop()) if len(words) > 1 and re.fullmatch("[0-9]{1,9}", words[-1]) else None
        try:
            path = Path(expanduser(" ".join(words)))
            if not path.is_file():
                raise RecordError("no file")
            with path.open("rb") as file:
                record = read_sgf(file.read(MAX_BYTES + 1))
        except (OSError, ValueError, RuntimeError, RecordError):
            raise Refused("cannot load file") from None
        size, komi, limit = record.rules.size, record.rules.komi, record.rules.move_limit
        self._rules = replace(self._sized(size), komi=komi)
        moves = record.moves if number is None else record.moves[: max(0, number - 1)]
        for rules in (replace(self._rules, move_limit=limit), record.rules):
            position = Position(rules, self._position.seed + 1, record.setup, record.first)
            with suppress(IllegalMove):
                for ply, move in enumerate(moves, 1):
                    position.play(record.mover(ply), move)
                break
        self._position = position
        self._reset_clocks()

    # Rules, time and chance.

    def _set_rules(self, words: list[str]) -> None:
        try:
            rules = rules_of(" ".join(words), self._rules)
            self._position = self._position.again(rules)
        except IllegalMove:
            raise Refused("a move of this game breaks these rules") from None
        self._rules = rules

    def _set_seed(self, words: list[str]) -> None:
        self._position = self._position.again(seed=whole_of(words, 0))

    def _set_time(self, words: list[str]) -> None:
        main, period, stones = (number_of(words, index) for index in range(3))
        unlimited = stones < 1 and (period > 0 or main <= 0)
        self._time = None if unlimited else TimeSettings(main, period, int(stones) if period > 0 else 0)
        self._reset_clocks()

    def _reset_clocks(self) -> None:
        self._clocks = {} if self._time is None else {colour: Clock(self._time) for colour in Colour}

    def _time_left(self, words: list[str]) -> str:
        colour, seconds, stones = colour_of(words, 0), number_of(words, 1), whole_of(words, 2)
        if colour in self._clocks:
            self._clocks[colour].set(seconds, stones)
        return ""

    # What there is to see.

    @property
    def _size(self) -> int:
        return self._position.rules.size

    def _board(self) -> str:
        position = self._position
        return (
            f"{position.game.board}\n"
            f"Black (X) has captured {position.captured_stones(WHITE)} stones\n"
            f"White (O) has captured {position.captured_stones(BLACK)} stones\n"
            f"{position.game.to_play.name.title()} to play, move {len(position.steps) + 1}, "
            f"{position.rules.name} rules, komi {position.rules.komi:g}"
        )

    def _all_legal(self, words: list[str]) -> str:
        legal = self._position.turn(colour_of(words, 0)).legal_moves()[:-1]
        return " ".join(gtp_from_move(int(move), self._size) for move in legal.nonzero()[0])

    def _status_list(self, words: list[str]) -> str:
        dead, seki = self._fates()
        match words[:1]:
            case ["alive"]:
                stones = self._position.game.board.stones.reshape(-1).nonzero()[0].tolist()
                found: Sequence[Move] = [move for move in stones if move not in dead and move not in seki]
            case ["dead"]:
                found = dead
            case ["seki"]:
                found = seki
            case _:
                raise Refused("syntax error")
        return " ".join(gtp_from_move(move, self._size) for move in found)

    def _fates(self) -> tuple[Sequence[Move], Sequence[Move]]:
        """The dead stones and those in seki, judged once for each position."""
        game = self._position.game
        key = (game.board.hash, game.rules)
        if key not in self._judged:
            with _faults_refused():
                self._judged = {key: self._judge(game)}
        return self._judged[key]

    # Analysis.

    def _analyze(self, words: list[str], format: Format) -> Iterator[str]:
        """Reports without end, a line each, the first one ready. Empty ones only yield control."""
        asked, analysis = self._asked(words)
        limits = Limits(min(SLICE, max(asked.interval, 0.01)), deadline=PATIENCE, moves=asked.moves)

        def reports() -> Iterator[str]:
            found: list[Candidate] = []
            for _ in range(1 + FIRST_SLICES):
                found = found or self._bot.analyse(analysis.game, limits)
            yield format(analysis, found, asked)
            last = time.monotonic()
            while True:
                started = time.monotonic()
                found = self._bot.analyse(analysis.game, limits)
                is_due = time.monotonic() >= last + asked.interval
                if is_due:
                    last = time.monotonic()
                yield format(analysis, found, asked) if is_due else ""
                time.sleep(max(0.0, SLICE / 2 - (time.monotonic() - started)))  # some bots return at once

        return _begun(reports())

    def _genmove_analyze(self, words: list[str], format: Format) -> Iterator[str]:
        """Reports during the search if it has a time, then one of the final candidates, then the move."""
        start = time.monotonic()
        asked, analysis = self._asked(words)
        limits = replace(self._limits_for(asked.colour), moves=asked.moves)

        def left() -> float:
            return (limits.seconds or 0.0) - (time.monotonic() - start)

        def reports() -> Iterator[str]:
            while left() > asked.interval > 0:
                found = self._bot.analyse(analysis.game, Limits(asked.interval, moves=asked.moves))
                if found:
                    yield format(analysis, found, asked)
            rest = limits if limits.seconds is None else replace(limits, seconds=max(0.001, left()))
            if asked.moves is None:
                decision = self._choose(asked.colour, rest)
                found = self._bot.analyse(analysis.game, Limits(simulations=1))
            else:
                found = self._bot.analyse(analysis.game, rest)
                decision = Decision(found[0].move if found else min(asked.moves))
            last = format(analysis, found, asked)
            move = self._play_decision(asked.colour, decision, start)
            yield from (*filter(None, [last]), f"play {move}")

        return _begun(reports())

    def _asked(self, words: list[str]) -> tuple[AnalysisRequest, PositionAnalysis]:
        """What an analysis is to report, its moves the legal ones, and of what: a copy where only some moves are
        allowed, as that search must not be continued for the others."""
        asked = AnalysisRequest.read(words, self._position.game.to_play, self._size)
        game = self._bots_game(asked.colour)
        asked = replace(asked, moves=asked.legal_moves(game))
        return asked, PositionAnalysis(self._bot, game if asked.moves is None else game.copy(), self._has_net)


Format = Callable[[PositionAnalysis, Sequence[Candidate], AnalysisRequest], str]

_ENDLESS = frozenset({"lz-analyze", "kata-analyze"})


def _begun(reports: Iterator[str]) -> Iterator[str]:
    """The reports, the first one ready. A bot's fault is refused until then; later it is logged and ends them."""
    with _faults_refused():
        first = next(reports)

    def rest() -> Iterator[str]:
        with suppress(Refused), _faults_refused():
            yield from reports

    return chain([first], rest())


def serve(server: Server, lines: TextIO, output: TextIO) -> None:
    """Answer ``lines`` on ``output`` until there are no more, or until ``quit``."""

    def write(text: str) -> None:
        output.write(text)
        output.flush()

    line = lines.readline()
    while line:
        answer = server.answer(line)
        if answer is not None:
            write(answer.text)
            if answer.is_last:
                return
        if answer is not None and answer.is_endless and answer.reports:
            with _reporting(answer.reports, write):
                line = lines.readline()
            write("\n")
            continue
        if answer is not None and answer.reports:
            for text in answer.reports:
                write(f"{text}\n")
            write("\n")
        line = lines.readline()


@contextmanager
def _reporting(reports: Iterator[str], write: Callable[[str], None]) -> Iterator[None]:
    """Reports are written by a thread as long as this lasts, so that the next line can be waited for here."""
    enough = Event()

    def report() -> None:
        with suppress(OSError):  # nobody listens any more: the next answer will find out
            for text in reports:
                if text:
                    write(f"{text}\n")
                if enough.is_set():
                    return

    writer = Thread(target=report)
    writer.start()
    try:
        yield
    finally:
        enough.set()
        writer.join()


@contextmanager
def _faults_refused() -> Iterator[None]:
    """Turn whatever a bot raises into a refusal of one line; the traceback is logged."""
    try:
        yield
    except Refused:
        raise
    except Exception as error:
        logging.getLogger(__name__).error("the bot failed", exc_info=error)
        fault = "the bot chose an illegal move" if isinstance(error, IllegalMove) else "the bot failed"
        raise Refused(f"{fault}: {fault_words(error)}") from error
