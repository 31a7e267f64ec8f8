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

from arena.go.game import Ending, Outcome
from arena.go.moves import BLACK, GTP_COLUMNS, Colour, Move, star_points

# --- Colours ---

RGB = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours of a board. The wood lies between the stones in luminance, far from both, so that they are told apart
    without hues; ``darkest`` and ``lightest`` are wood that is all Black's or all White's."""

    name: str
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

    @property
    def under(self) -> str:
        """The style of the wood that is nobody's."""
        return f"on #{_hex(self.wood)}"


DARK = Theme("dark", (0xA5, 0x76, 0x3F), (0x75, 0x54, 0x2D), (0xC0, 0x8A, 0x4A), "#6b4a22", "on #2f6ca8")
LIGHT = Theme(
    "light",
    (0xB0, 0x7E, 0x44),
    (0x7F, 0x5A, 0x2E),
    (0xC0, 0x8A, 0x4A),
    "#7a5427",
    "on #2f6fb8",
    mark="bold #000000",
)
HIGH_CONTRAST = Theme(
    "high-contrast",
    (0x76, 0x76, 0x76),
    (0x5C, 0x5C, 0x5C),
    (0x90, 0x90, 0x90),
    "#000000",
    "on #1f5fd0",
    label="bold",
    mark="bold #ffff00",
)

THEMES = {theme.name: theme for theme in (DARK, LIGHT, HIGH_CONTRAST)}


@lru_cache(maxsize=1024)
def shade(theme: Theme, share: int) -> str:
    """The style of the wood under a point that is Black's by so many per cent; negative ones are White's."""
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


def board_width(size: int) -> int:
    """Columns that a drawn board takes."""
    return EDGE + 2 * size + 1


def board_height(size: int) -> int:
    """Lines that a drawn board takes."""
    return size + 1


def stone_sign(colour: Colour) -> str:
    return SIGNS[int(colour)]


def point_at(size: int, row: int, column: int) -> Move | None:
    """The point that is drawn in this line and column of a board, counted from 0; None beside the wood."""
    across = (column - EDGE) // 2
    return (row - 1) * size + across if 1 <= row <= size and 0 <= across < size else None


def draw_board(
    stones: np.ndarray,
    last: Move | None = None,
    *,
    ownership: bytes | None = None,
    overlay: Overlay = NOTHING,
    theme: Theme = DARK,
) -> list[Text]:
    """The lines of a position, (size, size) with 0 empty, 1 black, 2 white; ``last`` stands in brackets.

    ``ownership``, where it is known, is size² int8, in per cent and positive for Black: the wood is darker where the
    point will be Black's and lighter where it will be White's, and an empty point that is more likely so than not
    bears a small full or hollow sign. Full signs are black and hollow ones white, so the board reads the same without
    colours.
    """
    size = len(stones)
    shares = [0] * (size * size) if ownership is None else np.frombuffer(ownership, np.int8).tolist()
    stars = set(star_points(size))
    lines = [Text("    " + " ".join(GTP_COLUMNS[:size]) + " ", style=theme.label)]
    for row in range(size):
        signs = [" "] * (2 * size + 1)  # left of a point, the point, ..., right of the last
        inks = [""] * len(signs)
        woods = [theme.under] * len(signs)
        for column in range(size):
            move, at = row * size + column, 2 * column + 1
            woods[at - 1] = woods[at] = shade(theme, shares[move])
            stone = int(stones[row, column])
            if not stone and move == overlay.cursor and overlay.ghost is not None:
                stone, small = int(overlay.ghost), True
            else:
                small = move in overlay.taken
            if stone:
                signs[at] = (SMALL if small else SIGNS)[stone]
                inks[at] = theme.black if stone == BLACK else theme.white
            elif move in overlay.letters:
                signs[at] = overlay.letters[move]
                inks[at] = theme.white
                if move == next(iter(overlay.letters)):
                    woods[at] = theme.cursor
            elif abs(shares[move]) > OWNED:
                signs[at] = AREAS[1 if shares[move] > 0 else 2]
                inks[at] = theme.black if shares[move] > 0 else theme.white
            else:
                signs[at] = STAR if move in stars else SIGNS[0]
                inks[at] = theme.point
        for marked, (left, right) in ((last, "()"), (overlay.cursor, "[]")):
            if marked is not None and marked // size == row:
                at = 2 * (marked % size) + 1
                signs[at - 1], signs[at + 1] = left, right
                inks[at - 1] = inks[at + 1] = theme.mark
                if marked == overlay.cursor:
                    woods[at - 1 : at + 2] = [theme.cursor] * 3
        line = Text().append(f"{size - row:2d} ", theme.label)
        styles = (f"{ink} {wood}" for ink, wood in zip(inks, woods, strict=True))
        for drawn, run in groupby(zip(signs, styles, strict=True), key=lambda cell: cell[1]):
            line.append("".join(sign for sign, _ in run), drawn)
        lines.append(line)
    return lines


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
    board: Sequence[Text]
    title: Callable[[int], list[Text]]
    facts: Callable[[int], list[Text]]
    blocks: Sequence[Block]
    status: Callable[[int], list[Text]]
    prompt: Callable[[int], list[Text]]
    hint: Callable[[int], list[Text]]

    def fit(self, width: int, height: int) -> Picture:
        """The scene in exactly so many cells, or with what is left of it where they are too few."""
        columns, rows = board_width(self.size), board_height(self.size)
        beside = min(WIDEST, width - columns - GAP)
        if width < columns or height < rows + 1:
            picture = self._without_board(width, height)
        elif beside >= BESIDE:
            picture = self._beside(width, height, beside)
        else:
            picture = self._below(width, height)
        for line in picture.lines:
            line.truncate(width, overflow="crop")
        return picture

    def _beside(self, width: int, height: int, beside: int) -> Picture:
        rows = board_height(self.size)
        foot = _within(height - rows, self.prompt(width), self.status(width), self.hint(width), order=(1, 0, 2))
        title = _within(height - rows - len(foot), self.title(width))
        room = height - len(title) - len(foot)
        gap = 1 if title and room > rows else 0
        side = self._column(beside, room - gap)
        board = [line.copy() for line in self.board]
        for line, words in zip(board, side, strict=False):
            line.append_text(Text(" " * GAP)).append_text(words)
        below = [Text(" " * (board_width(self.size) + GAP)).append_text(words) for words in side[rows:]]
        body = [*title, *[Text()] * gap, *board, *below]
        space = height - len(foot) - len(body)
        return Picture([*body, *[Text()] * space, *foot], self.size, len(title) + gap)

    def _below(self, width: int, height: int) -> Picture:
        rows = board_height(self.size)
        foot = _within(height - rows, self.prompt(width), self.status(width), order=(1, 0))
        title = _within(height - rows - len(foot), self.title(width))
        room = height - rows - len(title) - len(foot)
        hint = _within(room - len(self.facts(width)), self.hint(width))
        below = self._column(width, room - len(hint))
        space = room - len(hint) - len(below)
        board = [line.copy() for line in self.board]
        lines = [*title, *board, *below, *[Text()] * space, *foot, *hint]
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

    def point_at(self, row: int, column: int) -> Move | None:
        """The point in this cell of the terminal, if there is one."""
        return None if self.top is None else point_at(self.size, row - self.top, column)


def _within(height: int, *parts: list[Text], order: Sequence[int] = (0,)) -> list[Text]:
    """The parts one below the other in ``height`` lines; ``order`` says which of them are given room first."""
    kept: dict[int, list[Text]] = {}
    for index in order:
        kept[index] = parts[index][: max(0, height - sum(map(len, kept.values())))]
    return [line for index in range(len(parts)) for line in kept.get(index, [])]
