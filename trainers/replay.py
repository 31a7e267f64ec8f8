"""Self-play games in files, the replay window of the latest games, and the games that a run plays before it learns."""

import json
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, cast
from zipfile import BadZipFile
from zlib import error as ZlibError

import numpy as np

from arena import ConfigError, RecordError
from arena.contract.settings import read_object
from arena.files import reason, replacing, write
from arena.go.coords import symmetry_table
from arena.go.game import Ending, Game, Outcome, Rules
from arena.go.planes import NO_MOVE, Encoder, final_owners
from arena.go.ranks import UNRANKED
from arena.go.record import GameRecord
from trainers.first_net import build
from trainers.games import (
    BLACK_WON,
    DRAWN,
    UNKNOWN,
    WHITE_WON,
    Batch,
    Games,
    Rows,
    encode_positions,
    flat_ranges,
    join_games,
)
from trainers.processes import lock_folder, refuse_torchrun, stop_signals
from trainers.selfplay import CERTAIN, NOT_JUDGED, PlayedGame, Players, PlayGames
from trainers.settings import STATE_FILE, Distill, Value, is_first, write_file
from trainers.slots import LINE
from trainers.train import Run

FORMAT = 2
FORMAT_FILE = "replay.json"
OTHER_GAMES = "its games are of another size or version; give another name, or start again with --new"
STORED = ("numbers", "moves", "starts", "komis", "margins", "sound", "places", "levels", "win_rates", "seconds")
OPTIONAL = ("owners", "lines")
"""The arrays of a chunk, a file of whole games. STORED are in every chunk."""


@dataclass(frozen=True, slots=True)
class SearchedGames:
    """Games, and the results of the full searches of some of their positions."""

    games: Games
    places: np.ndarray  # (searches,) int64, sorted: flat indices of ``games.moves``
    levels: np.ndarray  # (searches, size² + 1) uint8 or uint16: shares of the moves, up to a factor
    win_rates: np.ndarray  # (searches,) float32 in [0, 1], of the side to move; NaN if unknown
    owners: np.ndarray  # (searches, size²) int8, see ``PlayedGame``; NOT_JUDGED if unknown
    lines: np.ndarray  # (searches, LINE) int16, see ``PlayedGame``

    def __len__(self) -> int:
        return len(self.places)

    def found(self, which: np.ndarray) -> list[np.ndarray]:
        """The columns of the searches ``which``, without their places."""
        return [column[which] for column in (self.levels, self.win_rates, self.owners, self.lines)]

    def select(self, which: np.ndarray) -> "SearchedGames":
        """The games ``which``, a mask or indices."""
        indices = np.flatnonzero(which) if which.dtype == np.bool_ else which
        begins, ends = (np.searchsorted(self.places, self.games.starts[indices + after]) for after in (0, 1))
        _, flat = flat_ranges(begins, ends - begins)
        games = self.games.select(indices)
        moved = np.repeat(games.starts[:-1] - self.games.starts[indices], ends - begins)
        return SearchedGames(games, self.places[flat] + moved, *self.found(flat))

    def tree_positions_as_games(self) -> "SearchedGames":
        """Replace each search with a line by a search at the end of a new game without result, which has its moves."""
        behind, starts = self.lines[:, 0] != NO_MOVE, self.games.starts
        begins = starts[owners := np.searchsorted(starts, self.places[behind], side="right") - 1]
        found = zip(begins, self.places[behind], self.lines[behind], self.levels[behind].argmax(1), strict=True)
        moves = [[*self.games.moves[begin:end], *line[line != NO_MOVE], best] for begin, end, line, best in found]
        ends = np.cumsum([len(each) for each in moves], dtype=np.int64)
        games = replace(
            self.games.select(owners),
            moves=np.concatenate([[], *moves]).astype(np.uint16),
            starts=np.append(0, ends),
            winners=np.full(len(moves), UNKNOWN, np.uint8),
            scored=np.zeros(len(moves), np.bool_),
        )
        themselves = SearchedGames(self.games, self.places[~behind], *self.found(~behind))
        return SearchedGames.joined([themselves, SearchedGames(games, ends - 1, *self.found(behind))])

    @classmethod
    def joined(cls, parts: Sequence["SearchedGames"]) -> "SearchedGames":
        offsets = np.cumsum([0, *(len(part.games.moves) for part in parts)])
        places = [part.places + offset for part, offset in zip(parts, offsets, strict=False)]
        columns = zip(*(part.found(np.arange(len(part))) for part in parts), strict=True)
        return cls(join_games([part.games for part in parts]), np.concatenate(places), *map(np.concatenate, columns))


def searched_games(size: int, chunk: Mapping[str, np.ndarray]) -> SearchedGames:
    """The games of a chunk. Games that the move limit ended have no result."""
    moves, starts, margins, sound = (chunk[name] for name in ("moves", "starts", "margins", "sound"))
    count = len(starts) - 1
    owners = np.empty((count, size * size), np.int8)
    final_owners(size, moves, starts, owners)
    won = np.where(margins > 0, BLACK_WON, np.where(margins < 0, WHITE_WON, DRAWN))
    games = Games(
        size,
        moves,
        starts,
        chunk["komis"].astype(np.float64),
        winners=np.where(sound, won, UNKNOWN).astype(np.uint8),
        dates=np.zeros(count, np.int32),
        scored=sound,
        owners=owners,
        ranks=np.full((count, 2), UNRANKED, np.int8),
        players=np.zeros((count, 2), np.uint32),
        territory=np.zeros(count, np.bool_),
    )
    searches = len(places := chunk["places"].astype(np.int64))
    none = {"owners": np.full((searches, size * size), NOT_JUDGED, np.int8)}
    none["lines"] = np.full((searches, LINE), NO_MOVE, np.int16)
    judged, lines = (chunk.get(name, none[name]) for name in OPTIONAL)
    return SearchedGames(games, places, chunk["levels"], chunk["win_rates"], judged, lines)


def make_chunk(played: Sequence[PlayedGame], size: int, seconds: float = 0.0) -> dict[str, np.ndarray]:
    """The arrays of some games, which took ``seconds`` to play."""
    starts = np.cumsum([0, *(len(game.moves) for game in played)]).astype(np.int64)
    none, searched = np.empty((0, size * size + 1), np.uint16), [game.levels for game in played if len(game.plies)]
    levels = np.concatenate([none, *searched])
    places = [game.plies + start for game, start in zip(played, starts, strict=False)]
    more = {name: [array for game in played if (array := getattr(game, name)) is not None] for name in OPTIONAL}
    return {
        "numbers": np.array([game.number for game in played], np.int64),
        "moves": np.concatenate([none[:, 0], *(game.moves for game in played)]),
        "starts": starts,
        "komis": np.array([game.komi for game in played], np.float32),
        "margins": np.array([game.margin for game in played], np.float32),
        "sound": np.array([game.is_sound for game in played], np.bool_),
        "places": np.concatenate([none[:, 0], *places]).astype(np.uint32),
        "levels": levels.astype(np.min_scalar_type(levels.max(initial=0))),
        "win_rates": np.concatenate([np.empty(0, np.float32), *(game.win_rates for game in played)]),
        "seconds": np.array(seconds),
    } | {name: np.concatenate(arrays) for name, arrays in more.items() if arrays}


def shares_of(levels: np.ndarray) -> np.ndarray:
    """The shares (..., moves) float32 stored as ``levels``; they sum to 1."""
    shares = levels.astype(np.float32)
    return cast(np.ndarray, shares / shares.sum(-1, keepdims=True))


def encode_searches(
    searched: SearchedGames, encoder: Encoder, which: np.ndarray, symmetries: np.ndarray, threads: int = 1
) -> Batch:
    """Training rows of the searches ``which`` (B,), each under its symmetry."""
    batch = encode_positions(searched.games, encoder, searched.places[which], symmetries, threads)
    shares, tables = shares_of(searched.levels[which]), symmetry_table(searched.games.size)[symmetries].astype(np.int64)
    turned = np.empty_like(shares)
    np.put_along_axis(turned, tables, shares, 1)
    found = replace(batch, moves=turned.argmax(1), shares=turned, win_rates=searched.win_rates[which])

    # Owners that a search expected replace the final owners, and give the score
    judged = searched.owners[which]
    if not (known := judged[:, 0] != NOT_JUDGED).any():
        return found
    owners = np.empty(judged.shape, np.float32)
    np.put_along_axis(owners, tables[:, :-1], judged / CERTAIN, 1)
    komis = searched.games.komis[np.searchsorted(searched.games.starts, searched.places[which], side="right") - 1]
    scores = owners.sum(1) - np.where(batch.plies % 2 == 0, komis, -komis)
    return replace(
        found,
        owners=np.where(known[:, None], owners, batch.owners),
        scores=np.where(known, scores, batch.scores).astype(np.float32),
    )


class SearchRows(Rows):
    """Rows of all searches, each once an epoch under a random symmetry."""

    def __init__(self, searched: SearchedGames, encoder: Encoder, seed: int = 0, threads: int = 1):
        super().__init__(searched.games, encoder, seed, threads, searched.places)
        self.searched = searched

    def batch(self, first: int, count: int) -> Batch:
        places, symmetries = self.positions(first, count)
        which = np.searchsorted(self.searched.places, places)
        return encode_searches(self.searched, self.encoder, which, symmetries, self.threads)


def in_order(searched: SearchedGames, encoder: Encoder, count: int = 0, batch: int = 512) -> Iterator[Batch]:
    """The first ``count`` searches, or all for 0, in order and without symmetries, for measuring."""
    every = np.arange(min(count or len(searched), len(searched)))
    for first in range(0, len(every), batch):
        which = every[first : first + batch]
        yield encode_searches(searched, encoder, which, np.zeros_like(which))


def window(rows: int, begin: int, power: float = 0.75, slope: float = 0.4) -> int:
    """The size of the window when there are ``rows`` rows: all up to ``begin``, then sublinear (as in KataGo)."""
    return rows if rows <= begin else min(rows, int(begin * (1 + slope * ((rows / begin) ** power - 1) / power)))


class Replay:
    """The replay window: games of one size in a folder and in memory. Of several processes the first one writes."""

    def __init__(self, folder: Path, size: int, begin: int = 2**62):
        """The window grows to ``begin`` rows, then slower. Raises ConfigError for games of another size or version."""
        self.folder, self.size, self._begin = folder, size, begin
        self.rows = self.games = self.positions = 0  # of all games ever added, also outside the window
        self.seconds = 0.0
        self._parts: deque[tuple[Path, np.ndarray, SearchedGames]] = deque()
        self._joined: SearchedGames | None = None
        self._about = {"format": FORMAT, "size": size, "rules": "cgos"}
        path, found = folder / FORMAT_FILE, sorted(folder.glob("*.npz"))
        if (path.exists() or found) and read_object(path, error=ConfigError, hint=OTHER_GAMES) != self._about:
            raise ConfigError(f"{folder}: {OTHER_GAMES}")
        for chunk in found:
            try:
                with np.load(chunk, allow_pickle=False) as arrays:  # compares checksums
                    self._take(chunk, {name: arrays[name] for name in (*STORED, *({*OPTIONAL} & arrays.keys()))})
            except (OSError, ValueError, KeyError, EOFError, IndexError, BadZipFile, ZlibError) as error:
                logging.getLogger(__name__).warning("%s: is damaged and skipped (%s)", chunk, reason(error))
        self._forget()

    def _take(self, path: Path, chunk: Mapping[str, np.ndarray]) -> None:
        counts, searched = [int(word) for word in path.stem.split("-")], searched_games(self.size, chunk)
        self.rows, self.games, self.positions = counts
        self._parts.append((path, chunk["numbers"], searched))
        self.seconds += float(chunk["seconds"])
        self._joined = None

    def add(self, played: Sequence[PlayedGame], seconds: float = 0.0) -> None:
        """Add games; they are on disk when the first process returns. Raises StoreError for a full disk."""
        if not played:
            return
        chunk = make_chunk(played, self.size, seconds)
        counts = self.rows + len(chunk["places"]), self.games + len(played), self.positions + len(chunk["moves"])
        path = self.folder / "{:011}-{:09}-{:011}.npz".format(*counts)
        if is_first():
            self._write(path, chunk)
        self._take(path, chunk)
        self._forget()

    def _write(self, path: Path, chunk: Mapping[str, np.ndarray]) -> None:
        if not (self.folder / FORMAT_FILE).exists():
            write(self.folder / FORMAT_FILE, json.dumps(self._about) + "\n", error=ConfigError)
        with replacing(path) as aside, aside.open("wb") as file:
            np.savez_compressed(file, **chunk)  # type: ignore[arg-type]  # numpy takes an array for its flag

    def _forget(self) -> None:
        """Remove the oldest files of games outside the window."""
        kept = sum(len(searched) for *_, searched in self._parts)
        while self.rows > self._begin and len(self._parts) > 1:
            path, _, searched = self._parts[0]
            kept -= len(searched)
            if kept < window(self.rows, self._begin):
                return
            self._parts.popleft()
            if is_first():
                path.unlink(missing_ok=True)
            self._joined = None

    @property
    def searched(self) -> SearchedGames:
        """The games of the window, in the order of their files. Raises RecordError if there are none."""
        if not self._parts:
            raise RecordError(f"{self.folder}: no game is over yet")
        if self._joined is None:
            self._joined = SearchedGames.joined([searched for *_, searched in self._parts])
        return self._joined

    def records(self, name: str) -> Iterator[GameRecord]:
        """The games of the window, with ids of the run ``name``."""
        games = self.searched.games
        for game, number in enumerate(self.numbers.tolist()):
            moves = games.moves[games.starts[game] : games.starts[game + 1]].tolist()
            played = Game(Rules.preset("cgos", self.size, games.komis[game], move_limit=len(moves) + 1))
            for move in moves:
                played.play(move)
            if played.outcome is None:  # the move limit ended it
                played.end(Outcome.scored(played.margin(), Ending.MOVE_LIMIT))
            yield GameRecord.from_game(played, id=f"{name}/{number:07}", event=name, black=name, white=name)

    @property
    def numbers(self) -> np.ndarray:
        """The numbers of the games in ``searched``; (games,) int64."""
        return np.concatenate([np.empty(0, np.int64), *(numbers for _, numbers, _ in self._parts)])

    def by_number(self, count: int) -> tuple[SearchedGames, np.ndarray]:
        """The games with numbers below ``count``, each once, and their sorted numbers. Raises RecordError for none."""
        numbers, firsts = np.unique(self.numbers, return_index=True)
        return self.searched.select(firsts[numbers < count]), numbers[numbers < count]

    def batch(self, seed: int, encoder: Encoder, threads: int, first: int, count: int) -> Batch:
        """``count`` rows of the current window under random symmetries; ``seed`` and ``first`` seed the draw."""
        random, searched = np.random.default_rng([seed, first]), self.searched
        which = random.integers(0, len(searched), count)
        return encode_searches(searched, encoder, which, random.integers(0, 8, count), threads)

    @property
    def margin(self) -> float:
        """Black's mean margin before komi in the latest games that ended by two passes; 0 if there are none."""
        games = [searched.games for *_, searched in list(self._parts)[-8:]]
        margins = np.concatenate([np.empty(0), *(part.owners.sum(1)[part.scored] for part in games)])
        return float(margins.mean()) if len(margins) else 0.0


# --- Games that a run plays before it learns ---

CHUNK_SECONDS = 20.0  # seconds of games in a chunk: a process that is killed loses them


class GamePlan(Protocol):
    """The players and settings of a run's games. A game depends on these and its number alone."""

    def folder(self, cache: Path) -> Path: ...

    def engines(self, numbers: deque[int], slots: int, threads: int) -> list[PlayGames]: ...


def play_games(
    config: Value | Distill, recipe: GamePlan, results: Path, on_made: Callable[[str], None] = lambda _: None
) -> Replay:
    """Play the missing games, and return all. No game begins after the minutes of play, summed over all sittings. A
    signal to stop raises KeyboardInterrupt; finished games are kept. Raises CheckpointError for a saved state of this
    name that doesn't fit, and ConfigError under torchrun."""
    replay, count, folder = Replay(recipe.folder(results / "cache"), config.size), config.games, results / "training"
    minutes = config.play_minutes if isinstance(config, Distill) else None
    left = math.inf if minutes is None else 60 * minutes - replay.seconds
    missing = deque(sorted(set(range(count)).difference(replay.numbers.tolist())) if left > 0 else ())
    there, made = count - len(missing), 0
    if is_first() and (folder / config.name / STATE_FILE).exists():  # refuse another state before the games
        Run(build(config, results), config, results).restore()
    elif is_first():
        write_file(config, folder / config.name)  # so that --resume finds the run while it plays
    if not missing:
        return replay
    refuse_torchrun(f"{len(missing):,} games are still to be played: begin without torchrun, then resume with it")
    with ExitStack() as stack:
        stack.enter_context(lock_folder(replay.folder, "; it plays the same games"))
        engines = recipe.engines(missing, config.parallel_games, config.num_workers)
        asked, playing = threading.Event(), Players(engines)
        began = counted = time.monotonic()
        stack.enter_context(stop_signals(asked.set))
        stack.callback(lambda: replay.add(playing.rest()))
        stack.enter_context(playing)
        while not asked.is_set():
            remaining = left - (time.monotonic() - began)
            if remaining <= 0:
                missing.clear()
            seconds = min(CHUNK_SECONDS, remaining) if remaining > 0 else CHUNK_SECONDS
            played = playing.take(goes_on=lambda: not asked.is_set(), seconds=seconds)
            made, now = made + len(played), time.monotonic()
            if played:  # else the seconds count with the next games
                replay.add(played, now - counted)
                counted = now
            elif playing.are_done:
                return replay
            if made:
                rate = made / (now - began)
                later = min((count - there - made) / rate, max(0.0, began + left - now)) / 60
                positions = f"{replay.rows:,} positions, " if replay.rows else ""  # games without search have no rows
                games = f"{there + made:,} of {count:,} games played"
                on_made(f"{games}, {positions}{rate:,.2f} games/s, {later:.0f} min left")
    raise KeyboardInterrupt
