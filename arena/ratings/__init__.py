"""Elo of two players (``elo``), the sequential test of two (``sprt``), joint ratings of a pool (``bradley_terry``).

Every figure is of the player named first. A draw is half a point. Nothing here is ever nan or infinite: an end of an
interval that the games don't give is None.
"""

from arena.ratings.bradley_terry import Ratings as Ratings
from arena.ratings.bradley_terry import Result as Result
from arena.ratings.bradley_terry import rate as rate
from arena.ratings.elo import VIRTUAL_GAMES as VIRTUAL_GAMES
from arena.ratings.elo import Z95 as Z95
from arena.ratings.elo import ZERO as ZERO
from arena.ratings.elo import Comparison as Comparison
from arena.ratings.elo import Estimate as Estimate
from arena.ratings.elo import FloatArray as FloatArray
from arena.ratings.elo import Interval as Interval
from arena.ratings.elo import K as K
from arena.ratings.elo import PairCounts as PairCounts
from arena.ratings.elo import WinDrawLoss as WinDrawLoss
from arena.ratings.elo import chance_below as chance_below
from arena.ratings.elo import compare as compare
from arena.ratings.elo import expected_score as expected_score
from arena.ratings.elo import share_interval as share_interval
from arena.ratings.sprt import ELO_LIMIT as ELO_LIMIT
from arena.ratings.sprt import Sprt as Sprt
from arena.ratings.sprt import SprtState as SprtState
from arena.ratings.sprt import Verdict as Verdict
from arena.ratings.sprt import logistic_llr as logistic_llr
