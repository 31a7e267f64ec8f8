"""One frame of a match's live screen, for any size of terminal. It reads a view and keeps nothing."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from arena.go.game import Ending, Game, Rules
from arena.go.moves import BLACK, WHITE, Colour, Move, gtp_from_move
from arena.screen import style
from arena.screen.board import board_height, board_width, draw_board, stone_sign
from arena.screen.summary import setting_line
from arena.screen.view import MatchView, Watched

WIDEST = 100
FACTS = 50
"""Columns of the figures; the board stands beside them where there is room for both, else below them, else nowhere."""

GAP = 4
LABELS = 12
TIMES = 26


class Frame:
    """Draws a view into ``width`` columns and at most ``height`` lines."""

    def __init__(self, view: MatchView, width: int, height: int, ascii_only: bool, spinner: Spinner):
        self.view = view
        self.match = view.match
        self.tally = view.tally
        self.width = min(width, WIDEST)
        self.height = height
        self.ascii_only = ascii_only
        self.spinner = spinner
        self.names = list(view.match.players)

    def draw(self) -> RenderableType:
        """All of it; of a finished match the head alone."""
        head = [*self._title(), *self._progress(), self._note()]
        if self.view.finished:
            return Group(*head)
        size = self.match.rules.size
        width = min(self.width, FACTS)
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

    def _text(self, text: str, text_style: str = "") -> Text:
        """The style is the words' own: what is appended later doesn't take it over."""
        return Text(no_wrap=True, overflow="crop").append(style.spell(text, self.ascii_only), text_style)

    def _name(self, index: int, width: int) -> Text:
        return self._text(style.shorten(self.names[index], width), style.FIRST if index == 0 else style.SECOND)

    # The head: who plays what, how far it is, how fast it goes.

    def _title(self) -> list[Text]:
        setting = self._text(setting_line(self.match), style.LABEL)
        names = [self._name(index, self.width) for index in (0, 1)]
        if sum(name.cell_len for name in names) + 4 > self.width:
            return [names[0], self._text("vs ", style.LABEL).append_text(self._name(1, self.width - 3))]
        title = names[0].append_text(self._text(" vs ", style.LABEL)).append_text(names[1])
        space = self.width - title.cell_len
        return [title.append_text(style.right(setting, space))] if space >= setting.cell_len + 2 else [title]

    def _progress(self) -> list[RenderableType]:
        view, total = self.view, self.match.games
        digits = len(str(total))
        count = self._text(f"{self.tally.games:{digits}d}", "bold").append(f" of {total}", "not bold")
        left = style.duration(view.seconds_left)
        times = f"{style.duration(view.elapsed):>7}" + (f"about {left} left".rjust(TIMES - 7) if left else "")
        blue = style.FIRST.removeprefix("bold ")
        wide = self.width >= 70
        count_width = 2 * digits + 4
        bar_width = self.width - count_width - TIMES - 2 if wide else self.width
        bar = ProgressBar(total, self.tally.games, bar_width, complete_style=blue, finished_style=blue)
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
        view = self.view
        earlier = f"{view.resumed} of {self.match.games} played earlier" if view.resumed else ""
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
        first = "games under way" if self.tally.games < self.match.games else ""
        line = ""
        for part in filter(None, (games, moves, earlier, workers) if view.played else (first, earlier, workers)):
            longer = f"{line} · {part}" if line else part
            line = longer if len(longer) <= self.width else line
        return self._text(line, style.LABEL)

    # The figures.

    def _facts(self, width: int, height: int) -> list[Text]:
        """All figures, with empty lines between them as far as ``height`` goes."""
        blocks = [self._score(width), self._colours(width), self._endings(width)]
        spare = height - sum(map(len, blocks))
        lines: list[Text] = []
        for block in blocks:
            if lines and spare > 0:
                lines.append(Text())
                spare -= 1
            lines += block
        return lines

    def _fact(self, label: str, value: Text, rest: str, width: int) -> Text:
        end = self._text(rest)
        line = style.pad(self._text(label, style.LABEL), LABELS)
        return line.append_text(style.pad(value, width - LABELS - end.cell_len)).append_text(end)

    def _score(self, width: int) -> list[Text]:
        counts, comparison = self.tally.results(), self.view.comparison
        share = counts.points / counts.games if counts.games else None
        elo = "–" if comparison is None else str(comparison.elo)
        los = "–" if comparison is None else style.likelihood(comparison.los)
        return [
            self._share_bar(width),
            self._fact("Score", self._text(style.score(counts), "bold"), style.per_cent(share), width),
            self._fact("Elo", self._text(elo, "bold"), "95 % interval" if width >= 48 else "95 %", width),
            self._fact("LOS", self._text(los), "", width),
            *self._test(width),
        ]

    def _test(self, width: int) -> list[Text]:
        """Where the sequential test stands: the log-likelihood ratio between its bounds; nothing without a test."""
        sprt, state = self.view.sprt, self.view.test
        if sprt is None:
            return []
        lower, upper = sprt.bounds
        llr = 0.0 if state is None else state.llr
        cells = width - LABELS - 8
        mark = round((cells - 1) * min(1.0, max(0.0, (llr - lower) / (upper - lower))))
        bar = self._text("─" * mark, style.LABEL).append_text(self._text("●", style.FIRST))
        bar.append_text(self._text("─" * (cells - 1 - mark), style.LABEL))
        title = f"{sprt.elo0:g} or {sprt.elo1:g} Elo?"
        ends = self._text(f"{lower:.2f}", style.LABEL)
        ends.append_text(style.right(self._text(f"{upper:.2f}", style.LABEL), cells - ends.cell_len))
        return [self._fact("SPRT", bar, f"{llr:+.2f}", width), self._fact(title[:LABELS], ends, "", width)]

    def _share_bar(self, width: int) -> Text:
        """Won, drawn and lost games as one line; empty before the first."""
        counts = self.tally.results()
        if not counts.games:
            return Text()
        won = round(width * counts.wins / counts.games)
        drawn = round(width * (counts.wins + counts.draws) / counts.games) - won
        bar = self._text("━" * won, style.FIRST)
        bar.append_text(self._text("╌" * drawn, style.LABEL))
        return bar.append_text(self._text("─" * (width - won - drawn), style.SECOND))

    def _colours(self, width: int) -> list[Text]:
        lines = []
        for colour, label in ((BLACK, "as Black"), (WHITE, "as White")):
            counts = self.tally.results(colour=colour)
            share = counts.points / counts.games if counts.games else None
            lines.append(self._fact(label, self._text(style.score(counts)), style.per_cent(share), width))
        points, games = self.tally.black_points, self.tally.games
        text = self._text(f"{points:g} of {games}")
        return [*lines, self._fact("Black takes", text, style.per_cent(points / games if games else None), width)]

    def _endings(self, width: int) -> list[Text]:
        named = (width - LABELS - 7) // 2
        drawn = width - LABELS - 2 * named
        head = style.pad(self._text("Won by", style.LABEL), LABELS)
        for index in (0, 1):
            head.append_text(style.right(self._name(index, named - 2), named))
        lines = [head.append_text(style.right(self._text("drawn", style.LABEL), drawn))]
        for ending in Ending:
            counts = self.tally.results(ending=ending)
            line = style.pad(self._text(str(ending), style.LABEL), LABELS)
            for number, column in ((counts.wins, named), (counts.losses, named), (counts.draws, drawn)):
                sign = self._text(str(number)) if number else self._text("–", style.LABEL)
                line.append_text(style.right(sign, column))
            lines.append(line)
        return lines

    # The board.

    def _board(self, width: int) -> list[Text]:
        """A caption, the position, and both players; as many lines before the first game as later."""
        watched, rules = self.view.watched, self.match.rules
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
        return self._text(f"{game}, move {number}: {sign} {gtp_from_move(watched.moves[-1], self.match.rules.size)}")

    def _thinker(self, watched: Watched, colour: Colour, width: int) -> Text:
        """A player of the watched game, and how it has seen its chances."""
        name = watched.pairing.black if colour is BLACK else watched.pairing.white
        told = watched.win_rates[0 if colour is BLACK else 1 :: 2]
        rates = [rate for rate in told if rate is not None]
        index = self.names.index(name)
        line = self._text(f"{stone_sign(colour)} ")
        if not rates:
            return line.append_text(self._name(index, width - 2))
        named = min(20, width - 15)
        line.append_text(style.pad(self._name(index, named), named + 1))
        spark = style.sparkline(rates, min(16, width - line.cell_len - 6))
        line.append_text(self._text(spark, style.FIRST if index == 0 else style.SECOND))
        return line.append_text(style.right(self._text(f"{100 * rates[-1]:.0f} %"), width - line.cell_len))


@lru_cache(maxsize=4)
def _stones(rules: Rules, moves: tuple[Move, ...]) -> np.ndarray:
    """(size, size): the position after these moves."""
    game = Game(rules)
    for move in moves:
        game.play(move)
    return game.board.stones
