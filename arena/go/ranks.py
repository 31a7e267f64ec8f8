"""Ranks of people, and their input planes for a net."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from arena import ConfigError

if TYPE_CHECKING:
    import numpy as np

HUMAN_LIKE = "human-like"  # the kind of bot that plays like people of a rank

UNRANKED = -128  # the rank of a player who has none
WEAKEST, STRONGEST = -29, 6  # ranks of nets, 30k to 6d; ranks beyond are encoded as these
WEAKEST_SEEN = -17  # the weakest rank with many games in the training of the net that ships, 18k
KNOTS = (-29, -24, -19, -14, -9, -4, 1, 6)  # ranks with a plane of their own: 30k, 25k, 20k, 15k, 10k, 5k, 1d, 6d
PLAYER_PLANES = 2 * len(KNOTS) + 1  # for the ranks of both players, and for the scoring
METADATA = 192  # numbers about a game and its players, for KataGo's human-SL nets


def rank_of(text: str) -> int | None:
    """A rank on a scale where 1k is 0, 1d is 1 and 1p is 10, or None."""
    found = re.fullmatch(r"\s*([1-9]\d?)\s*([kdp])[a-z]*\s*[?*]?\s*", text.lower())
    number = int(found[1]) if found else 0
    return {"k": 1 - number, "d": number, "p": 9 + number}[found[2]] if found else None


def read_rank(text: str, where: str) -> int:
    """The number (see ``rank_of``) of a rank from 30k to 6d. Raises ConfigError, which begins with ``where``."""
    rank = rank_of(text)
    if rank is None or not WEAKEST <= rank <= STRONGEST or text.strip().lower().endswith("p"):
        raise ConfigError(f"{where} {text} is not a rank; write 30k to 1k or 1d to {STRONGEST}d, such as 12k")
    return rank


def rank_name(rank: float) -> str:
    """12k for -11, 1d for 1; the nearest rank."""
    nearest = round(rank)
    return f"{1 - nearest}k" if nearest <= 0 else f"{nearest}d"


def player_planes(own: np.ndarray, opponent: np.ndarray, territory: np.ndarray, size: int = 9) -> np.ndarray:
    """The constant planes of positions, (B, PLAYER_PLANES) float32. The ranks (B,) of the side to move, then of its
    opponent, are interpolated between the two nearest knots; UNRANKED is all zeros. The last is 1 by territory
    scoring."""
    import numpy as np

    planes = np.zeros((len(own), PLAYER_PLANES), np.float32)
    shares = np.eye(len(KNOTS))
    for side, ranks in enumerate((own, opponent)):
        known = ranks != UNRANKED
        for knot in range(len(KNOTS)):
            planes[:, side * len(KNOTS) + knot] = np.where(known, np.interp(ranks, KNOTS, shares[knot]), 0)
    planes[:, -1] = territory
    return planes


def sgf_metadata(own: np.ndarray, opponent: np.ndarray, territory: np.ndarray, size: int) -> np.ndarray:
    """The constant planes of KataGo's human-SL nets, (B, METADATA) float32: those of its profiles such as ``rank_5k``,
    which are games on KGS of 2020-03-01 with 20 minutes and five periods of 30 s (cpp/neuralnet/sgfmetadata.cpp).
    ``own`` and ``opponent`` (B,) are ranks; of an UNRANKED player the rank is unknown."""
    import numpy as np

    row = np.zeros(METADATA)
    row[[0, 1]] = 1  # both are people
    row[74] = 0.5  # whether the game was rated is unknown
    row[79] = 1  # Japanese byo-yomi
    row[82:84] = 0.4 * (np.log(1200 + 60) - 6.5), 0.3 * (np.log(30 + 1) - 3)
    row[84:86] = 0.5 * (np.log(5 + 2) - 1.5), 0.25 * (np.log(2) - 1.5)
    row[86] = 0.5 * np.log(size * size / 361)
    turns = 2 * np.pi * 18322 / (7 * 80000 ** (np.arange(32) / 31))  # 18,322 days after 1970-01-01, by growing periods
    row[87:151:2], row[88:151:2] = np.cos(turns), np.sin(turns)
    row[153] = 1  # KGS
    planes = np.tile(row, (len(own), 1))
    for side, ranks in enumerate((own, opponent)):
        planes[:, 4 + side] = ranks == UNRANKED
        below = np.where(ranks == UNRANKED, 0, 10 - ranks)  # ranks below 10d, from 1 for 9d
        planes[:, 6 + 34 * side : 40 + 34 * side] = np.arange(34) < below[:, None]
    return planes.astype(np.float32)
