"""What the live screens of all events share: progress, pace, the board to watch, and where each has its place.

A frame is one drawing for any size of terminal. It reads a view and keeps nothing. No figures: ``match_frame`` and
``tournament_frame`` have them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from arena.go.game import Game, Rules
from arena.go.moves import BLACK, WHITE, Colour, Move, gtp_from_move
from arena.screen import style
from arena.screen.board import board_height, board_width, draw_board, stone_sign
from arena.screen.view import EventView, Watched

FACTS = 50
"""Columns of the figures; the board stands beside them where there is room for both, else below them, else nowhere."""

GAP = 4
TIMES = 26


class Frame(ABC):
    """Draws a view into ``width`` columns and at most ``height`` lines."""

    widest = 100

    def __init__(self, view: EventView[Any], width: int, height: int, ascii_only: bool, spinner: Spinner):
        self.event = view.event
        self.width = min(width, self.widest)
        self.height = height
        self.ascii_only = ascii_only
        self.spinner = spinner
        self.names = list(view.event.players)
        self._view = view

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
        head = [*self._title(), *self._progress(), self._note()]
        if self._view.finished:
            return Group(*head)
        size = self.event.rules.size
        width = self._facts_width(board_width(size))
        beside = self.width - width - GAP
        room = self.height - len(head) - 1
        board_lines = board_height(size) + 3
        if beside >= board_width(size) and room >= board_lines:
            grid = Table.grid(padding=0)
            for column in (width, GAP, beside):
                grid.add_column(width=column, no_wrap=True, overflow="crop")
            board = self._board(min(beside, max(board_width(size), 40)))
            grid.add_row(Group(*self._facts(width, room)), "", Group(*board))
            return Group(*head, Text(), grid)
        if self.width >= board_width(size) and room >= len(self._facts(width, 0)) + board_lines + 1:
            facts = self._facts(width, room - board_lines - 1)
            return Group(*head, Text(), *facts, Text(), *self._board(width))
        facts = self._facts(width, room)
        return Group(*head, *([Text()] if len(facts) <= room else []), *facts)

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
        count = self._text(f"{view.tally.games:{digits}d}", "bold").append(f" of {total}", "not bold")
        left = style.duration(view.seconds_left)
        times = f"{style.duration(view.elapsed):>7}" + (f"about {left} left".rjust(TIMES - 7) if left else "")
        blue = style.FIRST.removeprefix("bold ")
        wide = self.width >= 70
        count_width = 2 * digits + 4
        bar_width = self.width - count_width - TIMES - 2 if wide else self.width
        bar = ProgressBar(total, view.tally.games, bar_width, complete_style=blue, finished_style=blue)
        grid = Table.grid(padding=0)
        grid.add_column(width=bar_width)
        if not wide:
            grid.add_row(bar)
            return [grid, style.pad(count, self.width - TIMES).append_text(style.pad(self._text(times), TIMES))]
        for column in (2, count_width, TIMES):
            grid.add_column(width=column, no_wrap=True, overflow="crop")
        grid.add_row(bar, "", style.pad(count, count_width), style.pad(self._text(times), TIMES))
        return [grid]

    def _note(self) -> RenderableType:
        view = self._view
        earlier = f"{view.resumed} of {self.event.games} played earlier" if view.resumed else ""
        if view.is_starting:
            words = "starting; the first time, compiling takes about 15 s"
            if self.width < 60:
                words = "starting; may compile for 15 s"
            self.spinner.update(text=self._text(f"starting · {earlier}" if earlier else words, style.LABEL))
            return self.spinner
        workers = f"{view.workers} worker{'s' if view.workers != 1 else ''}" if view.workers else ""
        if view.resumed and self.width < 60:
            earlier = f"{view.resumed} earlier"
        games, moves = style.rate(view.games_a_second, "games"), style.rate(view.moves_a_second, "moves")
        first = "games under way" if view.tally.games < self.event.games else ""
        line = ""
        for part in filter(None, (games, moves, earlier, workers) if view.played else (first, earlier, workers)):
            longer = f"{line} · {part}" if line else part
            line = longer if len(longer) <= self.width else line
        return self._text(line, style.LABEL)

    # The board.

    def _board(self, width: int) -> list[Text]:
        """A caption, the position, and both players; as many lines before the first game as later."""
        watched, rules = self._view.watched, self.event.rules
        if watched is None:
            empty = np.zeros((rules.size, rules.size), np.uint8)
            return [Text(), *draw_board(empty, ascii_only=self.ascii_only), Text(), Text()]
        last = watched.moves[-1] if watched.moves else None
        position = draw_board(_stones(rules, watched.moves), last, ascii_only=self.ascii_only)
        return [self._caption(watched), *position, *(self._thinker(watched, colour, width) for colour in Colour)]

    def _caption(self, watched: Watched) -> Text:
        number = len(watched.moves)
        game = f"game {watched.pairing.number + 1}"
        if watched.record is not None and watched.record.outcome is not None:
            return self._text(f"{game}: {watched.record.outcome.sgf}, {number} moves")
        if not watched.moves:
            return self._text(game)
        sign = stone_sign(BLACK if number % 2 else WHITE)
        return self._text(f"{game}, move {number}: {sign} {gtp_from_move(watched.moves[-1], self.event.rules.size)}")

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
