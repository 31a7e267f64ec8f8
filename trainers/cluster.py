"""A trainer's games on the cores of a Ray cluster: actors run a function for ranges of game numbers.

Weights are broadcast through the cluster's object store, and games stream back. torch isn't imported.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from threading import Lock
from time import monotonic
from typing import Any

from arena.go.game import Rules
from arena.match.cluster import PATIENCE, REPORT, NodeActor, Nodes
from arena.players.player import Player
from trainers.settings import Lent

CHUNK = 1.0  # seconds for which work collects games before it sends them


class Stage:
    """What all the work of one kind on a node shares: whether it is to stop, and what was sent to it last."""

    def __init__(self) -> None:
        self.is_over = False
        self.sent: Any = None
        self._version, self._lock = 0, Lock()

    def update(self, version: int, sent: Any) -> None:
        """Messages may pass each other: the highest version counts."""
        with self._lock:
            if version > self._version:
                self._version, self.sent = version, sent


Work = Callable[[Sequence[int], Stage], Iterator[Any]]
"""Plays the games of these numbers until its stage is over, and yields them: each has its ``number``. A function of a
module, which the nodes import."""


class TrainerNode(NodeActor):
    """The actor of a node that works for a trainer."""

    def __init__(self) -> None:
        super().__init__()
        self._stages: dict[int, Stage] = {}

    def work(self, work: Work, numbers: Sequence[int], stage: int, version: int, sent: Any) -> Iterator[list[Any]]:
        """The games of these numbers, in chunks."""
        self.send(stage, version, sent)
        chunk, started = [], monotonic()
        for game in work(numbers, self._stages[stage]):
            chunk.append(game)
            if monotonic() - started > CHUNK:
                yield chunk
                chunk, started = [], monotonic()
        yield chunk

    def send(self, stage: int, version: int, sent: Any) -> None:
        self._stages.setdefault(stage, Stage()).update(version, sent)

    def end(self, stage: int) -> None:
        """Mark a stage as over, and forget those before."""
        over = self._stages.setdefault(stage, Stage())
        over.is_over, self._stages = True, {stage: over}


class Cores(Nodes):
    """Cores of a connected cluster, to which the nets of ``players`` travel. Raises UserError where none answers."""

    actor = TrainerNode

    def __init__(self, lent: Lent, rules: Rules, players: Collection[Player] = ()):
        super().__init__(lent.address, lent.players, {player.name: player for player in players}, rules)
        self._on_news, self._stage = lent.on_news, 0

    def play(
        self,
        work: Work,
        numbers: deque[int],
        slots: int,
        goes_on: Callable[[], bool] = lambda: True,
        sent: Callable[[], Any] = lambda: None,
    ) -> Iterator[Any]:
        """The games of ``numbers``, taken from the left, up to ``slots`` at once on a core. All work is sent what
        ``sent`` returns, again when that is another object. Unfinished numbers of a lost node are put back. Once it no
        longer ``goes_on``, games that are over are yielded, too. Raises UserError where no node can be used, or where
        the work takes its node down or fails again and again."""
        self.queue, self._stage = numbers, self._stage + 1
        version, last, reference = 0, None, None
        each = min(slots, -(-len(numbers) // max(1, self.most)))
        while goes_on() and (numbers or self.tasks or self._failed):
            self.look()
            if (latest := sent()) is not last:
                version, last, reference = version + 1, latest, self.ray.put(latest)
                for node in set(self.tasks.values()):
                    node.actor.send.remote(self._stage, version, reference)
            for node in self.nodes.values():
                free = node.slots * node.is_ready - sum(other is node for other in self.tasks.values())
                for _ in range(min(free, self.most - len(self.tasks), -(-len(numbers) // each))):
                    taken = [numbers.popleft() for _ in range(min(each, len(numbers)))]
                    node.items.update(zip(taken, taken, strict=True))
                    self.start("work", node, work, taken, self._stage, version, reference)
            yield from self._games()
        for node in self.nodes.values():
            node.actor.end.remote(self._stage)
        until = monotonic() + PATIENCE
        while self.tasks and monotonic() < until:
            yield from self._games()
        for node in self.nodes.values():
            node.items.clear()

    def _games(self) -> Iterator[Any]:
        found, news = self.wait(REPORT), self.news
        self.news = []
        for line in news:
            self._on_news(line)
        for node, games in found:
            for game in games:
                self.note_finished(node, game.number)
                yield game
