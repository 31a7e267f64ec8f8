"""What the arena draws for elsewhere: ratings as PNG, and an event's report as one HTML page with SVG.

The page is one file and makes no requests; its scripts stand in it. Curves also differ in their markers, and their
colours are those that colour-blind people tell apart.
"""

from __future__ import annotations

import io
import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import groupby
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from arena import files
from arena.contract.settings import describe
from arena.go.record import GameRecord
from arena.go.sgf import move_notes, write_sgf
from arena.players.player import Player
from arena.ratings import Estimate
from arena.report import style
from arena.report.chart import points_of, range_of
from arena.report.style import shorten
from arena.report.tables import Sheet
from arena.report.text import Section, sections, terms
from arena.report.text import title as headline
from arena.results.standings import Report, Trained

# matplotlib is imported where it is used: loading it takes a second.
if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


COLOURS = ("#3b8fd4", "#d97f0a", "#009e73", "#cc79a7", "#8a6bd1", "#d55e00", "#808080")
MARKERS = "osD^vPX*<>"
PAGE_INK = "#012345"
"""Stands for a page's own colour of text; no curve has it."""

NAME = 26
"""The most signs of a name in a picture."""

OPEN = 100.0
"""Elo that an interval is drawn long, at least, on a side that the games don't bound."""

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
        yield _Panel("Elo over training", 3.6, lambda axes: _draw_training(axes, report, trained))


def _draw_intervals(axes: Axes, report: Report) -> None:
    """The strongest on top; an arrow on a side that the games don't bound."""
    rated = [(place, place.elo) for place in report.places if place.elo is not None]
    axes.axvline(0, color=COLOURS[-1], linewidth=0.8)
    for row, (place, elo) in enumerate(rated):
        _draw_estimate(axes, elo, row, COLOURS[0], "o", upright=False)
        axes.text(1.02, row, str(elo), transform=axes.get_yaxis_transform(), va="center")
        _tell(axes, elo.value, row, f"{place.name}: {elo} in {place.games} games")
    axes.set_yticks(range(len(rated)), [shorten(place.name, NAME) for place, _ in rated])
    axes.set_ylim(len(rated) - 0.4, -0.6)
    axes.margins(x=0.08)
    axes.tick_params(axis="y", length=0)


def _styles(report: Report) -> dict[str, tuple[str, str]]:
    """The colour and the marker of everybody who is rated, but for the player at 0."""
    names = [place.name for place in report.places if place.elo is not None and place.name != report.anchor]
    return {name: (COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]) for number, name in enumerate(names)}


TIP = "tip: "
"""What a name in a picture begins with that a page shows on hovering."""


def _tell(axes: Axes, x: float, y: float, words: str) -> None:
    """Have a page show these words where the mouse is on a point."""
    axes.plot([x], [y], "o", markersize=12, alpha=0, gid=TIP + words)


def _draw_estimate(axes: Axes, elo: Estimate, at: float, colour: str, marker: str, upright: bool) -> None:
    """An estimate at a place on the other axis: a point with its interval. A side that the games don't bound is as long
    as the other one, or ``OPEN``, and ends in an arrow."""
    ends = [None if end is None else abs(elo.value - end) for end in (elo.interval.low, elo.interval.high)]
    open_length = max([OPEN, *(end for end in ends if end is not None)])
    lengths = [open_length if end is None else end for end in ends]
    x, y = (at, elo.value) if upright else (elo.value, at)
    error = [[length] for length in lengths]
    x_error, y_error = (None, error) if upright else (error, None)
    axes.errorbar([x], [y], xerr=x_error, yerr=y_error, color=colour, marker=marker, capsize=3)
    for end, length, side, arrow in zip(ends, lengths, (-1, 1), "v^" if upright else "<>", strict=True):
        if end is None:
            tip = elo.value + side * length
            axes.plot([at if upright else tip], [tip if upright else at], arrow, color=colour, markersize=8)


def _draw_course(axes: Axes, report: Report) -> None:
    """A curve with its 95 % band for everybody but the player at 0, up to the edge on a side that isn't bounded."""
    axes.axhline(0, color=COLOURS[-1], linewidth=0.8)
    bottom, top = range_of(report.course)
    room = max(5.0, 0.06 * (top - bottom))
    bottom, top = bottom - room, top + room
    for name, (colour, marker) in _styles(report).items():
        known = [(moment.games, moment.elo[name]) for moment in report.course if name in moment.elo]
        points = points_of(report.course, name, bottom, top)
        games = [point.games for point in points]
        values = [point.value for point in points]
        axes.plot(games, values, color=colour, marker=marker, markersize=4, label=shorten(name, NAME))
        if points:
            low, high = [point.low for point in points], [point.high for point in points]
            axes.fill_between(games, low, high, color=colour, alpha=0.15, linewidth=0)
        for after, elo in known:
            _tell(axes, after, elo.value, f"{name} after {after} games: {elo}")
    axes.set_ylim(bottom, top)
    axes.set_xlim(0, report.games * 1.02)
    axes.set_xlabel("games")
    axes.set_ylabel(f"Elo above {shorten(report.anchor, NAME)}")
    _legend_below(axes, 2)


def _draw_training(axes: Axes, report: Report, trained: Sequence[Trained]) -> None:
    """Nets of one family are joined; players look as in their course."""
    families = groupby(sorted(trained, key=lambda one: (one.family, one.rows)), key=lambda one: one.family)
    styles = _styles(report)
    for _, found in families:
        family = list(found)
        valued = [(one.rows, one.elo.value) for one in family]
        axes.plot([rows for rows, _ in valued], [elo for _, elo in valued], color=COLOURS[-1], linewidth=1)
        for one in family:
            colour, marker = styles.get(one.name, (COLOURS[-1], "o"))  # that of the player at 0
            _draw_estimate(axes, one.elo, one.rows, colour, marker, upright=True)
            _annotate(axes, one.name, one.rows, one.elo)
    axes.margins(0.15)
    axes.xaxis.set_major_formatter(_thousands)
    axes.set_xlabel("training rows")
    axes.set_ylabel("Elo")


def _annotate(axes: Axes, name: str, at: float, elo: Estimate) -> None:
    """A name beside an estimate."""
    axes.annotate(shorten(name, NAME), (at, elo.value), (6, -10), textcoords="offset points", fontsize="small")


def _legend_below(axes: Axes, columns: int) -> None:
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=columns, fontsize="small")


def _thousands(rows: float, _: float) -> str:
    return f"{rows / 1e6:g} M" if rows >= 1e6 else f"{rows / 1e3:g} k" if rows else "0"


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
    svg = re.sub(rf'<g id="{TIP}([^"]*)">', r"<g><title>\1</title>", svg)
    svg = re.sub(r'<g id="[^"]*">', "<g>", svg)
    svg = re.sub(r">[^<>]+<", lambda text: _without_paths(text[0]), svg)
    view = re.search(r'viewBox="[^"]*"', svg)
    head = f'<svg role="img" aria-label="{escape(title)}" {"" if view is None else view[0]}>'
    svg = re.sub(r"<svg[^>]*>", lambda _: head, svg, count=1)
    return svg.replace(PAGE_INK, "currentColor")


# --- The page ---

WEB = Path(__file__).with_name("web")
"""The scripts and styles of a page. ``LICENSE`` there names what was bundled."""


def write_page(report: Report, drawings: Sequence[Drawing], games: Sequence[GameRecord], path: Path) -> Path:
    """Write the page aside, then rename. Raises StoreError."""
    files.write(path, page(report, drawings, games).encode("utf-8", "replace"))
    return path


def page(report: Report, drawings: Sequence[Drawing], games: Sequence[GameRecord], *more: str) -> str:
    """All that is known of an event: the report, its plots, the players' settings, and ``games`` to step through, the
    last ones of it, the newest first. ``more`` scripts run at its end."""
    return html_page(headline(report), _page(report, drawings, games), *more)


def html_page(title: str, body: Iterable[str], *more: str) -> str:
    """A page of this house; ``more`` are the names of scripts in ``WEB`` besides those that show games."""
    style, scripts = (
        [(WEB / name).read_text("utf-8").strip() for name in names]
        for names in (("board.min.css", "page.css"), ("board.min.js", "games.js", *more))
    )
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            f'<head><meta charset="utf-8"><title>{_html(title)}</title>',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<link rel="icon" href="data:,">',  # else browsers ask for one
            *(f"<style>{text}</style>" for text in style),
            "</head><body>",
            *body,
            *(f"<script>{text}</script>" for text in scripts),
            "</body></html>\n",
        ]
    )


def _page(report: Report, drawings: Sequence[Drawing], games: Sequence[GameRecord]) -> Iterator[str]:
    yield f'<main id="report"><h1>{_html(headline(report))}</h1>'
    yield from _list(terms(report))
    found = sections(report)
    for section in found[:1]:
        yield from _section(section)
    for drawing in drawings:
        yield f"<h2>{_html(drawing.title)}</h2>"
        yield drawing.svg
    if drawings:
        yield '<p class="note">An arrow: the games do not bound the rating on that side.</p>'
    for section in found[1:]:
        yield from _section(section)
    yield from _section(Section("Players", _players(report.participants.values())), "stacked")
    yield "</main>"
    if games:
        yield from games_part(games, report.stored, report.event)


def games_part(games: Sequence[GameRecord], total: int, event: str) -> Iterator[str]:
    """Games to step through, and the number of all games."""
    words = f"All {total} games." if len(games) >= total else f"The last {len(games)} of {total} games."
    if len(games) < total:
        words += f" All of them as SGF: arena games --event {event} --sgf FOLDER"
    shown = [{"id": game.id, "sgf": write_sgf(_without_its_paths(game), move_notes(game))} for game in games]
    yield "<h2>Games</h2>"
    yield '<div id="viewer"><noscript>The games are shown by a script.</noscript></div>'
    yield script_data("games", {"note": words, "games": shown})


def _without_its_paths(game: GameRecord) -> GameRecord:
    def clean(text: str) -> str:
        return _without_paths(style.spell(text))

    return replace(
        game,
        black=clean(game.black),
        white=clean(game.white),
        black_rank=clean(game.black_rank),
        white_rank=clean(game.white_rank),
        reason=clean(game.reason),
    )


def script_data(id: str, data: object) -> str:
    """Data for a page's scripts; nothing in it ends the element that it is in."""
    text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    return f'<script type="application/json" id="{id}">{text}</script>'


def _section(section: Section, kind: str = "") -> Iterator[str]:
    yield f"<h2>{_html(section.title)}</h2>"
    yield from _table(section.body, kind) if isinstance(section.body, Sheet) else _list(section.body)


def _list(lines: Iterable[tuple[str, str]]) -> Iterator[str]:
    yield "<dl>"
    for label, text in lines:
        yield f"<dt>{_html(label)}</dt><dd>{_html(text)}</dd>"
    yield "</dl>"


def _table(sheet: Sheet, kind: str = "") -> Iterator[str]:
    if sheet.rows:
        yield f'<div class="wide"><table class="{kind}">'
        yield _row("th", sheet, sheet.columns)
        for row in sheet.rows:
            yield _row("td", sheet, row)
        yield "</table></div>"
    if sheet.note:
        yield f'<p class="note">{_html(sheet.note)}</p>'


def _row(tag: str, sheet: Sheet, cells: Sequence[str]) -> str:
    kinds = dict.fromkeys(sheet.numbers, ' class="number"') | dict.fromkeys(sheet.flexible, ' class="long"')
    written = (f"<{tag}{kinds.get(index, '')}>{_html(cell)}</{tag}>" for index, cell in enumerate(cells))
    return f"<tr>{''.join(written)}</tr>"


def _players(participants: Iterable[Player]) -> Sheet:
    rows = [
        (
            one.name,
            one.kind,
            ", ".join(f"{key}={describe(key, value)}" for key, value in one.settings.items()),
            str(one.limits),
            one.net[:12],
        )
        for one in participants
    ]
    return Sheet(("player", "kind", "settings", "limits", "net"), rows, flexible=(0, 2))


_FOLDERS = re.compile(r"(?<![\w./\\])(?:~|[A-Za-z]:)?[/\\]+(?:[^\s/\\,;:=()<>]+[/\\]+)+")


def _without_paths(words: str) -> str:
    """The words, with the names of files in place of their paths: elsewhere nobody needs to know where they lie."""
    return _FOLDERS.sub("", words)


def _html(words: str) -> str:
    """As it may stand in HTML, in text and in quotes."""
    return escape(_without_paths(style.spell(words)))
