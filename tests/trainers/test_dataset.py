"""Datasets: what is sifted, that parts are apart and stay so, and that nothing half is left."""

import json
import os
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.commandline import arena
from helpers.events import earlier_wins, games_of, planned, player, store_event
from helpers.games import match_of, record_of
from helpers.games import scored_game as ended

from arena import RecordError
from arena.go.coords import symmetry_table
from arena.go.game import Rules
from arena.go.planes import find_encoder
from arena.go.ranks import KNOTS, PLAYER_PLANES
from arena.go.record import GameRecord
from arena.go.sgf import write_sgf
from arena.match.schedule import Match
from arena.results.store import Store
from trainers import records as data
from trainers.games import ARRAYS, Rows
from trainers.records import TEST, TRAIN, VALIDATION, Dataset, GameFilter, SplitRule, build, parse

SIZE = 7
HALF = SplitRule(test_from=20180701, validation=0.2)


def played(number: int, **changes: object) -> GameRecord:
    """A game between our own bots, as a server would note it."""
    record = record_of(match_of(size=SIZE), number, ("alphago", "sl", None)[number % 3], seed=number)
    fields = {"date": f"2018-{1 + number % 12:02}-09", "black_rank": "2500", "white_rank": f"{2300 + 10 * number}?"}
    return replace(record, **{**fields, **changes})


def people(number: int) -> GameRecord:
    """A game of two of ten people; the strong ones are rare."""
    black, white = number % 10, (number // 10 + 1 + number) % 10
    ranks = [f"{rank}k" if rank else "1d" for rank in (20, 20, 20, 19, 21, 20, 22, 20, 0, 18)]
    names = {"black": f"u{black}", "white": f"u{white}", "black_rank": ranks[black], "white_rank": ranks[white]}
    return played(number, **names)


def write(path: Path, records: list[GameRecord], *more: str) -> Path:
    path.write_text("".join(f"{text}\n" for text in (*(write_sgf(record) for record in records), *more)))
    return path


@pytest.fixture(scope="module")
def records() -> list[GameRecord]:
    return [played(number) for number in range(60)]


@pytest.fixture(scope="module")
def made(records: list[GameRecord], tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("sets")
    table = symmetry_table(SIZE)[3]
    turned = replace(records[0], moves=tuple(int(table[move]) for move in records[0].moves))
    source = write(folder / "g.sgfs", [*records, turned], "(;SZ[7];B[zz])")
    return build([source], folder / "set", GameFilter(SIZE), HALF)


def test_every_game_is_in_one_part_however_it_is_packed_and_by_how_many_it_is_read(
    records: list[GameRecord], made: Dataset, tmp_path: Path
) -> None:
    games = data.games_from_records(records, SIZE)
    parts = data.parts_of(games, [HALF])
    for part, theirs in enumerate(games.select(parts == part) for part in (TRAIN, VALIDATION, TEST)):
        assert len(theirs) and set(theirs.dates >= 20180701) == {part == TEST}
        assert all(np.array_equal(getattr(made.part(part), name), getattr(theirs, name)) for name in ARRAYS)
    assert made.manifest.read == 62 and made.manifest.rejects["duplicate"] == 1
    assert sum(made.manifest.rejects.values()) == 2 and len(made.games) == 60
    assert Dataset.open(made.folder).manifest == made.manifest
    source = write(tmp_path / "games.sgfs", records)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(source, "a/games.sgfs")
    with tarfile.open(tmp_path / "b.tar.xz", "w:xz") as archive:
        archive.add(source, "b/games.sgfs")
    seen: list[tuple[int, int]] = []
    both = [tmp_path / "a.zip", tmp_path / "b.tar.xz"]
    again = build(both, tmp_path / "again", GameFilter(SIZE), HALF, 2, lambda *figures: seen.append(figures))
    assert np.array_equal(again.games.moves, made.games.moves) and np.array_equal(again.parts, made.parts)
    assert again.manifest.rejects == {"duplicate": 60} and seen[-1] == (120, 120)


@pytest.mark.parametrize(
    ("filter", "change", "reason"),
    [
        (GameFilter(9), {}, "another size"),
        (GameFilter(SIZE, rating=2600), {}, "rating too low or unknown"),
        (GameFilter(SIZE, rank="2d"), {"black_rank": "3d", "white_rank": "1d"}, "rank too low or unknown"),
        (GameFilter(SIZE, min_moves=100), {}, "too short"),
        (GameFilter(SIZE), {"setup": ((48,), ()), "moves": (0, 1, 2)}, "handicap or setup stones"),
    ],
)
def test_what_the_filter_refuses_is_counted_by_reason(filter: GameFilter, change: dict, reason: str) -> None:
    games, rejects = parse(filter, [write_sgf(played(2, **change)).encode()])
    assert len(games) == 0 and dict(rejects) == {reason: 1}
    assert len(parse(GameFilter(SIZE, rating=2320, rank=""), [write_sgf(played(2)).encode()])[0]) == 1


def test_no_player_of_a_test_game_is_in_a_training_game() -> None:
    games = data.games_from_records([people(number) for number in range(60)], SIZE)
    rule = SplitRule(validation=0.2, test=0.4, by_player=True)
    parts = data.parts_of(games, [rule])
    train, test = (games.players[parts == part] for part in (TRAIN, TEST))
    held_out = {player for player in test.flat if rule.part_of_player(int(player)) == TEST}
    assert len(train) and held_out and not held_out & set(train.flat)
    assert all(held_out & set(pair) for pair in test.tolist())


def test_rows_for_a_net_that_is_told_who_plays_show_ranks_hide_some_and_draw_rare_ranks_more_often() -> None:
    games = data.games_from_records([people(number) for number in range(60)], SIZE)
    rows = Rows(games, find_encoder("human-34"), seed=1)
    batch = rows.batch(0, 2000)
    sides = batch.planes[:, -PLAYER_PLANES:-1, 0, 0].reshape(2000, 2, -1)
    shown = sides.any(2)
    assert 0.09 < (~shown.any(1)).mean() < 0.16 and 0.09 < (shown[:, 0] & ~shown[:, 1]).mean() < 0.16
    assert not (shown[:, 1] & ~shown[:, 0]).any()
    by_move = games.ranks[np.repeat(np.arange(60), games.lengths), games.plies % 2]
    movers, named = by_move[rows.positions(0, 2000)[0]], shown.all(1)
    assert np.allclose(sides[named, 0] @ KNOTS, movers[named])  # two knots' shares give the rank back
    assert 1.3 * (by_move == 1).mean() < (movers == 1).mean() < 4 * (by_move == 1).mean()
    again = Rows(games, find_encoder("human-34"), seed=1).batch(500, 100)
    assert np.array_equal(again.planes, batch.planes[500:600])


def test_the_arenas_own_games_are_read_as_sgf_is(tmp_path: Path) -> None:
    match = planned(Match, first=player("a"), second=player("b"), games=8, rules=Rules.preset("cgos", SIZE))
    games = games_of(match, earlier_wins(match))
    path = tmp_path / "arena.db"
    with Store.open(path, write=True) as store:
        store_event(store, match, games[:6])
    source, cache = write(tmp_path / "games.sgfs", games[:6]), tmp_path / "cache"
    ours, theirs = (data.load_games([name], SIZE, cache) for name in (path, source))
    assert len(ours) == 6 and np.array_equal(ours.moves, theirs.moves) and np.array_equal(ours.winners, theirs.winners)
    data.load_games([source.rename(tmp_path / "moved.sgfs")], SIZE, cache)
    assert len(list(cache.iterdir())) == 2  # a file that was renamed is not read again
    with Store.open(path, write=True) as store:
        store.append(games[6:])
    assert len(data.load_games([path], SIZE, cache)) == 8  # what was kept in the cache is not all any more


def test_a_split_by_hash_stays_when_games_are_added(records: list[GameRecord]) -> None:
    rule = SplitRule(0, 0.2, 0.3)
    few, more = (data.parts_of(data.games_from_records(some, SIZE), [rule]) for some in (records[:30], records))
    assert set(few) == {TRAIN, VALIDATION, TEST} and np.array_equal(more[:30], few)


def test_what_cannot_be_built_or_read_is_refused_and_leaves_nothing(
    records: list[GameRecord], made: Dataset, tmp_path: Path
) -> None:
    source = write(tmp_path / "games.sgfs", records[:3])

    def stop(*_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(RecordError, match="exists already"):
        build([source], made.folder, GameFilter(SIZE), HALF)
    with pytest.raises(RecordError, match="another size 3"):
        build([source], tmp_path / "none", GameFilter(9), HALF)
    with pytest.raises(KeyboardInterrupt):
        build([source], tmp_path / "none", GameFilter(SIZE), HALF, on_progress=stop)
    assert [path.name for path in tmp_path.iterdir()] == ["games.sgfs"]
    folder = build([source], tmp_path / "set", GameFilter(SIZE), HALF).folder
    games, manifest = folder / "games.npz", folder / "manifest.json"
    content = bytearray(games.read_bytes())
    content[200] ^= 1
    games.write_bytes(content)
    with pytest.raises(RecordError, match=r"games\.npz: can't be read"):
        Dataset.open(folder)
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 9}))
    with pytest.raises(RecordError, match="format"):
        Dataset.open(folder)


def test_dead_stones_are_marked_where_that_gives_the_recorded_result(tmp_path: Path) -> None:
    margins = [0.5, 0.5, 25 - 22 - 6.5, 20.5, None]
    games = [ended("chinese", margin, number) for number, margin in enumerate(margins)]
    source = write(tmp_path / "games.sgfs", games)
    plain, marked = (data.load_games([source], SIZE, tmp_path / "cache", marking) for marking in (False, True))
    assert plain.scored.tolist() == [False, False, True, False, False]
    assert marked.scored.tolist() == [True, True, True, False, False]
    assert (marked.owners[:2] == np.tile([1, 1, 1, 1, -1, -1, -1], SIZE)).all()
    assert np.array_equal(marked.owners[2:], plain.owners[2:]) and np.array_equal(marked.winners, plain.winners)


def test_the_command_builds_shows_and_refuses_pipes_and_devices(records: list[GameRecord], tmp_path: Path) -> None:
    folder = tmp_path / "games"
    folder.mkdir()
    write(folder / "some.sgfs", records)
    os.mkfifo(folder / "pipe.sgf")
    (folder / "zero.sgfs").symlink_to("/dev/zero")
    words = ["data", "build", "games", "--out", "set", "--size", "7", "--test-from", "2018-07-01"]
    first = arena(*words, "--workers", "1", folder=tmp_path, columns=100)
    assert first.returncode == 0, first.stderr
    assert "60 games of 7x7 read" in first.stdout and "train: " in first.stdout and "positions" in first.stdout
    for name in ("pipe.sgf", "zero.sgfs"):
        with pytest.raises(RecordError, match=rf"games/{name}: can't be read \(it is not a regular file\)"):
            build([folder / name], tmp_path / "other", GameFilter(SIZE), HALF)
