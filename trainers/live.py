"""Nets that play while they learn: their weights change between two questions, and nothing is compiled or started."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import Tensor, nn

from arena.go.planes import Encoder
from bots.nets.catalogue import Net
from bots.nets.checkpoint import has_fast_int8
from bots.nets.gpu import TorchModel
from bots.nets.inference import DOUBT, POLICY, VALUE, Model, OnnxModel
from bots.nets.network import Answer, Network
from trainers.export import quantise, write_model

ASKED = (POLICY, VALUE)


class Playing(nn.Module):
    """A net that gives what a search asks for alone, which spares the other heads' time."""

    def __init__(self, network: Network):
        super().__init__()
        self.network = network

    def forward(self, planes: Tensor) -> Answer:
        answer: Answer = self.network(planes, ASKED)
        return answer


class LiveNet:
    """A net that players ask: in ONNX Runtime on a processor, in int8 where that is fast and exact enough; in torch on
    a GPU. ``take`` may be called while others ask."""

    def __init__(self, encoder: Encoder, device: torch.device, bf16: bool, int8: bool = True):
        self.encoder = encoder
        self.is_int8 = False
        self._device, self._bf16 = device, bf16
        self._int8 = int8 and has_fast_int8()
        self._model: Model | None = None
        self._shared = threading.Lock()  # of a GPU: while one thread asks, the others walk their trees

    def take(self, network: Net, planes: np.ndarray) -> None:
        """Take over the weights that the net has now. ``planes`` (B, P, n, n) are positions; by them int8 is scaled and
        compared, from 32 on."""
        if self._device.type == "cpu":
            self._model = self._exported(network, planes)
        elif isinstance(self._model, TorchModel):
            with self._shared:
                self._model.refresh()
        else:
            self._model = TorchModel(network, self._device, self._bf16)

    def _exported(self, network: Net, planes: np.ndarray) -> Model:
        assert isinstance(network, Network)
        self.is_int8 = False
        with TemporaryDirectory() as folder:
            path = Path(folder) / "net.onnx"
            write_model(Playing(network).eval(), path, planes)  # type: ignore[arg-type]  # two heads of a net
            exact = OnnxModel(path, 1)
            if not self._int8 or len(planes) < 32:
                return exact
            quantise(path, path.with_name("int8.onnx"), planes)
            rough = OnnxModel(path.with_name("int8.onnx"), 1)
        policy, other = (_answers(model, planes)[0] for model in (exact, rough))
        self.is_int8 = bool((policy - other).var(1).mean() <= DOUBT * policy.var(1).mean())
        return rough if self.is_int8 else exact

    def evaluate(self, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Policy logits (B, n² + 1) and win rates (B,) of ``planes`` (B, P, n, n), float32; for the side to move."""
        assert self._model is not None  # ``take`` comes first
        if self._device.type == "cpu":
            policy, value = _answers(self._model, planes)
        else:
            with self._shared:
                policy, value = _answers(self._model, planes)
        odds = np.exp(value - value.max(1, keepdims=True))  # (B, 3): win, draw, loss
        return policy, (odds[:, 0] + np.float32(0.5) * odds[:, 1]) / odds.sum(1)


def _answers(model: Model, planes: np.ndarray) -> Sequence[np.ndarray]:
    return model.run(ASKED, planes)
