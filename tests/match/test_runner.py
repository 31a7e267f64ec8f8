"""Events with real worker processes and a real database: what is played, what is kept, and what dies with what."""

import multiprocessing
import os
import shlex
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from helpers.commandline import environment
from helpers.events import planned
from helpers.games import essence, fresh
from helpers.processes import end_of, family
from helpers.scripted_bots import scripted

from arena import UserError
from arena.contract.bot import Limits
from arena.go.coords import BLACK, WHITE
from arena.go.game import Ending, Rules
from arena.go.record import GameRecord
from arena.match.game_loop import GameLoop
from arena.match.runner import Control, Update, play_event
from arena.match.schedule import Match
from arena.players.player import Player
from arena.players.registry import Registry
from arena.results.store import Store

ENGINES = Path(__file__).parents[1] / "engines"
SEVEN = Rules.preset("cgos", 7)
FIVE = Rules.preset("cgos", 5)


def match(first: Player, second: Player, games: int = 8, deadline: float = 60.0, **settings: Any) -> Match:
    one, other = (replace(entry, limits=Limits(deadline=deadline)) for entry in (first, second))
    return planned(Match, **({"first": one, "second": other, "rules": SEVEN, "games": games} | settings))


def good(games: int, **settings: Any) -> Match:
    return match(scripted("GOOD", "a"), scripted("GOOD", "b"), games, **settings)


SEEDS = [pairing.seed for pairing in good(40).pairings()]
"""The seeds of a match's games, which don't depend on who plays."""


def play_alone(played: Match) -> list[GameRecord]:
    """A match in this process, without a crew."""
    identities = {name: entry.identity for name, entry in played.players.items()}
    bots = {name: entry.build() for name, entry in played.players.items()}
    loop = GameLoop(bots, played.terms.rules, dict.fromkeys(bots, Limits(deadline=600.0)), played.terms.adjudication)
    for pairing in played.pairings():
        loop.start_game(pairing)
    records: list[GameRecord] = []
    while loop.live_games:
        records += loop.play_round()
    return [replace(one, black_player=identities[one.black], white_player=identities[one.white]) for one in records]


def undisturbed(played: Match) -> dict[str, tuple[Any, ...]]:
    return essence(play_alone(played))


def stored(store: Store, played: Match) -> dict[str, tuple[Any, ...]]:
    return essence(store.games(event=played.event))


def numbered(updates: Iterator[Update]) -> dict[int, GameRecord]:
    """The games that were played now by their places in the match, from 0."""
    return {int(record.id[-5:]) - 1: record for record in fresh(updates)}


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
    assert stored(store, long) == undisturbed(long)
    assert [len(update.records) for update in play_event(short, store, 2)] == [6]


def test_games_are_durable_when_an_update_has_them_and_bots_print_nothing_on_the_terminal(
    store: Store, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    played, seen = match(scripted("NOISY"), scripted("GOOD"), games=40), 0
    with Store.open(tmp_path / "arena.db") as reader:
        for update in play_event(played, store, 1):
            seen += len(update.records)
            assert reader.count() == seen
    assert stored(store, played) == undisturbed(replace(played, first=scripted("GOOD", "noisy")))
    assert capfd.readouterr() == ("", "")


def test_an_event_begins_on_a_few_boards_so_that_early_pairs_are_soon_complete(store: Store, tmp_path: Path) -> None:
    census = scripted("CENSUS", marker=str(tmp_path / "games"))
    list(play_event(match(census, replace(census, name="other"), 200, rules=FIVE, plies=2), store, 1))
    at_once = [int(line) for line in (tmp_path / "games").read_text().split()]
    assert max(at_once[:10]) <= 8 and 16 < max(at_once) <= 64


CROWDED = """
import sys
from pathlib import Path
from test_runner import FIVE, Store, match, play_event, scripted

one, other = scripted("CROWD", at=0), scripted("CROWD", "other", at=0)
with Store.open(Path(sys.argv[1]), write=True) as store:
    for update in play_event(match(one, other, 3000, rules=FIVE, plies=0), store, 1):
        pass
    print(store.count())
"""


def test_a_worker_and_its_parent_that_both_have_much_to_send_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """A thousand games end at once and a thousand others begin: more than fits into a pipe, both ways."""
    command = [sys.executable, "-c", CROWDED, str(tmp_path / "arena.db")]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=180)
    assert done.stdout.strip() == "3000", done.stderr


# --- Pausing ---


def test_in_a_pause_no_bot_is_called_and_no_clock_runs(store: Store) -> None:
    played = match(scripted("PONDERER", "a"), scripted("GOOD", "b"), games=4, deadline=1.0, rules=FIVE)
    control = Control()
    pauses = quiet = 0
    for update in play_event(played, store, 2, control):
        if control.paused:
            quiet = 0 if update.records or update.snapshots else quiet + 1
            control.paused = quiet < 15  # updates, at a tenth of a second each: longer than the deadline
        elif update.snapshots and pauses < 2:
            control.paused, quiet = True, 0
            pauses += 1
    assert pauses == 2
    assert stored(store, played) == undisturbed(played)


def test_games_are_played_on_while_another_program_holds_the_store(store: Store) -> None:
    updates = play_event(good(60), store, 1)
    records = next(updates).records
    with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        while (update := next(updates)).waiting < 60:
            assert not update.records
        assert next(updates).waiting == 60  # nobody plays any more, and still nothing is given up
        assert store.count() == 0
    assert essence([*records, *fresh(updates)]) == stored(store, good(60)) == undisturbed(good(60))


# --- Bots that fail ---


def test_a_bot_that_takes_its_process_down_forfeits_that_game_alone(store: Store) -> None:
    played = match(scripted("SEGFAULT", seed=SEEDS[1]), scripted("LEAVE", seed=SEEDS[2]), games=4)
    records = numbered(play_event(played, store, 1))
    expected = undisturbed(match(scripted("GOOD", "segfault"), scripted("GOOD", "leave"), games=4))
    moves = {int(id[-5:]) - 1: game[3] for id, game in expected.items()}
    for number, loser, reason in ((1, "segfault", "SIGSEGV"), (2, "leave", "exit code 3")):
        record = records.pop(number)
        assert record.outcome.ending is Ending.CRASH
        assert record.outcome.winner is (WHITE if record.black == loser else BLACK)
        assert record.reason == f"{loser}: its process ended with {reason}"
        assert record.moves == moves.pop(number)[:9]
        assert ("Segmentation fault" in record.fault_details) == (reason == "SIGSEGV")
    assert {number: record.moves for number, record in records.items()} == moves
    assert store.count() == 4


@pytest.mark.parametrize(
    ("kind", "script", "games", "opponent"),
    [
        ("HANG", {"seed": SEEDS[1]}, 4, "MANY"),
        ("LOOP", {}, 1, "GOOD"),  # in its first decision: the event stood still, and ended without a name
        ("STUCK", {"seed": SEEDS[1], "at": 12}, 20, "MANY"),  # in a call for many games
    ],
)
def test_a_bot_that_hangs_forfeits_that_game_on_time(
    store: Store, kind: str, script: dict[str, Any], games: int, opponent: str
) -> None:
    played = match(scripted(opponent, "good"), scripted(kind, **script), games, deadline=1.0)
    records = numbered(play_event(played, store, 1))
    hung = records.pop(1 if games > 1 else 0)
    assert hung.reason == f"{kind.lower()}: no answer within 1 s"
    assert hung.outcome.ending is Ending.TIME
    assert hung.outcome.winner is (BLACK if hung.black == "good" else WHITE)
    assert (hung.white_seconds if hung.black == "good" else hung.black_seconds) > 0.4
    assert len(hung.moves) == {"HANG": 8, "LOOP": 5, "STUCK": 12}[kind]
    assert not any(record.reason for record in records.values())
    assert multiprocessing.active_children() == []


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
    """A bot on a clock thinks for 1 s before it dies, once."""
    bad = scripted("DIES_LATE", "bad", at=4, marker=str(tmp_path / "died"))
    played = match(bad, scripted("GOOD"), games=1, rules=FIVE)
    played = replace(played, first=replace(bad, limits=Limits(main=0.5, lag=0.2)))
    (record,) = fresh(play_event(played, store, 1))
    assert record.reason.startswith("bad: out of time") and 1.0 <= record.black_seconds < 30


def test_a_bot_that_dies_once_is_given_another_chance(store: Store, tmp_path: Path) -> None:
    played = match(scripted("DIES_ONCE", seed=SEEDS[2], marker=str(tmp_path / "died")), scripted("GOOD"), games=4)
    assert essence(fresh(play_event(played, store, 1))) == undisturbed(played)
    assert (tmp_path / "died").exists()
    unsure = match(scripted("UNSURE"), scripted("GOOD"), games=2)  # it fails before the first move of a game
    assert [record.reason for record in fresh(play_event(unsure, store, 1))] == ["", ""]


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("BROKEN", "broken can't be built: ValueError: weights of the wrong shape"),
        ("KILLED", "killed can't be built: its process ended with SIGKILL"),
    ],
)
def test_a_bot_that_can_not_be_built_is_the_users_to_mend(store: Store, kind: str, reason: str) -> None:
    with pytest.raises(UserError) as caught:
        list(play_event(match(scripted("GOOD"), scripted(kind)), store, 2))
    assert str(caught.value) == reason
    assert multiprocessing.active_children() == [] and store.count() == 0


def test_a_bot_that_is_killed_as_it_starts_is_started_again(store: Store, tmp_path: Path) -> None:
    """Three in a row ended an event that was well under way."""
    bad = scripted("FOUR_KILLED", marker=str(tmp_path / "starts"))
    assert len(fresh(play_event(match(bad, scripted("GOOD"), games=4), store, 2))) == 4


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forked from a process on Linux")
def test_what_starts_the_workers_is_killed_while_their_engine_starts(store: Store) -> None:
    """Their engines were killed again and again as theirs, until they reported that these can't be started."""
    engine = [sys.executable, "-I", "-S", str(ENGINES / "scripted.py"), "good", "0.3"]
    slow = replace(Registry().resolve(f"gtp:command={shlex.join(engine)}"), name="slow")
    records, kills = list[GameRecord](), 2
    for update in play_event(match(slow, scripted("GOOD"), games=2, rules=FIVE), store, 1):
        records += update.records
        found = family(os.getpid())
        if kills and "engine" in found:
            os.kill(found["server"][0], signal.SIGTERM)
            kills -= 1
    assert not kills and [record.outcome.ending in (Ending.CRASH, Ending.TIME) for record in records] == [False] * 2


def test_a_later_worker_that_can_not_be_built_ends_the_match_and_keeps_its_games(store: Store, tmp_path: Path) -> None:
    bad = scripted("ONLY_FIRST", marker=str(tmp_path / "starts"))
    played, seen = match(bad, scripted("HANG", seed=SEEDS[0]), games=40), set[str]()
    with pytest.raises(UserError, match="isn't installed"):
        for update in play_event(played, store, 2):
            seen |= {record.id for record in update.records}
    assert seen <= set(stored(store, played)) and multiprocessing.active_children() == []


# --- Stopping, and being killed ---


def test_closing_a_paused_match_keeps_finished_games_and_leaves_no_process(store: Store) -> None:
    played, control, seen = good(400, rules=FIVE), Control(), list[GameRecord]()
    updates = play_event(played, store, 2, control)
    while not seen:
        seen += next(updates).records
    control.paused = True
    next(updates)
    updates.close()
    assert multiprocessing.active_children() == []
    kept = stored(store, played)
    assert set(essence(seen)) <= set(kept) and len(kept) < 400
    assert kept.items() <= undisturbed(played).items()


def test_an_event_that_is_finished_early_ends_by_its_bound_and_tells_of_all_that_is_stored(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arena.match.runner.FINISH", 0.5)
    played = match(scripted("PONDERER", "a"), scripted("HANG", "b", seed=SEEDS[7]), games=8)
    records: list[GameRecord] = []
    for update in play_event(played, store, 2, control := Control()):
        records += update.records
        if update.snapshots and not control.finishing:
            control.finishing, begun_at = True, monotonic()
    assert monotonic() - begun_at < 40  # the deadline is 60 s
    assert len(records) == store.count() < 8


PARENT = """
import sys
from test_runner import FIVE, Store, match, play_event, scripted
database, marker = sys.argv[1:]
bad = scripted("HANG", "a", marker=marker)
with Store.open(database, write=True) as store:
    for update in play_event(match(bad, scripted("GOOD", "b"), 9, rules=FIVE), store, 2):
        pass
"""


def test_a_worker_whose_bot_hangs_and_one_that_is_stopped_do_not_outlive_their_parent(tmp_path: Path) -> None:
    marker, until = tmp_path / "hangs", monotonic() + 300
    command = [sys.executable, "-c", PARENT, str(tmp_path / "arena.db"), str(marker)]
    with subprocess.Popen(command, env=environment(TMPDIR=str(tmp_path)), process_group=0) as process:
        while len(family(process.pid).get("worker", [])) < 2 or not marker.exists():
            assert process.poll() is None and monotonic() < until
            sleep(0.05)
        os.kill(family(process.pid)["worker"][0], signal.SIGSTOP)
        process.kill()
    assert end_of(tmp_path) == []
