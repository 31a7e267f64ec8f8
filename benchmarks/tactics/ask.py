"""How many of the positions a bot solves: ``python -m benchmarks tactics [BOT ...]``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from arena import BotFault, UserError
from arena.cli.options import registry_of
from arena.contract.bot import Bot, Limits
from arena.contract.code import find_program
from arena.go.coords import Move, gtp_from_move
from arena.players.player import Player
from arena.players.registry import Registry
from benchmarks.tactics.positions import FOLDER, Position, all_positions

BOTS = (
    "mcts:playouts=500",
    "mcts:playouts=2000",
    "mcts:playouts=8000",
    "sl",
    "alphago:visits=100",
    "alphago:visits=400",
)
GNUGO = "gtp:command=gnugo --mode gtp --level 10 --max-level 10 --chinese-rules --positional-superko --capture-all-dead"

EXPLANATION = """Ask bots for the move in positions with known answers, and count the right ones.

The positions are in benchmarks/tactics/*.txt, a category a file, each with a diagram, the right moves, a sentence, and
who confirmed the answer. A right move wins the game by the rules of CGOS, and every other one loses it.

A bot is named as in a match: mcts:playouts=4000, checkpoint:mine, alphago@seconds=1, gnugo (an engine of arena.toml).
One that can't play on 13x13 isn't asked there."""


def solved(bot: Bot, positions: Iterable[Position], limits: Limits, seed: int = 1) -> dict[Position, Move | None]:
    """What the bot plays in each position, None where it resigns; a game of its own each. Raises BotFault."""
    return {position: bot.choose(position.game(seed), limits).move for position in positions}


def playable(entry: Player, positions: Iterable[Position]) -> list[Position]:
    """Those on a board of a size that the player can play on."""

    def fits(position: Position) -> bool:
        try:
            entry.checked(position.rules.size)
        except UserError:
            return False
        return True

    return [position for position in positions if fits(position)]


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks tactics",
        description=EXPLANATION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("bot", nargs="*", help=f"bots to test (default: {', '.join(BOTS)}, and GNU Go if installed)")
    parser.add_argument("--only", metavar="CATEGORY", action="append", help="ask of these categories only")
    parser.add_argument("--missed", action="store_true", help="show each position that a bot gets wrong")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the positions are")
    parser.add_argument("--config", type=Path, help="file of bots (default: arena.toml in the current folder)")
    arguments = parser.parse_args(words)
    positions = _wanted(all_positions(arguments.folder), arguments.only)
    _table(
        arguments.bot or _default_bots(),
        positions,
        registry_of(arguments.config, Path("results")),
        arguments.missed,
    )
    return 0


def _wanted(positions: list[Position], categories: Sequence[str] | None) -> list[Position]:
    known = sorted({position.category for position in positions})
    for category in categories or ():
        if category not in known:
            raise UserError(f"there is no category '{category}'; there are {', '.join(known)}")
    return [position for position in positions if not categories or position.category in categories]


def _default_bots() -> list[str]:
    return [*BOTS, *([GNUGO] if find_program("gnugo") else [])]


def _table(specs: Sequence[str], positions: Sequence[Position], registry: Registry, missed: bool) -> None:
    """A row a bot: right answers in each category, and in all; Markdown."""
    categories = list(dict.fromkeys(position.category for position in positions))
    entries = [registry.resolve(spec) for spec in specs]  # a wrong name fails before anybody thinks
    print("| " + " | ".join(["bot", *categories, "all"]) + " |")
    print("|" + "---|" * (len(categories) + 2))
    for spec, entry in zip(specs, entries, strict=True):
        name = "GNU Go 3.8, level 10" if spec == GNUGO else spec
        try:
            bot = entry.build()
            moves = solved(bot, playable(entry, positions), entry.limits)
            bot.close()
        except BotFault as error:
            print(f"{name}: left out: {error}", flush=True)
            continue
        cells = []
        for category in categories:
            asked = [position for position in moves if position.category == category]
            cells.append(f"{sum(moves[position] in position.right for position in asked)}/{len(asked)}")
        right = sum(move in position.right for position, move in moves.items())
        cells.append(f"{right}/{len(moves)}, {100 * right / max(1, len(moves)):.0f} %")
        print("| " + " | ".join([name, *cells]) + " |", flush=True)
        for position, move in moves.items():
            if missed and move not in position.right:
                print(_explained(position, move), flush=True)


def _explained(position: Position, move: Move | None) -> str:
    played = "resigns" if move is None else f"plays {gtp_from_move(move, position.rules.size)}"
    colour = position.to_play.name.capitalize()
    return (
        f"\n{position.category}, {position.name}: {colour} {played}, right is {position.answer}. {position.why}\n"
        f"{position.game().board}\n"
    )
