"""Games between bots, many boards at once: whose turn it is, what a turn costs, and faults that become results.

So do adjudications. No processes, no schedule and no storage: ``runner`` brings pairings and takes records.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import isfinite
from numbers import Integral, Real
from time import perf_counter
from typing import NamedTuple

import numpy as np

from arena import BotKilled, BotTimeout, IllegalMove
from arena.contract.adjudication import OFF, Adjudication
from arena.contract.bot import Bot, Decision, Limits, fault_words
from arena.contract.clock import Clock
from arena.events.schedule import Pairing
from arena.go.game import Ending, Game, GameCopy, Outcome, Rules
from arena.go.moves import BLACK, WHITE, Colour, Move
from arena.go.record import UNKNOWN, Fact, Record

DEATHS = 3
"""How often a bot may be ended by a signal at one position before it forfeits. Until then it is built again and asked
again there: nobody gains by dying."""

ROUNDING = 1e-3
"""How far beyond [0, 1] a win rate may be, and ownership beyond [-1, 1], before it counts as none."""


@dataclass(slots=True)
class Table:
    """A game under way between two named players.

    ``clocks`` are of the sides that play on one. ``facts`` has one for each move; ``ownership`` is the last that a bot
    told: size² int8, in per cent, positive for Black. ``adjudged`` is whom an adjudication gave the game to, played on
    or not. ``deaths`` counts how often a bot was ended by a signal at the present position, and ``spent`` are
    the seconds that it had thought there. ``copies`` are the bots' own, by their names.
    """

    pairing: Pairing
    game: Game
    clocks: dict[Colour, Clock] = field(default_factory=dict)
    seconds: dict[Colour, float] = field(default_factory=lambda: {colour: 0.0 for colour in Colour})
    facts: list[Fact] = field(default_factory=list)
    ownership: bytes | None = None
    adjudged: Colour | None = None
    reason: str = ""
    dossier: str = ""
    deaths: int = 0
    spent: float = 0.0
    copies: dict[str, GameCopy] = field(default_factory=dict)

    @property
    def win_rates(self) -> list[float | None]:
        """One for each move, of the side that made it, where it told."""
        return [fact.win_rate for fact in self.facts]

    @property
    def on_move(self) -> str:
        return self.player(self.game.to_play)

    def player(self, colour: Colour) -> str:
        return self.pairing.black if colour is BLACK else self.pairing.white

    def copy_for(self, player: str) -> Game:
        """The bot's own copy of the game, the same object from the first move to the last. It is reset to the
        state of the game first, so changes by the bot are lost."""
        copy = self.copies.get(player)
        if copy is None:
            copy = self.copies[player] = GameCopy(self.game)
        return copy.update()


class Turn(NamedTuple):
    """One call of a bot: who decides, at which tables, how many seconds it may take, and whether they are taken off
    the bot's time. Only a bot with a ``choose_all`` of its own gets several tables."""

    player: str
    tables: tuple[Table, ...]
    allowed: float
    is_charged: bool = True


class Room:
    """Two or more bots and the tables they play at, by one set of rules; each bot has its own limits.

    A bot with a ``choose_all`` of its own, and without a clock, is given several boards in a call: one at first, then
    twice as many for as long as a call takes a quarter of what it may at most. So all the moves of a slow bot don't
    take longer than one may. A call that does is made again for each board alone, where a slow game is late.

    A bot that is ended by a signal is asked again where it was, up to ``DEATHS`` times; what it had thought is charged.

    ``on_turn`` hears of every call before it is made, and with None when no more follow at once: a watchdog can tell
    who hangs. ``on_move`` hears of every move that was made.
    """

    def __init__(
        self,
        players: Mapping[str, Bot],
        rules: Rules,
        limits: Mapping[str, Limits],
        adjudication: Adjudication = OFF,
        on_turn: Callable[[Turn | None], None] = lambda turn: None,
        on_move: Callable[[Table], None] = lambda table: None,
        now: Callable[[], float] = perf_counter,
    ):
        self.tables: list[Table] = []
        self._players = players
        self._rules = rules
        self._limits = limits
        self._adjudication = adjudication
        self._on_turn = on_turn
        self._on_move = on_move
        self._now = now
        self._boards = dict.fromkeys(players, 1)  # how many a call is given at most
        # these are asked for every move
        self._takes_many = {name: _takes_many(bot) and limits[name].time is None for name, bot in players.items()}
        self._prepares = {name: type(bot).prepare is not Bot.prepare for name, bot in players.items()}
        self._allowed = {name: limits[name].allowed_for(1) for name in players}

    def seat(self, pairing: Pairing, played: Sequence[tuple[Move, Fact]] = (), seconds: float = 0.0) -> None:
        """Begin a game: its opening is on the board. One that was under way elsewhere goes on behind the moves
        ``played`` after the opening; the side to move has
        thought for ``seconds`` already."""
        table = Table(pairing, _opened(pairing, self._rules), facts=[UNKNOWN] * len(pairing.opening))
        for colour in Colour:
            clock = self._limits[table.player(colour)].start_clock()
            if clock is not None:
                table.clocks[colour] = clock
        self.tables.append(table)
        for move, fact in played:
            decision = Decision(move, fact.win_rate, fact.visits, score=fact.score)
            self._carry_out(table, decision, fact.seconds or 0.0)
        if seconds:
            self._spend(table, seconds)

    def play_round(self) -> Iterator[Record]:
        """Let every player decide once at all the tables where it is on the move; yields the games that end."""
        for name in self._players:
            tables = [table for table in self.tables if table.on_move == name]
            if tables:
                done, playing = 0, [table for table in tables if not table.game.is_over]
                while done < len(playing):
                    called = playing[done : done + (self._boards[name] if self._takes_many[name] else 1)]
                    done += len(called)
                    if self._prepares[name]:
                        called = [table for table in called if self._prepare(name, table)]
                    if called:
                        self._take_turns(name, called)
                self._on_turn(None)
                for table in tables:
                    if table.game.is_over:
                        self.tables.remove(table)
                        yield _record(table)

    def _prepare(self, name: str, table: Table) -> bool:
        """Have a bot make ready, outside its clock, and tell whether it is. One that can't forfeits."""
        bot = self._players[name]
        self._on_turn(Turn(name, (table,), bot.startup, is_charged=False))
        try:
            bot.prepare(table.copy_for(name), self._limits[name])
        except Exception as error:  # as in _take_turns
            if not _may_go_on(table, error):
                _forfeit(table, error)
            return False
        return True

    def _take_turns(self, name: str, tables: Sequence[Table]) -> None:
        """Have a bot decide at these tables in one call, one table where there is a clock."""
        limits, table = self._limits[name], tables[0]
        allowed = self._allowed[name]
        if clock := table.clocks.get(table.game.to_play):
            limits = limits.at(clock, self._rules.size, len(table.game.moves), table.spent)
            allowed = limits.allowed
        elif len(tables) > 1:
            allowed = limits.allowed_for(len(tables))
        self._on_turn(Turn(name, tuple(tables), allowed))
        decisions: Sequence[Decision] = ()
        fault: Exception | None = None
        start = self._now()
        try:
            if self._takes_many[name]:
                decisions = self._players[name].choose_all([table.copy_for(name) for table in tables], limits)
                if len(decisions) != len(tables):
                    raise TypeError(f"choose_all gave {len(decisions)} decisions for {len(tables)} games")
            else:
                decisions = (self._players[name].choose(table.copy_for(name), limits),)
            for decision in decisions:
                check_decision(decision, self._rules.size)
        except Exception as error:  # a bot's fault, whatever it is, is that bot's forfeit
            fault = error
        seconds = self._now() - start
        if len(tables) > 1 and (fault is not None or seconds > allowed):
            if fault is None:
                self._boards[name] = 1
            for table in tables:  # find out which game is to blame
                self._take_turns(name, [table])
        elif fault is not None:
            self._fail(table, fault, seconds)
        else:
            if self._takes_many[name]:
                least = len(tables) * (limits.seconds or 0.0)
                if seconds - least <= (allowed - least) / 4:
                    self._boards[name] = max(self._boards[name], 2 * len(tables))
            for table, decision in zip(tables, decisions, strict=True):
                self._carry_out(table, decision, seconds / len(tables))

    def _fail(self, table: Table, fault: Exception, seconds: float) -> None:
        """End a game by a fault, unless the bot may be asked again; the call took this many seconds."""
        self._spend(table, seconds, fault)
        if not table.game.is_over and not _may_go_on(table, fault):
            _forfeit(table, fault)

    def _spend(self, table: Table, seconds: float, fault: Exception | None = None) -> None:
        """Charge a call that gave no decision, which may end the game."""
        table.seconds[table.game.to_play] += seconds
        table.spent += seconds
        if (fault is None or isinstance(fault, BotTimeout | BotKilled)) and (late := self._late(table, table.spent)):
            late.__cause__ = fault
            _forfeit(table, late)

    def _carry_out(self, table: Table, decision: Decision, seconds: float) -> None:
        """Play what a bot decided, or make its forfeit of it."""
        game = table.game
        colour = game.to_play
        table.seconds[colour] += seconds
        seconds += table.spent
        if late := self._late(table, seconds):
            _forfeit(table, late)
            return
        if colour in table.clocks:
            table.clocks[colour].spend(seconds)
        try:
            if decision.move is None:
                game.resign(colour)
                return
            game.play(decision.move)
        except IllegalMove as error:
            table.reason = f"{table.on_move}: illegal move {len(game.moves) + 1}: {error}"
            game.end(Outcome(colour.opponent, Ending.ILLEGAL))
            return
        table.deaths, table.spent = 0, 0.0
        table.facts.append(_fact(decision, seconds))
        if decision.ownership is not None:
            black = decision.ownership if colour is BLACK else -decision.ownership
            table.ownership = np.rint(100 * np.clip(black, -1, 1)).astype(np.int8).tobytes()
        if decision.win_rate is not None and table.adjudged is None and not game.is_over:
            self._adjudicate(table)
        self._on_move(table)

    def _late(self, table: Table, seconds: float) -> BotTimeout | None:
        """The error for a move that took too many seconds; None if it was in time."""
        name = table.on_move
        allowed = self._allowed[name]
        clock = table.clocks.get(table.game.to_play)
        if clock and seconds > clock.available + clock.allowance:
            return BotTimeout(f"out of time: {clock.overrun(seconds)}")
        if seconds > allowed:
            return BotTimeout(f"took {seconds:.1f} s for a move; the limit is {allowed:g} s")
        return None

    def _adjudicate(self, table: Table) -> None:
        """End a game that a side has lost by what the bots think of it, but for those that are played on."""
        pairing, opening = table.pairing, len(table.pairing.opening)
        verdict = self._adjudication.verdict(table.win_rates[opening:], WHITE if opening % 2 else BLACK)
        if verdict is None:
            return
        table.adjudged = verdict.loser.opponent
        if not self._adjudication.plays_on(pairing.seed):
            table.reason = self._adjudication.reason(verdict, table.player(verdict.loser))
            table.game.end(Outcome(table.adjudged, Ending.ADJUDICATED))


def _takes_many(bot: Bot) -> bool:
    """Whether the bot decides for several games in one call.

    Else it is called game by game: each is charged what it took, and no fault has another game thought about twice.
    """
    return type(bot).choose_all is not Bot.choose_all


def check_decision(decision: Decision, size: int) -> None:
    """Raise TypeError when a bot's answer is not a Decision."""
    if not isinstance(decision, Decision):
        raise TypeError(f"a {type(decision).__name__} is not a Decision")
    move, rate = decision.move, decision.win_rate
    if type(move) is not int and move is not None and not isinstance(move, Integral):  # the first is quick
        raise TypeError(f"{move!r} is not a move")
    if rate is not None and not (isinstance(rate, Real) and -ROUNDING <= rate <= 1 + ROUNDING):
        raise TypeError(f"{rate!r} is not a win rate")
    if decision.visits is not None and not isinstance(decision.visits, Real):
        raise TypeError(f"{decision.visits!r} is not a number of visits")
    if decision.score is not None and not isinstance(decision.score, Real):
        raise TypeError(f"{decision.score!r} is not a score")
    if decision.ownership is not None:
        _check_ownership(decision.ownership, size)


def _fact(decision: Decision, seconds: float) -> Fact:
    rate, score, visits = decision.win_rate, decision.score, decision.visits
    return Fact(
        None if rate is None else float(rate),
        None if score is None or not isfinite(score) else float(score),
        None if visits is None or not isfinite(visits) else int(visits),
        seconds,
    )


def _check_ownership(ownership: object, size: int) -> None:
    if not isinstance(ownership, np.ndarray) or ownership.dtype.kind not in "fi":
        raise TypeError(f"a {type(ownership).__name__} is not ownership; it is an array of numbers")
    if ownership.shape != (size * size,):
        raise TypeError(f"an array of shape {ownership.shape} is not ownership; its shape is ({size * size},)")
    if not (np.abs(ownership) <= 1 + ROUNDING).all():
        raise TypeError("ownership goes from -1 to 1")


def _may_go_on(table: Table, fault: Exception) -> bool:
    """Whether a bot that was ended by a signal is asked again at this position."""
    if not isinstance(fault, BotKilled):
        return False
    table.deaths += 1
    return table.deaths < DEATHS


def _forfeit(table: Table, error: Exception) -> None:
    ending = Ending.TIME if isinstance(error, BotTimeout) else Ending.CRASH
    table.reason = f"{table.on_move}: {fault_words(error)}"
    table.dossier = "".join(traceback.format_exception(error))
    table.game.end(Outcome(table.game.to_play.opponent, ending))


def lost_record(
    pairing: Pairing,
    rules: Rules,
    player: str,
    ending: Ending,
    reason: str,
    dossier: str,
    played: Sequence[tuple[Move, Fact]] = (),
) -> Record:
    """The record of a game that took its process down with it, forfeited by ``player``. ``played`` are the moves after
    the opening."""
    game = _opened(pairing, rules)
    table = Table(pairing, game, facts=[UNKNOWN] * len(pairing.opening), reason=f"{player}: {reason}", dossier=dossier)
    for move, fact in played:
        table.seconds[game.to_play] += fact.seconds or 0.0
        game.play(move)
        table.facts.append(fact)
    game.end(Outcome(WHITE if player == pairing.black else BLACK, ending))
    return _record(table)


def _opened(pairing: Pairing, rules: Rules) -> Game:
    game = Game(rules, seed=pairing.seed)
    for move in pairing.opening:
        game.play(move)
    return game


LONG = 1.0
"""Seconds of a game from which the time of each move is kept though no bot reported anything."""


def worth_keeping(facts: Sequence[Fact]) -> tuple[Fact, ...]:
    """The facts of a game's moves; none where no bot reported anything and the game took no time."""
    is_long = sum(fact.seconds or 0.0 for fact in facts) >= LONG
    return tuple(fact.rounded for fact in facts) if is_long or any(fact.is_reported for fact in facts) else ()


def _record(table: Table) -> Record:
    pairing, game = table.pairing, table.game
    return Record.from_game(
        game,
        id=pairing.id,
        event=pairing.id.partition("/")[0],
        black=pairing.black,
        white=pairing.white,
        opening=len(pairing.opening),
        reason=table.reason,
        dossier=table.dossier,
        adjudged=table.adjudged,
        black_seconds=round(table.seconds[BLACK], 3),
        white_seconds=round(table.seconds[WHITE], 3),
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        facts=worth_keeping(table.facts),
    )
