"""How all screens write: colours, signs, words, numbers, durations.

Colours never carry a fact alone. They are blue and orange, which colour-blind people tell apart, on dark and on light.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterable, Sequence
from io import TextIOWrapper
from itertools import chain
from typing import TYPE_CHECKING, Any

import rich.console
from rich.cells import cell_len, set_cell_size
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

# Listing commands and bots stays quick.
if TYPE_CHECKING:
    from arena.go.game import Rules
    from arena.ratings import WinDrawLoss

FIRST = "bold #3b8fd4"
SECOND = "bold #d97f0a"
LABEL = "dim"
WARNING = "bold #d97f0a"

COLOURS = ("#3b8fd4", "#d97f0a", "#009e73", "#cc79a7", "#8a6bd1", "#d55e00")
"""Of curves; they have the numbers of their players, too."""

SPARKS = "▁▂▃▄▅▆▇█"

_SIGNS = (range(9), range(11, 32), range(0x7F, 0xA0), range(0x202A, 0x202F), range(0x2066, 0x206A))
CONTROL_SIGNS = dict.fromkeys(chain(*_SIGNS), "?")
"""For ``str.translate``: a question mark for each control sign, with which a text moves a terminal's cursor, sets its
title, or turns the direction of writing. Tabs and ends of lines stay."""

_ASCII = str.maketrans("●○•◦▪▫·–…±×²│─┌┬┐├┼┤└┴┘╋✓✗█▀▲", "XOxoxo.-.+x2|-++++++++++yn##^")
"""Signs for an encoding that lacks ours: the colours of stones stay apart."""


def _replace_sign(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    found = error.object[error.start : error.end].translate(_ASCII)
    return "".join(sign if sign.isascii() else "?" for sign in found), error.end


codecs.register_error("arena", _replace_sign)

_FOLDERS = re.compile(r"(?<![\w./\\])(?:~|[A-Za-z]:)?[/\\]+(?:[^\s/\\,;:=()<>]+[/\\]+)+")


def sanitize(text: str) -> str:
    """A text from anywhere in one line, its control signs out."""
    return text if text.isprintable() else "".join(sign if sign.isprintable() else " " for sign in text)


def redact(words: str) -> str:
    """Words for a page in one line, with the names of files in place of their paths."""
    return _FOLDERS.sub("", sanitize(words))


class Console(rich.console.Console):
    """Rich's console: control signs are printed as question marks, and signs that the encoding lacks in ASCII. Without
    a terminal, no line is cut off or broken."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        if isinstance(self.file, TextIOWrapper):
            self.file.reconfigure(errors="arena")

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*objects, **({"soft_wrap": not self.is_terminal} | options))

    def print_line(self, words: str, text_style: str = "") -> None:
        """Print words of one line, as they stand."""
        self.print(Text(sanitize(words), text_style))

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(segment.text.translate(CONTROL_SIGNS), segment.style)


def has_screen(console: rich.console.Console) -> bool:
    """Whether a full screen can open: a person sits at a terminal, or ``arena serve`` shows it in a browser."""
    if "TEXTUAL_DRIVER" in os.environ:
        return True
    is_usable = console.is_terminal and not console.is_dumb_terminal and not console.options.ascii_only
    return is_usable and os.isatty(0) and os.isatty(2)


def has_colours(console: rich.console.Console) -> bool:
    return not console.no_color and (console.color_system is not None or "TEXTUAL_DRIVER" in os.environ)


def shorten(name: str, width: int) -> str:
    """At most ``width`` cells of a name: its middle goes, as settings differ at the end."""
    if cell_len(name) <= width or width < 1:
        return name if width > 0 else ""
    tail = set_cell_size(name[::-1], (width - 1) // 2)[::-1].lstrip()
    return f"{set_cell_size(name, width - 1 - cell_len(tail)).rstrip()}…{tail}"


def fold(words: str, width: int) -> str:
    """Words in lines of at most ``width`` cells, broken after spaces, commas, colons and slashes only; the middle of a
    longer piece goes. No number is broken."""
    lines = [""]
    for piece in re.findall(r"[^ ,:/\n]*(?:[ ,:/\n]|$)", words):
        if cell_len(lines[-1] + piece.rstrip()) > width and lines[-1]:
            lines.append("")
        lines[-1] += piece if cell_len(piece.rstrip()) <= width else shorten(piece, width)
        if piece.endswith("\n"):
            lines[-1] = lines[-1].rstrip()
            lines.append("")
    return "\n".join(line.rstrip() for line in lines)


def text(words: str, ink: str = "") -> Text:
    """Words that wrap where they are too long. The style is their own: what is appended later doesn't take it over."""
    return Text().append("\n".join(map(sanitize, words.splitlines())), ink)


def line(words: str, ink: str = "") -> Text:
    """Words in one line, whose end goes where they are too long."""
    return Text(no_wrap=True, overflow="ellipsis").append(sanitize(words), ink)


def per_cent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def likelihood(los: float) -> str:
    """Per cent, never rounded to a certainty that no number of games gives."""
    if los > 0.9995:
        return "> 99.9 %"
    return "< 0.1 %" if los < 0.0005 else per_cent(los)


def score(counts: WinDrawLoss) -> str:
    return f"+{counts.wins} ={counts.draws} -{counts.losses}"


def games_rate(games: float | None) -> str:
    """``1.4 games/s``, ``2.5 games/min``: a few digits are enough, and none appear or vanish at every update."""
    if games is None:
        return "– games/s"
    return f"{60 * games:.1f} games/min" if games < 0.1 else f"{games:.1f} games/s"


def rules_words(rules: Rules, handicap: int = 0) -> str:
    """``9x9, cgos rules, komi 7``."""
    stones = f", {handicap} handicap stones" if handicap else ""
    return f"{rules.size}x{rules.size}, {rules.name} rules, komi {rules.komi:g}{stones}"


def duration(seconds: float | None) -> str:
    """``0:42``, ``12:05``, ``3:04:05``; nothing when it isn't known."""
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def seconds(number: float | None) -> str:
    """The time for a move, in the unit that suits it."""
    if number is None:
        return "–"
    if number < 0.00005:
        return "< 0.1 ms"
    return f"{number:.2f} s" if number >= 0.1 else f"{1000 * number:.1f} ms"


def sparkline(shares: Sequence[float], width: int) -> str:
    """The last ``width`` values in [0, 1] as a row of small bars."""
    return "".join(SPARKS[min(len(SPARKS) - 1, int(share * len(SPARKS)))] for share in shares[-width:])
