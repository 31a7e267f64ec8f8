"""The terminal: the keyboard and the mouse in raw mode, and one screen for a person.

``Typing`` parses bytes, ``Stage`` reads them and takes the whole screen as editors do. No layout is here, and no key
but Ctrl-Z has a meaning.
"""

from __future__ import annotations

import os
import re
import select
import signal
import termios
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto
from itertools import chain
from math import inf
from time import monotonic
from typing import Any, Self

from rich.console import Console, ConsoleDimensions, RenderableType
from rich.control import Control
from rich.segment import ControlType, Segment, Segments

KEYBOARD = 0
"""The file descriptor that is read unless another is given."""

# --- Parsing what is typed ---

PASTED = 16
"""Bytes that come at once and count as pasted: nobody types that fast."""

LONGEST_PASTE = 1 << 16
"""Bytes of a paste beyond which the rest is dropped."""


@dataclass(frozen=True, slots=True)
class Press:
    """A key: the character that it types, or its name, such as ``left``, ``enter``, ``page up`` or ``ctrl-z``."""

    key: str


@dataclass(frozen=True, slots=True)
class Paste:
    """Text that was pasted, or that came faster than anyone types."""

    text: str


class Act(Enum):
    """What was done with the mouse."""

    CLICK = auto()
    MOVE = auto()
    WHEEL_UP = auto()
    WHEEL_DOWN = auto()


@dataclass(frozen=True, slots=True)
class Mouse:
    """The mouse did something over this cell of the terminal, counted from 0 at the top left."""

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
"""Keys by what follows ``ESC [`` (single letters also follow ``ESC O``)."""

_CONTROLS = {8: "backspace", 9: "tab", 10: "enter", 13: "enter", 27: "escape", 127: "backspace"}

_BEGUN = re.compile(rb"\x1b(\[[0-?]*[ -/]*|O)?|[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2}")
"""The beginning of a sequence, or of a UTF-8 character."""

_SIGN = re.compile(
    rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1bO[ -~]|\x1b[^\x1b]"
    rb"|[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}|.",
    re.DOTALL,
)
"""A control sequence (ECMA-48), a key with Alt, a letter, or one byte."""

_MOUSE = re.compile(rb"\x1b\[<([0-9]{1,4});([0-9]{1,5});([0-9]{1,5})([Mm])")
"""A mouse report of xterm, mode 1006."""

_PASTE, _PASTED = b"\x1b[200~", b"\x1b[201~"
"""What a terminal puts around pasted text in mode 2004."""


class Typing:
    """Parses the bytes of a terminal into keys, pasted text and the mouse, however they are split."""

    def __init__(self) -> None:
        self._rest = b""
        self._pasted: bytes | None = None  # what has come of a paste that goes on

    def read(self, data: bytes) -> list[Typed]:
        """What was typed, as far as it is complete; keys that have no name here are left out."""
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

    def time_out(self) -> list[Typed]:
        """Nothing has come for a while: Escape was pressed alone, or the end of a sequence or a paste was lost."""
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


# --- Reading ---

SILENCE = 0.3
"""Seconds after which an unfinished sequence is dropped; also how soon a terminal is found again."""


_ASK_FOR_PASTE, _LEAVE_PASTE = b"\x1b[?2004h", b"\x1b[?2004l"
_ASK_FOR_MOUSE, _LEAVE_MOUSE = b"\x1b[?1000h\x1b[?1003h\x1b[?1006h", b"\x1b[?1006l\x1b[?1003l\x1b[?1000l"
"""Mouse reports: presses, moves, and positions in decimal so that wide terminals work."""


def is_background(descriptor: int) -> bool:
    """Whether this is the terminal that started us, and another job is in its foreground now."""
    try:
        return os.tcgetpgrp(descriptor) != os.getpgrp()
    except OSError:
        return False


@contextmanager
def on_signals(handlers: Mapping[signal.Signals, Callable[[], None] | None]) -> Iterator[None]:
    """Handle signals while the block lasts; None is the system's default action. Ignored signals stay ignored, and
    outside the main thread nothing changes."""
    before: dict[signal.Signals, Any] = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for number, handle in handlers.items():
                if signal.getsignal(number) is not signal.SIG_IGN:
                    action = signal.SIG_DFL if handle is None else lambda *_, handle=handle: handle()
                    before[number] = signal.signal(number, action)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# --- The whole screen ---


def has_stage(console: Console) -> bool:
    """Whether a person sits at a terminal that can show a screen and sends keys."""
    return console.is_terminal and not console.is_dumb_terminal and os.isatty(KEYBOARD)


class Stage:
    """A context in which the terminal shows what ``draw`` is given, on the alternate screen, and ``next`` is what was
    typed; with ``mouse`` the mouse, too. In the end the terminal is as it was before, whatever happens. While another
    job has it, nothing is drawn and nothing typed.

    ``next`` raises SystemExit on SIGHUP and, where it ``ends`` by it, on SIGTERM, KeyboardInterrupt on Ctrl-C. Ctrl-Z
    stops this process alone, not those that it has started; ``on_stop`` is called before, ``on_continue`` after it.
    """

    def __init__(
        self,
        console: Console,
        on_stop: Callable[[], None] = lambda: None,
        on_continue: Callable[[], None] = lambda: None,
        mouse: bool = True,
        ends: bool = True,
        descriptor: int = KEYBOARD,
    ):
        self._console = console
        self._on_stop = on_stop
        self._on_continue = on_continue
        self._mouse = mouse
        self._ends = ends
        self._descriptor = descriptor
        self._told: deque[Any] = deque()
        self._typing = Typing()
        self._heard = 0.0  # when something was typed
        self._has_line = os.isatty(descriptor)  # and it isn't closed yet
        self._before: list[Any] | None = None  # the terminal's settings before we set them
        self._ours = False  # every key comes to us
        self._alarm: tuple[int, int] = (-1, -1)  # a pipe that wakes ``next``
        self._exits = ExitStack()
        self._ending: SystemExit | None = None
        self._suspending = False
        self._is_set = False  # the alternate screen is shown
        self._shown: tuple[ConsoleDimensions, list[list[Segment]]] | None = None

    def __enter__(self) -> Self:
        handlers = {
            **({signal.SIGTERM: lambda: self._end(signal.SIGTERM)} if self._ends else {}),
            signal.SIGHUP: lambda: self._end(signal.SIGHUP),
            signal.SIGWINCH: lambda: self.tell(None),
            signal.SIGTSTP: self._ask_to_suspend,
            signal.SIGCONT: self._wake_anew,
        }
        with ExitStack() as exits:
            self._alarm = os.pipe()
            for end in self._alarm:
                os.set_blocking(end, False)
                exits.callback(os.close, end)
            exits.enter_context(on_signals(handlers))
            exits.callback(self._clear)
            exits.callback(self._give_back)
            self._take()
            self._exits = exits.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        return self._console.width, self._console.height

    @property
    def hears(self) -> bool:
        """Whether keys are heard now."""
        return self._ours

    @property
    def is_behind(self) -> bool:
        """Whether more has come already: what is drawn now would be outdated at once."""
        self._listen(0.0)
        return bool(self._told)

    def tell(self, what: object) -> None:
        """Have ``next`` return this in its turn. For other threads, and for handlers of signals."""
        self._told.append(what)
        with suppress(OSError):  # it is awake
            os.write(self._alarm[1], b".")

    def next(self, seconds: float | None = None) -> Any:
        """What was typed (a ``Typed``) or reported; None after the timeout in seconds, or to redraw the screen.
        Raises SystemExit when the process is to end."""
        end = inf if seconds is None else monotonic() + seconds
        left = SILENCE
        while not (self._told or self._suspending or self._ending) and left > 0:
            self._listen(max(0.0, min(SILENCE, end - monotonic())))
            left = end - monotonic()
        if self._ending is not None:
            raise self._ending
        what = self._told.popleft() if self._told else None
        if self._suspending or what == Press("ctrl-z"):
            self._suspend()
            return None
        return what

    def _listen(self, seconds: float) -> None:
        """Take in what is typed, waiting so long for it or for an alarm."""
        ready, _, _ = select.select([self._alarm[0], *([self._descriptor] if self._take() else [])], [], [], seconds)
        if self._alarm[0] in ready:
            os.read(self._alarm[0], 4096)
        if self._descriptor in ready and not is_background(self._descriptor):
            data = b""
            with _unstopped(), suppress(OSError):
                data = os.read(self._descriptor, 4096)
            self._has_line, self._heard = bool(data), monotonic()
            self._told.extend(self._typing.read(data) if data else [Gone()])
        elif monotonic() >= self._heard + SILENCE:
            self._told.extend(self._typing.time_out())

    def draw(self, what: RenderableType) -> None:
        """Fill the screen; what doesn't fit is cut off."""
        if is_background(KEYBOARD):
            return
        console, size = self._console, self._console.size
        rows = console.render_lines(what, pad=False)[: size.height]
        if self._shown == (size, rows):
            return
        if not self._is_set:
            self._is_set = True
            self._print(Control.alt_screen(True))
            self._print(Control.show_cursor(False))
        written = [_overwriting(row, size.width) for row in [*rows, *([[]] * (size.height - len(rows)))]]
        between = [[Segment.line(), *row] for row in written[1:]]
        self._print(Segments([Control.home().segment, *chain(*written[:1], *between)]))
        self._shown = size, rows

    def _print(self, what: Control | Segments) -> None:
        try:
            self._console.print(what, end="", crop=False)
        except OSError:
            self.tell(Gone())

    def _clear(self) -> None:
        if self._is_set:
            self._print(Control.show_cursor(True))
            self._print(Control.alt_screen(False))
        self._is_set, self._shown = False, None

    # The terminal's settings.

    def _take(self) -> bool:
        """Read every key at once and unechoed, if the terminal is ours; returns whether it is. One that was closed
        needn't send anything, not even an end."""
        if not self._has_line:
            return False
        if is_background(self._descriptor):
            self._before, self._ours = None, False  # who has it now sets it as he likes
            return False
        try:
            found = termios.tcgetattr(self._descriptor)
            if found[3] & termios.ICANON:
                self._before = found
                flags = found[3] & ~(termios.ICANON | termios.ECHO)
                signs = [*found[6]]
                signs[termios.VMIN], signs[termios.VTIME] = 1, 0
                signs[termios.VSUSP] = bytes([os.fpathconf(self._descriptor, "PC_VDISABLE")])
                with _unstopped():
                    termios.tcsetattr(self._descriptor, termios.TCSANOW, [*found[:3], flags, *found[4:6], signs])
                self._write(_ASK_FOR_PASTE + (_ASK_FOR_MOUSE if self._mouse else b""))
        except termios.error:
            self._has_line = self._ours = False
            self.tell(Gone())
            return False
        self._ours = True
        return True

    def _give_back(self) -> None:
        """Leave the terminal as it was found, and drop keys that nobody has read."""
        before, self._before, self._ours = self._before, None, False
        with _unstopped(), suppress(termios.error):
            if before is not None and not is_background(self._descriptor):
                self._write((_LEAVE_MOUSE if self._mouse else b"") + _LEAVE_PASTE)
                termios.tcflush(self._descriptor, termios.TCIFLUSH)
                termios.tcsetattr(self._descriptor, termios.TCSANOW, before)

    def _write(self, sequence: bytes) -> None:
        with suppress(OSError):
            os.write(self._descriptor, sequence)

    def _suspend(self) -> None:
        self._suspending = False
        self._clear()
        self._on_stop()
        self._give_back()
        with on_signals({signal.SIGTSTP: None}):
            os.kill(os.getpid(), signal.SIGTSTP)
        self._on_continue()

    # A signal may interrupt anything: its handler only takes a note, and wakes ``next``.

    def _end(self, number: signal.Signals) -> None:
        self._ending = SystemExit(128 + number)
        self.tell(None)

    def _ask_to_suspend(self) -> None:
        self._suspending = True
        self.tell(None)

    def _wake_anew(self) -> None:
        self._shown = None
        self.tell(None)


@contextmanager
def _unstopped() -> Iterator[None]:
    """A job that reads or sets the terminal is stopped when it has just gone into the background; not so in here."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTIN, signal.SIGTTOU})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _overwriting(row: list[Segment], width: int) -> list[Segment]:
    """The row, and what erases the rest of its line; after the last column that would erase a character."""
    used = sum(segment.cell_length for segment in row)
    return [*row, Control((ControlType.ERASE_IN_LINE, 0)).segment] if used < width else row
