"""Charts drawn with characters: Elo over the games, losses of a training run, the win rate over a game."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import floor, log10
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from arena.report import style
from arena.results.league import RatingPoint

MARKS = "123456789abcdefghijklmnopqrstuvwxyz"
"""The signs of curves, by rank; all players further down have the last sign of the next line."""

POINT, LINE, AXIS, CORNER, BAND, UP, CROSS, MORE = "●─│└░▲×·"

WIDEST, NARROWEST = 120, 16  # columns of a chart, at most, and those below which none is drawn
RATE_ROWS, WIDEST_STEP = 7, 4  # lines of the curve of win rates, and the columns of one move in it, at most


@dataclass(frozen=True, slots=True)
class Scale:
    """Values from ``low`` to ``high``."""

    low: float
    high: float

    @classmethod
    def over(cls, values: Sequence[float]) -> Scale:
        """One that all values fit on, with some room."""
        low, high = min(values), max(values)
        room = max(1.0, 0.04 * (high - low))
        return cls(low - room, high + room)

    def share(self, value: float) -> float:
        """How far up a value is, in [0, 1]."""
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))

    def ticks(self, most: int) -> list[tuple[float, str]]:
        """Round whole values and how they are written, about ``most``."""
        rough = max(1.0, (self.high - self.low) / max(1, most))
        power = 10.0 ** floor(log10(rough))
        step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
        first = -(-self.low // step)
        values = [step * (first + n) for n in range(most + 1) if step * (first + n) <= self.high]
        return [(value, f"{value:+.0f}" if value else "0") for value in values]


class Canvas:
    """A grid of coloured characters: values rise with the row, time with the column. ``lines`` adds the axes."""

    def __init__(self, scale: Scale, width: int, rows: int, labels: Mapping[float, str] | None = None):
        """``labels`` are by value; without them, the scale has round values."""
        self.scale, self.rows = scale, rows
        shown = dict(scale.ticks(rows // 3)) if labels is None else labels
        self._labels = {self.row(value): words for value, words in shown.items()}
        self.margin = max(map(len, self._labels.values()), default=0)
        self.columns = min(WIDEST, width) - self.margin - 1
        self._cells = [[(" ", "")] * self.columns for _ in range(rows)]

    def row(self, value: float) -> int:
        return min(self.rows - 1, int(self.scale.share(value) * self.rows))

    def fill(self, column: int, low: float, high: float, sign: str, ink: str = "not dim") -> None:
        for row in range(self.row(low), self.row(high) + 1):
            self._cells[row][column] = sign, ink

    def lines(self, first: str, last: str) -> list[Text]:
        """The rows right of their labels, and below them an axis from ``first`` to ``last``."""
        lines = []
        for row, cells in reversed(list(enumerate(self._cells))):
            line = Text(f"{self._labels.get(row, ''):>{self.margin}}{AXIS}", style.LABEL)
            for ink, run in groupby(cells, key=itemgetter(1)):
                line.append("".join(sign for sign, _ in run), ink)
            lines.append(line)
        left = " " * self.margin
        lines.append(Text(left + CORNER + LINE * self.columns, style.LABEL))
        lines.append(Text(f"{left} {first}{last:>{self.columns - len(first)}}", style.LABEL))
        return lines


class Point(NamedTuple):
    """A rating after a number of games: its value, both ends of its interval, and its text."""

    games: int
    value: float
    low: float
    high: float
    elo: str


def points_of(moments: Sequence[RatingPoint], name: str, scale: Scale) -> list[Point]:
    """A player's rating; the edges of the scale stand for ends that the games don't give."""
    points = []
    for games, elo in ((moment.games, moment.elo[name]) for moment in moments if name in moment.elo):
        ends = (scale.low if elo.low is None else elo.low, scale.high if elo.high is None else elo.high)
        points.append(Point(games, elo.value, *ends, str(elo)))
    return points


def scale_of(moments: Sequence[RatingPoint]) -> Scale:
    """The Elo that a drawing over the games is to show: all values, and the ends of the later intervals; 0, too."""
    shown = [0.0]
    for moment in moments:
        for elo in moment.elo.values():
            shown += [end for end in elo if end is not None] if moment.games >= moments[-1].games / 4 else [elo.value]
    return Scale.over(shown)


def draw_course(
    moments: Sequence[RatingPoint], names: Sequence[str], width: int, height: int, unit: str = "games"
) -> list[Text]:
    """Elo over the games played, ``height`` lines above the axis. ``names`` are by rank, the player at 0 among them; a
    curve has the sign of its player's rank and a colour.

    With only two players, the curve has its 95 % band, up to the edge on a side that the games don't bound. With more,
    the last interval of each player stands to the right of the curves.
    """
    if not moments or width < NARROWEST:
        return [Text("Nobody is rated yet.", style.LABEL)]
    canvas, games, of_two = Canvas(scale_of(moments), width, height), max(1, moments[-1].games), len(names) == 2
    inks = [f"bold {colour}" for colour in style.COLOURS] if not of_two else [style.FIRST]
    curves = {}
    for rank, name in enumerate(names):
        if points := points_of(moments, name, canvas.scale):
            curves[name] = MARKS[rank] if rank < len(MARKS) else MORE, inks[rank % len(inks)], points
    has_intervals = not of_two and 2 * len(curves) < canvas.columns // 2
    room = canvas.columns - (2 * len(curves) if has_intervals else 0)
    for place, (mark, ink, points) in reversed([*enumerate(curves.values())]):
        placed = [min(room - 1, int(point.games * room // games)) for point in points]
        columns = range(placed[0], placed[-1] + 1)
        known = np.array([(point.value, point.low, point.high) for point in points])
        between = np.stack([np.interp(columns, placed, values) for values in known.T], axis=1).tolist()
        for column, (value, low, high) in zip(columns, between, strict=True):
            if of_two:
                canvas.fill(column, low, high, BAND, style.LABEL)
            canvas.fill(column, value, value, POINT if of_two else mark, ink)
        if has_intervals:
            value, low, high = known[-1].tolist()
            canvas.fill(room + 1 + 2 * place, low, high, AXIS, ink)
            canvas.fill(room + 1 + 2 * place, value, value, mark, ink)
    lines = canvas.lines("0", f"{games:,} {unit}")
    if not of_two:
        legend = Text()
        for name, (mark, ink, _) in curves.items():
            legend.append(f"{mark} {style.sanitize(name)}", ink).append("  ")
        lines.append(legend)
    return lines


def draw_losses(losses: Sequence[float], width: int, height: int) -> list[Text]:
    """The loss since a run began; a column is the mean of its steps."""
    if len(losses) < 2 or width < NARROWEST:
        return []
    columns = min(len(losses), width - 10, WIDEST)
    means = [float(part.mean()) for part in np.array_split(np.asarray(losses), columns)]
    low, high = min(means), max(means)
    canvas = Canvas(Scale(low, high + 1e-9), width, height, {high: f"{high:.3f}", low: f"{low:.3f}"})
    for column, mean in enumerate(means[: canvas.columns]):
        canvas.fill(column, mean, mean, POINT)
    return canvas.lines("loss", "")


@dataclass(frozen=True, slots=True)
class WinRateCurve:
    """Black's win rates in [0, 1] after each number of moves, with marks below for position ``at`` and ``mistakes``."""

    win_rates: Sequence[float | None]
    at: int | None = None
    mistakes: Collection[int] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if options.max_width < NARROWEST:
            return
        labels = {1.0: "100 %", 0.5: "50 %", 0.0: "0 %"}
        canvas = Canvas(Scale(0.0, 1.0), options.max_width, RATE_ROWS, labels)
        rates = np.array(self.win_rates, float)
        used = min(canvas.columns, len(rates) * min(WIDEST_STEP, max(1, canvas.columns // len(rates))))
        eighths = np.rint(np.nan_to_num(rates) * 8 * RATE_ROWS).astype(int)  # of a line
        for column, level in enumerate(eighths[np.arange(used) * len(rates) // used].tolist()):
            for row in range(-(-level // 8)):
                middle = (row + 0.5) / RATE_ROWS
                canvas.fill(column, middle, middle, style.SPARKS[min(8, level - 8 * row) - 1], style.FIRST)
        marks = [" "] * used
        at = [] if self.at is None else [(self.at, UP)]
        for number, sign in [*((number, CROSS) for number in self.mistakes), *at]:
            marks[min(used - 1, number * used // len(rates))] = sign
        yield from canvas.lines("", "")[:-2]
        yield Text(" " * (canvas.margin + 1) + "".join(marks))
