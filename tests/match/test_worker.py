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
from scripted_bots import scripted

from arena.contract.adjudication import OFF
from arena.contract.bot import Limits
from arena.files import scratch
from arena.go.game import Rules
from arena.match.schedule import Pairing
from arena.match.worker import PAUSE, READY, Assignment, SharedState, WorkerSpec, start_method, work
from arena.players.player import Player

SHORT = Rules.preset("cgos", 7, move_limit=20)
LONG = 60.0
"""Seconds after which a worker that says nothing has failed."""

Hire = Callable[..., tuple[BaseProcess, Connection, SharedState]]


def game(number: int) -> Assignment:
    return Assignment(Pairing(f"event/{number}", number, "one", "two", (16, 30), seed=number))


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Hire]:
    """Starts a worker of a number and some players."""
    workers: list[BaseProcess] = []

    def started(number: int, boards: int, *players: Player) -> tuple[BaseProcess, Connection, SharedState]:
        context = start_method()
        here, there = context.Pipe()
        (tmp_path / "stderr").touch()
        spec = WorkerSpec({player.name: player for player in players}, SHORT, OFF, boards)
        shared = context.RawArray("d", SharedState.size(spec))
        worker = context.Process(target=work, args=(there, shared, spec, str(tmp_path / "stderr"), number))
        worker.start()
        there.close()
        workers.append(worker)
        return worker, here, SharedState(shared, spec)

    yield started
    for worker in workers:
        worker.kill()
        worker.join()


@pytest.fixture
def hire(start: Hire) -> Hire:
    """Starts a worker of two players of a kind, and waits until it is ready."""

    def hired(kind: str, boards: int, limits: str = "", **script: Any) -> tuple[BaseProcess, Connection, SharedState]:
        own = Limits.read(limits, "here") if limits else Limits()
        found = start(0, boards, *(replace(scripted(kind, name, **script), limits=own) for name in ("one", "two")))
        assert heard(found[1]) == READY
        return found

    return hired


def heard(connection: Connection) -> Any:
    assert connection.poll(LONG), "the worker says nothing"
    return connection.recv()


def test_a_glance_has_what_the_bots_think(hire: Hire) -> None:
    _, connection, _ = hire("PUNDIT", boards=1, at=3)
    connection.send(game(1))
    snapshots = [heard(connection) for _ in range(5)]
    assert snapshots[-1].win_rates == pytest.approx((None, None, 0.5, 0.01, 0.99, 0.01)[: len(snapshots[-1].moves)])
    assert np.frombuffer(snapshots[-1].ownership, np.int8).tolist() == [98] + [0] * 48


@pytest.mark.parametrize(("limits", "allowed"), [("deadline=7", 7), ("main=5,byoyomi=3,lag=1", 9), ("seconds=5", 70)])
def test_the_parent_sees_how_long_the_present_call_goes_on_and_may_take(
    hire: Hire, limits: str, allowed: float
) -> None:
    _, connection, clock = hire("HANG", boards=1, limits=limits, at=2)
    assert clock.seconds == 0
    connection.send(game(1))
    assert heard(connection).moves == (16, 30)
    end = monotonic() + LONG
    while clock.seconds == 0 and monotonic() < end:
        pass
    assert 0 < clock.seconds < LONG
    assert clock.allowed == allowed
    assert clock.player == 0


def test_what_processes_are_started_with_lies_in_our_own_folder(hire: Hire) -> None:
    """Multiprocessing's folder is set in a private place of it; one of its own would be left behind by a kill."""
    hire("GOOD", boards=1)
    assert Path(get_temp_dir()) == scratch()


@pytest.mark.parametrize("end", ["terminated", "told to leave", "left alone"])
def test_a_paused_worker_can_still_be_ended(hire: Hire, end: str) -> None:
    worker, connection, _ = hire("GOOD", boards=8)
    connection.send(PAUSE)
    if end == "terminated":
        worker.terminate()
    elif end == "told to leave":
        connection.send(None)
    else:
        connection.close()
    worker.join(LONG)
    assert worker.exitcode == 0
