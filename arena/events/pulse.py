"""The pulse of a process: a thread that beats without the interpreter, and counts how long the process was stopped.

A stop is SIGSTOP, Ctrl-Z, a frozen container or virtual machine: whatever keeps every thread from running. The sleep of
a whole machine isn't counted: the clocks that calls are timed by stand still in it.
"""

from __future__ import annotations

import time
from threading import Thread
from typing import Any

import numpy as np
from numba import types

from arena.go.jit import kernel

BEAT = 0.05
"""Seconds between two beats."""

STOP = 0.5
"""Seconds without a beat from which the process counts as stopped: many times what a busy machine keeps it waiting."""

_CLOCK = getattr(time, "CLOCK_UPTIME_RAW", time.CLOCK_MONOTONIC)  # that of ``time.monotonic``, on macOS and elsewhere

_MICROSECONDS = round(1e6 * BEAT)
_usleep: Any = types.ExternalFunction("usleep", types.int32(types.uint32))
_clock_gettime: Any = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.voidptr))


class Pulse:
    """How long a process has been running, written by itself and read by any that shares the memory.

    Bots may hold the interpreter's lock for as long as they think, so the beats come from compiled code that never
    takes it: a bot that blocks its process is told from a process that is stopped.
    """

    SIZE = 3
    """Doubles of shared memory: seconds lived, seconds stopped, the time of the last beat."""

    def __init__(self, memory: Any):
        """``memory`` is a memoryview of ``SIZE`` doubles."""
        self._memory = memory

    def begin(self) -> None:
        """Let the present process beat, to its end."""
        memory = np.frombuffer(self._memory)
        _beat(_CLOCK, memory, 0)  # compiled or loaded here, where an error is seen
        Thread(target=_beat, args=(_CLOCK, memory, 1 << 62), daemon=True).start()

    @property
    def lived(self) -> float:
        """Seconds since the pulse began, as of the last beat, without those in which the process was stopped."""
        return float(self._memory[0])

    def stopped(self) -> float:
        """Seconds for which the present process was stopped so far, a stop that has just ended included."""
        while time.monotonic() - self._memory[2] > STOP:  # the thread hasn't run since
            time.sleep(BEAT / 10)
        return float(self._memory[1])


@kernel
def _beat(clock: int, memory: Any, beats: int) -> None:
    """Beat this many times. ``memory`` is ``Pulse.SIZE`` float64; each of them is right by itself at any time."""
    now = _now(clock)
    for _ in range(beats):
        last = now
        _usleep(_MICROSECONDS)
        now = _now(clock)
        if now - last > STOP:
            memory[1] += now - last - BEAT
            memory[0] += BEAT
        else:
            memory[0] += now - last
        memory[2] = now


@kernel
def _now(clock: int) -> float:
    """Seconds of a clock of the system."""
    spec = np.zeros(2, np.int64)  # struct timespec
    _clock_gettime(clock, spec.ctypes)
    return spec[0] + 1e-9 * spec[1]
