"""How a game ended, and a finished game without its moves; importing this loads no compiler."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from arena.go.moves import BLACK, WHITE, Colour


class Ending(StrEnum):
    """Why a game is over."""

    SCORE = "score"
    RESIGN = "resign"
    TIME = "time"
    ILLEGAL = "illegal"
    CRASH = "crash"
    ADJUDICATED = "adjudicated"
    MOVE_LIMIT = "move limit"

    @property
    def is_forfeit(self) -> bool:
        return self in (Ending.TIME, Ending.ILLEGAL, Ending.CRASH)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a game ended. ``winner`` is None for a draw; ``margin`` is Black's, komi counted, where it was scored."""

    winner: Colour | None
    ending: Ending
    margin: float | None = None

    @classmethod
    def scored(cls, margin: float, ending: Ending = Ending.SCORE) -> Outcome:
        winner = BLACK if margin > 0 else WHITE if margin < 0 else None
        return cls(winner, ending, margin)

    @property
    def sgf(self) -> str:
        """The value of SGF's RE property: an adjudication is a resignation, a forfeit other than on time ``F``."""
        if self.winner is None:
            return "0"
        if self.margin is not None:
            return f"{self.winner.letter}+{abs(self.margin):g}"
        if self.ending is Ending.SCORE:
            return f"{self.winner.letter}+"
        reason = {Ending.RESIGN: "R", Ending.ADJUDICATED: "R", Ending.TIME: "T"}.get(self.ending, "F")
        return f"{self.winner.letter}+{reason}"

    @property
    def brief(self) -> str:
        """``B+3.5``, ``W+R``, ``draw``."""
        return "draw" if self.winner is None else self.sgf

    @property
    def black_score(self) -> float:
        """1 when Black won, 0 when White did, 1/2 for a draw."""
        return 0.5 if self.winner is None else float(self.winner is BLACK)


class GameSummary(NamedTuple):
    """A finished game without its moves and rules: what is counted and rated. Its fields are ``GameRecord``'s."""

    seq: int
    """The number under which it arrived in the store."""
    id: str
    date: str
    black: str
    white: str
    black_player: str
    white_player: str
    length: int
    opening: int
    black_seconds: float
    white_seconds: float
    reason: str
    unrated: str
    canonical: bytes
    first: Colour
    adjudged: Colour | None
    outcome: Outcome | None
