"""Shows a match while it is played, and sums it up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic

from rich.console import Console

from arena.events.runner import Control, Update
from arena.events.schedule import Match
from arena.screen import style
from arena.screen.board import DARK, Theme
from arena.screen.live import LiveScreen, pace, show_event
from arena.screen.match_frame import MatchFrame
from arena.screen.running import MatchView
from arena.screen.summary import print_summary, setting_line


class Screen(LiveScreen):
    """A match's view as a Rich renderable."""

    frame = MatchFrame


def show_match(
    match: Match,
    updates: Iterator[Update],
    console: Console,
    clock: Callable[[], float] = monotonic,
    control: Control | None = None,
    theme: Theme = DARK,
) -> MatchView:
    """Show a match until its updates end, then sum it up; returns what was seen.

    On a terminal, keys choose the board that is shown, pause the event by ``control``, and quit as Ctrl-C does.
    What ends it early comes through after ``updates`` has been closed.
    """
    view = MatchView(match, clock)
    first, second = match.players
    head = f"{first} against {second}: {match.games} games, {setting_line(match)}"
    show_event(Screen(view, control, theme), updates, console, head, lambda: _progress(view))
    print_summary(match, view.judge, console)
    return view


def _progress(view: MatchView) -> str:
    """Where a match stands, in a line for a log."""
    counts = view.tally.results()
    parts = [f"{view.stored} of {view.match.games}"]
    if view.judge.waiting:
        parts.append(f"{counts.games} counted")
    if counts.games:
        parts += [style.score(counts), style.per_cent(counts.points / counts.games)]
    if view.comparison is not None:
        parts.append(f"Elo {view.comparison.elo}")
    if view.test is not None:
        parts.append(f"LLR {view.test.llr:+.2f} ({view.test.lower:+.2f}, {view.test.upper:+.2f})")
    return ", ".join(parts + pace(view))
