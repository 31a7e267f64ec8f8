"""The commands that make datasets of records, and tell what is in them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena.cli.options import cores

if TYPE_CHECKING:
    from rich.table import Table

    from trainers.dataset import Dataset

Paths = Annotated[list[Path], typer.Argument(help="SGF files, folders, .sgfs(.xz), .zip or .tar.* archives.")]


def data_build(
    paths: Paths,
    out: Annotated[Path, typer.Option(help="The new folder.", show_default=False)],
    size: Annotated[int, typer.Option(help="Board size.", min=2, max=19)] = 9,
    rules: Annotated[list[str] | None, typer.Option(help="Only these rules; repeatable.", show_default=False)] = None,
    komi: Annotated[list[float] | None, typer.Option(help="Only this komi; repeatable.", show_default=False)] = None,
    rating: Annotated[float, typer.Option(help="Elo that both must have at least; 0 asks for none.", min=0)] = 0,
    rank: Annotated[str, typer.Option(help="Rank that both must have at least, as 5k or 1d.", show_default=False)] = "",
    game_results: Annotated[
        str, typer.Option("--with-result", help="any, known, or scored (counted at the end).")
    ] = "any",
    shortest: Annotated[int, typer.Option("--min-moves", help="Shorter games are left out.", min=1)] = 1,
    longest: Annotated[int, typer.Option("--max-moves", help="Longer games are left out.", min=1)] = 3000,
    test_from: Annotated[
        str, typer.Option(help="Games of this day or later are the test, as 2018-03-01.", show_default=False)
    ] = "",
    test: Annotated[float, typer.Option(help="Without a day: the share that is the test.", min=0, max=1)] = 0.0,
    validation: Annotated[float, typer.Option(help="The share kept aside of the others.", min=0, max=1)] = 0.01,
    processes: Annotated[int, typer.Option(help="Processes that read; 0 for one a core.", min=0)] = 0,
) -> None:
    """Sift records into a dataset that trainers map at once: no duplicates (under symmetry), split by game.

    Handicap games are left out. What is in which part depends on each game alone, so it stays when records are added.

    Example: [bold]arena data build games/ --out sets/strong --rating 2400 --test-from 2018-03-01[/bold]
    """
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from trainers.data import day_of
    from trainers.dataset import Parting, Sieve, build

    sieve = Sieve(size, tuple(rules or ()), tuple(komi or ()), rating, rank, game_results, shortest, longest)
    parting = Parting(day_of(test_from), validation, test)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("Reading", total=None)

        def show(read: int, kept: int) -> None:
            bar.update(task, description=f"{read:,} games read, {kept:,} kept")

        made = build(paths, out, sieve, parting, processes or cores(), show)
    Console().print(dataset_table(made))


def data_stats(paths: Paths) -> None:
    """Tell what a dataset holds, or records that are none yet: games, results, lengths, ratings, years, rejects.

    Example: [bold]arena data stats sets/strong[/bold]
    """
    from rich.console import Console

    from arena.cli.look import records_stats
    from trainers.dataset import MANIFEST, Dataset

    datasets = [path for path in paths if (path / MANIFEST).is_file()]
    for path in datasets:
        Console().print(dataset_table(Dataset.open(path, verify=True)))
    if others := [path for path in paths if path not in datasets]:
        records_stats(others)


def dataset_table(dataset: Dataset) -> Table:
    """A row for each figure, a column for each part, the rejects below."""
    from rich.table import Table

    from trainers.dataset import PARTS, figures

    parts = [figures(getattr(dataset, part), dataset.ratings(part)) for part in PARTS]
    table = Table(title=f"{dataset.folder} ({dataset.manifest.size}x{dataset.manifest.size})", title_justify="left")
    table.add_column("")
    for part in PARTS:
        table.add_column(part, justify="right")
    table.add_row("games", *(f"{part.games:,}" for part in parts))
    table.add_row("positions", *(f"{part.positions:,}" for part in parts))
    table.add_row("Black won", *(f"{part.black_won:,}" for part in parts))
    table.add_row("White won", *(f"{part.white_won:,}" for part in parts))
    table.add_row("draws", *(f"{part.drawn:,}" for part in parts))
    table.add_row("unknown", *(f"{part.unknown:,}" for part in parts))
    table.add_row("moves, median", *(f"{part.median_length}" for part in parts))
    table.add_row("moves, most", *(f"{part.longest}" for part in parts))
    table.add_row("both rated", *(f"{part.rated:,}" for part in parts))
    table.add_row(
        "Elo 5 % / 50 % / 95 %",
        *(
            f"{part.rating_low:.0f} / {part.rating_median:.0f} / {part.rating_high:.0f}" if part.rated else "-"
            for part in parts
        ),
    )
    for year in sorted({year for part in parts for year in part.years}):
        table.add_row(str(year) if year else "no date", *(f"{part.years.get(year, 0):,}" for part in parts))
    table.add_section()
    table.add_row("games read", f"{dataset.manifest.read:,}", "", "")
    for reason, count in dataset.manifest.rejects.items():
        table.add_row(f"left out: {reason}", f"{count:,}", "", "")
    return table
