"""Who sits down to a game with a person, and on what terms: from what was typed to a game before its first move."""

from __future__ import annotations

import getpass
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from arena import ConfigError, plural
from arena.contract.settings import setting
from arena.players.config import first_given

if TYPE_CHECKING:
    from arena.contract.bot import Limits
    from arena.go.coords import Colour
    from arena.go.game import Rules
    from arena.go.record import GameRecord
    from arena.match.schedule import Event, Pairing
    from arena.people.saved_game import SavedGame
    from arena.people.session import GameSession, Opponent
    from arena.players.player import Player
    from arena.players.registry import Registry
    from arena.report.style import Console
    from arena.tui.game_app import Evaluate

COLOURS = ("black", "white")

GUEST = "guest"
"""Who plays without a name, and so without a rating."""


@dataclass(frozen=True, slots=True)
class GameOptions:
    """How a new game is to be played, as options of ``arena play``; None is what wasn't given."""

    color: str | None = setting(None, "Your colour: black (default) or white.", choices=COLOURS)
    size: int | None = setting(None, "Board size, 5 to 19 (default 9).")
    komi: float | None = setting(None, "Komi (default 7 on 9x9, 7.5 on larger boards, 0.5 with a handicap).")
    rules: str | None = setting(
        None,
        "Rules: chinese (default) or japanese, which mark dead stones after two passes; cgos or tromp-taylor, "
        "which count all stones as alive.",
    )
    handicap: int | None = setting(None, "Black's handicap stones, 2 to 9 (default none).")
    time: str | None = setting(
        None,
        "Clock for you and for a bot without limits: main=600 (seconds), main=300,byoyomi=30, or byoyomi=60,stones=5.",
    )
    seed: int | None = setting(None, "Random seed of the bot (default: a new one each time).")


def arrange_game(
    registry: Registry, entry: Player, name: str | None, given: GameOptions
) -> tuple[SavedGame, dict[Colour, Player]]:
    """A game before its first move, and the bots in it by colour. Raises UserError."""
    from datetime import UTC, datetime

    from arena.go.coords import BLACK, WHITE
    from arena.go.game import Rules, handicap_points
    from arena.go.record import GameRecord
    from arena.people.saved_game import EVENT, SavedGame

    limits, size = _read_clock(given.time), first_given(given.size, 9)
    person = _person(registry, _own_name(registry) if name is None else name)
    if entry.is_person:
        opponent = _person(registry, entry.settings.get("name") or GUEST)
        if opponent.name == person.name:
            raise ConfigError(f"both players are called {person.name}; name the second one: human:name=bob")
    else:
        opponent = entry.with_limits(limits).checked(size)
    rules = Rules.preset(first_given(given.rules, "chinese"), size, given.komi)
    colour, stones = WHITE if given.color == "white" else BLACK, given.handicap or 0
    if stones >= 1 and given.komi is None:
        rules = replace(rules, komi=0.5)
    setup = tuple(handicap_points(size, stones)) if stones not in (0, 1) else ()
    seats = {colour: person, colour.opponent: opponent}
    record = GameRecord(
        rules,
        (),
        None,
        black=seats[BLACK].name,
        white=seats[WHITE].name,
        black_player=_identity(seats[BLACK]),
        white_player=_identity(seats[WHITE]),
        setup=(tuple(sorted(setup)), ()),
        first=WHITE if setup else BLACK,
        event=EVENT,
        seed=first_given(given.seed, 0),
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
    )
    bots = {colour: seat for colour, seat in seats.items() if not seat.is_person}
    people = tuple(colour for colour in sorted(seats) if colour not in bots)
    players = tuple(seat.stored for seat in seats.values() if _identity(seat))
    return SavedGame(record, people, limits, players=players), bots


def read_source(path: Path, moves: int | None) -> GameRecord:
    """The first game of a file, cut after ``moves`` moves. Raises UserError."""
    from arena import RecordError, UserError
    from arena.go.collection import read_path
    from arena.go.record import GameRecord

    try:
        record = next((found for found in read_path(path) if isinstance(found, GameRecord)), None)
        if record is None:
            raise UserError(f"--from {path}: there is no game in it")
        if moves is not None and moves > len(record.moves):
            raise ConfigError(f"--move {moves}: the game in {path} has {plural(len(record.moves), 'move')}")
        record = replace(record, moves=record.moves[:moves], outcome=None)
        record.replay()
    except RecordError as error:
        raise UserError(f"--from: {error}") from error
    return record


def start_from(source: GameRecord, saved: SavedGame) -> SavedGame:
    """A game before its first move, begun in the position that another one came to."""
    from arena.people.saved_game import Help

    record = replace(
        saved.record,
        rules=source.rules,
        setup=source.setup,
        first=source.first,
        moves=source.moves,
        opening=len(source.moves),
    )
    return replace(saved, record=record, helps=(Help.POSITION,))


def build_opponents(bots: Mapping[Colour, Player], rules: Rules) -> dict[Colour, Opponent]:
    """The bots, ready to move: their kernels are compiled before any clock runs. Raises UserError for one that can't be
    had."""
    from arena.match.worker import warm_up
    from arena.people.session import Opponent

    opponents = {}
    for colour, entry in bots.items():
        opponents[colour] = Opponent(entry.build(), entry.limits)
        if entry.bot_kind.boards > 1:
            warm_up(opponents[colour].bot, rules)
    return opponents


def play_session(
    session: GameSession,
    console: Console,
    *,
    is_plain: bool = False,
    kept: Path | None = None,
    evaluate: Evaluate | None = None,
) -> bool:
    """Let people play in the way that suits where they are: on the full screen, or as lines where ``is_plain`` and in a
    pipe. Returns when the game is over, or left, and whether another one is wanted.

    ``kept`` is the game's file; ``evaluate`` is asked for a review after the end. Ctrl-C comes through as
    KeyboardInterrupt, a signal to end as SystemExit; whatever comes, the game is as the session has kept it.
    """
    from arena.report.plain_play import show_plainly
    from arena.report.style import has_screen

    if has_screen(console) and not is_plain:
        from arena.tui.play_app import show_play

        return show_play(session, console, kept, evaluate)
    show_plainly(session, console, sys.stdin, kept)
    return False


def play_people(event: Event, console: Console) -> Callable[[Pairing], GameRecord]:
    """Sits people down to their games of an event, which this console shows. Who leaves one raises KeyboardInterrupt,
    as Ctrl-C does."""

    def play(pairing: Pairing) -> GameRecord:
        from datetime import UTC, datetime

        from arena.contract.bot import Limits
        from arena.go.coords import Colour
        from arena.go.record import GameRecord
        from arena.people.saved_game import SavedGame
        from arena.people.session import GameSession

        names = dict(zip(Colour, (pairing.black, pairing.white), strict=True))
        seats = {colour: event.players[name] for colour, name in names.items()}
        bots = {colour: seat for colour, seat in seats.items() if not seat.is_person}
        people = tuple(colour for colour in Colour if colour not in bots)
        record = GameRecord(
            event.terms.rules,
            pairing.opening,
            None,
            black=pairing.black,
            white=pairing.white,
            id=pairing.id,
            event=event.event,
            seed=pairing.seed,
            opening=len(pairing.opening),
            date=datetime.now(UTC).strftime("%Y-%m-%d"),
        )
        time = next((seats[colour].limits for colour in people if seats[colour].limits.time), Limits())
        with GameSession(SavedGame(record, people, time), build_opponents(bots, event.terms.rules)) as session:
            play_session(session, console)
        if not session.snapshot().is_over:
            raise KeyboardInterrupt
        return session.record()

    return play


def _own_name(registry: Registry) -> str:
    """The login's, or nobody's in particular."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        return GUEST
    return GUEST if name in {entry.name for entry in registry.entries} or not _is_name(name) else name


def _is_name(name: str) -> bool:
    return re.fullmatch(r"\w[\w .'-]{0,39}", name) is not None


def _person(registry: Registry, name: str) -> Player:
    """The player that a person of this name is, in whatever game. Raises ConfigError."""
    if not _is_name(name):
        raise ConfigError(f"'{name}' is not a name for a player; use up to 40 letters, digits, spaces and . - _ '")
    if name in {entry.name for entry in registry.entries}:
        raise ConfigError(f"'{name}' is a bot's name; take another with --as")
    human = registry.entry("human")
    return replace(human, name=name, settings={**human.settings, "name": name})


def _identity(entry: Player) -> str:
    """What a player is rated under; empty for a person without a name."""
    return "" if entry.is_person and entry.name == GUEST else entry.identity


def _read_clock(text: str | None) -> Limits:
    """Of ``--time``. Raises ConfigError."""
    from arena.contract.bot import Limits

    if text is None:
        return Limits()
    try:
        limits = Limits.read(text, "--time")
    except ConfigError as error:
        raise ConfigError(f"{error}; a clock is written as main=600 (seconds) or main=300,byoyomi=30") from None
    if limits.time is None or limits.simulations is not None:
        raise ConfigError(
            "--time is a clock for the game, as in main=600 or main=300,byoyomi=30; for the time per move "
            "of a bot, use mcts@seconds=2"
        )
    return limits
