"""Whole events against the sum of their parts."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from arena.contract.bot import Limits
from arena.events.pairing import Pairing
from arena.events.room import Room
from arena.events.runner import play_event
from arena.events.schedule import Match
from arena.events.terms import Terms
from arena.go.game import Game, Rules
from arena.players.registry import Registry
from arena.results.store import Store
from benchmarks.measure import report, row, timed
from bots import alphago, fast_random

RULES = Rules.preset()


def matches() -> None:
    stored_games()
    net_share()


def bare_games(count: int, seed: int) -> float:
    """Games of ``fast-random`` a second with nothing but the bot and the game."""
    bot = fast_random.FastRandom(fast_random.Config())
    limits = Limits()

    def work() -> float:
        for number in range(count):
            game = Game(RULES, seed=1000 * seed + number)
            while not game.is_over:
                game.play(bot.choose(game, limits).move)
        return count

    return timed(work)


def stored_games(rounds: int = 3) -> None:
    """A match on one worker, the start of the worker not counted, beside its games alone."""
    registry = Registry()
    player = registry.resolve("fast-random")
    ours, bare = [], []
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as folder, Store.of(Path(folder), write=True) as store:
            match = Match(player, player, Terms(RULES, seed=1 + number), 1000)
            begun, done, warm = 0.0, 0, 0
            for update in play_event(match, store, workers=1):
                done += len(update.records)
                if done and not begun:
                    begun, warm = perf_counter(), done
            ours.append((done - warm) / (perf_counter() - begun))
        bare.append(bare_games(200, number))
    report("match fast-random fast-random, a worker, stored durably", "games/s", ours, bare, "the same without arena")


def net_share(boards: int = 16) -> None:
    """How much of a match between nets is spent in the net: ``alphago`` against itself on boards in lock step."""
    bot = alphago.AlphaGo(alphago.Config(visits=100))
    other = alphago.AlphaGo(alphago.Config(visits=100))
    inside = [0.0]
    for net in (bot._net, other._net):
        evaluate = net.evaluate

        def watched(planes: np.ndarray, evaluate: Any = evaluate) -> Any:
            start = perf_counter()
            answer = evaluate(planes)
            inside[0] += perf_counter() - start
            return answer

        net.evaluate = watched  # type: ignore[method-assign]
    limits = Limits()
    room = Room({"A": bot, "B": other}, RULES, {"A": limits, "B": limits})
    for number in range(boards):
        room.seat(Pairing(f"benchmark/{number}", number, *("AB" if number % 2 else "BA"), opening=(), seed=number))
    shares = []
    for turn in range(9):
        inside[0], start = 0.0, perf_counter()
        list(room.play_round())
        if turn:  # the first compiles
            shares.append(inside[0] / (perf_counter() - start))
    share = statistics.median(shares)
    row(f"match alphago alphago, {boards} boards", f"{100 * share:.0f} %", "of its time is in the net")
