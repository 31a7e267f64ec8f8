"""A report as one HTML page that needs nothing else: no scripts, no requests. What it says is ``screen.report``'s."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path

from arena import files
from arena.go.record import Record
from arena.results.event import Participant, Report
from arena.results.stored import MOST_SGF
from arena.screen import style
from arena.screen.pages import Drawing
from arena.screen.report import Section, sections, terms, title
from arena.screen.tables import Sheet, games_table

STYLE = """
:root { color-scheme: light dark; --ink: #1c1c1c; --paper: #ffffff; --soft: #666666; --line: #d8d8d8; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e4e4; --paper: #161616; --soft: #a0a0a0; --line: #3c3c3c; }
}
body { color: var(--ink); background: var(--paper); font: 1rem/1.5 system-ui, sans-serif; margin: 0 auto;
  max-width: 52rem; padding: 1rem; }
h1 { font-size: 1.4rem; line-height: 1.25; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .75rem .25rem 0; text-align: left; vertical-align: top; }
th { color: var(--soft); font-weight: normal; }
.number { text-align: right; white-space: nowrap; }
.long { min-width: 10rem; overflow-wrap: anywhere; }
dl { display: grid; gap: .1rem 1rem; grid-template-columns: max-content 1fr; margin: 0; }
dt, .note { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; white-space: pre-wrap; }
svg { display: block; max-width: 100%; }
svg * { stroke-linecap: butt; stroke-linejoin: round; }
summary { cursor: pointer; overflow-wrap: anywhere; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; }
"""


def write_page(report: Report, drawings: Sequence[Drawing], path: Path) -> Path:
    """Write the page aside, then rename. Raises StoreError."""
    files.write(path, page(report, drawings).encode("utf-8", "replace"))
    return path


def page(report: Report, drawings: Sequence[Drawing]) -> str:
    """All that is known of an event: the report, its plots, the players' settings, the games."""
    return "\n".join(_page(report, drawings)) + "\n"


def _page(report: Report, drawings: Sequence[Drawing]) -> Iterator[str]:
    heading = _text(title(report))
    yield "<!DOCTYPE html>"
    yield '<html lang="en">'
    yield f'<head><meta charset="utf-8"><title>{heading}</title>'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<style>{STYLE}</style></head>"
    yield f"<body><h1>{heading}</h1>"
    yield from _list(terms(report))
    found = sections(report)
    for section in found[:1]:
        yield from _section(section)
    for drawing in drawings:
        yield f"<h2>{_text(drawing.title)}</h2>"
        yield drawing.svg
    if drawings:
        yield '<p class="note">An arrow: the games bound a rating on that side only.</p>'
    for section in found[1:]:
        yield from _section(section)
    yield from _section(Section("Players", _players(report.participants)))
    yield from _games(report)
    yield "</body></html>"


def _section(section: Section) -> Iterator[str]:
    yield f"<h2>{_text(section.title)}</h2>"
    yield from _table(section.body) if isinstance(section.body, Sheet) else _list(section.body)


def _list(lines: Iterable[tuple[str, str]]) -> Iterator[str]:
    yield "<dl>"
    for label, text in lines:
        yield f"<dt>{_text(label)}</dt><dd>{_text(text)}</dd>"
    yield "</dl>"


def _table(sheet: Sheet) -> Iterator[str]:
    if sheet.rows:
        yield '<div class="wide"><table>'
        yield _row("th", sheet, sheet.columns)
        for row in sheet.rows:
            yield _row("td", sheet, row)
        yield "</table></div>"
    if sheet.note:
        yield f'<p class="note">{_text(sheet.note)}</p>'


def _row(tag: str, sheet: Sheet, cells: Sequence[str]) -> str:
    kinds = dict.fromkeys(sheet.numbers, ' class="number"') | dict.fromkeys(sheet.flexible, ' class="long"')
    written = (f"<{tag}{kinds.get(index, '')}>{_text(cell)}</{tag}>" for index, cell in enumerate(cells))
    return f"<tr>{''.join(written)}</tr>"


def _players(participants: Sequence[Participant]) -> Sheet:
    rows = [
        (one.name, one.kind, ", ".join(f"{key}={value}" for key, value in one.settings), one.limits, one.net[:12])
        for one in participants
    ]
    return Sheet(("player", "kind", "settings", "limits", "net"), rows, flexible=(0, 2))


def _games(report: Report) -> Iterator[str]:
    """The games: with their moves, where there aren't too many."""
    games = report.games
    yield "<h2>All games</h2>"
    if len(games) > MOST_SGF:
        yield f"<details><summary>{len(games)} games</summary>"
        yield from _table(games_table(games, len(games)))
        yield "</details>"
        return
    for game in games:
        if isinstance(game, Record):
            yield f"<details><summary>{_text(_line(game))}</summary><pre>{_text(game.to_sgf())}</pre></details>"


def _line(record: Record) -> str:
    """A game in a line."""
    if record.outcome is None:
        return record.id
    result = "draw" if record.outcome.winner is None else record.outcome.sgf
    ending = f"{record.outcome.ending}, {record.reason}" if record.reason else f"{record.outcome.ending}"
    return f"{record.id}: {record.black} (Black), {record.white} (White), {result}, {ending}, {len(record.moves)} moves"


def _text(words: str) -> str:
    """As it may stand in HTML, in text and in quotes."""
    return escape(style.spell(words, ascii_only=False))
