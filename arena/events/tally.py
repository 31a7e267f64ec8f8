"""What the games of two players add up to, as the first of them sees it, and when a test of them is decided.

No ratings of more than two.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from arena.go.moves import BLACK, WHITE, Colour
from arena.ratings import Comparison, PairCounts, Result, Sprt, SprtState, WinDrawLoss, compare

# What pulls in the compiler is imported where it is used: "arena bots" needs ratings only.
if TYPE_CHECKING:
    from arena.go.game import Ending, Outcome
    from arena.go.record import Played


_BY_MOVES = ("score", "move limit")
"""The endings of games that a move ended."""


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
        self.lengths: Counter[int] = Counter()  # games by their moves, openings counted
        self.played_on = 0  # games that went on to their end after the rule had named a winner
        self.overturned = 0  # of these, those that ended otherwise
        self._results: Counter[tuple[Colour, Ending, float]] = Counter()  # the first player's colour, ending and points
        self._seconds = {first: 0.0, second: 0.0}
        self._turns = {first: 0, second: 0}
        self._seen = Seen()
        self._distinct: Counter[tuple[Colour, float]] = Counter()  # the first player's colour and points
        self._half_pairs: dict[tuple[str, int], tuple[int, float]] = {}  # games whose twin is still to come
        self._seen_pairs = Seen()
        self._pairs: Counter[float] = Counter()  # distinct ones, by the first player's points
        self._finished_pairs = 0

    def add(self, record: Played) -> None:
        """Count a game. Raises ValueError, and then has changed nothing, when it is of other players or unfinished."""
        is_black = record.black == self.first
        other = record.white if is_black else record.black
        if other != self.second or self.first not in (record.black, record.white) or self.first == self.second:
            raise ValueError(f"game '{record.id}' is not one of {self.first} against {self.second}")
        outcome = record.outcome
        if outcome is None:
            raise ValueError(f"game '{record.id}' has no outcome")
        colour = BLACK if is_black else WHITE
        points = outcome.black_score if is_black else 1 - outcome.black_score
        self._results[colour, outcome.ending, points] += 1
        self.lengths[record.length] += 1
        if record.adjudged is not None:
            self._add_check(record, outcome)
        self._add_seconds(record, outcome)
        if outcome.ending.is_forfeit:
            loser = record.white if outcome.winner is BLACK else record.black
            self.forfeits.append(Forfeit(record.id, outcome.ending, record.reason or f"{loser}: {outcome.ending}"))
        digest = hash((is_black, points, record.canonical))
        if self._seen.add(digest):
            self._distinct[colour, points] += 1
        self._add_to_pair(record, digest, points)

    def _add_check(self, record: Played, outcome: Outcome) -> None:
        from arena.go.game import Ending

        if outcome.ending is not Ending.ADJUDICATED and not outcome.ending.is_forfeit:
            self.played_on += 1
            self.overturned += record.adjudged is not outcome.winner

    def _add_seconds(self, record: Played, outcome: Outcome) -> None:
        chosen = record.length - record.opening
        begins = (record.first is BLACK) is (record.opening % 2 == 0)  # Black, after the opening
        by_black = (chosen + begins) // 2
        self._seconds[record.black] += record.black_seconds
        self._seconds[record.white] += record.white_seconds
        self._turns[record.black] += by_black
        self._turns[record.white] += chosen - by_black
        if outcome.winner is not None and outcome.ending not in _BY_MOVES:  # the last turn has no move
            self._turns[record.white if outcome.winner is BLACK else record.black] += 1

    def _add_to_pair(self, record: Played, digest: int, points: float) -> None:
        event, _, number = record.id.rpartition("/")
        if not number.isdecimal():
            return
        key = event, (int(number) - 1) // 2
        twin = self._half_pairs.pop(key, None)
        if twin is None:
            self._half_pairs[key] = digest, points
        else:
            if self._seen_pairs.add(hash((min(digest, twin[0]), max(digest, twin[0])))):
                self._pairs[points + twin[1]] += 1
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
        return self.games - self._distinct.total()

    @property
    def finished_pairs(self) -> int:
        """How many openings have been played with both colours."""
        return self._finished_pairs

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
        return PairCounts(*(self._pairs[halves / 2] for halves in range(5)))

    @property
    def rated(self) -> list[Result]:
        """What a league's ratings are made of: Black's points from all distinct games, one result for each colour."""
        games, won = Counter[Colour](), Counter[Colour]()
        for (colour, points), count in self._distinct.items():
            games[colour] += count
            won[colour] += points * count  # type: ignore[assignment]  # halves, too
        results = [
            Result(self.first, self.second, won[BLACK], games[BLACK]),
            Result(self.second, self.first, games[WHITE] - won[WHITE], games[WHITE]),
        ]
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
        self._waiting: dict[int, Played] = {}  # by number, from 1
        self._next = 1

    @property
    def is_decided(self) -> bool:
        return self.state is not None and self.state.is_decided

    @property
    def waiting(self) -> int:
        """Games that are over and don't count as long as an earlier one isn't."""
        return len(self._waiting)

    def add(self, record: Played) -> list[Played]:
        """Take a game; returns those that count from now on, in their order. Raises ValueError for one of others."""
        number = int(record.id.rpartition("/")[2])
        if self.is_decided or (self._games is not None and number > self._games):
            return []
        self._waiting[number] = record
        counted: list[Played] = []
        if number > self._next + 1:
            return counted
        while (pair := self._take_pair()) and not self.is_decided:
            for game in pair:
                if game.outcome is not None:
                    self.tally.add(game)
                    counted.append(game)
                    self.date = game.date
            if self.test is not None and self.tally.finished_pairs:
                self.state = self.test.state(self.tally.counts)
        if self.is_decided:
            self._waiting.clear()
        return counted

    def _take_pair(self) -> list[Played]:
        """The next two games, or the last one where their number is odd; nothing while one is missing."""
        first, last = self._next, self._next + (self._next != self._games)
        if first not in self._waiting or last not in self._waiting:
            return []
        self._next = last + 1
        return [self._waiting.pop(number) for number in range(first, self._next)]


class Seen:
    """Numbers of 64 bits that were there before: some 12 bytes each, where a set takes 80."""

    def __init__(self) -> None:
        self._sorted = array("q")
        self._new: set[int] = set()

    def add(self, number: int) -> bool:
        """Note a number. False when it was there."""
        place = bisect_left(self._sorted, number)
        if number in self._new or (place < len(self._sorted) and self._sorted[place] == number):
            return False
        self._new.add(number)
        if len(self._new) > 1000 + len(self._sorted) // 16:
            self._sorted = array(
                "q", np.sort(np.concatenate([self._sorted, np.fromiter(self._new, np.int64)])).tobytes()
            )
            self._new.clear()
        return True
