"""Counted games that stopped before dead stones were taken off: marked, and believed where that gives the recorded
result. Who reads the records, and what becomes of the others, is not here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import IntEnum
from functools import cache

import numpy as np

from arena import BotFault, ConfigError
from arena.go.board import Board
from arena.go.coords import Colour, Move, gtp_from_move, move_from_gtp
from arena.go.game import Ending
from arena.go.record import GameRecord
from bots.gtp import Config, GtpBot
from bots.nets.checkpoint import SHIPPED
from bots.nets.rollout import RolloutPolicy
from bots.search.dead import judge
from bots.search.rollouts import SHARPNESS, Weights

POLICY = "rollout-9x9"
"""The shipped policy of the playouts; it plays on all sizes."""

GNUGO = "gnugo --mode gtp --level 8 --seed 1"

PATIENCE = 60.0
"""Seconds that GNU Go may take for one answer."""


class LabelledBy(IntEnum):
    """What is made of a game."""

    UNCOUNTED = 0
    """It didn't end by a count, or its margin isn't known."""
    AS_IT_STANDS = 1
    """All stones count as alive: so it gives the recorded margin."""
    PLAYOUTS = 2
    """It does with the stones that playouts take for dead taken off."""
    GNUGO = 3
    """It does only with those that GNU Go takes for dead."""
    DISPUTED = 4
    """It doesn't; whose the points are stays unknown."""


Judge = Callable[[Board], Sequence[Move] | None]
"""The dead stones of a position, or None for no opinion."""


def label_dead_stones(
    record: GameRecord, judges: Sequence[tuple[LabelledBy, Judge]]
) -> tuple[LabelledBy, np.ndarray | None]:
    """The first of the judges, in turn, by whom the count gives the recorded margin, by the record's own scoring.

    Also who owns each point by area then, dead stones taken off: (size²,) int8, 1 Black, -1 White, 0 nobody; None when
    nobody knows.
    """
    outcome = record.outcome
    if outcome is None or outcome.ending is not Ending.SCORE or outcome.margin is None:
        return LabelledBy.UNCOUNTED, None
    game = record.replay()
    if game.margin() == outcome.margin:
        return LabelledBy.AS_IT_STANDS, _signed(game.board)
    for settled, dead_stones in judges:
        dead = dead_stones(game.board)
        if dead and game.margin(dead) == outcome.margin:
            return settled, _signed(game.board.without(dead))
    return LabelledBy.DISPUTED, None


def _signed(board: Board) -> np.ndarray:
    owners = board.owners().astype(np.int8)
    owners[owners == 2] = -1
    return owners


@cache
def judges() -> tuple[tuple[LabelledBy, Judge], ...]:
    """Playouts, then GNU Go where it is installed; made once a process."""
    gnugo = GnuGo.find()
    return ((LabelledBy.PLAYOUTS, by_playouts), *(((LabelledBy.GNUGO, gnugo),) if gnugo else ()))


def gnugo_title() -> str:
    """What the GNU Go among the judges says it is; empty where there is none."""
    return next((judge.title for _, judge in judges() if isinstance(judge, GnuGo)), "")


def by_playouts(board: Board) -> tuple[Move, ...]:
    """What playouts of the shipped policy take for dead."""
    return judge(board, playout_weights(board.size)).moves


@cache
def playout_weights(size: int) -> Weights:
    """The shipped rollout policy on boards of this size."""
    return RolloutPolicy.open(SHIPPED / POLICY).weights(size, SHARPNESS)


class GnuGo:
    """GNU Go as a judge of dead stones, in a process of its own that lives as long as this."""

    def __init__(self, bot: GtpBot):
        self._bot = bot

    @classmethod
    def find(cls) -> GnuGo | None:
        """That of the PATH or of the usual folders of games; None where there is none that starts."""
        with suppress(ConfigError):
            return cls(GtpBot(Config(command=GNUGO)))
        return None

    @property
    def title(self) -> str:
        return f"{self._bot.name} {self._bot.version}".strip()

    def __call__(self, board: Board) -> tuple[Move, ...] | None:
        size = board.size
        stones = board.stones.reshape(-1)
        try:
            for command in (f"boardsize {size}", "clear_board"):
                self._bot.ask(command, PATIENCE)
            for colour in Colour:  # all of one colour, then the other: nothing is captured on the way
                for move in np.flatnonzero(stones == colour).tolist():
                    self._bot.ask(f"play {colour.letter.lower()} {gtp_from_move(move, size)}", PATIENCE)
            words = self._bot.ask("final_status_list dead", PATIENCE).split()
            return tuple(move_from_gtp(word, size) for word in words)
        except (BotFault, ValueError):  # a new process starts at the next question
            return None

    def close(self) -> None:
        self._bot.close()
