"""The commands of many players: a round robin, a gauntlet, a ladder."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena import ConfigError
from arena.cli import complete, events
from arena.cli.options import NO_TERMS, RESULTS, ConfigFile, Results, read_theme, registry_of, takes_terms
from arena.cli.seats import seat_at
from arena.players.tables import TermsTable, TournamentTable, first_given

if TYPE_CHECKING:
    from rich.console import Console

    from arena.events.schedule import Ladder, Tournament
    from arena.players.registry import Entry, Registry
    from arena.results.league import Crosstable
    from arena.screen.board import Theme

LADDER_GAMES = 100
"""Games of a ladder for each of its bots, unless told otherwise."""

TO_SEE_GAMES = 5_000
"""Where a ladder ends at the latest that is to measure to some Elo, unless told otherwise."""

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Its name: new, stored, or that of a table in arena.toml.",
        autocompletion=complete.tournaments,
    ),
]
Bots = Annotated[
    list[str] | None,
    typer.Argument(metavar="[A B C ...]", help="Who plays.", show_default=False, autocompletion=complete.bots),
]


@takes_terms()
def tournament(
    name: Name,
    bots: Bots = None,
    games: Annotated[
        int | None, typer.Option("-n", "--games", help="Games of each two players; 20.", show_default=False)
    ] = None,
    gauntlet: Annotated[
        bool | None,
        typer.Option("--gauntlet/--round-robin", help="The first against the rest, or all.", show_default=False),
    ] = None,
    terms: TermsTable = NO_TERMS,
    workers: events.Workers = 0,
    results: Results = Path(RESULTS),
    config: ConfigFile = None,
) -> None:
    """Play a round robin, or a gauntlet of the first bot against the rest, live, until all games are stored.

    The same command goes on where an earlier one stopped; bots may join later, and a larger -n adds games.

    NAME alone plays what \\[tournaments.NAME] in arena.toml says; options given here come first.

    Examples: [bold]arena tournament league random mcts sl alphago[/bold] ·
    [bold]arena tournament check checkpoint:new sl alphago --gauntlet -n 100[/bold]
    """
    from rich.console import Console

    from arena.events.schedule import Style, Tournament

    processes = events.count_workers(workers)
    registry = registry_of(config, results)
    theme, declared = read_theme(None, registry), _declared(registry, "tournament", name, bots)
    style = None if gauntlet is None else "gauntlet" if gauntlet else "round robin"
    style = first_given(style, declared.style, "round robin")
    given = terms.over(declared)
    console = Console()
    if style == "ladder":
        entries = _players(registry, given, bots, declared)
        ranked = _ladder(name, entries, games, None, None, given, declared, console)
        _play(ranked, processes, console, results, theme)
        return
    if declared.to_see is not None or declared.block is not None:
        raise ConfigError(f'[tournaments.{name}]: to_see and block are of a ladder; add style = "ladder", or drop them')
    say = events.printer(console)
    agreed, games_each = events.read_terms(given, say), first_given(games, declared.games, 20)
    entries = _players(registry, given, bots, declared)
    events.say_if_used_in_turn(agreed, games_each, say)
    played = Tournament(name, entries, agreed, games_each, Style(style))
    _play(played, processes, console, results, theme)


@takes_terms()
def ladder(
    name: Name,
    bots: Bots = None,
    games: Annotated[
        int | None,
        typer.Option(
            "-n",
            "--games",
            help="Games of all together, at most; 100 a bot, or 5000 with --to-see.",
            show_default=False,
        ),
    ] = None,
    to_see: Annotated[
        float | None,
        typer.Option(
            "--to-see",
            metavar="ELO",
            help="Stop when every two neighbours in the ranking are told apart to ±ELO (95 %).",
            show_default=False,
        ),
    ] = None,
    block: Annotated[
        int | None,
        typer.Option(
            help="Games of a meeting in a round, an even number; 8. More keep more workers busy.", show_default=False
        ),
    ] = None,
    terms: TermsTable = NO_TERMS,
    workers: events.Workers = 0,
    results: Results = Path(RESULTS),
    config: ConfigFile = None,
) -> None:
    """Rank bots with few games: each round is played where neighbours in the ranking are told apart worst.

    Give the bots in the order that you expect: in the first round each meets the next. The same command goes on where
    an earlier one stopped; bots may join later, and a larger -n or a smaller --to-see adds games.

    NAME alone plays what \\[tournaments.NAME] in arena.toml says; options given here come first.

    Examples: [bold]arena ladder league random mcts sl alphago -n 400[/bold] ·
    [bold]arena ladder nets checkpoint:a checkpoint:b checkpoint:c --to-see 50[/bold]
    """
    from rich.console import Console

    processes = events.count_workers(workers)
    registry = registry_of(config, results)
    declared = _declared(registry, "ladder", name, bots)
    given = terms.over(declared)
    console = Console()
    entries = _players(registry, given, bots, declared)
    played = _ladder(name, entries, games, to_see, block, given, declared, console)
    _play(played, processes, console, results, read_theme(None, registry))


def _declared(registry: Registry, command: str, name: str, bots: list[str] | None) -> TournamentTable:
    """What arena.toml says of a tournament; nothing has to be there when its bots are named. Raises ConfigError where
    the name is missing, and the first bot stands in its place."""
    if not bots or name in registry.tournaments:
        return registry.tournament(name, command)
    if registry.knows(name):
        typed = " ".join([name, *bots])
        raise ConfigError(f"'{name}' is a bot, and a name comes before the bots: arena {command} league {typed}")
    return TournamentTable()


def _players(
    registry: Registry, given: TermsTable, bots: list[str] | None, declared: TournamentTable
) -> tuple[Entry, ...]:
    return tuple(events.read_player(registry, bot, given, or_person=True) for bot in bots or declared.bots)


def _ladder(
    name: str,
    entries: tuple[Entry, ...],
    games: int | None,
    to_see: float | None,
    block: int | None,
    given: TermsTable,
    declared: TournamentTable,
    console: Console,
) -> Ladder:
    from arena.events.schedule import Ladder

    to_see = first_given(to_see, declared.to_see)
    if to_see is not None and not 1 <= to_see <= 1000:
        raise ConfigError(f"--to-see {to_see:g} can't be reached; give from 1 to 1000 Elo")
    most = LADDER_GAMES * len(entries) if to_see is None else TO_SEE_GAMES
    own = declared.games if declared.style == "ladder" else None
    terms = events.read_terms(given, events.printer(console))
    most, block = first_given(games, own, most), first_given(block, declared.block, 8)
    return Ladder(name, entries, terms, most, to_see or 0.0, block)


def _play(played: Tournament | Ladder, workers: int, console: Console, results: Path, theme: Theme) -> None:
    """Play it live, and say what it came to."""
    from arena.events.runner import Control
    from arena.events.schedule import Ladder
    from arena.results.store import Store
    from arena.screen.tournament import show_tournament

    played.pairings()  # openings that don't exist are refused before anything is stored
    control = Control()
    with Store.of(results, write=True) as store:
        for line in chain(events.changes(store, played.entries), events.news(store, played)):
            events.printer(console)(line)
        events.note_event(store, played)
        with events.event_kept(played, store, console, results):
            updates = events.play_published(played, store, workers, control, seat_at(played, theme))
            view = show_tournament(played, updates, console, control=control, theme=theme)
            if isinstance(played, Ladder):
                events.printer(console)(_precision(view.tally))


def _precision(table: Crosstable) -> str:
    """How well the neighbours in a ladder are told apart."""
    from arena.events.ladder import widest_gap

    league = table.league()
    gap = None if league is None else widest_gap(league.ratings)
    if gap is None:
        return "No two neighbours in the ranking have a measured distance yet; play more games (-n)."
    names = table.players
    return f"Neighbours are told apart to ±{gap[2]:.0f} Elo or better; worst {names[gap[0]]} and {names[gap[1]]}."
