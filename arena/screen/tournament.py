"""A tournament or a ladder: what is known of it while it is played, its live screen, and its end."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import monotonic

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from arena.events.ladder import widest_gap
from arena.events.runner import Control, Update
from arena.events.schedule import Ladder, Tournament
from arena.go.moves import BLACK, WHITE
from arena.go.record import Played
from arena.ratings import Estimate
from arena.results.event import Findings
from arena.results.league import Crosstable, League, Standing
from arena.screen import style
from arena.screen.board import DARK, Theme, board_height, board_width
from arena.screen.live import FACTS, GAP, Frame, LiveScreen, Room, pace, setting_line, show_event
from arena.screen.report import ALARM, print_summary
from arena.screen.running import EventView, seconds_for_rest
from arena.screen.style import some

RECENT = 30
"""Finished games that are remembered for the screen."""

RATE_EVERY = 1.0
"""Seconds between two ratings of everybody, at least: they take some milliseconds."""

RANK, ELO, SHORT_ELO, GAMES, SCORE = 3, 16, 12, 6, 8
NAME, SHORT_NAME = 8, 12
RECENT_LINES, FEW_RECENT = 8, 3
MEETING_LINES = 4
COUNT, LEFT = 10, 13
PANEL = 54
"""Columns for who is playing whom, to the right of the board."""

BOARD = 30
"""Columns that are kept for the board and its players, where there is room."""


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


def rank_players(table: Crosstable, league: League | None) -> list[tuple[str, Standing | None]]:
    """All players, the strongest first; those without a rated game come last, in the order given."""
    rated = {} if league is None else {standing.identity: standing for standing in league.standings}
    order = [*rated, *(identity for identity in table.players if identity not in rated)]
    return [(table.players[identity], rated.get(identity)) for identity in order]


class TournamentFrame(Frame[TournamentView]):
    """Draws a tournament."""

    widest = 240

    def __init__(self, view: TournamentView, room: Room):
        super().__init__(view, room)
        self.ranking = rank_players(view.tally, view.league)
        draws = float(view.tournament.terms.rules.komi).is_integer()
        most = view.tournament.games_each
        self._cell = max(len(f"{most}"), len(f"{most - 1}") + 2 * draws) + 1  # columns a cell of the crosstable
        named = max(NAME, max(map(cell_len, self.names)) + 1)
        crossed = RANK + ELO + GAMES + SCORE + len(self.names) * self._cell
        self._least = max(FACTS, crossed + min(SHORT_NAME, named))
        self._wanted = max(FACTS, crossed + min(30, named))
        without = max(100, self._wanted + GAP + max(40, board_width(view.event.terms.rules.size)))
        has_board = self.height >= board_height(view.event.terms.rules.size) + 8  # else the panel stands nowhere
        self.panel = GAP + PANEL if self.width >= without + GAP + PANEL and has_board else 0
        self.width = min(self.width, without + self.panel)

    def _title(self) -> list[Text]:
        tournament = self.view.tournament
        title = self._text(style.shorten(tournament.name, self.width), "bold")
        bots = f"{tournament.style}, {len(self.names)} bots"
        setting = setting_line(tournament)
        for words in (f"{bots}, {setting}", setting, bots):
            if title.cell_len + 2 + len(words) <= self.width:
                return [title.append_text(self._right(words, self.width - title.cell_len, style.LABEL))]
        return [title]

    def _colour_of(self, player: str) -> str:
        """Of the two on the board."""
        watched = self.view.boards.watched
        return style.FIRST if watched is not None and player == watched.pairing.black else style.SECOND

    def _facts_width(self, board: int) -> int:
        """What the board leaves, if that is enough; else all, as the board goes below."""
        width = self.width - self.panel - GAP
        if width - board < FACTS:
            return self.width
        comfortable = width - max(BOARD, board)
        if comfortable < self._least <= width - board:
            return self._least  # the crosstable is worth a narrower board
        return min(self._wanted, max(FACTS, comfortable))

    def _facts(self, width: int, height: int) -> list[Text]:
        lines = [*self._gap(width), *self._standings(width)]
        if 0 < height < len(lines):
            hidden = len(lines) - height + 1
            return [*lines[: height - 1], self._text(f"and {hidden} more", style.LABEL)]
        room = height - len(lines)
        meetings = min(MEETING_LINES, self._pairs)
        if not self.panel and room >= meetings + FEW_RECENT + 4:
            lines += [Text(), *self._meetings(width, meetings + 1)]
            room -= meetings + 2
        recent = min(RECENT_LINES, room - 2)
        if recent < 1:
            return lines
        games = [self._recent(record, width) for record in list(self.view.recent)[:recent]]
        empty = [Text() for _ in range(recent - len(games))]  # the board below doesn't move when they come
        return [*lines, Text(), self._text("Last games", style.LABEL), *games, *empty]

    @property
    def _pairs(self) -> int:
        """How many times two players may be playing each other at once."""
        tournament = self.view.tournament
        return len(tournament.meetings) if isinstance(tournament, Tournament) else len(self.names) - 1

    def _panel(self, width: int, height: int) -> list[Text]:
        return self._meetings(width, min(self._pairs + 1, height))

    def _meetings(self, width: int, height: int) -> list[Text]:
        """Who is playing whom, in exactly ``height`` lines; those who have most to play, where that is too few."""
        meetings = self.view.meetings
        shown = sorted(meetings, key=lambda meeting: meeting.played - meeting.games)[: height - 1]
        few = f", {len(shown)} of {len(meetings)}" if len(shown) < len(meetings) else ""
        lines = [self._text(f"Under way{few}", style.LABEL)]
        named = width - COUNT - LEFT
        for meeting in meetings:
            if meeting in shown:
                first = style.shorten(meeting.first, (named - 4) // 2)
                second = style.shorten(meeting.second, named - 4 - cell_len(first))
                line = self._left(f"{first} – {second}", named)
                line.append_text(self._right(f"{meeting.played}/{meeting.games}", COUNT))
                left = style.duration(meeting.seconds_left)
                lines.append(line.append_text(self._right(f"{left} left" if left else "", LEFT, style.LABEL)))
        return [*lines, *(Text() for _ in range(height - len(lines)))]

    def _gap(self, width: int) -> list[Text]:
        """Of a ladder, the two neighbours whose distance is known worst."""
        if not isinstance(self.view.tournament, Ladder):
            return []
        if self.view.gap is None:
            return [self._text("widest interval: –", style.LABEL)]
        above, below, half = self.view.gap
        goal = f" (to see {self.view.tournament.to_see:g})" if self.view.tournament.to_see else ""
        known = f"±{half:.0f}{goal}"
        named = width - len(known) - 22
        first = style.shorten(above, named // 2)
        second = style.shorten(below, named - cell_len(first))
        line = self._text("widest interval: ", style.LABEL)
        return [line.append_text(self._text(f"{first} – {second}  {known}"))]

    def _standings(self, width: int) -> list[Text]:
        """A head and a line for each player, with the crosstable to the right where there is room for all of it."""
        elo_width = ELO if width >= FACTS else SHORT_ELO
        plain = RANK + elo_width + GAMES + SCORE
        cross = len(self.names) * self._cell if width >= self._least else 0
        named = width - plain - cross
        head = self._text(" # ", style.LABEL).append_text(self._left("player", named, style.LABEL))
        for words, column in (("Elo", elo_width), ("games", GAMES), ("score", SCORE)):
            head.append_text(self._right(words, column, style.LABEL))
        if cross:
            for rank, _ in enumerate(self.ranking, 1):
                head.append_text(self._right(f"{rank}", self._cell, style.LABEL))
        lines = [head]
        for rank, (name, standing) in enumerate(self.ranking, 1):
            counts = self.view.tally.meetings(name)
            line = self._right(f"{rank}", RANK - 1).append(" ")
            line.append_text(self._left(style.shorten(name, named - 1), named))
            line.append_text(self._right("–" if standing is None else _short(standing.elo, elo_width - 1), elo_width))
            line.append_text(self._right(f"{counts.games}", GAMES))
            line.append_text(self._right(style.per_cent(counts.share), SCORE))
            if cross:
                for other, _ in self.ranking:
                    line.append_text(style.right(self._met(name, other), self._cell))
            lines.append(line)
        return lines

    def _met(self, name: str, other: str) -> Text:
        """A player's points against another."""
        counts = self.view.tally.meetings(name, other)
        if name == other or not counts.games:
            return self._text("×" if name == other else "–", style.LABEL)
        return self._text(f"{counts.points:g}")

    def _recent(self, record: Played, width: int) -> Text:
        """Both players, the winner in bold, the result and how the game ended."""
        outcome = record.outcome
        if outcome is None:
            return Text()
        named = (width - 4 - 9 - 11) // 2
        line = Text(no_wrap=True)
        for sign, name, colour in (("● ", record.black, BLACK), ("○ ", record.white, WHITE)):
            won = "bold" if outcome.winner is colour else ""
            line.append_text(self._text(sign, style.LABEL))
            line.append_text(self._left(style.shorten(name, named - 1), named, won))
        line.append_text(self._left(outcome.brief, 9))
        return line.append_text(self._text(str(outcome.ending), style.WARNING if outcome.ending.is_forfeit else ""))


def _short(elo: Estimate, width: int) -> str:
    """As everywhere; without decimals, or its ends, where there is no room for them."""
    words, low, high = str(elo), elo.interval.low, elo.interval.high
    if len(words) > width and elo.value is not None and low is not None and high is not None:
        whole = f"{elo.value:+.0f} ± {(high - low) / 2:.0f}"
        words = whole if "±" in words else f"{low:+.0f} to {high:+.0f}"
    return words


def show_tournament(
    tournament: Tournament | Ladder,
    updates: Iterator[Update],
    console: Console,
    clock: Callable[[], float] = monotonic,
    control: Control | None = None,
    theme: Theme = DARK,
) -> TournamentView:
    """Show a tournament or a ladder as ``show_event`` does until its updates end, then sum it up; returns what was
    seen."""
    view = TournamentView(tournament, clock)
    bots, games = some(len(tournament.entries), "bot"), some(tournament.games, "game")
    if view.may_end_early:
        games += " at most"
    head = f"{tournament.name}: {tournament.style} of {bots}, {games}, {setting_line(tournament)}"
    show_event(LiveScreen(view, TournamentFrame, control, theme), updates, console, head, lambda: _progress(view))
    planned = tournament.games if isinstance(tournament, Tournament) else view.tally.games  # a ladder may end early
    print_summary(Findings(tournament.event, view.tally, planned), console)
    return view


def _progress(view: TournamentView) -> str:
    """Where a tournament stands, in a line for a log."""
    parts = [f"{view.tally.games} of {view.event.games}"]
    for name, standing in rank_players(view.tally, view.league)[:3]:
        if standing is not None:
            parts.append(f"{name} {standing.elo} ({style.per_cent(standing.score)})")
    return ", ".join(parts + pace(view))
