"""The results database: what comes back, what happens to it when a process, a disk or a neighbour misbehaves."""

import multiprocessing
import random
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from arena import StoreError
from arena.go.coords import BLACK, WHITE
from arena.go.game import Ending, Outcome, Rules
from arena.go.record import UNKNOWN, GameRecord, MoveStats
from arena.match.standings import RatedGames, counted_games
from arena.players.player import Player
from arena.results.store import Store, StoredEvent

NINE = Rules.preset("cgos", 9)
BLACK_WINS = Outcome(BLACK, Ending.SCORE, 3.0)
WHITE_WINS = Outcome(WHITE, Ending.RESIGN)
FORK = multiprocessing.get_context("forkserver")  # real processes to kill, without an interpreter's start for each
FORK.set_forkserver_preload(["arena.match.ready", "pytest"])  # a process has one server: what all tests ask of it


def finished(number: int, **fields: Any) -> GameRecord:
    """A game of `a` and `b` of event `one`, other than the games of other numbers; not a legal one."""
    moves = tuple(random.Random(number).sample(range(81), 30))
    players = {"black": "a", "white": "b", "black_player": "a-1", "white_player": "b-1"}
    usual = {"id": f"one-{number:05}", "event": "one", "rules": NINE, "moves": moves, "outcome": BLACK_WINS, **players}
    return GameRecord(**(usual | fields))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results" / "arena.db"


@contextmanager
def refused(*words: str) -> Iterator[pytest.ExceptionInfo[StoreError]]:
    """A StoreError of one line, with these words in it."""
    with pytest.raises(StoreError) as error:
        yield error
    text = str(error.value)
    assert "\n" not in text and all(word in text for word in words), text


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Store.open(path, write=True) as opened:
        yield opened


def change(path: Path, statement: str) -> None:
    """Change the file behind the store's back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement)


# --- What goes in comes out ---

FULL = finished(
    1,
    rules=Rules.preset("japanese", 13, komi=0.5, move_limit=100),
    **{"setup": ((3, 5), (7, 11)), "first": WHITE, "outcome": Outcome(WHITE, Ending.CRASH, None), "adjudged": BLACK},
    **{"black_rank": "3d", "white_rank": "5k", "date": "2024-05-06", "seed": 2**64 - 1, "opening": 4},
    **{"reason": "engine ended with exit status 3", "fault_details": "Traceback:\n  größer ● \x00 end"},
    **{"black_seconds": 1.25, "white_seconds": 0.1, "unrated": "undo, hint"},
    facts=(UNKNOWN, MoveStats(0.1234, -12.5, 600, 1.025), MoveStats(1.0, 0.0, 0, 0.0), MoveStats(visits=4_000_000_000))
    + 26 * (UNKNOWN,),
)


def test_a_game_comes_back_as_it_went_in(store: Store) -> None:
    games = [
        FULL,
        finished(2, moves=(), outcome=None),
        finished(3, outcome=Outcome(None, Ending.SCORE, 0.0)),
        finished(4, outcome=Outcome(WHITE, Ending.MOVE_LIMIT, -12.5), moves=tuple(range(81)) * 3),
        finished(5, rules=Rules.preset("chinese", 19), moves=(360, 0, 361, 361)),
        GameRecord(NINE, (1, 2), None, id="bare"),
    ]
    store.append([*games, finished(8, reason="engine wrote \udcff")])
    with Store.open(store.path) as reader:
        *found, last = reader.games()
        assert found == games and last.reason == "engine wrote \\udcff"  # what no encoding holds costs no game
        assert [reader.game(record.id) for record in games] == games
        summaries = [summary for some in reader.game_summaries() for summary in some]
    for number, (summary, record) in enumerate(zip(summaries, games, strict=False), 1):
        assert summary == (number, *(getattr(record, name) for name in summary._fields[1:]))


def test_games_are_found_by_event_and_player(store: Store) -> None:
    swapped = {"black": "b", "white": "a", "black_player": "b-1", "white_player": "a-2"}
    games = [finished(1), finished(2, black="c", black_player="c-1"), finished(3, event="two")]
    games += [finished(4, event="two", **swapped)]
    store.append(games)
    for wanted, expected in (
        ({"event": "one"}, games[:2]),
        ({"player": "a-2"}, [games[3]]),
        ({"event": "two", "player": "a"}, games[2:]),
    ):
        assert list(store.games(**wanted)) == expected and store.count(**wanted) == len(expected)
    assert list(store.games(limit=2)) == games[:2] and list(store.games(limit=0)) == []
    assert list(store.games(limit=3, newest_first=True)) == games[:0:-1]
    assert store.ids("two") == {"one-00003", "one-00004"} and store.ids("none") == set()
    with refused("'x-1'", "arena games"):
        store.game("x-1")
    with Store.open(store.path) as reader:  # reading on is not disturbed by games that arrive meanwhile
        first = next(reading := reader.games())
        store.append([finished(50)])
        assert [first, *reading] == games and reader.count() == 5


# --- What is refused ---


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        ((finished(2), finished(1), finished(3)), "'one-00001' is already in"),
        ((finished(4), finished(4)), "'one-00004'"),
        ((finished(2), finished(5, id="")), "no id"),
        ((finished(2), finished(5, moves=(4, 82))), "outside its board"),
        ((finished(2), finished(5, setup=((-1,), ()))), "outside its board"),
    ],
)
def test_a_game_that_is_there_or_makes_no_sense_refuses_its_whole_batch(
    store: Store, batch: tuple[GameRecord, ...], words: str
) -> None:
    store.append([finished(1)])
    with refused(words):
        store.append(batch)
    assert store.ids("one") == {"one-00001"}
    store.append([finished(2)])
    with Store.open(store.path) as reader, refused("open for reading"):
        reader.append([finished(3)])


# --- Results for the ratings ---


def rated(store: Store) -> list[list[tuple[str, str, float]]]:
    """What the ratings are made of, for each pool: two players and Black's points."""
    found = []
    for pool in store.pools():
        table = RatedGames()
        for games in store.game_summaries(pool=pool):
            table.add(counted_games(games, {}))
        known = table.results({name: name for name in table.players})
        names = ([known.players[at] for at in side] for side in (known.black, known.white))
        found.append(sorted(zip(*names, known.points.tolist(), strict=True)))
    return found


def test_results_are_summed_by_players_and_colours_in_pools_of_the_same_rules_komi_and_handicap(store: Store) -> None:
    assert rated(store) == []
    fields: list[dict[str, Any]] = [
        *({}, {"outcome": WHITE_WINS}, {"outcome": Outcome(None, Ending.SCORE, 0.0)}),
        {"black_player": "b-1", "white_player": "a-1", "event": "two"},
        *[{"rules": Rules.preset("cgos", 9, komi=0.5)}] * 2,
        {"setup": ((40, 44), ())},
        {"outcome": Outcome(WHITE, Ending.TIME), "rules": Rules.preset("cgos", 13)},
        *({"outcome": None}, {"black_player": ""}, {"white_player": ""}, {"black_player": "b-1"}),  # nobody's
        {"rules": Rules(komi=7), "moves": finished(0).moves},  # the first again: its komi of 7.0 is the same
    ]
    store.append([finished(number, **each) for number, each in enumerate(fields)])
    pools = [(pool.size, pool.komi, pool.handicap, pool.games) for pool in store.pools()]
    assert pools == [(9, 7.0, 0, 5), (9, 0.5, 0, 2), (13, 7.5, 0, 1), (9, 7.0, 2, 1)]
    first = [*(("a-1", "b-1", points) for points in (0, 0.5, 1, 1)), ("b-1", "a-1", 1)]
    assert rated(store) == [first, [("a-1", "b-1", 1)] * 2, [("a-1", "b-1", 0)], [("a-1", "b-1", 1)]]
    assert str(store.pools()[3]) == "9x9, cgos rules, komi 7, 2 handicap stones"


# --- Events and players ---


def test_events_and_players_come_back_in_order_players_may_be_renamed_and_events_not_changed(store: Store) -> None:
    events = [StoredEvent("z", "2024-05-06T07:08:09", {"games": 2}), StoredEvent("a", "2024-05-07", {"a": "b"})]
    players = {"x-2": Player("mcts", "uct", settings={"playouts": 5}), "x-1": Player("sl", "policy", net="ab" * 32)}
    assert store.events() == [] and store.players() == {}
    for event in (*events, replace(events[0], created="later")):  # to resume it
        store.add_event(event)
    with refused("'a'", "other settings"):
        store.add_event(StoredEvent("a", "2024-05-07", {"a": "c"}))
    store.add_players(players)
    with Store.open(store.path) as reader:
        assert reader.events() == events and list(reader.players().items()) == list(players.items())
    store.add_players({"x-2": replace(players["x-2"], name="new")})
    assert [player.name for player in store.players().values()] == ["new", "sl"]


# --- Files and disks that misbehave ---


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("", "is not a database"),
        ("CREATE TABLE photos (id INTEGER)", "another program's database"),
        ("PRAGMA user_version = 99", "has schema 99, this one 1: another version of arena wrote it"),
        ("ALTER TABLE events ADD mood TEXT", "has other columns (events.mood): another"),
    ],
)
def test_what_is_not_this_arenas_is_left_alone(path: Path, statement: str, words: str) -> None:
    path.parent.mkdir()
    if statement and "photos" not in statement:
        Store.open(path, write=True).close()
    if statement:
        change(path, statement)
    else:
        path.write_text("my notes on the games\n" * 500)
    before = path.read_bytes()
    for write in (False, True):
        with refused(words):
            Store.open(path, write=write)
        assert path.read_bytes() == before


def test_results_of_an_earlier_version_are_read_and_go_on(path: Path, store: Store) -> None:
    """They have no columns for interruptions, and one that nobody reads."""
    store.append([finished(1)])
    store.close()
    for column in ("continued", "restarted", "black_late", "white_late"):
        change(path, f"ALTER TABLE games DROP COLUMN {column}")
    change(path, "ALTER TABLE games ADD COLUMN canonical BLOB NOT NULL DEFAULT x''")
    before = path.read_bytes()
    with Store.open(path) as reader:
        assert next(reader.games()).continued == next(reader.game_summaries())[0].restarted == 0
    assert path.read_bytes() == before
    with Store.open(path, write=True) as writer:
        writer.append([finished(2, continued=3, restarted=1)])
        assert [(game.continued, game.restarted) for game in writer.games()] == [(0, 0), (3, 1)]


@pytest.mark.parametrize(
    "damage",
    [
        *("ending = 'tea'", "rules = '{}'", "first = 7", "seed = ''"),
        *("setup = '[1'", "setup = '[[1.5],[2]]'", "setup = '[[1]]'", "setup = '[[400],[]]'"),
        *("moves = X'01'", "moves = X'FFFF'"),
        *("stats = X'0102'", "stats = (SELECT stats FROM games WHERE seq = 2)"),  # of a game with more moves
    ],
)
def test_a_damaged_game_is_named(path: Path, store: Store, damage: str) -> None:
    """Commands ended in a TypeError or an IndexError."""
    store.append([finished(1, moves=(5,)), finished(2, moves=(5, 6), facts=(MoveStats(win_rate=0.5), MoveStats()))])
    change(path, f"UPDATE games SET {damage} WHERE seq = 1")
    with refused("game 'one-00001'", "is damaged", "restore the file"):
        store.game("1")


def test_a_byte_that_is_not_utf8_in_the_schema_is_damage(path: Path, store: Store) -> None:
    """Every command ended in a UnicodeDecodeError."""
    store.close()
    path.write_bytes(path.read_bytes().replace(b"fault_details", b"fault_detail\xff"))
    with refused(str(path)):
        Store.open(path)


def test_results_on_a_disk_that_can_not_be_written_are_read(
    path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite has files of its own to write beside them."""
    store.append([finished(1)])
    monkeypatch.setattr("os.access", lambda *_: False)
    place = path.parent / "disk" / "arena.db"
    place.parent.mkdir()
    for end in ("", "-wal"):
        shutil.copy(f"{path}{end}", f"{place}{end}")
    with Store.open(place) as read:
        assert read.count() == 1
    store.close()
    shutil.copy(path, place)
    Path(f"{place}-wal").unlink()
    place.chmod(0o444)
    with Store.open(place) as read:
        assert read.count() == 1
    assert sorted(file.name for file in place.parent.iterdir()) == ["arena.db"]


def test_a_full_disk_loses_no_stored_game_and_the_match_goes_on_later(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored: list[GameRecord] = []
    connect = sqlite3.connect

    def on_a_small_disk(*args: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*args, **options)
        connection.execute("PRAGMA max_page_count = 40")
        return connection

    with monkeypatch.context() as full:
        full.setattr(sqlite3, "connect", on_a_small_disk)
        with Store.open(path, write=True) as store:
            with refused("no room on the disk"):
                for start in range(0, 5000, 20):
                    batch = [finished(number) for number in range(start, start + 20)]
                    store.append(batch)
                    stored += batch
            assert list(store.games()) == stored != []
    with Store.open(path, write=True) as store:
        store.append(batch)
        assert list(store.games()) == [*stored, *batch]


# --- Processes that misbehave ---


def hold(path: Path, orders: Connection, pipe: Connection) -> None:
    with Store.open(path, write=True):
        subprocess.Popen(["cat"], stdin=orders.fileno())  # a worker, which ends with its orders
        pipe.send("open")
        pipe.recv()


def test_a_second_writer_is_refused_or_waits_with_a_line_until_the_first_is_killed_and_readers_read(path: Path) -> None:
    """A worker that outlived its arena once kept the lock."""
    ours, theirs = FORK.Pipe()
    orders, end = FORK.Pipe(duplex=False)
    first = FORK.Process(target=hold, args=(path, orders, theirs))
    first.start()
    held = f"{path} is being written by another arena"
    heard: list[str] = []
    try:
        assert ours.recv() == "open"
        with refused(held):
            Store.open(path, write=True)
        with Store.open(path) as store:
            assert store.count() == 0
        with Store.open(path, write=True, print_line=lambda line: (heard.append(line), first.kill())[1]) as store:
            store.append([finished(1)])
        assert heard == [f"{held}; waiting until it ends."]
    finally:
        first.kill()
        first.join()
        orders.close()
        end.close()


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
    draw, promised = random.Random(5), list[str]()
    for round in range(6):
        ours, theirs = FORK.Pipe(duplex=False)
        writer = FORK.Process(target=append_until_killed, args=(path, round, theirs))
        writer.start()
        theirs.close()
        promised += [ours.recv() for _ in range(draw.randrange(12) if round % 4 else 0)]
        time.sleep(draw.uniform(0, 0.02))
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
    assert len(promised) > 10


@pytest.mark.parametrize("replaced", [False, True])
def test_results_that_go_while_games_are_played_are_missed_at_once(path: Path, replaced: bool) -> None:
    with Store.open(path, write=True) as store:
        store.append([finished(1)])
        folder = path.parent.rename(path.parent.with_name("elsewhere"))
        if replaced:
            path.parent.mkdir()
            path.touch()
        with refused("was moved or deleted while games were played"):
            store.append([finished(2)])
    with Store.open(folder / path.name) as store:
        assert store.game(finished(1).id) == finished(1)
