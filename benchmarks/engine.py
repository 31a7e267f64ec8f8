"""The compiled engine: playouts a second, and simulations of the searches without a net."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from arena.contract.bot import Limits
from arena.go import kernels
from arena.go.game import Game, Rules
from benchmarks.measure import interleaved, report, timed


def playouts(size: int, study: Any) -> None:
    boards = np.zeros(2, kernels.BOARD)
    kernels.new_board(boards, 0, size)
    count = 4_000_000 // size**3
    margins = np.zeros(count, np.int16)

    def ours(seed: int) -> float:
        return timed(lambda: (kernels.run_playouts(boards, 1, count, seed, margins), count)[1])

    if study is None:
        report(f"playouts {size}x{size}", "/s", *interleaved(ours))
        return
    engine = study.Eng(size)
    rates = interleaved(ours, lambda seed: timed(lambda: (engine.playouts(count, 77 + seed), count)[1]))
    report(f"playouts {size}x{size}", "/s", *rates, "the study code")


def answering_playouts(size: int) -> None:
    """What playouts that answer cost, beside uniform ones."""
    from bots.search.playouts import run_answering_playouts

    boards = np.zeros(2, kernels.BOARD)
    kernels.new_board(boards, 0, size)
    count = 1_000_000 // size**3
    margins = np.zeros(count, np.int16)

    def answering(seed: int) -> float:
        return timed(lambda: (run_answering_playouts(boards, 1, 0, count, seed, margins), count)[1])

    def uniform(seed: int) -> float:
        return timed(lambda: (kernels.run_playouts(boards, 1, count, seed, margins), count)[1])

    report(f"answering playouts {size}x{size}", "/s", *interleaved(answering, uniform), "uniform ones")


def uct_simulations(study: Any) -> None:
    from bots import uct

    count = 40_000

    def simulations(**settings: Any) -> Callable[[int], float]:
        bot = uct.Uct(uct.Config(reuse=False, stop_early=False, max_tree_mb=256, **settings))

        def measure(seed: int) -> float:
            game = Game(Rules.preset(), seed=seed)
            return timed(lambda: (bot.choose(game, Limits(simulations=count)), count)[1])

        return measure

    plain = {"c_uct": 0.7, "rave": 0.0, "priors": 0.0, "answering": False, "expand_after": 2}
    if study is None:
        report("plain UCT simulations, empty 9x9", "/s", *interleaved(simulations(**plain)))
    else:
        engine = study.Eng(9)
        engine.tree()
        rates = interleaved(simulations(**plain), lambda seed: timed(lambda: (engine.uct(count, 77 + seed), count)[1]))
        report("plain UCT simulations, empty 9x9", "/s", *rates, "the study code")
    full, two = interleaved(simulations(), simulations(threads=2))
    report("mcts simulations, empty 9x9", "/s", full)
    report("mcts with two threads", "/s", two, full, "one thread")
