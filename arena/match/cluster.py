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
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import chdir, suppress
from dataclasses import dataclass, field
from functools import cached_property
from socket import create_connection
from time import monotonic
from types import ModuleType
from typing import Any, Self

from arena import ConfigError, UserError, __version__, files
from arena.contract.adjudication import OFF, Adjudication
from arena.contract.code import SENT, code_of
from arena.files import reason, scratch
from arena.go.game import Rules
from arena.go.record import GameRecord
from arena.match.crew import Crew, Progress, signals_later
from arena.match.schedule import Pairing
from arena.match.worker import CARDS
from arena.players.player import Player

AUTO = "auto"  # the address of this machine's cluster
REPORT = 0.25  # seconds between two reports of a node while no game ends there
LOOK = 5.0  # seconds between two looks for nodes that came, and before a node is used again that was lost and is back
PATIENCE = 30.0  # seconds for the cluster to answer, and for a node to get ready
CONNECT = 10.0  # seconds for an address to answer
AHEAD = 0.5  # seconds of games that a node is sent ahead
TRIES = 2  # how often a node may fail to get ready
MAX_LOSSES = 5  # how often in a row the same game may be lost with its node


class Node:
    """The actor of a node, which plays games with a crew. Ray runs other methods in a thread beside ``play``."""

    def __init__(self) -> None:
        self._inbox: deque[Pairing] = deque()
        self._is_paused = self._is_closed = False

    def prepare(self, version: str, python: str, size: int, players: list[Any], shipped: Mapping[str, Any]) -> str:
        """Keep the files of nets and bots that aren't here, and check the players; returns why this node can't be used,
        if it can't. ``players`` and ``shipped`` are references, which only the same version can read."""
        import ray

        here = platform.python_version()
        if (version, python.rpartition(".")[0]) != (__version__, here.rpartition(".")[0]):
            return f"it has arena {__version__} on Python {here}, not arena {version} on Python {python}"
        for name, contents in shipped.items():
            if not (SENT / name).is_dir():
                with files.replacing(SENT / name, error=UserError) as aside:
                    for file, content in ray.get(contents).items():
                        (aside / file).parent.mkdir(parents=True, exist_ok=True)
                        (aside / file).write_bytes(content)
        for player in ray.get(players[0]):
            player = player.moved(SENT)
            try:
                code = code_of(player.factory, player.config)
                player.checked(size)
            except UserError as error:
                return str(error)
            if player.code and not player.code.startswith(code):
                return f"{player.name} isn't the same there (code {code}, not {player.code})"
        return ""

    def play(
        self, players: Mapping[str, Player], rules: Rules, adjudication: Adjudication, workers: int
    ) -> Iterator[Progress]:
        """Play the games that are added until the node is closed. Raises UserError when a bot can't be built."""
        players = {name: player.moved(SENT) for name, player in players.items()}
        cards = os.environ.get(CARDS, "").split(",") if any(player.gpus for player in players.values()) else []
        with Crew(players, rules, adjudication, workers, cards) as crew:
            while not self._is_closed:
                while self._inbox:
                    crew.add([self._inbox.popleft()])
                crew.pause(self._is_paused)
                yield crew.poll(REPORT)
            yield Progress(crew.stop())

    def add(self, pairings: Sequence[Pairing]) -> None:
        self._inbox.extend(pairings)

    def pause(self, is_paused: bool) -> None:
        self._is_paused = is_paused

    def close(self) -> None:
        self._is_closed = True


@dataclass(eq=False)
class NodeHandle:
    """A node, as the driver has it. ``answer`` is awaited until it is ready."""

    id: str
    name: str
    slots: int
    actor: Any
    answer: Any
    is_ready: bool = False
    workers: int = 0
    games: int = 0
    started: float = field(default_factory=monotonic)

    @property
    def rate(self) -> float:
        """Games per second."""
        return self.games / max(monotonic() - self.started, 1.0)


@dataclass(eq=False, slots=True)
class Task:
    """What a node does, and the ``items`` that it hasn't finished, which return to the ``queue`` when it is lost."""

    node: NodeHandle
    queue: deque[Any]
    items: dict[Any, Any]


class Nodes:
    """The nodes of a Ray cluster that can build the players: those that come, those that go, and their tasks."""

    actor: type[Node] = Node

    def __init__(self, address: str, workers: int, players: Mapping[str, Player], rules: Rules):
        """``address`` is HOST:PORT, or ``auto`` for the cluster of this machine.
        ``workers`` is the maximum number of workers; 0 for one on each core. A node that can't build one of the
        ``players`` isn't used. Raises ConfigError where Ray isn't installed."""
        self.ray = _import_ray()
        self.tasks: dict[Any, Task] = {}  # by Ray's generator of its results
        self.losses: Counter[Any] = Counter()  # of items in a row, and of nodes to get ready
        self._address, self._workers, self._rules = address, workers, rules
        self._players = {name: player.packed() for name, player in players.items()}
        self._gpus = min(1.0, sum(player.gpus for player in players.values()))  # of a worker
        self._to_ship = {name: paths for player in players.values() for name, paths in player.files_to_ship().items()}
        self._handles: dict[str, NodeHandle] = {}  # by the ids of the nodes
        self._refused: dict[str, str] = {}  # node -> why
        self._news: list[str] = []
        self._there: set[str] = set()  # the nodes at the last look
        self._looked = -math.inf

    def __enter__(self) -> Self:
        """Raises UserError where no cluster answers, or none of its nodes can be used."""
        host, _, port = self._address.rpartition(":")
        if self._address != AUTO and not (host and port.isdigit()):
            raise ConfigError(f"--cluster {self._address}: give HOST:PORT or {AUTO}")
        try:
            if host:
                create_connection((host.strip("[]"), int(port)), CONNECT).close()  # Ray would try for minutes
            with chdir(scratch()), signals_later():  # nothing of the current folder runs on the nodes
                self.ray.init(self._address, log_to_driver=False, logging_level=logging.CRITICAL)
        except Exception as error:  # Ray's errors share no base class
            why = reason(error).partition(". ")[0]
            raise UserError(
                f"--cluster {self._address}: no Ray cluster answers ({why}); start one with: ray start --head"
            ) from error
        try:
            until = monotonic() + PATIENCE
            while not (self.present and all(node.is_ready for node in self.present)) and monotonic() < until:
                self.look()
                self.wait(REPORT)
            self.look()  # whether any of them can be used
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.present:
            self._leave(node)
        with signals_later():  # Ray sets handlers of its own
            self.ray.shutdown()

    @property
    def present(self) -> list[NodeHandle]:
        return list(self._handles.values())

    @property
    def most(self) -> int:
        """How many workers there may be at present."""
        slots = sum(node.slots for node in self.present)
        return min(self._workers, slots) if self._workers else slots

    def news(self) -> list[str]:
        """Lines about nodes for the user, each once."""
        news, self._news = self._news, []
        return news

    def start(self, method: str, task: Task, *arguments: Any) -> None:
        """Have a node do a task by a method of its actor that yields results; ``wait`` returns them."""
        options = getattr(task.node.actor, method).options(num_returns="streaming", concurrency_group="work")
        self.tasks[options.remote(*arguments)] = task

    def wait(self, seconds: float) -> list[tuple[Task, Any]]:
        """The results that come within this time, as soon as there are some. Raises UserError where nodes are lost over
        the same items again and again."""
        answers = {node.answer: node for node in self.present if not node.is_ready}
        pending = [*answers, *self.tasks]
        if not pending:
            time.sleep(seconds)
            return []
        done, _ = self.ray.wait(pending, num_returns=1, timeout=seconds)
        if done:
            done, _ = self.ray.wait(pending, num_returns=len(pending), timeout=0)
        found = []
        for one in done:
            task = self.tasks.get(one)
            node = task.node if task is not None else answers.get(one)
            if node is None:
                continue  # it was lost just now
            try:
                if task is not None:
                    found.append((task, self.ray.get(next(one), timeout=PATIENCE)))
                elif why := self.ray.get(one, timeout=PATIENCE):
                    self._drop(node, why, is_refused=True)
                else:
                    node.is_ready = True
            except StopIteration:
                self._give_back(one)
            except Exception as error:  # Ray's errors share no base class
                cause = getattr(error, "cause", None)
                why = reason(cause) if isinstance(cause, Exception) else reason(error).partition(". ")[0]
                self.losses[node.id] += not node.is_ready
                self._drop(node, why, is_refused=isinstance(cause, UserError) or self.losses[node.id] >= TRIES)
        return found

    def _drop(self, node: NodeHandle, why: str, *, is_refused: bool) -> None:
        """Do without a node in this whole event, or until its next actor is ready. Raises UserError where nodes are
        lost over the same items again and again."""
        self._news.append(f"{node.name} " + ("isn't used" if is_refused else "was lost") + f": {why}")
        if is_refused:
            self._refused[node.id] = f"{node.name}: {why}"
        lost = self._leave(node)
        self.losses.update(lost)
        if lost and max(self.losses[item] for item in lost) >= MAX_LOSSES:
            raise UserError(
                f"{MAX_LOSSES} nodes in a row were lost over the same games ({why}); check their memory and logs"
            )

    def _leave(self, node: NodeHandle) -> list[Any]:
        """End the node's actor; returns the items that go back to their queues."""
        lost = [item for stream in [*self.tasks] if self.tasks[stream].node is node for item in self._give_back(stream)]
        self._handles.pop(node.id, None)
        self._looked = monotonic()
        with suppress(Exception):
            self.ray.kill(node.actor)
        return lost

    def _give_back(self, stream: Any) -> list[Any]:
        """The items of a task that has ended, which go back to its queue."""
        task = self.tasks.pop(stream)
        task.queue.extendleft(reversed(task.items.values()))
        return list(task.items)

    def look(self) -> None:
        """Use the nodes that have come. Raises UserError where none that is there can be used."""
        if monotonic() - self._looked > LOOK:
            self._looked = monotonic()
            nodes = [node for node in self.ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]
            self._there = {str(node["NodeID"]) for node in nodes}
            for node in nodes:
                if node["NodeID"] not in self._refused and node["NodeID"] not in self._handles:
                    self._start_actor(node)
        if self._there and self._there <= self._refused.keys():
            reasons = dict.fromkeys(self._refused[id] for id in sorted(self._there))
            raise UserError(f"no node of the cluster can be used: {'; '.join(reasons)}")

    @cached_property
    def _references(self) -> tuple[list[Any], dict[str, Any]]:
        """The players and the files that travel, in Ray's store."""
        shipped = {}
        for folder, (first, *more) in self._to_ship.items():
            contents = {str(path.relative_to(first.parent)): path.read_bytes() for path in (first, *more)}
            shipped[folder] = self.ray.put(contents)
        return [self.ray.put(list(self._players.values()))], shipped

    def _start_actor(self, there: Mapping[str, Any]) -> None:
        """Start an actor on a node, with a worker for each core, and parts of GPUs where a worker takes one."""
        id, name = str(there["NodeID"]), str(there["NodeManagerHostname"])
        if any(node.name == name for node in self.present):
            name = f"{name} {id[:6]}"
        slots, cards = int(there["Resources"]["CPU"]), 0
        if self._gpus:
            slots = min(slots, int(there["Resources"].get("GPU", 0) // self._gpus))
            cards = math.ceil(slots * self._gpus)
            if not slots:
                player = next(player for player in self._players.values() if player.gpus)
                why = f"it has no GPU, and {player.name} takes {player.gpus:g} of one"
                self._drop(NodeHandle(id, name, 0, None, None), why, is_refused=True)
                return
        affinity = self.ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(id, soft=False)
        actor = self.ray.remote(concurrency_groups={"work": slots})(self.actor)
        actor = actor.options(num_cpus=slots, num_gpus=cards, scheduling_strategy=affinity).remote()
        versions = __version__, platform.python_version()
        answer = actor.prepare.remote(*versions, self._rules.size, *self._references)
        self._handles[id] = NodeHandle(id, name, slots, actor, answer)


class Cluster(Nodes):
    """Crews on the nodes of a Ray cluster. Its methods do what those of a ``Crew`` do."""

    def __init__(
        self, address: str, workers: int, players: Mapping[str, Player], rules: Rules, adjudication: Adjudication = OFF
    ):
        """See ``Nodes``."""
        super().__init__(address, workers, players, rules)
        self._adjudication = adjudication
        self._boards = min(player.bot_kind.boards for player in players.values())
        self._queue: deque[Pairing] = deque()
        self._is_paused = self._is_finishing = False

    def __exit__(self, *_: object) -> None:
        self.stop()
        super().__exit__()

    def add(self, pairings: Iterable[Pairing]) -> None:
        self._queue.extend(pairings)

    @property
    def is_busy(self) -> bool:
        return bool(not self._is_finishing and self._queue) or any(task.items for task in self.tasks.values())

    def pause(self, is_paused: bool) -> None:
        self._is_paused = is_paused
        for node in self.present:
            node.actor.pause.remote(is_paused)

    def finish(self) -> None:
        self._is_finishing = True

    def poll(self, seconds: float) -> Progress:
        self.look()
        self._assign_games()
        results = self._wait_for_games(seconds)
        records = [record for progress in results for record in progress.records]
        snapshots = [snapshot for progress in results for snapshot in progress.snapshots]
        rates = {node.name: node.rate for node in self.present if node.is_ready}
        return Progress(records, snapshots, sum(node.workers for node in self.present), rates, self.news())

    def stop(self) -> list[GameRecord]:
        for node in self.present:
            node.actor.close.remote()
        records: list[GameRecord] = []
        until = monotonic() + 5.0
        while self.tasks and monotonic() < until:
            with suppress(UserError):  # nodes are lost again and again
                records += [record for progress in self._wait_for_games(REPORT) for record in progress.records]
        for node in self.present:
            self._leave(node)
        return records

    def _wait_for_games(self, seconds: float) -> list[Progress]:
        results = self.wait(seconds)
        for task, progress in results:
            for record in progress.records:
                task.items.pop(record.id, None)
                self.losses.pop(record.id, None)
            task.node.games += len(progress.records)
            task.node.workers = progress.workers
        return [progress for _, progress in results]

    def _assign_games(self) -> None:
        """Start the crews of nodes that are ready, and keep every node supplied: with a game for each board, and with
        what it plays in the next moment."""
        playing = {task.node for task in self.tasks.values()}
        left = self._workers or sum(node.slots for node in self.present)
        for node in self.present:
            slots = min(node.slots, left)
            left -= slots
            if node.is_ready and node not in playing and slots and self._queue:
                node.slots = slots
                task = Task(node, self._queue, {})
                self.start("play", task, self._players, self._rules, self._adjudication, slots)
                node.actor.pause.remote(self._is_paused)
        left = len(self._queue) + sum(len(task.items) for task in self.tasks.values())
        share = min(self._boards, -(-left // max(1, sum(task.node.slots for task in self.tasks.values()))))
        for task in self.tasks.values() if not self._is_finishing else ():
            wanted = task.node.slots * share + math.ceil(task.node.rate * AHEAD) - len(task.items)
            if pairings := [self._queue.popleft() for _ in range(min(len(self._queue), wanted))]:
                task.items.update((pairing.id, pairing) for pairing in pairings)
                task.node.actor.add.remote(pairings)


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
