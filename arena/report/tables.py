"""Tables and labelled facts, and the tables of bots, ratings, games, records, forecasts, and of what a net knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, replace
from math import comb, isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, JustifyMethod, RenderResult
from rich.table import Column
from rich.table import Table as Grid
from rich.text import Text

from arena import plural
from arena.contract.settings import describe, format_value
from arena.report import style

# Listing the bots stays quick: the compiler is not imported for it.
if TYPE_CHECKING:
    from arena.go.record import GameRecord
    from arena.match.standings import MatchTally, Standing, Standings
    from arena.players.player import Player
    from arena.ratings import EloEstimate, Ratings
    from arena.results.store import Pool
    from trainers.metrics import NetEvaluation

LABELS = 11  # columns of the labels of a FactList
WHENEVER = "valid whenever you stop"  # the label of intervals that hold however often one looks, see ConfidenceSequence
SQUARE = 30  # players up to whose number tables of everybody against everybody are shown
SHOWN = 0.05  # the chance that any LOS of a table is marked, where all players are equally strong
MISFITS = 5  # lines about results that the ratings don't explain, at most
MANY, FEW_OPENINGS = 5, 50
"""Games for each opening from which a report says that there are few openings, where there are fewer than these."""

LEAST = 10  # columns that a flexible column needs at least
ENDLESS = 1_000_000  # columns that a table may have where there is no terminal


@dataclass(frozen=True, slots=True)
class Table:
    """A table with a note below. On a terminal, cells of ``flexible`` columns wrap, never inside a number; where even
    that makes them too narrow, each row becomes a few lines of its own. Elsewhere a row is a line, however long.

    ``flexible`` and ``numbers``, which are aligned to the right, are indices of columns.
    """

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    note: str = ""
    flexible: tuple[int, ...] = ()
    numbers: tuple[int, ...] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.rows:
            options = options if console.is_terminal else options.update(max_width=ENDLESS)
            widths = [max(map(cell_len, column)) for column in zip(self.columns, *self.rows, strict=True)]
            least = [min(LEAST, width) if index in self.flexible else width for index, width in enumerate(widths)]
            room = options.max_width - 2 * len(widths)  # a column is followed by two spaces
            for index in sorted(self.flexible, key=widths.__getitem__):  # the widest share what the others leave
                others = [width for other, width in enumerate(least) if other != index]
                later = [other for other in self.flexible if widths[other] > widths[index]]
                least[index] = min(widths[index], max(least[index], (room - sum(others)) // (1 + len(later))))
            has_room = sum(least) <= room
            yield from console.render(self._table(least) if has_room else self._cards(options.max_width), options)
        if self.note:
            yield style.text(f"\n{self.note}" if self.rows else self.note, style.LABEL)

    def _table(self, widths: Sequence[int]) -> Grid:
        named = any(self.columns)
        table = Grid(box=box.SIMPLE_HEAD if named else None, padding=(0, 1, 0, 0), show_edge=False, show_header=named)
        for index, (column, width) in enumerate(zip(self.columns, widths, strict=True)):
            side: JustifyMethod = "right" if index in self.numbers else "left"
            table.add_column(style.text(style.fold(column, width)), justify=side, no_wrap=True)
        for row in self.rows:
            table.add_row(*(style.text(style.fold(cell, width)) for cell, width in zip(row, widths, strict=True)))
        return table

    def _cards(self, width: int) -> Grid:
        table = Grid.grid(Column(no_wrap=True), Column(no_wrap=True), padding=(0, 2, 0, 0))
        room = max(LEAST, width - 2 - max(map(cell_len, self.columns)))
        for row in self.rows:
            for index, (column, cell) in enumerate(zip(self.columns, row, strict=True)):
                if cell:
                    words = style.fold(cell, room)
                    table.add_row(style.text(column, style.LABEL), style.text(words, "" if index else "bold"))
            table.add_row()
        return table


@dataclass(frozen=True, slots=True)
class FactList:
    """Labels and texts: on a terminal long texts wrap, elsewhere each takes a line, however long."""

    rows: Sequence[tuple[str, str]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not console.is_terminal:
            yield from (style.text(f"  {label:{LABELS}}{text}") for label, text in self.rows)
            return
        grid = Grid.grid(Column(width=LABELS), Column(overflow="fold"), padding=0)
        for label, text in self.rows:
            grid.add_row(style.text(label, style.WARNING if label == "Warning" else style.LABEL), style.text(text))
        yield grid


Section = tuple[str, Table | FactList]  # a part of a report: its title and what stands below


def render(sections: Iterable[Section]) -> Group:
    """The sections, a line apart."""
    parts = [part for title, body in sections for part in (Text(), style.text(title, "bold"), body)]
    return Group(*parts[1:])


def standings_table(places: Iterable[Standing], ratings: Ratings | None) -> Table:
    """Rank, name, Elo, games and score of everybody, the strongest first."""
    rows = [
        (str(rank), one.name, "–" if one.elo is None else str(one.elo), str(one.games), style.per_cent(one.score))
        for rank, one in enumerate(places, 1)
    ]
    note, column = "", "Elo"
    if ratings is not None:
        note = f"Elo {ratings.scale}, with 95 % intervals from {plural(ratings.openings, 'opening')}"
        note += f"; {ratings.prior:g} virtual games a player." if ratings.prior else "."
        if not ratings.is_final and ratings.anytime:
            note += f" The interval is {WHENEVER}."
        elif not ratings.is_final:
            column = "Elo (provisional)"
            note += " Provisional: they hold only when all games of a plan are played that no result changed."
    return Table(("#", "player", column, "games", "score"), rows, note, flexible=(1,), numbers=(0, 2, 3, 4))


def points_table(ratings: Ratings) -> Table:
    """Points out of games of everybody against everybody."""
    places = {name: at for at, name in enumerate(ratings.players)}

    def met(name: str, other: str) -> str:
        at = places[name], places[other]
        return f"{ratings.points[at]:g}/{ratings.games[at]:g}" if ratings.games[at] else ""

    return square_table(ratings.ranking(), met, "Points out of games against each, by rank.")


def lead_table(report: Standings) -> Table:
    """By how much everybody is at least stronger than each, as far as that is known before the event's planned end."""

    def lead(name: str, other: str) -> str:
        low, _ = report.anytime(name, other)
        return f"{low:+.0f}" if low is not None and low > 0 else ""

    note = (
        f"Least Elo of the row's player above that of the rank, by their own games: 95 %, {WHENEVER}. Empty: not shown."
    )
    return square_table([place.name for place in report.places], lead, note)


def los_table(ratings: Ratings) -> Table:
    """The likelihood of superiority of everybody over everybody; stars have the number of pairs in mind."""
    names, pairs = ratings.ranking(), comb(len(ratings.players), 2)

    def chance(name: str, other: str) -> str:
        los = ratings.los(name, other)
        star = "*" * (pairs > 1 and pairs * (1 - los) < SHOWN / 2)
        return "" if name == other else style.likelihood(los).removesuffix(" %") + star

    note = "Likelihood of superiority (LOS) of the row's player over the player of that rank, in per cent."
    if pairs > 1:
        note += f" A star: shown (95 %) although {pairs} pairs are compared; without it, even 97.5 may be luck."
    return square_table(names, chance, note)


def doubts(ratings: Ratings | None, games: int) -> Iterator[tuple[str, str]]:
    """Lines about what the ratings don't explain, and about openings that are few for the games."""
    if ratings is None:
        return
    for one in ratings.misfits()[:MISFITS]:
        words = f"{one.first} scored {one.points:g} of {one.games} against {one.second}, {one.expected:.1f} expected"
        yield "Warning", f"{words} by their Elo: one scale does not describe them (chance {one.chance:.1g})"
    if ratings.openings < FEW_OPENINGS and games >= MANY * ratings.openings:
        few = f"only {plural(ratings.openings, 'different opening')} in {plural(games, 'game')}"
        more = "More openings (--openings, --plies, --book) make the intervals narrower."
        yield "Warning", f"{few}; intervals count openings, not games. {more}"


def square_table(names: Sequence[str], cell: Callable[[str, str], str], note: str) -> Table:
    """A cell for each player, a line each, and each other, a column each by rank."""
    rows = [(str(rank), name, *(cell(name, other) for other in names)) for rank, name in enumerate(names, 1)]
    columns = ("#", "player", *(str(rank) for rank, _ in enumerate(names, 1)))
    return Table(columns, rows, note, flexible=(1,), numbers=(0, *range(2, len(columns))))


# --- What is known and stored ---


def bots_table(
    entries: Iterable[Player],
    ratings: Mapping[str, EloEstimate],
    pool: Pool | None = None,
    python_files: Iterable[Player] = (),
) -> Table:
    """The bots, with changed settings, net and Elo. ``ratings`` are by identity, from games of the ``pool``, or of the
    docs if there is none. Bots in ``python_files`` are listed without being run."""
    rows = []
    for entry in entries:
        net = Path(entry.settings.get("checkpoint", "")).name
        rows.append((entry.name, _about(entry), net, str(ratings.get(entry.identity, ""))))
    rows += [(entry.name, f"the Python file {entry.kind.rpartition(':')[0]}", "", "") for entry in python_files]
    note = "'arena bots NAME' lists the settings of one."
    if pool is not None:
        note += f" Elo: on {pool}; 'arena elo' shows all ratings."
    elif ratings:
        note += " Elo: on 9x9, from docs/measurements.md; your own games replace it."
    return Table(("name", "what it is", "net", "Elo"), rows, note, flexible=(1,), numbers=(3,))


def opponents_table(entries: Iterable[Player], ratings: Mapping[str, EloEstimate]) -> Table:
    """Whom a person can play, with numbers to choose by; ``ratings`` are by identity."""
    rows = []
    for number, entry in enumerate(entries, 1):
        elo = ratings.get(entry.identity)
        rows.append((str(number), entry.name, _about(entry), "" if elo is None else f"{elo.value:+.0f}"))
    note = "Type a number, any bot's name, or a rank from 30k to 6d (9x9)."
    return Table(("", "opponent", "what it is", "Elo"), rows, note, (2,), (0, 3))


def _about(entry: Player) -> str:
    """One line: what a kind is, or the kind and what is set otherwise than it is by default."""
    usual = {field.name: field.default for field in entry.bot_kind.settings}
    changed = [
        f"{key}={_plain(value, key)}"
        for key, value in entry.settings.items()
        if key not in ("checkpoint", "precision") and value != usual.get(key)
    ]
    settings = ", ".join([*changed, *([f"@{entry.limits}"] if str(entry.limits) else [])])
    if entry.name == entry.kind or not settings:
        return "; ".join(filter(None, (entry.bot_kind.summary, settings)))
    return f"{entry.kind}: {settings}"


def settings_table(entry: Player) -> Table:
    """What each setting of a bot does, what it is and what it may be; then the limits that may stand behind any."""
    fields = [(field.name, field, entry.settings.get(field.name)) for field in entry.bot_kind.settings]
    fields += [(f"@{name}", field, getattr(entry.limits, name)) for name, field in entry.limits.settings().items()]
    rows = []
    for name, field, value in fields:
        is_required = field.default is MISSING and field.default_factory is MISSING
        shown = _plain(value) if value is not None else "(required)" if is_required else ""
        allowed, low, high = ", ".join(field.metadata["choices"]), field.metadata["low"], field.metadata["high"]
        if low is not None:
            allowed = f"{format_value(low)} or more" if high is None else f"{format_value(low)} to {format_value(high)}"
        rows.append((name, shown, allowed, field.metadata["help"]))
    examples = f"{entry.name}@seconds=1 or {entry.name}@main=60,byoyomi=5"
    if entry.bot_kind.settings:
        examples = f"{entry.name}:{rows[0][0]}=... or {examples}"
    note = f"{entry.name}: {entry.bot_kind.summary}. As in {examples}."
    return Table(("setting", "value", "allowed", "what it does"), rows, note, flexible=(3,))


def _plain(value: Any, name: str = "") -> str:
    return f"{value:g}" if isinstance(value, float) else describe(name, value)


def elo_sections(found: Ratings | None) -> list[Section]:
    """What stands below the ratings of a pool: everybody against everybody, and what they don't explain."""
    if found is None:
        return []
    known: list[Section] = []
    if 2 < len(found.players) <= SQUARE:
        known += [("Points", points_table(found))]
        known += [("Who is stronger", los_table(found))] if found.is_final else []
    if lines := tuple(doubts(found, round(found.games.sum() / 2))):
        known.append(("Doubts", FactList(lines)))
    return known


def elo_table(found: Ratings | None, pool: Pool | None = None) -> Table:
    if found is None:
        return Table((), (), "No such games between different players are stored; play some with 'arena match'.")
    from arena.match.standings import rated_places

    sheet = standings_table(rated_places(found), found)
    if pool is None:
        return sheet
    stones = " Elo includes the stones; it says nothing about players who have not met." if pool.handicap else ""
    return replace(sheet, note=f"{pool}: {sheet.note}{stones}")


def games_table(games: Sequence[tuple[int, GameRecord]], total: int) -> Table:
    """Games with their numbers in the order given, out of ``total``."""
    rows = []
    for number, record in games:
        result, ending = ("?", "") if record.outcome is None else (record.outcome.brief, str(record.outcome.ending))
        ending += f" (unrated: {record.unrated})" if record.unrated else ""
        black = record.black + (f" (+{record.handicap} stones)" if record.handicap else "")
        rows.append((str(number), record.date, black, record.white, result, str(record.length), ending))
    if not rows:
        return Table((), (), "There are no such games; 'arena games' without options lists all.")
    shown = f"{len(rows)} of {total} games" if len(rows) < total else plural(total, "game")
    columns = ("game", "date", "Black", "White", "result", "moves", "ended by")
    return Table(columns, rows, f"{shown}. 'arena show {rows[0][0]}' opens the first.", (2, 3), (0, 5))


# --- How long a match takes ---


def plan_table(tally: MatchTally, precision: float, workers: int) -> Table:
    """The estimated games and thinking time for a precision in Elo, from the games in ``tally``."""
    from arena.ratings import Sprt
    from arena.ratings.planning import Outlook, games_for_interval, sprt_games

    outlook, others, test = Outlook.of(tally.counts), Outlook.sample(tally.counts), Sprt(0, precision)
    thought = tally.seconds / tally.games
    asked: list[tuple[str, Callable[[Outlook], int]]] = [
        (f"the 95 % interval is ±{precision:g} Elo", lambda one: games_for_interval(one, precision)),
        (f"--sprt 0 {precision:g} ends, if 0 Elo are true", lambda one: sprt_games(one, test, 0)),
        (f"--sprt 0 {precision:g} ends, if {precision:+g} Elo are true", lambda one: sprt_games(one, test, precision)),
    ]
    rows = []
    for words, forecast in asked:
        games, possible = forecast(outlook), sorted(map(forecast, others))
        seconds, cut = games * thought / workers, len(possible) // 40
        range_95 = f"{possible[cut]:,} to {possible[-1 - cut]:,}"
        rows.append((words, f"{games:,}", range_95, style.duration(seconds) if seconds >= 1 else "< 1 s"))
    note = (
        f"Estimated from {plural(tally.games, 'game')}, {plural(tally.counts.games // 2, 'different pair')}, with "
        f"{style.seconds(thought)} of thinking per game on {plural(workers, 'worker')}. "
        "The games of a test are an average. Stored games are included."
    )
    columns = (f"{tally.first} against {tally.second}: until", "games", "95 %", "thinking")
    return Table(columns, rows, note, flexible=(0,), numbers=(1, 2, 3))


# --- What a net knows ---

MEASURES = (
    ("positions", "positions", ","),
    ("games", "games", ","),
    ("top-1", "top1", ".1%"),
    ("top-3", "top3", ".1%"),
    ("top-5", "top5", ".1%"),
    ("policy loss (nats)", "policy_loss", ".3f"),
    ("positions with a winner", "results", ","),
    ("result: squared error", "value_error", ".3f"),
    ("  of the best constant", "value_floor", ".3f"),
    ("result: loss (nats)", "value_loss", ".3f"),
    ("  of the best constant", "value_loss_floor", ".3f"),
    ("positions with a score", "scored", ","),
    ("margin: points off", "score_error", ".3f"),
    ("  of an even game", "score_floor", ".3f"),
    ("owners predicted", "ownership", ".1%"),
    ("ownership: Brier", "brier", ".3f"),
)
"""Titles of figures of a net, their fields of ``Figures``, and how they are written."""

METRICS = {field: (title.strip(), spelled) for title, field, spelled in MEASURES if spelled != ","} | {
    "late_top1": ("top-1 late in the games", ".1%"),
    "value_mse": ("result: squared error", ".3f"),
    "value_floor": ("result: error of the best constant", ".3f"),
    "win_rate_mse": ("teacher's win rate: squared error", ".3f"),
}
"""Titles of a checkpoint's metrics, and how they are written."""


def metrics_table(metrics: Mapping[str, float], part: str) -> Table:
    """The known metrics of a new checkpoint that begin with ``part``, next to those of the net that it began with."""
    rows = []
    for key, value in metrics.items():
        title, spelled = METRICS.get(key.removeprefix(part), (key.replace("_", " "), ".1%"))
        if key.startswith("share_against_") or (key.startswith(part) and key.removeprefix(part) in METRICS):
            before = metrics.get(f"start_{key}")
            rows.append((title, format(value, spelled), "" if before is None else format(before, spelled)))
    columns = ("", "net", "before" if any(row[2] for row in rows) else "")
    return Table(columns, rows, numbers=(1, 2))


def evaluation_table(evaluation: NetEvaluation, name: str) -> Table:
    """What a net knows of moves, results and ownership, with a column for each phase of the games."""
    from trainers.metrics import phases

    parts, figures = zip(*phases(evaluation), strict=True)
    cells = [
        (title, *("" if isnan(one[field]) else format(one[field], spelled) for one in figures))
        for title, field, spelled in MEASURES
    ]
    rows = [row for row in cells if any(cell not in ("", "0") for cell in row[1:])]
    whole, note = figures[0], f"{name}, by move numbers."
    if "top1" in evaluation.columns:
        error = "unknown" if isnan(evaluation.top1_error) else f"{evaluation.top1_error:.1%}"
        note += f" The 95 % interval of all top-1, by games, is ± {error}."
    if whole["scored_games"] < whole["games"]:
        note += f" {whole['scored_games']:,} of {whole['games']:,} games have a last position that gives their score"
        note += " (--dead-stones marks dead stones): margin and ownership rest on these."
    return Table(("", *parts), rows, note, numbers=tuple(range(1, len(parts) + 1)))
