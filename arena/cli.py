"""The command line, where things are wired together. What is heavy is imported by the command that needs it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arena import UserError, __version__

if TYPE_CHECKING:
    from rich.console import Console

    from arena.bot import Limits
    from arena.ratings import Sprt
    from arena.registry import Registry
    from arena.schedule import Event as Played
    from arena.schedule import Tournament
    from arena.store import Store

app = typer.Typer(
    name="arena",
    help="Play Go bots against each other, rate them, and see whether the new one got stronger.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
records_app = typer.Typer(no_args_is_help=True, help="Look at game records.")
train_app = typer.Typer(no_args_is_help=True, help="Train nets (needs: pip install 'arena\\[train]').")
app.add_typer(records_app, name="records")
app.add_typer(train_app, name="train")

RESULTS = "results"
SPRT_GAMES = 5_000
"""Where a sequential test ends at the latest unless told otherwise."""

Results = Annotated[Path, typer.Option("--results", help="Folder of the database, CSV files and checkpoints.")]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", help="File of bots; arena.toml of this folder unless given."),
]


def main() -> None:
    """Run the command line; a user's error is one line on stderr and exit code 2."""
    try:
        app()
    except UserError as error:
        print(f"arena: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except BrokenPipeError:  # the reader of a pipe has left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None


def _version(wanted: bool) -> None:
    if wanted:
        print(f"arena {__version__}")
        raise typer.Exit


@app.callback()
def _arena(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
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
    registry = _registry(config, results)
    played = Match(
        registry.resolve(first),
        registry.resolve(second),
        Rules.preset(rules, size, komi),
        games,
        openings,
        plies,
        seed,
        _read_limits(limits),
    )
    for entry in played.players.values():
        entry.check(size)
    with Store.open(results / "arena.db", write=True) as store:
        runs = sum(event.id.rpartition("-")[0] == played.key for event in store.events())
        played = replace(played, run=max(1, runs + new))
        _note_event(store, played)
        with _event_kept(played, store, console, results):
            show_match(played, play_event(played, store, workers or _cores()), console, sprt=test)


@app.command()
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
    registry = _registry(config, results)
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
        _read_limits(_first(limits, declared.limits, "")),
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
            show_tournament(played, play_event(played, store, workers or _cores()), console)


@app.command()
def bots(
    name: Annotated[str | None, typer.Argument(help="Explain this bot's settings.", show_default=False)] = None,
    results: Results = Path(RESULTS),
    config: ConfigFile = None,
) -> None:
    """List who can play, with settings, nets and ratings; or explain one bot's settings.

    Settings are changed inline, as in [bold]mcts:playouts=5000[/bold], or in arena.toml.
    """
    from rich.console import Console

    from arena.report import player_ratings
    from arena.screen.tables import bots_table, settings_table
    from arena.store import Store

    if name is not None:
        Console().print(settings_table(_registry(config, results).entry(name)))
        return
    database = results / "arena.db"
    ratings = {}
    if database.exists():
        with Store.open(database) as store:
            ratings = player_ratings(store)
    registry = _registry(config, results)
    Console().print(bots_table(registry.entries, ratings))


@app.command()
def elo(
    csv: Annotated[Path | None, typer.Option(help="Write the table to this file, too.", show_default=False)] = None,
    results: Results = Path(RESULTS),
) -> None:
    """Rate all players from all stored games: joint Bradley-Terry, 95 % intervals.

    Example: [bold]arena elo --csv ratings.csv[/bold]
    """
    from rich.console import Console

    from arena.report import ratings_table, write_elo_csv
    from arena.screen.tables import elo_table
    from arena.store import Store

    with Store.open(results / "arena.db") as store:
        Console().print(elo_table(ratings_table(store)))
        if csv is not None:
            write_elo_csv(store, csv)
            print(f"Written to {csv}.")


Event = Annotated[str | None, typer.Option(help="Games of this event only.", show_default=False)]
Player = Annotated[str | None, typer.Option(help="Games of this player only.", show_default=False)]


@app.command()
def games(
    event: Event = None,
    player: Player = None,
    limit: Annotated[int, typer.Option("-n", "--limit", help="The newest so many.", min=1)] = 20,
    results: Results = Path(RESULTS),
) -> None:
    """List stored games, the newest first."""
    from rich.console import Console

    from arena.screen.tables import games_table
    from arena.store import Store

    with Store.open(results / "arena.db") as store:
        found = list(store.games(event=event, player=player, limit=limit, newest_first=True))
        Console().print(games_table(found, store.count(event=event, player=player)))


@app.command()
def export(
    sgf: Annotated[Path, typer.Option(help="Folder for one SGF file a game.", show_default=False)],
    event: Event = None,
    player: Player = None,
    results: Results = Path(RESULTS),
) -> None:
    """Write stored games as SGF files.

    Example: [bold]arena export --sgf games --player alphago[/bold]
    """
    from rich.progress import track

    from arena.store import Store

    with Store.open(results / "arena.db") as store:
        total = store.count(event=event, player=player)
        try:
            for record in track(store.games(event=event, player=player), "Writing", total=total, transient=True):
                path = sgf / f"{record.id}.sgf"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(record.to_sgf() + "\n", "utf-8")
        except OSError as error:
            raise UserError(f"{sgf} can't be written: {error.strerror}") from error
    print(f"{total} games written to {sgf}.")


@app.command()
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

    entry = _registry(config, results).resolve(bot)
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


@records_app.command("stats")
def records_stats(
    paths: Annotated[list[Path], typer.Argument(help="SGF files, folders, .sgfs(.xz), .zip or .tar.* archives.")],
) -> None:
    """Count games, positions, sizes, rules, results, and what was refused and why."""
    from rich.console import Console
    from rich.progress import track

    from arena.go.collection import read_path, statistics
    from arena.screen.tables import statistics_table

    console = Console()
    items = (item for path in paths for item in read_path(path))
    counted = statistics(track(items, "Reading", console=Console(stderr=True), transient=True, total=None))
    console.print(statistics_table(counted))


@train_app.command("sl")
def train_sl(
    data: Annotated[
        list[Path], typer.Option(help="SGF files, folders or archives to learn from; repeatable.", show_default=False)
    ],
    name: Annotated[str, typer.Option(help="The checkpoint's name, and the run's.")] = "sl",
    size: Annotated[int, typer.Option(help="Board size of the games to use.")] = 9,
    minutes: Annotated[float, typer.Option(help="The end of the run, in minutes of training.")] = 60.0,
    rows: Annotated[
        int | None, typer.Option(help="The end of the run, in training rows instead.", show_default=False)
    ] = None,
    blocks: Annotated[int, typer.Option(help="Residual blocks of the net.")] = 6,
    channels: Annotated[int, typer.Option(help="Channels of the net.")] = 64,
    batch: Annotated[int, typer.Option(help="Rows a step.")] = 128,
    optimizer: Annotated[str, typer.Option(help="muon, adamw or sgd.")] = "muon",
    learning_rate: Annotated[float, typer.Option(help="The highest learning rate.")] = 0.04,
    test_from: Annotated[
        str, typer.Option(help="Games of this day or later are the test; '' for none.")
    ] = "2018-03-01",
    seed: Annotated[int, typer.Option(help="Where first weights and the order of rows start.")] = 1,
    processes: Annotated[
        int, typer.Option(help="Processes that share each batch; on a CPU one a core is fastest.")
    ] = 1,
    threads: Annotated[int, typer.Option(help="Threads of torch in each process.")] = 1,
    results: Results = Path(RESULTS),
) -> None:
    """Learn a policy (and who wins) from game records, AlphaGo's first stage.

    Ctrl-C leaves a good checkpoint; the same command goes on. The net can be played at once as checkpoint:NAME.

    Example: [bold]arena train sl --data games/ --name mine --minutes 90[/bold]
    """
    try:
        from trainers import sl
    except ImportError as error:
        raise UserError(f"training needs more packages ({error.name}): pip install 'arena[train]'") from None
    from arena.screen.training import show_training

    config = sl.Config(
        name=name,
        records=tuple(str(path) for path in data),
        size=size,
        max_minutes=None if rows else minutes,
        max_rows=rows,
        blocks=blocks,
        channels=channels,
        batch=batch,
        optimizer=optimizer,
        learning_rate=learning_rate,
        test_from=test_from,
        seed=seed,
        processes=processes,
        threads=threads,
    )
    with show_training(config.name) as on_progress:
        folder = sl.train(config, results, on_progress)
    from bots.nets.checkpoint import Checkpoint

    metrics = Checkpoint.open(folder).manifest.metrics
    part = "test" if "test_top1" in metrics else "validation"
    print(f"{folder}: {metrics[f'{part}_top1']:.1%} top-1 on {metrics[f'{part}_positions']:,.0f} {part} positions.")
    print(f"Play it: arena match checkpoint:{folder.name} sl -n 100")


def _registry(config: Path | None, results: Path) -> Registry:
    """The bots of the given file, or of arena.toml where there is one."""
    from arena.registry import Registry

    default = Path("arena.toml")
    return Registry(config or (default if default.exists() else None), results)


def _read_limits(text: str) -> Limits:
    """``seconds=1,deadline=30`` as limits. Raises ConfigError."""
    from arena import ConfigError
    from arena.bot import Limits

    values: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        key, _, value = part.partition("=")
        if key not in ("seconds", "simulations", "deadline"):
            raise ConfigError(f"--limits: unknown limit '{key}'; there are seconds, simulations and deadline")
        try:
            values[key] = float(value)
        except ValueError:
            raise ConfigError(f"--limits: {key}={value!r} is no number") from None
        if not 0 < values[key] < 1e9:
            raise ConfigError(f"--limits: {key}={value} is out of range")
    simulations = values.get("simulations")
    return Limits(
        seconds=values.get("seconds"),
        simulations=None if simulations is None else int(simulations),
        deadline=values.get("deadline", 60.0 + 2 * values.get("seconds", 0)),
    )


def _read_sprt(hypotheses: tuple[float, float] | None, alpha: float, beta: float) -> Sprt | None:
    """The sequential test of ``--sprt``. Raises ConfigError."""
    from arena import ConfigError
    from arena.ratings import Sprt

    if hypotheses is None:
        return None
    try:
        return Sprt(*hypotheses, alpha=alpha, beta=beta)
    except ValueError as error:
        raise ConfigError(f"--sprt: {error}") from None


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _first(*values: Any) -> Any:
    """The first that is given; the last is the default."""
    return next((value for value in values if value is not None), None)


@contextmanager
def _event_kept(event: Played, store: Store, console: Console, results: Path) -> Iterator[None]:
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
    import json

    from arena import ConfigError

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


def _note_event(store: Store, played: Played) -> None:
    """Store who plays what, once."""
    import json
    from datetime import UTC, datetime

    from arena.store import Event, Player

    known = {event.id for event in store.events()}
    store.add_players(
        Player(entry.identity, entry.name, entry.kind, json.dumps(dict(entry.settings)), entry.net)
        for entry in played.players.values()
    )
    if played.event not in known:
        created = datetime.now(UTC).isoformat(timespec="seconds")
        store.add_event(Event(played.event, created, json.dumps(played.settings, sort_keys=True)))
