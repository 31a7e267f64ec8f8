"""Standings: the statistics of games between any number of players, counted once, in the order of the plan.

The runner, the screen, reports, ratings and gates take their figures from here.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from math import inf
from operator import attrgetter
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from arena.go.coords import BLACK, Colour
from arena.go.record import Ending, Played
from arena.ratings import (
    Comparison,
    ConfidenceSequence,
    EloEstimate,
    Ends,
    PairCounts,
    Ratings,
    Results,
    Sprt,
    SprtState,
    WinDrawLoss,
    normalised_elo,
    rate,
)

if TYPE_CHECKING:
    from arena.match.event import Event

PEOPLE = "play"  # the event id of games with people. No event can have this name; its games are not in pairs
PLAYERS = attrgetter("black_player", "white_player")
AFTER_A_MOVE = {Ending.SCORE, Ending.MOVE_LIMIT, Ending.ADJUDICATED}  # all other endings are a turn without a move


class PlannedOrder:
    """The games of two players in one event, in the order in which they were planned.

    Short games end first: where a game's length depends on its winner, counting games as they end would favour a side.
    A pair of games on one opening, colours swapped, is complete when all games before it have come.
    """

    def __init__(self) -> None:
        self.scores: list[float] = []
        """The mean score (0, 1/4, 1/2, 3/4 or 1) of a player on each opening, when it is met first: games on one
        opening are alike, so further games on it add no observation."""
        self.complete: list[int] = []  # of each score, the number of complete pairs that it took
        self.pairs = [0] * 5  # by a player's score, 0 to 1, whether earlier ones are complete or not
        self._seen: set[int] = set()  # openings
        self._waiting: dict[int, tuple[int | None, int, Played | None]] = {}  # by number, from 1
        self._next = 1

    @property
    def waiting(self) -> int:
        """Finished games of pairs that are not complete."""
        return len(self._waiting)

    def add(self, number: int, points: int | None, opening: int, game: Played | None = None) -> list[Played]:
        """Add the game of this number, from 1: the player's points in halves (None without an outcome) and the key of
        its opening. Returns the games whose pairs are now complete."""
        waiting, complete = self._waiting, list[Played]()
        waiting[number] = points, opening, game
        partner = waiting.get(number + 1 if number % 2 else number - 1)
        if partner is None:
            return complete
        if points is not None and partner[0] is not None:
            self.pairs[points + partner[0]] += 1
        while self._next in waiting and self._next + 1 in waiting:
            (won, key, one), (more, other_key, other) = waiting.pop(self._next), waiting.pop(self._next + 1)
            self._next += 2
            complete += [each for each in (one, other) if each is not None]
            if won is not None and more is not None and not {key, other_key} <= self._seen:
                self._seen |= {key, other_key}
                self.scores.append((won + more) / 4)
                self.complete.append(self._next // 2)
        return complete


def _points(game: Played, has_black: bool) -> int:
    """A player's points, in halves."""
    assert game.outcome is not None
    winner = game.outcome.winner
    return 1 if winner is None else 2 * ((winner is BLACK) is has_black)


class MatchTally:
    """How two players did against each other, from the first one's view."""

    def __init__(self, first: str, second: str):
        self.first, self.second = first, second
        self.games = 0
        self.seconds = 0.0  # that both thought
        self._order = PlannedOrder()
        self._sequence: ConfidenceSequence | None = None  # created when first needed: it has arrays of thousands
        self._results: Counter[tuple[bool, int]] = Counter()  # has the first Black, points in halves

    def add(self, game: Played, has_black: bool) -> None:
        """Count a finished game. ``has_black`` says whether the first player has Black."""
        points = _points(game, has_black)
        self.games += 1
        self.seconds += game.black_seconds + game.white_seconds
        self._results[has_black, points] += 1
        _, _, number = game.id.rpartition("/")
        if number.isdecimal():  # else the game isn't of an event
            self._order.add(int(number), points, game.opening_key)

    def results(self, colour: Colour | None = None) -> WinDrawLoss:
        """The first player's games, or only those that it played with ``colour``."""
        colours = (True, False) if colour is None else (colour is BLACK,)
        return WinDrawLoss(*(sum(self._results[has_black, points] for has_black in colours) for points in (2, 1, 0)))

    @property
    def points(self) -> float:
        return self.results().points

    @property
    def counts(self) -> PairCounts:
        """Complete pairs of games by the first player's score."""
        return PairCounts(*self._order.pairs)

    @property
    def scores(self) -> list[float]:
        """The first player's scores on the openings of one event, in planned order; see ``PlannedOrder``."""
        return self._order.scores

    @property
    def ends(self) -> Ends:
        """The ends of the first player's interval against the second that is valid whenever one stops, in Elo."""
        self._sequence = self._sequence or ConfidenceSequence()
        self._sequence.add(self.scores[self._sequence.count :])
        return self._sequence.ends


class SequentialTest:
    """The test of one match. It counts each opening once, in the planned order, up to its decision: its state depends
    on the stored games alone, not on the number of workers or on interruptions."""

    def __init__(self, test: Sprt, openings: int | None = None):
        """``openings`` is the number of different ones that the match has, None where they don't end."""
        self.test = test
        self.state: SprtState | None = None  # None before the first pair
        self._openings = openings
        self._order = PlannedOrder()
        self._pairs = 0  # that were returned

    @property
    def is_decided(self) -> bool:
        return self.state is not None and self.state.is_decided

    @property
    def is_exhausted(self) -> bool:
        """Whether the match has no new opening with which the test could go on."""
        return not self.is_decided and self._openings is not None and self.openings >= self._openings

    @property
    def openings(self) -> int:
        """The number of openings counted so far."""
        return len(self._order.scores)

    @property
    def waiting(self) -> int:
        """Finished games that don't count yet because an earlier one is missing."""
        return 0 if self.is_decided else self._order.waiting

    def add(self, games: Iterable[Played]) -> list[Played]:
        """Take games; returns the finished ones that count from now on, in their order."""
        if self.is_decided:
            return []
        order, ready = self._order, list[Played]()
        known = len(order.scores)
        for game in games:
            number = int(game.id.rpartition("/")[2])
            # the first player has Black in games 1, 3, ..., with a handicap in none
            has_black = number % 2 == 1 and game.first is BLACK
            points = None if game.outcome is None else _points(game, has_black)
            ready += order.add(number, points, game.opening_key, game)
        if len(order.scores) > known:
            counts = np.eye(5)[np.multiply(order.scores, 4).astype(int)].cumsum(0)[known:]
            place, self.state = self.test.first_decision(counts)
            if self.is_decided:
                last, complete = order.complete[known + place - 1], self._pairs + len(ready) // 2
                del ready[len(ready) - 2 * (complete - last) :]
                del order.scores[known + place :]
        self._pairs += len(ready) // 2
        return [game for game in ready if game.outcome is not None]


class Standings:
    """Statistics of games between any number of players: a tally for each two that have met.

    A game counts for its players' identities, or in a match, where a bot may meet itself, for their names. Games of a
    match with a sequential test count as ``SequentialTest`` says, all others at once. All players are rated together.
    A match is seen by its first player; its second player is at 0.
    """

    def __init__(
        self, players: Mapping[str, str], event: str = "", plan: Event | None = None, *, is_match: bool = False
    ):
        """``players`` are distinct names by identity (in a match by name), in the order in which they are shown;
        ``event`` is the id under which the games are stored, ``plan`` the event, if it is known."""
        self.players, self.event, self.plan, self.is_match = dict(players), event, plan, is_match
        self.planned = None if plan is None else plan.games
        limits = {} if plan is None else {name: player.limits.seconds for name, player in plan.players.items()}
        self.limits = {name: seconds for name, seconds in limits.items() if seconds is not None}  # per move
        self.games = 0
        self.date = ""  # of the last game that counts
        self.black_points = 0.0
        self.lengths: Counter[int] = Counter()  # games by their moves, openings counted
        self.forfeits: list[Played] = []  # games that a player lost by a fault of its own
        self.adjudicated = self.played_on = self.overturned = 0
        """Games ended by adjudication; games played on after it to an end without a fault; and those of the latter with
        another winner, or none."""
        self.continued = self.restarted = 0  # games that went on after an interruption, and that had to begin again
        self._endings: dict[Ending, Counter[str]] = defaultdict(Counter)  # by winner, "" where there is none
        self._points: dict[str, Counter[int]] = defaultdict(Counter)  # games of a player by its points in halves
        self._turns: Counter[str] = Counter()  # that players had
        self._seconds: dict[str, float] = defaultdict(float)
        self._late: Counter[str] = Counter()  # moves that took much longer than their limit
        self.tests: dict[str, SequentialTest] = {}  # by event
        if plan is not None and plan.test is not None:
            self.tests[event] = SequentialTest(plan.test, plan.terms.limit)
        self._keys = attrgetter("black", "white") if is_match else PLAYERS
        self._tallies: dict[frozenset[str], MatchTally] = {}
        self._rated = RatedGames(self._keys)
        self.rating_share = 1.0
        """The share of the time that ``league`` may take; below 1 it may lack the last games of a tournament."""
        self._league: tuple[int, Ratings | None] = 0, None  # number of rated games, and their ratings
        self._rate_again = 0.0  # when

    def add(self, games: Iterable[Played]) -> list[Played]:
        """Count games with an outcome; returns those that count from now on. Raises ValueError for other players."""
        counted = counted_games(games, self.tests)
        for game in counted:
            self._count(game)
        if counted:
            self.date = counted[-1].date
        self.lengths.update(game.length for game in counted)
        self.continued += sum(game.continued > 0 for game in counted)
        self.restarted += sum(game.restarted > 0 for game in counted)
        self._rated.add(counted)
        return counted

    def _count(self, game: Played) -> None:
        keys = self._keys(game)
        if not {*keys} <= self.players.keys():
            raise ValueError(f"game '{game.id}' is not one of {', '.join(self.players.values())}")
        black, white = (self.players[key] for key in keys)
        tally = self.between(black, white)
        tally.add(game, tally.first == black)
        outcome, opening, turns, seconds = game.outcome, game.opening, self._turns, self._seconds
        assert outcome is not None
        winner, ending = outcome.winner, outcome.ending
        won, lost = ("", "") if winner is None else (black, white) if winner is BLACK else (white, black)
        points = _points(game, True)
        self._points[black][points] += 1
        self._points[white][2 - points] += 1
        self.games += 1
        self.black_points += points / 2
        self._endings[ending][won] += 1
        chosen = game.length - opening
        by_black = (chosen + ((game.first is BLACK) is (opening % 2 == 0))) // 2
        turns[black] += by_black
        turns[white] += chosen - by_black
        if winner is not None and ending not in AFTER_A_MOVE:
            turns[lost] += 1
        seconds[black] += game.black_seconds
        seconds[white] += game.white_seconds
        self._late[black] += game.black_late
        self._late[white] += game.white_late
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
            first, second = sorted(both, key=[*self.players.values()].index)
            self._tallies[both] = MatchTally(first, second)
        return self._tallies[both]

    @property
    def tallies(self) -> list[MatchTally]:
        """One for each two players that have met."""
        return [tally for tally in self._tallies.values() if tally.games]

    @property
    def is_decided(self) -> bool:
        return any(test.is_decided for test in self.tests.values())

    def meetings(self, player: str, other: str | None = None) -> WinDrawLoss:
        """All games of a player, or those against one other, from the player's view."""
        tally = None if other is None else self._tallies.get(frozenset((player, other)))
        if tally is not None:
            return tally.results() if player == tally.first else tally.results().swapped
        points = self._points[player] if other is None else Counter[int]()
        return WinDrawLoss(points[2], points[1], points[0])

    @property
    def endings(self) -> dict[Ending, Counter[str]]:
        """How many games ended how, by winner and under "" the drawn ones; the most frequent ending first."""
        return dict(sorted(self._endings.items(), key=lambda item: -item[1].total()))

    def seconds_a_move(self, player: str) -> float | None:
        """Seconds that a player used per move of its own; None before the first."""
        turns = self._turns[player]
        return self._seconds[player] / turns if turns else None

    def late_share(self, player: str) -> float:
        """The share of a player's moves that took much longer than their limit, in [0, 1]."""
        return self._late[player] / max(1, self._turns[player])

    @property
    def tally(self) -> MatchTally | None:
        """Of a match with games, else None."""
        return self.tallies[0] if self.is_match and self.games else None

    @property
    def test(self) -> SequentialTest | None:
        """Of a match with a sequential test."""
        return self.tests.get(self.event)

    @property
    def rated_games(self) -> int:
        return len(self._rated)

    @property
    def rated(self) -> Results:
        """The games that ratings are estimated from."""
        return self._rated.results(self.players)

    def rate(self, games: int | None = None) -> Ratings | None:
        """Rate all players by the first ``games`` (default: all); of two, the second is at 0. None without games."""
        return self._rated.rate(self.players, games)

    @property
    def league(self) -> Ratings | None:
        """All players rated together; None without rated games."""
        begin, is_at_once = monotonic(), self.is_match or self.rating_share == 1
        if self._league[0] != self.rated_games and (is_at_once or begin >= self._rate_again):
            ratings = self.rate()
            self._league = self.rated_games, ratings and ratings.of_plan(self._is_final(ratings), self.ends)
            end = monotonic()
            self._rate_again = end + (end - begin) * (1 / self.rating_share - 1)
        return self._league[1]

    def _is_final(self, ratings: Ratings) -> bool:
        plan = self.plan
        if plan is None or self.planned is None:
            return True
        return not (plan.test or plan.grown) and (self.games >= self.planned or plan.is_enough(ratings))

    @property
    def is_final(self) -> bool:
        """Whether the event has ended as planned before its first game. Only then the intervals of joint ratings and
        the likelihoods of superiority hold; otherwise those of ``MatchTally.ends`` do."""
        return self.league is None or self.league.is_final

    def anytime(self, name: str, other: str) -> Ends:
        """The ends, in Elo, of the interval for a player's lead over another that is valid whenever one stops."""
        tally = self._tallies.get(frozenset((name, other)))
        if tally is None or name == other:
            return None, None
        low, high = tally.ends
        swapped = None if high is None else -high, None if low is None else -low
        return (low, high) if name == tally.first else swapped

    @property
    def ends(self) -> dict[str, Ends]:
        """Of an event of two players, ``MatchTally.ends`` by the first one's name; else empty."""
        tallies = self.tallies
        return {tallies[0].first: tallies[0].ends} if len(tallies) == 1 and self.event else {}

    @property
    def openings(self) -> int:
        """The number of different openings of rated games."""
        return 0 if self.league is None else self.league.openings

    @property
    def black_advantage(self) -> EloEstimate | None:
        """Black's advantage in Elo; None where the games don't bound it."""
        if self.league is None:
            return None
        return rate(self._rated.results(self.players, self._league[0]), black_advantage=True).black_advantage

    @property
    def comparison(self) -> Comparison | None:
        """The lead of the first of two players, with its LOS if ``is_final``; None for more players, without games."""
        if self.league is None or len(self.tallies) != 1:
            return None
        tally, both = self.tallies[0], (self.tallies[0].first, self.tallies[0].second)
        los = self.league.los(*both) if self.is_final else None
        normalised = normalised_elo(tally.counts)
        if normalised is not None and self.openings < sum(tally.counts):  # the interval would count pairs
            normalised = EloEstimate(normalised.value)
        return Comparison(self.league.estimates[both[0]], normalised, los)

    @property
    def anchor(self) -> str:
        """The name of the player whose Elo is 0; empty where that is the mean of several."""
        return "" if self.league is None or len(self.league.zero) > 1 else next(iter(self.league.zero))

    @property
    def places(self) -> list[Standing]:
        """Everybody, the strongest first, with all games that count; those without rated games come last."""
        elo = {} if self.league is None else self.league.estimates
        order = sorted(self.players.values(), key=lambda name: -round(elo[name].value, 6) if name in elo else inf)
        met = {name: self.meetings(name) for name in order}
        return [_standing(name, self.league, own.games, own.share) for name, own in met.items()]

    def los(self, name: str, other: str) -> float | None:
        """The likelihood that ``name`` is stronger than another player; None without games or unless ``is_final``."""
        if name == other or self.league is None or not self.is_final or not {name, other} <= {*self.league.players}:
            return None
        return self.league.los(name, other)


class Standing(NamedTuple):
    """One line of the standings. ``elo`` is shown, relative to the anchor; None without rated games. ``score`` is in
    [0, 1]; None without games. ``planned`` has the interval that holds at the end of an unchanged plan; ``anytime`` the
    ends of the interval that is valid whenever one stops, if there is one."""

    name: str
    elo: EloEstimate | None
    games: int
    score: float | None
    planned: EloEstimate | None = None
    anytime: Ends = (None, None)


def _standing(name: str, ratings: Ratings | None, games: int, score: float | None) -> Standing:
    if ratings is None or name not in ratings.estimates:
        return Standing(name, None, games, score)
    planned = ratings.planned_estimates[name]
    is_fixed = planned.low == planned.high is not None
    anytime = (planned.low, planned.high) if is_fixed else ratings.anytime.get(name, (None, None))
    return Standing(name, ratings.estimates[name], games, score, planned, anytime)


class RatedGames:
    """Games as columns: what ratings need of them."""

    def __init__(self, keys: Callable[[Played], tuple[str, str]] = PLAYERS):
        """``keys`` returns the keys of Black and White, by default their identities."""
        self._keys, self._places = keys, defaultdict[str, int](count().__next__)
        self._black, self._white, self._points, self._opening = array("I"), array("I"), array("B"), array("Q")

    def __len__(self) -> int:
        return len(self._points)

    @property
    def players(self) -> list[str]:
        return [*self._places]

    def add(self, games: Iterable[Played]) -> None:
        """Add finished games, except those that are unrated."""
        rated = [game for game in games if not game.unrated]
        for column, keys in zip((self._black, self._white), zip(*map(self._keys, rated), strict=True), strict=False):
            column.extend(map(self._places.__getitem__, keys))
        self._points.extend([_points(game, True) for game in rated])
        self._opening.extend([game.opening_key for game in rated])

    def results(self, names: Mapping[str, str], games: int | None = None) -> Results:
        """The first ``games``, all by default, between players with these names."""
        columns = (self._black, self._white, self._points, self._opening)
        black, white, points, opening = (np.array(column[:games]) for column in columns)
        players = tuple(names[key] for key in self._places)
        return Results(players, black.astype(np.int64), white.astype(np.int64), points / 2, opening)

    def rate(self, names: Mapping[str, str], games: int | None = None) -> Ratings | None:
        """Rate all players by the first ``games``; of two, the last of ``names`` is at 0. None without games."""
        results = self.results(names, games)
        if not len(results.points):
            return None
        ratings = rate(results)
        last = [name for name in names.values() if name in ratings.players][-1]
        return ratings.relative_to({last: 0.0}) if len(ratings.players) == 2 else ratings


def counted_games(games: Iterable[Played], tests: Mapping[str, SequentialTest]) -> list[Played]:
    """Finished games that count from now on: those of an event with a test as the test says, all others at once."""
    counted, tested = list[Played](), defaultdict[str, list[Played]](list)
    for game in games:
        if tests and (event := game.id.rpartition("/")[0]) in tests:
            tested[event].append(game)
        elif game.outcome is not None:
            counted.append(game)
    return counted + [game for event, some in tested.items() for game in tests[event].add(some)]


def rated_places(ratings: Ratings) -> list[Standing]:
    """Everybody with rated games, the strongest first, with these games."""
    games, points = ratings.games.sum(1).tolist(), ratings.points.sum(1).tolist()
    order = map(ratings.players.index, ratings.ranking())
    return [_standing(ratings.players[at], ratings, round(games[at]), points[at] / games[at]) for at in order]
