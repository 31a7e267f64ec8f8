"""A match: what is known of it while it is played, its live screen, and its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import monotonic

from rich.console import Console
from rich.text import Text

from arena.events.runner import Control, Update
from arena.events.schedule import Match
from arena.events.tally import Tally
from arena.go.game import Ending
from arena.go.moves import BLACK, WHITE
from arena.go.record import Played
from arena.ratings import Comparison, SprtState
from arena.results.event import Findings
from arena.results.league import Crosstable
from arena.screen import style
from arena.screen.board import DARK, Theme
from arena.screen.live import Frame, LiveScreen, pace, setting_line, show_event
from arena.screen.report import print_summary
from arena.screen.running import EventView

LABELS = 12


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

    def _count(self, games: Sequence[Played]) -> None:
        self.judge.add(*games)

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
        """All figures, with empty lines between them as far as ``height`` goes; where it doesn't, without the endings
        that no game had."""
        blocks = [self._score(width), self._colours(width), self._endings(width, list(Ending))]
        spare = height - sum(map(len, blocks))
        if 0 < height and spare < 0:
            missing = [ending for ending in Ending if not self.view.tally.results(ending=ending).games]
            left_out = missing[spare:]
            blocks[2] = self._endings(width, [ending for ending in Ending if ending not in left_out])
        lines: list[Text] = []
        for block in blocks:
            if lines and spare > 0:
                lines.append(Text())
                spare -= 1
            lines += block
        return lines

    def _fact(self, label: str, value: Text, rest: str, width: int) -> Text:
        end = self._text(rest)
        line = self._left(label, LABELS, style.LABEL)
        return line.append_text(style.pad(value, width - LABELS - end.cell_len)).append_text(end)

    def _score(self, width: int) -> list[Text]:
        counts, comparison = self.view.tally.results(), self.view.comparison
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
        counts = self.view.tally.results()
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
            counts = self.view.tally.results(colour=colour)
            lines.append(self._fact(label, self._text(style.score(counts)), style.per_cent(counts.share), width))
        points, games = self.view.tally.black_points, self.view.tally.games
        text = self._text(f"{points:g} of {games}")
        return [*lines, self._fact("Black takes", text, style.per_cent(points / games if games else None), width)]

    def _endings(self, width: int, endings: list[Ending]) -> list[Text]:
        named = (width - LABELS - 7) // 2
        drawn = width - LABELS - 2 * named
        head = self._left("Won by", LABELS, style.LABEL)
        for index in (0, 1):
            head.append_text(style.right(self._name(self.names[index], named - 2), named))
        lines = [head.append_text(self._right("drawn", drawn, style.LABEL))]
        for ending in endings:
            counts = self.view.tally.results(ending=ending)
            line = self._left(str(ending), LABELS, style.LABEL)
            for number, column in ((counts.wins, named), (counts.losses, named), (counts.draws, drawn)):
                sign = self._text(str(number)) if number else self._text("–", style.LABEL)
                line.append_text(style.right(sign, column))
            lines.append(line)
        return lines


def show_match(
    match: Match,
    updates: Iterator[Update],
    console: Console,
    clock: Callable[[], float] = monotonic,
    control: Control | None = None,
    theme: Theme = DARK,
) -> MatchView:
    """Show a match as ``show_event`` does until its updates end, then sum it up; returns what was seen."""
    view = MatchView(match, clock)
    first, second = match.players
    head = f"{first} against {second}: {match.games} games, {setting_line(match)}"
    show_event(LiveScreen(view, MatchFrame, control, theme), updates, console, head, lambda: _progress(view))
    print_summary(Findings(match.event, Crosstable.of(view.tally), match.games, view.judge), console)
    return view


def _progress(view: MatchView) -> str:
    """Where a match stands, in a line for a log."""
    counts = view.tally.results()
    parts = [f"{view.stored} of {view.match.games}"]
    if view.judge.waiting:
        parts.append(f"{counts.games} counted")
    if counts.games:
        parts += [style.score(counts), style.per_cent(counts.share)]
    if view.comparison is not None:
        parts.append(f"Elo {view.comparison.elo}")
    if view.test is not None:
        parts.append(f"LLR {view.test.llr:+.2f} ({view.test.lower:+.2f}, {view.test.upper:+.2f})")
    return ", ".join(parts + pace(view))
