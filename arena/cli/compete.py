"""The commands that have bots meet: a match, or how long one would take; a round robin, a gauntlet, a ladder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena import ConfigError
from arena.cli import complete, events
from arena.cli.options import NO_TERMS, RESULTS, ConfigFile, Json, Results, registry_of, takes
from arena.players.config import TermsTable, TournamentTable, first_given

if TYPE_CHECKING:
    from arena.match.ladder import Ladder
    from arena.match.schedule import Match, Tournament
    from arena.match.standings import MatchTally, Standings
    from arena.players.registry import Registry
    from arena.results.store import Store


SPRT_GAMES = 5_000
"""Where a sequential test ends at the latest unless told otherwise."""

PILOT = 10
"""Games that --plan plays if fewer are stored."""

FORETELLING = 8

PLANNED = 30.0
"""The Elo difference that a plan is for, by default."""


@takes(TermsTable)
def match(
    first: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="First bot: NAME, NAME:setting=value,... or checkpoint:PATH.",
            autocompletion=complete.bots,
        ),
    ],
    second: Annotated[str, typer.Argument(metavar="B", help="Second bot.", autocompletion=complete.bots)],
    games: Annotated[
        int | None,
        typer.Option("-n", "--games", help="Number of games (default 100). With --sprt, the maximum (default 5000)."),
    ] = None,
    terms: TermsTable = NO_TERMS,
    workers: events.Workers = 0,
    cluster: events.Cluster = None,
    sprt: Annotated[
        tuple[float, float] | None,
        typer.Option(
            metavar="ELO0 ELO1",
            help="Stop when a sequential test accepts ELO0 or ELO1 as the Elo difference of A over B.",
        ),
    ] = None,
    alpha: Annotated[float, typer.Option(help="Probability of accepting ELO1 if ELO0 is true.")] = 0.05,
    beta: Annotated[float, typer.Option(help="Probability of accepting ELO0 if ELO1 is true.")] = 0.05,
    new: Annotated[bool, typer.Option("--new", help="Start again instead of resuming.")] = False,
    name: Annotated[
        str,
        typer.Option("--name", help="Name with which the match's id begins (default: A-B).", show_default=False),
    ] = "",
    plan: Annotated[
        bool, typer.Option("--plan", help="Estimate how many games, and how long, the match takes.")
    ] = False,
    precision: Annotated[
        float | None,
        typer.Option("--precision", metavar="ELO", help="With --plan: the Elo difference to measure (default 30)."),
    ] = None,
    as_json: Json = False,
    results: Results = Path(RESULTS),
    config: ConfigFile = None,
) -> None:
    """Play a match of N games between A and B, with colours swapped.

    The same command resumes an interrupted match, and a larger -n adds games.

    --plan instead estimates how many games, and how long, it takes to measure an Elo difference between A and B. It
    uses the stored games of the match. If there are too few, it plays and stores the first ten.

    Examples: [bold]arena match sl alphago -n 100[/bold] · [bold]arena match uct:playouts=500 uct:playouts=2000[/bold] ·
    [bold]arena match checkpoint:new sl --sprt 0 35 --name first-try[/bold] ·
    [bold]arena match mcts gnugo --limits seconds=1[/bold] ·
    [bold]arena match mcts@seconds=1 mcts@seconds=4 --book games.sgf --plies 8[/bold] ·
    [bold]arena match mcts:playouts=500 mcts:playouts=600 --plan --precision 30[/bold]
    """
    if not as_json:
        events.say_preparing()
    from arena.match.schedule import Match
    from arena.report.style import Console
    from arena.results.store import Store

    console = Console(stderr=as_json)
    say = events.printer(console)
    if plan:
        extra = {"--sprt": sprt is not None, "--games": games is not None, "--new": new}
        for option in (option for option, given in extra.items() if given):
            raise ConfigError(f"--plan plays no match; leave out {option}")
        if not 1 <= first_given(precision, PLANNED) <= 1000:
            raise ConfigError(f"--precision {precision:g} is out of range; give 1 to 1000 Elo")
    elif precision is not None:
        raise ConfigError("--precision needs --plan")
    test = None if sprt is None else events.sequential_test(sprt, alpha, beta)
    games = PILOT if plan else first_given(games, 100 if test is None else SPRT_GAMES)
    registry = registry_of(config, results)
    live = replace(events.Live.of(console, results, workers, cluster, registry), as_json=as_json)
    agreed = events.read_terms(terms, say)
    one, other = (events.read_player(registry, name, terms, or_person=not plan) for name in (first, second))
    played = events.with_openings(Match(one, other, agreed, games, test=test, name=name), results)
    if plan:
        _plan(played, first_given(precision, PLANNED), live)
        return
    events.say_if_used_up(played.terms, games, say)
    with live.lending(played) as lent, Store.of(results, write=True, say=say) as store:
        played = replace(played, run=max(1, _runs(store, played) + new))
        lent.begin(played, store)


def _plan(played: Match, precision: float, live: events.Live) -> None:
    """Estimate from the match's stored games. Where there are hardly any, ``played`` is the pilot to play first."""
    from arena.results.store import Store, database

    with live.lending(played) as lent:
        if database(live.results).exists():
            with Store.of(live.results) as store:
                tally = _stored(store, played)
            if tally.games >= FORETELLING:
                _print_plan(tally, precision, lent)
                return
        with Store.of(live.results, write=True, say=events.printer(live.console)) as store:
            played = replace(played, run=max(1, _runs(store, played)))
            if played.event not in {event.id for event in store.events()}:  # else its plan is larger
                events.note_event(store, played)
            events.printer(live.console)(f"A pilot of {PILOT} games, the first ones of this match:")
            lent.play(played, store)
            tally = _stored(store, played)
        live.console.print()
        _print_plan(tally, precision, lent)


def _print_plan(tally: MatchTally, precision: float, live: events.Live) -> None:
    from arena.report.tables import plan_figures, plan_sheet

    if not live.as_json:
        live.console.print(plan_sheet(tally, precision, live.at_once))
        return
    from arena.results.export import json_line

    for until, games, seconds in plan_figures(tally, precision, live.at_once):
        shown = {"until": until, "games": round(games), "seconds": round(seconds, 1), "from_games": tally.games}
        print(json_line("plan", {"first": tally.first, "second": tally.second, **shown}))


def _runs(store: Store, played: Match) -> int:
    """How often this match was begun."""
    return sum(event.id.rpartition("-")[0] == played.key for event in store.events())


def _stored(store: Store, played: Match) -> MatchTally:
    """The games of all runs of a match; identical ones count once in what is made of them."""
    standings = played.standings()
    for event in store.events():
        if event.id.rpartition("-")[0] == played.key:
            for some in store.game_summaries(event=event.id):
                standings.add(some)
    return standings.between(*played.players)


LADDER_GAMES = 100
"""Games of a ladder for each of its bots, by default."""

PRECISION_GAMES = 5_000
"""Games of a ladder with --precision, by default."""

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Name of the tournament: new, stored, or a table in arena.toml.",
        autocompletion=complete.tournaments,
    ),
]
Bots = Annotated[
    list[str] | None, typer.Argument(metavar="BOT", help="Bots that take part.", autocompletion=complete.bots)
]


NOTHING_GIVEN = TournamentTable()


@takes(TournamentTable, "bots")
def tournament(
    name: Name,
    bots: Bots = None,
    terms: TournamentTable = NOTHING_GIVEN,
    workers: events.Workers = 0,
    cluster: events.Cluster = None,
    results: Results = Path(RESULTS),
    config: ConfigFile = None,
) -> None:
    """Play a round robin, a gauntlet or a ladder between several bots.

    The same command resumes an interrupted tournament. Bots may join later, and a larger -n adds games. NAME alone
    plays what \\[tournaments.NAME] in arena.toml declares; options given here override it.

    In a gauntlet the first bot meets each of the rest. A ladder ranks many bots with few games: one
    meeting in four is of the pair whose order or distance is known worst. Give its bots in the order that you expect:
    in the first round each meets the next.

    Examples: [bold]arena tournament league random mcts sl alphago[/bold] ·
    [bold]arena tournament check checkpoint:new sl alphago --style gauntlet -n 100[/bold] ·
    [bold]arena tournament nets checkpoint:a checkpoint:b checkpoint:c --style ladder --precision 50[/bold]
    """
    from arena.report.style import Console

    events.say_preparing()
    console, registry = Console(), registry_of(config, results)
    live = events.Live.of(console, results, workers, cluster, registry)
    declared = _declared(registry, name, bots)
    if terms.style is not None and (terms.style == "ladder") != (declared.style == "ladder"):
        declared = replace(declared, games=None)  # which counts something else
    given = replace(terms, bots=tuple(bots or ())).over(declared)
    of_ladder = [key for key in ("precision", "block") if getattr(given, key) is not None]
    if of_ladder and given.style != "ladder":
        raise ConfigError(f"tournament '{name}': {of_ladder[0]} needs --style ladder")
    played = _event(name, given, registry, events.printer(console))
    _play(played, live)


def _declared(registry: Registry, name: str, bots: list[str] | None) -> TournamentTable:
    """What arena.toml says of a tournament; nothing has to be there when its bots are named. Raises ConfigError where
    the name is missing, and the first bot stands in its place."""
    if not bots or name in registry.tournaments:
        return registry.tournament(name)
    if registry.knows(name):
        typed = " ".join([name, *bots])
        raise ConfigError(f"'{name}' is a bot; name the tournament before the bots: arena tournament league {typed}")
    return TournamentTable()


def _event(name: str, given: TournamentTable, registry: Registry, say: Callable[[str], None]) -> Tournament | Ladder:
    from arena.match.ladder import Ladder
    from arena.match.schedule import Style, Tournament

    entries = tuple(events.read_player(registry, bot, given, or_person=True) for bot in given.bots)
    terms = events.read_terms(given, say)
    if given.style == "ladder":
        most = LADDER_GAMES * len(entries) if given.precision is None else PRECISION_GAMES
        block = first_given(given.block, 8)
        return Ladder(name, entries, terms, first_given(given.games, most), given.precision or 0.0, block)
    games = first_given(given.games, 20)
    return Tournament(name, entries, terms, games, Style((given.style or "round-robin").replace("-", " ")))


def _play(played: Tournament | Ladder, live: events.Live) -> None:
    """Play it, and say what it came to."""
    from arena.match.ladder import Ladder
    from arena.results.store import Store

    played = events.with_openings(played, live.results)
    if not isinstance(played, Ladder):
        events.say_if_used_up(played.terms, played.games_each, events.printer(live.console))
    say = events.printer(live.console)
    with live.lending(played) as lent, Store.of(live.results, write=True, say=say) as store:
        view = lent.begin(played, store, events.news(store, played))
        if isinstance(played, Ladder):
            say(_precision(view.standings))


def _precision(table: Standings) -> str:
    """How well the neighbours in a ladder are told apart."""
    from arena.match.ladder import widest_gap

    league = table.league
    gap = None if league is None else widest_gap(league.ratings)
    if gap is None:
        return "No two neighbours in the ranking have a measured distance yet; play more games (-n)."
    names = table.players
    return f"Neighbours are measured to ±{gap[2]:.0f} Elo or better; worst: {names[gap[0]]} and {names[gap[1]]}."
