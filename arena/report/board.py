"""A position drawn with characters: a grid with stones as discs in colours, or signs in plain text."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby

import numpy as np
from rich.text import Text

from arena.go.coords import BLACK, GTP_COLUMNS, WHITE, Colour, Move, star_points

RGB = tuple[int, int, int]

WOOD: RGB = (0x98, 0x6D, 0x3A)
"""Lies between the stones in luminance, 4.5:1 from both (WCAG 2.1)."""

GRID = "#583c1a"
MARK = "#ff5533"
CURSOR: RGB = (0x34, 0x79, 0xBB)
STONES: dict[int, tuple[RGB, RGB]] = {
    BLACK: ((0x0C, 0x0C, 0x0C), (0x50, 0x50, 0x50)),
    WHITE: ((0xFA, 0xFA, 0xFA), (0xCC, 0xCC, 0xCC)),
}
"""The colours of a stone, inside and at its edge."""

OWNED = 50
"""Per cent of ownership from which an empty point is marked as somebody's."""

SIGNS = {0: "·", 1: "●", 2: "○"}
STAR = "+"
AREAS = {1: "▪", 2: "▫"}
SMALL = {1: "•", 2: "◦"}
"""Stones that aren't there yet, or soon won't be."""

EDGE = 3
"""Columns to the left of the board."""

LARGEST = 6
"""Lines of a point, at most."""


@dataclass(frozen=True, slots=True)
class Overlay:
    """What is drawn over a position. All of it reads without colours.

    The ``cursor`` stands in square brackets; ``ghost`` is a stone of this colour on it that isn't placed yet, where the
    point is empty. Stones in ``taken`` are small: dead ones, or those that the ghost would capture. ``letters`` are of
    one sign each, for empty points; the first of them stands out.
    """

    cursor: Move | None = None
    ghost: Colour | None = None
    taken: Set[Move] = frozenset()
    letters: Mapping[Move, str] = field(default_factory=dict)


NOTHING = Overlay()


def board_width(size: int, cell: int = 1) -> int:
    """Columns of a drawn board whose points are ``cell`` lines high, and twice as many columns wide."""
    return EDGE + 2 * cell * size + 1


def board_height(size: int, cell: int = 1) -> int:
    """Lines of a drawn board."""
    return 1 + cell * (size - 1) + 1 + 2 * (cell // 2)


def largest_cell(size: int, width: int, height: int) -> int:
    """Lines of a point in the largest board that fits; 0 where none does."""
    cells = range(LARGEST, 0, -1)
    return next((cell for cell in cells if board_width(size, cell) <= width and board_height(size, cell) <= height), 0)


def point_at(size: int, row: int, column: int, cell: int = 1) -> Move | None:
    """The point that is drawn nearest to this line and column of a board, counted from 0; None beside the board."""
    across = (column - EDGE) // (2 * cell)
    down = (row - 1 - cell // 2 + (cell - 1) // 2) // cell
    return down * size + across if 0 <= down < size and 0 <= across < size else None


def draw_board(
    stones: np.ndarray,
    last: Move | None = None,
    *,
    ownership: bytes | None = None,
    overlay: Overlay = NOTHING,
    cell: int = 1,
    colours: bool = True,
) -> list[Text]:
    """The lines of a position, (size, size) with 0 empty, 1 black, 2 white; the ``last`` move is marked.

    ``ownership``, where it is known, is size² int8, in per cent and positive for Black: an empty point that is more
    likely somebody's than not has a small mark of that colour, and a stone whose point is more likely the opponent's
    is small. Without ``colours``, signs tell everything, and points are one line high.
    """
    size = len(stones)
    shares = np.zeros(size * size, np.int8) if ownership is None else np.frombuffer(ownership, np.int8)
    if not colours:
        return _draw_signs(stones, last, shares, overlay)
    return _Canvas(size, cell).draw(stones, last, shares, overlay)


def legend(colours: bool = True) -> Text:
    """What the marks of ownership mean."""
    if not colours:
        return Text(f"{AREAS[1]} Black's  {AREAS[2]} White's", "dim", no_wrap=True)
    words = Text(no_wrap=True).append("▪", f"{_hex(STONES[BLACK][0])} on {_hex(WOOD)}").append(" Black's  ", "dim")
    return words.append("▪", f"{_hex(STONES[WHITE][0])} on {_hex(WOOD)}").append(" White's", "dim")


def _drawn_stone(move: Move, stone: int, share: int, overlay: Overlay) -> tuple[int, bool]:
    """The colour of the stone or ghost that is drawn at a point, 0 where there is none, and whether it is small."""
    if stone:
        return stone, move in overlay.taken or (share < -OWNED if stone == BLACK else share > OWNED)
    return (int(overlay.ghost or 0), True) if move == overlay.cursor else (0, False)


# --- Signs ---


def _draw_signs(stones: np.ndarray, last: Move | None, shares: np.ndarray, overlay: Overlay) -> list[Text]:
    size = len(stones)
    stars = set(star_points(size))
    lines = [Text(" " * EDGE + " " + " ".join(GTP_COLUMNS[:size]) + " ")]
    for row in range(size):
        signs = [" "] * (2 * size + 1)
        for column in range(size):
            move = row * size + column
            signs[2 * column + 1] = _sign(move, int(stones[row, column]), int(shares[move]), stars, overlay)
        touch = overlay.cursor is not None and last is not None and abs(last - overlay.cursor) == 1
        for marked, (left_sign, right_sign) in ((None if touch else last, ("(", ")")), (overlay.cursor, ("[", "]"))):
            if marked is not None and marked // size == row:
                left = 2 * (marked % size)
                signs[left], signs[left + 2] = left_sign, right_sign
        lines.append(Text(f"{size - row:2d} {''.join(signs)}"))
    return lines


def _sign(move: Move, stone: int, share: int, stars: set[Move], overlay: Overlay) -> str:
    colour, is_small = _drawn_stone(move, stone, share, overlay)
    if colour:
        return (SMALL if is_small else SIGNS)[colour]
    if move in overlay.letters:
        return overlay.letters[move]
    if abs(share) > OWNED:
        return AREAS[1 if share > 0 else 2]
    return STAR if move in stars else SIGNS[0]


# --- Colours ---


def _hex(colour: RGB) -> str:
    return f"#{colour[0]:02x}{colour[1]:02x}{colour[2]:02x}"


def _blend(one: RGB, other: RGB, share: float) -> RGB:
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(one, other, strict=True))
    return red, green, blue


@lru_cache(maxsize=16)
def _disc(cell: int, is_small: bool) -> tuple[np.ndarray, np.ndarray]:
    """How much of each pixel around a point lies inside a stone, and at its edge: both (2 cell, 2 cell - 1). A pixel is
    half a line high and a column wide. Discs leave a column free between neighbours."""
    radius = (cell - 0.5 - 0.5 / cell**2) * (0.6 if is_small else 1.0)
    fine = (np.arange(8) + 0.5) / 8
    down = (np.arange(2 * cell)[:, None] + fine).ravel() - cell
    across = (np.arange(2 * cell - 1)[:, None] + fine).ravel() - cell + 0.5
    distance = np.hypot(down[:, None], across)
    rim = radius - min(0.8, 0.16 * cell)
    inside, edge = distance < rim, (distance < radius) & (distance >= rim)
    inner, outer = (part.reshape(2 * cell, 8, 2 * cell - 1, 8).mean((1, 3)) for part in (inside, edge))
    return inner, outer


class _Canvas:
    """The board as pixels, two in each cell of the terminal, and signs that stand in cells without any."""

    def __init__(self, size: int, cell: int):
        self._size, self._cell = size, cell
        self._rows, self._columns = board_height(size, cell) - 1, board_width(size, cell) - EDGE
        self._pixels = np.empty((2 * self._rows, self._columns, 3))
        self._pixels[:] = WOOD
        self._is_stone = np.zeros((2 * self._rows, self._columns), bool)
        self._signs = [list(self._grid_row(row - cell // 2)) for row in range(self._rows)]
        self._inks = [[GRID] * self._columns for _ in range(self._rows)]

    def _grid_row(self, row: int) -> str:
        """The lines of the grid in a row, counted from its first line."""
        edge, gap, last = " " * self._cell, 2 * self._cell - 1, self._cell * (self._size - 1)
        if not 0 <= row <= last:
            return " " * self._columns
        left, middle, right = "┌┬┐" if row == 0 else "└┴┘" if row == last else "├┼┤"
        line = left + middle.join(["─" * gap] * (self._size - 1)) + right
        if row % self._cell:
            line = "│" + "│".join([" " * gap] * (self._size - 1)) + "│"
        return edge + line + edge

    def _centre(self, move: Move) -> tuple[int, int]:
        row, column = divmod(move, self._size)
        return self._cell * row + self._cell // 2, 2 * self._cell * column + self._cell

    def draw(self, stones: np.ndarray, last: Move | None, shares: np.ndarray, overlay: Overlay) -> list[Text]:
        flat = stones.reshape(-1).tolist()
        for star in star_points(self._size):
            self._put(star, "╋", GRID)
        for move, stone in enumerate(flat):
            share = int(shares[move])
            colour, is_small = _drawn_stone(move, stone, share, overlay)
            if move == overlay.cursor or (move == next(iter(overlay.letters), None) and not colour):
                self._paint(move, CURSOR)
            if colour:
                self._stone(move, colour, is_small)
            elif move in overlay.letters:
                self._put(move, overlay.letters[move], "bold #ffffff")
            elif abs(share) > OWNED:
                ink = _blend(WOOD, STONES[BLACK if share > 0 else WHITE][0], 0.4 + 0.35 * abs(share) / 100)
                self._put(move, AREAS[1], _hex(ink))
            if self._cell == 1 and stone and (move + 1) % self._size and flat[move + 1]:
                row, column = self._centre(move)
                self._signs[row][column + 1] = " "  # two stones side by side can be counted
        if last is not None and last < len(flat):
            self._mark_last(last, flat[last])
        if overlay.cursor is not None:
            self._bracket(overlay.cursor, "[]", "bold #ffffff")
        return self._lines()

    def _put(self, move: Move, sign: str, ink: str) -> None:
        row, column = self._centre(move)
        self._signs[row][column], self._inks[row][column] = sign, ink

    def _paint(self, move: Move, colour: RGB) -> None:
        """Colour the wood around a point."""
        (row, column), cell = self._centre(move), self._cell
        around = (cell - 1) // 2
        self._pixels[2 * (row - around) : 2 * (row + around + 1), column - cell + 1 : column + cell] = colour

    def _stone(self, move: Move, colour: int, is_small: bool) -> None:
        if self._cell == 1:
            self._put(move, SMALL[1] if is_small else SIGNS[1], f"bold {_hex(STONES[colour][0])}")
            return
        (row, column), cell = self._centre(move), self._cell
        here = slice(2 * row + 1 - cell, 2 * row + 1 + cell), slice(column - cell + 1, column + cell)
        inner, outer = (part[:, :, None] for part in _disc(cell, is_small))
        inside, edge = (np.array(part, float) for part in STONES[colour])
        self._pixels[here] = self._pixels[here] * (1 - inner - outer) + inside * inner + edge * outer
        self._is_stone[here] |= (inner + outer)[:, :, 0] > 0.08

    def _mark_last(self, move: Move, stone: int) -> None:
        if self._cell == 1:
            self._bracket(move, "()", f"bold {_hex(STONES[WHITE][0])}")
            return
        row, column = self._centre(move)
        self._put(move, "●", f"bold {MARK}")
        self._is_stone[2 * row : 2 * row + 2, column] = False
        self._pixels[2 * row : 2 * row + 2, column] = STONES[stone][0] if stone else WOOD

    def _bracket(self, move: Move, brackets: str, ink: str) -> None:
        row, column = self._centre(move)
        for at, sign in zip((column - self._cell, column + self._cell), brackets, strict=True):
            self._signs[row][at], self._inks[row][at] = sign, ink

    def _lines(self) -> list[Text]:
        size, cell = self._size, self._cell
        names = "".join(name.rjust(cell + 1).ljust(2 * cell) for name in GTP_COLUMNS[:size])
        lines = [Text(f"{' ' * EDGE}{names} ", "dim")]
        pixels, stones = np.rint(self._pixels).astype(int).tolist(), self._is_stone.tolist()
        for row in range(self._rows):
            point, rest = divmod(row - cell // 2, cell)
            line = Text().append(f"{size - point:2d} " if rest == 0 and 0 <= point < size else " " * EDGE, "dim")
            cells = []
            for column in range(self._columns):
                upper, lower = pixels[2 * row][column], pixels[2 * row + 1][column]
                sign, ink = self._signs[row][column], self._inks[row][column]
                if stones[2 * row][column] or stones[2 * row + 1][column]:
                    sign, ink = "▀", _hex(upper)
                cells.append((sign, f"{ink} on {_hex(lower)}"))
            for style, run in groupby(cells, key=lambda cell: cell[1]):
                line.append("".join(sign for sign, _ in run), style)
            lines.append(line)
        return lines
