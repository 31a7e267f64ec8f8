"""What an analysis found, as a table, a graph of one line and a few sentences. Nothing is evaluated here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from arena.go.moves import Colour, gtp_from_move
from arena.go.record import Record
from arena.results.analysis import Evaluation, PlayedMove, judge, mistakes, scored, spelled
from arena.screen import style

WITH_SCORE, WITH_LINE = 46, 72
"""Columns from which the table shows scores, and lines of play."""

LINE = 6
"""Moves of a line of play that are shown."""


@dataclass(frozen=True, slots=True)
class AnalysisSheet:
    """The moves of a game with what they cost; ``most`` mistakes of each side are marked.

    It fits every width from 40 columns: what matters less is left out where there is no room.
    """

    record: Record
    evaluations: Sequence[Evaluation]
    most: int = 3

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        moves = judge(self.record, self.evaluations)
        worst = {colour: mistakes(moves, self.most, colour) for colour in Colour}
        yield self._table(moves, [move for found in worst.values() for move in found], options)
        yield Text()
        yield from self._words(moves, worst, options)

    def _table(self, moves: Sequence[PlayedMove], worst: Sequence[PlayedMove], options: ConsoleOptions) -> Table:
        size = self.record.rules.size
        knows_score = any(evaluation.margin is not None for evaluation in self.evaluations)
        with_score = knows_score and options.max_width >= WITH_SCORE
        knows_lines = any(len(evaluation.line) > 1 for evaluation in self.evaluations)
        with_line = knows_lines and options.max_width >= WITH_LINE
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
        for name, justify in (("move", "right"), ("", "left"), ("Black %", "right"), ("loss", "right")):
            table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
        if with_score:
            table.add_column("score", justify="right", no_wrap=True)
        table.add_column("best", no_wrap=True)
        if with_line:
            table.add_column("instead", overflow="fold")
        for evaluation in self.evaluations:
            move = moves[evaluation.number - 1] if evaluation.number else None
            cells = ["0", "", _share(evaluation.win_rate), ""]
            if move is not None:
                name = f"{move.colour.letter} {gtp_from_move(move.move, size)}"
                cells = [str(move.number), name, cells[2], _points(move.loss)]
            if with_score:
                cells.append("" if evaluation.margin is None else scored(evaluation.margin))
            mark = " !" if move in worst else ""
            cells.append("" if move is None else gtp_from_move(move.before.best, size) + mark)
            if with_line:
                cells.append("" if move is None or move.is_best else spelled(move.before.line, size, LINE))
            table.add_row(*(style.spell(cell, options.ascii_only) for cell in cells), style="bold" if mark else "")
        return table

    def _words(
        self, moves: Sequence[PlayedMove], worst: dict[Colour, list[PlayedMove]], options: ConsoleOptions
    ) -> Iterator[Text]:
        size, ascii_only = self.record.rules.size, options.ascii_only
        label = "Black wins "
        rates = [evaluation.win_rate for evaluation in self.evaluations]
        yield Text(
            style.spell(label + style.sparkline(_fitted(rates, options.max_width - len(label)), 999), ascii_only)
        )
        for colour, found in worst.items():
            own = [move for move in moves if move.colour is colour]
            if not own:
                continue
            lost = sum(max(0.0, move.loss) for move in own) / len(own)
            words = f"{colour.name.title()} lost {100 * lost:.1f} points of win rate a move"
            words += f"; {sum(move.is_best for move in own)} of {len(own)} moves were the bot's own choice."
            listed = [
                f"{move.number} {gtp_from_move(move.move, size)} -{100 * move.loss:.1f}"
                f" ({gtp_from_move(move.before.best, size)} was better)"
                for move in found
            ]
            if listed:
                words += f" The largest mistake{'s' * (len(listed) > 1)}: {', '.join(listed)}."
            yield Text(style.spell(words, ascii_only))
        yield Text(
            "Black %: how likely Black wins after the move; score: who is ahead then, by whose each point will be. "
            "Loss: points of win rate that the move cost whoever played it. '!' marks the largest mistakes.",
            style.LABEL,
        )


def headline(record: Record, bot: str) -> str:
    """Which game is analysed, by whom."""
    names = f"{record.black or 'Black'} - {record.white or 'White'}"
    rules = record.rules
    result = "" if record.outcome is None else f", {record.outcome.sgf}"
    handicap = f", {len(record.setup[0])} stones of handicap" if record.setup[0] and not record.setup[1] else ""
    setting = f"{rules.size}x{rules.size}, komi {rules.komi:g}, {rules.name}{handicap}"
    return f"{names}{result} ({setting}), analysed by {bot}"


def _points(loss: float) -> str:
    return f"{round(100 * loss, 1) + 0.0:.1f}"  # no minus before a zero


def _share(rate: float) -> str:
    return f"{100 * rate:.1f}"


def _fitted(rates: Sequence[float], width: int) -> list[float]:
    """So many values, spread over the game, where there are more of them."""
    if len(rates) <= width:
        return list(rates)
    return [rates[index * (len(rates) - 1) // max(1, width - 1)] for index in range(width)]
