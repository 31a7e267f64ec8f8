"""Black's win rate over the moves of a game, drawn with signs. Nothing is evaluated here."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich.text import Text

from arena.screen import style

LEAST_ROWS, MOST_ROWS = 3, 7
MARGIN = 6
"""Columns of the labels at the left."""

WIDEST_STEP = 4
"""Columns of one move, at most."""


def draw_curve(
    win_rates: Sequence[float | None],
    at: int,
    width: int,
    height: int,
    *,
    mistakes: Collection[int] = (),
    ascii_only: bool = False,
    label: str = style.LABEL,
) -> list[Text]:
    """The share of Black, in [0, 1], after each number of moves, from below; ``at`` marks the position that is shown,
    and ``mistakes`` moves. No lines where there is too little room for them, or no win rate."""
    rows, columns = min(MOST_ROWS, height - 1), width - MARGIN
    if rows < LEAST_ROWS or columns < 10 or all(rate is None for rate in win_rates):
        return []
    used = min(columns, len(win_rates) * min(WIDEST_STEP, max(1, columns // len(win_rates))))
    shown = [_mean(win_rates, column, used) for column in range(used)]
    bars = style.ASCII_SPARKS if ascii_only else style.SPARKS
    lines = []
    for row in reversed(range(rows)):
        signs = ""
        for share in shown:
            level = 0.0 if share is None else share * rows - row
            signs += " " if level <= 0.05 else bars[min(len(bars), max(1, round(level * len(bars)))) - 1]
        middle = 2 * row == rows - 1
        words = "100 %" if row == rows - 1 else "0 %" if row == 0 else "50 %" if middle else ""
        axis = "|" if ascii_only else "┤" if words else "│"
        lines.append(Text(f"{words:>{MARGIN - 1}}{axis}", label).append(signs, style.FIRST))
    marks = [" "] * used
    for number in mistakes:
        marks[_column(number, len(win_rates), used)] = "x" if ascii_only else "×"
    marks[_column(at, len(win_rates), used)] = "^" if ascii_only else "▲"
    lines.append(Text(" " * MARGIN + "".join(marks)))
    return lines


def _column(number: int, count: int, columns: int) -> int:
    """Where the position after so many moves stands."""
    return min(columns - 1, number * columns // max(1, count))


def _mean(win_rates: Sequence[float | None], column: int, columns: int) -> float | None:
    """Of the positions that share a column, or of that which has it to itself."""
    count = len(win_rates)
    first = column * count // columns
    last = max(first + 1, (column + 1) * count // columns)
    known = [rate for rate in win_rates[first:last] if rate is not None]
    return sum(known) / len(known) if known else None
