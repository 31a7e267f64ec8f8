"""The command play: a person's game against a bot or another person, at this terminal or through a pipe."""

from __future__ import annotations

import getpass
import os
import re
import secrets
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from arena import ConfigError, StoreError, UserError, plural
from arena.cli.options import RESULTS, ConfigFile, Results, registry_of, size_doubts, takes
from arena.contract.settings import setting
from arena.files import remove_scratch
from arena.go.ranks import HUMAN_LIKE
from arena.players.config import RULES, first_given

if TYPE_CHECKING:
    from arena.contract.bot import Limits
    from arena.go.coords import Colour, Move
    from arena.go.game import Rules
    from arena.go.record import GameRecord
    from arena.match.event import Event
    from arena.match.schedule import Pairing
    from arena.people.adviser import Adviser
    from arena.people.saved_game import SavedGame, SavedGameFile
    from arena.people.session import GameSession, Opponent
    from arena.players.player import Player
    from arena.players.registry import Registry
    from arena.report.style import Console

ANALYSTS = ("alphago", "mcts")
"""Who gives hints where the bot that is played can't: the first that plays on the size."""

GUEST = "guest"
"""Who plays without a name, and so without a rating."""


@dataclass(frozen=True, slots=True)
class GameOptions:
    """How a new game is to be played, as options; None is what wasn't given."""

    color: str | None = setting(None, "Your colour: black (default) or white.", choices=("black", "white"))
    size: int | None = setting(None, "Board size, 5 to 19 (default 9).", 5, 19)
    komi: float | None = setting(None, "Komi (default 7, over 9x9 7.5, with a handicap 0.5).")
    rules: str | None = setting(None, "chinese (default), japanese, cgos or tromp-taylor.", choices=RULES)
    handicap: int | None = setting(None, "Black's handicap stones, 2 to 9.", 0, 9)
    time: str | None = setting(None, "Clock: main=600, main=300,byoyomi=30 or byoyomi=60,stones=5.")


NO_OPTIONS = GameOptions()


@takes(GameOptions)
def play(
    bot: Annotated[str | None, Argument(help="A bot, or human; with --resume a game's id.")] = None,
    rank: Annotated[str | None, Option(help="Play a bot of this human rank, 30k to 6d.")] = None,
    given: GameOptions = NO_OPTIONS,
    name: Annotated[str | None, Option("--as", help="Your name in the ratings (default: your login).")] = None,
    resume: Annotated[bool, Option("--resume", help="Continue your last game, or the one of this id.")] = False,
    plain: Annotated[bool, Option("--plain", help="Lines of text instead of the full screen.")] = False,
    results: Results = RESULTS,
    config: ConfigFile = None,
) -> None:
    """Play against a bot, or another person, at this terminal.

    Type d4, pass, undo, hint, score, resign or help. The game is saved after every move. Finished games are stored and
    count for arena elo unless you used help (undo, hint, score), a handicap or another komi.

    --rank is a rank of the Online Go Server (games of 2005 to 2020, 9x9). The bot moves, errs, passes and resigns as
    people of that rank did. After each game it says at which rank your results against such bots are likeliest.

    Examples:
      arena play alphago
      arena play --rank 12k
      arena play mcts --size 13 --color white --time main=600,byoyomi=30
      arena play --resume
      arena play random --plain < moves.txt
    """
    from arena.go.ranks import rank_name, read_rank
    from arena.people.saved_game import SavedGameFile
    from arena.people.session import GameSession
    from arena.report.style import Console

    if resume and (name is not None or rank is not None or given != NO_OPTIONS):
        raise ConfigError("a resumed game keeps its players, rules and clock; give only --resume and its id")
    if rank is not None:
        if bot is not None:
            raise ConfigError(f"--rank {rank} picks the bot; leave out {bot}")
        bot = f"{HUMAN_LIKE}:rank={rank_name(read_rank(rank, '--rank'))}"
    console, registry = Console(), registry_of(config, results)
    stored = store_finished_games(results, console.say)
    again, code = True, 0
    while again and not code:
        with ExitStack() as stack:
            if resume:
                file = stack.enter_context(_file_to_resume(results, bot))
                saved, bots = rebuild_bots(file.read(), registry, console.say)
            elif bot is None:
                raise ConfigError("name a bot, or --rank 12k, as in: arena play alphago; 'arena bots' lists them")
            else:
                saved, bots = new_game(registry, registry.resolve(bot), name, given)
            for doubt in size_doubts(bots.values(), saved.size):
                console.say(doubt)
            opponents = prepare_bots(bots, saved.rules, console)
            if not resume:
                file = stack.enter_context(SavedGameFile.create(results, stored))
                saved = replace(saved, record=replace(saved.record, id=file.id))
                file.write(saved)
            session = GameSession(saved, opponents, _adviser(bots, registry, saved.size), file.write)
            try:
                with session:
                    again = play_session(session, console, plain)
            except KeyboardInterrupt as stop:
                console.print()
                code = 128 + (stop.args[0] if stop.args else signal.SIGINT)
            _leave_game(file, console.say)
        store_finished_games(results, console.say)
        if resume and again:
            console.say(f"To play again: arena play {next((saved.name(colour) for colour in bots), 'human')}")
            break
        if not saved.handicap:
            given = replace(given, color="black" if given.color == "white" else "white")
    if not session.has_ended:  # Python would wait for threads of the bot's own
        remove_scratch()
        sys.stdout.flush()
        os._exit(code)
    raise SystemExit(code)


# --- A new game ---


def new_game(
    registry: Registry, entry: Player, name: str | None, given: GameOptions
) -> tuple[SavedGame, dict[Colour, Player]]:
    """A game before its first move, and the bots in it by colour. Raises UserError."""
    from arena.contract.bot import Limits
    from arena.go.coords import BLACK, WHITE
    from arena.go.game import Rules, handicap_points
    from arena.people.saved_game import EVENT

    size, stones, person = given.size or 9, given.handicap or 0, _person(registry, name)
    limits = Limits.read(given.time, "--time") if given.time is not None else Limits()
    if given.time is not None and (limits.time is None or limits.simulations is not None):
        raise ConfigError(f"--time {given.time} is not a clock; write main=600 (seconds), or main=300,byoyomi=30")
    if entry.is_person:
        opponent = _person(registry, entry.settings.get("name") or GUEST)
        if opponent.name == person.name:
            raise ConfigError(f"both players are called {person.name}; name the second one: human:name=bob")
    else:
        opponent = entry.with_limits(limits).checked(size)
    setup = tuple(sorted(handicap_points(size, stones))) if stones > 1 else ()
    rules = Rules.preset(given.rules or "chinese", size, first_given(given.komi, 0.5 if stones else None))
    colour = WHITE if given.color == "white" else BLACK
    seats = {colour: person, colour.opponent: opponent}
    identities = {colour: "" if seat.name == GUEST else seat.identity for colour, seat in seats.items()}
    return begin_game(
        rules,
        seats,
        limits,
        black_player=identities[BLACK],
        white_player=identities[WHITE],
        setup=(setup, ()),
        first=WHITE if setup else BLACK,
        event=EVENT,
        seed=secrets.randbits(48),
    )


def begin_game(
    rules: Rules, seats: Mapping[Colour, Player], limits: Limits, moves: tuple[Move, ...] = (), **fields: Any
) -> tuple[SavedGame, dict[Colour, Player]]:
    """A game of these players with an opening of ``moves``, and the bots in it by colour. ``limits`` are the people's,
    ``fields`` more of its record."""
    from arena.go.coords import Colour
    from arena.go.record import GameRecord
    from arena.people.saved_game import SavedGame

    black, white = (seats[colour].name for colour in Colour)
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    record = GameRecord(rules, moves, None, black, white, opening=len(moves), date=date, **fields)
    bots = {colour: seat for colour, seat in seats.items() if not seat.is_person}
    people = tuple(colour for colour in Colour if colour not in bots)
    players = tuple(seat.stored for seat in seats.values() if seat.name != GUEST)
    return SavedGame(record, people, limits, players=players), bots


def _person(registry: Registry, name: str | None) -> Player:
    """The player for a person of this name, the same one in every game; without a name, for the login's name or, where
    there is none, for nobody in particular. Raises ConfigError."""
    if name is None:
        with suppress(OSError, KeyError, ConfigError):
            return _person(registry, getpass.getuser())
        name = GUEST
    if re.fullmatch(r"\w[\w .'-]{0,39}", name) is None:
        raise ConfigError(f"'{name}' is not a name for a player; use up to 40 letters, digits, spaces and . - _ '")
    if name in {entry.name for entry in registry.entries}:
        raise ConfigError(f"'{name}' is a bot's name; take another with --as")
    human = registry.entry("human")
    return replace(human, name=name, settings={**human.settings, "name": name})


def _file_to_resume(results: Path, id: str | None) -> SavedGameFile:
    """The file of the game of this id, or of the unfinished one that was played last. Raises UserError."""
    from arena.people.saved_game import EVENT, SavedGameFile, is_held, saved_games

    if id is None:
        kept = [id for id, saved in saved_games(results) if saved.record.moves and not saved.is_over]
        id = next((id for id in reversed(kept) if not is_held(results, id)), None)
        if id is None:
            raise UserError(f"there is no unfinished game in {results / EVENT}; start one, as in: arena play alphago")
    return SavedGameFile.open(results, f"{EVENT}/{id:0>5}" if id.isdecimal() else id)


def rebuild_bots(
    saved: SavedGame, registry: Registry, say: Callable[[str], None]
) -> tuple[SavedGame, dict[Colour, Player]]:
    """The game with the bots that play it now, by their names in its file. Raises UserError when one can't be had, and
    for a game that is over."""
    from arena.go.coords import Colour
    from arena.people.saved_game import Help

    if saved.is_over:
        raise UserError(f"{saved.id} is over; 'arena games --event play' lists it")
    bots = {}
    for colour, identity in zip(Colour, (saved.record.black_player, saved.record.white_player), strict=True):
        if colour not in saved.people:
            bots[colour] = registry.resolve_stored(saved.name(colour)).checked(saved.size)
            if bots[colour].identity != identity and Help.OTHER_BOT not in saved.helps:
                say(f"{saved.name(colour)} has other settings or another net now; the game is unrated.")
                saved = replace(saved, helps=(*saved.helps, Help.OTHER_BOT))
    return saved, bots


# --- Playing ---


def prepare_bots(bots: Mapping[Colour, Player], rules: Rules, console: Console) -> dict[Colour, Opponent]:
    """The bots, ready to move. What a game needs is compiled by then: a compiler would run on somebody's clock, or
    leave a screen dead. Raises UserError for a bot that can't be had."""
    from arena.go.game import Game
    from arena.match.worker import warm_up
    from arena.people.counting import estimate_score
    from arena.people.session import Opponent
    from arena.report.progress import show_start

    opponents = {}
    with show_start(console):
        for colour, entry in bots.items():
            opponents[colour] = Opponent(entry.build(), entry.limits)
            if entry.bot_kind.boards > 1:
                warm_up(opponents[colour].bot, rules)
        estimate_score(Game(rules), playouts=2)
    return opponents


def play_session(session: GameSession, console: Console, plain: bool = False) -> bool:
    """Let people play on the full screen, or in ``plain`` lines and in a pipe. Returns when the game is over, or left,
    and whether another one is wanted. Ctrl-C raises KeyboardInterrupt."""
    from arena.report.play import show_plainly
    from arena.report.style import has_screen

    if has_screen(console) and not plain:
        from arena.tui.play_app import show_play

        return show_play(session, console)
    show_plainly(session, console, sys.stdin)
    return False


def play_people(event: Event, console: Console) -> Callable[[Pairing], GameRecord]:
    """Plays the games of an event that have a person in them, on this console. Who leaves one raises KeyboardInterrupt,
    as Ctrl-C does."""

    def play(pairing: Pairing) -> GameRecord:
        from arena.contract.bot import Limits
        from arena.go.coords import BLACK, WHITE
        from arena.people.session import GameSession

        rules, seats = event.terms.rules, {BLACK: event.players[pairing.black], WHITE: event.players[pairing.white]}
        time = next((seat.limits for seat in seats.values() if seat.is_person and seat.limits.time), Limits())
        known = {"id": pairing.id, "event": event.event, "seed": pairing.seed}
        saved, bots = begin_game(rules, seats, time, pairing.opening, **known)
        with GameSession(saved, prepare_bots(bots, rules, console)) as session:
            play_session(session, console)
        if not session.snapshot().is_over:
            raise KeyboardInterrupt
        return session.record()

    return play


def _adviser(bots: Mapping[Colour, Player], registry: Registry, size: int) -> Adviser | None:
    """Who gives hints: the bot that is played, but for one that errs like people, else a usual one that plays on this
    size."""
    from arena.people.adviser import Adviser

    judges = [bot for bot in bots.values() if bot.kind != HUMAN_LIKE]
    for name in ANALYSTS:
        with suppress(UserError):
            judges.append(registry.resolve(name).checked(size))
    return next((Adviser(entry.name, entry.build) for entry in judges if entry.bot_kind.analyses), None)


# --- Storing ---


def _leave_game(file: SavedGameFile, say: Callable[[str], None]) -> None:
    """Keep the file of a game that isn't over, unless no person has played."""
    saved = file.read()
    moves = len(saved.record.moves)
    if any(saved.record.mover(number) in saved.people for number in range(1, moves + 1)) and not saved.is_over:
        say(f"{file.id} is saved after move {moves} in {file.path}; resume it with: arena play --resume")
    elif not saved.is_over:
        file.path.unlink(missing_ok=True)
        say("You played no move, so nothing is saved.")


def store_finished_games(results: Path, say: Callable[[str], None]) -> set[str]:
    """Store the games that are over, also those that an earlier command had no time to store, or couldn't; the ids of
    all that are stored."""
    from arena.people.saved_game import EVENT, is_held, saved_games
    from arena.results.export import write_elo_csv
    from arena.results.store import Store, database

    stored: set[str] = set()
    if database(results).exists():
        with Store.of(results) as store:
            stored = store.ids(EVENT)
    over = {id: saved for id, saved in saved_games(results) if saved.is_over and id not in stored}
    games = {id: saved for id, saved in over.items() if not is_held(results, id)}
    if not games:
        return stored
    try:
        with Store.of(results, write=True) as store:
            store.add_players({player.identity: player for saved in games.values() for player in saved.players})
            store.append([saved.record for saved in games.values()])
            if any(not saved.record.unrated for saved in games.values()):
                write_elo_csv(store, results / "elo.csv")
    except StoreError as error:
        say(f"{', '.join(games)} is saved, and the next arena play will store it: {error}.")
        return stored
    for id, saved in games.items():
        counts = "unrated" if saved.record.unrated else "it counts for arena elo"
        say(f"{id} is stored ({counts}). To review it: arena analyze {id}")
        if not saved.record.unrated and any(player.kind == HUMAN_LIKE for player in saved.players):
            _say_ranks(saved, results, say)
    return stored | games.keys()


def _say_ranks(saved: SavedGame, results: Path, say: Callable[[str], None]) -> None:
    """At which rank the results of a game's person against bots of known rank are likeliest, and whom to play next."""
    from arena.go.ranks import rank_name
    from arena.people.saved_game import EVENT
    from arena.results.ranks import rank_by_results
    from arena.results.store import Store

    for name in map(saved.name, saved.people):
        with Store.of(results) as store:
            found = rank_by_results(store.games(event=EVENT, player=name), store.players(), name)
        if found is not None:
            say(f"{name}'s results over {plural(found.count, 'game')} fit {found}, 95 % interval in brackets.")
            say(f"An even opponent: arena play --rank {rank_name(found.rank)}")
