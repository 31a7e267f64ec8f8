"""What screens say of a game in words, and words fitted to a width. Nothing is drawn."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich.cells import cell_len, chop_cells
from rich.text import Text

from arena.go.game import Ending, Outcome
from arena.go.moves import Colour
from arena.screen import style
from arena.screen.board import stone_sign


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


def folded(words: str, width: int, height: int, ascii_only: bool, text_style: str = "") -> list[Text]:
    """Words in lines of this width; of too many lines the first, and a sign that there were more."""
    lines = [part for line in words.splitlines() for part in _wrapped(style.spell(line, ascii_only), max(8, width))]
    if len(lines) > height:
        lines = [*lines[: height - 1], style.clip(f"{lines[height - 1]} ...", width)] if height > 0 else []
        if lines and not lines[-1].endswith("..."):
            lines[-1] = f"{lines[-1][: width - 4].rstrip()} ..."
    return [Text(line, text_style) for line in lines]


def _wrapped(line: str, width: int) -> list[str]:
    """Broken between words; anywhere in scripts whose letters are wide, as they have none."""
    if cell_len(line) > len(line):
        return chop_cells(line, width)
    return textwrap.wrap(line, width) or [""]


def joined(parts: Sequence[str], width: int) -> str:
    """As many of the parts, from the first on, as there is room for."""
    line = ""
    for part in filter(None, parts):
        longer = f"{line} · {part}" if line else part
        line = longer if cell_len(longer) <= width or not line else line
    return line
