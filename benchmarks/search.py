"""Search with a net: what a leaf costs outside the net."""

from __future__ import annotations

import statistics
from time import perf_counter
from typing import Any

import numpy as np

from arena.contract.bot import Limits
from arena.go import kernels
from arena.go.game import Game, Rules
from benchmarks.measure import ROUNDS, row


def puct(boards: int = 32) -> None:
    """What a leaf costs outside the net, the share of its time that a net bot is in its net, and how full its batches
    are: positions asked in one call, of the boards that wait for a move."""
    from bots import alphago, policy

    for name, bot in (
        ("alphago, lambda 0", alphago.AlphaGo(alphago.Config(rollout_weight=0, reuse=False))),
        ("alphago, rollouts at each leaf", alphago.AlphaGo(alphago.Config(rollouts_full=0, reuse=False))),
        ("sl", policy.Policy(policy.Config())),
    ):
        net = bot._net
        inside = [0.0, 0.0, 0.0]  # seconds, positions, calls
        evaluate = net.evaluate

        def watched(planes: np.ndarray, evaluate: Any = evaluate, inside: list[float] = inside) -> Any:
            start = perf_counter()
            answer = evaluate(planes)
            inside[0] += perf_counter() - start
            inside[1] += len(planes)
            inside[2] += 1
            return answer

        net.evaluate = watched
        shares, costs, fills = [], [], []
        for seed in range(ROUNDS + 1):
            games = [Game(Rules.preset(), seed=100 * seed + number) for number in range(boards)]
            for game in games:  # a position some way into the game
                for _ in range(20):
                    hashes = game.hashes
                    game.play(
                        int(
                            kernels.random_move(
                                game.board.array, 0, int(game.to_play), hashes, len(hashes), True, game.move_seed()
                            )
                        )
                    )
            inside[:] = [0.0, 0.0, 0.0]
            start = perf_counter()
            bot.choose_all(games, Limits())
            total = perf_counter() - start
            if seed:
                shares.append(inside[0] / total)
                costs.append(1e6 * (total - inside[0]) / inside[1])
                fills.append(inside[1] / inside[2] / boards)
        share, cost, fill = (statistics.median(values) for values in (shares, costs, fills))
        words = f"{100 * share:.0f} % of the time is in the net, batches are {100 * fill:.0f} % full"
        row(f"{name}: a leaf outside the net", f"{cost:.1f} us", words)
