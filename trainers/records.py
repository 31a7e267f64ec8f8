"""Game records: read, filtered, split by game, and kept as datasets; ``arena data build``."""

import hashlib
import json
import math
import re
import signal
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from zipfile import BadZipFile
from zlib import crc32

import numpy as np

from arena import ConfigError, RecordError, UserError
from arena.contract.settings import convert, read_object
from arena.files import open_regular, reason, replacing
from arena.go import collection
from arena.go.coords import BLACK, symmetry_table
from arena.go.game import Ending, Scoring
from arena.go.planes import Encoder, final_owners
from arena.go.ranks import UNRANKED, rank_of
from arena.go.record import GameRecord
from arena.go.sgf import read_sgf, write_sgf
from arena.match.process import end_with_parent
from arena.results.store import Store
from bots.nets.rollout import shipped_weights
from bots.search.dead import judge
from trainers.games import ARRAYS, DRAWN, UNKNOWN, Games, Rows, join_games, starts_of
from trainers.settings import HeldOut, Records


def games_from_records(records: Iterable[GameRecord], size: int, dead_stones: bool = False) -> Games:
    """The games of this size without setup stones, Black first. With ``dead_stones``, dead stones are marked in games
    whose last position doesn't give the recorded margin."""
    used = [r for r in records if r.rules.size == size and not any(r.setup) and r.first is BLACK and r.moves]
    ends = [record.outcome for record in used]
    moves = np.array([move for record in used for move in record.moves], np.uint16)
    starts = starts_of([len(record.moves) for record in used])
    komis = np.array([record.rules.komi for record in used], np.float64)
    margins = [math.nan if end is None or end.margin is None else end.margin for end in ends]
    owners = np.empty((len(used), size * size), np.int8)
    final_owners(size, moves, starts, owners)
    scored = owners.sum(1) == np.array(margins, np.float64) + komis  # NaN equals nothing
    for game in np.flatnonzero(~scored).tolist() if dead_stones else ():
        if (marked := owners_without_dead(used[game])) is not None:
            owners[game], scored[game] = marked, True
    ranks = [[_rank(text) for text in (record.black_rank, record.white_rank)] for record in used]
    names = [[crc32(name.encode(errors="replace")) for name in (record.black, record.white)] for record in used]
    winners = [UNKNOWN if end is None else DRAWN if end.winner is None else int(end.winner) for end in ends]
    return Games(
        size,
        moves,
        starts,
        komis,
        winners=np.array(winners, np.uint8),
        dates=np.array([_date(record.date) for record in used], np.int32),
        scored=scored,
        owners=owners,
        ranks=np.array(ranks, np.int8).reshape(-1, 2),
        players=np.array(names, np.uint32).reshape(-1, 2),
        territory=np.array([record.rules.scoring is Scoring.TERRITORY for record in used], np.bool_),
    )


def _rank(text: str) -> int:
    return UNRANKED if (rank := rank_of(text)) is None else rank


def _date(text: str) -> int:
    """20180301 from 2018-03-01; 0 from anything else."""
    found = re.fullmatch(r"(\d+)-(\d+)-(\d+)", text[:10])
    return int(found[1]) * 10000 + int(found[2]) * 100 + int(found[3]) if found else 0


def day_of(text: str) -> int:
    """20180301 from 2018-03-01, 0 from an empty text. Raises ConfigError."""
    if text and not _date(text):
        raise ConfigError(f"'{text}' is not a day; write it like 2018-03-01")
    return _date(text)


def owners_without_dead(record: GameRecord) -> np.ndarray | None:
    """Owners of the points at the end of a game, (size²,) int8: 1 Black, -1 White, 0 nobody. Playouts of the shipped
    rollout policy find dead stones; None unless the count with or without them is the recorded margin."""
    outcome = record.outcome
    if outcome is None or outcome.ending is not Ending.SCORE or outcome.margin is None:
        return None
    game, dead = record.replay(), tuple[int, ...]()
    if game.margin() != outcome.margin:
        found, _ = judge(game.board, shipped_weights(game.board.size))
        dead = tuple(np.flatnonzero(found).tolist())
    if game.margin(dead) != outcome.margin:
        return None
    return np.array([0, 1, -1], np.int8)[game.board.without(dead).owners()]


# --- Splits ---

PARTS = ("train", "validation", "test")
TRAIN, VALIDATION, TEST = range(3)


def canonical_key(moves: np.ndarray, size: int) -> bytes:
    """A 16-byte hash that is the same for all symmetries of a game."""
    twins = symmetry_table(size)[:, moves].astype(np.uint16)  # (8, moves)
    return hashlib.blake2b(min(twin.tobytes() for twin in twins), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class SplitRule:
    """A rule that puts each game, on its own, into training, validation or test. Symmetric games stay together."""

    test_from: int = 0  # first day of the test (20180301); by day, as games of one time share openings
    validation: float = 0.01  # share of the other games that is held out for validation
    test: float = 0.0  # share of the test among undated games, or all games if ``test_from`` is 0
    played: bool = False  # for games that a run plays, not for records
    by_player: bool = False  # split players: a game is in the test if one of its players is

    @classmethod
    def of_played(cls, settings: HeldOut) -> "SplitRule":
        return cls(validation=settings.validation_split, test=settings.test_split, played=True)

    @classmethod
    def read(cls, stored: Mapping[str, Any], folder: Path, error: type[UserError]) -> "SplitRule":
        """The rule in the manifest of ``folder``. Raises ``error`` for a rule of another version."""
        try:
            return cls(**stored)
        except TypeError as problem:
            words = f"{folder}: its manifest has a split that this version doesn't know"
            raise error(f"{words} ({problem}); make it again") from problem

    def part_of(self, key: bytes, day: int, players: Sequence[int] = ()) -> int:
        """TRAIN, VALIDATION or TEST, by a game's ``canonical_key``, its date and the checksums of its players."""
        if self.by_player:
            return max(map(self.part_of_player, players), default=TRAIN)
        validation, test = (int.from_bytes(two, "big") for two in (key[:2], key[2:4]))
        if day >= self.test_from if self.test_from and day else test < round(self.test * 2**16):
            return TEST
        return VALIDATION if validation < round(self.validation * 2**16) else TRAIN

    def part_of_player(self, player: int) -> int:
        """TRAIN, VALIDATION or TEST, by the checksum of a player's name."""
        drawn = int.from_bytes(hashlib.blake2b(player.to_bytes(4, "big"), digest_size=4).digest(), "big") / 2**32
        return TEST if drawn < self.test else VALIDATION if drawn < self.test + self.validation else TRAIN


def parts_of(games: Games, rules: Sequence[SplitRule]) -> np.ndarray:
    """The part of each game by the first of ``rules``, but TRAIN if another one, of a start net, says so; -1 for a
    symmetric duplicate of an earlier game; (games,) int64."""
    seen: set[bytes] = set()
    rules = [rule for rule in rules if rule.played == rules[0].played]
    parts = np.full(len(games), -1)
    for game, day in enumerate(games.dates.tolist()):
        key = canonical_key(games.moves[games.starts[game] : games.starts[game + 1]], games.size)
        if key not in seen:
            known = [rule.part_of(key, day, games.players[game].tolist()) for rule in rules]
            parts[game] = TRAIN if TRAIN in known else known[0]
        seen.add(key)
    return parts


def too_few(games: int, rules: Sequence[SplitRule]) -> ConfigError:
    """The error for a run with too few ``games`` for training and test."""
    share = min(rule.test for rule in rules if rule.played)
    words = f"{games} games leave nothing to learn from or for the test, which has about {100 * share:.3g} % of them"
    advice = "play more games" if share else "raise test_split"
    return ConfigError(f"{words} (the smallest test_split of this run and of its start nets); {advice}")


@dataclass(frozen=True, slots=True)
class Split:
    """Games for training, validation and test, disjoint also under symmetries."""

    train: Games
    validation: Games
    test: Games
    rules: Sequence[SplitRule]  # see ``parts_of``
    source: str  # see ``describe_sources``

    @property
    def komi(self) -> float:
        """The median komi of the training games."""
        return float(np.median(self.train.komis))

    def planes(self, encoder: Encoder, seed: int) -> Callable[[int], np.ndarray]:
        """A function that returns planes (B, P, n, n) of the first B of a fixed order of held-out positions."""
        rows = Rows(self.validation if len(self.validation) else self.train, encoder, seed + 1)
        return lambda count: rows.batch(0, count).planes


def read_split(settings: Records, cache: Path, inherited: Sequence[SplitRule] = ()) -> Split:
    """Split the records of the settings; a dataset keeps its own parts. Games that a start net trained on, by the
    ``inherited`` rules, are not in the test: a dataset's are left out, others are in training. Raises RecordError or
    ConfigError."""
    paths = [Path(path) for path in settings.data]
    if not paths:
        raise ConfigError("no game records to learn from: name SGF files, folders, .sgfs.xz files or a dataset")
    if any((path / MANIFEST).is_file() for path in paths):
        if len(paths) > 1:
            raise RecordError("a dataset can't be mixed with other records; make one of all: arena data build")
        dataset = Dataset.open(paths[0])
        if (size := dataset.manifest.size) != settings.size:
            raise RecordError(f"{paths[0]} holds {size}x{size} games; set the size, which is {settings.size}")
        rule, games = SplitRule.read(dataset.manifest.split, dataset.folder, RecordError), dataset.games
        rules = tuple(dict.fromkeys((rule, *inherited)))
        parts = np.where(parts_of(games, rules) == dataset.parts, dataset.parts, -1)
    else:
        rule = SplitRule(day_of(settings.test_from), settings.validation_split, settings.test_split)
        games = load_games(paths, settings.size, cache)
        parts = parts_of(games, rules := tuple(dict.fromkeys((rule, *inherited))))
    train, validation, test = (games.select(parts == part) for part in (TRAIN, VALIDATION, TEST))
    if not len(train):
        raise RecordError("no training games: all are of test_from or later; set a later test_from")
    return Split(train, validation, test, rules, describe_sources(paths))


# --- Reading ---

CHUNK = 200  # games that a process parses at a time


@dataclass(frozen=True, slots=True)
class GameFilter:
    """The games of a dataset; games with setup stones, a handicap or White first are always refused."""

    size: int = 9
    rating: float = 0  # lowest Elo of both players; 0 for no limit
    rank: str = ""  # lowest rank of both players, such as 5k or 1d; "" for no limit
    min_moves: int = 1
    dead_stones: bool = False  # mark dead stones if the last position doesn't give the recorded margin

    def __post_init__(self) -> None:
        if self.rank and rank_of(self.rank) is None:
            raise ConfigError(f"rank = '{self.rank}' is not a rank; write it like 5k, 1d or 9p")

    def refusal(self, record: GameRecord) -> str:
        """The reason to refuse a game; empty if there is none."""
        told, least = (record.black_rank, record.white_rank), rank_of(self.rank)
        ratings = [re.fullmatch(r"\s*(\d{2,4}(?:\.\d+)?)\s*\??\s*", text) for text in told]  # such as 2650?
        reasons = {
            "another size": record.rules.size != self.size,
            "handicap or setup stones": any(record.setup) or record.first is not BLACK,
            "too short": len(record.moves) < max(1, self.min_moves),
            "rating too low or unknown": min(float(found[1]) if found else 0 for found in ratings) < self.rating,
            "rank too low or unknown": least is not None and min(map(_rank, told)) < least,
        }
        return next((reason for reason, holds in reasons.items() if holds), "")


def parse(filter: GameFilter, texts: Sequence[bytes]) -> tuple[Games, Counter[str]]:
    """The games of SGF texts, and counts of the reasons of refusals."""
    records, rejects = [], Counter[str]()
    for text in texts:
        try:
            record = read_sgf(text)
            refusal = filter.refusal(record)
        except RecordError as error:
            refusal = str(error).partition(":")[0]
        if refusal:
            rejects[refusal] += 1
        else:
            records.append(record)
    return games_from_records(records, filter.size, filter.dead_stones), rejects


def _begin_parsing() -> None:
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process gets it, too, and ends this one


def _parse_all(chunks: Iterator[list[bytes]], filter: GameFilter, processes: int) -> Iterator[Any]:
    """Parse chunks in order in several processes. Raises RecordError if one is killed."""
    work = partial(parse, filter)
    if processes == 1:
        yield from map(work, chunks)
        return
    try:
        with ProcessPoolExecutor(processes, get_context("spawn"), initializer=_begin_parsing) as pool:
            while some := list(islice(chunks, 4 * processes)):
                yield from pool.map(work, some)
    except BrokenProcessPool:
        raise RecordError("a process that reads games was killed (out of memory?); use --workers 1") from None


def sgf_texts(path: Path) -> Iterator[bytes]:
    """The games of an ``arena.db`` or a path that ``arena.go.collection`` reads, as SGF texts. Raises RecordError."""
    if path.suffix != ".db":
        yield from (text for _, _, text in collection.read_texts(path))
        return
    with Store.open(path) as store:
        yield from (write_sgf(record).encode() for record in store.games())


def describe_sources(paths: Sequence[Path]) -> str:
    """The names of paths, and the sha256 of all files in them; of an ``arena.db``, of its events and their numbers of
    games. Raises RecordError for unreadable files, pipes and devices."""
    digest = hashlib.sha256()
    for path in paths:
        if path.suffix == ".db" and path.exists():
            with Store.open(path) as store:
                for event in store.events():
                    digest.update(f"{event.id} {store.count(event=event.id)}\n".encode())
            continue
        for file in [known for known in sorted(path.rglob("*")) if known.is_file()] if path.is_dir() else [path]:
            try:
                with open_regular(file) as opened:
                    digest.update(hashlib.file_digest(opened, "sha256").digest())
            except OSError as error:
                raise RecordError(f"{file}: can't be read ({reason(error)}); give files of SGF games") from error
    return f"{', '.join(path.name for path in paths)}; sha256 {digest.hexdigest()}"


# --- Datasets ---

DATASET_FORMAT = 6  # the version of a dataset's folder; a reader refuses any other
MANIFEST, ARRAYS_FILE = "manifest.json", "games.npz"


@dataclass(frozen=True, slots=True)
class DatasetManifest:
    """The manifest of a dataset, stored as JSON."""

    size: int
    sources: str  # see ``describe_sources``
    filter: Mapping[str, Any]  # the fields of ``GameFilter``
    split: Mapping[str, Any]  # the fields of ``SplitRule``
    read: int  # games read, including refused ones
    rejects: Mapping[str, int]  # counts of the reasons of refusals, largest first
    created: str = ""
    format: int = DATASET_FORMAT


@dataclass(frozen=True, slots=True)
class Dataset:
    """Games in a folder, with the parts of the split from when it was built."""

    folder: Path
    manifest: DatasetManifest
    games: Games
    parts: np.ndarray  # (games,) int64: TRAIN, VALIDATION, TEST

    @classmethod
    def open(cls, folder: Path) -> "Dataset":
        """Raises RecordError for a folder that is missing, damaged or of another version."""
        hint = "build the dataset with: arena data build"
        content = read_object(path := folder / MANIFEST, error=RecordError, hint=hint)
        if (found := content.get("format")) != DATASET_FORMAT:
            raise RecordError(f"{path}: has format {found!r}, and this version reads {DATASET_FORMAT}; {hint}")
        manifest = convert(content, DatasetManifest, path, error=RecordError, hint=hint)
        try:
            with np.load(path := folder / ARRAYS_FILE, allow_pickle=False) as arrays:
                games = Games(manifest.size, **{name: arrays[name] for name in ARRAYS})
                return cls(folder, manifest, games, arrays["parts"])
        except (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error, NotImplementedError) as error:
            raise RecordError(f"{path}: can't be read ({reason(error)}); remove it, and make it again") from error

    def part(self, part: int) -> Games:
        """The games in TRAIN, VALIDATION or TEST."""
        return self.games.select(self.parts == part)


def build(
    paths: Sequence[Path],
    folder: Path,
    filter: GameFilter,
    rule: SplitRule,
    processes: int = 1,
    on_progress: Callable[[int, int], None] = lambda read, kept: None,
) -> Dataset:
    """Read the games of paths (see ``sgf_texts``), without symmetric duplicates, into a new dataset at ``folder``.
    ``on_progress`` gets the numbers of games read and kept. Leaves nothing if interrupted. Raises RecordError if a path
    can't be read, no game is left, or ``folder`` exists."""
    if folder.exists():
        raise RecordError(f"{folder} exists already; choose another --out or remove it")
    sources, texts = describe_sources(paths), (text for path in paths for text in sgf_texts(path))
    parts, rejects, kept = [games_from_records((), filter.size)], Counter[str](), 0
    for games, refused in _parse_all(iter(lambda: list(islice(texts, CHUNK)), []), filter, processes):
        parts.append(games)
        rejects.update(refused)
        kept += len(games)
        on_progress(kept + rejects.total(), kept)
    read, games = kept + rejects.total(), join_games(parts)
    split = parts_of(games, [rule])
    rejects.update(["duplicate"] * int((split < 0).sum()))
    counts, created = dict(rejects.most_common()), datetime.now(UTC).isoformat(timespec="seconds")
    if not (split >= 0).any():
        commonest = "; ".join(f"{why} {number:,}" for why, number in list(counts.items())[:3]) or "there is none"
        named = ", ".join(map(str, paths))
        raise RecordError(f"{named}: no {filter.size}x{filter.size} game can be used ({commonest}); give other records")
    games, split = games.select(split >= 0), split[split >= 0]
    manifest = DatasetManifest(filter.size, sources, asdict(filter), asdict(rule), read, counts, created)
    with replacing(folder, error=RecordError, hint="choose another --out") as aside:
        aside.mkdir(parents=True)
        np.savez(aside / ARRAYS_FILE, **{name: getattr(games, name) for name in ARRAYS}, parts=split)
        (aside / MANIFEST).write_text(json.dumps(asdict(manifest), indent=2) + "\n", encoding="utf-8")
    return Dataset.open(folder)


def load_games(paths: Sequence[Path], size: int, cache: Path, dead_stones: bool = False) -> Games:
    """The usable games of paths, cached as a dataset in ``cache`` by a hash of their contents. Raises RecordError."""
    filter = GameFilter(size, dead_stones=dead_stones)
    _, _, contents = describe_sources(paths).rpartition(" ")
    name = hashlib.sha256(f"{DATASET_FORMAT} {filter} {contents}".encode()).hexdigest()[:24]
    folder = cache / f"games-{name}"
    return (Dataset.open(folder) if folder.exists() else build(paths, folder, filter, SplitRule())).games


def read_records(paths: Sequence[Path], size: int, cache: Path) -> Games:
    """The usable games of paths, or of one dataset. Raises RecordError."""
    is_dataset = len(paths) == 1 and (paths[0] / MANIFEST).is_file()
    games = Dataset.open(paths[0]).games if is_dataset else load_games(paths, size, cache)
    if games.size != size:
        raise RecordError(f"{paths[0]}: has games on {games.size}x{games.size}; give records of {size}x{size}")
    return games
