"""Evaluates positions with torch, in large batches on a GPU; the net may be in training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bots.nets.catalogue import Classic, Net, load_network
from bots.nets.checkpoint import Checkpoint
from bots.nets.network import fold_batch_norms

# Positions in a captured batch. Batches are padded to the next power of 2; larger ones are split.
SMALLEST, LARGEST = 8, 4096


class _Captured(NamedTuple):
    """A CUDA graph for batches of one shape, and the memory that it reads from and writes to."""

    graph: torch.cuda.CUDAGraph
    pinned: Tensor  # (batch, P, n, n) float32, on the host
    given: Tensor  # the same on the device
    outputs: list[Tensor]  # (batch, ...) float32, on the device


class TorchModel:
    """A net on a device, with its batch norms folded. On a GPU each size of batch is captured as a CUDA graph at first
    use. The last bits of the outputs for a position may depend on the rest of the batch. Not thread-safe."""

    outputs: set[str]  # the heads that it has, of those of ``Outputs``
    stream: torch.cuda.Stream | None  # where captured graphs replay; None on a processor

    def __init__(self, network: Net, device: torch.device, bf16: bool = True):
        """``network`` may be in training; ``refresh`` copies its weights."""
        self._network, self._device = network, device
        self._type = torch.bfloat16 if bf16 else torch.float32
        self._net = self._folded()
        size = getattr(network.config, "size", 0) or 9  # the only one that some play, or any
        planes = torch.zeros((1, network.config.planes, size, size), device=device, dtype=self._type)
        with torch.inference_mode():
            self.outputs = {name for name, part in self._net(planes)._asdict().items() if part is not None}
        self._graphs: dict[tuple[tuple[str, ...], torch.Size], _Captured] = {}
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    @classmethod
    def of(cls, checkpoint: Checkpoint, bf16: bool = True) -> TorchModel:
        """Raises CheckpointError for a net that this version doesn't know."""
        return cls(load_network(checkpoint), torch.device("cuda" if torch.cuda.is_available() else "cpu"), bf16)

    def refresh(self) -> None:
        """Copy the network's present weights in place, so that captured graphs stay valid. Graphs replay on a stream of
        their own; it and the copies wait for each other."""
        if self.stream is not None:
            torch.cuda.current_stream(self._device).wait_stream(self.stream)
        for mine, theirs in zip(self._net.state_dict().values(), self._folded().state_dict().values(), strict=True):
            mine.copy_(theirs)
        if self.stream is not None:
            self.stream.wait_stream(torch.cuda.current_stream(self._device))

    def run(self, heads: Sequence[str], planes: np.ndarray) -> list[np.ndarray]:
        """The outputs of these heads for ``planes`` (B, P, n, n) float32, each (B, ...) float32."""
        heads = tuple(heads)
        with torch.inference_mode():
            if self.stream is None:
                return [part.cpu().numpy() for part in self._evaluate(heads, torch.from_numpy(planes))]
            parts = [self._run_captured(heads, part) for part in torch.from_numpy(planes).split(LARGEST)]
            return [np.concatenate(part) for part in zip(*parts, strict=True)]

    def _folded(self) -> Net:
        """The network as it is now, for the device."""
        net = fold_batch_norms(self._network)
        net.to(self._device, memory_format=torch.channels_last)  # type: ignore[call-overload]  # not in hints
        for layer in net.modules():
            if isinstance(layer, torch.nn.BatchNorm2d):  # follows a sum; its running means need more than 8 bits
                continue
            for parameter in layer.parameters(recurse=False):
                parameter.data = parameter.to(self._type)
        return net

    def _evaluate(self, heads: tuple[str, ...], planes: Tensor) -> list[Tensor]:
        given = planes.to(self._device).to(self._type, memory_format=torch.channels_last)
        outputs = self._net(given) if isinstance(self._net, Classic) else self._net(given, heads)
        return [getattr(outputs, head).float() for head in heads]

    def _run_captured(self, heads: tuple[str, ...], planes: Tensor) -> list[np.ndarray]:
        count = len(planes)
        shape = torch.Size((max(SMALLEST, 1 << (count - 1).bit_length()), *planes.shape[1:]))
        if (heads, shape) not in self._graphs:
            self._graphs[heads, shape] = self._capture(heads, shape)
        captured = self._graphs[heads, shape]
        captured.pinned[:count] = planes
        with torch.cuda.stream(self.stream):
            captured.given.copy_(captured.pinned, non_blocking=True)
            captured.graph.replay()
            return [part[:count].cpu().numpy() for part in captured.outputs]

    def _capture(self, heads: tuple[str, ...], shape: torch.Size) -> _Captured:
        """After three runs, in which cuDNN chooses its algorithms (https://docs.pytorch.org/docs/stable/notes/cuda.html,
        "CUDA Graphs"). Other threads may go on using the device."""
        pinned, given = torch.zeros(shape).pin_memory(), torch.zeros(shape, device=self._device)
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                self._evaluate(heads, given)
        torch.cuda.synchronize(self._device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream, capture_error_mode="thread_local"):
            outputs = self._evaluate(heads, given)
        return _Captured(graph, pinned, given, outputs)
