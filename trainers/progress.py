"""What trainers report while they run, as plain data. Imports no torch, so that screens can show it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from arena.ratings import PairCounts, compare, expected_score


@dataclass(frozen=True, slots=True)
class Progress:
    """How a run is doing that learns from rows; ``loss`` and ``right`` are means of the last steps."""

    step: int
    rows: int
    rows_per_second: float
    loss: float
    right: float
    """The share of the moves or points in the rows that the net predicted."""
    minutes_left: float | None
    """None while that isn't known."""
    waiting: float = 0.0
    """The share of the time spent waiting for rows."""


@dataclass(frozen=True, slots=True)
class Made:
    """How far the games are that a trainer plays first."""

    games: int
    wanted: int
    positions: int
    """Positions to learn from in the games of this sitting."""
    moves_per_second: float
    minutes_left: float

    def __str__(self) -> str:
        return (
            f"{self.games:,} of {self.wanted:,} games played, {self.positions:,} positions, "
            f"{self.moves_per_second:,.1f} moves/s, {self.minutes_left:.0f} min left"
        )


@dataclass(frozen=True, slots=True)
class Rating:
    """A match of a net that learns from its own games, from its point of view."""

    iteration: int
    against: str
    """The first net, or a bot."""
    games: int
    won: int
    drawn: int
    lost: int
    share: float
    """Its share of the points."""
    low: float
    """The ends of the 95 % interval of the share, from pairs of games with one opening."""
    high: float

    @classmethod
    def of(cls, iteration: int, against: str, points: np.ndarray) -> Rating:
        """From the points of the learner, (games,), two games after another with one opening."""
        pairs = points[0::2] + points[1::2]
        ends = compare(PairCounts.of(pairs.tolist())).elo.interval
        won, drawn, lost = (int((points == worth).sum()) for worth in (1.0, 0.5, 0.0))
        low = 0.0 if ends.low is None else expected_score(ends.low)
        high = 1.0 if ends.high is None else expected_score(ends.high)
        return cls(iteration, against, len(points), won, drawn, lost, float(points.mean()), low, high)


@dataclass(frozen=True, slots=True)
class Iteration:
    """How a run is doing that learns from its own games: the figures of an iteration, and all matches so far."""

    iteration: int
    games_per_second: float
    """With the time for learning."""
    positions_per_second: float
    """While the games are played."""
    share: float
    """The learner's share of the points against the pool."""
    entropy: float
    divergence: float
    length: float
    """Mean moves of a game."""
    black: float
    """Black's share of the points."""
    minutes_left: float | None
    ratings: tuple[Rating, ...]


@dataclass(frozen=True, slots=True)
class Round:
    """How a run is doing that learns from its own searches: the figures of the latest round of play and learning, and
    all matches so far."""

    step: int
    games: int
    """Of all sittings, as the next two."""
    positions: int
    rows: int
    """Positions that were searched in full."""
    games_per_second: float
    """While games are played, as the next."""
    evaluations_per_second: float
    net_share: float
    """The share of the players' time that is spent in the net."""
    batch: float
    """Positions of a batch that the net evaluates, in the mean."""
    learned_per_second: float
    """Rows learned from, while it learns."""
    loss: float
    right: float
    """The share of the rows whose best move the net predicted."""
    length: float
    """Mean moves of a game."""
    black: float
    """Black's share of the points."""
    komi: float
    """The mean komi that is drawn now."""
    age: float
    """The mean age of the rows learned from, in rows played since."""
    minutes_left: float | None
    ratings: tuple[Rating, ...]
