"""A person's game: what is kept of it, in an SGF file that is rewritten after every move, and what a screen shows."""

from __future__ import annotations

import os
import re
from collections.abc import Container
from contextlib import suppress
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Self, get_type_hints

import msgspec
import numpy as np

from arena import RecordError, StoreError, UserError, files
from arena.contract.bot import Candidate, Limits
from arena.contract.limits import TimeLeft
from arena.contract.settings import DECODE_ERRORS
from arena.go.coords import Colour, Move, pass_move
from arena.go.game import Rules
from arena.go.record import UNKNOWN, GameRecord, MoveStats
from arena.go.sgf import write_sgf
from arena.match.schedule import PEOPLE
from arena.people.counting import Count, ScoreEstimate
from arena.players.player import Player

EVENT = PEOPLE  # what the games are stored under, and the folder of their files
FORMAT = 3  # the version of what stands in the private property; a reader refuses any other
_PROPERTY = re.compile(r"ARENA\[((?:\\.|[^\\\]])*)\]", re.DOTALL)
"""A private property, as FF[4] allows them: other programs pass over it."""


class Help(StrEnum):
    """What a person had that leaves the game unrated."""

    UNDO = "undo"
    HINT = "hint"
    SCORE = "score"
    DEAD = "dead stones changed"
    OTHER_BOT = "another bot went on"


class Phase(StrEnum):
    """The phase of a game. Dead stones are marked in COUNT, after two passes, if the rules ask for it."""

    PLAY = "play"
    COUNT = "count"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Turn:
    """A move that was played. ``captured`` are the points of either colour that it took off."""

    number: int
    colour: Colour
    move: Move
    captured: tuple[Move, ...] = ()
    fact: MoveStats = UNKNOWN


@dataclass(frozen=True, slots=True)
class Advice:
    """Candidates for the present position, the best first, with win rates in [0, 1] of ``colour``, the side to move; or
    ``fault``, a line about the analyst's error."""

    analyst: str
    colour: Colour
    candidates: tuple[Candidate, ...]
    fault: str = ""


@dataclass(frozen=True, slots=True)
class SavedGame:
    """A game with people in it, with all that continuing it needs. ``record`` has names as they were typed. ``people``
    are the colours of people, ``time`` their limits, and ``clocks`` the time left of Black and White (None: no clock).
    ``dead`` are the marked stones, ``proposed`` the program's (None: not yet). ``players`` are all that have a
    rating."""

    record: GameRecord
    people: tuple[Colour, ...]
    time: Limits = field(default_factory=Limits)
    clocks: tuple[TimeLeft | None, TimeLeft | None] = (None, None)
    helps: tuple[Help, ...] = ()
    dead: tuple[Move, ...] | None = None
    proposed: tuple[Move, ...] | None = None
    players: tuple[Player, ...] = ()

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def size(self) -> int:
        return self.record.rules.size

    @property
    def is_over(self) -> bool:
        return self.record.outcome is not None

    @property
    def phase(self) -> Phase:
        if self.is_over:
            return Phase.OVER
        passing = pass_move(self.size)
        return Phase.COUNT if self.record.moves[-2:] == (passing, passing) else Phase.PLAY

    @property
    def to_play(self) -> Colour:
        first = self.record.first
        return first.opponent if len(self.record.moves) % 2 else first

    @property
    def is_persons_turn(self) -> bool:
        """Whether a person is to move."""
        return self.phase is Phase.PLAY and self.to_play in self.people

    @property
    def last(self) -> Move | None:
        """The last move, where there is one: a point, or the pass."""
        return self.record.moves[-1] if self.record.moves else None

    @property
    def names(self) -> tuple[str, str]:
        return self.record.black, self.record.white

    def name(self, colour: Colour) -> str:
        return self.names[colour - 1]

    @property
    def handicap(self) -> int:
        return self.record.handicap

    @property
    def is_of_event(self) -> bool:
        """Whether it is a game of a match: without help, and scored as games of bots are."""
        return self.record.event not in ("", EVENT)

    @property
    def unrated(self) -> str:
        """Why the game doesn't count for ratings, in a few words; empty for one that does, and for games of events."""
        if self.is_of_event:
            return ""
        rules, words = self.record.rules, []
        if not (self.record.black_player and self.record.white_player):
            words.append("a player without a name")
        if self.record.setup != ((), ()):
            words.append(f"handicap {self.handicap}" if self.handicap else "stones set up")
        if self.record.opening:
            words.append("begun from a position")
        if rules.komi != Rules.preset(rules.name, rules.size).komi:
            words.append(f"komi {rules.komi:g}")
        return ", ".join([*words, *(help.value for help in self.helps)])

    def to_sgf(self) -> str:
        """The game as any program reads it, and whole as JSON in a property of the root."""
        whole = {field.name: getattr(self, field.name) for field in fields(SavedGame)}
        whole["players"] = [player.stored for player in self.players]
        private = msgspec.json.encode({"format": FORMAT, "game": whole}).decode()
        return write_sgf(self.record, {0: {"ARENA": [private]}}) + "\n"

    @classmethod
    def from_file(cls, path: Path) -> SavedGame:
        """What was written to a file. Raises OSError, ValueError and RecordError."""
        with files.open_regular(path) as file:
            return cls.from_sgf(file.read().decode())

    @classmethod
    def from_sgf(cls, text: str) -> SavedGame:
        """What ``to_sgf`` wrote. Raises RecordError for any other text."""
        found = _PROPERTY.search(text)
        if found is None:
            raise RecordError("it wasn't written by 'arena play' and can't be resumed")
        try:
            private = msgspec.json.decode(re.sub(r"\\(.)", r"\1", found[1], flags=re.DOTALL))
            if private["format"] != FORMAT:
                raise RecordError(f"another version of arena wrote it (format {private['format']}, here {FORMAT})")
            record = GameRecord(**_read(GameRecord, private["game"].pop("record")))
            return cls(record, **_read(SavedGame, private["game"]))
        except DECODE_ERRORS as error:
            raise RecordError(f"it is damaged ({' '.join(str(error).split())})") from error


def _read(kind: type[Any], values: dict[str, Any]) -> dict[str, Any]:
    """Fields of a dataclass from JSON."""
    hints = get_type_hints(kind, localns={"Rules": Rules})
    return {name: msgspec.convert(value, hints[name]) for name, value in values.items()}


@dataclass(frozen=True, slots=True)
class SessionState(SavedGame):
    """An immutable game as a screen shows it. ``points`` are size² bytes; ``prisoners`` the captured stones of Black
    and White; ``thinking`` the colour of a bot at work. ``advice`` and ``estimate`` are of the present position.
    ``count`` is the score without the ``dead`` stones. ``trouble`` is a line about a fault, such as a full disk."""

    turns: tuple[Turn, ...] = ()
    points: bytes = b""
    prisoners: tuple[int, int] = (0, 0)
    thinking: Colour | None = None
    advice: Advice | None = None
    advising: bool = False
    estimate: ScoreEstimate | None = None
    estimating: bool = False
    count: Count | None = None
    trouble: str = ""

    @property
    def stones(self) -> np.ndarray:
        """(size, size) uint8: 0 empty, 1 black, 2 white; read-only."""
        return np.frombuffer(self.points, np.uint8).reshape(self.size, self.size)

    @property
    def is_settled(self) -> bool:
        """Whether no bot, hint, estimate or search for dead stones is at work."""
        looks = self.phase is Phase.COUNT and self.dead is None
        return self.thinking is None and not (self.advising or self.estimating or looks)


# --- Files ---


class SavedGameFile:
    """The file of one game, locked by one arena at a time; ``with`` unlocks it."""

    def __init__(self, path: Path):
        """For ``create`` and ``open``. Raises UserError when another terminal plays the game."""
        self.path = path
        try:
            self._lock = files.lock(path.with_name(f".{path.stem}.lock"))
        except BlockingIOError:
            raise UserError(f"{self.id} is being played in another terminal; continue it there") from None
        except OSError as error:
            raise _unwritable(path.parent, error) from error

    @classmethod
    def create(cls, results: Path, taken: Container[str] = ()) -> SavedGameFile:
        """The file of a new game, under the next number without a file and not ``taken``. Raises StoreError."""
        folder = results / EVENT
        try:
            files.make_private(folder)
            number = 1 + max((int(path.stem) for path in _files(results)), default=0)
            while True:
                path = folder / f"{number:05d}.sgf"
                number += 1
                if _id_of(path) not in taken:
                    with suppress(FileExistsError):
                        path.open("x").close()
                        return cls(path)
        except OSError as error:
            raise _unwritable(folder, error) from error

    @classmethod
    def open(cls, results: Path, id: str) -> SavedGameFile:
        """The file of a game. Raises UserError when there is none, or another terminal plays it."""
        path = results / f"{id}.sgf"
        if not path.is_file():
            raise UserError(
                f"there is no game '{id}' in {results / EVENT}; to resume the last one: arena play --resume"
            )
        return cls(path)

    @property
    def id(self) -> str:
        return _id_of(self.path)

    def read(self) -> SavedGame:
        """Raises UserError when it holds no game to go on with."""
        try:
            return SavedGame.from_file(self.path)
        except (OSError, ValueError, RecordError) as error:
            raise UserError(f"{self.path} can't be resumed: {error}") from error

    def write(self, saved: SavedGame) -> None:
        """Write aside, then rename; on return it is on disk. Raises StoreError, and then the file is as it was."""
        files.write(self.path, saved.to_sgf(), hint="the last moves are not saved")

    def close(self) -> None:
        """Unlock the file. An empty one is removed, and then its folder if that is empty, too."""
        with suppress(OSError):
            if not self.path.stat().st_size:
                self.path.unlink()
        with suppress(OSError):
            os.unlink(self._lock.name)
        self._lock.close()
        with suppress(OSError):
            self.path.parent.rmdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def saved_games(results: Path, stored: Container[str] = ()) -> list[tuple[str, SavedGame]]:
    """Ids and games of the readable files of games that aren't ``stored``, the last one played at the end."""
    found = []
    for path in _files(results):
        if _id_of(path) in stored:
            continue
        with suppress(OSError, ValueError, RecordError):
            saved = SavedGame.from_file(path)
            found.append((path.stat().st_mtime_ns, _id_of(path), saved))
    return [(id, saved) for _, id, saved in sorted(found, key=lambda one: one[:2])]


def is_held(results: Path, id: str) -> bool:
    """Whether an arena plays this game right now."""
    try:
        SavedGameFile.open(results, id).close()
    except UserError:
        return True
    return False


def _files(results: Path) -> list[Path]:
    return [path for path in (results / EVENT).glob("*.sgf") if path.stem.isdecimal()]


def _unwritable(folder: Path, error: OSError) -> StoreError:
    return StoreError(f"{folder} can't be written ({error.strerror}); use a folder that can be")


def _id_of(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"
