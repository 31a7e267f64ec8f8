"""Nets in torch, built from a name or a manifest: the arena's own, KataGo's, and four from the literature.

- trencseni-cnn (Trencseni 2019, "Playing Go with supervised learning in Pytorch"): three convolutions of 32 channels,
  9x9, 7x7 and 5x5, then two dense layers with dropout, of which the pass is here one more move;
- alphago-12x192 (Silver et al. 2016, Methods, "Neural network architecture"): a 5x5 and eleven 3x3 convolutions, then a
  1x1 convolution with a bias for each point; the pass is here a logit of pooled features;
- alphagonet-4x192 (AlphaGoNet, as articles on 9x9 have it, after alpha-zero-general, github.com/suragnair): 3x3
  convolutions with batch norms, dense layers of 1,024 and 512 with batch norms and dropout, a policy and a tanh value;
- gocnn-5x64 (GoCNN for 9x9, github.com/godmoves/GoCNN, after Gilmer 2016, whose last two layers have 48 channels): 5x5
  convolutions, and a 5x5 one to the logit that a point will be the side to move's.
Dense layers are convolutions for the reason given in ``network.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from arena import CheckpointError, ConfigError
from arena.files import reason
from bots.nets.checkpoint import Checkpoint
from bots.nets.katago import FAMILY, KataGoConfig, KataGoNet, katago_from
from bots.nets.network import Network, NetworkConfig, Outputs, pass_layer

LARGEST = 4096  # the most blocks, channels or planes of a net that is read from a manifest


@dataclass(frozen=True, slots=True)
class ClassicConfig:
    """The shape of such a net; everything needed to build it again."""

    family: str  # a key of FAMILIES
    planes: int  # input planes, those of the encoder
    layers: int  # convolutions before the last
    channels: int  # of each
    size: int  # the only size of boards that it plays; 0 for any


class Classic(nn.Module):
    """Planes (B, P, n, n) -> ``Outputs``: ``stack``, each layer with a ReLU, then what the family ends with."""

    def __init__(self, config: ClassicConfig, layers: Iterable[tuple[int, int]]):
        """``layers`` are the channels and the width of each convolution."""
        super().__init__()
        self.config, self.outputs = config, config.planes
        self.stack = nn.ModuleList()
        for outputs, width in layers:
            self.stack.append(nn.Conv2d(self.outputs, outputs, width, padding=width // 2))
            self.outputs = outputs

    def features(self, planes: Tensor) -> Tensor:
        for layer in self.stack:
            planes = layer(planes).relu()
        return planes  # (B, C, n, n)


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


class AlphaGoPolicy(Classic):
    ENDS: ClassVar = ("stack.0", "points", "passing")

    def __init__(self, config: ClassicConfig):
        super().__init__(config, ((config.channels, 3 if number else 5) for number in range(config.layers)))
        self.points = nn.Conv2d(config.channels, 1, 1, bias=False)
        self.biases = nn.Parameter(torch.zeros(1, 1, config.size, config.size))
        self.passing = pass_layer(config.channels)

    def forward(self, planes: Tensor) -> Outputs:
        x = self.features(planes)
        points = self.points(x) + self.biases  # (B, 1, n, n)
        passing = self.passing(x.mean((2, 3), keepdim=True))  # (B, 1, 1, 1)
        return Outputs(policy=torch.cat([points.flatten(1), passing.flatten(1)], 1))


class AlphaGoNet(Classic):
    ENDS: ClassVar = ("stack.0", "moves", "result")
    DRAW: ClassVar = -10.0  # the logit of a draw, which a tanh has no room for: about e^-10 of the odds

    def __init__(self, config: ClassicConfig):
        super().__init__(config, ((config.channels, 3) for _ in range(config.layers)))
        self.norms = nn.ModuleList(nn.BatchNorm2d(config.channels) for _ in self.stack)
        self.hidden = nn.ModuleList((nn.Conv2d(config.channels, 1024, config.size), nn.Conv2d(1024, 512, 1)))
        self.hidden_norms = nn.ModuleList((nn.BatchNorm2d(1024), nn.BatchNorm2d(512)))
        self.dropout = nn.Dropout(0.3)
        self.moves, self.result = nn.Conv2d(512, config.size**2 + 1, 1), nn.Conv2d(512, 1, 1)

    def forward(self, planes: Tensor) -> Outputs:
        for layer, norm in zip(self.stack, self.norms, strict=True):
            planes = norm(layer(planes)).relu()  # (B, C, n, n)
        for layer, norm in zip(self.hidden, self.hidden_norms, strict=True):
            planes = self.dropout(norm(layer(planes)).relu())  # (B, 1024, 1, 1), then (B, 512, 1, 1)
        x = self.result(planes).flatten(1)  # (B, 1): the odds of win and loss are e^x and e^-x, the value is tanh(x)
        return Outputs(policy=self.moves(planes).flatten(1), value=torch.cat([x, 0 * x + self.DRAW, -x], 1))


class GoCNN(Classic):
    ENDS: ClassVar = ("stack.0", "points")

    def __init__(self, config: ClassicConfig):
        super().__init__(config, ((config.channels, 5) for _ in range(config.layers)))
        self.points = nn.Conv2d(self.outputs, 1, 5, padding=2)

    def forward(self, planes: Tensor) -> Outputs:
        return Outputs(ownership=self.points(self.features(planes)).flatten(1))


FAMILIES: dict[str, Callable[[ClassicConfig], Classic]] = dict(
    trencseni=Trencseni, alphago=AlphaGoPolicy, alphagonet=AlphaGoNet, gocnn=GoCNN
)
Net = Network | Classic | KataGoNet
"""Planes (B, P, n, n) -> ``Outputs``; its ``config`` is what ``network_from`` builds it from again."""


def named_network(name: str, planes: int, size: int) -> Net:
    """An untrained net: arena-BLOCKSxCHANNELS, trencseni-cnn, or alphago-, alphagonet- or gocnn-LAYERSxCHANNELS. The
    ``size`` is for families that play one size only. Raises ConfigError for any other name."""
    family, depth, channels = _parse(name)
    if family == "arena":
        return Network(NetworkConfig(planes, depth, channels, pooling_blocks=min(2, depth), area=1))
    return FAMILIES[family](ClassicConfig(family, planes, depth, channels, 0 if family == "gocnn" else size))


def usual_encoder(name: str) -> str:
    """The encoder that the net of this name was designed for. Raises ConfigError for an unknown name."""
    own = {"trencseni": "stones-1", "alphago": "alphago-48", "gocnn": "gocnn-8c"}
    return own.get(_parse(name)[0], "arena-17")


def _parse(name: str) -> tuple[str, int, int]:
    """The family, depth and channels of a net."""
    if name == "trencseni-cnn":
        return "trencseni", 3, 32
    found = re.fullmatch(r"(arena|alphago|alphagonet|gocnn)-(\d{1,3})x(\d{1,4})", name)
    if not found or not int(found[2]) or not int(found[3]):
        known = "arena-6x56, trencseni-cnn, alphago-12x192, alphagonet-4x192 or gocnn-5x64"
        raise ConfigError(f"unknown net '{name}'; name one like {known}")
    return found[1], int(found[2]), int(found[3])


def network_from(description: Mapping[str, Any]) -> Net:
    """The untrained net of a manifest. Raises CheckpointError for an unknown description."""
    sizes = [value for value in description.values() if isinstance(value, int)]
    if any(abs(value) > LARGEST for value in sizes):
        raise CheckpointError(f"the manifest describes a net with {max(sizes, key=abs)} of something; it is damaged")
    try:
        if "family" not in description:
            return Network(NetworkConfig(**description))
        if description["family"] == FAMILY:
            return katago_from(KataGoConfig(**description))
        config = ClassicConfig(**description)
        return FAMILIES[config.family](config)
    except (TypeError, KeyError, ValueError, RuntimeError, ConfigError) as error:  # torch has several for wrong sizes
        raise CheckpointError(f"the manifest describes a net that this version doesn't know ({error})") from error


def load_network(checkpoint: Checkpoint) -> Net:
    """The net of a checkpoint with its weights. Raises CheckpointError for an unknown net or a rollout policy."""
    checkpoint.require()
    network = network_from(checkpoint.manifest.network)
    load_weights(network, checkpoint)
    return network


def load_weights(network: Net, checkpoint: Checkpoint, strict: bool = True) -> None:
    """Load the weights of a checkpoint into a net. Unless ``strict``, weights that the checkpoint lacks are kept, and
    the net may be wider or have more planes. Raises CheckpointError for weights of another net."""
    try:
        found = load_file(checkpoint.weights)
        weights = {name: found[name] for name in found if not name.startswith("auxiliary.")}  # of heads in training
        if not strict:
            wide = network.state_dict()
            weights |= {name: _widened(weights[name], wide[name]) for name in weights.keys() & wide.keys()}
        network.load_state_dict(weights, strict=strict)
    except (SafetensorError, RuntimeError) as error:  # tensors of other names or shapes
        raise CheckpointError(f"{checkpoint.weights}: doesn't fit the net of its manifest ({reason(error)})") from error


def _widened(weight: Tensor, wide: Tensor) -> Tensor:
    """``wide`` with ``weight`` as its first outputs and inputs. These outputs get zeros for new inputs, so that they
    don't change (Chen et al. 2016, "Net2Net: accelerating learning via knowledge transfer")."""
    if weight.dim() != wide.dim():
        return weight  # torch reports the wrong shape
    widened = wide.clone()
    if wide.dim() > 1:
        widened[: len(weight), weight.shape[1] :] = 0
    widened[tuple(slice(size) for size in weight.shape)] = weight
    return widened
