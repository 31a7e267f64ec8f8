"""Elo of two players (``elo``), an interval for it that is valid whenever one stops (``confidence_sequence``), the
sequential test of two (``sprt``), joint ratings of a pool (``bradley_terry``).

Every figure is for the player named first. A draw is half a point. No figure is ever nan or infinite: an end of an
interval that the games don't bound is None.
"""

from arena.ratings.bradley_terry import Misfit, Ratings, compare, rate  # noqa: F401
from arena.ratings.confidence_sequence import ConfidenceSequence, Ends  # noqa: F401
from arena.ratings.elo import (  # noqa: F401
    Z95,
    Comparison,
    EloEstimate,
    PairCounts,
    WinDrawLoss,
    expected_score,
    normalised_elo,
    share_interval,
)
from arena.ratings.results import Result, Results  # noqa: F401
from arena.ratings.sprt import Sprt, SprtState, SprtVerdict, logistic_llr  # noqa: F401
