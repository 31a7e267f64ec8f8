"""What is known of a running event at a moment: figures, pace, the games under way. Nothing is drawn here."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from time import monotonic
from typing import Generic, TypeVar

from arena.events.runner import Update
from arena.events.schedule import Event, Match
from arena.events.tally import Tally
from arena.events.worker import Glance
from arena.go.record import Played
from arena.ratings import Comparison, SprtState
from arena.results.league import Crosstable
from arena.screen.boards import Boards

Counted = TypeVar("Counted", Tally, Crosstable)


NORMAL = NormalDist()

FARTHEST = 8.0
"""Standard deviations above the mean beyond which a length is as unlikely as there."""

ENOUGH = 4
"""Games that tell how long the others take, however many they are."""

SOME_MOVES = 4
"""Moves on a board that tell how long one takes there; a look may come just before or just after one."""


class Lengths:
    """How many moves games take, from those that are over: as if normal, with a spread of a tenth at least."""

    def __init__(self, expected: float):
        """``expected`` is a guess, for as long as no game is over."""
        self._expected = expected
        self._games, self._sum, self._squares = 0, 0, 0

    def add(self, length: int) -> None:
        """Count a game."""
        self._games += 1
        self._sum += length
        self._squares += length * length

    @property
    def mean(self) -> float:
        return self._sum / self._games if self._games else self._expected

    def rest(self, moves: int, boards: int = 1) -> float:
        """How many moves the longest of so many games is likely to take when each of them has come so far: half the
        time it takes more. It is 1 at least."""
        mean = self.mean
        spread = 0.1 * mean
        if self._games > 1:
            spread = max(spread, math.sqrt(max(0.0, self._squares / self._games - mean * mean)))
        longer = math.erfc(min(FARTHEST, (moves - mean) / spread) / math.sqrt(2)) / 2  # the chance of a game so long
        return max(1.0, mean - spread * NORMAL.inv_cdf(longer / (boards + 1)) - moves)


class EventView(Generic[Counted]):
    """A running event as its updates tell it; ``tally`` counts the games.

    Times are seconds of ``clock``, but for those in which the event was paused.
    """

    def __init__(self, event: Event, tally: Counted, clock: Callable[[], float]):
        self.event = event
        self.clock = clock
        self.tally: Counted = tally
        self.boards = Boards()
        self.workers = 0
        self.stored = 0  # games
        self.resumed = 0
        self._moves = 0  # of these games, openings counted
        self.finished = False
        self.is_paused = False
        self.waiting = 0  # finished games that can't be stored yet
        self._pauses = 0.0  # seconds, of those that are over
        self._paused_at = 0.0
        self.began = self.now
        self._ended = 0.0
        self._playing_since: float | None = None
        self._resumed_moves = 0
        self._lengths = Lengths(0.9 * event.rules.size**2)
        self._first_looks: dict[str, tuple[float, int]] = {}  # of the games under way: when, and moves made then

    def add(self, update: Update) -> None:
        """Take in what has happened."""
        self.waiting = update.waiting
        if update.paused is not None:
            self.pause(update.paused)
        for record in update.records:
            self._count(record)
            self._lengths.add(record.length)
            self.stored += 1
            self._moves += record.length
        if update.resumed:
            self.resumed, self._resumed_moves = self.stored, self._moves
            return
        if (update.records or update.glances) and self._playing_since is None:
            self._playing_since = self.now
        self.workers = max(self.workers, update.workers)
        self.boards.add(update.records, update.glances, self.now)
        looks = {glance.pairing.id: (self.now, len(glance.moves)) for glance in self.boards.glances}
        self._first_looks = {id: self._first_looks.get(id, look) for id, look in looks.items()}

    def _count(self, record: Played) -> None:
        """Take a game into the tally."""
        self.tally.add(record)

    @property
    def may_end_early(self) -> bool:
        """Whether the number of games is only the most there can be."""
        return False

    @property
    def stage(self) -> str:
        """How far it has come, in words, where it has stages."""
        return ""

    @property
    def warning(self) -> str:
        """What should be known before the event is over, in a line."""
        return ""

    def finish(self) -> None:
        """No more updates come: the clock stands still."""
        self.pause(False)
        self.finished = True
        self._ended = self.now

    @property
    def now(self) -> float:
        """Seconds, pauses left out."""
        return (self._paused_at if self.is_paused else self.clock()) - self._pauses

    def pause(self, paused: bool) -> None:
        """Have time stand still, or go on."""
        if paused and not self.is_paused:
            self._paused_at = self.clock()
        elif self.is_paused and not paused:
            self._pauses += self.clock() - self._paused_at
        self.is_paused = paused

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
        """Games that were finished since the view began."""
        return self.stored - self.resumed

    @property
    def games_a_second(self) -> float | None:
        """None before the first game is over."""
        return self._rate(self.played)

    @property
    def moves_a_second(self) -> float | None:
        """Of finished games; None before the first."""
        return self._rate(self._moves - self._resumed_moves)

    def _rate(self, number: int) -> float | None:
        too_early = not self.played or (self._spent < 1 and not self.finished)
        return None if too_early else number / max(0.01, self._spent)

    @property
    def seconds_left(self) -> float | None:
        """An estimate from the games finished and how far those under way have come, where it can be told.

        Before the end some boards are free and help no more: it takes as long as the longest game at its own pace.
        """
        missing = self.event.games - self.resumed
        left = missing - self.played
        if left <= 0 or self.finished:
            return None
        far = [self._how_far(glance) for glance in self.boards.glances]
        under_way = min(left, self._at_once(missing)) if far else 0
        work = self.played + under_way * sum(far) / max(1, len(far))
        seconds = None if self.is_starting else seconds_for_rest(self._spent, work, missing)
        return None if seconds is None else max(seconds, self._moves_in_a_row(left) * self._seconds_a_move)

    def _how_far(self, glance: Glance) -> float:
        """How much of a game is played, as far as can be told, in [0, 1). Its opening takes no time."""
        moves = len(glance.moves)
        made = max(0, moves - len(glance.pairing.opening))
        return made / (made + self._lengths.rest(moves))

    def _moves_in_a_row(self, left: int) -> float:
        """The moves of the longest game under way, and where games are left that have no board yet, of one more after
        the game that is over first."""
        glances = self.boards.glances
        longest = max((self._lengths.rest(len(glance.moves), len(glances)) for glance in glances), default=0.0)
        if left <= len(glances):
            return longest
        free = min((self._lengths.rest(len(glance.moves)) for glance in glances), default=0.0)
        return max(longest, free + self._lengths.mean)

    @property
    def _seconds_a_move(self) -> float:
        """Of the boards under way on which some moves were seen made, each by itself; 0 while there are none."""
        made, spent = 0, 0.0
        for glance in self.boards.glances:
            since, before = self._first_looks[glance.pairing.id]
            moves = len(glance.moves) - before
            if moves >= SOME_MOVES:
                made += moves
                spent += self.now - since
        return spent / made if made else 0.0

    def _at_once(self, missing: int) -> int:
        """How many games are under way at once, at most."""
        workers = max(1, self.workers)
        boards = min(entry.bot_kind.boards for entry in self.event.players.values())
        return workers * min(boards, -(-missing // workers))


def seconds_for_rest(spent: float, work: float, whole: float) -> float | None:
    """Seconds for the rest of ``whole`` games, when ``work`` took what is ``spent``; None while that tells little."""
    return None if spent < 1 or work < min(ENOUGH, 0.02 * whole) else spent * (whole - work) / work


class MatchView(EventView[Tally]):
    """A running match, with what it says of the two players so far: of the games that count by now."""

    def __init__(self, match: Match, clock: Callable[[], float] = monotonic):
        self.judge = match.judge()
        super().__init__(match, self.judge.tally, clock)
        self.match = match
        self.comparison: Comparison | None = None

    def add(self, update: Update) -> None:
        """Take in what has happened."""
        before = self.tally.finished_pairs
        super().add(update)
        if self.tally.finished_pairs > before:
            self.comparison = self.tally.comparison()

    def _count(self, record: Played) -> None:
        self.judge.add(record)

    @property
    def test(self) -> SprtState | None:
        """Where the sequential test stands, once a pair is complete."""
        return self.judge.state

    @property
    def may_end_early(self) -> bool:
        """Whether there is a sequential test."""
        return self.match.test is not None

    @property
    def stage(self) -> str:
        """Games that don't count yet."""
        waiting = self.judge.waiting
        games = "1 game waits" if waiting == 1 else f"{waiting} games wait"
        return f"{games} for earlier ones" if waiting else ""

    @property
    def warning(self) -> str:
        """Whether games repeat earlier ones."""
        repeats = self.tally.repeats
        return f"games repeat: {self.tally.games - repeats} of {self.tally.games} differ" if repeats else ""
