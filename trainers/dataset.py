"""Builds datasets: folders of filtered games from records, without duplicates, split by game, to be memory-mapped."""

from __future__ import annotations

import json
import re
import signal
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import chain, islice
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from arena import ConfigError, RecordError
from arena.files import replacing
from arena.go.collection import Text
from arena.go.coords import BLACK
from arena.go.game import Ending
from arena.go.record import GameRecord
from arena.go.sgf import read_sgf
from arena.match.worker import end_with_parent
from trainers.dead_stones import LabelledBy, gnugo_title, judges, label_dead_stones
from trainers.records import (
    ARRAYS,
    BLACK_WON,
    DRAWN,
    MANIFEST,
    PARTS,
    UNKNOWN,
    WHITE_WON,
    Dataset,
    Games,
    Manifest,
    SplitRule,
    canonical_key,
    digest_of,
    games_from_records,
    read_texts,
    sha256_of,
)

RESULTS = ("any", "known", "scored")

_CHUNK = 200
"""Games that a process parses at a time."""


@dataclass(frozen=True, slots=True)
class GameFilter:
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
    """Label the dead stones of counted games whose raw count isn't the recorded one."""

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
class _Parsed:
    """What a process makes of some games: those taken, their keys and ratings, and why others weren't."""

    games: Games
    keys: list[bytes]
    ratings: np.ndarray
    settled: np.ndarray  # (games,) uint8: of ``LabelledBy``; UNCOUNTED where nobody marks dead stones
    rejects: Counter[str]
    read: int


def parse(filter: GameFilter, texts: Sequence[tuple[int, Text]]) -> _Parsed:
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
        if reason := filter.refusal(record):
            rejects[reason] += 1
            continue
        key = canonical_key(np.array(record.moves, np.uint16), filter.size)
        if key in seen:
            rejects["duplicate"] += 1
            continue
        seen.add(key)
        keys.append(key)
        records.append((source, record))
    ranks = [(record.black_rank, record.white_rank) for _, record in records]
    ratings = np.array([[rating_of(text) or 0.0 for text in pair] for pair in ranks], np.float32).reshape(-1, 2)
    games = games_from_records(records, filter.size)
    settled = np.zeros(len(records), np.uint8)
    if filter.dead_stones:
        for g, (_, record) in enumerate(records):
            settled[g], owners = label_dead_stones(record, judges())
            if settled[g] != LabelledBy.UNCOUNTED:
                games.scored[g] = owners is not None
            if owners is not None:
                games.owners[g] = owners
    return _Parsed(games, keys, ratings, settled, rejects, len(texts))


def build(
    paths: Sequence[Path],
    folder: Path,
    filter: GameFilter,
    rule: SplitRule,
    processes: int = 1,
    on_progress: Callable[[int, int], None] = lambda read, kept: None,
) -> Dataset:
    """Read records into a new dataset at ``folder``; ``on_progress`` hears how many were read and kept.

    The result depends on the records and settings only (and with ``dead_stones`` on whether GNU Go is installed), not
    on ``processes``. The complete folder gets its name at the end: stopped before, this leaves nothing. Raises
    RecordError when ``folder`` exists, a path can't be read, or no game is left, and ConfigError for settings that
    can't be.
    """
    if folder.exists():
        raise RecordError(f"{folder} exists already; choose another --out or remove it")
    names = [path.name for path in paths]
    if len(set(names)) < len(names) or len(names) > 255:
        raise ConfigError("sources need different names, at most 255")
    sources = {path.name: digest_of([path]) for path in paths}
    kept: dict[str, list[tuple[Games, np.ndarray]]] = {part: [] for part in PARTS}
    rejects: Counter[str] = Counter()
    settled: Counter[int] = Counter()
    seen: set[bytes] = set()
    read = 0
    texts = ((source, text) for source, path in enumerate(paths) for text in read_texts(path))
    for parsed in _parse_all(texts, filter, processes):
        fresh = [key not in seen for key in parsed.keys]
        seen.update(parsed.keys)
        rejects.update(parsed.rejects)
        settled.update(parsed.settled[fresh].tolist())
        rejects.update({"duplicate": again} if (again := fresh.count(False)) else {})
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
        size=filter.size,
        sources=sources,
        filter=asdict(filter),
        split=asdict(rule),
        read=read,
        rejects=dict(rejects.most_common()),
        dead_stones={kind.name: settled[kind] for kind in list(LabelledBy)[1:]} if filter.dead_stones else {},
        gnugo=gnugo_title() if filter.dead_stones else "",
        games={part: sum(len(games) for games, _ in kept[part]) for part in PARTS},
        positions={part: sum(len(games.moves) for games, _ in kept[part]) for part in PARTS},
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    _write(folder, manifest, {part: _joined(filter.size, kept[part]) for part in PARTS})
    return Dataset.open(folder)


def _begin() -> None:
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started this process hears it too, and decides


def _parse_all(texts: Iterator[tuple[int, Text]], filter: GameFilter, processes: int) -> Iterator[_Parsed]:
    """All the texts parsed, in order, by as many processes."""
    chunks = iter(lambda: list(islice(texts, _CHUNK)), [])
    work = partial(parse, filter)
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
                files[f"{part}/{name}.npy"] = sha256_of(path)
        text = json.dumps({**asdict(manifest), "files": files}, indent=2)
        (aside / MANIFEST).write_text(f"{text}\n", encoding="utf-8")


def summary(games: Games, ratings: np.ndarray) -> dict[str, str]:
    """What one part of a dataset has, by the titles of rows; ``ratings`` (games, 2) are its players' Elo, 0 where
    unknown."""
    results = np.bincount(games.winners, minlength=4)
    both = ratings[(ratings > 0).all(1)]
    counts = {
        "games": len(games),
        "positions": len(games.moves),
        "Black won": results[BLACK_WON],
        "White won": results[WHITE_WON],
        "draws": results[DRAWN],
        "unknown": results[UNKNOWN],
        "moves, median": int(np.median(games.lengths)) if len(games) else 0,
        "moves, most": games.lengths.max(initial=0),
        "both rated": len(both),
    }
    elo = " / ".join(f"{rating:.0f}" for rating in np.percentile(both, [5, 50, 95])) if len(both) else "-"
    years = zip(*np.unique(games.dates // 10000, return_counts=True), strict=True)
    return {
        **{title: f"{count:,}" for title, count in counts.items()},
        "Elo 5 % / 50 % / 95 %": elo,
        **{str(year) if year else "no date": f"{count:,}" for year, count in years},
    }
