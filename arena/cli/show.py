"""The command that shows a game, stored or in a file."""

from __future__ import annotations

from os.path import expanduser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena import UserError
from arena.cli import complete
from arena.cli.options import RESULTS, ConfigFile, Results, ThemeName, read_theme, registry_of

if TYPE_CHECKING:
    from arena.go.record import Record
    from arena.go.remarks import Remark


def show(
    game: Annotated[
        str,
        typer.Argument(
            metavar="GAME",
            help="An SGF file, or a stored game's id, its beginning, end or number.",
            autocompletion=complete.games_and_files,
        ),
    ],
    move: Annotated[
        int | None,
        typer.Option("--move", "-m", help="Begin with the position after so many moves.", min=0, show_default=False),
    ] = None,
    theme: ThemeName = None,
    ascii_only: Annotated[bool, typer.Option("--ascii", help="Draw with ASCII signs only.")] = False,
    results: Results = Path(RESULTS),
    config: ConfigFile = None,
) -> None:
    """Look at a game move by move: a stored one by its id (see [bold]arena games[/bold]), or an SGF file.

    The arrows go a move, PgUp and PgDn ten, Home and End to the ends, g or a number to a move, m to the next mistake; a
    click on a stone goes to the move that placed it. Comments and win rates that the file holds are shown beside the
    board. In a pipe it prints the position, at the end or after --move, and the moves that led there.

    Examples: [bold]arena show 12[/bold] · [bold]arena show game.sgf --move 30[/bold] ·
    [bold]arena show league/1b2c3d4e/00012 | less[/bold]
    """
    from rich.console import Console

    from arena.screen.terminal import Stage, has_stage
    from arena.screen.viewer import Viewer, print_game, step_through

    colours = read_theme(theme, registry_of(config, results))
    record, remarks = _found(game, results)
    if move is not None and move > len(record.moves):
        raise UserError(f"--move {move}: the game has {len(record.moves)} moves")
    console = Console()
    at_terminal = has_stage(console)
    at = move if move is not None else 0 if at_terminal else len(record.moves)
    viewer = Viewer(record, remarks, at=at, theme=colours, ascii_only=ascii_only or console.options.ascii_only)
    if not at_terminal:
        print_game(viewer, console)
        return
    try:
        with Stage(console) as stage:
            step_through(viewer, stage)
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _found(game: str, results: Path) -> tuple[Record, tuple[Remark, ...]]:
    """The game of this file or id, and what is said of its positions. Raises UserError."""
    from arena.cli.analyze import read_game
    from arena.go.remarks import read_remarks

    record, path = read_game(game, results), Path(expanduser(game))
    return record, read_remarks(path.read_bytes(), record) if path.is_file() else ()
