"""The command that shows a game, stored or in a file; and how stored games are played again."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from os.path import expanduser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena import UserError
from arena.cli import complete
from arena.cli.events import count_workers, printer
from arena.cli.options import RESULTS, ConfigFile, Results, ThemeName, read_theme, registry_of

if TYPE_CHECKING:
    from rich.console import Console

    from arena.go.record import Record
    from arena.results.store import Store

REFUSED = 5
"""Games that can't be played again, and are named."""


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
        int | None, typer.Option("--move", "-m", help="Begin with the position after so many moves.", min=0)
    ] = None,
    dossier: Annotated[
        bool,
        typer.Option("--dossier", help="Print instead who played and how it ended, with the traceback of a fault."),
    ] = False,
    replay: Annotated[
        bool, typer.Option("--replay", help="Have the bots play it again instead, and say where it differs.")
    ] = False,
    theme: ThemeName = None,
    ascii_only: Annotated[bool, typer.Option("--ascii", help="Draw with ASCII signs only.")] = False,
    results: Results = Path(RESULTS),
    config: ConfigFile = None,
) -> None:
    """Look at a game move by move: a stored one by its id (see [bold]arena games[/bold]), or an SGF file.

    The arrows go a move, PgUp and PgDn ten, Home and End to the ends, g or a number to a move, m to the next mistake; a
    click on a stone goes to the move that placed it. Comments and win rates that the file holds are shown beside the
    board. In a pipe it prints the position, at the end or after --move, and the moves that led there.

    The dossier of a stored game has settings, nets and times, the last position, the SGF and all that is known of a
    fault. It is printed without being asked for when a fault ended the game. --replay plays a stored game again from
    its seed, with the settings and nets of then; the exit code is 1 if it differs.

    Examples: [bold]arena show 12[/bold] · [bold]arena show game.sgf --move 30[/bold] ·
    [bold]arena show league/1b2c3d4e/00012 --dossier[/bold] · [bold]arena show 12 --replay[/bold]
    """
    from rich.console import Console

    from arena.cli.analyze import read_game
    from arena.go.remarks import read_remarks
    from arena.results.store import Store
    from arena.screen.terminal import Stage, has_stage
    from arena.screen.viewer import Viewer, print_game, step_through

    colours = read_theme(theme, registry_of(config, results))
    record, path = read_game(game, results), Path(expanduser(game))
    is_stored = not path.is_file()
    if not is_stored and (dossier or replay):
        raise UserError(f"{path}: --dossier and --replay take a stored game; give its id, as 'arena games' lists it")
    if move is not None and move > len(record.moves):
        raise UserError(f"--move {move}: the game has {len(record.moves)} moves")
    console = Console()
    at_terminal = has_stage(console)
    lost = is_stored and move is None and record.outcome is not None and record.outcome.ending.is_forfeit
    if replay:
        with Store.of(results) as store:
            show_again([record], store, 1, results, config)
        return
    if dossier or (lost and not at_terminal):
        _print_dossier(record, results, console)
        return
    remarks = () if is_stored else read_remarks(path.read_bytes(), record)
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
    if lost:
        _print_dossier(record, results, console)


def _print_dossier(record: Record, results: Path, console: Console) -> None:
    from arena.results.store import Store
    from arena.screen.dossier import show_dossier

    with Store.of(results) as store:
        players = store.players()
    again = ["arena", "show", record.id, "--replay"]
    again += ["--results", str(results)] if results != Path(RESULTS) else []
    show_dossier(record, players, shlex.join(again), console)


def show_again(records: Sequence[Record], store: Store, workers: int, results: Path, config: Path | None) -> None:
    """Play games of a store again and print where they differ; of a single one, the position too. Exits with 1 unless
    all are identical. Raises ReplayError for a single game that can't be played again."""
    from contextlib import closing

    from rich.console import Console

    from arena.results.replay import Casting, ReplayError, play_again
    from arena.screen.dossier import show_replay

    if not records:
        raise UserError("there are no such games to play again; 'arena games' lists all")
    processes, console = count_workers(workers), Console()
    say = printer(console)
    casting = Casting(store, registry_of(config, results), results)
    cast, refused = {}, []
    for record in records:
        try:
            cast[record.id] = casting.cast(record)
        except ReplayError as error:
            if len(records) == 1:
                raise
            refused.append(f"{record.id} can't be played again: {error}")
    for note in dict.fromkeys(note for played in cast.values() for note in played.notes):
        say(f"{note}.")
    doubts = list(dict.fromkeys(doubt for played in cast.values() for doubt in played.doubts))
    if doubts:
        say(f"Needn't come out the same: {'; '.join(doubts)}.")
    games = {record.id: record for record in records if record.id in cast}
    updates = play_again([(record, cast[id]) for id, record in games.items()], processes)
    with closing(updates):
        try:
            compared = show_replay(games, updates, console, show=len(records) == 1)
        except KeyboardInterrupt:
            raise SystemExit(130) from None
    for words in refused[:REFUSED]:
        say(words)
    same = sum(found.is_identical for found in compared)
    if len(records) > 1:
        parts = [f"{same} of {len(records)} games are identical"]
        different = len(compared) - same
        parts += [f"{different} differ{'s' if different == 1 else ''}"] * bool(different)
        parts += [f"{len(refused)} can't be played again"] * bool(refused)
        say(f"{'; '.join(parts)}.")
    if same < len(records):
        raise typer.Exit(1)
