"""Shows an event while it is played: live on a terminal, plain lines elsewhere. What is shown comes from its frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Lock
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.spinner import Spinner

from arena.runner import Update
from arena.screen import style
from arena.screen.frame import Frame
from arena.screen.paint import Painter
from arena.screen.view import EventView

FRAMES_A_SECOND = 6

LINE_EVERY = 5.0
"""Seconds between two plain lines, at least; a hundredth of the time played when that is more."""


class LiveScreen:
    """A view as a Rich renderable. One thread may add updates while another draws."""

    frame: Callable[..., Frame]
    """What draws the view: the arguments are those of ``Frame``."""

    def __init__(self, view: EventView[Any]):
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
            drawn = self.frame(self.view, options.max_width, console.height - 1, ascii_only, self._spinner).draw()
        yield drawn


def show_event(
    screen: LiveScreen, updates: Iterator[Update], console: Console, head: str, progress: Callable[[], str]
) -> None:
    """Show an event until its updates end or it is decided; plain lines are ``head``, then ``progress`` as it goes on.

    Whatever ends it early, such as KeyboardInterrupt, leaves the last state on the screen and comes through after
    ``updates`` has been closed.
    """
    person = any(entry.bot_kind.interactive for entry in screen.view.event.players.values())
    try:
        if console.is_terminal and not console.is_dumb_terminal and not person:
            _show_live(screen, updates, console)
        else:
            _show_lines(screen.view, updates, console, head, progress)
    finally:
        close = getattr(updates, "close", None)
        if close is not None:
            close()


def _show_live(screen: LiveScreen, updates: Iterator[Update], console: Console) -> None:
    with Painter(screen, console, FRAMES_A_SECOND):
        for update in updates:
            screen.add(update)
            if screen.view.is_decided:
                break
        screen.view.finish()


def _show_lines(
    view: EventView[Any], updates: Iterator[Update], console: Console, head: str, progress: Callable[[], str]
) -> None:
    def write(text: str) -> None:
        line = style.spell(text, console.options.ascii_only)
        console.print(line, soft_wrap=True, markup=False, highlight=False)

    tally, games = view.tally, view.event.games
    write(head)
    written, tenths = view.clock(), 0
    for update in updates:
        view.add(update)
        if update.resumed and update.records:
            write(f"{tally.games} of {games} games were played earlier")
        elif update.records and tally.games < games:
            waited = view.clock() - written
            if waited >= max(LINE_EVERY, view.elapsed / 100) or 10 * tally.games // games > tenths:
                write(progress())
                written = view.clock()
        tenths = 10 * tally.games // games
        if view.is_decided:
            break
    view.finish()


def pace(view: EventView[Any]) -> list[str]:
    """How fast it goes and how long it will take, for a line."""
    parts = []
    if view.games_a_second is not None:
        parts.append(style.rate(view.games_a_second, "games"))
    if view.seconds_left is not None:
        parts.append(f"about {style.duration(view.seconds_left)} left")
    return parts
