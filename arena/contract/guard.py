"""Starts an engine, and ends it with all of its descendants, even if the arena is killed.

Run as a script, ``guard.py LIFELINE PROGRAM ARGUMENT...`` forks a watcher and becomes the engine. The watcher waits at
one end of a socket, whose other end only the arena has open; the arena ends an engine whose watcher has died. The
engine's processes are found by their process group and, on Linux, by a mark in their environment, which also finds
those that began a session of their own. It imports nothing of ours, so that it starts at once.
"""

import os
import signal
import sys
from contextlib import suppress
from time import monotonic, sleep

GRACE = 1.0  # seconds between SIGTERM and SIGKILL
UNSEEN = 0.02  # seconds for which the environment of a process may be empty during exec
MARK = "ARENA_ENGINE"  # the environment variable that marks an engine and its descendants


def marked(mark: str) -> list[int]:
    """All other processes whose mark begins with ``mark``; none on systems other than Linux."""
    entry, found = f"{MARK}={mark}".encode(), []
    for name in os.listdir("/proc") if sys.platform == "linux" else ():
        with suppress(OSError, ValueError), open(f"/proc/{int(name)}/environ", "rb") as file:
            if int(name) != os.getpid() and any(each.startswith(entry) for each in file.read().split(b"\0")):
                found.append(int(name))
    return found


def end(group: int, mark: str) -> None:
    """End a group of processes and all those with this mark: SIGTERM, then SIGKILL."""
    with suppress(OSError):
        os.killpg(group, signal.SIGTERM)
    until = monotonic() + GRACE
    while monotonic() < until and (sys.platform != "linux" or marked(mark)):
        sleep(0.01)
    with suppress(OSError):
        os.killpg(group, signal.SIGKILL)
    sleep(UNSEEN)
    kill_marked(mark)


def kill_marked(mark: str) -> None:
    """Kill all processes whose mark begins with ``mark``. An engine's mark is the number of the process that started
    it, then its own: ``123-45-``."""
    while processes := marked(mark):
        for process in processes:
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        sleep(UNSEEN)


def watch(lifeline: int, group: int) -> None:
    """End the engine as soon as the arena closes its end of ``lifeline``, or is gone."""
    os.setsid()  # what is sent to the arena's job, or to the engine's, doesn't reach this process
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.read(lifeline, 1)
    end(group, os.environ[MARK])


if __name__ == "__main__":
    lifeline, command = int(sys.argv[1]), sys.argv[2:]
    group = os.getpid()
    if not os.fork():
        if not os.fork():
            watch(lifeline, group)
        os._exit(0)  # the watcher is no child of the engine's
    os.wait()
    os.close(lifeline)
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execv(command[0], command)
    except OSError as error:
        os.write(2, f"it can't be started: {error.strerror}\n".encode())
    os._exit(127)
