"""The protocol: commands in, answers out, for GoGui, Sabaki, CGOS and other runners of games.

It is Farnebäck's draft 2 (2002), with the extensions of KGS, Leela Zero and KataGo that others rely on. No processes
and no command line are here.
"""

from __future__ import annotations

import json
import logging
import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import cycle
from os.path import expanduser
from pathlib import Path
from threading import Event, Thread
from typing import TextIO

from arena import ArenaError, ConfigError, IllegalMove, RecordError, UserError, __version__
from arena.contract.bot import Bot, Candidate, Decision, Limits, fault_words
from arena.contract.clock import Clock, TimeSettings
from arena.go.game import PRESETS, Game, Outcome, Rules, handicap_points
from arena.go.moves import BLACK, MAX_SIZE, MIN_SIZE, WHITE, Colour, Move, gtp_from_move, move_from_gtp, pass_move
from arena.go.record import MAX_BYTES, Stones, read_sgf


class Refused(ArenaError):
    """A command fails; the text is GTP's for it."""


class Position:
    """A game as GTP has it: either colour may move at any time, and play may go on after two passes.

    A Game alternates. When a colour moves out of turn, ``game`` gives way to a new one that begins with the stones as
    they lie; what was taken until then and points for handicap stones stand in its komi, so that its margin is right.
    Ko and superko look back to that moment only.
    """

    def __init__(self, rules: Rules, seed: int, setup: Stones = ((), ()), first: Colour | None = None):
        """Raises ValueError as a Game does."""
        self.rules = rules
        self.seed = seed
        self.setup = setup
        self.moves: list[tuple[Colour, Move]] = []
        self.game = Game(rules, seed, *setup, to_play=first)
        self._first = first
        self._aside: Game | None = None

    def turn(self, colour: Colour) -> Game:
        """The game with ``colour`` to move, for a bot to look at; the same object until a move is played."""
        game = self.game
        if game.to_play is not colour or len(game.moves) == game.rules.move_limit:
            if self._aside is None or self._aside.to_play is not colour:
                self._aside = _begun_anew(game, colour)
            game = self._aside
        game.outcome = None  # two passes end a game, but not play
        return game

    def play(self, colour: Colour, move: Move) -> None:
        """Raises IllegalMove, and then has changed nothing."""
        game = self.turn(colour)
        game.play(move)
        self.game, self._aside = game, None
        self.moves.append((colour, move))

    def again(
        self, rules: Rules | None = None, seed: int | None = None, moves: Sequence[tuple[Colour, Move]] | None = None
    ) -> Position:
        """The same position reached anew, with something changed. Raises IllegalMove when that forbids a move."""
        twin = Position(rules or self.rules, self.seed if seed is None else seed, self.setup, self._first)
        for colour, move in self.moves if moves is None else moves:
            twin.play(colour, move)
        return twin

    def taken(self, colour: Colour) -> int:
        """How many stones of this colour have been taken off."""
        passing = pass_move(self.rules.size)
        placed = sum(mover is colour and move != passing for mover, move in self.moves)
        return len(self.setup[colour - 1]) + placed - self.game.board.count(colour)


def _begun_anew(game: Game, colour: Colour) -> Game:
    """A game that begins where this one is, with ``colour`` to move and the same margin."""
    stones = game.board.stones.reshape(-1)
    black, white = ([int(move) for move in (stones == each).nonzero()[0]] for each in (BLACK, WHITE))
    rules = replace(game.rules, komi=0.0, handicap_points=False)
    margin = Game(rules, 0, black, white, colour).margin()
    rules = replace(rules, komi=margin - game.margin())
    return Game(rules, game.move_seed(), black, white, colour)


PATIENCE = 86400.0
"""Seconds after which a move would be given up where nobody set a time."""

SLICE = 0.1
"""Seconds that an analysis thinks at a stretch: it ends so much after the next line has come."""

FIRST_SLICES = 50
"""How many more slices the first report may take: a slow net has visited no move after one."""

_CONTROL_SIGNS = {**dict.fromkeys([*range(32), 127]), ord("\t"): " "}
_COLOURS = {"b": BLACK, "black": BLACK, "w": WHITE, "white": WHITE}
_NUMBER = re.compile(r"-?[0-9]{1,9}(\.[0-9]{0,9})?|-?\.[0-9]{1,9}")
_RULES = {
    **{name: name for name in PRESETS},
    **{"chinese-ogs": "chinese", "chinese-kgs": "chinese", "aga": "chinese", "bga": "chinese"},
    **{"new_zealand": "tromp-taylor", "new-zealand": "tromp-taylor", "korean": "japanese"},
}
"""Names of rules on KGS and in KataGo, and the preset that each comes closest to."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a line of input is answered with: ``text`` at once, then ``reports`` until the next line comes, where there
    are any. The last answer is that to ``quit``."""

    text: str
    reports: Iterator[str] | None = None
    is_last: bool = False


class Server:
    """One bot and one board that commands are carried out on, a line at a time. Whatever the line, the answer is GTP.

    ``check`` raises a UserError for a size of board that the bot can't play. Each new game takes the next seed after
    ``seed``, until ``set_random_seed`` sets another. ``limits`` are the bot's own; the controller's clock comes before
    theirs and before their seconds, and nothing forfeits here. A bot that ``analyses`` reports candidates, too.
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
    ):
        self._bot = bot
        self._name = name
        self._check = check
        self._rules = rules
        self._position = Position(rules, seed)
        self._limits = limits or Limits()
        self._time = self._limits.time
        self._reset_clocks()
        self._commands: dict[str, Callable[[list[str]], str | Iterator[str]]] = {
            "protocol_version": lambda words: "2",
            "name": lambda words: self._name,
            "version": lambda words: __version__,
            "known_command": lambda words: "true" if words and words[0] in self._commands else "false",
            "list_commands": lambda words: "\n".join(sorted(self._commands)),
            "quit": lambda words: "",
            "boardsize": self._set_size,
            "clear_board": self._clear,
            "komi": self._set_komi,
            "play": self._play,
            "genmove": self._genmove,
            "reg_genmove": self._reg_genmove,
            "kgs-genmove_cleanup": self._genmove,  # all stones count as alive, so a bot takes dead ones off anyway
            "undo": self._undo,
            "fixed_handicap": lambda words: self._place(self._handicap_points(_whole(words, 0))),
            "place_free_handicap": self._place_free_handicap,
            "set_free_handicap": self._set_free_handicap,
            "loadsgf": self._load,
            "time_settings": self._set_time,
            "time_left": self._time_left,
            "kgs-time_settings": self._set_kgs_time,
            "kgs-rules": self._set_rules,
            "kata-set-rules": self._set_rules,
            "set_random_seed": self._set_seed,
            "showboard": lambda words: f"\n{self._board()}",
            "is_legal": self._is_legal,
            "all_legal": self._all_legal,
            "final_score": lambda words: Outcome.scored(self._position.game.margin()).sgf,
            "final_status_list": self._status_list,
            "cputime": lambda words: f"{time.process_time():.3f}",
        }
        if analyses:
            self._commands["lz-analyze"] = lambda words: self._analyse(words, lambda share: f"{share * 10000:.0f}")
            self._commands["kata-analyze"] = lambda words: self._analyse(words, lambda share: f"{share:.6f}")

    def answer(self, line: str) -> Answer | None:
        """Carry out a line of input; None when there is nothing on it."""
        number, words = _read(line)
        if number is None and not words:
            return None
        command = words[0] if words else ""
        try:
            if command not in self._commands:
                raise Refused("unknown command")
            said = self._commands[command](words[1:])
        except Refused as refusal:
            return Answer(f"?{number or ''} {refusal}\n\n")
        if isinstance(said, str):
            return Answer(f"={number or ''} {said}\n\n", is_last=command == "quit")
        return Answer(f"={number or ''}\n", said)

    # The game.

    def _begin(self, setup: Stones = ((), ())) -> None:
        self._position = Position(self._rules, self._position.seed + 1, setup)
        self._reset_clocks()

    def _set_size(self, words: list[str]) -> str:
        self._rules = self._sized(_whole(words, 0))
        self._begin()
        return ""

    def _sized(self, size: int) -> Rules:
        """The rules in force on a board of this size. Raises Refused."""
        try:
            if not MIN_SIZE <= size <= MAX_SIZE:
                raise UserError(f"size {size}")
            self._check(size)
        except UserError:
            raise Refused("unacceptable size") from None
        return replace(self._rules, size=size, move_limit=3 * size * size)

    def _clear(self, words: list[str]) -> str:
        self._begin()
        return ""

    def _set_komi(self, words: list[str]) -> str:
        komi = _number(words, 0)
        self._rules = replace(self._rules, komi=komi)
        self._position = self._position.again(replace(self._position.rules, komi=komi))
        return ""

    def _play(self, words: list[str]) -> str:
        colour, move = _colour(words, 0), self._move(words, 1)
        try:
            self._position.play(colour, move)
        except IllegalMove:
            raise Refused("illegal move") from None
        return ""

    def _genmove(self, words: list[str]) -> str:
        colour = _colour(words, 0)
        start = time.monotonic()
        decision = self._choose(colour)
        if colour in self._clocks:
            self._clocks[colour].spend(time.monotonic() - start)
        if decision.move is None:
            return "resign"
        self._position.play(colour, decision.move)
        return gtp_from_move(decision.move, self._size)

    def _reg_genmove(self, words: list[str]) -> str:
        move = self._choose(_colour(words, 0)).move
        return "resign" if move is None else gtp_from_move(move, self._size)

    def _choose(self, colour: Colour) -> Decision:
        """The bot's decision: a legal one. Raises Refused with what the bot did instead."""
        game = self._position.turn(colour)
        limits = replace(self._limits, deadline=PATIENCE, lag=None)
        if colour in self._clocks:
            share = self._clocks[colour].share(self._size, int((game.board.stones > 0).sum()))
            limits = Limits(share, limits.simulations, deadline=PATIENCE)
        try:
            decision = self._bot.choose(game, limits)
            if decision.move is not None:
                game.copy().play(decision.move)
        except Exception as error:  # whatever a bot raises, the controller is told in GTP's way
            raise _failed(error) from error
        return decision

    def _undo(self, words: list[str]) -> str:
        if not self._position.moves:
            raise Refused("cannot undo")
        self._position = self._position.again(moves=self._position.moves[:-1])
        return ""

    def _place_free_handicap(self, words: list[str]) -> str:
        """The points of fixed handicap, as far as there are any: fewer stones than asked for are allowed."""
        wanted = _whole(words, 0)
        if not 2 <= wanted < self._size**2:
            raise Refused("invalid number of stones")
        for stones in range(min(wanted, 9), 2, -1):
            with suppress(Refused):
                return self._place(self._handicap_points(stones))
        return self._place(self._handicap_points(2))

    def _handicap_points(self, stones: int) -> list[Move]:
        self._require_empty()
        try:
            return handicap_points(self._size, stones)
        except ConfigError:
            raise Refused("invalid number of stones") from None

    def _set_free_handicap(self, words: list[str]) -> str:
        self._require_empty()
        try:
            points = [move_from_gtp(word, self._size) for word in words]
            if not 2 <= len(set(points)) == len(points) < self._size**2 or pass_move(self._size) in points:
                raise ValueError(points)
            self._place(points)
        except ValueError:
            raise Refused("bad vertex list") from None
        return ""

    def _place(self, points: Sequence[Move]) -> str:
        self._begin((tuple(points), ()))
        return " ".join(gtp_from_move(move, self._size) for move in points)

    def _require_empty(self) -> None:
        if self._position.game.board.stones.any():
            raise Refused("board not empty")

    def _load(self, words: list[str]) -> str:
        """The file's size, komi and moves, by the rules in force; by the file's own where those forbid a move."""
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
        rules = replace(self._sized(record.rules.size), komi=record.rules.komi)
        position = Position(rules, self._position.seed + 1, record.setup, record.first)
        colours = cycle((record.first, record.first.opponent))
        moves = list(zip(colours, record.moves[: None if number is None else max(number - 1, 0)], strict=False))
        try:
            position = position.again(moves=moves)
        except IllegalMove:
            position = position.again(record.rules, moves=moves)
        self._rules, self._position = rules, position
        self._reset_clocks()
        return ""

    # Rules, time and chance.

    def _set_rules(self, words: list[str]) -> str:
        try:
            rules = _read_rules(" ".join(words), self._rules)
            self._position = self._position.again(rules)
        except IllegalMove:
            raise Refused("a move of this game breaks these rules") from None
        self._rules = rules
        return ""

    def _set_seed(self, words: list[str]) -> str:
        self._position = self._position.again(seed=_whole(words, 0))
        return ""

    def _set_time(self, words: list[str]) -> str:
        main, period, stones = (_number(words, index) for index in range(3))
        unlimited = stones < 1 and (period > 0 or main <= 0)
        self._time = None if unlimited else TimeSettings(main, period, int(stones) if period > 0 else 0)
        self._reset_clocks()
        return ""

    def _set_kgs_time(self, words: list[str]) -> str:
        match words:
            case ["none", *_]:
                self._time = None
            case ["absolute", *rest]:
                self._time = TimeSettings(_number(rest, 0))
            case ["byoyomi", *rest]:
                self._time = TimeSettings(_number(rest, 0), _number(rest, 1), stones=1, japanese=True)
            case ["canadian", *rest]:
                self._time = TimeSettings(_number(rest, 0), _number(rest, 1), max(1, _whole(rest, 2)))
            case _:
                raise Refused("syntax error")
        self._reset_clocks()
        return ""

    def _reset_clocks(self) -> None:
        self._clocks = {} if self._time is None else {colour: Clock(self._time) for colour in Colour}

    def _time_left(self, words: list[str]) -> str:
        colour, seconds, stones = _colour(words, 0), _number(words, 1), _whole(words, 2)
        if colour in self._clocks:
            self._clocks[colour].set(seconds, stones)
        return ""

    # What there is to see.

    @property
    def _size(self) -> int:
        return self._position.rules.size

    def _board(self) -> str:
        position = self._position
        taken = {colour: position.taken(colour) for colour in Colour}
        return (
            f"{position.game.board}\n"
            f"Black (X) has captured {taken[WHITE]} stones\n"
            f"White (O) has captured {taken[BLACK]} stones\n"
            f"{position.game.to_play.name.title()} to play, move {len(position.moves) + 1}, "
            f"{position.rules.name} rules, komi {position.rules.komi:g}"
        )

    def _is_legal(self, words: list[str]) -> str:
        colour, move = _colour(words, 0), self._move(words, 1)
        return str(int(self._position.turn(colour).legal_moves()[move]))

    def _all_legal(self, words: list[str]) -> str:
        legal = self._position.turn(_colour(words, 0)).legal_moves()[:-1]
        return " ".join(gtp_from_move(int(move), self._size) for move in legal.nonzero()[0])

    def _status_list(self, words: list[str]) -> str:
        """Every stone that lies on the board is alive: so all our rules score it."""
        match words[:1]:
            case ["alive"]:
                stones = self._position.game.board.stones.reshape(-1).nonzero()[0]
                return " ".join(gtp_from_move(int(move), self._size) for move in stones)
            case ["dead" | "seki"]:
                return ""
            case _:
                raise Refused("syntax error")

    def _move(self, words: list[str], index: int) -> Move:
        try:
            return move_from_gtp(words[index], self._size)
        except (IndexError, ValueError):
            raise Refused("syntax error") from None

    # Analysis.

    def _analyse(self, words: list[str], share: Callable[[float], str]) -> Iterator[str]:
        """Reports without end, a line each, the first one ready. Empty ones say nothing: they only give way.

        ``words`` are as in ``[colour] [centiseconds] [key value]...``. The keys interval and maxmoves are heeded, avoid
        and allow are refused, others are passed over. ``share`` writes a share: for Leela Zero in hundredths of a
        percent, for KataGo from 0 to 1.
        """
        colour = self._position.game.to_play
        interval, most = 1.0, self._size**2 + 1
        if words and words[0].lower() in _COLOURS:
            colour = _colour(words, 0)
            words = words[1:]
        if words and _NUMBER.fullmatch(words[0]):
            words = ["interval", *words]
        for index in range(0, len(words), 2):
            match words[index].lower():
                case "interval":
                    interval = _number(words, index + 1) / 100
                case "maxmoves":
                    most = max(1, _whole(words, index + 1))
                case "avoid" | "allow":
                    raise Refused("avoid and allow are not supported")
        game = self._position.turn(colour)
        limits = Limits(min(SLICE, max(interval, 0.01)), deadline=PATIENCE)

        def think() -> str:
            try:
                candidates = self._bot.analyse(game, limits)[:most]
            except Exception as error:  # as in _choose
                raise _failed(error) from error
            return " ".join(_info(order, one, self._size, share) for order, one in enumerate(candidates))

        def report(text: str) -> Iterator[str]:
            yield text
            last = time.monotonic()
            with suppress(Refused):  # it has been logged
                while True:
                    text = think()
                    due = time.monotonic() >= last + interval
                    if due:
                        last = time.monotonic()
                    yield text if due else ""

        first = think()
        for _ in range(FIRST_SLICES):
            first = first or think()
        return report(first)


def serve(server: Server, lines: TextIO, output: TextIO) -> None:
    """Answer ``lines`` on ``output`` until there are no more, or until ``quit``."""
    line = lines.readline()
    while line:
        answer = server.answer(line)
        if answer is not None:
            output.write(answer.text)
            output.flush()
        if answer is None or answer.reports is None:
            line = "" if answer is not None and answer.is_last else lines.readline()
            continue
        with _reporting(answer.reports, output):
            line = lines.readline()
        output.write("\n")
        output.flush()


@contextmanager
def _reporting(reports: Iterator[str], output: TextIO) -> Iterator[None]:
    """Reports are written by a thread as long as this lasts, so that the next line can be waited for here."""
    enough = Event()

    def write() -> None:
        with suppress(OSError):  # nobody listens any more: the next answer will find out
            for text in reports:
                if text:
                    output.write(f"{text}\n")
                    output.flush()
                if enough.is_set():
                    return

    writer = Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        enough.set()
        writer.join()


def _failed(error: Exception) -> Refused:
    """One line on what a bot raised; the rest is logged."""
    logging.getLogger(__name__).error("the bot failed", exc_info=error)
    if isinstance(error, IllegalMove):
        return Refused(f"the bot chose an illegal move: {fault_words(error)}")
    return Refused(f"the bot failed: {fault_words(error)}")


# A line's parts, and lines of analysis.


def _read(line: str) -> tuple[str | None, list[str]]:
    """The number of a command, None without one, and its words (GTP 2, section 3.1)."""
    words = line.translate(_CONTROL_SIGNS).partition("#")[0].split(" ")
    words = [word for word in words if word]
    if words and re.fullmatch("[0-9]+", words[0]):
        return words[0], words[1:]
    return None, words


def _colour(words: Sequence[str], index: int) -> Colour:
    try:
        return _COLOURS[words[index].lower()]
    except LookupError:
        raise Refused("syntax error") from None


def _number(words: Sequence[str], index: int) -> float:
    if index >= len(words) or not _NUMBER.fullmatch(words[index]):
        raise Refused("syntax error")
    return float(words[index])


def _whole(words: Sequence[str], index: int) -> int:
    number = _number(words, index)
    if not number.is_integer():
        raise Refused("syntax error")
    return int(number)


def _read_rules(text: str, rules: Rules) -> Rules:
    """The preset that ``text`` names, or that has the settings of its JSON; with the size and komi of ``rules``."""
    name = _RULES.get(text.lower())
    if name is None:
        try:
            settings = json.loads(text)
        except (ValueError, RecursionError):
            raise Refused("unknown rules") from None
        name = next((name for name in PRESETS if isinstance(settings, dict) and _agree(settings, name)), None)
        if name is None:
            raise Refused("rules not supported")
    same = Rules.preset(name, rules.size, move_limit=rules.move_limit)
    return replace(same, komi=rules.komi)


def _agree(settings: dict[str, object], name: str) -> bool:
    """Whether KataGo's settings are those of the preset. What they don't say is as in our presets."""
    return all(settings.get(key, value) == value for key, value in Rules.preset(name).katago().items())


def _info(order: int, candidate: Candidate, size: int, share: Callable[[float], str]) -> str:
    """One candidate. ``lcb`` is the lower end of a 95 % interval, its visits taken as independent games."""
    rate, visits = candidate.win_rate, candidate.visits
    lower = max(0.0, rate - 1.96 * math.sqrt(rate * (1 - rate) / visits))
    prior = "" if candidate.prior is None else f" prior {share(candidate.prior)}"
    line = " ".join(gtp_from_move(move, size) for move in candidate.line)
    return (
        f"info move {gtp_from_move(candidate.move, size)} visits {visits} winrate {share(rate)}{prior} "
        f"lcb {share(lower)} order {order} pv {line}"
    )
