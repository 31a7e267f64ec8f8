"""Search with a net: what a leaf costs outside the net."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from unittest.mock import patch

import numpy as np

from arena.contract.bot import Limits
from arena.go import kernels
from arena.go.game import Game, Rules
from benchmarks.measure import ROUNDS, row
from bots import alphago, policy
from bots.nets.inference import Evaluator


@contextmanager
def watched_nets() -> Iterator[list[float]]:
    """The seconds, positions and calls that all nets have had, as they are now."""
    inside = [0.0, 0.0, 0.0]
    evaluate = Evaluator.evaluate

    def watched(net: Evaluator, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        start = perf_counter()
        answer = evaluate(net, planes)
        inside[0] += perf_counter() - start
        inside[1] += len(planes)
        inside[2] += 1
        return answer

    with patch.object(Evaluator, "evaluate", watched):
        yield inside


def puct(share: float) -> None:
    """What a leaf costs outside the net, the share of its time that a net bot is in its net, and how full its batches
    are: positions asked in one call, of the boards that wait for a move."""
    boards, visits = max(1, int(share * 32)), max(2, int(share * 100))
    for name, bot in (
        ("alphago, lambda 0", alphago.AlphaGo(alphago.Config(visits=visits, rollout_weight=0))),
        (
            "alphago, rollouts at each leaf",
            alphago.AlphaGo(alphago.Config(visits=visits, rollouts_full=0)),
        ),
        ("sl", policy.Policy(policy.Config())),
    ):
        shares, costs, fills = [], [], []
        for seed in range(ROUNDS + 1):
            games = [_started(100 * seed + number) for number in range(boards)]
            with watched_nets() as inside:
                start = perf_counter()
                bot.choose_all(games, Limits())
                total = perf_counter() - start
            if seed:  # the first compiles
                shares.append(inside[0] / total)
                costs.append(1e6 * (total - inside[0]) / inside[1])
                fills.append(inside[1] / inside[2] / boards)
        spent, cost, fill = (statistics.median(values) for values in (shares, costs, fills))
        words = f"{100 * spent:.0f} % of the time is in the net, batches are {100 * fill:.0f} % full"
        row(f"{name}: a leaf outside the net", f"{cost:.1f} us", words)


def _started(seed: int) -> Game:
    """A game after 20 random moves."""
    game = Game(Rules.preset(), seed=seed)
    for _ in range(20):
        board, hashes, colour = game.board.array, game.hashes, int(game.to_play)
        game.play(int(kernels.random_move(board, 0, colour, hashes, len(hashes), True, game.move_seed())))
    return game
