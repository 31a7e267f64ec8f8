"""Long events and violent ends: kill -9 at random moments, and 10,000 games in one event. What is kept, not how fast.

The whole of it takes minutes: ``-m slow``. A few of the kills and a small event are always run.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from time import sleep
from typing import Any

import pytest

import arena
from arena.events.runner import play_event
from arena.events.schedule import Match
from arena.events.terms import Terms
from arena.go.game import Rules
from arena.go.record import Record
from arena.players.registry import Registry
from arena.results.store import Store

pytestmark = pytest.mark.skipif(not Path("/proc/self").exists(), reason="finds workers and their memory in /proc")

PLAY = """
import sys
from arena.events.runner import play_event
from arena.results.store import Store
from test_endurance import event
database, seed, games, *bots = sys.argv[1:]
with Store.open(database, write=True) as store:
    for update in play_event(event(int(seed), int(games), *bots), store, 2):
        for record in () if update.resumed else update.records:
            print(record.id, flush=True)
"""

Played = dict[str, tuple[Any, ...]]


def event(seed: int, games: int, first: str = "uct:playouts=60", second: str = "fast-random") -> Match:
    registry = Registry()
    return Match(
        registry.resolve(first), registry.resolve(second), Terms(Rules.preset("cgos", 7)), games, plies=8, seed=seed
    )


def essence(records: Iterator[Record]) -> Played:
    """All of a game but when it was played and how long it took; an id may be there only once."""
    listed = list(records)
    found = {record.id: (record.black_player, record.moves, record.outcome, record.reason) for record in listed}
    assert len(found) == len(listed)
    return found


def undisturbed(played: Match, folder: Path) -> Played:
    with Store.open(folder / "undisturbed.db", write=True) as store:
        for _ in play_event(played, store, 1):
            pass
        return essence(store.games(event=played.event))


def start(database: Path, seed: int, games: int, *bots: str) -> subprocess.Popen[str]:
    """A process that plays the event and prints the id of every game once it is durable."""
    folders = [str(Path(arena.__file__).parents[1]), str(Path(__file__).parent)]
    return subprocess.Popen(
        [sys.executable, "-c", PLAY, str(database), str(seed), str(games), *bots],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
    )


def workers_of(process: int) -> list[int]:
    """The process numbers of an arena's workers: the children of the process that starts them."""

    def children(number: int) -> list[int]:
        try:
            return [int(child) for child in Path(f"/proc/{number}/task/{number}/children").read_text().split()]
        except FileNotFoundError:  # it has just ended
            return []

    return [worker for child in children(process) for worker in children(child)]


def kill(process: int) -> bool:
    """Whether there was something to kill."""
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def harass(database: Path, seed: int, games: int, random: Random, kills: int) -> tuple[set[str], int]:
    """Play the event to its end, killing its parent or one of its workers at random moments, at most ``kills`` times.

    The ids that were acknowledged, and how many kills there were.
    """
    acknowledged: set[str] = set()
    killed = 0
    while True:
        with start(database, seed, games) as process:
            assert process.stdout is not None
            told = []
            if random.random() < 0.7:  # the others hit the start of the interpreter, of the workers and of the store
                told += process.stdout.readline().split()
            while process.poll() is None and killed < kills:
                sleep(random.uniform(0, 1.5))  # the moment
                victims = workers_of(process.pid)
                if not victims or random.random() < 0.5:
                    killed += kill(process.pid) if process.poll() is None else 0
                    break
                killed += kill(random.choice(victims))
            rest, errors = process.communicate()
            told += rest.split()
        assert acknowledged.isdisjoint(told), "a game was played twice"
        acknowledged |= set(told)
        if process.returncode == 0:
            return acknowledged, killed
        refused = errors.endswith("can't be built: its process ended with SIGKILL\n")  # three starts in a row were hit
        assert process.returncode == -signal.SIGKILL or refused, errors


@pytest.mark.parametrize("kills", [4, pytest.param(200, marks=pytest.mark.slow)])
def test_kill_9_at_random_moments_loses_no_game_and_changes_none(tmp_path: Path, kills: int) -> None:
    random = Random(kills)
    done = seed = 0
    while done < kills:
        seed += 1
        database = tmp_path / f"{seed}.db"
        played = event(seed, games=25 * min(kills, 12))
        acknowledged, killed = harass(database, seed, played.games, random, kills - done)
        with Store.open(database) as store:
            kept = essence(store.games(event=played.event))
        assert acknowledged <= kept.keys()
        assert kept == undisturbed(played, tmp_path / str(seed))
        done += killed


def memory_of(process: int) -> int:
    """Bytes of memory that a process really uses."""
    line = next(line for line in Path(f"/proc/{process}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) << 10


@pytest.mark.parametrize("games", [2400, pytest.param(10_000, marks=pytest.mark.slow)])
def test_a_long_event_takes_no_more_memory_and_little_room(tmp_path: Path, games: int) -> None:
    """At most 2 KB a game in the database, and 3 KB in the memory of the parent, which lists what is to be played."""
    database = tmp_path / "arena.db"
    with start(database, 1, games, "fast-random", "random") as process:
        assert process.stdout is not None
        for _ in range(games // 3):
            process.stdout.readline()
        before = {number: memory_of(number) for number in (process.pid, *workers_of(process.pid))}
        for _ in range(games // 3):  # a third is left, or a quick machine would be done before it is asked
            process.stdout.readline()
        growth = {number: memory_of(number) - size for number, size in before.items()}
        assert len(growth) == 3
        assert max(growth.values()) < (8 << 20) + 3072 * games // 3
        process.communicate()
    assert process.returncode == 0
    with Store.open(database) as store:
        assert store.count() == games
    assert database.stat().st_size < 2048 * games
