"""The commands about stored results and games: elo, report, games, show and analyze."""

from __future__ import annotations

import sys
from contextlib import closing
from itertools import islice
from os.path import expanduser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import confirm

from arena import ConfigError, RecordError, UserError, plural
from arena.cli.options import (
    RESULTS,
    Argument,
    ConfigFile,
    Json,
    Number,
    Option,
    Results,
    anchors_of,
    check_outputs,
    registry_of,
    size_doubts,
)

if TYPE_CHECKING:
    from arena.go.record import GameRecord
    from arena.report.style import Console
    from arena.results.store import Store

NumberInFile = Annotated[int | None, Number("--game", help="Number of the game in a file of several.", min=1)]


def elo(
    size: Annotated[int | None, Number(help="Only games on this board size.")] = None,
    csv: Annotated[Path | None, Option(metavar="FILE", help="Also write the table of all pools to this file.")] = None,
    as_json: Json = False,
    results: Results = RESULTS,
    config: ConfigFile = None,
) -> None:
    """Rate all players from all stored games.

    Ratings are joint Bradley-Terry with 95 % intervals, with a table for each combination of size, rules, komi and
    handicap. Their zero is the mean of the players, or follows from [anchors] in arena.toml, such as gnugo = 1946.

    Examples:
      arena elo --csv ratings.csv
      arena elo --size 19
    """
    from arena.report.style import Console
    from arena.report.tables import elo_sections, elo_table, render
    from arena.results.export import json_line, misfit_rows, pool_terms, rating_rows, write_elo_csv
    from arena.results.league import league
    from arena.results.store import Store

    check_outputs(csv)
    console, anchors = Console(stderr=as_json), anchors_of(config)
    with Store.of(results) as store:
        pools = [(pool, league(store, pool, anchors=anchors)) for pool in store.pools() if size in (None, pool.size)]
        for number, (pool, found) in enumerate(pools):
            if as_json:
                for row in rating_rows(found, pool):
                    print(json_line("rating", row))
                for row in misfit_rows(found):
                    print(json_line("misfit", {**pool_terms(pool), **row}))
            else:
                console.print(*[""] * bool(number), elo_table(found, pool), sep="\n")
                if sections := elo_sections(found):
                    console.print("", render(sections), sep="\n")
        if not pools:
            console.print(elo_table(None))
        if csv is not None:
            write_elo_csv(store, csv, anchors=anchors)
            console.print_line(f"Written to {csv}.")


def report(
    event: Annotated[str | None, Argument(metavar="EVENT")] = None,
    listed: Annotated[bool, Option("--list", help="List the events instead.")] = False,
    delete: Annotated[bool, Option("--delete", help="Delete EVENT and its games instead.")] = False,
    yes: Annotated[bool, Option("--yes", help="Delete without asking.")] = False,
    csv: Annotated[Path | None, Option(metavar="FOLDER", help="Also write all tables as CSV files.")] = None,
    html: Annotated[Path | None, Option(metavar="FILE", help="Also write one HTML page with plots and games.")] = None,
    training: Annotated[str | None, Option(metavar="NAME", help="Write the page of a training run instead.")] = None,
    as_json: Json = False,
    results: Results = RESULTS,
) -> None:
    """Report an event: ratings, endings, times and faults.

    EVENT is a match or a tournament (default: the last one), finished or still running. LOS, the likelihood of
    superiority, is the probability that the row's player is stronger. The page of a training run has its losses,
    figures of held-out games, and ratings, over its steps.

    Examples:
      arena report
      arena report --list
      arena report league --html league.html --csv tables
      arena report league --delete
      arena report --training mine --html mine.html
    """
    from arena.report.style import Console
    from arena.report.text import event_list, print_report
    from arena.results.export import json_line, report_line, write_event_csv
    from arena.results.league import event_summaries, last_games, read_report
    from arena.results.store import Store

    console = Console()
    if delete:
        if event is None or listed or csv or html or as_json:
            raise UserError("--delete takes one EVENT and, at most, --yes")
        _delete_event(event, yes, results, console)
        return
    check_outputs(csv, html)
    if training is not None:
        from arena.report.training import write_training_page

        if html is None or event is not None or listed or csv or as_json:
            raise UserError("--training NAME takes --html FILE, and nothing else but --results")
        print(f"Written to {write_training_page(results / 'training' / training, html)}.")
        return
    with Store.of(results) as store:
        if listed:
            if event is not None or csv or html:
                raise UserError("--list can't be combined with an event or an output file")
            if as_json:
                for one in event_summaries(store):
                    print(json_line("event", one._asdict()))
            else:
                console.print(event_list(event_summaries(store)))
            return
        found = read_report(store, event)
        shown = [] if html is None else last_games(store, found.event)
    written = [] if csv is None else write_event_csv(found, csv)
    if html is not None:
        from arena.report.page import write_page

        written.append(write_page(found, shown, html))
    if as_json:
        print(report_line(found))
        return
    if event is None:
        console.print_line("This is the last event; 'arena report --list' lists all.")
    print_report(found, console)
    for path in written:
        print(f"Written to {path}.")


def _delete_event(id: str, yes: bool, results: Path, console: Console) -> None:
    """Delete a stored event. Asks first. The ratings are written anew."""
    from arena.results.export import write_elo_csv
    from arena.results.store import Store

    with Store.of(results, write=True, print_line=console.print_line) as store:
        event = store.event(id)
        what = f"{event.id} and its {plural(store.count(event=event.id), 'game')}"
        if yes and id != event.id:
            raise UserError(f"--yes deletes an event by its full id only: {event.id}")
        if not (yes or sys.stdin.isatty()):
            raise UserError(f"Delete {what}? Add --yes to do it without a terminal.")
        if not yes:
            confirm(f"Delete {what}?", abort=True)
        store.delete_event(event)
        console.print_line(f"{what} are deleted.")
        write_elo_csv(store, results / "elo.csv", anchors=anchors_of(None))


def games(
    event: Annotated[str | None, Option(metavar="EVENT", help="Only games of this event.")] = None,
    player: Annotated[str | None, Option(metavar="PLAYER", help="Only games of this player.")] = None,
    ending: Annotated[
        str | None, Option(metavar="ENDING", help="Only games that ended by: score, resign, forfeit, ...")
    ] = None,
    limit: Annotated[
        int | None, Number("-n", "--games", help="Newest games only (default 20; --json and files: all).", min=1)
    ] = None,
    sgf: Annotated[Path | None, Option(metavar="FOLDER", help="Write an SGF file of each game instead.")] = None,
    csv: Annotated[Path | None, Option(metavar="FILE", help="Write a table of the games instead.")] = None,
    as_json: Json = False,
    results: Results = RESULTS,
) -> None:
    """List stored games, or write them as SGF files.

    --player takes a full name, or the name without settings: mcts also finds mcts:playouts=50.

    Examples:
      arena games
      arena games --event league --ending forfeit
      arena games --player alphago --sgf games
    """
    from rich.progress import track

    from arena.report.style import Console
    from arena.report.tables import games_table
    from arena.results.export import game_line, write_games_csv, write_sgf_files
    from arena.results.store import Store

    if bool(sgf) + bool(csv) + as_json > 1:
        raise UserError("--sgf, --csv and --json can't be combined; choose one")
    check_outputs(sgf, csv)
    with Store.of(results) as store:
        if event is not None and not store.count(event=event):  # the games of people have no event
            event = store.event(event).id
        wanted: dict[str, Any] = {"event": event, "player": _named(store, player), "endings": _read_ending(ending)}
        total = store.count(**wanted)
        shown = limit if as_json else limit or 20
        found = store.numbered_games(**wanted, limit=shown, newest_first=True)
        chosen = store.games(**wanted, limit=limit, newest_first=limit is not None)
        written = total if limit is None else min(limit, total)
        if as_json:
            for number, record in found:
                print(game_line(record, number))
        elif sgf is not None:
            is_piped = not sys.stdout.isatty()
            write_sgf_files(track(chosen, "Writing", total=written, transient=True, disable=is_piped), sgf)
        elif csv is not None:
            write_games_csv(chosen, csv)
        else:
            Console().print(games_table(list(found), total))
    if place := sgf or csv:
        print(f"{plural(written, 'game')} written to {place}.")


def _named(store: Store, player: str | None) -> list[str]:
    """The players of stored games that ``--player`` means. Raises UserError where there are none."""
    if player is None or store.count(player=player):
        return [] if player is None else [player]
    names = store.names()
    if not (found := [name for name in names if name.partition("@")[0].partition(":")[0] == player]):
        raise UserError(f"--player {player}: no such player has a stored game; there are {', '.join(names[:8])}")
    return found


def _read_ending(text: str | None) -> list[str]:
    """Of ``--ending``, as games are stored. Raises ConfigError."""
    from arena.go.game import Ending

    known = {ending.replace(" ", "-"): [str(ending)] for ending in Ending}
    known["forfeit"] = [ending for ending in Ending if ending.is_forfeit]
    if text is not None and text not in known:
        raise ConfigError(f"--ending {text}: use one of {', '.join(known)}")
    return known[text] if text else []


def show(
    game: Annotated[str | None, Argument(metavar="GAME")] = None,
    move: Annotated[int | None, Number("-m", "--move", help="Start after this many moves.", min=0)] = None,
    number: NumberInFile = None,
    results: Results = RESULTS,
) -> None:
    """Step through a stored game or an SGF file.

    GAME is an SGF file, or the number or id of a game of 'arena games' (default: the newest).

    Arrows, PgUp, PgDn, Home, End or the mouse wheel go to a move; ? lists all keys. In a pipe it prints the position at
    the end or after --move, and the moves that led there; of a stored game that a fault ended, its traceback.

    Examples:
      arena show
      arena show game.sgf --move 30
    """
    from arena.go.sgf import are_by_players, move_notes, read_remarks, write_sgf
    from arena.report.game import print_game, show_details
    from arena.report.style import Console, has_colours, has_screen

    record, sgf = read_game(game, results, number)
    is_stored, plies = sgf is None, len(record.moves)
    if move is not None and move > plies:
        raise UserError(f"--move {move}: the game has {plural(plies, 'move')}")
    console = Console()
    at_terminal = has_screen(console)
    is_lost = is_stored and move is None and record.outcome is not None and record.outcome.ending.is_forfeit
    if is_lost and not at_terminal:
        show_details(record, console)
        return
    text = write_sgf(record, move_notes(record)).encode() if sgf is None else sgf
    by_players, remarks = is_stored or are_by_players(text), read_remarks(text, record)
    if not at_terminal:
        print_game(record, remarks, plies if move is None else move, by_players, console)
        return
    from arena.tui.app import run_app
    from arena.tui.game_app import GameApp

    try:
        run_app(GameApp(record, remarks, at=move or 0, by_players=by_players, colours=has_colours(console)))
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    if is_lost:
        show_details(record, console)


def analyze(
    game: Annotated[str, Argument(metavar="GAME")],
    bot: Annotated[str | None, Option(metavar="BOT", help="Bot that analyses (default alphago).")] = None,
    csv: Annotated[Path | None, Option(metavar="FILE", help="Write one row for each move to this CSV file.")] = None,
    sgf: Annotated[Path | None, Option(metavar="FILE", help="Write the game with comments and best moves.")] = None,
    number: NumberInFile = None,
    results: Results = RESULTS,
    config: ConfigFile = None,
) -> None:
    """Analyse a game: win rates, what moves cost, better moves.

    GAME is an SGF file, or the number or id of a game of 'arena games'.

    Win rates and scores are Black's, losses those of the player who moved. In the SGF file, A, B and C mark the best
    moves and a triangle the bot's move instead of a mistake; comments and variations that were there are dropped.
    Ctrl-C stops; the results so far are shown and written.

    Examples:
      arena analyze game.sgf
      arena analyze 12 --bot mcts@seconds=2
      arena analyze game.sgf --bot alphago:visits=400 --sgf analysed.sgf
    """
    from arena import files
    from arena.go.sgf import write_sgf
    from arena.report import style
    from arena.report.game import game_title, render_analysis
    from arena.report.progress import show_counting
    from arena.results.analysis import (
        AnalysisError,
        analyse,
        evaluation_count,
        sgf_properties,
        variations,
        with_all_visits,
    )
    from arena.results.export import analysis_frame, write_csv

    check_outputs(csv, sgf)
    registry, record = registry_of(config, results), read_game(game, results, number)[0]
    if sgf is not None and sgf.resolve() == Path(expanduser(game)).resolve():
        raise UserError(f"{sgf} is the input, and its comments would be lost; name another file")
    entry = registry.resolve(bot or "alphago").checked(record.rules.size)
    able = "; these can: " + ", ".join(one.name for one in registry.entries if one.bot_kind.tells_win_rate)
    if not (entry.bot_kind.tells_win_rate or entry.bot_kind.external):  # an engine may, and is asked
        raise ConfigError(f"{entry.name} reports no win rates and can't analyse{able}")
    if entry.limits.time is not None:
        raise ConfigError(f"{entry.name} has a clock for a game; give it seconds=S or simulations=N instead")
    console, errors, positions = style.Console(), style.Console(stderr=True), evaluation_count(record)
    for doubt in size_doubts([entry], record.rules.size):
        errors.print_line(doubt)
    console.print(game_title(record), style.text(f"Analysed by {entry.name}."), sep="\n")
    found, stopped = [], False
    with closing(with_all_visits(entry).build()) as player, show_counting("position", positions, errors) as on_progress:
        try:
            for evaluation in analyse(record, player, entry.limits):
                found.append(evaluation)
                on_progress(len(found))
        except KeyboardInterrupt:
            stopped = True
        except AnalysisError as error:
            raise UserError(f"{entry.name}: {error}{able if not found else ''}") from None
    if found:
        console.print(render_analysis(record, found, 3))
        if csv is not None:
            write_csv(analysis_frame(record, found), csv)
        if sgf is not None:
            text = write_sgf(record, sgf_properties(record, found, entry.name), variations(record, found))
            files.write(sgf, f"{text}\n")
        for path in filter(None, (csv, sgf)):
            print(f"Written to {path}.")
    if stopped:
        errors.print_line(f"Stopped after {len(found)} of {positions} positions.")
        raise SystemExit(130)


def read_game(text: str | None, results: Path, number: int | None = None) -> tuple[GameRecord, bytes | None]:
    """The game of a file of SGF games with its text, else the stored one; the newest one if none is named. Of several
    games in a file it is that of this number, or the first. Raises RecordError or StoreError."""
    from arena.go.sgf import read_sgf
    from arena.results.store import Store

    path = Path(expanduser(text or ""))
    if path.is_file():
        try:
            sgf = _choose_text(path, number)
            return read_sgf(sgf), sgf
        except RecordError as error:
            raise RecordError(f"{path}: {error}") from None
    if number is not None:
        raise UserError("--game is the number of a game in a file; name an SGF file")
    if text and path.is_dir():
        raise RecordError(f"{path} is a folder; name one of its SGF files")
    if path.suffix.lower() == ".sgf":
        raise RecordError(f"there is no file {path}")
    with Store.of(results) as store:
        for record in [store.game(text)] if text else store.games(limit=1, newest_first=True):
            return record, None
    raise UserError(f"no game is stored in {results}; play some with 'arena match'")


def _choose_text(path: Path, number: int | None) -> bytes:
    """The game of this number in a file, or the first."""
    from arena.go.collection import is_collection, read_texts
    from arena.go.sgf import MAX_BYTES

    if not is_collection(path):
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    texts = [text for _, _, text in islice(read_texts(path), number or 2)]
    if number is None and len(texts) > 1:
        print(f"{path} has several games; this is the first. Choose another with --game N.", file=sys.stderr)
    elif number is not None and number > len(texts):
        raise UserError(f"--game {number}: {path} has {plural(len(texts), 'game')}")
    return texts[(number or 1) - 1]
