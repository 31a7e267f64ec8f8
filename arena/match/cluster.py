"""A cluster: a crew on each node of a Ray cluster, and work of trainers shared among the nodes.

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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, suppress
from dataclasses import dataclass, field, replace
from math import exp
from pathlib import Path
from socket import create_connection
from threading import Lock
from time import monotonic
from types import ModuleType
from typing import Any, Self, TypeVar

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
from arena.match.worker import CARDS, Job, Snapshot
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
"""How often in a row the same work may be lost with its node before any of it is done."""

CHUNK = 1.0
"""Seconds for which work collects results before it sends them."""

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

Item = TypeVar("Item")
Result = TypeVar("Result")
Own = TypeVar("Own")

# --- On a node ---


class Stage:
    """What all the work of one kind on a node shares."""

    def __init__(self) -> None:
        self.is_over = False
        """Whether the work is to stop."""
        self.sent: Any = None
        """What was sent to the work last."""
        self._version = 0
        self._own: Any = None
        self._lock = Lock()

    def take(self, version: int, sent: Any) -> None:
        """Messages may pass each other: the highest version counts."""
        with self._lock:
            if version > self._version:
                self._version, self.sent = version, sent

    def once(self, make: Callable[[], Own]) -> Own:
        """What the first call made."""
        with self._lock:
            if self._own is None:
                self._own = make()
            own: Own = self._own
            return own


Work = Callable[[Sequence[Item], Stage], Iterator[tuple[Item | None, Result]]]
"""Turns items into results until its stage is over, and yields each with the item that it finishes, or None. A function
of a module, which the nodes import."""


class Node:
    """The actor of a node: it plays games with a crew, and does the work of trainers."""

    def __init__(self) -> None:
        self._inbox: deque[Pairing] = deque()
        self._is_paused = self._is_closed = False
        self._stages: dict[int, Stage] = {}
        self._lock = Lock()

    def hello(self, names: Collection[str]) -> tuple[str, str, list[str]]:
        """The versions of arena and Python, and which of the named files to ship aren't here."""
        return __version__, platform.python_version(), [name for name in names if not (SENT / name).is_dir()]

    def prepare(
        self, players: Collection[Player], size: int, names: Sequence[str], *shipped: Mapping[str, bytes]
    ) -> list[str]:
        """Keep the files of nets and bots, then check the players; returns why each that can't play here can't."""
        for name, contents in zip(names, shipped, strict=True):
            with files.replacing(SENT / name, error=UserError) as aside:
                aside.mkdir(parents=True)
                for file, content in contents.items():
                    (aside / file).parent.mkdir(parents=True, exist_ok=True)
                    (aside / file).write_bytes(content)
        return [why for entry in players if (why := _why_not(entry.moved(SENT), size))]

    def check(self, entry: Player, rules: Rules) -> list[Finding]:
        """What a check of a player finds here."""
        there = entry.moved(SENT)
        found = [step for step in probe(replace(there, code=""), rules) if isinstance(step, Finding)]
        if found[-1].verdict is not Verdict.FAILED and (why := _code_difference(there)):
            found.append(Finding("code", Verdict.NOTE, why))
        return found

    # Ray runs these in threads of their own while ``play`` goes on.

    def add(self, pairings: Sequence[Pairing]) -> None:
        self._inbox.extend(pairings)

    def pause(self, is_paused: bool) -> None:
        self._is_paused = is_paused

    def play(self, job: Job, workers: int) -> Iterator[Progress]:
        """Play the games that are added until the node is closed. Raises UserError when a bot can't be built."""
        players = {name: entry.moved(SENT) for name, entry in job.players.items()}
        cards = os.environ.get(CARDS, "").split(",") if any(entry.gpus for entry in players.values()) else []
        with Crew(replace(job, players=players), workers, cards) as crew:
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

    def work(
        self, work: Work[Any, Any], items: Sequence[Any], number: int, version: int, sent: Any
    ) -> Iterator[list[tuple[Any, Any]]]:
        """The results of items, in chunks."""
        stage = self._stage(number)
        stage.take(version, sent)
        chunk: list[tuple[Any, Any]] = []
        begun = monotonic()
        for made in work(items, stage):
            chunk.append(made)
            if monotonic() - begun > CHUNK:
                yield chunk
                chunk, begun = [], monotonic()
        yield chunk

    def take(self, number: int, version: int, sent: Any) -> None:
        """Keep what is sent to the work of a stage."""
        self._stage(number).take(version, sent)

    def rest(self, number: int) -> None:
        """Mark a stage as over, and forget those before."""
        self._stage(number).is_over = True
        with self._lock:
            self._stages = {later: stage for later, stage in self._stages.items() if later >= number}

    def _stage(self, number: int) -> Stage:
        with self._lock:
            return self._stages.setdefault(number, Stage())

    def close(self) -> None:
        self._is_closed = True
        for number in list(self._stages):
            self.rest(number)


def _why_not(entry: Player, size: int) -> str:
    """Why a player can't play on this machine; empty where it can, as far as can be told before it is built."""
    try:
        return _code_difference(entry.checked(size))
    except UserError as error:
        return str(error)


def _code_difference(entry: Player) -> str:
    """A line where this machine has another bot under the name; otherwise empty."""
    code = code_of(entry.factory, entry.config)
    same = not entry.code or entry.code.startswith(code)
    return "" if same else f"{entry.name} isn't the same there (code {code}, not {entry.code})"


# --- At the driver ---


@dataclass(eq=False)
class _Peer:
    """A node, as the driver has it: greeted, prepared, and then playing."""

    id: str
    name: str
    slots: int
    actor: Any
    pending: Any
    """What is waited for: the answer of ``hello`` or ``prepare``, then the stream of ``play``."""
    receive: Callable[[_Peer, Any], None]
    games: dict[str, Pairing] = field(default_factory=dict)
    is_ready: bool = False
    is_playing: bool = False
    is_gone: bool = False
    gone_at: float = 0.0
    silent: float = 0.0
    """Seconds without an answer."""
    rate: float = 0.0
    """Recent games per second."""
    counted: float = field(default_factory=monotonic)
    last: Progress = field(default_factory=Progress)


class Cluster:
    """The nodes of a Ray cluster; see ``Players``."""

    def __init__(
        self,
        address: str,
        workers: int,
        players: Mapping[str, Player],
        rules: Rules,
        adjudication: Adjudication = OFF,
        checks_only: bool = False,
    ):
        """``address`` is HOST:PORT, ``auto`` for the cluster of this machine, or ``local`` for one that starts here.
        ``workers`` is the maximum number of workers; 0 for one on each core. A node that can't build one of the
        ``players`` isn't used; with ``checks_only`` nodes aren't prepared, and no cores are taken. Raises ConfigError
        where Ray isn't installed."""
        self.ray = _import_ray()
        self.peers: dict[str, _Peer] = {}  # by the id of the node
        self._players = {name: entry.packed() for name, entry in players.items()}
        self._job = Job(self._players, rules, adjudication, 1)
        self._boards = min((entry.bot_kind.boards for entry in players.values()), default=1)
        self._checks_only = checks_only
        self._to_ship = {name: paths for entry in players.values() for name, paths in entry.files_to_ship().items()}
        self._shipped: dict[str, Any] = {}  # references in Ray's object store
        self._gpus = min(1.0, sum(entry.gpus for entry in players.values()))  # of a worker
        self._address, self._workers = address, workers
        self._refused: dict[str, str] = {}  # node -> why
        self._failures: Counter[str] = Counter()  # of nodes to get ready
        self._there: set[str] = set()  # the nodes at the last look
        self._news: list[str] = []
        self._last_news = ""
        self._looked = self._polled = 0.0
        self._stages = 0
        self._queue: deque[Pairing] = deque()
        self._losses: Counter[str] = Counter()  # of nodes that had this game
        self._is_paused = self._is_finishing = False
        self._earlier: set[int] = set()  # this process and its children before Ray's
        self._control = ""  # the address of Ray's control service
        self._answered = 0.0

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
            while not (self.peers and all(peer.is_ready for peer in self._present)) and monotonic() < until:
                self._look()
                self._wait(REPORT)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        own = set(family(os.getpid())) - self._earlier if self._address == LOCAL else set()
        with _handlers_kept():
            self.ray.shutdown()
        for process in own:  # Ray leaves some where one of its own was killed
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        self.peers.clear()

    @property
    def _present(self) -> list[_Peer]:
        return [peer for peer in self.peers.values() if not peer.is_gone]

    @property
    def nodes(self) -> list[str]:
        """The names of the nodes that are in use."""
        return [peer.name for peer in self._present if peer.is_ready]

    @property
    def most(self) -> int:
        """How many workers there may be at present."""
        slots = sum(peer.slots for peer in self._present)
        return min(self._workers, slots) if self._workers else slots

    # --- Games ---

    def add(self, pairings: Iterable[Pairing]) -> None:
        self._queue.extend(pairings)

    @property
    def is_busy(self) -> bool:
        return bool(not self._is_finishing and self._queue) or any(peer.games for peer in self._present)

    def pause(self, is_paused: bool) -> None:
        if is_paused != self._is_paused:
            self._is_paused = is_paused
            for peer in self._present:
                self._tell(peer, "pause", is_paused)

    def finish(self) -> None:
        self._is_finishing = True

    def poll(self, seconds: float) -> Progress:
        self._look()
        self._start_playing()
        self._send_games()
        self._wait(seconds)
        peers = list(self.peers.values())
        records = [record for peer in peers for record in peer.last.records]
        snapshots = [snapshot for peer in peers for snapshot in peer.last.snapshots]
        for peer in peers:
            peer.last = replace(peer.last, records=(), snapshots=())
        workers = sum(peer.last.workers for peer in self._present)
        rates = {peer.name: peer.rate for peer in self._present if peer.is_ready}
        return Progress(records, snapshots, workers, rates, self.news())

    def news(self) -> list[str]:
        """Lines about nodes for the user, each once."""
        news, self._news = self._news, []
        return news

    def stop(self) -> list[GameRecord]:
        """Close every node and take what it had finished."""
        for peer in self._present:
            self._tell(peer, "close")
        until = monotonic() + 2 * REPORT + 5.0
        while any(peer.is_playing for peer in self._present) and monotonic() < until:
            self._wait(REPORT)
        records = [record for peer in self.peers.values() for record in peer.last.records]
        for peer in self._present:
            self._leave(peer)
        return records

    def _start_playing(self) -> None:
        workers = self._workers
        for peer in self._present:
            slots = min(peer.slots, workers) if self._workers else peer.slots
            workers -= slots
            if peer.is_ready and not peer.is_playing and slots and self._queue:
                method = peer.actor.play.options(num_returns="streaming", concurrency_group="work")
                peer.slots, peer.pending, peer.receive = slots, method.remote(self._job, slots), self._played
                peer.is_playing = True
                if self._is_paused:
                    self._tell(peer, "pause", True)

    def _send_games(self) -> None:
        """Keep every node supplied: with a game for each board, and with what it plays in the next moment."""
        players = [peer for peer in self._present if peer.is_playing]
        slots = sum(peer.slots for peer in players)
        if self._is_finishing or not slots:
            return
        left = len(self._queue) + sum(len(peer.games) for peer in players)
        share = min(self._boards, -(-left // slots))
        for peer in players:
            wanted = peer.slots * share + math.ceil(peer.rate * AHEAD) - len(peer.games)
            if pairings := [self._queue.popleft() for _ in range(min(len(self._queue), wanted))]:
                peer.games.update((pairing.id, pairing) for pairing in pairings)
                self._tell(peer, "add", pairings)

    def _played(self, peer: _Peer, progress: Progress) -> None:
        for record in progress.records:
            peer.games.pop(record.id, None)
            self._losses.pop(record.id, None)
        now = monotonic()
        if not self._is_paused:
            fading = exp((peer.counted - now) / LATELY)
            peer.rate = peer.rate * fading + len(progress.records) / max(now - peer.counted, 1e-3) * (1 - fading)
        peer.counted = now
        peer.last = replace(
            progress,
            records=(*peer.last.records, *progress.records),
            snapshots=(*peer.last.snapshots, *progress.snapshots),
        )

    # --- Nodes ---

    def _wait(self, seconds: float, others: Collection[Any] = ()) -> None:
        """Take what the nodes send, or return when one of ``others`` that Ray waits for is ready."""
        waited, self._polled = min(1.0, monotonic() - self._polled), monotonic()  # a stop isn't the nodes' fault
        pending = {peer.pending: peer for peer in self._present if peer.pending is not None}
        if not pending and not others:
            time.sleep(seconds)
            return
        done, _ = self.ray.wait([*pending, *others], num_returns=1, timeout=seconds)
        if done and pending:
            done, _ = self.ray.wait(list(pending), num_returns=len(pending), timeout=0)
        for one in done:
            if one in pending:
                self._receive(pending[one])
        for peer in self._present:
            peer.silent += waited * (peer.pending is not None)
            if peer.is_ready and peer.silent > SILENCE:
                self._lose(peer, f"no answer for {SILENCE:.0f} s")

    def _receive(self, peer: _Peer) -> None:
        """Take the answer that a node has sent."""
        peer.silent = 0.0
        try:
            answer = self.ray.get(next(peer.pending) if peer.is_playing else peer.pending, timeout=PATIENCE)
            peer.receive(peer, answer)
        except StopIteration:
            peer.pending, peer.is_playing = None, False
        except Exception as error:  # Ray's errors share no base class
            if isinstance(cause := getattr(error, "cause", None), UserError):
                self._refuse(peer, str(cause))
            elif peer.is_ready:
                self._lose(peer, _why(error))
            else:
                self._failures[peer.id] += 1
                is_hopeless = self._failures[peer.id] >= TRIES or _why(error).startswith(UNLOADED)
                (self._refuse if is_hopeless else self._lose)(peer, _why(error))

    def _greeted(self, peer: _Peer, answer: tuple[str, str, list[str]]) -> None:
        version, python, missing = answer
        if (version, _minor(python)) != (__version__, _minor(platform.python_version())):
            mine = f"arena {__version__} on Python {platform.python_version()}"
            self._refuse(peer, f"it has arena {version} on Python {python}, not {mine}")
            return
        players = [] if self._checks_only else list(self._players.values())
        for name in missing:
            if name not in self._shipped:
                first, *_ = paths = self._to_ship[name]
                contents = {str(path.relative_to(first.parent)): path.read_bytes() for path in paths}
                self._shipped[name] = self.ray.put(contents)
        shipped = [self._shipped[name] for name in missing]
        peer.pending = peer.actor.prepare.remote(players, self._job.rules.size, missing, *shipped)
        peer.receive = self._prepared

    def _prepared(self, peer: _Peer, missing: list[str]) -> None:
        if missing:
            self._refuse(peer, "; ".join(missing))
        else:
            peer.is_ready, peer.pending = True, None

    def _tell(self, peer: _Peer, method: str, *arguments: Any) -> None:
        """Call a method of the node's actor, whose answer doesn't matter."""
        if not peer.is_gone:
            getattr(peer.actor, method).remote(*arguments)

    def _say(self, line: str) -> None:
        if line != self._last_news:
            self._news.append(line)
            self._last_news = line

    def _refuse(self, peer: _Peer, why: str) -> None:
        """Don't use the node in this event."""
        self._refuse_node(peer.id, peer.name, why)
        self._leave(peer)

    def _refuse_node(self, node: str, name: str, why: str) -> None:
        if node not in self._refused:
            self._refused[node] = f"{name}: {why}"
            self._say(f"{name} isn't used: {why}")

    def _lose(self, peer: _Peer, why: str) -> None:
        """Do without the node's actor; if the node is there, another one may come. Raises UserError where nodes are
        lost over the same games again and again."""
        if not peer.is_gone:
            self._say(f"{peer.name} was lost: {why}")
            self._losses.update(list(peer.games))
            lost = peer.games
            self._leave(peer)
            self._require_progress(lost, why)

    def _require_progress(self, items: Collection[Any], why: str) -> None:
        if items and max(self._losses[item] for item in items) >= MAX_LOSSES:
            raise UserError(
                f"{MAX_LOSSES} nodes in a row were lost over the same games ({why}); check their memory and logs"
            )

    def _leave(self, peer: _Peer) -> None:
        self._queue.extendleft(reversed(peer.games.values()))
        peer.games = {}
        peer.is_gone, peer.is_playing, peer.gone_at, peer.pending = True, False, monotonic(), None
        with suppress(Exception):
            self.ray.kill(peer.actor)

    def _look(self) -> None:
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
                known = self.peers.get(node["NodeID"])
                is_back = known is not None and known.is_gone and monotonic() - known.gone_at > AGAIN
                if node["NodeID"] not in self._refused and (known is None or is_back):
                    self._greet(node)
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
        for peer in self.peers.values():
            peer.is_gone = True
        raise UserError(f"{why}; the same command plays the rest")

    def _greet(self, node: Mapping[str, Any]) -> None:
        """Start an actor on a node, with a worker for each core, and parts of GPUs where a worker takes one."""
        id, name = str(node["NodeID"]), str(node["NodeManagerHostname"])
        if any(peer.name == name for peer in self._present):
            name = f"{name} {id[:6]}"
        slots, cards = int(node["Resources"]["CPU"]), 0
        if self._checks_only:
            slots = 0
        elif self._gpus:
            slots = min(slots, int(node["Resources"].get("GPU", 0) // self._gpus))
            cards = math.ceil(slots * self._gpus)
            if not slots:
                asking = next(name for name, entry in self._players.items() if entry.gpus)
                why = f"it has no GPU, and {asking} takes {self._players[asking].gpus:g} of one"
                self._refuse_node(id, name, why)
                return
        affinity = self.ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(id, soft=False)
        actor = self.ray.remote(concurrency_groups={"work": max(1, slots)})(Node)
        actor = actor.options(num_cpus=slots, num_gpus=cards, scheduling_strategy=affinity).remote()
        self.peers[id] = _Peer(id, name, slots, actor, actor.hello.remote(list(self._to_ship)), self._greeted)

    # --- Work of trainers ---

    def share(
        self,
        work: Work[Item, Result],
        items: deque[Item],
        most: int,
        goes_on: Callable[[], bool],
        sent: Callable[[], Any] = lambda: None,
    ) -> Iterator[list[Result]]:
        """The results of ``items``, which are taken from the left, up to ``most`` for a core at once: now and then a
        list of new ones, which may be empty. All work is sent what ``sent`` returns, again when that is another object.

        The unfinished items of a lost node are put back. Once ``goes_on`` is false, the results of those under way are
        yielded, too. Raises UserError where no node can be used, where the work fails on each of them, or where it
        takes its node down again and again."""
        shared = _SharedWork(self, items)
        while goes_on() and (items or shared.under_way):
            self._look()
            shared.send(sent())
            for peer in self._present:
                while peer.is_ready and items and shared.running(peer) < peer.slots and shared.running() < self.most:
                    shared.start(peer, work, [items.popleft() for _ in range(min(most, len(items)))])
            self._wait(REPORT, shared.under_way)
            yield shared.results()
        for peer in self._present:
            self._tell(peer, "rest", shared.number)
        until = monotonic() + PATIENCE
        while shared.under_way and monotonic() < until:
            yield shared.results(REPORT)

    def check(self, entry: Player) -> Iterator[Finding]:
        """What each node finds about one of the players, a line each as they come."""
        for why in self._refused.values():
            name, _, words = why.partition(": ")
            yield Finding(name, Verdict.FAILED, words)
        rules = self._job.rules
        asked = {peer.actor.check.remote(entry.packed(), rules): peer for peer in self._present if peer.is_ready}
        for peer in self._present:
            if not peer.is_ready:
                yield Finding(peer.name, Verdict.FAILED, f"no answer within {PATIENCE:.0f} s")
        while asked:
            (done, *_), _ = self.ray.wait(list(asked), num_returns=1)
            peer = asked.pop(done)
            try:
                yield _summary(peer.name, self.ray.get(done))
            except Exception as error:
                yield Finding(peer.name, Verdict.FAILED, _why(error))


class _SharedWork:
    """Work that is shared among the nodes."""

    def __init__(self, cluster: Cluster, items: deque[Any]):
        self.under_way: dict[Any, tuple[_Peer, dict[Any, None]]] = {}
        """By Ray's generator of chunks: the node, and the items that aren't finished yet, in their order."""
        self._cluster, self._items = cluster, items
        cluster._stages += 1
        self.number = cluster._stages
        self._version = 0
        self._sent: Any = None
        self._put: Any = None

    def running(self, peer: _Peer | None = None) -> int:
        """How many cores work, on one node or in all."""
        return sum(peer is None or one is peer for one, _ in self.under_way.values())

    def send(self, sent: Any) -> None:
        """Broadcast an object, through the cluster's store, unless it was the last."""
        if sent is not self._sent:
            self._sent, self._put = sent, self._cluster.ray.put(sent)
            self._version += 1
            for peer in {peer.id: peer for peer, _ in self.under_way.values()}.values():
                self._cluster._tell(peer, "take", self.number, self._version, self._put)

    def start(self, peer: _Peer, work: Work[Any, Any], taken: list[Any]) -> None:
        method = peer.actor.work.options(concurrency_group="work", num_returns="streaming")
        self.under_way[method.remote(work, taken, self.number, self._version, self._put)] = peer, dict.fromkeys(taken)

    def results(self, seconds: float = 0.0) -> list[Any]:
        """What has come, after a wait of at most this many seconds."""
        if not self.under_way:
            return []
        done, _ = self._cluster.ray.wait(list(self.under_way), num_returns=len(self.under_way), timeout=0)
        if not done and seconds:
            done, _ = self._cluster.ray.wait(list(self.under_way), num_returns=1, timeout=seconds)
        return [result for one in done for result in self._next_chunk(one)]

    def _next_chunk(self, chunks: Any) -> Iterator[Any]:
        cluster, (peer, left) = self._cluster, self.under_way[chunks]
        try:
            chunk = cluster.ray.get(next(chunks))
        except StopIteration:
            self._give_back(chunks)
        except Exception as error:
            self._give_back(chunks)
            why, is_raised = _why(error), isinstance(getattr(error, "cause", None), Exception)
            if is_raised or why.startswith(UNLOADED):
                cluster._refuse(peer, why)
            else:
                cluster._lose(peer, why)
                cluster._losses.update(list(left))
                cluster._require_progress(left, why)
        else:
            if chunk:
                for item in left:
                    cluster._losses.pop(item, None)
            for item, result in chunk:
                left.pop(item, None)
                yield result

    def _give_back(self, chunks: Any) -> None:
        self._items.extendleft(reversed(self.under_way.pop(chunks)[1]))


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
