"""What is to be played: openings, pairings and the event that they belong to. Nothing is played here."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from random import Random

from arena import ConfigError
from arena.bot import Limits
from arena.go.game import Rules
from arena.go.moves import Move, symmetry_table
from arena.registry import Entry

Opening = tuple[Move, ...]


@dataclass(frozen=True, slots=True)
class Pairing:
    """One game to play. It depends on the event's settings only, so a resumed event plays the same games."""

    id: str
    number: int
    black: str
    white: str
    opening: Opening
    seed: int


@dataclass(frozen=True, slots=True)
class Match:
    """Two players, each opening with both colours.

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
        for name, value, least in (("games", self.games, 1), ("openings", self.openings, 0), ("plies", self.plies, 0)):
            if value < least:
                raise ConfigError(f"{value} {name} can't be played; it is at least {least}")
        if self.plies >= self.rules.move_limit:
            limit = self.rules.move_limit
            raise ConfigError(f"an opening of {self.plies} plies leaves no game; the move limit is {limit}")

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
            "rules": asdict(self.rules),
            "openings": self.openings,
            "plies": self.plies,
            "seed": self.seed,
            "limits": asdict(self.limits),
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
        pairs = (self.games + 1) // 2
        openings = draw_openings(self.rules, min(self.openings or pairs, pairs), self.plies, self.seed)
        pairings = []
        for number in range(self.games):
            black, white = (second, first) if number % 2 else (first, second)
            seed = int.from_bytes(hashlib.sha256(f"{self.seed}/{number}".encode()).digest()[:7], "big")
            opening = openings[number // 2 % len(openings)]
            pairings.append(Pairing(f"{self.event}/{number + 1:05d}", number, black, white, opening, seed))
        return pairings


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
