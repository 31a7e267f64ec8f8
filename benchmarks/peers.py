"""The engine and the searches beside those of other projects, where they are installed.

All of it runs on one thread and is timed in seconds of the processor, so that what else the machine does matters less.
"""

from __future__ import annotations

import importlib
import random
import re
import resource
import subprocess
from collections.abc import Callable
from time import process_time
from types import ModuleType
from typing import Any

import numpy as np

from arena.contract.bot import Limits
from arena.contract.code import find_program
from arena.go import kernels
from arena.go.game import Game, Rules
from benchmarks.measure import interleaved, report, skipped, timed
from bots import uct

PLAIN = {"c_uct": 0.7, "rave": 0.0, "priors": 0.0, "answering": False, "expand_after": 1}
"""UCT as textbooks have it: uniform playouts, a child for each of a leaf's moves at its first visit."""

GENMOVE = "boardsize 9\nclear_board\nkomi 7\nplay b C3\nplay w G6\nplay b B7\ngenmove w\nquit\n"
"""A move by search: some way from the empty board, where engines play from a book."""


def peers() -> None:
    """All of them, each skipped with a reason where it isn't installed."""
    _openspiel()
    _pettingzoo()
    _gnugo()
    _pachi()


def random_moves(size: int) -> Callable[[int], float]:
    """Random games to their end through Python, a move a call: any legal move, at most 2 size² of them; moves a
    second."""
    rules = Rules.preset("cgos", size, move_limit=2 * size * size)

    def measure(seed: int) -> float:
        game, draw = Game(rules), random.Random(seed)

        def work() -> float:
            while not game.is_over:
                game.play(int(draw.choice(game.legal_moves().nonzero()[0])))
            return len(game.moves)

        return timed(work, process_time)

    return measure


def simulations(count: int, **settings: Any) -> Callable[[int], float]:
    """One move of ``mcts``, or of what the settings make of it, on the board of GENMOVE; simulations a second."""
    bot = uct.Uct(uct.Config(reuse=False, stop_early=False, max_tree_mb=256, **settings))

    def measure(seed: int) -> float:
        game = Game(Rules.preset(), seed=seed)
        for move in (56, 33, 19):  # C3, G6, B7
            game.play(move)
        return timed(lambda: (bot.choose(game, Limits(simulations=count)), count)[1], process_time)

    return measure


def _imported(name: str, module: str, package: str) -> ModuleType | None:
    """The module, or None and a line that says why not."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        skipped(name, f"{error}; pip install {package}")
        return None


def _openspiel() -> None:
    spiel = _imported("OpenSpiel", "pyspiel", "open_spiel")
    if spiel is None:
        return
    for size in (9, 19):
        game = spiel.load_game(f"go(board_size={size},komi=7.5)")

        def theirs(seed: int, game: Any = game) -> float:
            state, draw = game.new_initial_state(), random.Random(seed)

            def work() -> float:
                played = 0
                while not state.is_terminal():
                    state.apply_action(draw.choice(state.legal_actions()))
                    played += 1
                return played

            return timed(work, process_time)

        rates = interleaved(random_moves(size), theirs)
        report(f"random legal moves from Python, a call each, {size}x{size}", "/s", *rates, "OpenSpiel's Go")

    count = 2000
    evaluator = spiel.RandomRolloutEvaluator(n_rollouts=1, seed=1)
    board = spiel.load_game("go(board_size=9,komi=7.5)")
    search = spiel.MCTSBot(board, evaluator, 0.7, count, 256, False, 1, False)

    def mcts(seed: int) -> float:
        state = board.new_initial_state()
        return timed(lambda: (search.mcts_search(state), count)[1], process_time)

    rates = interleaved(simulations(20 * count, **PLAIN), mcts, rounds=3)
    report("plain UCT simulations, one uniform playout each, 9x9", "/s", *rates, "OpenSpiel's MCTSBot")


def _pettingzoo() -> None:
    name = "random legal moves from Python, a call each, 9x9"
    classic = _imported("PettingZoo", "pettingzoo.classic.go_v5", "'pettingzoo[classic]'")
    if classic is None:
        return
    env = classic.env(board_size=9, komi=7.0)

    def theirs(seed: int) -> float:
        env.reset(seed=seed)
        draw = random.Random(seed)

        def work() -> float:
            for played in range(20):  # it takes milliseconds a move
                observation, _, over, cut, _ = env.last()
                if over or cut:
                    return played
                env.step(int(draw.choice(np.flatnonzero(observation["action_mask"]))))
            return 20

        return timed(work, process_time)

    report(name, "/s", *interleaved(random_moves(9), theirs), "PettingZoo's go_v5")


def _program(name: str, package: str) -> str | None:
    """Where an engine is installed, or None and a line that says so."""
    found = find_program(name)
    if found is None:
        skipped(name, f"no program '{name}' on PATH; {package}")
    return found


def _asked(command: list[str], seconds: float = 60.0) -> tuple[float, str]:
    """Processor seconds that a program took to answer GENMOVE, and all it said. Raises OSError, SubprocessError."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, input=GENMOVE, capture_output=True, text=True, timeout=seconds, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, done.stdout + done.stderr


def _gnugo() -> None:
    program = _program("gnugo", "apt install gnugo")
    if program is None:
        return
    boards = np.zeros(2, kernels.BOARD)
    kernels.new_board(boards, 0, 9)
    margins = np.zeros(20_000, np.int16)

    def ours(seed: int) -> float:
        from bots.search.playouts import run_answering_playouts

        return timed(
            lambda: (run_answering_playouts(boards, 1, 0, len(margins), seed, margins), len(margins))[1], process_time
        )

    def theirs(seed: int) -> float:
        command = [program, "--mode", "gtp", "--monte-carlo", "--level", "1", "--seed", str(seed + 1)]
        little, long = (_asked([*command, "--mc-games-per-level", str(count)])[0] for count in (500, 5500))
        return 5000 / (long - little)  # what both take is its start

    try:
        rates = interleaved(ours, theirs, rounds=5)
    except (OSError, subprocess.SubprocessError) as error:
        skipped("GNU Go", f"it failed: {error}")
        return
    report("playouts that answer, 9x9", "/s", *rates, "GNU Go's --monte-carlo, its search included")


def _pachi() -> None:
    program = _program("pachi", "build it from github.com/pasky/pachi (make DCNN=0 JOSEKIFIX=0 install)")
    if program is None:
        return

    def searched(count: int, seed: int) -> tuple[float, int]:
        seconds, said = _asked([program, "-t", f"={count}", "-s", str(seed + 1), "threads=1"])
        told = re.search(r"/(\d+) games\)", said)
        if told is None:
            raise subprocess.SubprocessError("it doesn't tell how many games it played; is this the Go engine?")
        return seconds, int(told[1])

    def theirs(seed: int) -> float:
        (little, few), (long, many) = searched(500, seed), searched(6000, seed)  # what both take is its start
        return (many - few) / (long - little)

    try:
        rates = interleaved(simulations(10_000), theirs, rounds=5)
    except (OSError, subprocess.SubprocessError) as error:
        skipped("Pachi", f"it failed: {error}")
        return
    report("mcts simulations, 9x9, one thread", "/s", *rates, "Pachi's, one thread")
