"""The commands that have bots meet: a match, or how long one would take; a round robin, a gauntlet, a ladder."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from arena import ConfigError
from arena.cli import events
from arena.cli.options import NO_TERMS, RESULTS, Cluster, ConfigFile, Json, Results, Workers, registry_of, takes
from arena.players.config import TermsTable, TournamentTable, first_given

if TYPE_CHECKING:
    from arena.match.ladder import Ladder
    from arena.match.schedule import Match, Tournament
    from arena.match.standings import MatchTally
    from arena.players.registry import Registry
    from arena.ratings import Sprt
    from arena.results.store import Store

SPRT_GAMES = 5_000
"""Where a sequential test ends at the latest, by default."""

PILOT, FEWEST_FOR_A_PLAN = 10, 8
"""Games that --plan plays where fewer than the second number are stored."""

PLANNED = 30.0
"""The Elo difference that a plan is for, by default."""

LADDER_GAMES, PRECISION_GAMES = 100, 5_000
"""Games of a ladder by default: for each of its bots, or in all with --precision."""


@takes(TermsTable)
def match(
    first: Annotated[str, Argument(metavar="A", help="NAME, NAME:setting=value,... or checkpoint:NAME.")],
    second: Annotated[str, Argument(metavar="B", help="The other bot; human plays at this terminal.")],
    games: Annotated[int | None, Option("-n", "--games", help="Games (default 100; at most 5000 with --sprt).")] = None,
    terms: TermsTable = NO_TERMS,
    workers: Workers = 0,
    cluster: Cluster = None,
    sprt: Annotated[
        tuple[float, float] | None,
        Option(metavar="ELO0 ELO1", help="Stop when a sequential test accepts either difference."),
    ] = None,
    alpha: Annotated[float, Option(help="Error rate of that test, either way (default 0.05).")] = 0.05,
    new: Annotated[bool, Option("--new", help="Start again instead of resuming.")] = False,
    name: Annotated[str, Option(help="Name with which the match's id begins (default A-B).")] = "",
    plan: Annotated[bool, Option("--plan", help="Estimate how many games, and how long, it takes.")] = False,
    precision: Annotated[
        float | None, Option(metavar="ELO", help="Plan for this (default 30).", min=1, max=1000)
    ] = None,
    as_json: Json = False,
    results: Results = RESULTS,
    config: ConfigFile = None,
) -> None:
    """Play a match of N games between A and B, with colours swapped.

    The same command resumes an interrupted match, and a larger -n adds games. --plan uses the stored games of the
    match; if there are too few, it plays and stores the first ten.

    Examples:
      arena match sl alphago -n 100
      arena match checkpoint:new sl --sprt 0 35 --name first-try
      arena match mcts gnugo --limits seconds=1
      arena match mcts:playouts=500 mcts:playouts=600 --plan
    """
    if not as_json:
        events.say_preparing()
    from arena.match.schedule import Match
    from arena.report.style import Console

    if (plan := plan or precision is not None) and (sprt or games or new or as_json):
        raise ConfigError("--plan plays no match; leave out --sprt, --games, --new and --json")
    test = None if sprt is None else sequential_test(sprt, alpha)
    games = PILOT if plan else first_given(games, 100 if test is None else SPRT_GAMES)
    registry = registry_of(config, results)
    address = cluster or registry.cluster.address
    setup = events.EventSetup(Console(stderr=as_json), results, workers, address, as_json)
    agreed = events.read_terms(terms, setup.console.say)
    one, other = (events.read_player(registry, name, terms, or_person=not plan) for name in (first, second))
    played = Match(one, other, agreed, games, test=test, name=name)
    with setup.opened(played) as store:
        runs = sum(event.id.rpartition("-")[0] == played.key for event in store.events())
        played = replace(played, run=max(1, runs + new))
        if plan:
            print_plan(played, first_given(precision, PLANNED), setup, store)
        else:
            setup.begin(played, store)


def sequential_test(hypotheses: tuple[float, float], alpha: float = 0.05) -> Sprt:
    """The test of ``--sprt``. Raises ConfigError for hypotheses or errors that can't be."""
    from arena.ratings import Sprt

    if not 0 < alpha < 0.5:
        raise ConfigError(f"--alpha {alpha:g} is out of range; allowed: between 0 and 0.5")
    try:
        return Sprt(*hypotheses, alpha=alpha, beta=alpha)
    except ValueError as error:
        raise ConfigError(f"--sprt: {error}") from None


def print_plan(pilot: Match, precision: float, setup: events.EventSetup, store: Store) -> None:
    """Print the estimate from the stored games of all runs of the match; where there are too few, after ``pilot``."""
    from arena.report.tables import plan_sheet

    runs = [event.id for event in store.events() if event.id.rpartition("-")[0] == pilot.key]
    tally = _tally_of(pilot, runs, store)
    if tally.games < FEWEST_FOR_A_PLAN:
        if pilot.event not in runs:  # else its plan is larger
            events.note_event(store, pilot)
        setup.console.say(f"A pilot of {PILOT} games, the first ones of this match:")
        setup.play(pilot, store)
        setup.console.print()
        tally = _tally_of(pilot, {*runs, pilot.event}, store)
    workers = setup.crew if isinstance(setup.crew, int) else setup.crew.most
    setup.console.print(plan_sheet(tally, precision, workers))


def _tally_of(match: Match, runs: Iterable[str], store: Store) -> MatchTally:
    standings = match.standings()
    for run in runs:
        for games in store.game_summaries(event=run):
            standings.add(games)
    return standings.between(*match.players)


@takes(TournamentTable)
def tournament(
    name: Annotated[str, Argument(help="The tournament: new, stored, or in arena.toml.")],
    bots: Annotated[list[str] | None, Argument(metavar="BOT", help="Bots that take part.")] = None,
    terms: TournamentTable = TournamentTable(),  # noqa: B008  # frozen, and replaced by options
    workers: Workers = 0,
    cluster: Cluster = None,
    as_json: Json = False,
    results: Results = RESULTS,
    config: ConfigFile = None,
) -> None:
    """Play a round robin, a gauntlet or a ladder between several bots.

    The same command resumes an interrupted tournament. Bots may join later, and a larger -n adds games. NAME alone
    plays what \\[tournaments.NAME] in arena.toml declares; options given here override it.

    In a gauntlet the first bot meets each of the rest. A ladder ranks many bots with few games; give its bots in the
    order that you expect.

    Examples:
      arena tournament league random mcts sl alphago
      arena tournament check checkpoint:new sl alphago --style gauntlet -n 100
      arena tournament nets checkpoint:a checkpoint:b checkpoint:c --style ladder --precision 50
    """
    if not as_json:
        events.say_preparing()
    from arena.match.ladder import Ladder
    from arena.report.style import Console

    registry = registry_of(config, results)
    address = cluster or registry.cluster.address
    setup = events.EventSetup(Console(stderr=as_json), results, workers, address, as_json)
    played = _tournament(name, bots or [], terms, registry, setup)
    with setup.opened(played) as store:
        events.require_same_terms(store, played)
        view = setup.begin(played, store)
        if isinstance(played, Ladder):
            gap = view.gap
            words = "No two neighbours in the ranking have a measured distance yet; play more games (-n)."
            if gap is not None:
                words = f"Neighbours are measured to ±{gap[2]:.0f} Elo or better; worst: {gap[0]} and {gap[1]}."
            setup.console.say(words)


def _tournament(
    name: str, bots: list[str], terms: TournamentTable, registry: Registry, setup: events.EventSetup
) -> Tournament | Ladder:
    """The event of a name and options, with what arena.toml declares. Raises ConfigError, also where the first bot
    stands in the place of a name."""
    from arena.match.ladder import Ladder
    from arena.match.schedule import Style, Tournament

    if not bots or name in registry.tournaments:
        declared = registry.tournament(name)
    elif registry.knows(name):
        typed = " ".join([name, *bots])
        raise ConfigError(f"'{name}' is a bot; name the tournament before the bots: arena tournament league {typed}")
    else:
        declared = TournamentTable()
    if terms.style is not None and (terms.style == "ladder") != (declared.style == "ladder"):
        declared = replace(declared, games=None)  # which counts something else
    given = replace(terms, bots=tuple(bots)).over(declared)
    if given.precision is not None and given.style != "ladder":
        raise ConfigError(f"tournament '{name}': precision needs --style ladder")
    entries = tuple(events.read_player(registry, bot, given, or_person=True) for bot in given.bots)
    agreed = events.read_terms(given, setup.console.say)
    if given.style == "ladder":
        most = LADDER_GAMES * len(entries) if given.precision is None else PRECISION_GAMES
        return Ladder(name, entries, agreed, first_given(given.games, most), given.precision or 0.0)
    style = Style((given.style or "round-robin").replace("-", " "))
    return Tournament(name, entries, agreed, first_given(given.games, 20), style)
