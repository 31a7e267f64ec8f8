"""A worker at the other end of its connection: what it tells of its games, and how it pauses and ends."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.util import get_temp_dir
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import pytest
from helpers.scripted_bots import scripted

from arena.contract.adjudication import OFF
from arena.contract.bot import Limits
from arena.files import scratch
from arena.go.game import Rules
from arena.match.journal import Assignment, create_journal
from arena.match.process import start_method
from arena.match.schedule import Pairing
from arena.match.worker import READY, SharedState, WorkerSpec, work

LONG = 300.0  # seconds after which a worker that says nothing has failed
GAME = Assignment(Pairing("event/1", 1, "one", "two", (16, 30), seed=1))

Start = Callable[..., tuple[BaseProcess, Connection, SharedState]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a worker of two players of a kind, and waits until it is ready."""
    workers: list[BaseProcess] = []

    def started(kind: str, boards: int, limits: str = "seconds=9", **script: Any) -> Any:
        context = start_method()
        here, there = context.Pipe()
        (tmp_path / "stderr").touch()
        own = Limits.read(limits, "here")
        players = {name: replace(scripted(kind, name, **script), limits=own) for name in ("one", "two")}
        if kind.endswith(".py"):
            players = {name: replace(player, factory=f"{kind}:BOT") for name, player in players.items()}
        spec = WorkerSpec(players, Rules.preset("cgos", 7, move_limit=20), OFF, boards)
        shared, journal = context.RawArray("d", SharedState.SIZE), tmp_path / "journal"
        create_journal(journal, "event", boards, spec.rules)
        workers.append(context.Process(target=work, args=(there, shared, spec, journal, str(tmp_path / "stderr"), 0)))
        workers[0].start()
        there.close()
        if not kind.endswith(".py"):
            assert heard(here) == READY
        return workers[0], here, SharedState(shared)

    yield started
    workers[0].kill()
    workers[0].join()


def heard(connection: Connection) -> Any:
    assert connection.poll(LONG), "the worker says nothing"
    return connection.recv()


def test_a_snapshot_has_what_the_bots_think(start: Start) -> None:
    _, connection, _ = start("PUNDIT", boards=1, at=3)
    connection.send(GAME)
    snapshots = [heard(connection) for _ in range(5)]
    assert snapshots[-1].win_rates == pytest.approx((None, None, 0.5, 0.01, 0.99, 0.01)[: len(snapshots[-1].moves)])
    assert np.frombuffer(snapshots[-1].ownership, np.int8).tolist() == [98] + [0] * 48


@pytest.mark.parametrize(("limits", "allowed"), [("deadline=7", 7), ("main=5,byoyomi=3,lag=1", 9), ("seconds=5", 70)])
def test_the_parent_sees_how_long_the_present_call_goes_on_and_may_take(
    start: Start, limits: str, allowed: float
) -> None:
    _, connection, state = start("HANG", boards=1, limits=limits, at=2)
    assert state.call.seconds == 0
    connection.send(GAME)
    assert heard(connection).moves == (16, 30)
    end = monotonic() + LONG
    while state.call.seconds == 0 and monotonic() < end:
        pass
    assert 0 < state.call.seconds < LONG
    assert state.call[1:] == (allowed, 0)


@pytest.mark.parametrize("end", ["terminated", "told to leave", "left alone"])
def test_a_paused_worker_can_still_be_ended_and_what_starts_it_lies_in_our_own_folder(start: Start, end: str) -> None:
    """Multiprocessing's folder is set in a private place of it; one of its own would be left behind by a kill."""
    worker, connection, _ = start("GOOD", boards=8)
    assert Path(get_temp_dir()) == scratch()
    connection.send(True)
    if end == "terminated":
        worker.terminate()
    elif end == "told to leave":
        connection.send(None)
    else:
        connection.close()
    worker.join(LONG)
    assert worker.exitcode == 0


def test_a_worker_that_is_terminated_while_it_loads_a_bot_blames_nobody(start: Start, tmp_path: Path) -> None:
    """The exit was reported as the bot's: the event ended, with exit code 2."""
    (tmp_path / "mine.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n")
    worker, connection, _ = start(str(tmp_path / "mine.py"), boards=8)
    with pytest.raises(EOFError):
        heard(connection)
    worker.join(LONG)
    assert worker.exitcode == 0
