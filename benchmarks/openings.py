"""Make a book of balanced openings: drawn from a net's policy, kept where a deep search finds both sides near even."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np

from arena import ConfigError
from arena.contract.bot import Bot, Decision, Limits
from arena.go.coords import SYMMETRIES
from arena.go.game import Game, Rules
from arena.go.record import UNKNOWN, GameRecord, MoveStats
from arena.go.sgf import move_notes, write_sgf
from arena.match.openings import position_of
from arena.players.player import Player
from arena.players.registry import Registry
from arena.results.analysis import patient

AT_ONCE = 32  # openings that are drawn and searched together

STAGES = ((32, 0.05), (8, 0.03), (1, 0.0))
"""The searches of an opening: the divisor of its visits, and by how much the bounds of the win rate are widened."""

PATIENCE = 50  # draws of ``AT_ONCE`` openings without a new one that is balanced before the making gives up


@dataclass(frozen=True, slots=True)
class Making:
    """Which openings: ``plies`` moves drawn from the policy of ``player`` at a ``temperature``, and kept if a search of
    ``visits`` gives each side at least ``least`` (in [0, 0.5]). The first openings of more are those of fewer."""

    player: Player
    rules: Rules
    plies: int = 6
    temperature: float = 1.0
    visits: int = 3000
    least: float = 0.4
    seed: int = 1

    def __post_init__(self) -> None:
        kind = self.player.bot_kind
        if not (kind.analyses and "policy" in kind.heads and "value" in kind.heads):
            raise ConfigError(f"{self.player.name} has no policy to draw from or no search; use alphago")


def make_book(making: Making, count: int) -> Iterator[GameRecord]:
    """``count`` openings, no two alike. Raises ConfigError when no more are found."""
    seen: set[bytes] = set()
    found = failures = drawn = 0
    with closing(patient(making.player).build()) as bot:
        while found < count:
            games: dict[bytes, Game] = {}
            for number in range(drawn + 1, drawn + AT_ONCE + 1):
                game = _draw(making, bot, number)
                if not game.is_over:
                    games.setdefault(position_of(game), game)
            drawn += AT_ONCE
            balanced = _balanced(making, bot, [game for position, game in games.items() if position not in seen])
            seen |= games.keys()
            failures = 0 if balanced else failures + 1
            if failures == PATIENCE:
                raise ConfigError(
                    f"{found} openings of {making.plies} plies found; of the last {PATIENCE * AT_ONCE} drawn, "
                    "none was new and balanced. Use more --plies, a higher --temperature or a lower --least."
                )
            for game, decision in balanced[: count - found]:
                rate = decision.win_rate
                last = MoveStats(None if rate is None else 1 - rate, None, decision.visits)  # for whoever made the move
                stats = (*[UNKNOWN] * (len(game.moves) - 1), last)
                yield GameRecord.from_game(
                    game, event="openings", id=f"openings/{game.seed:06d}", opening=len(game.moves), facts=stats
                )
            found += len(balanced)


def _draw(making: Making, bot: Bot, number: int) -> Game:
    """An opening of its own for each number, which is the game's seed."""
    random = Random(f"opening {number} by {making.seed}")
    game = Game(making.rules, number)
    while len(game.moves) < making.plies and not game.is_over:
        [shown] = bot.raw_nn([game], random.randrange(SYMMETRIES))
        weights = shown.policy[:-1].astype(np.float64) ** (1 / making.temperature)  # no pass
        game.play(random.choices(range(len(weights)), weights.tolist())[0])
    return game


def _balanced(making: Making, bot: Bot, games: Sequence[Game]) -> list[tuple[Game, Decision]]:
    """The openings that all searches, each longer than the one before, find even, and what the last says."""
    found = [(game, Decision(None)) for game in games]
    for part, wider in STAGES:
        games = [game for game, _ in found]
        limits = Limits(simulations=max(2, making.visits // part))
        decisions = bot.choose_all(games, limits) if games else []
        low = making.least - wider
        pairs = zip(games, decisions, strict=True)
        found = [(game, it) for game, it in pairs if it.win_rate is not None and low <= it.win_rate <= 1 - low]
    return found


def main(words: list[str]) -> int:
    """The command line. Raises UserError."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks openings", description=__doc__)
    parser.add_argument("bot", help="bot whose policy and search are used, such as alphago")
    parser.add_argument("--out", type=Path, required=True, help="file to write, such as book.sgfs: one opening a line")
    parser.add_argument("-n", "--count", type=int, default=100, help="number of openings (default 100)")
    parser.add_argument("--plies", type=int, default=6, help="moves of an opening (default 6)")
    parser.add_argument("--temperature", type=float, default=1.0, help="softmax temperature of the policy (default 1)")
    parser.add_argument("--visits", type=int, default=3000, help="visits of the search that judges (default 3000)")
    parser.add_argument("--least", type=float, default=0.4, help="minimum win rate of each side (default 0.4)")
    parser.add_argument("--size", type=int, default=9, help="board size (default 9)")
    parser.add_argument("--seed", type=int, default=1, help="random seed (default 1)")
    given = parser.parse_args(words)
    player = Registry().resolve(given.bot).checked(given.size)
    rules = Rules.preset("cgos", given.size)
    making = Making(player, rules, given.plies, given.temperature, given.visits, given.least, given.seed)
    with given.out.open("w", encoding="utf-8") as file:
        for record in make_book(making, given.count):
            file.write(f"{write_sgf(record, move_notes(record))}\n")
            file.flush()
    print(f"{given.out}: {given.count:,} openings of {given.plies} moves.")
    return 0
