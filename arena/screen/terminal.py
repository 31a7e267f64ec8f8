"""The terminal: the keyboard and the mouse in raw mode, and one screen for a person.

``Typing`` parses bytes, ``Keyboard`` reads them, ``Stage`` takes the whole screen as editors do. No layout is here, and
no key but Ctrl-Z has a meaning.
"""

from __future__ import annotations

import os
import re
import select
import signal
import termios
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto
from itertools import chain
from queue import Empty, SimpleQueue
from types import TracebackType
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


class Keyboard:
    """A context in which a thread passes what is typed at a terminal to ``on_typed``, with ``mouse`` the mouse too.

    Where the descriptor isn't a terminal, or while another job has it, nothing is typed. Ctrl-C stays what it is.
    Ctrl-Z comes as a key, so that ``suspend`` stops only this process and not those that it has started. The terminal
    gets its settings back in the end, whatever happens.
    """

    def __init__(self, on_typed: Callable[[Typed], None], descriptor: int = KEYBOARD, mouse: bool = False):
        self._on_typed = on_typed
        self._mouse = mouse
        self._descriptor = descriptor
        self._lock = threading.Lock()  # of the terminal's settings
        self._before: list[Any] | None = None  # what they were before we set them
        self._ours = False  # every key comes to us
        self._resting = False
        self._over = False
        self._reader: threading.Thread | None = None
        self._alarm: tuple[int, int] = (-1, -1)  # a pipe that wakes the reader

    def __enter__(self) -> Self:
        if os.isatty(self._descriptor):
            self._take()
            self._alarm = os.pipe()
            self._reader = threading.Thread(target=self._run, name="keyboard", daemon=True)
            self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._reader is not None:
            self._over = self._resting = True
            try:
                self._wake()
                self._reader.join()
                for end in self._alarm:
                    os.close(end)
            finally:  # a second Ctrl-C may come here
                self._give_back()

    @property
    def is_on(self) -> bool:
        """Whether keys are heard now."""
        return self._ours

    def suspend(self) -> None:
        """Stop this process as Ctrl-Z does, with the terminal as it was found; returns when the process goes on."""
        self._resting = True
        self._give_back()
        with on_signals({signal.SIGTSTP: None}):
            os.kill(os.getpid(), signal.SIGTSTP)
        self._resting = False
        if self._reader is not None:
            self._take()
            self._wake()

    def _wake(self) -> None:
        os.write(self._alarm[1], b".")

    def _run(self) -> None:
        # A job that reads or sets the terminal is stopped when it has just gone into the background; not so this one.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTIN, signal.SIGTTOU})
        typing = Typing()
        while not self._over:
            if self._is_gone():
                self._on_typed(Gone())
                return
            sources = [self._alarm[0], *([self._descriptor] if self._take() else [])]
            ready, _, _ = select.select(sources, [], [], SILENCE)
            found: list[Typed] = []
            if self._alarm[0] in ready:
                os.read(self._alarm[0], 64)
            elif not ready:
                found = typing.time_out()
            elif not is_background(self._descriptor):
                try:
                    data = os.read(self._descriptor, 4096)
                except OSError:
                    data = b""
                if not data:
                    self._on_typed(Gone())
                    return
                found = typing.read(data)
            for typed in found:
                self._on_typed(typed)

    def _is_gone(self) -> bool:
        """Whether the terminal was closed; it needn't send anything then, not even an end."""
        try:
            termios.tcgetattr(self._descriptor)
        except termios.error:
            return True
        return False

    def _take(self) -> bool:
        """Read every key at once and unechoed, if the terminal is ours; returns whether it is."""
        with self._lock, suppress(termios.error):
            if self._resting:
                return False
            if is_background(self._descriptor):
                self._before, self._ours = None, False  # who has it now sets it as he likes
                return False
            found = termios.tcgetattr(self._descriptor)
            if found[3] & termios.ICANON:
                self._before = found
                flags = found[3] & ~(termios.ICANON | termios.ECHO)
                signs = [*found[6]]
                signs[termios.VMIN], signs[termios.VTIME] = 1, 0
                signs[termios.VSUSP] = bytes([os.fpathconf(self._descriptor, "PC_VDISABLE")])
                termios.tcsetattr(self._descriptor, termios.TCSANOW, [*found[:3], flags, *found[4:6], signs])
                self._write(_ASK_FOR_PASTE + (_ASK_FOR_MOUSE if self._mouse else b""))
            self._ours = True
            return True
        return False

    def _give_back(self) -> None:
        """Leave the terminal as it was found, and drop keys that nobody has read."""
        with self._lock, suppress(termios.error):
            before, self._before, self._ours = self._before, None, False
            if before is not None and not is_background(self._descriptor):
                self._write((_LEAVE_MOUSE if self._mouse else b"") + _LEAVE_PASTE)
                termios.tcflush(self._descriptor, termios.TCIFLUSH)
                termios.tcsetattr(self._descriptor, termios.TCSANOW, before)

    def _write(self, sequence: bytes) -> None:
        with suppress(OSError):
            os.write(self._descriptor, sequence)


# --- The whole screen ---


def has_stage(console: Console) -> bool:
    """Whether a person sits at a terminal that can show a screen and sends keys."""
    return console.is_terminal and not console.is_dumb_terminal and os.isatty(KEYBOARD)


class Stage:
    """A context in which the terminal shows what ``draw`` is given, on the alternate screen: what was there before
    comes back in the end, whatever happens. While another job has the terminal, nothing is drawn.

    ``next`` raises SystemExit on SIGTERM and SIGHUP, KeyboardInterrupt on Ctrl-C. Ctrl-Z stops the process; ``on_stop``
    is called before, ``on_continue`` after it.
    """

    def __init__(
        self,
        console: Console,
        on_stop: Callable[[], None] = lambda: None,
        on_continue: Callable[[], None] = lambda: None,
        mouse: bool = True,
    ):
        self._console = console
        self._on_stop = on_stop
        self._on_continue = on_continue
        self._told: SimpleQueue[Any] = SimpleQueue()
        self._keyboard = Keyboard(self._told.put, KEYBOARD, mouse)
        self._exits = ExitStack()
        self._ending: SystemExit | None = None
        self._suspending = False
        self._is_set = False  # the alternate screen is shown
        self._shown: tuple[ConsoleDimensions, list[list[Segment]]] | None = None

    def __enter__(self) -> Self:
        handlers = {
            signal.SIGTERM: lambda: self._end(signal.SIGTERM),
            signal.SIGHUP: lambda: self._end(signal.SIGHUP),
            signal.SIGWINCH: self._wake,
            signal.SIGTSTP: self._ask_to_suspend,
            signal.SIGCONT: self._wake_anew,
        }
        with ExitStack() as exits:
            exits.enter_context(on_signals(handlers))
            exits.callback(self._clear)
            exits.enter_context(self._keyboard)
            self._exits = exits.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exits.close()

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        return self._console.width, self._console.height

    @property
    def hears(self) -> bool:
        """Whether keys are heard now."""
        return self._keyboard.is_on

    @property
    def is_behind(self) -> bool:
        """Whether more has come already: what is drawn now would be outdated at once."""
        return not self._told.empty()

    def tell(self, what: object) -> None:
        """Have ``next`` return this in its turn. For other threads."""
        self._told.put(what)

    def next(self, seconds: float | None = None) -> Any:
        """What was typed (a ``Typed``) or told; None after so many seconds, or when the screen is to be drawn again.
        Raises SystemExit when the process is to end."""
        what: Any = None
        with suppress(Empty):
            what = self._told.get(timeout=seconds)
        if self._ending is not None:
            raise self._ending
        if self._suspending or what == Press("ctrl-z"):
            self._suspend()
            return None
        return what

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
            self._told.put(Gone())

    def _clear(self) -> None:
        if self._is_set:
            self._print(Control.show_cursor(True))
            self._print(Control.alt_screen(False))
        self._is_set, self._shown = False, None

    def _suspend(self) -> None:
        self._suspending = False
        self._clear()
        self._on_stop()
        self._keyboard.suspend()
        self._on_continue()

    # A signal may interrupt anything: its handler only takes a note, and wakes ``next``.

    def _end(self, number: signal.Signals) -> None:
        self._ending = SystemExit(128 + number)
        self._wake()

    def _ask_to_suspend(self) -> None:
        self._suspending = True
        self._wake()

    def _wake(self) -> None:
        self._told.put(None)

    def _wake_anew(self) -> None:
        self._shown = None
        self._wake()


def _overwriting(row: list[Segment], width: int) -> list[Segment]:
    """The row, and what erases the rest of its line; after the last column that would erase a character."""
    used = sum(segment.cell_length for segment in row)
    return [*row, Control((ControlType.ERASE_IN_LINE, 0)).segment] if used < width else row
