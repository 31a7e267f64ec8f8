"""The command that measures a net on game records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from arena import UserError
from arena.cli import complete
from arena.cli.options import RESULTS, Results


def evaluate(
    checkpoint: Annotated[
        str, typer.Argument(help="A checkpoint's name or folder.", autocompletion=complete.checkpoints)
    ],
    data: Annotated[list[Path], typer.Option(help="SGF files, folders or archives to measure on; repeatable.")],
    since: Annotated[str, typer.Option("--from", help="Only games of this day or later, as 2018-03-01.")] = "",
    positions: Annotated[int, typer.Option(help="About so many positions, of games drawn by chance; 0 for all.")] = 0,
    size: Annotated[int, typer.Option(help="Only games on boards of this size.")] = 9,
    symmetries: Annotated[
        bool, typer.Option("--symmetries", help="Ask under all 8 symmetries; 8 times slower.")
    ] = False,
    playouts: Annotated[int, typer.Option(help="Guess owners by so many playouts, too.", min=0)] = 0,
    seed: Annotated[int, typer.Option(help="Which games are drawn.")] = 1,
    plot: Annotated[Path | None, typer.Option(help="Draw the figures into this PNG, too.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the figures of each move into this file, too.")] = None,
    results: Results = Path(RESULTS),
) -> None:
    """Measure how well a net foresees moves, results and ownership in games that it hasn't learned from.

    Example: [bold]arena eval sl-9x9 --data games/ --from 2018-03-01 --positions 50000[/bold]
    """
    try:
        from bots.nets.catalogue import load_network
        from trainers.data import games_since, load_games, some_games
        from trainers.evaluation import by_ply_as_csv
        from trainers.evaluation import evaluate as measure
    except ImportError as error:
        raise UserError(f"measuring needs more packages ({error.name}): pip install 'arena[train]'") from None
    from rich.console import Console

    from arena import files
    from arena.go.planes import find_encoder
    from arena.screen.pages import draw_evaluation
    from arena.screen.progress import show_counting
    from arena.screen.tables import evaluation_sheets
    from bots.nets.checkpoint import Checkpoint, find

    found = Checkpoint.open(find(checkpoint, results))
    found.require_size(size)
    with Console(stderr=True).status("reading the records"):
        games = some_games(games_since(load_games(data, size, results / "cache"), since), positions, seed)
    with show_counting(f"{found.manifest.name} on {len(games):,} games", len(games.moves)) as on_progress:
        evaluation = measure(
            load_network(found), find_encoder(found.manifest.encoder), games, symmetries, playouts, on_progress
        )
    console = Console()
    for sheet in evaluation_sheets(evaluation, found.manifest.name):
        console.print(sheet)
        console.print()
    if csv is not None:
        files.write(csv, by_ply_as_csv(evaluation).encode())
        console.print(f"{csv} is written.", soft_wrap=True, highlight=False)
    if plot is not None:
        draw_evaluation(evaluation, plot)
        console.print(f"{plot} is drawn.", soft_wrap=True, highlight=False)
