"""UCT with uniform playouts, from as many simulations or seconds a move as it is given. The tree is in ``search``."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING

from arena.bot import Bot, BotKind, Candidate, Decision, Limits, setting

if TYPE_CHECKING:
    from arena.go.game import Game

CHUNK = 512
"""Simulations between two looks at the clock."""


@dataclass(frozen=True, slots=True)
class Config:
    playouts: int = setting(2000, "simulations a move, where no limit says otherwise", low=1)
    exploration: float = setting(0.7, "weight of the confidence bound", low=0)
    reuse: bool = setting(True, "keep what the tree knows from move to move")
    resign: float = setting(0.0, "resign under this win rate; 0 never resigns", low=0, high=0.5)
    memory: int = setting(64, "megabytes of tree for each game", low=1, high=8192)


NODE_BYTES = 24


class Uct(Bot):
    def __init__(self, config: Config):
        from bots.search import tree, uct  # compiled: imported when a player is built

        self._config = config
        self._search = uct.search
        self._forest = tree.Forest(capacity=config.memory * 2**20 // NODE_BYTES)

    def choose(self, game: Game, limits: Limits) -> Decision:
        slot = int(self._forest.slots_of([game], keep=self._config.reuse)[0])
        self._simulate(slot, limits)
        move, win_rate, visits = self._forest.best(slot, game.rules.size)
        if win_rate < self._config.resign:
            return Decision(None, win_rate, visits)
        return Decision(move, win_rate, visits)

    def analyse(self, game: Game, limits: Limits) -> list[Candidate]:
        slot = int(self._forest.slots_of([game])[0])
        self._simulate(slot, limits)
        return self._forest.candidates(slot, game.rules.size)

    def _simulate(self, slot: int, limits: Limits) -> None:
        forest, config = self._forest, self._config
        seconds = limits.seconds or inf
        left = limits.simulations or (config.playouts if limits.seconds is None else inf)
        start = perf_counter()
        while left > 0 and perf_counter() - start < seconds:
            count = int(min(left, CHUNK))
            self._search(forest.boards, forest.roots, forest.hashes, forest.nodes, slot, count, config.exploration)
            left -= count


BOT = BotKind(summary="UCT: tree search with uniform playouts", config=Config, build=Uct)
