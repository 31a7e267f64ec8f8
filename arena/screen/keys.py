"""Keys pressed while a screen is shown: read from the terminal one by one, unseen, and handed on. Nothing is drawn.

Where stdin is no terminal, or while it is another job's, there are no keys.
"""

from __future__ import annotations

import os
import re
import select
import signal
import termios
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import StrEnum
from types import TracebackType
from typing import Any, Self

SILENCE = 0.3
"""Seconds after which a sequence of signs that has not ended is given up; also how soon a terminal is found again."""

PASTED = 16
"""So many signs at once are no typing."""


class Key(StrEnum):
    """What a person can ask of a screen."""

    NEXT = "next"
    PREVIOUS = "previous"
    PAUSE = "pause"
    HELP = "help"
    QUIT = "quit"
    SUSPEND = "suspend"


_SIGNS = {
    b"n": Key.NEXT,
    b"p": Key.PREVIOUS,
    b" ": Key.PAUSE,
    b"?": Key.HELP,
    b"q": Key.QUIT,
    b"\x1a": Key.SUSPEND,  # Ctrl-Z
    b"\x1b[C": Key.NEXT,
    b"\x1bOC": Key.NEXT,
    b"\x1b[D": Key.PREVIOUS,
    b"\x1bOD": Key.PREVIOUS,
}

_BEGUN = re.compile(rb"\x1b(\[[0-?]*[ -/]*|O)?")
"""A sequence of which more may come."""

_SIGN = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1bO[ -~]|\x1b[^\x1b]|.", re.DOTALL)
"""A control sequence (ECMA-48), a key with Alt, or one byte."""

_PASTE, _PASTED = b"\x1b[200~", b"\x1b[201~"
"""What a terminal puts around pasted text, where it is asked to."""


class Typing:
    """Tells keys from what else comes from a terminal: other keys' sequences, and pasted text."""

    def __init__(self) -> None:
        self._rest = b""
        self._pasting = False

    def read(self, data: bytes) -> list[Key]:
        """The keys in what has come, in whatever pieces it comes."""
        if len(data) >= PASTED and b"\x1b" not in data and not self._pasting:
            return []
        text, self._rest = self._rest + data, b""
        found = []
        while text:
            if self._pasting:
                _, ended, after = text.partition(_PASTED)
                if not ended:
                    self._rest = text[1 - len(_PASTED) :]
                    break
                text, self._pasting = after, False
            elif _BEGUN.fullmatch(text):
                self._rest = text
                break
            else:
                match = _SIGN.match(text)
                sign = match[0] if match else text[:1]
                text = text[len(sign) :]
                self._pasting = sign == _PASTE
                key = _SIGNS.get(sign.lower() if len(sign) == 1 else sign)
                if key is not None:
                    found.append(key)
        return found

    def give_up(self) -> None:
        """Nothing has come for a while: Escape was pressed alone, or the end of a paste is lost."""
        self._rest, self._pasting = b"", False


def is_background(descriptor: int) -> bool:
    """Whether this is the terminal that we were started from, and another job has it now."""
    try:
        return os.tcgetpgrp(descriptor) != os.getpgrp()
    except OSError:
        return False


@contextmanager
def on_signals(handlers: Mapping[signal.Signals, Callable[[], None]]) -> Iterator[None]:
    """Have signals handled for as long as the block lasts: those that nobody handles or ignores, in the main thread."""
    before: dict[signal.Signals, Any] = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for number, handle in handlers.items():
                if signal.getsignal(number) is signal.SIG_DFL:
                    before[number] = signal.signal(number, lambda *_, handle=handle: handle())
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Keyboard:
    """A context in which the keys pressed at a terminal come to ``on_key``, in a thread of their own.

    Ctrl-C stays what it is. Ctrl-Z comes as a key, so that only we are stopped, by ``suspend``, and not the processes
    that we have started. The terminal gets its settings back in the end, whatever happens.
    """

    def __init__(self, on_key: Callable[[Key], None], descriptor: int = 0):
        self._on_key = on_key
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
            sources = [self._alarm[0], *([self._descriptor] if self._take() else [])]
            ready, _, _ = select.select(sources, [], [], SILENCE)
            if self._alarm[0] in ready:
                os.read(self._alarm[0], 64)
            elif not ready:
                typing.give_up()
            elif not is_background(self._descriptor):
                try:
                    data = os.read(self._descriptor, 4096)
                except OSError:
                    data = b""
                if not data:  # the terminal is gone
                    return
                for key in typing.read(data):
                    self._on_key(key)

    def _take(self) -> bool:
        """Have every key at once and unseen, if the terminal is ours; says whether it is."""
        with self._lock, suppress(termios.error):
            if self._resting or is_background(self._descriptor):
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
                self._tell(b"\x1b[?2004h")  # paste in brackets
            self._ours = True
            return True
        return False

    def _give_back(self) -> None:
        """Leave the terminal as it was found, without the keys that nobody has read."""
        with self._lock, suppress(termios.error):
            before, self._before, self._ours = self._before, None, False
            if before is not None and not is_background(self._descriptor):
                self._tell(b"\x1b[?2004l")
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
