"""Ends a process and all that descends from it with the arena, even if the arena is killed.

A guardian starts the process as its child and waits at one end of a socket, the lifeline, whose other end only the
arena has. It writes there how the process ended. When the lifeline is closed, the guardian ends everything below it. On
Linux it inherits every orphan of its descendants (PR_SET_CHILD_SUBREAPER), so one that left its session and cleared its
environment is found, too. Elsewhere only the process group is.

As a script, ``guard.py LIFELINE PROGRAM ARGUMENT...`` guards an engine. It imports nothing of ours, to start at once.
"""

import ctypes
import os
import select
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from time import monotonic, sleep

END_SECONDS = 1.0  # between SIGTERM and SIGKILL
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # of prctl(2)
MARK = "ARENA_ENGINE"  # the environment variable that marks an engine and its descendants
IS_LINUX = sys.platform == "linux"


def guard(lifeline: int, run: Callable[[], None]) -> None:
    """Fork: the child calls ``run`` in a session of its own and exits; this process guards it and never returns."""
    if IS_LINUX:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    guardian, child = os.getpid(), os.fork()
    if not child:
        if IS_LINUX:  # if the guardian is killed
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != guardian:
            os._exit(1)
        os.setsid()
        os.close(lifeline)
        run()
        os._exit(0)
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.closerange(3, lifeline)
    os.closerange(lifeline + 1, os.sysconf("SC_OPEN_MAX"))
    with suppress(OSError):
        _watch(lifeline, child)
    _end_children(child)
    os._exit(0)


def _watch(lifeline: int, child: int) -> None:
    """Reap processes and write the child's wait status (4 bytes) until the arena's end of the lifeline is closed."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        for process, status in _reap():
            if process == child:
                os.write(lifeline, status.to_bytes(4, "little"))
        ready, _, _ = select.select([lifeline, read], [], [])
        if lifeline in ready:
            return
        os.read(read, 1024)


def _reap() -> list[tuple[int, int]]:
    found = []
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            found.append(ended)
    return found


def _end_children(group: int) -> None:
    """End the group and this process's children, which orphans of theirs become: SIGTERM, then SIGKILL until none is
    left."""
    until, number = monotonic() + END_SECONDS, signal.SIGTERM
    signalled = set[int]()
    while True:
        with suppress(OSError):
            if number is signal.SIGKILL or not signalled:
                os.killpg(group, number)
        children = _children()
        for process in children if number is signal.SIGKILL else {*children} - signalled:
            with suppress(OSError):
                os.kill(process, number)
        signalled.update(children, [group])
        _reap()
        if number is signal.SIGKILL and not children:
            return
        if not children or monotonic() > until:
            number = signal.SIGKILL
        else:
            sleep(0.005)


def _children() -> list[int]:
    """The children of this process; none on systems other than Linux."""
    found = []
    for name in os.listdir("/proc") if IS_LINUX else ():
        with suppress(OSError, ValueError, IndexError), open(f"/proc/{int(name)}/stat", "rb") as file:
            if int(file.read().rpartition(b")")[2].split()[1]) == os.getpid():
                found.append(int(name))
    return found


def _execute(command: list[str]) -> None:
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execv(command[0], command)
    except OSError as error:
        os.write(2, f"it can't be started: {error.strerror}\n".encode())
    os._exit(127)


# --- In the arena, where a guardian was killed ---


def kill_marked(mark: str) -> None:
    """Kill all other processes whose mark in the environment begins with ``mark`` (Linux). An engine's mark is the
    number of the process that started it, then its own: ``123-45-``."""
    entry = f"{MARK}={mark}".encode()
    while True:
        found = []
        for name in os.listdir("/proc") if IS_LINUX else ():
            with suppress(OSError, ValueError), open(f"/proc/{int(name)}/environ", "rb") as file:
                if int(name) != os.getpid() and any(each.startswith(entry) for each in file.read().split(b"\0")):
                    found.append(int(name))
        if not found:
            return
        for process in found:
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        sleep(0.02)  # while a process executes a program, its environment may be empty


if __name__ == "__main__":
    guard(int(sys.argv[1]), lambda: _execute(sys.argv[2:]))
