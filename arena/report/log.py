"""A running event in lines: what is played, how far it is, how it stands. A pipe gets them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import chain

from arena import plural
from arena.match.runner import Update
from arena.match.schedule import Match
from arena.match.swiss import Swiss
from arena.report import style
from arena.report.style import Console
from arena.report.tables import WHENEVER
from arena.report.text import title
from arena.results.event_state import EventState

LINE_SECONDS = 5.0  # between two lines, at least; a hundredth of the time played when that is more


def event_words(state: EventState) -> str:
    """Who plays how many games of what kind."""
    event, games, terms = state.event, plural(state.event.games, "game"), state.event.terms
    setting = style.setting(terms.rules, terms.handicap)
    if isinstance(event, Match):
        return f"{' against '.join(event.players)}: {games}, {setting}"
    most = " at most" if state.may_end_early else ""
    return f"{event.name}: {event.style} of {plural(len(event.players), 'bot')}, {games}{most}, {setting}"


def warning_words(state: EventState) -> str:
    """A warning, or the latest news."""
    if state.waiting:
        games = plural(state.waiting, "finished game")
        return f"another program has locked the results; {games} not stored yet"
    if state.nodes is not None and not state.nodes and state.workers:
        return "no node is left; the games wait for one to join"
    return state.news


def pace_words(state: EventState) -> str:
    """Time, games a second, and workers. A Swiss tournament has its round; a test, that its first pair isn't over."""
    left, about = style.duration(state.seconds_left), "at most" if state.may_end_early else "about"
    has_played, workers = state.stored > state.resumed, plural(state.workers, "worker") if state.workers else ""
    if state.nodes and workers:
        nodes = sorted(state.nodes.items(), key=lambda node: -node[1])
        paces = f": {', '.join(f'{name} {style.rate(pace)}' for name, pace in nodes)}" if has_played else ""
        workers += f" on {plural(len(nodes), 'node')}{paces}"
    games, test, stage = state.games_under_way, state.standings.test, ""
    if isinstance(state.event, Swiss) and games:
        stage = f"round {max(map(state.event.round_finder(), games))}"
        stage += f", neighbours ±{state.gap[2]:.0f} or better" if state.gap else ""
    elif test and test.waiting and not state.standings.games:
        stage = "no Elo before the first pair ends"
    parts = (
        style.duration(state.elapsed) + (f", {about} {left} left" if left else ""),
        style.rate(state.games_a_second) if has_played else "",
        stage,
        f"{state.resumed} of {state.event.games} played earlier" if state.resumed else "",
        workers,
    )
    return " · ".join(filter(None, parts))


def progress_words(state: EventState) -> str:
    standings, words = state.standings, f"{state.stored} of {state.event.games}, {title(state.standings)}"
    if standings.comparison is not None and standings.tally and standings.tally.counts.games:
        words += f", Elo {standings.comparison.elo}"
        words += "" if standings.is_final else f" ({WHENEVER})"
    if standings.test is not None and (test := standings.test.state) is not None:
        words += f", LLR {test.llr:+.2f} ({test.lower:+.2f}, {test.upper:+.2f})"
    return f"{words}; {pace_words(state)}"


def print_lines(state: EventState, updates: Iterator[Update], console: Console) -> None:
    """Print who plays what, then a line once in a while, until the updates end. They are closed in any case."""
    console.print_line(event_words(state))
    games, resumed, written, tenths = state.event.games, 0, state.clock(), 0
    with closing(updates):  # type: ignore[type-var]
        for update in chain(updates, (Update(),)):
            if not update.resumed and state.resumed > resumed:  # once all of them are counted
                resumed = state.resumed
                console.print_line(f"{resumed} of {games} games were played earlier")
            is_new = update.waiting and not state.waiting
            state.add(update)
            for line in ([warning_words(state)] if is_new else []) + list(update.news):
                console.print_line(line)
            if update.records and not update.resumed and state.stored < games:
                waited = state.clock() - written
                if waited >= max(LINE_SECONDS, state.elapsed / 100) or 10 * state.stored // games > tenths:
                    console.print_line(progress_words(state))
                    written = state.clock()
            tenths = 10 * state.stored // games
    state.pause(False, finished=True)
