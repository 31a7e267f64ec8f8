"""The AlphaGo hybrid: PUCT with a policy net, leaves evaluated by net, rollouts or both (Silver et al. 2016).

The net's win rates are for the game's rules if its encoder has them (``katago-22``), else for area scoring. Rollouts
and finished games follow the game's rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from arena import CheckpointError
from arena.contract.bot import Bot, BotKind, Candidate, Decision, Limits, RawNN, setting
from arena.go.coords import symmetry_table
from bots.nets.checkpoint import AUTO, Checkpoint, Precision, check_net, find

if TYPE_CHECKING:
    from arena.go.game import Game
    from bots.nets.inference import Evaluator
    from bots.nets.int8 import Packed
    from bots.search.puct import PuctParams
    from bots.search.rollouts import Weights

STEP = 4096  # visits between two checks of the clock, at most
UNLIMITED_VISITS = 1 << 40  # more visits than a tree can have
MAX_INT32 = 2**31 - 1
BATCH = 8  # leaves per batch under a time limit: 1.5 times as many visits as one by one (int8, AVX2)
NODE_BYTES = 28
TOGETHER = 16  # leaves that are searched without going back to Python, where there is no time limit
FIRST_NODES = 2**15  # initial capacity of a tree: some 400 visits on 9x9


@dataclass(frozen=True, slots=True)
class Config:
    checkpoint: str = setting(AUTO, "name or folder of the net; auto: the one that ships for the size of the board")
    visits: int = setting(
        100, "visits per move, with those kept from before. A limit such as @seconds overrides it", 2, MAX_INT32
    )
    rollout_weight: float = setting(0.0, "weight of rollouts (lambda) on a full board; 0: none", low=0, high=1)
    rollouts_full: float = setting(
        0.65, "share of occupied points from which rollouts have all of their weight; 0: always", low=0, high=1
    )
    rollout_policy: str = setting(
        "heuristic",
        "who plays rollouts: heuristic, or trained, the policy rollout-9x9",
        choices=("heuristic", "trained"),
    )
    search: str = setting(
        "puct", "puct, or gumbel: sequential halving of 16 moves, improved policy below", choices=("puct", "gumbel")
    )
    c_puct: float = setting(0.5, "exploration constant of PUCT, for results from 0 to 1", low=0)
    fpu_reduction: float = setting(
        0.1, "first-play-urgency reduction: an unvisited move starts this far below its parent's value", low=0, high=1
    )
    lcb_stdevs: float = setting(
        5.0, "plays the move with the best lower confidence bound, this many standard errors; 0: the most visited", 0
    )
    stop_early: bool = setting(True, "stop when no other move can get more visits")
    virtual_loss_batch: int = setting(
        0, "leaves of one tree per batch, by virtual loss; 0: 1, or a full batch under seconds", low=0, high=64
    )
    resign: float = setting(0.0, "resign below this win rate; 0 never resigns", low=0, high=0.5)
    max_tree_mb: int = setting(256, "maximum size of a game's tree, in megabytes", low=1, high=8192)
    precision: str = setting(
        "auto", "number format of the net; bf16 is for a GPU and large batches", choices=tuple(Precision)
    )
    threads: int = setting(1, "threads of the net. Useful when a single board is searched by time", low=1, high=64)

    @property
    def gumbel(self) -> bool:
        return self.search == "gumbel"


class AlphaGo(Bot):
    def __init__(self, config: Config):
        from bots.nets.inference import Evaluator  # these are heavy: imported when a player is built
        from bots.nets.search import search
        from bots.search import gumbel, puct, tree

        self._config = config
        self._puct, self._gumbel, self._search = puct, gumbel, search
        self._params = tree.params_of(config, puct.PuctParams)
        more: Any = {"kernels": self._kernels}
        load = cache(lambda folder: Evaluator(Checkpoint.open(folder), config.precision, config.threads, **more))
        self._net = cache(lambda size: load(find(config.checkpoint, size=size)))  # a name means the same net for good
        most = config.max_tree_mb * 2**20 // NODE_BYTES
        self._trees = tree.TreePool(FIRST_NODES, most=most, lcb_stdevs=config.lcb_stdevs)
        self._leaves = puct.Leaves.empty(0)
        self._net(9)  # raises CheckpointError now, not at the first move

    def choose(self, game: Game, limits: Limits) -> Decision:
        return self.choose_all([game], limits)[0]

    def choose_all(self, games: Sequence[Game], limits: Limits) -> list[Decision]:
        """Search all trees in lock step, on boards of one size. Without rollouts, ownership is the net's."""
        size = games[0].rules.size
        net = self._net(size)
        decisions = [self._decide(slot, size) for slot in self._search_all(games, limits)]
        if net.has_ownership and any(decision.ownership is None for decision in decisions):
            owners = net.ownership(net.encode(games))
            return [replace(decision, ownership=points) for decision, points in zip(decisions, owners, strict=True)]
        return decisions

    def search_targets(self, games: Sequence[Game], limits: Limits) -> tuple[np.ndarray, ...]:
        """Targets for a net, float64: the visits of each move, or the improved policy of Gumbel (games, size² + 1); the
        mean win rates of the sides to move (games,); the net's ownership (games, size²) float32, if it has any."""
        size, trees = games[0].rules.size, self._trees
        visits, win_rates = np.zeros((len(games), size * size + 1)), np.empty(len(games))
        for row, slot in enumerate(self._search_all(games, limits)):
            if self._config.gumbel:
                self._gumbel.improved_policy(trees.boards, trees.nodes, slot, self._params, visits[row])
            else:
                for candidate in trees.candidates(slot, size):
                    visits[row, candidate.move] = candidate.visits
            if not visits[row].any():  # the tree had no room
                visits[row, trees.best(slot, size)[0]] = 1
            win_rates[row] = 1 - trees.nodes.value[slot, 0]  # a node's value is for the player who moved to it
        net = self._net(size)
        return (visits, win_rates, net.ownership(net.encode(games))) if net.has_ownership else (visits, win_rates)

    def analyse(self, game: Game, limits: Limits) -> list[Candidate]:
        return self.analyse_all([game], limits)[0]

    def analyse_all(self, games: Sequence[Game], limits: Limits) -> list[list[Candidate]]:
        size = games[0].rules.size
        if limits.moves is not None:
            for slot in self._search_all(games, Limits(simulations=1), is_analysis=True):  # which expands the roots
                self._trees.allow(slot, size, limits.moves)
        slots = self._search_all(games, limits, is_analysis=True)
        return [self._trees.candidates(slot, size, priors=True) for slot in slots]

    def overview(self, game: Game) -> Decision | None:
        found, size = self._trees.overview(game), game.rules.size
        if found is None or not self._net(size).has_ownership:
            return found
        [raw_nn] = self.raw_nn([game])
        return replace(found, ownership=raw_nn.ownership, score=raw_nn.score)

    def raw_nn(self, games: Sequence[Game], symmetry: int = 0) -> list[RawNN]:
        return self._net(games[0].rules.size).raw_nn(games, symmetry)

    def _search_all(self, games: Sequence[Game], limits: Limits, is_analysis: bool = False) -> list[int]:
        """Search the trees of the games; returns their slots. An analysis also continues the tree of a Gumbel search,
        and may visit only the root. Otherwise at least one move is visited, even after the time is up."""
        config, trees, size, seconds = self._config, self._trees, games[0].rules.size, limits.seconds
        net = self._net(size)
        has_past = net.encoder.has_past
        slots = trees.slots_of(list(games), is_analysis or not config.gumbel, has_past)  # halving begins at 0 visits
        if config.gumbel:
            for slot in slots:
                trees.roots[slot]["simulations"] = (limits.simulations or config.visits) - 1
                self._gumbel.draw_gumbel(trees.roots, slot, size**2 + 1, 0.0)  # it plays its best move
        per_game = config.virtual_loss_batch or (1 if seconds is None else max(1, BATCH // len(slots)))
        batch = len(slots) * per_game
        if len(self._leaves.slots) < batch or has_past > len(self._leaves.positions.earlier):
            self._leaves = self._puct.Leaves.empty(batch, has_past)
        planes = np.empty((batch, net.encoder.planes, size * size), np.float32)
        outputs, tables = np.empty((batch, size * size + 4), np.float32), symmetry_table(size)
        self._puct.prune_pass_alive(trees.boards, trees.roots, trees.nodes, slots)
        least = 1 if is_analysis else 2  # the first visit only expands the root
        most = max(least, limits.simulations or (config.visits if seconds is None else UNLIMITED_VISITS))
        params = self._params._replace(stop_early=config.stop_early and seconds is None and not config.gumbel)
        end = inf if seconds is None else perf_counter() + seconds * len(slots)
        leaves, rollouts = self._leaves, self._rollouts(size)
        gumbel, past = self._puct.select_options(params, leaves)
        packed = self._packed(net, size)
        batches = max(1, TOGETHER // batch) if packed and seconds is None else 1

        def visit(budget: int) -> int:
            """Visit up to ``batches`` batches of leaves; returns 0 when every tree has ``budget`` visits."""
            trees.make_room(slots, batches * per_game * (size * size + 1))
            nodes, owners = trees.nodes, trees.owners
            known = (trees.boards, trees.roots, trees.hashes, nodes)
            if packed:
                options = (slots, budget, per_game, batches, params, leaves, past, tables, packed, planes, outputs)
                count = int(self._search((*known, owners), *options))
                if count < 0:
                    raise CheckpointError(f"{net.checkpoint.manifest.name}: its outputs must be finite numbers")
                return count
            count = int(self._puct.select_leaves(*known, slots, budget, per_game, params, leaves, gumbel, past))
            if count:
                net.encoder.encode(leaves.positions, count, planes)
                found = net.evaluate(planes[:count].reshape(count, -1, size, size))
                self._puct.expand_leaves(trees.roots, nodes, owners, params, tables, leaves, count, *found, *rollouts)
            return count

        while True:
            budget = most
            if seconds is not None:  # in steps: visits that all end the game never return to this loop
                budget = min(most, int(trees.nodes.visits[slots, 0].max()) + STEP)
            count = visit(budget)
            is_late = perf_counter() >= end and trees.nodes.visits[slots, 0].min() >= least
            if is_late or (count == 0 and budget == most):
                return slots.tolist()

    def _rollouts(self, size: int) -> tuple[PuctParams | None, Weights | None]:
        """The arguments ``rollouts`` and ``weights`` of ``expand_leaves``."""
        from bots.nets.rollout import shipped_weights

        if not self._config.rollout_weight:
            return None, None
        return self._params, shipped_weights(size) if self._config.rollout_policy == "trained" else None

    def _packed(self, net: Evaluator, size: int) -> Packed | None:
        """The net for ``bots.nets.search``, which is PUCT without rollouts."""
        return None if self._config.gumbel or self._config.rollout_weight else net.packed(size)

    def _kernels(self, game: Game, net: Evaluator) -> dict[str, Callable[[], object]]:
        """Calls that compile the kernels of a search and have no other effect."""
        from bots.search import tree

        puct, params, size = self._puct, self._params, game.rules.size
        trees = tree.TreePool(FIRST_NODES, lcb_stdevs=self._config.lcb_stdevs)
        leaves, slots = puct.Leaves.empty(1, net.encoder.has_past), np.empty(0, np.int64)
        planes, outputs = np.empty((0, net.encoder.planes, size**2), np.float32), np.empty((0, size**2 + 4), np.float32)
        known = (trees.boards, trees.roots, trees.hashes, trees.nodes)
        gumbel, past = puct.select_options(params, leaves)
        calls: dict[str, Callable[[], object]] = {
            "prune": partial(puct.prune_pass_alive, trees.boards, trees.roots, trees.nodes, slots),
            "tree": lambda: (trees.slots_of([game]), trees.best(0, size)),
        }
        if packed := self._packed(net, size):
            options = (slots, 0, 1, 0, params, leaves, past, symmetry_table(size), packed, planes, outputs)
            return calls | {"search": partial(self._search, (*known, trees.owners), *options)}
        found = outputs, np.empty(0, np.float32), *self._rollouts(size)
        expand = (trees.roots, trees.nodes, trees.owners, params, symmetry_table(size), leaves, 0, *found)
        return calls | {
            "select": partial(puct.select_leaves, *known, slots, 0, 0, params, leaves, gumbel, past),
            "expand": partial(puct.expand_leaves, *expand),
        }

    def _decide(self, slot: int, size: int) -> Decision:
        trees, child = self._trees, None
        if self._config.gumbel:
            child = self._gumbel.best_move(trees.nodes, trees.roots, slot, self._params)
        move, win_rate, visits = trees.best(slot, size, child)
        resigns = win_rate < self._config.resign
        return Decision(None if resigns else move, win_rate, visits, trees.ownership(slot, size))


BOT = BotKind(
    summary="PUCT with a policy and value net, and with rollouts where rollout_weight is set, after AlphaGo",
    config=Config,
    build=AlphaGo,
    boards=64,
    check=check_net,
    heads=("policy", "value"),
    tells_win_rate=True,
    analyses=True,
    teaches=True,
    revision=6,
)
