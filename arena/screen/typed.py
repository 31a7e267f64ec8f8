"""What a person types, pastes and clicks, told from the bytes that a terminal sends. Nothing is read or drawn here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

PASTED = 16
"""So many signs at once are no typing."""

LONGEST_PASTE = 1 << 16
"""Bytes of a paste that are kept."""


@dataclass(frozen=True, slots=True)
class Press:
    """A key: the sign that it types, or its name, such as ``left``, ``enter``, ``page up`` or ``ctrl-z``."""

    key: str


@dataclass(frozen=True, slots=True)
class Paste:
    """Text that was pasted, or came at once as no fingers type it."""

    text: str


class Act(Enum):
    """What was done with the mouse."""

    CLICK = auto()
    MOVE = auto()
    WHEEL_UP = auto()
    WHEEL_DOWN = auto()


@dataclass(frozen=True, slots=True)
class Mouse:
    """The mouse did something above this cell of the terminal, counted from 0 at the top left."""

    act: Act
    row: int
    column: int


@dataclass(frozen=True, slots=True)
class Gone:
    """Nothing can be typed any more: the terminal was closed, or its input ended."""


Typed = Press | Paste | Mouse | Gone

_NAMES = {
    b"A": "up",
    b"B": "down",
    b"C": "right",
    b"D": "left",
    b"F": "end",
    b"H": "home",
    b"Z": "shift-tab",
    b"1~": "home",
    b"3~": "delete",
    b"4~": "end",
    b"5~": "page up",
    b"6~": "page down",
    b"7~": "home",
    b"8~": "end",
}
"""Keys by what stands behind ``ESC [`` (and, of one sign, behind ``ESC O``)."""

_CONTROLS = {8: "backspace", 9: "tab", 10: "enter", 13: "enter", 27: "escape", 127: "backspace"}

_BEGUN = re.compile(rb"\x1b(\[[0-?]*[ -/]*|O)?|[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2}")
"""A sequence, or a letter of UTF-8, of which more may come."""

_SIGN = re.compile(
    rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1bO[ -~]|\x1b[^\x1b]"
    rb"|[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}|.",
    re.DOTALL,
)
"""A control sequence (ECMA-48), a key with Alt, a letter, or one byte."""

_MOUSE = re.compile(rb"\x1b\[<([0-9]{1,4});([0-9]{1,5});([0-9]{1,5})([Mm])")
"""The mouse as xterm tells it in mode 1006."""

_PASTE, _PASTED = b"\x1b[200~", b"\x1b[201~"
"""What a terminal puts around pasted text, where it is asked to."""


class Typing:
    """Tells keys, pasted text and the mouse from the bytes of a terminal, in whatever pieces they come."""

    def __init__(self) -> None:
        self._rest = b""
        self._pasted: bytes | None = None  # what has come of a paste that goes on

    def read(self, data: bytes) -> list[Typed]:
        """What was typed, as far as it is known from what has come; keys that have no name here are left out."""
        if len(data) >= PASTED and b"\x1b" not in data and self._pasted is None:
            return [Paste(_text(data))]
        text, self._rest = self._rest + data, b""
        found: list[Typed] = []
        while text:
            if self._pasted is not None:
                inside, ended, after = text.partition(_PASTED)
                if not ended:
                    self._rest = text[1 - len(_PASTED) :]
                    inside = text[: len(text) - len(self._rest)]
                self._pasted = (self._pasted + inside)[:LONGEST_PASTE]
                if not ended:
                    break
                found.append(Paste(_text(self._pasted)))
                text, self._pasted = after, None
            elif _BEGUN.fullmatch(text):
                self._rest = text
                break
            else:
                match = _SIGN.match(text)
                sign = match[0] if match else text[:1]
                text = text[len(sign) :]
                if sign == _PASTE:
                    self._pasted = b""
                elif (typed := _typed(sign)) is not None:
                    found.append(typed)
        return found

    def give_up(self) -> list[Typed]:
        """Nothing has come for a while: Escape was pressed alone, or the end of a sequence or a paste is lost."""
        alone = self._rest == b"\x1b" and self._pasted is None
        self._rest, self._pasted = b"", None
        return [Press("escape")] if alone else []


def _typed(sign: bytes) -> Press | Mouse | None:
    if len(sign) == 1 and sign[0] in _CONTROLS:
        return Press(_CONTROLS[sign[0]])
    if len(sign) == 1 and 1 <= sign[0] <= 26:
        return Press(f"ctrl-{chr(sign[0] + 96)}")
    if sign.startswith((b"\x1b[", b"\x1bO")):
        mouse = _MOUSE.fullmatch(sign)
        if mouse is not None:
            return _mouse(int(mouse[1]), int(mouse[3]) - 1, int(mouse[2]) - 1, mouse[4] == b"M")
        name = _NAMES.get(sign[2:])
        return None if name is None else Press(name)
    letter = sign.decode("utf-8", "replace")
    return Press(letter) if len(letter) == 1 and letter.isprintable() and letter != "\ufffd" else None


def _mouse(button: int, row: int, column: int, is_down: bool) -> Mouse | None:
    """By the bits of the button: 32 is a move, 64 the wheel, 4 to 16 are Shift, Alt and Ctrl."""
    plain = button & ~(4 | 8 | 16)
    if plain & 32:
        return Mouse(Act.MOVE, row, column)
    act = {0: Act.CLICK, 64: Act.WHEEL_UP, 65: Act.WHEEL_DOWN}.get(plain)
    return Mouse(act, row, column) if act is not None and is_down else None


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
