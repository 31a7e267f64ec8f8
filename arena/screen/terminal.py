"""What is typed while a screen is shown: read from the terminal at once, unseen, and handed on. Nothing is drawn.

Where stdin is no terminal, or while it is another job's, there are no keys.
"""

from __future__ import annotations

import os
import select
import signal
import termios
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import StrEnum
from types import TracebackType
from typing import Any, Self

from arena.screen.typed import Gone, Press, Typed, Typing

SILENCE = 0.3
"""Seconds after which a sequence of signs that has not ended is given up; also how soon a terminal is found again."""


class Key(StrEnum):
    """What a person can ask of a screen that shows an event."""

    NEXT = "next"
    PREVIOUS = "previous"
    PAUSE = "pause"
    HELP = "help"
    QUIT = "quit"
    SUSPEND = "suspend"

    @classmethod
    def of(cls, typed: Typed) -> Key | None:
        """What is asked for by what was typed, if anything."""
        return _KEYS.get(typed.key.lower()) if isinstance(typed, Press) else None


_KEYS = {
    "n": Key.NEXT,
    "right": Key.NEXT,
    "p": Key.PREVIOUS,
    "left": Key.PREVIOUS,
    " ": Key.PAUSE,
    "?": Key.HELP,
    "q": Key.QUIT,
    "ctrl-z": Key.SUSPEND,
}

_ASK_FOR_PASTE, _LEAVE_PASTE = b"\x1b[?2004h", b"\x1b[?2004l"
_ASK_FOR_MOUSE, _LEAVE_MOUSE = b"\x1b[?1000h\x1b[?1003h\x1b[?1006h", b"\x1b[?1006l\x1b[?1003l\x1b[?1000l"
"""What a terminal is asked to tell: presses, moves, and both in numbers that go as far as the terminal does."""


def is_background(descriptor: int) -> bool:
    """Whether this is the terminal that we were started from, and another job has it now."""
    try:
        return os.tcgetpgrp(descriptor) != os.getpgrp()
    except OSError:
        return False


@contextmanager
def on_signals(handlers: Mapping[signal.Signals, Callable[[], None]]) -> Iterator[None]:
    """Have signals handled for as long as the block lasts: those that aren't ignored, in the main thread."""
    before: dict[signal.Signals, Any] = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for number, handle in handlers.items():
                if signal.getsignal(number) is not signal.SIG_IGN:
                    before[number] = signal.signal(number, lambda *_, handle=handle: handle())
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Keyboard:
    """A context in which what is typed at a terminal comes to ``on_typed``, in a thread of its own; with ``mouse``,
    what is done with the mouse too, where the terminal tells it.

    Ctrl-C stays what it is. Ctrl-Z comes as a key, so that only we are stopped, by ``suspend``, and not the processes
    that we have started. The terminal gets its settings back in the end, whatever happens.
    """

    def __init__(self, on_typed: Callable[[Typed], None], descriptor: int = 0, mouse: bool = False):
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
        with _default(signal.SIGTSTP):
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
                found = typing.give_up()
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
        """Have every key at once and unseen, if the terminal is ours; says whether it is."""
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
                self._tell(_ASK_FOR_PASTE + (_ASK_FOR_MOUSE if self._mouse else b""))
            self._ours = True
            return True
        return False

    def _give_back(self) -> None:
        """Leave the terminal as it was found, without the keys that nobody has read."""
        with self._lock, suppress(termios.error):
            before, self._before, self._ours = self._before, None, False
            if before is not None and not is_background(self._descriptor):
                self._tell((_LEAVE_MOUSE if self._mouse else b"") + _LEAVE_PASTE)
                termios.tcflush(self._descriptor, termios.TCIFLUSH)
                termios.tcsetattr(self._descriptor, termios.TCSANOW, before)

    def _tell(self, words: bytes) -> None:
        with suppress(OSError):
            os.write(self._descriptor, words)


@contextmanager
def _default(number: signal.Signals) -> Iterator[None]:
    """Let a signal do for the moment of a block what it does to a process that doesn't handle it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(number, before)
