"""The command for people: a game against a bot, or of two people, in the terminal or in a pipe."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena import ConfigError, StoreError, UserError, plural
from arena.cli import events
from arena.cli.options import RESULTS, ConfigFile, Results, registry_of, takes
from arena.cli.seats import GameOptions, arrange_game, build_opponents, play_session, read_source, start_from
from arena.files import remove_scratch

if TYPE_CHECKING:
    from arena.go.coords import Colour
    from arena.go.record import GameRecord
    from arena.people.adviser import Analyst
    from arena.people.saved_game import SavedGame, SavedGameFile
    from arena.people.session import Opponent
    from arena.players.player import Player
    from arena.players.registry import Registry
    from arena.results.analysis import Evaluation
    from arena.tui.game_app import Evaluate


NO_OPTIONS = GameOptions()

ANALYSTS = ("alphago", "mcts")
"""Who gives hints where the bot that is played can't: the first that plays on the size."""


@takes(GameOptions)
def play(
    bot: Annotated[
        str | None,
        typer.Argument(
            metavar="BOT",
            help="Opponent: NAME, NAME:setting=value,... or checkpoint:PATH. human is a second person here. "
            "With --resume, the id of a game.",
        ),
    ] = None,
    given: GameOptions = NO_OPTIONS,
    name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="Your name in the ratings (default: your login name).")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue your last game, or the one with the given id.")
    ] = False,
    first: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="An SGF file to play on from.",
        ),
    ] = None,
    move: Annotated[
        int | None, typer.Option("--move", help="With --from FILE: the number of moves to keep (default: all).", min=0)
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Print lines of text instead of the full screen.")] = False,
    results: Results = Path(RESULTS),
    config: ConfigFile = None,
) -> None:
    """Play against a bot, or another person, at this terminal.

    Type d4, pass, undo, hint, score, resign or help.

    The game is saved after every move; --resume continues it. Finished games are stored with those of bots, and count
    for arena elo unless you used help (undo, hint, score), a handicap or another komi.

    Examples: [bold]arena play alphago[/bold] · [bold]arena play mcts:playouts=200 --size 5 --color white[/bold] ·
    [bold]arena play alphago --as ada[/bold] · [bold]arena play mcts --time main=600,byoyomi=30[/bold] ·
    [bold]arena play sl --handicap 3 --rules japanese[/bold] · [bold]arena play --resume[/bold] ·
    [bold]arena play random --plain < moves.txt[/bold]
    """
    from arena.go.coords import BLACK
    from arena.go.game import Game
    from arena.people.counting import estimated
    from arena.people.saved_game import SavedGameFile
    from arena.people.session import GameSession
    from arena.report.progress import show_start
    from arena.report.style import Console

    is_own = name is not None or given != NO_OPTIONS
    if move is not None and first is None:
        raise ConfigError("--move needs --from FILE")
    if first is not None and (resume or given.size or given.komi or given.rules or given.handicap):
        raise ConfigError("--from takes board, komi and rules from the file; leave out --resume and those")
    console = Console()
    say = events.printer(console)
    registry = registry_of(config, results)
    store_finished_games(results, say)

    def prepare(saved: SavedGame, bots: dict[Colour, Player]) -> dict[Colour, Opponent]:
        for doubt in events.size_doubts(bots.values(), saved.size):
            say(doubt)
        with show_start(console):
            opponents = build_opponents(bots, saved.rules)
            if saved.time.time is not None:
                estimated(Game(saved.rules), playouts=2)  # what is compiled later would run on somebody's clock
        return opponents

    def begun(given: GameOptions) -> tuple[SavedGame, dict[Colour, Player]]:
        if bot is None:
            raise ConfigError("name a bot to play, as in: arena play alphago; 'arena bots' lists them")
        given = replace(given, seed=secrets.randbits(48) if given.seed is None else given.seed)
        entry = registry.resolve(bot)
        if source is None:
            return arrange_game(registry, entry, name, given)
        saved, bots = arrange_game(registry, entry, name, replace(given, size=source.rules.size))
        return start_from(source, saved), bots

    source = None if first is None else read_source(Path(first), move)
    again, code = True, 0
    while again and not code:
        with ExitStack() as stack:
            if resume:
                if is_own:
                    raise ConfigError(
                        "a resumed game keeps its players, rules and clock; give only --resume and its id"
                    )
                file = stack.enter_context(_file_to_resume(results, bot))
                saved = file.read()
                if saved.is_over:
                    raise UserError(f"{file.id} is over; 'arena games --event play' lists it")
                saved, bots = rebuild_bots(saved, registry, say)
                opponents = prepare(saved, bots)
            else:
                saved, bots = begun(given)
                opponents = prepare(saved, bots)
                file = stack.enter_context(SavedGameFile.create(results, stored_ids(results)))
                saved = file.begin(saved)
            begun_with = 0 if resume else len(saved.record.moves)
            judges = list(list_advisers(bots, registry, saved.size))
            session = GameSession(saved, opponents, find_analyst(judges), file.write)
            evaluate = _evaluator(judges)
            try:
                with session:
                    again = play_session(session, console, is_plain=plain, kept=file.path, evaluate=evaluate)
            except KeyboardInterrupt:
                console.print()
                code = 130
            _close_game(file.read(), begun_with, file, results, say)
        if resume and again:
            say(f"To play again: arena play {next((saved.name(colour) for colour in bots), 'human')}")
            break
        if not saved.handicap:
            was_black = saved.people[0] is BLACK if bots else given.color != "white"
            given = replace(given, color="white" if was_black else "black", seed=None)
    if not session.has_ended:  # Python would wait for threads of the bot's own
        remove_scratch()
        sys.stdout.flush()
        os._exit(code)
    raise SystemExit(code)


# --- A game that goes on ---


def _file_to_resume(results: Path, id: str | None) -> SavedGameFile:
    """The file of the game of this id, or of the unfinished one that was played last. Raises UserError."""
    from arena.people.saved_game import EVENT, SavedGameFile, is_held, saved_games

    if id is not None:
        number = id.rpartition("/")[2]
        return SavedGameFile.open(results, f"{EVENT}/{number:0>5}" if number.isdecimal() else id)
    kept = [(id, saved) for id, saved in saved_games(results) if saved.record.moves and not saved.is_over]
    waiting = [id for id, _ in kept if not is_held(results, id)]
    if not waiting:
        raise UserError(f"there is no unfinished game in {results / EVENT}; start one, as in: arena play alphago")
    return SavedGameFile.open(results, waiting[-1])


def rebuild_bots(
    saved: SavedGame, registry: Registry, say: Callable[[str], None]
) -> tuple[SavedGame, dict[Colour, Player]]:
    """The game with the bots that play it now, by their names in its file. Raises UserError when one can't be had."""
    from arena.go.coords import BLACK, WHITE, Colour
    from arena.people.saved_game import Help

    bots = {}
    identities = {BLACK: saved.record.black_player, WHITE: saved.record.white_player}
    for colour in set(Colour) - set(saved.people):
        name = saved.name(colour)
        bots[colour] = entry = registry.resolve_stored(name).checked(saved.size)
        if entry.identity != identities[colour] and Help.OTHER_BOT not in saved.helps:
            say(f"{name} has other settings or another net now; the game is unrated.")
            saved = replace(saved, helps=(*saved.helps, Help.OTHER_BOT))
    return saved, bots


# --- Playing ---


def list_advisers(bots: dict[Colour, Player], registry: Registry, size: int) -> Iterator[Player]:
    """Who may be asked about the game: the bots that are played, then the usual ones that play on this size."""
    yield from bots.values()
    for name in ANALYSTS:
        with suppress(UserError):
            yield registry.resolve(name).checked(size)


def find_analyst(judges: Iterable[Player]) -> Analyst | None:
    """Who gives hints: another of the bot that is played where it can analyse, else the first that can."""
    from arena.people.adviser import Analyst

    return next((Analyst(entry.name, entry.build) for entry in judges if entry.bot_kind.analyses), None)


def _evaluator(judges: Iterable[Player]) -> Evaluate | None:
    """Who evaluates a game's positions for the review: the first that reports win rates."""
    from arena.results.analysis import analyse, patient

    judge = next((entry for entry in judges if entry.bot_kind.tells_win_rate), None)
    if judge is None:
        return None

    def evaluate(record: GameRecord) -> Iterator[Evaluation]:
        with closing(patient(judge).build()) as bot:
            yield from analyse(record, bot, at_once=1)

    return evaluate


# --- Keeping ---


def _close_game(saved: SavedGame, begun: int, file: SavedGameFile, results: Path, say: Callable[[str], None]) -> None:
    """Say what becomes of a game that began with ``begun`` moves: it is stored when it is over, and waits when it
    isn't."""
    moves, first = len(saved.record.moves), saved.record.first
    own = any((first if ply % 2 == 0 else first.opponent) in saved.people for ply in range(begun, moves))
    if saved.is_over:
        try:
            store_games([saved], results)
        except StoreError as error:
            say(f"{file.id} is saved in {file.path}; the next arena play will store it: {error}.")
            return
        counts = "unrated" if saved.record.unrated else "it counts for arena elo"
        say(f"{file.id} is stored ({counts}); its moves are in {file.path}. To review it: arena analyze {file.id}")
    elif own:
        say(f"{file.id} is saved after move {moves} in {file.path}; resume it with: arena play --resume")
    else:
        file.remove()
        say("You played no move, so nothing is saved.")


def store_games(games: list[SavedGame], results: Path) -> None:
    """Finished games into the results, and the ratings that follow. Raises StoreError."""
    from arena.results.store import Store

    with Store.of(results, write=True) as store:
        store.add_players({player.identity: player for saved in games for player in saved.players})
        store.append([saved.record for saved in games])
        if any(not saved.record.unrated for saved in games):
            from arena.results.export import write_elo_csv

            write_elo_csv(store, results / "elo.csv")


def store_finished_games(results: Path, say: Callable[[str], None]) -> None:
    """Store what an earlier arena finished and had no time to store, or couldn't: as far as that goes now."""
    from arena.people.saved_game import is_held, saved_games

    stored = stored_ids(results)
    left = [
        saved for id, saved in saved_games(results) if saved.is_over and id not in stored and not is_held(results, id)
    ]
    if left:
        try:
            store_games(left, results)
        except StoreError as error:
            say(f"Not stored yet: {plural(len(left), 'finished game')}: {error}.")
        else:
            say(f"Stored now: {', '.join(saved.record.id for saved in left)}.")


def stored_ids(results: Path) -> set[str]:
    """The ids of the games of people that are in the results."""
    from arena.people.saved_game import EVENT
    from arena.results.store import Store, database

    if not database(results).exists():
        return set()
    with Store.of(results) as store:
        return store.ids(EVENT)
