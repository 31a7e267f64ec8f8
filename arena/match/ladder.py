"""A ladder: rounds of games, chosen by what is known least so far."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, starmap
from math import inf

import numpy as np

from arena import ConfigError
from arena.go.record import Played
from arena.match.schedule import (
    IsKnown,
    Matchup,
    OpenEvent,
    Pairing,
    check_players,
    no_game,
    pairings_of,
    require_range,
)
from arena.match.standings import Standings
from arena.ratings import Z95, FloatArray, K, Ratings, Result, rate

GIVE_UP = 4
"""Blocks after which two players who have not both won some way round count as too far apart to be measured."""


@dataclass(frozen=True, slots=True)
class Ladder(OpenEvent):
    """Players ranked with as few games as that takes.

    A round is some matchups of ``block`` games each. First, players next to each other in ``entries`` meet; then the
    matchups follow from the ratings so far, see ``next_matchups``. It is over after ``games`` games, or when the
    interval between each two neighbours in the ranking is at most ``precision`` Elo either way (95 %; 0: never). The
    next round depends on the games of the rounds before and on nothing else, so a resumed ladder plays the same games.
    ``games`` may grow.
    """

    games: int
    precision: float = 0.0
    block: int = 8

    def __post_init__(self) -> None:
        check_players("ladder", self.name, self.entries)
        require_range("games", self.games, 1)
        if self.block < 2 or self.block % 2:
            raise ConfigError(f"a block of {self.block} games can't be played; it is an even number from 2")
        if not 0 <= self.precision < inf:
            raise ConfigError(f"an interval of ±{self.precision:g} Elo can't be reached; give more than 0")

    @property
    def style(self) -> str:
        return "ladder"

    @property
    def settings(self) -> dict[str, object]:
        """What stays when players join or games are added."""
        return {"ladder": self.name, "block": self.block, **self.terms.settings}

    def standings(self) -> Standings:
        return Standings({player.identity: name for name, player in self.players.items()}, self.event, self.games)

    def pairings(self, played: Iterable[Played] = (), is_known: IsKnown = no_game) -> list[Pairing]:
        """The last round of the games ``played`` or, if it is complete, the next one; cut at the maximum of games.
        Raises ConfigError when there are no openings left."""
        rounds: dict[int, list[Played]] = {}
        round_of = self.round_finder()
        for game in played:
            if game.outcome is not None and (number := round_of(game.id)):
                rounds.setdefault(number, []).append(game)
        last = max(rounds, default=1)
        earlier = [game for number in sorted(rounds) if number < last for game in rounds[number]]
        ids = {game.id for game in rounds.get(last, ())}
        planned = self._round(last, earlier, ids)
        if ids.issuperset(pairing.id for pairing in planned):
            planned = self._round(last + 1, earlier + rounds.get(last, []), set())
        return [pairing for pairing in planned if not is_known(pairing.id)]

    def round_finder(self) -> Callable[[str], int]:
        """A function that returns the round of a game between two of its players, and 0 for the id of any other."""
        digests = {matchup.digest for matchup in self._matchups}
        pattern = re.compile(rf"{re.escape(self.name)}/(\d{{4,}})-([0-9a-f]{{8}})/\d{{5,}}")

        def round_of(id: str) -> int:
            found = pattern.fullmatch(id)
            return int(found[1]) if found and found[2] in digests else 0

        return round_of

    @property
    def _matchups(self) -> Iterator[Matchup]:
        return starmap(Matchup.of, combinations(self.entries, 2))

    def _round(self, number: int, earlier: Sequence[Played], ids: set[str]) -> list[Pairing]:
        """A round as it follows from the games of the ``earlier`` ones. ``ids`` are those of its own games so far."""
        starts = Counter[str]()
        for game in earlier:
            digest, index = game.id.rpartition("-")[2].split("/")
            starts[digest] = max(starts[digest], 2 * ((int(index) - 1) // 2 + 1))
        standings = Standings({player.identity: player.name for player in self.entries})
        standings.add(earlier)
        chosen = self._choose(standings.rated)
        if not chosen:
            return []
        openings = self.terms.openings_for(max(starts[matchup.digest] for matchup in chosen) + self.block)
        series = []
        for matchup in chosen:
            start = starts[matchup.digest]
            numbers = range(start, start + self.block)
            series.append(self.series_of(matchup, f"{number:04d}-{matchup.digest}", numbers))
        planned = pairings_of(series, openings)
        others = len(earlier) + len(ids - {pairing.id for pairing in planned})
        return planned[: max(0, self.games - others)]

    def _choose(self, results: list[Result]) -> list[Matchup]:
        """The matchups of the next round: players without games meet their neighbours first."""
        ratings = rate(results) if results else None
        rated = set() if ratings is None else set(ratings.players)
        unrated = [pair for pair in pairwise(self.entries) if not {player.identity for player in pair} <= rated]
        if unrated or ratings is None:
            return [Matchup.of(one, other) for one, other in unrated]
        players = {player.identity: player for player in self.entries}
        chosen = next_matchups(ratings, self.block, self.precision)
        return [Matchup.of(players[one], players[other]) for one, other in chosen]


def next_matchups(ratings: Ratings, block: int, precision: float = 0.0) -> list[tuple[str, str]]:
    """Who is to play ``block`` games next so that neighbours in the ranking are told apart; nobody when all are, to
    ``precision`` Elo (95 %).

    Neighbours without a measured distance meet first, though not for ever. In every fourth of the other meetings, the
    widest interval between neighbours, or others whose order isn't shown, gets the meeting that shrinks it most. In the
    rest, those players meet who have met least for what their games can show, independent of the ranking. Otherwise
    errors of the ratings would choose the games that are to correct them, and the intervals would be too narrow.

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
    if precision and not urgent and all(_half_width(covariance, *gap) <= precision for gap in measured):
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
            if len(chosen) % 4:
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
