"""Charts drawn with characters: Elo over the games, the win rate over a game. ``Canvas`` is for whatever else has
values over time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import NamedTuple

import numpy as np
from rich.cells import cell_len
from rich.text import Text

from arena.ratings import Estimate
from arena.report import style
from arena.results.league import Moment

MARKS = "123456789abcdefghijklmnopqrstuvwxyz"
"""The signs of curves, by rank; players further down have none."""

POINT, LINE, AXIS, CORNER, BAND, UP, DOWN, CROSS = "●─│└░▲▼×"

WIDEST = 120

LEAST_ROWS, MOST_ROWS, LEAST_COLUMNS, WIDEST_STEP = 3, 7, 10, 4
"""Of the curve of win rates; the step is the columns of one move, at most."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Values from ``low`` to ``high`` on ``cells`` cells."""

    low: float
    high: float
    cells: int

    @classmethod
    def over(cls, values: Sequence[float], cells: int) -> Scale:
        """One that all values fit on, with some room."""
        low, high = min(values), max(values)
        room = max(1.0, 0.04 * (high - low))
        return cls(low - room, high + room, cells)

    def cell(self, value: float) -> int:
        return min(self.cells - 1, max(0, int((value - self.low) / (self.high - self.low) * self.cells)))

    def round_values(self, most: int) -> list[tuple[float, str]]:
        """Round values and how they are written, about ``most``."""
        rough = (self.high - self.low) / max(1, most)
        power = 10.0 ** floor(log10(rough))
        step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
        first = -(-self.low // step)
        values = [step * (first + n) for n in range(most + 1) if step * (first + n) <= self.high]
        return [(value, f"{value:+.0f}" if value else "0") for value in values]


class Canvas:
    """Cells over time: values go up by a scale, columns go right. The axes are labelled when it is read out."""

    def __init__(self, scale: Scale, width: int, labels: Mapping[int, str] | None = None):
        """``labels`` are by row; without them, the scale has round values."""
        if labels is None:
            labels = {scale.cell(value): words for value, words in scale.round_values(scale.cells // 3)}
        self.scale = scale
        self._labels = labels
        self.margin = max(map(len, labels.values()), default=0)
        self.columns = min(WIDEST, width) - self.margin - 1
        self._cells = [[" "] * self.columns for _ in range(scale.cells)]

    def put(self, column: int, value: float, sign: str) -> None:
        self._cells[self.scale.cell(value)][column] = sign

    def fill(self, column: int, low: float, high: float, sign: str) -> None:
        for row in range(self.scale.cell(low), self.scale.cell(high) + 1):
            self._cells[row][column] = sign

    def put_estimate(self, column: int, elo: Estimate, sign: str) -> None:
        """A value with its interval; an arrow at the edge on a side that the games don't bound."""
        low, high = elo.interval.low, elo.interval.high
        bottom, top = self.scale.low if low is None else low, self.scale.high if high is None else high
        self.fill(column, bottom, top, AXIS)
        if low is None:
            self.put(column, bottom, DOWN)
        if high is None:
            self.put(column, top, UP)
        self.put(column, elo.value, sign)

    def rows(self, ink: str = "not dim") -> Iterator[Text]:
        """The cells from the top, right of their labels."""
        for row, cells in reversed(list(enumerate(self._cells))):
            words = f"{self._labels.get(row, ''):>{self.margin}}{AXIS}"
            yield Text(words, style.LABEL).append("".join(cells), ink)

    def lines(self, first: str, last: str) -> Iterator[Text]:
        """The rows, and below them an axis from ``first`` to ``last``."""
        yield from self.rows()
        left = " " * self.margin
        yield Text(left + CORNER + LINE * self.columns, style.LABEL)
        yield Text(f"{left} {first}{last:>{self.columns - len(first)}}", style.LABEL)


# --- Elo over the games ---


class Point(NamedTuple):
    """A rating after a number of games, with a value and both ends of its interval."""

    games: float
    value: float
    low: float
    high: float


def points_of(moments: Sequence[Moment], name: str, low: float, high: float) -> list[Point]:
    """A player's rating; ``low`` and ``high``, the edges of a drawing, stand for ends that the games don't give."""
    points = []
    for moment in moments:
        if name in moment.elo:
            elo = moment.elo[name]
            first, last = elo.interval.low, elo.interval.high
            ends = (low if first is None else first, high if last is None else last)
            points.append(Point(moment.games, elo.value, *ends))
    return points


def range_of(moments: Sequence[Moment]) -> tuple[float, float]:
    """From the lowest to the highest Elo that a drawing over the games is to show: all values, and the ends of the
    later intervals; 0, too."""
    shown = [0.0]
    for moment in moments:
        for elo in moment.elo.values():
            shown += elo.known if moment.games >= moments[-1].games / 4 else [elo.value]
    return min(shown), max(shown)


def draw_course(moments: Sequence[Moment], names: Sequence[str], width: int, height: int) -> list[Text]:
    """Elo over the games played, ``height`` lines above the axis. ``names`` are by rank, the player at 0 among them; a
    curve is drawn with the sign of its player's rank.

    With only two players, the curve has its 95 % band, up to the edge on a side that the games don't bound.
    """
    if not moments:
        return [Text("Nobody is rated yet.", style.LABEL)]
    scale, of_two = Scale.over(range_of(moments), height), len(names) == 2
    canvas, games = Canvas(scale, width), moments[-1].games
    curves = {name: points_of(moments, name, scale.low, scale.high) for name in names[: len(MARKS)]}
    curves = {name: points for name, points in curves.items() if points}
    for name, points in reversed(curves.items()):
        placed = [min(canvas.columns - 1, int(point.games * canvas.columns // games)) for point in points]
        columns = np.arange(placed[0], placed[-1] + 1)
        between = np.array([np.interp(columns, placed, values) for values in zip(*points, strict=True)]).T.tolist()
        for column, (_, value, low, high) in enumerate(between, placed[0]):
            if of_two:
                canvas.fill(column, low, high, BAND)
            canvas.put(column, value, POINT if of_two else MARKS[names.index(name)])
    lines = list(canvas.lines("0", f"{games} games"))
    if not of_two:
        legend = [style.spell(f"{MARKS[names.index(name)]} {name}") for name in curves]
        in_one = "  ".join(legend)
        lines += [Text(line) for line in ([in_one] if cell_len(in_one) <= min(WIDEST, width) else legend)]
    return lines


# --- Win rates over a game ---


def draw_curve(
    win_rates: Sequence[float | None], at: int, width: int, height: int, mistakes: Collection[int] = ()
) -> list[Text]:
    """Black's win rate, in [0, 1], after each number of moves; below it, marks for the position that is shown (``at``)
    and for ``mistakes``. No lines where there is too little room for them, or no win rate."""
    rows = min(MOST_ROWS, height - 1)
    if rows < LEAST_ROWS or all(rate is None for rate in win_rates):
        return []
    labels = {rows - 1: "100 %", 0: "0 %"} | ({rows // 2: "50 %"} if rows % 2 else {})
    canvas = Canvas(Scale(0.0, 1.0, rows), width, labels)
    if canvas.columns < LEAST_COLUMNS:
        return []
    count, bars = len(win_rates), style.SPARKS
    used = min(canvas.columns, count * min(WIDEST_STEP, max(1, canvas.columns // count)))
    for column in range(used):
        first = column * count // used
        known = [rate for rate in win_rates[first : max(first + 1, (column + 1) * count // used)] if rate is not None]
        for row in range(rows):
            level = sum(known) / len(known) * rows - row if known else 0.0
            if level > 0.05:
                canvas.put(column, (row + 0.5) / rows, bars[min(len(bars), max(1, round(level * len(bars)))) - 1])
    marks = [" "] * used
    for number, sign in (*((number, CROSS) for number in mistakes), (at, UP)):
        marks[min(used - 1, number * used // max(1, count))] = sign
    return [*canvas.rows(style.FIRST), Text(" " * (canvas.margin + 1) + "".join(marks))]
