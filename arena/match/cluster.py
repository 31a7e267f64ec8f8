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
import re
import signal
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, suppress
from dataclasses import dataclass, field, replace
from math import exp
from pathlib import Path
from socket import create_connection
from time import monotonic
from types import ModuleType
from typing import Any, Self

from arena import ConfigError, UserError, __version__, files
from arena.contract.adjudication import OFF, Adjudication
from arena.contract.code import SENT, code_of
from arena.contract.finding import Finding, Verdict
from arena.files import reason, scratch
from arena.go.game import Rules
from arena.go.record import GameRecord
from arena.match.check import family, probe
from arena.match.crew import Crew, Progress
from arena.match.schedule import Pairing
from arena.match.worker import CARDS, Snapshot
from arena.players.player import Player

LOCAL, AUTO = "local", "auto"
"""Addresses: of a cluster that is started here for as long as it is used, and of this machine's cluster."""

REPORT = 0.25
"""Seconds between two reports of a node while no game ends there."""

LOOK = 2.0
"""Seconds between two looks for nodes that came."""

AGAIN = 5.0
"""Seconds before a node is used again that was lost and is back."""

TRIES = 2
"""How often a node may fail to get ready."""

MAX_LOSSES = 5
"""How often in a row the same game may be lost with its node."""

PATIENCE = 30.0
"""Seconds for the cluster to answer, and for a node to get ready."""

SILENCE = 60.0
"""Seconds without a report after which a node is lost. Those in which this process was stopped don't count."""

CONNECT = 10.0
"""Seconds for an address to answer."""

AHEAD = 0.5
"""Seconds of games that a node is sent ahead."""

LATELY = 60.0
"""Seconds after which a game counts a third in a node's games per second."""

UNLOADED = "arena can't be loaded there"

TOKEN = "copy ~/.ray/auth_token from its first machine, and set RAY_AUTH_MODE=token"
"""What to do where a cluster asks for a token."""

PORT = 6379
"""The port that Ray listens on by default."""

GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""The beginning of HTTP/2, on which Ray is built: a line, and a frame of settings (RFC 9113, section 3.4). A server
that speaks it answers by such a frame; the fourth byte of a frame is its kind."""

# --- On a node ---


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
        if (version, _minor(python)) != (__version__, _minor(here)):
            return f"it has arena {__version__} on Python {here}, not arena {version} on Python {python}"
        for name, contents in shipped.items():
            if not (SENT / name).is_dir():
                with files.replacing(SENT / name, error=UserError) as aside:
                    aside.mkdir(parents=True)
                    for file, content in ray.get(contents).items():
                        (aside / file).parent.mkdir(parents=True, exist_ok=True)
                        (aside / file).write_bytes(content)
        reasons = (_why_not(player.moved(SENT), size) for player in ray.get(players[0]))
        return "; ".join(why for why in reasons if why)

    def check(self, player: Player, rules: Rules) -> list[Finding]:
        """What a check of a player finds here."""
        there = player.moved(SENT)
        own = replace(there, code=code_of(there.factory, there.config))  # that of this machine, to see whether it plays
        found = list(probe(own, rules))
        if found[-1].verdict is not Verdict.FAILED and (why := _code_difference(there)):
            found.append(Finding("code", Verdict.NOTE, why))
        return found

    def play(
        self, players: Mapping[str, Player], rules: Rules, adjudication: Adjudication, workers: int
    ) -> Iterator[Progress]:
        """Play the games that are added until the node is closed. Raises UserError when a bot can't be built."""
        players = {name: player.moved(SENT) for name, player in players.items()}
        cards = os.environ.get(CARDS, "").split(",") if any(player.gpus for player in players.values()) else []
        with Crew(players, rules, adjudication, workers, cards) as crew:
            reported = 0.0
            snapshots: dict[str, Snapshot] = {}
            while not self._is_closed:
                while self._inbox:
                    crew.add([self._inbox.popleft()])
                crew.pause(self._is_paused)
                progress = crew.poll(REPORT / 5)
                snapshots |= {snapshot.pairing.id: snapshot for snapshot in progress.snapshots}
                if progress.records or monotonic() - reported > REPORT:
                    yield replace(progress, snapshots=tuple(snapshots.values()))
                    snapshots.clear()
                    reported = monotonic()
            yield Progress(crew.stop())

    def add(self, pairings: Sequence[Pairing]) -> None:
        self._inbox.extend(pairings)

    def pause(self, is_paused: bool) -> None:
        self._is_paused = is_paused

    def close(self) -> None:
        self._is_closed = True


def _why_not(player: Player, size: int) -> str:
    """Why a player can't play on this machine; empty where it can, as far as can be told before it is built."""
    try:
        return _code_difference(player.checked(size))
    except UserError as error:
        return str(error)


def _code_difference(player: Player) -> str:
    """A line where this machine has another bot under the name; otherwise empty."""
    code = code_of(player.factory, player.config)
    same = not player.code or player.code.startswith(code)
    return "" if same else f"{player.name} isn't the same there (code {code}, not {player.code})"


# --- At the driver ---


@dataclass(eq=False)
class NodeHandle:
    """A node, as the driver has it. ``answer`` is awaited until it is ready."""

    id: str
    name: str
    slots: int
    actor: Any
    answer: Any
    is_ready: bool = False
    is_gone: bool = False
    gone_at: float = 0.0
    silent: float = 0.0  # seconds without an answer
    workers: int = 0
    rate: float = 0.0  # recent games per second
    counted: float = field(default_factory=monotonic)

    def count(self, games: int, is_paused: bool) -> None:
        """Note that games ended."""
        now = monotonic()
        if not is_paused:
            fading = exp((self.counted - now) / LATELY)
            self.rate = self.rate * fading + games / max(now - self.counted, 1e-3) * (1 - fading)
        self.counted = now

    def call(self, method: str, *arguments: Any) -> None:
        """Call a method of the actor, whose answer doesn't matter."""
        if not self.is_gone:
            getattr(self.actor, method).remote(*arguments)


@dataclass(eq=False, slots=True)
class Task:
    """What a node does, and the ``items`` that it hasn't finished, which return to the ``queue`` when it is lost."""

    node: NodeHandle
    queue: deque[Any]
    items: dict[Any, Any]


class Nodes:
    """The nodes of a Ray cluster that can build the players: those that come, those that go, and their tasks."""

    actor: type[Node] = Node

    def __init__(
        self, address: str, workers: int, players: Mapping[str, Player], rules: Rules, checks_only: bool = False
    ):
        """``address`` is HOST:PORT, ``auto`` for the cluster of this machine, or ``local`` for one that starts here.
        ``workers`` is the maximum number of workers; 0 for one on each core. A node that can't build one of the
        ``players`` isn't used; with ``checks_only`` nodes aren't prepared, and no cores are taken. Raises ConfigError
        where Ray isn't installed."""
        self.ray = _import_ray()
        self.tasks: dict[Any, Task] = {}  # by Ray's generator of its results
        self.losses: Counter[Any] = Counter()  # of items in a row, and of nodes to get ready
        self._address, self._workers, self._rules, self._checks_only = address, workers, rules, checks_only
        self._players = {name: player.packed() for name, player in players.items()}
        self._gpus = min(1.0, sum(player.gpus for player in players.values()))  # of a worker
        self._to_ship = {name: paths for player in players.values() for name, paths in player.files_to_ship().items()}
        self._references: tuple[list[Any], dict[str, Any]] | None = None  # to the players and files, in Ray's store
        self._handles: dict[str, NodeHandle] = {}  # by the ids of the nodes
        self._refused: dict[str, str] = {}  # node -> why
        self._there: set[str] = set()  # the nodes at the last look
        self._news: list[str] = []
        self._last_news = ""
        self._looked = self._waited = self._answered = 0.0
        self._earlier: set[int] = set()  # this process and its children before Ray's
        self._control = ""  # the address of Ray's control service

    def __enter__(self) -> Self:
        """Raises UserError where no cluster answers, or none of its nodes can be used."""
        is_own = self._address == LOCAL
        if not is_own and self._address != AUTO:
            _require_answer(self._address)  # Ray would try for minutes
        where: dict[str, Any] = {"address": self._address}
        if is_own:
            where |= {"num_cpus": self._workers or None, "include_dashboard": False}
        self._earlier = set(family(os.getpid()))
        started = monotonic()
        with chdir(scratch()), _handlers_kept(), _muted() as log:  # nothing of the current folder runs on the nodes
            try:
                self.ray.init(log_to_driver=False, logging_level=logging.CRITICAL, configure_logging=True, **where)
            except Exception as error:
                if b"AuthToken" in Path(log.name).read_bytes():
                    refusal = ConnectionError("it asks for a token")
                    raise UserError(_no_answer(self._address, refusal, started, TOKEN)) from error
                raise UserError(_no_answer(self._address, error, started)) from error
        self._control = str(self.ray.get_runtime_context().gcs_address)
        try:
            until = monotonic() + PATIENCE
            while not (self._handles and all(node.is_ready for node in self.present)) and monotonic() < until:
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
        own = set(family(os.getpid())) - self._earlier if self._address == LOCAL else set()
        with _handlers_kept():
            self.ray.shutdown()
        for process in own:  # Ray leaves some where one of its own was killed
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        self._handles.clear()

    @property
    def present(self) -> list[NodeHandle]:
        return [node for node in self._handles.values() if not node.is_gone]

    @property
    def most(self) -> int:
        """How many workers there may be at present."""
        slots = sum(node.slots for node in self.present)
        return min(self._workers, slots) if self._workers else slots

    def news(self) -> list[str]:
        """Lines about nodes for the user, each once."""
        news, self._news = self._news, []
        return news

    def start(self, node: NodeHandle, method: str, task: Task, *arguments: Any) -> None:
        """Have a node do a task by a method of its actor that yields results; ``wait`` returns them."""
        options = getattr(node.actor, method).options(num_returns="streaming", concurrency_group="work")
        self.tasks[options.remote(*arguments)] = task

    def wait(self, seconds: float) -> list[tuple[Task, Any]]:
        """The results that come within this time, as soon as there are some. Raises UserError where nodes are lost over
        the same items again and again."""
        waited, self._waited = min(1.0, monotonic() - self._waited), monotonic()  # a stop isn't the nodes' fault
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
            if one in answers:
                self._take_answer(answers[one])
            elif (task := self.tasks.get(one)) is not None:  # else its node was lost just now
                try:
                    found.append((task, self.ray.get(next(one), timeout=PATIENCE)))
                    task.node.silent = 0.0
                except StopIteration:
                    self._give_back(one)
                except Exception as error:  # Ray's errors share no base class
                    self._fail(task.node, error)
        for node in self.present:
            node.silent += waited * any(task.node is node for task in self.tasks.values())
            if node.silent > SILENCE:
                self._lose(node, f"no answer for {SILENCE:.0f} s")
        return found

    def _take_answer(self, node: NodeHandle) -> None:
        """Use a node that is ready."""
        try:
            why = self.ray.get(node.answer, timeout=PATIENCE)
        except Exception as error:
            self._fail(node, error)
        else:
            node.is_ready = True
            if all(other.is_ready for other in self.present):
                self._references = None  # what is in the store would be lost with a node, and Ray would say so
            if why:
                self._refuse(node, why)

    def _fail(self, node: NodeHandle, error: Exception) -> None:
        cause = getattr(error, "cause", None)
        why = str(cause) if isinstance(cause, UserError) else _why(error)
        if not node.is_ready:
            self.losses[node.id] += 1
        if isinstance(cause, UserError) or why.startswith(UNLOADED) or self.losses[node.id] >= TRIES:
            self._refuse(node, why)
        else:
            self._lose(node, why)

    def _say(self, line: str) -> None:
        if line != self._last_news:
            self._news.append(line)
            self._last_news = line

    def _refuse(self, node: NodeHandle, why: str) -> None:
        """Don't use the node in this event."""
        self._refuse_id(node.id, node.name, why)
        self._leave(node)

    def _refuse_id(self, id: str, name: str, why: str) -> None:
        self._refused[id] = f"{name}: {why}"
        self._say(f"{name} isn't used: {why}")

    def _lose(self, node: NodeHandle, why: str) -> None:
        """Do without the node's actor; if the node is there, another one may come. Raises UserError where nodes are
        lost over the same items again and again."""
        self._say(f"{node.name} was lost: {why}")
        lost = [item for task in self.tasks.values() if task.node is node for item in task.items]
        self._leave(node)
        self.losses.update(lost)
        if lost and max(self.losses[item] for item in lost) >= MAX_LOSSES:
            raise UserError(
                f"{MAX_LOSSES} nodes in a row were lost over the same games ({why}); check their memory and logs"
            )

    def _leave(self, node: NodeHandle) -> None:
        for stream, task in list(self.tasks.items()):
            if task.node is node:
                self._give_back(stream)
        node.is_gone, node.gone_at = True, monotonic()
        with suppress(Exception):
            self.ray.kill(node.actor)

    def _give_back(self, stream: Any) -> None:
        task = self.tasks.pop(stream)
        task.queue.extendleft(reversed(task.items.values()))

    def look(self) -> None:
        """Use the nodes that have come. Raises UserError where none that is there can be used."""
        if monotonic() - self._looked >= LOOK:
            self._looked = monotonic()
            if not self._has_control():
                return
            nodes = [node for node in self.ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]
            self._there = {node["NodeID"] for node in nodes}
            if not nodes and self._address == LOCAL:
                self._give_up("the Ray node that was started here has ended")
            for node in nodes:
                known = self._handles.get(node["NodeID"])
                is_back = known is not None and known.is_gone and monotonic() - known.gone_at > AGAIN
                if node["NodeID"] not in self._refused and (known is None or is_back):
                    self._start_actor(node)
        if self._there and self._there <= self._refused.keys() and not self._checks_only:
            first, *more = sorted({self._refused[node] for node in self._there})
            others = f"; and {len(more)} more like that" if len(more) > 1 else "".join(f"; {why}" for why in more)
            raise UserError(f"no node of the cluster can be used: {first}{others}")

    def _has_control(self) -> bool:
        """Whether Ray's control service answers now. Raises UserError where it is gone: Ray would wait for a minute and
        then end this process."""
        host, _, port = self._control.rpartition(":")
        try:
            create_connection((host.strip("[]"), int(port)), CONNECT).close()
        except OSError as error:
            if self._address == LOCAL or monotonic() - self._answered > PATIENCE:
                self._give_up(f"Ray's control service at {self._control} is gone ({reason(error)})")
            return False
        self._answered = monotonic()
        return True

    def _give_up(self, why: str) -> None:
        """Raise UserError. Nothing is asked of the nodes any more."""
        for node in self.present:
            node.is_gone = True
        self.tasks.clear()
        raise UserError(f"{why}; the same command plays the rest")

    def _start_actor(self, there: Mapping[str, Any]) -> None:
        """Start an actor on a node, with a worker for each core, and parts of GPUs where a worker takes one."""
        id, name = str(there["NodeID"]), str(there["NodeManagerHostname"])
        if any(node.name == name for node in self.present):
            name = f"{name} {id[:6]}"
        slots, cards = 0 if self._checks_only else int(there["Resources"]["CPU"]), 0
        if slots and self._gpus:
            slots = min(slots, int(there["Resources"].get("GPU", 0) // self._gpus))
            cards = math.ceil(slots * self._gpus)
            if not slots:
                player = next(player for player in self._players.values() if player.gpus)
                self._refuse_id(id, name, f"it has no GPU, and {player.name} takes {player.gpus:g} of one")
                return
        if self._references is None:
            shipped = {}
            for folder, (first, *more) in self._to_ship.items():
                contents = {str(path.relative_to(first.parent)): path.read_bytes() for path in (first, *more)}
                shipped[folder] = self.ray.put(contents)
            players = [] if self._checks_only else list(self._players.values())
            self._references = [self.ray.put(players)], shipped
        affinity = self.ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(id, soft=False)
        actor = self.ray.remote(concurrency_groups={"work": max(1, slots)})(self.actor)
        actor = actor.options(num_cpus=slots, num_gpus=cards, scheduling_strategy=affinity).remote()
        versions = __version__, platform.python_version()
        answer = actor.prepare.remote(*versions, self._rules.size, *self._references)
        self._handles[id] = NodeHandle(id, name, slots, actor, answer)

    def check(self, player: Player) -> Iterator[Finding]:
        """What each node finds about one of the players, a line each as they come."""
        for why in self._refused.values():
            name, _, words = why.partition(": ")
            yield Finding(name, Verdict.FAILED, words)
        asked = {node.actor.check.remote(player.packed(), self._rules): node for node in self.present if node.is_ready}
        for node in self.present:
            if not node.is_ready:
                yield Finding(node.name, Verdict.FAILED, f"no answer within {PATIENCE:.0f} s")
        while asked:
            (done, *_), _ = self.ray.wait(list(asked), num_returns=1)
            node = asked.pop(done)
            try:
                yield _summary(node.name, self.ray.get(done))
            except Exception as error:
                yield Finding(node.name, Verdict.FAILED, _why(error))


class Cluster(Nodes):
    """Crews on the nodes of a Ray cluster; see ``AnyCrew``."""

    def __init__(
        self,
        address: str,
        workers: int,
        players: Mapping[str, Player],
        rules: Rules,
        adjudication: Adjudication = OFF,
        checks_only: bool = False,
    ):
        """See ``Nodes``."""
        super().__init__(address, workers, players, rules, checks_only)
        self._adjudication = adjudication
        self._boards = min((player.bot_kind.boards for player in players.values()), default=1)
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
        if is_paused != self._is_paused:
            self._is_paused = is_paused
            for node in self.present:
                node.call("pause", is_paused)

    def finish(self) -> None:
        self._is_finishing = True

    def poll(self, seconds: float) -> Progress:
        self.look()
        self._start_crews()
        self._assign_games()
        results = self._wait_for_games(seconds)
        records = [record for progress in results for record in progress.records]
        snapshots = [snapshot for progress in results for snapshot in progress.snapshots]
        rates = {node.name: node.rate for node in self.present if node.is_ready}
        return Progress(records, snapshots, sum(node.workers for node in self.present), rates, self.news())

    def stop(self) -> list[GameRecord]:
        for node in self.present:
            node.call("close")
        records: list[GameRecord] = []
        until = monotonic() + 2 * REPORT + 5.0
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
            task.node.count(len(progress.records), self._is_paused)
            task.node.workers = progress.workers
        return [progress for _, progress in results]

    def _start_crews(self) -> None:
        playing = {task.node for task in self.tasks.values()}
        left = self._workers or sum(node.slots for node in self.present)
        for node in self.present:
            slots = min(node.slots, left)
            left -= slots
            if node.is_ready and node not in playing and slots and self._queue:
                node.slots = slots
                task = Task(node, self._queue, {})
                self.start(node, "play", task, self._players, self._rules, self._adjudication, slots)
                if self._is_paused:
                    node.call("pause", True)

    def _assign_games(self) -> None:
        """Keep every node supplied: with a game for each board, and with what it plays in the next moment."""
        slots = sum(task.node.slots for task in self.tasks.values())
        if self._is_finishing or not slots:
            return
        left = len(self._queue) + sum(len(task.items) for task in self.tasks.values())
        share = min(self._boards, -(-left // slots))
        for task in self.tasks.values():
            wanted = task.node.slots * share + math.ceil(task.node.rate * AHEAD) - len(task.items)
            if pairings := [self._queue.popleft() for _ in range(min(len(self._queue), wanted))]:
                task.items.update((pairing.id, pairing) for pairing in pairings)
                task.node.call("add", pairings)


def _summary(node: str, found: Sequence[Finding]) -> Finding:
    """What was found on a node, in a line: what has failed, or who has started and what else is to be known."""
    worst = found[-1]
    if worst.verdict is Verdict.FAILED:
        return Finding(node, worst.verdict, worst.text if worst.step == "start" else f"{worst.step}: {worst.text}")
    notes = [f"{step.step}: {step.text}" for step in found if step.verdict is Verdict.NOTE]
    return Finding(node, Verdict.NOTE if notes else Verdict.OK, "; ".join([found[0].text, *notes]))


def _why(error: Exception) -> str:
    """What an error says that came from a node, in a sentence."""
    cause = getattr(error, "cause", None)
    if missing := re.search(r"(?:ModuleNotFoundError|ImportError): (.*)", str(error)):
        return f"{UNLOADED}: {missing[1]}"
    return reason(cause) if isinstance(cause, Exception) else reason(error).partition(". ")[0]


def _minor(version: str) -> str:
    return version.rpartition(".")[0]


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


def _require_answer(address: str) -> None:
    """Raise UserError where nothing listens at HOST:PORT, or something else than Ray."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigError(f"--cluster {address}: give HOST:PORT, {AUTO} or {LOCAL}")
    started = monotonic()
    try:
        with create_connection((host, int(port)), CONNECT) as connection:
            connection.settimeout(CONNECT)
            connection.sendall(GREETING)
            if not os.environ.get("RAY_USE_TLS") and connection.recv(4)[3:] != GREETING[-6:-5]:
                raise ConnectionError(f"the server there isn't Ray; its port is usually {PORT}")
    except OSError as error:
        raise UserError(_no_answer(address, error, started)) from error


def _no_answer(address: str, error: Exception, started: float, hint: str = "start one with: ray start --head") -> str:
    """What is to be said of a cluster that doesn't answer."""
    why = reason(error).partition(". ")[0]
    return f"--cluster {address}: no Ray cluster answers ({why}, after {monotonic() - started:.0f} s); {hint}"


@contextmanager
def _muted() -> Iterator[Any]:
    """While inside, what is written to stderr goes into a file, which is given: Ray's own library writes there."""
    sys.stderr.flush()
    with tempfile.NamedTemporaryFile(dir=scratch()) as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield file
        finally:
            os.dup2(kept, 2)
            os.close(kept)


@contextmanager
def _handlers_kept() -> Iterator[None]:
    """Ray sets handlers of its own for signals that are ours."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
