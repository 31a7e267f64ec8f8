"""The same policy as ``random``, chosen inside one kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arena.contract.bot import Bot, BotKind, Decision, Limits
from bots.random import Config

if TYPE_CHECKING:
    from arena.go.game import Game


class FastRandom(Bot):
    def __init__(self, config: Config):
        pass

    def choose(self, game: Game, limits: Limits) -> Decision:
        return Decision(game.random_move())


BOT = BotKind(summary="the same policy as random, compiled", config=Config, build=FastRandom, revision=2)
