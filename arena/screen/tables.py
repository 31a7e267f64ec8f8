"""Tables for the terminal: bots, ratings, games, what a set of records holds. Nothing is counted here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from arena.contract.settings import plain
from arena.screen import style

# Listing the bots stays quick: neither pandas nor the compiler is imported for it.
if TYPE_CHECKING:
    import pandas as pd

    from arena.go.collection import Statistics
    from arena.go.record import Played
    from arena.players.registry import Entry
    from arena.ratings import Estimate
    from arena.results.store import Pool

SHOWN_COUNTS = 8

LEAST = 8
"""Columns that a flexible column needs at least."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table with a note below, spelled as the console can print it. Nothing is cut off: cells of ``flexible`` columns
    wrap, and where even that makes them too narrow, each row becomes a few lines of its own.

    ``flexible`` and ``numbers``, which are aligned to the right, are indices of columns.
    """

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    note: str = ""
    flexible: tuple[int, ...] = ()
    numbers: tuple[int, ...] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        ascii_only = options.ascii_only
        if self.rows:
            yield (
                self._table(ascii_only)
                if self._least_width(ascii_only) <= options.max_width
                else self._cards(ascii_only)
            )
        if self.note and self.rows:
            yield Text()
        if self.note:
            yield _text(self.note, ascii_only, style.LABEL)

    def _least_width(self, ascii_only: bool) -> int:
        """Below this the table can't be read."""
        lines = [self.columns, *self.rows]
        widths = [
            max(cell_len(style.spell(line[index], ascii_only)) for line in lines) for index in range(len(self.columns))
        ]
        least = [min(LEAST, width) if index in self.flexible else width for index, width in enumerate(widths)]
        return sum(least) + 2 * len(least)

    def _table(self, ascii_only: bool) -> Table:
        named = any(self.columns)
        table = Table(box=box.SIMPLE_HEAD if named else None, padding=(0, 1, 0, 0), show_edge=False, show_header=named)
        for index, column in enumerate(self.columns):
            table.add_column(
                _text(column, ascii_only),
                justify="right" if index in self.numbers else "left",
                no_wrap=index not in self.flexible,
                overflow="fold",
            )
        for row in self.rows:
            table.add_row(*(_text(cell, ascii_only) for cell in row))
        return table

    def _cards(self, ascii_only: bool) -> Table:
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for row in self.rows:
            for index, (column, cell) in enumerate(zip(self.columns, row, strict=True)):
                if cell:
                    table.add_row(
                        _text(column, ascii_only, style.LABEL), _text(cell, ascii_only, "" if index else "bold")
                    )
            table.add_row()
        return table


def _text(words: str, ascii_only: bool, text_style: str = "") -> Text:
    return Text(style.spell(words, ascii_only), text_style, overflow="fold")


def bots_table(entries: Iterable[Entry], ratings: Mapping[str, Estimate], pool: Pool | None = None) -> Sheet:
    """Who can play; ``ratings`` are by identity, from games of the ``pool``."""
    rows = []
    for entry in entries:
        settings = dict(entry.settings)
        net = Path(settings.pop("checkpoint", "")).name
        listed = ", ".join(f"{key}={_plain(value)}" for key, value in settings.items() if value != "")
        if str(entry.limits):
            listed = ", ".join(filter(None, (listed, f"@{entry.limits}")))
        rating = ratings.get(entry.identity)
        rows.append(
            (
                entry.name,
                entry.kind,
                listed,
                net,
                "" if rating is None else "0" if rating.is_zero else str(rating),
            )
        )
    note = "Settings are changed inline, as in mcts:playouts=5000, or in arena.toml."
    if ratings:
        note += f" Elo: on {pool}; arena elo shows all ratings."
    return Sheet(("name", "kind", "settings", "net", "Elo"), rows, note, flexible=(2, 3), numbers=(4,))


def settings_table(entry: Entry) -> Sheet:
    """What each setting of a bot does, what it is and what it may be; then the limits that may stand behind any."""
    values = dict(entry.settings)
    rows = []
    for field in entry.bot_kind.settings:
        unset = "(to be given)" if field.default_factory is MISSING else ""
        value = _plain(values[field.name]) if field.name in values else unset
        rows.append((field.name, value, _allowed(field), field.metadata["help"]))
    like = f"{entry.name}:{rows[0][0]}=..." if rows else ""
    for name, field in entry.limits.settings().items():
        value = getattr(entry.limits, name)
        rows.append((f"@{name}", "" if value is None else _plain(value), _allowed(field), field.metadata["help"]))
    examples = " or ".join(filter(None, (like, f"{entry.name}@seconds=1", f"{entry.name}@main=60,byoyomi=5")))
    note = f"{entry.name}: {entry.bot_kind.summary}. As in {examples}."
    return Sheet(("setting", "value", "allowed", "what it does"), rows, note, flexible=(3,))


def _allowed(field: Field[Any]) -> str:
    """What values a setting takes, where that is said."""
    about = field.metadata
    if about["low"] is None:
        return ", ".join(about["choices"])
    low, high = plain(about["low"]), about["high"]
    return f"{low} up" if high is None else f"{low} to {plain(high)}"


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else plain(value)


def elo_table(ratings: pd.DataFrame | None, pool: Pool | None = None) -> Sheet:
    """The frame of ``report.ratings_table`` for a pool."""
    if ratings is None or ratings.empty:
        return Sheet((), (), "No such games between different players are stored; play some with 'arena match'.")
    anchor = ratings.attrs["anchor"]
    rows = []
    for row in ratings.itertuples():
        elo = "0" if row.player == anchor else str(row.estimate)
        rows.append((str(row.rank), str(row.player), elo, str(row.games), style.per_cent(row.score)))
    note = f"{pool}: " if pool is not None else ""
    note += f"Elo above {anchor}, with 95 % intervals; {ratings.attrs['prior']:g} virtual games a player"
    black = ratings.attrs["black_advantage"]
    if black is not None:
        note += f"; playing Black is worth {black}"
    return Sheet(("#", "player", "Elo", "games", "score"), rows, f"{note}.", flexible=(1,), numbers=(0, 2, 3, 4))


def games_table(records: Iterable[Played], total: int) -> Sheet:
    """Games in the order given, out of ``total``."""
    rows = []
    for record in records:
        outcome = record.outcome
        result = "?" if outcome is None else "draw" if outcome.winner is None else outcome.sgf
        ending = "" if outcome is None else record.reason or str(outcome.ending)
        if record.unrated:
            ending += f" (unrated: {record.unrated})"
        rows.append((record.id, record.black, record.white, result, str(record.length), ending))
    if not rows:
        return Sheet((), (), "There are no such games; 'arena games' without options lists all.")
    shown = f"{len(rows)} of {total} games" if len(rows) < total else f"{total} game{'s' if total != 1 else ''}"
    return Sheet(("game", "Black", "White", "result", "moves", "ended by"), rows, f"{shown}.", (0, 1, 2, 5), (4,))


def statistics_table(counted: Statistics) -> Sheet:
    """What a set of records holds."""
    lengths = list(counted.lengths)
    rows = [
        ("games", f"{counted.games}"),
        ("positions", f"{counted.positions}"),
        ("sizes", _counts(counted.sizes, lambda size: f"{size}x{size}")),
        ("rules", _counts(counted.rules, str)),
        ("komi", _counts(counted.komi, lambda komi: f"{komi:g}")),
        ("results", _counts(counted.results, str)),
        ("moves", f"{lengths[0]} to {lengths[-1]}, median {counted.median_length}" if lengths else ""),
        ("refused", f"{counted.refused}"),
        *(("", f"{games} × {reason}") for reason, games in counted.refusals.items()),
    ]
    return Sheet(("", ""), rows, flexible=(1,))


def _counts(counts: Mapping[Any, int], label: Callable[[Any], str]) -> str:
    """The most frequent, in the order given; the rest as one number."""
    least = sorted(counts.values(), reverse=True)[SHOWN_COUNTS - 1] if len(counts) > SHOWN_COUNTS else 0
    shown = {value: games for value, games in counts.items() if games >= least}
    rest = sum(counts.values()) - sum(shown.values())
    parts = [f"{label(value)}: {games}" for value, games in shown.items()]
    return ", ".join([*parts, f"others: {rest}"] if rest else parts)
