"""Ratings as pictures: intervals, their course over the games, strength over training. PNG, and SVG for a page.

Curves differ in their markers, too, and their colours are those that colour-blind people tell apart.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from itertools import groupby
from math import isnan
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from arena import ConfigError, files
from arena.ratings import Bound, Estimate
from arena.results.event import Report
from arena.results.gate import History, Over, Ruling, Version
from arena.results.nets import Trained
from arena.screen.style import shorten

# matplotlib is imported where it is used: loading it takes a second.
if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from trainers.evaluation import Evaluation

COLOURS = ("#3b8fd4", "#d97f0a", "#009e73", "#cc79a7", "#8a6bd1", "#d55e00", "#808080")
MARKERS = "osD^vPX*<>"
INK = "#222222"
PAGE_INK = "#012345"
"""Stands for a page's own colour of text; no curve has it."""

NAME = 26
"""The most signs of a name in a picture."""

PNG_WIDTH, DPI = 8.0, 150
PAGE_WIDTH = 6.0  # inches; a phone shows that at half its size


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture for a page: SVG that takes its colour of text and its width from what is around it."""

    title: str
    svg: str


@dataclass(frozen=True, slots=True)
class _Panel:
    title: str
    height: float  # inches
    draw: Callable[[Axes], None]


def draw_png(report: Report, trained: Sequence[Trained], path: Path) -> Path:
    """Write all the plots into one picture. Raises ConfigError for a name that isn't of a PNG and for an event without
    games, StoreError when the file can't be written."""
    import matplotlib

    if path.suffix.lower() != ".png":
        raise ConfigError(f"{path}: the picture is a PNG; call it {path.with_suffix('.png').name}")
    panels = list(_panels(report, trained))
    if not panels:
        raise ConfigError(f"{report.id} has no finished game to draw; play some first")
    with matplotlib.rc_context(_settings(INK)):
        figure = _figure(PNG_WIDTH, panels)
        figure.set_facecolor("white")
        for axes, panel in zip(figure.axes, panels, strict=True):
            axes.set_title(panel.title, loc="left")
        content = io.BytesIO()
        _save(figure, content, format="png", dpi=DPI)
    files.write(path, content.getvalue())
    return path


def draw_svgs(report: Report, trained: Sequence[Trained]) -> list[Drawing]:
    """The plots one by one; none for an event without games."""
    import matplotlib

    drawings = []
    for number, panel in enumerate(_panels(report, trained)):
        with matplotlib.rc_context(_settings(PAGE_INK, **{"svg.hashsalt": f"{number}"})):
            content = io.StringIO()
            _save(_figure(PAGE_WIDTH, [panel]), content, format="svg", metadata={"Date": None})
        drawings.append(Drawing(panel.title, _for_page(content.getvalue(), panel.title)))
    return drawings


def _panels(report: Report, trained: Sequence[Trained]) -> Iterator[_Panel]:
    if not report.anchor:
        return
    rated = sum(place.elo is not None for place in report.places)
    yield _Panel(
        f"Elo above {shorten(report.anchor, NAME)}, with 95 % intervals",
        0.9 + 0.32 * rated,
        lambda axes: _draw_intervals(axes, report),
    )
    yield _Panel("Elo over the games played", 3.6, lambda axes: _draw_course(axes, report))
    if trained:
        yield _Panel("Elo over what the nets have learned", 3.6, lambda axes: _draw_training(axes, report, trained))


def _draw_intervals(axes: Axes, report: Report) -> None:
    """The strongest on top; an arrow where the games bound one side only."""
    rated = [(place, place.elo) for place in report.places if place.elo is not None]
    axes.axvline(0, color=COLOURS[-1], linewidth=0.8)
    for row, (place, elo) in enumerate(rated):
        _draw_estimate(axes, elo, row, COLOURS[0], "o", upright=False)
        text = "0" if place.name == report.anchor else str(elo)
        axes.text(1.02, row, text, transform=axes.get_yaxis_transform(), va="center")
    axes.set_yticks(range(len(rated)), [shorten(place.name, NAME) for place, _ in rated])
    axes.set_ylim(len(rated) - 0.4, -0.6)
    axes.margins(x=0.08)
    axes.tick_params(axis="y", length=0)


def _styles(report: Report) -> dict[str, tuple[str, str]]:
    """The colour and the marker of everybody who is rated, but for the player at 0."""
    names = [place.name for place in report.places if place.elo is not None and place.name != report.anchor]
    return {name: (COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]) for number, name in enumerate(names)}


def _draw_estimate(axes: Axes, elo: Estimate, at: float, colour: str, marker: str, upright: bool) -> None:
    """An estimate at a place on the other axis: a point with its interval, or the one end that is known."""
    low, high = elo.interval.low, elo.interval.high
    if elo.value is not None and low is not None and high is not None:
        error = [[elo.value - low], [high - elo.value]]
        x, y = (at, elo.value) if upright else (elo.value, at)
        x_error, y_error = (None, error) if upright else (error, None)
        axes.errorbar([x], [y], xerr=x_error, yerr=y_error, color=colour, marker=marker, capsize=3)
        return
    end = low if low is not None else high
    if end is not None:
        arrow = ("^" if upright else ">") if elo.bound is Bound.BELOW else ("v" if upright else "<")
        axes.plot([at if upright else end], [end if upright else at], arrow, color=colour, markersize=8)


def _draw_course(axes: Axes, report: Report) -> None:
    """A curve with its 95 % band for everybody but the player at 0; arrows where one side only is bounded."""
    axes.axhline(0, color=COLOURS[-1], linewidth=0.8)
    later = [moment for moment in report.course if moment.games >= len(report.games) / 4]
    seen: list[float] = [0.0]
    for name, (colour, marker) in _styles(report).items():
        known = [(moment.games, moment.elo[name]) for moment in report.course if name in moment.elo]
        points = [
            (games, elo.value, elo.interval.low, elo.interval.high)
            for games, elo in known
            if elo.value is not None and elo.interval.low is not None and elo.interval.high is not None
        ]
        axes.plot(
            [games for games, *_ in points],
            [value for _, value, *_ in points],
            color=colour,
            marker=marker,
            markersize=4,
            label=shorten(name, NAME),
        )
        if points:
            axes.fill_between(
                [games for games, *_ in points],
                [low for *_, low, _ in points],
                [high for *_, high in points],
                color=colour,
                alpha=0.15,
                linewidth=0,
            )
        for games, elo in known:
            if elo.bound in (Bound.BELOW, Bound.ABOVE):
                _draw_estimate(axes, elo, games, colour, marker, upright=True)
        for elo in (moment.elo[name] for moment in later if name in moment.elo):
            seen += [end for end in (elo.value, elo.interval.low, elo.interval.high) if end is not None]
    room = max(5.0, 0.06 * (max(seen) - min(seen)))
    axes.set_ylim(min(seen) - room, max(seen) + room)
    axes.set_xlim(0, len(report.games) * 1.02)
    axes.set_xlabel("games")
    axes.set_ylabel(f"Elo above {shorten(report.anchor, NAME)}")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2, fontsize="small")


def _draw_training(axes: Axes, report: Report, trained: Sequence[Trained]) -> None:
    """Nets of one family are joined; players look as in their course."""
    families = groupby(sorted(trained, key=lambda one: (one.family, one.rows)), key=lambda one: one.family)
    styles = _styles(report)
    for _, found in families:
        family = list(found)
        valued = [(one.rows, one.elo.value) for one in family if one.elo.value is not None]
        axes.plot([rows for rows, _ in valued], [elo for _, elo in valued], color=COLOURS[-1], linewidth=1)
        for one in family:
            colour, marker = styles.get(one.name, (COLOURS[-1], "o"))  # that of the player at 0
            _draw_estimate(axes, one.elo, one.rows, colour, marker, upright=True)
            end = next(
                (end for end in (one.elo.value, one.elo.interval.low, one.elo.interval.high) if end is not None), 0
            )
            axes.annotate(
                shorten(one.name, NAME), (one.rows, end), (6, -10), textcoords="offset points", fontsize="small"
            )
    axes.margins(x=0.15)
    axes.xaxis.set_major_formatter(_thousands)
    axes.set_xlabel("training rows")
    axes.set_ylabel("Elo")


def _thousands(rows: float, _: float) -> str:
    return f"{rows / 1e6:g} M" if rows >= 1e6 else f"{rows / 1e3:g} k"


def draw_history(history: History, over: Over, path: Path) -> None:
    """Draw an entry's checkpoints and their strength into a PNG. Raises ConfigError for another name and where fewer
    than two are rated, StoreError when the file can't be written."""
    import matplotlib

    if path.suffix.lower() != ".png":
        raise ConfigError(f"{path}: the picture is a PNG; call it {path.with_suffix('.png').name}")
    rated = history.rated(over)
    if len(rated) < 2:
        known = "games" if over is Over.GATES else f"games and known {over} of training"
        raise ConfigError(f"{history.entry} has no two checkpoints with {known}, so there is nothing to draw")
    with matplotlib.rc_context(_settings(INK)):
        panel = _Panel("", 3.6, lambda axes: _draw_versions(axes, rated, over, history.anchor))
        figure = _figure(PNG_WIDTH, [panel])
        figure.set_facecolor("white")
        figure.axes[0].set_title(f"{history.entry}: its checkpoints and what gates said of them", loc="left")
        content = io.BytesIO()
        _save(figure, content, format="png", dpi=DPI)
    files.write(path, content.getvalue())


def _draw_versions(axes: Axes, rated: Sequence[Version], over: Over, anchor: str) -> None:
    """Those that the entry has played are joined; each verdict has a marker of its own."""
    from matplotlib.ticker import MaxNLocator

    verdicts: dict[Ruling | None, tuple[str, str]] = {
        None: ("by no gate", "D"),
        Ruling.ACCEPTED: ("accepted", "o"),
        Ruling.REJECTED: ("rejected", "X"),
        Ruling.UNDECIDED: ("undecided", "s"),
    }
    axes.axhline(0, color=COLOURS[-1], linewidth=0.8)
    played = [
        (one.place(over), one.elo.value)
        for one in rated
        if (one.evidence is None or one.evidence.ruling is Ruling.ACCEPTED)
        and one.elo is not None
        and one.elo.value is not None
    ]
    axes.plot([place for place, _ in played], [elo for _, elo in played], color=COLOURS[-1], linewidth=1)
    for number, (verdict, (words, marker)) in enumerate(verdicts.items()):
        found = [one for one in rated if (None if one.evidence is None else one.evidence.ruling) is verdict]
        for one in found:
            if one.elo is not None:
                _draw_estimate(axes, one.elo, one.place(over), COLOURS[number], marker, upright=True)
                ends = (one.elo.value, one.elo.interval.low, one.elo.interval.high)
                at = (one.place(over), next((end for end in ends if end is not None), 0.0))
                axes.annotate(shorten(one.checkpoint, NAME), at, (6, -10), textcoords="offset points", fontsize="small")
        if found:
            axes.plot([], [], color=COLOURS[number], marker=marker, linestyle="", label=words)
    axes.margins(x=0.15)
    axes.set_xlabel({Over.ROWS: "training rows", Over.MINUTES: "minutes of training", Over.GATES: "gate"}[over])
    if over is Over.ROWS:
        axes.xaxis.set_major_formatter(_thousands)
    if over is Over.GATES:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel(f"Elo above {shorten(anchor, NAME)}")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=4, fontsize="small")


def draw_evaluation(evaluation: Evaluation, path: Path) -> None:
    """Draw the figures over the number of the move. Raises ConfigError, StoreError."""
    last = max((ply for ply, sums in enumerate(evaluation.sums) if sums[0]), default=0)
    by_ply = [evaluation.figures(ply, ply) for ply in range(last + 1)]
    plots = [
        _Lines("Moves foreseen", "share", {f"top-{k}": [getattr(one, f"top{k}") for one in by_ply] for k in (1, 3, 5)}),
        _Lines(
            "Results",
            "mean squared error",
            {"net": [one.value_error for one in by_ply], "constant": [one.value_floor for one in by_ply]},
        ),
        _Lines(
            "Owners foreseen",
            "share of points",
            {
                "net": [one.ownership for one in by_ply],
                "nearest stone": [one.by_nearest for one in by_ply],
                "stone": [one.by_stone for one in by_ply],
            },
        ),
    ]
    _write_lines([plot for plot in plots if not all(map(isnan, next(iter(plot.curves.values()))))], path)


@dataclass(frozen=True, slots=True)
class _Lines:
    """One plot of several curves over the number of a move; NaN leaves a gap."""

    title: str
    unit: str
    curves: Mapping[str, Sequence[float]]


def _write_lines(plots: Sequence[_Lines], path: Path) -> None:
    """The plots below each other in one PNG."""
    import matplotlib

    if path.suffix.lower() != ".png":
        raise ConfigError(f"{path}: the picture is a PNG; call it {path.with_suffix('.png').name}")
    with matplotlib.rc_context(_settings(INK)):
        figure = _figure(PNG_WIDTH, [_Panel(plot.title, 3.0, partial(_draw_lines, plot)) for plot in plots])
        figure.set_facecolor("white")
        for axes, plot in zip(figure.axes, plots, strict=True):
            axes.set_title(plot.title, loc="left")
        content = io.BytesIO()
        _save(figure, content, format="png", dpi=DPI)
    files.write(path, content.getvalue())


def _draw_lines(plot: _Lines, axes: Axes) -> None:
    for number, (name, values) in enumerate(plot.curves.items()):
        moves = range(1, len(values) + 1)
        axes.plot(moves, values, color=COLOURS[number], marker=MARKERS[number], markersize=3, markevery=5, label=name)
    axes.set_xlabel("move")
    axes.set_ylabel(plot.unit)
    axes.legend(fontsize="small")


# --- Around the plots ---


def _settings(ink: str, **more: str) -> Any:
    parts = ("axes.edgecolor", "axes.labelcolor", "legend.labelcolor", "text.color", "xtick.color", "ytick.color")
    return {
        **dict.fromkeys(parts, ink),
        "axes.spines.right": False,
        "axes.spines.top": False,
        "font.size": 10,
        "legend.frameon": False,
        "svg.fonttype": "none",
        "text.parse_math": False,  # a name may have a $
        **more,
    }


def _figure(width: float, panels: Sequence[_Panel]) -> Figure:
    """The panels below each other, drawn, on nothing."""
    from matplotlib.figure import Figure

    heights = [panel.height for panel in panels]
    figure = Figure(figsize=(width, sum(heights)), layout="constrained", facecolor="none")
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)
    for each, panel in zip(axes[:, 0], panels, strict=True):
        each.set_facecolor("none")
        panel.draw(each)
    return figure


def _save(figure: Figure, file: IO[Any], **options: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of signs in names that the font lacks
        figure.savefig(file, **options)


def _for_page(svg: str, title: str) -> str:
    """What stands in a page: no header, no addresses, no names that a second drawing has too, no size, no ink."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*">', "<g>", svg)
    view = re.search(r'viewBox="[^"]*"', svg)
    head = f'<svg role="img" aria-label="{escape(title)}" {"" if view is None else view[0]}>'
    svg = re.sub(r"<svg[^>]*>", lambda _: head, svg, count=1)
    return svg.replace(PAGE_INK, "currentColor")
