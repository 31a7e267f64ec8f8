"""Make a book of balanced openings: drawn from a net's policy, kept where a deep search finds both sides near even."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from random import Random

import numpy as np

from arena import ConfigError
from arena.contract.bot import Bot, Decision, Limits
from arena.files import reason
from arena.go.coords import SYMMETRIES
from arena.go.game import Game, Rules
from arena.go.record import UNKNOWN, GameRecord, MoveStats
from arena.go.sgf import move_notes, write_sgf
from arena.match.openings import position_key
from arena.players.player import Player
from arena.players.registry import Registry
from arena.results.analysis import with_all_visits
from benchmarks.speed import positive

AT_ONCE = 32  # openings that are drawn and searched together
LOWEST = 0.4  # win rate of each side by the last search
MAX_FAILED_DRAWS = 50  # draws of ``AT_ONCE`` openings without a new balanced one before ``make_book`` gives up

STAGES = ((32, 0.05), (8, 0.03), (1, 0.0))
"""The searches of an opening: the divisor of its visits, and by how much the bounds of the win rate are widened."""


def make_book(player: Player, rules: Rules, count: int, plies: int, visits: int, seed: int) -> Iterator[GameRecord]:
    """``count`` openings of ``plies`` moves, no two alike, drawn from the policy of ``player`` and kept if its search
    of ``visits`` finds them balanced. Raises ConfigError when no more are found."""
    seen: set[bytes] = set()
    found = failures = drawn = 0
    with closing(with_all_visits(player).build()) as bot:
        while found < count:
            games: dict[bytes, Game] = {}
            for number in range(drawn + 1, drawn + AT_ONCE + 1):
                game = _draw(bot, rules, plies, seed, number)
                if not game.is_over:
                    games.setdefault(position_key(game), game)
            drawn += AT_ONCE
            balanced = _balanced(bot, [game for position, game in games.items() if position not in seen], visits)
            seen |= games.keys()
            failures = 0 if balanced else failures + 1
            if failures == MAX_FAILED_DRAWS:
                raise ConfigError(f"only {found} balanced openings of {plies} moves were found; use more --plies")
            for game, decision in balanced[: count - found]:
                rate = decision.win_rate
                last = MoveStats(None if rate is None else 1 - rate, None, decision.visits)  # for whoever made the move
                stats = (*[UNKNOWN] * (len(game.moves) - 1), last)
                yield GameRecord.from_game(
                    game, event="openings", id=f"openings/{game.seed:06d}", opening=len(game.moves), facts=stats
                )
            found += len(balanced)


def _draw(bot: Bot, rules: Rules, plies: int, seed: int, number: int) -> Game:
    """A game after an opening that depends on ``seed`` and ``number``, which is the game's own seed."""
    random = Random(f"opening {number} by {seed}")
    game = Game(rules, number)
    while len(game.moves) < plies and not game.is_over:
        [shown] = bot.raw_nn([game], random.randrange(SYMMETRIES))
        weights = shown.policy[:-1].astype(np.float64)  # no pass
        game.play(random.choices(range(len(weights)), weights.tolist())[0])
    return game


def _balanced(bot: Bot, games: Sequence[Game], visits: int) -> list[tuple[Game, Decision]]:
    """The openings that all searches, each longer than the one before, find even, with the last decision."""
    found = [(game, Decision(None)) for game in games]
    for part, wider in STAGES:
        games = [game for game, _ in found]
        decisions = bot.choose_all(games, Limits(simulations=max(2, visits // part))) if games else []
        low = LOWEST - wider
        pairs = zip(games, decisions, strict=True)
        found = [(game, it) for game, it in pairs if it.win_rate is not None and low <= it.win_rate <= 1 - low]
    return found


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks openings", description=__doc__)
    parser.add_argument("bot", help="bot whose policy and search are used, such as alphago")
    parser.add_argument("--out", type=Path, required=True, help="file to write, such as book.sgfs: one opening a line")
    for name, default in {"count": 100, "plies": 6, "visits": 3000, "size": 9, "seed": 1}.items():
        kind = int if name == "seed" else positive
        parser.add_argument(f"--{name}", type=kind, default=default, help=f"default {default}")
    given = parser.parse_args(words)
    player, rules = Registry().resolve(given.bot).checked(given.size), Rules.preset("cgos", given.size)
    kind = player.bot_kind
    if not (kind.analyses and "policy" in kind.heads and "value" in kind.heads):
        raise ConfigError(f"{player.name} has no policy to draw from or no search; use alphago")
    try:
        with given.out.open("w", encoding="utf-8") as file:
            for record in make_book(player, rules, given.count, given.plies, given.visits, given.seed):
                file.write(f"{write_sgf(record, move_notes(record))}\n")
                file.flush()
    except OSError as error:
        raise ConfigError(f"{given.out} can't be written ({reason(error)}); name another file") from error
    print(f"{given.out}: {given.count:,} openings of {given.plies} moves.")
    return 0
