"""Plays games between bots on many boards at once: turns, clocks, faults and adjudications."""

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf, isfinite
from numbers import Integral, Real
from time import perf_counter
from typing import Self

import numpy as np

from arena import BotKilled, BotTimeout, IllegalMove, plural
from arena.contract.adjudication import OFF, Adjudication
from arena.contract.bot import Bot, Decision, Limits, describe_error
from arena.contract.limits import Clock
from arena.go.coords import BLACK, WHITE, Colour, Move
from arena.go.game import Ending, Game, GameCopy, Outcome, Rules
from arena.go.record import UNKNOWN, GameRecord, MoveStats
from arena.match.schedule import Pairing

PlayedMoves = Sequence[tuple[Move, MoveStats]]
"""Moves after the opening. The last may be negative, a resignation."""

MoveReport = tuple[float | None, float | None, int | None]
"""The win rate, score and visits of a decision, where they are known."""

DEATHS = 3  # at one position, by a signal, until a bot forfeits; before, it is built again and asked again
ROUNDING = 1e-3  # how far beyond [0, 1] a win rate may be, and ownership beyond [-1, 1], before it counts as none
LATE = 1.2  # times its limit from which a move counts as late
LONG = 1.0  # seconds of a game from which the time of each move is kept though no bot reported anything


@dataclass(slots=True)
class LiveGame:
    """A game under way between two named players.

    ``clocks`` are of the sides that play on one; ``late`` counts moves that took ``LATE`` times their limit. ``facts``
    has one entry for each move; ``ownership`` is the last one reported: size² int8, in per cent, positive for Black.
    ``adjudged`` is the winner by adjudication, even if the game is played on. ``deaths`` and ``spent`` count how often
    a signal ended the bot at this position, and its seconds there. ``copies`` are the bots' own games, by name.
    """

    pairing: Pairing
    game: Game
    clocks: dict[Colour, Clock] = field(default_factory=dict)
    seconds: dict[Colour, float] = field(default_factory=lambda: {BLACK: 0.0, WHITE: 0.0})
    late: dict[Colour, int] = field(default_factory=lambda: {BLACK: 0, WHITE: 0})
    facts: list[MoveStats] = field(default_factory=list)
    ownership: bytes | None = None
    adjudged: Colour | None = None
    reason: str = ""
    fault_details: str = ""
    deaths: int = 0
    spent: float = 0.0
    copies: dict[str, GameCopy] = field(default_factory=dict)
    continued: int = 0
    restarted: int = 0

    @classmethod
    def begin(cls, pairing: Pairing, rules: Rules, played: PlayedMoves = ()) -> Self:
        """A game with its opening on the board, and what was ``played`` after that. Raises IllegalMove."""
        live = cls(pairing, Game(rules, pairing.seed, black=pairing.stones))
        for move, stats in (*((move, UNKNOWN) for move in pairing.opening), *played):
            live.seconds[live.game.to_play] += stats.seconds or 0.0
            if move < 0:
                live.game.resign(live.game.to_play)
            else:
                live.game.play(move)
                live.facts.append(stats)
        return live

    @property
    def win_rates(self) -> list[float | None]:
        """One for each move, of the side that made it, where it reported one."""
        return [stats.win_rate for stats in self.facts]

    def player(self, colour: Colour) -> str:
        return self.pairing.black if colour is BLACK else self.pairing.white

    def copy_for(self, player: str) -> Game:
        """The bot's own copy of the game, always the same object, reset to the game so that changes are lost."""
        copy = self.copies.get(player)
        if copy is None:
            copy = self.copies[player] = GameCopy(self.game)
        return copy.update()

    def forfeit(self, colour: Colour, ending: Ending, reason: str, fault_details: str = "") -> None:
        """End the game by a fault of this side."""
        self.reason, self.fault_details = f"{self.player(colour)}: {reason}", fault_details
        self.game.end(Outcome(colour.opponent, ending))

    def record(self) -> GameRecord:
        """The record of the game, which is over."""
        pairing = self.pairing
        return GameRecord.from_game(
            self.game,
            id=pairing.id,
            event=pairing.id.partition("/")[0],
            black=pairing.black,
            white=pairing.white,
            opening=len(pairing.opening),
            reason=self.reason,
            fault_details=self.fault_details,
            adjudged=self.adjudged,
            continued=self.continued,
            restarted=self.restarted,
            black_seconds=round(self.seconds[BLACK], 3),
            white_seconds=round(self.seconds[WHITE], 3),
            black_late=self.late[BLACK],
            white_late=self.late[WHITE],
            date=datetime.now(UTC).strftime("%Y-%m-%d"),
            facts=worth_keeping(self.facts),
        )


def worth_keeping(facts: Sequence[MoveStats]) -> tuple[MoveStats, ...]:
    """The facts of a game's moves; none where no bot reported anything and the game took no time."""
    is_long = sum(stats.seconds or 0.0 for stats in facts) >= LONG
    return tuple(stats.rounded for stats in facts) if is_long or any(stats.is_reported for stats in facts) else ()


class _Player:
    """A bot and how it is called."""

    def __init__(self, bot: Bot, limits: Limits):
        self.bot, self.limits = bot, limits
        self.allowed = limits.allowed_for(1)
        # others are called game by game: each is charged its own time, and no fault has another game searched twice
        self.takes_many = bot.overrides("choose_all") and limits.time is None
        self.boards = 1  # how many a call is given at most


class GameLoop:
    """Bots and the games that they play, by one set of rules; each bot has its own limits.

    A bot with a ``choose_all`` and without a clock gets several boards in a call: one at first, and twice as many after
    each call that took at most a quarter of its time. A call that fails or is late is repeated board by board, so that
    one game is to blame. A bot that a signal ends is asked again, up to ``DEATHS`` times, and its time is charged.

    ``on_call`` is called before each call of a bot, with the player, the games and the seconds allowed, so that a
    watchdog knows who hangs; ``on_move`` after each move and resignation. ``referee`` returns the dead stones of a game
    that two passes ended.
    """

    def __init__(
        self,
        players: Mapping[str, Bot],
        rules: Rules,
        limits: Mapping[str, Limits],
        adjudication: Adjudication = OFF,
        on_call: Callable[[str, Sequence[LiveGame], float], None] = lambda *_: None,
        on_move: Callable[[LiveGame], None] = lambda live: None,
        now: Callable[[], float] = perf_counter,
        referee: Callable[[Game], Sequence[Move]] | None = None,
    ):
        self.live_games: list[LiveGame] = []
        self._players = {name: _Player(bot, limits[name]) for name, bot in players.items()}
        self._rules, self._adjudication = rules, adjudication
        self._on_call, self._on_move, self._now, self._referee = on_call, on_move, now, referee

    def start_game(
        self, pairing: Pairing, played: PlayedMoves = (), seconds: float = 0.0, continued: int = 0, restarted: int = 0
    ) -> None:
        """Begin a game, or go on with one behind the moves that were ``played`` elsewhere. The side to move has thought
        for ``seconds`` already."""
        live = LiveGame.begin(pairing, self._rules)
        live.continued, live.restarted = continued, restarted
        for colour in Colour:
            if clock := self._players[live.player(colour)].limits.start_clock():
                live.clocks[colour] = clock
        self.live_games.append(live)
        for move, (rate, score, visits, taken) in played:
            self._carry_out(live, Decision(move if move >= 0 else None), (rate, score, visits), taken or 0.0)
        if seconds:
            self._charge(live, seconds)

    def play_round(self) -> Iterator[GameRecord]:
        """Let every player decide once in all the games where it is on the move; yields the games that end."""
        for name, player in self._players.items():
            live_games = [live for live in self.live_games if live.player(live.game.to_play) == name]
            done = 0
            while done < len(live_games):
                called = [live for live in live_games[done : done + player.boards] if live.game.outcome is None]
                done += player.boards
                if player.bot.overrides("prepare"):
                    called = [live for live in called if self._prepare(name, live)]
                if called:
                    self._take_turns(name, called)
            for live in live_games:
                if live.game.outcome is not None:
                    self.live_games.remove(live)
                    yield live.record()

    def _prepare(self, name: str, live: LiveGame) -> bool:
        """Have a bot make ready, outside its clock, and return whether it is. One that can't forfeits."""
        player = self._players[name]
        self._on_call(name, (live,), player.bot.startup)
        try:
            player.bot.prepare(live.copy_for(name), player.limits)
        except Exception as error:  # as in _take_turns
            self._fail(live, error, 0.0)
            return False
        return True

    def _take_turns(self, name: str, live_games: Sequence[LiveGame]) -> None:
        """Have a bot decide in these games in one call, one game where there is a clock."""
        player, live = self._players[name], live_games[0]
        limits, allowed = player.limits, player.allowed
        if clock := live.clocks.get(live.game.to_play):
            limits = limits.at(clock, self._rules.size, len(live.game.moves), live.spent)
            allowed = limits.allowed
        elif len(live_games) > 1:
            allowed = limits.allowed_for(len(live_games))
        self._on_call(name, live_games, allowed)
        decisions: Sequence[Decision] = ()
        fault: Exception | None = None
        start = self._now()
        try:
            if player.takes_many:
                decisions = player.bot.choose_all([live.copy_for(name) for live in live_games], limits)
                if len(decisions) != len(live_games):
                    raise TypeError(f"choose_all gave {len(decisions)} decisions for {len(live_games)} games")
            else:
                decisions = (player.bot.choose(live.copy_for(name), limits),)
            reports = [move_report(decision, self._rules.size) for decision in decisions]
        except Exception as error:  # a bot's fault, whatever it is, is that bot's forfeit
            fault = error
        seconds = self._now() - start
        if len(live_games) > 1 and (fault is not None or seconds > allowed):
            if fault is None:
                player.boards = 1
            for live in live_games:  # find out which game is to blame
                if not player.bot.overrides("prepare") or self._prepare(name, live):
                    self._take_turns(name, [live])
        elif fault is not None:
            self._fail(live, fault, seconds)
        else:
            least = len(live_games) * (limits.seconds or 0.0)
            if player.takes_many and seconds - least <= (allowed - least) / 4:
                player.boards = max(player.boards, 2 * len(live_games))
            for live, decision, report in zip(live_games, decisions, reports, strict=True):
                self._carry_out(live, decision, report, seconds / len(live_games))

    def _fail(self, live: LiveGame, fault: Exception, seconds: float) -> None:
        """End a game by a fault, unless the bot may be asked again; the call took this many seconds."""
        if self._charge(live, seconds, fault):
            live.deaths += 1
            if not isinstance(fault, BotKilled) or live.deaths >= DEATHS:
                _forfeit(live, fault)

    def _charge(self, live: LiveGame, seconds: float, fault: Exception | None = None) -> bool:
        """Charge a call; returns whether it was in time. A late one forfeits on time, even if it had a ``fault``."""
        colour = live.game.to_play
        live.seconds[colour] += seconds
        live.spent += seconds
        allowed, clock = self._players[live.player(colour)].allowed, live.clocks.get(colour)
        if clock and live.spent > clock.available + clock.allowance:
            late = BotTimeout(f"out of time: {live.spent:.2f} s for a move, with {clock.available:.2f} s left")
        elif live.spent > allowed:
            words = f"took {live.spent:.1f} s for a move; the limit is {allowed:g} s"
            late = fault if isinstance(fault, BotTimeout) else BotTimeout(words)
        else:
            return True
        if late is not fault:
            late.__cause__ = fault
        _forfeit(live, late)
        return False

    def _carry_out(self, live: LiveGame, decision: Decision, report: MoveReport, seconds: float) -> None:
        """Play what a bot decided, or make its forfeit of it."""
        if not self._charge(live, seconds):
            return
        game = live.game
        colour = game.to_play
        if clock := live.clocks.get(colour):
            clock.spend(live.spent)
        if decision.move is None:
            game.resign(colour)
            self._on_move(live)
            return
        try:
            game.play(decision.move)
        except IllegalMove as error:
            live.forfeit(colour, Ending.ILLEGAL, f"illegal move {len(game.moves) + 1}: {error}")
            return
        live.facts.append(MoveStats(*report, live.spent))
        live.late[colour] += live.spent > LATE * (self._players[live.player(colour)].limits.seconds or inf)
        live.deaths, live.spent = 0, 0.0
        if decision.ownership is not None:
            black = decision.ownership if colour is BLACK else -decision.ownership
            live.ownership = np.rint(100 * np.clip(black, -1, 1)).astype(np.int8).tobytes()
        if report[0] is not None and live.adjudged is None and game.outcome is None:
            self._adjudicate(live)
        if self._referee is not None and game.outcome is not None and game.outcome.ending is Ending.SCORE:
            dead = self._referee(game)
            game.outcome = Outcome.scored(game.margin(dead))
            live.reason = f"{plural(len(dead), 'stone')} dead by the referee" if dead else ""
        self._on_move(live)

    def _adjudicate(self, live: LiveGame) -> None:
        """End a game that a side has lost by what the bots think of it, but for those that are played on."""
        pairing, opening = live.pairing, len(live.pairing.opening)
        first = live.game.first.opponent if opening % 2 else live.game.first
        verdict = self._adjudication.verdict(live.win_rates[opening:], first)
        if verdict is None:
            return
        loser, reason = verdict
        live.adjudged = loser.opponent
        if not self._adjudication.plays_on(pairing.seed):
            live.reason = reason.format(live.player(loser))
            live.game.end(Outcome(live.adjudged, Ending.ADJUDICATED))


def _forfeit(live: LiveGame, error: Exception) -> None:
    """End a game by an error of the bot that is on the move."""
    ending = Ending.TIME if isinstance(error, BotTimeout) else Ending.CRASH
    live.forfeit(live.game.to_play, ending, describe_error(error), "".join(traceback.format_exception(error)))


def move_report(decision: Decision, size: int) -> MoveReport:
    """What a bot reported. Raises TypeError where its answer is not a Decision."""
    if not isinstance(decision, Decision):
        raise TypeError(f"a {type(decision).__name__} is not a Decision")
    move, rate, visits, score = decision.move, decision.win_rate, decision.visits, decision.score
    if type(move) is not int and move is not None and not isinstance(move, Integral):  # the first is quick
        raise TypeError(f"{move!r} is not a move")
    owners: object = decision.ownership
    if owners is not None and not (
        isinstance(owners, np.ndarray)
        and owners.dtype.kind in "fi"
        and owners.shape == (size * size,)
        and (np.abs(owners) <= 1 + ROUNDING).all()
    ):
        raise TypeError(f"ownership is not an array of {size * size} numbers from -1 to 1")
    if rate is None and visits is None and score is None:
        return None, None, None
    if rate is not None and not (isinstance(rate, Real) and -ROUNDING <= rate <= 1 + ROUNDING):
        raise TypeError(f"{rate!r} is not a win rate")
    for number in (visits, score):
        if number is not None and not isinstance(number, Real):
            raise TypeError(f"{number!r} is not a number of visits or a score")
    return (
        None if rate is None else float(rate),
        None if score is None or not isfinite(score) else float(score),
        None if visits is None or not isfinite(visits) else int(visits),
    )
