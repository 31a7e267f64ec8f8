"""The process between a worker and its engine: it starts the engine, and ends it with all of its descendants.

Run as a script, ``guard.py LIFELINE PROGRAM ARGUMENT...``. It imports nothing of ours, so that it starts at once.

An engine must not outlive the arena, even one that is stuck when the arena is killed with SIGKILL. So the guard waits
on a pipe that only the arena holds. Where the system has subreapers (Linux), processes that leave the engine's group
or session become the guard's children when their parent ends, and are ended too; elsewhere the group is. When a
guard is killed itself, the arena finds them by a mark in their environment.
"""

import ctypes
import os
import resource
import select
import signal
import sys
from contextlib import suppress
from time import monotonic

GRACE = 1.0
"""Seconds between SIGTERM and SIGKILL."""

IGNORED = (signal.SIGHUP, signal.SIGINT)
DEFAULT = (signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that the guard ignores: the engine ignores the first ones if the arena does, and the others never."""

MARK = "ARENA_ENGINE"
"""The variable that an engine and its descendants are known by."""

SET_PDEATHSIG, SET_CHILD_SUBREAPER = 1, 36  # of prctl(2)


def control(option: int, value: int) -> None:
    """Call prctl(2), where the system has it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def start(command: list[str]) -> int:
    """Start the engine on this process's stdin, stdout and stderr; returns its process id."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (*IGNORED, *DEFAULT)}
    child = os.fork()
    if child:
        return child
    control(SET_PDEATHSIG, signal.SIGKILL)
    for number, handler in before.items():
        if number in DEFAULT or handler is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    try:
        os.execv(command[0], command)
    except OSError as error:
        os.write(2, f"it can't be started: {error.strerror}\n".encode())
    os._exit(127)


def children() -> list[int]:
    """The children of this process; on systems that don't list them, none."""
    with suppress(OSError), open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(child) for child in file.read().split()]
    return []


def end_marked(mark: str) -> None:
    """Kill all processes with this mark; none on systems that don't show environments."""
    entry = f"{MARK}={mark}".encode()
    processes = [int(name) for name in os.listdir("/proc") if name.isdigit()] if sys.platform == "linux" else []
    for process in processes:
        with suppress(OSError), open(f"/proc/{process}/environ", "rb") as file:
            if entry in file.read().split(b"\0"):
                os.kill(process, signal.SIGKILL)


def run(lifeline: int, command: list[str]) -> int:
    """Run the engine to its end, or until ``lifeline`` closes; returns its wait status, with no descendant left."""
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    engine = start(command)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    statuses: dict[int, int] = {}
    until = None
    while engine not in statuses and (until is None or monotonic() < until):
        waits = (woken,) if until else (woken, lifeline)
        ready, _, _ = select.select(waits, (), (), until and max(0.0, until - monotonic()))
        if lifeline in ready:
            os.killpg(0, signal.SIGTERM)
            until = monotonic() + GRACE
        if woken in ready:
            os.read(woken, 1 << 10)
            reap(statuses, os.WNOHANG)
    while reap(statuses, os.WNOHANG):
        for child in children() or [engine]:
            os.kill(child, signal.SIGKILL)  # its own children become children of this process
        reap(statuses, 0)
    return statuses[engine]


def reap(statuses: dict[int, int], options: int) -> bool:
    """Collect children that have ended, the first one only if it is waited for. Whether any child is left."""
    with suppress(ChildProcessError):
        while True:
            process, status = os.waitpid(-1, options)
            if process:
                statuses[process] = status
            if not process or not options:
                return True
    return False


def end_as(status: int) -> None:
    """End this process as another one has ended."""
    if os.WIFSIGNALED(status):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with suppress(OSError):  # SIGKILL always does what it does by default
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


if __name__ == "__main__":
    control(SET_CHILD_SUBREAPER, 1)
    lifeline = int(sys.argv[1])
    os.set_inheritable(lifeline, False)
    end_as(run(lifeline, sys.argv[2:]))
