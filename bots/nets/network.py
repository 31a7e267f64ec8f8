"""The residual net in torch, for training and export: policy, value, ownership, score.

A pre-activation residual tower of 3x3 convolutions (He et al. 2016, "Identity mappings in deep residual networks") with
global pooling in some blocks (Wu 2019, "Accelerating self-play learning in Go", section 4.1), for boards of any size.
Dense layers are 1x1 convolutions on a 1x1 map, so that in ONNX Runtime a position's result doesn't depend on the batch.
"""

from __future__ import annotations

from collections.abc import Collection
from copy import deepcopy
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from arena import ConfigError
from bots.nets.checkpoint import SCORE_UNIT as SCORE_UNIT
from bots.nets.packing import fold_norms

UNTRAINED_PASS = -4.0  # the pass logit before training, one pass in 4,000 moves: a net that passes early ends its games

Module = TypeVar("Module", bound=nn.Module)


class Outputs(NamedTuple):
    """A net's outputs for a batch of positions, all for the side to move; None where it has no such head."""

    policy: Tensor | None = None  # (B, n² + 1) logits
    value: Tensor | None = None  # (B, 3) logits of win, draw, loss
    ownership: Tensor | None = None  # (B, n²) logits
    score: Tensor | None = None  # (B,) in units of SCORE_UNIT points

    def to(self, where: torch.device | torch.dtype) -> Outputs:
        """The same on another device, or in other numbers."""
        return Outputs(*(None if part is None else part.to(where) for part in self))


def expected_result(value: Tensor) -> Tensor:
    """The expected result (B,) of logits of win, draw and loss (B, 3): from -1, the side to move loses, to 1."""
    odds = value.softmax(1)
    return odds[:, 0] - odds[:, 2]


def win_rates(value: Tensor) -> Tensor:
    """Win rates (B,) float64 in [0, 1] of such logits, a draw being half a win."""
    return (1 + expected_result(value.double())) / 2


@dataclass(frozen=True, slots=True)
class NetworkConfig:
    """The shape of a net; everything needed to build it again."""

    planes: int = 17  # input planes, those of the encoder
    blocks: int = 6  # residual blocks of two convolutions
    channels: int = 64  # of the tower
    pooling_blocks: int = 2  # how many of the blocks pool over the whole board, spread evenly
    pooled_channels: int = 16  # pooled in such a block and in the policy head
    head_channels: int = 32  # of the policy head and the value head
    area: int = 0  # 1 with heads for ownership and score, 0 without

    def __post_init__(self) -> None:
        sizes = self.planes, self.blocks, self.channels, self.pooled_channels, self.head_channels
        if min(sizes) < 1 or not 0 <= self.pooling_blocks <= self.blocks:
            raise ConfigError(f"a net of this shape can't be built: {self}")

    def pools(self, block: int) -> bool:
        """Whether block ``block`` (from 0) pools: the last of each of ``pooling_blocks`` equal parts of the tower."""
        return (block + 1) * self.pooling_blocks // self.blocks > block * self.pooling_blocks // self.blocks


def convolution(inputs: int, outputs: int, width: int = 3, bias: bool = False) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, width, padding=width // 2, bias=bias)


def pass_layer(inputs: int) -> nn.Conv2d:
    """From pooled features to the logit of the pass."""
    layer = convolution(inputs, 1, 1, bias=True)
    nn.init.zeros_(layer.weight)
    nn.init.constant_(layer.bias, UNTRAINED_PASS)  # type: ignore[arg-type]  # it has a bias
    return layer


def pooled(x: Tensor) -> Tensor:
    """The mean and the maximum of each channel; (B, C, n, n) -> (B, 2C, 1, 1)."""
    return torch.cat([x.mean((2, 3), keepdim=True), x.amax((2, 3), keepdim=True)], 1)


def fold_batch_norms(network: Module) -> Module:
    """A copy in evaluation mode with the norms that follow convolutions folded into these. It doesn't learn."""
    copy = deepcopy(network).eval().requires_grad_(False)
    state = fold_norms(copy.state_dict())
    for name, module in list(copy.named_modules()):
        parent, _, last = name.rpartition(".")
        if isinstance(module, nn.BatchNorm2d) and f"{name}.weight" not in state:
            setattr(copy.get_submodule(parent), last, nn.Identity())
        elif isinstance(module, nn.Conv2d) and module.bias is None and f"{name}.bias" in state:
            module.bias = nn.Parameter(torch.empty(module.out_channels), False)
    copy.load_state_dict(state)
    return copy


class Block(nn.Module):
    """BN, ReLU, 3x3, BN, ReLU, 3x3, added to the input. With ``pooled_channels``, the first half has this many more
    channels, which are pooled over the board and become a bias of the others."""

    def __init__(self, channels: int, pooled_channels: int = 0):
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(channels), convolution(channels, channels)
        self.pools = pooled_channels > 0
        if self.pools:
            self.pool, self.norm_pool = convolution(channels, pooled_channels), nn.BatchNorm2d(pooled_channels)
            self.spread = convolution(2 * pooled_channels, channels, 1, bias=True)
        self.norm2, self.conv2 = nn.BatchNorm2d(channels), convolution(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm1(x).relu()
        y = self.conv1(h)
        if self.pools:
            y = y + self.spread(pooled(self.norm_pool(self.pool(h)).relu()))  # pooled: (B, 2 pooled_channels, 1, 1)
        return x + self.conv2(self.norm2(y).relu())


class PolicyHead(nn.Module):
    """Logits of the points and, from pooled features alone, of the pass."""

    ENDS: ClassVar = ("points", "passing")

    def __init__(self, config: NetworkConfig):
        super().__init__()
        c, h, g = config.channels, config.head_channels, config.pooled_channels
        self.conv, self.norm = convolution(c, h, 1), nn.BatchNorm2d(h)
        self.pool, self.norm_pool = convolution(c, g, 1), nn.BatchNorm2d(g)
        self.spread = convolution(2 * g, h, 1, bias=True)
        self.points = convolution(h, 1, 1)
        self.passing = pass_layer(2 * g)

    def forward(self, x: Tensor) -> Tensor:
        g = pooled(self.norm_pool(self.pool(x)).relu())  # (B, 2g, 1, 1)
        y = self.norm(self.conv(x) + self.spread(g)).relu()  # (B, h, n, n)
        return torch.cat([self.points(y).flatten(1), self.passing(g).flatten(1)], 1)  # (B, n² + 1)


class PooledHead(nn.Module):
    """A dense layer on pooled features: logits of win, draw and loss (B, 3) for the side to move, or with one output
    (B,) its lead at the end, komi counted, in units of ``SCORE_UNIT`` points."""

    ENDS: ClassVar = ("result",)

    def __init__(self, channels: int, hidden: int, outputs: int):
        super().__init__()
        self.conv, self.norm = convolution(channels, hidden, 1), nn.BatchNorm2d(hidden)
        self.hidden = convolution(2 * hidden, 2 * hidden, 1, bias=True)
        self.result = convolution(2 * hidden, outputs, 1, bias=True)
        self._outputs = outputs

    def forward(self, x: Tensor) -> Tensor:
        g = pooled(self.norm(self.conv(x)).relu())  # (B, 2 hidden, 1, 1)
        return self.result(self.hidden(g).relu()).flatten(int(self._outputs > 1))


class OwnershipHead(nn.Module):
    """Logits that each point will be owned by the side to move at the end."""

    ENDS: ClassVar = ("points",)

    def __init__(self, config: NetworkConfig):
        super().__init__()
        c, g = config.channels, config.pooled_channels
        self.conv, self.norm = convolution(c, g, 1), nn.BatchNorm2d(g)
        self.points = convolution(g, 1, 3, bias=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.points(self.norm(self.conv(x)).relu()).flatten(1)  # (B, n²)


class Network(nn.Module):
    """Planes (B, P, n, n) -> ``Outputs``."""

    ENDS: ClassVar = ("stem",)  # layers that read the planes or write outputs; each part of a net names its own

    def __init__(self, config: NetworkConfig):
        super().__init__()
        self.config = config
        self.stem = convolution(config.planes, config.channels)
        pooled_channels = [config.pooled_channels * config.pools(block) for block in range(config.blocks)]
        self.tower = nn.ModuleList(Block(config.channels, pooled) for pooled in pooled_channels)
        self.norm = nn.BatchNorm2d(config.channels)
        self.policy = PolicyHead(config)
        self.value = PooledHead(config.channels, config.head_channels, 3)
        self.ownership = OwnershipHead(config) if config.area else None
        self.score = PooledHead(config.channels, config.pooled_channels, 1) if config.area else None

    def forward(self, planes: Tensor, heads: Collection[str] = Outputs._fields) -> Outputs:
        """Only the outputs of these ``heads`` are computed."""
        x = self.stem(planes)  # (B, C, n, n)
        for block in self.tower:
            x = block(x)
        x = self.norm(x).relu()
        parts = {name: getattr(self, name) for name in Outputs._fields if name in heads}
        return Outputs(**{name: head(x) for name, head in parts.items() if head is not None})
