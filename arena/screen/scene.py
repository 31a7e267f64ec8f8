"""A board with words around it, fitted to a terminal of any size. Nothing is decided here, and no key has a meaning.

The board comes first; then the status line and what is being typed; then the facts, then the blocks in their order,
each where it has the room it wants. They stand beside the board where that is wide enough, else below it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.text import Text

from arena.go.moves import Move
from arena.screen.board import board_height, board_width, point_at

GAP = 3
"""Columns between the board and what stands beside it."""

BESIDE = 28
"""Columns that are wanted beside a board, at least; and at most."""
WIDEST = 62

Block = Callable[[int, int], list[Text]]
"""Lines for a width and a height, both in cells; none where that isn't enough."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What is to be seen. ``title``, ``facts``, ``status`` and ``hint`` are given a width, and have as many lines as
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
