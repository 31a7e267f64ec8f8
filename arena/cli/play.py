"""The commands that play: match, tournament, and a bot served over GTP."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arena import ConfigError, UserError
from arena.cli.options import RESULTS, ConfigFile, Results, cores, read_limits, registry_of

if TYPE_CHECKING:
    from rich.console import Console

    from arena.ratings import Sprt
    from arena.schedule import Event, Tournament
    from arena.store import Store

SPRT_GAMES = 5_000
"""Where a sequential test ends at the latest unless told otherwise."""


def match(
    first: Annotated[str, typer.Argument(metavar="A", help="A bot: NAME, NAME:setting=value,... or checkpoint:PATH.")],
    second: Annotated[str, typer.Argument(metavar="B", help="The bot it meets.")],
    games: Annotated[
        int | None,
        typer.Option("-n", "--games", help="How many games, at most with --sprt; 100, or 5000.", show_default=False),
    ] = None,
    size: Annotated[int, typer.Option(help="Board size, 5 to 19.")] = 9,
    komi: Annotated[float | None, typer.Option(help="Komi; 7 on 9x9, 7.5 above.", show_default=False)] = None,
    rules: Annotated[str, typer.Option(help="cgos, tromp-taylor, chinese or japanese.")] = "cgos",
    openings: Annotated[int, typer.Option(help="Different openings to use; 0 gives each pair of games its own.")] = 0,
    plies: Annotated[int, typer.Option(help="Moves of an opening.")] = 4,
    seed: Annotated[int, typer.Option(help="Where openings and all chance start.")] = 1,
    workers: Annotated[int, typer.Option(help="Processes that play; 0 for one a core.")] = 0,
    limits: Annotated[
        str,
        typer.Option(
            help="For both: seconds=S, simulations=N (a move), deadline=S (forfeit after).", show_default=False
        ),
    ] = "",
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

    The same command goes on where an earlier one stopped, and a larger -n adds games.

    Examples: [bold]arena match sl alphago -n 100[/bold] · [bold]arena match uct:playouts=500 uct:playouts=2000[/bold] ·
    [bold]arena match checkpoint:new sl --sprt 0 35[/bold] · [bold]arena match mcts gnugo --limits seconds=1[/bold]
    """
    from dataclasses import replace

    from rich.console import Console

    from arena.go.game import Rules
    from arena.runner import play_event
    from arena.schedule import Match
    from arena.screen.match import show_match
    from arena.store import Store

    console = Console()
    test = _read_sprt(sprt, alpha, beta)
    if games is None:
        games = 100 if test is None else SPRT_GAMES
    if workers < 0:
        raise UserError(f"{workers} workers can't play; give at least 1, or 0 for one a core")
    registry = registry_of(config, results)
    played = Match(
        registry.resolve(first),
        registry.resolve(second),
        Rules.preset(rules, size, komi),
        games,
        openings,
        plies,
        seed,
        read_limits(limits),
    )
    for entry in played.players.values():
        entry.check(size)
    with Store.open(results / "arena.db", write=True) as store:
        runs = sum(event.id.rpartition("-")[0] == played.key for event in store.events())
        played = replace(played, run=max(1, runs + new))
        _note_event(store, played)
        with _event_kept(played, store, console, results):
            show_match(played, play_event(played, store, workers or cores()), console, sprt=test)


def tournament(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The tournament's name, new, stored or in arena.toml.")],
    bots: Annotated[
        list[str] | None, typer.Argument(metavar="[A B C ...]", help="Who plays.", show_default=False)
    ] = None,
    games: Annotated[
        int | None, typer.Option("-n", "--games", help="Games of each two players; 20.", show_default=False)
    ] = None,
    gauntlet: Annotated[
        bool | None,
        typer.Option("--gauntlet/--round-robin", help="The first against the rest, or all.", show_default=False),
    ] = None,
    size: Annotated[int | None, typer.Option(help="Board size, 5 to 19; 9.", show_default=False)] = None,
    komi: Annotated[float | None, typer.Option(help="Komi; 7 on 9x9, 7.5 above.", show_default=False)] = None,
    rules: Annotated[
        str | None, typer.Option(help="cgos, tromp-taylor, chinese or japanese.", show_default=False)
    ] = None,
    openings: Annotated[
        int | None, typer.Option(help="Different openings to use; 0 for ever new ones.", show_default=False)
    ] = None,
    plies: Annotated[int | None, typer.Option(help="Moves of an opening; 4.", show_default=False)] = None,
    seed: Annotated[
        int | None, typer.Option(help="Where openings and all chance start; 1.", show_default=False)
    ] = None,
    limits: Annotated[
        str | None,
        typer.Option(help="For all: seconds=S, simulations=N, deadline=S.", show_default=False),
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes that play; 0 for one a core.")] = 0,
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

    from arena.go.game import Rules
    from arena.registry import TournamentTable
    from arena.runner import play_event
    from arena.schedule import Style, Tournament
    from arena.screen.tournament import show_tournament
    from arena.store import Store

    if workers < 0:
        raise UserError(f"{workers} workers can't play; give at least 1, or 0 for one a core")
    registry = registry_of(config, results)
    declared = registry.tournament(name) if not bots or name in registry.tournaments else TournamentTable()
    style = None if gauntlet is None else "gauntlet" if gauntlet else "round robin"
    board = _first(size, declared.size, 9)
    played = Tournament(
        name,
        tuple(registry.resolve(bot) for bot in bots or declared.bots),
        Rules.preset(_first(rules, declared.rules, "cgos"), board, _first(komi, declared.komi, None)),
        _first(games, declared.games, 20),
        Style(_first(style, declared.style, "round robin")),
        _first(openings, declared.openings, 0),
        _first(plies, declared.plies, 4),
        _first(seed, declared.seed, 1),
        read_limits(_first(limits, declared.limits, "")),
    )
    for entry in played.entries:
        entry.check(board)
    played.pairings()  # openings that don't exist are refused before anything is stored
    console = Console()
    with Store.open(results / "arena.db", write=True) as store:
        for line in _news(store, played):
            console.print(line, highlight=False, soft_wrap=not console.is_terminal)
        _note_event(store, played)
        with _event_kept(played, store, console, results):
            show_tournament(played, play_event(played, store, workers or cores()), console)


def gtp(
    bot: Annotated[str, typer.Argument(metavar="BOT", help="NAME, NAME:setting=value,... or checkpoint:PATH.")],
    size: Annotated[int, typer.Option(help="Board size until the controller sets one, 5 to 19.")] = 9,
    komi: Annotated[float | None, typer.Option(help="Komi until set; 7 on 9x9, 7.5 above.", show_default=False)] = None,
    rules: Annotated[str, typer.Option(help="cgos, tromp-taylor, chinese or japanese.")] = "cgos",
    seed: Annotated[
        int | None, typer.Option(help="Where all chance starts; another one each time unless given.")
    ] = None,
    results: Results = Path(RESULTS),
    config: ConfigFile = None,
) -> None:
    """Serve a bot over GTP 2 on stdin and stdout, to GoGui, Sabaki, CGOS or any other runner of games.

    Example: [bold]gogui-twogtp -black "arena gtp mcts" -white "gnugo --mode gtp" -games 10 -auto[/bold]
    """
    from contextlib import closing, redirect_stdout
    from random import SystemRandom

    from arena.go.game import Rules
    from arena.gtp.server import Server, serve

    entry = registry_of(config, results).resolve(bot)
    if entry.bot_kind.interactive:
        raise UserError(f"{entry.name} plays at the terminal and can't be served")
    entry.check(size)
    preset = Rules.preset(rules, size, komi)
    if seed is None:
        seed = SystemRandom().getrandbits(31)
    lines = open(0, encoding="utf-8", errors="replace", newline="\n", closefd=False)
    output = open(1, "w", encoding="ascii", errors="backslashreplace", newline="\n", closefd=False)
    try:
        with redirect_stdout(sys.stderr), closing(entry.build()) as player:  # a bot that prints spoils no answer
            serve(Server(player, preset, f"arena {entry.name}", seed, entry.check), lines, output)
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _read_sprt(hypotheses: tuple[float, float] | None, alpha: float, beta: float) -> Sprt | None:
    """The sequential test of ``--sprt``. Raises ConfigError."""
    from arena.ratings import Sprt

    if hypotheses is None:
        return None
    try:
        return Sprt(*hypotheses, alpha=alpha, beta=beta)
    except ValueError as error:
        raise ConfigError(f"--sprt: {error}") from None


def _first(*values: Any) -> Any:
    """The first that is given; the last is the default."""
    return next((value for value in values if value is not None), None)


@contextmanager
def _event_kept(event: Event, store: Store, console: Console, results: Path) -> Iterator[None]:
    """Whatever ends an event, the ratings are written; Ctrl-C says how to go on."""
    from arena.report import write_elo_csv

    try:
        yield
    except KeyboardInterrupt:
        done = len({pairing.id for pairing in event.pairings()} & store.ids(event.event))
        console.print(
            f"Stopped. {done} of {event.games} games are stored; the same command plays the rest.", highlight=False
        )
        raise SystemExit(130) from None
    finally:
        if store.count():
            write_elo_csv(store, results / "elo.csv")
    console.print(f"Games in {results / 'arena.db'}, ratings in {results / 'elo.csv'} (arena elo).", highlight=False)


def _news(store: Store, played: Tournament) -> Iterator[str]:
    """What is to be said of a stored tournament before it goes on: who has changed and who is missing.

    Raises ConfigError when it was played by other settings, or its name is another event's.
    """
    stored = next((json.loads(event.settings) for event in store.events() if event.id == played.event), None)
    if stored is None:
        return
    if "tournament" not in stored:
        raise ConfigError(f"'{played.name}' is a stored match; take another name for the tournament")
    old, new = _flat(stored), _flat(json.loads(json.dumps(played.settings)))
    changed = [key for key in new if old.get(key) != new[key]]
    if changed:
        words = [f"{key} {_plain(old.get(key))}, not {_plain(new[key])}" for key in changed]
        raise ConfigError(f"tournament '{played.name}' is stored with {'; '.join(words)}; take another name")
    playing = {entry.identity: entry.name for entry in played.entries}
    for identity, name in store.participants(played.event).items():
        if identity not in playing:
            games = store.count(event=played.event, player=identity)
            if name in playing.values():
                yield f"{name} has changed: {games} games of the earlier {name} stay stored, and the new one joins."
            else:
                yield f"{name} doesn't take part now; its {games} games stay stored."


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else "unset" if value is None else str(value)


def _flat(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings without their grouping: the rule set's name is ``rules``."""
    flat = {key: value for key, value in settings.items() if not isinstance(value, dict)}
    rules = dict(settings["rules"])
    return flat | {"rules": rules.pop("name")} | rules | settings["limits"]


def _note_event(store: Store, played: Event) -> None:
    """Store who plays what, once."""
    from datetime import UTC, datetime

    from arena.store import Event as StoredEvent
    from arena.store import Player

    known = {event.id for event in store.events()}
    store.add_players(
        Player(entry.identity, entry.name, entry.kind, json.dumps(dict(entry.settings)), entry.net)
        for entry in played.players.values()
    )
    if played.event not in known:
        created = datetime.now(UTC).isoformat(timespec="seconds")
        store.add_event(StoredEvent(played.event, created, json.dumps(played.settings, sort_keys=True)))
