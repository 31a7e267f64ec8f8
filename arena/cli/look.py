"""The commands that look at what there is: bots, ratings, games, records."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arena import UserError
from arena.cli import complete
from arena.cli.events import Workers
from arena.cli.options import RESULTS, ConfigFile, Results, registry_of
from arena.cli.show import show_again

if TYPE_CHECKING:
    from arena.go.record import Record

LISTED = 20
"""Games that are listed by default."""

Event = Annotated[str | None, typer.Option(help="Games of this event only.", autocompletion=complete.events)]
Player = Annotated[str | None, typer.Option(help="Games of this player only.", autocompletion=complete.players)]


def bots(
    name: Annotated[
        str | None, typer.Argument(help="Explain this bot's settings.", autocompletion=complete.bots)
    ] = None,
    results: Results = Path(RESULTS),
    config: ConfigFile = None,
) -> None:
    """List who can play, with settings, nets and ratings; or explain one bot's settings.

    Settings are changed inline, as in [bold]mcts:playouts=5000[/bold], or in arena.toml.

    Examples: [bold]arena bots[/bold] · [bold]arena bots mcts[/bold]
    """
    from rich.console import Console

    from arena.results.league import player_ratings
    from arena.results.store import Store, database
    from arena.screen.tables import bots_table, settings_table

    if name is not None:
        Console().print(settings_table(registry_of(config, results).entry(name)))
        return
    rated = None
    if database(results).exists():
        with Store.of(results) as store:
            rated = player_ratings(store)
    pool, ratings = rated or (None, {})
    registry = registry_of(config, results)
    Console().print(bots_table([*registry.entries, *registry.files], ratings, pool))


def elo(
    size: Annotated[int | None, typer.Option(help="Only games on this board size.")] = None,
    rules: Annotated[str | None, typer.Option(help="Only games by these rules.")] = None,
    komi: Annotated[float | None, typer.Option(help="Only games with this komi.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the table to this file, too.")] = None,
    results: Results = Path(RESULTS),
) -> None:
    """Rate all players from all stored games: joint Bradley-Terry, 95 % intervals.

    Games of another size, other rules, komi or handicap are rated by themselves: a table each, the most games first.

    Examples: [bold]arena elo --csv ratings.csv[/bold] · [bold]arena elo --size 19[/bold]
    """
    from rich.console import Console

    from arena.results.frames import ratings_table, write_elo_csv
    from arena.results.store import Store
    from arena.screen.tables import elo_table

    with Store.of(results) as store:
        console, wanted = Console(), {"size": size, "name": rules, "komi": komi}
        pools = [
            pool
            for pool in store.pools()
            if all(value is None or getattr(pool, key) == value for key, value in wanted.items())
        ]
        for pool in pools:
            console.print(elo_table(ratings_table(store, pool), pool))
        if not pools:
            console.print(elo_table(None))
        if csv is not None:
            write_elo_csv(store, csv)
            print(f"Written to {csv}.")


def games(
    event: Event = None,
    player: Player = None,
    forfeits: Annotated[bool, typer.Option("--forfeits", help="Only games that a bot lost by a fault.")] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            "-n",
            "--limit",
            help="Number of games, the newest first (default 20; all with --sgf). With --replay, this many are spread "
            "over all of them (default all).",
            min=1,
        ),
    ] = None,
    sgf: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write an SGF file of each game here instead.")
    ] = None,
    replay: Annotated[
        bool, typer.Option("--replay", help="Play the games again instead, and say where they differ.")
    ] = False,
    workers: Workers = 0,
    results: Results = Path(RESULTS),
    config: ConfigFile = None,
) -> None:
    """List stored games, the newest first; or write them as SGF files; or play them again.

    With --replay the bots play each game again from its seed, with the settings and nets of then. The exit code is 0
    if all games come out the same, and 1 if one differs. The database stays as it is.

    Examples: [bold]arena games[/bold] · [bold]arena games --event league --forfeits[/bold] ·
    [bold]arena games --player alphago --sgf games[/bold] · [bold]arena games --event league -n 20 --replay[/bold]
    """
    from rich.console import Console

    from arena.results.store import Store
    from arena.screen.tables import games_table

    if sgf is not None and replay:
        raise UserError("--sgf and --replay are two different things to do; choose one")
    wanted: dict[str, Any] = {"event": event, "player": player, "forfeits": forfeits}
    with Store.of(results) as store:
        total = store.count(**wanted)
        if sgf is not None:
            chosen = store.games(**wanted, limit=limit, newest_first=limit is not None)
            _write_sgf(chosen, sgf, total if limit is None else min(limit, total))
        elif replay:
            again = min(limit or total, total)
            places = {index * total // again for index in range(again)}
            spread = [game for place, game in enumerate(store.games(**wanted)) if place in places]
            show_again(spread, store, workers, results, config)
        else:
            found = list(store.games(**wanted, limit=limit or LISTED, newest_first=True))
            Console().print(games_table(found, total))


def _write_sgf(games: Iterable[Record], folder: Path, total: int) -> None:
    from rich.progress import track

    from arena import files

    for record in track(games, "Writing", total=total, transient=True):
        files.write(folder / _file_of(record.id), record.to_sgf() + "\n", sync=False)
    print(f"{total} games written to {folder}.")


def _file_of(id: str) -> Path:
    """Where a game's SGF lies in the folder of an export; an id of a database from elsewhere doesn't lead out of it."""
    parts = [re.sub(r"[^\w.-]|^\.+", "_", part) for part in f"{id}.sgf".split("/") if part]
    return Path(*parts)
