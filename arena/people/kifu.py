"""A person's game as a file: an SGF that is written anew after every move, and holds all it takes to go on.

Nothing is played and nothing rated here; the database is ``store``'s.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Container
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import IO, Any, Self

from arena import RecordError, StoreError, UserError, files
from arena.contract.bot import Limits
from arena.contract.clock import TimeLeft
from arena.events.pairing import PEOPLE
from arena.go.game import Rules
from arena.go.moves import Colour, Move
from arena.go.record import Record, read_sgf
from arena.results.store import Player

EVENT = PEOPLE
"""What the games are stored under, and the folder of their files."""

FORMAT = 1
"""The version of what stands in the private property; a reader refuses any other."""

_ROOT = re.compile(r"\(;(?:\s*[A-Z]+(?:\s*\[(?:\\.|[^\\\]])*\])+)*", re.DOTALL)
_PROPERTY = re.compile(r"ARENA\[((?:\\.|[^\\\]])*)\]", re.DOTALL)
"""A private property, as FF[4] allows them: other programs pass over it."""


class Help(StrEnum):
    """What a person had that leaves the game unrated."""

    UNDO = "undo"
    HINT = "hint"
    SCORE = "score"
    DEAD = "dead stones changed"
    OTHER_BOT = "another bot went on"


@dataclass(frozen=True, slots=True)
class Kifu:
    """A game with people in it as it stands, and all it takes to go on.

    ``record`` has no outcome as long as the game goes on; its ``black`` and ``white`` are names as they are typed, and
    what the players used so far is in its ``seconds``. ``people`` are the colours that no bot plays, ``time`` their
    clock and ``left`` what the clocks of Black and White show. ``dead`` are the stones that are marked after two passes
    and ``proposed`` those that the program marked; None before it has. ``players`` are all that have a rating.
    """

    record: Record
    people: tuple[Colour, ...]
    time: Limits = field(default_factory=Limits)
    left: tuple[TimeLeft | None, TimeLeft | None] = (None, None)
    helps: tuple[Help, ...] = ()
    dead: tuple[Move, ...] | None = None
    proposed: tuple[Move, ...] | None = None
    players: tuple[Player, ...] = ()

    @property
    def is_over(self) -> bool:
        return self.record.outcome is not None

    def to_sgf(self) -> str:
        """The game as any program reads it, with what only we understand in a property of the root."""
        text = self.record.to_sgf()
        root = _ROOT.match(text)
        end = 0 if root is None else root.end()
        private = json.dumps(self._private(), separators=(",", ":"))
        escaped = private.replace("\\", "\\\\").replace("]", "\\]")
        return f"{text[:end]}ARENA[{escaped}]{text[end:]}\n"

    @classmethod
    def from_sgf(cls, text: str) -> Kifu:
        """What ``to_sgf`` wrote. Raises RecordError for any other text."""
        record = read_sgf(text)
        found = _PROPERTY.search(text)
        if found is None:
            raise RecordError("it wasn't written by 'arena play', which could go on with it")
        try:
            data = json.loads(re.sub(r"\\(.)", r"\1", found[1], flags=re.DOTALL))
            if data["format"] != FORMAT:
                raise RecordError(f"it has format {data['format']}, and this arena reads {FORMAT}; update arena")
            rules = Rules.from_json(asdict(record.rules) | data["rules"])
            identities = dict(zip(("black_player", "white_player"), data["identities"], strict=True))
            seconds = dict(zip(("black_seconds", "white_seconds"), data["seconds"], strict=True))
            first, second = (None if left is None else TimeLeft(*left) for left in data["left"])
            return cls(
                record=replace(record, rules=rules, dossier=data["dossier"], **identities, **seconds),
                people=tuple(Colour(colour) for colour in data["people"]),
                time=Limits.read(data["time"], "the clock") if data["time"] else Limits(),
                left=(first, second),
                helps=tuple(Help(word) for word in data["helps"]),
                dead=_moves(data["dead"]),
                proposed=_moves(data["proposed"]),
                players=tuple(Player(*player) for player in data["players"]),
            )
        except (ValueError, TypeError, KeyError) as error:
            raise RecordError(f"it is damaged ({' '.join(str(error).split())})") from error

    def _private(self) -> dict[str, Any]:
        record, rules = self.record, self.record.rules
        names = ("superko", "suicide", "handicap_points", "move_limit")
        return {
            "format": FORMAT,
            "identities": [record.black_player, record.white_player],
            "players": [astuple(player) for player in self.players],
            "people": [int(colour) for colour in self.people],
            "rules": {name: getattr(rules, name) for name in names} | {"scoring": rules.scoring.value},
            "time": str(self.time),
            "left": [None if left is None else [left.seconds, left.stones] for left in self.left],
            "seconds": [record.black_seconds, record.white_seconds],
            "helps": [help.value for help in self.helps],
            "dead": self.dead,
            "proposed": self.proposed,
            "dossier": record.dossier,
        }


def _moves(values: list[int] | None) -> tuple[Move, ...] | None:
    return None if values is None else tuple(map(int, values))


# --- Files ---


class KifuFile:
    """The file of one game, held by one arena at a time; ``with`` lets go of it."""

    def __init__(self, path: Path, lock: IO[bytes]):
        """For ``create`` and ``open``."""
        self.path = path
        self._lock = lock

    @classmethod
    def create(cls, results: Path, taken: Container[str] = ()) -> KifuFile:
        """The file of a new game, under the next number that no file and none of the ids ``taken`` has. Raises
        StoreError."""
        folder = results / EVENT
        try:
            folder.mkdir(parents=True, exist_ok=True)
            number = 1 + max((int(path.stem) for path in _files(results)), default=0)
            while True:
                path = folder / f"{number:05d}.sgf"
                number += 1
                if _id_of(path) not in taken:
                    with suppress(FileExistsError):
                        path.open("x").close()
                        return cls(path, _locked(path))
        except OSError as error:
            raise StoreError(f"{folder} can't be written ({error.strerror}); use a folder that can be") from error

    @classmethod
    def open(cls, results: Path, id: str) -> KifuFile:
        """The file of a game. Raises UserError when there is none, or another terminal plays it."""
        path = results / f"{id}.sgf"
        if not path.is_file():
            raise UserError(
                f"there is no game '{id}' in {results / EVENT}; go on with the last one: arena play --resume"
            )
        return cls(path, _locked(path))

    @property
    def id(self) -> str:
        return _id_of(self.path)

    def read(self) -> Kifu:
        """Raises UserError when it holds no game to go on with."""
        try:
            return Kifu.from_sgf(self.path.read_text("utf-8"))
        except (OSError, ValueError, RecordError) as error:
            raise UserError(f"{self.path} can't be played on: {error}") from error

    def write(self, kifu: Kifu) -> None:
        """Write aside, then rename; on return it is on disk. Raises StoreError, and then the file is as it was."""
        files.write(self.path, kifu.to_sgf(), hint="the last moves aren't kept")

    def remove(self) -> None:
        """Take the file away: nothing was played."""
        with suppress(OSError):
            self.path.unlink()

    def close(self) -> None:
        with suppress(OSError):
            os.unlink(self._lock.name)
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def kept_games(results: Path) -> list[tuple[str, Kifu]]:
    """The games that have a file, with their ids, the one that was played on last at the end; what can't be read is
    left out."""
    found = []
    for path in sorted(_files(results), key=lambda path: (path.stat().st_mtime_ns, path.name)):
        with suppress(OSError, ValueError, RecordError):
            found.append((_id_of(path), Kifu.from_sgf(path.read_text("utf-8"))))
    return found


def is_held(results: Path, id: str) -> bool:
    """Whether an arena plays this game right now."""
    path = results / f"{id}.sgf"
    if not _lock_of(path).exists():
        return False
    try:
        KifuFile(path, _locked(path)).close()
    except UserError:
        return True
    return False


def _files(results: Path) -> list[Path]:
    return [path for path in (results / EVENT).glob("*.sgf") if path.stem.isdecimal()]


def _id_of(path: Path) -> str:
    return f"{EVENT}/{path.stem}"


def _lock_of(path: Path) -> Path:
    return path.with_name(f".{path.stem}.lock")


def _locked(path: Path) -> IO[bytes]:
    """The lock of a game's file; it is given back when it is closed, or with the process. Raises UserError."""
    try:
        return files.lock(_lock_of(path))
    except files.Held:
        raise UserError(f"{_id_of(path)} is being played in another terminal; go on with it there") from None
    except OSError as error:
        raise StoreError(f"{path.parent} can't be written ({error.strerror}); use a folder that can be") from error
