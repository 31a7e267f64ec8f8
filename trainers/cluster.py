"""Self-play of ``zero`` on a Ray cluster: actors play ranges of game numbers with the latest weights. Without torch."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from time import monotonic
from typing import Any

from arena.go.game import Rules
from arena.match.cluster import NODE_ANSWER_SECONDS, REPORT, NodeActor, NodePool
from trainers.settings import ClusterOptions

CHUNK_SECONDS = 1.0  # between two messages with games


class Stage:
    """What all work of one call of ``play`` shares on a node: the latest weights, and whether it is over."""

    def __init__(self) -> None:
        self.is_over = False
        self.latest: Any = None
        self._version, self._lock = 0, Lock()

    def update(self, version: int, latest: Any) -> None:
        """Keep the highest version, as messages may overtake each other."""
        with self._lock:
            if version > self._version:
                self._version, self.latest = version, latest


Work = Callable[[Sequence[int], Stage], Iterator[Any]]
"""A module's function, which nodes import: plays and yields the games of these numbers until the stage is over."""


class TrainerNode(NodeActor):
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
        """Mark a stage as over, and forget the earlier ones."""
        over = self._stages.setdefault(stage, Stage())
        over.is_over, self._stages = True, {stage: over}


class SelfPlayNodes(NodePool):
    """The nodes of a connected cluster. Raises UserError if none answers."""

    actor = TrainerNode

    def __init__(self, options: ClusterOptions, rules: Rules):
        super().__init__(options.address, options.workers, {}, rules)
        self._on_news, self._stage = options.on_news, 0

    def play(
        self, work: Work, numbers: deque[int], slots: int, latest: Callable[[], Any], goes_on: Callable[[], bool]
    ) -> Iterator[Any]:
        """Play the games of ``numbers``, popped from the left, up to ``slots`` at once on a core, with the weights that
        ``latest`` returns. Unfinished numbers of a lost node are put back. When ``goes_on`` turns false, the finished
        games are still yielded. Raises UserError if no node is left, or the work fails again and again."""
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
