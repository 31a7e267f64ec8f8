"""What is to be played: openings, pairings and the event that they belong to. Nothing is played here."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from itertools import combinations
from random import Random
from typing import Protocol

from arena import ConfigError
from arena.bot import Limits
from arena.go.game import Rules
from arena.go.moves import Move, symmetry_table
from arena.registry import Entry

Opening = tuple[Move, ...]


@dataclass(frozen=True, slots=True)
class Pairing:
    """One game to play. It depends on the event's settings only, so a resumed event plays the same games.

    ``number`` counts the games of these two players from 0.
    """

    id: str
    number: int
    black: str
    white: str
    opening: Opening
    seed: int


class Event(Protocol):
    """A match or a tournament: who plays, by which rules and limits, and which games."""

    @property
    def event(self) -> str:
        """What its games are stored under."""

    @property
    def players(self) -> dict[str, Entry]:
        """Everybody under the names that the games carry."""

    @property
    def rules(self) -> Rules: ...
    @property
    def limits(self) -> Limits: ...

    @property
    def games(self) -> int:
        """How many games there are in all."""

    @property
    def settings(self) -> dict[str, object]:
        """What an event of this name always plays by."""

    def pairings(self) -> list[Pairing]:
        """All the games, in the order in which they are begun."""


@dataclass(frozen=True, slots=True)
class Match:
    """Two players, each opening with both colours: the smallest round robin.

    ``games`` may grow: the first games of a longer match are those of a shorter one. ``openings`` is how many different
    ones are used, in turn; 0 gives each pair of games its own. ``run`` counts fresh starts of the same match.
    """

    first: Entry
    second: Entry
    rules: Rules
    games: int
    openings: int = 0
    plies: int = 4
    seed: int = 1
    limits: Limits = field(default_factory=Limits)
    run: int = 1

    def __post_init__(self) -> None:
        _check_numbers(self.games, self.openings, self.plies, self.rules)

    @property
    def players(self) -> dict[str, Entry]:
        """The two players under the names that their games carry: a bot that meets itself is told apart."""
        second = self.second.name if self.second.name != self.first.name else f"{self.second.name} (2)"
        return {self.first.name: self.first, second: self.second}

    @property
    def settings(self) -> dict[str, object]:
        """All that decides which games are played, but for how many."""
        return {
            "players": [self.first.identity, self.second.identity],
            "names": [self.first.name, self.second.name],
            **_terms(self),
        }

    @property
    def key(self) -> str:
        """What the runs of this match have in common; a readable part and a digest of the settings."""
        digest = hashlib.sha256(json.dumps(self.settings, sort_keys=True).encode()).hexdigest()[:8]
        return f"{_slug(self.first.name)}-{_slug(self.second.name)}-{digest}"

    @property
    def event(self) -> str:
        return f"{self.key}-{self.run}"

    def pairings(self) -> list[Pairing]:
        """Game 2k and 2k + 1 share an opening with the colours swapped."""
        first, second = self.players
        openings = _openings_of(self, self.games)
        return list(_meetings(first, second, self.games, openings, self.event, str(self.seed)))


class Style(StrEnum):
    """Who meets whom in a tournament."""

    ROUND_ROBIN = "round robin"
    GAUNTLET = "gauntlet"


@dataclass(frozen=True, slots=True)
class Tournament:
    """Any number of players: everybody meets everybody, or in a gauntlet the first meets each of the rest.

    Each two play ``games_each`` games, every opening with both colours, the same openings as all others. Players may
    join later and ``games_each`` may grow: what two players play doesn't depend on who else takes part.
    """

    name: str
    entries: tuple[Entry, ...]
    rules: Rules
    games_each: int = 20
    style: Style = Style.ROUND_ROBIN
    openings: int = 0
    plies: int = 4
    seed: int = 1
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", self.name):
            raise ConfigError(f"'{self.name}' is no name for a tournament; use letters, digits, '-', '_' and '.'")
        if len(self.entries) < 2:
            raise ConfigError(f"a tournament takes at least 2 bots; {self.name} has {len(self.entries)}")
        for one, other in combinations(self.entries, 2):
            if one.name == other.name:
                raise ConfigError(f"'{one.name}' is given twice; a tournament takes each bot once")
            if one.identity == other.identity:
                raise ConfigError(f"'{one.name}' and '{other.name}' are the same bot; a tournament takes each once")
        _check_numbers(self.games_each, self.openings, self.plies, self.rules)

    @property
    def event(self) -> str:
        return self.name

    @property
    def players(self) -> dict[str, Entry]:
        return {entry.name: entry for entry in self.entries}

    @property
    def settings(self) -> dict[str, object]:
        """What stays when players join or games are added."""
        return {"tournament": self.name, **_terms(self)}

    @property
    def meetings(self) -> list[tuple[Entry, Entry]]:
        """Each two players that meet; neighbours in the list are different players as far as that goes."""
        if self.style is Style.GAUNTLET:
            return [(self.entries[0], other) for other in self.entries[1:]]
        return list(_everybody(self.entries))

    @property
    def games(self) -> int:
        return self.games_each * len(self.meetings)

    def pairings(self) -> list[Pairing]:
        """The first game of each two players, then the second of each, and so on."""
        openings = _openings_of(self, self.games_each)
        columns = []
        for pair in self.meetings:
            first, second = sorted(pair, key=lambda entry: entry.identity)  # the order of the list decides nothing
            digest = hashlib.sha256(f"{first.identity}/{second.identity}".encode()).hexdigest()[:8]
            seeds = f"{self.seed}/{digest}"
            columns.append(
                _meetings(first.name, second.name, self.games_each, openings, f"{self.name}/{digest}", seeds)
            )
        return [pairing for row in zip(*columns, strict=True) for pairing in row]


def _everybody(entries: Sequence[Entry]) -> Iterator[tuple[Entry, Entry]]:
    """All pairs, round by round: one player stays, the others walk around the table."""
    seats: list[Entry | None] = [*entries, *([None] if len(entries) % 2 else [])]
    half = len(seats) // 2
    for _ in range(len(seats) - 1):
        for one, other in zip(seats[:half], reversed(seats[half:]), strict=True):
            if one is not None and other is not None:
                yield one, other
        seats.insert(1, seats.pop())


def _check_numbers(games: int, openings: int, plies: int, rules: Rules) -> None:
    for name, value, least in (("games", games, 1), ("openings", openings, 0), ("plies", plies, 0)):
        if value < least:
            raise ConfigError(f"{value} {name} can't be played; it is at least {least}")
    if plies >= rules.move_limit:
        raise ConfigError(f"an opening of {plies} plies leaves no game; the move limit is {rules.move_limit}")


def _terms(event: Match | Tournament) -> dict[str, object]:
    """What all games of an event have in common."""
    return {
        "rules": asdict(event.rules),
        "openings": event.openings,
        "plies": event.plies,
        "seed": event.seed,
        "limits": asdict(event.limits),
    }


def _openings_of(event: Match | Tournament, games: int) -> list[Opening]:
    """What two players open their games with, in turn."""
    pairs = (games + 1) // 2
    return draw_openings(event.rules, min(event.openings or pairs, pairs), event.plies, event.seed)


def _meetings(
    first: str, second: str, games: int, openings: Sequence[Opening], prefix: str, seeds: str
) -> Iterator[Pairing]:
    """The games of two players: game 2k and 2k + 1 share an opening with the colours swapped."""
    for number in range(games):
        black, white = (second, first) if number % 2 else (first, second)
        seed = int.from_bytes(hashlib.sha256(f"{seeds}/{number}".encode()).digest()[:7], "big")
        opening = openings[number // 2 % len(openings)]
        yield Pairing(f"{prefix}/{number + 1:05d}", number, black, white, opening, seed)


def _slug(name: str) -> str:
    return "".join(sign if sign.isalnum() or sign in "-." else "-" for sign in name.split(":")[0])[:24]


def draw_openings(rules: Rules, count: int, plies: int, seed: int) -> list[Opening]:
    """``count`` openings of ``plies`` moves, none the same as another under the 8 symmetries.

    Every move is a random legal point on the third line or higher (lower on boards below 9x9, where that leaves hardly
    any) that neighbours no stone: nothing is in danger when the bots take over, and what an opening is worth to Black
    cancels over the two colours. Raises ConfigError when there are not that many.
    """
    if plies == 0:
        return [()] * count
    symmetries = symmetry_table(rules.size).tolist()
    seen: set[Opening] = set()
    drawn: list[Opening] = []
    random = Random(f"openings of {rules.size} by {seed}")
    failures = 0
    while len(drawn) < count:
        opening = _draw_opening(rules.size, plies, random)
        canonical = min(_stones(tuple(table[move] for move in opening)) for table in symmetries)
        if len(opening) == plies and canonical not in seen:
            seen.add(canonical)
            drawn.append(opening)
            failures = 0
        else:
            failures += 1
        if failures > 1000:
            raise ConfigError(
                f"there are only about {len(drawn)} different openings of {plies} plies on {rules.size}x{rules.size}; "
                f"use more plies (--plies), fewer games or --openings {max(1, len(drawn) // 2)}"
            )
    return drawn


def _stones(opening: Opening) -> Opening:
    """The position an opening leads to, whatever the order of its moves."""
    return (*sorted(opening[0::2]), *sorted(opening[1::2]))


def _draw_opening(size: int, plies: int, random: Random) -> Opening:
    """Fewer moves when there is no room left. Stones without neighbours are legal by any rules."""
    edge = min(2, (size - 5) // 2)
    free = [row * size + column for row in range(edge, size - edge) for column in range(edge, size - edge)]
    moves: list[Move] = []
    while free and len(moves) < plies:
        moves.append(random.choice(free))
        row, column = divmod(moves[-1], size)
        free = [point for point in free if abs(point // size - row) + abs(point % size - column) > 1]
    return tuple(moves)
