"""A position drawn with characters: a grid with stones as discs in colours, or signs in plain text."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby

import numpy as np
from rich.color import blend_rgb
from rich.color_triplet import ColorTriplet
from rich.text import Text

from arena.go.coords import BLACK, GTP_COLUMNS, WHITE, Colour, Move, star_points

WOOD = ColorTriplet(0x98, 0x6D, 0x3A)  # lies between the stones in luminance, 4.5:1 from both (WCAG 2.1)
CURSOR = ColorTriplet(0x34, 0x79, 0xBB)
GRID, MARK, LETTER = "#583c1a", "bold #ff5533", "bold #ffffff"
STONES = {
    BLACK: (ColorTriplet(0x0C, 0x0C, 0x0C), ColorTriplet(0x50, 0x50, 0x50)),
    WHITE: (ColorTriplet(0xFA, 0xFA, 0xFA), ColorTriplet(0xCC, 0xCC, 0xCC)),
}
"""The colours of a stone, inside and at its edge."""

OWNED = 50  # per cent of ownership from which an empty point is marked as somebody's
SIGNS = {1: "●", 2: "○"}
SMALL = {1: "•", 2: "◦"}  # stones that aren't there yet, or soon won't be
AREAS = {1: "▪", 2: "▫"}

EDGE = 3  # columns to the left of the board
LEAST_SHARE = 0.01

LARGEST = 6  # lines of a point, at most


@dataclass(frozen=True, slots=True)
class Overlay:
    """What is drawn over a position. All of it reads without colours.

    The ``cursor`` stands in square brackets; ``ghost`` is the colour of a small stone on it, where the point is empty.
    ``dead`` stones are small. ``letters`` are of one sign each, for empty points; the first of them stands out.
    ``policy`` has probabilities of empty points, drawn from ``LEAST_SHARE`` on, the likelier the brighter.
    """

    cursor: Move | None = None
    ghost: Colour | None = None
    dead: Set[Move] = frozenset()
    letters: Mapping[Move, str] = field(default_factory=dict)
    policy: Mapping[Move, float] = field(default_factory=dict)


NOTHING = Overlay()


def board_width(size: int, cell: int = 1) -> int:
    """Columns of a drawn board whose points are ``cell`` lines high, and twice as many columns wide."""
    return EDGE + 2 * cell * size + 1


def board_height(size: int, cell: int = 1) -> int:
    """Lines of a drawn board."""
    return 2 + cell * (size - 1) + 2 * (cell // 2)


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
    flat, size = stones.reshape(-1).tolist(), len(stones)
    shares = [0] * len(flat) if ownership is None else np.frombuffer(ownership, np.int8).tolist()
    canvas = _Canvas(size, cell if colours else 1, colours)
    for move, (stone, share) in enumerate(zip(flat, shares, strict=True)):
        is_lost = move in overlay.dead or (share < -OWNED if stone == BLACK else share > OWNED)
        ghost = int(overlay.ghost or 0) if move == overlay.cursor else 0
        if move == overlay.cursor or (move == next(iter(overlay.letters), None) and not stone):
            canvas.paint(move)
        if stone or ghost:
            canvas.draw_stone(move, stone or ghost, is_small=is_lost or not stone)
        elif move in overlay.letters:
            canvas.put(move, overlay.letters[move], LETTER)
        elif overlay.policy.get(move, 0.0) >= LEAST_SHARE:
            canvas.draw_share(move, overlay.policy[move])
        elif abs(share) > OWNED:
            canvas.draw_area(move, share)
        if colours and canvas.cell == 1 and stone and (move + 1) % size and flat[move + 1]:
            canvas.put(move, " ", GRID, 1)  # two stones side by side can be counted
    if last is not None and last < len(flat):
        canvas.mark_last(last, is_free=overlay.cursor is None or abs(last - overlay.cursor) != 1)
    if overlay.cursor is not None:
        canvas.bracket(overlay.cursor, "[]", LETTER)
    return canvas.lines()


def legend(colours: bool = True) -> Text:
    """What the marks of ownership mean."""
    words = Text(no_wrap=True)
    for colour, owner in ((BLACK, " Black's  "), (WHITE, " White's")):
        ink = f"{STONES[colour][0].hex} on {WOOD.hex}" if colours else ""
        words.append(AREAS[BLACK if colours else colour], ink).append(owner, "dim")
    return words


@lru_cache(maxsize=32)
def _disc(cell: int, radius: float) -> np.ndarray:
    """The share of each pixel inside a disc, (2 cell, 2 cell - 1, 1). A pixel is half a line high and a column wide."""
    fine = (np.arange(8) + 0.5) / 8
    down = (np.arange(2 * cell)[:, None] + fine).ravel() - cell
    across = (np.arange(2 * cell - 1)[:, None] + fine).ravel() - cell + 0.5
    is_inside = np.hypot(down[:, None], across) < radius
    return is_inside.reshape(2 * cell, 8, 2 * cell - 1, 8).mean((1, 3))[:, :, None]


class _Canvas:
    """The board as pixels, two in each cell of the terminal, and signs that stand in cells without any."""

    def __init__(self, size: int, cell: int, colours: bool):
        self.size, self.cell, self.colours = size, cell, colours
        self._rows, self._columns = board_height(size, cell) - 1, board_width(size, cell) - EDGE
        self._pixels = np.full((2 * self._rows, self._columns, 3), WOOD, float)
        self._is_disc = np.zeros((2 * self._rows, self._columns), bool)
        self._signs = [self._grid_row(row - cell // 2) for row in range(self._rows)]
        self._inks = [[GRID] * self._columns for _ in range(self._rows)]
        for move in () if colours else range(size * size):
            self.put(move, "·")
        for move in star_points(size):
            self.put(move, "╋" if colours else "+")

    def _grid_row(self, row: int) -> list[str]:
        """The lines of the grid in a row, counted from its first line."""
        edge, gap, last = " " * self.cell, 2 * self.cell - 1, self.cell * (self.size - 1)
        if not self.colours or not 0 <= row <= last:
            return [" "] * self._columns
        left, middle, right = "┌┬┐" if row == 0 else "└┴┘" if row == last else "├┼┤"
        line = left + middle.join(["─" * gap] * (self.size - 1)) + right
        if row % self.cell:
            line = "│" + "│".join([" " * gap] * (self.size - 1)) + "│"
        return list(edge + line + edge)

    def _centre(self, move: Move) -> tuple[int, int]:
        row, column = divmod(move, self.size)
        return self.cell * row + self.cell // 2, 2 * self.cell * column + self.cell

    def put(self, move: Move, sign: str, ink: str = GRID, aside: int = 0) -> None:
        """Draw a sign on a point, or a number of columns to the right of it."""
        row, column = self._centre(move)
        self._signs[row][column + aside], self._inks[row][column + aside] = sign, ink

    def bracket(self, move: Move, brackets: str, ink: str) -> None:
        self.put(move, brackets[0], ink, -self.cell)
        self.put(move, brackets[1], ink, self.cell)

    def paint(self, move: Move) -> None:
        """Colour the wood around a point."""
        (row, column), around = self._centre(move), (self.cell - 1) // 2
        beside = self.cell - 1
        self._pixels[2 * (row - around) : 2 * (row + around + 1), column - beside : column + beside + 1] = CURSOR

    def draw_stone(self, move: Move, colour: int, is_small: bool) -> None:
        """A disc that leaves a column free to its neighbours."""
        inside, edge = STONES[Colour(colour)]
        if self.cell == 1:
            self.put(move, (SMALL if is_small else SIGNS)[1 if self.colours else colour], f"bold {inside.hex}")
            return
        (row, column), cell = self._centre(move), self.cell
        here = slice(2 * row + 1 - cell, 2 * row + 1 + cell), slice(column - cell + 1, column + cell)
        radius = (cell - 0.5 - 0.5 / cell**2) * (0.6 if is_small else 1.0)
        for part, shade in ((radius, edge), (radius - min(0.8, 0.16 * cell), inside)):
            self._pixels[here] += _disc(cell, part) * (np.array(shade) - self._pixels[here])
        self._is_disc[here] |= _disc(cell, radius)[:, :, 0] > 0.08

    def draw_area(self, move: Move, share: int) -> None:
        """A point that is likely to be somebody's, in per cent, positive for Black."""
        owner = BLACK if share > 0 else WHITE
        ink = blend_rgb(WOOD, STONES[owner][0], 0.4 + 0.35 * abs(share) / 100)
        self.put(move, AREAS[BLACK if self.colours else owner], ink.hex)

    def draw_share(self, move: Move, share: float) -> None:
        """A probability in per cent; in tens of per cent where points are one line high, 0 being less than one."""
        ink = blend_rgb(WOOD, STONES[WHITE][0], 0.5 + 0.5 * share**0.5)
        number = f"{min(99, round(100 * share)):2d}" if self.cell > 1 else f"{min(9, int(10 * share))}"
        for aside, sign in enumerate(number, 1 - len(number)):
            if sign != " ":
                self.put(move, sign, f"bold {ink.hex}", aside)

    def mark_last(self, move: Move, is_free: bool) -> None:
        if self.cell == 1:
            if is_free:
                self.bracket(move, "()", f"bold {STONES[WHITE][0].hex}")
            return
        row, column = self._centre(move)
        self.put(move, "●", MARK)
        self._is_disc[2 * row : 2 * row + 2, column] = False

    def lines(self) -> list[Text]:
        size, cell = self.size, self.cell
        names = "".join(name.rjust(cell + 1).ljust(2 * cell) for name in GTP_COLUMNS[:size])
        lines = [Text(f"{' ' * EDGE}{names} ", "dim")]
        pixels, discs = np.rint(self._pixels).astype(int).tolist(), self._is_disc.tolist()
        for row in range(self._rows):
            point, rest = divmod(row - cell // 2, cell)
            line = Text().append(f"{size - point:2d} " if rest == 0 and 0 <= point < size else " " * EDGE, "dim")
            cells = []
            for column in range(self._columns):
                upper, lower = (ColorTriplet(*pixels[2 * row + half][column]).hex for half in (0, 1))
                sign, ink = self._signs[row][column], self._inks[row][column]
                if discs[2 * row][column] or discs[2 * row + 1][column]:
                    sign, ink = "▀", upper
                cells.append((sign, f"{ink} on {lower}" if self.colours else ""))
            for style, run in groupby(cells, key=lambda cell: cell[1]):
                line.append("".join(sign for sign, _ in run), style)
            lines.append(line)
        return lines
