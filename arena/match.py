"""Games between bots, many boards at once: whose turn it is, what a turn costs, and faults that become results.

No processes, no schedule and no storage: ``runner`` brings pairings and takes records.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from numbers import Integral, Real
from time import perf_counter

from arena import BotFault, BotTimeout, IllegalMove
from arena.bot import Bot, Decision, Limits
from arena.go.game import Ending, Game, Outcome, Rules
from arena.go.moves import BLACK, Colour
from arena.go.record import Record
from arena.schedule import Pairing


@dataclass(slots=True)
class Table:
    """A game under way between two named players."""

    pairing: Pairing
    game: Game
    seconds: dict[Colour, float] = field(default_factory=lambda: {colour: 0.0 for colour in Colour})
    win_rates: list[float | None] = field(default_factory=list)
    reason: str = ""
    dossier: str = ""

    @property
    def on_move(self) -> str:
        return self.pairing.black if self.game.to_play is BLACK else self.pairing.white


@dataclass(frozen=True, slots=True)
class Turn:
    """One call of a bot: who decides, for how many games. Only a bot with a ``choose_all`` of its own gets several."""

    player: str
    games: int


class Room:
    """Two or more bots and the tables they play at, by one set of rules and limits.

    ``on_turn`` hears of every call before it is made, and with None when no more follow at once: a watchdog can tell
    who hangs.
    """

    def __init__(
        self,
        players: Mapping[str, Bot],
        rules: Rules,
        limits: Limits,
        on_turn: Callable[[Turn | None], None] = lambda turn: None,
    ):
        self.tables: list[Table] = []
        self._players = players
        self._rules = rules
        self._limits = limits
        self._on_turn = on_turn

    def seat(self, pairing: Pairing) -> None:
        """Begin a game: its opening is on the board."""
        game = Game(self._rules, seed=pairing.seed)
        for move in pairing.opening:
            game.play(move)
        self.tables.append(Table(pairing, game, win_rates=[None] * len(pairing.opening)))

    def play_round(self) -> Iterator[Record]:
        """Let every player decide once at all the tables where it is on the move; yields the games that end."""
        for name, bot in self._players.items():
            tables = [table for table in self.tables if table.on_move == name]
            if tables:
                if _takes_many(bot):
                    self._on_turn(Turn(name, len(tables)))
                    self._take_turns(bot, tables)
                else:
                    turn = Turn(name, 1)
                    for table in tables:
                        self._on_turn(turn)
                        self._take_turn(bot, table)
                self._on_turn(None)
                for table in tables:
                    if table.game.is_over:
                        self.tables.remove(table)
                        yield _record(table)

    def _take_turn(self, bot: Bot, table: Table) -> None:
        start = perf_counter()
        try:
            decision = bot.choose(table.game, self._limits)
            _check(decision)
        except Exception as error:  # a bot's fault, whatever it is, is that bot's forfeit
            _forfeit(table, error)
        else:
            self._carry_out(table, decision, perf_counter() - start)

    def _take_turns(self, bot: Bot, tables: list[Table]) -> None:
        start = perf_counter()
        try:
            decisions = bot.choose_all([table.game for table in tables], self._limits)
            if len(decisions) != len(tables):
                raise TypeError(f"choose_all gave {len(decisions)} decisions for {len(tables)} games")
            for decision in decisions:
                _check(decision)
        except Exception as error:  # as in _take_turn
            if len(tables) == 1:
                _forfeit(tables[0], error)
            else:  # find out which game is to blame
                for table in tables:
                    self._take_turns(bot, [table])
            return
        seconds = (perf_counter() - start) / len(tables)
        for table, decision in zip(tables, decisions, strict=True):
            self._carry_out(table, decision, seconds)

    def _carry_out(self, table: Table, decision: Decision, seconds: float) -> None:
        """Play what a bot decided, or make its forfeit of it."""
        game = table.game
        colour = game.to_play
        table.seconds[colour] += seconds
        if seconds > self._limits.deadline:
            limit = self._limits.deadline
            _forfeit(table, BotTimeout(f"took {seconds:.1f} s for a move; the limit is {limit:g} s"))
            return
        try:
            if decision.move is None:
                game.resign(colour)
            else:
                game.play(decision.move)
                table.win_rates.append(decision.win_rate)
        except IllegalMove as error:
            table.reason = f"{table.on_move}: illegal move {len(game.moves) + 1}: {error}"
            game.end(Outcome(colour.opponent, Ending.ILLEGAL))


def _takes_many(bot: Bot) -> bool:
    """Whether the bot decides for several games in one call.

    Else it is called game by game: each is charged what it took, and no fault has another game thought about twice.
    """
    return type(bot).choose_all is not Bot.choose_all


def _check(decision: Decision) -> None:
    """Raise TypeError when a bot's answer is no decision."""
    if not isinstance(decision, Decision):
        raise TypeError(f"a {type(decision).__name__} is no Decision")
    if decision.move is not None and not isinstance(decision.move, Integral):
        raise TypeError(f"{decision.move!r} is no move")
    if decision.win_rate is not None and not isinstance(decision.win_rate, Real):
        raise TypeError(f"{decision.win_rate!r} is no win rate")


def _forfeit(table: Table, error: Exception) -> None:
    ending = Ending.TIME if isinstance(error, BotTimeout) else Ending.CRASH
    text = " ".join(str(error).split()) or type(error).__name__
    table.reason = (
        f"{table.on_move}: {text}"
        if isinstance(error, BotFault)
        else f"{table.on_move}: {type(error).__name__}: {text}"
    )
    table.dossier = "".join(traceback.format_exception(error))
    table.game.end(Outcome(table.game.to_play.opponent, ending))


def lost_record(pairing: Pairing, rules: Rules, player: str, ending: Ending, reason: str, dossier: str) -> Record:
    """The record of a game that took its process down with it, forfeited by ``player``; its moves are not known
    beyond the opening."""
    colour = BLACK if player == pairing.black else BLACK.opponent
    game = Game(rules, seed=pairing.seed)
    for move in pairing.opening:
        game.play(move)
    table = Table(pairing, game, reason=f"{player}: {reason}", dossier=dossier)
    game.end(Outcome(colour.opponent, ending))
    return _record(table)


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
        black_seconds=round(table.seconds[BLACK], 3),
        white_seconds=round(table.seconds[BLACK.opponent], 3),
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
    )
