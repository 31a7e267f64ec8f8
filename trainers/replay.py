"""The games that a net played against itself, in files, and the window of the latest ones that it learns from.

A file holds whole games: their moves, and at those searched in full the improved policy and the win rate. It is written
aside and renamed, and carries a checksum.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from zipfile import BadZipFile
from zlib import error as ZlibError

import numpy as np

from arena import ConfigError, RecordError
from arena.files import read_json, reason, replacing, write
from arena.go.planes import Encoder, final_owners
from trainers.data import BLACK_WON, DRAWN, UNKNOWN, WHITE_WON, Games
from trainers.players import Played
from trainers.teaching import Findings, Taught, encode_findings

FORMAT = 1
RULES_FILE = "replay.json"
STORED = ("moves", "starts", "komis", "margins", "sound", "places", "levels", "win_rates")
"""What a file has of its games and findings; all else follows from the moves."""


def findings_of(size: int, stored: dict[str, np.ndarray]) -> Findings:
    """Games and what was found, by the arrays of a file."""
    moves, starts, margins, sound = (stored[name] for name in ("moves", "starts", "margins", "sound"))
    count = len(starts) - 1
    owners = np.empty((count, size * size), np.int8)
    final_owners(size, moves, starts, owners)
    won = np.where(margins > 0, BLACK_WON, np.where(margins < 0, WHITE_WON, DRAWN))
    games = Games(
        size=size,
        moves=moves,
        starts=starts,
        komis=stored["komis"].astype(np.float64),
        winners=np.where(sound, won, UNKNOWN).astype(np.uint8),
        dates=np.zeros(count, np.int32),
        sources=np.zeros(count, np.uint8),
        scored=sound,
        owners=owners,
    )
    return Findings(games, stored["places"].astype(np.int64), stored["levels"], stored["win_rates"].astype(np.float32))


def _digest(stored: Mapping[str, np.ndarray]) -> np.ndarray:
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(stored[name]).tobytes() for name in STORED)).digest()
    return np.frombuffer(digest, np.uint8)


def stored_form(played: Sequence[Played], size: int) -> dict[str, np.ndarray]:
    """The arrays of a file of these games."""
    starts = np.concatenate([[0], np.cumsum([len(game.moves) for game in played])]).astype(np.int64)
    levels = [game.levels for game in played] or [np.empty((0, size * size + 1), np.uint8)]
    return {
        "moves": np.concatenate([game.moves for game in played] or [np.empty(0, np.uint16)]),
        "starts": starts,
        "komis": np.array([game.komi for game in played], np.float32),
        "margins": np.array([game.margin for game in played], np.float32),
        "sound": np.array([game.is_sound for game in played], np.bool_),
        "places": np.concatenate(
            [game.plies + start for game, start in zip(played, starts, strict=False)] or [np.empty(0, np.int64)]
        ).astype(np.uint32),
        "levels": np.concatenate(levels),
        "win_rates": np.concatenate([game.win_rates for game in played] or [np.empty(0)]).astype(np.float16),
    }


def window(rows: int, begin: int, power: float = 0.75, slope: float = 0.4) -> int:
    """How many of the latest of ``rows`` rows are learned from: all of the first ``begin``, then an ever smaller share
    (KataGo's formula)."""
    if rows <= begin:
        return rows
    return min(rows, int(begin * (1 + slope * ((rows / begin) ** power - 1) / power)))


class Replay:
    """The games of a run in ``folder``, and the findings of its window in memory."""

    def __init__(self, folder: Path, size: int, begin: int):
        """Raises ConfigError for a folder of games of another size, or of another version's."""
        self.folder, self.size, self._begin = folder, size, begin
        self.rows = self.games = self.positions = 0
        self.bytes = 0
        self.damaged: list[str] = []
        self._parts: deque[tuple[Path, Findings]] = deque()
        self._kept = 0
        self._joined: Findings | None = None
        self._claim()
        for path in sorted(folder.glob("*.npz")):
            self._read(path)
        self._forget()

    def _claim(self) -> None:
        path, mine = self.folder / RULES_FILE, {"format": FORMAT, "size": self.size, "rules": "cgos"}
        if path.exists():
            found = read_json(path, error=ConfigError, hint="start again with --new")
            if found != mine:
                raise ConfigError(f"{path}: its games are {found}, and this run plays {mine}; give it another name")
        else:
            write(path, json.dumps(mine) + "\n", error=ConfigError)

    def _read(self, path: Path) -> None:
        """Take a file into the window; one that is damaged is skipped with a warning."""
        try:
            rows, games, positions = (int(word) for word in path.stem.split("-"))
            with np.load(path, allow_pickle=False) as arrays:
                stored, digest = {name: arrays[name] for name in STORED}, arrays["digest"]
            if not np.array_equal(digest, _digest(stored)):
                raise ValueError("its checksum is another")
            found = findings_of(self.size, stored)
            if found.levels.shape[1] != self.size**2 + 1:
                raise ValueError(f"{found.levels.shape[1]} moves a position")
        except (OSError, ValueError, KeyError, EOFError, IndexError, BadZipFile, ZlibError) as error:
            self.damaged.append(path.name)
            logging.getLogger(__name__).warning("%s: is damaged and skipped (%s)", path, reason(error))
            return
        self.rows, self.games, self.positions = rows, games, positions
        self._take(path, found)

    def _take(self, path: Path, found: Findings) -> None:
        self._parts.append((path, found))
        self._kept += len(found)
        self.bytes += path.stat().st_size
        self._joined = None

    def add(self, played: Sequence[Played]) -> None:
        """Keep some games: they are on disk when this returns. Raises StoreError for a disk that is full."""
        if not played:
            return
        stored = stored_form(played, self.size)
        rows, games = self.rows + len(stored["places"]), self.games + len(played)
        positions = self.positions + len(stored["moves"])
        path = self.folder / f"{rows:011}-{games:09}-{positions:011}.npz"
        with replacing(path) as aside, aside.open("wb") as file:
            np.savez_compressed(file, digest=_digest(stored), **stored)  # type: ignore[arg-type]  # numpy takes an array for its flag
        self.rows, self.games, self.positions = rows, games, positions
        self._take(path, findings_of(self.size, stored))
        self._forget()

    def _forget(self) -> None:
        """Drop the oldest games outside the window, except one file."""
        while len(self._parts) > 1 and self._kept - len(self._parts[0][1]) >= window(self.rows, self._begin):
            path, found = self._parts.popleft()
            self._kept -= len(found)
            path.unlink(missing_ok=True)
            self._joined = None

    @property
    def findings(self) -> Findings:
        """Those of the window. Raises RecordError when there are none."""
        if not self._parts:
            raise RecordError("no game is over yet")
        if self._joined is None:
            self._joined = Findings.joined([found for _, found in self._parts])
        return self._joined

    @property
    def age(self) -> float:
        """The mean age of a row of the window, in rows played since."""
        return self._kept / 2

    def batch(self, seed: Sequence[int], count: int, encoder: Encoder, threads: int = 1) -> Taught:
        """Rows drawn from the window by ``seed``, each under a random symmetry."""
        random, found = np.random.default_rng(seed), self.findings
        return encode_findings(
            found, encoder, random.integers(0, len(found), count), random.integers(0, 8, count), threads
        )

    @property
    def margin(self) -> float:
        """Black's mean margin before komi, in the latest games that ended by two passes; 0 where there are none."""
        games = [found.games for _, found in list(self._parts)[-8:]]
        margins = np.concatenate([part.owners.sum(1)[part.scored] for part in games] or [np.empty(0)])
        return float(margins.mean()) if len(margins) else 0.0
