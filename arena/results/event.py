"""Statistics of one event, and everything that is stored about it. No words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from typing import Any

from arena.go.game import Ending, Rules
from arena.go.record import Played
from arena.match.standings import League, MatchTally, SequentialTest, Standing, Standings, rate_all
from arena.players.player import Player
from arena.ratings import ZERO, Comparison, Estimate, PairCounts, Result, Sprt, compare, share_interval
from arena.results.store import Event

MOMENTS = 30
"""How many points a rating's course has, at most."""


class Kind(StrEnum):
    """What sort of event it is."""

    MATCH = "match"
    TOURNAMENT = "tournament"
    LADDER = "ladder"

    @classmethod
    def of(cls, settings: dict[str, Any]) -> Kind:
        """Of the event with these settings."""
        return next((kind for kind in (cls.TOURNAMENT, cls.LADDER) if kind in settings), cls.MATCH)


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


@dataclass(frozen=True, slots=True)
class Moment:
    """The ratings after a number of games, by name."""

    games: int
    elo: dict[str, Estimate]


class Findings:
    """Statistics of an event's games, as far as ``table`` has counted them. A match is seen by its first player:
    its Elo comes from pairs of games, that of more than two players from joint ratings; either way ``anchor`` is the
    player at 0."""

    def __init__(self, id: str, table: Standings, planned: int | None = None, *, is_match: bool = False):
        """``planned`` games are None where the plan isn't known."""
        self.id = id
        self.table = table
        self.planned = planned
        self.is_match = is_match

    @cached_property
    def test(self) -> SequentialTest | None:
        """Of a match with a sequential test."""
        return self.table.tests.get(self.id)

    @cached_property
    def tally(self) -> MatchTally | None:
        """Of a match with games, else None."""
        return self.table.tallies[0] if self.is_match and self.table.games else None

    @cached_property
    def comparison(self) -> Comparison | None:
        """How much stronger the first of two players is, from their pairs; None without games, and for more players."""
        if self.tally is not None:
            return self.tally.comparison()
        evidence = self.table.evidence
        return compare(evidence) if isinstance(evidence, PairCounts) else None

    @cached_property
    def league(self) -> League | None:
        """All players rated together; None without games."""
        return self.table.league()

    @cached_property
    def anchor(self) -> str:
        """The name of the player whose Elo is 0; empty without games."""
        if self.tally is not None:
            return self.tally.second
        return "" if self.league is None else self.league.anchor

    @cached_property
    def places(self) -> tuple[Standing, ...]:
        """Everybody, the strongest first, with all games that count; those without games come last."""
        elo: dict[str, Estimate] = {}
        if self.tally is not None and self.comparison is not None:
            elo = {self.tally.first: self.comparison.elo, self.tally.second: ZERO}
        elif self.league is not None:
            elo = self.league.elo_by_name
        order = [*elo, *(name for name in self.table.players.values() if name not in elo)]
        if self.tally is not None and self.tally.points < self.tally.games / 2:
            order.reverse()
        places = []
        keys = {name: key for key, name in self.table.players.items()}
        for name in order:
            met = self.table.meetings(name)
            score = met.points / met.games if met.games else None
            places.append(Standing(keys[name], name, elo.get(name), met.games, score))
        return tuple(places)

    def los(self, name: str, other: str) -> float | None:
        """The likelihood that one player is stronger than another; None for itself, or without games."""
        if name == other:
            return None
        if self.comparison is not None:
            first, second = self.table.tallies[0].first, self.table.tallies[0].second
            los = {first: self.comparison.los, second: 1 - self.comparison.los}
            return los[name] if {name, other} == los.keys() else None
        keys = {name: key for key, name in self.table.players.items()}
        if self.league is None or not {keys[name], keys[other]} <= set(self.league.ratings.players):
            return None
        return self.league.ratings.los(keys[name], keys[other])

    @cached_property
    def endings(self) -> tuple[EndingCount, ...]:
        """How games ended, the most frequent first."""
        found = []
        for ending, games in self.table.endings:
            won, lost = Counter[str](), Counter[str]()
            for tally in self.table.tallies:
                counts = tally.results(ending=ending)
                won += Counter({tally.first: counts.wins, tally.second: counts.losses})
                lost += Counter({tally.first: counts.losses, tally.second: counts.wins})
            found.append(EndingCount(ending, games, won, lost))
        return tuple(found)

    @cached_property
    def check(self) -> AdjudicationCheck:
        """How the rule that ends games early has done."""
        tallies = self.table.tallies
        return AdjudicationCheck(
            dict(self.table.endings).get(Ending.ADJUDICATED, 0),
            sum(tally.played_on for tally in tallies),
            sum(tally.overturned for tally in tallies),
        )


class Report(Findings):
    """Everything that is known of a stored event. ``games`` are those that count, in their order, or none where they
    aren't kept; ``counted`` is their number, ``stored`` that of all finished games."""

    def __init__(
        self,
        event: Event,
        participants: Mapping[str, Player],
        games: Iterable[Sequence[Played]],
        planned: int | None = None,
        tests: Mapping[str, Sprt] | None = None,
        *,
        total: int,
        keep: bool,
    ):
        """``participants`` are by what tells one from the others of the event. Of ``total`` games, those without an
        outcome are left out."""
        self.created = event.created
        self.settings = event.settings
        self.kind = Kind.of(self.settings)
        is_match = self.kind is Kind.MATCH
        table = Standings({key: one.name for key, one in participants.items()}, by_name=is_match, tests=tests)
        super().__init__(event.id, table, planned, is_match=is_match)
        self.rules = Rules.from_json(self.settings["rules"])
        self.participants = dict(participants)
        self.stored = 0
        self.dates: tuple[str, str] | None = None  # the first and the last
        self.games: list[Played] = []
        self._stages: list[tuple[int, PairCounts | list[Result]]] = []  # games, and what was to be rated by then
        ends = {round(total * part / MOMENTS) for part in range(1, MOMENTS + 1)} - {0}
        read = 0
        for some in games:
            inside = sorted(end - read for end in ends if read < end < read + len(some))
            for begin, end in pairwise([0, *inside, len(some)]):
                self._count(some[begin:end], keep)
                if read + end in ends and self.table.games > (self._stages[-1][0] if self._stages else 0):
                    evidence = self.table.evidence if len(self.participants) == 2 else self.table.rated
                    self._stages.append((self.table.games, evidence))
            read += len(some)

    def _count(self, games: Sequence[Played], keep: bool) -> None:
        self.stored += sum(game.outcome is not None for game in games)
        counted = self.table.add(games)
        if keep:
            self.games += counted
        if dates := [*(self.dates or ()), *(game.date for game in counted if game.date)]:
            self.dates = min(dates), max(dates)

    @property
    def counted(self) -> int:
        return self.table.games

    @cached_property
    def course(self) -> list[Moment]:
        """The ratings of everybody but the anchor as the games came in: after each of some equal parts."""
        moments = []
        anchor = None if self.league is None else self.league.ratings.anchor
        for games, evidence in self._stages:
            if isinstance(evidence, PairCounts):
                first, counts = self.table.tallies[0].first, evidence
                if first == self.anchor:
                    first, counts = self.table.tallies[0].second, PairCounts(*reversed(evidence.counts))
                moments.append(Moment(games, {first: compare(counts).elo}))
            elif any(anchor in (result.black, result.white) for result in evidence):
                elo = rate_all(evidence, self.table.players, self.anchor).elo_by_name
                moments.append(Moment(games, {name: one for name, one in elo.items() if name != self.anchor}))
        return moments
