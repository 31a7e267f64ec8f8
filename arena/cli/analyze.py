"""The command that has a bot look through a game."""

from __future__ import annotations

import os
from dataclasses import replace
from os.path import expanduser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena import ConfigError, RecordError, UserError
from arena.cli import complete
from arena.cli.options import RESULTS, ConfigFile, Results, registry_of

if TYPE_CHECKING:
    from arena.contract.bot import Limits
    from arena.go.record import Record
    from arena.players.registry import Entry, Registry

LARGE = 13
"""Boards over this size are analysed by mcts unless a bot is named: no net that ships foresees results there."""


def analyze(
    game: Annotated[
        str,
        typer.Argument(
            metavar="GAME",
            help="An SGF file, or a stored game's id, its beginning, end or number.",
            autocompletion=complete.games_and_files,
        ),
    ],
    bot: Annotated[
        str | None,
        typer.Option(help="Who analyses; alphago unless given, over 13x13 mcts.", autocompletion=complete.analysts),
    ] = None,
    visits: Annotated[
        int | None, typer.Option(help="Visits or playouts a position; the bot's own unless given.", min=1)
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="Seconds a position, instead or besides.", min=0.001)] = None,
    marked: Annotated[
        int, typer.Option("-n", "--mistakes", help="Mark so many of each side's largest mistakes.", min=0)
    ] = 3,
    csv: Annotated[Path | None, typer.Option(help="Write a row a move to this file.")] = None,
    sgf: Annotated[
        Path | None, typer.Option(help="Write the game with comments, win rates and best moves to this file.")
    ] = None,
    results: Results = Path(RESULTS),
    config: ConfigFile = None,
) -> None:
    """Have a bot look through a game: win rate after each move, score, what each move cost, what was better.

    Win rates and scores are Black's, losses of whoever moved. The SGF file opens in Sabaki, which draws the win rates
    as a graph (SBKV), in KaTrain, GoGui and others: A, B and C are the best moves for who is next, a triangle is where
    the bot would have played instead of a mistake. Only the main line is read, and comments that were there aren't
    kept. Ctrl-C stops, and what is known by then is shown and written.

    Examples: [bold]arena analyze game.sgf[/bold] · [bold]arena analyze 12 --bot mcts --seconds 2[/bold] ·
    [bold]arena analyze game.sgf --visits 400 --sgf analysed.sgf --csv moves.csv[/bold]
    """
    from contextlib import closing

    from rich.console import Console

    from arena import files
    from arena.results.analysis import AnalysisError, analyse, as_csv, evaluation_count, notes, patient
    from arena.screen import style
    from arena.screen.analysis import AnalysisSheet, headline
    from arena.screen.progress import show_bar

    registry = registry_of(config, results)
    record = read_game(game, results)
    for path in (csv, sgf):
        _require_place(path, game)
    if bot is None:
        bot = "alphago" if record.rules.size <= LARGE else "mcts"
    entry = registry.resolve(bot)
    limits = _limits(registry, entry, visits, seconds)
    entry = replace(entry, name=f"{entry.name}@{limits}" if str(limits) and not str(entry.limits) else entry.name)
    entry.checked(record.rules.size)
    console, errors = Console(), Console(stderr=True)
    words = headline(record, entry.name)
    console.print(
        style.spell(words, console.options.ascii_only), soft_wrap=not console.is_terminal, markup=False, highlight=False
    )
    found = []
    stopped = False
    with (
        closing(patient(entry).build()) as player,
        show_bar("position", evaluation_count(record), errors) as (bar, task),
    ):
        try:
            for evaluation in analyse(record, player, limits):
                found.append(evaluation)
                bar.advance(task)
        except KeyboardInterrupt:
            stopped = True
        except AnalysisError as error:
            raise UserError(f"{entry.name}: {error}{_others(registry) if not found else ''}") from None
    if found:
        console.print(AnalysisSheet(record, found, marked))
    for path, content in ((csv, as_csv(record, found)), (sgf, record.to_sgf(notes(record, found, entry.name)) + "\n")):
        if path is not None and found:
            files.write(path, content.encode())
            print(f"Written to {path}.")
    if stopped:
        errors.print(f"Stopped after {len(found)} of {evaluation_count(record)} positions.", soft_wrap=True)
        raise SystemExit(130)


def read_game(text: str, results: Path) -> Record:
    """The game of an SGF file, else the stored one. Raises RecordError or StoreError."""
    from arena.go.record import MAX_BYTES, read_sgf
    from arena.results.store import Store

    path = Path(expanduser(text))
    if path.is_file():
        try:
            with path.open("rb") as file:
                return read_sgf(file.read(MAX_BYTES + 1))
        except OSError as error:
            raise RecordError(f"{path} can't be read: {error.strerror}") from error
        except RecordError as error:
            raise RecordError(f"{path}: {error}") from None
    if path.is_dir():
        raise RecordError(f"{path} is a folder; name one of its SGF files")
    if path.suffix.lower() == ".sgf":
        raise RecordError(f"there is no file {path}")
    with Store.of(results) as store:
        return store.find_game(text)


def _limits(registry: Registry, entry: Entry, visits: int | None, seconds: float | None) -> Limits:
    """What bounds the look at one position. Raises ConfigError, also for a bot that can't analyse."""
    from arena.contract.bot import Limits

    if not entry.bot_kind.tells_win_rate:
        raise ConfigError(f"{entry.name} tells no win rates and can't analyse{_others(registry)}")
    if visits is None and seconds is None:
        if entry.limits.time is not None:
            raise ConfigError(f"{entry.name} has a clock, which only a game has; give it seconds=S or simulations=N")
        return entry.limits
    if str(entry.limits):
        raise ConfigError(f"{entry.name} has limits of its own; leave out --visits and --seconds")
    return Limits(seconds=seconds, simulations=visits)


def _others(registry: Registry) -> str:
    """Who can analyse, as the end of an error."""
    names = [entry.name for entry in registry.entries if entry.bot_kind.tells_win_rate]
    return f"; these can: {', '.join(names)}"


def _require_place(path: Path | None, game: str) -> None:
    """Raise UserError where a file that is to be written can't be, or is the game itself: before the long work."""
    if path is None:
        return
    if path.is_dir():
        raise UserError(f"{path} is a folder; name a file in it")
    if path.exists() and Path(expanduser(game)).exists() and path.samefile(Path(expanduser(game))):
        raise UserError(f"{path} is the game itself, whose comments would be lost; name another file")
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise UserError(f"{folder} can't be written; name a file elsewhere")
