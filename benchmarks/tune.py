"""Settings of a bot, tuned over the board: ``python -m benchmarks tune BOT SETTING=LOW:HIGH ...``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from arena import ConfigError
from arena.cli.options import registry_of
from arena.go.game import Rules
from arena.match.openings import shipped_book
from arena.match.runner import play_event
from arena.match.schedule import Match, Terms
from arena.results.store import Store
from benchmarks.speed import describe_machine, positive, print_row

EXPLANATION = """Tune settings of a bot by SPSA (Spall 1998, "Implementation of the simultaneous perturbation algorithm
for stochastic optimization", section III): each iteration moves the settings towards the winner of a match between two
opposite changes. The result is a proposal: test it with the match that is printed at the end. Games are kept in
--results, so a run that is interrupted goes on."""

ALPHA, GAMMA = 0.602, 0.101  # how fast steps and perturbations shrink (Spall 1998, III.B)
STABILITY = 0.1  # Spall's stability constant A, which makes the first steps smaller, as a share of the iterations
PERTURBATION = 0.15  # of the first iteration, as a share of a setting's range
FIRST_STEP = 0.5  # the first step after a score of 62.5 %, as a share of the perturbation


def spsa(
    start: np.ndarray, iterations: int, score: Callable[[int, np.ndarray, np.ndarray], float], seed: int = 1
) -> Iterator[np.ndarray]:
    """The settings after each iteration, (settings,) in [0, 1] of their ranges. ``score`` plays iteration k between two
    of them and returns by how much the first won, from -1 to 1."""
    generator, now = np.random.default_rng(seed), start
    stability = STABILITY * iterations
    gain = FIRST_STEP * PERTURBATION * (2 * PERTURBATION / 0.25) * (stability + 1) ** ALPHA
    for k in range(iterations):
        signs = generator.choice([-1.0, 1.0], len(start))
        width = PERTURBATION / (k + 1) ** GAMMA
        won = score(k, np.clip(now + width * signs, 0, 1), np.clip(now - width * signs, 0, 1))
        now = np.clip(now + gain / (stability + k + 1) ** ALPHA * won / (2 * width) * signs, 0, 1)
        yield now


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks tune", description=EXPLANATION)
    parser.add_argument("bot", help="bot as on the command line of arena, such as alphago:visits=100")
    parser.add_argument("setting", nargs="+", help="settings with their ranges, such as c_puct=0.2:1.2")
    for name, default in {"iterations": 40, "games": 20, "size": 9, "workers": 1, "seed": 1}.items():
        kind = int if name == "seed" else positive
        parser.add_argument(f"--{name}", type=kind, default=default, help=f"default {default}")
    parser.add_argument("--results", type=Path, default=Path("results/tune"), help="folder of the games")
    options = parser.parse_args(words)
    registry, rules = registry_of(None, options.results), Rules.preset(size=options.size)
    bot = registry.resolve(options.bot).checked(options.size)
    ranges = dict(_read_range(text) for text in options.setting)
    for name in ranges:
        if type(getattr(bot.config, name, None)) is not float:
            raise ConfigError(
                f"{name}: {bot.name} has no such setting with a fractional number; see: arena bots {bot.name}"
            )
    lows, highs = (np.array(ends) for ends in zip(*ranges.values(), strict=True))
    start = (np.array([getattr(bot.config, name) for name in ranges]) - lows) / (highs - lows)

    def spec(place: np.ndarray) -> str:
        values = zip(ranges, lows + place * (highs - lows), strict=True)
        return f"{options.bot}{',' if ':' in options.bot else ':'}{','.join(f'{n}={v:.4g}' for n, v in values)}"

    with Store.of(options.results, write=True) as store:

        def score(k: int, first: np.ndarray, second: np.ndarray) -> float:
            ours, theirs = (registry.resolve(spec(place)).checked(options.size) for place in (first, second))
            seed = 1000 * options.seed + k
            terms = Terms(rules, seed=seed, book=shipped_book(rules, seed))
            match = Match(ours, theirs, terms, options.games)
            standings = match.standings()
            for update in play_event(match, store, options.workers):
                standings.add(update.records)
            tally = standings.between(*match.players)
            points.append(f"{tally.points:g}-{tally.games - tally.points:g}")
            return 2 * tally.points / tally.games - 1

        points: list[str] = []
        print_row(("iteration", *ranges, "score"))
        print_row("---" for _ in range(len(ranges) + 2))
        for k, place in enumerate(spsa(np.clip(start, 0, 1), options.iterations, score, options.seed), 1):
            values = lows + place * (highs - lows)
            print_row((f"{k}", *(f"{value:.4g}" for value in values), points[-1]))
    print(f"\n{describe_machine()}\nTest it: arena match {spec(place)} {options.bot} --sprt 0 10")
    return 0


def _read_range(text: str) -> tuple[str, tuple[float, float]]:
    """``c_puct=0.2:1.2``. Raises ConfigError."""
    name, _, ends = text.partition("=")
    try:
        low, high = map(float, ends.split(":"))
        if not low < high:
            raise ValueError
    except ValueError:
        raise ConfigError(f"{text}: not a setting and its range, such as c_puct=0.2:1.2") from None
    return name, (low, high)
