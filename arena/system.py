"""The resources of this process: processors, memory, open files, and the time in which it could run."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread
from time import monotonic, sleep
from typing import TypeVar

from arena import BotKilled

T = TypeVar("T")

START_PAUSES = (0.0, 0.1, 0.3, 1.0)  # seconds before a process that was killed as it started is started again


def cores(groups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int:
    """The number of processors for this process: its affinity, or less by a CPU quota (Linux control groups, v2)."""
    least = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    with suppress(OSError):
        place = groups / own.read_text().rpartition("0::")[2].strip("/\n")
        for group in [place, *place.parents][: len(place.parts) - len(groups.parts) + 1]:
            with suppress(OSError, ValueError):  # there is no file, or it says "max"
                quota, period = (group / "cpu.max").read_text().split()
                least = min(least, int(quota) / int(period))
    return max(1, int(least))


def allow_open_files(needed: int) -> int:
    """Raise the limit of open files by ``needed``, as far as allowed; returns how many more can be opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/dev/fd"))
    most = max(soft, hard) if hard != resource.RLIM_INFINITY else max(soft, used + needed)
    if used + needed > soft != resource.RLIM_INFINITY:
        soft = min(used + needed, most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return needed if soft == resource.RLIM_INFINITY else soft - used


def retry_killed(start: Callable[[], T]) -> T:
    """Start a process, again after growing pauses if it is killed as it starts. Raises BotKilled in the end."""
    for pause in START_PAUSES:
        with suppress(BotKilled):
            return start()
        sleep(pause)
    return start()


class RunningClock:
    """A monotonic clock that doesn't count the time in which this process was stopped, by SIGSTOP, a debugger or a
    pause of its container. Such standstills are noticed after ``start`` was called."""

    TICK_SECONDS, STANDSTILL_SECONDS = 0.25, 1.0  # between two readings; a longer gap than the second is a standstill

    def __init__(self) -> None:
        self._lock, self._stood, self._last, self._runs = Lock(), 0.0, 0.0, False
        self._on_standstill: Callable[[float], None] = lambda seconds: None

    def start(self, on_standstill: Callable[[float], None]) -> None:
        """Begin to notice standstills; ``on_standstill`` is called with the seconds of each, in any thread."""
        self._on_standstill, self._last, self._runs = on_standstill, monotonic(), True

        def tick() -> None:
            while True:
                sleep(self.TICK_SECONDS)
                self()

        Thread(target=tick, daemon=True).start()

    def __call__(self) -> float:
        with self._lock:
            now = monotonic()
            if self._runs and now - self._last > self.STANDSTILL_SECONDS:
                self._stood += now - self._last
                self._on_standstill(now - self._last)
            self._last = now
            return now - self._stood


running_clock = RunningClock()  # of this process
