"""A position drawn for the terminal, in its colours, and a scene: the board with words around it, fitted to any size.

No game is played here, and no key has a meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby

import numpy as np
from rich.text import Text

from arena.go.coords import BLACK, GTP_COLUMNS, Colour, Move, star_points
from arena.go.game import Ending, Outcome

# --- Colours ---

RGB = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours of a board. The wood, and the cursor's, lie between the stones in luminance, 4.5:1 from both (WCAG 2.1),
    so that they are told apart without hues; ``darkest`` and ``lightest`` are empty points that are all Black's or all
    White's.

    With ``colours`` both stones are full discs, and points are as large as the terminal allows; without, a white stone
    is hollow and every point takes two columns of one line.
    """

    wood: RGB
    darkest: RGB
    lightest: RGB
    point: str
    cursor: str
    """What lies under the point where the cursor is."""
    label: str = "dim"
    """Of coordinates and of words that only explain."""
    black: str = "bold #000000"
    white: str = "bold #ffffff"
    mark: str = "bold #ffffff"
    colours: bool = False

    @property
    def under(self) -> str:
        """The style of the wood that is nobody's."""
        return f"on #{_hex(self.wood)}"


DARK = Theme((0x98, 0x6D, 0x3A), (0x68, 0x4B, 0x28), (0xC0, 0x8A, 0x4A), "#583c1a", "on #3479bb")


@lru_cache(maxsize=1024)
def shade(theme: Theme, share: int) -> str:
    """The background of a point by ownership in per cent: positive is Black's, negative White's."""
    end = theme.darkest if share > 0 else theme.lightest
    far = min(100, abs(share)) / 100
    red, green, blue = (round(wood + far * (other - wood)) for wood, other in zip(theme.wood, end, strict=True))
    return f"on #{_hex((red, green, blue))}"


def _hex(colour: RGB) -> str:
    return "".join(f"{part:02x}" for part in colour)


# --- The board ---

OWNED = 50
"""Per cent from which an empty point bears the sign of who is to have it."""

SIGNS = {0: "·", 1: "●", 2: "○"}
STAR = "+"
AREAS = {1: "▪", 2: "▫"}
SMALL = {1: "•", 2: "◦"}
"""Stones that aren't there yet, or soon won't be."""

EDGE = 3
"""Columns to the left of the wood."""

Cell = tuple[int, int]
"""Columns and lines of a point."""

SMALLEST: Cell = (2, 1)

_LARGE: dict[Cell, dict[str, tuple[str, ...]]] = {
    (6, 3): {
        "●": ("▗▟██▙▖", "▐████▌", "▝▜██▛▘"),
        "•": ("  ▄▄  ", " ▐██▌ ", "  ▀▀  "),
        "+": ("      ", "  ██  ", "      "),
        "·": ("      ", "  ▐▌  ", "      "),
        "▪": ("      ", " ▐██▌ ", "      "),
    },
    (4, 2): {
        "●": ("▟██▙", "▜██▛"),
        "•": (" ▄▄ ", " ▀▀ "),
        "+": (" ▄▄ ", " ▀▀ "),
        "·": (" ▗▖ ", " ▝▘ "),
        "▪": (" ▗▖ ", " ▝▘ "),
    },
}
"""How the signs look where points are large. Colours tell Black's from White's."""

_SAME = {"○": "●", "◦": "•", "▫": "▪"}
_DOT = {(6, 3): ("  ", "▐▌", "  "), (4, 2): ("▗▖", "▝▘")}
"""The mark of the last move, in the middle of its stone."""


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


def board_width(size: int, cell: Cell = SMALLEST) -> int:
    """Columns that a drawn board takes."""
    return EDGE + cell[0] * size + (cell == SMALLEST)


def board_height(size: int, cell: Cell = SMALLEST) -> int:
    """Lines that a drawn board takes."""
    return cell[1] * size + 1


def largest_cell(size: int, width: int, height: int, theme: Theme) -> Cell:
    """The largest points with which a board fits into ``width`` columns and ``height`` lines; else the smallest."""
    large = _LARGE if theme.colours else ()
    fits = (cell for cell in large if board_width(size, cell) <= width and board_height(size, cell) <= height)
    return next(fits, SMALLEST)


def stone_sign(colour: Colour) -> str:
    return SIGNS[int(colour)]


def point_at(size: int, row: int, column: int, cell: Cell = SMALLEST) -> Move | None:
    """The point that is drawn in this line and column of a board, counted from 0; None beside the wood."""
    across, down = (column - EDGE) // cell[0], (row - 1) // cell[1]
    return down * size + across if 0 <= down < size and 0 <= across < size else None


@dataclass(frozen=True, slots=True)
class _Point:
    """What is drawn at a point: a sign, in which ink, on which wood."""

    sign: str
    ink: str
    wood: str


def draw_board(
    stones: np.ndarray,
    last: Move | None = None,
    *,
    ownership: bytes | None = None,
    overlay: Overlay = NOTHING,
    theme: Theme = DARK,
    cell: Cell = SMALLEST,
) -> list[Text]:
    """The lines of a position, (size, size) with 0 empty, 1 black, 2 white; ``last`` stands in brackets, or has a dot.

    ``ownership``, where it is known, is size² int8, in per cent and positive for Black: an empty point is darker where
    it will be Black's and lighter where it will be White's, and one that is more likely so than not bears a small full
    or hollow sign. A stone whose point is more likely the opponent's is small. Unless the theme has colours, full signs
    are black and hollow ones white, so the board reads without.
    """
    size = len(stones)
    shares = [0] * (size * size) if ownership is None else np.frombuffer(ownership, np.int8).tolist()
    stars = set(star_points(size))
    points = [_point(move, int(stone), shares[move], stars, overlay, theme) for move, stone in enumerate(stones.flat)]
    head = Text(" " * EDGE, style=theme.label)
    for name in GTP_COLUMNS[:size]:
        head.append(f"{' ' * _middle(cell)}{name}".ljust(cell[0]))
    lines = [head.append(" " * (cell == SMALLEST))]
    for row in range(size):
        at = range(row * size, (row + 1) * size)
        drawn = [_small_row(points, at, last, overlay, theme)] if cell == SMALLEST else []
        drawn = drawn or _large_rows(points, at, last, overlay, theme, cell)
        for number, cells in enumerate(drawn):
            name = f"{size - row:2d} " if number == (cell[1] - 1) // 2 else " " * EDGE
            line = Text().append(name, theme.label)
            for style, run in groupby(cells, key=lambda part: part[1]):
                line.append("".join(sign for sign, _ in run), style)
            lines.append(line)
    return lines


def _middle(cell: Cell) -> int:
    """The column of a point in which its sign stands."""
    return max(1, (cell[0] - 1) // 2)


def _point(move: Move, stone: int, share: int, stars: set[Move], overlay: Overlay, theme: Theme) -> _Point:
    ghost = overlay.ghost if not stone and move == overlay.cursor else None
    if stone or ghost is not None:
        colour = stone or int(ghost or 0)
        is_lost = share < -OWNED if colour == BLACK else share > OWNED
        signs = SMALL if ghost is not None or move in overlay.taken or is_lost else SIGNS
        sign = signs[colour]
        return _Point(
            _SAME.get(sign, sign) if theme.colours else sign,
            theme.black if colour == BLACK else theme.white,
            theme.cursor if move == overlay.cursor else theme.under,
        )
    wood = theme.cursor if move == overlay.cursor else shade(theme, share)
    if move in overlay.letters:
        first = move == next(iter(overlay.letters))
        return _Point(overlay.letters[move], theme.white, theme.cursor if first else wood)
    if abs(share) > OWNED:
        return _Point(AREAS[1 if share > 0 else 2], theme.black if share > 0 else theme.white, wood)
    return _Point(STAR if move in stars else SIGNS[0], theme.point, wood)


def _small_row(
    points: Sequence[_Point], at: range, last: Move | None, overlay: Overlay, theme: Theme
) -> list[tuple[str, str]]:
    """Signs and styles of a line: left of a point, the point, ..., right of the last. Brackets that would share a cell
    are the cursor's alone."""
    signs, inks, woods = [" "] * (2 * len(at) + 1), [""] * (2 * len(at) + 1), [theme.under] * (2 * len(at) + 1)
    for place, move in enumerate(at):
        signs[2 * place + 1], inks[2 * place + 1] = points[move].sign, points[move].ink
        woods[2 * place] = woods[2 * place + 1] = points[move].wood
    touch = last in at and overlay.cursor in at and abs((last or 0) - (overlay.cursor or 0)) == 1
    for marked, brackets in ((None if touch else last, "()"), (overlay.cursor, "[]")):
        if marked is not None and marked in at:
            left = 2 * (marked - at.start)
            signs[left], signs[left + 2] = brackets[0], brackets[1]
            inks[left] = inks[left + 2] = theme.mark
            if marked == overlay.cursor:
                woods[left : left + 3] = [theme.cursor] * 3
    return [(sign, f"{ink} {wood}") for sign, ink, wood in zip(signs, inks, woods, strict=True)]


def _large_rows(
    points: Sequence[_Point], at: range, last: Move | None, overlay: Overlay, theme: Theme, cell: Cell
) -> list[list[tuple[str, str]]]:
    """The same of the lines of a row of large points."""
    rows: list[list[tuple[str, str]]] = [[] for _ in range(cell[1])]
    centre, middle = (cell[1] - 1) // 2, _middle(cell)
    for move in at:
        point = points[move]
        sign = _SAME.get(point.sign, point.sign)
        text = [f"{' ' * middle}{sign}".ljust(cell[0]) if row == centre else " " * cell[0] for row in range(cell[1])]
        for row, signs in enumerate(_LARGE[cell].get(sign, text)):
            style = f"{point.ink} {point.wood}"
            cells = [(one, style) for one in signs]
            if move == last and sign == SIGNS[1]:
                black = point.ink == theme.black
                ink = f"{theme.white if black else theme.black} on {(theme.black if black else theme.white)[-7:]}"
                cells[middle : middle + 2] = [(one, ink) for one in _DOT[cell][row]]
            if move == overlay.cursor and row == centre:
                cells[0], cells[-1] = ("[", f"{theme.mark} {point.wood}"), ("]", f"{theme.mark} {point.wood}")
            rows[row] += cells
    return rows


# --- Words about a position ---


def result_words(outcome: Outcome) -> str:
    """``Black won by 3.5 points``, ``White won by resignation``, ``draw``."""
    if outcome.winner is None:
        return "draw"
    who = f"{outcome.winner.name.title()} won"
    if outcome.margin is not None:
        points = abs(outcome.margin)
        return f"{who} by {points:g} point{'s' if points != 1 else ''}"
    ways = {
        Ending.SCORE: "",
        Ending.RESIGN: " by resignation",
        Ending.TIME: " on time",
        Ending.ADJUDICATED: " by adjudication",
    }
    return who + ways.get(outcome.ending, " by forfeit")


def captures(black: int, white: int) -> str:
    """How many stones of each colour were taken."""
    return f"taken: {stone_sign(Colour.BLACK)} {black} · {stone_sign(Colour.WHITE)} {white}"


def lead(margin: float) -> str:
    """``Black leads by 3.5``, of Black's margin."""
    if abs(margin) < 0.05:
        return "nobody leads"
    return f"{'Black' if margin > 0 else 'White'} leads by {abs(margin):.1f}"


# --- The scene ---

GAP = 3
"""Columns between the board and what stands beside it."""

BESIDE = 28
"""Columns that are wanted beside a board, at least; and at most."""
WIDEST = 62

AROUND = 6
"""Lines above and below a board with large points."""

Block = Callable[[int, int], list[Text]]
"""Lines for a width and a height, both in cells; none where that isn't enough."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What is to be seen. The board comes first; then the status line and what is being typed; then the facts, then the
    blocks in their order, each where it has the room it wants. They stand beside the board where that is wide enough,
    else below it.

    ``title``, ``facts``, ``status`` and ``hint`` are given a width, and have as many lines as
    they want at that; ``prompt`` is one line, or none."""

    size: int
    board: Callable[[Cell], list[Text]]
    title: Callable[[int], list[Text]]
    facts: Callable[[int], list[Text]]
    blocks: Sequence[Block]
    status: Callable[[int], list[Text]]
    prompt: Callable[[int], list[Text]]
    hint: Callable[[int], list[Text]]
    theme: Theme = DARK

    def fit(self, width: int, height: int) -> Picture:
        """The scene in exactly this many cells, cut if they are too few."""
        cell = largest_cell(self.size, width - GAP - BESIDE, height - AROUND, self.theme)
        columns, rows = board_width(self.size, cell), board_height(self.size, cell)
        beside = min(WIDEST, width - columns - GAP)
        if width < columns or height < rows + 1:
            picture = self._without_board(width, height)
        elif beside >= BESIDE:
            picture = self._beside(width, height, beside, cell)
        else:
            picture = self._below(width, height)
        for line in picture.lines:
            line.truncate(width, overflow="crop")
        return picture

    def _beside(self, width: int, height: int, beside: int, cell: Cell) -> Picture:
        rows = board_height(self.size, cell)
        foot = _within(height - rows, self.prompt(width), self.status(width), self.hint(width), order=(1, 0, 2))
        title = _within(height - rows - len(foot), self.title(width))
        room = height - len(title) - len(foot)
        gap = 1 if title and room > rows else 0
        side = self._column(beside, room - gap)
        board = self.board(cell)
        for line, words in zip(board, side, strict=False):
            line.append_text(Text(" " * GAP)).append_text(words)
        below = [Text(" " * (board_width(self.size, cell) + GAP)).append_text(words) for words in side[rows:]]
        body = [*title, *[Text()] * gap, *board, *below]
        space = height - len(foot) - len(body)
        return Picture([*body, *[Text()] * space, *foot], self.size, len(title) + gap, cell)

    def _below(self, width: int, height: int) -> Picture:
        rows = board_height(self.size)
        foot = _within(height - rows, self.prompt(width), self.status(width), order=(1, 0))
        title = _within(height - rows - len(foot), self.title(width))
        room = height - rows - len(title) - len(foot)
        hint = _within(room - len(self.facts(width)), self.hint(width))
        below = self._column(width, room - len(hint))
        space = room - len(hint) - len(below)
        lines = [*title, *self.board(SMALLEST), *below, *[Text()] * space, *foot, *hint]
        return Picture(lines, self.size, len(title))

    def _without_board(self, width: int, height: int) -> Picture:
        needed = f"The board needs {board_width(self.size)}x{board_height(self.size) + 1}, this is {width}x{height}."
        words = [Text(needed[at : at + width]) for at in range(0, len(needed), max(1, width))]
        foot = _within(height, self.prompt(width), self.status(width), words, order=(2, 1, 0))
        rest = height - len(foot)
        above = _within(rest, self.title(width), self.facts(width), order=(0, 1))
        return Picture([*above, *[Text()] * (rest - len(above)), *foot], self.size, None)

    def _column(self, width: int, height: int) -> list[Text]:
        """The facts and as many of the blocks as fit, with an empty line before each where there is one."""
        lines = self.facts(width)[: max(0, height)]
        for block in self.blocks:
            room = height - len(lines)
            gap = 1 if lines and room > 1 else 0
            found = block(width, room - gap) if room > gap else []
            if found:
                lines += [*[Text()] * gap, *found[: room - gap]]
        return lines


@dataclass(frozen=True, slots=True)
class Picture:
    """The lines of a terminal, and in which of them the board begins, at the left; None where it has no room."""

    lines: list[Text]
    size: int
    top: int | None
    cell: Cell = SMALLEST

    def point_at(self, row: int, column: int) -> Move | None:
        """The point in this cell of the terminal, if there is one."""
        return None if self.top is None else point_at(self.size, row - self.top, column, self.cell)


def _within(height: int, *parts: list[Text], order: Sequence[int] = (0,)) -> list[Text]:
    """The parts one below the other in ``height`` lines; ``order`` says which of them are given room first."""
    kept: dict[int, list[Text]] = {}
    for index in order:
        kept[index] = parts[index][: max(0, height - sum(map(len, kept.values())))]
    return [line for index in range(len(parts)) for line in kept.get(index, [])]
