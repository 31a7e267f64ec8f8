"""Hands on the machines of a Ray cluster: on each of its nodes an actor starts workers as a runner does on its own
machine, and passes on what they are sent and send. Nets travel by their content.

The runner plans, decides and writes as always. A node that is gone takes its workers along, which is no bot's fault;
nodes that come are used. Needs ``pip install 'arena[cluster]'``.
"""

from __future__ import annotations

import logging
import os
import platform
import signal
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from socket import create_connection, gethostname
from threading import Lock
from time import monotonic
from types import ModuleType
from typing import Any, Self

from arena import ConfigError, UserError, __version__, files
from arena.contract.code import SENT
from arena.events.hands import Hand, Local, NotLaunched, State
from arena.events.pairing import Pairing
from arena.events.worker import Job
from arena.files import reason, scratch
from arena.players.registry import Entry

LOCAL, AUTO = "local", "auto"
"""The addresses of a cluster that is started here, for as long as it is used, and of that of this machine."""

REPORT = 0.5
"""Seconds that a node may be silent while nothing happens there."""

LOOK = 2.0
"""Seconds between two looks for nodes that came."""

PATIENCE = 30.0
"""Seconds for the cluster to answer, and for a node to make itself ready."""

CONNECT = 10.0
"""Seconds for an address to answer."""

LOST = State(alive=False, lost=True)

# --- On a node ---


class Node:
    """What runs on a node: it starts workers there, and tells of them when it is asked. Each worker has a number."""

    def __init__(self) -> None:
        self._local = Local(0).__enter__()
        self._hands: dict[int, Hand] = {}
        self._failed: dict[int, UserError] = {}
        self._lock = Lock()  # reports come from another thread

    def hello(self) -> tuple[str, str, str]:
        """The machine's name, and the versions of arena and Python."""
        return gethostname(), __version__, platform.python_version()

    def lacks(self, names: Collection[str]) -> list[str]:
        """Which of these aren't here."""
        return [name for name in names if not (SENT / name).is_dir()]

    def keep(self, name: str, contents: Mapping[str, bytes]) -> None:
        """Keep the files of a net, or the one of a bot."""
        with files.replacing(SENT / name, error=UserError) as aside:
            aside.mkdir(parents=True)
            for file, content in contents.items():
                (aside / file).write_bytes(content)

    def hire(self, number: int, job: Job) -> None:
        """What goes wrong is in the next report."""
        try:
            hand = self._local.hire(
                replace(job, players={name: entry.moved(SENT) for name, entry in job.players.items()})
            )
        except (OSError, NotLaunched) as error:
            self._failed[number] = UserError(f"a worker can't be started: {reason(error)}")
            return
        with self._lock:
            self._hands[number] = hand

    def send(self, number: int, message: Pairing | str | None) -> None:
        if number in self._hands:
            self._hands[number].send(message)

    def stop(self, number: int) -> None:
        if number in self._hands:
            self._hands[number].stop()

    def end(self, number: int, seconds: float) -> tuple[list[Any], State, str]:
        """End a worker: what it has sent since the last report, how it ended, and its last words."""
        with self._lock:
            hand = self._hands.pop(number, None)
        if hand is None:
            return [], LOST, ""
        hand.end(seconds)
        last = list(hand.take()), hand.state(), hand.last_words()
        hand.close()
        return last

    def report(self) -> list[tuple[int, list[Any], State]]:
        """What the workers have sent since the last report, as soon as there is something, and how they are."""
        with suppress(OSError, ValueError):  # one has just been closed
            self._local.wait(list(self._hands.values()), REPORT)
        with self._lock:
            told = [(number, list(hand.take()), hand.state()) for number, hand in self._hands.items()]
        failed, self._failed = self._failed, {}
        return [*told, *((number, [error], State(alive=False)) for number, error in failed.items())]

    def close(self) -> None:
        for number in list(self._hands):
            self.end(number, 0.0)
        self._local.__exit__()


# --- At the runner's ---


@dataclass(eq=False)
class _Remote:
    """A worker on a node."""

    number: int
    on: _Place
    inbox: deque[Any] = field(default_factory=deque)
    told: State = field(default_factory=State)
    words: str = ""
    is_ready: bool = False

    @property
    def place(self) -> str:
        return self.on.name

    def state(self) -> State:
        return LOST if self.on.is_gone else self.told

    def send(self, message: Pairing | str | None) -> None:
        self.on.order("send", self.number, message)

    def take(self) -> Iterator[Any]:
        while self.inbox:
            message = self.inbox.popleft()
            if not isinstance(message, UserError):
                self.is_ready = True
                yield message
            elif not self.on.refuse(str(message)):
                raise type(message)(f"{message} (on {self.place})")

    def stop(self) -> None:
        self.on.order("stop", self.number)

    def end(self, seconds: float) -> None:
        self.on.end(self, seconds)

    def last_words(self) -> str:
        return self.words

    def close(self) -> None:
        self.on.hands.pop(self.number, None)


class _Place:
    """A node of the cluster, as the runner has it."""

    def __init__(self, cluster: Cluster, node: Mapping[str, Any]):
        self.name = str(node["NodeManagerHostname"])
        self.slots = int(node["Resources"].get("CPU", 0))
        self.hands: dict[int, _Remote] = {}
        self.is_gone = self.is_here = False
        self.sent: set[str] = set()
        self._cluster, self._ray = cluster, cluster.ray
        affinity = cluster.ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        actor = cluster.ray.remote(concurrency_groups={"reports": 1})(Node)
        self.actor = actor.options(num_cpus=self.slots, scheduling_strategy=affinity).remote()
        self.pending = self.actor.hello.remote()

    @property
    def has_room(self) -> bool:
        """Of the first worker's kernels the others have the cache."""
        ready = sum(hand.is_ready for hand in self.hands.values())
        return self.is_here and not self.is_gone and len(self.hands) < (self.slots if ready else 1)

    def order(self, method: str, *arguments: Any) -> None:
        if not self.is_gone:
            getattr(self.actor, method).remote(*arguments)

    def hear(self) -> list[_Remote]:
        """Take in what has come of the last question, and ask the next; who has sent something."""
        try:
            answer = self._ray.get(self.pending, timeout=PATIENCE)
        except Exception as error:  # Ray's errors share no base class
            self.lose(reason(error))
            return list(self.hands.values())
        heard = []
        if not self.is_here:
            host, version, python = answer
            self.name = host if host not in self._cluster.names() else f"{host} {self.name}"
            if (version, python.rpartition(".")[0]) != (__version__, platform.python_version().rpartition(".")[0]):
                mine = f"arena {__version__} on Python {platform.python_version()}"
                self.refuse(f"it has arena {version} on Python {python}, not {mine}")
                return []
            self.is_here = True
        else:
            for number, messages, state in answer:
                if hand := self.hands.get(number):
                    hand.told = state
                    hand.inbox.extend(messages)
                    heard.append(hand)
        self.pending = self.actor.report.options(concurrency_group="reports").remote()
        return heard

    def end(self, hand: _Remote, seconds: float) -> None:
        """What it sent before is in the report that is under way."""
        if self.is_gone:
            return
        try:
            messages, told, hand.words = self._ray.get(
                self.actor.end.remote(hand.number, seconds), timeout=seconds + PATIENCE
            )
        except Exception as error:
            self.lose(reason(error))
            return
        self.hear()
        hand.inbox.extend(messages)
        hand.told = told

    def refuse(self, why: str) -> bool:
        """Don't use it any more, unless there would be none left. Whether it could be done without."""
        if not any(place.is_here and not place.is_gone for place in self._cluster.places.values() if place is not self):
            if not self.is_here:
                raise UserError(f"{self.name} can't be used: {why}")
            return False
        self.lose(why)
        return True

    def lose(self, why: str) -> None:
        if not self.is_gone:
            self.is_gone = True
            logging.getLogger(__name__).warning("%s isn't used any more: %s", self.name, why.partition(". ")[0])
            with suppress(Exception):
                self._ray.kill(self.actor)

    def deliver(self, entry: Entry) -> None:
        """Send a player's net, and its file where it is one, unless they are there."""
        wanted = entry.luggage()
        if new := wanted.keys() - self.sent:
            for name in self._ray.get(self.actor.lacks.remote(list(new)), timeout=PATIENCE):
                self._ray.get(self.actor.keep.remote(name, self._cluster.put(name, wanted[name])), timeout=PATIENCE)
            self.sent |= new


class Cluster:
    """Hands on the nodes of a Ray cluster."""

    def __init__(self, address: str, workers: int):
        """``address`` is HOST:PORT, ``auto`` for the cluster of this machine, or ``local`` for one that starts here.
        ``workers`` are the most workers that are used; 0 for one on each core. Raises ConfigError where Ray isn't
        installed."""
        self.ray = _import_ray()
        self.places: dict[str, _Place] = {}
        self._address, self._workers = address, workers
        self._hired = 0
        self._looked = 0.0
        self._put: dict[str, Any] = {}

    def __enter__(self) -> Self:
        """Raises UserError where no cluster answers."""
        own = self._address == LOCAL
        if not own and self._address != AUTO:
            _require_answer(self._address)  # Ray would try for minutes
        where = {"num_cpus": self._workers or None, "include_dashboard": False} if own else {"address": self._address}
        started = monotonic()
        try:
            with chdir(scratch()), _handlers_kept():  # nothing of the current folder runs on the nodes
                self.ray.init(log_to_driver=False, logging_level=logging.CRITICAL, configure_logging=True, **where)
        except Exception as error:
            raise UserError(
                f"--cluster {self._address}: no Ray cluster answers ({reason(error)}, after "
                f"{monotonic() - started:.0f} s); start one with: ray start --head"
            ) from error
        return self

    def __exit__(self, *_: object) -> None:
        closing = [place.actor.close.remote() for place in self.places.values() if not place.is_gone]
        with suppress(Exception):
            self.ray.wait(closing, num_returns=len(closing), timeout=5.0)
        with _handlers_kept():
            self.ray.shutdown()
        self.places.clear()

    @property
    def most(self) -> int:
        cores = sum(place.slots for place in self.places.values() if not place.is_gone)
        return min(self._workers, cores) if self._workers else cores

    @property
    def nodes(self) -> int | None:
        return sum(place.is_here and not place.is_gone for place in self.places.values())

    def has_room(self, hired: Collection[tuple[Hand, bool]]) -> bool:
        self._look()
        return any(place.has_room for place in self.places.values())

    def hire(self, job: Job) -> Hand:
        place = max((one for one in self.places.values() if one.has_room), key=lambda one: one.slots - len(one.hands))
        try:
            for entry in job.players.values():
                place.deliver(entry)
        except UserError:
            raise
        except Exception as error:
            place.lose(reason(error))
            raise NotLaunched from error
        self._hired += 1
        hand = _Remote(self._hired, place)
        place.hands[hand.number] = hand
        place.order("hire", hand.number, job)
        return hand

    def wait(self, hired: Collection[Hand], seconds: float) -> Collection[Hand]:
        pending = {place.pending: place for place in self.places.values() if not place.is_gone}
        if not pending:
            time.sleep(seconds)
            return []
        done, _ = self.ray.wait(list(pending), num_returns=1, timeout=seconds)
        if done:
            done, _ = self.ray.wait(list(pending), num_returns=len(pending), timeout=0)
        return [hand for one in done for hand in pending[one].hear()]

    def names(self) -> list[str]:
        return [place.name for place in self.places.values()]

    def put(self, name: str, paths: Sequence[Path]) -> Any:
        """Files in the cluster's store, where they are put once: nodes take them from each other."""
        if name not in self._put:
            self._put[name] = self.ray.put({path.name: path.read_bytes() for path in paths})
        return self._put[name]

    def _look(self) -> None:
        """Use the nodes that have come."""
        if monotonic() - self._looked < LOOK:
            return
        self._looked = monotonic()
        for node in self.ray.nodes():
            if node["Alive"] and node["NodeID"] not in self.places and node["Resources"].get("CPU", 0) >= 1:
                self.places[node["NodeID"]] = _Place(self, node)


def _import_ray() -> ModuleType:
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else it warns
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError as error:
        raise ConfigError("--cluster needs Ray: pip install 'arena[cluster]'") from error
    return ray


def _require_answer(address: str) -> None:
    """Raise UserError where nothing listens at HOST:PORT."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigError(f"--cluster {address}: give HOST:PORT, {AUTO} or {LOCAL}")
    started = monotonic()
    try:
        create_connection((host, int(port)), CONNECT).close()
    except OSError as error:
        raise UserError(
            f"--cluster {address}: no Ray cluster answers ({reason(error)}, after {monotonic() - started:.0f} s); "
            "start one with: ray start --head"
        ) from error


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
