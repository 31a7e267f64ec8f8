"""Shows an event while it is played: live on a terminal, plain lines elsewhere. What is shown comes from its frame."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from threading import Lock
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.spinner import Spinner
from rich.status import Status
from rich.text import Text

from arena.events.runner import Control, Update
from arena.screen import style
from arena.screen.board import DARK, Theme
from arena.screen.frame import Frame, Hint
from arena.screen.running import EventView
from arena.screen.terminal import Keyboard, Painter, Press, Typed, is_background, on_signals

FRAMES_A_SECOND = 6

LINE_EVERY = 5.0
"""Seconds between two plain lines, at least; a hundredth of the time played when that is more."""


HINTS = ("n/p other board · space pause · q quit · ? keys", "n/p board · space pause · q quit")
HELP = (
    "n → next board · p ← previous board · space pause and go on · q quit, the same command goes on · ? fewer words",
    "n → next board · p ← previous · space pause · q quit, stored games stay · ? less",
    "n → next, p ← previous board · space pause · q quit · ?",
    "n p board · space pause · q quit · ?",
)
"""What can be pressed, the longest wording first."""

WATCHER_HINTS = ("n/p other board · q quit · ? keys",)
WATCHER_HELP = ("n → next board · p ← previous board · q quit · ? fewer words", "n p board · q quit · ?")
"""The same where nobody can pause."""

SETTLED = 3
"""Updates after which everybody has heard of a pause."""


class LiveScreen:
    """A view as a Rich renderable, and what is done with it by keys.

    One thread may add updates, another draw, and a third press keys. Without a ``control`` an event can't be paused.
    """

    frame: Callable[..., Frame]
    """What draws the view: the arguments are those of ``Frame``."""

    def __init__(self, view: EventView[Any], control: Control | None = None, theme: Theme = DARK):
        self.view = view
        self.control = control
        self._theme = theme
        self.has_keys = False  # a person can press some, and is told which
        self.shows_help = False
        self.ending: BaseException | None = None  # what the event is to be ended with
        self._lock = Lock()
        self._spinner: Spinner | None = None
        self._suspending = -1  # updates since Ctrl-Z was pressed; -1 when it wasn't
        self._was_paused = False

    def add(self, update: Update) -> None:
        """Take in what has happened; before the process is stopped, the bots come to rest."""
        if self._suspending == 0:
            self._was_paused = self.view.is_paused
            self._pause(True)
        if self._suspending >= 0:
            self._suspending += 1
        with self._lock:
            if self.control is not None:
                self.view.pause(self.control.paused)  # whoever asked for it
            self.view.add(update)

    def press(self, key: str) -> None:
        """Do what a key asks for; other keys do nothing. Quitting and Ctrl-Z only leave a note for the thread that adds
        updates, and take no lock: a signal may call for them."""
        match key.lower():
            case "q":
                self.ending = KeyboardInterrupt()
            case "ctrl-z":
                self._suspending = max(0, self._suspending)
            case " " if self.control is not None:
                self._pause(not self.control.paused)
            case "?":
                self.shows_help = not self.shows_help
            case "n" | "right":
                self._choose(1)
            case "p" | "left":
                self._choose(-1)

    def _choose(self, step: int) -> None:
        with self._lock:
            self.view.boards.choose(step)

    def _pause(self, paused: bool) -> None:
        if self.control is not None:
            self.control.paused = paused
        with self._lock:
            self.view.pause(paused)

    @property
    def is_to_stop(self) -> bool:
        """Whether Ctrl-Z was pressed, and all bots have heard of it."""
        return self._suspending >= SETTLED

    def go_on(self) -> None:
        """The process was stopped, and runs again."""
        self._suspending = -1
        self._pause(self._was_paused)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        ascii_only = options.ascii_only
        if self._spinner is None:
            self._spinner = Spinner("line" if ascii_only else "dots")
        hint = self._hint() if self.has_keys else None
        with self._lock:
            yield self.frame(
                self.view, options.max_width, console.height - 1, ascii_only, self._spinner, hint, self._theme
            ).draw()

    def _hint(self) -> Hint:
        hints, help = (HINTS, HELP) if self.control is not None else (WATCHER_HINTS, WATCHER_HELP)
        if self.shows_help:
            return Hint(help, insists=True)
        space = "space go on" if self.view.is_paused else "space pause"
        return Hint(tuple(words.replace("space pause", space) for words in hints))


def show_event(
    screen: LiveScreen, updates: Iterator[Update], console: Console, head: str, progress: Callable[[], str]
) -> None:
    """Show an event until its updates end or it is decided; plain lines are ``head``, then ``progress`` as it goes on.

    Whatever ends it early, such as KeyboardInterrupt, leaves the last state on the screen and comes through after
    ``updates`` has been closed. On a terminal the key to quit is such an interrupt, and SIGTERM a SystemExit.
    """
    person = any(entry.is_person for entry in screen.view.event.players.values())
    is_live = console.is_terminal and not console.is_dumb_terminal and not person
    try:
        if is_live:
            _show_live(screen, updates, console)
        else:
            _show_lines(screen.view, updates, console, head, progress)
    finally:
        close = getattr(updates, "close", None)
        if close is not None:
            with _waiting(console) if is_live else nullcontext():
                close()


def _show_live(screen: LiveScreen, updates: Iterator[Update], console: Console) -> None:
    painter = Painter(screen, console, FRAMES_A_SECOND, lambda: is_background(0))

    def press(typed: Typed) -> None:
        if isinstance(typed, Press):
            screen.press(typed.key)
            painter.refresh()

    def terminate() -> None:
        screen.ending = SystemExit(128 + signal.SIGTERM)

    handlers = {
        signal.SIGTERM: terminate,
        signal.SIGTSTP: lambda: screen.press("ctrl-z"),
        signal.SIGCONT: painter.begin_anew,
    }
    with on_signals(handlers), Keyboard(press) as keyboard, painter:
        for update in updates:
            screen.add(update)
            screen.has_keys = keyboard.is_on
            if screen.is_to_stop:
                painter.rest()
                keyboard.suspend()
                painter.begin_anew()
                screen.go_on()
            if screen.ending is not None:
                raise screen.ending
        screen.view.finish()


def _waiting(console: Console) -> Status:
    """Says below the last frame what takes a moment: bots that are busy are given some time to end."""
    ascii_only = console.options.ascii_only
    words = style.spell("Ending the bots …", ascii_only)
    return console.status(Text(words, style.LABEL), spinner="line" if ascii_only else "dots")


def _show_lines(
    view: EventView[Any], updates: Iterator[Update], console: Console, head: str, progress: Callable[[], str]
) -> None:
    def write(text: str) -> None:
        line = style.spell(text, console.options.ascii_only)
        console.print(line, soft_wrap=True, markup=False, highlight=False)

    games = view.event.games
    write(head)
    written, tenths = view.clock(), 0
    for update in updates:
        if update.waiting and not view.waiting:
            write(style.waiting(update.waiting))
        view.add(update)
        if update.resumed and update.records:
            write(f"{view.stored} of {games} games were played earlier")
        elif update.records and view.stored < games:
            waited = view.clock() - written
            if waited >= max(LINE_EVERY, view.elapsed / 100) or 10 * view.stored // games > tenths:
                write(progress())
                written = view.clock()
        tenths = 10 * view.stored // games
    view.finish()


def pace(view: EventView[Any]) -> list[str]:
    """How fast it goes and how long it will take, for a line."""
    parts = []
    if view.games_a_second is not None:
        parts.append(style.rate(view.games_a_second, "games"))
    if view.seconds_left is not None:
        parts.append(f"about {style.duration(view.seconds_left)} left")
    return parts
