"""A ladder: rounds of games, each spent where two neighbours in the ranking are told apart worst. Nothing is played
here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import inf

import numpy as np

from arena import ConfigError
from arena.events.pairing import Pairing, check_field, games_of_two, meeting_of
from arena.events.terms import Terms, require
from arena.go.record import Record
from arena.players.registry import Entry
from arena.ratings import Z95, Bound, FloatArray, K, Ratings, Result, rate

GIVE_UP = 4
"""Blocks after which two players who have not both won some way round count as too far apart to be measured."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """Any number of players, ranked with as few games as that takes.

    A round is some meetings of ``block`` games each. First, players next to each other in ``entries`` meet; then those
    whose games tell most about the widest intervals between neighbours in the ranking. It is over after ``games``
    games, or when each of these intervals is known to ``to_see`` Elo either way (95 %; 0 asks for no end of that kind).
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
    def event(self) -> str:
        return self.name

    @property
    def players(self) -> dict[str, Entry]:
        return {entry.name: entry for entry in self.entries}

    @property
    def games_each(self) -> int:
        """The most games that two players can come to."""
        return self.games

    @property
    def settings(self) -> dict[str, object]:
        """What stays when players join or games are added."""
        return {"ladder": self.name, "block": self.block, **self.terms.settings}

    def pairings(self, played: Iterable[Record] = ()) -> list[Pairing]:
        """The games ``played``, then what is missing of their last round or, if nothing is, the next round.

        Games of other events, and of players who don't take part now, are passed over. Raises ConfigError when there
        are no openings left.
        """
        games = list(self._own_games(played))
        known = {game.pairing.id for game in games}
        last = max((game.round for game in games), default=1)
        planned = self._plan(last, [game for game in games if game.round < last], games)
        if all(pairing.id in known for pairing in planned):
            planned = self._plan(last + 1, games, games)
        return [*(game.pairing for game in games), *(pairing for pairing in planned if pairing.id not in known)]

    def _own_games(self, played: Iterable[Record]) -> Iterator[_Game]:
        meetings = {
            digest: ((first.name, first.identity), (second.name, second.identity))
            for first, second, digest in (meeting_of(one, other) for one, other in combinations(self.entries, 2))
        }
        for record in played:
            event, _, rest = record.id.partition("/")
            match = re.fullmatch(r"(\d{4,})-([0-9a-f]{8})/(\d{5,})", rest)
            if event != self.name or match is None or match[2] not in meetings or record.outcome is None:
                continue
            first, second = meetings[match[2]]
            number = int(match[3]) - 1
            black, white = (second, first) if number % 2 else (first, second)
            opening = record.moves[: record.opening]
            pairing = Pairing(record.id, number, black[0], white[0], opening, record.seed)
            result = Result(black[1], white[1], record.outcome.black_score)
            yield _Game(pairing, int(match[1]), match[2], result, record.moves)

    def _plan(self, number: int, before: Sequence[_Game], games: Sequence[_Game]) -> list[Pairing]:
        """Round ``number`` by the games ``before`` it, cut where all ``games`` with it would be too many."""
        wanted = self._meetings(before)
        if not wanted:
            return []
        starts = {digest: 0 for _, _, digest in wanted}
        for game in before:
            if game.digest in starts:
                starts[game.digest] = max(starts[game.digest], 2 * (game.pairing.number // 2 + 1))
        openings = self.terms.openings_for(max(starts.values()) + self.block)
        columns = []
        for first, second, digest in wanted:
            numbers = range(starts[digest], starts[digest] + self.block)
            prefix, seeds = f"{self.name}/{number:04d}-{digest}", f"{self.terms.seed}/{digest}"
            columns.append(games_of_two(first.name, second.name, numbers, openings, prefix, seeds))
        planned = [pairing for row in zip(*columns, strict=True) for pairing in row]
        ids = {pairing.id for pairing in planned}
        others = sum(game.pairing.id not in ids for game in games)
        return planned[: max(0, self.games - others)]

    def _meetings(self, before: Sequence[_Game]) -> list[tuple[Entry, Entry, str]]:
        """Who meets in the round after these games: first of all, whoever hasn't met anybody meets his neighbours."""
        distinct = {(game.digest, game.pairing.black, game.moves): game.result for game in before}
        ratings = rate(distinct.values()) if distinct else None
        rated = () if ratings is None else ratings.players
        unrated = [pair for pair in pairwise(self.entries) if not {entry.identity for entry in pair} <= set(rated)]
        if unrated or ratings is None:
            return [meeting_of(one, other) for one, other in unrated]
        by_identity = {entry.identity: entry for entry in self.entries}
        chosen = next_meetings(ratings, self.block, self.to_see)
        return [meeting_of(by_identity[one], by_identity[other]) for one, other in chosen]


@dataclass(frozen=True, slots=True)
class _Game:
    """A stored game of a ladder: its round, and the digest of who met."""

    pairing: Pairing
    round: int
    digest: str
    result: Result
    moves: tuple[int, ...]


def next_meetings(ratings: Ratings, block: int, to_see: float = 0.0) -> list[tuple[str, str]]:
    """Who is to play ``block`` games next so that neighbours in the ranking are told apart; nobody when all are, to
    ``to_see`` Elo (95 %).

    Neighbours without a measured distance meet first, though not for ever. Then, time and again, the widest interval
    between neighbours that has no meeting yet gets the one that shrinks it most: n games of players i and j carry the
    information w = n p (1 - p) / K², and with them the covariance C loses w Cv (Cv)' / (1 + w v'Cv), v = e_i - e_j
    (J. Sherman and W. Morrison, 1950). Half the players may be at a table.
    """
    players = ratings.players
    index = {player: i for i, player in enumerate(players)}
    gaps = [(index[one], index[other]) for one, other in pairwise(ratings.ranking())]
    unmeasured = [gap for gap in gaps if not _is_measured(ratings, *gap)]
    measured = [gap for gap in gaps if gap not in unmeasured]
    urgent = [gap for gap in unmeasured if ratings.games[gap] < GIVE_UP * block]
    covariance = np.array(ratings.covariance)
    if to_see and not urgent and all(_half_width(covariance, *gap) <= to_see for gap in measured):
        return []
    difference = ratings.elo[:, None] - ratings.elo
    chance = 1 / (1 + 10.0 ** (-difference / 400))
    information = block * chance * (1 - chance) / K**2
    most = min(len(players) - 1, max(2, len(players) // 2))
    chosen: list[tuple[int, int]] = []
    waiting = measured if measured or urgent else list(unmeasured)
    while len(chosen) < most and (urgent or waiting):
        if urgent:
            meeting = urgent.pop(0)
        else:
            gap = max(waiting, key=lambda pair: _half_width(covariance, *pair))
            waiting.remove(gap)
            shrinkage = _shrinkage(covariance, information, *gap)
            for one, other in chosen:
                shrinkage[one, other] = shrinkage[other, one] = -1.0
            low, high = divmod(int(np.argmax(shrinkage)), len(players))
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
        if ratings.difference(one, other).bound is Bound.BOTH
    ]
    return max(found, key=lambda gap: gap[2], default=None)


def _is_measured(ratings: Ratings, one: int, other: int) -> bool:
    return bool(ratings.beaten[one, other] and ratings.beaten[other, one])


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
