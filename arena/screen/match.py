"""Shows a match while it is played: live on a terminal, plain lines elsewhere. Frames are drawn by ``frame``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Lock
from time import monotonic

from rich.console import Console, ConsoleOptions, RenderResult
from rich.spinner import Spinner

from arena.ratings import Sprt
from arena.report import Tally
from arena.runner import Update
from arena.schedule import Match
from arena.screen import style
from arena.screen.frame import Frame
from arena.screen.paint import Painter
from arena.screen.summary import print_summary, setting_line
from arena.screen.view import MatchView

FRAMES_A_SECOND = 6

LINE_EVERY = 5.0
"""Seconds between two plain lines, at least; a hundredth of the time played when that is more."""


def show_match(
    match: Match,
    updates: Iterator[Update],
    console: Console,
    clock: Callable[[], float] = monotonic,
    sprt: Sprt | None = None,
) -> Tally:
    """Show a match until its updates end or ``sprt`` is decided, then sum it up; returns what was counted.

    Whatever ends it early, such as KeyboardInterrupt, leaves the last state on the screen and comes through after
    ``updates`` has been closed.
    """
    view = MatchView(match, clock, sprt)
    person = any(entry.bot_kind.interactive for entry in match.players.values())
    try:
        if console.is_terminal and not console.is_dumb_terminal and not person:
            _show_live(view, updates, console)
        else:
            _show_lines(view, updates, console)
    finally:
        close = getattr(updates, "close", None)
        if close is not None:
            close()
    print_summary(match, view.tally, console, sprt, view.test)
    return view.tally


class Screen:
    """A view as a Rich renderable. One thread may add updates while another draws."""

    def __init__(self, view: MatchView):
        self.view = view
        self._lock = Lock()
        self._spinner: Spinner | None = None

    def add(self, update: Update) -> None:
        with self._lock:
            self.view.add(update)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        ascii_only = options.ascii_only
        if self._spinner is None:
            self._spinner = Spinner("line" if ascii_only else "dots")
        with self._lock:
            drawn = Frame(self.view, options.max_width, console.height - 1, ascii_only, self._spinner).draw()
        yield drawn


def _show_live(view: MatchView, updates: Iterator[Update], console: Console) -> None:
    screen = Screen(view)
    with Painter(screen, console, FRAMES_A_SECOND):
        for update in updates:
            screen.add(update)
            if view.is_decided:
                break
        view.finish()


def _show_lines(view: MatchView, updates: Iterator[Update], console: Console) -> None:
    def write(text: str) -> None:
        line = style.spell(text, console.options.ascii_only)
        console.print(line, soft_wrap=True, markup=False, highlight=False)

    match, tally = view.match, view.tally
    first, second = match.players
    write(f"{first} against {second}: {match.games} games, {setting_line(match)}")
    written, tenths = view.clock(), 0
    for update in updates:
        view.add(update)
        if update.resumed and update.records:
            write(f"{tally.games} of {match.games} games were played earlier")
        elif update.records and tally.games < match.games:
            waited = view.clock() - written
            if waited >= max(LINE_EVERY, view.elapsed / 100) or 10 * tally.games // match.games > tenths:
                write(_progress(view))
                written = view.clock()
        tenths = 10 * tally.games // match.games
        if view.is_decided:
            break
    view.finish()


def _progress(view: MatchView) -> str:
    """Where a match stands, in a line for a log."""
    tally, counts = view.tally, view.tally.results()
    parts = [f"{tally.games} of {view.match.games}", style.score(counts), style.per_cent(counts.points / counts.games)]
    if view.comparison is not None:
        parts.append(f"Elo {view.comparison.elo}")
    if view.test is not None:
        parts.append(f"LLR {view.test.llr:+.2f} ({view.test.lower:+.2f}, {view.test.upper:+.2f})")
    if view.games_a_second is not None:
        parts.append(style.rate(view.games_a_second, "games"))
    if view.seconds_left is not None:
        parts.append(f"about {style.duration(view.seconds_left)} left")
    return ", ".join(parts)
