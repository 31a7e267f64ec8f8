"""A running event as other processes see it: games through the store, current boards through a file beside it.

The file is written by the one process that plays, and read by any number of watchers. It is not
durable, and a process that is killed leaves it behind. Nothing is drawn here.
"""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from enum import Enum, auto
from pathlib import Path
from time import monotonic, sleep, time
from typing import Any

from arena import StoreError, files
from arena.events.pairing import Event, Pairing
from arena.events.runner import Control, Update
from arena.events.worker import Glance
from arena.results.store import AT_ONCE, Store

WRITE_EVERY = 0.5
"""Seconds between two writings of the file."""

LOOK_EVERY = 0.25
"""Seconds between two looks at it, and at the store."""

SILENCE = 10.0
"""Seconds without a writing after which the process that plays is stopped; or gone, where it can't be asked for."""


@dataclass(frozen=True, slots=True)
class Live:
    """What a process tells of the event that it plays.

    ``place`` is where its number means something, ``born`` tells it from others that had the number. ``command`` is how
    it was started; ``resumed`` counts the games played before. ``elapsed`` are its seconds so far, pauses left out;
    ``waited`` of them passed before the first game was seen, None as long as none was.
    """

    event: str
    process: int
    place: str
    born: str
    command: str = ""
    resumed: int = 0
    elapsed: float = 0.0
    waited: float | None = None
    paused: bool = False
    workers: int = 0
    nodes: Mapping[str, float] | None = None
    glances: tuple[Glance, ...] = ()


def live_file(database: Path) -> Path:
    """Where the process that writes this database tells what it plays."""
    return Path(f"{database}.live")


def publish(
    updates: Iterator[Update],
    event: Event,
    database: Path,
    *,
    control: Control | None = None,
    command: str = "",
) -> Generator[Update, None, None]:
    """Pass ``updates`` on and meanwhile tell of them beside the database; the end of this is their end.

    The file goes when they end. One that can't be written is done without.
    """
    path = live_file(database)
    live = Live(event.event, os.getpid(), _place(), _birth(os.getpid()), command)
    glances: dict[str, Glance] = {}
    written, before, told = -WRITE_EVERY, monotonic(), live
    try:
        for update in updates:
            now, paused = monotonic(), control is not None and control.paused
            live = _followed(live, update, 0.0 if paused else now - before, paused)
            before = now
            glances.update((glance.pairing.id, glance) for glance in update.glances)
            for record in update.records if glances else ():
                glances.pop(record.id, None)
            if now - written >= WRITE_EVERY or paused != told.paused:  # who is paused may be stopped at once
                told = replace(live, glances=tuple(glances.values()))
                _write(path, told)
                written = now
            yield update
    finally:
        try:
            close = getattr(updates, "close", None)
            if close is not None:
                close()
        finally:
            with suppress(OSError):
                path.unlink()


def _followed(live: Live, update: Update, seconds: float, paused: bool) -> Live:
    """The state after an update, with the seconds since the previous one."""
    if update.resumed:
        return replace(live, resumed=live.resumed + len(update.records))
    elapsed, waited = live.elapsed + seconds, live.waited
    if waited is None and (update.records or update.glances):
        waited = elapsed
    workers = max(live.workers, update.workers)
    return replace(live, elapsed=elapsed, waited=waited, paused=paused, workers=workers, nodes=update.nodes)


def _write(path: Path, live: Live) -> None:
    with suppress(StoreError):  # nobody looks on without it, and the games go on
        files.write(path, json.dumps(live, default=_plain, separators=(",", ":")), sync=False)


def _plain(value: Any) -> Any:
    """What JSON has no word for."""
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return {field.name: getattr(value, field.name) for field in fields(value)}


@dataclass(frozen=True, slots=True)
class Look:
    """What the file told, and how many seconds ago it was written."""

    live: Live
    age: float
    version: int

    @property
    def is_silent(self) -> bool:
        return self.age > SILENCE

    @property
    def has_died(self) -> bool:
        """Whether nobody can write any more; of a process of another machine or container, only silence tells."""
        live = self.live
        return _birth(live.process) != live.born if live.place == _place() else self.is_silent


def look_at(database: Path) -> Look | None:
    """What is played into this database now, as far as somebody tells; None where nobody does."""
    path = live_file(database)
    try:
        with path.open("r", encoding="ascii") as file:
            status = os.fstat(file.fileno())
            data = json.load(file)
        data["glances"] = tuple(_glance_from(glance) for glance in data["glances"])
        return Look(Live(**data), max(0.0, time() - status.st_mtime), status.st_mtime_ns)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _glance_from(data: dict[str, Any]) -> Glance:
    pairing = Pairing(**(data["pairing"] | {"opening": tuple(data["pairing"]["opening"])}))
    ownership = None if data["ownership"] is None else b64decode(data["ownership"])
    return Glance(pairing, tuple(data["moves"]), tuple(data["win_rates"]), ownership)


def _place() -> str:
    """Where a number means the same process: this machine, and in it this container."""
    try:
        return f"{os.uname().nodename} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return os.uname().nodename


def _birth(process: int) -> str:
    """When the process began, by the system's count where it tells; empty when there is none of this number."""
    with suppress(OSError):
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return "" if state[0] in "ZX" else state[19]
    if Path("/proc/self/stat").exists():
        return ""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return ""
    except OSError:  # it is somebody else's
        pass
    return "unknown"


class End(Enum):
    """How a watched event came to its end."""

    OVER = auto()
    STOPPED = auto()
    DIED = auto()


class Watch:
    """An event as another process plays it: its updates, its clock, and how it ended.

    ``clock`` is to be the clock of who shows the updates: its time is that of the player.
    """

    def __init__(self, event: Event, store: Store, look: Look):
        self.look = look
        self.end: End | None = None
        self._event = event
        self._store = store
        self._read = monotonic() - look.age
        self._at: float | None = 0.0

    def clock(self) -> float:
        """Seconds since the event's player began, pauses left out."""
        if self._at is not None:
            return self._at
        live = self.look.live
        return live.elapsed + (0.0 if live.paused else monotonic() - self._read)

    def updates(self) -> Generator[Update, None, None]:
        """What the player's screen was told, then several times a second what happens. It ends with the event, or with
        the process that plays it."""
        live = self.look.live
        course = self._event.course(self._store.scores(event=live.event))
        told = last = 0
        known: tuple[set[str], set[str]] = set(), set()  # the games that ended last, and those before
        for some in self._store.scores(event=live.event):
            played = course.add(some)
            resumed = max(0, live.resumed - told)
            if resumed or not told:
                yield Update(played[:resumed], resumed=True)
            if later := played[resumed:]:
                self._at = live.waited
                known = {record.id for record in later}, known[0]
                yield Update(later, glances=live.glances, workers=live.workers, nodes=live.nodes)
            told, last = told + len(played), some[-1].seq
        if not last:
            yield Update(resumed=True)
        self._at = live.waited
        if not known[0]:
            yield Update(glances=live.glances, workers=live.workers, nodes=live.nodes)
        self._at = None
        del course
        shown = {glance.pairing.id: glance for glance in live.glances}
        while self.end is None:
            sleep(LOOK_EVERY)
            self._look()  # before the store: what the file doesn't tell any more is there
            rows = list(self._store.games_after(last, event=live.event))
            last = rows[-1][0] if rows else last
            found = [record for _, record in rows]
            known[0].update(record.id for record in found)
            glances = [
                glance for glance in self.look.live.glances if not any(glance.pairing.id in some for some in known)
            ]
            known = (set(), known[0]) if len(known[0]) > AT_ONCE else known
            changed = tuple(glance for glance in glances if shown.get(glance.pairing.id) != glance)
            shown = {glance.pairing.id: glance for glance in glances}
            live = self.look.live
            yield Update(
                tuple(found),
                glances=changed,
                workers=live.workers,
                nodes=live.nodes,
                paused=live.paused or self.look.is_silent,
            )

    def _look(self) -> None:
        """See what the player tells now, or that it doesn't any more."""
        look, before = look_at(self._store.path), self.look
        if look is None or (look.live.event, look.live.process) != (before.live.event, before.live.process):
            course = self._event.course(self._store.scores(event=before.live.event))
            for some in self._store.scores(event=before.live.event):
                course.add(some)
            self.end = End.STOPPED if any(course.missing()) else End.OVER
        elif look.has_died:
            self.end = End.DIED
        elif look.version != before.version:
            self.look, self._read = look, monotonic() - look.age
        else:
            self.look = replace(before, age=look.age)
