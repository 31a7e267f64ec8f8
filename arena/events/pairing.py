"""One game to play, and what all events have in common: who plays, by which rules, which games. No kind of event."""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Protocol

from arena import ConfigError
from arena.events.openings import Opening
from arena.events.standings import PEOPLE as PEOPLE
from arena.events.terms import Terms
from arena.go.record import Played
from arena.players.registry import Entry


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
    """A match, a tournament or a ladder: who plays, on which terms, and which games."""

    @property
    def event(self) -> str:
        """What its games are stored under."""

    @property
    def players(self) -> dict[str, Entry]:
        """Everybody under the names that the games carry."""

    @property
    def terms(self) -> Terms: ...

    @property
    def games(self) -> int:
        """How many games there are in all, at most."""

    @property
    def settings(self) -> dict[str, object]:
        """What an event of this name always plays by."""

    def pairings(self, played: Iterable[Played] = ()) -> list[Pairing]:
        """All the games that can be planned now, in the order in which they are begun.

        ``played`` are the event's games so far. When all that was planned is among them, a further call may plan more;
        the event is over when it doesn't.
        """

    def course(self, played: Iterable[Sequence[Played]]) -> Course:
        """The event before its first game; ``played`` are the games that are going to be added to it at once."""


class Course(Protocol):
    """An event under way: told of its games, it knows which are to be played next."""

    def add(self, games: Sequence[Played]) -> list[Played]:
        """Take in games that were played; returns those that are of the event as it is planned now."""

    def missing(self) -> Iterable[Pairing]:
        """What can be played now; the event is over when that is nothing."""


class FixedCourse:
    """The course of an event whose games are all planned in advance. It keeps one byte per game."""

    def __init__(self, games: Sequence[Pairing], place: Callable[[str], int | None] | None = None):
        """``place`` gives a game's number by its id, None for a foreign id (default: a lookup table)."""
        self._games = games
        self._place = place or {pairing.id: place for place, pairing in enumerate(games)}.get
        self._missing = bytearray(b"\1") * len(games)

    def add(self, games: Sequence[Played]) -> list[Played]:
        taken = []
        for game in games:
            place = self._place(game.id)
            if place is not None and self._missing[place]:
                self._missing[place] = 0
                taken.append(game)
        return taken

    def missing(self) -> Iterator[Pairing]:
        place = self._missing.find(1)
        while place >= 0:
            yield self._games[place]
            place = self._missing.find(1, place + 1)


@dataclass(frozen=True, slots=True)
class Meeting:
    """Two players who meet time and again: what the ids of their games begin with, and what their seeds come from."""

    first: str
    second: str
    prefix: str
    seeds: str

    def game(self, number: int, openings: Sequence[Opening]) -> Pairing:
        """Game 2k and 2k + 1 share an opening with the colours swapped."""
        black, white = (self.second, self.first) if number % 2 else (self.first, self.second)
        seed = int.from_bytes(hashlib.sha256(f"{self.seeds}/{number}".encode()).digest()[:7], "big")
        opening = openings[number // 2 % len(openings)]
        return Pairing(f"{self.prefix}/{number + 1:05d}", number, black, white, opening, seed)


class Plan(Sequence[Pairing]):
    """The first game of each meeting, then the second of each, and so on; each is made when it is asked for."""

    def __init__(self, meetings: Sequence[Meeting], games_each: int, openings: Sequence[Opening]):
        self._meetings = meetings
        self._columns = {meeting.prefix: column for column, meeting in enumerate(meetings)}
        self._rows = games_each
        self._openings = openings

    def __len__(self) -> int:
        return self._rows * len(self._meetings)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[one] for one in range(len(self))[place]]
        number, column = divmod(range(len(self))[place], len(self._meetings))
        return self._meetings[column].game(number, self._openings)

    def place(self, id: str) -> int | None:
        """Where the game of this id stands; None when it isn't there."""
        prefix, _, digits = id.rpartition("/")
        column = self._columns.get(prefix)
        if column is None or not digits.isdecimal() or not 5 <= len(digits) < 20:
            return None
        number = int(digits)
        return (number - 1) * len(self._meetings) + column if 1 <= number <= self._rows else None


class Planned:
    """What the events have in common whose games are all planned before the first."""

    __slots__ = ()

    def course(self: Event, played: Iterable[Sequence[Played]]) -> FixedCourse:
        """All the games."""
        return FixedCourse(self.pairings())


class OfMeetings(ABC):
    """What the events have in common in which everybody has as many games with each other that he meets."""

    __slots__ = ()

    @abstractmethod
    def plan(self, played: Iterable[Sequence[Played]] = ()) -> Plan:
        """All the games; ``played`` are those so far."""

    def pairings(self, played: Iterable[Played] = ()) -> list[Pairing]:
        """All the games, in the order in which they are begun."""
        return list(self.plan([[*played]]))

    def course(self, played: Iterable[Sequence[Played]]) -> FixedCourse:
        """All the games, none of them made yet."""
        plan = self.plan(played)
        return FixedCourse(plan, plan.place)


class OfMany:
    """What the events of any number of players have in common: they are called by their name."""

    __slots__ = ()
    name: str
    entries: tuple[Entry, ...]

    @property
    def event(self) -> str:
        return self.name

    @property
    def players(self) -> dict[str, Entry]:
        return {entry.name: entry for entry in self.entries}


def meeting_of(one: Entry, other: Entry) -> tuple[Entry, Entry, str]:
    """Two players in an order that doesn't depend on any list, and a digest of who meets."""
    first, second = sorted((one, other), key=lambda entry: entry.identity)
    return first, second, hashlib.sha256(f"{first.identity}/{second.identity}".encode()).hexdigest()[:8]


def check_name(what: str, name: str) -> None:
    """Raise ConfigError for a name that can't be an event's."""
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", name):
        raise ConfigError(f"'{name}' is not a name for a {what}; use letters, digits, '-', '_' and '.'")
    if name == PEOPLE:
        raise ConfigError(f"'{name}' is what games of people are stored under; take another name for the {what}")


def check_field(what: str, name: str, entries: Sequence[Entry]) -> None:
    """Raise ConfigError for a name that can't be, fewer than two bots, or one that is there twice."""
    check_name(what, name)
    if len(entries) < 2:
        raise ConfigError(f"a {what} takes at least 2 bots; {name} has {len(entries)}")
    for one, other in combinations(entries, 2):
        if one.name == other.name:
            raise ConfigError(f"'{one.name}' is given twice; a {what} takes each bot once")
        if one.identity == other.identity:
            raise ConfigError(f"'{one.name}' and '{other.name}' are the same bot; a {what} takes each once")
