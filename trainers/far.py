"""Self-play games on the cores of a Ray cluster, for a net that learns here: its weights travel there through the
cluster's object store, and games come back as they end. No learning, no files.

Which weights a move is played with depends on when they arrive, so games can't be had again by a number: each player's
random numbers start again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np
import torch

from arena.go.planes import Encoder, find_encoder
from bots.nets.catalogue import Net
from trainers.cluster import Cores
from trainers.live import LiveNet
from trainers.players import Chances, Pace, Played, Player, Table
from trainers.progress import Look

if TYPE_CHECKING:
    from trainers.cluster import Stage

MANY = 1_000_000
"""Players that a run may have in all, those in the place of lost ones included."""

CHUNK = 1.0
"""Seconds after which a player sends the games that are over."""


@dataclass(frozen=True, slots=True)
class Weights:
    """What players are sent."""

    network: Net  # on the processor
    planes: np.ndarray  # (B, P, n, n): positions by which int8 is scaled
    chances: Chances


class SentNet:
    """What stands for a ``LiveNet`` where nobody plays: it sends on the weights."""

    is_int8 = False

    def __init__(self, chances: Callable[[], Chances]):
        self._chances = chances
        self.sent: Weights | None = None

    def take(self, network: Net, planes: np.ndarray) -> None:
        """Send the weights that the net has now."""
        self.sent = Weights(deepcopy(network).cpu(), planes, self._chances())


class FarPlayer:
    """All cores that are lent, as one player."""

    def __init__(self, cores: Cores, table: Table, net: SentNet, encoder: Encoder, slots: int):
        """Each core plays ``slots`` games at once."""
        self._cores, self._net = cores, net
        self._work = partial(play_there, table, encoder.name, slots)
        self.pace = Pace()

    def play(self, goes_on: Callable[[], bool], finish: Callable[[Played], None]) -> None:
        """As ``Player.play`` does. Raises UserError where no node can be used."""
        for games, pace in self._cores.play(self._work, deque(range(MANY)), 1, goes_on, lambda: self._net.sent):
            self.pace += pace
            for game in games:
                finish(game)

    def look(self) -> Look | None:
        """No position travels."""
        return None


def play_there(
    table: Table, encoder: str, slots: int, _: Sequence[int], stage: Stage
) -> Iterator[tuple[None, tuple[list[Played], Pace]]]:
    """Play on a node until the stage is over: games that have ended, and what was done since the last."""
    net, random = stage.once(lambda: _Following(stage, find_encoder(encoder))), np.random.default_rng()
    player = Player(table, lambda: net.weights.chances.draw(random), net, slots)
    while not stage.is_over:
        games: list[Played] = []
        before = player.pace
        player.play(partial(_is_early, stage, monotonic() + CHUNK), games.append)
        yield None, (games, player.pace - before)


def _is_early(stage: Stage, until: float) -> bool:
    return not stage.is_over and monotonic() < until


class _Following:
    """A net that has the weights that were sent last, for all players of a node."""

    def __init__(self, stage: Stage, encoder: Encoder):
        self.encoder, self._stage = encoder, stage
        self._live = LiveNet(encoder, torch.device("cpu"), bf16=False)
        self._lock = threading.Lock()
        self._follow()

    def _follow(self) -> None:
        self.weights: Weights = self._stage.sent
        self._live.take(self.weights.network, self.weights.planes.copy())  # what Ray gives can't be written to

    def evaluate(self, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See ``LiveNet``. One thread takes new weights, while others go on with the old."""
        if self._stage.sent is not self.weights and self._lock.acquire(blocking=False):
            try:
                self._follow()
            finally:
                self._lock.release()
        return self._live.evaluate(planes)
