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


def player_planes(own: np.ndarray, opponent: np.ndarray, territory: np.ndarray) -> np.ndarray:
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
