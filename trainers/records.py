"""Game records as training rows: read, filtered, split by game, and encoded in a seeded order as batches."""

from __future__ import annotations

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
from dataclasses import asdict, dataclass, fields
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
from arena.go.coords import BLACK, SYMMETRIES, WHITE, symmetry_table
from arena.go.game import Ending, Scoring
from arena.go.kernels import CGOS_RULES
from arena.go.planes import Encoder, encode_rows, final_owners
from arena.go.ranks import KNOTS, PLAYER_PLANES, UNRANKED, player_planes, rank_of
from arena.go.record import GameRecord
from arena.go.sgf import read_sgf, write_sgf
from arena.match.process import end_with_parent
from arena.results.store import Store
from bots.nets.rollout import shipped_weights
from bots.search.dead import judge
from trainers.settings import HeldOut, Records

UNKNOWN, BLACK_WON, WHITE_WON, DRAWN = range(4)
"""The values of ``Games.winners``; the first three are also 0 and the two colours."""

WIN, DRAW, LOSS = range(3)  # the classes of the value, for the side to move
NO_RESULT = -1  # the value target of a game whose result isn't known; the loss leaves it out
LATE = 15  # from this ply on few games still repeat earlier ones


@dataclass(frozen=True, slots=True)
class Games:
    """Games of one size as flat arrays, Black first, no setup: game ``g`` is ``moves[starts[g]:starts[g + 1]]``."""

    size: int
    moves: np.ndarray  # (all moves,) uint16
    starts: np.ndarray  # (games + 1,) int64
    komis: np.ndarray  # (games,) float64, White's
    winners: np.ndarray  # (games,) uint8: UNKNOWN, BLACK_WON, WHITE_WON, DRAWN
    dates: np.ndarray  # (games,) int32: 20180301, or 0 where the record has none
    scored: np.ndarray  # (games,) bool: whether the recorded margin is that of the last position
    owners: np.ndarray  # (games, size²) int8: the owner of each point in the last position: 1 Black, -1 White, 0 nobody
    ranks: np.ndarray  # (games, 2) int8: Black's and White's, by ``rank_of``; UNRANKED where there is none
    players: np.ndarray  # (games, 2) uint32: checksums of their names
    territory: np.ndarray  # (games,) bool: whether it was played by territory scoring

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
        starts, flat = flat_ranges(self.starts[indices], self.lengths[indices])
        return Games(self.size, self.moves[flat], starts, **{name: getattr(self, name)[indices] for name in PER_GAME})


ARRAYS = tuple(item.name for item in fields(Games) if item.name != "size")
PER_GAME = ARRAYS[2:]


def _starts(lengths: np.ndarray | Sequence[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def flat_ranges(begins: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where ranges start when they stand one after the other, (ranges + 1,) int64, and all of their indices."""
    starts = _starts(lengths)
    return starts, np.arange(starts[-1]) + np.repeat(begins - starts[:-1], lengths)


def join_games(parts: Sequence[Games]) -> Games:
    """All games in one."""
    lengths = np.concatenate([part.lengths for part in parts])
    arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ("moves", *PER_GAME)}
    return Games(parts[0].size, starts=_starts(lengths), **arrays)


def games_from_records(records: Iterable[GameRecord], size: int, dead_stones: bool = False) -> Games:
    """The usable games: this size, no setup stones, Black first. With ``dead_stones``, the dead stones of those whose
    last position doesn't give the recorded margin are marked."""
    used = [r for r in records if r.rules.size == size and not any(r.setup) and r.first is BLACK and r.moves]
    ends = [record.outcome for record in used]
    moves = np.array([move for record in used for move in record.moves], np.uint16)
    starts = _starts([len(record.moves) for record in used])
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
    """2018-03-01 as 20180301, the start of all time as 0 when it's empty. Raises ConfigError."""
    if text and not _date(text):
        raise ConfigError(f"'{text}' is not a day; write it like 2018-03-01")
    return _date(text)


def owners_without_dead(record: GameRecord) -> np.ndarray | None:
    """Who owns each point at the end of a game that stopped before dead stones were captured: (size²,) int8, 1 Black,
    -1 White, 0 nobody. Playouts of the shipped rollout policy find the dead stones; None unless the recorded margin is
    the count as it stands or without them."""
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


def some_games(games: Games, positions: int, seed: int) -> Games:
    """Whole games in a seeded order until they have about ``positions`` positions; all of them when it is 0."""
    if not positions or positions >= len(games.moves):
        return games
    order = np.random.default_rng(seed).permutation(len(games))
    return games.select(order[: int((games.lengths[order].cumsum() < positions).sum()) + 1])


# --- Splits ---

PARTS = ("train", "validation", "test")
TRAIN, VALIDATION, TEST = range(3)


def canonical_key(moves: np.ndarray, size: int) -> bytes:
    """16 bytes that a game shares with its 8 symmetric twins and, but for chance, with no other."""
    twins = symmetry_table(size)[:, moves].astype(np.uint16)  # (8, moves)
    return hashlib.blake2b(min(twin.tobytes() for twin in twins), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class SplitRule:
    """How games are split, each without regard to the others. Twins under a symmetry stay together."""

    test_from: int = 0  # the first day of the test (20180301): a random one repeats the openings of training games
    validation: float = 0.01  # the share of the games not in the test that is kept aside
    test: float = 0.0  # the share of games that is the test where no day tells: they have none, or ``test_from`` is 0
    played: bool = False  # whether it is for games that a run plays, not for records
    by_player: bool = False  # whether it is players that are split: a game is in the test if one of its players is

    @classmethod
    def of_played(cls, settings: HeldOut) -> SplitRule:
        """The rule for games that a run plays."""
        return cls(validation=settings.validation_split, test=settings.test_split, played=True)

    @classmethod
    def read(cls, stored: Mapping[str, Any], folder: Path, error: type[UserError]) -> SplitRule:
        """The rule in the manifest of ``folder``. Raises ``error`` for one that this version doesn't know."""
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
    """The part of each game by the first of ``rules``, (games,) int64; TRAIN where another one for such games says so:
    those are of the nets that a run begins with, which have learned from it. -1 for a game whose twin under a symmetry
    came before."""
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
    """The error where a run played so many games and none is left for the training or for the test."""
    share = min(rule.test for rule in rules if rule.played)
    words = f"{games} games leave nothing to learn from or for the test, which has about {100 * share:.3g} % of them"
    advice = "play more games" if share else "raise test_split"
    return ConfigError(f"{words} (the smallest test_split of this run and of its start nets); {advice}")


@dataclass(frozen=True, slots=True)
class Split:
    """Games apart, also under symmetries."""

    train: Games
    validation: Games
    test: Games
    rules: Sequence[SplitRule]  # by what they are apart; see ``parts_of``
    source: str  # the records' names and the sha256 of their contents, for manifests

    @property
    def komi(self) -> float:
        """White's in most training games."""
        return float(np.median(self.train.komis))

    def planes(self, encoder: Encoder, seed: int) -> Callable[[int], np.ndarray]:
        """Gives planes (B, P, n, n) of as many held-out positions as asked for, always the same."""
        rows = Rows(self.validation if len(self.validation) else self.train, encoder, seed + 1)
        return lambda count: rows.batch(0, count).planes


def read_split(settings: Records, cache: Path, inherited: Sequence[SplitRule] = ()) -> Split:
    """The games that a trainer is to learn from and be tested on: a dataset's parts as they are, other records split.
    Of games from which the net that it begins with has learned, by the rules that are ``inherited``, none is tested on:
    a dataset's are left out, others are learned from. Raises RecordError, and ConfigError for settings."""
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
    """Which games are taken: never those with setup stones, a handicap or White first."""

    size: int = 9
    rating: float = 0  # Elo that both must have at least; 0 asks for none
    rank: str = ""  # what both must be at least, such as 5k or 1d; any when empty
    min_moves: int = 1
    dead_stones: bool = False  # mark the dead stones of counted games whose raw count isn't the recorded one

    def __post_init__(self) -> None:
        if self.rank and rank_of(self.rank) is None:
            raise ConfigError(f"rank = '{self.rank}' is not a rank; write it like 5k, 1d or 9p")

    def refusal(self, record: GameRecord) -> str:
        """Why a game isn't taken, in words fit to count; empty when it is."""
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
    """The games of some SGF texts, and why others were left out."""
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started this process hears it too, and decides


def _parse_all(chunks: Iterator[list[bytes]], filter: GameFilter, processes: int) -> Iterator[Any]:
    """All chunks parsed, in order, by as many processes. Raises RecordError when one is killed."""
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


def read_texts(path: Path) -> Iterator[bytes]:
    """The games of a path as SGF, not yet parsed: of files, folders and archives as ``arena.go.collection`` reads them,
    or of the arena's own ``arena.db``. Raises RecordError for what can't be read."""
    if path.suffix != ".db":
        yield from (text for _, _, text in collection.read_texts(path))
        return
    with Store.open(path) as store:
        yield from (write_sgf(record).encode() for record in store.games())


def describe_sources(paths: Sequence[Path]) -> str:
    """The names of some paths, and the sha256 of the contents of files and of all regular files in folders; of an
    ``arena.db``, of its events and how many games of each there are. Raises RecordError for what can't be read, or
    isn't a regular file: reading a pipe or a device may never end."""
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
    """What a dataset is; plain data, stored as JSON beside its games."""

    size: int
    sources: str  # see ``describe_sources``
    filter: Mapping[str, Any]  # which games were kept; the fields of ``GameFilter``
    split: Mapping[str, Any]  # how they were split; the fields of ``SplitRule``
    read: int  # games read, those refused counted
    rejects: Mapping[str, int]  # why games were left out, the commonest reason first
    created: str = ""
    format: int = DATASET_FORMAT


@dataclass(frozen=True, slots=True)
class Dataset:
    """Games in a folder, in the parts in which they were split when it was built."""

    folder: Path
    manifest: DatasetManifest
    games: Games
    parts: np.ndarray  # (games,) int64: TRAIN, VALIDATION, TEST

    @classmethod
    def open(cls, folder: Path) -> Dataset:
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
        """Its games in TRAIN, VALIDATION or TEST."""
        return self.games.select(self.parts == part)


def build(
    paths: Sequence[Path],
    folder: Path,
    filter: GameFilter,
    rule: SplitRule,
    processes: int = 1,
    on_progress: Callable[[int, int], None] = lambda read, kept: None,
) -> Dataset:
    """Read the games of some paths (see ``read_texts``), none twice under symmetry, into a new dataset at ``folder``;
    ``on_progress`` gets how many were read and kept. The result depends on the records and settings only, not on
    ``processes``. The complete folder gets its name at the end: stopped before, this leaves nothing. Raises RecordError
    when a path can't be read, no game is left or ``folder`` exists."""
    if folder.exists():
        raise RecordError(f"{folder} exists already; choose another --out or remove it")
    sources, texts = describe_sources(paths), (text for path in paths for text in read_texts(path))
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
    """The usable games of some paths, as ``build`` reads them; kept as a dataset in ``cache`` under a name made
    from their contents. Raises RecordError as that does."""
    filter = GameFilter(size, dead_stones=dead_stones)
    _, _, contents = describe_sources(paths).rpartition(" ")
    name = hashlib.sha256(f"{DATASET_FORMAT} {filter} {contents}".encode()).hexdigest()[:24]
    folder = cache / f"games-{name}"
    return (Dataset.open(folder) if folder.exists() else build(paths, folder, filter, SplitRule())).games


def read_records(paths: Sequence[Path], size: int, cache: Path) -> Games:
    """The usable games of some paths, or those of one dataset. Raises RecordError."""
    is_dataset = len(paths) == 1 and (paths[0] / MANIFEST).is_file()
    games = Dataset.open(paths[0]).games if is_dataset else load_games(paths, size, cache)
    if games.size != size:
        raise RecordError(f"{paths[0]}: has games on {games.size}x{games.size}; give records of {size}x{size}")
    return games


# --- Rows ---


@dataclass(frozen=True, slots=True)
class Batch:
    """Training rows, all for the side to move; ``shares`` and ``win_rates`` are what a search found, if any."""

    planes: np.ndarray  # (B, P, n, n) float32
    moves: np.ndarray  # (B,) int64: what was played; after a search, what has the largest share
    results: np.ndarray  # (B,) int64: WIN, DRAW, LOSS or NO_RESULT
    plies: np.ndarray  # (B,) int64: moves played before
    owners: np.ndarray  # (B, n²) from 1 for points of the side to move to -1 for the other's, in the end or as a search
    # expected; int8 or float32
    scores: np.ndarray  # (B,) float32: by how many points the side to move will win, komi counted; NaN where unknown
    shares: np.ndarray | None = None  # (B, n² + 1) float32: of the visits or the improved policy; their sum is 1
    win_rates: np.ndarray | None = None  # (B,) float32 in [0, 1]; NaN where none is known

    def __len__(self) -> int:
        return len(self.moves)


class Rows:
    """A seeded, endless order of rows: every position of every game once an epoch, each under a random symmetry. Row
    ``i`` depends on the games, the seed and ``i`` only, so the number of rows drawn is the whole state of a run."""

    def __init__(
        self, games: Games, encoder: Encoder, seed: int = 0, threads: int = 1, places: np.ndarray | None = None
    ):
        """``places`` are flat indices of the positions, without which there are all."""
        if not len(games.moves):
            raise RecordError("no training rows: no games are left after the split")
        self.games, self.encoder, self.seed, self.threads = games, encoder, seed, threads
        self._places = np.arange(len(games.moves)) if places is None else places
        self.per_epoch = len(self._places)
        self._epoch, self._order = -1, np.empty((2, 0), np.int64)  # positions and symmetries of the epoch drawn last

    def positions(self, first: int, count: int) -> np.ndarray:
        """Flat position indices and symmetries of rows ``first`` to ``first + count``; (2, count) int64."""
        parts = []
        while count:
            epoch, offset = divmod(first, self.per_epoch)
            self._shuffle(epoch)
            parts.append(self._order[:, offset : offset + count])
            first, count = first + parts[-1].shape[1], count - parts[-1].shape[1]
        return np.concatenate(parts, 1)

    def batch(self, first: int, count: int) -> Batch:
        """Rows ``first`` to ``first + count`` of the order. Where the encoder tells who plays, a net learns to do
        without: of eight rows one has neither rank, and one the own alone."""
        places, symmetries = self.positions(first, count)
        shown = None
        if self.encoder.has_players:
            drawn = np.array([crc32(row.to_bytes(8, "big")) % 8 for row in range(first, first + count)])
            shown = np.stack([drawn != 0, drawn > 1], 1)
        return encode_positions(self.games, self.encoder, places, symmetries, self.threads, shown)

    def _shuffle(self, epoch: int) -> None:
        """Draw the order of an epoch's positions: each once. For an encoder that tells who plays they are drawn, and
        the rarer a player's rank is, the more often: as the root of the share of ranks near it."""
        if epoch == self._epoch:
            return
        generator, games = np.random.default_rng([self.seed, epoch]), self.games
        if self.encoder.has_players:
            ranks = games.ranks[np.repeat(np.arange(len(games)), games.lengths), games.plies % 2][self._places]
            near = np.where(ranks == UNRANKED, len(KNOTS), np.abs(ranks[:, None] - KNOTS).argmin(1))
            weights = np.bincount(near, minlength=len(KNOTS) + 1).clip(1)[near] ** -0.5
            order = generator.choice(self.per_epoch, self.per_epoch, p=weights / weights.sum())
        else:
            order = generator.permutation(self.per_epoch)
        symmetries = generator.integers(0, SYMMETRIES, self.per_epoch, np.uint8)
        self._epoch, self._order = epoch, np.stack([self._places[order], symmetries])


def encode_positions(
    games: Games,
    encoder: Encoder,
    places: np.ndarray,
    symmetries: np.ndarray,
    threads: int = 1,
    shown: np.ndarray | None = None,
) -> Batch:
    """The rows at flat indices ``places`` of ``games.moves``: the position before that move, and the move. ``shown``
    (rows, 2) says which ranks an encoder that tells who plays is told, own and opponent's; without it, both."""
    owners = np.searchsorted(games.starts, places, side="right") - 1
    plies = places - games.starts[owners]
    lists = (games.size, games.moves, games.starts, games.komis)
    rules = np.where(games.territory, 0, CGOS_RULES)  # as far as records tell
    planes = encode_rows(encoder, *lists, owners, plies, symmetries, threads, rules)
    if encoder.has_players:
        ranks = games.ranks[owners[:, None], plies[:, None] % 2 ^ [0, 1]]  # (rows, 2): own, opponent's
        own, opponent = (ranks if shown is None else np.where(shown, ranks, UNRANKED)).T
        planes[:, -PLAYER_PLANES:] = player_planes(own, opponent, games.territory[owners])[:, :, None]
    tables = symmetry_table(games.size)
    signs = np.where(plies % 2 == 0, 1, -1)
    final = games.owners[owners] * (signs * games.scored[owners])[:, None].astype(np.int8)
    turned = np.empty_like(final)
    np.put_along_axis(turned, tables[symmetries, :-1].astype(np.int64), final, 1)
    margins = games.owners[owners].sum(1, dtype=np.float32) - games.komis[owners]
    return Batch(
        planes.reshape(len(places), encoder.planes, games.size, games.size),
        tables[symmetries, games.moves[places]].astype(np.int64),
        results_of(games.winners[owners], plies),
        plies,
        turned,
        np.where(games.scored[owners], signs * margins, np.nan).astype(np.float32),
    )


def results_of(winners: np.ndarray, plies: np.ndarray) -> np.ndarray:
    """WIN, DRAW or LOSS for the side to move at each ply, NO_RESULT where the winner isn't known; int64."""
    to_play = np.where(plies % 2 == 0, int(BLACK), int(WHITE))
    decided = np.where(winners == to_play, WIN, LOSS)
    return np.where(winners == UNKNOWN, NO_RESULT, np.where(winners == DRAWN, DRAW, decided))


def in_order(games: Games, encoder: Encoder, places: np.ndarray, size: int, threads: int = 1) -> Iterator[Batch]:
    """The positions at flat indices ``places`` as they stand, in batches of ``size``: for measuring."""
    for first in range(0, len(places), size):
        some = places[first : first + size]
        yield encode_positions(games, encoder, some, np.zeros_like(some), threads)
