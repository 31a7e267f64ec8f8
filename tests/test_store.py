"""The results database: what comes back, what happens to it when a process, a disk or a neighbour misbehaves."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import arena
from arena import StoreBusy, StoreError
from arena.contract.code import Player
from arena.go.game import Ending, Outcome, Rules
from arena.go.moves import BLACK, WHITE, symmetry_table
from arena.go.record import Record
from arena.results.store import Event, ResultRow, Store
from arena.results.stored import read_report

NINE = Rules.preset("cgos", 9)
BLACK_WINS = Outcome(BLACK, Ending.SCORE, 3.0)
WHITE_WINS = Outcome(WHITE, Ending.RESIGN)
FORK = multiprocessing.get_context("forkserver")  # real processes to kill, without an interpreter's start for each
FORK.set_forkserver_preload(["arena.events.ready", "pytest"])  # a process has one server: what all tests ask of it


def finished(number: int, **fields: Any) -> Record:
    """A game of `a` and `b` of event `one`, other than the games of other numbers; not a legal one."""
    moves = tuple(random.Random(number).sample(range(81), 30))
    usual: dict[str, Any] = {
        "id": f"one-{number:05}",
        "event": "one",
        "black": "a",
        "white": "b",
        "black_player": "a-1",
        "white_player": "b-1",
    }
    usual |= {"rules": NINE, "moves": moves, "outcome": BLACK_WINS}
    return Record(**(usual | fields))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results" / "arena.db"


def one_line(error: pytest.ExceptionInfo[StoreError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


def change(path: Path, *statements: str) -> None:
    """Change the file behind the store's back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


# --- What goes in comes out ---

FULL = finished(
    1,
    rules=Rules.preset("japanese", 13, komi=0.5, move_limit=100),
    setup=((3, 5), (7, 11)),
    first=WHITE,
    outcome=Outcome(WHITE, Ending.CRASH, None),
    black_rank="3d",
    white_rank="5k",
    date="2024-05-06",
    seed=2**64 - 1,
    opening=4,
    reason="engine ended with exit status 3",
    dossier="Traceback:\n  line 1\n  größer ● \x00 end",
    black_seconds=1.25,
    white_seconds=0.1,
    unrated="undo, hint",
)


@pytest.mark.parametrize(
    "record",
    [
        FULL,
        finished(2, moves=()),
        finished(3, outcome=None),
        finished(4, outcome=Outcome(None, Ending.SCORE, 0.0)),
        finished(5, outcome=Outcome(WHITE, Ending.MOVE_LIMIT, -12.5), moves=tuple(range(81)) * 3),
        finished(6, rules=Rules.preset("chinese", 19), moves=(360, 0, 361, 361)),
        Record(NINE, (1, 2), None, id="bare"),
    ],
)
def test_a_game_comes_back_as_it_went_in(path: Path, record: Record) -> None:
    with Store.open(path, write=True) as store:
        store.append([record])
    with Store.open(path) as store:
        assert list(store.games()) == [record]
        assert store.game(record.id) == record


def test_text_that_no_encoding_holds_does_not_cost_the_game(path: Path) -> None:
    with Store.open(path, write=True) as store:
        store.append([finished(1, reason="engine wrote \udcff")])
        assert store.game("one-00001").reason == "engine wrote \\udcff"


def test_games_are_found_by_event_player_and_size(path: Path) -> None:
    games = [
        finished(1),
        finished(2, black="c", black_player="c-1"),
        finished(3, event="two", rules=Rules.preset("cgos", 13)),
        finished(4, event="two", black="b", white="a", black_player="b-1", white_player="a-2"),
    ]
    with Store.open(path, write=True) as store:
        store.append(games)
    with Store.open(path) as store:
        cases: list[tuple[dict[str, Any], list[Record]]] = [
            ({}, games),
            ({"event": "one"}, games[:2]),
            ({"event": "none"}, []),
            ({"player": "a"}, [games[0], games[2], games[3]]),
            ({"player": "a-2"}, [games[3]]),
            ({"size": 13}, [games[2]]),
            ({"event": "two", "player": "a", "size": 9}, [games[3]]),
        ]
        for given, expected in cases:
            assert list(store.games(**given)) == expected
            assert store.count(**given) == len(expected)
        assert list(store.games(limit=2)) == games[:2]
        assert list(store.games(limit=0)) == []
        assert list(store.games(limit=3, newest_first=True)) == games[:0:-1]
        assert store.ids("two") == {"one-00003", "one-00004"}
        assert store.ids("none") == set()


def test_asking_for_a_game_that_is_not_there_names_its_id(path: Path) -> None:
    with Store.open(path, write=True) as store, pytest.raises(StoreError) as error:
        store.game("x-1")
    assert "'x-1'" in one_line(error) and "arena games" in one_line(error)


def test_a_watcher_sees_each_game_once_while_the_match_runs(path: Path) -> None:
    with Store.open(path, write=True) as writer, Store.open(path) as watcher:
        seen, last = [], 0
        for batch in ([finished(1), finished(2)], [], [finished(3, event="two")], [finished(4)]):
            writer.append(batch)
            for seq, record in watcher.games_after(last):
                seen.append(record.id)
                last = seq
        assert seen == ["one-00001", "one-00002", "one-00003", "one-00004"]
        assert [record.id for _, record in watcher.games_after(0, event="two")] == ["one-00003"]


def test_reading_on_is_not_disturbed_by_games_that_arrive_meanwhile(path: Path) -> None:
    with Store.open(path, write=True) as writer, Store.open(path) as reader:
        writer.append([finished(number) for number in range(50)])
        reading = reader.games()
        first = next(reading)
        writer.append([finished(50)])
        assert [first, *reading] == [finished(number) for number in range(50)]
        assert reader.count() == 51


# --- What is refused ---


def test_a_game_that_is_already_there_refuses_its_whole_batch(path: Path) -> None:
    with Store.open(path, write=True) as store:
        store.append([finished(1)])
        with pytest.raises(StoreError) as error:
            store.append([finished(2), finished(1), finished(3)])
        assert "'one-00001' is already in" in one_line(error)
        with pytest.raises(StoreError):
            store.append([finished(4), finished(4)])
        assert store.ids("one") == {"one-00001"}
        store.append([finished(2)])
        assert store.count() == 2


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (finished(1, id=""), "no id"),
        (finished(1, moves=(4, 82)), "outside its board"),
        (finished(1, moves=(-1,)), "outside its board"),
        (finished(1, setup=((82,), ())), "outside its board"),
    ],
)
def test_a_game_that_makes_no_sense_is_refused(path: Path, record: Record, words: str) -> None:
    with Store.open(path, write=True) as store:
        with pytest.raises(StoreError, match=words):
            store.append([finished(2), record])
        assert store.count() == 0


def test_storing_into_results_that_are_open_for_reading_is_refused(path: Path) -> None:
    Store.open(path, write=True).close()
    with Store.open(path) as store, pytest.raises(StoreError, match="open for reading"):
        store.append([finished(1)])


# --- Results for the ratings ---


def turned(record: Record, symmetry: int, **fields: Any) -> Record:
    table = symmetry_table(record.rules.size)[symmetry]
    setup = tuple(tuple(int(table[point]) for point in reversed(points)) for points in record.setup)
    return finished(0, rules=record.rules, moves=tuple(map(int, table[list(record.moves)])), setup=setup, **fields)


def test_results_are_summed_by_players_and_colours(path: Path) -> None:
    with Store.open(path, write=True) as store:
        assert store.result_rows() == []
        store.append(
            [
                finished(1),
                finished(2, outcome=WHITE_WINS),
                finished(3, outcome=Outcome(None, Ending.SCORE, 0.0)),
                finished(4, black_player="b-1", white_player="a-1", event="two"),
                finished(5, outcome=Outcome(WHITE, Ending.TIME), rules=Rules.preset("cgos", 13)),
            ]
        )
    with Store.open(path) as store:
        assert store.result_rows() == [ResultRow("a-1", "b-1", 1.5, 4), ResultRow("b-1", "a-1", 1, 1)]
        assert store.result_rows(event="two") == [ResultRow("b-1", "a-1", 1, 1)]
        nine, thirteen = store.pools()
        assert (nine.size, nine.komi, nine.games, thirteen.size, thirteen.games) == (9, 7.0, 4, 13, 1)
        assert store.result_rows(thirteen) == [ResultRow("a-1", "b-1", 0, 1)]


def test_games_of_other_rules_komi_or_handicap_are_rated_by_themselves(path: Path) -> None:
    with Store.open(path, write=True) as store:
        store.append(
            [
                *(finished(number) for number in range(3)),
                *(finished(number, rules=Rules.preset("cgos", 9, komi=0.5)) for number in range(3, 5)),
                finished(5, setup=((40, 44), ())),
            ]
        )
        pools = store.pools()
        assert [(pool.komi, pool.handicap, pool.games) for pool in pools] == [(7.0, 0, 3), (0.5, 0, 2), (7.0, 2, 1)]
        assert [sum(row.games for row in store.result_rows(pool)) for pool in pools] == [3, 2, 1]
        assert str(pools[2]) == "9x9, cgos rules, komi 7, 2 handicap stones"


def test_games_of_a_match_that_wait_for_earlier_ones_rate_nobody(path: Path) -> None:
    """The short games of a match are over first: as long as earlier ones are played, they say who wins quickly."""
    with Store.open(path, write=True) as store:
        store.add_event(Event("match-1", "2026-11-22", "{}", '{"games": 9}'))
        for numbers, counted in (((1, 3, 4, 5), 0), ((2,), 4), ((6, 8), 6), ((7,), 8), ((9,), 9)):
            store.append([finished(number, id=f"match-1/{number:05d}", event="match-1") for number in numbers])
            assert sum(row.games for row in store.result_rows()) == counted


@st.composite
def stored(draw: st.DrawFn) -> list[Record]:
    """Games of two matches, a tournament and a person, in any order and some of them missing."""
    records = []
    for number in range(draw(st.integers(0, 25))):
        event = draw(st.sampled_from(["m-1", "m-2", "league", "play"]))
        digest = "" if event.startswith("m") else "/0a1b2c3d"
        change = {
            "id": f"{event}{digest}/{draw(st.integers(1, 12)):05}",
            "event": event,
            "moves": draw(st.sampled_from([(1, 2), (1, 2, 3), (number, 80)])),
            "outcome": draw(st.sampled_from([None, BLACK_WINS, WHITE_WINS, Outcome.scored(0.0)])),
            "unrated": draw(st.sampled_from(["", "", "", "undo"])),
            "white_player": draw(st.sampled_from(["b-1", "b-1", "c-1", "a-1", ""])),
            "rules": draw(st.sampled_from([NINE, NINE, Rules.preset("cgos", 13)])) if digest else NINE,
        }
        if change["id"] not in {record.id for record in records}:
            records.append(finished(number, **change))
    return records


PLANS = {"m-1": 12, "m-2": 3}


def rated_slowly(records: list[Record], rules: Rules | None, event: str | None) -> list[ResultRow]:
    found: dict[tuple[str, str], set[tuple[bytes, float]]] = {}
    for record in records:
        if record.event in PLANS:
            numbers = {int(other.id[-5:]) for other in records if other.event == record.event}
            reach = next(number for number in count() if number + 1 not in numbers)
            if int(record.id[-5:]) > reach - (reach % 2 and reach != PLANS[record.event]):
                continue
        counts = record.outcome is not None and not record.unrated and record.white_player not in ("", "a-1")
        if counts and rules in (None, record.rules) and event in (None, record.event):
            game = record.canonical, record.outcome.black_score
            found.setdefault((record.black_player, record.white_player), set()).add(game)
    return [ResultRow(*who, sum(score for _, score in games), len(games)) for who, games in sorted(found.items())]


@settings(max_examples=60, deadline=None)
@given(stored(), st.data())
def test_results_are_those_of_a_slow_twin(records: list[Record], data: st.DataObject) -> None:
    """Games come in batches; some are deleted afterwards, and then it's as if they had never been there."""
    with TemporaryDirectory() as folder, Store.open(Path(folder) / "arena.db", write=True) as store:
        for event, games in PLANS.items():
            store.add_event(Event(event, "2026-01-01", "{}", f'{{"games": {games}}}'))
        for record in records:
            store.append([record])
        gone = data.draw(st.sets(st.sampled_from(records), max_size=3)) if records else set()
        change(store.path, *(f"DELETE FROM games WHERE id = '{record.id}'" for record in gone))
        left = [record for record in records if record not in gone]
        assert store.result_rows() == rated_slowly(left, None, None)
        for pool in store.pools():
            rules = next(record.rules for record in left if record.rules.to_json() == pool.rules)
            assert store.result_rows(pool) == rated_slowly(left, rules, None)
        for event in PLANS:
            assert store.result_rows(event=event) == rated_slowly(left, None, event)


@pytest.mark.parametrize("setup", [((), ()), ((3, 20), (5,))])
def test_games_identical_but_for_a_symmetry_count_once(path: Path, setup: Any) -> None:
    game = finished(99, setup=setup)
    with Store.open(path, write=True) as store:
        store.append([turned(game, symmetry, id=f"t-{symmetry}") for symmetry in range(8)])
        assert store.result_rows() == [ResultRow("a-1", "b-1", 1, 1)]


@pytest.mark.parametrize(
    "difference",
    [
        {"moves": finished(99).moves[:-1]},
        {"outcome": WHITE_WINS},
        {"setup": ((80,), ())},
        {"first": WHITE},
        {"rules": Rules.preset("cgos", 9, komi=5.5)},
        {"rules": Rules.preset("cgos", 13)},
    ],
)
def test_games_that_differ_count_both(path: Path, difference: dict[str, Any]) -> None:
    with Store.open(path, write=True) as store:
        store.append([finished(99), finished(99, **({"id": "other"} | difference))])
        assert store.result_rows()[0].games == 2


def test_rules_that_are_equal_make_identical_games(path: Path) -> None:
    """A komi of 7 and one of 7.0 are the same rules, whichever comes first."""
    whole = Rules(komi=int(NINE.komi))
    with Store.open(path, write=True) as store:
        store.append([finished(1, rules=whole), finished(1, id="other")])
        assert store.result_rows() == [ResultRow("a-1", "b-1", 1, 1)]


def test_games_that_rate_nobody_are_left_out(path: Path) -> None:
    with Store.open(path, write=True) as store:
        store.append(
            [
                finished(1, outcome=None),
                finished(2, black_player=""),
                finished(3, white_player=""),
                finished(4, black_player="b-1"),
            ]
        )
        assert store.result_rows() == []


def test_ratings_are_read_without_the_compiler(path: Path) -> None:
    with Store.open(path, write=True) as store:
        store.append([finished(1)])
    code = f"""
import sys
from arena.results.store import Store
with Store.open({str(path)!r}) as store:
    assert store.result_rows() and not store.players() and not store.events() and store.count() and store.ids("one")
loaded = {{"numba", "numpy", "sgfmill"}} & set(sys.modules)
assert not loaded, loaded
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(arena.__file__).parent.parent)


# --- Events and players ---


def test_events_and_players_come_back_in_order(path: Path) -> None:
    events = [Event("z", "2024-05-06T07:08:09", '{"games": 2}'), Event("a", "2024-05-07", '{"a": "b"}')]
    players = [Player("x-2", "mcts", "uct", '{"playouts": 5}'), Player("x-1", "sl", "policy", "{}", "ab" * 32)]
    with Store.open(path, write=True) as store:
        assert store.events() == [] and store.players() == {}
        for event in events:
            store.add_event(event)
        store.add_players(players)
    with Store.open(path) as store:
        assert store.events() == events
        assert list(store.players().values()) == players
        assert store.players()["x-1"] == players[1]


def test_an_event_can_be_resumed_but_not_changed(path: Path) -> None:
    with Store.open(path, write=True) as store:
        store.add_event(Event("match", "monday", '{"a": 1}'))
        store.add_event(Event("match", "tuesday", '{"a": 1}'))
        with pytest.raises(StoreError) as error:
            store.add_event(Event("match", "tuesday", '{"a": 2}'))
        assert "'match'" in one_line(error) and "other settings" in one_line(error)
        assert store.events() == [Event("match", "monday", '{"a": 1}')]


def test_a_renamed_player_keeps_its_identity(path: Path) -> None:
    with Store.open(path, write=True) as store:
        store.add_players([Player("x-1", "old", "uct", "{}"), Player("x-2", "other", "uct", '{"playouts":5}')])
        store.add_players([Player("x-1", "new", "uct", "{}")])
        assert [player.name for player in store.players().values()] == ["new", "other"]


# --- Files and disks that misbehave ---


@pytest.mark.parametrize("name", ["arena.db", "a?b#c %41 ü.db"])
def test_the_file_and_its_folder_are_made(tmp_path: Path, name: str) -> None:
    with Store.open(tmp_path / "some" / "folder" / name, write=True) as store:
        store.append([finished(1)])
    assert (tmp_path / "some" / "folder" / name).exists()
    assert Store.open(tmp_path / "some" / "folder" / name).count() == 1


def test_reading_results_that_are_not_there_makes_no_file(path: Path) -> None:
    with pytest.raises(StoreError) as error:
        Store.open(path)
    assert str(path) in one_line(error) and "arena match" in one_line(error)
    assert not path.parent.exists()


def test_reading_a_file_that_was_only_just_begun_says_so(path: Path) -> None:
    path.parent.mkdir()
    path.touch()
    with pytest.raises(StoreError, match="arena match"):
        Store.open(path)
    with Store.open(path, write=True) as store:
        assert store.count() == 0


@pytest.mark.parametrize("write", [False, True])
def test_a_text_file_in_its_place_is_left_alone(path: Path, write: bool) -> None:
    path.parent.mkdir()
    path.write_text("my notes on the games\n" * 500)
    with pytest.raises(StoreError) as error:
        Store.open(path, write=write)
    assert f"{path} is no database" in one_line(error)
    assert path.read_text() == "my notes on the games\n" * 500


@pytest.mark.parametrize("write", [False, True])
def test_another_programs_database_is_left_alone(path: Path, write: bool) -> None:
    path.parent.mkdir()
    change(path, "CREATE TABLE photos (id INTEGER)")
    before = path.read_bytes()
    with pytest.raises(StoreError) as error:
        Store.open(path, write=write)
    assert "another program's database" in one_line(error)
    assert path.read_bytes() == before


def test_an_older_schema_is_read_as_it_is_and_brought_up_to_date_to_be_written(path: Path) -> None:
    old, new = finished(1), finished(2, adjudged=BLACK)
    with Store.open(path, write=True) as store:
        store.append([old])
        store.add_event(Event("e", "2026-01-01", "{}"))
    change(path, "DROP INDEX games_of_players", "ALTER TABLE games DROP COLUMN unrated")
    change(path, "CREATE INDEX games_of_players ON games (black_player, white_player, canonical, black_score, size)")
    change(path, "ALTER TABLE games DROP COLUMN adjudged")
    change(path, "ALTER TABLE games DROP COLUMN checksum")
    change(path, "ALTER TABLE games DROP COLUMN arena", "ALTER TABLE players DROP COLUMN code")
    change(path, "ALTER TABLE events DROP COLUMN plan")
    change(path, "PRAGMA user_version = 1")
    before = path.read_bytes()
    with Store.open(path) as store:
        assert store.game(old.id) == old
        assert store.event("e") == Event("e", "2026-01-01", "{}", plan="")
        assert sum(row.games for row in store.result_rows()) == 1
    assert path.read_bytes() == before
    with Store.open(path, write=True) as store:
        store.append([new, finished(3, unrated="undo")])
        store.add_event(Event("e", "2026-01-01", "{}", plan="two games"))
        assert sum(row.games for row in store.result_rows()) == 2
        assert store.game(old.id) == old
        assert store.game(new.id) == new
        assert store.event("e").plan == "two games"


@pytest.mark.parametrize("write", [False, True])
def test_a_newer_schema_is_refused(path: Path, write: bool) -> None:
    Store.open(path, write=True).close()
    change(path, "PRAGMA user_version = 99")
    with pytest.raises(StoreError) as error:
        Store.open(path, write=write)
    assert str(path) in one_line(error) and "newer arena (schema 99" in one_line(error)


def test_an_old_sqlite_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 36, 0))
    with pytest.raises(StoreError, match=r"needs 3\.37\.0 or newer"):
        Store.open(path, write=True)


@pytest.mark.parametrize("write", [False, True])
def test_a_folder_in_its_place_is_refused(path: Path, write: bool) -> None:
    path.mkdir(parents=True)
    with pytest.raises(StoreError, match="is a folder"):
        Store.open(path, write=write)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file")
    with pytest.raises(StoreError) as error:
        Store.open(tmp_path / "results" / "arena.db", write=True)
    assert "can't be written" in one_line(error)


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes anywhere")
def test_a_read_only_folder_is_refused(path: Path) -> None:
    path.parent.mkdir(mode=0o500)
    with pytest.raises(StoreError) as error:
        Store.open(path, write=True)
    assert "can't be written" in one_line(error)


def test_a_damaged_file_is_told_in_one_line(path: Path) -> None:
    with Store.open(path, write=True) as store:
        store.append([finished(number) for number in range(200)])
    whole = path.read_bytes()
    noise = random.Random(1).randbytes(len(whole) - 4096)
    for damaged in (whole[:4096] + noise, whole[: len(whole) // 2], whole[:100] + noise[:3996] + whole[4096:]):
        path.write_bytes(damaged)
        for write in (False, True):
            with pytest.raises(StoreError) as error, Store.open(path, write=write) as store:
                list(store.games())
            assert str(path) in one_line(error)
            with pytest.raises(StoreError), Store.open(path, write=write) as store:
                store.result_rows()


@pytest.mark.parametrize(
    "damage",
    ["ending = 'tea'", "moves = X'01'", "rules = '{'", "rules = '{}'", "first = 7", "setup = '[1'", "seed = ''"],
)
def test_a_damaged_game_is_named(path: Path, damage: str) -> None:
    with Store.open(path, write=True) as store:
        store.append([finished(1)])
    change(path, f"UPDATE games SET {damage}")
    with Store.open(path) as store, pytest.raises(StoreError) as error:
        list(store.games())
    assert "game 'one-00001'" in one_line(error) and "damaged" in one_line(error)


def connecting_with(monkeypatch: pytest.MonkeyPatch, pragma: str) -> None:
    connect = sqlite3.connect

    def with_pragma(*args: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*args, **options)
        connection.execute(pragma)
        return connection

    monkeypatch.setattr(sqlite3, "connect", with_pragma)


def test_a_full_disk_loses_no_stored_game_and_the_match_goes_on_later(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored: list[Record] = []
    with monkeypatch.context() as full:
        connecting_with(full, "PRAGMA max_page_count = 40")
        with Store.open(path, write=True) as store:
            with pytest.raises(StoreError) as error:
                for start in range(0, 5000, 20):
                    batch = [finished(number) for number in range(start, start + 20)]
                    store.append(batch)
                    stored += batch
            assert "no room on the disk" in one_line(error) and stored
            assert list(store.games()) == stored
    with Store.open(path, write=True) as store:
        assert list(store.games()) == stored
        store.append(batch)
        assert store.count() == len(stored) + 20


def test_a_disk_too_full_to_begin_leaves_nothing_half_made(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as full:
        connecting_with(full, "PRAGMA max_page_count = 3")
        with pytest.raises(StoreError, match="no room on the disk"):
            Store.open(path, write=True)
    with Store.open(path, write=True) as store:
        store.append([finished(1)])


def test_a_program_that_holds_the_file_is_told(path: Path) -> None:
    with Store.open(path, write=True) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy) as error:
            store.append([finished(1)], patience=0.01)
        assert "another program holds" in one_line(error)
        other.execute("ROLLBACK")
        store.append([finished(1)])


def test_a_closed_store_says_so(path: Path) -> None:
    store = Store.open(path, write=True)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.count()


# --- Processes that misbehave ---


def hold(path: Path, pipe: Connection) -> None:
    with Store.open(path, write=True):
        pipe.send("open")
        pipe.recv()


def test_a_second_writer_is_refused_at_once_and_readers_are_not(path: Path) -> None:
    ours, theirs = FORK.Pipe()
    first = FORK.Process(target=hold, args=(path, theirs))
    first.start()
    try:
        assert ours.recv() == "open"
        began = time.perf_counter()
        with pytest.raises(StoreError) as error:
            Store.open(path, write=True)
        assert time.perf_counter() - began < 1
        assert f"{path} is being written by another arena (process {first.pid})" in one_line(error)
        with Store.open(path) as store:
            assert store.count() == 0
    finally:
        first.kill()
        first.join()
    with Store.open(path, write=True) as store:
        store.append([finished(1)])


def work_for_a_while(path: Path, orders: Connection, pipe: Connection) -> None:
    with Store.open(path, write=True):
        subprocess.Popen(["cat"], stdin=orders.fileno())
        pipe.send("open")
        pipe.recv()


def test_a_worker_that_outlives_its_arena_does_not_keep_the_lock(path: Path) -> None:
    ours, theirs = FORK.Pipe()
    orders, end = FORK.Pipe(duplex=False)
    arena_process = FORK.Process(target=work_for_a_while, args=(path, orders, theirs))
    arena_process.start()
    try:
        assert ours.recv() == "open"
        arena_process.kill()
        arena_process.join()
        Store.open(path, write=True).close()
    finally:
        arena_process.kill()
        orders.close()
        end.close()  # the worker ends with its orders


def test_a_writer_that_closes_makes_way_for_the_next(path: Path) -> None:
    for number in range(3):
        with Store.open(path, write=True) as store:
            store.append([finished(number)])
            with pytest.raises(StoreError, match=f"process {os.getpid()}"):
                Store.open(path, write=True)
    with Store.open(path) as store:
        assert store.count() == 3


def test_an_opening_that_fails_gives_the_lock_back(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("not a database" * 100)
    with pytest.raises(StoreError):
        Store.open(path, write=True)
    path.unlink()
    Store.open(path, write=True).close()


BATCH = 5


def append_until_killed(path: Path, round: int, pipe: Connection) -> None:
    with Store.open(path, write=True) as store:
        for batch in range(1_000_000):
            name = f"{round}-{batch}"
            store.append([finished(number, id=f"{name}-{number}", event=name) for number in range(BATCH)])
            pipe.send(name)


def acknowledged(pipe: Connection) -> list[str]:
    """What was sent until the other end vanished."""
    names = []
    try:
        while True:
            names.append(pipe.recv())
    except (EOFError, OSError):
        return names


def test_kill_9_while_appending_loses_no_acknowledged_game_and_keeps_no_half_batch(path: Path) -> None:
    draw = random.Random(5)
    promised: list[str] = []
    for round in range(20):
        ours, theirs = FORK.Pipe(duplex=False)
        writer = FORK.Process(target=append_until_killed, args=(path, round, theirs))
        writer.start()
        theirs.close()
        promised += [ours.recv() for _ in range(draw.randrange(12) if round % 4 else 0)]
        moment = time.perf_counter() + draw.uniform(0, 0.02)
        while time.perf_counter() < moment:
            pass
        writer.kill()
        promised += acknowledged(ours)
        writer.join()
        assert writer.exitcode == -signal.SIGKILL

        with Store.open(path, write=round % 2 == 0) as store:  # the lock is free at once; a reader finds the same
            ids = [record.id for record in store.games()]
        assert len(ids) == len(set(ids))
        batches = {id.rpartition("-")[0] for id in ids}
        assert set(promised) <= batches
        assert set(ids) == {f"{batch}-{number}" for batch in batches for number in range(BATCH)}
        assert len(batches) <= len(promised) + round + 1  # of each round one batch at most was stored but not told
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert len(promised) > 20


@pytest.mark.parametrize("change_", ["moves = x'01000200'", "winner = 2, black_score = 0", "black_player = 'other'"])
def test_a_game_that_was_changed_is_found_before_it_is_rated(path: Path, change_: str) -> None:
    with Store.open(path, write=True) as store:
        store.append([finished(1), finished(2)])
    change(path, f"UPDATE games SET {change_} WHERE seq = 2")
    with Store.open(path) as store:
        words = f"1 game was changed after being stored: {finished(2).id}"
        assert store.damage() == words
        assert store.game(finished(1).id) == finished(1)
        for read in (store.result_rows, lambda: list(store.scores()), lambda: store.game(finished(2).id)):
            with pytest.raises(StoreError, match="changed after being stored"):
                read()


@pytest.mark.parametrize("fate", ["renamed", "deleted", "replaced"])
def test_results_that_go_while_games_are_played_are_missed_at_once(path: Path, fate: str) -> None:
    with Store.open(path, write=True) as store:
        store.append([finished(1)])
        folder = path.parent.rename(path.parent.with_name("elsewhere"))
        if fate == "deleted":
            shutil.rmtree(folder)
        elif fate == "replaced":
            path.parent.mkdir()
            path.touch()
        for act in (store.check_place, lambda: store.append([finished(2)])):
            with pytest.raises(StoreError, match="was moved or deleted while games were played") as error:
                act()
            assert "\n" not in str(error.value)
    if fate != "deleted":
        with Store.open(folder / path.name) as store:
            assert store.game(finished(1).id) == finished(1)


@pytest.mark.skipif(os.geteuid() == 0, reason="who may write everywhere has no read-only folders")
def test_results_where_nothing_can_be_written_are_read(path: Path) -> None:
    with Store.open(path, write=True) as store:
        store.append([finished(1)])
    path.parent.chmod(0o555)
    try:
        with Store.open(path) as store:
            assert store.game(finished(1).id) == finished(1)
        path.parent.chmod(0o755)
        Path(f"{path}-wal").write_bytes(b"x")
        path.parent.chmod(0o555)
        with pytest.raises(StoreError, match="copy the folder"):
            Store.open(path)
    finally:
        path.parent.chmod(0o755)


def test_scores_are_the_games_without_their_moves(path: Path) -> None:
    records = [finished(1), finished(2, adjudged=BLACK), finished(3, outcome=None), finished(4, unrated="undo")]
    with Store.open(path, write=True) as store:
        store.append(records)
        scores = list(store.scores())
    assert [score.seq for score in scores] == [1, 2, 3, 4]
    for score, record in zip(scores, records, strict=True):
        for name in score._fields[1:]:
            assert getattr(score, name) == getattr(record, name), name


@pytest.mark.parametrize(
    ("change_", "words"),
    [
        ("UPDATE events SET settings = '[1'", "event 'e' in {path} is damaged (its settings aren't JSON)"),
        ('UPDATE events SET settings = \'{"names": 3, "players": []}\'', "event 'e' in {path} is damaged (TypeError"),
        ("UPDATE players SET config = 'x'", "player 'a' in {path} is damaged (its settings aren't JSON)"),
        ("UPDATE games SET checksum = NULL, id = 'e/x'", "event 'e' in {path} is damaged (ValueError"),
        ("UPDATE games SET checksum = NULL, ending = 'x'", "game 'e/00001' in {path} is damaged ('x' is not a valid"),
    ],
)
def test_rows_that_no_arena_wrote_are_one_line(path: Path, change_: str, words: str) -> None:
    settings = f'{{"names": ["a", "b"], "players": ["1", "2"], "rules": {Rules().to_json()}}}'
    with Store.open(path, write=True) as store:
        store.add_players([Player("1", "a", "uct", "{}"), Player("2", "b", "uct", "{}")])
        store.add_event(Event("e", "2026-01-01", settings))
        store.append([finished(1, id="e/00001", event="e", black="a", white="b")])
    change(path, change_)
    with Store.open(path) as store, pytest.raises(StoreError) as error:
        read_report(store)
    assert words.format(path=path) in str(error.value)
    assert "\n" not in str(error.value)
