"""The commands that make datasets of records, and tell what is in them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena.system import cores

if TYPE_CHECKING:
    from arena.report.tables import Sheet
    from trainers.records import Dataset

DATASET = "manifest.json"
"""The file that makes a folder a dataset."""

Paths = Annotated[list[Path], typer.Argument(help="SGF files, folders, .sgfs(.xz), .zip or .tar.* archives.")]


def build(
    paths: Paths,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder to create.")],
    size: Annotated[int, typer.Option(help="Board size (default 9).", min=2, max=19)] = 9,
    rating: Annotated[float, typer.Option(help="Minimum Elo of both players (default 0).", min=0)] = 0,
    rank: Annotated[str, typer.Option(help="Minimum rank of both players, such as 5k or 1d.")] = "",
    players: Annotated[
        str, typer.Option(metavar="PATTERN", help="Regular expression that both players' names match.")
    ] = "",
    min_moves: Annotated[int, typer.Option(help="Minimum number of moves (default 1).", min=1)] = 1,
    test_from: Annotated[str, typer.Option(metavar="DAY", help="Test set: games from this day on.")] = "",
    test: Annotated[float, typer.Option(help="Share in the test set, without a day (default 0).", min=0, max=1)] = 0.0,
    validation: Annotated[
        float, typer.Option(help="Share of the rest in the validation set (default 0.01).", min=0, max=1)
    ] = 0.01,
    by_player: Annotated[
        bool, typer.Option("--by-player", help="Split by player: no test game has a player of a training game.")
    ] = False,
    dead_stones: Annotated[
        bool, typer.Option("--dead-stones", help="Mark dead stones where board and result differ.")
    ] = False,
    processes: Annotated[int, typer.Option(help="Reading processes (default 0: one per core).", min=0)] = 0,
) -> None:
    """Build a dataset from game records: no duplicates (under symmetry), split by game.

    Handicap games are left out. The split depends on each game alone, so it does not change when games are added.
    People stop before dead stones are captured. With --dead-stones, playouts mark them. If the score then matches the
    recorded result, the game also provides ownership targets.

    Examples:
      arena data build games/ --out sets/strong --rating 2400 --test-from 2018-03-01
      arena data build ogs.zip --out sets/people --rank 1d --dead-stones
    """
    from arena.report.style import Console
    from trainers.records import GameFilter, SplitRule, build, day_of

    chosen = GameFilter(size, rating, rank, min_moves, dead_stones, players)
    rule = SplitRule(day_of(test_from), validation, test, by_player=by_player)
    with Console(stderr=True).status("Reading") as status:

        def show(read: int, kept: int) -> None:
            status.update(f"{read:,} games read, {kept:,} kept")

        made = build(paths, out, chosen, rule, processes or cores(), show)
    Console().print(dataset_sheet(made))


def stats(paths: Paths) -> None:
    """Summarise datasets or game records: games, positions, results, lengths, and what was refused and why.

    Examples:
      arena data stats sets/strong
      arena data stats games/ more.sgfs.xz
    """
    from rich.progress import track

    from arena.go.collection import read_path, statistics
    from arena.report.style import Console
    from arena.report.tables import statistics_table

    records = [path for path in paths if not (path / DATASET).is_file()]
    if len(records) < len(paths):
        from trainers.records import Dataset

        for path in paths:
            if path not in records:
                Console().print(dataset_sheet(Dataset.open(path)))
    if records:
        items = (item for path in records for item in read_path(path))
        counted = statistics(track(items, "Reading", console=Console(stderr=True), transient=True, total=None))
        Console().print(statistics_table(counted))


def dataset_sheet(dataset: Dataset) -> Sheet:
    """A row for each figure, a column for each part, the rejects below."""
    from arena.report.tables import Sheet
    from trainers.records import PARTS, summary

    manifest = dataset.manifest
    parts = [summary(dataset.part(part)) for part in range(len(PARTS))]
    known = [title for title in parts[0] if not title.isdecimal() and title != "no date"]
    years = sorted({title for part in parts for title in part} - set(known))
    rows = [(title, *(part.get(title, "0") for part in parts)) for title in (*known, *years)]
    counts = {"games read": manifest.read, **{f"left out: {reason}": n for reason, n in manifest.rejects.items()}}
    rows += [(name, f"{count:,}", *[""] * (len(PARTS) - 1)) for name, count in counts.items()]
    title = f"{dataset.folder} ({manifest.size}x{manifest.size})"
    return Sheet((title, *PARTS), rows, numbers=tuple(range(1, len(PARTS) + 1)), flexible=(0,))
