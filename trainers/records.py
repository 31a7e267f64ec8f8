"""Game records as training rows: SGF files, arena.db or a dataset, split by game; a seeded order of rows; batches."""

from __future__ import annotations

import hashlib
import logging
import math
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from zipfile import BadZipFile

import numpy as np

from arena import ConfigError, RecordError
from arena.files import convert, read_object, replacing
from arena.go import collection
from arena.go.collection import Text
from arena.go.coords import BLACK, SYMMETRIES, WHITE, symmetry_table
from arena.go.planes import Encoder, encode_rows, final_owners
from arena.go.record import GameRecord
from arena.go.sgf import read_sgf, write_sgf
from trainers.settings import Records, Supervised

if TYPE_CHECKING:
    from arena.results.store import Store

FORMAT = 2
"""Written into the name of every cached file; a change of what ``Games`` holds raises it."""

UNKNOWN, BLACK_WON, WHITE_WON, DRAWN = range(4)
"""How ``Games.winners`` tells results; the first three are also 0 and the two colours."""

WIN, DRAW, LOSS = range(3)
"""The classes of the value, for the side to move."""

LATE = 15
"""From this ply on few games still repeat earlier ones."""

NO_RESULT = -1
"""The value target of a game whose result isn't known; the loss leaves it out."""


@dataclass(frozen=True, slots=True)
class Games:
    """Games of one size as flat arrays, Black first, no setup: game ``g`` is ``moves[starts[g]:starts[g + 1]]``."""

    size: int
    moves: np.ndarray  # (all moves,) uint16
    starts: np.ndarray  # (games + 1,) int64
    komis: np.ndarray  # (games,) float64, White's
    winners: np.ndarray  # (games,) uint8: UNKNOWN, BLACK_WON, WHITE_WON, DRAWN
    dates: np.ndarray  # (games,) int32: 20180301, or 0 where the record has none
    sources: np.ndarray  # (games,) uint8: which of the files it came from
    scored: np.ndarray  # (games,) bool: whether the recorded margin is that of the last position
    owners: (
        np.ndarray
    )  # (games, size²) int8: whose each point is in the last position: 1 Black's, -1 White's, 0 no one's

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Moves of each game; (games,) int64."""
        return np.diff(self.starts)

    @property
    def plies(self) -> np.ndarray:
        """How many moves came before each move in its game; (all moves,) int64."""
        return np.arange(len(self.moves)) - np.repeat(self.starts[:-1], self.lengths)

    def select(self, which: np.ndarray) -> Games:
        """The games that ``which``, a mask or indices, names."""
        indices = np.flatnonzero(which) if which.dtype == np.bool_ else which
        lengths = self.lengths[indices]
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        flat = np.arange(starts[-1]) + np.repeat(self.starts[indices] - starts[:-1], lengths)
        return Games(
            self.size,
            self.moves[flat],
            starts,
            self.komis[indices],
            self.winners[indices],
            self.dates[indices],
            self.sources[indices],
            self.scored[indices],
            self.owners[indices],
        )


@dataclass(frozen=True, slots=True)
class Split:
    """Games apart: no game, under no symmetry, is in two of them."""

    train: Games
    validation: Games
    test: Games
    rules: tuple[SplitRule, ...] = ()
    """By what they are apart; see ``parts_of``."""
    source: str = ""
    """The records' names and the sha256 of their contents, for manifests."""

    @property
    def komi(self) -> float:
        """White's in most training games."""
        return float(np.median(self.train.komis))

    def planes(self, encoder: Encoder, seed: int) -> Callable[[int], np.ndarray]:
        """Gives planes (B, P, n, n) of as many held-out positions as asked for, always the same."""
        rows = Rows(self.validation if len(self.validation) else self.train, encoder, seed + 1)
        return lambda count: rows.batch(0, count).planes


@dataclass(frozen=True, slots=True)
class Batch:
    """Training rows, all for the side to move."""

    planes: np.ndarray  # (B, P, n, n) float32
    moves: np.ndarray  # (B,) int64
    results: np.ndarray  # (B,) int64: WIN, DRAW, LOSS or NO_RESULT
    plies: np.ndarray  # (B,) int64: moves played before
    owners: (
        np.ndarray
    )  # (B, n²) int8: 1 where the point will be the side to move's, -1 the other's, 0 no one's or unknown
    scores: np.ndarray  # (B,) float32: by how many points the side to move will win, komi counted; NaN where unknown

    def __len__(self) -> int:
        return len(self.moves)


def canonical_key(moves: np.ndarray, size: int) -> bytes:
    """16 bytes that a game shares with its 8 symmetric twins and, but for chance, with no other."""
    twins = symmetry_table(size)[:, moves].astype(np.uint16)  # (8, moves)
    return hashlib.blake2b(min(twin.tobytes() for twin in twins), digest_size=16).digest()


def games_from_records(
    records: Iterable[tuple[int, GameRecord]],
    size: int,
    settle: Callable[[GameRecord], np.ndarray | None] | None = None,
) -> Games:
    """The usable games of (source, record): this size, no setup stones, Black first, no game twice under symmetry.

    A record's place in ``Games`` keeps the order of ``records``; of two twins the first stays. ``settle``
    tells the owners (size²,) of games whose last position doesn't give the recorded margin; None where it can't.
    """
    moves: list[np.ndarray] = []
    taken: list[GameRecord] = []
    komis, winners, dates, sources, margins = [], [], [], [], []
    seen: set[bytes] = set()
    for source, record in records:
        if record.rules.size != size or any(record.setup) or record.first is not BLACK or not record.moves:
            continue
        flat = np.array(record.moves, np.uint16)
        key = canonical_key(flat, size)
        if key in seen:
            continue
        seen.add(key)
        moves.append(flat)
        komis.append(record.rules.komi)
        winners.append(_winner(record))
        dates.append(_date(record.date))
        sources.append(source)
        margins.append(_margin(record))
        if settle is not None:
            taken.append(record)
    starts = np.concatenate([[0], np.cumsum([len(flat) for flat in moves])]).astype(np.int64)
    flat = np.concatenate(moves) if moves else np.empty(0, np.uint16)
    owners = np.empty((len(moves), size * size), np.int8)
    final_owners(size, flat, starts, owners)
    scored = owners.sum(1) == np.array(margins, np.float64)  # NaN equals nothing
    for game, record in enumerate(taken):
        if not scored[game] and settle is not None and (settled := settle(record)) is not None:
            owners[game], scored[game] = settled, True
    return Games(
        size,
        flat,
        starts,
        np.array(komis, np.float64),
        np.array(winners, np.uint8),
        np.array(dates, np.int32),
        np.array(sources, np.uint8),
        scored,
        owners,
    )


def _margin(record: GameRecord) -> float:
    """Black's recorded margin before komi; NaN where none is known."""
    margin = None if record.outcome is None else record.outcome.margin
    return math.nan if margin is None else margin + record.rules.komi


def _winner(record: GameRecord) -> int:
    if record.outcome is None:
        return UNKNOWN
    return DRAWN if record.outcome.winner is None else int(record.outcome.winner)


def _date(text: str) -> int:
    """20180301 from 2018-03-01; 0 from anything else."""
    digits = text[:10].split("-")
    if len(digits) != 3 or not all(part.isdecimal() for part in digits):
        return 0
    year, month, day = (int(part) for part in digits)
    return year * 10000 + month * 100 + day


# --- Splits ---

TRAIN, VALIDATION, TEST = range(3)
"""The parts of a split, in the order of the fields of ``Split``."""


@dataclass(frozen=True, slots=True)
class SplitRule:
    """How games are split: by each game alone, so that others don't change its part. Twins under a symmetry stay
    together."""

    test_from: int = 0
    """Games of this day (20180301) or later are the test. A random split puts games into the test that repeat the first
    moves of training games."""
    validation: float = 0.01
    """The share of the games not in the test that is kept aside."""
    test: float = 0.0
    """The share of games that is the test where no day tells: they have none, or ``test_from`` is 0."""
    played: bool = False
    """Whether it is for games that a run plays, not for records."""

    @classmethod
    def of(cls, settings: Records, played: bool = False) -> SplitRule:
        """Raises ConfigError for a day that is none."""
        return cls(day_of(settings.test_from), settings.validation_split, settings.test_split, played)

    def part_of(self, key: bytes, day: int) -> int:
        """TRAIN, VALIDATION or TEST, by a game's ``canonical_key`` and its date."""
        validation, test = (int.from_bytes(two, "big") for two in (key[:2], key[2:4]))
        if day >= self.test_from if self.test_from and day else test < round(self.test * 2**16):
            return TEST
        return VALIDATION if validation < round(self.validation * 2**16) else TRAIN


def parts_of(games: Games, rules: Sequence[SplitRule], seen: set[bytes] | None = None) -> np.ndarray:
    """The part of each game by the first of ``rules``, (games,) int64; TRAIN where another one for such games says so:
    those are of the nets that a run begins with, which have learned from it. -1 for a game whose twin under a symmetry
    came before. ``seen`` are the keys of games before these, and then of these, too."""
    seen = set() if seen is None else seen
    rules = [rule for rule in rules if rule.played == rules[0].played]
    parts = np.full(len(games), -1)
    for game, day in enumerate(games.dates.tolist()):
        key = canonical_key(games.moves[games.starts[game] : games.starts[game + 1]], games.size)
        if key not in seen:
            known = [rule.part_of(key, day) for rule in rules]
            parts[game] = TRAIN if TRAIN in known else known[0]
        seen.add(key)
    return parts


def split_by_game(games: Games, *rules: SplitRule) -> Split:
    """Whole games apart, as ``parts_of`` tells."""
    parts = parts_of(games, rules)
    train, validation, test = (games.select(parts == part) for part in (TRAIN, VALIDATION, TEST))
    return Split(train, validation, test, rules)


def day_of(text: str) -> int:
    """2018-03-01 as 20180301, the start of all time as 0 when it's empty. Raises ConfigError."""
    if text and not _date(text):
        raise ConfigError(f"'{text}' is not a day; write it like 2018-03-01")
    return _date(text)


def games_since(games: Games, day: str) -> Games:
    """The games dated that day (2018-03-01; empty for all) or later. Raises ConfigError, RecordError for none."""
    kept = games.select(games.dates >= day_of(day))
    if not len(kept):
        raise RecordError(f"no game is of {day} or later; choose an earlier day")
    return kept


def some_games(games: Games, positions: int, seed: int) -> Games:
    """Whole games in a seeded order until they have about ``positions`` positions; all of them when it is 0."""
    if not positions or positions >= len(games.moves):
        return games
    order = np.random.default_rng(seed).permutation(len(games))
    enough = int((games.lengths[order].cumsum() < positions).sum()) + 1
    return games.select(order[:enough])


# --- Datasets ---

DATASET_FORMAT = 3
"""The version of a dataset's folder; a reader refuses any other."""

MANIFEST = "manifest.json"
PARTS = ("train", "validation", "test")
ARRAYS = tuple(known.name for known in fields(Games) if known.name != "size")


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a dataset is; plain data, stored as JSON beside the parts."""

    size: int
    sources: Mapping[str, str]
    """Name of each file or folder that was read to the sha256 of its contents, in the order of ``Games.sources``."""
    filter: Mapping[str, Any]
    """Which games were kept; the fields of ``dataset.GameFilter``."""
    split: Mapping[str, Any]
    """How they were split; the fields of ``SplitRule``."""
    read: int
    """Games read, those refused counted."""
    rejects: Mapping[str, int]
    """Why games were left out, the commonest reason first."""
    dead_stones: Mapping[str, int]
    """Kept games that were counted, by how their dead stones were labelled (names of ``dead_stones.LabelledBy``); empty
    where none were."""
    gnugo: str
    """The GNU Go that marked dead stones where playouts failed; empty without."""
    games: Mapping[str, int]
    positions: Mapping[str, int]
    files: Mapping[str, str] = field(default_factory=dict)
    """File name to sha256."""
    created: str = ""
    format: int = DATASET_FORMAT


@dataclass(frozen=True, slots=True)
class Dataset:
    """A folder whose manifest was read; its parts are mapped into memory, not loaded."""

    folder: Path
    manifest: Manifest
    train: Games
    validation: Games
    test: Games

    @classmethod
    def open(cls, folder: str | Path, verify: bool = False) -> Dataset:
        """Map a folder; with ``verify`` all its files are read and their sha256 compared.

        Raises RecordError for one that is missing, incomplete, damaged or of another version.
        """
        folder = Path(folder)
        manifest = _read_manifest(folder)
        for name, expected in manifest.files.items():
            if verify and (folder / name).is_file() and sha256_of(folder / name) != expected:
                raise RecordError(f"{folder / name}: isn't the file that {MANIFEST} describes; build the dataset again")
        return cls(folder, manifest, *(_map_part(folder, part, manifest) for part in PARTS))

    @property
    def rule(self) -> SplitRule:
        """How its games were split."""
        return SplitRule(**self.manifest.split)

    def ratings(self, part: str) -> np.ndarray:
        """(games, 2) float32: the Elo of Black and White, 0 where it isn't known."""
        return _map(self.folder / part / "ratings.npy")


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_manifest(folder: Path) -> Manifest:
    path = folder / MANIFEST
    hint = "build the dataset with: arena data build"
    content = read_object(path, error=RecordError, hint=hint)
    if content.get("format") != DATASET_FORMAT:
        raise RecordError(
            f"{path}: has format {content.get('format')!r}, and this version reads {DATASET_FORMAT}; {hint}"
        )
    return convert(content, Manifest, path, error=RecordError, hint=hint)


def _map(path: Path) -> np.ndarray:
    try:
        return np.asarray(np.load(path, mmap_mode="c", allow_pickle=False))
    except (OSError, ValueError) as error:
        raise RecordError(f"{path}: can't be mapped ({error}); build the dataset again") from error


def _map_part(folder: Path, part: str, manifest: Manifest) -> Games:
    games = Games(manifest.size, **{name: _map(folder / part / f"{name}.npy") for name in ARRAYS})
    if len(games) != manifest.games[part] or len(games.moves) != manifest.positions[part]:
        raise RecordError(f"{folder / part}: isn't the part that {MANIFEST} describes; build the dataset again")
    return games


# --- Reading ---


def load_games(paths: Sequence[Path], size: int, cache: Path, dead_stones: bool = False) -> Games:
    """The usable games of some paths (see ``read_texts``); kept in ``cache`` under a name made from their contents.
    With ``dead_stones``, those of unfinished boards are marked as ``dead_stones.label_dead_stones`` does it.

    Raises RecordError when a path can't be read or holds no usable game. Games that can't be read are left out.
    """
    name = hashlib.sha256(f"{FORMAT} {size} {digest_of(paths)}{' settled' * dead_stones}".encode()).hexdigest()[:24]
    stored = cache / f"games-{name}.npz"
    try:
        with np.load(stored, allow_pickle=False) as arrays:
            return Games(size, **arrays)
    except FileNotFoundError:
        pass
    except (OSError, ValueError, TypeError, EOFError, BadZipFile, zlib.error, NotImplementedError) as error:
        logging.getLogger(__name__).warning("%s: is damaged (%s) and is made anew", stored, error)
    settle: Callable[[GameRecord], np.ndarray | None] | None = None
    if dead_stones:
        from trainers import dead_stones as dead  # playouts are compiled

        def settle(record: GameRecord) -> np.ndarray | None:
            return dead.label_dead_stones(record, dead.judges())[1]

    games = games_from_records(_read(paths), size, settle)
    if not len(games):
        named = ", ".join(str(path) for path in paths)
        raise RecordError(f"{named}: no {size}x{size} game without setup stones; give other files or another size")
    with replacing(stored) as aside, aside.open("wb") as file:  # whoever finds it finds all of it
        np.savez(file, **{name: getattr(games, name) for name in ARRAYS})
    return games


def _read(paths: Sequence[Path]) -> Iterator[tuple[int, GameRecord]]:
    for source, path in enumerate(paths):
        for _, _, sgf in read_texts(path):
            with suppress(RecordError):
                yield min(source, 255), read_sgf(sgf)


def read_texts(path: Path) -> Iterator[Text]:
    """The games of a path, not yet parsed: of SGF files, folders and archives as ``arena.go.collection`` reads them, or
    of the arena's own ``arena.db``. Raises RecordError for what can't be read."""
    if path.suffix != ".db":
        yield from collection.read_texts(path)
        return
    with _open_store(path) as store:
        for number, record in enumerate(store.games(), 1):
            yield str(path), number, write_sgf(record).encode()


def _open_store(path: Path) -> Store:
    from arena.results.store import Store

    return Store.open(path)


def digest_of(paths: Sequence[Path]) -> str:
    """The sha256 of the contents of files, and of all regular files in folders; of an ``arena.db``, of its events and
    how many games of each there are. Raises RecordError for what can't be read, or isn't a regular file: reading a pipe
    or a device may never end."""
    digest = hashlib.sha256()
    for path in paths:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise RecordError(f"{path}: is not a regular file; give files of SGF games")
        if path.suffix == ".db" and path.exists():
            with _open_store(path) as store:
                for event in store.events():
                    digest.update(f"{event.id} {store.count(event=event.id)}\n".encode())
            continue
        files = [path]
        if (path / MANIFEST).is_file():
            files = [path / MANIFEST]  # which has the sha256 of the others
        elif path.is_dir():
            files = [file for file in sorted(path.rglob("*")) if file.is_file()]
        for file in files:
            try:
                with file.open("rb") as opened:
                    digest.update(hashlib.file_digest(opened, "sha256").digest())
            except OSError as error:
                raise RecordError(f"{file}: can't be read ({error.strerror}); give files of SGF games") from error
    return digest.hexdigest()


def described(paths: Sequence[Path]) -> str:
    """The names of some paths and the sha256 of their contents, for a manifest."""
    return f"{', '.join(path.name for path in paths)}; sha256 {digest_of(paths)}"


def read_sizes(settings: Records, cache: Path, inherited: Sequence[SplitRule] = ()) -> tuple[Split, list[Games]]:
    """As ``read_split``; and where several datasets are named, the training games of those of other sizes.

    Raises RecordError and ConfigError as that does, and RecordError for two datasets of one size.
    """
    paths = [Path(path) for path in settings.data]
    if len(paths) < 2 or not all((path / MANIFEST).is_file() for path in paths):
        return read_split(settings, cache, inherited), []
    sets = [(path, Dataset.open(path)) for path in paths]
    sizes = [opened.manifest.size for _, opened in sets]
    if settings.size not in sizes or len(set(sizes)) < len(sizes):
        raise RecordError(
            f"datasets of sizes {', '.join(map(str, sizes))}: one must be of size {settings.size}, and each of another"
        )
    own = next(str(path) for path, opened in sets if opened.manifest.size == settings.size)
    others = [opened for _, opened in sets if opened.manifest.size != settings.size and len(opened.train)]
    split = read_split(replace(settings, data=(own,)), cache, inherited)
    rules = dict.fromkeys((*split.rules, *(other.rule for other in others)))
    return replace(split, rules=tuple(rules), source=described(paths)), [other.train for other in others]


def read_split(settings: Records, cache: Path, inherited: Sequence[SplitRule] = ()) -> Split:
    """The games that a trainer is to learn from and be tested on: a dataset's parts as they are, other records split.
    Games from which the net that it begins with has learned, by the rules that are ``inherited``, are held out of
    neither: a dataset's are left out, others are learned from.

    Raises RecordError for records that can't be used, ConfigError for settings that can't be.
    """
    paths = [Path(path) for path in settings.data]
    if not paths:
        raise ConfigError("no game records to learn from: name SGF files, folders, .sgfs.xz files or a dataset")
    if any((path / MANIFEST).is_file() for path in paths):
        if len(paths) > 1:
            raise RecordError("a dataset can't be mixed with other records; make one of all: arena data build")
        dataset = Dataset.open(paths[0])
        if dataset.manifest.size != settings.size:
            size = dataset.manifest.size
            raise RecordError(
                f"{paths[0]} holds {size}x{size} games, not {settings.size}x{settings.size}; set the size"
            )
        rules = tuple(dict.fromkeys((dataset.rule, *inherited)))
        validation, test = dataset.validation, dataset.test
        if len(rules) > 1:
            validation, test = (part.select(parts_of(part, rules) != TRAIN) for part in (validation, test))
        split = Split(dataset.train, validation, test, rules, described(paths))
    else:
        rules = tuple(dict.fromkeys((SplitRule.of(settings), *inherited)))
        split = replace(split_by_game(load_games(paths, settings.size, cache), *rules), source=described(paths))
    if not len(split.train):
        raise RecordError(
            "no training games: all are of test_from or later; set a later test_from, or run arena data build first"
        )
    return split


# --- Rows ---


class Rows:
    """A seeded, endless order of rows: every position of every game once an epoch, each under a random symmetry.

    Row ``i`` depends on the games, the seed and ``i`` only, so the number of rows drawn is the whole state of a run.
    """

    def __init__(self, games: Games, encoder: Encoder, seed: int = 0, threads: int = 1):
        if not len(games.moves):
            raise RecordError("no training rows: no games are left after the split")
        self.games = games
        self.encoder = encoder
        self.seed = seed
        self.threads = threads
        self._epoch = -1
        self._order = np.empty(0, np.int64)
        self._symmetries = np.empty(0, np.uint8)

    @property
    def per_epoch(self) -> int:
        return len(self.games.moves)

    def positions(self, first: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Flat position indices and symmetries of rows ``first`` to ``first + count``; both (count,) int64."""
        places = np.empty(count, np.int64)
        symmetries = np.empty(count, np.int64)
        done = 0
        while done < count:
            epoch, offset = divmod(first + done, self.per_epoch)
            self._shuffle(epoch)
            take = min(count - done, self.per_epoch - offset)
            places[done : done + take] = self._order[offset : offset + take]
            symmetries[done : done + take] = self._symmetries[offset : offset + take]
            done += take
        return places, symmetries

    def batch(self, first: int, count: int) -> Batch:
        """Rows ``first`` to ``first + count`` of the order."""
        places, symmetries = self.positions(first, count)
        return encode_positions(self.games, self.encoder, places, symmetries, self.threads)

    def _shuffle(self, epoch: int) -> None:
        if epoch == self._epoch:
            return
        generator = np.random.default_rng([self.seed, epoch])
        self._order = self._places(generator)
        self._symmetries = generator.integers(0, SYMMETRIES, self.per_epoch, np.uint8)
        self._epoch = epoch

    def _places(self, generator: np.random.Generator) -> np.ndarray:
        """The flat indices of an epoch's positions, in its order."""
        return generator.permutation(self.per_epoch)


class Source(Protocol):
    """An endless order of rows."""

    def batch(self, first: int, count: int) -> Batch: ...


class Counted(Source, Protocol):
    """An endless order of rows that come again after an epoch."""

    @property
    def per_epoch(self) -> int: ...


@dataclass(frozen=True, slots=True)
class BySize:
    """Orders of rows of several board sizes in one: a step of ``step_rows`` rows is of one size, and each is as
    often as it has rows. Which it is depends on the seed and the step alone."""

    orders: Sequence[Counted]
    step_rows: int
    seed: int

    def batch(self, first: int, count: int) -> Batch:
        """Rows ``first`` to ``first + count``, which are of one step."""
        counts = np.cumsum([order.per_epoch for order in self.orders])
        drawn = np.random.default_rng([self.seed, first // self.step_rows]).integers(counts[-1])
        return self.orders[int(np.searchsorted(counts, drawn, side="right"))].batch(first, count)


def rows_of_sizes(games: Sequence[Games], encoder: Encoder, config: Supervised) -> Source:
    """The endless order of all positions of some games; those of several board sizes take turns."""
    orders = [Rows(some, encoder, config.seed, config.num_workers) for some in games]
    return BySize(orders, config.batch_size, config.seed) if len(orders) > 1 else orders[0]


@dataclass(frozen=True, slots=True)
class Mixed:
    """Two orders of rows in one: evenly spread, the share ``share`` of the rows is the second's."""

    first: Counted
    second: Source
    share: float

    @property
    def per_epoch(self) -> int:
        """How many there are until the first order has come to its end."""
        return round(self.first.per_epoch / max(1 - self.share, 1e-9))

    def batch(self, first: int, count: int) -> Batch:
        """Rows ``first`` to ``first + count``: those of the first order, then those of the second."""
        begin, end = math.floor(first * self.share), math.floor((first + count) * self.share)
        parts = [(self.first, first - begin, count - (end - begin)), (self.second, begin, end - begin)]
        batches = [rows.batch(start, some) for rows, start, some in parts if some]
        kind = type(batches[0])
        return kind(*(np.concatenate([getattr(part, item.name) for part in batches]) for item in fields(kind)))


def encode_positions(
    games: Games, encoder: Encoder, places: np.ndarray, symmetries: np.ndarray, threads: int = 1
) -> Batch:
    """The rows at flat indices ``places`` of ``games.moves``: the position before that move, and the move."""
    owners = np.searchsorted(games.starts, places, side="right") - 1
    plies = places - games.starts[owners]
    lists = (games.size, games.moves, games.starts, games.komis)
    planes = encode_rows(encoder, *lists, owners, plies, symmetries, threads)
    tables = symmetry_table(games.size)
    targets = tables[symmetries, games.moves[places]].astype(np.int64)
    signs = np.where(plies % 2 == 0, 1, -1)
    final = games.owners[owners] * (signs * games.scored[owners])[:, None].astype(np.int8)
    turned = np.empty_like(final)
    np.put_along_axis(turned, tables[symmetries, :-1].astype(np.int64), final, 1)
    margins = games.owners[owners].sum(1, dtype=np.float32) - games.komis[owners]
    scores = np.where(games.scored[owners], signs * margins, np.nan).astype(np.float32)
    shape = (len(places), encoder.planes, games.size, games.size)
    results = results_of(games.winners[owners], plies)
    return Batch(planes.reshape(shape), targets, results, plies, turned, scores)


def results_of(winners: np.ndarray, plies: np.ndarray) -> np.ndarray:
    """WIN, DRAW or LOSS for the side to move at each ply, NO_RESULT where the winner isn't known; int64."""
    to_play = np.where(plies % 2 == 0, int(BLACK), int(WHITE))
    results = np.where(winners == to_play, WIN, LOSS)
    results[winners == DRAWN] = DRAW
    results[winners == UNKNOWN] = NO_RESULT
    return results


def in_order(games: Games, encoder: Encoder, batch: int = 512) -> Iterator[Batch]:
    """Every position of every game once, in order, as it stands: for measuring."""
    for first in range(0, len(games.moves), batch):
        places = np.arange(first, min(first + batch, len(games.moves)))
        yield encode_positions(games, encoder, places, np.zeros(len(places), np.int64))


AHEAD = 4
"""Batches that wait, made, for a trainer."""

Prepared = TypeVar("Prepared")


@contextmanager
def prefetched(
    rows: Source, prepare: Callable[[Batch], Prepared], first: int, batch: int, stride: int
) -> Iterator[Iterator[Prepared]]:
    """Batches of ``rows``, made ahead of time in a thread and given to ``prepare`` there.

    The first begins at row ``first`` and each next one ``stride`` rows on: several processes that share the rows
    of every step begin at different ``first``.
    """

    def make(number: int) -> Prepared:
        return prepare(rows.batch(first + number * stride, batch))

    def batches() -> Iterator[Prepared]:
        waiting = deque(pool.submit(make, number) for number in range(AHEAD))
        for number in count(AHEAD):
            made = waiting.popleft().result()
            waiting.append(pool.submit(make, number))
            yield made

    with ThreadPoolExecutor(1, "rows") as pool:
        try:
            yield batches()
        finally:
            pool.shutdown(cancel_futures=True)
