"""What is to be played: matches and tournaments as their pairings, and every kind of event as text. Nothing is played
here."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any, TypeVar

from arena import ConfigError
from arena.contract.adjudication import Adjudication
from arena.contract.bot import Limits
from arena.contract.settings import conceal
from arena.events.batch import Batch
from arena.events.ladder import Ladder
from arena.events.openings import Opening, draw_openings
from arena.events.pairing import (
    Event,
    Meeting,
    OfMany,
    OfMeetings,
    Pairing,
    Plan,
    check_field,
    check_name,
    meeting_of,
)
from arena.events.tally import Judge
from arena.events.terms import Terms, require
from arena.files import FOREIGN, check_keys
from arena.go.game import Rules
from arena.players.registry import Entry
from arena.ratings import Sprt

__all__ = [
    "Event",
    "Gate",
    "Ladder",
    "Match",
    "Opening",
    "Pairing",
    "Sprt",
    "Style",
    "Terms",
    "Tournament",
    "draw_openings",
    "event_from_json",
    "event_to_json",
]


@dataclass(frozen=True, slots=True)
class Gate:
    """What makes a match a gate: where its test shows that the first player is stronger, the net of ``entry`` gives way
    to its net. ``rows`` and ``minutes`` of training are what its manifest tells."""

    entry: str
    checkpoint: str
    rows: int = 0
    minutes: float = 0.0


@dataclass(frozen=True, slots=True)
class Match(OfMeetings):
    """Two players, each opening with both colours: the smallest round robin.

    ``games`` may grow: the first games of a longer match are those of a shorter one. ``run`` counts fresh
    starts of the same match. ``test`` ends it before all games are played; ``gate``, which has a test, says what that
    decides. A ``name`` makes another match of the same settings.
    """

    first: Entry
    second: Entry
    terms: Terms
    games: int
    run: int = 1
    test: Sprt | None = None
    gate: Gate | None = None
    name: str = ""

    def __post_init__(self) -> None:
        require("games", self.games, 1)
        if self.name:
            check_name("match", self.name)
        if self.gate is not None and self.test is None:
            raise ValueError(f"a gate of {self.gate.entry} needs a test")

    @property
    def players(self) -> dict[str, Entry]:
        """The two players under the names that their games carry: a bot that meets itself is told apart."""
        second = self.second.name if self.second.name != self.first.name else f"{self.second.name} (2)"
        return {self.first.name: self.first, second: self.second}

    @property
    def settings(self) -> dict[str, object]:
        """All that decides which games are played, but for how many; a gate's test is part of what it is."""
        gate: dict[str, object] = {}
        if self.gate is not None and self.test is not None:
            gate = {"gate": {"entry": self.gate.entry, **asdict(self.test)}}
        return {
            "players": [self.first.identity, self.second.identity],
            "names": [self.first.name, self.second.name],
            **self.terms.settings,
            **gate,
            **({"name": self.name} if self.name else {}),
        }

    @property
    def key(self) -> str:
        """What the runs of this match have in common; a readable part and a digest of the settings."""
        digest = hashlib.sha256(json.dumps(self.settings, sort_keys=True).encode()).hexdigest()[:8]
        if self.gate is not None:
            return f"gate-{_slug(self.gate.entry)}-{_slug(self.gate.checkpoint)}-{digest}"
        if self.name:
            return f"{self.name}-{digest}"
        return f"{_slug(self.first.name)}-{_slug(self.second.name)}-{digest}"

    @property
    def event(self) -> str:
        return f"{self.key}-{self.run}"

    def judge(self) -> Judge:
        """Who counts its games."""
        first, second = self.players
        return Judge(first, second, self.games, self.test)

    def plan(self, played: Iterable[Batch] = ()) -> Plan:
        """Where the games ``played`` decide the test, those that count are all there are."""
        first, second = self.players
        games = self.games
        if self.test is not None:
            judge = self.judge()
            for some in played:
                judge.add(some)
            games = judge.tally.games if judge.is_decided else games
        openings = self.terms.openings_for(self.games)
        return Plan([Meeting(first, second, self.event, str(self.terms.seed))], games, openings)


class Style(StrEnum):
    """Who meets whom in a tournament."""

    ROUND_ROBIN = "round robin"
    GAUNTLET = "gauntlet"


@dataclass(frozen=True, slots=True)
class Tournament(OfMany, OfMeetings):
    """Any number of players: everybody meets everybody, or in a gauntlet the first meets each of the rest.

    Each two play ``games_each`` games, every opening with both colours, the same openings as all others. Players may
    join later and ``games_each`` may grow: what two players play doesn't depend on who else takes part.
    """

    name: str
    entries: tuple[Entry, ...]
    terms: Terms
    games_each: int = 20
    style: Style = Style.ROUND_ROBIN

    def __post_init__(self) -> None:
        check_field("tournament", self.name, self.entries)
        require("games", self.games_each, 1)

    @property
    def settings(self) -> dict[str, object]:
        """What stays when players join or games are added."""
        return {"tournament": self.name, **self.terms.settings}

    @property
    def meetings(self) -> list[tuple[Entry, Entry]]:
        """Each two players that meet; neighbours in the list are different players as far as that goes."""
        if self.style is Style.GAUNTLET:
            return [(self.entries[0], other) for other in self.entries[1:]]
        return list(_everybody(self.entries))

    @property
    def games(self) -> int:
        return self.games_each * len(self.meetings)

    def plan(self, played: Iterable[Batch] = ()) -> Plan:
        """What is ``played`` changes nothing."""
        meetings = []
        for one, other in self.meetings:
            first, second, digest = meeting_of(one, other)
            meetings.append(Meeting(first.name, second.name, f"{self.name}/{digest}", f"{self.terms.seed}/{digest}"))
        return Plan(meetings, self.games_each, self.terms.openings_for(self.games_each))


def _everybody(entries: Sequence[Entry]) -> Iterator[tuple[Entry, Entry]]:
    """All pairs, round by round: one player stays, the others walk around the table."""
    seats: list[Entry | None] = [*entries, *([None] if len(entries) % 2 else [])]
    half = len(seats) // 2
    for _ in range(len(seats) - 1):
        for one, other in zip(seats[:half], reversed(seats[half:]), strict=True):
            if one is not None and other is not None:
                yield one, other
        seats.insert(1, seats.pop())


def _slug(name: str) -> str:
    return "".join(sign if sign.isalnum() or sign in "-." else "-" for sign in re.split("[:@]", name)[0])[:24]


# --- Events as text ---

T = TypeVar("T")
_KINDS: dict[str, type[Match | Tournament | Ladder]] = {"match": Match, "tournament": Tournament, "ladder": Ladder}


def event_to_json(event: Match | Tournament | Ladder) -> str:
    """The whole event as one line of JSON, its players with their settings, as far as those are stored."""
    kind = next(name for name, made in _KINDS.items() if isinstance(event, made))
    data = asdict(event)
    for player in [data.get("first"), data.get("second"), *data.get("entries", ())]:
        if player is not None:
            player["settings"] = conceal(player["settings"])
    return json.dumps({"event": kind, **data.pop("terms"), **data}, separators=(",", ":"))


def event_from_json(
    text: str, find_kind: Callable[[Entry], Entry] = lambda entry: entry
) -> Match | Tournament | Ladder:
    """The event that ``event_to_json`` wrote. Where its players' code is, only ``find_kind`` says, not the text:
    without it they can't be built. Raises ConfigError for any other text."""
    try:
        data = json.loads(text)
        made = _KINDS[data.pop("event")]
        read: dict[str, Callable[[Any], Any]] = {
            "rules": Rules.from_json,
            "adjudication": lambda value: _made(Adjudication, value),
            "book": _tuples,
            "style": Style,
            "first": lambda value: find_kind(_entry(value)),
            "second": lambda value: find_kind(_entry(value)),
            "entries": lambda value: tuple(find_kind(_entry(one)) for one in value),
            "test": lambda value: value and _made(Sprt, value),
            "gate": lambda value: value and _made(Gate, value),
        }
        if data.get("gate") and "elo0" in data["gate"]:  # as it was before any match could have a test
            data["test"] = {key: data["gate"].pop(key) for key in ("elo0", "elo1", "alpha", "beta")}
        terms = {wanted.name: data.pop(wanted.name) for wanted in fields(Terms) if wanted.name in data}
        _check(Terms, terms)
        _check(made, data)
        values, common = (
            {key: read[key](value) if key in read else value for key, value in some.items()} for some in (data, terms)
        )
        return made(terms=Terms(**common), **values)
    except FOREIGN as error:
        detail = f"{type(error).__name__}: {error}" if text else "there is none"
        raise ConfigError(f"the stored plan of an event can't be read ({detail}); play it again") from error


def _entry(data: dict[str, Any]) -> Entry:
    _check(Entry, data)
    given = data | {"settings": _tuples(data["settings"]), "factory": ""}
    if "limits" in given:
        given["limits"] = Limits(**given["limits"])
    return Entry(**given)


def _made(kind: type[T], data: dict[str, Any]) -> T:
    _check(kind, data)
    return kind(**data)


def _check(kind: type[Any], data: dict[str, Any]) -> None:
    """Whether each value has its type; what is missing has its default, or else the constructor says so."""
    every = [wanted.name for wanted in fields(kind)]
    check_keys(data, kind, "the stored plan of an event", error=ConfigError, hint="play it again", optional=every)


def _tuples(rows: Iterable[Iterable[Any]]) -> tuple[tuple[Any, ...], ...]:
    return tuple(tuple(row) for row in rows)
