"""Datasets: what is sifted, that parts are apart and stay so, that nothing half is left, and rows from mapped moves."""

import gzip
import json
import os
import signal
import tarfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from commandline import arena, arena_begun, refused
from planned import planned
from played import match_of, record_of
from stored_events import earlier_wins, games_of, player, store_event
from test_dead import record_of as ended

from arena import ConfigError, RecordError
from arena.go.coords import WHITE, symmetry_table
from arena.go.game import Ending, Rules
from arena.go.record import GameRecord
from arena.go.sgf import write_sgf
from arena.match.schedule import Match
from arena.results.store import Store
from trainers import records as data
from trainers.dataset import GameFilter, build, parse, rank_of, rating_of
from trainers.records import PARTS, Dataset, SplitRule

SIZE = 7
HALF = SplitRule(test_from=20180701, validation=0.2)


def played(number: int, **changes: object) -> GameRecord:
    """A game between our own bots, as a server would note it."""
    record = record_of(match_of(size=SIZE), number, ("alphago", "sl", None)[number % 3], seed=number)
    fields = {"date": f"2018-{1 + number % 12:02}-09", "black_rank": "2500", "white_rank": f"{2300 + 10 * number}?"}
    return replace(record, **{**fields, **changes})


def turned(record: GameRecord, symmetry: int) -> GameRecord:
    table = symmetry_table(record.rules.size)[symmetry]
    return replace(record, moves=tuple(int(table[move]) for move in record.moves))


@pytest.fixture(scope="module")
def records() -> list[GameRecord]:
    return [played(number) for number in range(60)]


def write(path: Path, records: list[GameRecord], *more: str) -> Path:
    path.write_text("".join(f"{text}\n" for text in (*(write_sgf(record) for record in records), *more)))
    return path


@pytest.fixture(scope="module")
def made(records: list[GameRecord], tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("sets")
    source = write(folder / "games.sgfs", [*records, turned(records[0], 3)], "(;SZ[7];B[zz])")
    return build([source], folder / "set", GameFilter(SIZE), HALF)


def test_every_game_comes_back_in_one_part(records: list[GameRecord], made: Dataset) -> None:
    found = {}
    for part in (made.train, made.validation, made.test):
        for g in range(len(part)):
            moves = tuple(part.moves[part.starts[g] : part.starts[g + 1]].tolist())
            found[moves] = (int(part.winners[g]), int(part.dates[g]))
    assert found == {
        record.moves: (
            int(record.outcome.winner or data.DRAWN),  # type: ignore[union-attr]  # they all have one
            int(record.date.replace("-", "")),
        )
        for record in records
    }
    assert min(made.test.dates) >= 20180701 > max(*made.train.dates, *made.validation.dates)
    assert len(made.train) and len(made.validation)
    assert made.manifest.read == 62 and made.manifest.rejects["duplicate"] == 1
    assert sum(made.manifest.rejects.values()) == 2
    assert sum(made.manifest.games.values()) == 60 == sum(len(made.ratings(part)) for part in PARTS)
    assert Dataset.open(made.folder, verify=True).manifest == made.manifest


def test_the_parts_are_those_of_the_trainers_own_split(records: list[GameRecord], made: Dataset) -> None:
    split = data.split_by_game(data.games_from_records(((0, record) for record in records), SIZE), HALF)
    for ours, theirs in ((made.train, split.train), (made.validation, split.validation), (made.test, split.test)):
        assert np.array_equal(ours.moves, theirs.moves) and np.array_equal(ours.starts, theirs.starts)


def test_archives_and_processes_do_not_change_what_comes_out(records: list[GameRecord], tmp_path: Path) -> None:
    source = write(tmp_path / "games.sgfs", records)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(source, "a/games.sgfs")
    with tarfile.open(tmp_path / "b.tar.xz", "w:xz") as archive:
        archive.add(source, "b/games.sgfs")
    seen: list[tuple[int, int]] = []
    both = [tmp_path / "a.zip", tmp_path / "b.tar.xz"]
    one = build(both, tmp_path / "one", GameFilter(SIZE), HALF, 1, lambda *figures: seen.append(figures))
    two = build(both, tmp_path / "two", GameFilter(SIZE), HALF, 2)
    assert one.manifest.files == two.manifest.files
    assert one.manifest.rejects == {"duplicate": 60} and one.manifest.games == two.manifest.games
    assert seen[-1] == (120, 60)
    assert set(one.train.sources.tolist()) == {0}  # of two twins the first stays


@pytest.mark.parametrize(
    ("filter", "change", "reason"),
    [
        (GameFilter(9), {}, "another size"),
        (GameFilter(SIZE, rules=("japanese",)), {}, "other rules"),
        (GameFilter(SIZE, komi=(6.5,)), {}, "another komi"),
        (GameFilter(SIZE, rating=2600), {}, "rating too low or unknown"),
        (GameFilter(SIZE, rating=2000), {"black_rank": ""}, "rating too low or unknown"),
        (GameFilter(SIZE, rank="2d"), {"black_rank": "3d", "white_rank": "1d"}, "rank too low or unknown"),
        (GameFilter(SIZE, longest=19), {}, "too short or too long"),
        (GameFilter(SIZE, shortest=100), {}, "too short or too long"),
        (GameFilter(SIZE, results="known"), {"outcome": None}, "unknown result"),
        (GameFilter(SIZE), {"first": WHITE}, "handicap or setup stones"),
        (GameFilter(SIZE), {"setup": ((48,), ()), "moves": (0, 1, 2)}, "handicap or setup stones"),
    ],
)
def test_what_the_filter_refuses_is_counted_by_reason(filter: GameFilter, change: dict, reason: str) -> None:
    record = played(2, **change)
    parsed = parse(filter, [(0, ("here", 1, write_sgf(record).encode()))])
    assert len(parsed.games) == 0 and dict(parsed.rejects) == {reason: 1}


def test_what_the_filter_lets_through_is_kept() -> None:
    filter = GameFilter(SIZE, ("cgos",), (7.0, 6.5), 2300, "", "scored", 10, 40)
    parsed = parse(filter, [(0, ("here", 1, write_sgf(played(5)).encode()))])
    assert len(parsed.games) == 1 and not parsed.rejects and parsed.ratings.tolist() == [[2500, 2350]]
    resigned = record_of(match_of(size=SIZE), 0, "alphago", Ending.RESIGN)
    assert filter.refusal(replace(resigned, black_rank="2500", white_rank="2500")) == "not scored"
    assert not GameFilter(SIZE, rank="1k").refusal(played(1, black_rank="1k", white_rank="9p"))


def test_ranks_and_ratings_are_read() -> None:
    ranks = {"30k": -29, "1k": 0, "1d": 1, "9D": 9, "2 dan": 2, "1p": 10, "2500": None, "": None}
    assert {text: rank_of(text) for text in ranks} == ranks
    assert [rating_of(text) for text in ("2650?", "1800", "5d", "")] == [2650, 1800, None, None]


def test_the_arenas_own_games_are_read_as_sgf_is(tmp_path: Path) -> None:
    match = planned(Match, first=player("a"), second=player("b"), games=8, rules=Rules.preset("cgos", SIZE))
    games = games_of(match, earlier_wins(match))
    path = tmp_path / "arena.db"
    with Store.open(path, write=True) as store:
        store_event(store, match, games[:6])
    source, cache = write(tmp_path / "games.sgfs", games[:6]), tmp_path / "cache"
    ours, theirs = (data.load_games([name], SIZE, cache) for name in (path, source))
    assert len(ours) == 6 and np.array_equal(ours.moves, theirs.moves) and np.array_equal(ours.winners, theirs.winners)
    assert build([path], tmp_path / "set", GameFilter(SIZE), HALF).manifest.read == 6
    with Store.open(path, write=True) as store:
        store.append(games[6:])
    assert len(data.load_games([path], SIZE, cache)) == 8  # what was kept in the cache is not all any more


def test_a_split_by_hash_stays_when_games_are_added(records: list[GameRecord], tmp_path: Path) -> None:
    parting = SplitRule(test=0.3, validation=0.2)
    few = build([write(tmp_path / "a.sgfs", records[:30])], tmp_path / "few", GameFilter(SIZE), parting)
    more = build([write(tmp_path / "b.sgfs", records)], tmp_path / "more", GameFilter(SIZE), parting)
    for part in PARTS:
        ours, theirs = getattr(few, part), getattr(more, part)
        assert 0 < len(ours) < len(theirs)
        assert np.array_equal(theirs.select(np.arange(len(ours))).moves, ours.moves)


def test_what_cannot_be_built_is_refused_and_leaves_nothing(
    records: list[GameRecord], made: Dataset, tmp_path: Path
) -> None:
    source = write(tmp_path / "games.sgfs", records[:3])
    with pytest.raises(RecordError, match="exists already"):
        build([source], made.folder, GameFilter(SIZE), HALF)
    with pytest.raises(RecordError, match="another size 3"):
        build([source], tmp_path / "none", GameFilter(9), HALF)
    with pytest.raises(RecordError, match="No such file"):
        build([tmp_path / "gone.sgf"], tmp_path / "none", GameFilter(SIZE), HALF)
    with pytest.raises(ConfigError, match="need different names"):
        build([source, source], tmp_path / "none", GameFilter(SIZE), HALF)
    with pytest.raises(ConfigError, match="strong"):
        GameFilter(SIZE, rank="strong")
    with pytest.raises(ConfigError, match="settled"):
        GameFilter(SIZE, results="settled")
    assert [path.name for path in tmp_path.iterdir()] == ["games.sgfs"]


def test_a_dataset_that_is_damaged_is_refused(records: list[GameRecord], tmp_path: Path) -> None:
    folder = build([write(tmp_path / "games.sgfs", records)], tmp_path / "set", GameFilter(SIZE), HALF).folder
    with pytest.raises(RecordError, match="can't be read"):
        Dataset.open(tmp_path)
    moves = folder / "train" / "moves.npy"
    content = bytearray(moves.read_bytes())
    content[-1] ^= 1
    moves.write_bytes(content)
    with pytest.raises(RecordError, match=r"moves\.npy: isn't the file"):
        Dataset.open(folder, verify=True)
    moves.write_bytes(content[: len(content) // 2])
    with pytest.raises(RecordError, match="build the dataset again"):
        Dataset.open(folder)
    manifest = folder / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 9}))
    with pytest.raises(RecordError, match="format"):
        Dataset.open(folder)


def test_dead_stones_are_marked_where_that_gives_the_recorded_result(tmp_path: Path) -> None:
    margins = [0.5, 0.5, 25 - 22 - 6.5, 20.5, None]
    games = [ended("chinese", margin, number, Ending.RESIGN) for number, margin in enumerate(margins)]
    source = write(tmp_path / "games.sgfs", games)
    plain = build([source], tmp_path / "plain", GameFilter(SIZE), SplitRule(validation=0.0))
    assert plain.train.scored.tolist() == [False, False, True, False, False] and plain.manifest.dead_stones == {}
    marking = GameFilter(SIZE, dead_stones=True)
    one = build([source], tmp_path / "one", marking, SplitRule(validation=0.0), 1)
    two = build([source, write(tmp_path / "twin.sgfs", games[:1])], tmp_path / "two", marking, HALF, 2)
    assert one.train.scored.tolist() == [True, True, True, False, False]
    assert (one.train.owners[:2] == np.tile([1, 1, 1, 1, -1, -1, -1], SIZE)).all()
    assert np.array_equal(one.train.owners[2:], plain.train.owners[2:])
    counts = {"AS_IT_STANDS": 1, "PLAYOUTS": 2, "GNUGO": 0, "DISPUTED": 1}
    assert one.manifest.dead_stones == counts == two.manifest.dead_stones
    assert np.array_equal(one.train.winners, plain.train.winners)


def test_the_command_builds_and_tells(records: list[GameRecord], tmp_path: Path) -> None:
    write(tmp_path / "games.sgfs", records)
    words = ["data", "build", "games.sgfs", "--out", "set", "--size", "7", "--test-from", "2018-07-01"]
    first = arena(*words, "--processes", "1", folder=tmp_path, columns=100)
    assert first.returncode == 0, first.stderr
    refused(arena(*words, folder=tmp_path), "exists already")
    told = arena("data", "stats", "set", folder=tmp_path, columns=100)
    assert told.returncode == 0, told.stderr
    for word in ("games read", "60", "2018", "Black won", "2500"):
        assert word in told.stdout
    assert told.stdout == first.stdout


def test_ctrl_c_leaves_nothing_half(records: list[GameRecord], tmp_path: Path) -> None:
    text = "".join(f"{write_sgf(record)}\n" for record in records)
    (tmp_path / "slow.sgfs.gz").write_bytes(gzip.compress(text.encode() * 3000, 1))  # minutes of reading
    (tmp_path / "sets").mkdir()
    words = ("slow.sgfs.gz", "--size", str(SIZE), "--out", "sets/set", "--processes", "1")
    run = arena_begun("data", "build", *words, folder=tmp_path)
    opened = Path(f"/proc/{run.pid}/fd")
    while not any(os.path.realpath(file).endswith("slow.sgfs.gz") for file in opened.iterdir()):
        assert run.poll() is None
        time.sleep(0.02)
    run.send_signal(signal.SIGINT)
    _, errors = run.communicate(timeout=60)
    assert run.returncode != 0 and "Traceback" not in errors
    assert list((tmp_path / "sets").iterdir()) == []


def test_a_pipe_or_a_device_in_a_folder_of_records_is_passed_over_and_by_itself_refused(
    records: list[GameRecord], tmp_path: Path
) -> None:
    folder = tmp_path / "games"
    folder.mkdir()
    write(folder / "some.sgfs", records)
    os.mkfifo(folder / "pipe.sgf")
    (folder / "zero.sgfs").symlink_to("/dev/zero")
    assert len(data.load_games([folder], SIZE, tmp_path / "cache")) == 60
    assert build([folder], tmp_path / "set", GameFilter(SIZE), HALF).manifest.games["train"]
    for name in ("pipe.sgf", "zero.sgfs"):
        told = arena("data", "build", f"games/{name}", "--out", "other", folder=tmp_path)
        assert told.returncode == 2 and f"games/{name}: is not a regular file" in told.stderr


@pytest.mark.parametrize("damage", [lambda content: content[: len(content) // 2], lambda _: b"", bytes.upper])
def test_a_damaged_cache_of_games_is_made_anew(
    records: list[GameRecord], tmp_path: Path, damage: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    source, cache = write(tmp_path / "games.sgfs", records), tmp_path / "cache"
    data.load_games([source], SIZE, cache)
    (stored,) = cache.iterdir()
    whole = stored.read_bytes()
    stored.write_bytes(damage(whole))
    again = data.load_games([source], SIZE, cache)
    assert len(again) == 60 and len(again.moves) == again.starts[-1]
    assert f"{stored}: is damaged" in caplog.text
    assert len(data.load_games([source], SIZE, cache)) == 60 and caplog.text.count("is damaged") == 1
