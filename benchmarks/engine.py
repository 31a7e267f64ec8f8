"""The compiled engine: playouts a second, and simulations of the searches without a net."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from arena.contract.bot import Limits
from arena.go import kernels
from arena.go.game import Game, Rules
from benchmarks.measure import interleaved, report, timed


def playouts(share: float) -> None:
    """Uniform playouts, and what playouts that answer cost beside them; with a ``share`` of the usual work."""
    for size in (9, 13, 19):
        _playouts(size, share)


def _playouts(size: int, share: float) -> None:
    from bots.search.playouts import run_answering_playouts

    boards = np.zeros(2, kernels.BOARD)
    kernels.new_board(boards, 0, size)
    count = max(1, int(share * 1_000_000 / size**3))
    margins = np.zeros(count, np.int16)

    def uniform(seed: int) -> float:
        return timed(lambda: (kernels.run_playouts(boards, 1, count, seed, margins), count)[1])

    def answering(seed: int) -> float:
        return timed(lambda: (run_answering_playouts(boards, 1, 0, count, seed, margins), count)[1])

    alone, beside = interleaved(uniform, answering)
    report(f"playouts {size}x{size}", "/s", alone)
    report(f"answering playouts {size}x{size}", "/s", beside, alone, "uniform ones")


def uct_simulations(share: float) -> None:
    from bots import uct

    count = max(1, int(share * 40_000))

    def simulations(**settings: Any) -> Callable[[int], float]:
        bot = uct.Uct(uct.Config(stop_early=False, max_tree_mb=256, **settings))

        def measure(seed: int) -> float:
            game = Game(Rules.preset(), seed=seed)
            return timed(lambda: (bot.choose(game, Limits(simulations=count)), count)[1])

        return measure

    plain = {"c_uct": 0.7, "rave": 0.0, "priors": 0.0, "policy": 0.0}
    report("plain UCT simulations, empty 9x9", "/s", *interleaved(simulations(**plain)))
    full, two = interleaved(simulations(), simulations(threads=2))
    report("mcts simulations, empty 9x9", "/s", full)
    report("mcts with two threads", "/s", two, full, "one thread")
