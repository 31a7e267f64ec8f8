"""A dataset: a folder of filtered moves from records, without duplicates, split by game, memory-mapped.

Holds moves, not planes: ``trainers.data`` makes rows of them. Reads no nets, knows no losses.
"""

from __future__ import annotations

import hashlib
import json
import re
import signal
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from arena import ConfigError, RecordError
from arena.files import convert, read_json, replacing
from arena.go.collection import Text, read_texts
from arena.go.coords import BLACK
from arena.go.game import Ending
from arena.go.record import GameRecord
from arena.go.sgf import read_sgf
from arena.match.worker import end_with_parent
from trainers.data import (
    TRAIN,
    UNKNOWN,
    Games,
    Split,
    SplitRule,
    canonical_key,
    digest_of,
    games_from_records,
    load_games,
    parts_of,
    split_by_game,
)
from trainers.settings import Records
from trainers.settling import Settled, gnugo_title, judges, settle

FORMAT = 2
"""The version of the folder; a reader refuses any other."""

MANIFEST = "manifest.json"
PARTS = ("train", "validation", "test")
RESULTS = ("any", "known", "scored")

_CHUNK = 200
"""Games that a process parses at a time."""


@dataclass(frozen=True, slots=True)
class Sieve:
    """Which games are taken, and whether their dead stones are marked. Setup stones, handicaps and White first are
    never taken."""

    size: int = 9
    rules: tuple[str, ...] = ()
    """Names of rules, such as cgos; any when empty."""
    komi: tuple[float, ...] = ()
    """White's; any when empty."""
    rating: float = 0
    """Elo that both must have at least; 0 asks for none."""
    rank: str = ""
    """What both must be at least, such as 5k or 1d; any when empty."""
    results: str = "any"
    """any, known (a winner or a draw), or scored (counted at the end, so that the last position is settled)."""
    shortest: int = 1
    """Moves, passes counted."""
    longest: int = 3000
    dead_stones: bool = False
    """Mark the dead stones of counted games where the raw count isn't the recorded one, as ``settle`` does."""

    def __post_init__(self) -> None:
        if self.results not in RESULTS:
            raise ConfigError(f"results = '{self.results}' is not one of {', '.join(RESULTS)}")
        if self.rank and rank_of(self.rank) is None:
            raise ConfigError(f"rank = '{self.rank}' is not a rank; write it like 5k, 1d or 9p")

    def refusal(self, record: GameRecord) -> str:
        """Why a game isn't taken, in words fit to count; empty when it is."""
        outcome = record.outcome
        if record.rules.size != self.size:
            return "another size"
        if any(record.setup) or record.first is not BLACK:
            return "handicap or setup stones"
        if self.rules and record.rules.name not in self.rules:
            return "other rules"
        if self.komi and record.rules.komi not in self.komi:
            return "another komi"
        if not max(1, self.shortest) <= len(record.moves) <= self.longest:
            return "too short or too long"
        if self.results != "any" and outcome is None:
            return "unknown result"
        if self.results == "scored" and outcome is not None and outcome.ending is not Ending.SCORE:
            return "not scored"
        ranks = (record.black_rank, record.white_rank)
        if self.rating and not all((rating_of(text) or 0) >= self.rating for text in ranks):
            return "rating too low or unknown"
        if self.rank:
            least = rank_of(self.rank)
            if not all(least is not None and (mine := rank_of(text)) is not None and mine >= least for text in ranks):
                return "rank too low or unknown"
        return ""


def rating_of(text: str) -> float | None:
    """The Elo that a rank property such as ``2650?`` tells, or None."""
    found = re.fullmatch(r"\s*(\d{2,4}(?:\.\d+)?)\s*\??\s*", text)
    return float(found[1]) if found else None


def rank_of(text: str) -> int | None:
    """A rank on a scale where 1k is 0, 1d is 1 and 1p is 10, or None."""
    found = re.fullmatch(r"\s*(\d{1,2})\s*([kdp])(?:[a-z]*)\s*[?*]?\s*", text.lower())
    if not found:
        return None
    number = int(found[1])
    return {"k": 1 - number, "d": number, "p": 9 + number}[found[2]]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a dataset is; plain data, stored as JSON beside the parts."""

    size: int
    sources: Mapping[str, str]
    """Name of each file or folder that was read to the sha256 of its contents, in the order of ``Games.sources``."""
    sieve: Mapping[str, Any]
    parting: Mapping[str, Any]
    """The fields of the ``SplitRule``."""
    read: int
    """Games read, those refused counted."""
    rejects: Mapping[str, int]
    """Why games were left out, the commonest reason first."""
    dead_stones: Mapping[str, int]
    """Kept games that were counted, by what settled them (the names of ``Settled``); empty where nobody marked dead
    stones."""
    gnugo: str
    """The GNU Go that marked dead stones where playouts failed; empty without."""
    games: Mapping[str, int]
    positions: Mapping[str, int]
    files: Mapping[str, str] = field(default_factory=dict)
    """File name to sha256."""
    created: str = ""
    format: int = FORMAT


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
            if verify and (folder / name).is_file() and _sha256(folder / name) != expected:
                raise RecordError(f"{folder / name}: isn't the file that {MANIFEST} describes; build the dataset again")
        return cls(folder, manifest, *(_map_part(folder, part, manifest) for part in PARTS))

    @property
    def rule(self) -> SplitRule:
        """By what its parts are apart."""
        return SplitRule(**self.manifest.parting)

    def ratings(self, part: str) -> np.ndarray:
        """(games, 2) float32: the Elo of Black and White, 0 where it isn't known."""
        return _map(self.folder / part / "ratings.npy")


@dataclass(frozen=True, slots=True)
class _Parsed:
    """What a process makes of some games: those taken, their keys and ratings, and why others weren't."""

    games: Games
    keys: list[bytes]
    ratings: np.ndarray
    settled: np.ndarray  # (games,) uint8: of ``Settled``; UNCOUNTED where nobody marks dead stones
    rejects: Counter[str]
    read: int


def parse(sieve: Sieve, texts: Sequence[tuple[int, Text]]) -> _Parsed:
    """Parse and filter some games; duplicates count once."""
    records: list[tuple[int, GameRecord]] = []
    rejects: Counter[str] = Counter()
    seen: set[bytes] = set()
    keys: list[bytes] = []
    for source, (_, _, sgf) in texts:
        try:
            record = read_sgf(sgf)
        except RecordError as error:
            rejects[str(error).partition(":")[0]] += 1
            continue
        if reason := sieve.refusal(record):
            rejects[reason] += 1
            continue
        key = canonical_key(np.array(record.moves, np.uint16), sieve.size)
        if key in seen:
            rejects["duplicate"] += 1
            continue
        seen.add(key)
        keys.append(key)
        records.append((source, record))
    ratings = np.array(
        [[rating_of(text) or 0.0 for text in (record.black_rank, record.white_rank)] for _, record in records],
        np.float32,
    ).reshape(-1, 2)
    games = games_from_records(records, sieve.size)
    settled = np.zeros(len(records), np.uint8)
    if sieve.dead_stones:
        for g, (_, record) in enumerate(records):
            settled[g], owners = settle(record, judges())
            if settled[g] != Settled.UNCOUNTED:
                games.scored[g] = owners is not None
            if owners is not None:
                games.owners[g] = owners
    return _Parsed(games, keys, ratings, settled, rejects, len(texts))


def build(
    paths: Sequence[Path],
    folder: Path,
    sieve: Sieve,
    rule: SplitRule,
    processes: int = 1,
    on_progress: Callable[[int, int], None] = lambda read, kept: None,
) -> Dataset:
    """Read records into a new dataset at ``folder``; ``on_progress`` hears how many were read and kept.

    The result depends on the records and settings only (and with ``dead_stones`` on whether GNU Go is installed),
    not on ``processes``. The complete folder gets its name at
    the end: stopped before, this leaves nothing. Raises RecordError when ``folder`` exists, a path can't be read, or no
    game is left, and ConfigError for settings that can't be.
    """
    if folder.exists():
        raise RecordError(f"{folder} exists already; choose another --out or remove it")
    names = [path.name for path in paths]
    if len(set(names)) < len(names) or len(names) > 255:
        raise ConfigError("sources need different names, at most 255")
    sources = {path.name: digest_of([path]) for path in paths if _exists(path)}
    kept: dict[str, list[tuple[Games, np.ndarray]]] = {part: [] for part in PARTS}
    rejects: Counter[str] = Counter()
    settled: Counter[int] = Counter()
    seen: set[bytes] = set()
    read = 0
    texts = ((source, text) for source, path in enumerate(paths) for text in read_texts(path))
    for parsed in _parse_all(texts, sieve, processes):
        fresh = [key not in seen for key in parsed.keys]
        seen.update(parsed.keys)
        rejects.update(parsed.rejects)
        settled.update(parsed.settled[fresh].tolist())
        if not all(fresh):
            rejects["duplicate"] += fresh.count(False)
        homes = [PARTS[rule.part_of(key, int(day))] for key, day in zip(parsed.keys, parsed.games.dates, strict=True)]
        for part in PARTS:
            which = np.array([new and home == part for new, home in zip(fresh, homes, strict=True)], np.bool_)
            if which.any():
                kept[part].append((parsed.games.select(which), parsed.ratings[which]))
        read += parsed.read
        on_progress(read, len(seen))
    if not seen:
        commonest = "; ".join(f"{reason} {count:,}" for reason, count in rejects.most_common(3))
        raise RecordError(f"none of {read:,} games is left ({commonest}); use weaker filters or other records")
    manifest = Manifest(
        size=sieve.size,
        sources=sources,
        sieve=asdict(sieve),
        parting=asdict(rule),
        read=read,
        rejects=dict(rejects.most_common()),
        dead_stones={kind.name: settled[kind] for kind in _COUNTED} if sieve.dead_stones else {},
        gnugo=gnugo_title() if sieve.dead_stones else "",
        games={part: sum(len(games) for games, _ in kept[part]) for part in PARTS},
        positions={part: sum(len(games.moves) for games, _ in kept[part]) for part in PARTS},
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    _write(folder, manifest, {part: _joined(sieve.size, kept[part]) for part in PARTS})
    return Dataset.open(folder)


_COUNTED = [kind for kind in Settled if kind is not Settled.UNCOUNTED]


def _exists(path: Path) -> bool:
    if not path.exists():
        raise RecordError(f"{path}: no such file or folder")
    return True


def _begin() -> None:
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started this process hears it too, and decides


def _parse_all(texts: Iterator[tuple[int, Text]], sieve: Sieve, processes: int) -> Iterator[_Parsed]:
    """All the texts parsed, in order, by as many processes."""
    chunks = iter(lambda: list(islice(texts, _CHUNK)), [])
    work = partial(parse, sieve)
    if processes == 1:
        yield from map(work, chunks)
        return
    pool = ProcessPoolExecutor(processes, get_context("spawn"), initializer=_begin)
    try:
        waiting: deque[Future[_Parsed]] = deque()
        for chunk in chunks:
            waiting.append(pool.submit(work, chunk))
            if len(waiting) > 3 * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _joined(size: int, pieces: Iterable[tuple[Games, np.ndarray]]) -> dict[str, np.ndarray]:
    """The arrays of one part, by name."""
    none = games_from_records((), size), np.empty((0, 2), np.float32)
    all_games, ratings = zip(*chain([none], pieces), strict=True)
    arrays = {
        name: np.concatenate([getattr(games, name) for games in all_games]) for name in ARRAYS if name != "starts"
    }
    lengths = np.concatenate([games.lengths for games in all_games])
    arrays["starts"] = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return {**arrays, "ratings": np.concatenate(ratings)}


ARRAYS = tuple(known.name for known in fields(Games) if known.name != "size")


def _write(folder: Path, manifest: Manifest, parts: Mapping[str, Mapping[str, np.ndarray]]) -> None:
    """The folder, written aside and renamed when it is complete."""
    with replacing(folder, error=RecordError, hint="choose another --out") as aside:
        files = {}
        for part, arrays in parts.items():
            (aside / part).mkdir(parents=True)
            for name, array in arrays.items():
                path = aside / part / f"{name}.npy"
                with path.open("wb") as file:
                    np.save(file, array)
                files[f"{part}/{name}.npy"] = _sha256(path)
        text = json.dumps({**asdict(manifest), "files": files}, indent=2)
        (aside / MANIFEST).write_text(f"{text}\n", encoding="utf-8")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_manifest(folder: Path) -> Manifest:
    path = folder / MANIFEST
    hint = "build the dataset with: arena data build"
    content = read_json(path, error=RecordError, hint=hint)
    if content.get("format") == 1:  # before dead stones were marked
        content |= {"dead_stones": {}, "gnugo": "", "format": FORMAT}
    if content.get("format") != FORMAT:
        raise RecordError(f"{path}: has format {content.get('format')!r}, and this version reads {FORMAT}; {hint}")
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


@dataclass(frozen=True, slots=True)
class Figures:
    """What one part of a dataset holds, to be shown."""

    games: int
    positions: int
    black_won: int
    white_won: int
    drawn: int
    unknown: int
    median_length: int
    longest: int
    years: Mapping[int, int]
    """Games by year; 0 where the record has no date."""
    rated: int
    """Games where the Elo of both is known."""
    rating_low: float
    rating_median: float
    rating_high: float
    """Of both players of those games together: the 5th, 50th and 95th percentile; 0 without such games."""


def figures(games: Games, ratings: np.ndarray) -> Figures:
    """Count a part; ``ratings`` (games, 2) are its players' Elo, 0 where unknown."""
    results = np.bincount(games.winners, minlength=4)
    years, counts = np.unique(games.dates // 10000, return_counts=True)
    both = ratings[(ratings > 0).all(1)]
    low, median, high = np.percentile(both, [5, 50, 95]) if len(both) else (0.0, 0.0, 0.0)
    return Figures(
        games=len(games),
        positions=len(games.moves),
        black_won=int(results[1]),
        white_won=int(results[2]),
        drawn=int(results[3]),
        unknown=int(results[UNKNOWN]),
        median_length=int(np.median(games.lengths)) if len(games) else 0,
        longest=int(games.lengths.max(initial=0)),
        years=dict(zip(years.tolist(), counts.tolist(), strict=True)),
        rated=len(both),
        rating_low=float(low),
        rating_median=float(median),
        rating_high=float(high),
    )


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
    source = f"{', '.join(path.name for path in paths)}; sha256 {digest_of(paths)}"
    return replace(split, rules=tuple(rules), source=source), [other.train for other in others]


def read_split(settings: Records, cache: Path, inherited: Sequence[SplitRule] = ()) -> Split:
    """The games that a trainer is to learn from and be tested on: a dataset's parts as they are, other records split.
    Games from which the net that it begins with has learned, by the rules that are ``inherited``, are held out of
    neither: a dataset's are left out, others are learned from.

    Raises RecordError for records that can't be used, ConfigError for settings that can't be.
    """
    paths = [Path(path) for path in settings.data]
    source = f"{', '.join(path.name for path in paths)}; sha256 {digest_of(paths)}"
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
        split = Split(dataset.train, validation, test, rules, source)
    else:
        rules = tuple(dict.fromkeys((SplitRule.of(settings), *inherited)))
        split = replace(split_by_game(load_games(paths, settings.size, cache), *rules), source=source)
    if not len(split.train):
        raise RecordError(
            "no training games: all are of test_from or later; set a later test_from, or run arena data build first"
        )
    return split
