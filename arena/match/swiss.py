"""A Swiss tournament: rounds of games between the players whose order is least certain."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import inf
from typing import ClassVar

import numpy as np

from arena import ConfigError
from arena.go.record import Played
from arena.match.schedule import IsKnown, OpenEvent, Pairing, pair_digest, pairings_of, require_range
from arena.match.standings import RatedGames
from arena.players.player import Player
from arena.ratings import Ratings

GIVE_UP = 4  # blocks after which two players who have not both won, directly or not, count as too far apart


@dataclass(frozen=True, slots=True)
class Swiss(OpenEvent):
    """Players ranked with as few games as that takes: rounds of matchups of ``block`` games each.

    First, players next to each other in ``entries`` meet; then the matchups follow from the ratings so far alone, see
    ``next_matchups``, so a resumed tournament plays the same games. It is over after ``games``, which may grow, or when
    all neighbours in the ranking are known to ``precision`` Elo either way (95 %; 0: never).
    """

    games: int
    precision: float = 0.0
    block: int = 8
    style: ClassVar[str] = "swiss tournament"

    def __post_init__(self) -> None:
        self.check_players("tournament")
        require_range("games", self.games, 1)
        if not 0 <= self.precision < inf:
            raise ConfigError(f"an interval of ±{self.precision:g} Elo can't be reached; give more than 0")

    @property
    def settings(self) -> dict[str, object]:
        """What stays when players join or games are added. The key is the word of versions before 0.2."""
        return {"ladder": self.name, "block": self.block, **self.terms.settings}

    def pairings(self, played: Iterable[Played] = (), is_known: IsKnown = lambda id: False) -> list[Pairing]:
        """What this round lacks, or the next round; ``games`` at most. Raises ConfigError without openings."""
        rounds, round_of = defaultdict[int, list[Played]](list), self.round_finder()
        for game in played:
            if game.outcome is not None and (number := round_of(game.id)):
                rounds[number].append(game)
        *before, last = sorted(rounds) or [1]
        earlier = [game for number in before for game in rounds[number]]
        planned = self._round(last, earlier, rounds[last]) or self._round(last + 1, earlier + rounds[last], [])
        return [pairing for pairing in planned if not is_known(pairing.id)]

    def round_finder(self) -> Callable[[str], int]:
        """A function that returns the round of a game between two of its players, and 0 for the id of any other."""
        digests = {pair_digest(*both) for both in combinations(self.entries, 2)}
        pattern = re.compile(rf"{re.escape(self.name)}/(\d{{4,}})-(\w+)/\d{{5,}}")
        return lambda id: int(found[1]) if (found := pattern.fullmatch(id)) and found[2] in digests else 0

    def is_enough(self, ratings: Ratings) -> bool:
        return self.precision > 0 and not next_matchups(ratings, self.block, self.precision)

    def _round(self, number: int, earlier: Sequence[Played], own: Sequence[Played]) -> list[Pairing]:
        """What is missing of a round, which follows from the ``earlier`` games; its ``own`` are played."""
        starts: dict[str, int] = {}  # of the openings that two players haven't had
        for game in earlier:
            digest, index = game.id.rpartition("-")[2].split("/")
            starts[digest] = max(starts.get(digest, 0), int(index) + int(index) % 2)
        series = []
        for both in self._matchups(earlier):
            start = starts.get(pair_digest(*both), 0)
            series.append(self.series_between(*both, range(start, start + self.block), f"{number:04d}-"))
        done = {game.id for game in own}
        games = max((one.numbers.stop for one in series), default=0)
        missing = pairings_of(series, self.terms, games, done.__contains__)
        return missing[: max(0, self.games - len(earlier) - len(done))]

    def _matchups(self, earlier: Sequence[Played]) -> list[tuple[Player, Player]]:
        """Those of the round after these games: players without games meet their neighbours first."""
        players = {player.identity: player for player in self.entries}
        rated = RatedGames()
        rated.add(earlier)
        ratings = rated.rate({identity: identity for identity in players})
        known = {*ratings.players} if ratings else set()
        if new := [both for both in pairwise(self.entries) if not {player.identity for player in both} <= known]:
            return new
        assert ratings is not None
        return [(players[one], players[other]) for one, other in next_matchups(ratings, self.block, self.precision)]


def next_matchups(ratings: Ratings, block: int, precision: float = 0.0) -> list[tuple[str, str]]:
    """The pairs of players that are to play ``block`` games next, so that the differences between neighbours in the
    ranking become known; none when all are known to ``precision`` Elo (95 %).

    Neighbours whose difference isn't bounded meet first, up to ``GIVE_UP`` blocks. Every fourth of the others is
    between the neighbours with the widest interval. The rest are between the players whose next games add the most
    information: if ratings alone chose every matchup, their errors would bias it and the intervals be too narrow.
    """
    n, index = len(ratings.players), ratings.players.index
    gaps = measured_gaps(ratings)
    worst = [(one, other) for one, other, _ in gaps]
    unmeasured = [both for both in pairwise(ratings.ranking()) if both not in worst]
    urgent = [(one, other) for one, other in unmeasured if ratings.games[index(one), index(other)] < GIVE_UP * block]
    if precision and not urgent and all(width <= precision for *_, width in gaps):
        return []

    first, second = np.triu_indices(n, 1)
    score = 1 / (1 + 10 ** ((ratings.elo[second] - ratings.elo[first]) / 400))
    information = score * (1 - score) / (ratings.games[first, second] + block)
    order = np.argsort(-information, kind="stable")
    others = [(ratings.players[first[at]], ratings.players[second[at]]) for at in order]
    chosen: dict[frozenset[str], tuple[str, str]] = {}
    while len(chosen) < min(n - 1, max(2, n // 2)):
        both = (urgent or (worst if len(chosen) % 4 == 0 else []) or others).pop(0)
        chosen.setdefault(frozenset(both), both)
    return list(chosen.values())


def measured_gaps(ratings: Ratings) -> list[tuple[str, str, float]]:
    """Neighbours in the ranking, the stronger first, and the half width (95 %) of their distance in Elo, if measured;
    the widest first."""
    neighbours = list(pairwise(ratings.ranking()))
    gaps = [
        (*both, (high - low) / 2)
        for both, (_, low, high) in zip(neighbours, ratings.differences(neighbours), strict=True)
        if low is not None and high is not None
    ]
    return sorted(gaps, key=lambda gap: -gap[2])
