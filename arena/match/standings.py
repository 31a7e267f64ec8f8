"""Standings: the statistics of games between any number of players, counted once, in the order of the plan.

The runner, the screen, reports, ratings and gates take their figures from here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from arena.go.coords import BLACK, Colour
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

PEOPLE = "play"  # the event id of games with people. No event can have this name; its games are not in pairs

SCORE, MOVE_LIMIT = Ending.SCORE, Ending.MOVE_LIMIT
FORFEITS = frozenset(ending for ending in Ending if ending.is_forfeit)


class Forfeit(NamedTuple):
    """A game that a player lost by a fault of its own, and what went wrong in a line."""

    id: str
    ending: Ending
    reason: str


class EndingCount(NamedTuple):
    """How many games ended so, who won them and who lost them; the rest were drawn."""

    ending: Ending
    games: int
    won: Counter[str]
    lost: Counter[str]

    @property
    def drawn(self) -> int:
        return self.games - self.won.total()


class AdjudicationCheck(NamedTuple):
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
    """Pentanomial counts of pairs of games on one opening, with the colours swapped. ``finished`` counts all pairs.

    Identical pairs, in which both games are the same up to symmetry, count once.
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
    """How two players did against each other, from the first one's view.

    Identical games (same players, colours, result and moves up to symmetry) count once in the ratings and in full
    elsewhere. Unrated games do not count in the ratings.
    """

    def __init__(self, first: str, second: str):
        self.first = first
        self.second = second
        self.games = 0
        self.seconds = 0.0  # that both thought
        self.repeats = 0  # games that are identical to an earlier one
        self.is_paired = True  # whether all rated games belong to pairs
        self._pairs = Pairs()
        self._results: Counter[tuple[bool, int]] = Counter()  # has the first Black, points in halves
        self._rated = {True: [0, 0], False: [0, 0]}  # Black's points in halves and the distinct games
        self._seen: set[int] = set()

    def add(self, game: Played, has_black: bool) -> None:
        """Count a finished game. ``has_black`` says whether the first player has Black."""
        assert game.outcome is not None
        winner = game.outcome.winner
        points = 1 if winner is None else 2 if (winner is BLACK) is has_black else 0
        self.games += 1
        self.seconds += game.black_seconds + game.white_seconds
        self._results[has_black, points] += 1
        form = hash((has_black, points, game.canonical))
        is_new = form not in self._seen
        self._seen.add(form)
        self.repeats += not is_new
        if game.unrated:
            return
        if is_new:
            rated = self._rated[has_black]
            rated[0] += points if has_black else 2 - points
            rated[1] += 1
        event, _, digits = game.id.rpartition("/")
        if digits.isdecimal() and event != PEOPLE:
            number = int(digits)
            self._pairs.add((event, (number - 1) // 2), number % 2 == 0, form, points)
        else:
            self.is_paired = False

    def results(self, colour: Colour | None = None) -> WinDrawLoss:
        """The first player's games, or only those that it played with ``colour``."""
        counts: Counter[int] = Counter()
        for (has_black, points), games in self._results.items():
            if colour is None or has_black is (colour == BLACK):
                counts[points] += games
        return WinDrawLoss(counts[2], counts[1], counts[0])

    @property
    def points(self) -> float:
        return self.results().points

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
        for has_black, (halves, games) in self._rated.items():
            black, white = (self.first, self.second) if has_black else (self.second, self.first)
            found += [Result(black, white, halves / 2, games)] * bool(games)
        return found


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
        return WinDrawLoss(*reversed(self._all))

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
        self.black_points = 0.0
        self.lengths: Counter[int] = Counter()  # games by their moves, openings counted
        self.forfeits: list[Forfeit] = []
        self._endings: Counter[tuple[Ending, str, str]] = Counter()  # with the winner and the loser, if any
        self._turns: Counter[str] = Counter()  # that players had
        self._seconds: dict[str, float] = defaultdict(float)
        self._played_on = self._overturned = 0  # games that went on after adjudication, and with another winner
        self.tests = {event: SequentialTest(test) for event, test in (tests or {}).items()}
        self._keys = attrgetter("black", "white") if is_match else attrgetter("black_player", "white_player")
        self._tallies: dict[frozenset[str], MatchTally] = {}
        self._by_colour: dict[tuple[str, str], tuple[MatchTally, bool]] = {}
        self._league: tuple[int, League | None] = 0, None  # after so many games

    def add(self, games: Iterable[Played]) -> list[Played]:
        """Count games; those without an outcome are skipped. Returns the ones that count from now on. Raises ValueError
        for a game of other players."""
        counted: list[Played] = []
        tested: dict[str, list[Played]] = {}
        for game in games:
            if self.tests and (event := game.id.rpartition("/")[0]) in self.tests:
                tested.setdefault(event, []).append(game)
            elif game.outcome is not None:
                counted.append(game)
        for event, some in tested.items():
            counted += self.tests[event].add(some)
        for game in counted:
            both = self._keys(game)
            if both not in self._by_colour:
                if not {*both} <= self.players.keys():
                    raise ValueError(f"game '{game.id}' is not one of {', '.join(self.players.values())}")
                black, white = (self.players[key] for key in both)
                tally = self.between(black, white)
                self._by_colour[both] = tally, tally.first == black
            tally, has_black = self._by_colour[both]
            tally.add(game, has_black)
            self._count(game, *(tally.first, tally.second)[:: 1 if has_black else -1])
        return counted

    def _count(self, game: Played, black: str, white: str) -> None:
        outcome, length = game.outcome, game.length
        assert outcome is not None
        winner, ending = outcome.winner, outcome.ending
        won, lost = ("", "") if winner is None else (black, white) if winner is BLACK else (white, black)
        self.games += 1
        self.date = game.date
        self.lengths[length] += 1
        self.black_points += outcome.black_score
        self._endings[ending, won, lost] += 1
        chosen = length - game.opening
        by_black = (chosen + ((game.first is BLACK) is (game.opening % 2 == 0))) // 2
        self._turns[black] += by_black
        self._turns[white] += chosen - by_black
        if winner is not None and ending is not SCORE and ending is not MOVE_LIMIT:  # the last turn has no move
            self._turns[lost] += 1
        self._seconds[black] += game.black_seconds
        self._seconds[white] += game.white_seconds
        if ending in FORFEITS:
            self.forfeits.append(Forfeit(game.id, ending, game.reason or f"{lost}: {ending}"))
        elif game.adjudged is not None and ending is not Ending.ADJUDICATED:
            self._played_on += 1
            self._overturned += game.adjudged is not winner

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

    def meetings(self, player: str, other: str | None = None) -> WinDrawLoss:
        """All games of a player, or those against one other, from the player's view."""
        wins = draws = losses = 0
        for tally in self.tallies:
            if player in (tally.first, tally.second) and other in (None, tally.first, tally.second) and player != other:
                own = tally.results()
                own = own if player == tally.first else WinDrawLoss(own.losses, own.draws, own.wins)
                wins, draws, losses = wins + own.wins, draws + own.draws, losses + own.losses
        return WinDrawLoss(wins, draws, losses)

    @property
    def endings(self) -> list[EndingCount]:
        """How games ended, the most frequent first."""
        found: dict[Ending, EndingCount] = {}
        for (ending, winner, loser), games in self._endings.items():
            before = found.get(ending, EndingCount(ending, 0, Counter(), Counter()))
            before.won.update({winner: games} if winner else {})
            before.lost.update({loser: games} if loser else {})
            found[ending] = before._replace(games=before.games + games)
        return sorted(found.values(), key=lambda count: -count.games)

    @property
    def check(self) -> AdjudicationCheck:
        """How the rule that ends games early has done."""
        adjudicated = sum(games for (ending, *_), games in self._endings.items() if ending is Ending.ADJUDICATED)
        return AdjudicationCheck(adjudicated, self._played_on, self._overturned)

    def seconds_a_move(self, player: str) -> float | None:
        """Seconds that a player used per move of its own; None before the first."""
        turns = self._turns[player]
        return self._seconds[player] / turns if turns else None

    # --- Who is stronger ---

    @property
    def rated(self) -> list[Result]:
        """Black's points from all distinct rated games, between the keys of ``players``."""
        keys = {name: key for key, name in self.players.items()}
        results = (result for tally in self.tallies for result in tally.rated)
        return [replace(result, black=keys[result.black], white=keys[result.white]) for result in results]

    @property
    def evidence(self) -> PairCounts | list[Result]:
        """What Elo is estimated from: two players' pairs, or else ``rated``."""
        tallies = self.tallies
        if len(tallies) == 1 and tallies[0].is_paired and tallies[0].finished_pairs:
            return tallies[0].counts
        return self.rated

    @property
    def league(self) -> League | None:
        """All players rated together, see ``rate_all``; None without rated games."""
        if self._league[0] != self.games:
            results, evidence = self.rated, self.evidence
            pairs = (self.tallies[0].first, evidence) if isinstance(evidence, PairCounts) else None
            self._league = self.games, rate_all(results, self.players, pairs=pairs) if results else None
        return self._league[1]

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
        evidence = self.tally.counts if self.tally is not None else self.evidence
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
        if self.tally is not None and self.comparison is not None:
            elo = {self.tally.first: self.comparison.elo, self.tally.second: ZERO}
        elif not self.is_match and self.league is not None:
            elo = self.league.elo_by_name
        order = [*elo, *(name for name in self.players.values() if name not in elo)]
        if self.tally is not None and self.tally.points < self.tally.games / 2:
            order.reverse()
        keys = {name: key for key, name in self.players.items()}
        met = {name: self.meetings(name) for name in order}
        return [Standing(keys[name], name, elo.get(name), own.games, own.share) for name, own in met.items()]

    def los(self, name: str, other: str) -> float | None:
        """The likelihood that one player is stronger than another; None for itself, or without games."""
        if name == other:
            return None
        if (comparison := self.comparison) is not None:
            first, second = self.tallies[0].first, self.tallies[0].second
            return {(first, second): comparison.los, (second, first): 1 - comparison.los}.get((name, other))
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
