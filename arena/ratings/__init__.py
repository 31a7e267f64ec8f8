"""Scores into Elo with 95 % intervals and SPRT verdicts; not here: reading games, identical games, tables.

Three questions, each in its file: how far apart are two players (``pairs``: `compare`), may a test of two players stop
(``sprt``: `Sprt`), how strong is everybody in a league (``league``: `rate`). They share the intervals and how these are
written (``figure``). Every figure is of the player named first. A draw is half a point. Nothing here is ever nan or
infinite: an end of an interval that the games don't give is None.
"""

from arena.ratings.figure import (
    VIRTUAL_GAMES,
    Z95,
    ZERO,
    Estimate,
    FloatArray,
    Interval,
    K,
    elo,
    expected_score,
    share_interval,
)
from arena.ratings.league import Ratings, Result, rate
from arena.ratings.pairs import Comparison, PairCounts, WinDrawLoss, chance_below, compare
from arena.ratings.sprt import ELO_LIMIT, Sprt, SprtState, Verdict, logistic_llr

__all__ = [
    "ELO_LIMIT",
    "VIRTUAL_GAMES",
    "Z95",
    "ZERO",
    "Comparison",
    "Estimate",
    "FloatArray",
    "Interval",
    "K",
    "PairCounts",
    "Ratings",
    "Result",
    "Sprt",
    "SprtState",
    "Verdict",
    "WinDrawLoss",
    "chance_below",
    "compare",
    "elo",
    "expected_score",
    "logistic_llr",
    "rate",
    "share_interval",
]
