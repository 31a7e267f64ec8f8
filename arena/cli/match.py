"""The commands match and tournament."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from arena import ConfigError, plural
from arena.cli import options
from arena.cli.options import RESULTS, Argument, ConfigFile, Number, Option, ResultsFolder, with_options
from arena.players.config import TermsTable, TournamentTable, default
from arena.system import cores

if TYPE_CHECKING:
    from arena.cli.events import EventSetup
    from arena.match.schedule import Match
    from arena.ratings import Sprt

SPRT_GAMES = 5_000  # where a sequential test ends at the latest, by default
PILOT_GAMES = 20  # games that --plan plays where fewer are stored. They aren't stored: the event hasn't begun


@with_options(TermsTable)
def match(
    ctx: typer.Context,
    first: Annotated[str, Argument(metavar="A")],
    second: Annotated[str, Argument(metavar="B")],
    games: Annotated[int | None, Number("-n", "--games", help="Games (default 100; at most 5000 with --sprt).")] = None,
    handicap: Annotated[int, Number(help="A gives B, who has Black, 2 to 9 stones at komi 0.5.")] = 0,
    terms: TermsTable = options.NO_TERMS,
    workers: options.Workers = 0,
    cluster: options.ClusterAddress = None,
    sprt: Annotated[
        tuple[float, float] | None, Option(metavar="ELO0 ELO1", help="Stop when a sequential test accepts either.")
    ] = None,
    alpha: Annotated[float | None, Number(help="Error rate of that test, either way (default 0.05).")] = None,
    new: Annotated[bool, Option("--new", help="Start again instead of resuming.")] = False,
    name: Annotated[str, Option(metavar="NAME", help="Prefix of the match's id (default A-B).")] = "",
    plan: Annotated[float | None, Option(metavar="ELO", help="Estimate how many games it takes to see this.")] = None,
    bell: options.Bell = False,
    as_json: options.Json = False,
    results: ResultsFolder = RESULTS,
    config: ConfigFile = None,
) -> None:
    """Play a match of N games between A and B, with colours swapped.

    A and B are bots: NAME, NAME:setting=value,..., checkpoint:NAME or a Python file; 'arena bots' lists the names.
    human is a person at this terminal. The same command resumes an interrupted match; a larger -n adds games. --plan
    estimates from stored games, or from 20 that it plays and doesn't store.

    Examples:
      arena match sl alphago -n 100
      arena match rl sl --sprt 0 35 --name first-try
      arena match mcts gnugo --limits seconds=1
      arena match mcts:playouts=500 mcts:playouts=600 --plan 30
    """
    if ctx.args:
        bots = " ".join([first, second, *ctx.args])
        raise ConfigError(f"a match has two bots; for more, use: arena tournament NAME {bots}")
    registry = options.registry_for_event(config, results, (first, second), as_json)
    if plan is not None and (sprt or games or new or as_json):
        raise ConfigError("--plan plays no match; leave out --sprt, --games, --new and --json")
    if plan is not None and not 1 <= plan <= 1000:
        raise ConfigError(f"--plan {plan:g} is out of range; allowed: from 1 to 1000")
    if alpha is not None and sprt is None:
        raise ConfigError(f"--alpha {alpha:g} needs --sprt, as in --sprt 0 35")
    from arena.cli import events
    from arena.match.schedule import Match

    test = None if sprt is None else sequential_test(sprt, default(alpha, 0.05))
    most = default(games, 100 if test is None else SPRT_GAMES)
    setup = events.EventSetup(registry, results, workers, cluster, as_json, bell)
    agreed = events.read_terms(terms, registry, setup.console.print_line, handicap)
    if test is not None and agreed.limit is not None and most > 2 * agreed.limit:
        most, counted = 2 * agreed.limit, plural(agreed.limit, "opening")
        setup.console.print_line(f"The test counts an opening once: with {counted}, it has {most} games.")
    is_persons = plan is None and any(registry.resolve(bot).is_person for bot in (first, second))
    if is_persons:
        from arena.cli import people
    read = people.read_side if is_persons else events.read_player
    one, other = (read(registry, bot, terms) for bot in (first, second))
    played = Match(one, other, agreed, most, test=test, name=name)
    if is_persons:
        if terms.referee:
            raise ConfigError("--referee is for games of bots; people mark the dead stones of theirs")
        if as_json:
            raise ConfigError("--json prints games of bots; 'arena games --json' prints those of people")
        people.play_match(played, new, people.PlaySetup(registry, results), is_counted=games is not None)
    elif plan is None:
        with setup.opened(played) as store:
            setup.play(events.with_run_number(played, store, new), store, is_counted=games is not None)
    else:
        _forecast(played, plan, setup)


def _forecast(match: Match, precision: float, setup: EventSetup) -> None:
    """Show how many games a difference takes, by the stored games of a match, or by some that aren't stored."""
    from arena.cli.events import with_run_number
    from arena.report.tables import plan_table
    from arena.results.event_state import EventState
    from arena.results.store import Store, database

    standings, workers = match.standings(), setup.workers or cores()
    if database(setup.results).exists():
        with Store.of(setup.results) as store:
            for games in store.game_summaries(event=with_run_number(match, store, False).event):
                standings.add(games)
    if standings.games < PILOT_GAMES:
        with TemporaryDirectory() as folder:
            setup.results = Path(folder)
            with setup.opened(match) as store:
                setup.show(state := EventState(replace(match, games=PILOT_GAMES)), store)
                standings, workers = state.standings, setup.crew if isinstance(setup.crew, int) else setup.crew.most
    setup.console.print(plan_table(standings.between(*match.players), precision, workers))


def sequential_test(hypotheses: tuple[float, float], alpha: float = 0.05) -> Sprt:
    """The test of ``--sprt``. Raises ConfigError for hypotheses or errors that can't be."""
    from arena.ratings import Sprt

    if not 0 < alpha < 0.5:
        raise ConfigError(f"--alpha {alpha:g} is out of range; allowed: between 0 and 0.5")
    try:
        return Sprt(*hypotheses, alpha=alpha, beta=alpha)
    except ValueError as error:
        raise ConfigError(f"--sprt: {error}") from None


@with_options(TournamentTable)
def tournament(
    name: Annotated[str, Argument(metavar="NAME")],
    bots: Annotated[list[str] | None, Argument(metavar="BOT")] = None,
    terms: TournamentTable = TournamentTable(),  # noqa: B008  # frozen, and replaced by options
    workers: options.Workers = 0,
    cluster: options.ClusterAddress = None,
    bell: options.Bell = False,
    as_json: options.Json = False,
    results: ResultsFolder = RESULTS,
    config: ConfigFile = None,
) -> None:
    """Play a round robin, a gauntlet or a Swiss tournament.

    NAME is the tournament's own name. The same command resumes an interrupted tournament. Bots may join later, and a
    larger -n adds games. NAME alone plays what [tournaments.NAME] in arena.toml declares; options override it.

    In a gauntlet the first bot meets each of the rest. A swiss tournament ranks many bots with few games: in each
    round, bots of similar rating meet; give the bots in the order that you expect.

    Examples:
      arena tournament league random mcts sl alphago
      arena tournament check rl sl alphago --style gauntlet -n 100
      arena tournament nets random mcts sl --style swiss --precision 50
    """
    bots = bots or []
    registry = options.registry_for_event(config, results, bots, as_json)
    from arena.cli import events
    from arena.match.schedule import Style, Tournament
    from arena.match.swiss import Swiss

    setup = events.EventSetup(registry, results, workers, cluster, as_json, bell)
    if not bots or name in registry.tournaments:
        declared = registry.tournament(name)
    elif registry.is_bot(name):
        typed = " ".join([name, *bots])
        raise ConfigError(f"'{name}' is a bot; name the tournament before the bots: arena tournament league {typed}")
    else:
        declared = TournamentTable()
    if terms.style is not None and (terms.style == "swiss") != (declared.style == "swiss"):
        declared = replace(declared, games=None)  # which counts something else
    given = replace(terms, bots=tuple(bots)).over(declared)
    if given.precision is not None and given.style != "swiss":
        raise ConfigError(f"tournament '{name}': precision needs --style swiss")
    entries = tuple(events.read_player(registry, bot, given) for bot in given.bots)
    agreed = replace(events.read_terms(given, registry, setup.console.print_line), own_openings=True)
    played: Tournament | Swiss
    if given.style == "swiss":
        most = 100 * len(entries) if given.precision is None else 5_000
        played = Swiss(name, entries, agreed, default(given.games, most), given.precision or 0.0)
    else:
        style = Style((given.style or "round-robin").replace("-", " "))
        played = Tournament(name, entries, agreed, default(given.games, 20), style)
    with setup.opened(played) as store:
        if gap := setup.play(played, store, given.games is not None).gap:
            words = f"Neighbours are measured to ±{gap[2]:.0f} Elo or better; worst: {gap[0]} and {gap[1]}."
            setup.console.print_line(words)
