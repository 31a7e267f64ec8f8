"""What processes that are killed leave behind: other processes, temporary files, shared memory (Linux). No tests."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

MEMORY = Path("/dev/shm")


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


def end_of(folder: Path, seconds: float = 30.0) -> list[str]:
    """The processes that still run after so many seconds, none as soon as all have ended."""
    until = monotonic() + seconds
    while (left := processes(folder)) and monotonic() < until:
        sleep(0.02)
    return left


def shared_memory() -> set[str]:
    """The names of the shared memory and semaphores that no process has mapped."""
    names = {}
    for path in MEMORY.glob("*"):
        with suppress(OSError):
            names[path.stat().st_ino] = path.name
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with suppress(OSError):
            lines = [line.split() for line in maps.read_text().splitlines() if f"{MEMORY}/" in line]
            for words in lines:
                names.pop(int(words[4]), None)  # by name it isn't found: a semaphore's is that of its first moment
    return set(names.values())


def family(process: int) -> dict[str, list[int]]:
    """An arena's process numbers by what they are: ``server`` starts the ``worker``s, and a ``guard`` the ``engine``,
    whose own processes are ``helper``s."""
    found: dict[str, list[int]] = {"parent": [process]}

    def add(kind: str, number: int) -> None:
        found.setdefault(kind, []).append(number)

    for child in children(process):
        if "resource_tracker" in command(child):
            add("tracker", child)
        elif "forkserver" in command(child):
            add("server", child)
            for worker in children(child):
                add("worker", worker)
                for guard in children(worker):
                    add("guard", guard)
                    for below in children(guard):
                        add("engine" if "scripted.py" in command(below) else "helper", below)
    return found


def children(process: int) -> list[int]:
    with suppress(OSError):
        return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    return []


def command(process: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")
    return ""
