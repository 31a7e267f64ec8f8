"""The command that makes datasets of records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from arena.cli.options import Workers
from arena.system import cores

if TYPE_CHECKING:
    from arena.report.tables import Sheet
    from trainers.records import Dataset


def build(
    paths: Annotated[list[Path], Argument(help="SGF files, folders, .sgfs(.xz), .zip or .tar.* archives.")],
    out: Annotated[Path, Option(metavar="FOLDER", help="Folder to create.")],
    size: Annotated[int, Option(help="Board size (default 9).", min=2, max=19)] = 9,
    rating: Annotated[float, Option(help="Minimum Elo of both players (default 0).", min=0)] = 0,
    rank: Annotated[str, Option(help="Minimum rank of both players, such as 5k or 1d.")] = "",
    players: Annotated[str, Option(metavar="PATTERN", help="Regular expression for both names.")] = "",
    min_moves: Annotated[int, Option(help="Minimum number of moves (default 1).", min=1)] = 1,
    test_from: Annotated[str, Option(metavar="DAY", help="Test set: games from this day on.")] = "",
    test: Annotated[float, Option(help="Share in the test set, without a day (default 0).", min=0, max=1)] = 0.0,
    validation: Annotated[float, Option(help="Share in the validation set (default 0.01).", min=0, max=1)] = 0.01,
    by_player: Annotated[bool, Option("--by-player", help="No player is in both training and test set.")] = False,
    dead_stones: Annotated[bool, Option("--dead-stones", help="Mark dead stones.")] = False,
    workers: Workers = 0,
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

        made = build(paths, out, chosen, rule, workers or cores(), show)
    Console().print(dataset_sheet(made))


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
