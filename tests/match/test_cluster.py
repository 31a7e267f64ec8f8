"""Events on the nodes of a Ray cluster, of two nodes on this machine: the same games, and whose fault what is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.commandline import arena, environment, refused
from helpers.scripted_bots import scripted

from arena import ConfigError, StoreError, UserError
from arena.go import jit
from arena.go.coords import BLACK
from arena.go.game import Ending, Rules
from arena.go.record import GameRecord
from arena.match import cluster
from arena.match.cluster import Cluster
from arena.match.runner import Update, play_event
from arena.match.schedule import Match, Terms
from arena.players.registry import Registry
from arena.results.store import Store
from bots.nets.checkpoint import Checkpoint
from trainers import zero
from trainers.cluster import SelfPlayNodes, Stage
from trainers.replay import Replay
from trainers.selfplay import NewGame
from trainers.settings import PRESETS, ClusterOptions, change

ray = pytest.importorskip("ray", reason="needs Ray: pip install 'arena[cluster]'")
utils = pytest.importorskip("ray.cluster_utils")

pytestmark = pytest.mark.xdist_group("cluster")  # all of it in one process: there is one cluster

NINE = Terms(Rules.preset("cgos", 9), plies=4, seed=3)
ENGINE = "scripted-engine"  # a program that is on the first node only


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A cluster of one node. What nodes keep is in a folder of its own; kernels that are compiled are there."""
    programs = tmp_path_factory.mktemp("bin")
    script = Path(__file__).parents[1] / "engines" / "scripted.py"
    (programs / ENGINE).write_text(f"#!/bin/sh\nexec {sys.executable} {script} good\n")
    (programs / ENGINE).chmod(0o755)
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    patch.setenv("NUMBA_CACHE_DIR", str(jit.CACHE))
    patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    patch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    started = utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    yield started
    ray.shutdown()
    started.shutdown()
    patch.undo()


def cluster_for(address: str, event: Match) -> Cluster:
    return Cluster(address, 0, event.players, event.terms)


def played(
    event: Match, folder: Path, address: str = "", each: Callable[[Store, Update], None] = lambda store, update: None
) -> Any:
    """The event's games in the order of their ids, without what differs between two times: here, or on a cluster."""
    with (
        cluster_for(address, event) if address else nullcontext(2) as workers,
        Store.open(folder / "arena.db", write=True) as store,
    ):
        for update in play_event(event, store, workers):
            each(store, update)
        games = sorted(map(essence, store.games(event=event.event)))
    assert len({id for id, *_ in games}) == len(games) == event.games
    return games


def essence(game: GameRecord) -> tuple[Any, ...]:
    return game.id, game.black_player, game.white_player, game.seed, game.moves, game.outcome, game.reason


def ponderers(games: int, kind: str = "PONDERER") -> Match:
    """Its games take seconds; those of GOOD are the same."""
    return Match(scripted(kind, "a"), scripted(kind, "b"), Terms(Rules.preset("cgos", 5)), games)


def test_games_are_the_same_on_two_nodes_where_a_bot_of_one_file_and_its_net_travel(nodes: Any, tmp_path: Path) -> None:
    source = tmp_path / "mine.py"
    source.write_text("from bots.policy import BOT as POLICY\nBOT = POLICY\n")
    (tmp_path / "arena.toml").write_text(f'[bots.mine]\nkind = "{source}:BOT"\ncheckpoint = "sl-9x9"\n')
    mine = Registry(tmp_path / "arena.toml").resolve("mine")
    event = Match(mine, Registry().resolve("mcts:playouts=20"), NINE, 8)
    second = nodes.add_node(num_cpus=1)
    try:
        there = played(event, tmp_path / "there", nodes.address)
    finally:
        nodes.remove_node(second)
    assert there == played(event, tmp_path / "here")
    sent = Path(os.environ["XDG_CACHE_HOME"]) / "arena" / "sent"
    assert set(mine.files_to_ship()) <= {path.name for path in sent.iterdir()}
    assert {path.read_text() for path in sent.glob("*/mine.py")} == {source.read_text()}


def test_a_node_that_is_gone_costs_nobody_a_game(nodes: Any, tmp_path: Path) -> None:
    doomed, seen = [nodes.add_node(num_cpus=2)], set[int]()

    def kill(store: Store, update: Update) -> None:
        if update.nodes is not None:
            seen.add(len(update.nodes))
        if doomed and store.count():
            nodes.remove_node(doomed.pop(), allow_graceful=False)

    lost = played(ponderers(8), tmp_path / "lost", nodes.address, kill)
    assert not doomed and {1, 2} <= seen
    assert [game[3:] for game in lost] == [game[3:] for game in played(ponderers(8, "GOOD"), tmp_path / "here")]


@pytest.mark.slow
def test_a_match_of_equals_whose_nodes_are_lost_again_and_again_ends_near_half(
    nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the test of journals: a game that begins anew is won by the first player."""
    monkeypatch.setattr(cluster, "LOOK", 0.5)
    first, second = (replace(scripted("FATE", name), settings={"first": name == "a", "elo": 0.0}) for name in "ab")
    kills, kept = [0], [0]

    def kill(store: Store, update: Update) -> None:
        if store.count() >= kept[-1] + 5:
            kept.append(store.count())
            for actor in actors():
                os.kill(actor, signal.SIGKILL)
                kills.append(actor)

    games = played(Match(first, second, Terms(Rules.preset("cgos", 5)), 40), tmp_path, nodes.address, kill)
    black = [id.endswith(tuple("13579")) for id, *_ in games]
    wins = sum(is_black is (game[5].winner is BLACK) for is_black, game in zip(black, games, strict=True))
    print(f"{len(kills) - 1} actors were killed, {wins} of {len(games)}")
    assert len(kills) > 4 and abs(wins - 20) < 13  # four standard errors


@pytest.mark.slow
def test_a_node_without_the_engine_or_a_gpu_is_not_used(nodes: Any, tmp_path: Path) -> None:
    """One node has the engine, the other has the GPU that one of the bots asks for."""
    (tmp_path / "arena.toml").write_text(f'[bots.engine]\nkind = "gtp"\ncommand = "{ENGINE}"\n')
    engine = Registry(tmp_path / "arena.toml").resolve("engine")
    spy = replace(scripted("SPY_ON_CARDS", marker=str(tmp_path / "cards")), gpus=0.5)
    news: list[str] = []
    without = {"PATH": os.environ["PATH"].partition(os.pathsep)[2]}
    other = nodes.add_node(num_cpus=2, num_gpus=1, env_vars=without)
    try:
        with pytest.raises(UserError, match=r"can be used: .*(there is no program.*it has no GPU|GPU.*no program)"):
            played(Match(engine, spy, NINE, 2), tmp_path / "nowhere", nodes.address)
        one = Match(scripted("GOOD"), spy, NINE, 2)
        played(one, tmp_path / "gpu", nodes.address, lambda _, update: news.extend(update.news))
    finally:
        nodes.remove_node(other)
    assert len(news) == 1 and "isn't used: it has no GPU" in news[0]
    assert (tmp_path / "cards").read_text() == "0"


@pytest.mark.slow
def test_a_bot_that_takes_its_worker_down_is_charged_as_it_is_here(nodes: Any, tmp_path: Path) -> None:
    event = Match(scripted("LEAVE", "bad"), scripted("GOOD", "good"), Terms(Rules.preset("cgos", 5)), 1)
    charged = played(event, tmp_path / "there", nodes.address)
    assert charged == played(event, tmp_path / "here")
    assert {outcome.ending for *_, outcome, _ in charged} == {Ending.CRASH}


def test_what_stands_in_the_way_of_a_cluster_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for address, why in (("127.0.0.1:1", "Connection refused"), ("here", "it is not HOST:PORT"), (":1", "it is not")):
        done = arena("match", "random", "fast-random", "--cluster", address, folder=tmp_path)
        refused(done, f"--cluster {address}: no Ray cluster answers ({why}", "HOST:PORT or auto")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"pip install 'arena\[cluster\]'"):
        cluster_for("auto", ponderers(2))


# --- Trainers ---


def test_a_run_does_not_begin_where_nothing_answers_or_another_version_is(
    nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = PRESETS["zero"]["tiny"]
    with pytest.raises(UserError, match=r"127\.0\.0\.1:1: no Ray cluster answers"):
        zero.train(config, tmp_path, Registry(), cluster=ClusterOptions("127.0.0.1:1"))
    monkeypatch.setattr(cluster, "platform", SimpleNamespace(python_version=lambda: "3.99.1"))
    with pytest.raises(UserError, match=r"can be used: .+: it has arena \S+ on Python \S+, not .+ on Python 3.99.1"):
        zero.train(config, tmp_path, Registry(), cluster=ClusterOptions(nodes.address))
    assert not (tmp_path / "training").exists()


def lossy(nodes: Any, seconds: float = 1.0) -> Callable[[Any], None]:
    """A second node, which is taken away so long after a trainer first told something: then it plays, too."""
    second, told = [nodes.add_node(num_cpus=1)], list[float]()

    def kill(_: Any) -> None:
        told.append(monotonic())
        if second and told[-1] - told[0] >= seconds:
            nodes.remove_node(second.pop(), allow_graceful=False)

    return kill


@pytest.mark.slow
def test_zero_goes_on_without_a_node_and_plays_no_game_twice(nodes: Any, tmp_path: Path) -> None:
    tiny = {"max_games": 600, "parallel_games": 8, "batch_size": 8, "visits": 8, "eval_opponents": []}
    config, news = change(PRESETS["zero"]["tiny"], tiny, "test"), list[str]()
    folder = zero.train(config, tmp_path, Registry(), lossy(nodes), ClusterOptions(nodes.address, 0, news.append))
    assert Checkpoint.open(folder).manifest.metrics["games"] >= 600 and any("was lost" in line for line in news)
    games = Replay(tmp_path / "training" / config.name / zero.GAMES, config.size, 10_000).searched.games
    different = {games.moves[begin:end].tobytes() for begin, end in pairwise(games.starts)}
    assert len(different) > 0.95 * len(games)  # short ones may be the same by chance


def fell(numbers: Sequence[int], stage: Stage) -> Iterator[NewGame]:
    """Work that takes its node's process down at one number, and is done with those before."""
    for number in numbers:
        if number == 5:
            os._exit(1)
        yield NewGame(number, 1, 0.5)


@pytest.mark.slow
def test_work_that_fells_node_after_node_is_given_up(nodes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "LOOK", 0.5)
    done: list[NewGame] = []
    with SelfPlayNodes(ClusterOptions(nodes.address, 1), NINE.rules) as cores:
        with pytest.raises(UserError, match="5 nodes in a row were lost over the same game"):
            done.extend(cores.play(fell, deque(range(8)), 4, lambda: None, lambda: True))
    assert sorted(game.number for game in done) == [0, 1, 2, 3]


# --- Faults ---

FAULTS = int(os.environ.get("ARENA_FAULTS", 5))  # how many the slow test makes
STOP = float(os.environ.get("ARENA_STOP", 20))  # seconds for which a driver is stopped

DRIVER = """
import sys
from pathlib import Path
from test_cluster import Store, cluster_for, play_event, ponderers
event = ponderers(int(sys.argv[2]))
with cluster_for(sys.argv[1], event) as crew, Store.open(Path(sys.argv[3]), write=True) as store:
    for update in play_event(event, store, crew):
        pass
"""


class Trouble:
    """A driver that plays on two nodes, and what happens to it."""

    def __init__(self, nodes: Any, folder: Path):
        self.nodes, self.store = nodes, folder / "arena.db"
        self.log = (folder / "driver.log").open("w")
        self.second = nodes.add_node(num_cpus=2)
        self.drive(100_000)

    def drive(self, games: int) -> None:
        command = [sys.executable, "-c", DRIVER, self.nodes.address, str(games), str(self.store)]
        self.driver = subprocess.Popen(command, env=environment(), stderr=self.log)

    def games(self) -> int:
        with suppress(StoreError), Store.open(self.store) as store:
            return store.count()
        return 0

    def wait_for(self, games: int) -> None:
        """Until so many more games are stored."""
        wanted, until = self.games() + games, monotonic() + 180
        while self.games() < wanted:
            assert monotonic() < until, "no more games are stored"
            assert self.driver.poll() is None, "the driver has ended"
            sleep(0.2)

    def kill_an_actor(self, random: Random) -> None:
        os.kill(random.choice(actors()), signal.SIGKILL)

    def kill_a_raylet(self, random: Random) -> None:
        self.nodes.remove_node(self.second, allow_graceful=False)
        self.second = self.nodes.add_node(num_cpus=2)

    def kill_the_driver(self, random: Random) -> None:
        self.driver.kill()
        self.driver.wait()
        self.drive(100_000)

    def stop_the_driver(self, random: Random) -> None:
        self.driver.send_signal(signal.SIGSTOP)
        sleep(STOP)
        self.driver.send_signal(signal.SIGCONT)


def actors() -> list[int]:
    """The processes that work for a driver on the nodes."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if path.read_text().startswith("ray::NodeActor"):
                found.append(int(path.parent.name))
    return found


@pytest.mark.slow
def test_faults_lose_no_game_play_none_twice_and_are_charged_to_nobody(nodes: Any, tmp_path: Path) -> None:
    """A driver that is killed at last leaves nothing on the nodes."""
    random, trouble = Random(24), Trouble(nodes, tmp_path)
    kinds = (trouble.kill_an_actor, trouble.kill_a_raylet, trouble.kill_the_driver, trouble.stop_the_driver)
    try:
        for number in range(FAULTS):
            trouble.wait_for(2)
            sleep(2 * random.random())
            fault = random.choice(kinds)
            print(f"{number + 1}. {fault.__name__} after {trouble.games()} games", flush=True)
            fault(random)
        trouble.wait_for(2)
        trouble.driver.kill()
        trouble.driver.wait()
        until = monotonic() + 30
        while actors():
            assert monotonic() < until, "actors are left"
            sleep(0.2)
        with Store.open(trouble.store) as store:
            most = max(int(game.id.rpartition("/")[2]) for game in store.games())
        trouble.drive(most)
        assert trouble.driver.wait(300) == 0
    finally:
        trouble.driver.kill()
        nodes.remove_node(trouble.second)
    with Store.open(trouble.store) as store:
        games = sorted(map(essence, store.games()))
    assert [game[3:] for game in games] == [game[3:] for game in played(ponderers(most, "GOOD"), tmp_path / "here")]
