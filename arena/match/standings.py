"""Standings: the statistics of games between any number of players, counted once, in the order of the plan.

The runner, the screen, reports, ratings and gates take their figures from here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING

from arena.go.coords import BLACK, WHITE, Colour
from arena.go.record import Ending
from arena.ratings import (
    ZERO,
    Comparison,
    Estimate,
    PairCounts,
    Ratings,
    Result,
    Sprt,
    SprtState,
    WinDrawLoss,
    compare,
    rate,
    share_interval,
)

if TYPE_CHECKING:  # pulls in the compiler
    from arena.go.record import Played

PEOPLE = "play"
"""The event id of games with people. No event can have this name; its games are not in pairs."""


SCORE, MOVE_LIMIT = Ending.SCORE, Ending.MOVE_LIMIT
FORFEITS = frozenset(ending for ending in Ending if ending.is_forfeit)


@dataclass(frozen=True, slots=True)
class Forfeit:
    """A game that a player lost by a fault of its own, and what went wrong in a line."""

    id: str
    ending: Ending
    reason: str


@dataclass(frozen=True, slots=True)
class EndingCount:
    """How many games ended so, who won them and who lost them; the rest were drawn."""

    ending: Ending
    games: int
    won: Counter[str]
    lost: Counter[str]

    @property
    def drawn(self) -> int:
        return self.games - self.won.total()


@dataclass(frozen=True, slots=True)
class AdjudicationCheck:
    """``adjudicated`` games ended by the rule; ``played_on`` went on to their end after it had named a winner, and
    ``otherwise`` of these had another one, or none. Games that a fault ended tell nothing and aren't counted."""

    adjudicated: int
    played_on: int
    otherwise: int

    @property
    def interval(self) -> tuple[float, float]:
        """The ends, with 95 % certainty, of the share of games that the rule gives to the wrong side."""
        return share_interval(self.otherwise, self.played_on)


class Pairs:
    """Pentanomial counts of pairs of games on one opening, with the colours swapped. Identical pairs count once.

    ``finished`` counts all pairs. Two pairs are identical if both games are, up to symmetry.
    """

    def __init__(self) -> None:
        self.counts = [0] * 5
        self.finished = 0
        self._seen: set[int] = set()
        self._halves: dict[object, tuple[int, int]] = {}

    def add(self, pair: object, is_second: bool, game: int, points: int) -> None:
        """Count a game: the number that identifies it up to symmetry, and a player's points in halves (0 to 2)."""
        other = self._halves.pop(pair, None)
        if other is None:
            self._halves[pair] = game, points
            return
        form = hash((other[0], game) if is_second else (game, other[0]))
        self.finished += 1
        if form not in self._seen:
            self._seen.add(form)
            self.counts[other[1] + points] += 1


class MatchTally:
    """Statistics of the games between two players, from the first one's view.

    Identical games (same players, colours, result and moves up to symmetry) count once in the ratings and in full
    elsewhere. Unrated games do not count in the ratings.
    """

    def __init__(self, first: str, second: str):
        self.first = first
        self.second = second
        self.games = 0
        self.forfeits: list[Forfeit] = []
        self.lengths: Counter[int] = Counter()  # games by their moves, openings counted
        self.played_on = 0  # games that were played to the end after adjudication
        self.overturned = 0  # of these, the ones with another winner
        self.repeats = 0  # games that are identical to an earlier one
        self.is_paired = True  # whether all rated games belong to pairs
        self._pairs = Pairs()
        self._results: Counter[tuple[bool, Ending, int]] = Counter()  # has the first Black, ending, points in halves
        self._seconds = {True: 0.0, False: 0.0}  # by whether it is the first player's
        self._turns = {True: 0, False: 0}
        self._rated = {True: [0, 0], False: [0, 0]}  # Black's points in halves and the distinct games
        self._seen: set[int] = set()

    def add(self, game: Played, has_black: bool) -> None:
        """Count a finished game. ``has_black`` says whether the first player has Black."""
        outcome = game.outcome
        assert outcome is not None
        winner, ending, length, opening = outcome.winner, outcome.ending, game.length, game.opening
        points = 1 if winner is None else 2 if (winner is BLACK) is has_black else 0
        self.games += 1
        self.lengths[length] += 1
        self._results[has_black, ending, points] += 1
        chosen = length - opening
        by_black = (chosen + ((game.first is BLACK) is (opening % 2 == 0))) // 2
        self._turns[has_black] += by_black
        self._turns[not has_black] += chosen - by_black
        if winner is not None and ending is not SCORE and ending is not MOVE_LIMIT:  # the last turn has no move
            self._turns[points == 0] += 1
        self._seconds[has_black] += game.black_seconds
        self._seconds[not has_black] += game.white_seconds
        if ending in FORFEITS:
            loser = self.second if points else self.first
            self.forfeits.append(Forfeit(game.id, ending, game.reason or f"{loser}: {ending}"))
        elif game.adjudged is not None and ending is not Ending.ADJUDICATED:
            self.played_on += 1
            self.overturned += game.adjudged is not winner
        form = hash((has_black, points, game.canonical))
        is_repeated = form in self._seen
        if is_repeated:
            self.repeats += 1
        else:
            self._seen.add(form)
        if game.unrated:
            return
        if not is_repeated:
            rated = self._rated[has_black]
            rated[0] += points if has_black else 2 - points
            rated[1] += 1
        event, _, digits = game.id.rpartition("/")
        if digits.isdecimal() and event != PEOPLE:
            number = int(digits)
            self._pairs.add((event, (number - 1) // 2), number % 2 == 0, form, points)
        else:
            self.is_paired = False

    def results(self, *, colour: Colour | None = None, ending: Ending | None = None) -> WinDrawLoss:
        """The first player's games; only those it played with ``colour``, only those that ended this way."""
        counts: Counter[int] = Counter()
        for (has_black, ended, points), games in self._results.items():
            if (colour is None or has_black is (colour == BLACK)) and ending in (None, ended):
                counts[points] += games
        return WinDrawLoss(counts[2], counts[1], counts[0])

    @property
    def points(self) -> float:
        return self.results().points

    @property
    def black_points(self) -> float:
        """The points of Black, whoever that was."""
        as_white = self.results(colour=WHITE)
        return self.results(colour=BLACK).points + as_white.games - as_white.points

    @property
    def endings(self) -> Counter[Ending]:
        """Games by how they ended."""
        counts: Counter[Ending] = Counter()
        for (_, ending, _), games in self._results.items():
            counts[ending] += games
        return counts

    @property
    def finished_pairs(self) -> int:
        """How many openings have been played with both colours."""
        return self._pairs.finished

    @property
    def counts(self) -> PairCounts:
        """Finished pairs by the first player's score, identical ones once."""
        return PairCounts(*self._pairs.counts)

    def comparison(self) -> Comparison:
        """How much stronger the first player is."""
        return compare(self.counts)

    @property
    def rated(self) -> list[Result]:
        """Black's points from all distinct rated games, one result for each colour."""
        found = []
        for black, white in ((self.first, self.second), (self.second, self.first)):
            halves, games = self._rated[black == self.first]
            if games:
                found.append(Result(black, white, halves / 2, games))
        return found

    def spent(self, player: str) -> tuple[float, int]:
        """A player's seconds, and the number of its own moves."""
        return self._seconds[player == self.first], self._turns[player == self.first]


class SequentialTest:
    """The test of one match, which counts its games in the planned order, not in the order in which they end.

    A pair counts when all pairs before it are complete, because short games end first: where a game's length depends on
    its winner, counting games as they end would favour a side. Nothing counts after the test is decided. So what counts
    depends on the stored games alone, not on the number of workers or on interruptions.
    """

    def __init__(self, test: Sprt):
        self.test = test
        self.state: SprtState | None = None
        """Where the test stands; None before the first pair."""
        self._all = [0, 0, 0]
        self._waiting: dict[int, Played] = {}  # by number, from 1
        self._next = 1
        self._pairs = Pairs()

    @property
    def is_decided(self) -> bool:
        return self.state is not None and self.state.is_decided

    @property
    def waiting(self) -> int:
        """Finished games that do not count as long as an earlier one is missing."""
        return len(self._waiting)

    @property
    def results(self) -> WinDrawLoss:
        """The first player's score in all finished games, whether they count or not."""
        lost, drawn, won = self._all
        return WinDrawLoss(won, drawn, lost)

    def add(self, games: Iterable[Played]) -> list[Played]:
        """Take games; returns the finished ones that count from now on, in their order."""
        for game in games:
            number = int(game.id.rpartition("/")[2])
            if game.outcome is not None:
                self._all[self._points(number, game)] += 1
            if not self.is_decided:
                self._waiting[number] = game
        counted: list[Played] = []
        course = []
        while self._next in self._waiting and self._next + 1 in self._waiting:
            for number in (self._next, self._next + 1):
                game = self._waiting.pop(number)
                counted.append(game)
                if game.outcome is not None:
                    points = self._points(number, game)
                    self._pairs.add(self._next, number > self._next, hash((points, game.canonical)), points)
            self._next += 2
            course.append(tuple(self._pairs.counts))
        if course:
            pairs, self.state = self.test.first_decision(course)
            if self.is_decided:
                del counted[2 * pairs :]
                self._waiting.clear()
        return [game for game in counted if game.outcome is not None]

    def _points(self, number: int, game: Played) -> int:
        """Those of the first player, who has Black in games of odd numbers, in halves."""
        winner = game.outcome and game.outcome.winner
        return 1 if winner is None else 2 * ((winner == BLACK) is (number % 2 == 1))


class Standings:
    """Statistics of games between any number of players: a tally for each two that have met.

    A game counts for its players' identities; their names in the game don't matter. In a match, where a bot may meet
    itself, it counts for the names. Games of a match with a sequential test count as ``SequentialTest`` says, all
    others at once.

    A match is seen by its first player: its Elo comes from pairs of games, that of more than two players from joint
    ratings.
    """

    def __init__(
        self,
        players: Mapping[str, str],
        event: str = "",
        planned: int | None = None,
        *,
        is_match: bool = False,
        tests: Mapping[str, Sprt] | None = None,
    ):
        """``players`` are names by identity, in a match by name, in the order in which they are shown. ``planned``
        games are None where the plan isn't known. ``tests`` are those of matches, by event."""
        self.players = dict(players)
        self.event = event
        self.planned = planned
        self.is_match = is_match
        self.games = 0
        self.date = ""  # of the last game that counts
        self.tests = {event: SequentialTest(test) for event, test in (tests or {}).items()}
        self._keys = attrgetter("black", "white") if is_match else attrgetter("black_player", "white_player")
        self._tallies: dict[frozenset[str], MatchTally] = {}
        self._by_colour: dict[tuple[str, str], tuple[MatchTally, bool]] = {}
        self._league: tuple[int, League | None] = 0, None  # after so many games

    def add(self, games: Iterable[Played]) -> list[Played]:
        """Count games; those without an outcome are skipped. Returns the ones that count from now on. Raises ValueError
        for a game of other players."""
        if not self.tests:
            counted = [game for game in games if game.outcome is not None]
        else:
            counted = []
            tested: dict[str, list[Played]] = {}
            for game in games:
                event = game.id.rpartition("/")[0]
                if event in self.tests:
                    tested.setdefault(event, []).append(game)
                elif game.outcome is not None:
                    counted.append(game)
            for event, some in tested.items():
                counted += self.tests[event].add(some)
        for game in counted:
            both = self._keys(game)
            found = self._by_colour.get(both)
            if found is None:
                if not {*both} <= self.players.keys():
                    raise ValueError(f"game '{game.id}' is not one of {', '.join(self.players.values())}")
                black, white = (self.players[key] for key in both)
                tally = self.between(black, white)
                found = self._by_colour[both] = tally, tally.first == black
            found[0].add(game, found[1])
        if counted:
            self.games += len(counted)
            self.date = counted[-1].date
        return counted

    def between(self, one: str, other: str) -> MatchTally:
        """The tally of two players, given by name."""
        both = frozenset((one, other))
        if both not in self._tallies:
            first, second = (name for name in dict.fromkeys(self.players.values()) if name in both)
            self._tallies[both] = MatchTally(first, second)
        return self._tallies[both]

    @property
    def tallies(self) -> tuple[MatchTally, ...]:
        """One for each two players that have met."""
        return tuple(tally for tally in self._tallies.values() if tally.games)

    @property
    def is_decided(self) -> bool:
        """Whether a sequential test has ended."""
        return any(test.is_decided for test in self.tests.values())

    @property
    def waiting(self) -> int:
        """Finished games that do not count as long as an earlier one of their match is missing."""
        return sum(test.waiting for test in self.tests.values())

    @property
    def lengths(self) -> Counter[int]:
        """Games by their moves, openings counted."""
        return sum((tally.lengths for tally in self.tallies), Counter[int]())

    def meetings(self, player: str, other: str | None = None) -> WinDrawLoss:
        """All games of a player, or those against one other, from the player's view."""
        wins = draws = losses = 0
        for tally in self.tallies:
            if player in (tally.first, tally.second) and other in (None, tally.first, tally.second) and player != other:
                counts = tally.results()
                draws += counts.draws
                wins += counts.wins if player == tally.first else counts.losses
                losses += counts.losses if player == tally.first else counts.wins
        return WinDrawLoss(wins, draws, losses)

    @property
    def black_points(self) -> float:
        """The points of Black, whoever that was."""
        return sum(tally.black_points for tally in self.tallies)

    @property
    def forfeits(self) -> list[Forfeit]:
        return [forfeit for tally in self.tallies for forfeit in tally.forfeits]

    @property
    def endings(self) -> list[EndingCount]:
        """How games ended, the most frequent first."""
        found = []
        for ending, games in sum((tally.endings for tally in self.tallies), Counter[Ending]()).most_common():
            won, lost = Counter[str](), Counter[str]()
            for tally in self.tallies:
                counts = tally.results(ending=ending)
                won += Counter({tally.first: counts.wins, tally.second: counts.losses})
                lost += Counter({tally.first: counts.losses, tally.second: counts.wins})
            found.append(EndingCount(ending, games, won, lost))
        return found

    @property
    def check(self) -> AdjudicationCheck:
        """How the rule that ends games early has done."""
        adjudicated = sum(tally.endings[Ending.ADJUDICATED] for tally in self.tallies)
        played_on = sum(tally.played_on for tally in self.tallies)
        return AdjudicationCheck(adjudicated, played_on, sum(tally.overturned for tally in self.tallies))

    def seconds_a_move(self, player: str) -> float | None:
        """Seconds that a player used per move of its own; None before the first."""
        spent = [tally.spent(player) for tally in self.tallies if player in (tally.first, tally.second)]
        turns = sum(turns for _, turns in spent)
        return sum(seconds for seconds, _ in spent) / turns if turns else None

    @property
    def evidence(self) -> PairCounts | list[Result]:
        """What Elo is estimated from: two players' pairs, or else all distinct rated games of everybody, by the keys of
        ``players``."""
        tallies = self.tallies
        if len(tallies) == 1 and tallies[0].is_paired and tallies[0].finished_pairs:
            return tallies[0].counts
        return self.rated

    @property
    def rated(self) -> list[Result]:
        """Black's points from all distinct rated games, between the keys of ``players``."""
        keys = {name: key for key, name in self.players.items()}
        return [
            replace(result, black=keys[result.black], white=keys[result.white])
            for tally in self.tallies
            for result in tally.rated
        ]

    @property
    def league(self) -> League | None:
        """All players rated together, see ``rate_all``; None without rated games."""
        if self._league[0] != self.games:
            results = self.rated
            evidence = self.evidence
            pairs = (self.tallies[0].first, evidence) if isinstance(evidence, PairCounts) else None
            self._league = self.games, rate_all(results, self.players, pairs=pairs) if results else None
        return self._league[1]

    # --- Who is stronger ---

    @property
    def tally(self) -> MatchTally | None:
        """Of a match with games, else None."""
        return self.tallies[0] if self.is_match and self.games else None

    @property
    def test(self) -> SequentialTest | None:
        """Of a match with a sequential test."""
        return self.tests.get(self.event)

    @property
    def comparison(self) -> Comparison | None:
        """How much stronger the first of two players is, from their pairs; None without games, and for more players."""
        if self.tally is not None:
            return self.tally.comparison()
        evidence = self.evidence
        return compare(evidence) if isinstance(evidence, PairCounts) else None

    @property
    def anchor(self) -> str:
        """The name of the player whose Elo is 0; empty without games."""
        if self.tally is not None:
            return self.tally.second
        return "" if self.league is None else self.league.anchor

    @property
    def places(self) -> list[Standing]:
        """Everybody, the strongest first, with all games that count; those without games come last."""
        elo: dict[str, Estimate] = {}
        tally, comparison, league = self.tally, self.comparison, None if self.is_match else self.league
        if tally is not None and comparison is not None:
            elo = {tally.first: comparison.elo, tally.second: ZERO}
        elif league is not None:
            elo = league.elo_by_name
        order = [*elo, *(name for name in self.players.values() if name not in elo)]
        if tally is not None and tally.points < tally.games / 2:
            order.reverse()
        keys = {name: key for key, name in self.players.items()}
        met = {name: self.meetings(name) for name in order}
        return [
            Standing(keys[name], name, elo.get(name), games.games, games.points / games.games if games.games else None)
            for name, games in met.items()
        ]

    def los(self, name: str, other: str) -> float | None:
        """The likelihood that one player is stronger than another; None for itself, or without games."""
        if name == other:
            return None
        if (comparison := self.comparison) is not None:
            first, second = self.tallies[0].first, self.tallies[0].second
            los = {first: comparison.los, second: 1 - comparison.los}
            return los[name] if {name, other} == los.keys() else None
        keys = {name: key for key, name in self.players.items()}
        if self.league is None or not {keys[name], keys[other]} <= set(self.league.ratings.players):
            return None
        return self.league.ratings.los(keys[name], keys[other])


# --- Ratings ---


@dataclass(frozen=True, slots=True)
class Standing:
    """One line of the standings. ``elo`` is relative to the anchor, None without a rated game; ``score`` in [0, 1] is
    of the ``games``, None without any."""

    identity: str
    name: str
    elo: Estimate | None
    games: int
    score: float | None


@dataclass(frozen=True, slots=True, eq=False)
class League:
    """All players with rated games, rated together by these; the strongest first. ``anchor`` is the player whose Elo is
    0."""

    standings: tuple[Standing, ...]
    anchor: str
    ratings: Ratings

    @property
    def elo(self) -> dict[str, Estimate]:
        """Everybody's, by identity."""
        return {one.identity: one.elo for one in self.standings if one.elo is not None}

    @property
    def elo_by_name(self) -> dict[str, Estimate]:
        return {one.name: one.elo for one in self.standings if one.elo is not None}


def rate_all(
    results: list[Result],
    known: Mapping[str, str],
    anchor: str | None = None,
    pairs: tuple[str, PairCounts] | None = None,
) -> League:
    """Rate by results between identities; ``known`` are names by identity. ``anchor`` is an identity; by default the
    weakest of the largest group whose members have all beaten each other, directly or through others. The Elo
    difference of two players alone comes from their ``pairs``: the first one's name, and its counts."""
    free = rate(results)
    names = {identity: known.get(identity, identity) for identity in free.players}
    zero = max(free.components, key=len)[-1] if anchor is None else anchor
    ratings = free.relative_to(zero)
    games, points = ratings.games.sum(1), ratings.points.sum(1)
    standings = []
    for identity in ratings.ranking():
        index = ratings.players.index(identity)
        if pairs is not None and identity != zero:
            counts = pairs[1] if names[identity] == pairs[0] else PairCounts(*reversed(pairs[1].counts))
            elo = compare(counts).elo
        else:
            elo = ratings.difference(identity, zero)
        score = float(points[index] / games[index])
        standings.append(Standing(identity, names[identity], elo, round(games[index]), score))
    return League(tuple(standings), names[zero], ratings)
