"""Plots of Elo as SVG for the HTML page: intervals, and the course over the games.

Text takes the page's colour. Curves also differ in their markers, and their colours are those that colour-blind people
tell apart. Names and words are escaped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup

from arena.ratings import Estimate
from arena.report import style
from arena.report.chart import Scale, points_of, range_of
from arena.report.style import shorten
from arena.results.league import Report

COLOURS = ("#3b8fd4", "#d97f0a", "#009e73", "#cc79a7", "#8a6bd1", "#d55e00")
GREY = "#808080"
SHAPES = ("circle", "square", "diamond", "triangle")

NAME = 26
"""The most signs of a name in a plot."""

OPEN = 100.0
"""Elo that an interval is drawn long, at least, on a side that the games don't bound."""

WIDTH, TOP, BOTTOM, LEFT, RIGHT = 640.0, 10.0, 40.0, 60.0, 16.0
COURSE = 300.0
ROW, NAMES, FIGURES = 30.0, 200.0, 160.0


@dataclass(frozen=True, slots=True)
class Drawing:
    """A plot for a page: SVG that takes its colour of text and its width from what is around it."""

    title: str
    svg: Markup


def draw_plots(report: Report) -> list[Drawing]:
    """The plots of an event; none for one without games."""
    if not report.anchor:
        return []
    title = f"Elo above {shorten(report.anchor, NAME)}, with 95 % intervals"
    return [_intervals(title, report), _course("Elo over the games played", report)]


def _svg(title: str, height: float, parts: Iterator[Markup]) -> Drawing:
    head = Markup('<svg role="img" aria-label="{}" viewBox="0 0 {} {}" font-size="13" fill="currentColor">')
    body = Markup("\n").join(parts)
    return Drawing(title, head.format(style.public(title), f"{WIDTH:g}", f"{height:g}") + body + Markup("</svg>"))


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1.0) -> Markup:
    line = '<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="{}" stroke-width="{:g}"/>'
    return Markup(line.format(x1, y1, x2, y2, colour, width))


def _text(x: float, y: float, words: str, anchor: str = "start") -> Markup:
    return Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>').format(
        f"{x:.1f}", f"{y:.1f}", anchor, style.public(words)
    )


def _mark(x: float, y: float, colour: str, shape: str, tip: str, size: float = 4.0) -> Markup:
    """A marker, whose tip is shown where the mouse is."""
    corners = {
        "square": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
        "diamond": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
        "triangle": ((0, -1.2), (1.2, 1), (-1.2, 1)),
        "up": ((0, -1.6), (1.2, 1), (-1.2, 1)),
        "down": ((0, 1.6), (1.2, -1), (-1.2, -1)),
        "left": ((-1.6, 0), (1, 1.2), (1, -1.2)),
        "right": ((1.6, 0), (-1, 1.2), (-1, -1.2)),
    }
    if shape == "circle":
        drawn = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size:g}" fill="{colour}">'
        return Markup(drawn) + Markup("<title>{}</title></circle>").format(style.public(tip))
    points = " ".join(f"{x + size * a:.1f},{y + size * b:.1f}" for a, b in corners[shape])
    drawn = f'<polygon points="{points}" fill="{colour}">'
    return Markup(drawn) + Markup("<title>{}</title></polygon>").format(style.public(tip))


def _ends(elo: Estimate) -> tuple[float, float]:
    """Where an interval is drawn: a side that the games don't bound is as long as the other one, or ``OPEN``."""
    low, high = elo.interval.low, elo.interval.high
    known = [abs(elo.value - end) for end in (low, high) if end is not None]
    length = max([OPEN, *known])
    return elo.value - length if low is None else low, elo.value + length if high is None else high


def _intervals(title: str, report: Report) -> Drawing:
    """The strongest on top."""
    rated = [(place, place.elo) for place in report.places if place.elo is not None]
    ends = [0.0, *(end for _, elo in rated for end in _ends(elo))]
    low, high = min(ends), max(ends)
    room = max(1.0, 0.05 * (high - low))
    height = TOP + ROW * len(rated) + BOTTOM

    def x(value: float) -> float:
        return NAMES + (value - low + room) / (high - low + 2 * room) * (WIDTH - NAMES - FIGURES)

    def parts() -> Iterator[Markup]:
        bottom = height - BOTTOM
        for value, words in Scale(low - room, high + room, 1000).round_values(5):
            yield _line(x(value), TOP, x(value), bottom, GREY, 1.0 if value == 0 else 0.2)
            yield _text(x(value), bottom + 18, words, "middle")
        for row, (place, elo) in enumerate(rated):
            y = TOP + ROW * (row + 0.5)
            first, last = _ends(elo)
            yield _text(NAMES - 10, y + 4, shorten(place.name, NAME), "end")
            yield _line(x(first), y, x(last), y, COLOURS[0], 2)
            for end, at, arrow in ((elo.interval.low, first, "left"), (elo.interval.high, last, "right")):
                if end is None:
                    yield _mark(x(at), y, COLOURS[0], arrow, "not bounded by the games")
                else:
                    yield _line(x(at), y - 4, x(at), y + 4, COLOURS[0], 2)
            yield _mark(x(elo.value), y, COLOURS[0], "circle", f"{place.name}: {elo} in {place.games} games", 5)
            yield _text(WIDTH, y + 4, str(elo), "end")

    return _svg(title, height, parts())


def _course(title: str, report: Report) -> Drawing:
    """A curve with its 95 % band for everybody but the player at 0, up to the edge on a side that isn't bounded."""
    names = [place.name for place in report.places if place.elo is not None and place.name != report.anchor]
    games = max(1, report.games)
    low, high = range_of(report.course)
    room = max(5.0, 0.06 * (high - low))
    low, high = low - room, high + room
    bottom = TOP + COURSE
    height = bottom + BOTTOM + 20 * ((len(names) + 1) // 2)

    def x(played: float) -> float:
        return LEFT + played / games * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return TOP + (high - min(high, max(low, value))) / (high - low) * (bottom - TOP)

    def parts() -> Iterator[Markup]:
        for value, label in Scale(low, high, 1000).round_values(6):
            yield _line(LEFT, y(value), WIDTH - RIGHT, y(value), GREY, 1.0 if value == 0 else 0.2)
            yield _text(LEFT - 8, y(value) + 4, label, "end")
        yield _text(WIDTH - RIGHT, bottom + 34, "games", "end")
        for played, words in Scale(0, games, 1000).round_values(6):
            yield _text(x(played), bottom + 18, words.lstrip("+"), "middle")
        for number, name in enumerate(names):
            colour, shape = COLOURS[number % len(COLOURS)], SHAPES[number % len(SHAPES)]
            points = points_of(report.course, name, low, high)
            edge = [(one.games, one.high) for one in points] + [(one.games, one.low) for one in points[::-1]]
            band = " ".join(f"{x(played):.1f},{y(value):.1f}" for played, value in edge)
            curve = " ".join(f"{x(one.games):.1f},{y(one.value):.1f}" for one in points)
            yield Markup(f'<polygon points="{band}" fill="{colour}" opacity="0.15"/>')
            yield Markup(f'<polyline points="{curve}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
            for moment in report.course:
                if name in moment.elo:
                    elo = moment.elo[name]
                    tip = f"{name} after {moment.games} games: {elo}"
                    yield _mark(x(moment.games), y(elo.value), colour, shape, tip, 3)
            column, row = LEFT + (number % 2) * 290, bottom + BOTTOM + 20 * (number // 2) + 12
            yield _mark(column, row - 4, colour, shape, name)
            yield _text(column + 12, row, shorten(name, NAME))

    return _svg(title, height, parts())
