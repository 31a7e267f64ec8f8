"""What all full screens share: signals, Ctrl-Z, a closed terminal, keys and their list, panes, a board with text."""

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
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Container, VerticalScroll
from textual.events import Click, Resize
from textual.message import Message
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Footer, Static

from arena.go.coords import Move
from arena.report import style
from arena.report.board import board_height, board_width, largest_cell, point_at

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


BESIDE, GAP, BELOW = 30, 2, 10
"""Minimum columns of the text beside a board, the columns between, and lines of text below a board that is large."""


class BoardPane(Widget):
    """The board, as large as it fits, or a line that says how much room it needs."""

    class Clicked(Message):
        def __init__(self, move: Move):
            super().__init__()
            self.move = move

    def __init__(self, board_size: int, draw: Callable[[int], Sequence[Text]]):
        super().__init__(id="board")
        self._board_size, self._draw = board_size, draw

    @property
    def cell(self) -> int:
        """Lines of a point; 0 where the board has no room."""
        return largest_cell(self._board_size, *self.size)

    def render(self) -> Group:
        if self.cell:
            return Group(*self._draw(self.cell))
        width, height = board_width(self._board_size), board_height(self._board_size)
        return Group(Text(f"The board needs {width}x{height}, its room is {self.size.width}x{self.size.height}."))

    def on_click(self, event: Click) -> None:
        move = point_at(self._board_size, event.y, event.x, self.cell) if self.cell else None
        if move is not None:
            self.post_message(self.Clicked(move))


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
        yield Static(table)

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


class BoardApp(ArenaApp):
    """A screen around a board: a title, the board, words beside it or below, a status line, the keys."""

    CSS = """
    Static { height: auto; }
    #title, #body, #status { padding: 0 1; }
    #body { height: 1fr; }
    #side { scrollbar-size-vertical: 1; }
    .beside { layout: horizontal; }
    """

    def __init__(self, board_size: int, colours: bool = True):
        super().__init__(colours)
        self.board_size = board_size

    def compose(self) -> ComposeResult:
        yield Static(id="title")
        with Container(id="body"):
            yield BoardPane(self.board_size, self.draw)
            with VerticalScroll(id="side", can_focus=False):
                yield Static(id="words")
        yield Static(id="status")
        yield Footer()

    def draw(self, cell: int) -> Sequence[Text]:
        raise NotImplementedError

    def words(self) -> tuple[Text, Sequence[RenderableType | None], Text]:
        """The title, the blocks beside the board (the most important first, None for missing) and the status line."""
        raise NotImplementedError

    def redraw(self) -> None:
        if not (self.screen_stack and self.is_running):
            return
        title, blocks, status = self.words()
        parts = [part for block in blocks if block is not None for part in (Text(), block)]
        for id, shown in (("title", title), ("words", Group(*parts[1:])), ("status", status)):
            self.query_one(f"#{id}", Static).update(shown)
        self.query_one(BoardPane).refresh()

    def on_resize(self, event: Resize) -> None:
        """Put the text beside the board where there is room, or below it where the board can be larger then."""
        size, width, height = self.board_size, event.size.width - 2, event.size.height - 4
        cell = largest_cell(size, width - GAP - BESIDE, height) if self.colours else 1
        is_beside = width >= board_width(size) + GAP + BESIDE and cell >= largest_cell(size, width, height - BELOW)
        board = self.query_one("#board")
        self.query_one("#body").set_class(is_beside, "beside")
        if is_beside:
            board.styles.width, board.styles.height = board_width(size, max(1, cell)) + GAP, "1fr"
        else:
            cell = largest_cell(size, width, max(height - BELOW, board_height(size))) if self.colours else 1
            board.styles.width = "1fr"
            board.styles.height = min(board_height(size, max(1, cell)), max(1, height - 2))
        self.redraw()


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
    """Textual's standard error with the descriptor of the real one, which processes that are started inherit."""

    def fileno(self) -> int:
        return sys.__stderr__.fileno() if sys.__stderr__ is not None else -1


class ScreenFault(Exception):
    """An error that nobody expected in a handler of the screen; its note is the traceback."""


def run_app(app: ArenaApp) -> None:
    """Show a full screen, then restore the terminal and signal handlers. Raises the exception that ended it early."""
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
