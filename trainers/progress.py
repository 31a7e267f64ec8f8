"""What trainers report while they run, as plain data. Imports no torch, so that screens can show it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from arena import CheckpointError
from arena.ratings import Estimate, PairCounts, Result, compare, expected_score, rate

RATINGS_FILE = "ratings.jsonl"  # the matches of a run that learns from its own games, beside its state


@dataclass(frozen=True, slots=True)
class Progress:
    """How a run is doing that learns from rows; ``loss`` and ``right`` are means of the last steps."""

    step: int
    rows: int
    rows_per_second: float
    loss: float
    right: float  # the share of the moves or points in the rows that the net predicted
    minutes_left: float | None  # None while that isn't known
    waiting: float = 0.0  # the share of the time spent waiting for rows


@dataclass(frozen=True, slots=True)
class Rating:
    """A match of a net that learns from its own games."""

    iteration: int
    against: str  # the first net, or a bot
    games: int
    share: float  # its share of the points
    low: float  # the 95 % interval of the share, from pairs of games with one opening
    high: float

    @classmethod
    def of(cls, iteration: int, against: str, points: np.ndarray) -> Rating:
        """From the points of the learner, (games,), two games after another with one opening."""
        ends = compare(PairCounts.of((points[0::2] + points[1::2]).tolist())).elo
        low = 0.0 if ends.low is None else expected_score(ends.low)
        high = 1.0 if ends.high is None else expected_score(ends.high)
        return cls(iteration, against, len(points), float(points.mean()), low, high)


@dataclass(frozen=True, slots=True)
class SelfPlayProgress:
    """How a run is doing that learns from its own games: the figures that it logged last, and all matches so far."""

    step: int
    figures: Mapping[str, float]
    minutes_left: float | None
    ratings: tuple[Rating, ...]


@lru_cache(maxsize=4)
def strengths(ratings: tuple[Rating, ...]) -> dict[int, Estimate]:
    """By iteration, the Elo of a run's nets from a joint fit of all its matches; 0 is the first opponent."""
    if not ratings:
        return {}
    matches = [Result(str(one.iteration), f" {one.against}", one.share * one.games, one.games) for one in ratings]
    fit, anchor = rate(matches, black_advantage=False), f" {ratings[0].against}"
    return {number: fit.difference(str(number), anchor) for number in sorted({one.iteration for one in ratings})}


def write_rating(folder: Path, rating: Rating) -> None:
    """Append a line to a run's ratings."""
    with (folder / RATINGS_FILE).open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(rating)) + "\n")


def read_ratings(folder: Path, until: int) -> tuple[Rating, ...]:
    """A run's ratings up to an iteration, in order, of each match the last; none where there is no file. Raises
    CheckpointError for a file of something else."""
    path = folder / RATINGS_FILE
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    try:
        ratings = [Rating(**json.loads(line)) for line in lines]
    except (ValueError, TypeError) as error:
        raise CheckpointError(f"{path}: holds no ratings ({error}); remove it to start the curve again") from error
    latest = {(rating.iteration, rating.against): rating for rating in ratings if rating.iteration <= until}
    return tuple(sorted(latest.values(), key=lambda rating: rating.iteration))
