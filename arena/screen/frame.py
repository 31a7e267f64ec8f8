"""What the live screens of all events share: progress, pace, the board to watch, and where each has its place.

A frame is one drawing for any size of terminal. It reads a view and keeps nothing. No figures: ``match_frame`` and
``tournament_frame`` have them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from arena.go.game import Game, Rules
from arena.go.moves import BLACK, WHITE, Colour, Move, gtp_from_move
from arena.screen import style
from arena.screen.board import DARK, Theme, board_height, board_width, draw_board, stone_sign
from arena.screen.boards import Watched
from arena.screen.running import EventView

FACTS = 50
"""Columns of the figures; the board stands beside them where there is room for both, else below them, else nowhere."""

GAP = 4
TIMES = 28

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


class Frame(ABC):
    """Draws a view into ``width`` columns and at most ``height`` lines."""

    widest = 100

    panel = 0
    """Columns that are kept for more to the right of the board, with the gap before it."""

    def __init__(
        self,
        view: EventView[Any],
        width: int,
        height: int,
        ascii_only: bool,
        spinner: Spinner,
        hint: Hint | None = None,
        theme: Theme = DARK,
    ):
        self.event = view.event
        self.width = min(width, self.widest)
        self.height = height
        self.ascii_only = ascii_only
        self.spinner = spinner
        self.names = list(view.event.players)
        self._view = view
        self._hint = hint or Hint()
        self._theme = theme

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
        head = [*self._title(), *self._progress(), self._note(), *self._warning()]
        if self._view.finished:
            return Group(*head)
        lines = self.height - len(head)
        hint = next((words for words in self._hint.wordings if cell_len(words) <= self.width), "")
        below = [self._text(hint, style.LABEL)] if hint else []
        layout = self._layout(lines)
        if not self._hint.insists and (layout is Layout.CUT or self._layout(lines - 1) is not layout):
            below = []
        elif below and self._layout(lines - 2) is layout:
            below.insert(0, Text())
        return Group(*head, *self._body(lines - len(below)), *below)

    def _layout(self, lines: int) -> Layout:
        """Where the board stands below the head."""
        board = board_width(self.event.terms.rules.size)
        board_lines = board_height(self.event.terms.rules.size) + 3
        width, room = self._facts_width(board), lines - 1
        if self.width - self.panel - width - GAP >= board and room >= board_lines:
            return Layout.BESIDE
        if not self.panel and self.width >= board and room >= self._least_facts + board_lines + 1:
            return Layout.BELOW
        return Layout.NO_BOARD if room >= self._least_facts else Layout.CUT

    @cached_property
    def _least_facts(self) -> int:
        """Lines that the figures take at least."""
        return len(self._facts(self._facts_width(board_width(self.event.terms.rules.size)), 0))

    def _body(self, lines: int) -> list[RenderableType]:
        """All below the head, with an empty line between the two where there is room for it."""
        size = self.event.terms.rules.size
        width, room = self._facts_width(board_width(size)), lines - 1
        match self._layout(lines):
            case Layout.BESIDE:
                beside = self.width - self.panel - width - GAP
                board = self._board(min(beside, max(board_width(size), 40)))
                return [Text(), self._columns((self._facts(width, room), width), (board, beside), room=room)]
            case Layout.BELOW:
                facts = self._facts(width, room - board_height(size) - 4)
                return [Text(), *facts, Text(), *self._board(width)]
            case _:
                facts = self._facts(width, room)
                body: list[RenderableType] = [*([Text()] if len(facts) <= room else []), *facts]
                return body[: max(0, lines)]

    def _columns(self, *blocks: tuple[list[Text], int], room: int) -> Table:
        """Blocks of lines side by side, each in so many columns; the panel comes last."""
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
        return Text(no_wrap=True, overflow="crop").append(style.spell(text, self.ascii_only), text_style)

    def _name(self, name: str, width: int) -> Text:
        return self._text(style.shorten(name, width), self._colour_of(name))

    # The head: how far it is, how fast it goes.

    def _progress(self) -> list[RenderableType]:
        view, total = self._view, self.event.games
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
        spent, left = style.duration(self._view.elapsed), style.duration(self._view.seconds_left)
        if not left:
            return style.pad(self._text(f"{spent:>7}"), width)
        about = "at most" if self._view.may_end_early else "about"
        rest = f"{about} {left} left"
        if len(rest) + 9 > width:
            rest = f"{left} left"
        return self._text(f"{spent:>7}" + rest.rjust(width - 7))

    def _note(self) -> RenderableType:
        view = self._view
        if view.is_paused:
            words = next(words for words in PAUSED if len(words) <= self.width)
            return self._text(words, style.WARNING)
        earlier = f"{view.resumed} of {self.event.games} played earlier" if view.resumed else ""
        if view.is_starting:
            words = "starting; the first time, compiling takes up to a minute"
            if self.width < 60:
                words = "starting; may compile for a minute"
            self.spinner.update(text=self._text(f"starting · {earlier}" if earlier else words, style.LABEL))
            return self.spinner
        workers = f"{view.workers} worker{'s' if view.workers != 1 else ''}" if view.workers else ""
        if view.resumed and self.width < 60:
            earlier = f"{view.resumed} earlier"
        games, moves = style.rate(view.games_a_second, "games"), style.rate(view.moves_a_second, "moves")
        first = "games under way" if view.stored < self.event.games else ""
        stage, line = view.stage, ""
        for part in filter(
            None, (games, stage, moves, earlier, workers) if view.played else (first, stage, earlier, workers)
        ):
            longer = f"{line} · {part}" if line else part
            line = longer if len(longer) <= self.width else line
        return self._text(line, style.LABEL)

    def _warning(self) -> list[Text]:
        words = style.waiting(self._view.waiting) or self._view.warning
        return [self._text(style.clip(f"! {words}", self.width), style.WARNING)] if words else []

    # The board.

    def _board(self, width: int) -> list[Text]:
        """A caption, the position, and both players; as many lines before the first game as later."""
        watched, rules = self._view.boards.watched, self.event.terms.rules
        if watched is None:
            empty = np.zeros((rules.size, rules.size), np.uint8)
            return [Text(), *draw_board(empty, ascii_only=self.ascii_only, theme=self._theme), Text(), Text()]
        last = watched.moves[-1] if watched.moves else None
        stones = _stones(rules, watched.moves)
        owners = watched.ownership
        position = draw_board(stones, last, ascii_only=self.ascii_only, ownership=owners, theme=self._theme)
        return [self._caption(watched, width), *position, *(self._thinker(watched, colour, width) for colour in Colour)]

    def _caption(self, watched: Watched, width: int) -> Text:
        """Which game, which of the boards, and what happened last: what there is room for."""
        number, place = len(watched.moves), self._view.boards.place
        game = f"game {watched.pairing.number + 1}"
        if watched.record is not None and watched.record.outcome is not None:
            return self._text(style.clip(f"{game}: {watched.record.outcome.sgf}, {number} moves", width))
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
        return line.append_text(style.right(self._text(f"{100 * rates[-1]:.0f} %"), width - line.cell_len))


@lru_cache(maxsize=4)
def _stones(rules: Rules, moves: tuple[Move, ...]) -> np.ndarray:
    """(size, size): the position after these moves."""
    game = Game(rules)
    for move in moves:
        game.play(move)
    return game.board.stones
