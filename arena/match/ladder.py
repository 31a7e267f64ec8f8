"""A ladder: rounds of games, chosen by what is known least so far."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import inf

from arena import ConfigError
from arena.go.record import Played
from arena.match.schedule import IsKnown, Matchup, OpenEvent, Pairing, no_game, pairings_of, require_range
from arena.match.standings import Standings
from arena.ratings import Z95, Ratings, expected_score, rate

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
        self.check_players("ladder")
        require_range("games", self.games, 1)
        if not 0 <= self.precision < inf:
            raise ConfigError(f"an interval of ±{self.precision:g} Elo can't be reached; give more than 0")

    @property
    def style(self) -> str:
        return "ladder"

    @property
    def settings(self) -> dict[str, object]:
        """What stays when players join or games are added."""
        return {"ladder": self.name, "block": self.block, **self.terms.settings}

    def pairings(self, played: Iterable[Played] = (), is_known: IsKnown = no_game) -> list[Pairing]:
        """The last round of the games ``played`` or, if it is complete, the next one; cut at the maximum of games.
        Raises ConfigError when there are no openings left."""
        rounds: dict[int, list[Played]] = {}
        round_of = self.round_finder()
        for game in played:
            if game.outcome is not None and (number := round_of(game.id)):
                rounds.setdefault(number, []).append(game)
        last = max(rounds, default=1)
        own = rounds.pop(last, [])
        earlier = [game for number in sorted(rounds) for game in rounds[number]]
        ids = {game.id for game in own}
        planned = self._round(last, earlier, ids)
        if ids.issuperset(pairing.id for pairing in planned):
            planned = self._round(last + 1, earlier + own, set())
        return [pairing for pairing in planned if not is_known(pairing.id)]

    def round_finder(self) -> Callable[[str], int]:
        """A function that returns the round of a game between two of its players, and 0 for the id of any other."""
        digests = {Matchup.of(*pair).digest for pair in combinations(self.entries, 2)}
        pattern = re.compile(rf"{re.escape(self.name)}/(\d{{4,}})-([0-9a-f]{{8}})/\d{{5,}}")

        def round_of(id: str) -> int:
            found = pattern.fullmatch(id)
            return int(found[1]) if found and found[2] in digests else 0

        return round_of

    def _round(self, number: int, earlier: Sequence[Played], ids: set[str]) -> list[Pairing]:
        """A round as it follows from the games of the ``earlier`` ones. ``ids`` are those of its own games so far."""
        starts: dict[str, int] = {}  # of the openings that two players haven't had
        for game in earlier:
            digest, index = game.id.rpartition("-")[2].split("/")
            starts[digest] = max(starts.get(digest, 0), int(index) + int(index) % 2)
        chosen = self._matchups(earlier)
        openings = self.terms.openings_for(max((starts.get(one.digest, 0) for one in chosen), default=0) + self.block)
        series = []
        for matchup in chosen:
            start = starts.get(matchup.digest, 0)
            series.append(self.series_of(matchup, f"{number:04d}-{matchup.digest}", range(start, start + self.block)))
        planned = pairings_of(series, openings)
        missing = [pairing.id for pairing in planned if pairing.id not in ids]
        wanted = ids.union(missing[: max(0, self.games - len(earlier) - len(ids))])
        return [pairing for pairing in planned if pairing.id in wanted]

    def _matchups(self, earlier: Sequence[Played]) -> list[Matchup]:
        """Those of the round after these games: players without games meet their neighbours first."""
        standings = Standings({player.identity: player.name for player in self.entries})
        standings.add(earlier)
        ratings = rate(standings.rated) if standings.rated else None
        rated = set() if ratings is None else set(ratings.players)
        chosen = [pair for pair in pairwise(self.entries) if not {player.identity for player in pair} <= rated]
        if not chosen and ratings is not None:
            players = {player.identity: player for player in self.entries}
            chosen = [
                (players[one], players[other]) for one, other in next_matchups(ratings, self.block, self.precision)
            ]
        return [Matchup.of(*pair) for pair in chosen]


def next_matchups(ratings: Ratings, block: int, precision: float = 0.0) -> list[tuple[str, str]]:
    """Who is to play ``block`` games next so that neighbours in the ranking are told apart; nobody when all are, to
    ``precision`` Elo (95 %).

    Neighbours without a measured distance meet first, though not for ever. In every fourth of the other meetings, the
    neighbours meet whose distance is known worst. In the rest, those players meet who have met least for what their
    games can show, whatever the ranking. If the ratings chose every meeting, their own errors would choose the games,
    and the intervals would be too narrow.
    """
    n, games, elo = len(ratings.players), ratings.games, ratings.elo
    index = {player: i for i, player in enumerate(ratings.players)}
    gaps = measured_gaps(ratings)
    urgent = [
        (one, other)
        for one, other in pairwise(ratings.ranking())
        if not ratings.difference(one, other).is_bounded and games[index[one], index[other]] < GIVE_UP * block
    ]
    if precision and not urgent and all(width <= precision for *_, width in gaps):
        return []

    def information(pair: tuple[str, str]) -> float:
        one, other = index[pair[0]], index[pair[1]]
        score = expected_score(float(elo[one] - elo[other]))
        return score * (1 - score) / float(games[one, other] + block)

    worst = [(one, other) for one, other, _ in gaps]
    others = sorted(combinations(ratings.players, 2), key=information, reverse=True)
    chosen: dict[frozenset[str], tuple[str, str]] = {}
    while len(chosen) < min(n - 1, max(2, n // 2)):
        pair = (urgent or (worst if len(chosen) % 4 == 0 else []) or others).pop(0)
        chosen.setdefault(frozenset(pair), pair)
    return list(chosen.values())


def measured_gaps(ratings: Ratings) -> list[tuple[str, str, float]]:
    """Neighbours in the ranking whose distance is measured, the stronger first, each with the half width (95 %) of that
    in Elo; the widest first."""
    found = [
        (one, other, Z95 * ratings.standard_error(one, other))
        for one, other in pairwise(ratings.ranking())
        if ratings.difference(one, other).is_bounded
    ]
    return sorted(found, key=lambda gap: -gap[2])
