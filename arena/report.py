"""What stored games add up to: tallies, crosstables, the league's ratings, frames and CSV. Nothing is printed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from arena import StoreError
from arena.go.moves import BLACK, WHITE, Colour
from arena.ratings import Comparison, Counts, Estimate, PairCounts, Ratings, Result, WinDrawLoss, compare, rate

# pandas, and what pulls in the compiler, is imported where it is used: "arena bots" needs ratings only.
if TYPE_CHECKING:
    import pandas as pd

    from arena.go.game import Ending
    from arena.go.record import Record
    from arena.store import Store


# --- A match ---


@dataclass(frozen=True, slots=True)
class Forfeit:
    """A game that a player lost by a fault of its own, and what went wrong in a line."""

    id: str
    ending: Ending
    reason: str


class Tally:
    """What a match's records add up to, as its first player sees them.

    Identical games (the same players, colours and moves up to symmetry) count once in the Elo, but in full elsewhere.
    """

    def __init__(self, first: str, second: str):
        self.first = first
        self.second = second
        self.forfeits: list[Forfeit] = []
        self.moves = 0  # openings counted
        self._results: Counter[tuple[Colour, Ending, float]] = Counter()  # the first player's colour, ending and points
        self._seconds = {first: 0.0, second: 0.0}
        self._turns = {first: 0, second: 0}
        self._distinct: dict[bytes, tuple[Colour, float]] = {}  # the first player's, by the digest of the game
        self._half_pairs: dict[tuple[str, int], tuple[bytes, float]] = {}  # games whose twin is still to come
        self._pairs: dict[tuple[bytes, bytes], float] = {}  # the first player's points by the digests of both games
        self._finished_pairs = 0

    def add(self, record: Record) -> None:
        """Count a game. Raises ValueError, and then has changed nothing, when it is of other players or unfinished."""
        if {record.black, record.white} != {self.first, self.second} or self.first == self.second:
            raise ValueError(f"game '{record.id}' is not one of {self.first} against {self.second}")
        outcome = record.outcome
        if outcome is None:
            raise ValueError(f"game '{record.id}' has no outcome")
        colour = BLACK if record.black == self.first else WHITE
        points = outcome.black_score if colour is BLACK else 1 - outcome.black_score
        self._results[colour, outcome.ending, points] += 1
        self.moves += len(record.moves)
        self._add_seconds(record, outcome.winner)
        if outcome.ending.is_forfeit:
            loser = record.white if outcome.winner is BLACK else record.black
            self.forfeits.append(Forfeit(record.id, outcome.ending, record.reason or f"{loser}: {outcome.ending}"))
        digest = _digest(record, colour, points)
        self._distinct[digest] = colour, points
        self._add_to_pair(record, digest, points)

    def _add_seconds(self, record: Record, winner: Colour | None) -> None:
        from arena.go.game import Ending

        chosen = len(record.moves) - record.opening
        opener = record.first if record.opening % 2 == 0 else record.first.opponent
        black = BLACK, record.black, record.black_seconds
        white = WHITE, record.white, record.white_seconds
        for colour, name, seconds in (black, white):
            turns = (chosen + 1) // 2 if colour is opener else chosen // 2
            if record.outcome is not None and record.outcome.ending not in (Ending.SCORE, Ending.MOVE_LIMIT):
                turns += winner is colour.opponent  # the turn that the game ended with has no move
            self._seconds[name] += seconds
            self._turns[name] += turns

    def _add_to_pair(self, record: Record, digest: bytes, points: float) -> None:
        event, _, number = record.id.rpartition("/")
        if not number.isdecimal():
            return
        key = event, (int(number) - 1) // 2
        twin = self._half_pairs.pop(key, None)
        if twin is None:
            self._half_pairs[key] = digest, points
        else:
            low, high = sorted((digest, twin[0]))
            self._pairs[low, high] = points + twin[1]
            self._finished_pairs += 1

    def results(self, *, colour: Colour | None = None, ending: Ending | None = None) -> WinDrawLoss:
        """The first player's games; only those it played with ``colour``, only those that ended so."""
        counts: Counter[float] = Counter()
        for (played, ended, points), games in self._results.items():
            if colour in (None, played) and ending in (None, ended):
                counts[points] += games
        return WinDrawLoss(counts[1.0], counts[0.5], counts[0.0])

    @property
    def games(self) -> int:
        return self._results.total()

    @property
    def points(self) -> float:
        return self.results().points

    @property
    def black_points(self) -> float:
        """What Black took, whoever that was."""
        as_white = self.results(colour=WHITE)
        return self.results(colour=BLACK).points + as_white.games - as_white.points

    @property
    def endings(self) -> tuple[Ending, ...]:
        """How games ended, the most frequent first."""
        counts: Counter[Ending] = Counter()
        for (_, ending, _), games in self._results.items():
            counts[ending] += games
        return tuple(ending for ending, _ in counts.most_common())

    @property
    def repeats(self) -> int:
        """How many games are identical to an earlier one."""
        return self.games - len(self._distinct)

    @property
    def finished_pairs(self) -> int:
        """How many openings have been played with both colours."""
        return self._finished_pairs

    @property
    def mean_length(self) -> float | None:
        """Moves a game, the opening counted; None before the first game."""
        return self.moves / self.games if self.games else None

    def seconds_a_move(self, player: str) -> float | None:
        """What a player used for each of its own moves; None before the first."""
        seconds, turns = self.spent(player)
        return seconds / turns if turns else None

    def spent(self, player: str) -> tuple[float, int]:
        """A player's seconds, and its own moves."""
        return self._seconds[player], self._turns[player]

    @property
    def counts(self) -> Counts:
        """What the estimate is made of: finished pairs where there are any, else single games; identical ones once."""
        if self._pairs:
            return PairCounts.of(self._pairs.values())
        points = Counter(points for _, points in self._distinct.values())
        return WinDrawLoss(points[1.0], points[0.5], points[0.0])

    @property
    def rated(self) -> list[Result]:
        """What a league's ratings are made of: Black's points from all distinct games, one result for each colour."""
        own = {colour: [points for played, points in self._distinct.values() if played is colour] for colour in Colour}
        black, white = own[BLACK], own[WHITE]
        results = [
            Result(self.first, self.second, sum(black), len(black)),
            Result(self.second, self.first, len(white) - sum(white), len(white)),
        ]
        return [result for result in results if result.games]

    def comparison(self) -> Comparison:
        """How much stronger the first player is."""
        return compare(self.counts)


def _digest(record: Record, colour: Colour, points: float) -> bytes:
    text = repr((int(colour), points, record.rules.size, record.canonical_moves()))
    return blake2b(text.encode(), digest_size=16).digest()


# --- A tournament ---


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
    """What a tournament's records add up to: a tally for each two players that have met.

    ``players`` are the names by identity, in the order in which they are shown; a game counts for who played it, under
    whatever name it did so.
    """

    def __init__(self, players: Mapping[str, str]):
        self.players = dict(players)
        self.games = 0
        self.moves = 0  # openings counted
        self._tallies: dict[frozenset[str], Tally] = {}

    def add(self, record: Record) -> None:
        """Count a game. Raises ValueError, and then has changed nothing, when it is of others or unfinished."""
        if not {record.black_player, record.white_player} <= self.players.keys():
            raise ValueError(f"game '{record.id}' is not one of {', '.join(self.players.values())}")
        black, white = self.players[record.black_player], self.players[record.white_player]
        both = frozenset((black, white))
        tally = self._tallies.get(both) or Tally(*(name for name in self.players.values() if name in both))
        if (record.black, record.white) != (black, white):
            record = replace(record, black=black, white=white)
        tally.add(record)
        self._tallies[both] = tally
        self.games += 1
        self.moves += len(record.moves)

    @property
    def tallies(self) -> tuple[Tally, ...]:
        """One for each two players that have met."""
        return tuple(self._tallies.values())

    @property
    def mean_length(self) -> float | None:
        """Moves a game, the opening counted; None before the first game."""
        return self.moves / self.games if self.games else None

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

    def league(self) -> League | None:
        """Everybody rated together, as ``league`` does it; None without games."""
        identities = {name: identity for identity, name in self.players.items()}
        results = [
            replace(result, black=identities[result.black], white=identities[result.white])
            for tally in self._tallies.values()
            for result in tally.rated
        ]
        return _rate_all(results, self.players) if results else None

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
    store: Store, *, anchor: str | None = None, event: str | None = None, size: int | None = None
) -> League | None:
    """Rate everybody by all stored games (identical ones once), by those of one event or on one board size; None
    without games.

    ``anchor`` is a name or identity; unless given, it is the weakest of the largest group whose members have all beaten
    each other, directly or through others. Raises StoreError for an anchor without games.
    """
    rows = store.result_rows(event=event, size=size)
    results = [Result(row.black, row.white, row.black_points, row.games) for row in rows]
    if not results:
        return None
    return _rate_all(results, {identity: player.name for identity, player in store.players().items()}, anchor)


def _rate_all(results: list[Result], known: Mapping[str, str], anchor: str | None = None) -> League:
    """Rate by results between identities; ``known`` are names by identity."""
    free = rate(results)
    names = _tell_apart({identity: known.get(identity, identity) for identity in free.players})
    zero = max(free.components, key=len)[-1] if anchor is None else _find_anchor(anchor, names)
    ratings = rate(results, anchor=zero)
    games, points = ratings.games.sum(1), ratings.points.sum(1)
    standings = []
    for identity in ratings.ranking():
        index = ratings.players.index(identity)
        elo, score = ratings.estimate(identity), float(points[index] / games[index])
        standings.append(Standing(identity, names[identity], elo, round(games[index]), score))
    return League(tuple(standings), names[zero], ratings)


def _tell_apart(names: dict[str, str]) -> dict[str, str]:
    """The names by identity, those that several share with the beginning of the identity."""
    shared = Counter(names.values())
    return {identity: name if shared[name] == 1 else f"{name} ({identity[:6]})" for identity, name in names.items()}


def _find_anchor(anchor: str, names: dict[str, str]) -> str:
    found = [identity for identity, name in names.items() if anchor in (identity, name)]
    if not found:
        raise StoreError(f"the anchor '{anchor}' has no rated games; rated are {', '.join(sorted(names.values()))}")
    return found[0]


def player_ratings(store: Store) -> dict[str, Estimate]:
    """Every rated player's Elo by identity, without pandas; ``str`` of it is for the screen."""
    found = league(store)
    return {} if found is None else {standing.identity: standing.elo for standing in found.standings}


def ratings_table(store: Store, *, anchor: str | None = None, size: int | None = None) -> pd.DataFrame:
    """The ratings, a row a player: rank, player, elo, low, high (95 %), games, score, and the estimate as text.

    Elo and its ends are missing where the games don't give them. ``attrs`` has the anchor's name (``anchor``), the
    virtual games that each player drew (``prior``) and the text of what Black is worth (``black_advantage``).
    """
    import pandas as pd

    found = league(store, anchor=anchor, size=size)
    standings = () if found is None else found.standings
    frame = pd.DataFrame(
        {
            "rank": pd.Series([rank for rank, _ in enumerate(standings, 1)], dtype="int64"),
            "player": pd.Series([standing.player for standing in standings], dtype="str"),
            "elo": pd.Series([standing.elo.value for standing in standings], dtype="float64"),
            "low": pd.Series([standing.elo.interval.low for standing in standings], dtype="float64"),
            "high": pd.Series([standing.elo.interval.high for standing in standings], dtype="float64"),
            "games": pd.Series([standing.games for standing in standings], dtype="int64"),
            "score": pd.Series([standing.score for standing in standings], dtype="float64"),
            "estimate": pd.Series([str(standing.elo) for standing in standings], dtype="str"),
        }
    )
    if found is not None:
        black = found.ratings.black_advantage
        frame.attrs = {
            "anchor": found.anchor,
            "prior": found.ratings.prior,
            "black_advantage": None if black is None else str(black),
        }
    return frame


def write_elo_csv(store: Store, path: Path) -> None:
    """Write the ratings aside, then rename: who reads ``path`` sees the old table or the new one. Raises StoreError."""
    text = ratings_table(store).round({"elo": 1, "low": 1, "high": 1, "score": 4}).to_csv(index=False)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text(text, "utf-8")
        os.replace(aside, path)
    except OSError as error:
        with suppress(OSError):
            aside.unlink()
        raise StoreError(f"{path} can't be written ({error.strerror}); use a folder that can be") from error


# --- Games ---

GAME_COLUMNS = [
    *("id", "event", "date", "black", "white", "size", "komi", "rules", "result", "ending", "moves"),
    *("black_seconds", "white_seconds", "reason"),
]


def games_table(records: Iterable[Record]) -> pd.DataFrame:
    """Games, a row each: who played, by which rules, the result as in SGF, how it ended, moves and seconds."""
    import pandas as pd

    rows = [
        {
            "id": record.id,
            "event": record.event,
            "date": record.date,
            "black": record.black,
            "white": record.white,
            "size": record.rules.size,
            "komi": record.rules.komi,
            "rules": record.rules.name,
            "result": "" if record.outcome is None else record.outcome.sgf,
            "ending": "" if record.outcome is None else str(record.outcome.ending),
            "moves": len(record.moves),
            "black_seconds": record.black_seconds,
            "white_seconds": record.white_seconds,
            "reason": record.reason,
        }
        for record in records
    ]
    return pd.DataFrame(rows, columns=GAME_COLUMNS)
