"""Standings: the statistics of games between any number of players, counted once, in the order of the plan.

The runner, the screen, reports, ratings and gates take their figures from here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from arena.go.coords import BLACK, Colour
from arena.go.record import Ending, Played
from arena.ratings import Estimate, PairCounts, Ratings, Result, Sprt, SprtState, WinDrawLoss, compare, rate
from arena.ratings.elo import Comparison

PEOPLE = "play"  # the event id of games with people. No event can have this name; its games are not in pairs
AFTER_A_MOVE = {Ending.SCORE, Ending.MOVE_LIMIT, Ending.ADJUDICATED}  # all other endings are a turn without a move


class Pairs:
    """Pentanomial counts of pairs of games on one opening, with the colours swapped. Identical pairs, in which both
    games are the same up to symmetry, count once."""

    def __init__(self) -> None:
        self.counts = [0] * 5
        self._seen: set[int] = set()
        self._halves: dict[object, tuple[int, int]] = {}

    def add(self, pair: object, is_second: bool, game: int, points: int) -> None:
        """Count a game: the number that identifies it up to symmetry, and a player's points in halves (0 to 2)."""
        other = self._halves.pop(pair, None)
        if other is None:
            self._halves[pair] = game, points
            return
        form = hash((other[0], game) if is_second else (game, other[0]))
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
        self._rated: dict[bool, list[int]] = {True: [0, 0], False: [0, 0]}  # Black's points in halves, distinct games
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
    def counts(self) -> PairCounts:
        """Finished pairs by the first player's score, identical ones once."""
        return PairCounts(*self._pairs.counts)

    @property
    def rated(self) -> list[Result]:
        """Black's points from all distinct rated games, one result for each colour."""
        seats = {True: (self.first, self.second), False: (self.second, self.first)}
        return [
            Result(*seats[has_black], halves / 2, games) for has_black, (halves, games) in self._rated.items() if games
        ]


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

    def add(self, games: Iterable[Played]) -> list[Played]:
        """Take games; returns the finished ones that count from now on, in their order."""
        if self.is_decided:
            return []
        self._waiting |= {int(game.id.rpartition("/")[2]): game for game in games}
        ready: list[Played] = []
        course = []
        while self._next in self._waiting and self._next + 1 in self._waiting:
            for number in (self._next, self._next + 1):
                game = self._waiting.pop(number)
                ready.append(game)
                if game.outcome is not None:
                    winner, is_second = game.outcome.winner, number > self._next  # where the first player has White
                    points = 1 if winner is None else 2 * ((winner is BLACK) is not is_second)
                    self._pairs.add(self._next, is_second, hash((points, game.canonical)), points)
            self._next += 2
            course.append(tuple(self._pairs.counts))
        if course:
            pairs, self.state = self.test.first_decision(course)
            if self.is_decided:
                del ready[2 * pairs :]
                self._waiting.clear()
        return [game for game in ready if game.outcome is not None]


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
        """``players`` are names by identity, in a match by name, in the order in which they are shown; no two have one
        name. ``planned`` games are None where the plan isn't known. ``tests`` are those of matches, by event."""
        self.players = dict(players)
        self.event = event
        self.planned = planned
        self.is_match = is_match
        self.games = 0
        self.date = ""  # of the last game that counts
        self.black_points = 0.0
        self.lengths: Counter[int] = Counter()  # games by their moves, openings counted
        self.forfeits: list[Played] = []  # games that a player lost by a fault of its own
        self.adjudicated = self.played_on = self.overturned = 0
        """Games that a rule for early ends ended; those that went on to their end after it had named a winner, if no
        fault ended them; and those of them with another winner, or none."""
        self.continued = self.restarted = 0  # games that went on after an interruption, and that had to begin again
        self._endings: dict[Ending, Counter[str]] = defaultdict(Counter)  # by winner, "" where there is none
        self._turns: Counter[str] = Counter()  # that players had
        self._seconds: dict[str, float] = defaultdict(float)
        self.tests = {event: SequentialTest(test) for event, test in (tests or {}).items()}
        self._keys = attrgetter("black", "white") if is_match else attrgetter("black_player", "white_player")
        self._tallies: dict[frozenset[str], MatchTally] = {}
        self._seats: dict[tuple[str, str], tuple[str, str, MatchTally]] = {}  # by Black's key and White's
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
            self._count(game)
        return counted

    def _count(self, game: Played) -> None:
        keys = self._keys(game)
        if keys not in self._seats:
            if not {*keys} <= self.players.keys():
                raise ValueError(f"game '{game.id}' is not one of {', '.join(self.players.values())}")
            names = (self.players[keys[0]], self.players[keys[1]])
            self._seats[keys] = *names, self.between(*names)
        black, white, tally = self._seats[keys]
        tally.add(game, tally.first == black)
        outcome, length = game.outcome, game.length
        assert outcome is not None
        winner, ending = outcome.winner, outcome.ending
        won, lost = ("", "") if winner is None else (black, white) if winner is BLACK else (white, black)
        self.games += 1
        self.date = game.date
        self.lengths[length] += 1
        self.black_points += outcome.black_score
        self.continued += game.continued > 0
        self.restarted += game.restarted > 0
        self._endings[ending][won] += 1
        chosen = length - game.opening
        by_black = (chosen + ((game.first is BLACK) is (game.opening % 2 == 0))) // 2
        self._turns[black] += by_black
        self._turns[white] += chosen - by_black
        if winner is not None and ending not in AFTER_A_MOVE:
            self._turns[lost] += 1
        self._seconds[black] += game.black_seconds
        self._seconds[white] += game.white_seconds
        if ending is Ending.ADJUDICATED:
            self.adjudicated += 1
        elif ending.is_forfeit:
            self.forfeits.append(game)
        elif game.adjudged is not None:
            self.played_on += 1
            self.overturned += game.adjudged is not winner

    def between(self, one: str, other: str) -> MatchTally:
        """The tally of two players, given by name."""
        both = frozenset((one, other))
        if both not in self._tallies:
            self._tallies[both] = MatchTally(*(name for name in self.players.values() if name in both))
        return self._tallies[both]

    @property
    def tallies(self) -> list[MatchTally]:
        """One for each two players that have met."""
        return [tally for tally in self._tallies.values() if tally.games]

    @property
    def is_decided(self) -> bool:
        """Whether a sequential test has ended."""
        return any(test.is_decided for test in self.tests.values())

    def meetings(self, player: str, other: str | None = None) -> WinDrawLoss:
        """All games of a player, or those against one other, from the player's view."""
        own = [0, 0, 0]
        for tally in self.tallies:
            names = (tally.first, tally.second)
            if player in names and other in (None, *names) and player != other:
                results = tally.results()[:: 1 if player == tally.first else -1]
                own = [sum(games) for games in zip(own, results, strict=True)]
        return WinDrawLoss(*own)

    @property
    def endings(self) -> dict[Ending, Counter[str]]:
        """How many games ended how, by winner and under "" the drawn ones; the most frequent ending first."""
        return dict(sorted(self._endings.items(), key=lambda item: -item[1].total()))

    def seconds_a_move(self, player: str) -> float | None:
        """Seconds that a player used per move of its own; None before the first."""
        turns = self._turns[player]
        return self._seconds[player] / turns if turns else None

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
    def evidence(self) -> Evidence:
        """What Elo is estimated from."""
        tallies = self.tallies
        rated = [result for tally in tallies for result in tally.rated]
        if len(tallies) == 1 and tallies[0].is_paired and tallies[0].counts.games:
            return Evidence(rated, tallies[0].first, tallies[0].counts)
        return Evidence(rated)

    @property
    def league(self) -> League | None:
        """All players rated together, in a match above its second player; None without rated games."""
        if self._league[0] != self.games:
            evidence, anchor = self.evidence, "" if self.tally is None else self.tally.second
            self._league = self.games, rate_all(evidence, anchor) if evidence.rated else None
        return self._league[1]

    @property
    def comparison(self) -> Comparison | None:
        """How much stronger the first of two players is, from their pairs; None without games, and for more players."""
        pairs = self.evidence.pairs if self.tally is None else self.tally.counts
        return None if pairs is None else compare(pairs)

    @property
    def anchor(self) -> str:
        """The name of the player whose Elo is 0; empty without games."""
        return "" if self.league is None else self.league.anchor

    @property
    def places(self) -> list[Standing]:
        """Everybody, the strongest first, with all games that count; those without games come last."""
        elo = {} if self.league is None else self.league.elo
        order = [*elo, *(name for name in self.players.values() if name not in elo)]
        if self.tally is not None:
            order = [self.tally.first, self.tally.second][:: -1 if self.tally.points < self.tally.games / 2 else 1]
        met = {name: self.meetings(name) for name in order}
        return [Standing(name, elo.get(name), own.games, own.share) for name, own in met.items()]

    def los(self, name: str, other: str) -> float | None:
        """The likelihood that one player is stronger than another; None for itself, or without games."""
        if name == other or self.league is None or not {name, other} <= self.league.elo.keys():
            return None
        if (comparison := self.comparison) is not None:
            return comparison.los if name == self.tallies[0].first else 1 - comparison.los
        return self.league.ratings.los(name, other)


# --- Ratings ---


class Standing(NamedTuple):
    """One line of the standings. ``elo`` is relative to the anchor, None without a rated game; ``score`` in [0, 1] is
    of the ``games``, None without any."""

    name: str
    elo: Estimate | None
    games: int
    score: float | None


class Evidence(NamedTuple):
    """Black's points from all distinct rated games; of two players alone also their ``pairs``, as ``first`` saw them,
    if any is finished."""

    rated: Sequence[Result]
    first: str = ""
    pairs: PairCounts | None = None


class League(NamedTuple):
    """All players with rated games, rated together by these; the strongest first. ``anchor`` is the player whose Elo is
    0."""

    standings: list[Standing]
    anchor: str
    ratings: Ratings

    @property
    def elo(self) -> dict[str, Estimate]:
        """Everybody's, by name."""
        return {one.name: one.elo for one in self.standings if one.elo is not None}


def rate_all(evidence: Evidence, anchor: str = "") -> League:
    """Rate everybody. The anchor is by default the weakest of the largest group whose members have all beaten each
    other, directly or through others. The Elo difference of two players alone comes from their pairs."""
    ratings = rate(evidence.rated)
    ratings = ratings.relative_to(anchor := anchor or max(ratings.components, key=len)[-1])
    games, points = ratings.games.sum(1), ratings.points.sum(1)
    standings = []
    for name in ratings.ranking():
        index = ratings.players.index(name)
        if evidence.pairs is None or name == anchor:
            elo = ratings.difference(name, anchor)
        else:
            elo = compare(PairCounts(*evidence.pairs[:: 1 if name == evidence.first else -1])).elo
        standings.append(Standing(name, elo, round(games[index]), float(points[index] / games[index])))
    return League(standings, anchor, ratings)
