"""Nets of others in torch, built as they were described, to be compared with: plain stacks of convolutions.

- trencseni-cnn (Trencseni 2019, "Playing Go with supervised learning in Pytorch"): three convolutions of 32 channels,
  9x9, 7x7 and 5x5, then two dense layers with dropout;
- alphago-12x192 (Silver et al. 2016, Methods, "Neural network architecture"): a 5x5 and eleven 3x3 convolutions, then a
  1x1 convolution with a bias for each point; any other number of layers and channels may stand in the name;
- gocnn-5x64 (Gilmer 2016, GoCNN): 5x5 convolutions, the last two a quarter narrower, and a 5x5 one to the logit that a
  point will be the side to move's; any number of layers and channels too.

The first two didn't know the pass; here it is one more move of the dense layer, and a logit of pooled features. Dense
layers are written as convolutions as wide as the board, for the reason given in ``network.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from bots.nets.network import UNTRAINED_PASS, Outputs


@dataclass(frozen=True, slots=True)
class ClassicConfig:
    """The shape of such a net; everything needed to build it again."""

    family: str
    """trencseni, alphago or gocnn."""
    planes: int
    """Input planes; the encoder says how many."""
    layers: int
    """Convolutions before the last."""
    channels: int
    """Channels of each."""
    size: int
    """The only size of boards it plays; 0 for any."""


class Classic(nn.Module):
    """Planes (B, P, n, n) -> ``Outputs``: ``stack``, each layer with a ReLU, then what the family ends with."""

    def __init__(self, config: ClassicConfig, layers: Iterable[tuple[int, int]]):
        """``layers`` are the channels and the width of each convolution."""
        super().__init__()
        self.config = config
        self.stack = nn.ModuleList()
        self.outputs = config.planes
        for outputs, width in layers:
            self.stack.append(nn.Conv2d(self.outputs, outputs, width, padding=width // 2))
            self.outputs = outputs

    def features(self, planes: Tensor) -> Tensor:
        x = planes
        for layer in self.stack:
            x = layer(x).relu()
        return x  # (B, C, n, n)


class Trencseni(Classic):
    ENDS: ClassVar = ("stack.0", "moves")

    def __init__(self, config: ClassicConfig):
        super().__init__(config, ((config.channels, width) for width in (9, 7, 5)))
        points = config.size**2
        self.hidden = nn.Conv2d(config.channels, points, config.size)
        self.dropout = nn.Dropout(0.5)
        self.moves = nn.Conv2d(points, points + 1, 1)

    def forward(self, planes: Tensor) -> Outputs:
        y = self.dropout(self.hidden(self.features(planes)).relu())  # (B, n², 1, 1)
        return Outputs(policy=self.moves(y).flatten(1))  # (B, n² + 1)


class AlphaGo(Classic):
    ENDS: ClassVar = ("stack.0", "points", "passing")

    def __init__(self, config: ClassicConfig):
        super().__init__(config, ((config.channels, 3 if number else 5) for number in range(config.layers)))
        self.points = nn.Conv2d(config.channels, 1, 1, bias=False)
        self.biases = nn.Parameter(torch.zeros(1, 1, config.size, config.size))
        self.passing = nn.Conv2d(config.channels, 1, 1)
        nn.init.zeros_(self.passing.weight)
        nn.init.constant_(self.passing.bias, UNTRAINED_PASS)  # type: ignore[arg-type]  # it has a bias

    def forward(self, planes: Tensor) -> Outputs:
        x = self.features(planes)
        points = self.points(x) + self.biases  # (B, 1, n, n)
        passing = self.passing(x.mean((2, 3), keepdim=True))  # (B, 1, 1, 1)
        return Outputs(policy=torch.cat([points.flatten(1), passing.flatten(1)], 1))


class GoCNN(Classic):
    ENDS: ClassVar = ("stack.0", "points")

    def __init__(self, config: ClassicConfig):
        narrow = max(1, config.channels * 3 // 4)
        super().__init__(
            config, ((narrow if number >= config.layers - 2 else config.channels, 5) for number in range(config.layers))
        )
        self.points = nn.Conv2d(self.outputs, 1, 5, padding=2)

    def forward(self, planes: Tensor) -> Outputs:
        return Outputs(ownership=self.points(self.features(planes)).flatten(1))


FAMILIES: dict[str, Callable[[ClassicConfig], Classic]] = {"trencseni": Trencseni, "alphago": AlphaGo, "gocnn": GoCNN}
