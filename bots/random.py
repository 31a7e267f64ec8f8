"""Uniformly random legal moves, own eyes kept: the bottom of every ladder, in readable Python."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from arena.contract.bot import Bot, BotKind, Decision, Limits

if TYPE_CHECKING:
    from arena.go.game import Game


@dataclass(frozen=True, slots=True)
class Config:
    pass


class RandomBot(Bot):
    def __init__(self, config: Config):
        self._random = Random()  # seeded for every move: making one takes longer than choosing

    def choose(self, game: Game, limits: Limits) -> Decision:
        moves = game.legal_moves(eyes=False)[:-1].nonzero()[0]
        if len(moves) == 0:
            return Decision(game.rules.size**2)
        self._random.seed(game.move_seed())
        return Decision(int(self._random.choice(moves)))


BOT = BotKind(summary="random legal moves that never fill an own eye", config=Config, build=RandomBot, revision=1)
