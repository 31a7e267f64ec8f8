"""Everybody rated together: the crosstable of an event, the league of all stored games. Nothing is printed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from arena import StoreError
from arena.events.batch import Batch
from arena.events.tally import Forfeit, Tally
from arena.ratings import Estimate, Ratings, Result, WinDrawLoss, rate

if TYPE_CHECKING:  # as in tally
    from arena.go.game import Ending
    from arena.go.record import Played
    from arena.results.store import Pool, Store


_IDENTITIES = ("black_player", "white_player")


@dataclass(frozen=True, slots=True)
class Surprise:
    """Two players whose result the ratings hardly explain. ``expected`` are the points that they give the first."""

    first: str
    second: str
    points: float
    games: int
    expected: float
    chance: float


class Crosstable:
    """Statistics of a tournament: a tally for each two players that have met.

    ``players`` are the names by identity, in the order in which they are shown; a game counts for who played it, under
    whatever name it did so.
    """

    def __init__(self, players: Mapping[str, str]):
        self.players = dict(players)
        self.games = 0
        self._tallies: dict[frozenset[str], Tally] = {}

    def add(self, games: Sequence[Played]) -> None:
        """Count games, best many at once. Raises ValueError when one is of others or unfinished."""
        games = Batch.of(games)
        met: dict[frozenset[str], list[int]] = {}
        for place, both in enumerate(map(frozenset, zip(*map(games.column, _IDENTITIES), strict=True))):
            met.setdefault(both, []).append(place)
        for both, places in met.items():
            some = games.take(places) if len(met) > 1 else games
            if not both <= self.players.keys():
                raise ValueError(f"game '{some[0].id}' is not one of {', '.join(self.players.values())}")
            names = frozenset(self.players[identity] for identity in both)
            tally = self._tallies.get(names) or Tally(*(name for name in self.players.values() if name in names))
            tally.add(some.renamed(self.players))
            self._tallies[names] = tally
            self.games += len(some)

    @property
    def tallies(self) -> tuple[Tally, ...]:
        """One for each two players that have met."""
        return tuple(self._tallies.values())

    @classmethod
    def of(cls, tally: Tally) -> Crosstable:
        """That of a match, whose players go by name."""
        table = cls({name: name for name in (tally.first, tally.second)})
        if tally.games:
            table.take(tally)
        return table

    def take(self, tally: Tally) -> None:
        """Take over what was counted of two players, who haven't met here."""
        self._tallies[frozenset((tally.first, tally.second))] = tally
        self.games += tally.games

    @property
    def lengths(self) -> list[int]:
        """The moves of each game, openings counted, the shortest first."""
        return sorted(length for tally in self._tallies.values() for length in tally.lengths.elements())

    def meetings(self, player: str, other: str | None = None) -> WinDrawLoss:
        """All games of a player, or those against one other, as the player saw them."""
        wins = draws = losses = 0
        for against in self.players.values() if other is None else (other,):
            tally = self._tallies.get(frozenset((player, against)))
            if tally is not None:
                counts = tally.results()
                draws += counts.draws
                wins += counts.wins if player == tally.first else counts.losses
                losses += counts.losses if player == tally.first else counts.wins
        return WinDrawLoss(wins, draws, losses)

    @property
    def black_points(self) -> float:
        """What Black took, whoever that was."""
        return sum(tally.black_points for tally in self._tallies.values())

    @property
    def forfeits(self) -> list[Forfeit]:
        return [forfeit for tally in self._tallies.values() for forfeit in tally.forfeits]

    @property
    def endings(self) -> list[tuple[Ending, int]]:
        """How games ended and how many, the most frequent first."""
        counts: Counter[Ending] = Counter()
        for tally in self._tallies.values():
            for ending in tally.endings:
                counts[ending] += tally.results(ending=ending).games
        return counts.most_common()

    @property
    def repeats(self) -> int:
        """How many games are identical to an earlier one of the same players."""
        return sum(tally.repeats for tally in self._tallies.values())

    def seconds_a_move(self, player: str) -> float | None:
        """What a player used for each of its own moves; None before the first."""
        spent = [tally.spent(player) for tally in self._tallies.values() if player in (tally.first, tally.second)]
        turns = sum(turns for _, turns in spent)
        return sum(seconds for seconds, _ in spent) / turns if turns else None

    @property
    def rated(self) -> list[Result]:
        """What the ratings are made of, between identities: Black's points from all distinct games."""
        identities = {name: identity for identity, name in self.players.items()}
        return [
            replace(result, black=identities[result.black], white=identities[result.white])
            for tally in self._tallies.values()
            for result in tally.rated
        ]

    def league(self) -> League | None:
        """Everybody rated together, as ``league`` does it; None without games."""
        results = self.rated
        return rate_all(results, self.players) if results else None

    def surprises(self, league: League, chance: float = 0.001) -> list[Surprise]:
        """The pairs of players whose result has less than this chance at the ratings, the least likely first."""
        ratings = league.ratings
        chances = ratings.surprise()
        names = [self.players[identity] for identity in ratings.players]
        found = []
        for i, first in enumerate(names):
            for j, second in enumerate(names[:i]):
                if chances[i, j] < chance:
                    numbers = float(ratings.points[i, j]), round(ratings.games[i, j]), float(ratings.expected[i, j])
                    points, games, expected = numbers
                    found.append(Surprise(first, second, points, games, expected, float(chances[i, j])))
        return sorted(found, key=lambda surprise: surprise.chance)


# --- The league ---


@dataclass(frozen=True, slots=True)
class Standing:
    """One line of the ratings. ``elo`` is relative to the anchor; ``score`` in [0, 1] is of all its rated games."""

    identity: str
    player: str
    elo: Estimate
    games: int
    score: float


@dataclass(frozen=True, slots=True, eq=False)
class League:
    """All players rated together, the strongest first. ``anchor`` is the player whose Elo is 0."""

    standings: tuple[Standing, ...]
    anchor: str
    ratings: Ratings


def league(
    store: Store, pool: Pool | None = None, *, anchor: str | None = None, event: str | None = None
) -> League | None:
    """Rate all players by the games of a pool (default: the one with the most games), identical ones once. Or by the
    games of one event. None without games.

    ``anchor`` is a name or identity; by default it is the weakest of the largest group whose members have all beaten
    each other, directly or through others. Raises StoreError for an anchor without games.
    """
    if pool is None and event is None:
        pool = next(iter(store.pools()), None)
    rows = store.result_rows(pool, event=event)
    try:
        results = [Result(row.black, row.white, row.black_points, row.games) for row in rows]
    except ValueError as error:
        raise StoreError(f"{store.path} is damaged ({error}); restore it from a copy") from error
    if not results:
        return None
    return rate_all(results, tell_apart(store.players()), anchor)


def rate_all(results: list[Result], known: Mapping[str, str], anchor: str | None = None) -> League:
    """Rate by results between identities; ``known`` are names by identity. Raises StoreError as ``league`` does."""
    free = rate(results)
    names = {identity: known.get(identity, identity) for identity in free.players}
    zero = max(free.components, key=len)[-1] if anchor is None else _find_anchor(anchor, names)
    ratings = rate(results, anchor=zero)
    games, points = ratings.games.sum(1), ratings.points.sum(1)
    standings = []
    for identity in ratings.ranking():
        index = ratings.players.index(identity)
        elo, score = ratings.estimate(identity), float(points[index] / games[index])
        standings.append(Standing(identity, names[identity], elo, round(games[index]), score))
    return League(tuple(standings), names[zero], ratings)


class Named(Protocol):
    """Who has a name and a code."""

    @property
    def name(self) -> str: ...
    @property
    def code(self) -> str: ...


def tell_apart(players: Mapping[str, Named]) -> dict[str, str]:
    """The names by identity. Those that several share have the beginning of their code behind them, as it can be typed,
    or where that doesn't tell them apart, of their identity."""
    shared = Counter(player.name for player in players.values())
    coded = Counter((player.name, player.code) for player in players.values())
    names = {}
    for identity, player in players.items():
        names[identity] = player.name
        if shared[player.name] > 1:
            is_hash = re.fullmatch("[0-9a-f]{12}", player.code) and coded[player.name, player.code] == 1
            names[identity] += f"#{player.code[:4]}" if is_hash else f" ({identity[:6]})"
    return names


def _find_anchor(anchor: str, names: dict[str, str]) -> str:
    found = [identity for identity, name in names.items() if anchor in (identity, name)]
    if not found:
        raise StoreError(f"the anchor '{anchor}' has no rated games; rated are {', '.join(sorted(names.values()))}")
    return found[0]


def player_ratings(store: Store) -> tuple[Pool | None, dict[str, Estimate]]:
    """The pool with the most games, and everybody's Elo in it by identity; pandas isn't loaded."""
    pool = next(iter(store.pools()), None)
    found = None if pool is None else league(store, pool)
    return pool, {} if found is None else {standing.identity: standing.elo for standing in found.standings}
