"""A command in a terminal, as a person sees and uses it: a real pty, a screen (pyte), a shell of one job. No tests."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from time import monotonic
from typing import Any, Self

import pyte
from helpers.commandline import environment

SHELL = """
import fcntl, os, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
job = os.fork()
if not job:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    for number in (signal.SIGTTOU, signal.SIGHUP, signal.SIGINT):  # under nohup, a job would be deaf to the last two
        signal.signal(number, signal.SIG_DFL)
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
os.write(1, b"job %d\\n" % job)
while True:
    _, status = os.waitpid(job, os.WUNTRACED)
    os.tcsetpgrp(0, os.getpgrp())
    if not os.WIFSTOPPED(status):
        break
    flags = termios.tcgetattr(0)[3]
    os.write(1, b"stopped, %s\\n" % (b"sane" if flags & termios.ICANON and flags & termios.ECHO else b"not sane"))
    os.read(0, 100)
    os.tcsetpgrp(0, job)
    os.killpg(job, signal.SIGCONT)
os.write(1, b"ended with %d\\n" % os.waitstatus_to_exitcode(status))
"""
"""Runs one Python program in the foreground. When it is stopped, a line typed continues it."""

PATIENCE = 180.0


class Screen(pyte.Screen):
    """A screen with a second one, which programs that fill all of it ask for, as real terminals have it."""

    _SECOND = 1049

    def set_mode(self, *modes: int, **more: Any) -> None:
        super().set_mode(*modes, **more)
        if self._SECOND in modes and more.get("private"):
            self._first = deepcopy((self.buffer, self.cursor.x, self.cursor.y))
            self.erase_in_display(2)

    def reset_mode(self, *modes: int, **more: Any) -> None:
        super().reset_mode(*modes, **more)
        if self._SECOND in modes and more.get("private"):
            self.buffer, self.cursor.x, self.cursor.y = self._first
            self.ensure_vbounds()
            self.ensure_hbounds()


class Terminal:
    """A context in which an ``arena`` command runs in a terminal of 80 columns and 24 lines."""

    def __init__(self, *command: str, cwd: Path):
        self.screen = Screen(80, 24)
        self._stream = pyte.ByteStream(self.screen)
        self._command = [sys.executable, "-c", SHELL, "-m", "arena", *command]
        self._cwd = cwd
        self._ours, self._theirs = pty.openpty()

    def __enter__(self) -> Self:
        self.resize(self.screen.columns, self.screen.lines)
        self.before = termios.tcgetattr(self._theirs)
        usual = environment(PYTHONUTF8="1")
        ends = dict.fromkeys(("stdin", "stdout", "stderr"), self._theirs)
        self._process = subprocess.Popen(self._command, **ends, cwd=self._cwd, env=usual, start_new_session=True)
        self.job = self._number_after("job ")
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)
        os.close(self._theirs)

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.screen.display]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def is_sane(self) -> bool:
        """Whether all is as it was before the program came: settings and cursor."""
        return termios.tcgetattr(self._theirs) == self.before and not self.screen.cursor.hidden

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def resize(self, width: int, height: int) -> None:
        self.screen.resize(height, width)
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def until(self, is_shown: str | Callable[[list[str]], Any]) -> None:
        """Wait until these words, or whatever is asked for, are on the screen."""
        end = monotonic() + PATIENCE
        while not (is_shown in self.text if isinstance(is_shown, str) else is_shown(self.lines)):
            ready, _, _ = select.select([self._ours], [], [], max(0.0, end - monotonic()))
            assert ready and "ended with " not in self.text, f"waited for {is_shown} in vain:\n{self.text}"
            self._stream.feed(os.read(self._ours, 65536))

    def until_it_ends(self) -> int:
        """Wait for the end of the program; returns its exit status."""
        return self._number_after("ended with ")

    def _number_after(self, words: str) -> int:
        self.until(lambda lines: any(line.startswith(words) for line in lines))
        return int(next(line for line in self.lines if line.startswith(words)).removeprefix(words))
