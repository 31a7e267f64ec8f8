"""Ratings drawn with signs: everybody's interval, and how the ratings came about. Each curve has a sign of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import floor, log10
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from arena.ratings import Estimate
from arena.results.event import ZERO, Moment, Place, Report
from arena.screen import style
from arena.screen.report import print_title

MARKS = "123456789abcdefghijklmnopqrstuvwxyz"
"""The signs of curves, by rank; players further down have none."""

NARROW = 64
"""Below so many columns a name stands above its bar, not beside it."""

WIDEST = 120
HEIGHT = 14


class Signs(NamedTuple):
    left: str
    right: str
    line: str
    point: str
    below: str
    above: str
    axis: str
    corner: str
    band: str
    up: str
    down: str


UNICODE = Signs("├", "┤", "─", "●", "◀", "▶", "│", "└", "░", "▲", "▼")
ASCII = Signs("|", "|", "-", "X", "<", ">", "|", "+", ":", "^", "v")


def print_plots(report: Report, console: Console) -> None:
    """Both drawings of an event, with their titles; nothing without games."""
    if not report.anchor:
        return
    print_title("Elo with 95 % intervals", console)
    console.print(EloBars(report.places))
    names = [place.name for place in report.places]
    who = "".join(f"of {name} " for name in names if name != report.anchor) if len(names) == 2 else ""
    print_title(f"Elo {who}above {report.anchor} over the games played", console)
    console.print(EloCourse(report.course, names))


@dataclass(frozen=True, slots=True)
class Scale:
    """Elo from ``low`` to ``high`` on ``cells`` cells."""

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

    def ticks(self, most: int) -> list[float]:
        """Round values on the scale, at most so many."""
        rough = (self.high - self.low) / max(1, most)
        power = 10.0 ** floor(log10(rough))
        step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
        first = -(-self.low // step)
        return [step * (first + n) for n in range(most + 1) if step * (first + n) <= self.high]


@dataclass(frozen=True, slots=True)
class EloBars:
    """Everybody's Elo with its 95 % interval, a line each; an arrow where the games bound one side only."""

    places: Sequence[Place]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        signs = ASCII if options.ascii_only else UNICODE
        width = min(WIDEST, options.max_width)
        rated = [(rank, place, place.elo) for rank, place in enumerate(self.places, 1) if place.elo is not None]
        known = [
            end for _, _, elo in rated for end in (elo.value, elo.interval.low, elo.interval.high) if end is not None
        ]
        if not known:
            return
        texts = ["0" if elo == ZERO else style.spell(str(elo), options.ascii_only) for _, _, elo in rated]
        told = max(map(cell_len, texts)) + 1
        names = [f"{rank} {place.name}" for rank, place, _ in rated]
        named = 0 if width < NARROW else min(max(map(cell_len, names)), width // 3) + 1
        scale = Scale.over([*known, 0.0], width - named - told)
        for name, text, (_, _, elo) in zip(names, texts, rated, strict=True):
            if not named:
                yield Text(style.spell(name, options.ascii_only), overflow="fold")
            short = style.spell(style.shorten(name, named - 1), options.ascii_only)
            line = style.pad(short, named) if named else Text()
            yield line.append(_bar(elo, scale, signs)).append_text(style.right(text, told))
        yield Text(" " * named + _axis(scale, signs), style.LABEL)
        yield Text(" " * named + _labels(scale), style.LABEL)


def _bar(elo: Estimate, scale: Scale, signs: Signs) -> str:
    cells = [" "] * scale.cells
    low, high = elo.interval.low, elo.interval.high
    if low is None and high is None:
        return "".join(cells)
    first = 0 if low is None else scale.cell(low)
    last = scale.cells - 1 if high is None else scale.cell(high)
    cells[first : last + 1] = signs.line * (last + 1 - first)
    if first < last:
        cells[first] = signs.below if low is None else signs.left
        cells[last] = signs.above if high is None else signs.right
    if elo.value is not None:
        cells[scale.cell(elo.value)] = signs.point
    return "".join(cells)


def _axis(scale: Scale, signs: Signs) -> str:
    cells = [signs.line] * scale.cells
    for tick in scale.ticks(scale.cells // 10):
        cells[scale.cell(tick)] = "+" if signs is ASCII else "┴"
    return "".join(cells)


def _labels(scale: Scale) -> str:
    words = ""
    for tick in scale.ticks(scale.cells // 10):
        text = f"{tick:+.0f}" if tick else "0"
        start = min(scale.cells - len(text), scale.cell(tick) - len(text) // 2)
        if start > len(words) or not words:
            words = words.ljust(max(0, start)) + text
    return words


@dataclass(frozen=True, slots=True)
class EloCourse:
    """Elo over the games played. A curve is drawn with the sign of its player's rank.

    Where there are but two players, the curve has its 95 % band, and an arrow up or down says "at least" or "at most";
    elsewhere, games after which a rating was bounded on one side only leave a gap.
    """

    moments: Sequence[Moment]
    names: Sequence[str]
    """By rank, the player at 0 among them."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        signs = ASCII if options.ascii_only else UNICODE
        width = min(WIDEST, options.max_width)
        curves = {name: points for name in self.names[: len(MARKS)] if (points := list(_points(self.moments, name)))}
        ends = list(_ends(self.moments)) if len(self.names) == 2 else []
        values = [point.value for points in curves.values() for point in points] + [end.value for end in ends]
        if not values:
            yield Text("No rating is bounded on both sides yet.", style.LABEL)
            return
        if len(self.names) == 2:
            later = [point for points in curves.values() for point in points[len(points) // 4 :]]
            values += [end for point in later for end in (point.low, point.high)]
        scale = Scale.over([*values, 0.0], HEIGHT)
        labels = {scale.cell(tick): f"{tick:+.0f}" if tick else "0" for tick in scale.ticks(HEIGHT // 3)}
        margin = max(map(len, labels.values()), default=0) + 1
        columns = width - margin - 1
        rows = self._rows(curves, ends, scale, columns, signs)
        for row in reversed(range(HEIGHT)):
            yield Text(f"{labels.get(row, ''):>{margin}}{signs.axis}", style.LABEL).append(rows[row], "not dim")
        yield Text(" " * margin + signs.corner + signs.line * columns, style.LABEL)
        yield Text(" " * (margin + 1) + "0" + f"{self.moments[-1].games} games".rjust(columns - 1), style.LABEL)
        if len(self.names) > 2:
            legend = [style.spell(f"{MARKS[self.names.index(name)]} {name}", options.ascii_only) for name in curves]
            in_one = "  ".join(legend)
            for line in [in_one] if cell_len(in_one) <= width else legend:
                yield Text(line, overflow="fold")

    def _rows(
        self, curves: dict[str, list[Point]], ends: Sequence[End], scale: Scale, columns: int, signs: Signs
    ) -> list[str]:
        """The lines of the drawing, the lowest first."""
        cells = [[" "] * columns for _ in range(HEIGHT)]
        games = self.moments[-1].games
        for name, points in reversed(curves.items()):
            for column, point in _columns(points, games, columns):
                if len(self.names) == 2:
                    for row in range(scale.cell(point.low), scale.cell(point.high) + 1):
                        cells[row][column] = signs.band
                mark = signs.point if len(self.names) == 2 else MARKS[self.names.index(name)]
                cells[scale.cell(point.value)][column] = mark
        for end in ends:
            column = min(columns - 1, end.games * columns // games)
            cells[scale.cell(end.value)][column] = signs.up if end.is_least else signs.down
        return ["".join(row) for row in cells]


class End(NamedTuple):
    """After so many games, a rating was at least, or at most, this."""

    games: int
    value: float
    is_least: bool


def _ends(moments: Sequence[Moment]) -> Iterator[End]:
    for moment in moments:
        for elo in moment.elo.values():
            low, high = elo.interval.low, elo.interval.high
            if low is not None and high is None:
                yield End(moment.games, low, True)
            elif high is not None and low is None:
                yield End(moment.games, high, False)


class Point(NamedTuple):
    games: int
    value: float
    low: float
    high: float


def _points(moments: Sequence[Moment], name: str) -> Iterator[Point]:
    """Where a player's rating has a value and two ends."""
    for moment in moments:
        elo = moment.elo.get(name)
        if elo is not None and elo.value is not None and elo.interval.low is not None and elo.interval.high is not None:
            yield Point(moment.games, elo.value, elo.interval.low, elo.interval.high)


def _columns(points: Sequence[Point], games: int, columns: int) -> Iterator[tuple[int, Point]]:
    """Each column between the first point and the last, with what lies there on the straight line between two."""
    placed = [(min(columns - 1, point.games * columns // games), point) for point in points]
    if len(placed) == 1:
        yield placed[0]
    for (start, one), (end, other) in pairwise(placed):
        for column in range(start, end + 1):
            share = (column - start) / max(1, end - start)
            yield column, Point(0, *(a + share * (b - a) for a, b in zip(one[1:], other[1:], strict=True)))
