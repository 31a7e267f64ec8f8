"""Game records: the outcome, statistics of moves, and the whole game. Importing this doesn't load Numba."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from arena import IllegalMove, RecordError
from arena.go.coords import BLACK, WHITE, Colour, Move, symmetry_table

if TYPE_CHECKING:
    import numpy as np

    from arena.go.game import Game, Rules

Stones = tuple[tuple[Move, ...], tuple[Move, ...]]
"""Setup stones: Black's, White's."""


def usual_first(setup: Stones) -> Colour:
    """Who begins by default: White when only Black has stones."""
    return WHITE if setup[0] and not setup[1] else BLACK


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
    """How a game ended. ``winner`` is None for a draw; ``margin`` is Black's, komi counted, if it was scored."""

    winner: Colour | None
    ending: Ending
    margin: float | None = None

    @classmethod
    def scored(cls, margin: float, ending: Ending = Ending.SCORE) -> Outcome:
        winner = BLACK if margin > 0 else WHITE if margin < 0 else None
        return cls(winner, ending, margin)

    @property
    def sgf(self) -> str:
        """The value of SGF's RE property: an adjudication has no margin, a forfeit other than on time is ``F``."""
        if self.winner is None:
            return "0"
        if self.margin is not None:
            return f"{self.winner.letter}+{abs(self.margin):g}"
        if self.ending in (Ending.SCORE, Ending.ADJUDICATED):
            return f"{self.winner.letter}+"
        reason = {Ending.RESIGN: "R", Ending.TIME: "T"}.get(self.ending, "F")
        return f"{self.winner.letter}+{reason}"

    @property
    def brief(self) -> str:
        """``B+3.5``, ``W+R``, ``draw``."""
        return "draw" if self.winner is None else self.sgf

    @property
    def black_score(self) -> float:
        """1 when Black won, 0 when White did, 1/2 for a draw."""
        return 0.5 if self.winner is None else float(self.winner is BLACK)


class MoveStats(NamedTuple):
    """What the player of a move reported, and the seconds that it took; None if unknown. ``win_rate`` is in [0, 1] and
    ``score`` in points, both for the side that made the move."""

    win_rate: float | None = None
    score: float | None = None
    visits: int | None = None
    seconds: float | None = None

    @property
    def is_reported(self) -> bool:
        """Whether the player reported anything."""
        return self[:3] != (None, None, None)

    @property
    def rounded(self) -> MoveStats:
        """Rounded and limited to what the database stores."""
        rate, score, visits, seconds = self
        return MoveStats(
            None if rate is None else round(min(1.0, max(0.0, rate)), 4),
            None if score is None else round(min(3000.0, max(-3000.0, score)), 1) + 0.0,
            None if visits is None else min(4_000_000_000, max(0, visits)),
            None if seconds is None else round(min(4e6, seconds), 3),
        )


UNKNOWN = MoveStats()


@dataclass(frozen=True, slots=True)
class GameRecord:
    """A finished game, from which it can be replayed.

    ``black`` and ``white`` are names; ``black_player`` and ``white_player`` are the identities of the players (see
    ``Player.identity``), if known. ``outcome`` is None when the source has none. ``opening`` is the number of opening
    moves. ``reason`` is a line on why a game was forfeited or adjudicated, ``fault_details`` the traceback of a fault.
    ``adjudged`` is the winner by adjudication; if ``outcome`` has another ending, the game was played on to check it.
    ``unrated`` says in a few words why the game doesn't count for ratings. ``continued`` counts how often the game
    resumed at its last move after its process had ended, ``restarted`` how often it began again; ``black_late`` and
    ``white_late`` count moves that took much longer than their limit. ``facts`` has one entry for each move, or none.
    """

    rules: Rules
    moves: tuple[Move, ...]
    outcome: Outcome | None
    black: str = ""
    white: str = ""
    setup: Stones = ((), ())
    first: Colour = BLACK
    id: str = ""
    event: str = ""
    black_player: str = ""
    white_player: str = ""
    black_rank: str = ""
    white_rank: str = ""
    date: str = ""
    seed: int = 0
    opening: int = 0
    reason: str = ""
    fault_details: str = ""
    adjudged: Colour | None = None
    black_seconds: float = 0.0
    white_seconds: float = 0.0
    unrated: str = ""
    continued: int = 0
    restarted: int = 0
    black_late: int = 0
    white_late: int = 0
    facts: tuple[MoveStats, ...] = ()

    @classmethod
    def from_game(cls, game: Game, **fields: Any) -> GameRecord:
        """The record of a game so far; ``fields`` are fields that a game lacks, such as names."""
        black, white = game.setup
        return cls(
            rules=game.rules,
            moves=tuple(game.moves),
            outcome=game.outcome,
            setup=(tuple(sorted(black)), tuple(sorted(white))),
            first=game.first,
            seed=game.seed,
            **fields,
        )

    def replay(self) -> Game:
        """Replay the game from its setup; it gets the record's outcome. Raises RecordError, ``illegal setup: ...`` or
        ``illegal move: ...`` with the number of the move and the reason."""
        from arena.go.game import Game

        try:
            game = Game(self.rules, self.seed, *self.setup, to_play=self.first)
        except ValueError as error:
            raise RecordError(f"illegal setup: {error}") from None
        try:
            for move in self.moves:
                game.play(move)
        except IllegalMove as error:
            number = len(game.moves) + 1
            raise RecordError(f"illegal move: move {number} by {game.to_play.name.title()}, {error}") from None
        game.outcome = self.outcome
        return game

    @property
    def opening_key(self) -> int:
        """The key of the opening, or of the first moves of a game without one; see ``opening_keys``."""
        moves = self.moves[: self.opening or FIRST_MOVES]
        return _opening_key(self.rules.size, moves)

    @property
    def handicap(self) -> int:
        """Black's setup stones when White has none and begins, else 0."""
        black, white = self.setup
        return len(black) if self.first is WHITE and not white else 0

    @property
    def length(self) -> int:
        """The number of moves, including the opening."""
        return len(self.moves)

    def mover(self, number: int) -> Colour:
        """Who made the move of this number, from 1."""
        return self.first if number % 2 else self.first.opponent


FIRST_MOVES = 8
"""Moves that count as the opening of a game that began on the empty board."""


def opening_keys(size: int, openings: np.ndarray) -> list[int]:
    """A number for each opening (games, moves): equal for openings that are equal up to the 8 symmetries, different for
    others (except with probability 2**-64)."""
    import numpy as np

    table, numbers = symmetry_table(size), _move_numbers(size, openings.shape[1])
    sums = np.zeros((len(openings), len(table)), np.uint64)
    for at, own in enumerate(numbers):
        sums += own[table[:, openings[:, at]]].T
    keys: list[int] = sums.min(1).tolist()
    return keys


@lru_cache(maxsize=512)  # several parts of the arena ask for the same game
def _opening_key(size: int, moves: tuple[Move, ...]) -> int:
    import numpy as np

    return opening_keys(size, np.array([moves], int).reshape(1, -1))[0]


@lru_cache(maxsize=64)
def _move_numbers(size: int, moves: int) -> np.ndarray:
    """A random number for each move number of an opening and each move, (moves, size² + 1)."""
    import numpy as np

    return np.random.default_rng(size).integers(1 << 64, size=(moves, size * size + 1), dtype=np.uint64)


class GameSummary(NamedTuple):
    """A finished game without its moves and rules, for counting and rating. Its fields are those of ``GameRecord``."""

    seq: int
    """Its number in the store, in order of arrival."""
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
    continued: int
    restarted: int
    black_late: int
    white_late: int
    opening_key: int
    first: Colour
    adjudged: Colour | None
    outcome: Outcome | None


Played = GameRecord | GameSummary
"""What can be counted."""
