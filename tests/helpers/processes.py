"""What processes that are killed leave behind: other processes, temporary files, shared memory (Linux). No tests."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

MEMORY = Path("/dev/shm")
OURS = ("pym-", "psm_", "sem.mp-", "torch_")
"""How the names begin of what Python and torch keep there; other programs of the machine have theirs."""


def processes(folder: Path) -> list[str]:
    """The command lines of the processes that keep temporary files in this folder; of those that run, even stopped."""
    return [line for _, line in processes_of(folder)]


def processes_of(folder: Path) -> Iterator[tuple[int, str]]:
    """Their numbers and command lines."""
    mark = f"TMPDIR={folder}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (process / "environ").read_bytes().split(b"\0"):
                state = (process / "stat").read_text().rpartition(")")[2].split()[0]
                if state != "Z":
                    yield int(process.name), (process / "cmdline").read_text().replace("\0", " ")


def end_of(folder: Path) -> list[str]:
    """The processes that still run after two minutes, none as soon as all have ended."""
    until = monotonic() + 120
    while (left := processes(folder)) and monotonic() < until:
        sleep(0.02)
    return left


def shared_memory() -> set[str]:
    """The names of the shared memory and semaphores that no process has mapped."""
    names = {}
    for path in (path for path in MEMORY.glob("*") if path.name.startswith(OURS)):
        with suppress(OSError):
            names[path.stat().st_ino] = path.name
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with suppress(OSError):
            lines = [line.split() for line in maps.read_text().splitlines() if f"{MEMORY}/" in line]
            for words in lines:
                names.pop(int(words[4]), None)  # by name it isn't found: a semaphore's is that of its first moment
    return set(names.values())


def family(process: int) -> dict[str, list[int]]:
    """An arena's process numbers by what they are: ``server`` starts the ``worker``s, and these each ``engine``, with
    its ``watcher`` and its own processes, the ``helper``s."""
    found: dict[str, list[int]] = {"parent": [process]}

    def add(kind: str, number: int) -> None:
        if number not in found.setdefault(kind, []):  # a watcher has more than one child
            found[kind].append(number)

    for child in children(process):
        if "resource_tracker" in command(child):
            add("tracker", child)
        elif "forkserver" in command(child):
            add("server", child)
            for worker in children(child):
                add("worker", worker)
                for watcher in children(worker):
                    for engine in children(watcher) if "guard.py" in command(watcher) else ():
                        if "guard.py" not in command(engine):  # else it is starting
                            add("watcher", watcher)
                            add("engine", engine)
                            found.setdefault("helper", []).extend(children(engine))
    return found


def watchers(arena: int) -> list[int]:
    """The processes that end the engines of an arena's process when that is killed."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            mark = f"ARENA_ENGINE={arena}-".encode()
            if "guard.py" in command(int(process.name)) and mark in (process / "environ").read_bytes():
                found.append(int(process.name))
    return found


def children(process: int) -> list[int]:
    """The processes that any of its threads started."""
    with suppress(OSError):
        threads = Path(f"/proc/{process}/task").glob("*/children")
        return [int(child) for thread in threads for child in thread.read_text().split()]
    return []


def command(process: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")
    return ""


SCRIPTED = Path(__file__).parents[1] / "engines" / "scripted.py"


def pids(log: Path) -> list[int]:
    return [int(line.split()[1]) for line in log.read_text().splitlines() if line.startswith("pid ")]


def end(processes: list[int]) -> bool:
    """Whether all the processes are gone, or only wait to be collected; a killed one gets a moment."""
    until = time.monotonic() + 60
    while any(map(runs, processes)):
        if time.monotonic() > until:
            return False
    return True


def runs(process: int) -> bool:
    if not Path("/proc/self").exists():
        shown = subprocess.run(["ps", "-o", "stat=", "-p", f"{process}"], capture_output=True, text=True).stdout
        return bool(shown) and not shown.startswith("Z")
    with suppress(OSError):
        return ") Z " not in Path(f"/proc/{process}/stat").read_text()
    return False
