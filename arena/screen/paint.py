"""Draws one renderable again and again in place. What it shows, and any lock it needs, is its own affair."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Self

from rich.console import Console, ConsoleDimensions, RenderableType
from rich.control import Control
from rich.segment import ControlType, Segment, Segments

ERASE_BELOW = Segment("\x1b[0J", control=[(ControlType.CLEAR,)])


class Painter:
    """A context in which ``renderable`` is on the terminal; its last state stays there.

    Lines are written over, never erased first as ``rich.live`` does it: that flickers where a terminal is slow to read.
    While ``is_hidden``, as when another job has the terminal, nothing is drawn but the last state.
    """

    def __init__(
        self,
        renderable: RenderableType,
        console: Console,
        frames_a_second: float,
        is_hidden: Callable[[], bool] = lambda: False,
    ):
        self._renderable = renderable
        self._console = console
        self._pause = 1 / frames_a_second
        self._is_hidden = is_hidden
        self._over = Event()
        self._due = Event()
        self._painting = Lock()
        self._resting = False
        self._displaced = False  # the cursor isn't below our lines
        self._thread = Thread(target=self._run, name="painter", daemon=True)
        self._lines = 0  # on the terminal now, above the cursor
        self._size: ConsoleDimensions | None = None

    def __enter__(self) -> Self:
        self._console.show_cursor(False)
        self._paint()
        self._thread.start()
        return self

    def refresh(self) -> None:
        """Draw as soon as possible."""
        self._due.set()

    def rest(self) -> None:
        """Draw nothing more until ``begin_anew``; the cursor is shown."""
        with self._painting:
            self._resting = True
            self._console.show_cursor(True)

    def begin_anew(self) -> None:
        """Somebody else has written on the terminal: go on below."""
        self._resting, self._displaced = False, True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._over.set()
            self._due.set()
            self._thread.join()
            self._paint()
        finally:
            self._console.show_cursor(True)

    def _run(self) -> None:
        while not self._over.is_set():
            self._due.wait(self._pause)
            self._due.clear()
            with self._painting:
                if self._is_hidden():
                    self._displaced = True
                elif not self._resting and not self._over.is_set():
                    self._paint()

    def _paint(self) -> None:
        console, size = self._console, self._console.size
        if self._displaced:
            self._displaced, self._size, self._lines = False, None, 0
            console.show_cursor(False)
        lines = console.render_lines(self._renderable, pad=False)[: size.height - 1]
        moved = self._size not in (None, size)  # the terminal has wrapped the old lines: nobody knows where they are
        if moved:
            segments = [Control.home().segment]
            self._lines = 0
        else:
            segments = [_up(self._lines)] if self._lines else []
        for line in [*lines, *([[]] * (self._lines - len(lines)))]:
            segments += line
            if sum(segment.cell_length for segment in line) < size.width:  # in the last column it would erase a sign
                segments.append(Control((ControlType.ERASE_IN_LINE, 0)).segment)
            segments.append(Segment.line())
        if self._lines > len(lines):
            segments.append(_up(self._lines - len(lines)))
        if moved:
            segments.append(ERASE_BELOW)
        console.print(Segments(segments), end="", crop=False)
        self._lines, self._size = len(lines), size


def _up(lines: int) -> Segment:
    return Control((ControlType.CURSOR_UP, lines)).segment
