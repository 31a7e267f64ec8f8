"""What an event plays: its players, its terms, and its games as a list of pairings in the order in which they begin."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from math import gcd
from typing import ClassVar, NamedTuple

from arena import ConfigError
from arena.contract.adjudication import Adjudication
from arena.go.game import Rules, handicap_points
from arena.go.record import Played
from arena.match.openings import Opening, count_openings, draw_opening
from arena.match.standings import PEOPLE, Standings
from arena.players.player import Player
from arena.ratings import Ratings, Sprt

ORDERED = 500  # drawn openings among which each two players of a tournament have an order of their own
MAX_GAMES = 1_000_000  # the most games of an event: the list of its pairings must fit into memory


@dataclass(frozen=True, slots=True)
class Pairing:
    """One game to play. It depends on the event's settings only, so a resumed event plays the same games.

    ``number`` counts the games of these two players from 0; ``stones`` are Black's handicap.
    """

    id: str
    number: int
    black: str
    white: str
    opening: Opening
    seed: int
    stones: Opening = ()


@dataclass(frozen=True, slots=True)
class Terms:
    """The rules of an event's games, their openings, and when they are adjudicated.

    ``openings`` is the number of distinct openings, used in turn; 0 gives each pair of games its own, or the next of
    the ``book``. A book that is used up is used again, or with ``then_drawn`` openings of ``plies`` moves are drawn.
    With ``own_openings`` (new tournaments), each two players take them in their own order. With a ``handicap``, the
    second player of a match has Black and that many stones in all games, and each game has a drawn opening of its own.
    A ``referee``, an engine, says after two passes which stones are dead; without one all count as alive.
    Raises ConfigError for values that can't be played.
    """

    rules: Rules
    openings: int = 0
    plies: int = 4
    seed: int = 1
    adjudication: Adjudication = field(default_factory=Adjudication)
    book: tuple[Opening, ...] = ()
    then_drawn: bool = False
    own_openings: bool = False
    handicap: int = 0
    referee: Player | None = None

    def __post_init__(self) -> None:
        if self.stones and (self.openings or self.book):
            raise ConfigError("with a handicap, each opening is drawn and played once; leave out --openings and --book")
        require_range("openings", self.openings, 0)
        require_range("plies", self.plies, 0)
        if self.plies >= self.rules.move_limit and not self.book:
            limit = self.rules.move_limit
            raise ConfigError(f"an opening of {self.plies} plies leaves no game; the move limit is {limit}")

    @property
    def settings(self) -> dict[str, object]:
        """Plain data. A book is listed by its digest, without the length of openings unless some may be drawn."""
        openings: dict[str, object] = {"plies": self.plies} if self.then_drawn or not self.book else {}
        if self.book:
            openings["book"] = hashlib.sha256(json.dumps(self.book).encode()).hexdigest()[:12]
        openings |= {"handicap": self.handicap} if self.handicap else {}
        rules, adjudication = asdict(self.rules), asdict(self.adjudication)
        referee = {} if self.referee is None else {"referee": f"{self.referee.name} ({self.referee.identity})"}
        own = {"seed": self.seed, "adjudication": adjudication, **referee}
        return {"rules": rules, "openings": self.openings, **openings, **own}

    @property
    def stones(self) -> Opening:
        """Black's handicap stones. Raises ConfigError for a number that has no fixed points on this size."""
        return tuple(handicap_points(self.rules.size, self.handicap)) if self.handicap else ()

    @property
    def games_each(self) -> int:
        """How many games in a row have the same opening."""
        return 1 if self.handicap else 2

    @property
    def limit(self) -> int | None:
        """The number of different openings, of which one may be met again; None where they don't end."""
        return self.openings or (None if self.then_drawn else len(self.book) or None)

    def distinct_openings(self, games: int) -> int:
        """How many openings two players use in turn in this many games."""
        pairs = -(-games // self.games_each)
        wanted = min(self.openings or pairs, pairs)
        return min(wanted, len(self.book)) if self.book and not self.then_drawn else wanted

    def opening(self, number: int, order: int | None = None) -> Opening:
        """The opening of this number, from 0, in one of many orders. Raises ConfigError if there are fewer."""
        if order is not None and self.openings == 0:
            among = len(self.book) or count_openings(self.rules, ORDERED, self.plies, self.seed)
            if number < among:
                step = next(step for step in range(1 + order // among % among, 2 * among + 1) if gcd(step, among) == 1)
                number = (order + number * step) % among
        if number < len(self.book):
            return self.book[number]
        return draw_opening(self.rules, number - len(self.book), self.plies, self.seed, self.stones)


class Series(NamedTuple):
    """Games between two players, by their ``numbers`` from 0. Without a handicap, games 2k and 2k + 1 have one opening
    and swapped colours. ``prefix`` begins their ids, ``seeds`` seeds them, ``order`` is the order of their openings."""

    players: tuple[str, str]
    prefix: str
    seeds: str
    numbers: range
    order: int | None = None


IsKnown = Callable[[str], bool]  # whether a game with this id is known; by default none is


def pairings_of(series: Sequence[Series], terms: Terms, games: int, is_known: IsKnown) -> list[Pairing]:
    """The first game of each series, then the second of each, and so on, without those whose id ``is_known``. ``games``
    is the number for each two players."""
    found, openings, stones = [], terms.distinct_openings(games), terms.stones
    for numbers in zip(*(one.numbers for one in series), strict=True):
        for one, number in zip(series, numbers, strict=True):
            id = f"{one.prefix}/{number + 1:05d}"
            if not is_known(id):
                black, white = one.players[::-1] if number % 2 or stones else one.players
                seed = int.from_bytes(hashlib.sha256(f"{one.seeds}/{number}".encode()).digest()[:7], "big")
                opening = terms.opening(number // terms.games_each % openings, one.order)
                found.append(Pairing(id, number, black, white, opening, seed, stones))
    return found


@dataclass(frozen=True, slots=True)
class Gate:
    """Makes a match a gate: if its test accepts the first player, its net replaces that of ``entry``."""

    entry: str
    checkpoint: str


@dataclass(frozen=True, slots=True)
class Match:
    """Two players, each opening with both colours, or with handicap stones for the second one.

    ``games`` may grow, and a longer match begins with the games of a shorter one; ``grown`` says that games were played
    before. ``run`` counts fresh starts. ``test`` may end the match early; ``gate`` is what the test decides. A ``name``
    makes another match of the same settings.
    """

    first: Player
    second: Player
    terms: Terms
    games: int
    run: int = 1
    test: Sprt | None = None
    gate: Gate | None = None
    name: str = ""
    grown: bool = False

    def __post_init__(self) -> None:
        require_range("games", self.games, 1)
        if self.name:
            check_name("match", self.name)

    @property
    def players(self) -> dict[str, Player]:
        """A bot that meets itself gets a second name."""
        second = self.second.name if self.second.name != self.first.name else f"{self.second.name} (2)"
        return {self.first.name: self.first, second: self.second}

    @property
    def settings(self) -> dict[str, object]:
        """All that decides which games are played, except their number. A gate is one event for two players and rules.
        Its seed, openings and test don't count, so a net can't be tried again until it is lucky."""
        players, terms = {"players": [self.first.identity, self.second.identity]}, self.terms.settings
        if self.gate is not None:
            kept: dict[str, object] = {key: terms[key] for key in ("rules", "adjudication", "referee") if key in terms}
            return {**players, **kept, "gate": {"entry": self.gate.entry}}
        name = {"name": self.name} if self.name else {}
        return {**players, "names": [self.first.name, self.second.name], **terms, **name}

    @property
    def key(self) -> str:
        """The common beginning of the ids of this match's runs: readable words and a digest of the settings."""
        words = self.name or f"{_slug(self.first.name)}-{_slug(self.second.name)}"
        if self.gate is not None:
            words = f"gate-{_slug(self.gate.entry)}-{_slug(self.gate.checkpoint)}"
        return f"{words}-{hashlib.sha256(json.dumps(self.settings, sort_keys=True).encode()).hexdigest()[:8]}"

    @property
    def event(self) -> str:
        return f"{self.key}-{self.run}"

    def is_enough(self, ratings: Ratings) -> bool:
        """Whether the event ends at these ratings, before all games are played."""
        return False

    def standings(self) -> Standings:
        return Standings({name: name for name in self.players}, self.event, self, is_match=True)

    def pairings(self, played: Iterable[Played] = (), is_known: IsKnown = lambda id: False) -> list[Pairing]:
        return pairings_of(self.series(played), self.terms, self.games, is_known)

    def series(self, played: Iterable[Played] = ()) -> list[Series]:
        """All games. If the games ``played`` decide the test, only those that count."""
        first, second = self.players
        standings = self.standings()
        if standings.tests:
            standings.add(played)
        games = standings.games if standings.is_decided else self.games
        return [Series((first, second), self.event, str(self.terms.seed), range(games))]


class Style(StrEnum):
    """Who meets whom in a tournament."""

    ROUND_ROBIN = "round robin"
    GAUNTLET = "gauntlet"


@dataclass(frozen=True, slots=True)
class OpenEvent:
    """An event of any number of players, which others may join later: what two players play doesn't depend on who else
    takes part. ``grown`` says that its number of games was raised when some were played."""

    name: str
    entries: tuple[Player, ...]
    terms: Terms
    grown: bool = field(default=False, kw_only=True)
    test: ClassVar[Sprt | None] = None

    @property
    def event(self) -> str:
        return self.name

    @property
    def players(self) -> dict[str, Player]:
        return {player.name: player for player in self.entries}

    def standings(self) -> Standings:
        names = {player.identity: name for name, player in self.players.items()}
        return Standings(names, self.event, self)  # type: ignore[arg-type]  # each kind of event has its own games

    def is_enough(self, ratings: Ratings) -> bool:
        """Whether the event ends at these ratings, before all games are played."""
        return False

    def check_players(self, what: str) -> None:
        """Raise ConfigError for a name that can't be an event's, fewer than two bots, or one that is there twice."""
        check_name(what, self.name)
        if len(self.entries) < 2:
            raise ConfigError(f"a {what} takes at least 2 bots; {self.name} has {len(self.entries)}")
        known: dict[str, Player] = {}
        for other in self.entries:
            one = known.get(other.name) or known.get(other.identity)
            if one is not None:
                raise ConfigError(f"'{one.name}' and '{other.name}' are the same bot; a {what} takes each once")
            known |= {other.name: other, other.identity: other}

    def series_between(self, one: Player, other: Player, numbers: range, round: str = "") -> Series:
        """Games of two players, which depend on these two alone."""
        first, second = sorted((one, other), key=lambda player: player.identity)
        digest = pair_digest(one, other)
        order = int(digest, 16) if self.terms.own_openings else None
        names, prefix, seeds = (first.name, second.name), f"{self.name}/{round}{digest}", f"{self.terms.seed}/{digest}"
        return Series(names, prefix, seeds, numbers, order)


@dataclass(frozen=True, slots=True)
class Tournament(OpenEvent):
    """A round robin, or a gauntlet, in which the first player meets each of the others.

    Each two play ``games_each`` games, every opening with both colours. ``games_each`` may grow.
    """

    games_each: int = 20
    style: Style = Style.ROUND_ROBIN

    def __post_init__(self) -> None:
        self.check_players("tournament")
        require_range("games", self.games_each, 1)
        require_range("games in all", self.games, 1)

    @property
    def settings(self) -> dict[str, object]:
        """What stays when players join or games are added."""
        return {"tournament": self.name, **self.terms.settings}

    @property
    def matchups(self) -> list[tuple[Player, Player]]:
        """Each two players that meet; neighbours in the list share no player where that is possible."""
        if self.style is Style.GAUNTLET:
            return [(self.entries[0], other) for other in self.entries[1:]]
        return list(_round_robin(self.entries))

    @property
    def games(self) -> int:
        return self.games_each * len(self.matchups)

    def pairings(self, played: Iterable[Played] = (), is_known: IsKnown = lambda id: False) -> list[Pairing]:
        return pairings_of(self.series(), self.terms, self.games_each, is_known)

    def series(self, played: Iterable[Played] = ()) -> list[Series]:
        return [self.series_between(*both, range(self.games_each)) for both in self.matchups]


def _round_robin(entries: Sequence[Player]) -> Iterator[tuple[Player, Player]]:
    """All pairs, round by round, by the circle method: one player stays, the others move on by one seat."""
    seats: list[Player | None] = [*entries, *([None] if len(entries) % 2 else [])]
    half = len(seats) // 2
    for _ in range(len(seats) - 1):
        for one, other in zip(seats[:half], reversed(seats[half:]), strict=True):
            if one is not None and other is not None:
                yield one, other
        seats.insert(1, seats.pop())


def _slug(name: str) -> str:
    words = "".join(sign if sign.isalnum() or sign in "-." else "-" for sign in re.split("[:@]", name)[0])
    return words.lstrip("-.")[:24] or "bot"  # an id that begins with "-" would be read as an option


def pair_digest(one: Player, other: Player) -> str:
    """The part of a game's id that names its two players; their order doesn't matter."""
    first, second = sorted((one.identity, other.identity))
    return hashlib.sha256(f"{first}/{second}".encode()).hexdigest()[:8]


def require_range(what: str, value: int, low: int) -> None:
    """Raise ConfigError for fewer than ``low`` or more than ``MAX_GAMES``."""
    if not low <= value <= MAX_GAMES:
        bound = f"at least {low}" if value < low else f"at most {MAX_GAMES}"
        raise ConfigError(f"{value} {what} can't be played; give {bound}")


def check_name(what: str, name: str) -> None:
    """Raise ConfigError for a name that can't be an event's."""
    if name == PEOPLE or not re.fullmatch(r"[A-Za-z0-9][\w.-]*", name):
        hint = f"use letters, digits, '-', '_' and '.', and not '{PEOPLE}', which is for games with people"
        raise ConfigError(f"'{name}' is not a name for a {what}; {hint}")
