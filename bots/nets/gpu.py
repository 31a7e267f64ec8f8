"""Asking a net with torch in bfloat16: on a GPU, about many positions at once. Where there is none it works, slowly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from bots.nets.catalogue import load_network
from bots.nets.checkpoint import Checkpoint
from bots.nets.network import Answer


class TorchModel:
    """A net on the device. The last bits of what it says of a position may depend on what else it is asked."""

    outputs: set[str]
    """What it can be asked for, of the parts of ``Answer``."""

    def __init__(self, checkpoint: Checkpoint):
        """Raises CheckpointError for a net that this version doesn't know."""
        manifest = checkpoint.manifest
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._network = load_network(checkpoint).eval().to(self._device)
        answer = self._answer(np.zeros((1, manifest.planes, manifest.size, manifest.size), np.float32))
        self.outputs = {name for name, part in answer._asdict().items() if part is not None}

    def run(self, asked: Sequence[str], planes: np.ndarray) -> list[np.ndarray]:
        """What is asked for about ``planes`` (B, P, n, n) float32, each of it (B, ...) float32."""
        answer = self._answer(planes)
        return [getattr(answer, name).float().numpy(force=True) for name in asked]

    def _answer(self, planes: np.ndarray) -> Answer:
        tensor = torch.from_numpy(planes)
        if self._device.type == "cuda":
            tensor = tensor.pin_memory().to(self._device, non_blocking=True)
        with torch.inference_mode(), torch.autocast(self._device.type, torch.bfloat16):
            answer: Answer = self._network(tensor.to(memory_format=torch.channels_last))
        return answer
