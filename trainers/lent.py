"""Cores of a Ray cluster that are lent to a trainer for its games. Nothing is played here; torch isn't imported."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from arena.go.game import Rules
from arena.players.player import Player

if TYPE_CHECKING:
    from arena.match.cluster import Cluster, Work

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Lent:
    """A Ray cluster whose cores play, and how many of them at most, 0 for all; who is told what happens there."""

    address: str
    players: int = 0
    on_news: Callable[[str], None] = lambda _: None


class Cores:
    """Cores of a cluster that is connected."""

    def __init__(self, cluster: Cluster, on_news: Callable[[str], None]):
        self._cluster, self._on_news = cluster, on_news

    def play(
        self,
        work: Work[int, Made],
        numbers: deque[int],
        slots: int,
        goes_on: Callable[[], bool] = lambda: True,
        sent: Callable[[], Any] = lambda: None,
    ) -> Iterator[Made]:
        """What is made of the games of ``numbers``, up to ``slots`` at once on a core; see ``Cluster.share``."""
        each = min(slots, -(-len(numbers) // max(1, self._cluster.most)))
        for made in self._cluster.share(work, numbers, each, goes_on, sent):
            for line in self._cluster.news():
                self._on_news(line)
            yield from made


@contextmanager
def connected(lent: Lent | None, players: Collection[Player], rules: Rules) -> Iterator[Cores | None]:
    """The cores that are ``lent``, to which the nets of ``players`` travel. Raises UserError where none answers."""
    if lent is None:
        yield None
        return
    from arena.match.cluster import Cluster

    with Cluster(lent.address, lent.players, {entry.name: entry for entry in players}, rules) as cluster:
        yield Cores(cluster, lent.on_news)
