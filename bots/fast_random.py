"""The same policy as ``random``, chosen inside one kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arena.contract.bot import Bot, BotKind, Decision, Limits
from bots.random import Config

if TYPE_CHECKING:
    from arena.go.game import Game


class FastRandom(Bot):
    def __init__(self, config: Config):
        from arena.go.kernels import random_move  # compiled: imported when a player is built

        self._random_move = random_move

    def choose(self, game: Game, limits: Limits) -> Decision:
        board, hashes, superko = game.board.array, game.hashes, game.rules.superko
        move = self._random_move(board, 0, int(game.to_play), hashes, len(hashes), superko, game.move_seed())
        return Decision(int(move))


BOT = BotKind(summary="the same policy as random, compiled", config=Config, build=FastRandom, revision=2)
