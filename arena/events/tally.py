"""Statistics of the games between two players, from the first one's view, and the decision of a test.

No ratings of more than two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, count
from typing import TYPE_CHECKING

import numpy as np

from arena.events.batch import Batch, ending_of
from arena.go.moves import BLACK, WHITE, Colour
from arena.ratings import Comparison, PairCounts, Result, Sprt, SprtState, WinDrawLoss, compare

# What pulls in the compiler is imported where it is used: "arena bots" needs ratings only.
if TYPE_CHECKING:
    from arena.go.game import Ending
    from arena.go.record import Played


_BY_MOVES = ("score", "move limit")
"""The endings of games that a move ended."""

_BY_FAULT = frozenset(("time", "illegal", "crash"))

_SORT = ("black", "length", "opening", "first", "adjudged", "winner", "ending")
"""What is counted of a game: few games of many differ in all of it."""


@dataclass(frozen=True, slots=True)
class Forfeit:
    """A game that a player lost by a fault of its own, and what went wrong in a line."""

    id: str
    ending: Ending
    reason: str

    @classmethod
    def of(cls, game: Played) -> Forfeit:
        assert game.outcome is not None
        loser = game.white if game.outcome.winner is BLACK else game.black
        return cls(game.id, game.outcome.ending, game.reason or f"{loser}: {game.outcome.ending}")


class Results:
    """How the games of two players ended, as the first of them sees it."""

    def __init__(self, first: str, second: str):
        self.first = first
        self.second = second
        self._results: Counter[tuple[Colour, Ending, float]] = Counter()  # the first player's colour, ending and points

    def add(self, games: Sequence[Played]) -> None:
        """Count games that are over."""
        column = Batch.of(games).column
        for ended, number in Counter(zip(*map(column, ("black", "winner", "ending")), strict=True)).items():
            self._note(number, *ended)

    def _note(self, games: int, black: str, winner: int | None, ending: str) -> None:
        colour = BLACK if black == self.first else WHITE
        self._results[colour, ending_of(ending), 0.5 if winner is None else float(winner == colour)] += games

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


class Tally(Results):
    """Statistics of a match's records, from the first player's view.

    Identical games (the same players, colours and moves up to symmetry) count once in the Elo, but in full elsewhere.
    Games are best added many at once.
    """

    def __init__(self, first: str, second: str):
        super().__init__(first, second)
        self.forfeits: list[Forfeit] = []
        self.lengths: Counter[int] = Counter()  # games by their moves, openings counted
        self.played_on = 0  # games that went on to their end after the rule had named a winner
        self.overturned = 0  # of these, those that ended otherwise
        self.pairs = Pairs(first)
        self._seconds = {first: 0.0, second: 0.0}
        self._turns = {first: 0, second: 0}
        self._distinct = Firsts()  # who won, 4 more where the first player has Black

    def add(self, games: Sequence[Played]) -> None:
        """Count games. Raises ValueError, and then has changed nothing, when one is of other players or unfinished."""
        games = Batch.of(games)
        black, white, winner, ending = map(games.column, ("black", "white", "winner", "ending"))
        both = {(self.first, self.second), (self.second, self.first)} - {(self.first, self.first)}
        if others := {*zip(black, white, strict=True)} - both:
            other = next(game for game in games if (game.black, game.white) in others)
            raise ValueError(f"game '{other.id}' is not one of {self.first} against {self.second}")
        if None in ending:
            raise ValueError(f"game '{games[ending.index(None)].id}' has no outcome")
        for sort, number in Counter(zip(*map(games.column, _SORT), strict=True)).items():
            self._count(number, *sort)
        has_black = np.array([name == self.first for name in black], bool)
        seconds = np.array([games.column("black_seconds"), games.column("white_seconds")], float)
        for player, own in ((self.first, has_black), (self.second, ~has_black)):
            # one after the other, however many there are at once: sums of floats depend on it
            spent = np.append(self._seconds[player], np.where(own, *seconds))
            self._seconds[player] = float(spent.cumsum()[-1])
        if not _BY_FAULT.isdisjoint(ending):
            self.forfeits += [Forfeit.of(game) for game in games.take([*_places(map(_BY_FAULT.__contains__, ending))])]
        results = np.array([won or 0 for won in winner], np.uint8) + 4 * has_black.astype(np.uint8)
        self._distinct.add(results.tobytes(), [*map(hash, zip(black, winner, games.column("canonical"), strict=True))])

    def add_pairs(self, games: Sequence[Played]) -> None:
        """Count games of which each two in a row are a pair. The outcome of one may be missing: that one and its pair
        don't count. Raises ValueError as ``add`` does."""
        games = Batch.of(games)
        self.add(games.finished)
        self.pairs.add(games)

    def _count(
        self,
        games: int,
        black: str,
        length: int,
        opening: int,
        begins: int,
        adjudged: int | None,
        winner: int | None,
        ending: str,
    ) -> None:
        """Count a number of games that are equal for these statistics."""
        white = self.second if black == self.first else self.first
        self._note(games, black, winner, ending)
        self.lengths[length] += games
        if adjudged is not None and ending != "adjudicated" and ending not in _BY_FAULT:
            self.played_on += games
            self.overturned += games * (adjudged != winner)
        chosen = length - opening
        by_black = (chosen + ((begins == BLACK) is (opening % 2 == 0))) // 2
        turns = {black: by_black, white: chosen - by_black}
        if winner is not None and ending not in _BY_MOVES:  # the last turn has no move
            turns[white if winner == BLACK else black] += 1
        for player, own in turns.items():
            self._turns[player] += games * own

    @property
    def repeats(self) -> int:
        """How many games are identical to an earlier one."""
        return self._distinct.values.count(Firsts.NOTHING)

    @property
    def finished_pairs(self) -> int:
        """How many openings have been played with both colours."""
        return len(self.pairs)

    def seconds_a_move(self, player: str) -> float | None:
        """What a player used for each of its own moves; None before the first."""
        seconds, turns = self.spent(player)
        return seconds / turns if turns else None

    def spent(self, player: str) -> tuple[float, int]:
        """A player's seconds, and its own moves."""
        return self._seconds[player], self._turns[player]

    @property
    def counts(self) -> PairCounts:
        """What the estimate is made of: finished pairs, identical ones once."""
        return self.pairs.counts()

    @property
    def rated(self) -> list[Result]:
        """What a league's ratings are made of: Black's points from all distinct games, one result for each colour."""
        results = []
        for black, white, place in ((self.first, self.second, 4), (self.second, self.first, 0)):
            won, drawn, lost = (self._distinct.values.count(place + winner) for winner in (BLACK, 0, WHITE))
            results.append(Result(black, white, won + drawn / 2, won + drawn + lost))
        return [result for result in results if result.games]

    def comparison(self) -> Comparison:
        """How much stronger the first player is."""
        return compare(self.counts)


class Judge:
    """Counts a match's games in the order in which they were planned, whatever the order in which they end.

    A pair counts when all pairs before it are complete. Many games are played at once, and the short ones are over
    first: where their length depends on who wins, games that counted as they came would favour a side, and a sequential
    test would err far more often than it promises. Nothing counts after the test is decided. So what is counted depends
    on the stored games alone, not on how many were played at once, nor on interruptions.
    """

    def __init__(self, first: str, second: str, games: int | None = None, test: Sprt | None = None):
        """``games`` are planned, later ones don't count; None where the plan isn't known."""
        self.tally = Tally(first, second)
        self.test = test
        self.state: SprtState | None = None
        """Where the test stands; None without one, or before the first pair."""
        self.date = ""
        """That of the last game that counts."""
        self._games = games
        self._waiting: list[Batch] = []  # for an earlier one than theirs
        self._numbers: list[int] = []  # those of the games that wait, from 1
        self._ahead = Pairs(first)  # with a test: those that count, and some after them
        self._next = 1

    @property
    def is_decided(self) -> bool:
        return self.state is not None and self.state.is_decided

    @property
    def waiting(self) -> int:
        """Games that are over and don't count as long as an earlier one isn't."""
        return len(self._numbers)

    def add(self, games: Sequence[Played]) -> Batch:
        """Take games; returns those that count from now on, in their order. Raises ValueError for one of others."""
        counted = Batch.of([] if self.is_decided else self._take(Batch.of(games)))
        if self.test is not None:
            counted = counted[: self._decide(self.test, counted)]
        self.tally.add_pairs(counted)
        if self.is_decided:
            self._waiting, self._numbers = [], []
        counted = counted.finished
        if counted:
            self.date = counted.column("date")[-1]
        return counted

    def _take(self, games: Batch) -> Batch:
        """The games, with those that wait, that no earlier one is missing of: in pairs; the last one alone where their
        number is odd."""
        numbers = [int(id.rpartition("/")[2]) for id in games.column("id")]
        if self._games is not None and max(numbers, default=0) > self._games:
            places = [*_places(number <= self._games for number in numbers)]
            games, numbers = games.take(places), [numbers[place] for place in places]
        self._waiting += [games] * bool(games)
        self._numbers += numbers
        if not {self._next, self._next + 1} & {*numbers}:  # the next one may wait for its pair
            return games[:0]
        games = Batch.joined(self._waiting)
        waiting = {number: place for place, number in enumerate(self._numbers)}
        taken = []
        while (place := waiting.pop(self._next, None)) is not None:
            taken.append(place)
            self._next += 1
        if len(taken) % 2 and self._next - 1 != self._games:
            self._next -= 1
            waiting[self._next] = taken.pop()
        self._waiting = [games.take([*waiting.values()]).copy()] * bool(waiting)
        self._numbers = [*waiting]
        return games.take(taken)

    def _decide(self, test: Sprt, games: Batch) -> int:
        """How many of the games there are until the test is decided, or all of them; and where it stands then."""
        before = len(self._ahead)
        self._ahead.add(games)
        courses = self._ahead.course(before)
        if not len(courses):
            return len(games)
        pairs, self.state = test.first_decision(courses)
        return 2 * pairs if self.is_decided else len(games)


class Pairs:
    """What the pairs of a match gave its first player, in the order in which they count."""

    def __init__(self, first: str):
        self._first = first
        self._points = Firsts()

    def __len__(self) -> int:
        return len(self._points)

    @property
    def points(self) -> bytearray:
        """In halves, 0 to 4; ``Firsts.NOTHING`` for a pair that is identical to an earlier one, or of which an outcome
        is missing."""
        return self._points.values

    def add(self, games: Sequence[Played]) -> None:
        """Count each two games in a row; a last one alone is left out."""
        games = Batch.of(games[: len(games) // 2 * 2])
        black, winner, ending, canonical = map(games.column, ("black", "winner", "ending", "canonical"))
        there = np.array([one is not None for one in ending], bool)
        has_black = np.array([name == self._first for name in black], bool)
        won = np.array([one or 0 for one in winner], np.uint8)
        halves = np.where(won == 0, 1, 2 * (has_black == (won == BLACK))).astype(np.uint8)
        whole = there[0::2] & there[1::2]
        points = np.where(whole, halves[0::2] + halves[1::2], Firsts.NOTHING).astype(np.uint8)
        results = zip(black, winner, canonical, strict=True)
        pairs = compress(zip(results, results, strict=True), whole.tolist())
        self._points.add(points.tobytes(), [*map(hash, pairs)])

    def counts(self, end: int | None = None) -> PairCounts:
        """The counts of all distinct pairs, or of those among the first ``end``."""
        return PairCounts(*(self.points.count(halves, 0, end) for halves in range(5)))

    def course(self, begin: int) -> np.ndarray:
        """(n, 5): the counts after each of the pairs from ``begin`` on."""
        each = np.frombuffer(self.points[begin:], np.uint8)[:, None] == np.arange(5)
        return np.array(self.counts(begin).counts) + each.cumsum(axis=0)


class Firsts:
    """Small values of things that numbers of 64 bits tell apart, of which the first of its number counts alone. Which
    one that is is found out when it is asked for: the more there are at once, the less each takes."""

    NOTHING = 255
    """In place of the value of one that doesn't count."""

    def __init__(self) -> None:
        self._values = bytearray()
        self._numbers: list[np.ndarray] = []  # of the values that are to be looked at
        self._known = 0  # values that were
        self._seen = Seen()

    def __len__(self) -> int:
        return len(self._values)

    def add(self, values: bytes, numbers: Sequence[int]) -> None:
        """Note values, and the numbers of those that aren't ``NOTHING``."""
        self._values += values
        self._numbers.append(np.array(numbers, np.int64))

    @property
    def values(self) -> bytearray:
        """All of them, in their order."""
        if self._numbers:
            values = np.frombuffer(self._values, np.uint8)[self._known :]
            new = self._seen.add(np.concatenate(self._numbers))
            values[np.flatnonzero(values != self.NOTHING)[~new]] = self.NOTHING
            self._known, self._numbers = len(self._values), []
        return self._values


class Seen:
    """Numbers of 64 bits that were there before: some 8 bytes each, where a set takes 80."""

    def __init__(self) -> None:
        self._sorted = self._new = np.empty(0, np.int64)

    def add(self, numbers: Sequence[int] | np.ndarray) -> np.ndarray:
        """Note numbers; returns which of them were not there, as an array of bool."""
        given = np.array(numbers, np.int64)
        new = np.zeros(len(given), bool)
        new[np.unique(given, return_index=True)[1]] = True
        for known in (self._sorted, self._new):
            if len(known):
                new &= known[np.searchsorted(known[:-1], given)] != given
        self._new = np.sort(np.concatenate([self._new, given[new]]))
        if len(self._new) > 1000 + len(self._sorted) // 16:
            self._sorted, self._new = np.sort(np.concatenate([self._sorted, self._new])), self._new[:0].copy()
        return new


def _places(chosen: Iterable[bool]) -> Iterator[int]:
    """Where it is true."""
    return compress(count(), chosen)
