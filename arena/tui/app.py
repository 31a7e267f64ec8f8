"""What all full screens share: signals, Ctrl-Z, a closed terminal, keys and their list, panes that a function draws."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from io import StringIO
from typing import Any, ClassVar, TextIO

import rich.console
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from textual import widgets
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.screen import ModalScreen
from textual.widget import Widget

from arena.report import style

ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

CHANGED = (*ENDS, signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)  # signals whose handlers a running screen replaces
SUSPEND_DELAY = 0.3  # seconds between Ctrl-Z and the suspension, in which what runs is paused


class Pane(Widget):
    """A pane whose content a function of its width and height returns."""

    DEFAULT_CSS = "Pane { width: 1fr; height: 1fr; }"

    def __init__(self, draw: Callable[[int, int], Sequence[RenderableType]], id: str | None = None):
        super().__init__(id=id)
        self._draw = draw

    def render(self) -> Group:
        return Group(*self._draw(*self.size))


class KeyBindings(ModalScreen[None]):
    CSS = """
    KeyBindings { align: center middle; }
    KeyBindings > Static { width: auto; max-width: 100%; height: auto; max-height: 100%; padding: 0 2; }
    KeyBindings > Static { background: $panel; }
    """
    BINDINGS: ClassVar[list[Any]] = [Binding("escape,question_mark,q,enter,space", "dismiss", "Back")]

    def __init__(self, keys: Sequence[tuple[str, str]]):
        super().__init__()
        self._keys = keys

    def compose(self) -> ComposeResult:
        table = Table.grid(padding=(0, 2, 0, 0))
        for key, words in self._keys:
            table.add_row(Text(key, "bold"), Text(words))
        yield widgets.Static(table)

    def on_click(self) -> None:
        self.dismiss()


class ArenaApp(App[None]):
    """A full screen. An exception that ends it early is kept in ``ending``, and ``run_app`` raises it."""

    TITLE = "arena"
    ENABLE_COMMAND_PALETTE = False
    CSS = "Screen { layout: vertical; } Footer { height: 1; }"
    BINDINGS: ClassVar[list[Any]] = [
        Binding("ctrl+c,ctrl+q", "interrupt", "Quit; an event ends its games first", show=False, priority=True),
        Binding("ctrl+z", "rest", "Pause and suspend", show=False, priority=True),
    ]

    def __init__(self, colours: bool = True):
        super().__init__()
        self.colours = colours
        self.ending: BaseException | None = None
        self._server = os.getppid()
        self.handlers: dict[signal.Signals, Any] = {}
        """The handlers of ``ENDS`` from before the screen opened."""

    def on_mount(self) -> None:
        sys.stderr = _WithDescriptor(sys.stderr)  # until Textual restores the former one
        self.app_resume_signal.subscribe(self, lambda _: self.pause(False))
        if self.is_web:
            self.set_interval(1.0, self._leave_with_server)
        for number, handler in self.handlers.items():
            if handler is not signal.SIG_IGN:
                asyncio.get_running_loop().add_signal_handler(number, self.call_handler, number)

    def _leave_with_server(self) -> None:
        """End when the server that shows the screen in a browser has ended."""
        if os.getppid() != self._server:
            self.call_handler(signal.SIGHUP)

    def call_handler(self, number: signal.Signals) -> None:
        """Call the handler of a signal from before the screen opened; an exception that it raises ends the screen."""
        handler = self.handlers.get(number, signal.default_int_handler)
        try:
            if not callable(handler):
                raise SystemExit(128 + number)
            handler(number, None)
        except BaseException as error:
            self.action_leave(error)

    def action_interrupt(self) -> None:
        """Handle Ctrl-C, which a full screen receives as a key."""
        self.call_handler(signal.SIGINT)

    def action_leave(self, error: BaseException | None = None) -> None:
        """Close the screen; ``run_app`` then raises ``error``."""
        self.ending = error
        self.exit()

    def action_rest(self) -> None:
        """Suspend the process until the shell continues it."""
        self.pause(True)
        self.set_timer(SUSPEND_DELAY, self.action_suspend_process)

    def pause(self, stops: bool) -> None:
        """Pause what runs before the process is suspended (``stops``), or resume it afterwards."""

    def action_keys(self) -> None:
        keys = []
        for binding in (*self.BINDINGS, *ArenaApp.BINDINGS):
            if binding.description:
                pressed = (self.get_key_display(replace(binding, key=key)) for key in binding.key.split(","))
                keys.append((" ".join(pressed), binding.description))
        self.push_screen(KeyBindings(keys))


class _LossyStream:
    """A stream that drops what can't be written, for a terminal that may be closed."""

    def __init__(self, file: TextIO):
        self._file = file

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):
            return self._file.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._file.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class _WithDescriptor(_LossyStream):
    """Textual's standard error, with the descriptor of the real one: processes that are started, such as a resource
    tracker in the place of one that died, are given it."""

    def fileno(self) -> int:
        return sys.__stderr__.fileno() if sys.__stderr__ is not None else -1


class ScreenFault(Exception):
    """An error that nobody expected in a handler of the screen; its note is the traceback."""


def run_app(app: ArenaApp) -> None:
    """Show a full screen until it closes, then restore the terminal and the signal handlers. Raises the exception that
    ended it early."""
    if not app.is_web:
        style.Console(stderr=True).set_window_title(style.sanitize(app.title))
    errors = app.error_console = rich.console.Console(file=StringIO(), width=120)  # to which Textual prints a traceback
    before = {number: signal.getsignal(number) for number in CHANGED}
    app.handlers = {number: before[number] for number in ENDS}
    stream = sys.__stderr__
    sys.__stderr__ = _LossyStream(stream)  # type: ignore[misc, assignment, arg-type]  # which Textual's driver writes to
    try:
        app.run()
    finally:
        sys.__stderr__ = stream  # type: ignore[misc]
        for number, handler in before.items():
            signal.signal(number, handler)
    if app.ending is not None:
        raise app.ending
    if traceback := errors.file.getvalue().strip():  # type: ignore[attr-defined]
        fault = ScreenFault(re.sub(r"[│╰─╯]", "", traceback.splitlines()[-1]).strip())
        fault.add_note(traceback)
        raise fault
    if app.return_code:
        raise SystemExit(app.return_code)
