"""The report of an event in words and tables, for the terminal and the HTML page; and the results of gates.

Nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median

from rich.console import Console

from arena import plural
from arena.go.coords import Colour
from arena.go.record import Ending
from arena.match.standings import SequentialTest, Standings
from arena.players.config import Change
from arena.ratings import SprtVerdict, share_interval
from arena.report import style, tables
from arena.report.tables import SQUARE, WHENEVER, FactList, Section, Table
from arena.results.gate import GateMatch, Ruling
from arena.results.league import EventReport, EventSummary

SHOWN_FORFEITS, FEW_FORFEITS = 30, 5

SLOW, FEW_LATE, FEW_ON_TIME = 1.2, 0.01, 0.02
"""Warnings: mean seconds a move, in limits; shares of moves that take longer than the first, and of games lost on
time."""

LEAST_CHECKED = 10  # adjudicated games played to the end from which their error rate is printed: fewer hardly bound it


def title(report: Standings) -> str:
    """The result in a line: ``alphago beat sl 94-6 in 100 games``, ``alphago leads sl 4-1 after 5 of 100 games``."""
    tally, planned, games = report.tally, report.planned, plural(report.games, "game")
    if not report.games:
        return f"{report.event}: no {'pair of games' if report.test else 'game'} is finished yet"
    if tally is not None:
        own, other = tally.points, tally.games - tally.points
        if planned is not None and report.games < planned and not report.is_decided:
            verb = "leads" if own > other else "trails" if own < other else "is level with"
            done = games if report.test else f"{report.games} of {plural(planned, 'game')}"
            return f"{tally.first} {verb} {tally.second} {own:g}-{other:g} after {done}"
        verb = "beat" if own > other else "lost to"
        who = f"{tally.first} and {tally.second} drew" if own == other else f"{tally.first} {verb} {tally.second}"
        return f"{who} {own:g}-{other:g} in {games}"
    if planned is not None and report.games < planned and not report.is_final:
        return f"{report.event}: {report.places[0].name} leads after {report.games} of {plural(planned, 'game')}"
    return f"{report.event}: {report.places[0].name} {'leads' if planned is None else 'is first'} after {games}"


def verdict(first: str, sequential: SequentialTest) -> str:
    """What a sequential test has shown of its first player, in words."""
    test, state = sequential.test, sequential.state
    llr = "no pair is complete"
    words = f"undecided between {test.elo0:g} and {test.elo1:g} Elo; more games (-n) continue it"
    if sequential.is_exhausted:
        words = f"undecided between {test.elo0:g} and {test.elo1:g} Elo; it can't go on: all "
        words += f"{plural(sequential.openings, 'opening')} are played, and one counts once (use more openings)"
    if state is not None:
        llr = f"LLR {state.llr:+.2f}, bounds {state.lower:.2f} and {state.upper:.2f}"
        if state.verdict is SprtVerdict.H1:
            words = f"accepted: {first} is stronger by {test.elo1:g} Elo rather than {test.elo0:g}"
        elif state.verdict is SprtVerdict.H0:
            words = f"rejected: {first} is stronger by {test.elo0:g} Elo at most, rather than {test.elo1:g}"
    return f"{words} ({llr}; alpha {test.alpha:g}, beta {test.beta:g})"


def terms(report: EventReport) -> list[tuple[str, str]]:
    """The terms of the event: rules, openings, limits."""
    rules, settings, stored, planned = report.rules, report.settings, report.stored, report.planned
    points = "" if rules.scoring == "area" else f", {rules.scoring} scoring"
    rule: dict[str, float] = settings.get("adjudication") or {}
    ends = ",".join(f"{name.replace('_', '-')}={value:g}" for name, value in rule.items())
    if not (rule.get("agree") or rule.get("resign")):
        ends = "off: all games are played to the end"
    plies, number = settings.get("plies"), settings.get("openings")
    sources = [f"the book {settings['book']}"] if "book" in settings else []
    sources += [f"{plies} random moves (seed {settings.get('seed')})"] if plies else []
    stones = settings.get("handicap", 0)
    used = f"{number} openings in turn" if number else f"a new opening for each {'game' if stones else 'pair of games'}"
    openings = f"{', and after its last opening '.join(sources)}; {used}"
    if not sources:
        openings = "none: games begin on the empty board"
    limits = [f"{one.name} {one.limits}" for one in report.participants.values() if str(one.limits)]
    played = f"{stored}"
    if report.is_decided and stored > report.games:
        played = f"{report.games}, and {stored - report.games} after the test was decided"
    elif not report.is_decided and planned is not None and planned > stored:
        played = f"{stored} of {'at most ' if report.kind == 'swiss tournament' else ''}{planned}"
    lines = [
        ("Event", f"{report.event}, a {report.kind} created on {report.created[:10]}"),
        ("Rules", f"{style.rules_words(rules, stones)}{points}, at most {rules.move_limit} moves"),
        ("Openings", openings),
        ("Limits", "; ".join(limits) or "none"),
        ("Early end", ends),
        *([("Referee", f"{settings['referee']} says which stones are dead")] if "referee" in settings else []),
    ]
    if report.games:
        lines.append(("Games", ", ".join(filter(None, (played, " to ".join(dict.fromkeys(report.dates or ())))))))
    return lines


def sections(report: Standings) -> list[Section]:
    """All sections of the report in reading order; none without games."""
    found = first_sections(report, SHOWN_FORFEITS)
    if found and report.tally is None and report.league is not None and len(report.places) <= SQUARE:
        sheet = tables.los_table(report.league) if report.is_final else tables.lead_table(report)
        found.append(("Who is stronger", sheet))
    return found


def first_sections(report: Standings, most: int = FEW_FORFEITS) -> list[Section]:
    """The sections that are printed when an event ends. They list a limited number of forfeits."""
    if not report.games:
        return []
    found: list[Section] = [("Strength", FactList(tuple(strength(report))))]
    if report.tally is None:
        found = [("Standings", tables.standings_table(report.places, report.league))]
        if report.league is not None and len(report.places) <= SQUARE:
            found.append(("Points", tables.points_table(report.league)))
    found.append(("Over all games", FactList(tuple(findings(report)))))
    if forfeits := report.forfeits:
        rows = [(game.id, str(game.outcome and game.outcome.ending), game.reason) for game in forfeits[:most]]
        more = len(forfeits) - len(rows)
        note = f"And {plural(more, 'more forfeit')}. " * (more > 0) + f"Details of one: arena show {rows[0][0]}"
        found.append(("Forfeits", Table(("game", "fault", "what happened"), rows, note, flexible=(0, 2))))
    return found


def strength(report: Standings) -> Iterator[tuple[str, str]]:
    """Elo difference of a match, and the scores that it is computed from."""
    tally, comparison, test = report.tally, report.comparison, report.test
    if tally is None or comparison is None:
        return
    if test is not None:
        yield "SPRT", verdict(tally.first, test)
        if test.waiting:
            finished = plural(tally.games + test.waiting, "game")
            yield "All games", f"{finished}; the figures below are from the first {tally.games} in the planned order"
    evidence = f"for {tally.first}, from {plural(report.openings, 'opening')}"
    if comparison.los is not None:
        yield "Elo", f"{comparison.elo} (95 %) {evidence}; LOS {style.likelihood(comparison.los)}"
    else:
        yield "Elo", f"{comparison.elo} (95 %, {WHENEVER}) {evidence}"
    is_accepted = test is not None and test.state is not None and test.state.verdict is SprtVerdict.H1
    if is_accepted and (comparison.elo.low is None or comparison.elo.low < 0):
        yield "", "The test tells which hypothesis the games favour; the interval has all differences that they allow."
    yield "Score", f"{style.score(tally.results())}, {style.per_cent(tally.results().share)}"
    colours = [(colour.name.title(), tally.results(colour=colour)) for colour in Colour]
    is_swapped = colours[0][1].games > 0  # else the second player has handicap stones
    parts = (f"as {name} {style.score(counts)} ({style.per_cent(counts.share)})" for name, counts in colours)
    yield "By colour", ", ".join(parts) if is_swapped else f"always White; {tally.second} has handicap stones as Black"
    if comparison.normalised is not None:
        normalised = comparison.normalised
        has_interval = report.is_final and normalised.is_bounded
        nelo = f"{normalised} nElo (95 %)" if has_interval else f"{normalised.value:+.1f} nElo"
        yield "Normalised", f"{nelo}: Elo divided by the spread of results"
    points = ("0", "1/2", "1", "1 1/2", "2")
    pairs = ", ".join(f"{word}: {count}" for word, count in zip(points, tally.counts, strict=True))
    if is_swapped:
        yield "Pairs", f"{pairs} (points of {tally.first}: number of pairs)"
    if test is None and report.planned is not None and tally.games < report.planned:
        count = f"{tally.games} of {plural(report.planned, 'game')}"
        yield "Unfinished", f"{count}: short games end first, so the score may favour the side that wins quickly"


def findings(report: Standings) -> Iterator[tuple[str, str]]:
    """Statistics over all games, players without a measured distance, and doubts."""
    worth = report.black_advantage
    black = f"scored {style.per_cent(report.black_points / report.games)}"
    if worth is not None:
        black += f"; advantage of playing Black {worth if report.is_final else f'{worth.value:+.1f}'} Elo"
    yield "Black", black
    endings = []
    winners = {place.name: place.name for place in report.places} | {"": "drawn"}
    for ending, won in report.endings.items():
        counts = ", ".join(f"{words} {won[name]}" for name, words in winners.items() if won[name])
        endings.append(f"{ending} {won.total()}, {style.per_cent(won.total() / report.games)} ({counts})")
    yield "Endings", ", ".join(endings)
    lengths, shortest, longest = report.lengths, min(report.lengths), max(report.lengths)
    mean = sum(length * games for length, games in lengths.items()) / lengths.total()
    yield "Length", f"{mean:.1f} moves per game, median {median(lengths.elements()):g}, from {shortest} to {longest}"
    times = (f"{place.name} {style.seconds(report.seconds_a_move(place.name))}" for place in report.places)
    yield "Time", f"{', '.join(times)} per move"
    yield from _lateness(report)
    if report.played_on:
        played_on = f"{plural(report.played_on, 'game')} played to the end after adjudication"
        words = f"{played_on}, {report.overturned} with another winner"
        if report.played_on >= LEAST_CHECKED:
            low, high = share_interval(report.overturned, report.played_on)
            words += f": an error rate of {100 * low:.1f} to {100 * high:.1f} % (95 %)"
        yield "Check", words
    elif report.adjudicated:
        yield "Check", "none of the adjudicated games was played to the end"
    if report.continued or report.restarted:
        words = f"{plural(report.continued, 'game')} went on from the last move after an interruption"
        if report.restarted:
            words += f", {report.restarted} had to begin again: a game that begins again may end sooner"
        yield "Continued", words
    groups = [] if report.league is None else report.league.components
    if report.tally is None and len(groups) > 1:
        order = "; ".join(", ".join(group) for group in groups)
        yield "Order", f"{order}: the distance between these groups, the strongest first, is not measured"
    yield from tables.doubts(report.league, report.games)


def _lateness(report: Standings) -> Iterator[tuple[str, str]]:
    """Warnings about players that use more time than their limit, and about games that were lost on time."""
    for name, limit in report.limits.items():
        mean, late = report.seconds_a_move(name), report.late_share(name)
        if mean is not None and mean > SLOW * limit:
            yield "Warning", f"{name} uses {style.seconds(mean)} per move, and its limit is {style.seconds(limit)}"
        elif late > FEW_LATE:
            words = f"{name} exceeds its limit of {style.seconds(limit)} by a fifth or more"
            yield "Warning", f"{words} in {style.per_cent(late)} of its moves"
    on_time = sum(game.outcome is not None and game.outcome.ending is Ending.TIME for game in report.forfeits)
    if on_time > FEW_ON_TIME * report.games:
        share = style.per_cent(on_time / report.games)
        yield "Warning", f"{share} of the games were lost on time: the machine may be too busy (use fewer --workers)"


# --- In the terminal ---


def print_report(report: EventReport, console: Console) -> None:
    print_sections([(title(report), FactList(terms(report))), *sections(report)], console)


def summary(report: Standings) -> list[Section]:
    """The first sections, for the end of an event."""
    return [(title(report), FactList(())), *first_sections(report)]


def print_sections(sections: Iterable[Section], console: Console) -> None:
    console.print(*[""] * console.is_terminal, tables.render(sections), sep="\n")


def event_list(events: Sequence[EventSummary]) -> Table:
    """The list of events, the newest last."""
    rows = [
        (one.id, one.kind, ", ".join(one.players), f"{one.games}/{one.planned}", one.created[:10]) for one in events
    ]
    if not rows:
        return Table((), (), "No event is stored yet; play one with 'arena match' or 'arena tournament'.")
    note = "Games stored out of those planned. Details: arena report EVENT"
    return Table(("event", "kind", "players", "games", "created"), rows, note, flexible=(0, 2), numbers=(3,))


def gate_lines(evidence: GateMatch, folder: Path, change: Change | None, noted: Sequence[Path]) -> Iterator[str]:
    """The result of a gate, the changed file, and how to undo that. ``folder`` is the checkpoint as the user named it;
    manifests in ``noted`` record the gate."""
    entry, against, event = evidence.gate.entry, evidence.against, evidence.match.event
    if change is not None:
        yield f"Accepted: {entry} now plays {evidence.gate.checkpoint} instead of {against}."
        line = f'{change.setting} = "{change.value}"'
        yield f"{change.path} now has {line} in [bots.{entry}]; nothing else was changed."
        if folder.name != evidence.gate.checkpoint:
            yield f"It is a copy of {folder}; further training does not change it."
        again = f'write {change.setting} = "{change.before}" there again'
        yield f"To undo it, {'remove that line' if change.before is None else again}."
    elif evidence.ruling is Ruling.REJECTED:
        yield f"Rejected: {entry} keeps {against}. No file was changed."
    else:
        games = plural(evidence.tally.games, "game")
        yield f"Undecided after {games}: {entry} keeps {against}. More games (-n) continue the test."
    if sum(found := evidence.candidates) > 1:
        counts = ", ".join(f"{count} {word}" for word, count in found._asdict().items() if count)
        alpha = evidence.test.test.alpha
        rates = f"{style.per_cent(found.error_rate(alpha))}, not {style.per_cent(alpha)}"
        yield f"Nets tested against {against} as {entry}: {sum(found)} ({counts})."
        yield f"If none of {sum(found)} nets is stronger, the probability that one passes is {rates}."
    manifests = "".join(f", {folder / 'manifest.json'}" for folder in noted)
    yield f"The evidence: event {event}{manifests}; arena games --event {event} lists its games."
