"""Loading and saving of linear rollout policies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file
from safetensors.numpy import save as serialize

from arena import CheckpointError
from bots.nets.checkpoint import ROLLOUT, SHIPPED_NETS, WEIGHTS, Checkpoint, Manifest, save
from bots.search.rollouts import FEATURES, SHARPNESS, Weights, expand_weights, tie

TENSOR = "learned"  # the one in the file of weights: (weights,) float32, in the order of ``bots.search.rollouts.tie``


@dataclass(frozen=True, slots=True)
class RolloutPolicy:
    """A checkpoint whose weights were read."""

    checkpoint: Checkpoint
    learned: np.ndarray  # (weights,) float32

    @classmethod
    def open(cls, folder: str | Path) -> RolloutPolicy:
        """Read and verify a folder. Raises CheckpointError for a missing or damaged one, a net, unknown features."""
        checkpoint, again = Checkpoint.open(folder), "train it again: arena train rollout"
        checkpoint.require(ROLLOUT)
        if (features := checkpoint.manifest.network.get("features")) != FEATURES:
            raise CheckpointError(f"{folder}: has the features {features!r} and this version knows {FEATURES}; {again}")
        try:
            learned = load_file(checkpoint.weights)[TENSOR]
        except (SafetensorError, KeyError) as error:
            raise CheckpointError(f"{checkpoint.weights}: has no weights ({error}); {again}") from error
        if learned.shape != (int(tie().max()) + 1,):
            raise CheckpointError(f"{checkpoint.weights}: has {learned.shape} weights; {again}")
        return cls(checkpoint, learned)


@cache
def shipped_weights(size: int) -> Weights:
    """The rollout policy that ships, for playouts on boards of ``size``."""
    return expand_weights(RolloutPolicy.open(SHIPPED_NETS / "rollout-9x9").learned, size, SHARPNESS)


def save_policy(folder: str | Path, manifest: Manifest, learned: np.ndarray) -> RolloutPolicy:
    """Save weights as a checkpoint, as ``checkpoint.save`` does."""
    learned = np.ascontiguousarray(learned, np.float32)

    def write(new: Path) -> dict[str, float]:
        (new / WEIGHTS).write_bytes(serialize({TENSOR: learned}))  # an OSError where it can't be written
        return {}

    return RolloutPolicy(save(folder, manifest, write), learned)
