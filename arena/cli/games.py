"""The commands about games, stored or in files: listed, shown, looked through by a bot."""

from __future__ import annotations

import os
from dataclasses import replace
from os.path import expanduser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arena import ConfigError, RecordError, UserError, plural
from arena.cli import complete
from arena.cli.events import size_doubts
from arena.cli.options import (
    RESULTS,
    ConfigFile,
    Json,
    Quiet,
    Results,
    registry_of,
    require_file,
)

if TYPE_CHECKING:
    from arena.contract.bot import Limits
    from arena.go.record import GameRecord
    from arena.players.player import Player
    from arena.players.registry import Registry
    from arena.report.style import Console


LISTED = 20
"""Games that are listed by default."""


FORFEIT = "forfeit"
"""Stands for all endings by a fault."""


def _endings() -> list[str]:
    from arena.go.game import Ending

    return [*(ending.replace(" ", "-") for ending in Ending), FORFEIT]


def games(
    event: Annotated[str | None, typer.Option(help="Only games of this event.", autocompletion=complete.events)] = None,
    player: Annotated[
        str | None, typer.Option(help="Only games of this player.", autocompletion=complete.players)
    ] = None,
    opponent: Annotated[
        str | None, typer.Option(help="Only games against this player.", autocompletion=complete.players)
    ] = None,
    winner: Annotated[
        str | None, typer.Option(help="Only games won by this player.", autocompletion=complete.players)
    ] = None,
    size: Annotated[int | None, typer.Option(help="Only games on this board size.")] = None,
    ending: Annotated[
        str | None,
        typer.Option(
            help="Only games that ended so: score, resign, adjudicated, move-limit, or by a fault: time, illegal, "
            "crash; forfeit for any of these three.",
            autocompletion=_endings,
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "-n",
            "--limit",
            help="Number of games, the newest first (default 20; all with --sgf and --csv).",
            min=1,
        ),
    ] = None,
    sgf: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write an SGF file of each game here instead.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Write a table of the games to this file.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    results: Results = Path(RESULTS),
) -> None:
    """List stored games, or write them as SGF files.

    Examples: [bold]arena games[/bold] · [bold]arena games --event league --ending forfeit[/bold] ·
    [bold]arena games --winner alphago --sgf games[/bold]
    """
    from rich.progress import track

    from arena.report.style import Console
    from arena.report.tables import games_table
    from arena.results.export import game_line, games_frame, write_csv, write_sgf_files
    from arena.results.store import Store

    forms = {"--sgf": sgf is not None, "--csv": csv is not None, "--json": as_json}
    if len(given := [option for option, is_given in forms.items() if is_given]) > 1:
        raise UserError(f"{' and '.join(given)} can't be combined; choose one")
    require_file(quiet, sgf=sgf, csv=csv)
    with Store.of(results) as store:
        if event is not None and not store.count(event=event):  # the games of people have no event
            event = store.event(event).id
        wanted: dict[str, Any] = {"event": event, "player": player, "opponent": opponent, "winner": winner}
        wanted |= {"size": size, "endings": _read_ending(ending)}
        total = store.count(**wanted)
        place = sgf or csv
        if place is not None:
            chosen = store.games(**wanted, limit=limit, newest_first=limit is not None)
            written = total if limit is None else min(limit, total)
            if sgf is not None:
                write_sgf_files(track(chosen, "Writing", total=written, transient=True, disable=quiet), sgf)
            else:
                write_csv(games_frame(chosen), place)
            if not quiet:
                print(f"{plural(written, 'game')} written to {place}.")
            return
        found = store.numbered_games(**wanted, limit=limit or LISTED, newest_first=True)
        if as_json:
            for number, record in found:
                print(game_line(record, number))
        else:
            Console().print(games_table(list(found), total))


def _read_ending(text: str | None) -> list[str]:
    """Of ``--ending``, as games are stored. Raises ConfigError."""
    from arena.go.game import Ending

    if text is None:
        return []
    if text == FORFEIT:
        return [ending for ending in Ending if ending.is_forfeit]
    if text not in _endings():
        raise ConfigError(f"--ending {text}: use one of {', '.join(_endings())}")
    return [text.replace("-", " ")]


def show(
    game: Annotated[
        str | None,
        typer.Argument(
            metavar="GAME",
            help="An SGF file, or a stored game's number, as 'arena games' lists it, or id (default: the newest game).",
            autocompletion=complete.games_and_files,
        ),
    ] = None,
    move: Annotated[
        int | None, typer.Option("--move", "-m", help="Start at the position after this many moves.", min=0)
    ] = None,
    fault_details: Annotated[
        bool,
        typer.Option("--details", help="Print instead who played and how it ended, with the traceback of a fault."),
    ] = False,
    results: Results = Path(RESULTS),
) -> None:
    """Step through a stored game or an SGF file.

    The arrows go one move, PgUp and PgDn ten, Home and End to the ends, m to the next mistake.
    A click on a stone goes to the move that placed it. Comments and win rates of the file are shown beside the board.
    In a pipe it prints the position, at the end or after --move, and the moves that led there.

    --details prints settings, nets and times, the last position, the SGF and the details of a fault. For a game that a
    fault ended, this is the default.

    Examples: [bold]arena show[/bold] · [bold]arena show game.sgf --move 30[/bold] ·
    [bold]arena show 12 --details[/bold]
    """
    from arena.go.sgf import are_by_players, read_remarks
    from arena.report.game import print_game, remarks_of_players
    from arena.report.style import Console, has_colours, has_screen

    record, path = read_game(game, results), Path(expanduser(game or ""))
    is_stored = not path.is_file()
    if not is_stored and fault_details:
        raise UserError(f"{path}: --details takes a stored game; give its number, as 'arena games' lists it")
    if move is not None and move > len(record.moves):
        raise UserError(f"--move {move}: the game has {plural(len(record.moves), 'move')}")
    console = Console()
    at_terminal = has_screen(console)
    lost = is_stored and move is None and record.outcome is not None and record.outcome.ending.is_forfeit
    if fault_details or (lost and not at_terminal):
        _print_details(record, results, console)
        return
    by_players = is_stored or are_by_players(path.read_bytes())
    remarks = remarks_of_players(record) if is_stored else read_remarks(path.read_bytes(), record)
    at = move if move is not None else 0 if at_terminal else len(record.moves)
    if not at_terminal:
        print_game(record, remarks, at, by_players, console)
        return
    from arena.tui.game_app import GameApp, show_game

    try:
        show_game(GameApp(record, remarks, at=at, by_players=by_players, colours=has_colours(console)))
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    if lost:
        _print_details(record, results, console)


def _print_details(record: GameRecord, results: Path, console: Console) -> None:
    from arena.report.game import show_details
    from arena.results.store import Store

    with Store.of(results) as store:
        players = store.players()
    show_details(record, players, console)


LARGE = 13
"""Boards over this size are analysed by mcts unless a bot is named: no net that ships predicts results there."""


def analyze(
    game: Annotated[
        str,
        typer.Argument(
            metavar="GAME",
            help="An SGF file, or a stored game's number, as 'arena games' lists it, or id.",
            autocompletion=complete.games_and_files,
        ),
    ],
    bot: Annotated[
        str | None,
        typer.Option(
            help="Bot that analyses (default alphago; mcts on boards over 13x13).", autocompletion=complete.analysts
        ),
    ] = None,
    visits: Annotated[
        int | None, typer.Option(help="Visits or playouts per position (default: the bot's own).", min=1)
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Seconds per position, instead of or in addition to visits.", min=0.001)
    ] = None,
    marked: Annotated[
        int, typer.Option("-n", "--mistakes", help="Number of each side's largest mistakes to mark.", min=0)
    ] = 3,
    csv: Annotated[Path | None, typer.Option(help="Write one row for each move to this CSV file.")] = None,
    sgf: Annotated[
        Path | None, typer.Option(help="Write the game with comments, win rates and best moves to this file.")
    ] = None,
    results: Results = Path(RESULTS),
    config: ConfigFile = None,
) -> None:
    """Analyse a game: win rates, what moves cost, better moves.

    Win rates and scores are Black's, losses those of the player who moved. The SGF file opens in Sabaki, which draws
    the win rates as a graph (SBKV), in KaTrain, GoGui and others. A, B and C mark the best moves of the side to move; a
    triangle marks the bot's move instead of a mistake, and a variation shows how it would go on. Only the main line is
    read, and existing comments are dropped. Ctrl-C stops; the results so far are shown and written.

    Examples: [bold]arena analyze game.sgf[/bold] · [bold]arena analyze 12 --bot mcts --seconds 2[/bold] ·
    [bold]arena analyze game.sgf --visits 400 --sgf analysed.sgf --csv moves.csv[/bold]
    """
    from contextlib import closing

    from arena import files
    from arena.go.sgf import write_sgf
    from arena.report import style
    from arena.report.game import analysis_headline, render_analysis
    from arena.report.progress import show_counting
    from arena.report.style import Console
    from arena.results.analysis import AnalysisError, analyse, as_csv, evaluation_count, notes, patient, variations

    registry = registry_of(config, results)
    record = read_game(game, results)
    for path in (csv, sgf):
        _require_place(path, game)
    if bot is None:
        bot = "alphago" if record.rules.size <= LARGE else "mcts"
    entry = registry.resolve(bot)
    limits = _limits(registry, entry, visits, seconds)
    entry = replace(entry, name=f"{entry.name}@{limits}" if str(limits) and not str(entry.limits) else entry.name)
    entry = entry.checked(record.rules.size)
    doubts = size_doubts([entry], record.rules.size)
    console, errors = Console(), Console(stderr=True)
    words = analysis_headline(record, entry.name)
    style.say(words, console)
    for doubt in doubts:
        style.say(doubt, errors)
    found = []
    stopped = False
    with (
        closing(patient(entry).build()) as player,
        show_counting("position", evaluation_count(record), errors) as on_progress,
    ):
        try:
            for evaluation in analyse(record, player, limits):
                found.append(evaluation)
                on_progress(len(found))
        except KeyboardInterrupt:
            stopped = True
        except AnalysisError as error:
            raise UserError(f"{entry.name}: {error}{_others(registry) if not found else ''}") from None
    if found:
        console.print(render_analysis(record, found, marked, console.width if console.is_terminal else style.ENDLESS))
    analysed = f"{write_sgf(record, notes(record, found, entry.name), variations(record, found))}\n"
    for path, content in ((csv, as_csv(record, found)), (sgf, analysed)):
        if path is not None and found:
            files.write(path, content.encode())
            print(f"Written to {path}.")
    if stopped:
        errors.print(f"Stopped after {len(found)} of {evaluation_count(record)} positions.", soft_wrap=True)
        raise SystemExit(130)


def read_game(text: str | None, results: Path) -> GameRecord:
    """The game of an SGF file, else the stored one; the newest one if none is named. Raises RecordError or
    StoreError."""
    from arena.go.sgf import MAX_BYTES, read_sgf
    from arena.results.store import Store

    if text is None:
        with Store.of(results) as store:
            for record in store.games(limit=1, newest_first=True):
                return record
        raise UserError(f"no game is stored in {results}; play some with 'arena match'")
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


def _limits(registry: Registry, entry: Player, visits: int | None, seconds: float | None) -> Limits:
    """What bounds the look at one position. Raises ConfigError, also for a bot that can't analyse."""
    from arena.contract.bot import Limits

    if not (entry.bot_kind.tells_win_rate or entry.bot_kind.external):  # an engine may, and is asked
        raise ConfigError(f"{entry.name} reports no win rates and can't analyse{_others(registry)}")
    if visits is None and seconds is None:
        if entry.limits.time is not None:
            raise ConfigError(f"{entry.name} has a clock for a game; give it seconds=S or simulations=N instead")
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
        raise UserError(f"{path} is the input file, and its comments would be lost; name another file")
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise UserError(f"{folder} can't be written; name a file elsewhere")
