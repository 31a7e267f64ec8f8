"""How our processes start, and that they end with the one that started them."""

import ctypes
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import current_process, parent_process, resource_tracker
from multiprocessing.context import ForkServerContext, SpawnContext
from pathlib import Path
from threading import Thread
from time import sleep

from arena.contract.guard import PR_SET_PDEATHSIG, kill_marked
from arena.files import scratch

WORKER_EXIT_SECONDS = 3.0  # that a process has to end by itself when its parent is gone
SAFE_PATH = "PYTHONSAFEPATH", "arena"  # keeps a starting Python from looking for modules in the current folder
TERMINAL = (signal.SIGINT, signal.SIGHUP)  # what a terminal sends to all of a job


def start_method() -> ForkServerContext | SpawnContext:
    """How our processes are started: on Linux forked from one process that has imported everything already."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["arena.match.ready"])
    config = getattr(current_process(), "_config", None)  # there is no public way; without it a kill leaves a folder
    if isinstance(config, dict):
        config["tempdir"] = str(scratch())
    return context


@contextmanager
def starting_processes() -> Iterator[None]:
    """Processes that start in this block don't import modules, such as a ``random.py``, from the current folder.
    A terminal's signals are blocked in them until ``ignore_terminal_signals``. This process gets all of them."""
    name, value = SAFE_PATH
    is_ours = os.environ.setdefault(name, value) == value
    before = signal.pthread_sigmask(signal.SIG_BLOCK, TERMINAL)
    try:
        resource_tracker.ensure_running()  # starts with the first process, and would unblock some of it
        signal.pthread_sigmask(signal.SIG_BLOCK, TERMINAL)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if is_ours:
            del os.environ[name]


def ignore_terminal_signals() -> None:
    """Have this process, and those that it starts, ignore the signals that a terminal sends to a whole job."""
    for number in TERMINAL:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, TERMINAL)


def set_parent_death_signal() -> None:
    """Have the system continue this process, if it is stopped, when its parent process ends (Linux, by SIGCONT)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGCONT, 0, 0, 0)


def is_stopped(process: int) -> bool:
    """Whether a process is stopped, by SIGSTOP or a debugger (Linux)."""
    with suppress(OSError, IndexError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    return False


def end_with_parent() -> None:
    """End this process and its engines a few seconds after its parent has ended, even if it hangs or is stopped."""
    signal.signal(signal.SIGCONT, signal.SIG_DFL)  # the process it was forked from handles it
    set_parent_death_signal()

    def wait_and_end() -> None:
        if parent := parent_process():
            parent.join()
            sleep(WORKER_EXIT_SECONDS)
            kill_marked(f"{os.getpid()}-")  # what its bots started, whose watchers may be gone, too
            os._exit(1)

    Thread(target=wait_and_end, daemon=True).start()
