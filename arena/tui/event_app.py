"""A running event on the full screen: figures, boards, the curve, standings, and the games that ended last."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import lru_cache
from time import monotonic
from typing import Any, ClassVar

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Container, VerticalScroll
from textual.events import Click, Resize
from textual.widgets import ContentSwitcher, Footer, Static

from arena.go.coords import Move
from arena.go.game import Game, Rules
from arena.match.runner import Control, Update
from arena.report import figures, style
from arena.report.board import LARGEST, board_height, board_width, draw_board, largest_cell, legend
from arena.results.event_state import RECENT, EventState
from arena.tui.app import ArenaApp, Pane, run_app

FRAME_SECONDS, REPORT_SECONDS = 0.4, 1.0  # seconds between two drawings of figures, and of the whole report, at least
FIGURES_WIDTH, GAP = 50, 4  # columns of the figures beside a board, at least, and those between
AROUND, BELOW = 4, 12
"""Lines above and below a board: what it is, its players, a legend; and lines of figures wanted above it."""

EVENT_END_SECONDS = 5.0  # seconds in which an event ends after its screen has closed, before it is left behind
CURVE, NAME = 16, 20  # lines of the curve below a match's figures, at most, and columns of a board's name in the wall
WALL = 16


class EventApp(ArenaApp):
    """A running event. A thread reads its updates; the state and the screen change only in Textual's own thread."""

    CSS = """
    Static { height: auto; }
    #head { padding: 0 1; }
    ContentSwitcher { height: 1fr; margin: 1 1 0 1; }
    #left VerticalScroll { height: auto; max-height: 100%; }
    VerticalScroll { scrollbar-size-vertical: 1; }
    .beside { layout: horizontal; }
    """
    BINDINGS: ClassVar[list[Any]] = [
        Binding("question_mark", "keys", "Keys"),
        Binding("q", "finish", "Stop"),
        Binding("space", "pause", "Pause"),
        Binding("n,right", "watch(1)", "Next"),
        Binding("left", "watch(-1)", "Previous board", show=False),
        Binding("p", "pin", "Pin"),
        Binding("w", "view('wall')", "Boards"),
        Binding("c", "view('curve')", "Curve"),
        Binding("s", "view('standings')", "Table"),
        Binding("g", "view('games')", "Games"),
        Binding("escape", "view('overview')", "Overview", show=False),
    ]

    def __init__(self, state: EventState, updates: Iterator[Update], control: Control, colours: bool = True):
        super().__init__(colours)
        self.state, self.control = state, control
        self.title = f"arena: {' vs '.join(state.event.players) if state.standings.is_match else state.event.event}"
        self.rules = state.event.terms.rules
        self._updates = updates
        self._stops = threading.Event()
        self._is_new = True
        self._reported = 0.0
        self._was_paused = False
        self._thread = threading.Thread(target=self._take_updates, name="event", daemon=True)

    # --- The event ---

    def _take_updates(self) -> None:
        try:
            with closing(self._updates):  # type: ignore[type-var]
                for update in self._updates:
                    self.call_later(self._add, update)
                    if self._stops.is_set():
                        break
        except BaseException as error:  # raised again where the screen was opened
            self.ending = error
        self.call_later(self._end)

    def _add(self, update: Update) -> None:
        self.state.pause(self.control.paused)  # whoever asked for it
        self.state.add(update)
        self._is_new = True

    def _end(self) -> None:
        self.state.pause(False, finished=True)
        self._redraw()
        if not self.is_web or self.ending is not None:  # in a browser, the screen is all that there is
            self.exit()

    def action_leave(self, error: BaseException | None = None) -> None:
        """Stop the event; the screen closes when it has ended, or at the second call."""
        if self._stops.is_set() or not self._thread.is_alive():
            super().action_leave(error)
            return
        self.ending = self.ending or error
        self._stops.set()
        self.notify("Stopping the bots …", timeout=60)

    def stop(self) -> bool:
        """End an event whose screen has closed; returns whether nothing else had asked for its end."""
        if not self._thread.is_alive():
            return False
        is_new = self.ending is None
        self._stops.set()
        self._thread.join(None if is_new else EVENT_END_SECONDS)
        return is_new

    def action_finish(self) -> None:
        if self.control.finishing or self.control.paused or self.state.finished:
            self.action_leave(KeyboardInterrupt())
        self.control.finishing = True

    def action_pause(self) -> None:
        self.control.paused = not self.control.paused
        self.state.pause(self.control.paused)
        self._redraw()

    def pause(self, stops: bool) -> None:
        if stops:
            self._was_paused = self.control.paused
        if self.control.paused is not (stops or self._was_paused):
            self.action_pause()

    # --- The screen ---

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        with ContentSwitcher(initial="overview"):
            with Container(id="overview"):
                with Container(id="left"):
                    with VerticalScroll(can_focus=False):
                        yield Static(id="figures")
                    yield Pane(self._small_curve)
                yield Pane(self._board, id="board")
            yield Pane(self._wall, id="wall")
            yield Pane(self._large_curve, id="curve")
            with VerticalScroll(id="standings"):
                yield Static(id="report")
            with VerticalScroll(id="games"):
                yield Static(id="last")
        yield Footer()

    def on_mount(self) -> None:
        super().on_mount()
        self.set_interval(FRAME_SECONDS, lambda: self._redraw() if self._is_new else None)
        self.set_interval(1.0, self._redraw)

    def on_ready(self) -> None:
        """Begin once the panes exist: an event may be over at once."""
        self._thread.start()

    def _redraw(self) -> None:
        self._is_new = False
        self.state.watch_live_game()
        if not self.query("#head"):  # the screen is closing
            return
        shown = self.query_one(ContentSwitcher).current
        self.query_one("#head", Static).update(Group(*figures.header(self.state)))
        if monotonic() >= self._reported + REPORT_SECONDS:
            self._reported = monotonic()
            for id in ("#figures", "#report"):
                self.query_one(id, Static).update(Group(*figures.figures(self.state)))
            self.query_one("#last", Static).update(figures.recent_games(self.state, RECENT))
        for pane in self.query(f"#{shown}, #{shown} Pane").results(Pane):
            pane.refresh()

    def action_view(self, name: str) -> None:
        switcher = self.query_one(ContentSwitcher)
        switcher.current = "overview" if switcher.current == name else name
        self._reported = 0.0
        self._redraw()

    def action_watch(self, step: int) -> None:
        self.state.watch(step)
        self._redraw()

    def action_pin(self) -> None:
        """Keep watching this board when its game is over, or no longer."""
        self.state.is_pinned = not self.state.is_pinned
        self._redraw()

    def on_resize(self, event: Resize) -> None:
        """The board stands beside the figures where there is room for both, else below them, else nowhere."""
        size, width, height = self.rules.size, event.size.width - 2, event.size.height - 6
        cell = largest_cell(size, width - FIGURES_WIDTH - GAP, height - AROUND) if self.colours else 1
        is_beside = width >= FIGURES_WIDTH + GAP + board_width(size) and height >= board_height(size) + AROUND
        is_below = not is_beside and width >= board_width(size) and height >= board_height(size) + AROUND + BELOW
        board = self.query_one("#board")
        self.query_one("#overview").set_class(is_beside, "beside")
        board.display = is_beside or is_below
        board.styles.width = board_width(size, max(1, cell)) if is_beside else "1fr"
        board.styles.height = "1fr" if is_beside else board_height(size) + AROUND
        board.styles.margin = (0, 0, 0, GAP if is_beside else 0)
        self._redraw()

    def _large_curve(self, width: int, height: int) -> Sequence[RenderableType]:
        return figures.curve(self.state, width, height) or [Text("The curve needs more lines.", "dim")]

    def _small_curve(self, width: int, height: int) -> Sequence[RenderableType]:
        """Below a match's figures, where they leave room."""
        has_curve = self.state.standings.is_match and len(self.state.course) > 1
        return ["", *figures.curve(self.state, width, min(height, CURVE) - 1)] if has_curve else []

    # --- Boards ---

    def _board(self, width: int, height: int) -> Sequence[RenderableType]:
        seat, cell = self.state.watched, max(1, largest_cell(self.rules.size, width, height - AROUND))
        if seat is None:
            return ["", *draw_game(self.rules, (), None, cell, self.colours)]
        board = draw_game(self.rules, seat.game.moves, seat.game.ownership, cell, self.colours)
        marks = [] if seat.game.ownership is None else [legend(self.colours)]
        return [figures.caption(self.state, seat), *board, figures.players(self.state, seat), *marks]

    def _wall(self, width: int, height: int) -> Sequence[RenderableType]:
        """As many of the games as there is room for, as large as possible, each below its number and its players."""
        size, boards = self.rules.size, self.state.boards[:WALL]
        for cell in range(LARGEST if self.colours else 1, 0, -1):
            columns, lines = max(NAME, board_width(size, cell)) + 2, board_height(size, cell) + 4
            across, down = max(1, (width + 2) // columns), max(1, (height + 1) // lines)
            if across * down >= len(boards):
                break
        wall = Table.grid(*(Column(width=columns) for _ in range(across)), padding=(0, 0, 1, 0))
        drawn = []
        for seat in boards[: across * down]:
            board = draw_game(self.rules, seat.game.moves, None, cell, self.colours)
            names = figures.players(self.state, seat, columns - 2)
            drawn.append(Group(style.line(figures.board_words(seat)), names, *board))
        for at in range(0, len(drawn), across):
            wall.add_row(*drawn[at : at + across])
        return [wall] if boards else [Text("No game is under way.", "dim")]

    def on_click(self, event: Click) -> None:
        """A click on the board shows the next one."""
        if event.widget is not None and event.widget.id == "board":
            self.action_watch(1)


@lru_cache(maxsize=64)
def draw_game(
    rules: Rules, moves: tuple[Move, ...], ownership: bytes | None, cell: int, colours: bool
) -> tuple[Text, ...]:
    """The position after these moves; most of a frame's boards are those of the frame before."""
    game = Game(rules)
    for move in moves:
        game.play(move)
    last = moves[-1] if moves else None
    return tuple(draw_board(game.board.stones, last, ownership=ownership, cell=cell, colours=colours))


def show_event(state: EventState, updates: Iterator[Update], control: Control, colours: bool = True) -> None:
    """Show an event on the full screen until its updates end, and close them. Raises what ended it early."""
    app = EventApp(state, updates, control, colours)
    try:
        run_app(app)
    finally:
        if app.stop():  # a browser's page was closed
            raise KeyboardInterrupt
