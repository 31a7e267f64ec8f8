"""What teachers found in games against themselves (``teachers.py``), kept in files and made into training rows. Nothing
is trained here.
"""

from __future__ import annotations

import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from math import isqrt
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType
from typing import cast
from zipfile import BadZipFile

import numpy as np

from arena import ConfigError, RecordError
from arena.go.coords import pass_move, symmetry_table
from arena.go.game import Rules
from arena.go.planes import Encoder
from trainers.cluster import Cores
from trainers.data import (
    TRAIN,
    UNKNOWN,
    Batch,
    Games,
    Rows,
    SplitRule,
    encode_positions,
    load_arrays,
    parts_of,
    save_arrays,
)
from trainers.outcomes import joined
from trainers.progress import Made
from trainers.selfplay import games_from_moves
from trainers.settings import Distill as Config
from trainers.teachers import Course, Finished, Recipe, course_on, courses
from trainers.workers import refuse_to_play_under_torchrun

# --- What was found ---


@dataclass(frozen=True, slots=True)
class Findings:
    """Games, and what the teacher found at those of their moves that it thought over in full."""

    games: Games
    places: np.ndarray  # (findings,) int64, rising: flat indices of ``games.moves``
    levels: np.ndarray  # (findings, size² + 1) uint16: the shares of the moves, in ``LEVELS`` steps
    win_rates: np.ndarray  # (findings,) float32 in [0, 1], of the side to move; NaN where the teacher has none

    def __len__(self) -> int:
        return len(self.places)

    def select(self, which: np.ndarray) -> Findings:
        """Those of the games that ``which``, a mask or indices, names."""
        indices = np.flatnonzero(which) if which.dtype == np.bool_ else which
        begins = np.searchsorted(self.places, self.games.starts[indices])
        counts = np.searchsorted(self.places, self.games.starts[indices + 1]) - begins
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        flat = np.arange(starts[-1]) + np.repeat(begins - starts[:-1], counts)
        games = self.games.select(indices)
        moved = np.repeat(games.starts[:-1] - self.games.starts[indices], counts)
        return Findings(games, self.places[flat] + moved, self.levels[flat], self.win_rates[flat])

    @classmethod
    def joined(cls, parts: Sequence[Findings]) -> Findings:
        """All of them in one."""
        offsets = np.cumsum([0, *(len(part.games.moves) for part in parts[:-1])])
        places = [part.places + offset for part, offset in zip(parts, offsets, strict=True)]
        return cls(
            joined([part.games for part in parts]),
            np.concatenate(places),
            np.concatenate([part.levels for part in parts]),
            np.concatenate([part.win_rates for part in parts]),
        )


def from_levels(levels: np.ndarray) -> np.ndarray:
    """The shares (..., moves) that ``to_levels`` kept; float32, their sum is 1."""
    shares = levels.astype(np.float32)
    return cast(np.ndarray, shares / shares.sum(-1, keepdims=True))


# --- The files of games ---


def make_games(
    config: Config,
    recipe: Recipe,
    cache: Path,
    on_made: Callable[[Made], None] = lambda _: None,
    cores: Cores | None = None,
) -> None:
    """Play the games that aren't in ``cache`` yet, here or on ``cores`` of a cluster, or begin no more once
    ``play_minutes`` are over.

    A file appears when ``games_per_file`` games are over, and at the end. After SIGINT or SIGTERM it ends the present
    round, writes all games that are over and raises KeyboardInterrupt; a later call goes on with those that aren't
    there.
    """
    folder = recipe.folder(cache)
    missing, left = what_is_missing(config, recipe, cache)
    if not missing:
        return
    refuse_to_play_under_torchrun(len(missing))
    ready, begun = config.games - len(missing), time.monotonic()
    finished: SimpleQueue[Finished] = SimpleQueue()
    stopped = threading.Event()

    def goes_on() -> bool:
        if time.monotonic() - begun > left:
            missing.clear()
        return not stopped.is_set()

    def work(course: Course) -> None:
        for game in course(missing, goes_on):
            finished.put(game)

    over: list[Finished] = []
    written = moves = findings = 0
    marked = begun

    def write() -> None:
        nonlocal written, marked
        now = time.monotonic()
        _write(folder, recipe.rules, over, now - marked)
        written, marked = written + len(over), now
        over.clear()

    with _noting_signals() as asked, ThreadPoolExecutor(config.game_threads) as pool:
        if cores is None:
            playing = courses(recipe, config.parallel_games, config.game_threads)
        else:
            playing = [course_on(cores, recipe, config.parallel_games)]
        working = [pool.submit(work, course) for course in playing]
        try:
            while not (all(future.done() for future in working) and finished.empty()):
                if asked.is_set() or any(future.done() and future.exception() for future in working):
                    stopped.set()
                with suppress(Empty):
                    game = finished.get(timeout=0.2)
                    over.append(game)
                    moves += len(game.moves)
                    findings += len(game.plies)
                if len(over) >= config.games_per_file:
                    write()
                    elapsed, still = time.monotonic() - begun, config.games - ready - written
                    minutes = min(elapsed * still / written, max(0.0, left - elapsed)) / 60
                    on_made(Made(ready + written, config.games, findings, moves / elapsed, minutes))
        finally:
            stopped.set()
            wait(working)
            while not finished.empty():
                over.append(finished.get())
            if over:
                write()
    for future in working:
        future.result()
    if asked.is_set():
        raise KeyboardInterrupt


def what_is_missing(config: Config, recipe: Recipe, cache: Path) -> tuple[deque[int], float]:
    """The numbers of the games that are to be played, and the seconds that are left for them: none once these are
    over."""
    there, seconds = _inventory(recipe.folder(cache))
    left = np.inf if config.play_minutes is None else 60 * config.play_minutes - seconds
    return deque(number for number in range(config.games) if number not in there and left > 0), left


@contextmanager
def _noting_signals() -> Iterator[threading.Event]:
    """While inside, SIGINT and SIGTERM set the event and do nothing else. Only in the main thread."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def ask(_number: int, _frame: FrameType | None) -> None:
        asked.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _inventory(folder: Path) -> tuple[set[int], float]:
    """The numbers of the games that are there, and the seconds that they took."""
    there: set[int] = set()
    seconds = 0.0
    for path in folder.glob("*.npz"):
        if (arrays := load_arrays(path)) is not None:
            there.update(arrays["numbers"].tolist())
            seconds += float(arrays["seconds"])
    return there, seconds


def _write(folder: Path, rules: Rules, finished: Sequence[Finished], seconds: float) -> None:
    """One file of games, named after the first of them."""
    games = games_from_moves(rules, [game.moves for game in finished], np.array([game.margin for game in finished]))
    sound = np.array([game.is_sound for game in finished])
    games = replace(games, scored=sound, winners=np.where(sound, games.winners, UNKNOWN).astype(np.uint8))
    starts = games.starts[:-1]
    arrays = {item.name: getattr(games, item.name) for item in fields(Games) if item.name != "size"}
    arrays["places"] = np.concatenate([game.plies + start for game, start in zip(finished, starts, strict=True)])
    arrays["levels"] = np.concatenate([game.levels for game in finished])
    arrays["win_rates"] = np.concatenate([game.win_rates for game in finished])
    numbers = np.array([game.number for game in finished], np.int64)
    save_arrays(folder / f"{numbers.min():08}.npz", {**arrays, "numbers": numbers, "seconds": np.array(seconds)})


def read_findings(config: Config, recipe: Recipe, cache: Path) -> Findings:
    """The games that ``make_games`` made, in the order of their numbers. Raises RecordError when there is none."""
    folder = recipe.folder(cache)
    if not any(folder.glob("*.npz")):
        raise RecordError("no game was finished to learn from; give more --play-minutes")
    return _read(folder, config.games)


def read_earlier(config: Config) -> list[Findings]:
    """The games in each of the folders ``earlier``, whatever their size. Raises RecordError for one without games."""
    return [_read(Path(folder)) for folder in config.earlier]


def _read(folder: Path, count: int | None = None) -> Findings:
    """The games in a folder, which are of one size, in the order of their numbers, those below ``count``."""
    parts: list[Findings] = []
    numbers = []
    for path in sorted(folder.glob("*.npz")):
        try:
            with np.load(path, allow_pickle=False) as arrays:
                known = dict(arrays)
            numbers.append(known.pop("numbers"))
            del known["seconds"]
            found = {name: known.pop(name) for name in ("places", "levels", "win_rates")}
            size = isqrt(found["levels"].shape[1] - 1)
            parts.append(Findings(Games(size, **known), **found))
        except (OSError, ValueError, KeyError, IndexError, TypeError, BadZipFile) as error:
            raise RecordError(f"{path}: holds no games of a teacher ({error})") from error
        if size != (first := parts[0].games.size):
            raise RecordError(f"{path}: its games are played on {size}x{size}, others beside it on {first}x{first}")
    if not parts:
        raise RecordError(f"{folder}: holds no games; name a folder like results/cache/distill-games-...")
    drawn, firsts = np.unique(np.concatenate(numbers), return_index=True)
    return Findings.joined(parts).select(firsts if count is None else firsts[drawn < count])


@dataclass(frozen=True, slots=True)
class Split:
    """Findings apart by game: no game, under no symmetry, is in it twice."""

    train: Findings
    validation: Findings
    test: Findings
    others: tuple[Findings, ...] = ()
    """On boards of other sizes, to learn from only."""


def split_findings(
    config: Config, findings: Findings, earlier: Sequence[Findings] = (), inherited: Sequence[SplitRule] = ()
) -> Split:
    """Findings apart, by hashes of the games' moves; ``earlier`` ones are to learn from only. Raises ConfigError where
    nothing is left to learn from or to be tested on."""
    present, by_size = len(findings.games), {config.size: [findings]}
    for one in earlier:
        by_size.setdefault(one.games.size, []).append(one)
    findings, *others = map(Findings.joined, by_size.values())
    games = findings.games
    side = parts_of(games, (SplitRule.of(config, played=True), *inherited))
    side[present:][side[present:] >= 0] = TRAIN
    train, validation, test = (findings.select(side == number) for number in range(3))
    if not len(train) or not len(test):
        raise ConfigError(f"{len(games)} games leave nothing to learn from or for the test; play more games")
    return Split(train, validation, test, tuple(others))


# --- Rows ---


@dataclass(frozen=True, slots=True)
class Taught(Batch):
    """Training rows with what a teacher found, all for the side to move. ``moves`` are those with the largest share."""

    shares: np.ndarray  # (B, n² + 1) float32: of the visits; of a record, all is the move that was played
    win_rates: np.ndarray  # (B,) float32 in [0, 1]; NaN where none is known


def encode_findings(
    findings: Findings, encoder: Encoder, which: np.ndarray, symmetries: np.ndarray, threads: int = 1
) -> Taught:
    """The rows of the findings ``which`` (B,), each under its symmetry."""
    batch = encode_positions(findings.games, encoder, findings.places[which], symmetries, threads)
    shares = from_levels(findings.levels[which])
    turned = np.empty_like(shares)
    np.put_along_axis(turned, symmetry_table(findings.games.size)[symmetries].astype(np.int64), shares, 1)
    known = {item.name: getattr(batch, item.name) for item in fields(Batch)}
    return Taught(**{**known, "moves": turned.argmax(1)}, shares=turned, win_rates=findings.win_rates[which])


class FoundRows(Rows):
    """Rows of all findings, each once an epoch under a random symmetry."""

    def __init__(self, findings: Findings, encoder: Encoder, seed: int = 0, threads: int = 1):
        super().__init__(findings.games, encoder, seed, threads)
        self.findings = findings

    @property
    def per_epoch(self) -> int:
        return len(self.findings)

    def batch(self, first: int, count: int) -> Taught:
        which, symmetries = self.positions(first, count)
        return encode_findings(self.findings, self.encoder, which, symmetries, self.threads)


class PlayedRows(Rows):
    """Rows of records, as if a teacher had been sure of each move that was played."""

    def batch(self, first: int, count: int) -> Taught:
        batch = super().batch(first, count)
        shares = np.zeros((count, pass_move(self.games.size) + 1), np.float32)
        shares[np.arange(count), batch.moves] = 1
        known = {item.name: getattr(batch, item.name) for item in fields(Batch)}
        return Taught(**known, shares=shares, win_rates=np.full(count, np.nan, np.float32))


def in_order(findings: Findings, encoder: Encoder, count: int = 0, batch: int = 512) -> Iterator[Taught]:
    """The first ``count`` findings, or all for 0, as they stand: for measuring."""
    end = min(count or len(findings), len(findings))
    for first in range(0, end, batch):
        which = np.arange(first, min(first + batch, end))
        yield encode_findings(findings, encoder, which, np.zeros(len(which), np.int64))
