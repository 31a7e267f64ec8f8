"""Shows a match while it is played, and sums it up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic

from rich.console import Console

from arena.ratings import Sprt
from arena.report.tally import Tally
from arena.runner import Control, Update
from arena.schedule import Match
from arena.screen import style
from arena.screen.live import LiveScreen, pace, show_event
from arena.screen.match_frame import MatchFrame
from arena.screen.summary import print_summary, setting_line
from arena.screen.themes import DARK, Theme
from arena.screen.view import MatchView


class Screen(LiveScreen):
    """A match's view as a Rich renderable."""

    frame = MatchFrame


def show_match(
    match: Match,
    updates: Iterator[Update],
    console: Console,
    clock: Callable[[], float] = monotonic,
    sprt: Sprt | None = None,
    control: Control | None = None,
    theme: Theme = DARK,
) -> Tally:
    """Show a match until its updates end or ``sprt`` is decided, then sum it up; returns what was counted.

    On a terminal, keys choose the board that is shown, pause the event by ``control``, and quit as Ctrl-C does.
    What ends it early comes through after ``updates`` has been closed.
    """
    view = MatchView(match, clock, sprt)
    first, second = match.players
    head = f"{first} against {second}: {match.games} games, {setting_line(match)}"
    show_event(Screen(view, control, theme), updates, console, head, lambda: _progress(view))
    print_summary(match, view.tally, console, sprt, view.test)
    return view.tally


def _progress(view: MatchView) -> str:
    """Where a match stands, in a line for a log."""
    tally, counts = view.tally, view.tally.results()
    parts = [f"{tally.games} of {view.match.games}", style.score(counts), style.per_cent(counts.points / counts.games)]
    if view.comparison is not None:
        parts.append(f"Elo {view.comparison.elo}")
    if view.test is not None:
        parts.append(f"LLR {view.test.llr:+.2f} ({view.test.lower:+.2f}, {view.test.upper:+.2f})")
    return ", ".join(parts + pace(view))
