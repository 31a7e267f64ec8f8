"""A board with words beside it or below it: what the screens of a person's game and of a finished game share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Group
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Container
from textual.events import Click, MouseMove, Resize
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Footer

from arena.go.coords import Move, pass_move
from arena.report.board import board_height, board_width, largest_cell, point_at
from arena.tui.app import ArenaApp, Drawn

NUMBERS = "123456789"

BESIDE, GAP = 30, 2
"""Columns that are wanted beside a board, at least, and those between."""

Block = Callable[[int, int], Sequence[Text]]
"""Lines for a width and a height, both in cells; none where that isn't enough."""


def signs_at(moves: Sequence[Move], signs: str, size: int) -> dict[Move, str]:
    """A sign for each of the first moves that is on the board; of a point's moves the first."""
    shown: dict[Move, str] = {}
    for move, sign in zip(moves, signs, strict=False):
        if move != pass_move(size):
            shown.setdefault(move, sign)
    return shown


class BoardPane(Widget):
    """The board, as large as its room allows, or what room it needs."""

    class Pointed(Message):
        """The mouse is over a point, or was clicked there."""

        def __init__(self, move: Move, is_click: bool):
            super().__init__()
            self.move = move
            self.is_click = is_click

    def __init__(self, board_size: int, draw: Callable[[int], Sequence[Text]]):
        super().__init__(id="board")
        self._board_size = board_size
        self._draw = draw

    @property
    def cell(self) -> int:
        """Lines of a point; 0 where the board has no room."""
        return largest_cell(self._board_size, *self.size)

    def render(self) -> Group:
        if self.cell:
            return Group(*self._draw(self.cell))
        width, height = board_width(self._board_size), board_height(self._board_size)
        return Group(Text(f"The board needs {width}x{height}, its room is {self.size.width}x{self.size.height}."))

    def on_mouse_move(self, event: MouseMove) -> None:
        self._point(event.x, event.y, False)

    def on_click(self, event: Click) -> None:
        self._point(event.x, event.y, True)

    def _point(self, x: int, y: int, is_click: bool) -> None:
        move = point_at(self._board_size, y, x, self.cell) if self.cell else None
        if move is not None:
            self.post_message(self.Pointed(move, is_click))


class BoardApp(ArenaApp):
    """A screen around a board: a title, the board, facts and blocks beside it or below, a status line, the keys."""

    CSS = """
    #title { height: 1; padding: 0 1; }
    #body { height: 1fr; padding: 0 1; }
    #status { height: 1; padding: 0 1; }
    .beside { layout: horizontal; }
    """

    def __init__(self, board_size: int, colours: bool = True):
        super().__init__(colours)
        self.board_size = board_size

    def compose(self) -> ComposeResult:
        yield Drawn(lambda width, _: self.title_lines(width), id="title")
        with Container(id="body"):
            yield BoardPane(self.board_size, self.board_lines)
            yield Drawn(self._side, id="side")
        yield Drawn(lambda width, _: self.status_lines(width), id="status")
        yield Footer()

    def title_lines(self, width: int) -> Sequence[Text]:
        """What is played."""
        raise NotImplementedError

    def board_lines(self, cell: int) -> Sequence[Text]:
        """The board with points of this size."""
        raise NotImplementedError

    def blocks(self) -> Sequence[Block]:
        """What stands beside the board, the most important first."""
        raise NotImplementedError

    def status_lines(self, width: int) -> Sequence[Text]:
        """What was said last, and what is being typed."""
        raise NotImplementedError

    def redraw(self) -> None:
        """Draw everything anew: something has changed."""
        if self.screen_stack and self.is_running:
            for name in ("title", "status"):
                pane = self.query_one(f"#{name}", Drawn)
                height = len(pane.draw(max(1, self.size.width - 2), 1))
                if pane.styles.height is None or pane.styles.height.value != height:
                    pane.styles.height = height
            for each in self.query("#title, #board, #side, #status").results(Widget):
                each.refresh()

    def on_resize(self, event: Resize) -> None:
        """Beside the board there are words where it leaves room for them, else below it."""
        size, width, height = self.board_size, event.size.width - 2, event.size.height - 4
        cell = largest_cell(size, width - GAP - BESIDE, height) if self.colours else 1
        is_beside = width >= board_width(size) + GAP + BESIDE
        board = self.query_one("#board")
        self.query_one("#body").set_class(is_beside, "beside")
        if is_beside:
            board.styles.width, board.styles.height = board_width(size, max(1, cell)) + GAP, "1fr"
        else:
            board.styles.width, board.styles.height = "1fr", min(board_height(size), max(1, height - 2))
        self.redraw()

    def _side(self, width: int, height: int) -> Sequence[Text]:
        """As many of the blocks as fit, with an empty line before each where there is one."""
        lines: list[Text] = []
        for block in self.blocks():
            room = height - len(lines)
            gap = 1 if lines and room > 1 else 0
            found = list(block(width, room - gap)) if room > gap else []
            if found:
                lines += [*[Text()] * gap, *found[: room - gap]]
        return lines
