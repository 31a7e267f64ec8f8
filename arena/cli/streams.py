"""The three standard streams: open, and free of what a terminal would obey. No texts of our own."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from itertools import chain

LONGEST = 1000
"""Characters of a line that says what is wrong; of a longer one the middle is left out."""

_COMMANDS = (range(7), range(14, 32), range(0x7F, 0xA0), range(0x202A, 0x202F), range(0x2066, 0x206A))
_SHOWN = dict.fromkeys(chain(*_COMMANDS), "?")
"""Control characters, with which a text moves a terminal's cursor, sets its title, or turns the direction of writing;
those that Rich takes away by itself, tabs and ends of lines aren't among them."""


def open_closed_streams() -> None:
    """Have what is closed lead nowhere. A file that is opened later would take its number, and what is meant for the
    screen would be written into that."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it gets the lowest number that is free, which is this one
            os.set_inheritable(descriptor, True)
            setattr(sys, name, open(descriptor, "w" if descriptor else "r", encoding="utf-8", closefd=False))


def abandon_output() -> None:
    """Forget what can't be written, so that Python's end doesn't try once more."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def disarm_rich() -> None:
    """Have all that Rich prints of names, comments and errors show a question mark for a control character."""
    from rich import control

    every_text: dict[int, str | None] = control._CONTROL_STRIP_TRANSLATE  # type: ignore[assignment]
    every_text.update(_SHOWN)  # Rich's own commands to the terminal don't go through it


def one_line(text: str) -> str:
    """A text from anywhere as one line that is fit for a terminal and not endless."""
    line = " ".join(text.split()).translate(_SHOWN)
    return line if len(line) <= LONGEST else f"{line[: LONGEST * 3 // 4]} ... {line[-LONGEST // 4 :]}"
