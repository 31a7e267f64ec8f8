"""What is known of a running event at a moment: figures, pace, the game to watch. Nothing is drawn here."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Generic, TypeVar

from arena.go.moves import Move
from arena.go.record import Record
from arena.ratings import Comparison, PairCounts, Sprt, SprtState, Verdict
from arena.report import Crosstable, League, Tally
from arena.runner import Update
from arena.schedule import Event, Match, Pairing, Tournament
from arena.worker import Glance

HOLD = 1.5
"""Seconds that a finished game stays on the board before another one is watched."""

RECENT = 30
"""Finished games that are remembered for the screen."""


@dataclass(frozen=True, slots=True)
class Watched:
    """The game on the board. ``record`` is there once it is over; ``until`` is when another may take its place.

    ``win_rates`` are those of the side that made each move, where it told.
    """

    pairing: Pairing
    moves: tuple[Move, ...]
    win_rates: tuple[float | None, ...]
    record: Record | None = None
    until: float = 0.0


Counted = TypeVar("Counted", Tally, Crosstable)


class EventView(Generic[Counted]):
    """A running event as its updates tell it. Times are seconds of ``clock``; ``tally`` counts the games."""

    def __init__(self, event: Event, tally: Counted, clock: Callable[[], float]):
        self.event = event
        self.clock = clock
        self.tally: Counted = tally
        self.watched: Watched | None = None
        self.workers = 0
        self.resumed = 0
        self.finished = False
        self.began = clock()
        self._ended = 0.0
        self._playing_since: float | None = None
        self._resumed_moves = 0
        self._glances: dict[str, Glance] = {}  # the last look at each game under way

    def add(self, update: Update) -> None:
        """Take in what has happened."""
        for record in update.records:
            self.tally.add(record)
            self._glances.pop(record.id, None)
        if update.resumed:
            self.resumed, self._resumed_moves = self.tally.games, self.tally.moves
            return
        if (update.records or update.glances) and self._playing_since is None:
            self._playing_since = self.clock()
        self.workers = max(self.workers, update.workers)
        records = {record.id: record for record in update.records}
        for glance in update.glances:
            if glance.pairing.id not in records:
                self._glances[glance.pairing.id] = glance
        self._watch(update, records)

    @property
    def is_decided(self) -> bool:
        """Whether no more games are needed, though some are left."""
        return False

    def finish(self) -> None:
        """No more updates come: the clock stands still."""
        self.finished = True
        self._ended = self.clock()

    def _watch(self, update: Update, records: dict[str, Record]) -> None:
        """Stay with one game to its end, and a moment longer; then take the one that was looked at last."""
        watched, now = self.watched, self.clock()
        if watched is not None and watched.record is None:
            record = records.get(watched.pairing.id)
            glance = self._glances.get(watched.pairing.id)
            if record is not None:
                self.watched = Watched(watched.pairing, record.moves, watched.win_rates, record, now + HOLD)
            elif glance is not None:
                self.watched = Watched(glance.pairing, glance.moves, glance.win_rates)
        elif update.glances and (watched is None or now >= watched.until):
            glance = update.glances[-1]
            record = records.get(glance.pairing.id)
            moves = glance.moves if record is None else record.moves
            self.watched = Watched(glance.pairing, moves, glance.win_rates, record, now + HOLD)

    @property
    def is_starting(self) -> bool:
        """Whether no game has been seen yet, though some are to be played."""
        return self._playing_since is None and self.tally.games < self.event.games

    @property
    def elapsed(self) -> float:
        return (self._ended if self.finished else self.clock()) - self.began

    @property
    def _spent(self) -> float:
        """Seconds since the first game was seen."""
        since = self.began if self._playing_since is None else self._playing_since
        return (self._ended if self.finished else self.clock()) - since

    @property
    def played(self) -> int:
        """Games that were finished since the view began."""
        return self.tally.games - self.resumed

    @property
    def games_a_second(self) -> float | None:
        """None before the first game is over."""
        return self._rate(self.played)

    @property
    def moves_a_second(self) -> float | None:
        """Of finished games; None before the first."""
        return self._rate(self.tally.moves - self._resumed_moves)

    def _rate(self, number: int) -> float | None:
        too_early = not self.played or (self._spent < 1 and not self.finished)
        return None if too_early else number / max(0.01, self._spent)

    @property
    def seconds_left(self) -> float | None:
        """An estimate from the games finished and how far those under way have come, where it can be told."""
        missing = self.event.games - self.resumed
        left = missing - self.played
        if left <= 0 or self.finished:
            return None
        length = self.tally.mean_length or 0.9 * self.event.rules.size**2
        far = [min(0.95, len(glance.moves) / length) for glance in self._glances.values()]
        under_way = min(left, self._boards(missing)) if far else 0
        work = self.played + under_way * sum(far) / max(1, len(far))
        if self.is_starting or self._spent < 1 or work < 0.02 * missing:
            return None
        return self._spent * (missing - work) / work

    def _boards(self, missing: int) -> int:
        """How many games are under way at once, at most."""
        workers = max(1, self.workers)
        boards = min(entry.bot_kind.boards for entry in self.event.players.values())
        return workers * min(boards, -(-missing // workers))


class MatchView(EventView[Tally]):
    """A running match, with what it says of the two players so far."""

    def __init__(self, match: Match, clock: Callable[[], float] = monotonic, sprt: Sprt | None = None):
        super().__init__(match, Tally(*match.players), clock)
        self.match = match
        self.sprt = sprt
        self.test: SprtState | None = None  # where ``sprt`` stands, once a pair is complete
        self.comparison: Comparison | None = None

    def add(self, update: Update) -> None:
        """Take in what has happened."""
        super().add(update)
        if update.records:
            self.comparison = self.tally.comparison()
            if self.sprt is not None and isinstance(self.tally.counts, PairCounts):
                self.test = self.sprt.state(self.tally.counts)

    @property
    def is_decided(self) -> bool:
        """Whether the sequential test, if there is one, has accepted a hypothesis."""
        return self.test is not None and self.test.verdict in (Verdict.H0, Verdict.H1)


class TournamentView(EventView[Crosstable]):
    """A running tournament, with everybody's rating so far and the games that ended last."""

    def __init__(self, tournament: Tournament, clock: Callable[[], float] = monotonic):
        players = {entry.identity: name for name, entry in tournament.players.items()}
        super().__init__(tournament, Crosstable(players), clock)
        self.tournament = tournament
        self.recent: deque[Record] = deque(maxlen=RECENT)  # the newest first
        self.league: League | None = None

    def add(self, update: Update) -> None:
        """Take in what has happened."""
        super().add(update)
        if update.records:
            self.recent.extendleft(update.records)
            self.league = self.tally.league()
