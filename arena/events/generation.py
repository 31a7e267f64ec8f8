"""Games that bots play to be learned from: which ones, and the file of SGF games that they go to. Plays nothing."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path
from typing import IO, Self

from arena import ConfigError, RecordError, StoreError, files
from arena.events.pairing import Pairing, Planned
from arena.events.terms import Terms, require
from arena.go.record import Played, Record, read_sgf
from arena.players.registry import Entry

SUFFIX = ".sgfs"


@dataclass(frozen=True, slots=True)
class Generation(Planned):
    """One bot against itself, or several, each with each and both colours in turn. Every game has its own opening.

    ``games`` may grow: the first games of more are those of fewer. A bot that meets itself decides for both sides,
    under one name.
    """

    entries: tuple[Entry, ...]
    terms: Terms
    games: int

    def __post_init__(self) -> None:
        require("games", self.games, 1)
        names = [entry.name for entry in self.entries]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ConfigError(f"'{twice}' is given twice; alone, a bot plays against itself")

    @property
    def players(self) -> dict[str, Entry]:
        return {entry.name: entry for entry in self.entries}

    @property
    def settings(self) -> dict[str, object]:
        """All that decides which games are played, but for how many."""
        return {
            "players": [entry.identity for entry in self.entries],
            "names": [entry.name for entry in self.entries],
            **self.terms.settings,
        }

    @property
    def event(self) -> str:
        digest = hashlib.sha256(json.dumps(self.settings, sort_keys=True).encode()).hexdigest()[:12]
        return f"generated-{digest}"

    def pairings(self, played: Iterable[Played] = ()) -> list[Pairing]:
        """All games, in order. What is ``played`` changes nothing."""
        names = list(self.players)
        meetings = list(permutations(names, 2)) or [(names[0], names[0])]
        openings = self.terms.openings_for(2 * self.games)
        event = self.event
        made = []
        for number in range(self.games):
            round_, meeting = divmod(number, len(meetings))
            seed = int.from_bytes(hashlib.sha256(f"{self.terms.seed}/{number}".encode()).digest()[:7], "big")
            opening = openings[number % len(openings)]
            made.append(Pairing(f"{event}/{number + 1:06d}", round_, *meetings[meeting], opening, seed))
        return made


class GamesFile:
    """The games of one event in a ``.sgfs`` file, a line each; open for one writer, ``with`` closes it.

    A game is on disk when ``append`` returns. What a stroke cut off, the last line, is forgotten.
    """

    def __init__(self, path: Path, file: IO[bytes], records: dict[str, Record]):
        """For ``GamesFile.open``: takes over an open, locked file."""
        self.path = path
        self._file = file
        self._records = records

    @classmethod
    def open(cls, path: str | Path, event: str) -> GamesFile:
        """The file at ``path``, made where it is missing. Raises StoreError when it holds other games than those of
        ``event``, another arena writes it, or it can't be written."""
        path = Path(path)
        if not path.name.endswith(SUFFIX) or path.is_dir():
            raise StoreError(
                f"{path}: games are written to a file whose name ends with {SUFFIX}, such as games{SUFFIX}"
            )
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("a+b")
        except OSError as error:
            raise StoreError(f"{path} can't be written: {error.strerror}; choose another --out") from error
        try:
            files.lock_file(file)
            return cls(path, file, _whole_games(path, file, event))
        except files.Held:
            file.close()
            raise StoreError(f"another arena writes to {path}; wait for it, or choose another --out") from None
        except BaseException:
            file.close()
            raise

    def check_place(self) -> None:
        """Raises StoreError when the file was moved or deleted."""
        if not self.path.exists():
            raise StoreError(f"{self.path} was moved or deleted while games were played; run the same command again")

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(self, records: Sequence[Record], patience: float = 0.0) -> None:
        """Add finished games; no other program holds the file. A forfeit becomes a game without a result: it tells
        nothing of the position. Raises StoreError, and then none of them is in the file."""
        lost = [record.outcome is not None and record.outcome.ending.is_forfeit for record in records]
        kept = [replace(one, outcome=None) if is_lost else one for one, is_lost in zip(records, lost, strict=True)]
        end = self._file.seek(0, os.SEEK_END)
        try:
            self._file.write("".join(f"{record.to_sgf()}\n" for record in kept).encode())
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            os.ftruncate(self._file.fileno(), end)
            raise StoreError(f"{self.path} can't be written: {error.strerror}") from error
        self._records.update((record.id, record) for record in kept)

    def ids(self, event: str) -> set[str]:
        """The ids of the event's games."""
        return set(self._records)

    def games(self) -> Iterator[Record]:
        """The event's games, in the order of their numbers."""
        return (self._records[id] for id in sorted(self._records))

    def scores(self, *, event: str | None = None) -> Iterator[list[Record]]:
        """The same, all at once."""
        yield [*self.games()]

    def count(self, *, event: str | None = None) -> int:
        return len(self._records)

    def sort(self) -> None:
        """Put the lines into the order of the games' numbers, however they arrived; written aside and renamed."""
        if list(self._records) == sorted(self._records):
            return
        files.write(self.path, "".join(f"{record.to_sgf()}\n" for record in self.games()))


def _whole_games(path: Path, file: IO[bytes], event: str) -> dict[str, Record]:
    """The games of a file, by their ids; what follows the last whole line is cut off. Raises StoreError for others'."""
    file.seek(0)
    content = file.read()
    end = content.rfind(b"\n") + 1
    other = StoreError(f"{path} holds other games; choose another --out, or give the bots and options of that file")
    records = {}
    for line in content[:end].splitlines():
        try:
            record = read_sgf(line)
        except RecordError:
            raise other from None
        if record.event != event or not re.fullmatch(rf"{event}/\d{{6,}}", record.id):
            raise other
        records[record.id] = record
    if end < len(content):
        if not records and event.encode() not in content:
            raise other
        os.ftruncate(file.fileno(), end)
    return records
