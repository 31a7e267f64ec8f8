"""Tactical positions with known answers, read from text diagrams. Nobody is asked for a move here.

A file holds one category. Lines that begin with ``#`` are for the reader. A position is a block of lines between blank
ones: ``field: value`` lines, then the diagram, where ``X`` is Black, ``O`` White, ``*`` a right move and ``!`` a wrong
one that looks right; ``right`` and ``wrong`` name those that can't be marked, such as a pass. Every other move is wrong
too: the right ones are all that win.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from arena import IllegalMove, UserError
from arena.go.coords import BLACK, WHITE, Colour, Move, gtp_from_move, move_from_gtp
from arena.go.game import Game, Rules

FOLDER = Path(__file__).parent
NEEDED = ("name", "play", "why", "checked")
FIELDS = (*NEEDED, "right", "wrong", "after", "reading", "level", "komi")
SIGNS = {".": None, "*": None, "!": None, "X": BLACK, "O": WHITE}


class PositionError(UserError):
    """A file of positions that can't be read, or a position that can't be."""


@dataclass(frozen=True, slots=True)
class Position:
    """One problem. ``after`` was played from the diagram before ``to_play`` is asked.

    ``reading`` is a command of GNU Go's whose answer is a right move; ``checked`` says who confirmed the answer.
    """

    category: str
    name: str
    why: str
    checked: str
    rules: Rules
    stones: tuple[tuple[Move, ...], tuple[Move, ...]]  # Black's, White's
    to_play: Colour
    after: tuple[Move, ...]
    right: frozenset[Move]
    tempting: frozenset[Move]
    reading: str
    is_easy: bool

    def game(self, seed: int = 0) -> Game:
        """The game in which the question is asked. Raises PositionError when the position can't be."""
        first = self.to_play if len(self.after) % 2 == 0 else self.to_play.opponent
        try:
            game = Game(self.rules, seed, *self.stones, to_play=first)
            for move in self.after:
                game.play(move)
        except (ValueError, IllegalMove) as error:
            raise PositionError(f"{self.category}, '{self.name}': {error}") from error
        return game

    @property
    def answer(self) -> str:
        """The right moves as GTP names them."""
        return " ".join(gtp_from_move(move, self.rules.size) for move in sorted(self.right))


def read_positions(path: Path) -> list[Position]:
    """The positions of one file. Raises PositionError, which names the file, the line and what is wrong there."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PositionError(f"{path}: can't be read ({error})") from error
    found = [_position(path.stem, f"{path.name}, line {first}", lines) for first, lines in _blocks(text)]
    names = [position.name for position in found]
    for name in names:
        if names.count(name) > 1:
            raise PositionError(f"{path.name}: two positions are called '{name}'; give one another name")
    if not found:
        raise PositionError(f"{path.name}: there is no position in it")
    return found


def all_positions(folder: Path = FOLDER) -> list[Position]:
    """Every position of a folder's text files, category by category. Raises PositionError."""
    paths = sorted(folder.glob("*.txt"))
    if not paths:
        raise PositionError(f"{folder}: there are no positions (*.txt) in it")
    return [position for path in paths for position in read_positions(path)]


def _blocks(text: str) -> Iterator[tuple[int, list[str]]]:
    """Runs of lines without a blank one, each with the number of its first line; comments left out."""
    first, block = 0, list[str]()
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.strip() and not line.startswith("#"):
            first = first if block else number
            block.append(line.strip())
        elif block and not line.startswith("#"):
            yield first, block
            block = []


def _position(category: str, where: str, lines: list[str]) -> Position:
    fields = dict[str, str]()
    while lines and ":" in lines[0]:
        key, _, value = (part.strip() for part in lines[0].partition(":"))
        if key not in FIELDS:
            raise PositionError(f"{where}: unknown field '{key}'; there are {', '.join(FIELDS)}")
        if key in fields or not value:
            raise PositionError(f"{where}: {key} is {'given twice' if key in fields else 'empty'}")
        fields[key] = value
        lines = lines[1:]
    for key in NEEDED:
        if key not in fields:
            raise PositionError(f"{where}: the position has no '{key}: ...'")
    points = _points(where, lines)
    size = len(lines)
    for key, allowed in {"play": ("black", "white"), "level": ("easy", "hard")}.items():
        if key in fields and fields[key] not in allowed:
            raise PositionError(f"{where}: {key} is {' or '.join(allowed)}, not '{fields[key]}'")
    marked = {sign: {move for move, found in enumerate(points) if found == sign} for sign in SIGNS}
    try:
        after, right, wrong = (
            tuple(move_from_gtp(word, size) for word in fields.get(key, "").split())
            for key in ("after", "right", "wrong")
        )
        rules = Rules.preset("cgos", size, float(fields["komi"]) if "komi" in fields else None)
    except (ValueError, UserError) as error:
        raise PositionError(f"{where}: {error}") from error
    if not marked["*"] and not right:
        raise PositionError(f"{where}: there is no right move; mark it with * or add 'right: pass'")
    position = Position(
        category=category,
        name=fields["name"],
        why=fields["why"],
        checked=fields["checked"],
        rules=rules,
        stones=(tuple(sorted(marked["X"])), tuple(sorted(marked["O"]))),
        to_play=BLACK if fields["play"] == "black" else WHITE,
        after=after,
        right=frozenset({*marked["*"], *right}),
        tempting=frozenset({*marked["!"], *wrong}),
        reading=fields.get("reading", ""),
        is_easy=fields.get("level") == "easy",
    )
    legal = position.game().legal_moves()
    for move in sorted(position.right | position.tempting):
        if not legal[move]:
            raise PositionError(f"{where}: {gtp_from_move(move, size)} can't be played")
    return position


def _points(where: str, rows: list[str]) -> list[str]:
    """The signs of a diagram, point by point from the top left."""
    points = list[str]()
    for number, row in enumerate(rows, 1):
        signs = row.split()
        if len(signs) != len(rows):
            raise PositionError(f"{where}: row {number} of the diagram has {len(signs)} points, not {len(rows)}")
        for sign in signs:
            if sign not in SIGNS:
                raise PositionError(f"{where}: '{sign}' in row {number} of the diagram is none of {' '.join(SIGNS)}")
        points += signs
    if not rows:
        raise PositionError(f"{where}: the position has no diagram")
    return points
