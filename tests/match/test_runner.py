"""Events with real worker processes and a real database: what is played, what is kept, and what dies with what."""

import multiprocessing
import os
import select
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from multiprocessing import resource_tracker
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from commandline import environment
from planned import planned
from played import essence, fresh
from scripted_bots import scripted

from arena import UserError
from arena.contract.bot import Limits
from arena.go.game import Ending, Rules
from arena.go.record import GameRecord
from arena.match.game_loop import GameLoop, lost_record
from arena.match.runner import Control, GamesNotStored, Update, play_event
from arena.match.schedule import Match, Pairing, Terms, Tournament
from arena.players.player import Player
from arena.players.registry import Registry
from arena.results.store import Store

SEVEN = Rules.preset("cgos", 7)
FIVE = Rules.preset("cgos", 5)
SHORT = Rules.preset("cgos", 5, move_limit=24)


def match(first: Player, second: Player, games: int = 8, deadline: float = 60.0, **settings: Any) -> Match:
    one, other = (replace(entry, limits=Limits(deadline=deadline)) for entry in (first, second))
    return planned(Match, **({"first": one, "second": other, "rules": SEVEN, "games": games} | settings))


def seeds(games: int) -> list[int]:
    """The seeds of a match's games, which don't depend on who plays."""
    return [pairing.seed for pairing in match(scripted("GOOD"), scripted("GOOD"), games).pairings()]


Played = dict[str, tuple[Any, ...]]


def play_alone(played: Match) -> list[GameRecord]:
    """A match in this process, without a scheduler."""
    players = played.players
    bots = {name: entry.build() for name, entry in players.items()}
    loop = GameLoop(bots, played.terms.rules, dict.fromkeys(bots, Limits(deadline=600.0)), played.terms.adjudication)
    records = []
    for pairing in played.pairings():
        loop.start_game(pairing)
    while loop.live_games:
        records += loop.play_round()
    return [
        replace(record, black_player=players[record.black].identity, white_player=players[record.white].identity)
        for record in records
    ]


def undisturbed(played: Match) -> Played:
    return essence(play_alone(played))


def stored(store: Store, played: Match) -> Played:
    return essence(store.games(event=played.event))


def numbered(updates: Iterator[Update]) -> dict[int, GameRecord]:
    """The games that were played now by their places in the match, from 0."""
    return {int(record.id[-5:]) - 1: record for record in fresh(updates)}


def begun(updates: Iterator[Update]) -> list[GameRecord]:
    """The first games that are over."""
    while not (records := [*next(updates).records]):
        pass
    return records


class Lifeline:
    """A named pipe that players hold open: it tells which processes there are, and when they are all gone."""

    def __init__(self, path: Path):
        os.mkfifo(path)
        self.path = str(path)
        self.written = b""  # that ``processes`` did not tell
        self._end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def processes(self, count: int, seconds: float = 60.0) -> list[int]:
        """The first ``count`` process numbers that are written."""
        text = b""
        end = monotonic() + seconds
        while text.count(b"\n") < count:
            assert self._poll(end - monotonic()) & select.POLLIN, "no player was built in time"
            text += os.read(self._end, 100)
        return [int(line) for line in text.split()]

    def falls_silent(self, seconds: float) -> bool:
        """Whether every process that holds the pipe ends in this time."""
        end = monotonic() + seconds
        while self._poll(end - monotonic()) & select.POLLIN:
            self.written += os.read(self._end, 100)
        return bool(self._poll(0) & select.POLLHUP)

    def _poll(self, seconds: float) -> int:
        poll = select.poll()
        poll.register(self._end, select.POLLIN)
        return next((event for _, event in poll.poll(max(0.0, seconds) * 1000)), 0)

    def close(self) -> None:
        os.close(self._end)


@pytest.fixture
def lifeline(tmp_path: Path) -> Iterator[Lifeline]:
    opened = Lifeline(tmp_path / "lifeline")
    yield opened
    opened.close()


# --- Playing, resuming, extending ---


@pytest.mark.parametrize(
    ("first", "second"), [("random", "uct:playouts=9,max_tree_mb=1"), ("sl", "alphago:visits=4,max_tree_mb=1")]
)
def test_the_number_of_workers_does_not_change_a_single_game(store: Store, first: str, second: str) -> None:
    registry = Registry()
    played = match(registry.resolve(first), registry.resolve(second), games=6)
    games = fresh(play_event(played, store, 2))
    assert essence(games) == stored(store, played) == undisturbed(played)


def test_only_what_is_missing_is_played_and_a_longer_match_adds_games(store: Store) -> None:
    first, second = scripted("GOOD", "a"), scripted("MANY", "b")
    short, long = match(first, second, games=6), match(first, second, games=11)
    store.append([record for record in play_alone(long) if int(record.id[-5:]) in (1, 3, 5)])
    assert len(fresh(play_event(short, store, 1))) == 3
    updates = list(play_event(long, store, 1))
    assert updates[0].resumed
    assert {record.id for record in updates[0].records} == {pairing.id for pairing in short.pairings()}
    assert len(fresh(iter(updates))) == 5
    assert stored(store, long) == undisturbed(long)
    assert [len(update.records) for update in play_event(long, store, 2)] == [11]
    assert [len(update.records) for update in play_event(short, store, 2)] == [6]


def test_games_are_durable_when_an_update_tells_of_them(store: Store, tmp_path: Path) -> None:
    played = match(scripted("GOOD", "a"), scripted("GOOD", "b"), games=80)
    seen = 0
    with Store.open(tmp_path / "arena.db") as reader:
        for update in play_event(played, store, 1):
            seen += len(update.records)
            assert reader.count() == seen
    assert seen == 80


def resigned(pairing: Pairing) -> GameRecord:
    """The game of a person who resigns at once."""
    return lost_record(pairing, Rules.preset(), "you", Ending.RESIGN, "", "")


def test_people_sit_down_to_their_games_and_bots_play_the_others(store: Store) -> None:
    players = (scripted("PERSON", "you"), scripted("GOOD", "a"), scripted("GOOD", "b"))
    played = Tournament("mixed", players, Terms(FIVE), games_each=2)
    seated = []

    def start_game(pairing: Pairing) -> GameRecord:
        seated.append(pairing.id)
        return replace(resigned(pairing), rules=FIVE)

    games = {record.id: record for record in fresh(play_event(played, store, 1, play_person=start_game))}
    assert len(games) == 6 and store.ids("mixed") == set(games)
    assert sorted(seated) == sorted(id for id, game in games.items() if "you" in (game.black, game.white))
    with pytest.raises(UserError, match="no person can play"):
        list(play_event(replace(played, games_each=4), store, 1))


def test_what_a_bot_prints_stays_off_the_terminal(store: Store, capfd: pytest.CaptureFixture[str]) -> None:
    played = match(scripted("NOISY"), scripted("GOOD"), games=2)
    assert essence(fresh(play_event(played, store, 1))) == undisturbed(replace(played, first=scripted("GOOD", "noisy")))
    assert capfd.readouterr() == ("", "")


# --- Pausing ---


CROWDED = """
import sys
from pathlib import Path
from scripted_bots import scripted
from arena.go.game import Rules
from arena.match.runner import play_event
from arena.match.schedule import Match
from arena.match.schedule import Terms
from arena.results.store import Store

one, other = scripted("CROWD", at=0), scripted("CROWD", "other", at=0)
with Store.open(Path(sys.argv[1]), write=True) as store:
    for update in play_event(Match(one, other, Terms(Rules.preset("cgos", 5), plies=0), 3000), store, 1):
        pass
    print(store.count())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_while_the_first_worker_starts_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """It comes while what a terminal sends is held back from new processes."""
    ensure = resource_tracker.ensure_running

    def interrupted() -> None:
        os.kill(os.getpid(), number)
        ensure()

    came: list[int] = []
    before = signal.signal(number, lambda number, _: came.append(number))
    monkeypatch.setattr(resource_tracker, "ensure_running", interrupted)
    try:
        with Store.open(tmp_path / "arena.db", write=True) as store:
            assert len(fresh(play_event(match(scripted("GOOD"), scripted("GOOD"), 2), store, 1))) == 2
    finally:
        signal.signal(number, before)
    assert came


def test_a_worker_and_its_parent_that_both_have_much_to_send_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """A thousand games end at once and a thousand others begin: more than fits into a pipe, both ways."""
    command = [sys.executable, "-c", CROWDED, str(tmp_path / "arena.db")]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "3000", done.stderr


def test_a_pause_stops_all_games_and_they_go_on_as_if_there_had_been_none(store: Store) -> None:
    played = match(scripted("GOOD", "a"), scripted("GOOD", "b"), games=300, rules=FIVE)
    control = Control()
    updates = play_event(played, store, 2, control)
    records = begun(updates)
    control.paused = True
    quiet = 0
    while quiet < 10:  # updates, at a tenth of a second each
        update = next(updates)
        records += update.records
        quiet = 0 if update.records or update.snapshots else quiet + 1
    assert len(records) < 300
    control.paused = False
    records += fresh(updates)
    assert essence(records) == stored(store, played) == undisturbed(played)


def test_no_clock_runs_in_a_pause(store: Store) -> None:
    played = match(scripted("PONDERER", "a"), scripted("GOOD", "b"), games=2, deadline=0.4, rules=FIVE)
    control = Control()
    pauses = 0
    for update in play_event(played, store, 1, control):
        if update.snapshots and not control.paused and pauses < 2:
            control.paused, quiet = True, 0
            pauses += 1
        elif control.paused:
            quiet += 1
            control.paused = quiet < 8
    assert pauses == 2
    assert stored(store, played) == undisturbed(played)


# --- A store that another program holds ---


@pytest.fixture
def other(tmp_path: Path, store: Store) -> Iterator[sqlite3.Connection]:
    """Another program's connection to the store."""
    with closing(sqlite3.connect(tmp_path / "arena.db", isolation_level=None)) as connection:
        yield connection


def test_games_are_played_on_while_another_program_holds_the_store(store: Store, other: sqlite3.Connection) -> None:
    played = match(scripted("GOOD", "a"), scripted("GOOD", "b"), games=60)
    updates = play_event(played, store, 1)
    records = next(updates).records
    other.execute("BEGIN IMMEDIATE")
    waiting = [0]
    while waiting[-1] < 60:
        update = next(updates)
        assert not update.records
        waiting.append(update.waiting)
    assert next(updates).waiting == 60  # nobody plays any more, and still nothing is given up
    assert store.count() == 0
    other.execute("ROLLBACK")
    records += tuple(fresh(updates))
    assert essence(list(records)) == stored(store, played) == undisturbed(played)


def test_who_ends_an_event_while_games_wait_is_told_how_many_are_lost(store: Store, other: sqlite3.Connection) -> None:
    played = match(scripted("GOOD", "a"), scripted("GOOD", "b"), games=300, rules=FIVE)
    updates = play_event(played, store, 1)
    while not store.count():
        next(updates)
    other.execute("BEGIN IMMEDIATE")
    while (waiting := next(updates).waiting) < 2:
        pass
    with pytest.raises(GamesNotStored) as lost:
        updates.close()  # type: ignore[attr-defined]
    assert lost.value.games >= waiting
    assert f"{lost.value.games} finished games could not be stored" in str(lost.value)
    assert multiprocessing.active_children() == []
    other.execute("ROLLBACK")
    list(play_event(played, store, 1))
    assert stored(store, played) == undisturbed(played)


# --- Bots that fail ---


def test_a_bot_that_takes_its_process_down_forfeits_that_game_alone(store: Store) -> None:
    games = seeds(4)
    played = match(scripted("SEGFAULT", seed=games[1]), scripted("LEAVE", seed=games[2]), games=4)
    records = numbered(play_event(played, store, 1))
    expected = undisturbed(match(scripted("GOOD", "segfault"), scripted("GOOD", "leave"), games=4))
    moves = {int(id[-5:]) - 1: game[3] for id, game in expected.items()}
    for number, loser, reason in ((1, "segfault", "SIGSEGV"), (2, "leave", "exit code 3")):
        record = records.pop(number)
        assert record.outcome.ending is Ending.CRASH
        assert record.outcome.winner is not None
        assert (record.black if record.outcome.black_score else record.white) != loser
        assert record.reason == f"{loser}: its process ended with {reason}"
        assert record.moves == moves.pop(number)[:9]
        if reason == "SIGSEGV":
            assert "Segmentation fault" in record.fault_details
    assert {number: record.moves for number, record in records.items()} == moves
    assert store.count() == 4


def test_a_bot_that_hangs_forfeits_on_time_and_the_event_ends(store: Store, lifeline: Lifeline) -> None:
    bad = scripted("HANG", seed=seeds(4)[1], lifeline=lifeline.path)
    played = match(scripted("MANY", "good"), bad, games=4, deadline=0.5)
    records = numbered(play_event(played, store, 1))
    hung = records[1]
    assert (hung.outcome.ending, hung.outcome.black_score) == (Ending.TIME, 0.0)
    assert hung.black == "hang"
    assert hung.reason == "hang: no answer within 0.5 s"
    assert len(hung.moves) == 8
    assert [record.reason for number, record in records.items() if number != 1] == ["", "", ""]
    assert len(records) == store.count() == 4
    assert lifeline.falls_silent(10)


@pytest.mark.parametrize("boards", [1, 8])
def test_a_bot_that_kills_itself_goes_on_where_it_died_and_gains_nothing(
    store: Store, tmp_path: Path, boards: int
) -> None:
    """Its game began anew up to three times, with other moves."""
    marker = tmp_path / "shown"
    bad = scripted("QUITTER" if boards == 8 else "QUITTER_1", "bad", at=7, marker=str(marker))
    records = fresh(play_event(match(bad, scripted("GOOD"), games=3, rules=FIVE), store, 1))
    shown: dict[int, list[tuple[int, ...]]] = {}
    for line in marker.read_text().splitlines():
        seed, *moves = map(int, line.split())
        shown.setdefault(seed, []).append(tuple(moves))
    for record in records:
        assert record.reason == "bad: its process ended with SIGKILL"
        assert all(record.moves[: len(moves)] == moves for moves in shown[record.seed]), "moves were played anew"
        assert shown[record.seed].count(record.moves) == 3
        assert len(record.facts) in (0, len(record.moves))


def test_dying_does_not_give_time_back(store: Store, tmp_path: Path) -> None:
    """A bot on a clock thinks for 0.3 s before it dies, once."""
    bad = scripted("DIES_LATE", "bad", at=4, marker=str(tmp_path / "died"))
    played = match(bad, scripted("GOOD"), games=1, rules=SHORT)
    on_clock = replace(played, first=replace(played.first, limits=Limits(main=60)))
    (record,) = fresh(play_event(on_clock, store, 1))
    assert record.reason == "" and 0.3 <= record.black_seconds < 5
    (tmp_path / "died").unlink()
    on_clock = replace(played, first=replace(played.first, limits=Limits(main=0.1, lag=0.1)))
    (record,) = fresh(play_event(on_clock, store, 1))
    assert record.reason.startswith("bad: out of time")


def test_a_bot_that_hangs_in_its_first_decision_forfeits_by_its_name(store: Store) -> None:
    """The event stood still for five minutes, and ended without a name."""
    played = match(scripted("LOOP"), scripted("GOOD"), games=1, deadline=0.3, rules=FIVE)
    (record,) = fresh(play_event(played, store, 1))
    assert record.reason == "loop: no answer within 0.3 s" and record.outcome.ending is Ending.TIME


def test_a_bot_that_hangs_in_a_call_for_many_games_forfeits_one(store: Store) -> None:
    played = match(scripted("STUCK", seed=seeds(20)[9], at=12), scripted("MANY", "good"), games=20, deadline=0.3)
    records = numbered(play_event(played, store, 1))
    assert records.pop(9).reason == "stuck: no answer within 0.3 s"
    assert [record.reason for record in records.values()] == [""] * 19


def test_a_bot_that_dies_once_is_given_another_chance(store: Store, tmp_path: Path) -> None:
    played = match(scripted("DIES_ONCE", seed=seeds(4)[2], marker=str(tmp_path / "died")), scripted("GOOD"), games=4)
    assert essence(fresh(play_event(played, store, 1))) == undisturbed(played)
    assert (tmp_path / "died").exists()
    unsure = match(scripted("UNSURE"), scripted("GOOD"), games=2)  # it fails before the first move of a game
    assert [record.reason for record in fresh(play_event(unsure, store, 1))] == ["", ""]


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("NEVER", "the engine isn't installed; install it"),
        ("BROKEN", "broken can't be built: ValueError: weights of the wrong shape"),
        ("KILLED", "killed can't be built: its process ended with SIGKILL"),
    ],
)
def test_a_bot_that_can_not_be_built_is_the_users_to_mend(store: Store, kind: str, reason: str) -> None:
    with pytest.raises(UserError) as caught:
        list(play_event(match(scripted("GOOD"), scripted(kind)), store, 2))
    assert str(caught.value) == reason
    assert multiprocessing.active_children() == []
    assert store.count() == 0


@pytest.mark.parametrize(("kind", "workers"), [("FOUR_KILLED", 2), ("ORPHAN", 1)])
def test_workers_that_are_killed_as_they_start_or_whose_starter_is_are_replaced(
    store: Store, tmp_path: Path, kind: str, workers: int
) -> None:
    """Three in a row ended an event that was well under way, and a killed starter was taken for a broken bot."""
    bad = scripted(kind, marker=str(tmp_path / "starts"))
    assert len(fresh(play_event(match(bad, scripted("GOOD"), games=4), store, workers))) == 4


def test_a_later_worker_that_can_not_be_built_ends_the_match_and_keeps_its_games(store: Store, tmp_path: Path) -> None:
    bad = scripted("ONLY_FIRST", marker=str(tmp_path / "starts"))
    played = match(bad, scripted("HANG", seed=seeds(40)[0]), games=40)
    seen: list[GameRecord] = []
    with pytest.raises(UserError, match="isn't installed"):
        for update in play_event(played, store, 2):
            seen += update.records
    assert {record.id for record in seen} <= set(stored(store, played))
    assert multiprocessing.active_children() == []


# --- Stopping, and being killed ---


@pytest.mark.parametrize("paused", [False, True])
def test_closing_the_match_keeps_finished_games_and_leaves_no_process(
    store: Store, lifeline: Lifeline, paused: bool
) -> None:
    played = match(scripted("GOOD", "a", lifeline=lifeline.path), scripted("GOOD", "b"), games=400, rules=FIVE)
    updates = play_event(played, store, 2, control := Control())
    seen = begun(updates)
    if paused:
        control.paused = True
        next(updates)
    updates.close()
    assert lifeline.falls_silent(0)
    assert multiprocessing.active_children() == []
    kept = stored(store, played)
    assert set(essence(seen)) <= set(kept)
    assert len(kept) < 400
    assert kept.items() <= undisturbed(played).items()


def test_an_event_that_is_finished_early_ends_by_its_bound_and_tells_of_all_that_is_stored(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arena.match.runner.FINISH", 0.5)
    played = match(scripted("PONDERER", "a"), scripted("HANG", "b", seed=seeds(8)[7]), games=8)
    records: list[GameRecord] = []
    for update in play_event(played, store, 2, control := Control()):
        records += update.records
        if update.snapshots and not control.finishing:
            control.finishing, begun_at = True, monotonic()
    assert monotonic() - begun_at < 10  # the deadline is 60 s
    assert len(records) == store.count() < 8


PARENT = """
import sys
from arena.match.runner import play_event
from arena.results.store import Store
from test_runner import FIVE, match, scripted
database, kind, games, lifeline, marker, deadline = sys.argv[1:]
bad = scripted(kind, "a", lifeline=lifeline, marker=marker)
with Store.open(database, write=True) as store:
    for update in play_event(match(bad, scripted("GOOD", "b"), int(games), float(deadline), rules=FIVE), store, 2):
        for record in update.records:
            print(record.id, flush=True)
"""


def parent(
    database: Path, kind: str, games: int, lifeline: Lifeline, marker: str = "", deadline: float = 60.0
) -> subprocess.Popen[str]:
    """A process that plays a match and tells which games are durable; the leader of a group, like a terminal's job."""
    return subprocess.Popen(
        [sys.executable, "-c", PARENT, str(database), kind, str(games), lifeline.path, marker, str(deadline)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(TMPDIR=str(database.parent)),
        process_group=0,
    )


def test_a_worker_that_is_stopped_does_not_outlive_its_parent(tmp_path: Path, lifeline: Lifeline) -> None:
    with parent(tmp_path / "arena.db", "PONDERER", 9, lifeline) as process:
        for worker in lifeline.processes(2):
            os.kill(worker, signal.SIGSTOP)
        process.kill()
    assert lifeline.falls_silent(20)


def test_a_worker_whose_bot_hangs_does_not_outlive_its_parent(tmp_path: Path, lifeline: Lifeline) -> None:
    hanging = tmp_path / "hanging"
    os.mkfifo(hanging)
    with parent(tmp_path / "arena.db", "HANG", 2, lifeline, str(hanging)) as process:
        assert hanging.read_text().startswith("hangs")  # once for each worker that is quick enough
        process.kill()
    assert lifeline.falls_silent(20)


def test_an_event_begins_on_a_few_boards_so_that_early_pairs_are_soon_complete(tmp_path: Path) -> None:
    census = scripted("CENSUS", marker=str(tmp_path / "games"))
    played = match(census, replace(census, name="other"), 200, rules=FIVE, plies=2)
    with Store.open(tmp_path / "arena.db", write=True) as store:
        for _ in play_event(played, store, 1):
            pass
    at_once = [int(line) for line in (tmp_path / "games").read_text().split()]
    assert max(at_once[:10]) <= 8 and 16 < max(at_once) <= 64
