"""The commands of two players: a match, and how long one would take."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena import ConfigError
from arena.cli import complete, events
from arena.cli.options import NO_TERMS, RESULTS, ConfigFile, Results, read_theme, registry_of, takes_terms
from arena.cli.seats import seat_at
from arena.players.tables import TermsTable

if TYPE_CHECKING:
    from arena.events.schedule import Match
    from arena.events.tally import Tally
    from arena.results.store import Store

SPRT_GAMES = 5_000
"""Where a sequential test ends at the latest unless told otherwise."""

PILOT = 10
"""Games that are played where there are fewer than ``FORETELLING``, to foretell the rest from."""

FORETELLING = 8

First = Annotated[
    str,
    typer.Argument(
        metavar="A", help="A bot: NAME, NAME:setting=value,... or checkpoint:PATH.", autocompletion=complete.bots
    ),
]
Second = Annotated[str, typer.Argument(metavar="B", help="The bot it meets.", autocompletion=complete.bots)]


@takes_terms()
def match(
    first: First,
    second: Second,
    games: Annotated[
        int | None,
        typer.Option("-n", "--games", help="How many games, at most with --sprt; 100, or 5000.", show_default=False),
    ] = None,
    terms: TermsTable = NO_TERMS,
    workers: events.Workers = 0,
    sprt: Annotated[
        tuple[float, float] | None,
        typer.Option(
            metavar="ELO0 ELO1",
            help="Stop as soon as it is shown that A is stronger by ELO1 rather than ELO0, or the reverse.",
            show_default=False,
        ),
    ] = None,
    alpha: Annotated[float, typer.Option(help="The risk of accepting ELO1 where ELO0 is true.")] = 0.05,
    beta: Annotated[float, typer.Option(help="The risk of accepting ELO0 where ELO1 is true.")] = 0.05,
    new: Annotated[bool, typer.Option("--new", help="Start afresh instead of resuming.")] = False,
    results: Results = Path(RESULTS),
    config: ConfigFile = None,
) -> None:
    """Play A against B with colours swapped, live, until N games are stored.

    The same command goes on where an earlier one stopped, and a larger -n adds games. How many it takes: arena plan.

    Examples: [bold]arena match sl alphago -n 100[/bold] · [bold]arena match uct:playouts=500 uct:playouts=2000[/bold] ·
    [bold]arena match checkpoint:new sl --sprt 0 35[/bold] · [bold]arena match mcts gnugo --limits seconds=1[/bold] ·
    [bold]arena match mcts@seconds=1 mcts@seconds=4 --book games.sgf --plies 8[/bold]
    """
    from rich.console import Console

    from arena.events.runner import Control
    from arena.events.schedule import Match
    from arena.results.store import Store
    from arena.screen.match import show_match

    console, control = Console(), Control()
    test = None if sprt is None else events.sequential_test(sprt, alpha, beta)
    if games is None:
        games = 100 if test is None else SPRT_GAMES
    processes = events.count_workers(workers)
    registry, say = registry_of(config, results), events.printer(console)
    theme = read_theme(None, registry)
    agreed = events.read_terms(terms, say)
    one, other = (events.read_player(registry, name, terms, or_person=True) for name in (first, second))
    played = Match(one, other, agreed, games, test=test)
    events.say_if_used_in_turn(agreed, games, say)
    agreed.openings_for(games)  # those that don't exist are refused before anything is stored
    with Store.of(results, write=True) as store:
        played = replace(played, run=max(1, _runs(store, played) + new))
        for line in events.changes(store, played.players.values()):
            say(line)
        events.note_event(store, played)
        with events.event_kept(played, store, console, results):
            updates = events.play_published(played, store, processes, control, seat_at(played, theme))
            show_match(played, updates, console, control=control, theme=theme)


@takes_terms()
def plan(
    first: First,
    second: Second,
    to_see: Annotated[
        float, typer.Option("--to-see", metavar="ELO", help="The difference that is to be seen, in Elo.")
    ] = 30.0,
    terms: TermsTable = NO_TERMS,
    workers: events.Workers = 0,
    results: Results = Path(RESULTS),
    config: ConfigFile = None,
) -> None:
    """Foretell how many games and how much time it takes to see a difference of so many Elo between A and B.

    It counts the stored games of the same match. Where there are hardly any, the first ten are played and stored: the
    beginning of the match that [bold]arena match[/bold] goes on with when it gets the same options.

    Example: [bold]arena plan mcts:playouts=500 mcts:playouts=600 --to-see 30[/bold]
    """
    from rich.console import Console

    from arena.events.runner import Control
    from arena.events.schedule import Match
    from arena.results.store import Store, database
    from arena.screen.match import show_match
    from arena.screen.tables import plan_sheet

    if not 1 <= to_see <= 1000:
        raise ConfigError(f"--to-see {to_see:g} can't be planned for; give from 1 to 1000 Elo")
    console, control = Console(), Control()
    processes = events.count_workers(workers)
    registry, say = registry_of(config, results), events.printer(console)
    theme = read_theme(None, registry)
    agreed = events.read_terms(terms, say)
    one, other = (events.read_player(registry, name, terms) for name in (first, second))
    played = Match(one, other, agreed, PILOT)
    if database(results).exists():
        with Store.of(results) as store:
            tally = _stored(store, played)
        if tally.games >= FORETELLING:
            console.print(plan_sheet(tally, to_see, processes))
            return
    played.pairings()
    with Store.of(results, write=True) as store:
        played = replace(played, run=max(1, _runs(store, played)))
        if played.event not in {event.id for event in store.events()}:  # else its plan is larger
            events.note_event(store, played)
        say(f"A pilot of {PILOT} games, which are the beginning of this match:")
        with events.event_kept(played, store, console, results):
            updates = events.play_published(played, store, processes, control)
            show_match(played, updates, console, control=control, theme=theme)
        tally = _stored(store, played)
    console.print()
    console.print(plan_sheet(tally, to_see, processes))


def _runs(store: Store, played: Match) -> int:
    """How often this match was begun."""
    return sum(event.id.rpartition("-")[0] == played.key for event in store.events())


def _stored(store: Store, played: Match) -> Tally:
    """The games of all runs of a match that count; identical ones count once in what is made of them."""
    from arena.events.tally import Judge, Tally

    first, second = played.players
    tally: Tally | None = None
    for event in store.events():
        if event.id.rpartition("-")[0] == played.key:
            judge = Judge(first, second)
            for score in store.scores(event=event.id):
                for game in judge.add(score):
                    if tally is not None:
                        tally.add(game)
            tally = tally or judge.tally
    return tally or Tally(first, second)
