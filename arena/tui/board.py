"""A board with text beside or below it, which the screens of a person's game and of a finished game share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Group, RenderableType
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Container, VerticalScroll
from textual.events import Click, Resize
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Footer, Static

from arena.go.coords import Move
from arena.report.board import board_height, board_width, largest_cell, point_at
from arena.tui.app import ArenaApp

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
        """The title, the blocks beside the board (the most important first, None for those that are missing) and the
        status line."""
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
