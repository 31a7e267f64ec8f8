"""Evaluates nets whose weights change while they play, without compilation or new processes."""

import threading
from contextlib import nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from arena.go.planes import Encoder
from bots.nets.catalogue import Net
from bots.nets.checkpoint import has_fast_int8, has_own_kernel
from bots.nets.gpu import TorchModel
from bots.nets.inference import INT8_TOLERANCE, POLICY, VALUE, Model, OnnxModel, errors_of_int8
from bots.nets.int8 import PackedModel, Unfit
from bots.nets.network import Network, win_rates
from trainers.export import array, quantise, write_model

ASKED = (POLICY, VALUE)
TOGETHER = 16  # fixed batch size of torch on a CPU: the last bits of an output depend on it


def evaluate_with(model: Model, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """As ``selfplay.SelfPlayNet.evaluate``."""
    policy, value = model.run(ASKED, planes)
    odds = np.exp(value - value.max(1, keepdims=True))  # (B, 3): win, draw, loss
    return policy, (odds[:, 0] + np.float32(0.5) * odds[:, 1]) / odds.sum(1)


class TorchEvaluator:
    """A net in torch, with its weights at the last ``refresh``. Not thread-safe."""

    def __init__(self, network: Net, encoder: Encoder, device: torch.device, bf16: bool = False):
        self.encoder = encoder
        self._model = TorchModel(network, device, bf16)
        self.refresh = self._model.refresh
        self._is_split = device.type == "cpu"

    def evaluate(self, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if not self._is_split:
            return evaluate_with(self._model, planes)
        count = len(planes)
        filled = np.concatenate([planes, np.zeros((-count % TOGETHER, *planes.shape[1:]), np.float32)])
        parts = [evaluate_with(self._model, part) for part in np.split(filled, len(filled) // TOGETHER)]
        policies, rates = zip(*parts, strict=True)
        return np.concatenate(policies)[:count], np.concatenate(rates)[:count]


class LiveEvaluator:
    """A net in int8 if that is fast and exact enough on this processor, else fp32; on a GPU in torch. Thread-safe."""

    def __init__(self, encoder: Encoder, device: torch.device, bf16: bool):
        self.encoder, self.device, self.is_int8 = encoder, device, False
        self._bf16 = bf16
        self._model: Model | None = None
        self._gpu, self._counting = threading.Lock(), threading.Lock()
        self._positions = self._calls = 0

    def counts(self) -> tuple[int, int]:
        """Positions evaluated since the last call of this method, and the number of their batches."""
        with self._counting:
            counted, self._positions, self._calls = (self._positions, self._calls), 0, 0
        return counted

    def take(self, network: Net, planes: np.ndarray) -> None:
        """Take over the current weights of the net, in evaluation mode. ``planes`` (B, P, n, n) are positions of the
        played size, which scale and check int8 if there are at least 32."""
        if self.device.type != "cpu":
            with self._gpu:
                if isinstance(self._model, TorchModel):
                    self._model.refresh()
                else:
                    self._model = TorchModel(network, self.device, self._bf16)
            return
        assert isinstance(network, Network)
        with TemporaryDirectory() as folder:
            path = Path(folder) / "net.onnx"
            rough = _in_int8(network, planes, path) if len(planes) >= 32 else None
            self.is_int8 = rough is not None and _is_exact(rough, network, planes)
            if not self.is_int8:
                write_model(network, path, planes, heads=ASKED)
            self._model = rough if self.is_int8 else OnnxModel(path, 1)

    def evaluate(self, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See ``selfplay.SelfPlayNet``."""
        assert self._model is not None  # ``take`` comes first
        with self._counting:
            self._positions, self._calls = self._positions + len(planes), self._calls + 1
        with nullcontext() if self.device.type == "cpu" else self._gpu:
            return evaluate_with(self._model, planes)


def _in_int8(network: Network, planes: np.ndarray, path: Path) -> "Model | None":
    """The net in int8, with our own kernels if possible, else ONNX Runtime; None on a processor slow at int8."""
    if has_own_kernel():
        with suppress(Unfit):
            state = {name: array(tensor) for name, tensor in network.state_dict().items()}
            return PackedModel(state, planes.shape[-1])
    if not has_fast_int8():
        return None
    write_model(network, path, planes, heads=ASKED)
    quantise(path, path.with_name("int8.onnx"), planes)
    return OnnxModel(path.with_name("int8.onnx"), 1)


def _is_exact(rough: Model, network: Network, planes: np.ndarray) -> bool:
    with torch.no_grad():
        answer = network(torch.from_numpy(planes), ASKED)
    wanted = answer.policy.numpy(), win_rates(answer.value).numpy()
    return max(errors_of_int8(wanted, evaluate_with(rough, planes))) <= INT8_TOLERANCE
