"""Tactical positions with known answers, read from text diagrams, and how many of them a bot solves.

A file holds one category. Lines that begin with ``#`` are for the reader. A position is a block of lines between blank
ones: ``field: value`` lines, then the diagram, where ``X`` is Black, ``O`` White, ``*`` a right move and ``!`` a wrong
one that looks right; ``right`` and ``wrong`` name those that can't be marked, such as a pass. The right moves are all
that win.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Literal

import msgspec

from arena import IllegalMove, UserError
from arena.cli.options import registry_of
from arena.contract.bot import Bot, Limits
from arena.go.coords import BLACK, WHITE, Colour, Move, gtp_from_move, move_from_gtp
from arena.go.game import Game, Rules
from arena.players.registry import Player
from benchmarks.speed import print_row

FOLDER = Path(__file__).parent
BOTS = ("mcts:playouts=500", "mcts:playouts=8000", "sl", "alphago:visits=100", "alphago:visits=400")
EXPLANATION = """Count the right moves of bots in positions with known answers (benchmarks/tactics/*.txt). A bot is
named as in a match. Positions of a size that it can't play are left out."""


class PositionError(UserError):
    """A position that can't be read, or can't be."""


class TacticalPosition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A position as its file has it."""

    category: str
    rows: tuple[str, ...]  # the diagram
    name: str
    play: Literal["black", "white"]
    why: str
    checked: str  # who confirmed the answer
    further: str = msgspec.field(default="", name="right")
    wrong: str = ""
    played: str = msgspec.field(default="", name="after")  # moves from the diagram before the question
    reading: str = ""  # a command of GNU Go's whose answer is a right move
    level: Literal["easy", "hard"] = "hard"
    komi: float | None = None

    @property
    def rules(self) -> Rules:
        return Rules.preset("cgos", len(self.rows), self.komi)

    @property
    def to_play(self) -> Colour:
        return BLACK if self.play == "black" else WHITE

    @property
    def right(self) -> frozenset[Move]:
        return frozenset({*self._marked("*"), *self._moves(self.further)})

    def _marked(self, sign: str) -> list[Move]:
        return [move for move, found in enumerate("".join(self.rows)) if found == sign]

    def _moves(self, words: str) -> list[Move]:
        return [move_from_gtp(word, len(self.rows)) for word in words.split()]

    def game(self, seed: int = 0) -> Game:
        """The game in which the question is asked. Raises PositionError when the position can't be."""
        after = self._moves(self.played)
        first = self.to_play if len(after) % 2 == 0 else self.to_play.opponent
        try:
            game = Game(self.rules, seed, self._marked("X"), self._marked("O"), to_play=first)
            for move in after:
                game.play(move)
        except (ValueError, IllegalMove) as error:
            raise PositionError(f"{self.category}, '{self.name}': {error}") from error
        return game


def read_positions(path: Path) -> list[TacticalPosition]:
    """The positions of one file. Raises PositionError, which names the file, the line and what is wrong there."""
    text = re.sub(r"^#.*", "#", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = []
    for block in re.finditer(r"(?:^[^\n#].*\n?)+", text, re.MULTILINE):
        where = f"{path.name}, line {text[: block.start()].count(chr(10)) + 1}"
        try:
            found.append(_position(path.stem, [line.strip() for line in block[0].splitlines()]))
        except (ValueError, UserError, msgspec.ValidationError) as error:
            raise PositionError(f"{where}: {error}") from error
    if not found:
        raise PositionError(f"{path.name}: there is no position in it")
    return found


def all_positions(folder: Path = FOLDER) -> list[TacticalPosition]:
    """Every position of a folder's text files, category by category. Raises PositionError."""
    return [position for path in sorted(folder.glob("*.txt")) for position in read_positions(path)]


def _position(category: str, lines: Sequence[str]) -> TacticalPosition:
    """Raises ValueError, UserError or msgspec's ValidationError for what can't be read."""
    fields = {key: value.strip() for key, _, value in (line.partition(":") for line in lines if ":" in line)}
    rows = ["".join(line.split()) for line in lines if ":" not in line]
    if any(len(row) != len(rows) or not set(row) <= set(".*!XO") for row in rows):
        raise ValueError("the diagram isn't a square of . * ! X O")
    position = msgspec.convert({**fields, "category": category, "rows": rows}, TacticalPosition, strict=False)
    if not position.right:
        raise ValueError("there is no right move; mark it with * or add 'right: pass'")
    legal = position.game().legal_moves()
    if wrong := [gtp_from_move(move, len(rows)) for move in sorted(position.right) if not legal[move]]:
        raise ValueError(f"{wrong[0]} can't be played")
    return position


def choose_moves(
    bot: Bot, positions: Iterable[TacticalPosition], limits: Limits, seed: int = 1
) -> dict[TacticalPosition, Move | None]:
    """The move that the bot chooses in each position, None where it resigns. Raises BotFault."""
    return {position: bot.choose(position.game(seed), limits).move for position in positions}


def find_playable(player: Player, positions: Iterable[TacticalPosition]) -> list[TacticalPosition]:
    """Those on a board of a size that the player can play on."""
    found = []
    for position in positions:
        with suppress(UserError):
            player.checked(position.rules.size)
            found.append(position)
    return found


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks tactics", description=EXPLANATION)
    parser.add_argument("bot", nargs="*", default=BOTS, help=f"bots to test (default: {', '.join(BOTS)})")
    parser.add_argument("--only", metavar="CATEGORY", action="append", help="positions of these categories only")
    parser.add_argument("--missed", action="store_true", help="show each position that a bot gets wrong")
    given = parser.parse_args(words)
    positions = all_positions()
    known = list(dict.fromkeys(position.category for position in positions))
    categories = given.only or known
    if unknown := [category for category in categories if category not in known]:
        raise UserError(f"there is no category '{unknown[0]}'; there are {', '.join(known)}")
    positions = [position for position in positions if position.category in categories]
    registry = registry_of(None, Path("results"))
    players = [registry.resolve(spec) for spec in given.bot]  # a wrong name fails before any bot thinks
    print_row(("bot", *categories, "all"))
    print_row(["---"] * (len(categories) + 2))
    for player in players:
        with closing(player.build()) as bot:
            moves = choose_moves(bot, find_playable(player, positions), player.limits)
        missed = [position for position, move in moves.items() if move not in position.right]
        asked, wrong = (Counter(position.category for position in some) for some in (moves, missed))
        right = len(moves) - len(missed)
        cells = [f"{asked[category] - wrong[category]}/{asked[category]}" for category in categories]
        print_row((player.name, *cells, f"{right}/{len(moves)}, {100 * right / max(1, len(moves)):.0f} %"))
        for position in missed if given.missed else ():
            size, move = position.rules.size, moves[position]
            played = "resigns" if move is None else f"plays {gtp_from_move(move, size)}"
            answer = " ".join(gtp_from_move(move, size) for move in sorted(position.right))
            sentence = f"{position.to_play.name.capitalize()} {played}, right is {answer}. {position.why}"
            print(f"\n{position.category}, {position.name}: {sentence}\n{position.game().board}\n", flush=True)
    return 0
