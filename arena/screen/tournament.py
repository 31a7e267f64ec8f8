"""Shows a tournament while it is played, and sums it up: standings, crosstable, what went wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from time import monotonic

from rich.console import Console

from arena.events.runner import Control, Update
from arena.events.schedule import Ladder, Tournament
from arena.ratings import Bound
from arena.results.league import Crosstable, League
from arena.screen import style
from arena.screen.board import DARK, Theme
from arena.screen.live import LiveScreen, pace, show_event
from arena.screen.summary import forfeit_lines, print_facts, setting_line, some
from arena.screen.tables import Sheet
from arena.screen.tournament_frame import TournamentFrame, rank_players
from arena.screen.tournament_view import ALARM, TournamentView


class Screen(LiveScreen):
    """A tournament's view as a Rich renderable."""

    frame = TournamentFrame


def show_tournament(
    tournament: Tournament | Ladder,
    updates: Iterator[Update],
    console: Console,
    clock: Callable[[], float] = monotonic,
    control: Control | None = None,
    theme: Theme = DARK,
) -> TournamentView:
    """Show a tournament or a ladder until its updates end, then sum it up; returns what was seen.

    On a terminal, keys choose the board that is shown, pause the event by ``control``, and quit as Ctrl-C does.
    What ends it early comes through after ``updates`` has been closed.
    """
    view = TournamentView(tournament, clock)
    bots, games = some(len(tournament.entries), "bot"), some(tournament.games, "game")
    if view.may_end_early:
        games += " at most"
    head = f"{tournament.name}: {tournament.style} of {bots}, {games}, {setting_line(tournament)}"
    show_event(Screen(view, control, theme), updates, console, head, lambda: _progress(view))
    print_standings(tournament, view.tally, console)
    return view


def _progress(view: TournamentView) -> str:
    """Where a tournament stands, in a line for a log."""
    parts = [f"{view.tally.games} of {view.event.games}"]
    for name, standing in rank_players(view.tally, view.league)[:3]:
        if standing is not None and view.league is not None:
            elo = "0" if standing.player == view.league.anchor else str(standing.elo)
            parts.append(f"{name} {elo} ({style.per_cent(standing.score)})")
    return ", ".join(parts + pace(view))


def print_standings(tournament: Tournament | Ladder, table: Crosstable, console: Console) -> None:
    """What a tournament has come to so far."""
    league = table.league()
    if league is None:
        console.print("no games were played", highlight=False)
        return
    console.print()
    console.print(standings_sheet(table, league))
    console.print()
    console.print(crosstable_sheet(table, league))
    lead = next(name for name, standing in rank_players(table, league) if standing is not None)
    title = f"{tournament.name}: {lead} leads after {table.games} of {some(tournament.games, 'game')}"
    if table.games >= tournament.games or isinstance(tournament, Ladder):
        title = f"{tournament.name}: {lead} is first after {some(table.games, 'game')}"
    print_facts(title, summary(table, league), console)


def standings_sheet(table: Crosstable, league: League) -> Sheet:
    """Rank, name, Elo, games and score of everybody."""
    rows = []
    for rank, (name, standing) in enumerate(rank_players(table, league), 1):
        counts = table.meetings(name)
        share = counts.points / counts.games if counts.games else None
        elo = "–" if standing is None else "0" if standing.player == league.anchor else str(standing.elo)
        rows.append((str(rank), name, elo, str(counts.games), style.per_cent(share)))
    note = f"Elo above {league.anchor}, with 95 % intervals; {league.ratings.prior:g} virtual games a player."
    return Sheet(("#", "player", "Elo", "games", "score"), rows, note, flexible=(1,), numbers=(0, 2, 3, 4))


def crosstable_sheet(table: Crosstable, league: League) -> Sheet:
    """Points of each player against each other, with the number of games."""
    names = [name for name, _ in rank_players(table, league)]
    rows = []
    for rank, name in enumerate(names, 1):
        met = [table.meetings(name, other) for other in names]
        cells = (f"{counts.points:g}/{counts.games}" if counts.games else "" for counts in met)
        rows.append((str(rank), name, *cells))
    columns = ("#", "player", *(str(rank) for rank, _ in enumerate(names, 1)))
    numbers = (0, *range(2, len(columns)))
    note = "Points out of games against each player, by rank."
    return Sheet(columns, rows, note, flexible=(1,), numbers=numbers)


def summary(table: Crosstable, league: League) -> list[tuple[str, str]]:
    """Label and text of each line below the standings; an alarm, a forfeit or a warning takes one of its own."""
    black = league.ratings.black_advantage
    worth = "" if black is None else f"; playing Black is worth {black} Elo"
    endings = (f"{ending} {games}" for ending, games in table.endings)
    times = (f"{name} {style.seconds(table.seconds_a_move(name))}" for name in table.players.values())
    lines = [
        ("Black", f"took {style.per_cent(table.black_points / table.games)}{worth}"),
        ("Endings", ", ".join(endings)),
        ("Length", f"{table.mean_length or 0:.1f} moves a game"),
        ("Time", ", ".join(times) + " a move"),
    ]
    lines += doubts(table, league)
    lines += forfeit_lines(table.forfeits)
    return lines + repeats(table)


def doubts(table: Crosstable, league: League) -> list[tuple[str, str]]:
    """What the ratings leave open: players without a measured distance, results that they hardly explain."""
    lines = []
    if len(league.ratings.components) > 1:
        lines.append(("Order", f"{_order(table, league)}; between these groups no distance is measured"))
    for found in table.surprises(league, ALARM):
        score = f"{found.points:g}-{found.games - found.points:g}"
        expected = f"{found.expected:.1f}-{found.games - found.expected:.1f}"
        lines.append(
            (
                "Alarm",
                f"{found.first} against {found.second}: {score}, where the ratings expect {expected} "
                f"(p = {found.chance:.1g}); one scale of strength doesn't explain it",
            )
        )
    return lines


def repeats(table: Crosstable) -> list[tuple[str, str]]:
    """A warning of identical games, if there are any."""
    repeating = [tally for tally in table.tallies if tally.repeats]
    if not repeating:
        return []
    pairs = ", ".join(f"{tally.first} against {tally.second} ({tally.repeats})" for tally in repeating)
    return [("Warning", f"games repeat earlier ones and count once in the Elo: {pairs}; use more openings")]


def _order(table: Crosstable, league: League) -> str:
    """The groups of players whose members have all beaten each other, the strongest first: ``A, B ≥ C``."""
    groups = league.ratings.components
    words = ", ".join(table.players[identity] for identity in groups[0])
    for above, below in pairwise(groups):
        bound = league.ratings.difference(above[0], below[0]).bound
        sign = {Bound.BELOW: "≥", Bound.ABOVE: "≤"}.get(bound, "?")
        words += f" {sign} " + ", ".join(table.players[identity] for identity in below)
    return words
