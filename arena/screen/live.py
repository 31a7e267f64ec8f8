"""An event while it is played: live on a terminal, plain lines elsewhere; and where everything on the screen stands.

A frame draws progress, pace, the board that is watched, and the figures, which are those of a match or a tournament.
"""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property, lru_cache
from itertools import islice
from time import monotonic
from typing import Any, Generic, TypeVar

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.status import Status
from rich.table import Table
from rich.text import Text

from arena.go.coords import BLACK, WHITE, Colour, Move, gtp_from_move
from arena.go.game import Game, Rules
from arena.match.runner import Control, Update
from arena.match.schedule import Event
from arena.match.worker import Snapshot
from arena.report import style
from arena.report.board import (
    DARK,
    SMALLEST,
    Cell,
    Theme,
    board_height,
    board_width,
    draw_board,
    largest_cell,
    stone_sign,
)
from arena.screen.running import EventView, Watched
from arena.screen.terminal import Press, Stage

V = TypeVar("V", bound=EventView[Any])

FACTS = 50
"""Columns of the figures; the board stands beside them where there is room for both, else below them, else nowhere."""

GAP = 4
TIMES = 28

AROUND = 12
"""Lines above and below a board with large points."""

WALL = 16
"""Boards that are shown at once, at most."""

PAUSED = ("PAUSED: no bot is asked for a move and no clock runs", "PAUSED")


class Layout(Enum):
    """Where the board stands; CUT is where not even the figures have the room they want."""

    BESIDE = auto()
    BELOW = auto()
    NO_BOARD = auto()
    CUT = auto()


@dataclass(frozen=True, slots=True)
class Hint:
    """Wordings of one line, the longest first: it is shown below where there is room, or anyway where it insists."""

    wordings: tuple[str, ...] = ()
    insists: bool = False


@dataclass(frozen=True, slots=True)
class Room:
    """The area that a frame is drawn into: maximum columns and lines, signs and colours."""

    width: int
    height: int
    spinner: Spinner
    hint: Hint = Hint()
    theme: Theme = DARK
    has_wall: bool = False


class Frame(ABC, Generic[V]):
    """One drawing of a view for any room. It keeps nothing."""

    widest = 100
    figures = FACTS
    """Columns that are kept for the figures before the points of the board are made larger."""

    panel = 0
    """Columns that are kept for more to the right of the board, with the gap before it."""

    def __init__(self, view: V, room: Room):
        self.view = view
        self.event = view.event
        self.room = room
        self.height = room.height
        self.size = view.event.terms.rules.size
        self.cell = self._largest(self.figures + GAP)
        self.width = min(room.width, self._widened(self.widest))
        self.names = list(view.event.players)

    def _largest(self, beside: int) -> Cell:
        """How large the points of the board are, with ``beside`` columns kept for the rest."""
        return largest_cell(self.size, self.room.width - beside, self.height - AROUND, self.room.theme)

    def _widened(self, width: int) -> int:
        """The width, and what large points add to it."""
        return width + board_width(self.size, self.cell) - board_width(self.size)

    @property
    def board_size(self) -> tuple[int, int]:
        """Columns and lines of the board."""
        return board_width(self.size, self.cell), board_height(self.size, self.cell)

    @abstractmethod
    def _title(self) -> list[Text]:
        """Who plays what."""

    @abstractmethod
    def _facts(self, width: int, height: int) -> list[Text]:
        """The figures, in at most ``height`` lines where they can be cut or spread; ``height`` 0 is the least."""

    @abstractmethod
    def _colour_of(self, player: str) -> str:
        """The style of a player's name."""

    def draw(self) -> RenderableType:
        """All of it; of a finished match the head alone."""
        head = [*self._title(), *self._progress(), self._note(), *self._nodes(), *self._warning()]
        if self.view.finished:
            return Group(*head)
        lines = self.height - len(head)
        if self.room.has_wall:
            return Group(
                *head, Text(), *self._wall(lines - 2), self._text(style.clip(WALL_HINT, self.width), style.LABEL)
            )
        hint = next((words for words in self.room.hint.wordings if cell_len(words) <= self.width), "")
        below = [self._text(hint, style.LABEL)] if hint else []
        layout = self._layout(lines)
        if not self.room.hint.insists and (layout is Layout.CUT or self._layout(lines - 1) is not layout):
            below = []
        elif below and self._layout(lines - 2) is layout:
            below.insert(0, Text())
        return Group(*head, *self._body(lines - len(below)), *below)

    def _layout(self, lines: int) -> Layout:
        """Where the board stands below the head."""
        board, board_lines = self.board_size[0], self.board_size[1] + 3
        width, room = self._facts_width(board), lines - 1
        if self.width - self.panel - width - GAP >= board and room >= board_lines:
            return Layout.BESIDE
        if not self.panel and self.width >= board and room >= self._least_facts + board_lines:
            return Layout.BELOW
        return Layout.NO_BOARD if room >= self._least_facts else Layout.CUT

    @cached_property
    def _least_facts(self) -> int:
        """Lines that the figures take at least."""
        return len(self._facts(self._facts_width(self.board_size[0]), 0))

    def _body(self, lines: int) -> list[RenderableType]:
        """All below the head, with an empty line between the two where there is room for it."""
        width, room = self._facts_width(self.board_size[0]), lines - 1
        match self._layout(lines):
            case Layout.BESIDE:
                beside = self.width - self.panel - width - GAP
                board = self._board(min(beside, max(self.board_size[0], 40)))
                return [Text(), self._columns((self._facts(width, room), width), (board, beside), room=room)]
            case Layout.BELOW:
                spare = room - self.board_size[1] - 3
                facts = self._facts(width, max(self._least_facts, spare - 1))
                return [Text(), *facts, *[Text()][: spare - len(facts)], *self._board(width)]
            case _:
                facts = self._facts(width, room)
                body: list[RenderableType] = [*([Text()] if len(facts) <= room else []), *facts]
                return body[: max(0, lines)]

    def _columns(self, *blocks: tuple[list[Text], int], room: int) -> Table:
        """Blocks of lines side by side with the given widths; the panel is last."""
        if self.panel:
            blocks = (*blocks, (self._panel(self.panel - GAP, room), self.panel - GAP))
        grid = Table.grid(padding=0)
        cells: list[RenderableType] = []
        for lines, width in blocks:
            if cells:
                grid.add_column(width=GAP)
                cells.append("")
            grid.add_column(width=width, no_wrap=True, overflow="crop")
            cells.append(Group(*lines))
        grid.add_row(*cells)
        return grid

    def _panel(self, width: int, height: int) -> list[Text]:
        """What stands to the right of the board where ``panel`` columns are kept for it."""
        return []

    def _facts_width(self, board: int) -> int:
        """Columns of the figures, beside a board so wide."""
        return min(self.width, FACTS)

    def _text(self, text: str, text_style: str = "") -> Text:
        """The style is the words' own: what is appended later doesn't take it over."""
        return Text(no_wrap=True, overflow="crop").append(style.spell(text), text_style)

    def _left(self, text: str, width: int, text_style: str = "") -> Text:
        """In exactly ``width`` cells."""
        return style.pad(self._text(text, text_style), width)

    def _right(self, text: str, width: int, text_style: str = "") -> Text:
        return style.right(self._text(text, text_style), width)

    def _name(self, name: str, width: int) -> Text:
        return self._text(style.shorten(name, width), self._colour_of(name))

    # The head: how far it is, how fast it goes.

    def _progress(self) -> list[RenderableType]:
        view, total = self.view, self.event.games
        digits = len(str(total))
        count = self._text(f"{view.stored:{digits}d}", "bold").append(f" of {total}", "not bold")
        wide = self.width >= 70
        count_width = 2 * digits + 4
        bar_width = self.width - count_width - TIMES - 2 if wide else self.width
        blue = style.FIRST.removeprefix("bold ")
        bar = ProgressBar(total, view.stored, bar_width, complete_style=blue, finished_style=blue)
        grid = Table.grid(padding=0)
        grid.add_column(width=bar_width)
        if not wide:
            grid.add_row(bar)
            return [
                grid,
                count.append_text(style.right(self._times(self.width - count_width), self.width - count_width)),
            ]
        for column in (2, count_width, TIMES):
            grid.add_column(width=column, no_wrap=True, overflow="crop")
        grid.add_row(bar, "", style.pad(count, count_width), style.right(self._times(TIMES), TIMES))
        return [grid]

    def _times(self, width: int) -> Text:
        """How long it has been going on, and how long it will."""
        spent, left = style.duration(self.view.elapsed), style.duration(self.view.seconds_left)
        if not left:
            return self._left(f"{spent:>7}", width)
        about = "at most" if self.view.may_end_early else "about"
        rest = f"{about} {left} left"
        if len(rest) + 9 > width:
            rest = f"{left} left"
        if len(rest) + 8 > width:
            rest = ""
        return self._text(f"{spent:>7}" + rest.rjust(width - 7))

    def _note(self) -> RenderableType:
        view = self.view
        if view.is_paused:
            words = next(words for words in PAUSED if len(words) <= self.width)
            return self._text(words, style.WARNING)
        earlier = f"{view.resumed} of {self.event.games} played earlier" if view.resumed else ""
        if view.is_starting:
            words = style.clip(f"starting; {view.start.words}", max(20, self.width - 2))
            self.room.spinner.update(text=self._text(f"starting · {earlier}" if earlier else words, style.LABEL))
            return self.room.spinner
        workers = style.some(view.workers, "worker") if view.workers else ""
        if view.nodes is not None and view.workers:
            workers += f" on {style.some(len(view.nodes), 'node')}"
        if view.resumed and self.width < 60:
            earlier = f"{view.resumed} earlier"
        games, moves = style.rate(view.games_a_second, "games"), style.rate(view.moves_a_second, "moves")
        first = "games under way" if view.stored < self.event.games else ""
        parts = (games, view.stage, moves, earlier, workers) if view.played else (first, view.stage, earlier, workers)
        return self._text(style.joined(parts, self.width), style.LABEL)

    def _nodes(self) -> list[Text]:
        """How fast each node of a cluster is: the fastest, where there isn't room for all."""
        paces = sorted((self.view.nodes or {}).items(), key=lambda node: (-node[1], node[0]))
        if not paces or not self.view.played:
            return []
        words = [f"{name} {style.rate(pace, 'games')}" for name, pace in paces]
        shown = next(
            (
                " · ".join(parts)
                for most in range(len(words), 0, -1)
                if cell_len(" · ".join(parts := [*words[:most], *_more(len(words) - most)])) <= self.width
            ),
            words[0],
        )
        return [self._text(style.clip(shown, self.width), style.LABEL)]

    def _warning(self) -> list[Text]:
        words = style.waiting(self.view.waiting) or self.view.warning or self.view.news
        if self.view.nodes is not None and not self.view.nodes and self.view.workers:
            words = "no node is left; the games wait for one to join"
        return [self._text(style.clip(f"! {words}", self.width), style.WARNING)] if words else []

    # The board.

    def _board(self, width: int) -> list[Text]:
        """A caption, the position, and both players; as many lines before the first game as later."""
        watched = self.view.boards.watched
        if watched is None:
            return [Text(), *_drawn(self.event.terms.rules, (), None, self.room.theme, self.cell), Text(), Text()]
        position = _drawn(self.event.terms.rules, watched.moves, watched.ownership, self.room.theme, self.cell)
        return [self._caption(watched, width), *position, *(self._thinker(watched, colour, width) for colour in Colour)]

    def _wall(self, height: int) -> list[RenderableType]:
        """As many of the games under way as there is room for, each below its number and move."""
        rules, width = self.event.terms.rules, board_width(self.size) + 2
        across = max(1, (self.room.width + 2) // width)
        down = max(1, height // (board_height(self.size) + 2))
        watched = self.view.boards.watched
        games: Sequence[Snapshot | Watched] = self.view.boards.seated[: min(WALL, across * down)]
        if not games and watched is not None:
            games = [watched]
        lines: list[RenderableType] = []
        for at in range(0, len(games), across):
            row = games[at : at + across]
            boards = [_drawn(rules, game.moves, game.ownership, self.room.theme, SMALLEST) for game in row]
            heads = [f"game {game.pairing.number + 1}, move {len(game.moves)}" for game in row]
            lines.append(Text("").join(self._left(style.clip(head, width - 2), width) for head in heads))
            for parts in zip(*boards, strict=True):
                lines.append(Text("  ").join(parts))
            lines.append(Text())
        return lines[: max(0, height)] or [self._text("No game is under way.", style.LABEL)]

    def _caption(self, watched: Watched, width: int) -> Text:
        """Which game, which of the boards, and what happened last: what there is room for."""
        number, place = len(watched.moves), self.view.boards.place
        game = f"game {watched.pairing.number + 1}"
        if watched.record is not None and watched.record.outcome is not None:
            return self._text(style.clip(f"{game}: {watched.record.outcome.sgf}, {style.some(number, 'move')}", width))
        move = ""
        if watched.moves:
            sign = stone_sign(BLACK if number % 2 else WHITE)
            move = f"{sign} {gtp_from_move(watched.moves[-1], self.event.terms.rules.size)}"
        tale = f", move {number}: {move}" if move else ""
        wordings = [f"{game}{tale}", f"{game}: {move}" if move else game, game]
        if place is not None and place[1] > 1:
            board = f"board {place[0]} of {place[1]}"
            short = f"{game} ({place[0]}/{place[1]})"
            wordings = [f"{game}, {board}{tale}", f"{short}{tale}", f"{short}: {move}" if move else short, short, game]
        words = next((words for words in wordings if cell_len(words) <= width), game)
        return self._text(words)

    def _thinker(self, watched: Watched, colour: Colour, width: int) -> Text:
        """A player of the watched game, and how it has seen its chances."""
        name = watched.pairing.black if colour is BLACK else watched.pairing.white
        told = watched.win_rates[0 if colour is BLACK else 1 :: 2]
        rates = [rate for rate in told if rate is not None]
        line = self._text(f"{stone_sign(colour)} ")
        if not rates:
            return line.append_text(self._name(name, width - 2))
        named = min(20, width - 15)
        line.append_text(style.pad(self._name(name, named), named + 1))
        spark = style.sparkline(rates, min(16, width - line.cell_len - 6))
        line.append_text(self._text(spark, self._colour_of(name)))
        return line.append_text(self._right(f"{100 * rates[-1]:.0f} %", width - line.cell_len))


def _more(number: int) -> list[str]:
    return [f"{number} more"] if number else []


@lru_cache(maxsize=2 * WALL)
def _drawn(
    rules: Rules, moves: tuple[Move, ...], ownership: bytes | None, theme: Theme, cell: Cell
) -> tuple[Text, ...]:
    """The position after these moves; most of a frame's boards are those of the frame before."""
    game = Game(rules)
    for move in moves:
        game.play(move)
    last = moves[-1] if moves else None
    return tuple(draw_board(game.board.stones, last, ownership=ownership, theme=theme, cell=cell))


# --- The screen and its keys ---

FRAME_EVERY = 1 / 6
"""Seconds between two frames, unless a key was pressed."""

LINE_EVERY = 5.0
"""Seconds between two plain lines, at least; a hundredth of the time played when that is more."""


WALL_HINT = "w one board · q quit"

HINTS = ("n/p other board · w all boards · space pause · q quit · ? keys", "n/p board · space pause · q quit")
HELP = (
    "n → next board · p ← previous · w all boards · space pause · q quit, the same command resumes · ? fewer words",
    "n next · p previous · w all · space pause · q quit, stored games stay · ? less",
    "n → next, p ← previous board · space pause · q quit · ?",
    "n p board · space pause · q quit · ?",
)
"""What can be pressed, the longest wording first."""

WATCHER_HINTS = ("n/p other board · w all boards · q quit · ? keys", "n/p board · w all · q quit")
WATCHER_HELP = ("n → next board · p ← previous board · w all boards · q quit · ? fewer words", "n p board · q quit · ?")
"""The same where nobody can pause."""

SETTLED = 3
"""Updates after which everybody has heard of a pause."""


class LiveScreen(Generic[V]):
    """A view as a Rich renderable, and what is done with it by keys. Without a ``control`` an event can't be paused."""

    def __init__(
        self, view: V, frame: Callable[[V, Room], Frame[V]], control: Control | None = None, theme: Theme = DARK
    ):
        self.view = view
        self._frame = frame
        self.control = control
        self._theme = theme
        self.has_keys = False  # a person can press some, and is told which
        self.shows_help = False
        self.has_wall = False
        self._spinner = Spinner("dots")

    def add(self, update: Update) -> None:
        """Take in what has happened."""
        if self.control is not None:
            self.view.pause(self.control.paused)  # whoever asked for it
        self.view.add(update)

    def press(self, key: str) -> None:
        """Do what a key asks for; other keys do nothing. Raises KeyboardInterrupt to quit at
        once."""
        match key.lower():
            case "q":
                if self.control is None or self.control.finishing or self.control.paused:
                    raise KeyboardInterrupt
                self.control.finishing = True
            case " " if self.control is not None:
                self.pause(not self.control.paused)
            case "?":
                self.shows_help = not self.shows_help
            case "w":
                self.has_wall = not self.has_wall
            case "n" | "right":
                self.view.boards.choose(1)
            case "p" | "left":
                self.view.boards.choose(-1)

    def pause(self, paused: bool) -> None:
        """Have the event rest, or go on."""
        if self.control is not None:
            self.control.paused = paused
            self.view.pause(paused)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        hint = self._hint() if self.has_keys else Hint()
        room = Room(options.max_width, console.height - 1, self._spinner, hint, self._theme, self.has_wall)
        yield self._frame(self.view, room).draw()

    def _hint(self) -> Hint:
        hints, help = (HINTS, HELP) if self.control is not None else (WATCHER_HINTS, WATCHER_HELP)
        if self.shows_help:
            return Hint(help, insists=True)
        space = "space resume" if self.view.is_paused else "space pause"
        return Hint(tuple(words.replace("space pause", space) for words in hints))


def show_event(screen: LiveScreen[Any], updates: Iterator[Update], console: Console) -> None:
    """Show an event until its updates end or it is decided: live on a terminal, where keys choose the board that is
    shown, pause, and finish as Ctrl-C does; elsewhere plain lines, the view's ``head`` and then its ``progress``.

    What ends it early, such as KeyboardInterrupt, leaves the last state on the screen and comes through after
    ``updates`` has been closed.
    """
    person = any(entry.is_person for entry in screen.view.event.players.values())
    is_live = console.is_terminal and not console.is_dumb_terminal and not person
    try:
        if is_live:
            _show_live(screen, updates, console)
        else:
            _show_lines(screen.view, updates, console)
    finally:
        close = getattr(updates, "close", None)
        if close is not None:
            with _waiting(console) if is_live else nullcontext():
                close()


def _show_live(screen: LiveScreen[Any], updates: Iterator[Update], console: Console) -> None:
    was_paused, drawn = False, 0.0

    def rest() -> None:
        """Before the process is stopped, the bots are paused."""
        nonlocal was_paused
        was_paused = screen.view.is_paused
        screen.pause(True)
        for update in islice(updates, SETTLED):
            screen.add(update)

    ends = screen.control is None or signal.getsignal(signal.SIGTERM) is signal.SIG_DFL  # else the event is finished
    try:
        with Stage(console, rest, lambda: screen.pause(was_paused), mouse=False, ends=ends) as stage:
            for update in updates:
                screen.add(update)
                screen.has_keys = stage.hears
                while (typed := stage.next(0)) is not None:
                    drawn = 0.0
                    if isinstance(typed, Press):
                        screen.press(typed.key)
                if monotonic() >= drawn + FRAME_EVERY:
                    stage.draw(screen)
                    drawn = monotonic()
            screen.view.finish()
    finally:
        screen.has_keys = False
        console.print(screen)


def _waiting(console: Console) -> Status:
    """Says below the last frame what takes a moment: bots that are busy are given some time to end."""
    return console.status(Text("Stopping the bots …", style.LABEL))


def _show_lines(view: EventView[Any], updates: Iterator[Update], console: Console) -> None:
    def write(text: str) -> None:
        console.print(Text(style.spell(text)), soft_wrap=True)

    games = view.event.games
    write(view.head)
    written, tenths, resumed = view.clock(), 0, 0

    def tell_resumed() -> None:
        nonlocal resumed
        if view.resumed > resumed:  # once all of them are counted
            write(f"{view.resumed} of {games} games were played earlier")
            resumed = view.resumed

    for update in updates:
        if not update.resumed:
            tell_resumed()
        if update.waiting and not view.waiting:
            write(style.waiting(update.waiting))
        view.add(update)
        for line in update.news:
            write(line)
        if update.records and not update.resumed and view.stored < games:
            waited = view.clock() - written
            if waited >= max(LINE_EVERY, view.elapsed / 100) or 10 * view.stored // games > tenths:
                write(view.progress)
                written = view.clock()
        tenths = 10 * view.stored // games
    tell_resumed()
    view.finish()


def setting_line(event: Event) -> str:
    """What is played, in a few words."""
    rules = event.terms.rules
    return f"{rules.size}x{rules.size}, {rules.name} rules, komi {rules.komi:g}"
