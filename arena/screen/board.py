"""A position drawn for the terminal: stones, star points, coordinates, the last move, whose each point will be.

No game, no captions.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from rich.text import Text

from arena.go.moves import BLACK, GTP_COLUMNS, Colour, Move, star_points

# The wood lies between the stones in luminance, far from both, so that they are told apart without hues.
WOOD_COLOUR = (0xA5, 0x76, 0x3F)
DARKEST, LIGHTEST = (0x75, 0x54, 0x2D), (0xC0, 0x8A, 0x4A)
"""Wood that is all Black's or all White's: as far as stones of both colours can still be told from it."""

WOOD = "on #a5763f"
BLACK_STONE = "bold #000000"
WHITE_STONE = "bold #ffffff"
POINT = "#6b4a22"
MARK = "bold #ffffff"

BLACK_AREA = "#000000"
WHITE_AREA = "#ffffff"

OWNED = 50
"""Per cent from which an empty point bears the sign of who is to have it."""

SIGNS = {0: "·", 1: "●", 2: "○"}
ASCII_SIGNS = {0: ".", 1: "X", 2: "O"}
STAR = "+"
AREAS = {1: "▪", 2: "▫"}
ASCII_AREAS = {1: "x", 2: "o"}


def board_width(size: int) -> int:
    """Columns that a drawn board takes."""
    return 3 + 2 * size + 1


def board_height(size: int) -> int:
    """Lines that a drawn board takes."""
    return size + 1


def stone_sign(colour: Colour, ascii_only: bool = False) -> str:
    return (ASCII_SIGNS if ascii_only else SIGNS)[int(colour)]


def draw_board(
    stones: np.ndarray, last: Move | None = None, *, ascii_only: bool = False, ownership: bytes | None = None
) -> list[Text]:
    """The lines of a position, (size, size) with 0 empty, 1 black, 2 white; ``last`` stands in brackets.

    ``ownership``, where it is known, is size² int8, in per cent and positive for Black: the wood is darker where the
    point will be Black's and lighter where it will be White's, and an empty point that is more likely so than not
    bears a small full or hollow sign. Full signs are black and hollow ones white, so the board reads the same without
    colours.
    """
    size = len(stones)
    owned = np.zeros(size * size, np.int8) if ownership is None else np.frombuffer(ownership, np.int8)
    signs, areas = (ASCII_SIGNS, ASCII_AREAS) if ascii_only else (SIGNS, AREAS)
    stars = set(star_points(size))
    lines = [Text("    " + " ".join(GTP_COLUMNS[:size]) + " ", style="dim")]
    for row in range(size):
        line = Text().append(f"{size - row:2d} ", "dim")
        for column in range(size):
            move = row * size + column
            stone, share = int(stones[row, column]), int(owned[move])
            wood = _wood(share)
            before = "(" if move == last else ")" if column and move - 1 == last else " "
            line.append(before, f"{MARK} {wood}" if before != " " else wood)
            if stone:
                line.append(signs[stone], f"{BLACK_STONE if stone == BLACK else WHITE_STONE} {wood}")
            elif abs(share) > OWNED:
                line.append(areas[1 if share > 0 else 2], f"{BLACK_AREA if share > 0 else WHITE_AREA} {wood}")
            else:
                line.append(STAR if move in stars else signs[0], f"{POINT} {wood}")
        closing = ")" if row * size + size - 1 == last else " "
        line.append(closing, f"{MARK} {WOOD}" if closing == ")" else WOOD)
        lines.append(line)
    return lines


@lru_cache(maxsize=256)
def _wood(share: int) -> str:
    """The style of the wood under a point that is Black's by so many per cent; negative ones are White's."""
    end = DARKEST if share > 0 else LIGHTEST
    far = min(100, abs(share)) / 100
    colour = (round(wood + far * (other - wood)) for wood, other in zip(WOOD_COLOUR, end, strict=True))
    return "on #" + "".join(f"{part:02x}" for part in colour)
