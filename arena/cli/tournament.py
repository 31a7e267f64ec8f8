"""The command of many players: a round robin, a gauntlet, a ladder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena import ConfigError
from arena.cli import complete, events
from arena.cli.options import RESULTS, ConfigFile, Results, read_theme, registry_of, takes_terms
from arena.players.tables import TournamentTable, first_given

if TYPE_CHECKING:
    from arena.events.schedule import Ladder, Tournament
    from arena.players.registry import Registry
    from arena.results.league import Crosstable

LADDER_GAMES = 100
"""Games of a ladder for each of its bots, by default."""

TO_SEE_GAMES = 5_000
"""Games of a ladder with --to-see, by default."""

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Its name: new, stored, or that of a table in arena.toml.",
        autocompletion=complete.tournaments,
    ),
]
Bots = Annotated[
    list[str] | None, typer.Argument(metavar="[A B C ...]", help="Who plays.", autocompletion=complete.bots)
]


NOTHING_GIVEN = TournamentTable()


@takes_terms("bots", table=TournamentTable)
def tournament(
    name: Name,
    bots: Bots = None,
    terms: TournamentTable = NOTHING_GIVEN,
    workers: events.Workers = 0,
    results: Results = Path(RESULTS),
    config: ConfigFile = None,
) -> None:
    """Play a round robin, a gauntlet or a ladder, live, until all games are stored.

    The same command goes on where an earlier one stopped; bots may join later, and a larger -n adds games. NAME alone
    plays what \\[tournaments.NAME] in arena.toml says; options given here come first.

    In a gauntlet the first bot meets each of the rest. A ladder ranks many bots with few games: each round is played
    where neighbours in the ranking are told apart worst. Give its bots in the order that you expect: in the first round
    each meets the next.

    Examples: [bold]arena tournament league random mcts sl alphago[/bold] ·
    [bold]arena tournament check checkpoint:new sl alphago --style gauntlet -n 100[/bold] ·
    [bold]arena tournament nets checkpoint:a checkpoint:b checkpoint:c --style ladder --to-see 50[/bold]
    """
    from rich.console import Console

    processes, console = events.count_workers(workers), Console()
    registry = registry_of(config, results)
    declared = _declared(registry, name, bots)
    if terms.style is not None and (terms.style == "ladder") != (declared.style == "ladder"):
        declared = replace(declared, games=None)  # which counts something else
    given = replace(terms, bots=tuple(bots or ())).over(declared)
    of_ladder = [key for key in ("to_see", "block") if getattr(given, key) is not None]
    if of_ladder and given.style != "ladder":
        raise ConfigError(f"tournament '{name}': {of_ladder[0]} belongs to a ladder; use --style ladder, or drop it")
    played = _event(name, given, registry, events.printer(console))
    _play(played, events.Live(console, results, processes, read_theme(None, registry)))


def _declared(registry: Registry, name: str, bots: list[str] | None) -> TournamentTable:
    """What arena.toml says of a tournament; nothing has to be there when its bots are named. Raises ConfigError where
    the name is missing, and the first bot stands in its place."""
    if not bots or name in registry.tournaments:
        return registry.tournament(name)
    if registry.knows(name):
        typed = " ".join([name, *bots])
        raise ConfigError(f"'{name}' is a bot, and a name comes before the bots: arena tournament league {typed}")
    return TournamentTable()


def _event(name: str, given: TournamentTable, registry: Registry, say: Callable[[str], None]) -> Tournament | Ladder:
    from arena.events.schedule import Ladder, Style, Tournament

    entries = tuple(events.read_player(registry, bot, given, or_person=True) for bot in given.bots)
    terms = events.read_terms(given, say)
    if given.style == "ladder":
        most = LADDER_GAMES * len(entries) if given.to_see is None else TO_SEE_GAMES
        block = first_given(given.block, 8)
        return Ladder(name, entries, terms, first_given(given.games, most), given.to_see or 0.0, block)
    games = first_given(given.games, 20)
    events.say_if_used_in_turn(terms, games, say)
    return Tournament(name, entries, terms, games, Style((given.style or "round-robin").replace("-", " ")))


def _play(played: Tournament | Ladder, live: events.Live) -> None:
    """Play it, and say what it came to."""
    from arena.events.schedule import Ladder
    from arena.results.store import Store
    from arena.screen.tournament import show_tournament

    played.pairings()  # openings that don't exist are refused before anything is stored
    say = events.printer(live.console)
    with Store.of(live.results, write=True) as store:
        for line in chain(events.changes(store, played.entries), events.news(store, played)):
            say(line)
        events.note_event(store, played)
        view = live.play(played, store, show_tournament)
        if isinstance(played, Ladder):
            say(_precision(view.tally))


def _precision(table: Crosstable) -> str:
    """How well the neighbours in a ladder are told apart."""
    from arena.events.ladder import widest_gap

    league = table.league()
    gap = None if league is None else widest_gap(league.ratings)
    if gap is None:
        return "No two neighbours in the ranking have a measured distance yet; play more games (-n)."
    names = table.players
    return f"Neighbours are told apart to ±{gap[2]:.0f} Elo or better; worst {names[gap[0]]} and {names[gap[1]]}."
