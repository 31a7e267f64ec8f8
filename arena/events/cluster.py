"""Hands on the machines of a Ray cluster: on each of its nodes an actor starts workers as a runner does on its own
machine, and passes on what they are sent and send. Nets travel by their content.

The runner plans, decides and writes as always. A node that is gone takes its workers along, which is not a bot's fault;
nodes that come are used. Needs ``pip install 'arena[cluster]'``.
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
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from socket import create_connection
from threading import Lock
from time import monotonic
from types import ModuleType
from typing import Any, Self, TypeVar

from arena import ConfigError, UserError, __version__, files
from arena.contract.code import SENT, code_of
from arena.contract.finding import Finding, Verdict
from arena.events.hands import Hand, Local, NotLaunched, State
from arena.events.probe import family, probe
from arena.events.runner import UNKNOWN, start_failure
from arena.events.worker import CARDS, Glance, Job, Message
from arena.files import reason, scratch
from arena.go.game import Rules
from arena.go.record import Record
from arena.players.registry import Entry

LOCAL, AUTO = "local", "auto"
"""The addresses of a cluster that is started here, for as long as it is used, and of that of this machine."""

REPORT = 0.25
"""Seconds between two reports of a node while no game ends there."""

LOOK = 2.0
"""Seconds between two looks for nodes that came."""

AGAIN = 5.0
"""Seconds before a node is used again that is there, but was lost."""

TRIES = 2
"""How often a node may fail to make itself ready."""

FALLS = 5
"""How often in a row the same work may end with its node before it has made anything."""

CHUNK = 1.0
"""Seconds for which work collects what it has made before it sends it."""

PATIENCE = 30.0
"""Seconds for the cluster to answer, and for a node to make itself ready."""

SILENCE = 60.0
"""Seconds without a report after which a node is lost. Those in which this process was stopped don't count."""

CONNECT = 10.0
"""Seconds for an address to answer."""

UNLOADED = "arena can't be loaded there"

TOKEN = "copy ~/.ray/auth_token from its first machine, and set RAY_AUTH_MODE=token"
"""What to do where a cluster asks for a token."""

PORT = 6379
"""Where Ray listens unless it is told otherwise."""

GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""How HTTP/2 begins, on which Ray is built: a line, and a frame of settings (RFC 9113, section 3.4). Who speaks it
answers by such a frame; the fourth byte of a frame is its kind."""

LOST = State(alive=False, lost=True)

Item = TypeVar("Item")
Made = TypeVar("Made")
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


Work = Callable[[Sequence[Item], Stage], Iterator[tuple[Item | None, Made]]]
"""Makes something of items until its stage is over, and gives it with the item that it finishes, or None. A function of
a module, which the nodes import."""


class Node:
    """What runs on a node: it starts workers there, and tells of them when it is asked. Each worker has a number."""

    def __init__(self) -> None:
        self._local = Local(0).__enter__()
        self._hands: dict[int, Hand] = {}
        self._cards: dict[int, str] = {}  # the GPU of each worker that has one
        self._glances: dict[int, dict[str, Glance]] = {}  # the last look at each game, as far as it isn't told yet
        self._failed: dict[int, UserError] = {}
        self._told = 0.0  # when all was told
        self._stages: dict[int, Stage] = {}
        self._lock = Lock()  # reports come from another thread

    def hello(self, names: Collection[str]) -> tuple[str, str, list[str]]:
        """The versions of arena and Python, and which pieces of luggage aren't here."""
        return __version__, platform.python_version(), [name for name in names if not (SENT / name).is_dir()]

    def prepare(
        self, players: Collection[Entry], size: int, names: Sequence[str], *luggage: Mapping[str, bytes]
    ) -> list[str]:
        """Keep the files of nets and bots, then try the players; why each that can't play here can't."""
        for name, contents in zip(names, luggage, strict=True):
            with files.replacing(SENT / name, error=UserError) as aside:
                aside.mkdir(parents=True)
                for file, content in contents.items():
                    (aside / file).parent.mkdir(parents=True, exist_ok=True)
                    (aside / file).write_bytes(content)
        return [why for entry in players if (why := _why_not(entry.moved(SENT), size))]

    def look(self, entry: Entry, rules: Rules) -> list[Finding]:
        """What a look at a player finds here."""
        there = entry.moved(SENT)
        found = [step for step in probe(replace(there, code=""), rules) if isinstance(step, Finding)]
        if found[-1].verdict is not Verdict.FAILED and (why := _changed(there)):
            found.append(Finding("code", Verdict.NOTE, why))
        return found

    def hire(self, number: int, job: Job) -> None:
        """What goes wrong is in the next report."""
        players = {name: entry.moved(SENT) for name, entry in job.players.items()}
        cards = os.environ.get(CARDS, "").split(",") if any(entry.gpus for entry in players.values()) else []
        card = min(cards, key=list(self._cards.values()).count, default="")
        try:
            hand = self._local.hire(replace(job, players=players, card=card))
        except (OSError, NotLaunched) as error:
            with self._lock:
                self._failed[number] = UserError(f"a worker can't be started: {reason(error)}")
            return
        with self._lock:
            self._hands[number], self._cards[number], self._glances[number] = hand, card, {}

    def send(self, messages: Sequence[tuple[int, Message]]) -> None:
        for number, message in messages:
            if number in self._hands:
                self._hands[number].send(message)

    def stop(self, number: int) -> None:
        if number in self._hands:
            self._hands[number].stop()

    def end(self, number: int, seconds: float) -> tuple[list[Any], State, str]:
        """End a worker: what it has sent since the last report, how it ended, and its last words."""
        with self._lock:
            hand = self._hands.pop(number, None)
            self._cards.pop(number, None)
            glances = self._glances.pop(number, {})
        if hand is None:
            return [], LOST, ""
        hand.end(seconds)
        last = [*glances.values(), *hand.take()], hand.state(), hand.last_words()
        hand.close()
        return last

    def report(self) -> list[tuple[int, list[Any], State | None]]:
        """What the workers have sent since the last report, and once in a while how all of them are. It comes at once
        when that is more than looks at boards, of which only the last are told, or when a worker has ended."""
        told: dict[int, list[Any]] = {}
        until = self._told + REPORT
        while not told and not self._failed and (left := until - monotonic()) > 0:
            with suppress(OSError, ValueError):  # one has just been closed
                self._local.wait(list(self._hands.values()), left)
            told = self._take()
        with self._lock:
            if is_due := monotonic() >= until:
                self._told = monotonic()
                for number, glances in self._glances.items():
                    told.setdefault(number, []).extend(glances.values())
                    glances.clear()
            states = {number: hand.state() for number, hand in self._hands.items() if is_due or number in told}
            failed, self._failed = self._failed, {}
        return [
            *((number, told.get(number, []), states.get(number)) for number in dict.fromkeys([*states, *told])),
            *((number, [error], State(alive=False)) for number, error in failed.items()),
        ]

    def _take(self) -> dict[int, list[Any]]:
        """What each worker has sent, without looks at boards; an empty list for one that has ended."""
        told: dict[int, list[Any]] = {}
        with self._lock:
            for number, hand in self._hands.items():
                messages = list(hand.take())
                for message in messages:
                    if isinstance(message, Glance):
                        self._glances[number][message.pairing.id] = message
                        continue
                    if isinstance(message, Record):
                        self._glances[number].pop(message.id, None)
                    told.setdefault(number, []).append(message)
                if not messages and not hand.state().alive:
                    told[number] = []
        return told

    def work(
        self, work: Work[Any, Any], items: Sequence[Any], number: int, version: int, sent: Any
    ) -> Iterator[list[tuple[Any, Any]]]:
        """What is made of items, in chunks."""
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
        """Tell who works in a stage, or will be told to, that it is over, and forget those before."""
        self._stage(number).is_over = True
        with self._lock:
            self._stages = {later: stage for later, stage in self._stages.items() if later >= number}

    def _stage(self, number: int) -> Stage:
        with self._lock:
            return self._stages.setdefault(number, Stage())

    def close(self) -> None:
        for number in list(self._stages):
            self.rest(number)
        for number in list(self._hands):
            self.end(number, 0.0)
        self._local.__exit__()


def _why_not(entry: Entry, size: int) -> str:
    """Why a player can't play on this machine; empty where it can, as far as can be told before it is built."""
    try:
        return _changed(entry.checked(size))
    except UserError as error:
        return str(error)


def _changed(entry: Entry) -> str:
    """What is to be said where this machine has another bot under the name."""
    code = code_of(entry.factory, entry.config)
    same = not entry.code or entry.code.startswith(code)
    return "" if same else f"{entry.name} isn't the same there (code {code}, not {entry.code})"


# --- At the runner's ---


@dataclass(eq=False)
class _Remote:
    """A worker on a node."""

    number: int
    on: _Place
    players: tuple[str, ...]
    inbox: deque[Any] = field(default_factory=deque)
    told: State = field(default_factory=State)
    words: str = ""
    is_ready: bool = False

    @property
    def place(self) -> str:
        return self.on.name

    def state(self) -> State:
        return LOST if self.on.is_gone else self.told

    def send(self, message: Message) -> None:
        self.on.outbox.append((self.number, message))

    def take(self) -> Iterator[Any]:
        while self.inbox:
            message = self.inbox.popleft()
            if isinstance(message, UserError):
                self.on.refuse(str(message))
            else:
                self.is_ready = True
                yield message

    def stop(self) -> None:
        self.on.order("stop", self.number)

    def end(self, seconds: float) -> None:
        self.on.end(self, seconds)
        if not self.is_ready and not self.inbox and 0 < (self.told.exitcode or 0) < UNKNOWN:
            self.on.refuse(start_failure(self.players[self.told.player], self.words, self.told.exitcode))

    def last_words(self) -> str:
        return self.words

    def close(self) -> None:
        self.on.hands.pop(self.number, None)


class _Place:
    """A node of the cluster, as the runner has it: greeted, then prepared, then asked for one report after another."""

    def __init__(self, cluster: Cluster, node: Mapping[str, Any], slots: int, cards: int):
        self.node = str(node["NodeID"])
        self.name = host = str(node["NodeManagerHostname"])
        if any(place.name == host for place in cluster.places.values() if not place.is_gone):
            self.name = f"{host} {self.node[:6]}"
        self.slots = slots
        self.hands: dict[int, _Remote] = {}
        self.outbox: list[tuple[int, Message]] = []
        self.is_here: bool = False
        self.is_gone: bool = False
        self.gone_at = self.silent = 0.0  # when it was lost; seconds without an answer
        self._cluster, self._ray = cluster, cluster.ray
        affinity = cluster.ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        actor = cluster.ray.remote(concurrency_groups={"reports": 1, "work": max(1, slots)})(Node)
        self.actor = actor.options(num_cpus=slots, num_gpus=cards, scheduling_strategy=affinity).remote()
        self._hear: Callable[[Any], list[_Remote]] = self._greeted
        self.pending = self.actor.hello.remote(list(cluster.luggage))

    @property
    def has_room(self) -> bool:
        """Of the first worker's kernels the others have the cache."""
        ready = sum(hand.is_ready for hand in self.hands.values())
        return self.is_here and not self.is_gone and len(self.hands) < (self.slots if ready else 1)

    def order(self, method: str, *arguments: Any) -> None:
        """Have something done there, after what was ordered before."""
        if self.is_gone:
            return
        if self.outbox:
            outbox, self.outbox = self.outbox, []
            self.actor.send.remote(outbox)
        getattr(self.actor, method).remote(*arguments)

    def hear(self) -> list[_Remote]:
        """Take in what has come of the last question, and ask the next; who has sent something."""
        self.silent = 0.0
        try:
            heard = self._hear(self._ray.get(self.pending, timeout=PATIENCE))
        except Exception as error:  # Ray's errors share no base class
            if self.is_here:
                self.lose(_why(error))
            else:
                self._cluster.fail(self, _why(error))
            return list(self.hands.values())
        if self.is_here and not self.is_gone:
            self.pending = self.actor.report.options(concurrency_group="reports").remote()
        return heard

    def _greeted(self, answer: tuple[str, str, list[str]]) -> list[_Remote]:
        version, python, lacking = answer
        if (version, _minor(python)) != (__version__, _minor(platform.python_version())):
            mine = f"arena {__version__} on Python {platform.python_version()}"
            self.refuse(f"it has arena {version} on Python {python}, not {mine}")
            return []
        players = [] if self._cluster.looks_only else list(self._cluster.players.values())
        luggage = [self._cluster.put(name) for name in lacking]
        self.pending = self.actor.prepare.remote(players, self._cluster.rules.size, lacking, *luggage)
        self._hear = self._prepared
        return []

    def _prepared(self, wanting: list[str]) -> list[_Remote]:
        if wanting:
            self.refuse("; ".join(wanting))
        else:
            self._hear, self.is_here = self._reported, True
        return []

    def _reported(self, answer: list[tuple[int, list[Any], State | None]]) -> list[_Remote]:
        heard = []
        for number, messages, state in answer:
            if hand := self.hands.get(number):
                hand.told = state or hand.told
                hand.inbox.extend(messages)
                heard.append(hand)
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
            self.lose(_why(error))
            return
        self.hear()
        hand.inbox.extend(messages)
        hand.told = told

    def refuse(self, why: str) -> None:
        """Don't use the node in this event."""
        self._cluster.refuse(self.node, self.name, why)
        self._leave()

    def lose(self, why: str) -> None:
        """Do without the actor; if the node is there, another one may come."""
        if not self.is_gone:
            self._cluster.say(f"{self.name} was lost: {why}")
            self._leave()

    def _leave(self) -> None:
        self.is_gone, self.gone_at = True, monotonic()
        with suppress(Exception):
            self._ray.kill(self.actor)


class _Shift:
    """Work that is shared among the nodes."""

    def __init__(self, cluster: Cluster, items: deque[Any]):
        self.under_way: dict[Any, tuple[_Place, dict[Any, None]]] = {}
        """By Ray's generator of chunks: where, and the items that aren't finished yet, in their order."""
        self._cluster, self._items = cluster, items
        self._number = cluster.next_stage()
        self._falls: Counter[Any] = Counter()
        self._version = 0
        self._sent: Any = None
        self._put: Any = None

    def working(self, place: _Place | None = None) -> int:
        """How many cores work, there or in all."""
        return sum(place is None or one is place for one, _ in self.under_way.values())

    def send(self, sent: Any) -> None:
        """Broadcast an object, through the cluster's store, unless it was the last."""
        if sent is not self._sent:
            self._sent, self._put = sent, self._cluster.ray.put(sent)
            self._version += 1
            for place in {place.node: place for place, _ in self.under_way.values()}.values():
                place.order("take", self._number, self._version, self._put)

    def begin(self, place: _Place, work: Work[Any, Any], taken: list[Any]) -> None:
        method = place.actor.work.options(concurrency_group="work", num_returns="streaming")
        self.under_way[method.remote(work, taken, self._number, self._version, self._put)] = place, dict.fromkeys(taken)

    def made(self, seconds: float = 0.0) -> list[Any]:
        """What has come, after a wait of at most this many seconds."""
        if not self.under_way:
            return []
        done, _ = self._cluster.ray.wait(list(self.under_way), num_returns=len(self.under_way), timeout=0)
        if not done and seconds:
            done, _ = self._cluster.ray.wait(list(self.under_way), num_returns=1, timeout=seconds)
        return [made for one in done for made in self._made(one)]

    def _made(self, chunks: Any) -> Iterator[Any]:
        """What is in the next chunk."""
        place, left = self.under_way[chunks]
        try:
            chunk = self._cluster.ray.get(next(chunks))
        except StopIteration:
            self._give_back(chunks)
        except Exception as error:
            self._give_back(chunks)
            why, raised = _why(error), isinstance(getattr(error, "cause", None), Exception)
            if raised or why.startswith(UNLOADED):
                place.refuse(why)
            else:
                place.lose(why)
                self._count(left, why)
        else:
            if chunk:
                for item in left:
                    self._falls.pop(item, None)
            for item, made in chunk:
                left.pop(item, None)
                yield made

    def _give_back(self, chunks: Any) -> None:
        self._items.extendleft(reversed(self.under_way.pop(chunks)[1]))

    def _count(self, left: Collection[Any], why: str) -> None:
        """Note that a node is gone that had these items. Raises UserError where that has happened too often."""
        self._falls.update(list(left))
        if left and max(self._falls[item] for item in left) >= FALLS:
            raise UserError(
                f"{FALLS} nodes in a row were lost over the same games ({why}); check their memory and logs"
            )

    def end(self) -> None:
        for place in self._cluster.places.values():
            place.order("rest", self._number)


class Cluster:
    """Hands on the nodes of a Ray cluster."""

    def __init__(
        self,
        address: str,
        workers: int,
        players: Mapping[str, Entry],
        rules: Rules,
        looks_only: bool = False,
    ):
        """``address`` is HOST:PORT, ``auto`` for the cluster of this machine, or ``local`` for one that starts here.
        ``workers`` are the most workers that are used; 0 for one on each core. A node that can't build one of the
        ``players`` isn't used, unless it ``looks_only``: then it starts no workers, and takes no cores. Raises
        ConfigError where Ray isn't installed."""
        self.ray = _import_ray()
        self.places: dict[str, _Place] = {}  # by the number of the node
        self.players = {name: entry.packed() for name, entry in players.items()}
        self.rules, self.looks_only = rules, looks_only
        self.luggage = {name: paths for entry in players.values() for name, paths in entry.luggage().items()}
        self._gpus = min(1.0, sum(entry.gpus for entry in players.values()))  # of a worker
        self._address, self._workers = address, workers
        self._refused: dict[str, str] = {}  # node -> why
        self._failures: Counter[str] = Counter()  # of nodes to make themselves ready
        self._there: set[str] = set()  # the nodes at the last look
        self._news: list[str] = []
        self._said = ""
        self._hired = 0
        self._looked = self._listened = 0.0
        self._put: dict[str, Any] = {}
        self._stages = 0
        self._earlier: set[int] = set()  # this process and those below it, before Ray's
        self._control = ""  # the address of Ray's control service
        self._answered = 0.0

    def __enter__(self) -> Self:
        """Raises UserError where no cluster answers, or none of its nodes can be used."""
        own = self._address == LOCAL
        if not own and self._address != AUTO:
            _require_answer(self._address)  # Ray would try for minutes
        where: dict[str, Any] = {"address": self._address}
        if own:
            where |= {"num_cpus": self._workers or None, "include_dashboard": False}
        self._earlier = set(family(os.getpid()))
        started = monotonic()
        with chdir(scratch()), _handlers_kept(), _muted() as said:  # nothing of the current folder runs on the nodes
            try:
                self.ray.init(log_to_driver=False, logging_level=logging.CRITICAL, configure_logging=True, **where)
            except Exception as error:
                if b"AuthToken" in Path(said.name).read_bytes():
                    refusal = ConnectionError("it asks for a token")
                    raise UserError(_no_answer(self._address, refusal, started, TOKEN)) from error
                raise UserError(_no_answer(self._address, error, started)) from error
        self._control = str(self.ray.get_runtime_context().gcs_address)
        try:
            self._gather()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        closing = [place.actor.close.remote() for place in self._present if place.is_here]
        with suppress(Exception):
            self.ray.wait(closing, num_returns=len(closing), timeout=5.0)
        own = set(family(os.getpid())) - self._earlier if self._address == LOCAL else set()
        with _handlers_kept():
            self.ray.shutdown()
        for process in own:  # Ray leaves some where one of its own was killed
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        self.places.clear()

    def next_stage(self) -> int:
        self._stages += 1
        return self._stages

    @property
    def most(self) -> int:
        slots = sum(place.slots for place in self._present)
        return min(self._workers, slots) if self._workers else slots

    @property
    def nodes(self) -> Collection[str] | None:
        return [place.name for place in self._present if place.is_here]

    @property
    def _present(self) -> list[_Place]:
        return [place for place in self.places.values() if not place.is_gone]

    def news(self) -> list[str]:
        news, self._news = self._news, []
        return news

    def say(self, line: str) -> None:
        if line != self._said:
            self._news.append(line)
            self._said = line

    def refuse(self, node: str, name: str, why: str) -> None:
        """Never use this node again."""
        if node not in self._refused:
            self._refused[node] = f"{name}: {why}"
            self.say(f"{name} isn't used: {why}")

    def fail(self, place: _Place, why: str) -> None:
        """A node could not be made ready: it is tried again, but not for ever where Ray calls it alive."""
        self._failures[place.node] += 1
        if self._failures[place.node] < TRIES and not why.startswith(UNLOADED):
            place.lose(why)
        else:
            place.refuse(why)

    def has_room(self) -> bool:
        """Raises UserError where no node that is there can be used."""
        self._look()
        return any(place.has_room for place in self.places.values())

    def hire(self, job: Job) -> Hand:
        place = max((one for one in self.places.values() if one.has_room), key=lambda one: one.slots - len(one.hands))
        self._hired += 1
        hand = place.hands[self._hired] = _Remote(self._hired, place, tuple(job.players))
        place.order("hire", hand.number, replace(job, players=self.players))
        return hand

    def wait(self, hired: Collection[Hand], seconds: float, others: Collection[Any] = ()) -> Collection[Hand]:
        """Until a node reports, or one of ``others`` that Ray waits for is ready."""
        for place in self._present:
            if place.outbox:
                place.order("send", [])
        waited, self._listened = min(1.0, monotonic() - self._listened), monotonic()  # a stop isn't the nodes' fault
        pending = {place.pending: place for place in self._present}
        if not pending:
            time.sleep(seconds)
            return []
        done, _ = self.ray.wait([*pending, *others], num_returns=1, timeout=seconds)
        if done:
            done, _ = self.ray.wait(list(pending), num_returns=len(pending), timeout=0)
        heard = [hand for one in done for hand in pending[one].hear()]
        for place in self._present:
            place.silent += waited
            if place.is_here and place.silent > SILENCE:
                place.lose(f"no answer for {SILENCE:.0f} s")
                heard += place.hands.values()
        return heard

    def share(
        self,
        work: Work[Item, Made],
        items: deque[Item],
        most: int,
        goes_on: Callable[[], bool],
        sent: Callable[[], Any] = lambda: None,
    ) -> Iterator[list[Made]]:
        """What is made of ``items``, which are taken from the left, up to ``most`` for a core at once: now and then
        what has come, which may be nothing. All work has what ``sent`` gives, and gets it anew when that is another
        object.

        The unfinished items of a node that is gone are put back. Once it doesn't go on, what was made of those that are
        under way is given, too. Raises UserError where no node that is there can be used, where the work fails on each
        of them, or where it takes its node down again and again."""
        shift = _Shift(self, items)
        while goes_on() and (items or shift.under_way):
            self._look()
            shift.send(sent())
            for place in self._present:
                while place.is_here and items and shift.working(place) < place.slots and shift.working() < self.most:
                    shift.begin(place, work, [items.popleft() for _ in range(min(most, len(items)))])
            self.wait((), REPORT, shift.under_way)
            yield shift.made()
        shift.end()
        until = monotonic() + PATIENCE
        while shift.under_way and monotonic() < until:
            yield shift.made(REPORT)

    def look(self, entry: Entry) -> Iterator[Finding]:
        """What each node finds about one of the players, a line each as they come."""
        for why in self._refused.values():
            name, _, words = why.partition(": ")
            yield Finding(name, Verdict.FAILED, words)
        asked = {place.actor.look.remote(entry.packed(), self.rules): place for place in self._present if place.is_here}
        for place in self._present:
            if not place.is_here:
                yield Finding(place.name, Verdict.FAILED, f"no answer within {PATIENCE:.0f} s")
        while asked:
            (done, *_), _ = self.ray.wait(list(asked), num_returns=1)
            place = asked.pop(done)
            try:
                yield _summary(place.name, self.ray.get(done))
            except Exception as error:
                yield Finding(place.name, Verdict.FAILED, _why(error))

    def put(self, name: str) -> Any:
        """A piece of luggage in the cluster's store, where it is put once: nodes take it from each other."""
        if name not in self._put:
            first, *_ = paths = self.luggage[name]
            self._put[name] = self.ray.put({str(path.relative_to(first.parent)): path.read_bytes() for path in paths})
        return self._put[name]

    def _gather(self) -> None:
        """Wait until every node has said whether it can be used; not for ever where some don't answer."""
        until = monotonic() + PATIENCE
        while monotonic() < until:
            self._look()
            if self.places and all(place.is_here for place in self._present):
                return
            self.wait((), REPORT)

    def _look(self) -> None:
        """Use the nodes that have come. Raises UserError where none that is there can be used."""
        if monotonic() - self._looked >= LOOK:
            self._looked = monotonic()
            if not self._has_control():
                return
            nodes = [node for node in self.ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]
            self._there = {node["NodeID"] for node in nodes}
            for node in nodes:
                known = self.places.get(node["NodeID"])
                if node["NodeID"] not in self._refused and (
                    known is None or (known.is_gone and monotonic() - known.gone_at > AGAIN)
                ):
                    self._take(node)
            if not nodes and self._address == LOCAL:
                self._give_up("the Ray node that was started here has ended")
        if self._there and self._there <= self._refused.keys() and not self.looks_only:
            first, *more = sorted({self._refused[node] for node in self._there})
            others = f"; and {len(more)} more like that" if len(more) > 1 else "".join(f"; {why}" for why in more)
            raise UserError(f"no node of the cluster can be used: {first}{others}")

    def _has_control(self) -> bool:
        """Whether Ray's control service answers now. Raises UserError where it is gone. Ray would wait for a minute and
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
        for place in self.places.values():
            place.is_gone = True
        raise UserError(f"{why}; the same command plays the rest")

    def _take(self, node: Mapping[str, Any]) -> None:
        """Use a node, with as many workers as it has cores, and parts of GPUs where a worker takes one."""
        slots, cards = int(node["Resources"]["CPU"]), 0
        if self.looks_only:
            slots = 0
        elif self._gpus:
            slots = min(slots, int(node["Resources"].get("GPU", 0) // self._gpus))
            cards = math.ceil(slots * self._gpus)
            if not slots:
                asking = next(name for name, entry in self.players.items() if entry.gpus)
                why = f"it has no GPU, and {asking} takes {self.players[asking].gpus:g} of one"
                self.refuse(node["NodeID"], str(node["NodeManagerHostname"]), why)
                return
        self.places[node["NodeID"]] = _Place(self, node, slots, cards)


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
