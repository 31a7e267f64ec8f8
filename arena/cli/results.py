"""The commands about stored results and games: elo, report, games, show and analyze."""

from __future__ import annotations

import re
import sys
from contextlib import closing, suppress
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from itertools import islice
from os.path import expanduser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import confirm, prompt

from arena import ConfigError, RecordError, UserError, files, plural
from arena.cli import options
from arena.cli.options import RESULTS, Argument, ConfigFile, Json, Number, Option, ResultsFolder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from arena.go.record import GameRecord
    from arena.players.registry import Registry
    from arena.report.style import Console
    from arena.results.store import Store

MAX_LISTED_GAMES = 1000  # games of a file to choose from
NumberInFile = Annotated[int | None, Number("--game", help="Number of the game in a file of several.", min=1)]


def elo(
    size: Annotated[int | None, Number(help="Only games on this board size.")] = None,
    anchor: Annotated[
        list[str] | None, Option(metavar="NAME=ELO", help="Fix the scale by this player's Elo (repeatable).")
    ] = None,
    csv: Annotated[Path | None, Option(metavar="FILE", help="Also write the table of all pools to this file.")] = None,
    as_json: Json = False,
    results: ResultsFolder = RESULTS,
    config: ConfigFile = None,
) -> None:
    """Rate all players from all stored games.

    Ratings are joint Bradley-Terry with 95 % intervals, with a table for each combination of size, rules, komi and
    handicap. Their zero is the mean of the players, or follows from anchors: those of --anchor, else those of [anchors]
    in arena.toml.

    Examples:
      arena elo --csv ratings.csv
      arena elo --size 19
      arena elo --anchor gnugo=1946
    """
    from arena.report import tables
    from arena.results import export
    from arena.results.league import league
    from arena.results.store import Store

    options.check_outputs(csv)
    console = options.open_console(stderr=as_json)
    anchors = dict(map(_read_anchor, anchor or ())) or options.anchors_of(config)
    with Store.of(results) as store:
        pools = [(pool, league(store, pool, anchors=anchors)) for pool in store.pools() if size in (None, pool.size)]
        rated = {name for _, found in pools if found is not None for name in found.players}
        if anchor and (unknown := anchors.keys() - rated):
            raise ConfigError(f"--anchor {min(unknown)}: has no rated games; rated are {', '.join(sorted(rated))}")
        for number, (pool, found) in enumerate(pools):
            if as_json:
                for row in export.rating_rows(found, pool):
                    print(export.json_line("rating", row))
                for row in export.misfit_rows(found):
                    print(export.json_line("misfit", {**export.pool_terms(pool), **row}))
            else:
                console.print(*[""] * bool(number), tables.elo_table(found, pool), sep="\n")
                if sections := tables.elo_sections(found):
                    console.print("", tables.render(sections), sep="\n")
        if not pools:
            console.print(tables.elo_table(None))
        if csv is not None:
            export.write_elo_csv(store, csv, anchors=anchors)
            console.print_line(f"Written to {csv}.")


def _read_anchor(text: str) -> tuple[str, float]:
    """Of ``--anchor NAME=ELO``; a name may have an "=" of its own."""
    name, _, elo = text.rpartition("=")
    with suppress(ValueError):
        if name and abs(value := float(elo)) <= 10_000:
            return name, value
    raise ConfigError(f"--anchor {text}: give NAME=ELO, such as gnugo=1946")


def report(
    event: Annotated[str | None, Argument(metavar="EVENT")] = None,
    listed: Annotated[bool, Option("--list", help="List the events instead.")] = False,
    delete: Annotated[bool, Option("--delete", help="Delete EVENT and its games instead.")] = False,
    rename: Annotated[str | None, Option(metavar="NAME", help="Rename EVENT instead.")] = None,
    yes: Annotated[bool, Option("--yes", help="Delete or rename without asking.")] = False,
    csv: Annotated[Path | None, Option(metavar="FOLDER", help="Also write all tables as CSV files.")] = None,
    html: Annotated[Path | None, Option(metavar="FILE", help="Also write one HTML page with plots and games.")] = None,
    training: Annotated[str | None, Option(metavar="NAME", help="Write the page of a training run instead.")] = None,
    as_json: Json = False,
    results: ResultsFolder = RESULTS,
) -> None:
    """Report an event: ratings, endings, times and faults.

    EVENT is a match or a tournament (default: the last one), finished or still running. LOS, the likelihood of
    superiority, is the probability that the row's player is stronger. The page of a training run has its losses,
    figures of held-out games, and ratings, over its steps.

    Examples:
      arena report
      arena report --list
      arena report league --html league.html --csv tables
      arena report league --rename spring
      arena report league --delete
      arena report --training mine --html mine.html
    """
    from arena.report import text
    from arena.results import export, league
    from arena.results.store import Store

    console = options.open_console()
    if delete or rename is not None:
        if event is None or (delete and rename is not None) or listed or csv or html or as_json:
            raise UserError("--delete and --rename take one EVENT and, at most, --yes")
        _change_event(event, rename, yes, results, console)
        return
    options.check_outputs(csv, html)
    if training is not None:
        from arena.report.training import render_training

        if html is None or event is not None or listed or csv or as_json:
            raise UserError("--training NAME takes --html FILE, and nothing else but --results")
        files.write(html, render_training(results / "training" / training))
        print(f"Written to {html}.")
        return
    with Store.of(results) as store:
        if listed:
            if event is not None or csv or html:
                raise UserError("--list can't be combined with an event or an output file")
            summaries = league.event_summaries(store)
            if as_json:
                for one in summaries:
                    print(export.json_line("event", one._asdict()))
            else:
                console.print(text.event_list(summaries))
            return
        found = league.read_report(store, event)
        shown = [] if html is None else league.last_games(store, found.event)
    written = [] if csv is None else export.write_event_csv(found, csv)
    if html is not None:
        from arena.report.page import write_page

        written.append(write_page(found, shown, html))
    if as_json:
        print(export.report_line(found))
        return
    if event is None:
        console.print_line("This is the last event; 'arena report --list' lists all.")
    text.print_report(found, console)
    for path in written:
        print(f"Written to {path}.")


def _change_event(id: str, name: str | None, yes: bool, results: Path, console: Console) -> None:
    """Rename a stored event or, without a name, delete it. Asks first. The ratings are written anew."""
    from arena.match.event import Match, event_from_json, event_to_json
    from arena.results.export import write_elo_csv
    from arena.results.store import Store, StoredEvent

    with Store.of(results, write=True, print_line=console.print_line) as store:
        event = store.event(id)
        whole = f"{event.id} and its {plural(store.count(event=event.id), 'game')}"
        question, done, change = f"Delete {whole}?", f"{whole} are deleted.", partial(store.delete_event, event)
        if name is None and yes and id != event.id:
            raise UserError(f"--yes deletes an event by its full id only: {event.id}")
        if name is not None:
            if any(store.journals(event.id).glob("*")):
                raise UserError(f"{event.id} has unfinished games; finish it first, then rename it")
            plan = event_from_json(event.plan)
            if isinstance(plan, Match) and plan.gate is not None:
                raise UserError(f"{event.id} is a gate, which is known by its two nets; it can't be renamed")
            plan = replace(plan, name=name, run=1) if isinstance(plan, Match) else replace(plan, name=name)
            renamed = StoredEvent(plan.event, event.created, plan.settings, event_to_json(plan))
            question, done = f"Rename {event.id} to {plan.event}?", f"{event.id} is {plan.event} now."
            change = partial(store.rename_event, event, renamed)
        if not yes:
            if not sys.stdin.isatty():
                raise UserError(f"{question} Add --yes to do it without a terminal.")
            confirm(question, abort=True)
        change()
        console.print_line(done)
        write_elo_csv(store, results / "elo.csv", anchors=options.anchors_of(None))


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
    training: Annotated[str | None, Option(metavar="NAME", help="Games of this run of train zero, with --sgf.")] = None,
    as_json: Json = False,
    results: ResultsFolder = RESULTS,
) -> None:
    """List stored games, or write them as SGF files.

    --player takes a full name, or the name without settings: mcts also finds mcts:playouts=50.

    Examples:
      arena games
      arena games --event league --ending forfeit
      arena games --player alphago --sgf games
      arena games --training mine --sgf games
    """
    from arena.report.tables import games_table
    from arena.results import export
    from arena.results.store import Store

    if bool(sgf) + bool(csv) + as_json > 1:
        raise UserError("--sgf, --csv and --json can't be combined; choose one")
    options.check_outputs(sgf, csv)
    if training is not None:
        if sgf is None or event or player or ending or limit:
            raise UserError("--training NAME takes --sgf FOLDER, and nothing else but --results")
        from trainers.replay import Replay
        from trainers.settings import SETTINGS_FILE, read_file

        run = results / "training" / training
        if not (run / "games").is_dir():
            only = "only runs of 'arena train zero' keep them there"
            raise UserError(f"--training {training}: {run} has no games; {only}")
        replay = Replay(run / "games", read_file(run / SETTINGS_FILE)["size"])
        _write_sgf(replay.records(training), len(replay.numbers), sgf)
        return
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
                print(export.game_line(record, number))
        elif sgf is not None:
            _write_sgf(chosen, written, sgf)
        elif csv is not None:
            export.write_games_csv(chosen, csv)
            print(f"{plural(written, 'game')} written to {csv}.")
        else:
            options.open_console().print(games_table(list(found), total))


def _write_sgf(games: Iterable[GameRecord], number: int, folder: Path) -> None:
    """Write games, with a progress bar, and print their number."""
    from rich.progress import track

    from arena.results.export import write_sgf_files

    write_sgf_files(track(games, "Writing", number, transient=True, disable=not sys.stdout.isatty()), folder)
    print(f"{plural(number, 'game')} written to {folder}.")


def _named(store: Store, player: str | None) -> list[str]:
    """The players of stored games that ``--player`` means. Raises UserError where there are none."""
    if player is None or store.count(player=player):
        return [] if player is None else [player]
    names = store.names()
    if not (found := [name for name in names if re.split("[:@]", name)[0] == player]):
        close = get_close_matches(player, names, n=8, cutoff=0) or ["none"]
        raise UserError(f"--player {player}: no such player has a stored game; there are {', '.join(close)}")
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
    net: Annotated[
        str | None, Option(metavar="BOT", help="Draw this bot's policy in per cent, and owners if its net has them.")
    ] = None,
    results: ResultsFolder = RESULTS,
    config: ConfigFile = None,
) -> None:
    """Step through a stored game or an SGF file.

    GAME is an SGF file, or the number or id of a game of 'arena games' (default: the newest).

    Arrows, PgUp, PgDn, Home, End or the mouse wheel go to a move; ? lists all keys. In a pipe it prints the position at
    the end or after --move, and the moves that led there; of a stored game that a fault ended, its traceback.

    Examples:
      arena show
      arena show game.sgf --move 30
      arena show game.sgf --net sl
    """
    from arena.go.sgf import are_by_players, move_notes, read_remarks, write_sgf
    from arena.report.game import print_game, show_details
    from arena.report.style import has_colours, has_screen
    from arena.results.analysis import net_remarks

    record, sgf = read_game(game, results, number)
    is_stored, plies = sgf is None, len(record.moves)
    if move is not None and move > plies:
        raise UserError(f"--move {move}: the game has {plural(plies, 'move')}")
    console = options.open_console()
    at_terminal = has_screen(console)
    is_lost = is_stored and move is None and record.outcome is not None and record.outcome.ending.is_forfeit
    if is_lost and not at_terminal:
        show_details(record, console)
        return
    text = write_sgf(record, move_notes(record)).encode() if sgf is None else sgf
    by_players, remarks = is_stored or are_by_players(text), read_remarks(text, record)
    if net is not None:
        player = options.registry_of(config, results).resolve(net).for_size(record.rules.size)
        if "policy" not in player.bot_kind.heads:
            raise ConfigError(f"--net {player.name}: this bot has no net; use sl or alphago")
        with closing(player.checked(record.rules.size).build()) as bot:
            by_players, remarks = False, tuple(net_remarks(record, bot))
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
    ranks: Annotated[bool, Option("--ranks", help="Estimate the players' ranks from their moves (9x9).")] = False,
    number: NumberInFile = None,
    results: ResultsFolder = RESULTS,
    config: ConfigFile = None,
) -> None:
    """Analyse a game: win rates, what moves cost, better moves.

    GAME is an SGF file, or the number or id of a game of 'arena games'. Of a folder, the first game of each SGF file is
    analysed; --csv and --sgf then name folders.

    Win rates and scores are Black's, losses those of the player who moved. In the SGF file, A, B and C mark the best
    moves and a triangle the bot's move instead of a mistake; comments and variations that were there are dropped.
    Ctrl-C stops; the results so far are shown and written.

    Examples:
      arena analyze game.sgf
      arena analyze 12 --bot mcts@seconds=2
      arena analyze game.sgf --ranks
      arena analyze game.sgf --bot alphago:visits=400 --sgf analysed.sgf
      arena analyze games/ --csv tables/
    """
    from arena.go.sgf import write_sgf
    from arena.report import style
    from arena.report.game import game_title, render_analysis
    from arena.report.progress import show_counting
    from arena.results import analysis
    from arena.results.export import analysis_frame, write_csv

    options.check_outputs(csv, sgf)
    registry = options.registry_of(config, results)
    folder = Path(expanduser(game))
    if not folder.is_dir():
        records = {"": read_game(game, results, number)[0]}
    elif not (records := dict(_games_in(folder))):
        raise RecordError(f"{folder} has no SGF file of Go that can be read")
    if ranks:
        if bot or csv or sgf:
            raise ConfigError("--ranks estimates ranks only; leave out --bot, --csv and --sgf")
        for record in records.values():
            _print_ranks(record, registry)
        return
    if sgf is not None and sgf.resolve() == folder.resolve():
        raise UserError(f"{sgf} is the input, and its comments would be lost; name another place")
    entry = registry.resolve(bot or "alphago")
    able = "; these can: " + ", ".join(one.name for one in registry.entries if one.bot_kind.tells_win_rate)
    if not (entry.bot_kind.tells_win_rate or entry.bot_kind.external):  # an engine may, and is asked
        raise ConfigError(f"{entry.name} reports no win rates and can't analyse{able}")
    if entry.limits.time is not None:
        raise ConfigError(f"{entry.name} has a clock for a game; give it seconds=S or simulations=N instead")
    sizes = {record.rules.size for record in records.values()}
    for size in sizes:
        entry.checked(size)
    console, errors = style.Console(), style.Console(stderr=True)
    for doubt in dict.fromkeys(doubt for size in sizes for doubt in options.size_doubts([entry], size)):
        errors.print_line(doubt)
    for name, record in records.items():
        own = entry.checked(record.rules.size)
        console.print(*[""] * (name != next(iter(records))), *[name] * bool(name), game_title(record), sep="\n")
        console.print(style.text(f"Analysed by {own.name}."))
        found, stopped, positions = [], False, analysis.evaluation_count(record)
        with (
            closing(analysis.with_all_visits(own).build()) as player,
            show_counting("position", positions, errors) as on_progress,
        ):
            try:
                for evaluation in analysis.analyse(record, player, own.limits):
                    found.append(evaluation)
                    on_progress(len(found))
            except KeyboardInterrupt:
                stopped = True
            except analysis.AnalysisError as error:
                raise UserError(f"{own.name}: {error}{able if not found else ''}") from None
        if found:
            console.print(render_analysis(record, found, 3))
        if found and csv is not None:
            write_csv(analysis_frame(record, found), place := csv / f"{name}.csv" if name else csv)
            print(f"Written to {place}.")
        if found and sgf is not None:
            comments = analysis.sgf_properties(record, found, own.name)
            text = write_sgf(record, comments, analysis.variations(record, found))
            files.write(place := sgf / name if name else sgf, f"{text}\n")
            print(f"Written to {place}.")
        if stopped:
            errors.print_line(f"Stopped after {len(found)} of {positions} positions.")
            raise SystemExit(130)


def _games_in(folder: Path) -> Iterator[tuple[str, GameRecord]]:
    """The first game of each SGF file in a folder, by the file's name. Files that can't be read are named on stderr."""
    from arena.go.sgf import MAX_BYTES, begin_at_last_setup, read_sgf

    for path in sorted(folder.glob("*.sgf")):
        try:
            with path.open("rb") as file:
                yield path.name, read_sgf(begin_at_last_setup(file.read(MAX_BYTES + 1)))
        except (OSError, RecordError) as error:
            print(f"{path} is left out: {error}", file=sys.stderr)


def _print_ranks(record: GameRecord, registry: Registry) -> None:
    """A line for each player: the rank at which the moves are likeliest."""
    from arena.go.coords import BLACK
    from arena.go.ranks import HUMAN_LIKE, WEAKEST_SEEN, rank_name
    from arena.people.ranks import ranks_by_moves
    from bots.nets.checkpoint import Checkpoint, find
    from bots.nets.inference import Evaluator

    if record.rules.size != 9:
        raise UserError(f"--ranks estimates ranks on 9x9 only, and this board has {record.rules.size} lines")
    player, console = registry.resolve(HUMAN_LIKE).checked(9), options.open_console()
    net = Evaluator(Checkpoint.open(find(player.config.checkpoint)), player.config.precision)
    for colour, found in ranks_by_moves(record, net).items():
        name, told = (record.black, record.black_rank) if colour is BLACK else (record.white, record.white_rank)
        known = f" ({told} in the record)" if told else ""
        console.print_line(f"{colour.name.title()} {name}{known}: {found} by {plural(found.count, 'move')}.")
    console.print_line("The likeliest ranks on the scale of the Online Go Server, with their 95 % intervals.")
    console.print_line(f"{rank_name(WEAKEST_SEEN)} stands for all that are weaker, too.")


def read_game(text: str | None, results: Path, number: int | None = None) -> tuple[GameRecord, bytes | None]:
    """The game of a file of SGF games with its text, else the stored one; the newest one if none is named. Of several
    games in a file it is that of this number, or the one that the user chooses. Raises RecordError or StoreError."""
    from arena.go.sgf import begin_at_last_setup, read_sgf
    from arena.results.store import Store

    path = Path(expanduser(text or ""))
    if path.is_file():
        try:
            sgf = begin_at_last_setup(_choose_text(path, number))
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
    """One of the games in a file: of several without a number the user chooses, or it is the first in a pipe."""
    from arena.go.collection import is_collection, read_texts
    from arena.go.sgf import MAX_BYTES, read_sgf
    from arena.report.style import has_screen
    from arena.report.tables import games_table

    if not is_collection(path):
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    texts = [text for _, _, text in islice(read_texts(path), number or MAX_LISTED_GAMES)]
    if number is not None and number > len(texts):
        raise UserError(f"--game {number}: {path} has {plural(len(texts), 'game')}")
    if number is None and len(texts) > 1:
        console = options.open_console()
        if not has_screen(console):
            is_cut = len(texts) == MAX_LISTED_GAMES
            several = f"{MAX_LISTED_GAMES:,} games or more" if is_cut else plural(len(texts), "game")
            words = f"{path} has {several}; this is the first. Choose another with --game N."
            options.open_console(stderr=True).print_line(words)
            return texts[0]
        games: list[tuple[int, GameRecord]] = []
        for place, text in enumerate(texts, 1):
            with suppress(RecordError):  # to choose it prints what is wrong
                games.append((place, read_sgf(text)))
        console.print(replace(games_table(games, len(texts)), note=""))
        number = prompt("Game", type=int, default=1)
        if not 1 <= number <= len(texts):
            raise UserError(f"game {number}: choose 1 to {len(texts)}")
    return texts[(number or 1) - 1]
