"""The state of a running event, which its full screen shows, and the lines about it that a pipe gets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

from rich.console import Console
from rich.text import Text

from arena import plural
from arena.go.record import GameRecord, Played
from arena.match.ladder import Ladder, widest_gap
from arena.match.runner import Update
from arena.match.schedule import Event, Match, Tournament
from arena.match.standings import League, MatchTally, Standing, Standings
from arena.match.worker import Snapshot
from arena.ratings import Comparison, SprtState
from arena.report import style
from arena.results.standings import Moment

ENOUGH = 4
"""Games after which the time left is estimated."""

APART = 20
"""The next point of the curve comes when there are more games by this part of them."""

RECENT = 50
"""Finished games that are remembered."""

RATE_EVERY = 1.0
"""Seconds between two ratings of everybody, at least: they take some milliseconds."""

HOLD = 1.5
"""Seconds that a finished game stays on its board, if another one is free."""

LINE_EVERY = 5.0
"""Seconds between two plain lines, at least; a hundredth of the time played when that is more."""


@dataclass(frozen=True, slots=True)
class Seat:
    """A board and the game on it: the last look, its record once it is over, and when that was."""

    game: Snapshot
    record: GameRecord | None = None
    over_at: float = 0.0


class Boards:
    """The games under way, each on one board from its first move to its last; one board is watched."""

    def __init__(self) -> None:
        self.seats: list[Seat] = []
        self._watched = 0

    @property
    def watched(self) -> Seat | None:
        return self.seats[self._watched] if self.seats else None

    @property
    def place(self) -> tuple[int, int]:
        """Which board of how many is watched, from 1."""
        return self._watched + 1, len(self.seats)

    @property
    def under_way(self) -> list[Snapshot]:
        return [seat.game for seat in self.seats if seat.record is None]

    def watch(self, step: int) -> None:
        """Watch the next (1) or the previous (-1) board."""
        if self.seats:
            self._watched = (self._watched + step) % len(self.seats)

    def add(self, records: Sequence[Played], snapshots: Sequence[Snapshot], now: float) -> None:
        """Take in looks at games, and which of them are over."""
        for snapshot in snapshots:
            self._look(snapshot, now)
        over = {record.id: record for record in records if isinstance(record, GameRecord)}
        for at, seat in enumerate(self.seats):
            record = over.get(seat.game.pairing.id)
            if record is not None and seat.record is None:
                self.seats[at] = Seat(replace(seat.game, moves=record.moves, ownership=None), record, now)

    def _look(self, snapshot: Snapshot, now: float) -> None:
        places = {seat.game.pairing.id: at for at, seat in enumerate(self.seats)}
        at = places.get(snapshot.pairing.id)
        if at is None:
            free = [at for at, seat in enumerate(self.seats) if seat.record is not None]
            rested = [at for at in free if at != self._watched or now >= self.seats[at].over_at + HOLD]
            at = min(rested, key=lambda at: self.seats[at].over_at, default=len(self.seats))
        elif self.seats[at].record is not None:
            return
        self.seats[at : at + 1] = [Seat(snapshot)]


class EventState(ABC):
    """What is known of a running event by its updates: figures, pace, the games under way.

    Times are seconds of ``clock``, without those in which the event was paused.
    """

    may_end_early = False
    """Whether the number of games is only the most there can be."""

    stage = ""
    """How far it has come, in words, where it has stages."""

    def __init__(self, event: Event, clock: Callable[[], float] = monotonic):
        self.event = event
        self.clock = clock
        self.standings = event.standings()
        self.boards = Boards()
        self.recent: deque[GameRecord] = deque(maxlen=RECENT)  # the last first
        self.workers = 0
        self.nodes: Mapping[str, float] | None = None  # of a cluster, with games a second
        self.news = ""  # the last
        self.stored = self.resumed = 0  # games
        self.waiting = 0  # finished games that can't be stored yet
        self.is_paused = self.finished = False
        self._moves = 0  # of the games that this run has played
        self._paused_at = self._pauses = self._ended = 0.0
        self._playing_since: float | None = None
        self.began = self.now

    def add(self, update: Update) -> None:
        """Take in what has happened."""
        self.waiting = update.waiting
        if update.paused is not None:
            self.pause(update.paused)
        self.stored += len(update.records)
        self._count(update.records)
        if update.resumed:
            self.resumed = self.stored
            return
        if (update.records or update.snapshots) and self._playing_since is None:
            self._playing_since = self.now
        self._moves += sum(record.length for record in update.records)
        self.recent.extendleft(record for record in update.records if isinstance(record, GameRecord))
        self.workers, self.nodes = max(self.workers, update.workers), update.nodes
        self.news = (self.news, *update.news)[-1]
        self.boards.add(update.records, update.snapshots, self.now)

    def _count(self, games: Sequence[Played]) -> None:
        self.standings.add(games)

    def finish(self) -> None:
        """No more updates come: the clock stands still."""
        self.pause(False)
        self.finished, self._ended = True, self.now

    def pause(self, paused: bool) -> None:
        """Have time stand still, or go on."""
        if paused and not self.is_paused:
            self._paused_at = self.clock()
        elif self.is_paused and not paused:
            self._pauses += self.clock() - self._paused_at
        self.is_paused = paused

    @property
    def now(self) -> float:
        """Seconds, pauses left out."""
        return (self._paused_at if self.is_paused else self.clock()) - self._pauses

    @property
    def is_starting(self) -> bool:
        """Whether no game has been seen yet, though some are to be played."""
        return self._playing_since is None and self.stored < self.event.games

    @property
    def elapsed(self) -> float:
        return (self._ended if self.finished else self.now) - self.began

    @property
    def _spent(self) -> float:
        """Seconds since the first game was seen."""
        since = self.began if self._playing_since is None else self._playing_since
        return (self._ended if self.finished else self.now) - since

    @property
    def played(self) -> int:
        """Games that this run has finished."""
        return self.stored - self.resumed

    @property
    def games_a_second(self) -> float | None:
        """None before the first game is over."""
        return self.played / max(0.01, self._spent) if self.played and self._spent >= 1 else None

    @property
    def moves_a_second(self) -> float | None:
        """Of finished games; None before the first."""
        return self._moves / max(0.01, self._spent) if self.played and self._spent >= 1 else None

    @property
    def seconds_left(self) -> float | None:
        """An estimate from the games finished so far, once there are some."""
        left = self.event.games - self.stored
        if left <= 0 or self.finished or self.played < ENOUGH or not self.games_a_second:
            return None
        return left / self.games_a_second

    @property
    def pace(self) -> list[str]:
        """How fast it goes and how long it will take, for a line."""
        rate = [] if self.games_a_second is None else [style.rate(self.games_a_second, "games")]
        return rate + ([] if self.seconds_left is None else [f"about {style.duration(self.seconds_left)} left"])

    @property
    def warning(self) -> str:
        """What should be known before the event is over, in a line."""
        if self.waiting:
            return style.waiting(self.waiting)
        if self.nodes is not None and not self.nodes and self.workers:
            return "no node is left; the games wait for one to join"
        return self._doubts or self.news

    @property
    def _doubts(self) -> str:
        return ""

    @property
    @abstractmethod
    def head(self) -> str:
        """Who plays what, in a line."""

    @property
    @abstractmethod
    def progress(self) -> str:
        """Where it stands, in a line for a log."""


class MatchState(EventState):
    """A running match, with what it says of the two players so far: of the games that count by now."""

    def __init__(self, match: Match, clock: Callable[[], float] = monotonic):
        super().__init__(match, clock)
        self.match = match
        self.tally: MatchTally = self.standings.between(*match.players)
        self.may_end_early = match.test is not None
        self._all = Standings(self.standings.players, is_match=True)  # with a test: all games, in whatever order
        self._compared: tuple[int, Comparison | None] = -1, None  # of so many pairs
        self.course: list[Moment] = []  # the Elo difference as the match went on

    @property
    def comparison(self) -> Comparison | None:
        """The Elo from the pairs that count by now; None before the first."""
        pairs = self.tally.finished_pairs
        if self._compared[0] != pairs:
            self._compared = pairs, self.tally.comparison() if pairs else None
        return self._compared[1]

    @property
    def stage(self) -> str:  # type: ignore[override]
        """That pairs count in the order of the plan, where some wait."""
        if not self.standings.waiting:
            return ""
        counted = self.tally.games
        return f"Elo from the first {counted} of {self.shown.games}" if counted else "no Elo before the first pair ends"

    @property
    def _doubts(self) -> str:
        counted, repeats = self.tally.games, self.tally.repeats
        return f"games repeat: {counted - repeats} of {counted} differ" if repeats else ""

    def _count(self, games: Sequence[Played]) -> None:
        super()._count(games)
        if self.match.test is not None:
            self._all.add(games)
        known = self.course[-1].games if self.course else 0
        if self.tally.games >= known + max(2, known // APART) and self.comparison is not None:
            self.course.append(Moment(self.tally.games, {next(iter(self.match.players)): self.comparison.elo}))

    @property
    def shown(self) -> MatchTally:
        """All finished games, also those that wait for earlier ones; those that count once a test is decided."""
        if self.match.test is None or self.standings.is_decided:
            return self.tally
        return self._all.between(*self.match.players)

    @property
    def test(self) -> SprtState | None:
        """Where the sequential test stands, once a pair is complete."""
        test = self.standings.tests.get(self.match.event)
        return None if test is None else test.state

    @property
    def head(self) -> str:
        first, second = self.match.players
        return f"{first} against {second}: {plural(self.match.games, 'game')}, {setting_line(self.match)}"

    @property
    def progress(self) -> str:
        counts = self.shown.results()
        parts = [f"{self.stored} of {self.match.games}"]
        if counts.games:
            parts += [style.score(counts), style.per_cent(counts.share)]
        if self.comparison is not None:
            counted = f" from the first {plural(self.tally.games, 'game')}" if self.standings.waiting else ""
            parts.append(f"Elo {self.comparison.elo}{counted}")
        if self.test is not None:
            parts.append(f"LLR {self.test.llr:+.2f} ({self.test.lower:+.2f}, {self.test.upper:+.2f})")
        return ", ".join(parts + self.pace)


class TournamentState(EventState):
    """A running tournament or ladder, with everybody's rating so far."""

    def __init__(self, tournament: Tournament | Ladder, clock: Callable[[], float] = monotonic):
        super().__init__(tournament, clock)
        self.tournament = tournament
        self.may_end_early = isinstance(tournament, Ladder)
        self.gap: tuple[str, str, float] | None = None
        """Of a ladder, the two neighbours whose distance is known worst, and the half width of that in Elo."""
        self.course: list[Moment] = []  # everybody's Elo as the tournament went on
        self._league: League | None = None
        self._rated = 0, -RATE_EVERY  # games, and when
        self._warning = ""

    def _count(self, games: Sequence[Played]) -> None:
        super()._count(games)
        if isinstance(self.tournament, Ladder):  # which may end early
            self.standings.planned = self.standings.games

    @property
    def league(self) -> League | None:
        """Everybody's rating, of a moment ago at most; None without games."""
        games, at = self._rated
        if self.standings.games != games and (self.finished or self.clock() >= at + RATE_EVERY):
            self._rate_everybody()
        return self._league

    def _rate_everybody(self) -> None:
        games = self.standings.games
        self._league, self._rated = self.standings.league, (games, self.clock())
        if self._league is None:
            return
        names = self.standings.players
        if isinstance(self.tournament, Ladder):
            gap = widest_gap(self._league.ratings)
            self.gap = None if gap is None else (names[gap[0]], names[gap[1]], gap[2])
        known = self.course[-1].games if self.course else 0
        if games >= known + max(2, known // APART):
            self.course.append(
                Moment(games, {one.name: one.elo for one in self._league.standings if one.elo is not None})
            )
        self._warning = self._repeats()

    def _repeats(self) -> str:
        repeating = [tally for tally in self.standings.tallies if tally.repeats]
        pairs = (f"{tally.first} against {tally.second} ({tally.repeats})" for tally in repeating)
        return f"games repeat: {', '.join(pairs)}" if repeating else ""

    @property
    def _doubts(self) -> str:
        return self._warning

    @property
    def stage(self) -> str:  # type: ignore[override]
        """The round of a ladder."""
        if not isinstance(self.tournament, Ladder) or not (games := self.boards.under_way):
            return ""
        round_of = self.tournament.round_finder()
        return f"round {max(round_of(game.pairing.id) for game in games)}"

    @property
    def ranking(self) -> list[tuple[str, Standing | None]]:
        """All players, the strongest first; those without a rated game come last, in the order given."""
        rated = {} if self.league is None else {one.identity: one for one in self.league.standings}
        names = self.standings.players
        order = [*rated, *(identity for identity in names if identity not in rated)]
        return [(names[identity], rated.get(identity)) for identity in order]

    @property
    def meetings(self) -> list[tuple[str, str, int]]:
        """Who is playing whom now, and how many games these two have finished."""
        order = list(self.event.players)
        pairs = {
            tuple(sorted((game.pairing.black, game.pairing.white), key=order.index)) for game in self.boards.under_way
        }
        found = sorted(pairs, key=lambda pair: [order.index(name) for name in pair])
        return [(first, second, self.standings.between(first, second).games) for first, second in found]

    @property
    def head(self) -> str:
        event, most = self.tournament, " at most" if self.may_end_early else ""
        bots, games = plural(len(event.entries), "bot"), plural(event.games, "game")
        return f"{event.name}: {event.style} of {bots}, {games}{most}, {setting_line(event)}"

    @property
    def progress(self) -> str:
        parts = [f"{self.standings.games} of {self.event.games}"]
        for name, standing in self.ranking[:3]:
            if standing is not None:
                parts.append(f"{name} {standing.elo} ({style.per_cent(standing.score)})")
        return ", ".join(parts + self.pace)


def setting_line(event: Event) -> str:
    """What is played, in a few words."""
    rules = event.terms.rules
    return f"{rules.size}x{rules.size}, {rules.name} rules, komi {rules.komi:g}"


def state_of(event: Match | Tournament | Ladder, clock: Callable[[], float] = monotonic) -> Any:
    """A ``MatchState`` or a ``TournamentState``, before the first update."""
    return MatchState(event, clock) if isinstance(event, Match) else TournamentState(event, clock)


def print_lines(state: EventState, updates: Iterator[Update], console: Console) -> None:
    """Print who plays what, then a line once in a while, until the updates end. They are closed in any case."""

    games, resumed = state.event.games, 0

    def write(text: str) -> None:
        console.print(Text(style.spell(text)), soft_wrap=True)

    def write_resumed() -> None:
        nonlocal resumed
        if state.resumed > resumed:  # once all of them are counted
            write(f"{state.resumed} of {games} games were played earlier")
            resumed = state.resumed

    write(state.head)
    written, tenths = state.clock(), 0
    with closing(updates):  # type: ignore[type-var]
        for update in updates:
            if not update.resumed:
                write_resumed()
            if update.waiting and not state.waiting:
                write(style.waiting(update.waiting))
            state.add(update)
            for line in update.news:
                write(line)
            if update.records and not update.resumed and state.stored < games:
                waited = state.clock() - written
                if waited >= max(LINE_EVERY, state.elapsed / 100) or 10 * state.stored // games > tenths:
                    write(state.progress)
                    written = state.clock()
            tenths = 10 * state.stored // games
    write_resumed()
    state.finish()
