"""A game of Go: rules, turns, superko, the end and the score."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import lru_cache
from math import isfinite
from typing import Any

import msgspec
import numpy as np

from arena import ConfigError, IllegalMove
from arena.go import kernels
from arena.go.board import Board
from arena.go.coords import BLACK, MAX_SIZE, MIN_SIZE, WHITE, Colour, Move, gtp_from_move, pass_move, star_points
from arena.go.record import Ending as Ending
from arena.go.record import Outcome as Outcome
from arena.go.record import Stones, usual_first


class Scoring(StrEnum):
    """Area scoring counts stones and surrounded points, territory scoring surrounded points and prisoners."""

    AREA = "area"
    TERRITORY = "territory"


@dataclass(frozen=True, slots=True)
class Rules:
    """One set of rules on one size of board. All stones count as alive, except those passed to ``Game.margin`` as dead.

    ``cgos`` (Computer Go Server): area, positional superko, no suicide. ``tromp-taylor``: the same with suicide of
    several stones. ``chinese``: area, positional superko, White gets a point for each handicap stone. ``japanese``:
    territory and prisoners, points in seki, too; simple ko only, so a game may repeat positions up to its move limit.
    """

    name: str = "cgos"
    size: int = 9
    komi: float = 7.0
    scoring: Scoring = Scoring.AREA
    superko: bool = True
    suicide: bool = False
    handicap_points: bool = False
    move_limit: int = 243

    @property
    def agrees_on_dead(self) -> bool:
        """Whether people agree on dead stones and remove them before they count."""
        return self.name in ("chinese", "japanese")

    @property
    def bits(self) -> int:
        """The rules as kernels take them: ``AREA_SCORED``, ``HAS_SUPERKO`` and ``HAS_SUICIDE`` of ``kernels``."""
        is_area = self.scoring is Scoring.AREA
        return kernels.AREA_SCORED * is_area | kernels.HAS_SUPERKO * self.superko | kernels.HAS_SUICIDE * self.suicide

    def katago(self) -> dict[str, object]:
        """These rules in KataGo's words, as its ``kata-set-rules`` has them."""
        return {
            "ko": "POSITIONAL" if self.superko else "SIMPLE",
            "scoring": self.scoring.upper(),
            "tax": "NONE",
            "suicide": self.suicide,
            "hasButton": False,
            "whiteHandicapBonus": "N" if self.handicap_points else "0",
        }

    def agree_with(self, settings: Mapping[str, object]) -> bool:
        """Whether KataGo's settings are those of these rules; a missing setting agrees."""
        return all(settings.get(name, value) == value for name, value in self.katago().items())

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Rules:
        """Rules from the parsed JSON of ``to_json``. Raises ValueError for other data."""
        if wrong := data.keys() ^ cls.__dataclass_fields__.keys():
            raise ValueError(f"rules with missing or unknown keys: {', '.join(sorted(wrong))}")
        rules = msgspec.convert(data, cls)
        if not (MIN_SIZE <= rules.size <= MAX_SIZE and rules.move_limit > 0 and isfinite(rules.komi)):
            raise ValueError(f"no game is played by {rules}")
        return rules

    def to_json(self) -> str:
        """These rules as JSON; the same text for equal rules."""
        return _json_of(self)

    @classmethod
    def preset(
        cls, name: str = "cgos", size: int = 9, komi: float | None = None, move_limit: int | None = None
    ) -> Rules:
        """The named rules. Komi is 7 up to 9x9 and 7.5 above (6.5 by Japanese rules) by default; the move limit
        is 3 size². Raises ConfigError for an unknown name and for a size, komi or limit out of range."""
        if name not in PRESETS:
            raise ConfigError(f"unknown rules '{name}'; there are {', '.join(PRESETS)}")
        if not MIN_SIZE <= size <= MAX_SIZE:
            raise ConfigError(f"board size must be {MIN_SIZE} to {MAX_SIZE}, not {size}")
        if komi is None:
            komi = 6.5 if name == "japanese" else 7.0 if size <= 9 else 7.5
        if not -size * size <= komi <= size * size or komi * 2 != int(komi * 2):
            most = size * size
            raise ConfigError(f"komi must be a whole or half number of points from -{most} to {most}, not {komi:g}")
        if move_limit is None:
            move_limit = 3 * size * size
        if move_limit < 1:
            raise ConfigError(f"the move limit must be at least 1, not {move_limit}")
        return cls(name=name, size=size, komi=float(komi), move_limit=move_limit, **PRESETS[name])


PRESETS: dict[str, dict[str, Any]] = {
    "cgos": {},
    "tromp-taylor": {"suicide": True},
    "chinese": {"handicap_points": True},
    "japanese": {"scoring": Scoring.TERRITORY, "superko": False},
}
"""The rules by name: how each differs from ``cgos``."""


@lru_cache(maxsize=64)
def _json_of(rules: Rules) -> str:
    settings = asdict(rules) | {"komi": float(rules.komi)}  # 7 and 7.0 are equal rules
    return json.dumps(settings, separators=(",", ":"))


def handicap_points(size: int, stones: int) -> list[Move]:
    """Where fixed handicap stones go (GTP 2, section 4.1.1). Raises ConfigError for a number that doesn't fit."""
    points = star_points(size)
    most = 9 if len(points) == 9 else min(4, len(points))
    if not 2 <= stones <= most:
        allowed = f"there are from 2 to {most}" if most else "there are none on this size"
        raise ConfigError(f"{stones} handicap stones can't be placed on {size}x{size}; {allowed}")
    return [*points[: stones - 1], points[8]] if stones in (5, 7) else points[:stones]


class Game:
    """A game in progress; only this class knows superko and the end. ``seed`` is the seed of all random choices in the
    game: ``move_seed`` depends only on it and on the number of moves played."""

    __slots__ = ("rules", "seed", "board", "to_play", "moves", "outcome", "setup", "_hashes", "__weakref__")

    def __init__(
        self,
        rules: Rules,
        seed: int = 0,
        black: Iterable[Move] = (),
        white: Iterable[Move] = (),
        to_play: Colour | None = None,
    ):
        """A new game, with setup stones if given; by default White begins when only Black has some. Raises ValueError
        when two setup stones share a point or a group has no liberty."""
        self.rules = rules
        self.seed = seed
        self.setup: Stones = (tuple(black), tuple(white))
        self.board = Board(rules.size)
        stones = [(move, colour) for colour, moves in zip(Colour, self.setup, strict=True) for move in moves]
        for move, colour in stones:
            self.board.put(move, colour)
        if any(self.board.stone(move) != colour or not self.board.liberties(move) for move, colour in stones):
            raise ValueError("the setup has a group without liberties")
        self.to_play = usual_first(self.setup) if to_play is None else to_play
        self.moves: list[Move] = []
        self.outcome: Outcome | None = None
        self._hashes = np.zeros(rules.move_limit + 1, np.uint64)
        self._hashes[0] = self.board.hash

    @property
    def hashes(self) -> np.ndarray:
        """The hashes of all positions so far, the present one last; uint64, a view."""
        return self._hashes[: len(self.moves) + 1]

    @property
    def is_over(self) -> bool:
        return self.outcome is not None

    @property
    def first(self) -> Colour:
        """The side that makes the first move."""
        return self.to_play if len(self.moves) % 2 == 0 else self.to_play.opponent

    @property
    def handicap(self) -> int:
        """The number of Black's setup stones if there are at least two, White has none and White begins; else 0."""
        black, white = self.setup
        return len(black) if len(black) > 1 and not white and self.first is WHITE else 0

    @property
    def compensation(self) -> float:
        """The points that White gets: komi, and one for each handicap stone if the rules say so."""
        return self.rules.komi + (self.handicap if self.rules.handicap_points else 0)

    def copy(self) -> Game:
        twin = Game.__new__(Game)
        twin.rules, twin.seed, twin.setup = self.rules, self.seed, self.setup
        twin.board = self.board.copy()
        twin.to_play, twin.outcome = self.to_play, self.outcome
        twin.moves = self.moves.copy()
        twin._hashes = self._hashes.copy()
        return twin

    def after(self, move: Move) -> Game:
        """A copy with the move played, which two passes don't end; the move limit does. Raises IllegalMove."""
        twin = self.copy()
        twin.play(move)
        if len(twin.moves) < self.rules.move_limit:
            twin.outcome = None
        return twin

    def move_seed(self) -> int:
        """A 63-bit number for the random choices of this move (splitmix64 of the seed and the number of moves)."""
        mask = (1 << 64) - 1
        value = (self.seed + 0x9E3779B97F4A7C15 * (len(self.moves) + 1)) & mask
        value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & mask
        value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & mask
        return (value ^ (value >> 31)) >> 1

    def legal_moves(self, eyes: bool = True) -> np.ndarray:
        """(size² + 1,) bool: the legal moves of the side to move; without ``eyes``, except those that fill an own eye.
        The pass is last and always legal."""
        mask = np.empty(self.rules.size**2 + 1, np.bool_)
        kernels.legal_mask(*self._position(), eyes, mask)
        return mask

    def sensible_moves(self) -> np.ndarray:
        """``legal_moves`` without those that fill an own eye, and without the pass if the side to move is behind on the
        board and has another move, as the opponent could end the game with a second pass."""
        mask = self.legal_moves(eyes=False)
        margin = self.margin() if self.to_play is BLACK else -self.margin()
        mask[-1] = margin >= 0 or not mask[:-1].any()
        return mask

    def random_move(self) -> Move:
        """A uniformly random legal move that fills no own eye and is not suicide, by ``move_seed``; a pass if there is
        none."""
        return int(kernels.random_move(*self._position()[:-1], self.move_seed()))

    def _position(self) -> tuple[np.ndarray, int, int, np.ndarray, int, bool, bool]:
        """The arguments of kernels that decide whether moves are legal."""
        rules = self.rules
        return self.board.array, 0, int(self.to_play), self._hashes, len(self.moves) + 1, rules.superko, rules.suicide

    def play(self, move: Move) -> None:
        """Play for the side to move. Raises IllegalMove, and then has changed nothing."""
        if self.outcome is not None:
            raise IllegalMove("the game is over")
        if not 0 <= move <= self.rules.size**2:
            raise IllegalMove(f"{move} is not a move on a {self.rules.size}x{self.rules.size} board")
        board, index, colour, *history = self._position()
        reason, earlier = kernels.referee(board, index, int(move), colour, *history)
        if reason != kernels.LEGAL:
            raise IllegalMove(self._explain(int(move), reason, earlier))
        self.moves.append(int(move))
        self.to_play = self.to_play.opponent
        if move == pass_move(self.rules.size) and self.is_passed_out:
            self.outcome = Outcome.scored(self.margin())
        elif len(self.moves) >= self.rules.move_limit:
            self.outcome = Outcome.scored(self.margin(), Ending.MOVE_LIMIT)

    def _explain(self, move: Move, reason: int, earlier: int) -> str:
        point = gtp_from_move(move, self.rules.size)
        return {
            kernels.OCCUPIED: f"{point} is taken",
            kernels.SUICIDE: f"{point} is suicide",
            kernels.KO: f"{point} retakes the ko at once",
            kernels.SUPERKO: f"{point} repeats the position after move {earlier} (superko)",
            kernels.NO_ROOM: f"the game is at its limit of {self.rules.move_limit} moves",
        }[reason]

    @property
    def is_passed_out(self) -> bool:
        """Whether the last two moves were passes."""
        passing = pass_move(self.rules.size)
        return self.moves[-2:] == [passing, passing]

    def resign(self, colour: Colour) -> None:
        """End the game as lost for ``colour``. Raises IllegalMove when it is over."""
        self.end(Outcome(colour.opponent, Ending.RESIGN))

    def end(self, outcome: Outcome) -> None:
        """End the game from outside the board: a resignation or a forfeit. Raises IllegalMove when it is over."""
        if self.outcome is not None:
            raise IllegalMove("the game is over")
        self.outcome = outcome

    def captured_stones(self, colour: Colour) -> int:
        """The number of stones of this colour that were captured."""
        return self.board.captured_stones(colour)

    def placed_stones(self, colour: Colour) -> int:
        """The number of stones that this colour has placed, including those that were captured."""
        return self.board.captured_stones(colour) + self.board.count(colour)

    def margin(self, dead: Sequence[Move] = ()) -> float:
        """Black's margin as the board stands, komi counted, with the stones at ``dead`` taken off first."""
        board = self.board.without(dead) if dead else self.board
        if self.rules.scoring is Scoring.AREA:
            points = board.area_margin()
        else:
            black, white = (self.placed_stones(colour) - board.count(colour) for colour in Colour)
            points = board.territory_margin() + white - black
        return points - self.compensation

    def expected_margin(self, ownership: np.ndarray) -> float:
        """Black's expected margin, komi counted, from Black's ``ownership`` (size²,) in [-1, 1] of each point. By
        territory rules it is the margin by area minus the difference in stones placed so far."""
        points = float(ownership.sum()) - self.compensation
        if self.rules.scoring is Scoring.TERRITORY:
            points -= self.placed_stones(BLACK) - self.placed_stones(WHITE)
        return points

    def __str__(self) -> str:
        return f"{self.board}\n{self.to_play.name.lower()} to play, move {len(self.moves) + 1}"


class GameCopy:
    """A copy of a game that a bot may change; the same object for the whole game."""

    def __init__(self, game: Game):
        self._game, self._copy = game, game.copy()
        self._board, self._array, self._hashes = self._copy.board, self._copy.board.array, self._copy._hashes
        arrays = (self._array, game.board.array), (self._hashes, game._hashes)
        self._memory = [[memoryview(array.view(np.uint8).data) for array in pair] for pair in arrays]  # copied quickest

    def update(self) -> Game:
        """Reset the copy to the state of the game and return it."""
        game, copy = self._game, self._copy
        for mine, theirs in self._memory:
            mine[:] = theirs
        copy.board, copy._hashes, copy.moves = self._board, self._hashes, game.moves.copy()
        copy.board.array, copy.board.size = self._array, game.rules.size
        copy.rules, copy.seed, copy.setup = game.rules, game.seed, game.setup
        copy.to_play, copy.outcome = game.to_play, game.outcome
        return copy
