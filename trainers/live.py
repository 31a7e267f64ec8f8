"""Nets that play while they learn: their weights change between two questions, and nothing is compiled or started."""

from __future__ import annotations

import threading
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import Tensor, nn

from arena.go.planes import Encoder
from bots.nets.catalogue import Net
from bots.nets.checkpoint import has_fast_int8
from bots.nets.gpu import TorchModel
from bots.nets.inference import INT8_TOLERANCE, POLICY, VALUE, Model, OnnxModel, errors_of_int8
from bots.nets.int8 import PackedModel, is_supported
from bots.nets.network import Answer, Network, win_rates
from trainers.export import array, quantise, ranges_of, write_model

ASKED = (POLICY, VALUE)


class Playing(nn.Module):
    """A net that gives what a search asks for alone, which spares the other heads' time."""

    def __init__(self, network: Network):
        super().__init__()
        self.network = network

    def forward(self, planes: Tensor) -> Answer:
        answer: Answer = self.network(planes, ASKED)
        return answer


class HeadsModel:
    """A net as players ask it."""

    def __init__(self, model: Model):
        self.model = model

    def evaluate(self, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        policy, value = self.model.run(ASKED, planes)
        odds = np.exp(value - value.max(1, keepdims=True))  # (B, 3): win, draw, loss
        return policy, (odds[:, 0] + np.float32(0.5) * odds[:, 1]) / odds.sum(1)


class LiveNet:
    """A net that players ask: in int8 where the processor is fast at it and it is exact enough; in torch on a GPU.
    ``take`` may be called while others ask."""

    def __init__(self, encoder: Encoder, device: torch.device, bf16: bool, int8: bool = True, packed: bool = True):
        self.encoder = encoder
        self.is_int8 = False
        self._device, self._bf16 = device, bf16
        self._int8, self._packed = int8, packed and is_supported()
        self._model: HeadsModel | None = None
        self._shared = threading.Lock()  # of a GPU: while one thread asks, the others walk their trees

    def take(self, network: Net, planes: np.ndarray) -> None:
        """Take over the weights that the net, in evaluation mode, has now. ``planes`` (B, P, n, n) are positions of the
        size that is played; by them int8 is scaled and compared, from 32 on."""
        if self._device.type == "cpu":
            assert isinstance(network, Network)
            self._model = self._of_processor(network, planes)
        elif isinstance(self._model, HeadsModel) and isinstance(self._model.model, TorchModel):
            with self._shared:
                self._model.model.refresh()
        else:
            self._model = HeadsModel(TorchModel(network, self._device, self._bf16))

    def _of_processor(self, network: Network, planes: np.ndarray) -> HeadsModel:
        self.is_int8 = False
        rough: HeadsModel | None = None
        with TemporaryDirectory() as folder:
            path = Path(folder) / "net.onnx"
            if self._int8 and len(planes) >= 32:
                if self._packed and (ranges := ranges_of(network, planes)):
                    numbers = {name: array(tensor) for name, tensor in network.state_dict().items()}
                    rough = HeadsModel(PackedModel(numbers, ranges))
                elif has_fast_int8():
                    write_model(Playing(network).eval(), path, planes)  # type: ignore[arg-type]  # two heads of a net
                    quantise(path, path.with_name("int8.onnx"), planes)
                    rough = HeadsModel(OnnxModel(path.with_name("int8.onnx"), 1))
            if rough is not None:
                with torch.no_grad():
                    answer = network(torch.from_numpy(planes), ASKED)
                exact = answer.policy.numpy(), win_rates(answer.value).numpy()
                self.is_int8 = max(errors_of_int8(exact, rough.evaluate(planes))) <= INT8_TOLERANCE
                if self.is_int8:
                    return rough
            write_model(Playing(network).eval(), path, planes)  # type: ignore[arg-type]  # two heads of a net
            return HeadsModel(OnnxModel(path, 1))

    def evaluate(self, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Policy logits (B, n² + 1) and win rates (B,) of ``planes`` (B, P, n, n), float32; for the side to move."""
        assert self._model is not None  # ``take`` comes first
        if self._device.type == "cpu":
            return self._model.evaluate(planes)
        with self._shared:
            return self._model.evaluate(planes)
