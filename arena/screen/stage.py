"""The whole terminal for one person: what is typed and what other threads tell comes in order, what is drawn fills the
screen. No layout, no keys with a meaning but Ctrl-Z.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Self

from rich.console import Console, ConsoleDimensions
from rich.control import Control
from rich.segment import ControlType, Segment, Segments
from rich.text import Text

from arena.screen.terminal import Keyboard, is_background, on_signals
from arena.screen.typed import Gone, Press

KEYBOARD = 0
"""The file descriptor that is read."""


def has_stage(console: Console) -> bool:
    """Whether a person sits at a terminal that can show a screen and sends keys."""
    return console.is_terminal and not console.is_dumb_terminal and os.isatty(KEYBOARD)


class Stage:
    """A context in which the terminal shows what ``draw`` is given, on a screen of its own, as editors do: what was
    there before comes back in the end, whatever happens.

    SIGTERM and SIGHUP come out of ``next`` as SystemExit, Ctrl-C as KeyboardInterrupt; Ctrl-Z stops the process and is
    no concern of who draws, but that ``on_stop`` is called before and ``on_continue`` after it.
    """

    def __init__(
        self,
        console: Console,
        on_stop: Callable[[], None] = lambda: None,
        on_continue: Callable[[], None] = lambda: None,
    ):
        self._console = console
        self._on_stop = on_stop
        self._on_continue = on_continue
        self._told: SimpleQueue[Any] = SimpleQueue()
        self._keyboard = Keyboard(self._told.put, KEYBOARD, mouse=True)
        self._exits = ExitStack()
        self._ending: SystemExit | None = None
        self._suspending = False
        self._shown: tuple[ConsoleDimensions, list[list[Segment]]] | None = None

    def __enter__(self) -> Self:
        handlers = {
            signal.SIGTERM: lambda: self._end(signal.SIGTERM),
            signal.SIGHUP: lambda: self._end(signal.SIGHUP),
            signal.SIGWINCH: self._wake,
            signal.SIGTSTP: self._ask_to_suspend,
            signal.SIGCONT: self._wake_anew,
        }
        with ExitStack() as exits:
            exits.enter_context(on_signals(handlers))
            exits.callback(self._clear)
            exits.enter_context(self._keyboard)
            self._prepare()
            self._exits = exits.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exits.close()

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        return self._console.width, self._console.height

    @property
    def is_behind(self) -> bool:
        """Whether more is waiting to be heard already: what is drawn now would be old at once."""
        return not self._told.empty()

    def tell(self, what: object) -> None:
        """Have ``next`` return this in its turn: for other threads."""
        self._told.put(what)

    def next(self, seconds: float | None = None) -> Any:
        """What was typed (see ``typed``) or told; None when so many seconds have passed, or the screen is to be drawn
        anew. Raises SystemExit when the process is to end."""
        what: Any = None
        with suppress(Empty):
            what = self._told.get(timeout=seconds)
        if self._ending is not None:
            raise self._ending
        if self._suspending or what == Press("ctrl-z"):
            self._suspend()
            return None
        return what

    def draw(self, lines: Sequence[Text]) -> None:
        """Fill the screen with these lines; what doesn't fit isn't shown."""
        if is_background(KEYBOARD):
            return
        console, size = self._console, self._console.size
        rows = [
            Segment.adjust_line_length(list(line.render(console)), size.width, pad=False)
            for line in lines[: size.height]
        ]
        if self._shown == (size, rows):
            return
        erase = Control((ControlType.ERASE_IN_LINE, 0)).segment
        segments = [Control.home().segment]
        for number, row in enumerate([*rows, *([[]] * (size.height - len(rows)))]):
            if number:
                segments.append(Segment.line())
            segments += row
            if sum(segment.cell_length for segment in row) < size.width:
                segments.append(erase)
        self._print(Segments(segments))
        self._shown = size, rows

    def _print(self, what: Control | Segments) -> None:
        try:
            self._console.print(what, end="", crop=False)
        except OSError:
            self._told.put(Gone())

    def _prepare(self) -> None:
        self._shown = None
        self._print(Control.alt_screen(True))
        self._print(Control.show_cursor(False))

    def _clear(self) -> None:
        self._print(Control.show_cursor(True))
        self._print(Control.alt_screen(False))

    def _suspend(self) -> None:
        self._suspending = False
        self._clear()
        self._on_stop()
        self._keyboard.suspend()
        self._on_continue()
        self._prepare()

    # Signals may come in the midst of anything: they only take notes, and wake who waits.

    def _end(self, number: signal.Signals) -> None:
        self._ending = SystemExit(128 + number)
        self._wake()

    def _ask_to_suspend(self) -> None:
        self._suspending = True
        self._wake()

    def _wake(self) -> None:
        self._told.put(None)

    def _wake_anew(self) -> None:
        self._shown = None
        self._wake()
