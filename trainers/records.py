"""Game records as training rows: read, filtered, split by game, and encoded in a seeded order as batches."""

from __future__ import annotations

import hashlib
import json
import math
import re
import signal
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from functools import partial
from itertools import count, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar
from zipfile import BadZipFile
from zlib import crc32

import numpy as np

from arena import ConfigError, RecordError
from arena.contract.settings import convert, read_object
from arena.files import reason, replacing
from arena.go import collection
from arena.go.board import Board
from arena.go.collection import Text
from arena.go.coords import BLACK, SYMMETRIES, WHITE, Move, symmetry_table
from arena.go.game import Ending, Scoring
from arena.go.planes import Encoder, encode_rows, final_owners
from arena.go.ranks import KNOTS, PLAYER_PLANES, UNRANKED, player_planes, rank_of
from arena.go.record import GameRecord
from arena.go.sgf import read_sgf, write_sgf
from arena.match.worker import end_with_parent
from arena.results.store import Store
from bots.nets.rollout import shipped_weights
from bots.search.dead import judge
from trainers.settings import HeldOut, Records

UNKNOWN, BLACK_WON, WHITE_WON, DRAWN = range(4)
"""How ``Games.winners`` tells results; the first three are also 0 and the two colours."""

WIN, DRAW, LOSS = range(3)  # the classes of the value, for the side to move
LATE = 15  # from this ply on few games still repeat earlier ones
NO_RESULT = -1  # the value target of a game whose result isn't known; the loss leaves it out


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
    players: np.ndarray  # (games, 2) uint32: digests of their names
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
        others = {name: getattr(self, name)[indices] for name in PER_GAME}
        return Games(self.size, self.moves[flat], starts, **others)


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
    moves = np.array([move for record in used for move in record.moves], np.uint16)
    starts = _starts([len(record.moves) for record in used])
    owners = np.empty((len(used), size * size), np.int8)
    final_owners(size, moves, starts, owners)
    scored = owners.sum(1) == np.array([_margin(record) for record in used], np.float64)  # NaN equals nothing
    for game in np.flatnonzero(~scored).tolist() if dead_stones else ():
        if (marked := owners_without_dead(used[game])) is not None:
            owners[game], scored[game] = marked, True
    pairs = [[(r.black, r.black_rank), (r.white, r.white_rank)] for r in used]
    ranks = [[UNRANKED if (rank := rank_of(text)) is None else rank for _, text in pair] for pair in pairs]
    return Games(
        size,
        moves,
        starts,
        komis=np.array([record.rules.komi for record in used], np.float64),
        winners=np.array([_winner(record) for record in used], np.uint8),
        dates=np.array([_date(record.date) for record in used], np.int32),
        scored=scored,
        owners=owners,
        ranks=np.array(ranks, np.int8).reshape(-1, 2),
        players=np.array([[player_digest(name) for name, _ in pair] for pair in pairs], np.uint32).reshape(-1, 2),
        territory=np.array([record.rules.scoring is Scoring.TERRITORY for record in used], np.bool_),
    )


def player_digest(name: str) -> int:
    """What stands for a player in ``Games.players``."""
    return crc32(name.encode(errors="replace"))


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
    found = re.fullmatch(r"(\d+)-(\d+)-(\d+)", text[:10])
    return int(found[1]) * 10000 + int(found[2]) * 100 + int(found[3]) if found else 0


def owners_without_dead(record: GameRecord) -> np.ndarray | None:
    """Who owns each point at the end of a game that stopped before dead stones were captured: (size²,) int8, 1 Black,
    -1 White, 0 nobody. Playouts tell the dead stones; None unless the recorded margin is the count as it stands or
    without them."""
    outcome = record.outcome
    if outcome is None or outcome.ending is not Ending.SCORE or outcome.margin is None:
        return None
    game = record.replay()
    dead = () if game.margin() == outcome.margin else dead_stones(game.board)
    if game.margin(dead) != outcome.margin:
        return None
    return np.array([0, 1, -1], np.int8)[game.board.without(dead).owners()]


def dead_stones(board: Board) -> tuple[Move, ...]:
    """What playouts of the shipped rollout policy take for dead."""
    dead, _ = judge(board, shipped_weights(board.size))
    return tuple(np.flatnonzero(dead).tolist())


# --- Splits ---

TRAIN, VALIDATION, TEST = range(3)  # the parts of a split, in the order of the fields of ``Split``


def canonical_key(moves: np.ndarray, size: int) -> bytes:
    """16 bytes that a game shares with its 8 symmetric twins and, but for chance, with no other."""
    twins = symmetry_table(size)[:, moves].astype(np.uint16)  # (8, moves)
    return hashlib.blake2b(min(twin.tobytes() for twin in twins), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class SplitRule:
    """How games are split, each without regard to the others. Twins under a symmetry stay together."""

    test_from: int = 0
    """Games of this day (20180301) or later are the test. A random split puts games into the test that repeat the first
    moves of training games."""
    validation: float = 0.01  # the share of the games not in the test that is kept aside
    test: float = 0.0  # the share of games that is the test where no day tells: they have none, or ``test_from`` is 0
    played: bool = False  # whether it is for games that a run plays, not for records
    by_player: bool = False
    """Whether players are split as well: a game is in the test if one of its players is, and so for validation."""

    @classmethod
    def of_played(cls, settings: HeldOut) -> SplitRule:
        """The rule for games that a run plays."""
        return cls(validation=settings.validation_split, test=settings.test_split, played=True)

    def part_of(self, key: bytes, day: int, players: Sequence[int] = ()) -> int:
        """TRAIN, VALIDATION or TEST, by a game's ``canonical_key``, its date and digests of its players' names."""
        if self.by_player:
            parts = [self.part_of_player(player) for player in players]
            return max(parts, default=TRAIN)
        validation, test = (int.from_bytes(two, "big") for two in (key[:2], key[2:4]))
        if day >= self.test_from if self.test_from and day else test < round(self.test * 2**16):
            return TEST
        return VALIDATION if validation < round(self.validation * 2**16) else TRAIN

    def part_of_player(self, player: int) -> int:
        """TRAIN, VALIDATION or TEST, by the digest of a player's name."""
        drawn = int.from_bytes(hashlib.blake2b(player.to_bytes(4, "big"), digest_size=4).digest(), "big") / 2**32
        return TEST if drawn < self.test else VALIDATION if drawn < self.test + self.validation else TRAIN


@dataclass(frozen=True, slots=True)
class Split:
    """Games apart: no game, under no symmetry, is in two of them."""

    train: Games
    validation: Games
    test: Games
    rules: tuple[SplitRule, ...] = ()  # by what they are apart; see ``parts_of``
    source: str = ""  # the records' names and the sha256 of their contents, for manifests

    @property
    def komi(self) -> float:
        """White's in most training games."""
        return float(np.median(self.train.komis))

    def planes(self, encoder: Encoder, seed: int) -> Callable[[int], np.ndarray]:
        """Gives planes (B, P, n, n) of as many held-out positions as asked for, always the same."""
        rows = Rows(self.validation if len(self.validation) else self.train, encoder, seed + 1)
        return lambda count: rows.batch(0, count).planes


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
    players: str = ""  # a regular expression that the names of both match; any names when empty

    def __post_init__(self) -> None:
        if self.rank and rank_of(self.rank) is None:
            raise ConfigError(f"rank = '{self.rank}' is not a rank; write it like 5k, 1d or 9p")
        try:
            re.compile(self.players)
        except re.error as error:
            raise ConfigError(f"players = '{self.players}' is not a regular expression ({error})") from None

    def refusal(self, record: GameRecord) -> str:
        """Why a game isn't taken, in words fit to count; empty when it is."""
        ranks, least = (record.black_rank, record.white_rank), rank_of(self.rank)
        if record.rules.size != self.size:
            return "another size"
        if any(record.setup) or record.first is not BLACK:
            return "handicap or setup stones"
        if len(record.moves) < max(1, self.min_moves):
            return "too short"
        if self.rating and min(rating_of(text) or 0 for text in ranks) < self.rating:
            return "rating too low or unknown"
        if least is not None and any((rank := rank_of(text)) is None or rank < least for text in ranks):
            return "rank too low or unknown"
        if self.players and not all(re.fullmatch(self.players, name) for name in (record.black, record.white)):
            return "other players"
        return ""


def rating_of(text: str) -> float | None:
    """The Elo that a rank property such as ``2650?`` tells, or None."""
    found = re.fullmatch(r"\s*(\d{2,4}(?:\.\d+)?)\s*\??\s*", text)
    return float(found[1]) if found else None


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


def read_games(
    paths: Sequence[Path],
    filter: GameFilter,
    processes: int = 1,
    on_progress: Callable[[int, int], None] = lambda read, kept: None,
) -> tuple[Games, Counter[str]]:
    """The games of some paths (see ``read_texts``), no game twice under symmetry, and why others were left out;
    ``on_progress`` hears how many were read and kept. Raises RecordError when a path can't be read or no game is left.
    """
    texts = (text for path in paths for _, _, text in read_texts(path))
    chunks = iter(lambda: list(islice(texts, CHUNK)), [])
    parts, rejects, kept = [games_from_records((), filter.size)], Counter[str](), 0
    for games, refused in _parse_all(chunks, filter, processes):
        parts.append(games)
        rejects.update(refused)
        kept += len(games)
        on_progress(kept + rejects.total(), kept)
    games = join_games(parts)
    first = parts_of(games, [SplitRule()]) >= 0
    if again := int((~first).sum()):
        rejects["duplicate"] = again
    if not first.any():
        commonest = "; ".join(f"{why} {number:,}" for why, number in rejects.most_common(3)) or "there is none"
        named = ", ".join(map(str, paths))
        raise RecordError(f"{named}: no {filter.size}x{filter.size} game can be used ({commonest}); give other records")
    return games.select(first), rejects


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
        raise RecordError(
            "a process that reads games was killed, perhaps for want of memory; use --workers 1"
        ) from None


def read_texts(path: Path) -> Iterator[Text]:
    """The games of a path, not yet parsed: of SGF files, folders and archives as ``arena.go.collection`` reads them, or
    of the arena's own ``arena.db``. Raises RecordError for what can't be read."""
    if path.suffix != ".db":
        yield from collection.read_texts(path)
        return
    with Store.open(path) as store:
        for number, record in enumerate(store.games(), 1):
            yield str(path), number, write_sgf(record).encode()


def digest_of(paths: Sequence[Path]) -> str:
    """The sha256 of the contents of files, and of all regular files in folders; of an ``arena.db``, of its events and
    how many games of each there are. Raises RecordError for what can't be read, or isn't a regular file: reading a pipe
    or a device may never end."""
    digest = hashlib.sha256()
    for path in paths:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise RecordError(f"{path}: is not a regular file; give files of SGF games")
        if path.suffix == ".db" and path.exists():
            with Store.open(path) as store:
                for event in store.events():
                    digest.update(f"{event.id} {store.count(event=event.id)}\n".encode())
            continue
        for file in [known for known in sorted(path.rglob("*")) if known.is_file()] if path.is_dir() else [path]:
            try:
                with file.open("rb") as opened:
                    digest.update(hashlib.file_digest(opened, "sha256").digest())
            except OSError as error:
                raise RecordError(f"{file}: can't be read ({error.strerror}); give files of SGF games") from error
    return digest.hexdigest()


def described(paths: Sequence[Path]) -> str:
    """The names of some paths and the sha256 of their contents, for a manifest."""
    return f"{', '.join(path.name for path in paths)}; sha256 {digest_of(paths)}"


# --- Datasets ---

DATASET_FORMAT = 6  # the version of a dataset's folder; a reader refuses any other

MANIFEST, ARRAYS_FILE = "manifest.json", "games.npz"
PARTS = ("train", "validation", "test")


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a dataset is; plain data, stored as JSON beside its games."""

    size: int
    sources: str  # the names of the files and folders that were read, and the sha256 of their contents
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
    manifest: Manifest
    games: Games
    parts: np.ndarray  # (games,) int64: TRAIN, VALIDATION, TEST

    @classmethod
    def open(cls, folder: str | Path) -> Dataset:
        """Raises RecordError for a folder that is missing, damaged or of another version."""
        folder, hint = Path(folder), "build the dataset with: arena data build"
        content = read_object(path := folder / MANIFEST, error=RecordError, hint=hint)
        if (found := content.get("format")) != DATASET_FORMAT:
            raise RecordError(f"{path}: has format {found!r}, and this version reads {DATASET_FORMAT}; {hint}")
        manifest = convert(content, Manifest, path, error=RecordError, hint=hint)
        try:
            with np.load(path := folder / ARRAYS_FILE, allow_pickle=False) as arrays:
                games = Games(manifest.size, **{name: arrays[name] for name in ARRAYS})
                return cls(folder, manifest, games, arrays["parts"])
        except (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error, NotImplementedError) as error:
            raise RecordError(f"{path}: can't be read ({reason(error)}); remove it, and make it again") from error

    @property
    def rule(self) -> SplitRule:
        return SplitRule(**self.manifest.split)

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
    """Read records into a new dataset at ``folder``, as ``read_games`` does it. The result depends on the records and
    settings only, not on ``processes``. The complete folder gets its name at the end: stopped before, this leaves
    nothing. Raises RecordError when ``folder`` exists, too."""
    if folder.exists():
        raise RecordError(f"{folder} exists already; choose another --out or remove it")
    sources = described(paths)
    games, rejects = read_games(paths, filter, processes, on_progress)
    manifest = Manifest(
        size=filter.size,
        sources=sources,
        filter=asdict(filter),
        split=asdict(rule),
        read=len(games) + rejects.total(),
        rejects=dict(rejects.most_common()),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    with replacing(folder, error=RecordError, hint="choose another --out") as aside:
        aside.mkdir(parents=True)
        arrays = {name: getattr(games, name) for name in ARRAYS} | {"parts": parts_of(games, [rule])}
        np.savez(aside / ARRAYS_FILE, **arrays)
        (aside / MANIFEST).write_text(json.dumps(asdict(manifest), indent=2) + "\n", encoding="utf-8")
    return Dataset.open(folder)


def load_games(paths: Sequence[Path], size: int, cache: Path, dead_stones: bool = False) -> Games:
    """The usable games of some paths, as ``read_games`` reads them; kept as a dataset in ``cache`` under a name made
    from their contents. Raises RecordError as that does."""
    filter = GameFilter(size, dead_stones=dead_stones)
    name = hashlib.sha256(f"{DATASET_FORMAT} {filter} {digest_of(paths)}".encode()).hexdigest()[:24]
    folder = cache / f"games-{name}"
    return (Dataset.open(folder) if folder.exists() else build(paths, folder, filter, SplitRule())).games


def read_split(settings: Records, cache: Path, inherited: Sequence[SplitRule] = ()) -> Split:
    """The games that a trainer is to learn from and be tested on: a dataset's parts as they are, other records split.
    Games from which the net that it begins with has learned, by the rules that are ``inherited``, are held out of
    neither: a dataset's are left out, others are learned from.

    Raises RecordError for records that can't be used, ConfigError for settings that can't be.
    """
    paths = [Path(path) for path in settings.data]
    if not paths:
        raise ConfigError("no game records to learn from: name SGF files, folders, .sgfs.xz files or a dataset")
    if not any((path / MANIFEST).is_file() for path in paths):
        rule = SplitRule(day_of(settings.test_from), settings.validation_split, settings.test_split)
        games = load_games(paths, settings.size, cache)
        split = split_by_game(games, *dict.fromkeys((rule, *inherited)))
    elif len(paths) > 1:
        raise RecordError("a dataset can't be mixed with other records; make one of all: arena data build")
    else:
        dataset = Dataset.open(paths[0])
        if (size := dataset.manifest.size) != settings.size:
            raise RecordError(
                f"{paths[0]} holds {size}x{size} games, not {settings.size}x{settings.size}; set the size"
            )
        rules = tuple(dict.fromkeys((dataset.rule, *inherited)))
        train, validation, test = (dataset.part(part) for part in (TRAIN, VALIDATION, TEST))
        if len(rules) > 1:
            validation, test = (part.select(parts_of(part, rules) != TRAIN) for part in (validation, test))
        split = Split(train, validation, test, rules)
    if not len(split.train):
        raise RecordError(
            "no training games: all are of test_from or later; set a later test_from, or run arena data build first"
        )
    return replace(split, source=described(paths))


# --- Rows ---


@dataclass(frozen=True, slots=True)
class Batch:
    """Training rows, all for the side to move; ``shares`` and ``win_rates`` are what a search found, if any."""

    planes: np.ndarray  # (B, P, n, n) float32
    moves: np.ndarray  # (B,) int64: what was played; after a search, what has the largest share
    results: np.ndarray  # (B,) int64: WIN, DRAW, LOSS or NO_RESULT
    plies: np.ndarray  # (B,) int64: moves played before
    owners: np.ndarray  # (B, n²) int8: 1 for points of the side to move in the end, -1 the other's, 0 for the rest
    scores: np.ndarray  # (B,) float32: by how many points the side to move will win, komi counted; NaN where unknown
    shares: np.ndarray | None = None  # (B, n² + 1) float32: of the visits or the improved policy; their sum is 1
    win_rates: np.ndarray | None = None  # (B,) float32 in [0, 1]; NaN where none is known

    def __len__(self) -> int:
        return len(self.moves)


class Rows:
    """A seeded, endless order of rows: every position of every game once an epoch, each under a random symmetry.

    Row ``i`` depends on the games, the seed and ``i`` only, so the number of rows drawn is the whole state of a run.
    """

    def __init__(
        self, games: Games, encoder: Encoder, seed: int = 0, threads: int = 1, places: np.ndarray | None = None
    ):
        """``places`` are flat indices of the positions, without which there are all."""
        if not len(games.moves):
            raise RecordError("no training rows: no games are left after the split")
        self.games, self.encoder, self.seed, self.threads = games, encoder, seed, threads
        self._places = np.arange(len(games.moves)) if places is None else places
        self.per_epoch = len(self._places)
        self._epoch, self._order, self._symmetries = -1, np.empty(0, np.int64), np.empty(0, np.uint8)

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
        shown = self._shown(first, count) if self.encoder.has_players else None
        return encode_positions(self.games, self.encoder, places, symmetries, self.threads, shown)

    def _shown(self, first: int, count: int) -> np.ndarray:
        """Which ranks a net is told that tells who plays, own and opponent's; (count, 2) bool. It learns to do without:
        of eight rows one has neither, and one the own alone."""
        drawn = np.array([crc32(row.to_bytes(8, "big")) % 8 for row in range(first, first + count)])
        return np.stack([drawn != 0, drawn > 1], 1)

    def _shuffle(self, epoch: int) -> None:
        if epoch == self._epoch:
            return
        generator = np.random.default_rng([self.seed, epoch])
        self._order = self._places[self._permutation(generator)]
        self._symmetries = generator.integers(0, SYMMETRIES, self.per_epoch, np.uint8)
        self._epoch = epoch

    def _permutation(self, generator: np.random.Generator) -> np.ndarray:
        """The order of an epoch's positions: each once. For an encoder that tells who plays they are drawn, and the
        rarer a player's rank is, the more often: as the root of the share of ranks near it."""
        if not self.encoder.has_players:
            return generator.permutation(self.per_epoch)
        games = self.games
        ranks = games.ranks[np.repeat(np.arange(len(games)), games.lengths), games.plies % 2][self._places]
        near = np.where(ranks == UNRANKED, len(KNOTS), np.abs(ranks[:, None] - KNOTS).argmin(1))
        weights = np.bincount(near, minlength=len(KNOTS) + 1).clip(1)[near] ** -0.5
        return generator.choice(self.per_epoch, self.per_epoch, p=weights / weights.sum())


MakeBatch = Callable[[int, int], Batch]
"""Takes the number of the first row in an endless order and how many rows; returns the batch."""


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
    planes = encode_rows(encoder, *lists, owners, plies, symmetries, threads)
    if encoder.has_players:
        ranks = games.ranks[owners[:, None], plies[:, None] % 2 ^ [0, 1]]  # (rows, 2): own, opponent's
        own, opponent = (ranks if shown is None else np.where(shown, ranks, UNRANKED)).T
        planes[:, -PLAYER_PLANES:] = player_planes(own, opponent, games.territory[owners])[:, :, None]
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


def in_order(games: Games, encoder: Encoder, places: np.ndarray, size: int, threads: int = 1) -> Iterator[Batch]:
    """The positions at flat indices ``places`` as they stand, in batches of ``size``: for measuring."""
    for first in range(0, len(places), size):
        some = places[first : first + size]
        yield encode_positions(games, encoder, some, np.zeros_like(some), threads)


AHEAD = 4  # batches that wait, made, for a trainer

Prepared = TypeVar("Prepared")


@contextmanager
def prefetched(
    make_batch: MakeBatch,
    prepare: Callable[[Batch], Prepared],
    first: int,
    batch: int,
    stride: int,
    most: int | None = None,
) -> Iterator[Iterator[Prepared]]:
    """Batches of ``batch`` rows, at ``most`` so many, made ahead of time in a thread and given to ``prepare`` there.

    The first begins at row ``first`` and each next one ``stride`` rows on: several processes that share the rows
    of every step begin at different ``first``.
    """

    def make(number: int) -> Prepared:
        return prepare(make_batch(first + number * stride, batch))

    def batches() -> Iterator[Prepared]:
        numbers = islice(count(), most)
        waiting = deque(pool.submit(make, number) for number in islice(numbers, AHEAD))
        while waiting:
            made = waiting.popleft().result()
            waiting.extend(pool.submit(make, number) for number in islice(numbers, 1))
            yield made

    with ThreadPoolExecutor(1, "rows") as pool:
        try:
            yield batches()
        finally:
            pool.shutdown(cancel_futures=True)
