"""A match, a tournament or a ladder: what is known of it while it is played, its live screen, and its end."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from arena.go.coords import BLACK, WHITE
from arena.go.game import Ending
from arena.go.record import Played
from arena.match.ladder import Ladder, widest_gap
from arena.match.runner import Control, Update
from arena.match.schedule import Match, Tournament
from arena.match.standings import League, MatchTally, Standing, Standings
from arena.ratings import Comparison, Estimate, SprtState
from arena.report import style
from arena.report.board import DARK, SMALLEST, Theme
from arena.report.chart import HEIGHT, EloCourse
from arena.report.style import some
from arena.report.text import ALARM, print_summary
from arena.results.event import Findings, Moment
from arena.screen.live import FACTS, GAP, Frame, LiveScreen, Room, setting_line, show_event
from arena.screen.running import EventView, seconds_for_rest

LABELS = 12


class MatchView(EventView[MatchTally]):
    """A running match, with what it says of the two players so far: of the games that count by now."""

    def __init__(self, match: Match, clock: Callable[[], float] = monotonic):
        self.standings = match.standings()
        super().__init__(match, self.standings.between(*match.players), clock)
        self.match = match
        self._compared: tuple[int, Comparison | None] | None = None  # of so many pairs
        self.may_end_early = match.test is not None
        self._all = Standings(self.standings.players, by_name=True)  # with a test: all games, in whatever order
        self.course: list[Moment] = []  # the Elo difference as the match went on

    @property
    def comparison(self) -> Comparison | None:
        """The Elo from the pairs that count by now; None before the first."""
        pairs = self.tally.finished_pairs
        if self._compared is None or self._compared[0] != pairs:
            self._compared = pairs, self.tally.comparison() if pairs else None
        return self._compared[1]

    @property
    def stage(self) -> str:
        """That pairs count in the order of the plan, where some wait."""
        if not self.standings.waiting:
            return ""
        counted = self.tally.games
        return f"Elo from the first {counted} of {self.shown.games}" if counted else "no Elo before the first pair ends"

    @property
    def warning(self) -> str:
        """That games repeat."""
        counted, repeats = self.tally.games, self.tally.repeats
        return f"games repeat: {counted - repeats} of {counted} differ" if repeats else ""

    def _count(self, games: Sequence[Played]) -> None:
        self.standings.add(games)
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
        """Who plays what, in a line."""
        first, second = self.match.players
        return f"{first} against {second}: {style.some(self.match.games, 'game')}, {setting_line(self.match)}"

    @property
    def progress(self) -> str:
        """Where it stands, in a line for a log."""
        counts = self.shown.results()
        parts = [f"{self.stored} of {self.match.games}"]
        if counts.games:
            parts += [style.score(counts), style.per_cent(counts.share)]
        if self.comparison is not None:
            counted = f" from the first {style.some(self.tally.games, 'game')}" if self.standings.waiting else ""
            parts.append(f"Elo {self.comparison.elo}{counted}")
        if self.test is not None:
            parts.append(f"LLR {self.test.llr:+.2f} ({self.test.lower:+.2f}, {self.test.upper:+.2f})")
        return ", ".join(parts + self.pace)

    def findings(self) -> Findings:
        """Its statistics."""
        return Findings(self.match.event, self.standings, self.match.games, is_match=True)


class MatchFrame(Frame[MatchView]):
    """Draws a match."""

    def _colour_of(self, player: str) -> str:
        return style.FIRST if player == self.names[0] else style.SECOND

    def _title(self) -> list[Text]:
        setting = self._text(setting_line(self.view.match), style.LABEL)
        names = [self._name(self.names[index], self.width) for index in (0, 1)]
        if sum(name.cell_len for name in names) + 4 > self.width:
            return [names[0], self._text("vs ", style.LABEL).append_text(self._name(self.names[1], self.width - 3))]
        title = names[0].append_text(self._text(" vs ", style.LABEL)).append_text(names[1])
        space = self.width - title.cell_len
        return [title.append_text(style.right(setting, space))] if space >= setting.cell_len + 2 else [title]

    def _facts(self, width: int, height: int) -> list[Text]:
        """All figures, with empty lines between them as far as ``height`` goes."""
        blocks = [self._score(width), self._colours(width), self._endings(width)]
        spare = height - sum(map(len, blocks))
        lines: list[Text] = []
        for block in blocks:
            if lines and spare > 0:
                lines.append(Text())
                spare -= 1
            lines += block
        return lines + self._course(width, height - len(lines) - 2)

    def _course(self, width: int, height: int) -> list[Text]:
        """The curve of the Elo over the games, where there is room for one."""
        rows = min(HEIGHT, height - CURVE_AROUND)
        if rows < LEAST_CURVE or len(self.view.course) < 2:
            return []
        first, second = self.view.match.players
        names = [self._text(f"Elo of {style.shorten(first, width - 20)} over the games", style.LABEL)]
        return [Text(), *names, *EloCourse(self.view.course, [first, second]).lines(width, rows)]

    def _fact(self, label: str, value: Text, rest: str, width: int) -> Text:
        """A figure that has no room is left out whole: what is cropped reads as another one."""
        labels = LABELS if LABELS + value.cell_len <= width else cell_len(label) + 1
        if labels + value.cell_len > width:
            value = self._text("…")
        end = self._text(rest if labels + value.cell_len + cell_len(rest) < width else "")
        line = self._left(label, labels, style.LABEL)
        return line.append_text(style.pad(value, width - labels - end.cell_len)).append_text(end)

    def _score(self, width: int) -> list[Text]:
        counts, comparison = self.view.shown.results(), self.view.comparison
        elo = "–" if comparison is None else str(comparison.elo)
        los = "–" if comparison is None else style.likelihood(comparison.los)
        return [
            self._share_bar(width),
            self._fact("Score", self._text(style.score(counts), "bold"), style.per_cent(counts.share), width),
            self._fact("Elo", self._text(elo, "bold"), "95 % interval" if width >= 60 else "95 %", width),
            self._fact("LOS", self._text(los), "", width),
            *self._test(width),
        ]

    def _test(self, width: int) -> list[Text]:
        """Where the sequential test stands: the log-likelihood ratio between its bounds; nothing without a test."""
        sprt, state = self.view.match.test, self.view.test
        if sprt is None:
            return []
        lower, upper = sprt.bounds
        llr = 0.0 if state is None else state.llr
        cells = width - LABELS - 8
        mark = round((cells - 1) * min(1.0, max(0.0, (llr - lower) / (upper - lower))))
        bar = self._text("─" * mark, style.LABEL).append_text(self._text("●", style.FIRST))
        bar.append_text(self._text("─" * (cells - 1 - mark), style.LABEL))
        title = f"{sprt.elo0:g} or {sprt.elo1:g} Elo?"
        ends = self._text(f"{lower:.2f}", style.LABEL)
        ends.append_text(self._right(f"{upper:.2f}", cells - ends.cell_len, style.LABEL))
        return [self._fact("SPRT", bar, f"{llr:+.2f}", width), self._fact(title[:LABELS], ends, "", width)]

    def _share_bar(self, width: int) -> Text:
        """Won, drawn and lost games as one line; empty before the first."""
        counts = self.view.shown.results()
        if not counts.games:
            return Text()
        won = round(width * counts.wins / counts.games)
        drawn = round(width * (counts.wins + counts.draws) / counts.games) - won
        bar = self._text("━" * won, style.FIRST)
        bar.append_text(self._text("╌" * drawn, style.LABEL))
        return bar.append_text(self._text("─" * (width - won - drawn), style.SECOND))

    def _colours(self, width: int) -> list[Text]:
        lines = []
        for colour, label in ((BLACK, "as Black"), (WHITE, "as White")):
            counts = self.view.shown.results(colour=colour)
            lines.append(self._fact(label, self._text(style.score(counts)), style.per_cent(counts.share), width))
        points, games = self.view.shown.black_points, self.view.shown.games
        text = self._text(f"{points:g} of {games}")
        return [*lines, self._fact("Black takes", text, style.per_cent(points / games if games else None), width)]

    def _endings(self, width: int) -> list[Text]:
        """How games were won, in the ways that occurred; with room for two ways from the beginning."""
        named = (width - LABELS - 7) // 2
        if named < SHORT_NAME // 2:
            return []
        drawn = width - LABELS - 2 * named
        head = self._left("Won by", LABELS, style.LABEL)
        for index in (0, 1):
            head.append_text(style.right(self._name(self.names[index], named - 2), named))
        lines = [head.append_text(self._right("drawn", drawn, style.LABEL))]
        for ending in Ending:
            counts = self.view.shown.results(ending=ending)
            if not counts.games:
                continue
            line = self._left(str(ending), LABELS, style.LABEL)
            for number, column in ((counts.wins, named), (counts.losses, named), (counts.draws, drawn)):
                sign = self._text(str(number)) if number else self._text("–", style.LABEL)
                line.append_text(style.right(sign, column))
            lines.append(line)
        return lines + [Text()] * (USUAL_WAYS + 1 - len(lines))


LEAST_CURVE, CURVE_AROUND = 6, 4
"""Lines of the curve, at least, and those around it."""

APART = 20
"""The next point of the curve comes when there are more games by this part of them."""

USUAL_WAYS = 2
"""Lines that are kept for the ways to win, at least."""

RECENT = 30
"""Finished games that are remembered for the screen."""

RATE_EVERY = 1.0
"""Seconds between two ratings of everybody, at least: they take some milliseconds."""

RANK, ELO, SHORT_ELO, GAMES, SCORE = 3, 16, 12, 6, 8
NAME, SHORT_NAME = 8, 12
RECENT_LINES, FEW_RECENT, RECENT_WIDTH = 8, 3, 36
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


class TournamentView(EventView[Standings]):
    """A running tournament or ladder, with everybody's rating so far and the games that ended last."""

    def __init__(self, tournament: Tournament | Ladder, clock: Callable[[], float] = monotonic):
        players = {entry.identity: name for name, entry in tournament.players.items()}
        super().__init__(tournament, Standings(players), clock)
        self.tournament = tournament
        self.recent: deque[Played] = deque(maxlen=RECENT)  # the newest first
        self.league: League | None = None
        self.gap: tuple[str, str, float] | None = None  # of a ladder: that of ``widest_gap``, with names
        self._round = 1  # of a ladder: the last that was begun
        self._stage = self._warning = ""
        self.may_end_early = isinstance(tournament, Ladder) and tournament.precision > 0
        self._is_stale = False
        self._rated_at: float | None = None
        self._met: Counter[str] = Counter()  # games of each meeting
        self._met_before: Counter[str] = Counter()  # those that an earlier run played
        self._met_since: dict[str, float] = {}  # when the first of the others was seen

    def add(self, update: Update) -> None:
        """Take in what has happened. Everybody is rated once in a while."""
        super().add(update)
        if update.records:
            self.recent.extendleft(update.records[-RECENT:])
            self._is_stale = True
        self._note_meetings(update)
        if self._is_stale and (self._rated_at is None or self.clock() >= self._rated_at + RATE_EVERY):
            self._rate_everybody()

    def _count(self, games: Sequence[Played]) -> None:
        self.tally.add(games)

    @property
    def stage(self) -> str:
        """The round of a ladder."""
        return self._stage

    @property
    def warning(self) -> str:
        """Results that the ratings don't explain, and that games repeat."""
        return self._warning

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
    def head(self) -> str:
        """Who plays what, in a line."""
        event, most = self.tournament, " at most" if self.may_end_early else ""
        bots, games = some(len(event.entries), "bot"), some(event.games, "game")
        return f"{event.name}: {event.style} of {bots}, {games}{most}, {setting_line(event)}"

    @property
    def progress(self) -> str:
        """Where it stands, in a line for a log."""
        parts = [f"{self.tally.games} of {self.event.games}"]
        for name, standing in rank_players(self.tally, self.league)[:3]:
            if standing is not None:
                parts.append(f"{name} {standing.elo} ({style.per_cent(standing.score)})")
        return ", ".join(parts + self.pace)

    def findings(self) -> Findings:
        """Its statistics; a ladder may end early."""
        planned = self.event.games if isinstance(self.tournament, Tournament) else self.tally.games
        return Findings(self.tournament.event, self.tally, planned)

    # Who meets whom.

    def _note_meetings(self, update: Update) -> None:
        played = [_meeting_of(record.id) for record in update.records]
        self._met.update(played)
        if update.resumed:
            self._met_before.update(played)
        seen = {*played, *(_meeting_of(snapshot.pairing.id) for snapshot in update.snapshots)}
        for meeting in seen if not update.resumed else ():
            self._met_since.setdefault(meeting, self.now)
        if isinstance(self.tournament, Ladder) and seen:
            rounds = [int(meeting.rpartition("/")[2].partition("-")[0]) for meeting in seen]
            self._round = max([self._round, *rounds])
            self._stage = f"round {self._round}"

    @property
    def meetings(self) -> list[Meeting]:
        """Those of the games under way; of a ladder, as far as its present round goes."""
        far: dict[str, float] = {}
        players: dict[str, list[str]] = {}
        order = list(self.event.players)
        for snapshot in self.boards.snapshots:
            meeting = _meeting_of(snapshot.pairing.id)
            far[meeting] = far.get(meeting, 0.0) + self._how_far(snapshot)
            players[meeting] = sorted((snapshot.pairing.black, snapshot.pairing.white), key=order.index)
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


def rank_players(table: Standings, league: League | None) -> list[tuple[str, Standing | None]]:
    """All players, the strongest first; those without a rated game come last, in the order given."""
    rated = {} if league is None else {standing.identity: standing for standing in league.standings}
    order = [*rated, *(identity for identity in table.players if identity not in rated)]
    return [(table.players[identity], rated.get(identity)) for identity in order]


class TournamentFrame(Frame[TournamentView]):
    """Draws a tournament."""

    widest = 240

    def __init__(self, view: TournamentView, room: Room):
        super().__init__(view, room)
        self.width = min(room.width, self.widest)
        self.ranking = rank_players(view.tally, view.league)
        self.cell = SMALLEST
        draws = float(view.tournament.terms.rules.komi).is_integer()
        most = view.tournament.games_each
        self._cell = max(len(f"{most}"), len(f"{most - 1}") + 2 * draws) + 1  # columns a cell of the crosstable
        named = max(NAME, max(map(cell_len, self.names)) + 1)
        crossed = RANK + ELO + GAMES + SCORE + len(self.names) * self._cell
        self._least = max(FACTS, crossed + min(SHORT_NAME, named))
        self._wanted = max(FACTS, crossed + min(30, named))
        self.cell = self._largest(self._wanted + GAP)
        without = max(100, self._wanted + GAP + max(40, self.board_size[0]))
        has_board = self.height >= self.board_size[1] + 8  # else the panel stands nowhere
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
        if width < RECENT_WIDTH:
            return lines
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
        return len(tournament.matchups) if isinstance(tournament, Tournament) else len(self.names) - 1

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
        goal = f" (to within {self.view.tournament.precision:g})" if self.view.tournament.precision else ""
        known = f"±{half:.0f}{goal}"
        named = width - len(known) - 22
        first = style.shorten(above, named // 2)
        second = style.shorten(below, named - cell_len(first))
        line = self._text("widest interval: ", style.LABEL)
        return [line.append_text(self._text(f"{first} – {second}  {known}"))]

    def _standings(self, width: int) -> list[Text]:
        """A head and a line for each player, with the crosstable to the right where there is room for all of it."""
        elo_width = ELO if width >= FACTS else SHORT_ELO
        columns = {"Elo": elo_width, "games": GAMES, "score": SCORE}
        while columns and width < RANK + sum(columns.values()) + NAME:
            columns.popitem()
        plain = RANK + sum(columns.values())
        cross = len(self.names) * self._cell if width >= self._least else 0
        named = width - plain - cross
        head = self._text(" # ", style.LABEL).append_text(self._left("player", named, style.LABEL))
        for words, column in columns.items():
            head.append_text(self._right(words, column, style.LABEL))
        if cross:
            for rank, _ in enumerate(self.ranking, 1):
                head.append_text(self._right(f"{rank}", self._cell, style.LABEL))
        lines = [head]
        for rank, (name, standing) in enumerate(self.ranking, 1):
            counts = self.view.tally.meetings(name)
            line = self._right(f"{rank}", RANK - 1).append(" ")
            line.append_text(self._left(style.shorten(name, named - 1), named))
            elo = "–" if standing is None or standing.elo is None else _short(standing.elo, elo_width - 1)
            told = {"Elo": elo, "games": f"{counts.games}", "score": style.per_cent(counts.share)}
            for words, column in columns.items():
                line.append_text(self._right(told[words], column))
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
    """As everywhere; without decimals, its ends or its value where there is no room for them."""
    words, low, high = str(elo), elo.interval.low, elo.interval.high
    if len(words) > width and (low is None or high is None):
        words = f"{elo.value:+.0f}"
    elif len(words) > width and low is not None and high is not None:
        whole = f"{elo.value:+.0f} ± {(high - low) / 2:.0f}"
        words = whole if "±" in words else f"{low:+.0f} to {high:+.0f}"
    return words


def show(
    event: Match | Tournament | Ladder,
    updates: Iterator[Update],
    console: Console,
    clock: Callable[[], float] = monotonic,
    control: Control | None = None,
    theme: Theme = DARK,
) -> MatchView | TournamentView:
    """Show an event as ``show_event`` does until its updates end, then sum it up; returns what was seen."""
    screen: LiveScreen[Any]
    if isinstance(event, Match):
        screen = LiveScreen(MatchView(event, clock), MatchFrame, control, theme)
    else:
        screen = LiveScreen(TournamentView(event, clock), TournamentFrame, control, theme)
    show_event(screen, updates, console)
    print_summary(screen.view.findings(), console)
    return screen.view
