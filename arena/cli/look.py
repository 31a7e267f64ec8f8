"""The commands that look at what there is: bots, ratings, games, records."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena.cli import complete
from arena.cli.options import RESULTS, ConfigFile, Results, registry_of

if TYPE_CHECKING:
    pass

Event = Annotated[
    str | None, typer.Option(help="Games of this event only.", show_default=False, autocompletion=complete.events)
]
Player = Annotated[
    str | None, typer.Option(help="Games of this player only.", show_default=False, autocompletion=complete.players)
]


def bots(
    name: Annotated[
        str | None,
        typer.Argument(help="Explain this bot's settings.", show_default=False, autocompletion=complete.bots),
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
    size: Annotated[int | None, typer.Option(help="Only games on this board size.", show_default=False)] = None,
    rules: Annotated[str | None, typer.Option(help="Only games by these rules.", show_default=False)] = None,
    komi: Annotated[float | None, typer.Option(help="Only games with this komi.", show_default=False)] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the table to this file, too.", show_default=False)] = None,
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
    limit: Annotated[int, typer.Option("-n", "--limit", help="The newest so many.", min=1)] = 20,
    results: Results = Path(RESULTS),
) -> None:
    """List stored games, the newest first.

    Examples: [bold]arena games[/bold] · [bold]arena games --event league -n 50[/bold]
    """
    from rich.console import Console

    from arena.results.store import Store
    from arena.screen.tables import games_table

    with Store.of(results) as store:
        found = list(store.games(event=event, player=player, limit=limit, newest_first=True))
        Console().print(games_table(found, store.count(event=event, player=player)))


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

    from arena import files
    from arena.results.store import Store

    with Store.of(results) as store:
        total = store.count(event=event, player=player)
        for record in track(store.games(event=event, player=player), "Writing", total=total, transient=True):
            files.write(sgf / _file_of(record.id), record.to_sgf() + "\n", sync=False)
    print(f"{total} games written to {sgf}.")


def _file_of(id: str) -> Path:
    """Where a game's SGF lies in the folder of an export; an id of a database from elsewhere doesn't lead out of it."""
    parts = [re.sub(r"[^\w.-]|^\.+", "_", part) for part in f"{id}.sgf".split("/") if part]
    return Path(*parts)
