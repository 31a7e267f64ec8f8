"""UCT with RAVE, priors and playouts that answer, in as many simulations or seconds a move as it is given. No net but a
small linear policy.

The tree is in ``search``.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import inf
from threading import Event, Thread
from time import perf_counter
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from arena.contract.bot import Bot, BotKind, Candidate, Decision, Limits, setting
from bots.nets.checkpoint import find

if TYPE_CHECKING:
    import numpy as np

    from arena.go.coords import Move
    from arena.go.game import Game
    from bots.search.rollouts import Weights

CHUNK = 256
"""Simulations of a thread between two looks at the clock."""

PONDER_CHUNK = 32
"""Simulations of a thread until it sees that the bot is asked for something: about a millisecond on 9x9."""

MOST_PONDERED = 10_000_000
"""Simulations of a thread behind one move: where all lines end the game soon, no tree gets full."""


@dataclass(frozen=True, slots=True)
class Config:
    playouts: int = setting(2000, "simulations per move. A limit such as @seconds overrides it", low=1)
    threads: int = setting(1, "threads that search one tree; with more, games are not reproducible", low=1, high=64)
    c_uct: float = setting(0.0, "exploration constant of UCB1; at 0, only RAVE and priors explore", low=0)
    rave: float = setting(
        3500.0, "RAVE equivalence: visits at which a move's own results outweigh its RAVE value; 0 disables RAVE", low=0
    )
    priors: float = setting(1.0, "weight of the heuristic prior from patterns, atari and distance; 0: none", low=0)
    checkpoint: str = setting("rollout-9x9", "name or folder of a rollout policy (arena train rollout)")
    policy: float = setting(15.0, "weight of the rollout policy's prior, in simulations; 0: none", low=0, high=1000)
    stop_early: bool = setting(True, "stop when no other move can get more visits")
    ponder: bool = setting(False, "search during the opponent's turn, on other cores; games are then not reproducible")
    resign: float = setting(0.0, "resign below this win rate; 0 never resigns", low=0, high=0.5)
    max_tree_mb: int = setting(256, "maximum size of a game's tree, in megabytes", low=1, high=8192)


NODE_BYTES = 36


class Uct(Bot):
    def __init__(self, config: Config):
        from bots.nets.rollout import RolloutPolicy
        from bots.search import tree, uct  # compiled: imported when a player is built

        self._config = config
        self._search = uct.search
        self._params = tree.params_of(config, uct.UctParams)
        self._policy = RolloutPolicy.open(find(config.checkpoint)) if config.policy else None
        self._weights: dict[int, Weights] = {}
        self._trees = tree.TreePool(config.max_tree_mb * 2**20 // NODE_BYTES, tree.RaveNodes)
        self._pool = ThreadPoolExecutor(config.threads, "uct")
        self._copies: WeakKeyDictionary[Game, Game] = WeakKeyDictionary()
        self._reported: WeakKeyDictionary[Game, tuple[int, list[Candidate], Decision]] = WeakKeyDictionary()
        self._stop_pondering: Callable[[], None] = lambda: None

    def choose(self, game: Game, limits: Limits) -> Decision:
        slot = self._slot_of(game)
        self._think(slot, limits, self._config.stop_early)
        size = game.rules.size
        move, win_rate, visits = self._trees.best(slot, size)
        decision = Decision(
            None if win_rate < self._config.resign else move, win_rate, visits, self._trees.ownership(slot, size)
        )
        if self._config.ponder and decision.move is not None:
            self._reported[game] = len(game.moves), self._trees.candidates(slot, size), decision
            self._ponder(game, decision.move)
        return decision

    def analyse(self, game: Game, limits: Limits) -> list[Candidate]:
        reported = self._reported.pop(game, None)
        if reported is not None and reported[0] == len(game.moves) and limits.simulations == 1:
            self._reported[game] = reported  # asked for what it has just decided by: it goes on pondering
            return reported[1]
        slot, size = self._slot_of(game), game.rules.size
        if limits.moves is not None:
            self._think(slot, Limits(simulations=1), stop_early=False)  # which expands the root
            self._trees.allow(slot, size, limits.moves)
        if limits.simulations is not None:
            done = int(self._trees.nodes.visits[slot, 0])
            limits = replace(limits, simulations=max(1, limits.simulations - done))
        self._think(slot, limits, stop_early=False)
        return self._trees.candidates(slot, size)

    def overview(self, game: Game) -> Decision | None:
        reported = self._reported.get(game)
        if reported is not None and reported[0] == len(game.moves):
            return reported[2]
        slot, size = self._trees.slot_of(self._own(game)), game.rules.size
        if slot is None:
            return None
        return Decision(*self._trees.best(slot, size), self._trees.ownership(slot, size))

    def _slot_of(self, game: Game) -> int:
        """The tree of the present position; nothing else is at work in any tree then."""
        self._stop_pondering()
        return int(self._trees.slots_of([self._own(game)])[0])

    def _own(self, game: Game) -> Game:
        """The game, or where it is pondered on the bot's own copy, which may run ahead of it."""
        if not self._config.ponder:
            return game
        copy = self._copies.get(game)
        if copy is None or copy.is_over or copy.moves != game.moves[: len(copy.moves)]:
            copy = self._copies[game] = game.copy()
        for move in game.moves[len(copy.moves) :]:
            copy.play(move)
        return copy

    def _think(self, slot: int, limits: Limits, stop_early: bool) -> None:
        """Simulate until the limits, or until the most visited move can't be overtaken."""
        trees, threads = self._trees, self._config.threads
        start = perf_counter()
        total = limits.simulations or (self._config.playouts if limits.seconds is None else inf)
        used = self._used(slot)
        done = [0] * threads

        def continues() -> bool:
            spent, finished = perf_counter() - start, sum(done)
            if finished >= total or (limits.seconds is not None and spent >= limits.seconds):
                return False
            left = total - finished
            if limits.seconds is not None and finished:
                left = min(left, (limits.seconds - spent) / spent * finished)
            return not (stop_early and finished and trees.lead(slot) > left)

        def simulate(thread: int) -> None:
            share = total if total == inf else total // threads + (thread < total % threads)
            while done[thread] < share and continues():
                count = int(min(CHUNK, share - done[thread]))
                self._simulate(slot, count, used, thread)
                done[thread] += count

        if threads == 1:
            simulate(0)
        else:
            list(self._pool.map(simulate, range(threads)))
        self._sync_node_count(slot, used)

    def _ponder(self, game: Game, move: Move) -> None:
        """Go on behind ``move``, in threads of its own, until asked for anything or until the tree is full."""
        ahead = self._own(game)
        ahead.play(move)
        if ahead.is_over:
            return
        slot = int(self._trees.slots_of([ahead])[0])
        used = self._used(slot)
        full = self._trees.capacity - game.rules.size**2
        stop = Event()

        def simulate(thread: int) -> None:
            for _ in range(MOST_PONDERED // PONDER_CHUNK):
                if stop.is_set() or used[0, 0] > full:
                    break
                self._simulate(slot, PONDER_CHUNK, used, thread)

        # No thread of a pool: a program that ends without closing its bots doesn't wait for these.
        threads = [Thread(target=simulate, args=(number,), daemon=True) for number in range(self._config.threads)]
        for thread in threads:
            thread.start()

        def stop_pondering() -> None:
            stop.set()
            for thread in threads:
                thread.join()
            self._sync_node_count(slot, used)
            self._stop_pondering = lambda: None

        self._stop_pondering = stop_pondering

    def _simulate(self, slot: int, count: int, used: np.ndarray, thread: int) -> None:
        trees, threads = self._trees, self._config.threads
        known = (trees.boards, trees.roots, trees.hashes, trees.nodes, trees.owners)
        weights = self._weights_for(int(trees.boards[slot]["side"]))
        self._search(*known, slot, count, self._params, used, thread, threads, weights)

    def _weights_for(self, size: int) -> Weights:
        """Those of the trained policy on boards of a size; made once."""
        from bots.search.rollouts import uniform_weights

        if size not in self._weights:
            self._weights[size] = self._policy.weights(size) if self._policy else uniform_weights(size)
        return self._weights[size]

    def _used(self, slot: int) -> np.ndarray:
        """(1, 1) int64: how many nodes of the tree are in use, as threads count them together."""
        import numpy as np

        return np.array([[self._trees.roots[slot]["used"]]], np.int64)

    def _sync_node_count(self, slot: int, used: np.ndarray) -> None:
        self._trees.roots[slot]["used"] = min(int(used[0, 0]), self._trees.capacity)

    def close(self) -> None:
        self._stop_pondering()
        self._pool.shutdown()


BOT = BotKind(
    summary="UCT: tree search with RAVE, trained and heuristic priors, and heuristic playouts",
    config=Config,
    build=Uct,
    heads=("rollout",),
    tells_win_rate=True,
    analyses=True,
    revision=2,
)
