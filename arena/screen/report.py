"""An event's report in words and tables, a section at a time: the same for the terminal and for a page.

Nothing is counted here, and no plot is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from arena.events.tally import Forfeit
from arena.results.event import Kind, Place, Report
from arena.results.stored import Overview
from arena.screen import style
from arena.screen.summary import headline, print_facts, some, strength_lines, test_lines
from arena.screen.tables import Sheet
from arena.screen.tournament import crosstable_sheet, doubts, repeats

BINS = 24
SHOWN_FORFEITS = 30


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report: a table, or labels and texts."""

    title: str
    body: Sheet | tuple[tuple[str, str], ...]


def title(report: Report) -> str:
    """What has come out, in a line."""
    stored = len(report.games)
    if not stored:
        return f"{report.id}: no {'game' if report.judge is None else 'pair of games'} is finished yet"
    if report.tally is not None:
        return headline(report.tally)
    games = some(stored, "game")
    if report.planned is None:
        return f"{report.id}: {report.places[0].name} leads after {games}"
    if stored < report.planned:
        return f"{report.id}: {report.places[0].name} leads after {stored} of {some(report.planned, 'game')}"
    return f"{report.id}: {report.places[0].name} is first after {games}"


def terms(report: Report) -> tuple[tuple[str, str], ...]:
    """By what was played, in labels and texts."""
    rules, settings = report.rules, report.settings
    points = "" if rules.scoring == "area" else f", {rules.scoring} scoring"
    lines = [
        ("Event", f"{report.id}, a {report.kind} made on {report.created[:10]}"),
        (
            "Rules",
            f"{rules.size}x{rules.size}, {rules.name} rules{points}, komi {rules.komi:g}, "
            f"at most {rules.move_limit} moves",
        ),
        ("Openings", _openings(settings)),
        ("Limits", "; ".join(_limits(report))),
        ("Adjudged", _adjudication(settings.get("adjudication"))),
    ]
    if report.games:
        dates = sorted(record.date for record in report.games if record.date)
        between = (
            f", {dates[0]} to {dates[-1]}"
            if dates and dates[0] != dates[-1]
            else "".join(f", {date}" for date in dates[:1])
        )
        lines.append(("Games", f"{_progress(report)}{between}"))
    return tuple(lines)


def _progress(report: Report) -> str:
    stored, planned = report.stored, report.planned
    if report.judge is not None and report.judge.is_decided:
        after = stored - len(report.games)
        return f"{len(report.games)}, and {after} after the test was decided" if after else f"{stored}"
    if planned is None or planned <= stored:
        return f"{stored}"
    most = "at most " if report.kind is Kind.LADDER else ""
    return f"{stored} of {most}{planned}"


def _openings(settings: dict[str, object]) -> str:
    number = settings.get("openings") or 0
    used = f"{number} in turn" if number else "another one for each pair of games"
    if "book" in settings:
        return f"from book {settings['book']}, {used}"
    if not settings.get("plies"):
        return "none: games begin on the empty board"
    return f"{settings['plies']} plies drawn by seed {settings.get('seed')}, {used}"


def _limits(report: Report) -> Iterable[str]:
    """``NAME seconds=1``, those with the same limits together; one text without names where all have the same."""
    common = report.settings.get("limits") or {}
    shared = ",".join(f"{key}={value:g}" for key, value in common.items() if value is not None)
    by_limits: dict[str, list[str]] = {}
    for one in report.participants:
        by_limits.setdefault(one.limits or shared or "none", []).append(one.name)
    for limits, names in by_limits.items():
        yield limits if len(by_limits) == 1 else f"{', '.join(names)}: {limits}"


def _adjudication(settings: dict[str, float] | None) -> str:
    """The rule in words."""
    if not settings or not (settings["agree"] or settings["resign"]):
        return "never: all games are played to their end"
    turns = some(int(settings["turns"]), "turn")
    rules = []
    if settings["agree"]:
        rules.append(f"both sides give the loser at most {100 * settings['agree']:g} %")
    if settings["resign"]:
        rules.append(f"a side gives itself less than {100 * settings['resign']:g} %")
    return f"once {' or '.join(rules)} for {turns}; {100 * settings['play_on']:g} % of these are played on"


def sections(report: Report) -> list[Section]:
    """All that the games say, in the order in which it is read; nothing without games."""
    if not report.games:
        return []
    found = []
    if report.tally is None:
        found.append(Section("Standings", _standings(report)))
        if report.league is not None:
            found.append(Section("Points", crosstable_sheet(report.table, report.league)))
        found.append(Section("Who is stronger", _los(report)))
    else:
        found.append(Section("Strength", tuple(_strength(report))))
    found.append(Section("Over all games", tuple(_findings(report))))
    found.append(Section("Endings", _endings(report)))
    found.append(Section("Time", _times(report.places, report)))
    if report.table.forfeits:
        found.append(Section("Forfeits", _forfeits(report.table.forfeits)))
    return found


def _strength(report: Report) -> Iterable[tuple[str, str]]:
    tally, comparison = report.tally, report.comparison
    if tally is None or comparison is None:
        return
    if report.judge is not None:
        yield from test_lines(report.judge)
    yield from strength_lines(tally)
    yield "Normalised", f"{comparison.normalised} Elo (95 %), in units of the spread of one game"
    words = ("0", "1/2", "1", "1 1/2", "2")
    counts = ", ".join(f"{word}: {count}" for word, count in zip(words, tally.counts.counts, strict=True))
    yield "Pairs", f"by the points of {tally.first}: {counts}"


def _standings(report: Report) -> Sheet:
    rows = []
    for rank, place in enumerate(report.places, 1):
        elo = "–" if place.elo is None else "0" if place.name == report.anchor else str(place.elo)
        rows.append((str(rank), place.name, elo, str(place.games), style.per_cent(place.score)))
    note = f"Elo above {report.anchor}, with 95 % intervals"
    if report.league is not None:
        note += f"; {report.league.ratings.prior:g} virtual games a player"
    return Sheet(("#", "player", "Elo", "games", "score"), rows, f"{note}.", flexible=(1,), numbers=(0, 2, 3, 4))


def _los(report: Report) -> Sheet:
    names = [place.name for place in report.places]
    rows = []
    for rank, name in enumerate(names, 1):
        chances = [report.los(name, other) for other in names]
        cells = ("" if chance is None else style.likelihood(chance).removesuffix(" %") for chance in chances)
        rows.append((str(rank), name, *cells))
    columns = ("#", "player", *(str(rank) for rank, _ in enumerate(names, 1)))
    note = "The likelihood in per cent that the row's player is stronger than the one of that rank (LOS)."
    return Sheet(columns, rows, note, flexible=(1,), numbers=(0, *range(2, len(columns))))


def _findings(report: Report) -> Iterable[tuple[str, str]]:
    """What all games have to say beside the results."""
    table, league = report.table, report.league
    worth = None if league is None else league.ratings.black_advantage
    yield (
        "Black",
        f"took {style.per_cent(table.black_points / table.games)}"
        + ("" if worth is None else f"; playing Black is worth {worth} Elo"),
    )
    yield "Length", _lengths(report.lengths)
    if any(report.lengths[0] != length for length in report.lengths):
        yield "", f"{report.lengths[0]} {_histogram(report.lengths)} {report.lengths[-1]}"
    yield from _check(report)
    if report.tally is None and league is not None:
        yield from doubts(table, league)
    yield from repeats(table)


def _lengths(lengths: Sequence[int]) -> str:
    middle = (lengths[(len(lengths) - 1) // 2] + lengths[len(lengths) // 2]) / 2
    mean = sum(lengths) / len(lengths)
    return f"{mean:.1f} moves a game, median {middle:g}, from {lengths[0]} to {lengths[-1]}"


def _histogram(values: Sequence[int]) -> str:
    """How many values, which are sorted, lie in each of some equal parts of their range."""
    low, high = values[0], values[-1]
    bins = min(BINS, high - low + 1)
    counts = [0] * bins
    for value in values:
        counts[min(bins - 1, (value - low) * bins // max(1, high - low))] += 1
    return "".join(" " if not count else style.sparkline([count / (max(counts) + 1)], 1) for count in counts)


def _check(report: Report) -> Iterable[tuple[str, str]]:
    """What became of the games that were played on after the rule had named a winner."""
    check = report.check
    if check.adjudicated:
        yield "Adjudged", f"{some(check.adjudicated, 'game')} of {len(report.games)}"
    if check.played_on:
        low, high = check.interval
        yield (
            "Check",
            f"of {some(check.played_on, 'game')} played on after the rule had named a winner, {check.otherwise} ended "
            f"otherwise: the rule is wrong in {100 * low:.1f} to {100 * high:.1f} % (95 %)",
        )
    elif check.adjudicated:
        yield "Check", "no game was played on to see whether the rule is right"


def _endings(report: Report) -> Sheet:
    rows = []
    for count in report.endings:
        won = [f"{name} {count.won[name]}" for name in (place.name for place in report.places) if count.won[name]]
        drawn = [f"drawn {count.drawn}"] * bool(count.drawn)
        share = style.per_cent(count.games / len(report.games))
        rows.append((str(count.ending), str(count.games), share, ", ".join([*won, *drawn])))
    return Sheet(("ended by", "games", "share", "won by"), rows, flexible=(3,), numbers=(1, 2))


def _times(places: Sequence[Place], report: Report) -> Sheet:
    rows = [(place.name, style.seconds(report.table.seconds_a_move(place.name))) for place in places]
    return Sheet(("player", "a move"), rows, "Means over all moves that the player chose.", (0,), (1,))


def _forfeits(forfeits: Sequence[Forfeit]) -> Sheet:
    rows = [(forfeit.id, str(forfeit.ending), forfeit.reason) for forfeit in forfeits[:SHOWN_FORFEITS]]
    more = len(forfeits) - len(rows)
    note = f"And {some(more, 'more forfeit')}. " * (more > 0)
    return Sheet(
        ("game", "fault", "what happened"), rows, f"{note}What is known of one: arena dossier {rows[0][0]}", (0, 2)
    )


# --- In the terminal ---


def print_report(report: Report, console: Console) -> None:
    """The whole report; where there is no terminal, labelled texts take a line each."""
    print_facts(title(report), terms(report), console)
    for section in sections(report):
        if isinstance(section.body, Sheet):
            print_title(section.title, console)
            console.print(section.body)
        else:
            if not console.is_terminal:
                console.print()
            print_facts(section.title, section.body, console)


def print_title(words: str, console: Console) -> None:
    console.print()
    console.print(Text(style.spell(words, console.options.ascii_only), "bold"))


def overviews_sheet(events: Sequence[Overview]) -> Sheet:
    """The list of events, the newest last."""
    rows = []
    for event in events:
        games = f"{event.stored}" if event.planned is None else f"{event.stored}/{event.planned}"
        rows.append((event.id, str(event.kind), ", ".join(event.players), games, event.created[:10]))
    if not rows:
        return Sheet((), (), "No event is stored yet; play one with 'arena match' or 'arena tournament'.")
    note = "Games stored out of those planned, where the plan is known. Look closer: arena report EVENT"
    return Sheet(("event", "kind", "players", "games", "made"), rows, note, flexible=(0, 2), numbers=(3,))
