"""UCT with RAVE, priors and MoGo-style playouts; its only learned part is a small linear policy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from arena.contract.bot import Bot, BotKind, Candidate, Decision, Limits, setting
from bots.nets.checkpoint import find

if TYPE_CHECKING:
    from arena.go.game import Game
    from bots.search.rollouts import Weights

CHUNK = 256  # simulations between two checks of the clock
NODE_BYTES = 36


@dataclass(frozen=True, slots=True)
class Config:
    playouts: int = setting(2000, "simulations per move. A limit such as @seconds overrides it", low=1)
    c_uct: float = setting(0.0, "exploration constant of UCB1; at 0, only RAVE and priors explore", low=0)
    rave: float = setting(
        3500.0, "RAVE equivalence: visits at which a move's own results outweigh its RAVE value; 0 disables RAVE", low=0
    )
    priors: float = setting(1.0, "weight of the heuristic prior from patterns, atari and distance; 0: none", low=0)
    checkpoint: str = setting("rollout-9x9", "name or folder of a rollout policy (arena train rollout)")
    policy: float = setting(15.0, "weight of the rollout policy's prior, in simulations; 0: none", low=0, high=1000)
    stop_early: bool = setting(True, "stop when no other move can get more visits")
    resign: float = setting(0.0, "resign below this win rate; 0 never resigns", low=0, high=0.5)
    max_tree_mb: int = setting(256, "maximum size of a game's tree, in megabytes", low=1, high=8192)


class Uct(Bot):
    def __init__(self, config: Config):
        from bots.nets.rollout import RolloutPolicy
        from bots.search import rollouts, tree, uct  # compiled: imported when a player is built

        self._config = config
        self._search, self._lead = uct.search, tree.lead
        self._params = tree.params_of(config, uct.UctParams)
        self._trees = tree.TreePool(config.max_tree_mb * 2**20 // NODE_BYTES, rave=True)
        policy = RolloutPolicy.open(find(config.checkpoint)) if config.policy else None
        learned = policy.learned if policy else np.zeros(int(rollouts.tie().max()) + 1)  # a uniform policy
        self._weights = cache(lambda size: rollouts.expand_weights(learned, size))

    def choose(self, game: Game, limits: Limits) -> Decision:
        slot, size = int(self._trees.slots_of([game])[0]), game.rules.size
        self._think(slot, limits, self._config.stop_early)
        move, win_rate, visits = self._trees.best(slot, size)
        resigns = win_rate < self._config.resign
        return Decision(None if resigns else move, win_rate, visits, self._trees.ownership(slot, size))

    def analyse(self, game: Game, limits: Limits) -> list[Candidate]:
        slot, size = int(self._trees.slots_of([game])[0]), game.rules.size
        if limits.moves is not None:
            self._think(slot, Limits(simulations=1), stop_early=False)  # expands the root
            self._trees.allow(slot, size, limits.moves)
        self._think(slot, limits, stop_early=False, counts_earlier=True)
        return self._trees.candidates(slot, size)

    def overview(self, game: Game) -> Decision | None:
        return self._trees.overview(game)

    def _think(self, slot: int, limits: Limits, stop_early: bool, counts_earlier: bool = False) -> None:
        """Simulate until the limits, or until the most visited move can't be overtaken."""
        trees, start, done = self._trees, perf_counter(), 0
        total = limits.simulations or (self._config.playouts if limits.seconds is None else inf)
        if counts_earlier and limits.simulations:
            total = max(1, total - int(trees.nodes.visits[slot, 0]))
        weights: Weights = self._weights(int(trees.boards[slot]["side"]))
        known = (trees.boards, trees.roots, trees.hashes, trees.nodes, trees.owners)
        while done < total:
            spent, left = perf_counter() - start, total - done
            if limits.seconds is not None and done:
                if spent >= limits.seconds:
                    return
                left = min(left, (limits.seconds - spent) / spent * done)
            if stop_early and done and self._lead(trees.nodes, slot) > left:
                return
            count = int(min(CHUNK, total - done))
            self._search(*known, slot, count, self._params, weights)
            done += count


BOT = BotKind(
    summary="UCT: tree search with RAVE, trained and heuristic priors, and heuristic playouts",
    config=Config,
    build=Uct,
    heads=("rollout",),
    tells_win_rate=True,
    analyses=True,
    revision=3,
)
