"""Self-play of ``zero`` on the cores of a Ray cluster: actors play ranges of game numbers with the latest weights.

Weights are broadcast through the cluster's object store, and games stream back. torch isn't imported.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from time import monotonic
from typing import Any

from arena.go.game import Rules
from arena.match.cluster import NODE_ANSWER_SECONDS, REPORT, NodeActor, NodePool
from trainers.settings import ClusterOptions

CHUNK_SECONDS = 1.0  # for which work collects games before it sends them


class Stage:
    """The state that all work of one stage of the curriculum shares on a node: the latest weights, and the end."""

    def __init__(self) -> None:
        self.is_over = False
        self.latest: Any = None
        self._version, self._lock = 0, Lock()

    def update(self, version: int, latest: Any) -> None:
        """Keep the highest version: messages may overtake each other."""
        with self._lock:
            if version > self._version:
                self._version, self.latest = version, latest


Work = Callable[[Sequence[int], Stage], Iterator[Any]]
"""Plays the games of these numbers until its stage is over, and yields them: each has its ``number``. A function of a
module, which the nodes import."""


class TrainerNode(NodeActor):
    """The actor of a node that works for a trainer."""

    def __init__(self) -> None:
        super().__init__()
        self._stages: dict[int, Stage] = {}

    def work(self, work: Work, numbers: Sequence[int], stage: int, version: int, latest: Any) -> Iterator[list[Any]]:
        """The games of these numbers, in chunks."""
        self.update(stage, version, latest)
        chunk, started = [], monotonic()
        for game in work(numbers, self._stages[stage]):
            chunk.append(game)
            if monotonic() - started > CHUNK_SECONDS:
                yield chunk
                chunk, started = [], monotonic()
        yield chunk

    def update(self, stage: int, version: int, latest: Any) -> None:
        self._stages.setdefault(stage, Stage()).update(version, latest)

    def end(self, stage: int) -> None:
        """Mark a stage as over, and forget those before."""
        over = self._stages.setdefault(stage, Stage())
        over.is_over, self._stages = True, {stage: over}


class SelfPlayNodes(NodePool):
    """The nodes of a connected cluster. Raises UserError where none answers."""

    actor = TrainerNode

    def __init__(self, options: ClusterOptions, rules: Rules):
        super().__init__(options.address, options.workers, {}, rules)
        self._on_news, self._stage = options.on_news, 0

    def play(
        self, work: Work, numbers: deque[int], slots: int, latest: Callable[[], Any], goes_on: Callable[[], bool]
    ) -> Iterator[Any]:
        """The games of ``numbers``, taken from the left, up to ``slots`` at once on a core. All work gets what
        ``latest`` returns, again when that is another object. Unfinished numbers of a lost node are put back. Once it
        no longer ``goes_on``, games that are over are still yielded. Raises UserError where no node can be used, or
        where the work fails with its node again and again."""
        self.queue, self._stage = numbers, self._stage + 1
        version, known, reference = 0, None, None
        each = min(slots, -(-len(numbers) // max(1, self.most)))
        while goes_on() and (numbers or self.tasks or self._failed):
            self.look()
            if (newest := latest()) is not known:
                version, known, reference = version + 1, newest, self.ray.put(newest)
                for node in set(self.tasks.values()):
                    node.actor.update.remote(self._stage, version, reference)
            for node in self.nodes.values():
                free = node.slots * node.is_ready - sum(other is node for other in self.tasks.values())
                for _ in range(min(free, self.most - len(self.tasks), -(-len(numbers) // each))):
                    taken = [numbers.popleft() for _ in range(min(each, len(numbers)))]
                    node.items.update(zip(taken, taken, strict=True))
                    self.start("work", node, work, taken, self._stage, version, reference)
            yield from self._games()
        for node in self.nodes.values():
            node.actor.end.remote(self._stage)
        until = monotonic() + NODE_ANSWER_SECONDS
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
