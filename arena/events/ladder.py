"""A ladder: rounds of games, half of them spent where the order of two players is known worst. Nothing is played
here."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, starmap
from math import inf

import numpy as np

from arena import ConfigError
from arena.events.batch import Batch
from arena.events.pairing import Meeting, OfMany, Pairing, check_field, meeting_of
from arena.events.tally import Seen
from arena.events.terms import Terms, require
from arena.go.record import Played
from arena.players.registry import Entry
from arena.ratings import Z95, FloatArray, K, Ratings, Result, rate

GIVE_UP = 4
"""Blocks after which two players who have not both won some way round count as too far apart to be measured."""


@dataclass(frozen=True, slots=True)
class Ladder(OfMany):
    """Any number of players, ranked with as few games as that takes.

    A round is some meetings of ``block`` games each. First, players next to each other in ``entries`` meet; then the
    meetings follow from the ratings so far, see ``next_meetings``. It is over after ``games`` games, or when the
    interval between each two neighbours in the ranking is at most ``to_see`` Elo either way (95 %; 0: never).
    The next round depends on the games of the rounds before and on nothing else, so a ladder that goes on is the one
    that never stopped. Players may join later, ``games`` may grow.
    """

    name: str
    entries: tuple[Entry, ...]
    terms: Terms
    games: int
    to_see: float = 0.0
    block: int = 8

    def __post_init__(self) -> None:
        check_field("ladder", self.name, self.entries)
        require("games", self.games, 1)
        if self.block < 2 or self.block % 2:
            raise ConfigError(f"a block of {self.block} games can't be played; it is an even number from 2")
        if not 0 <= self.to_see < inf:
            raise ConfigError(f"an interval of ±{self.to_see:g} Elo can't be reached; give more than 0")

    @property
    def style(self) -> str:
        return "ladder"

    @property
    def games_each(self) -> int:
        """The maximum number of games between two players."""
        return self.games

    @property
    def settings(self) -> dict[str, object]:
        """What stays when players join or games are added."""
        return {"ladder": self.name, "block": self.block, **self.terms.settings}

    def course(self, played: Iterable[Batch] = ()) -> LadderCourse:
        return LadderCourse(self)

    def pairings(self, played: Iterable[Played] = ()) -> list[Pairing]:
        """What is missing of the last round of the games ``played`` or, if nothing is, the next round. Raises
        ConfigError when there are no openings left."""
        course = self.course()
        course.add([*played])
        return course.missing()


class LadderCourse:
    """A ladder under way. What it keeps of the rounds that are over are sums, so that a round costs the same whatever
    was played; games of the rounds come in their order, those of one round in any."""

    def __init__(self, ladder: Ladder):
        self._ladder = ladder
        self._entries = {entry.identity: entry for entry in ladder.entries}
        self._meetings = {meeting[2]: meeting for meeting in starmap(meeting_of, combinations(ladder.entries, 2))}
        self._games = 0
        self._points: Counter[tuple[str, str]] = Counter()  # Black's, of distinct games of earlier rounds
        self._distinct: Counter[tuple[str, str]] = Counter()
        self._seen = Seen()
        self._starts: Counter[str] = Counter()  # the first number that no game of earlier rounds has, by who met
        self._round = 1
        self._last: dict[str, Played] = {}  # the games of that round

    def add(self, games: Sequence[Played]) -> Batch:
        """Take in games. Those of other events, and of players who don't take part now, are passed over."""
        return Batch.of(games).take([number for number, game in enumerate(games) if self._take(game)])

    def _take(self, game: Played) -> bool:
        event, _, rest = game.id.partition("/")
        match = re.fullmatch(r"(\d{4,})-([0-9a-f]{8})/(\d{5,})", rest)
        if event != self._ladder.name or match is None or match[2] not in self._meetings or game.outcome is None:
            return False
        number = int(match[1])
        self._games += 1
        if number > self._round:
            self._close_round()
            self._round = number
        if number == self._round:
            self._last[game.id] = game
        else:
            self._sum_up(game)
        return True

    def _close_round(self) -> None:
        self._sum_up(*self._last.values())
        self._last = {}

    def _sum_up(self, *games: Played) -> None:
        found = []
        for game in games:
            digest, number = game.id.rpartition("-")[2].split("/")
            first, second, _ = self._meetings[digest]
            self._starts[digest] = max(self._starts[digest], 2 * ((int(number) - 1) // 2 + 1))
            colours = (first.identity, second.identity) if int(number) % 2 else (second.identity, first.identity)
            found.append((colours, game.canonical))
        for (colours, _), game, new in zip(found, games, self._seen.add([*map(hash, found)]).tolist(), strict=True):
            if game.outcome is not None and new:
                self._points[colours] += game.outcome.black_score  # type: ignore[assignment]  # halves, too
                self._distinct[colours] += 1

    def missing(self) -> list[Pairing]:
        """What is missing of the last round or, if nothing is, the next one. Raises ConfigError when there are no
        openings left."""
        missing = self._plan()
        if not missing:
            self._close_round()
            self._round += 1
            missing = self._plan()
        return missing

    def _plan(self) -> list[Pairing]:
        """The present round as it follows from the games before it, cut where all games would be too many; without
        those of its games that were played."""
        ladder, wanted = self._ladder, self._wanted()
        if not wanted:
            return []
        openings = ladder.terms.openings_for(max(self._starts[digest] for _, _, digest in wanted) + ladder.block)
        columns = []
        for first, second, digest in wanted:
            numbers = range(self._starts[digest], self._starts[digest] + ladder.block)
            prefix, seeds = f"{ladder.name}/{self._round:04d}-{digest}", f"{ladder.terms.seed}/{digest}"
            meeting = Meeting(first.name, second.name, prefix, seeds)
            columns.append([meeting.game(number, openings) for number in numbers])
        planned = [pairing for row in zip(*columns, strict=True) for pairing in row]
        others = self._games - sum(pairing.id in self._last for pairing in planned)
        planned = planned[: max(0, ladder.games - others)]
        return [pairing for pairing in planned if pairing.id not in self._last]

    def _wanted(self) -> list[tuple[Entry, Entry, str]]:
        """Who meets in the present round: first of all, whoever hasn't met anybody meets his neighbours."""
        results = [Result(*colours, self._points[colours], games) for colours, games in self._distinct.items()]
        ratings = rate(results) if results else None
        rated = () if ratings is None else ratings.players
        unrated = [
            pair for pair in pairwise(self._ladder.entries) if not {entry.identity for entry in pair} <= set(rated)
        ]
        if unrated or ratings is None:
            return [meeting_of(one, other) for one, other in unrated]
        chosen = next_meetings(ratings, self._ladder.block, self._ladder.to_see)
        return [meeting_of(self._entries[one], self._entries[other]) for one, other in chosen]


def next_meetings(ratings: Ratings, block: int, to_see: float = 0.0) -> list[tuple[str, str]]:
    """Who is to play ``block`` games next so that neighbours in the ranking are told apart; nobody when all are, to
    ``to_see`` Elo (95 %).

    Neighbours without a measured distance meet first, though not for ever. The rest of the round has two halves. In
    one, the widest interval between neighbours, or others whose order isn't shown, gets the meeting that shrinks it
    most, time and again. In the other, those meet who have met least for what their games tell, whatever the ranking:
    without it, errors of the ratings choose the games that are to correct them, and the intervals are too narrow.

    n games of players i and j carry the information w = n p (1 - p) / K², and with them the covariance C loses w Cv
    (Cv)' / (1 + w v'Cv), v = e_i - e_j (J. Sherman and W. Morrison, 1950).
    """
    players = ratings.players
    index = {player: i for i, player in enumerate(players)}
    gaps = [
        (min(index[one], index[other]), max(index[one], index[other])) for one, other in pairwise(ratings.ranking())
    ]
    bounded = ratings.beaten & ratings.beaten.T
    measured = [gap for gap in gaps if bounded[gap]]
    unmeasured = [gap for gap in gaps if not bounded[gap]]
    difference = ratings.elo[:, None] - ratings.elo
    urgent = [gap for gap in unmeasured if ratings.games[gap] < GIVE_UP * block]
    covariance = np.array(ratings.covariance)
    if to_see and not urgent and all(_half_width(covariance, *gap) <= to_see for gap in measured):
        return []
    open_order = [
        pair
        for pair in combinations(range(len(players)), 2)
        if bounded[pair] and abs(difference[pair]) < _half_width(covariance, *pair)
    ]
    chance = 1 / (1 + 10.0 ** (-difference / 400))
    information = block * chance * (1 - chance) / K**2
    most = min(len(players) - 1, max(2, len(players) // 2))
    chosen: list[tuple[int, int]] = []
    waiting = [*dict.fromkeys([*measured, *open_order])] if measured or urgent else list(unmeasured)
    while len(chosen) < most and (urgent or waiting):
        if urgent:
            meeting = urgent.pop(0)
        else:
            if len(chosen) % 2:
                worth = np.triu(information / (ratings.games + block), 1)
            else:
                gap = max(waiting, key=lambda pair: _half_width(covariance, *pair))
                waiting.remove(gap)
                worth = _shrinkage(covariance, information, *gap)
            for pair in chosen:
                worth[pair] = -1.0
            low, high = divmod(int(np.argmax(worth)), len(players))
            meeting = (low, high)
        chosen.append(meeting)
        covariance = _with_games(covariance, information[meeting], *meeting)
    return [(players[one], players[other]) for one, other in chosen]


def widest_gap(ratings: Ratings) -> tuple[str, str, float] | None:
    """The two neighbours in the ranking whose measured distance is known worst, the stronger first, and the half width
    (95 %) of that in Elo; None where no distance is measured."""
    found = [
        (one, other, Z95 * ratings.standard_error(one, other))
        for one, other in pairwise(ratings.ranking())
        if ratings.difference(one, other).is_bounded
    ]
    return max(found, key=lambda gap: gap[2], default=None)


def _half_width(covariance: FloatArray, one: int, other: int) -> float:
    """95 %, in Elo."""
    variance = covariance[one, one] + covariance[other, other] - 2 * covariance[one, other]
    return Z95 * float(np.sqrt(max(0.0, variance)))


def _shrinkage(covariance: FloatArray, information: FloatArray, one: int, other: int) -> FloatArray:
    """(n, n): by how much the variance of a difference falls when row and column play; 0 on the diagonal."""
    towards = covariance[:, one] - covariance[:, other]
    own = np.diag(covariance)
    spread = own[:, None] + own - 2 * covariance
    return np.triu(information * (towards[:, None] - towards) ** 2 / (1 + information * spread))


def _with_games(covariance: FloatArray, information: float, one: int, other: int) -> FloatArray:
    """The covariance when these two have played games that carry so much information."""
    towards = covariance[:, one] - covariance[:, other]
    spread = towards[one] - towards[other]
    return covariance - information * np.outer(towards, towards) / (1 + information * spread)
