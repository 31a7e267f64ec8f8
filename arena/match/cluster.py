"""A cluster: a crew on each node of a Ray cluster.

On each node one actor owns a ``Crew`` and streams back what it plays, so a bot's death is judged as on one machine. A
node that is lost gives its unfinished games to others, which continue them from what it last reported. Nodes that join
are used. Nets, and bots in one file, are copied to the nodes. Needs ``pip install 'arena[cluster]'``.
"""

import logging
import math
import os
import platform
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import chdir, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from socket import create_connection
from time import monotonic, sleep
from types import ModuleType
from typing import Any, Self

from arena import ConfigError, UserError, __version__, files
from arena.contract.code import SENT, code_of
from arena.files import reason, scratch
from arena.go.game import Rules
from arena.go.record import GameRecord
from arena.match.crew import Crew, Update, boards_of, delay_signals
from arena.match.journal import Assignment, Journals, Players, continued
from arena.match.schedule import Pairing, Terms
from arena.match.worker import CARDS, BoardSnapshot

AUTO = "auto"  # the address of this machine's cluster
REPORT = 0.25  # seconds between two reports of a node while no game ends there
LOOK = 5.0  # seconds between two searches for new nodes, and before a lost node is used again
NODE_ANSWER_SECONDS = 30.0  # seconds for the cluster to answer, and for a node to get ready
CONNECT = 10.0  # seconds for an address to answer
LEAVE = 5.0  # seconds for nodes to send their last games
KEEP = 1.0  # seconds between two times when the games under way are written down here
AHEAD = 0.5  # seconds of games that a node is sent ahead
TRIES = 2  # how often a node may fail to get ready
MAX_LOSSES = 5  # how often in a row the same game may be lost with its node


class NodeActor:
    """The actor on a node, which plays games with a crew. Ray runs ``control`` in a thread beside ``play``."""

    def __init__(self) -> None:
        self._inbox: deque[Assignment] = deque()
        self._is_paused = self._is_closed = False

    def prepare(self, software: str, size: int, players: list[Any], shipped: dict[str, Any]) -> Iterator[None]:
        """Store the files of nets and bots that are missing here, and check the players. ``players`` and ``shipped``
        are references, which only the same ``software`` can read. Raises UserError when this node can't be used."""
        import ray

        here = f"arena {__version__} on Python {platform.python_version()}"
        if here.rpartition(".")[0] != software.rpartition(".")[0]:  # the last number of Python's may differ
            raise UserError(f"it has {here}, not {software}")
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
            if not player.has_code(code):
                raise UserError(f"{player.name} isn't the same there (code {code}, not {player.code})")
        yield None  # a stream without results has no end

    def play(self, players: Players, terms: Terms, workers: int) -> Iterator[Update]:
        """Play the games that arrive until the node is closed. Raises UserError when a bot can't be built."""
        players = {name: player.unpack(SENT) for name, player in players.items()}
        cards = os.environ.get(CARDS, "").split(",") if any(player.gpus for player in players.values()) else []
        reported = monotonic()
        with Crew(players, terms, workers, cards) as crew:
            while not self._is_closed:
                while self._inbox:
                    crew.resume(self._inbox.popleft())
                crew.pause(self._is_paused)
                update = crew.poll(REPORT)
                if monotonic() - reported > REPORT:
                    reported, update = monotonic(), replace(update, games=crew.games())
                yield update
            games = crew.games()
            yield Update(crew.stop(), games=games)

    def control(self, games: Sequence[Assignment], is_paused: bool, is_closed: bool = False) -> None:
        self._inbox.extend(games)
        self._is_paused, self._is_closed = is_paused, is_closed


@dataclass(eq=False)
class Node:
    """A node, as the driver sees it: at most ``slots`` workers, and the ``items`` it is working on, by their keys."""

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


class NodePool:
    """The nodes of a Ray cluster, and their work. The unfinished items of a lost node return to the ``queue``."""

    actor: type[NodeActor] = NodeActor
    interrupted: Callable[[Any], Any] = staticmethod(lambda item: item)  # an item of a lost node, as another gets it

    def __init__(self, address: str, workers: int, players: Players, rules: Rules):
        """``address`` is HOST:PORT, or ``auto`` for the cluster of this machine. ``workers`` is the maximum number of
        workers (0: one for each core). Raises ConfigError where Ray isn't installed."""
        self.ray = _import_ray()
        self.queue: deque[Any] = deque()
        self.nodes: dict[str, Node] = {}  # by their ids
        self.tasks: dict[Any, Node] = {}  # by Ray's generators of their results
        self.news: list[str] = []  # lines about nodes for the user, which the reader removes
        self._losses: Counter[Any] = Counter()  # of items in a row, and of nodes to get ready
        self._address, self._workers, self._rules = address, workers, rules
        self._players = {name: player.pack() for name, player in players.items()}
        self._to_ship = {name: paths for player in players.values() for name, paths in player.files_to_ship().items()}
        self._refused: dict[str, str] = {}  # node -> why
        self._failed: list[tuple[Node, Exception]] = []  # since the last ``look``
        self._looked = -math.inf

    def __enter__(self) -> Self:
        """Raises UserError where no cluster answers, or none of its nodes can be used."""
        try:
            if self._address != AUTO:
                host, _, port = self._address.rpartition(":")
                if not (host and port.isdecimal()):
                    raise ValueError("it is not HOST:PORT")
                create_connection((host.strip("[]"), int(port)), CONNECT).close()  # Ray would try for minutes
            with chdir(scratch()), delay_signals():  # nothing of the current folder runs on the nodes
                self.ray.init(self._address, log_to_driver=False, logging_level=logging.CRITICAL)
        except Exception as error:  # Ray's errors share no base class
            why = reason(error).partition(". ")[0]
            hint = f"give HOST:PORT or {AUTO}; start one with: ray start --head"
            raise UserError(f"--cluster {self._address}: no Ray cluster answers ({why}); {hint}") from error
        try:
            shipped = {
                name: self.ray.put({str(path.relative_to(paths[0].parent)): path.read_bytes() for path in paths})
                for name, paths in self._to_ship.items()
            }
            self._references = [self.ray.put([*self._players.values()])], shipped
            until = monotonic() + NODE_ANSWER_SECONDS
            while not (self.nodes and all(node.is_ready for node in self.nodes.values())) and monotonic() < until:
                self.look()
                self.wait(REPORT)
            self.look()  # whether any of them can be used
            if not any(node.is_ready for node in self.nodes.values()):
                self.news.append("no node of the cluster is ready yet; waiting for one")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with delay_signals():  # Ray sets handlers of its own
            self.ray.shutdown()  # which ends the actors

    @property
    def most(self) -> int:
        """How many workers there may be at present."""
        slots = sum(node.slots for node in self.nodes.values())
        return min(self._workers, slots) if self._workers else slots

    def start(self, method: str, node: Node, *arguments: Any) -> None:
        """Call a method of a node's actor that yields results; ``wait`` returns them."""
        options = getattr(node.actor, method).options(num_returns="streaming", concurrency_group="work")
        self.tasks[options.remote(*arguments)] = node

    def wait(self, seconds: float) -> list[tuple[Node, Any]]:
        """The results that come within this time, as soon as there are some."""
        streams, found = list(self.tasks), []
        if not streams:
            sleep(seconds)
        elif self.ray.wait(streams, num_returns=1, timeout=seconds)[0]:
            streams, _ = self.ray.wait(streams, num_returns=len(streams), timeout=0)
        else:
            return []
        for stream in streams:
            node = self.tasks[stream]
            try:
                result = self.ray.get(next(stream), timeout=NODE_ANSWER_SECONDS)
                if result is not None:
                    found.append((node, result))
                    continue
                node.is_ready = True  # that was ``prepare``
            except StopIteration:
                pass
            except Exception as error:  # Ray's errors share no base class
                self._failed.append((node, error))
            del self.tasks[stream]
        return found

    def note_finished(self, node: Node, key: Any) -> None:
        node.items.pop(key, None)
        self._losses.pop(key, None)

    def look(self) -> None:
        """Drop failed nodes; use new ones. Raises UserError if none can be used or one item fails node after node."""
        failed, self._failed = self._failed, []  # only now: what came with the failure is no longer among their items
        for lost, error in failed:
            if self.nodes.get(lost.id) is lost:
                cause = getattr(error, "cause", None)
                why = reason(cause) if isinstance(cause, Exception) else reason(error).partition(". ")[0]
                self._losses[lost.id] += not lost.is_ready
                self._drop(lost, why, is_refused=isinstance(cause, UserError) or self._losses[lost.id] >= TRIES)
        if monotonic() - self._looked > LOOK:
            self._looked = monotonic()
            self._there = [node for node in self.ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]
            for node in self._there:
                if node["NodeID"] not in self._refused.keys() | self.nodes.keys():
                    self._start_actor(node)
        refused = {node["NodeID"]: self._refused.get(node["NodeID"]) for node in self._there}
        if refused and all(refused.values()):
            raise UserError(f"no node of the cluster can be used: {'; '.join(sorted(set(map(str, refused.values()))))}")

    def _drop(self, node: Node, why: str, *, is_refused: bool) -> None:
        """Give up a node: for this whole event, or until its next actor is ready."""
        self.news.append(f"{node.name} " + ("isn't used" if is_refused else "was lost") + f": {why}")
        if is_refused:
            self._refused[node.id] = f"{node.name}: {why}"
        self.queue.extendleft(map(self.interrupted, reversed(node.items.values())))
        self.tasks = {stream: other for stream, other in self.tasks.items() if other is not node}
        del self.nodes[node.id]
        self._looked = monotonic()
        with suppress(Exception):
            self.ray.kill(node.actor)
        self._losses.update(node.items.keys())
        if any(self._losses[key] >= MAX_LOSSES for key in node.items):
            raise UserError(f"{MAX_LOSSES} nodes in a row were lost over the same game ({why}); check their memory")

    def _start_actor(self, there: Mapping[str, Any]) -> None:
        """Start an actor on a node, with a worker for each core, and GPUs where a worker needs a part of one."""
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
        software = f"arena {__version__} on Python {platform.python_version()}"
        self.start("prepare", node, software, self._rules.size, *self._references)


class Cluster(NodePool):
    """Crews on the nodes of a Ray cluster, with the methods of a ``Crew``."""

    interrupted = staticmethod(continued)

    def __init__(self, address: str, workers: int, players: Players, terms: Terms, journals: Path | None = None):
        super().__init__(address, workers, players, terms.rules)
        self._terms, self._boards = terms, boards_of(players)
        self._is_paused = self._is_finishing = False
        self._journals = Journals(journals or scratch() / "journals", players, terms.rules)
        self._kept = -math.inf  # when the games under way were written down

    def add(self, pairings: Iterable[Pairing], had_begun: Callable[[Pairing], bool] = lambda _: False) -> None:
        if self._kept < 0:
            self._journals.load()
            self._kept = monotonic()
        self.queue.extend(self._journals.assignment(pairing, had_begun(pairing)) for pairing in pairings)
        self.news += self._journals.news
        self._journals.news.clear()

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
        records, snapshots = list[Any](), list[BoardSnapshot]()
        for node, update in self.wait(seconds):
            records += self._note(node, update)
            snapshots += update.snapshots
            node.games += len(update.records)
            node.workers = update.workers
        if monotonic() - self._kept > KEEP:
            self._keep_games()
        news, self.news = self.news, []
        rates = {node.name: node.rate for node in self.nodes.values() if node.is_ready}
        return Update(records, snapshots, sum(node.workers for node in self.nodes.values()), rates, news)

    def stop(self) -> list[GameRecord]:
        for node in self.nodes.values():
            node.actor.control.remote((), is_paused=False, is_closed=True)
        records, until = list[Any](), monotonic() + LEAVE
        while self.tasks and monotonic() < until:
            records += [record for node, update in self.wait(REPORT) for record in self._note(node, update)]
        self.tasks = {}
        self._keep_games()
        return records

    def _note(self, node: Node, update: Update) -> Sequence[Any]:
        """Note how the games of a node stand; returns those that are over."""
        for game in update.games:
            if before := node.items.get(game.pairing.id):  # else it is over
                node.items[game.pairing.id] = game
                if len(game.played) > len(before.played):
                    self._losses.pop(game.pairing.id, None)  # it goes on, whatever ends its nodes
        for record in update.records:
            if record.id in node.items:
                self._journals.forget(node.items[record.id].pairing)
            self.note_finished(node, record.id)
        return update.records

    def _keep_games(self) -> None:
        if games := [game for node in self.nodes.values() for game in node.items.values() if game.played]:
            self._journals.keep(games)
        self._kept = monotonic()

    def _assign_games(self) -> None:
        """Start crews on ready nodes; send each a game for every board, and games for the next ``AHEAD`` seconds."""
        playing = {node for node in self.tasks.values() if node.is_ready}
        left = self.most - sum(node.slots for node in playing)
        for node in self.nodes.values():
            if node.is_ready and node not in playing and left > 0 and self.queue:
                node.slots = min(node.slots, left)
                left -= node.slots
                self.start("play", node, self._players, self._terms, node.slots)
                playing.add(node)
        left = len(self.queue) + sum(len(node.items) for node in playing)
        share = min(self._boards, -(-left // max(1, sum(node.slots for node in playing))))
        for node in playing:
            wanted = node.slots * share + math.ceil(node.rate * AHEAD) - len(node.items)
            if games := [self.queue.popleft() for _ in range(min(len(self.queue), wanted))]:
                node.items.update((game.pairing.id, game) for game in games)
                node.actor.control.remote(games, self._is_paused)


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
