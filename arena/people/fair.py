"""Who plays Black, with what head start: nigiri, and stones and komi for a gap in Elo. No ratings are made here.

Handicap is a head start in points. A stone more on the board is a move more, which is worth twice the komi of an even
game, and komi makes up for the rest: so it is counted on OGS (get_handicap_rank_difference in online-go/goratings).
What a point is worth in Elo depends on the size, since on a small board fewer moves are left to make up for it, and on
the players: the stronger they are, the more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

from arena import ConfigError
from arena.go.game import Rules, handicap_points
from arena.go.moves import BLACK, WHITE, Colour

ELO_PER_POINT = {9: 17.0, 13: 12.0, 19: 10.0}
"""By size, by a logistic fit of games of players against themselves with less komi or stones more: on 9x9 17 ± 6 for
``sl`` at a temperature of 0.7 (400 games) and 17 ± 5 for ``mcts`` with 300 playouts (420 games), on 13x13 12 ± 6 for
``sl-19x19`` at a temperature of 0.5 (120 games). On 19x19 it is what KGS takes a stone to be worth for people from 30
to 5 kyu, 0.85 in log odds or 148 Elo (gokgs.com/help/rmath.html), over its 15 points; from 2 dan it is 1.3."""

MOST = 9
"""Handicap stones at most."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The handicap of the weaker player, as Black: stones (0 for none) and komi. ``gap`` are the Elo
    that this makes up for, as far as it can."""

    handicap: int
    komi: float
    gap: float


def elo_per_point(size: int) -> float:
    """What a point of head start is worth on a board of this size: measured on some, between them and beyond by the
    power of the size that joins the nearest two."""
    known = sorted(ELO_PER_POINT)
    below = max((other for other in known[:-1] if other <= size), default=known[0])
    above = known[known.index(below) + 1]
    power = math.log(ELO_PER_POINT[above] / ELO_PER_POINT[below]) / math.log(above / below)
    return ELO_PER_POINT[below] * (size / below) ** power


def fair_terms(gap: float, rules: Rules) -> Terms:
    """Stones and komi that make a game even where White is stronger by ``gap`` Elo, 0 or more: as few stones as will
    do with a komi that isn't beyond that of an even game the other way round."""
    even = Rules.preset(rules.name, rules.size).komi
    worth = gap / elo_per_point(rules.size)
    most = max((stones for stones in range(2, MOST + 1) if _fits(rules.size, stones)), default=0)
    for stones in (0, *range(2, most + 1)):
        komi = even - worth + _start(stones, even, rules)
        if komi >= -even or stones == most:
            break
    komi = even if worth < 0.5 else math.floor(komi) + 0.5
    komi = min(max(komi, 0.5 - rules.size**2), even)
    return Terms(stones, komi, (even - komi + _start(stones, even, rules)) * elo_per_point(rules.size))


def _start(stones: int, even: float, rules: Rules) -> float:
    """The value of handicap stones in points."""
    if stones < 2:
        return 0.0
    return (stones - 1) * 2 * even - (stones if rules.handicap_points else 0)


def _fits(size: int, stones: int) -> bool:
    try:
        handicap_points(size, stones)
    except ConfigError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Nigiri:
    """Who guesses right whether a handful of stones is odd or even plays Black."""

    stones: int
    guessed_odd: bool

    @classmethod
    def draw(cls, random: Random) -> Nigiri:
        return cls(random.randint(5, 25), random.random() < 0.5)

    @property
    def is_right(self) -> bool:
        return self.guessed_odd == (self.stones % 2 == 1)

    @property
    def colour(self) -> Colour:
        """That of who guessed."""
        return BLACK if self.is_right else WHITE
