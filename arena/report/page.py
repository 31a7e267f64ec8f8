"""The report of an event as one HTML page: it is one file and makes no requests; its scripts stand in it.

All words are escaped, and name no folder of this machine.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from arena import files
from arena.contract.settings import describe
from arena.go.record import GameRecord
from arena.go.sgf import move_notes, write_sgf
from arena.ratings import EloEstimate
from arena.report import style
from arena.report.chart import Scale, points_of, scale_of
from arena.report.tables import Table
from arena.report.text import sections, terms, title
from arena.results.league import EventReport

WEB = Path(__file__).with_name("web")
"""The templates, scripts and styles of a page. ``LICENSE`` there names what was bundled."""

NAMED = ("black", "white", "black_rank", "white_rank", "reason")  # fields of a game that may name folders
LONGEST_NAME = 26  # cells of a player's name in a plot; its middle goes first
OPEN = 100.0  # Elo that an interval is drawn long, at least, on a side that the games don't bound


def write_page(report: EventReport, games: Sequence[GameRecord], path: Path) -> Path:
    """Write the page aside, then rename. Raises StoreError."""
    files.write(path, render_page(report, games))
    return path


def render_page(report: EventReport, games: Sequence[GameRecord]) -> str:
    """The report of an event, its plots, the players' settings, and ``games`` to step through, the newest first."""
    return render(
        title=title(report),
        terms=terms(report),
        sections=sections(report),
        plots=plots(report) if report.league is not None else None,
        players=_players(report),
        games=games_data(games, report.stored, report.event) if games else "",
    )


def render(**parts: Any) -> str:
    """A page of these parts."""
    pages = Environment(
        loader=FileSystemLoader(WEB), autoescape=True, undefined=StrictUndefined, finalize=_clean, trim_blocks=True
    )
    pages.filters["shorten"] = lambda name: style.shorten(style.redact(name), LONGEST_NAME)
    return pages.get_template("page.html").render(
        **({"charts": (), "players": None, "games": ""} | parts),
        styles=[Markup((WEB / name).read_text("utf-8").strip()) for name in ("board.min.css", "page.css")],
        scripts=[Markup((WEB / name).read_text("utf-8").strip()) for name in ("board.min.js", "games.js")],
    )


def plots(report: EventReport) -> dict[str, Any]:
    """The plots of a page: all intervals, the strongest first; and the Elo over the games, without the player at 0."""
    rated = [(place, place.elo, _ends(place.elo)) for place in report.places if place.elo is not None]
    elo, names = scale_of(report.course), [place.name for place, *_ in rated]
    return {
        "title": "Elo over the games played",
        "unit": "games",
        "scale": "" if report.league is None else report.league.scale,
        "rated": rated,
        "has_open_ends": any(None in (elo.low, elo.high) for _, elo, _ in rated),
        "range": Scale.over([0.0, *(end for *_, ends in rated for end in ends)]),
        "elo": elo,
        "games": Scale(0, max(1, report.games)),
        "curves": [
            (rank, name, style.COLOURS[(rank - 1) % len(style.COLOURS)], points_of(report.course, name, elo))
            for rank, name in enumerate(names, 1)
            if name != report.anchor
        ],
    }


def _ends(elo: EloEstimate) -> tuple[float, float]:
    """Where an interval is drawn: a side that the games don't bound is as long as the other one, or ``OPEN``."""
    low, high = elo.low, elo.high
    length = max([OPEN, *(abs(elo.value - end) for end in (low, high) if end is not None)])
    return elo.value - length if low is None else low, elo.value + length if high is None else high


def games_data(games: Sequence[GameRecord], total: int, event: str) -> Markup:
    """Games for the page's script, and a note with the number of all games; nothing in it ends its element."""
    words = f"All {total} games." if len(games) >= total else f"The last {len(games)} of {total} games."
    if len(games) < total:
        words += f" All of them as SGF: arena games --event {event} --sgf FOLDER"
    shown = []
    for game in games:
        known: dict[str, Any] = {name: style.redact(getattr(game, name)) for name in NAMED}
        shown.append({"id": game.id, "sgf": write_sgf(replace(game, **known), move_notes(game))})
    text = json.dumps({"note": words, "games": shown}, ensure_ascii=False)
    return Markup(text.replace("<", "\\u003c"))


def _players(report: EventReport) -> Table:
    rows = []
    for one in report.participants.values():
        settings = ", ".join(f"{key}={describe(key, value)}" for key, value in one.settings.items())
        rows.append((one.name, one.kind, settings, str(one.limits), one.net[:12]))
    return Table(("player", "kind", "settings", "limits", "net"), rows, flexible=(0, 2))


def _clean(value: Any) -> Any:
    """What stands in the page for a value: words in one line without paths."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else style.redact(value)
