"""Events on the nodes of a Ray cluster, of two nodes on this machine: the same games, and whose fault what is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from commandline import ARENA, arena, refused
from scripted_bots import scripted

from arena import ConfigError, StoreError, UserError
from arena.contract.bot import Limits
from arena.events import cluster
from arena.events.cluster import Cluster
from arena.events.hands import Hands
from arena.events.runner import play_event
from arena.events.schedule import Match
from arena.events.terms import Terms
from arena.go import jit
from arena.go.game import Ending, Rules
from arena.go.record import Record
from arena.players.registry import Registry
from arena.results.store import Store

ray = pytest.importorskip("ray", reason="needs Ray: pip install 'arena[cluster]'")
utils = pytest.importorskip("ray.cluster_utils")

pytestmark = pytest.mark.xdist_group("cluster")  # all of it in one process: there is one cluster

NINE = Terms(Rules.preset("cgos", 9), plies=4, seed=3)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A cluster of one node. What nodes keep is in a folder of its own; kernels that are compiled are there."""
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    patch.setenv("NUMBA_CACHE_DIR", str(jit.CACHE))
    patch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    started = utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    yield started
    ray.shutdown()
    started.shutdown()
    patch.undo()


def played(event: Match, folder: Path, workers: int | Hands, each: Callable[[Store], None] = lambda _: None) -> Any:
    """The event's games in the order of their ids, without what differs between two times."""
    with Store.open(folder / "arena.db", write=True) as store:
        for update in play_event(event, store, workers):
            if update.records:
                each(store)
        games = sorted(store.games(event=event.event), key=lambda game: game.id)
    assert len({game.id for game in games}) == len(games) == event.games
    return [essence(game) for game in games]


def essence(game: Record) -> tuple[Any, ...]:
    return game.id, game.black_player, game.white_player, game.seed, game.moves, game.outcome, game.reason


def match(first: str, second: str, games: int) -> Match:
    registry = Registry()
    return Match(registry.resolve(first).checked(9), registry.resolve(second).checked(9), NINE, games)


@pytest.mark.parametrize(
    ("first", "second", "games"),
    [("random", "mcts:playouts=20", 12), pytest.param("sl", "alphago:visits=8", 4, marks=pytest.mark.slow)],
)
def test_games_are_the_same_here_on_one_node_and_on_two(
    nodes: Any, tmp_path: Path, first: str, second: str, games: int
) -> None:
    event = match(first, second, games)
    here = played(event, tmp_path / "here", 2)
    assert played(event, tmp_path / "one", Cluster(nodes.address, 0)) == here
    second_node = nodes.add_node(num_cpus=1)
    try:
        assert played(event, tmp_path / "two", Cluster(nodes.address, 0)) == here
    finally:
        nodes.remove_node(second_node)


def test_a_node_that_is_gone_costs_nobody_a_game(nodes: Any, tmp_path: Path) -> None:
    event = Match(scripted("PONDERER", "a"), scripted("PONDERER", "b"), Terms(Rules.preset("cgos", 5)), 8)
    doomed = nodes.add_node(num_cpus=2)
    killed: list[int] = []

    def kill(store: Store) -> None:
        if not killed and store.count() >= 1:
            killed.append(store.count())
            nodes.remove_node(doomed, allow_graceful=False)

    lost = played(event, tmp_path / "lost", Cluster(nodes.address, 0), kill)
    assert killed and lost == played(event, tmp_path / "here", 2)


def test_a_bot_that_takes_its_worker_down_is_charged_as_it_is_here(nodes: Any, tmp_path: Path) -> None:
    event = Match(scripted("LEAVE", "bad"), scripted("GOOD", "good"), Terms(Rules.preset("cgos", 5)), 2)
    charged = played(event, tmp_path / "there", Cluster(nodes.address, 0))
    assert charged == played(event, tmp_path / "here", 2)
    assert {outcome.ending for *_, outcome, _ in charged} == {Ending.CRASH}


def test_a_bot_of_one_file_and_its_net_travel(nodes: Any, tmp_path: Path) -> None:
    source = tmp_path / "mine.py"
    source.write_text("from bots.policy import BOT as POLICY\nBOT = POLICY\n")
    (tmp_path / "arena.toml").write_text(f'[bots.mine]\nkind = "{source}:BOT"\ncheckpoint = "sl-9x9"\n')
    mine = Registry(tmp_path / "arena.toml").resolve("mine")
    assert played(Match(mine, Registry().resolve("random"), NINE, 2), tmp_path, Cluster(nodes.address, 0))
    sent = Path(os.environ["XDG_CACHE_HOME"]) / "arena" / "sent"
    assert {mine.net, f"code-{mine.code[:12]}"} <= {path.name for path in sent.iterdir()}


def test_another_version_is_refused_by_name(nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "__version__", "9.9")
    with pytest.raises(UserError, match=r"can't be used: it has arena \S+ on Python \S+, not arena 9.9 on Python"):
        played(match("random", "random:", 2), tmp_path, Cluster(nodes.address, 0))


def test_without_ray_the_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"pip install 'arena\[cluster\]'"):
        Cluster("auto", 1)


def test_an_address_that_does_not_answer_is_told(tmp_path: Path) -> None:
    done = arena("match", "random", "fast-random", "--cluster", "127.0.0.1:1", folder=tmp_path)
    refused(done, "--cluster 127.0.0.1:1: no Ray cluster answers")


def test_a_killed_driver_leaves_nothing_on_the_nodes_and_goes_on(nodes: Any, tmp_path: Path) -> None:
    command = [*ARENA, "match", "random", "fast-random", "-n", "4000", "--size", "7", "--cluster", nodes.address]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL) as process:
        until = monotonic() + 60
        while monotonic() < until and not stored(tmp_path):
            sleep(0.1)
        process.send_signal(signal.SIGKILL)
    before = stored(tmp_path)
    assert 0 < before < 4000
    until = monotonic() + 30
    while (left := on_nodes()) and monotonic() < until:
        sleep(0.2)
    assert left == []
    done = arena(*command[len(ARENA) : -4], "-n", str(before + 20), *command[-2:], "--size", "7", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert stored(tmp_path) >= before + 20


def stored(folder: Path) -> int:
    with suppress(StoreError), Store.open(folder / "results" / "arena.db") as store:
        return store.count()
    return 0


def on_nodes() -> list[str]:
    """The command lines of what works for a driver."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_text().replace("\0", " ")
        except OSError:
            continue
        if line.startswith("ray::Node"):
            lines.append(line)
    return lines


@pytest.mark.slow
def test_a_hang_on_a_node_is_the_bots(nodes: Any, tmp_path: Path) -> None:
    bad = replace(scripted("HANG", "slow"), limits=Limits(deadline=1.0))
    event = Match(bad, scripted("GOOD", "good"), Terms(Rules.preset("cgos", 5)), 1)
    ((*_, outcome, reason),) = played(event, tmp_path, Cluster(nodes.address, 0))
    assert outcome.ending is Ending.TIME and "no answer within" in reason
