"""A trainer's games on the cores of a Ray cluster: actors run a function for ranges of game numbers.

Weights are broadcast through the cluster's object store, and results stream back. torch isn't imported.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from time import monotonic
from typing import Any, TypeVar

from arena.go.game import Rules
from arena.match.cluster import PATIENCE, REPORT, Node, Nodes, Task
from arena.players.player import Player

CHUNK = 1.0
"""Seconds for which work collects results before it sends them."""

Item = TypeVar("Item")
Made = TypeVar("Made")
Own = TypeVar("Own")


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
"""Turns items into results until its stage is over, and yields each with the item that it finishes, or None. A function
of a module, which the nodes import."""


class TrainerNode(Node):
    """The actor of a node that works for a trainer."""

    def __init__(self) -> None:
        super().__init__()
        self._stages: dict[int, Stage] = {}
        self._lock = Lock()

    def work(
        self, work: Work[Any, Any], items: Sequence[Any], number: int, version: int, sent: Any
    ) -> Iterator[list[tuple[Any, Any]]]:
        """The results of items, in chunks."""
        stage = self._stage(number)
        stage.take(version, sent)
        chunk: list[tuple[Any, Any]] = []
        started = monotonic()
        for made in work(items, stage):
            chunk.append(made)
            if monotonic() - started > CHUNK:
                yield chunk
                chunk, started = [], monotonic()
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


@dataclass(frozen=True, slots=True)
class Lent:
    """A Ray cluster whose cores play, and how many of them at most, 0 for all; who is told what happens there."""

    address: str
    players: int = 0
    on_news: Callable[[str], None] = lambda _: None


class Cores(Nodes):
    """Cores of a cluster that is connected."""

    actor = TrainerNode

    def __init__(self, lent: Lent, players: Collection[Player], rules: Rules):
        super().__init__(lent.address, lent.players, {player.name: player for player in players}, rules)
        self._on_news = lent.on_news
        self._stages = 0

    def play(
        self,
        work: Work[int, Made],
        numbers: deque[int],
        slots: int,
        goes_on: Callable[[], bool] = lambda: True,
        sent: Callable[[], Any] = lambda: None,
    ) -> Iterator[Made]:
        """What is made of the games of ``numbers``, which are taken from the left, up to ``slots`` at once on a core.
        All work is sent what ``sent`` returns, again when that is another object.

        The unfinished numbers of a lost node are put back. Once ``goes_on`` is false, the results of those under way
        are yielded, too. Raises UserError where no node can be used, or where the work takes its node down or fails
        again and again."""
        self._stages += 1
        stage, version, last, reference = self._stages, 0, None, None
        each = min(slots, -(-len(numbers) // max(1, self.most)))
        while goes_on() and (numbers or self.tasks):
            self.look()
            if (latest := sent()) is not last:
                version, last, reference = version + 1, latest, self.ray.put(latest)
                for node in {task.node for task in self.tasks.values()}:
                    node.call("take", stage, version, reference)
            for node in self.present:
                while node.is_ready and numbers and self._running(node) < node.slots and len(self.tasks) < self.most:
                    taken = [numbers.popleft() for _ in range(min(each, len(numbers)))]
                    task = Task(node, numbers, dict(zip(taken, taken, strict=True)))
                    self.start(node, "work", task, work, taken, stage, version, reference)
            yield from self._results()
        for node in self.present:
            node.call("rest", stage)
        until = monotonic() + PATIENCE
        while self.tasks and monotonic() < until:
            yield from self._results()

    def _running(self, node: Any) -> int:
        """How many of a node's cores work."""
        return sum(task.node is node for task in self.tasks.values())

    def _results(self) -> Iterator[Any]:
        found = self.wait(REPORT)
        for line in self.news():
            self._on_news(line)
        for task, chunk in found:
            for number in task.items if chunk else ():
                self.losses.pop(number, None)
            for number, made in chunk:
                task.items.pop(number, None)
                yield made


@contextmanager
def connected(lent: Lent | None, players: Collection[Player], rules: Rules) -> Iterator[Cores | None]:
    """The cores that are ``lent``, to which the nets of ``players`` travel. Raises UserError where none answers."""
    if lent is None:
        yield None
        return
    with Cores(lent, players, rules) as cores:
        yield cores
