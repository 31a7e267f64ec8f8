"""Measure what the arena promises about speed and print ratios; ``python -m benchmarks --help``.

Everything is interleaved with what it is compared to, and medians are printed: on a busy machine single times mean
little. Nothing here passes or fails.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from arena.bot import Limits
from arena.go import kernels
from arena.go.game import Game, Rules

ROUNDS = 7


def interleaved(*measurements: Callable[[int], float]) -> list[list[float]]:
    """Rates of each measurement over ROUNDS rounds, taken in turn; every one is warmed up first."""
    for measure in measurements:
        measure(0)
    rounds = [[measure(1 + number) for measure in measurements] for number in range(ROUNDS)]
    return [list(rates) for rates in zip(*rounds, strict=True)]


def report(name: str, unit: str, ours: list[float], other: list[float] | None = None, than: str = "") -> None:
    line = f"{name:<34} {statistics.median(ours):>12,.0f} {unit}"
    if other is not None:
        ratio = statistics.median(a / b for a, b in zip(ours, other, strict=True))
        line += f"   {ratio:.2f} x {than} ({statistics.median(other):,.0f})"
    print(line, flush=True)


def timed(work: Callable[[], float]) -> float:
    """What ``work`` says it did, a second."""
    start = perf_counter()
    done = work()
    return done / (perf_counter() - start)


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
        bot = uct.Uct(uct.Config(reuse=False, stop_early=False, memory=256, **settings))

        def measure(seed: int) -> float:
            game = Game(Rules.preset(), seed=seed)
            return timed(lambda: (bot.choose(game, Limits(simulations=count)), count)[1])

        return measure

    plain = {"exploration": 0.7, "rave": 0.0, "priors": 0.0, "answering": False, "expand_after": 2}
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


def puct(boards: int = 32) -> None:
    """What a leaf costs outside the net, the share of its time that a net bot is in its net, and how full its batches
    are: positions asked in one call, of the boards that wait for a move."""
    from bots import alphago, policy

    for name, bot in (
        ("alphago, lambda 0", alphago.AlphaGo(alphago.Config(mixing=0.0, reuse=False))),
        ("alphago, default", alphago.AlphaGo(alphago.Config(reuse=False))),
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
        print(
            f"{name:<34} {cost:>12.1f} us a leaf outside the net; {100 * share:.0f} % of the time in the net; "
            f"batches {100 * fill:.0f} % full",
            flush=True,
        )


def matches() -> None:
    """Whole events with stored results: games a second, the start of the workers not counted."""
    from arena.registry import Registry
    from arena.runner import play_event
    from arena.schedule import Match
    from arena.store import Store

    registry = Registry()
    for first, second, count in (("fast-random", "fast-random", 2000), ("mcts:playouts=200", "random", 40)):
        with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "arena.db", write=True) as store:
            match = Match(registry.resolve(first), registry.resolve(second), Rules.preset(), count)
            begun = 0.0
            done = warm = 0
            for update in play_event(match, store, workers=2):
                done += len(update.records)
                if done and not begun:
                    begun, warm = perf_counter(), done
            rate = (done - warm) / (perf_counter() - begun)
            print(f"match {first} - {second}: {rate:.0f} games a second, stored durably, on two workers", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--study", type=Path, help="folder of another Numba engine (nb_clean_rec.py) to compare with")
    parser.add_argument("only", nargs="*", help="playouts, uct, puct, matches; all unless given")
    arguments = parser.parse_args()
    study = None
    if arguments.study is not None:
        sys.path.insert(0, str(arguments.study))
        study = importlib.import_module("nb_clean_rec")
    wanted = arguments.only or ["playouts", "uct", "puct", "matches"]
    if "playouts" in wanted:
        for size in (9, 13, 19):
            playouts(size, study)
            answering_playouts(size)
    if "uct" in wanted:
        uct_simulations(study)
    if "puct" in wanted:
        puct()
    if "matches" in wanted:
        matches()


if __name__ == "__main__":
    main()
