"""A position drawn for the terminal: stones, star points, coordinates, the last move. No game, no captions."""

from __future__ import annotations

import numpy as np
from rich.text import Text

from arena.go.moves import BLACK, GTP_COLUMNS, Colour, Move, star_points

# The wood lies between the stones in luminance, far from both, so that they are told apart without hues.
WOOD = "on #a5763f"
BLACK_STONE = f"bold #000000 {WOOD}"
WHITE_STONE = f"bold #ffffff {WOOD}"
POINT = f"#6b4a22 {WOOD}"
MARK = f"bold #ffffff {WOOD}"

SIGNS = {0: "·", 1: "●", 2: "○"}
ASCII_SIGNS = {0: ".", 1: "X", 2: "O"}
STAR = "+"


def board_width(size: int) -> int:
    """Columns that a drawn board takes."""
    return 3 + 2 * size + 1


def board_height(size: int) -> int:
    """Lines that a drawn board takes."""
    return size + 1


def stone_sign(colour: Colour, ascii_only: bool = False) -> str:
    return (ASCII_SIGNS if ascii_only else SIGNS)[int(colour)]


def draw_board(stones: np.ndarray, last: Move | None = None, *, ascii_only: bool = False) -> list[Text]:
    """The lines of a position, (size, size) with 0 empty, 1 black, 2 white; ``last`` stands in brackets.

    Full signs are black stones and hollow ones white, so the board reads the same without colours.
    """
    size = len(stones)
    signs = ASCII_SIGNS if ascii_only else SIGNS
    stars = set(star_points(size))
    lines = [Text("    " + " ".join(GTP_COLUMNS[:size]) + " ", style="dim")]
    for row in range(size):
        line = Text().append(f"{size - row:2d} ", "dim")
        for column in range(size):
            move = row * size + column
            stone = int(stones[row, column])
            before = "(" if move == last else ")" if column and move - 1 == last else " "
            line.append(before, MARK if before != " " else WOOD)
            sign = STAR if not stone and move in stars else signs[stone]
            line.append(sign, POINT if not stone else BLACK_STONE if stone == BLACK else WHITE_STONE)
        closing = ")" if row * size + size - 1 == last else " "
        line.append(closing, MARK if closing == ")" else WOOD)
        lines.append(line)
    return lines
