"""A cluster: a crew on each node of a Ray cluster.

On each node one actor owns a ``Crew`` and streams back what it plays, so a bot's death is judged as on one machine. A
node that is lost gives its unfinished games to others, and nodes that come are used. Nets and bots of one file travel
by their content. Needs ``pip install 'arena[cluster]'``.
"""

from __future__ import annotations

import logging
import math
import os
import platform
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import chdir, suppress
from dataclasses import dataclass, field
from socket import create_connection
from time import monotonic, sleep
from types import ModuleType
from typing import Any, Self

from arena import ConfigError, UserError, __version__, files
from arena.contract.adjudication import OFF, Adjudication
from arena.contract.code import SENT, code_of
from arena.files import reason, scratch
from arena.go.game import Rules
from arena.go.record import GameRecord
from arena.match.crew import Crew, Update, signals_later
from arena.match.schedule import Pairing
from arena.match.worker import CARDS, Snapshot
from arena.players.player import Player

AUTO = "auto"  # the address of this machine's cluster
REPORT = 0.25  # seconds between two reports of a node while no game ends there
LOOK = 5.0  # seconds between two looks for nodes that came, and before a node is used again that was lost and is back
PATIENCE = 30.0  # seconds for the cluster to answer, and for a node to get ready
CONNECT = 10.0  # seconds for an address to answer
LEAVE = 5.0  # seconds for nodes to send their last games
AHEAD = 0.5  # seconds of games that a node is sent ahead
TRIES = 2  # how often a node may fail to get ready
MAX_LOSSES = 5  # how often in a row the same game may be lost with its node


class NodeActor:
    """The actor on a node, which plays games with a crew. Ray runs ``control`` in a thread beside ``play``."""

    def __init__(self) -> None:
        self._inbox: deque[Pairing] = deque()
        self._is_paused = self._is_closed = False

    def prepare(
        self, version: str, python: str, size: int, players: list[Any], shipped: dict[str, Any]
    ) -> Iterator[None]:
        """Keep the files of nets and bots that aren't here, and check the players. ``players`` and ``shipped`` are
        references, which only the same version can read. Raises UserError when this node can't be used."""
        import ray

        here = platform.python_version()
        if (version, python.rpartition(".")[0]) != (__version__, here.rpartition(".")[0]):
            raise UserError(f"it has arena {__version__} on Python {here}, not arena {version} on Python {python}")
        for name, contents in shipped.items():
            if not (SENT / name).is_dir():
                with files.replacing(SENT / name, error=UserError) as aside:
                    for file, content in ray.get(contents).items():
                        (aside / file).parent.mkdir(parents=True, exist_ok=True)
                        (aside / file).write_bytes(content)
        for player in ray.get(players[0]):
            player = player.unpack(SENT)
            code = code_of(player.factory, player.config)
            player.checked(size)
            if player.code and not player.code.startswith(code):
                raise UserError(f"{player.name} isn't the same there (code {code}, not {player.code})")
        yield None  # a stream without results has no end

    def play(
        self, players: Mapping[str, Player], rules: Rules, adjudication: Adjudication, workers: int
    ) -> Iterator[Update]:
        """Play the games that come until the node is closed. Raises UserError when a bot can't be built."""
        players = {name: player.unpack(SENT) for name, player in players.items()}
        cards = os.environ.get(CARDS, "").split(",") if any(player.gpus for player in players.values()) else []
        with Crew(players, rules, adjudication, workers, cards) as crew:
            while not self._is_closed:
                while self._inbox:
                    crew.add([self._inbox.popleft()])
                crew.pause(self._is_paused)
                yield crew.poll(REPORT)
            yield Update(crew.stop())

    def control(self, pairings: Sequence[Pairing], is_paused: bool, is_closed: bool = False) -> None:
        """Add games; pause or go on; close."""
        self._inbox.extend(pairings)
        self._is_paused, self._is_closed = is_paused, is_closed


@dataclass(eq=False)
class Node:
    """A node, as the driver has it: ``slots`` workers at most, and by their keys the ``items`` it is working on."""

    id: str
    name: str
    slots: int
    actor: Any = None
    is_ready: bool = False
    items: dict[Any, Any] = field(default_factory=dict)
    workers: int = 0
    games: int = 0
    started: float = field(default_factory=monotonic)

    @property
    def rate(self) -> float:
        """Games per second."""
        return self.games / max(monotonic() - self.started, 1.0)


class Nodes:
    """The nodes of a Ray cluster that can build the players, those that come and those that go, and what they work on.
    What a node that is lost hasn't finished returns to the ``queue``."""

    actor: type[NodeActor] = NodeActor

    def __init__(self, address: str, workers: int, players: Mapping[str, Player], rules: Rules):
        """``address`` is HOST:PORT, or ``auto`` for the cluster of this machine. ``workers`` is the maximum number of
        workers; 0 for one on each core. A node that can't build one of the ``players`` isn't used. Raises ConfigError
        where Ray isn't installed."""
        self.ray = _import_ray()
        self.queue: deque[Any] = deque()
        self.nodes: dict[str, Node] = {}  # by their ids
        self.tasks: dict[Any, Node] = {}  # Ray's generator of results -> who makes them
        self.news: list[str] = []  # lines about nodes for the user, which the reader removes
        self._losses: Counter[Any] = Counter()  # of items in a row, and of nodes to get ready
        self._address, self._workers, self._rules = address, workers, rules
        self._players = {name: player.pack() for name, player in players.items()}
        self._to_ship = {name: paths for player in players.values() for name, paths in player.files_to_ship().items()}
        self._refused: dict[str, str] = {}  # node -> why
        self._looked = -math.inf

    def __enter__(self) -> Self:
        """Raises UserError where no cluster answers, or none of its nodes can be used."""
        try:
            if self._address != AUTO:
                host, _, port = self._address.rpartition(":")
                create_connection((host.strip("[]"), int(port)), CONNECT).close()  # Ray would try for minutes
            with chdir(scratch()), signals_later():  # nothing of the current folder runs on the nodes
                self.ray.init(self._address, log_to_driver=False, logging_level=logging.CRITICAL)
        except Exception as error:  # Ray's errors share no base class
            why = reason(error).partition(". ")[0]
            hint = f"give HOST:PORT or {AUTO}; one is started with: ray start --head"
            raise UserError(f"--cluster {self._address}: no Ray cluster answers ({why}); {hint}") from error
        try:
            shipped = {
                name: self.ray.put({str(path.relative_to(paths[0].parent)): path.read_bytes() for path in paths})
                for name, paths in self._to_ship.items()
            }
            self._references = [self.ray.put([*self._players.values()])], shipped
            until = monotonic() + PATIENCE
            while not (self.nodes and all(node.is_ready for node in self.nodes.values())) and monotonic() < until:
                self.look()
                self.wait(REPORT)
            self.look()  # whether any of them can be used
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with signals_later():  # Ray sets handlers of its own
            self.ray.shutdown()  # which ends the actors

    @property
    def most(self) -> int:
        """How many workers there may be at present."""
        slots = sum(node.slots for node in self.nodes.values())
        return min(self._workers, slots) if self._workers else slots

    def start(self, method: str, node: Node, *arguments: Any) -> None:
        """Have a node do a method of its actor that yields results; ``wait`` returns them."""
        options = getattr(node.actor, method).options(num_returns="streaming", concurrency_group="work")
        self.tasks[options.remote(*arguments)] = node

    def wait(self, seconds: float) -> list[tuple[Node, Any]]:
        """The results that come within this time, as soon as there are some. Raises UserError where nodes are lost over
        the same item again and again."""
        streams, found = list(self.tasks), []
        if not streams:
            sleep(seconds)
        elif self.ray.wait(streams, num_returns=1, timeout=seconds)[0]:
            streams, _ = self.ray.wait(streams, num_returns=len(streams), timeout=0)
        else:
            return []
        for stream in streams:
            if (node := self.tasks.get(stream)) is None:
                continue  # it was lost just now
            try:
                result = self.ray.get(next(stream), timeout=PATIENCE)
                if result is None:  # of ``prepare``
                    node.is_ready = True
                    del self.tasks[stream]
                else:
                    found.append((node, result))
            except StopIteration:
                del self.tasks[stream]
            except Exception as error:  # Ray's errors share no base class
                cause = getattr(error, "cause", None)
                why = reason(cause) if isinstance(cause, Exception) else reason(error).partition(". ")[0]
                self._losses[node.id] += not node.is_ready
                self._drop(node, why, is_refused=isinstance(cause, UserError) or self._losses[node.id] >= TRIES)
        return found

    def note_finished(self, node: Node, key: Any) -> None:
        """An item is finished."""
        node.items.pop(key, None)
        self._losses.pop(key, None)

    def _drop(self, node: Node, why: str, *, is_refused: bool) -> None:
        """Do without a node in this whole event, or until its next actor is ready. Raises UserError where nodes are
        lost over the same item again and again."""
        self.news.append(f"{node.name} " + ("isn't used" if is_refused else "was lost") + f": {why}")
        if is_refused:
            self._refused[node.id] = f"{node.name}: {why}"
        self.queue.extendleft(reversed(node.items.values()))
        self.tasks = {stream: other for stream, other in self.tasks.items() if other is not node}
        del self.nodes[node.id]
        self._looked = monotonic()
        with suppress(Exception):
            self.ray.kill(node.actor)
        self._losses.update(node.items.keys())
        if any(self._losses[key] >= MAX_LOSSES for key in node.items):
            raise UserError(
                f"{MAX_LOSSES} nodes in a row were lost over the same game ({why}); check their memory and logs"
            )

    def look(self) -> None:
        """Use the nodes that have come. Raises UserError where none that is there can be used."""
        if monotonic() - self._looked > LOOK:
            self._looked = monotonic()
            self._there = [node for node in self.ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]
            for node in self._there:
                if node["NodeID"] not in self._refused.keys() | self.nodes.keys():
                    self._start_actor(node)
        refused = {node["NodeID"]: self._refused.get(node["NodeID"]) for node in self._there}
        if refused and all(refused.values()):
            raise UserError(f"no node of the cluster can be used: {'; '.join(sorted(set(map(str, refused.values()))))}")

    def _start_actor(self, there: Mapping[str, Any]) -> None:
        """Start an actor on a node, with a worker for each core, and parts of GPUs where a worker takes one."""
        id, name, resources = there["NodeID"], there["NodeManagerHostname"], there["Resources"]
        if any(node.name == name for node in self.nodes.values()):
            name = f"{name} {id[:6]}"
        node = self.nodes[id] = Node(id, name, int(resources["CPU"]))
        if gpus := min(1.0, sum(player.gpus for player in self._players.values())):  # of a worker
            node.slots = min(node.slots, int(resources.get("GPU", 0) // gpus))
        if not node.slots:
            takers = " and ".join(name for name, player in self._players.items() if player.gpus)
            self._drop(node, f"it has no GPU, and {takers} asks for {gpus:g} of one", is_refused=True)
            return
        affinity = self.ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(id, soft=False)
        options = {"num_cpus": node.slots, "num_gpus": math.ceil(node.slots * gpus), "scheduling_strategy": affinity}
        node.actor = self.ray.remote(concurrency_groups={"work": node.slots})(self.actor).options(**options).remote()
        versions = __version__, platform.python_version()
        self.start("prepare", node, *versions, self._rules.size, *self._references)


class Cluster(Nodes):
    """Crews on the nodes of a Ray cluster. Its methods do what those of a ``Crew`` do."""

    def __init__(
        self, address: str, workers: int, players: Mapping[str, Player], rules: Rules, adjudication: Adjudication = OFF
    ):
        super().__init__(address, workers, players, rules)
        self._adjudication = adjudication
        self._boards = min(player.bot_kind.boards for player in players.values())
        self._is_paused = self._is_finishing = False

    def add(self, pairings: Iterable[Pairing]) -> None:
        self.queue.extend(pairings)

    @property
    def is_busy(self) -> bool:
        return bool(not self._is_finishing and self.queue) or any(node.items for node in self.nodes.values())

    def pause(self, is_paused: bool) -> None:
        if is_paused != self._is_paused:
            self._is_paused = is_paused
            for node in self.nodes.values():
                node.actor.control.remote((), is_paused)

    def finish(self) -> None:
        self._is_finishing = True

    def poll(self, seconds: float) -> Update:
        self.look()
        if not self._is_finishing:
            self._assign_games()
        records: list[Any] = []
        snapshots: list[Snapshot] = []
        for node, update in self.wait(seconds):
            for record in update.records:
                self.note_finished(node, record.id)
            records += update.records
            snapshots += update.snapshots
            node.games += len(update.records)
            node.workers = update.workers
        news, self.news = self.news, []
        rates = {node.name: node.rate for node in self.nodes.values() if node.is_ready}
        return Update(records, snapshots, sum(node.workers for node in self.nodes.values()), rates, news)

    def stop(self) -> list[GameRecord]:
        for node in self.nodes.values():
            node.actor.control.remote((), is_paused=False, is_closed=True)
        records: list[Any] = []
        until = monotonic() + LEAVE
        while self.tasks and monotonic() < until:
            with suppress(UserError):  # nodes are lost again and again
                records += [record for _, update in self.wait(REPORT) for record in update.records]
        self.tasks = {}
        return records

    def _assign_games(self) -> None:
        """Start the crews of nodes that are ready, and keep every node supplied: with a game for each board, and with
        what it plays in the next moment."""
        left, playing = self.most, set(self.tasks.values())
        for node in self.nodes.values():
            slots = min(node.slots, left)
            left -= slots
            if node.is_ready and node not in playing and slots and self.queue:
                node.slots = slots
                self.start("play", node, self._players, self._rules, self._adjudication, slots)
                playing.add(node)
        nodes = [node for node in playing if node.is_ready]
        games = len(self.queue) + sum(len(node.items) for node in nodes)
        share = min(self._boards, -(-games // max(1, sum(node.slots for node in nodes))))
        for node in nodes:
            wanted = node.slots * share + math.ceil(node.rate * AHEAD) - len(node.items)
            if pairings := [self.queue.popleft() for _ in range(min(len(self.queue), wanted))]:
                node.items.update((pairing.id, pairing) for pairing in pairings)
                node.actor.control.remote(pairings, self._is_paused)


def _import_ray() -> ModuleType:
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else it warns
    try:
        import ray
        import ray._private.worker
        import ray.util.scheduling_strategies
    except ImportError as error:
        raise ConfigError("--cluster needs Ray: pip install 'arena[cluster]'") from error
    ray._private.worker._worker_logs_enabled = False  # else the last lines of a lost node's log are on the screen
    return ray
