"""KataGo's nets in torch: a reader of its model files (versions 8 to 17), and the net (cpp/neuralnet/desc.cpp).

A file is a list of words with blocks of float32 between them. A manifest keeps the words, without the names of layers,
as ``layers``; the same code builds the net from them. All outputs are for the side to move.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from arena import CheckpointError
from arena.files import open_regular, reason
from arena.go.coords import MAX_SIZE
from arena.go.ranks import METADATA
from bots.nets.network import SCORE_UNIT, Outputs

FAMILY, ENCODER, HUMAN_ENCODER = "katago", "katago-22", "katago-human"
VERSIONS = range(8, 18)
PLANES, NUMBERS = 22, 19  # inputs of version 7; the encoder writes each number as one more plane
MOST_CHANNELS, MOST_WEIGHTS = 1 << 14, 1 << 30  # of a layer, and of a net
IMPOSSIBLE = 20.0  # subtracted from the logit of an impossible result
WORD = re.compile(rb"\s*([!-~]{1,200})(?=\s|$)")
MOST_BYTES = 4 * MOST_WEIGHTS + (1 << 24)  # of a decompressed file


class Layers:
    """Reads the words of a decompressed model file (.bin.gz), or of a description, which has no names and for which
    weights are zeros. Raises CheckpointError, also for weights that aren't finite."""

    version = 0  # the net's, once it is known

    def __init__(self, data: bytes, place: str, is_file: bool):
        self._data, self._place, self._is_file = data, place, is_file
        self._at = self._count = 0
        self.words = list[str]()  # those that were read, without names: the net's description
        self.layer = "net"  # the layer that is being read, for errors

    def fail(self, problem: str) -> CheckpointError:
        return CheckpointError(f"{self._place}: {problem}")

    def _next(self) -> str:
        found = WORD.match(self._data, self._at)
        if found is None:
            cut = not self._data[self._at :].strip()
            raise self.fail(f"it is cut in {self.layer}" if cut else f"it isn't a net of KataGo's ({self.layer})")
        self._at = found.end()
        return found[1].decode()

    def name(self) -> str:
        if self._is_file:
            self.layer = self._next()
        return self.layer

    def word(self) -> str:
        self.words.append(self._next())
        return self.words[-1]

    def weights(self, *shape: int) -> Tensor:
        count = prod(shape)
        self._count += count
        if self._count > MOST_WEIGHTS:
            raise self.fail("it has too many weights")
        if not self._is_file:
            return torch.zeros(shape)
        begin = self._data.find(b"@BIN@", self._at, self._at + 100) + 5
        self._at = begin + 4 * count
        if begin < 5 or len(self._data) < self._at:
            raise self.fail(f"{self.layer}: no block of {count} weights where one is expected; the file may be cut")
        found = np.frombuffer(self._data, "<f4", count, begin)
        if not np.isfinite(found).all():
            raise self.fail(f"{self.layer}: a weight isn't finite")
        found = np.where(np.abs(found) < np.finfo(np.float32).tiny, 0, found)  # subnormals took 20 times as long
        return torch.from_numpy(found.astype(np.float32).reshape(shape))

    def end(self) -> None:
        if rest := len(self._data[self._at :].strip()):
            raise self.fail(f"{rest:,} bytes are left over behind the last layer")

    def number(self) -> float:
        word = self.word()
        with suppress(ValueError):
            if np.isfinite(found := float(word)):
                return found
        raise self.fail(f"{self.layer}: expected a number, not '{word[:40]}'")

    def whole(self, least: int = 1, most: int = MOST_CHANNELS) -> int:
        number = self.number()
        if number != int(number) or not least <= number <= most:
            raise self.fail(f"{self.layer}: {number:g} isn't a whole number from {least} to {most}")
        return int(number)

    def option(self, name: str, known: Collection[int] = (0,)) -> int:
        """A number that selects a variant of the net, one of those ``known`` here."""
        number = self.whole(least=0)
        if number not in known:
            raise self.fail(f"option {name} = {number}, which isn't known here")
        return number


# --- Layers ---


ACTIVATIONS = {
    "ACTIVATION_IDENTITY": lambda x: x,
    "ACTIVATION_RELU": torch.relu,
    "ACTIVATION_MISH": functional.mish,
    "ACTIVATION_SILU": functional.silu,
}


class Part(nn.Module):
    """A part of a net with its constants in its state, for ``packing``."""

    def note(self, name: str, *numbers: float) -> None:
        """Put a constant into the state."""
        self.register_buffer(name, torch.tensor(numbers if len(numbers) > 1 else numbers[0]))

    def read_activation(self, layers: Layers, name: str = "activation") -> Callable[[Tensor], Tensor]:
        """The next activation; the state has its index in ``ACTIVATIONS``."""
        layers.name()
        kind = layers.word() if layers.version >= 11 else "ACTIVATION_RELU"
        if kind not in ACTIVATIONS:
            raise layers.fail(f"{layers.layer}: unknown activation '{kind[:60]}'")
        self.note(name, [*ACTIVATIONS].index(kind))
        return ACTIVATIONS[kind]


def fixed(numbers: Tensor) -> nn.Parameter:
    return nn.Parameter(numbers.contiguous(), requires_grad=False)


class Convolution(nn.Conv2d):
    """A convolution of odd height and width; ``kept`` limits its outputs to the first ones."""

    def __init__(self, layers: Layers, kept: int | None = None):
        layers.name()
        height, width, inputs, outputs, down, across = (layers.whole() for _ in range(6))
        if not height % 2 or not width % 2 or not down * across == 1:
            raise layers.fail(f"{layers.layer}: a {height}x{width} convolution with dilation isn't known here")
        shape, padding = (height, width), (height // 2, width // 2)
        super().__init__(inputs, kept or outputs, shape, padding=padding, bias=False, device="meta")
        self.weight = fixed(layers.weights(height, width, inputs, outputs).permute(3, 2, 0, 1)[:kept])


class Dense(nn.Conv2d):
    """A matrix, with or without a bias, as a 1x1 convolution of pooled features; ``rows`` selects outputs."""

    def __init__(self, layers: Layers, has_bias: bool = False, rows: list[int] | None = None, scale: float = 1.0):
        layers.name()
        inputs, outputs = layers.whole(), layers.whole()
        weight = layers.weights(inputs, outputs).T[:, :, None, None] * scale
        rows = list(range(outputs)) if rows is None else rows
        if outputs <= max(rows):
            raise layers.fail(f"{layers.layer}: has {outputs} outputs, not {max(rows) + 1}")
        super().__init__(inputs, len(rows), 1, bias=has_bias, device="meta")
        self.weight = fixed(weight[rows])
        if has_bias:
            layers.name()
            self.bias = fixed((layers.weights(layers.whole()) * scale)[rows])


class BatchNorm(Part):
    """A batch norm as a scale and a bias, and the activation behind it; (B, C, n, n) -> the same."""

    def __init__(self, layers: Layers):
        super().__init__()
        layers.name()
        channels, epsilon = layers.whole(), layers.number()
        has_scale, has_bias = layers.whole(0, 1), layers.whole(0, 1)
        mean, variance = layers.weights(channels), layers.weights(channels)
        scale = layers.weights(channels) if has_scale else torch.ones(channels)
        bias = layers.weights(channels) if has_bias else torch.zeros(channels)
        scale = scale / (variance + epsilon).sqrt()
        self.scale, self.bias = (fixed(part[:, None, None]) for part in (scale, bias - mean * scale))
        self.activate = self.read_activation(layers)

    def forward(self, x: Tensor) -> Tensor:
        return self.activate(x * self.scale + self.bias)


class RmsNorm(Part):
    """The RMS norm after the last block: over the channels of each point or, if spatial, of all points."""

    share: Tensor

    def __init__(self, layers: Layers):
        super().__init__()
        layers.name()
        channels, self.least, self.is_spatial = layers.whole(), layers.number(), layers.whole(0, 1)
        self.note("epsilon", self.least)
        self.note("spatial", self.is_spatial)
        layers.option(f"channel groups of {layers.layer}")
        self.gamma, self.beta = (fixed(layers.weights(channels)[:, None, None]) for _ in range(2))
        # A convolution, since ONNX Runtime adds up a batch of one position in another order.
        self.register_buffer("share", torch.full((1, channels, 1, 1), 1 / channels), persistent=False)
        self.activate = self.read_activation(layers)

    def forward(self, x: Tensor) -> Tensor:
        square = x.float().square()
        if self.is_spatial:
            square = square.mean((2, 3), keepdim=True)
        mean = functional.conv2d(square, self.share)
        scaled = x / (mean + self.least).sqrt().to(x.dtype)
        return self.activate(scaled * self.gamma + self.beta)


class TokenNorm(Part):
    """An RMS norm of the channels of each point; (B, L, C) -> the same."""

    def __init__(self, layers: Layers):
        super().__init__()
        layers.name()
        channels, self.least = layers.whole(), layers.number()
        self.note("epsilon", self.least)
        self.weight = fixed(layers.weights(channels))

    def forward(self, x: Tensor) -> Tensor:
        y = x.float()
        scaled = y / (y.pow(2).mean(-1, keepdim=True) + self.least).sqrt()  # ONNX Runtime knows this form
        return scaled.to(x.dtype) * self.weight


class Matrix(nn.Module):
    """(B, L, inputs) -> (B, L, outputs). With ``pairs`` > 0, each head's even outputs come first, then its odd ones."""

    def __init__(self, layers: Layers, pairs: int = 0):
        super().__init__()
        layers.name()
        inputs, outputs = layers.whole(), layers.whole()
        weight = layers.weights(inputs, outputs)
        if pairs and outputs % (2 * pairs) == 0:
            weight = weight.reshape(inputs, -1, pairs, 2).transpose(2, 3).reshape(inputs, outputs)
        self.weight = fixed(weight)

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight


# --- Blocks: (B, C, n, n) and (n - 14) / 10 as (B, 1, 1, 1) -> (B, C, n, n) ---


def pooled(x: Tensor, off: Tensor) -> Tensor:
    """The mean of each channel, the mean times ``off``, and the maximum; (B, C, n, n) -> (B, 3C, 1, 1)."""
    mean = x.mean((2, 3), keepdim=True)
    return torch.cat([mean, mean * off, x.amax((2, 3), keepdim=True)], 1)


def as_tokens(x: Tensor) -> Tensor:
    """(B, C, n, n) -> (B, n², C)."""
    return x.flatten(2).transpose(1, 2)


class Residual(nn.Module):
    """Two convolutions; with ``pools``, pooled channels of a third one are a bias between the two."""

    def __init__(self, layers: Layers, pools: bool = False):
        super().__init__()
        self.pre, self.conv1, self.pools = BatchNorm(layers), Convolution(layers), pools
        if pools:
            self.convg, self.normg, self.spread = Convolution(layers), BatchNorm(layers), Dense(layers)
        self.mid, self.conv2 = BatchNorm(layers), Convolution(layers)

    def forward(self, x: Tensor, off: Tensor) -> Tensor:
        h = self.pre(x)
        y = self.conv1(h)
        if self.pools:
            y = y + self.spread(pooled(self.normg(self.convg(h)), off))
        return x + self.conv2(self.mid(y))


class Nested(nn.Module):
    """A bottleneck: blocks between two convolutions."""

    def __init__(self, layers: Layers):
        super().__init__()
        count = layers.whole()
        self.pre, self.conv1 = BatchNorm(layers), Convolution(layers)
        self.blocks = read_blocks(layers, count)
        self.post, self.conv2 = BatchNorm(layers), Convolution(layers)

    def forward(self, x: Tensor, off: Tensor) -> Tensor:
        y = self.conv1(self.pre(x))
        for block in self.blocks:
            y = block(y, off)
        return x + self.conv2(self.post(y))


class Attention(Part):
    """Self-attention with grouped keys and rotary positions in two dimensions (Su et al. 2021, "RoFormer")."""

    freqs: Tensor  # (groups, pairs, 2): of columns, of rows
    cos: Tensor  # (groups, MAX_SIZE, MAX_SIZE, pairs): by row and column
    sin: Tensor

    def __init__(self, layers: Layers):
        super().__init__()
        self.heads, self.groups, self.depth, _ = (layers.whole() for _ in range(4))
        layers.option("positions of attention", (1,))
        is_learned, pairs = layers.whole(0, 1), self.depth // 2
        self.note("shape", self.heads, self.groups, self.depth, 1)
        if self.heads % self.groups or self.depth % 2:
            raise layers.fail(f"{layers.layer}: {self.heads} heads, {self.groups} groups of depth {self.depth}")
        self.norm, self.q, self.k = TokenNorm(layers), Matrix(layers, pairs), Matrix(layers, pairs)
        self.v, self.out = Matrix(layers), Matrix(layers)
        layers.name()
        if is_learned:
            shape = [layers.whole() for _ in range(3)]
            if shape != [self.groups, pairs, 2]:
                raise layers.fail(f"{layers.layer}: frequencies of shape {shape}, not {[self.groups, pairs, 2]}")
            freqs = layers.weights(*shape)
        else:
            freqs = torch.zeros(self.groups, pairs, 2)
            falling, first = layers.number() ** -(torch.arange(0, pairs, 2) / pairs), pairs // 2
            freqs[:, :first, 1], freqs[:, first:, 0] = falling[:first], falling[: pairs - first]  # first by row
        self.register_buffer("freqs", freqs)
        self.register_buffer("cos", torch.zeros(0), persistent=False)
        self.register_buffer("sin", torch.zeros(0), persistent=False)
        self.tabulate()
        self.register_load_state_dict_post_hook(lambda module, keys: module.tabulate())

    def tabulate(self) -> None:
        """Compute the cosines and sines from the frequencies."""
        at = torch.arange(MAX_SIZE, dtype=torch.float32)
        across, down = self.freqs.float().cpu()[:, None, None].unbind(-1)  # (groups, 1, 1, pairs) each
        angles = across * at[None, None, :, None] + down * at[None, :, None, None]
        self.cos, self.sin = angles.cos().to(self.freqs.device), angles.sin().to(self.freqs.device)

    def _for_heads(self, x: Tensor, axis: int) -> Tensor:
        """Repeat the entries of groups on an axis for each of their heads."""
        return x.repeat_interleave(self.heads // self.groups, axis)

    def _turn(self, x: Tensor, size: int, of_keys: bool) -> Tensor:
        """Queries (B, heads, L, depth) or keys (B, groups, L, depth), rotated by the positions of their points."""
        pairs = self.depth // 2
        tables = (table[:, :size, :size].flatten(1, 2).to(x.dtype) for table in (self.cos, self.sin))
        cos, sin = (table if of_keys else self._for_heads(table, 0) for table in tables)  # (groups or heads, L, pairs)
        a, b = x[..., :pairs], x[..., pairs:]
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)

    def forward(self, x: Tensor, off: Tensor) -> Tensor:
        tokens, size = as_tokens(x), x.shape[-1]
        h = self.norm(tokens)
        q = self.q(h).unflatten(2, (self.heads, -1)).transpose(1, 2)  # (B, heads, L, depth)
        k = self.k(h).unflatten(2, (self.groups, -1)).transpose(1, 2)
        v = self.v(h).unflatten(2, (self.groups, -1)).transpose(1, 2)
        q, k = self._turn(q, size, False), self._turn(k, size, True)
        y = functional.scaled_dot_product_attention(q, self._for_heads(k, 1), self._for_heads(v, 1))
        y = self.out(y.transpose(1, 2).flatten(2))  # (B, L, C)
        return (tokens + y).transpose(1, 2).reshape_as(x)


class FeedForward(nn.Module):
    """SwiGLU, or SiLU between two matrices, on each point (Shazeer 2020, "GLU variants improve transformer")."""

    def __init__(self, layers: Layers):
        super().__init__()
        _, _, gated = layers.whole(), layers.whole(), layers.whole(0, 1)
        self.norm, self.one = TokenNorm(layers), Matrix(layers)
        self.gate = Matrix(layers) if gated else None
        self.two = Matrix(layers)

    def forward(self, x: Tensor, off: Tensor) -> Tensor:
        tokens = as_tokens(x)
        h = self.norm(tokens)
        y = functional.silu(self.one(h))
        y = self.two(y if self.gate is None else y * self.gate(h))
        return (tokens + y).transpose(1, 2).reshape_as(x)


BLOCKS: dict[str, Callable[[Layers], nn.Module]] = {
    "ordinary_block": Residual,
    "gpool_block": partial(Residual, pools=True),
    "nested_bottleneck_block": Nested,
    "transformer_attention_block": Attention,
    "transformer_ffn_block": FeedForward,
}


def read_blocks(layers: Layers, count: int) -> nn.ModuleList:
    blocks = nn.ModuleList()
    for _ in range(count):
        kind = layers.word()
        if kind not in BLOCKS:
            raise layers.fail(f"unknown block '{kind[:60]}' behind {layers.layer}; known are {', '.join(BLOCKS)}")
        layers.name()
        blocks.append(BLOCKS[kind](layers))
    return blocks


class People(Part):
    """What a human-SL net makes of the metadata of a game, (B, METADATA, 1, 1) -> (B, C, 1, 1)."""

    ENDS: ClassVar = ("mul1",)

    def __init__(self, layers: Layers):
        super().__init__()
        layers.name()
        layers.whole(METADATA, METADATA)
        self.mul1 = Dense(layers, has_bias=True)
        self.activate1 = self.read_activation(layers, "activation1")
        self.mul2 = Dense(layers, has_bias=True)
        self.activate2 = self.read_activation(layers, "activation2")
        self.mul3 = Dense(layers)

    def forward(self, x: Tensor) -> Tensor:
        return self.mul3(self.activate2(self.mul2(self.activate1(self.mul1(x)))))


# --- The net ---


@dataclass(frozen=True, slots=True)
class KataGoConfig:
    """A net's description; everything needed to build it again."""

    family: str
    planes: int  # input planes: those of version 7 and its numbers
    layers: str  # the words of its file, see above


class KataGoNet(Part):
    """Planes (B, 41, n, n) of the encoder katago-22, or (B, 233, n, n) of katago-human for a human-SL net, ->
    ``Outputs``: the policy without optimism, "no result" as a draw, and the lead as the score."""

    no_result: Tensor  # (3, 1, 1)
    ENDS: ClassVar = ("stem", "numbers", "p2", "passing", "v3", "sv3", "owners")

    def __init__(self, layers: Layers):
        super().__init__()
        self.name = layers.name()
        self.version = layers.version = version = layers.whole(0, 1000)
        if version not in VERSIONS:
            known = f"{VERSIONS[0]} to {VERSIONS[-1]}"
            raise layers.fail(f"model version {version} can't be read; those that can are {known}")
        if (given := (layers.whole(), layers.whole())) != (PLANES, NUMBERS):
            raise layers.fail(f"its inputs are {given[0]} planes and {given[1]} numbers, not {PLANES} and {NUMBERS}")
        is_human = False
        multipliers = [layers.number() for _ in range(7 if version >= 13 else 0)]
        if version >= 15:
            is_human = layers.option("metadata encoder", (0, 1)) == 1
            layers.option("pass-alive areas as if suicide were legal")
            for option in "CDEFGH":
                layers.option(f"{option} of the model")
        layers.name()
        blocks = layers.whole()
        _ = [layers.whole(least=0) for _ in range(5)]  # channels, which the layers have, too
        has_rms_norm = layers.option("norm of the trunk", (0, 1)) if version >= 15 else 0
        for option in "BCDEF" if version >= 15 else "":
            layers.option(f"{option} of the trunk")
        self.stem, self.numbers = Convolution(layers), Dense(layers)
        self.people = People(layers) if is_human else None
        self.trunk = read_blocks(layers, blocks)
        self.tip = RmsNorm(layers) if has_rms_norm else BatchNorm(layers)
        layers.name()
        if version >= 17:
            layers.option("channels of the policy", (2, 4))
            for option in "ABC":
                layers.option(f"{option} of the policy")
        self.p1, self.g1, self.gnorm = Convolution(layers), Convolution(layers), BatchNorm(layers)
        self.gspread, self.pnorm, self.p2 = Dense(layers), BatchNorm(layers), Convolution(layers, kept=1)
        self.passing = Dense(layers, has_bias=version >= 15, rows=None if version >= 15 else [0])
        if version >= 15:
            self.activate_passing = self.read_activation(layers, "passing_activation")
            self.passing2 = Dense(layers, rows=[0])
        layers.name()
        for option in "ABC" if version >= 17 else "":
            layers.option(f"{option} of the value")
        self.v1, self.vnorm, self.v2 = Convolution(layers), BatchNorm(layers), Dense(layers, has_bias=True)
        self.activate_v2 = self.read_activation(layers, "v2_activation")
        self.v3 = Dense(layers, has_bias=True, rows=[0, 2, 1])  # from win, loss, no result
        lead = multipliers[3] if multipliers else 20.0
        self.sv3 = Dense(layers, has_bias=True, rows=[2], scale=lead / SCORE_UNIT)
        self.register_buffer("no_result", torch.tensor([0.0, IMPOSSIBLE, 0.0])[:, None, None])
        self.owners = Convolution(layers)
        self.owners.weight.mul_(2)  # KataGo's are before tanh
        layers.end()
        self.config = KataGoConfig(FAMILY, PLANES + NUMBERS + METADATA * is_human, " ".join(layers.words))
        self.eval()

    def forward(self, planes: Tensor, heads: Collection[str] = Outputs._fields) -> Outputs:
        """Only the outputs of these ``heads`` are computed."""
        off = (planes[:, :1, :1].sum(3, keepdim=True) - 14.0) * 0.1  # plane 0 is ones
        x = self.stem(planes[:, :PLANES]) + self.numbers(planes[:, PLANES : PLANES + NUMBERS, :1, :1])
        if self.people is not None:
            x = x + self.people(planes[:, PLANES + NUMBERS :, :1, :1])
        for block in self.trunk:
            x = block(x, off)
        x = self.tip(x)
        policy = value = ownership = score = None
        if "policy" in heads:
            g = pooled(self.gnorm(self.g1(x)), off)
            points = self.p2(self.pnorm(self.p1(x) + self.gspread(g)))  # (B, 1, n, n)
            passing = self.passing(g)
            if self.version >= 15:
                passing = self.passing2(self.activate_passing(passing))
            policy = torch.cat([points.flatten(1), passing.flatten(1)], 1)
        if {"value", "ownership", "score"} & {*heads}:
            y = self.vnorm(self.v1(x))
            mean = y.mean((2, 3), keepdim=True)
            h = torch.cat([mean, mean * off, mean * (off * off - 0.1)], 1)
            h = self.activate_v2(self.v2(h))
            if "value" in heads:  # with superko and area scoring every game has a result (nneval.cpp)
                ko, territory = (planes[:, at : at + 1, :1, :1] for at in (PLANES + 6, PLANES + 9))
                value = (self.v3(h) - (ko - territory).relu() * self.no_result).flatten(1)
            ownership = self.owners(y).flatten(1) if "ownership" in heads else None
            score = self.sv3(h).flatten() if "score" in heads else None
        return Outputs(policy, value, ownership, score)


def read_katago(path: Path) -> KataGoNet:
    """The net of a model file. Raises CheckpointError for a file that is damaged, unknown or not a model."""
    try:
        with open_regular(path) as file, gzip.open(file) as content:
            data = content.read(MOST_BYTES)
    except (EOFError, OSError, zlib.error, MemoryError) as error:
        raise CheckpointError(f"{path}: can't be read ({reason(error)}); give a whole .bin.gz") from error
    return _build(Layers(data, str(path), is_file=True))


def katago_from(config: KataGoConfig) -> KataGoNet:
    """The untrained net of a description. Raises CheckpointError."""
    place = "the manifest describes a net of KataGo's that this version doesn't know"
    return _build(Layers(str(config.layers).encode(), place, is_file=False))


def _build(layers: Layers) -> KataGoNet:
    """Build and try a net. Raises CheckpointError for layers that don't fit."""
    try:
        with torch.no_grad():
            network = KataGoNet(layers)
            outputs = network(torch.ones(1, network.config.planes, 9, 9))
    except (RuntimeError, IndexError, ValueError, MemoryError) as error:
        raise layers.fail(f"its layers don't fit together, or the memory ({reason(error)[:200]})") from error
    if not all(part.isfinite().all() for part in outputs if part is not None):
        raise layers.fail("it computes numbers that aren't finite")
    return network
