"""Draws one renderable again and again in place. What it shows, and any lock it needs, is its own affair."""

from __future__ import annotations

from threading import Event, Thread
from types import TracebackType
from typing import Self

from rich.console import Console, ConsoleDimensions, RenderableType
from rich.control import Control
from rich.segment import ControlType, Segment, Segments


class Painter:
    """A context in which ``renderable`` is on the terminal; its last state stays there.

    Lines are written over, never erased first as ``rich.live`` does it: that flickers where a terminal is slow to read.
    """

    def __init__(self, renderable: RenderableType, console: Console, frames_a_second: float):
        self._renderable = renderable
        self._console = console
        self._pause = 1 / frames_a_second
        self._over = Event()
        self._thread = Thread(target=self._run, name="painter", daemon=True)
        self._lines = 0  # on the terminal now, above the cursor
        self._size: ConsoleDimensions | None = None

    def __enter__(self) -> Self:
        self._console.show_cursor(False)
        self._paint()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        try:
            self._paint()
        finally:
            self._console.show_cursor(True)

    def _run(self) -> None:
        while not self._over.wait(self._pause):
            self._paint()

    def _paint(self) -> None:
        console, size = self._console, self._console.size
        lines = console.render_lines(self._renderable, pad=False)[: size.height - 1]
        if self._size not in (None, size):  # the terminal has wrapped the old lines anew: nobody knows where they are
            segments = [Control.clear().segment, Control.home().segment]
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
        console.print(Segments(segments), end="", crop=False)
        self._lines, self._size = len(lines), size


def _up(lines: int) -> Segment:
    return Control((ControlType.CURSOR_UP, lines)).segment
