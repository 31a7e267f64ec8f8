"""UCT with RAVE, priors and playouts that answer, from as many simulations or seconds a move as it is given. No net.

The tree is in ``search``.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING

from arena.bot import Bot, BotKind, Candidate, Decision, Limits, setting

if TYPE_CHECKING:
    from arena.go.game import Game
    from bots.search.rollouts import Weights

CHUNK = 256
"""Simulations of a thread between two looks at the clock."""


@dataclass(frozen=True, slots=True)
class Config:
    playouts: int = setting(2000, "simulations a move, where no limit says otherwise", low=1)
    threads: int = setting(1, "threads that search one tree; with more than one, games don't repeat", low=1, high=64)
    exploration: float = setting(0.0, "weight of the confidence bound; RAVE and priors explore without", low=0)
    rave: float = setting(3500.0, "simulations at which a move's own results outweigh RAVE's; 0 is without RAVE", low=0)
    priors: float = setting(1.0, "weight of what shapes, atari and distance say beforehand; 0 is without", low=0)
    answering: bool = setting(True, "playouts that answer atari and play shapes, instead of uniform ones")
    policy: float = setting(
        15.0, "simulations that the policy rollout-9x9 is worth in a prior; 0 is without", low=0, high=1000
    )
    trained: bool = setting(False, "playouts by that policy: stronger by playout, weaker by time")
    expand_after: int = setting(8, "visits that a leaf needs before it gets children", low=1)
    stop_early: bool = setting(True, "stop when no other move can get more visits")
    reuse: bool = setting(True, "keep what the tree knows from move to move")
    resign: float = setting(0.0, "resign under this win rate; 0 never resigns", low=0, high=0.5)
    memory: int = setting(64, "megabytes of tree for each game", low=1, high=8192)


NODE_BYTES = 36


class Uct(Bot):
    def __init__(self, config: Config):
        from bots.nets.checkpoint import SHIPPED
        from bots.nets.rollout import RolloutPolicy
        from bots.search import tree, uct  # compiled: imported when a player is built

        self._config = config
        self._search = uct.search
        self._knowledge = uct.Knowledge(
            config.exploration,
            config.rave,
            config.priors,
            config.answering,
            config.expand_after,
            config.policy,
            config.trained,
        )
        self._policy = RolloutPolicy.open(SHIPPED / "rollout-9x9") if config.policy or config.trained else None
        self._weights: dict[int, Weights] = {}
        self._forest = tree.Forest(capacity=config.memory * 2**20 // NODE_BYTES)
        self._pool = ThreadPoolExecutor(config.threads, "uct")

    def choose(self, game: Game, limits: Limits) -> Decision:
        slot = int(self._forest.slots_of([game], keep=self._config.reuse)[0])
        size = game.rules.size
        self._think(slot, limits, self._config.stop_early, size)
        move, win_rate, visits = self._forest.best(slot, size)
        ownership = self._forest.ownership(slot, size)
        return Decision(None if win_rate < self._config.resign else move, win_rate, visits, ownership)

    def analyse(self, game: Game, limits: Limits) -> list[Candidate]:
        slot = int(self._forest.slots_of([game])[0])
        self._think(slot, limits, False, game.rules.size)
        return self._forest.candidates(slot, game.rules.size)

    def _weights_for(self, size: int) -> Weights:
        from bots.search.rollouts import SHARPNESS, unlearned

        if size not in self._weights:
            sharpness = SHARPNESS if self._config.trained else 1.0
            self._weights[size] = self._policy.weights(size, sharpness) if self._policy else unlearned(size)
        return self._weights[size]

    def _think(self, slot: int, limits: Limits, stop_early: bool, size: int) -> None:
        """Simulate until the limits, or until the most visited move can't be overtaken."""
        import numpy as np

        forest, threads, weights = self._forest, self._config.threads, self._weights_for(size)
        start = perf_counter()
        total = limits.simulations or (self._config.playouts if limits.seconds is None else inf)
        used = np.array([[forest.roots[slot]["used"]]], np.int64)
        done = [0] * threads

        def goes_on() -> bool:
            spent, finished = perf_counter() - start, sum(done)
            if finished >= total or (limits.seconds is not None and spent >= limits.seconds):
                return False
            left = total - finished
            if limits.seconds is not None and finished:
                left = min(left, (limits.seconds - spent) / spent * finished)
            return not (stop_early and finished and forest.lead(slot) > left)

        def simulate(thread: int) -> None:
            share = total if total == inf else total // threads + (thread < total % threads)
            while done[thread] < share and goes_on():
                count = int(min(CHUNK, share - done[thread]))
                self._search(
                    forest.boards,
                    forest.roots,
                    forest.hashes,
                    forest.nodes,
                    forest.owners,
                    slot,
                    count,
                    self._knowledge,
                    used,
                    thread,
                    threads,
                    weights,
                )
                done[thread] += count

        if threads == 1:
            simulate(0)
        else:
            list(self._pool.map(simulate, range(threads)))
        forest.roots[slot]["used"] = min(int(used[0, 0]), forest.capacity)

    def close(self) -> None:
        self._pool.shutdown()


BOT = BotKind(summary="UCT: tree search with RAVE, priors and playouts that answer", config=Config, build=Uct)
