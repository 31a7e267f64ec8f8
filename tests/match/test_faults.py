"""A disk that fails at the n-th write, sync or rename, that is full, and power that goes: nothing that was told as
stored is lost, and what fails says so in one line."""

import ctypes
import json
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from helpers.commandline import environment

SOURCE = Path(__file__).parents[1] / "faulty_disk.c"
KINDS = {"an error": 1, "no room once": 2, "a short write": 3, "a full disk": 4, "an end": 5}
GAMES = 6


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("cc") is None or sys.platform != "linux":
        pytest.skip("the disk that fails is compiled, for Linux")
    path = tmp_path_factory.mktemp("disk") / "faulty_disk.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", path, SOURCE, "-ldl"], check=True)
    return path


@pytest.mark.parametrize(
    ("what", "step"),
    [("faults", 150), ("power", 40), *(pytest.param(what, 1, marks=pytest.mark.slow) for what in ("faults", "power"))],
)
def test_nothing_told_as_stored_is_lost_by_a_disk_that_fails_or_with_the_power(
    library: Path, tmp_path: Path, what: str, step: int
) -> None:
    """This file is run on the disk, and prints what goes wrong."""
    command = [sys.executable, __file__, str(tmp_path), what, str(step)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(LD_PRELOAD=str(library)))
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


# --- What is done on the disk, and what has to be there then ---

Told = Callable[[str], None]


def play(folder: Path, told: Told) -> None:
    """A match to its end, from wherever it stands, with what the command does around it."""
    from arena.cli.events import ratings_written, store_event
    from arena.match.runner import play_event
    from arena.report.style import Console
    from arena.results.event_state import EventState
    from arena.results.store import Store

    match = the_match()
    with Store.of(folder, write=True) as store:
        store_event(store, match)
        with ratings_written(EventState(match), store, Console(quiet=True), folder):
            for update in play_event(match, store, PassingCrew(match)):
                for record in update.records:
                    told(record.id)


def the_match() -> Any:
    from arena.go.game import Rules
    from arena.match.schedule import Match, Terms
    from arena.players.registry import Registry

    first, second = map(Registry().resolve, ("fast-random", "random"))
    return Match(first, second, Terms(Rules.preset("cgos", 5)), GAMES)


class PassingCrew:
    """A crew that plays in this process: games of two passes."""

    def __init__(self, match: Any):
        self._rules, self._waiting = match.terms.rules, []

    def add(self, pairings: Any, had_begun: Any) -> None:
        self._waiting += pairings

    @property
    def is_busy(self) -> bool:
        return bool(self._waiting)

    def poll(self, timeout: float) -> Any:
        from arena.match.crew import Update
        from arena.match.game_loop import LiveGame

        live = LiveGame.begin(self._waiting.pop(0), self._rules)
        for _ in range(2):
            live.game.play(25)
        return Update((live.record(),))

    def stop(self) -> list[Any]:
        return []

    def pause(self, paused: bool) -> None:
        pass

    finish = stop


def half_played(folder: Path) -> None:
    from arena.results.store import Store

    play(folder, lambda _: None)
    with Store.of(folder, write=True) as store:
        store._connection.execute("DELETE FROM games WHERE seq > 2")


def check_match(folder: Path, told: set[str]) -> str:
    """What is wrong with the results; what was told has to be there."""
    from arena import ArenaError
    from arena.results.store import Store, database

    if database(folder).exists():
        try:
            with Store.of(folder) as store:
                if wrong := store.damage() or ", ".join(told - store.ids(the_match().event)):
                    return f"damaged or lost: {wrong}"
        except ArenaError as error:  # nothing was stored yet
            if told:
                return f"{error}"
    try:
        play(folder, lambda _: None)
    except ArenaError as error:
        return f"doesn't go on: {error}"
    with Store.of(folder) as store:
        return "" if store.count() == GAMES and not store.damage() else f"{store.count()} games"


def save_training(folder: Path, told: Told) -> None:
    """A run's state, then its net in the place of an older one."""
    from arena import CheckpointError, files

    with files.replacing(folder / "state", error=CheckpointError) as aside:
        aside.write_bytes(b"new" * 5000)
    told("state")
    with files.replacing(folder / "net", error=CheckpointError) as aside:
        aside.mkdir()
        for name in ("weights", "manifest"):
            (aside / name).write_bytes(b"new" * 5000)
    told("net")


PARTS = {"state": ["state"], "net": ["net/weights", "net/manifest"]}


def half_trained(folder: Path) -> None:
    (folder / "net").mkdir(parents=True)
    for part in (part for parts in PARTS.values() for part in parts):
        (folder / part).write_bytes(b"old" * 5000)


def check_training(folder: Path, told: set[str]) -> str:
    for name, parts in PARTS.items():
        contents = {(folder / part).read_bytes() if (folder / part).exists() else b"" for part in parts}
        if contents not in [{b"new" * 5000}] + [{b"old" * 5000}] * (name not in told):
            return f"{name} is {[content[:6] for content in contents]}"
    return ""


Check = Callable[[Path, set[str]], str]
SCENES: dict[str, tuple[Callable[[Path], None], Callable[[Path, Told], None], Check]] = {
    "match": (lambda folder: folder.mkdir(parents=True), play, check_match),
    "resume": (half_played, play, check_match),
    "training": (half_trained, save_training, check_training),
}


# --- Calls that fail ---


def in_a_child(act: Callable[[Told], None], *armed: Any) -> tuple[str, set[str], int | None]:
    """Act in a child on the disk, ``armed`` with a folder, the point and kind of a fault, and a journal. How it ended
    (empty: well, or in one line of ours), what it told as stored, and its calls of the disk, None if it died."""
    from arena import ArenaError

    disk, (read, write) = ctypes.CDLL(None), os.pipe()
    child = os.fork()
    if child == 0:
        end = ""
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        folder, point, kind, journal = armed
        disk.disk_arm(os.fsencode(folder), ctypes.c_long(point), kind, journal)
        try:
            act(lambda words: os.write(write, f"told {words}\n".encode()) and disk.disk_told(words.encode()))
        except ArenaError as error:
            end = "" if len(str(error).splitlines()) == 1 else f"{error}"
        except BaseException as error:
            end = f"{type(error).__name__}: {error}"
        disk.disk_disarm()
        os.write(write, f"end {json.dumps(end)}\ncalls {int(disk.disk_calls())}\n".encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        said = [line.rstrip("\n").split(" ", 1) for line in file]
    os.waitpid(child, 0)
    told = {words for key, words in said if key == "told"}
    last = {key: json.loads(words) for key, words in said if key != "told"}
    return last.get("end", ""), told, last.get("calls")


def faults(folder: Path, step: int) -> Iterator[str]:
    """Every ``step``-th point at which a call can fail, in every way; what went wrong."""
    points = 0
    for name, (prepare, act, check) in SCENES.items():
        begun, place = folder / f"{name}-begun", folder / "place"
        prepare(begun)
        before = ids_of(begun) if name == "resume" else set[str]()
        for kind, number in KINDS.items():
            point, calls = 1 + points % step, None
            while True:
                shutil.rmtree(place, ignore_errors=True)
                shutil.copytree(begun, place)
                end, told, calls = in_a_child(partial(act, place), place, point, number, -1)
                if wrong := end or check(place, told | before):
                    yield f"{name}, {kind} at {point}: {wrong}"
                points += 1
                if calls is not None and calls < point:
                    break
                point += step


def ids_of(folder: Path) -> set[str]:
    from arena.results.store import Store

    with Store.of(folder) as store:
        return store.ids(the_match().event)


# --- Power ---


def power(folder: Path, step: int) -> Iterator[str]:
    """What the disk holds when the power goes after each ``step``-th call, without what wasn't synced; what is lost."""
    points = 0
    for name, (prepare, act, check) in SCENES.items():
        place = folder / name
        prepare(place)
        begun = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
        before = ids_of(place) if name == "resume" else set[str]()
        journal = os.open(folder / f"{name}.journal", os.O_CREAT | os.O_RDWR)
        end, _, _ = in_a_child(partial(act, place), place, 0, 0, journal)
        assert not end, end
        calls = list(journalled(folder / f"{name}.journal"))
        for point in range(1 + points % step, len(calls) + 1, step):
            shutil.rmtree(place, ignore_errors=True)
            told = write_what_is_synced(place, begun, calls[:point])
            if wrong := check(place, told | before):
                yield f"{name}, after {point} of {len(calls)} calls ({calls[point - 1][0]}): {wrong}"
            points += 1


def journalled(path: Path) -> Iterator[tuple[str, int, Path, bytes]]:
    with path.open("rb") as file:
        while head := file.read(32):
            op, offset, named, size = struct.unpack("<4q", head)
            yield chr(op), offset, Path(os.fsdecode(file.read(named))), file.read(size)


def write_what_is_synced(place: Path, begun: dict[Path, bytes], calls: list[tuple[str, int, Path, bytes]]) -> set[str]:
    """Make the folder as these calls leave it on the disk: content is there after a sync of its file, a new name after
    that too, another name and a missing one after a sync of their folder. Returns what was told by then."""
    live: dict[Path, bytearray] = {path: bytearray(content) for path, content in begun.items()}
    kept: dict[Path, bytes] = dict(begun)  # on the disk
    waiting: list[tuple[str, Path, Path]] = []  # renames and removals
    told = set()
    for op, offset, path, data in calls:
        if op == "t":
            told.add(data.decode())
        elif op in "wc":  # written; cut
            content = live.setdefault(path, bytearray())
            content.extend(bytes(max(0, offset + len(data) - len(content))))
            content[offset : offset + len(data) if op == "w" else None] = data
        elif op == "s" and path in live:
            kept[path] = bytes(live[path])
        elif op == "s":  # a folder
            for change in [change for change in waiting if change[2].parent == path]:
                waiting.remove(change)
                move(kept, *change)
        else:
            other = path if op == "u" else Path(os.fsdecode(data))
            move(live, op, path, other)
            waiting.append((op, path, other))
    place.mkdir(parents=True)
    for path, content in kept.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return told


def move(contents: dict[Path, Any], op: str, path: Path, other: Path) -> None:
    """Give what is at ``path`` the name ``other``; ``x``: and the other way round; ``u``: remove it."""

    def renamed(known: Path) -> Path:
        for source, target in [(path, other), (other, path)][: 2 if op == "x" else 1]:
            if known == source or source in known.parents:
                return target / known.relative_to(source)
        return known

    changed = {renamed(known): content for known, content in contents.items() if op == "x" or known != other}
    contents.clear()
    contents.update(changed)


if __name__ == "__main__":
    where, what, every = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    for line in {"faults": faults, "power": power}[what](where, every):
        print(line, flush=True)
