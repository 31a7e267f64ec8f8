"""What is known of a running tournament or ladder: everybody's rating so far, who is playing whom. Nothing is drawn."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from arena.events.ladder import widest_gap
from arena.events.runner import Update
from arena.events.schedule import Ladder, Tournament
from arena.go.record import Played
from arena.results.league import Crosstable, League
from arena.screen.running import EventView, seconds_for_rest

RECENT = 30
"""Finished games that are remembered for the screen."""

RATE_EVERY = 1.0
"""Seconds between two ratings of everybody, at least: they take some milliseconds."""

ALARM = 0.001
"""A result less likely than this at the ratings is pointed out."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """What two players have played of what they are to play; ``seconds_left`` where it can be told."""

    first: str
    second: str
    played: int
    games: int
    seconds_left: float | None


class TournamentView(EventView[Crosstable]):
    """A running tournament or ladder, with everybody's rating so far and the games that ended last."""

    def __init__(self, tournament: Tournament | Ladder, clock: Callable[[], float] = monotonic):
        players = {entry.identity: name for name, entry in tournament.players.items()}
        super().__init__(tournament, Crosstable(players), clock)
        self.tournament = tournament
        self.recent: deque[Played] = deque(maxlen=RECENT)  # the newest first
        self.league: League | None = None
        self.gap: tuple[str, str, float] | None = None  # of a ladder: that of ``widest_gap``, with names
        self.round: int | None = None  # of a ladder: the last that was begun
        self._warning = ""
        self._is_stale = False
        self._rated_at: float | None = None
        self._met: Counter[str] = Counter()  # games of each meeting
        self._met_before: Counter[str] = Counter()  # those that an earlier run played
        self._met_since: dict[str, float] = {}  # when the first of the others was seen

    def add(self, update: Update) -> None:
        """Take in what has happened. Everybody is rated once in a while."""
        super().add(update)
        if update.records:
            self.recent.extendleft(update.records)
            self._is_stale = True
        self._note_meetings(update)
        if self._is_stale and (self._rated_at is None or self.clock() >= self._rated_at + RATE_EVERY):
            self._rate_everybody()

    def finish(self) -> None:
        """No more updates come: the clock stands still."""
        super().finish()
        if self._is_stale:
            self._rate_everybody()

    def _rate_everybody(self) -> None:
        self.league, self._is_stale, self._rated_at = self.tally.league(), False, self.clock()
        if self.league is None:
            return
        names = self.tally.players
        if isinstance(self.tournament, Ladder):
            gap = widest_gap(self.league.ratings)
            self.gap = None if gap is None else (names[gap[0]], names[gap[1]], gap[2])
        self._warning = "; ".join(filter(None, (self._alarm(self.league), self._repeats())))

    def _alarm(self, league: League) -> str:
        """The result that the ratings explain worst, and how many more they don't explain."""
        surprises = self.tally.surprises(league, ALARM)
        if not surprises:
            return ""
        worst = surprises[0]
        score, expected = f"{worst.points:g}-{worst.games - worst.points:g}", worst.games - worst.expected
        more = f", and {len(surprises) - 1} more such results" if len(surprises) > 1 else ""
        return f"{worst.first} against {worst.second} {score}, expected {worst.expected:.1f}-{expected:.1f}{more}"

    def _repeats(self) -> str:
        repeating = [tally for tally in self.tally.tallies if tally.repeats]
        pairs = (f"{tally.first} against {tally.second} ({tally.repeats})" for tally in repeating)
        return f"games repeat: {', '.join(pairs)}" if repeating else ""

    @property
    def may_end_early(self) -> bool:
        """Whether it is a ladder that ends when the distances are known well enough."""
        return isinstance(self.tournament, Ladder) and self.tournament.to_see > 0

    @property
    def stage(self) -> str:
        """The round of a ladder."""
        return f"round {self.round}" if self.round else ""

    @property
    def warning(self) -> str:
        """Results that no ratings explain, and games that repeat earlier ones, as of the last rating."""
        return self._warning

    # Who meets whom.

    def _note_meetings(self, update: Update) -> None:
        played = [_meeting_of(record.id) for record in update.records]
        self._met.update(played)
        if update.resumed:
            self._met_before.update(played)
        seen = {*played, *(_meeting_of(glance.pairing.id) for glance in update.glances)}
        for meeting in seen if not update.resumed else ():
            self._met_since.setdefault(meeting, self.now)
        if isinstance(self.tournament, Ladder) and seen:
            rounds = [int(meeting.rpartition("/")[2].partition("-")[0]) for meeting in seen]
            self.round = max([self.round or 1, *rounds])

    @property
    def meetings(self) -> list[Meeting]:
        """Those of the games under way; of a ladder, as far as its present round goes."""
        far: dict[str, float] = {}
        players: dict[str, list[str]] = {}
        order = list(self.event.players)
        for glance in self.boards.glances:
            meeting = _meeting_of(glance.pairing.id)
            far[meeting] = far.get(meeting, 0.0) + self._how_far(glance)
            players[meeting] = sorted((glance.pairing.black, glance.pairing.white), key=order.index)
        games = self.tournament.block if isinstance(self.tournament, Ladder) else self.tournament.games_each
        found = []
        for meeting, (first, second) in sorted(players.items(), key=lambda item: [*map(order.index, item[1])]):
            played = self._met[meeting]
            work = played - self._met_before[meeting] + far[meeting]
            left = seconds_for_rest(self.now - self._met_since[meeting], work, games - self._met_before[meeting])
            found.append(Meeting(first, second, played, games, left))
        return found


def _meeting_of(id: str) -> str:
    """What the games of two players, of a ladder those of one round, have in common in their ids."""
    return id.rpartition("/")[0]
