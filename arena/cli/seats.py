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
from arena.players.tables import first_given

if TYPE_CHECKING:
    from arena.contract.bot import Limits
    from arena.events.pairing import Event, Pairing
    from arena.go.game import Rules
    from arena.go.moves import Colour
    from arena.go.record import Record
    from arena.people.fair import Terms
    from arena.people.kifu import Kifu
    from arena.people.sitting import Opponent
    from arena.players.registry import Entry, Registry
    from arena.screen.board import Theme
    from arena.screen.plain_play import Lines
    from arena.screen.style import Console

COLOURS = ("black", "white", "nigiri")

GUEST = "guest"
"""Who plays without a name, and so without a rating."""


@dataclass(frozen=True, slots=True)
class Wish:
    """How a new game is to be played, as options of ``arena play``; None is what wasn't given."""

    color: str | None = setting(None, "Your colour: black (default), white, or nigiri (random).", choices=COLOURS)
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
    seed: int | None = setting(None, "Random seed of nigiri and of the bot (default: a new one each time).")
    fair: bool = False


def arranged(
    registry: Registry, entry: Entry, name: str | None, wish: Wish, results: Path, say: Callable[[str], None]
) -> tuple[Kifu, dict[Colour, Entry]]:
    """A game before its first move, and the bots in it by colour. Raises UserError."""
    from datetime import UTC, datetime

    from arena.go.game import Rules, handicap_points
    from arena.go.moves import BLACK, WHITE
    from arena.go.record import Record
    from arena.people.kifu import EVENT, Kifu

    limits, size = _read_clock(wish.time), first_given(wish.size, 9)
    person = _person(registry, _own_name(registry) if name is None else name)
    if entry.is_person:
        opponent = _person(registry, dict(entry.settings).get("name") or GUEST)
        if opponent.name == person.name:
            raise ConfigError(f"both players are called {person.name}; name the second one: human:name=bob")
    else:
        opponent = entry.with_limits(limits).checked(size)
    rules = Rules.preset(first_given(wish.rules, "chinese"), size, wish.komi)
    colour, stones = _colour(wish, person, opponent, say), wish.handicap or 0
    if wish.fair:
        colour, terms = _fair(results, person, opponent, rules, wish, say)
        stones, rules = terms.handicap, replace(rules, komi=terms.komi)
    elif stones >= 1 and wish.komi is None:
        rules = replace(rules, komi=0.5)
    setup = tuple(handicap_points(size, stones)) if stones not in (0, 1) else ()
    seats = {colour: person, colour.opponent: opponent}
    record = Record(
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
        seed=first_given(wish.seed, 0),
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
    )
    bots = {colour: seat for colour, seat in seats.items() if not seat.is_person}
    people = tuple(colour for colour in sorted(seats) if colour not in bots)
    players = tuple(seat.player for seat in seats.values() if _identity(seat))
    return Kifu(record, people, limits, players=players), bots


def opened(path: Path, moves: int | None) -> Record:
    """The first game of a file, cut after ``moves`` moves. Raises UserError."""
    from arena import RecordError, UserError
    from arena.go.collection import read_path
    from arena.go.record import Record

    try:
        record = next((found for found in read_path(path) if isinstance(found, Record)), None)
        if record is None:
            raise UserError(f"--from {path}: there is no game in it")
        if moves is not None and moves > len(record.moves):
            raise ConfigError(f"--move {moves}: the game in {path} has {plural(len(record.moves), 'move')}")
        record = replace(record, moves=record.moves[:moves], outcome=None)
        record.replay()
    except RecordError as error:
        raise UserError(f"--from: {error}") from error
    return record


def begun_from(source: Record, kifu: Kifu) -> Kifu:
    """A game before its first move, begun in the position that another one came to."""
    from arena.people.kifu import Help

    record = replace(
        kifu.record,
        rules=source.rules,
        setup=source.setup,
        first=source.first,
        moves=source.moves,
        opening=len(source.moves),
    )
    return replace(kifu, record=record, helps=(Help.POSITION,))


def opponents_of(bots: Mapping[Colour, Entry], rules: Rules) -> dict[Colour, Opponent]:
    """The bots, ready to move: their kernels are compiled before any clock runs. Raises UserError for one that can't be
    had."""
    from arena.events.worker import warm_up
    from arena.people.sitting import Opponent

    opponents = {}
    for colour, entry in bots.items():
        opponents[colour] = Opponent(entry.build(), entry.limits)
        if entry.bot_kind.boards > 1:
            warm_up(opponents[colour].bot, rules)
    return opponents


def seat_at(event: Event, console: Console, theme: Theme) -> Callable[[Pairing], Record]:
    """Sits people down to their games of an event, which this console shows. Who leaves one raises KeyboardInterrupt,
    as Ctrl-C does."""
    lines: Lines | None = None

    def play(pairing: Pairing) -> Record:
        from datetime import UTC, datetime

        from arena.contract.bot import Limits
        from arena.go.moves import Colour
        from arena.go.record import Record
        from arena.people.kifu import Kifu
        from arena.people.sitting import Sitting
        from arena.screen.plain_play import Lines
        from arena.screen.play import Look, sit_down

        nonlocal lines
        lines = lines or Lines(sys.stdin)
        names = dict(zip(Colour, (pairing.black, pairing.white), strict=True))
        seats = {colour: event.players[name] for colour, name in names.items()}
        bots = {colour: seat for colour, seat in seats.items() if not seat.is_person}
        people = tuple(colour for colour in Colour if colour not in bots)
        record = Record(
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
        with Sitting(Kifu(record, people, time), opponents_of(bots, event.terms.rules)) as sitting:
            sit_down(sitting, console, lines, Look(theme=theme))
        if not sitting.snapshot().is_over:
            raise KeyboardInterrupt
        return sitting.record()

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


def _person(registry: Registry, name: str) -> Entry:
    """The player that a person of this name is, in whatever game. Raises ConfigError."""
    if not _is_name(name):
        raise ConfigError(f"'{name}' is not a name for a player; use up to 40 letters, digits, spaces and . - _ '")
    if name in {entry.name for entry in registry.entries}:
        raise ConfigError(f"'{name}' is a bot's name; take another with --as")
    human = registry.entry("human")
    return replace(human, name=name, settings=tuple((dict(human.settings) | {"name": name}).items()))


def _identity(entry: Entry) -> str:
    """What a player is rated under; empty for a person without a name."""
    return "" if entry.is_person and entry.name == GUEST else entry.identity


def _read_clock(text: str | None) -> Limits:
    """Of ``--time``. Raises ConfigError."""
    from arena.contract.bot import Limits

    if text is None:
        return Limits()
    limits = Limits.read(text, "--time")
    if limits.time is None or limits.simulations is not None:
        raise ConfigError(
            "--time is a clock for the game, as in main=600 or main=300,byoyomi=30; for the time per move "
            "of a bot, use mcts@seconds=2"
        )
    return limits


def _colour(wish: Wish, person: Entry, opponent: Entry, say: Callable[[str], None]) -> Colour:
    """The person's."""
    from random import Random

    from arena.go.moves import BLACK, WHITE
    from arena.people.fair import Nigiri

    if wish.color != "nigiri":
        return WHITE if wish.color == "white" else BLACK
    if wish.fair or (wish.handicap or 0) > 0:
        raise ConfigError("nigiri is for even games; with a handicap, use --color black or white")
    drawn = Nigiri.draw(Random(wish.seed))
    guess = "odd" if drawn.guessed_odd else "even"
    plays = "Black" if drawn.is_right else "White"
    say(f"Nigiri: {opponent.name} took {drawn.stones} stones and {person.name} guessed {guess}, so plays {plays}.")
    return drawn.colour


def _fair(
    results: Path, person: Entry, opponent: Entry, rules: Rules, wish: Wish, say: Callable[[str], None]
) -> tuple[Colour, Terms]:
    """The person's colour, and what makes the game even, by the ratings on this size. Raises ConfigError."""
    from arena.go.moves import BLACK, WHITE
    from arena.people.fair import fair_terms

    given = {"--color": wish.color, "--handicap": wish.handicap, "--komi": wish.komi}
    typed = [option for option, value in given.items() if value is not None]
    if typed:
        raise ConfigError(f"--fair chooses colour, handicap and komi; leave out {typed[0]}, or --fair")
    gap, words = _gap(results, opponent, person, rules.size)
    say(words)
    if not gap:
        return BLACK, fair_terms(0.0, rules)
    terms = fair_terms(abs(gap), rules)
    weaker, stronger = (person, opponent) if gap >= 0 else (opponent, person)
    stones = f"{terms.handicap} stones" if terms.handicap else "no stones"
    say(
        f"Fair: {weaker.name} plays Black with {stones}, and komi is {terms.komi:g}; that is worth {terms.gap:.0f} Elo "
        f"against {stronger.name} on {rules.size}x{rules.size}."
    )
    return (BLACK if gap >= 0 else WHITE), terms


def _gap(results: Path, opponent: Entry, person: Entry, size: int) -> tuple[float, str]:
    """How many Elo the opponent is above the person by the games on this size, 0 where they don't tell; in words, too.

    Where there is no estimate but an end of an interval, that is taken: it is the careful guess.
    """
    from arena.results.league import league
    from arena.results.store import Store, database

    found, where = None, f"on {size}x{size}"
    rated: set[str] = set()
    if database(results).exists():
        with Store.of(results) as store:
            for pool in [pool for pool in store.pools() if pool.size == size]:
                found = league(store, pool)
                players = set() if found is None else set(found.ratings.players)
                rated |= players
                if {person.identity, opponent.identity} <= players:
                    where = f"on {pool}"
                    break
                found = None
    for entry in (person, opponent):
        if entry.identity not in rated:
            return 0.0, f"{entry.name} has no rated games {where} yet, so the game is even."
    if found is None:
        return 0.0, f"{person.name} and {opponent.name} have no games by the same rules {where}, so the game is even."
    estimate = found.ratings.difference(opponent.identity, person.identity)
    known = (estimate.value, estimate.interval.low, estimate.interval.high)
    gap = next((value for value in known if value is not None), None)
    if gap is None:
        return (
            0.0,
            f"No games {where} connect {opponent.name} and {person.name}, so the game is even.",
        )
    stronger, weaker = (opponent, person) if gap >= 0 else (person, opponent)
    estimate = found.ratings.difference(stronger.identity, weaker.identity)
    return gap, f"By the games {where}, {stronger.name} is {estimate} Elo above {weaker.name}."
