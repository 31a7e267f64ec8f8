"""Small model files as KataGo writes them, each with its net computed slowly in NumPy. No tests."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

Layer = Callable[[np.ndarray], np.ndarray]

PLANES, NUMBERS = 22, 19

ACTIVATIONS: dict[str, Layer] = {
    "IDENTITY": lambda x: x,
    "RELU": lambda x: np.maximum(x, 0),
    "MISH": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "SILU": lambda x: x / (1 + np.exp(-x)),
}


def pooled(x: np.ndarray) -> np.ndarray:
    """Of the trunk and the policy: (C, n, n) -> (3C,)."""
    mean = x.mean((1, 2))
    return np.concatenate([mean, mean * (x.shape[1] - 14) / 10, x.max((1, 2))])


def pooled_for_value(x: np.ndarray) -> np.ndarray:
    mean, off = x.mean((1, 2)), x.shape[1] - 14
    return np.concatenate([mean, mean * off / 10, mean * (off**2 / 100 - 0.1)])


class Writer:
    """Appends layers to a file. Each method returns the layer as a function of one position."""

    def __init__(self, version: int, activation: str = "RELU", width: int = 1):
        self.version, self.activation = version, activation
        self.width, self.channels = width, 8 * width
        self.parts: list[bytes] = []
        self.random = np.random.default_rng(version)
        self.count = 0

    def words(self, *words: object) -> None:
        self.parts += [f"{word}\n".encode() for word in words]

    def name(self) -> None:
        self.count += 1
        self.words(f"layer{self.count}")

    def weights(self, *shape: int, low: float = -0.3, high: float = 0.3) -> np.ndarray:
        numbers = self.random.uniform(low, high, shape).astype("<f4")
        self.parts.append(b"@BIN@" + numbers.tobytes() + b"\n")
        return numbers.astype(np.float64)

    def convolution(self, inputs: int, outputs: int, width: int = 3) -> Layer:
        self.name()
        self.words(width, width, inputs, outputs, 1, 1)
        weights, edge = self.weights(width, width, inputs, outputs), width // 2

        def layer(x: np.ndarray) -> np.ndarray:
            size, wide = x.shape[1], np.pad(x, ((0, 0), (edge, edge), (edge, edge)))
            found = np.zeros((outputs, size, size))
            for row in range(size):
                for column in range(size):
                    seen = wide[:, row : row + width, column : column + width]
                    found[:, row, column] = np.einsum("irc,rcio->o", seen, weights)
            return found

        return layer

    def active(self) -> Layer:
        self.name()
        if self.version < 11:
            return ACTIVATIONS["RELU"]
        self.words(f"ACTIVATION_{self.activation}")
        return ACTIVATIONS[self.activation]

    def norm(self, channels: int, has_scale: int = 1) -> Layer:
        self.name()
        self.words(channels, 0.001, has_scale, 1)
        mean, variance = self.weights(channels), self.weights(channels, low=0.3, high=2)
        scale = self.weights(channels, low=0.5, high=1.5) if has_scale else np.ones(channels)
        bias, active = self.weights(channels), self.active()

        def layer(x: np.ndarray) -> np.ndarray:
            rows = [(x[c] - mean[c]) / np.sqrt(variance[c] + 0.001) * scale[c] + bias[c] for c in range(channels)]
            return active(np.stack(rows))

        return layer

    def matrix(self, inputs: int, outputs: int, has_bias: bool = False) -> Layer:
        self.name()
        self.words(inputs, outputs)
        weights, bias = self.weights(inputs, outputs), np.zeros(outputs)
        if has_bias:
            self.name()
            self.words(outputs)
            bias = self.weights(outputs)
        return lambda x: x @ weights + bias

    def token_norm(self, channels: int) -> Layer:
        self.name()
        self.words(channels, 1e-6)
        weight = self.weights(channels, low=0.5, high=1.5)
        return lambda x: x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * weight

    # --- Blocks: (C, n, n) -> (C, n, n) ---

    def block(self, kind: str) -> Layer:
        begin = {"ordinary": "ordinary_block", "pooling": "gpool_block", "nested": "nested_bottleneck_block"}
        begin |= {"attention": "transformer_attention_block", "ffn": "transformer_ffn_block"}
        name, _, options = kind.partition(":")
        self.words(begin[name])
        self.name()
        branch: Layer = getattr(self, name)(options)
        return lambda x: x + branch(x)

    def ordinary(self, _: str) -> Layer:
        pre, conv1 = self.norm(self.channels), self.convolution(self.channels, 6 * self.width)
        mid, conv2 = self.norm(6 * self.width, has_scale=0), self.convolution(6 * self.width, self.channels)
        return lambda x: conv2(mid(conv1(pre(x))))

    def pooling(self, _: str) -> Layer:
        channels, inner, least = (count * self.width for count in (8, 5, 3))
        pre, conv1, convg = self.norm(channels), self.convolution(channels, inner), self.convolution(channels, least)
        normg, spread = self.norm(least), self.matrix(3 * least, inner)
        mid, conv2 = self.norm(inner), self.convolution(inner, channels)

        def branch(x: np.ndarray) -> np.ndarray:
            h = pre(x)
            return conv2(mid(conv1(h) + spread(pooled(normg(convg(h))))[:, None, None]))

        return branch

    def nested(self, inner: str) -> Layer:
        kinds, channels = inner.split("+"), self.channels
        self.words(len(kinds))
        pre, conv1 = self.norm(channels), self.convolution(channels, channels, 1)
        blocks = [self.block(kind) for kind in kinds]
        post, conv2 = self.norm(channels), self.convolution(channels, channels, 1)

        def branch(x: np.ndarray) -> np.ndarray:
            y = conv1(pre(x))
            for block in blocks:
                y = block(y)
            return conv2(post(y))

        return branch

    def attention(self, options: str) -> Layer:
        """Rotary positions, ``learned`` or not; ``grouped`` keys."""
        channels, heads, groups, depth, values = self.channels, 4, 2 if "grouped" in options else 4, 4, 3
        learned = int("learned" in options)
        self.words(heads, groups, depth, values, 1, learned)
        norm, q = self.token_norm(channels), self.matrix(channels, heads * depth)
        k, v, out = (
            self.matrix(channels, groups * depth),
            self.matrix(channels, groups * values),
            self.matrix(heads * values, channels),
        )
        frequencies = np.zeros((groups, depth // 2, 2))
        self.name()
        if learned:
            self.words(groups, depth // 2, 2)
            frequencies = self.weights(groups, depth // 2, 2, low=0, high=1)
        else:
            self.words(100.0)
            for pair in range(depth // 2):  # the first half by row, the others by column
                half = depth // 4
                frequencies[:, pair, int(pair < half)] = 100.0 ** -(2 * (pair % half) / (depth // 2))

        def turned(x: np.ndarray, group: int, size: int) -> np.ndarray:
            y = x.copy()  # (L, depth)
            for point in range(size * size):
                row, column = divmod(point, size)
                for pair in range(depth // 2):
                    angle = column * frequencies[group, pair, 0] + row * frequencies[group, pair, 1]
                    place = complex(*x[point, 2 * pair : 2 * pair + 2]) * np.exp(1j * angle)
                    y[point, 2 * pair : 2 * pair + 2] = place.real, place.imag
            return y

        def branch(x: np.ndarray) -> np.ndarray:
            size, h = x.shape[1], norm(x.reshape(channels, -1).T)
            asked, keys, held, parts = q(h), k(h), v(h), []
            for head in range(heads):
                group = head * groups // heads
                one = turned(asked[:, head * depth :][:, :depth], group, size)
                other = turned(keys[:, group * depth :][:, :depth], group, size)
                odds = np.exp(one @ other.T / np.sqrt(depth))
                parts.append(odds / odds.sum(1, keepdims=True) @ held[:, group * values :][:, :values])
            return out(np.concatenate(parts, 1)).T.reshape(x.shape)

        return branch

    def ffn(self, options: str) -> Layer:
        gated, channels, inner = int("gated" in options), self.channels, 10 * self.width
        self.words(channels, inner, gated)
        norm, one = self.token_norm(channels), self.matrix(channels, inner)
        gate = self.matrix(channels, inner) if gated else None
        two = self.matrix(inner, channels)

        def branch(x: np.ndarray) -> np.ndarray:
            h = norm(x.reshape(channels, -1).T)
            y = ACTIVATIONS["SILU"](one(h))
            return two(y * gate(h) if gate else y).T.reshape(x.shape)

        return branch

    def tip(self, kind: str) -> Layer:
        """``norm``, or an RMS norm by ``point`` or by ``board``."""
        channels = self.channels
        if kind == "norm":
            return self.norm(channels)
        self.name()
        self.words(channels, 1e-5, int(kind == "board"), 0)
        gamma, beta, active = self.weights(channels), self.weights(channels), self.active()

        def layer(x: np.ndarray) -> np.ndarray:
            mean = (x**2).mean() if kind == "board" else (x**2).mean(0)
            return active(x / np.sqrt(mean + 1e-5) * gamma[:, None, None] + beta[:, None, None])

        return layer


def write_net(
    path: Path,
    version: int = 8,
    blocks: Sequence[str] = ("ordinary", "pooling"),
    tip: str = "norm",
    activation: str = "RELU",
    width: int = 1,
    human: bool = False,
) -> Callable[[np.ndarray], dict[str, np.ndarray]]:
    """Write a net of random weights; the function from its planes and numbers (41, n, n) to its outputs as ours. A
    ``human`` net, of version 15 or later, has 192 numbers more."""
    w = Writer(version, activation, width)
    c5, c4, c7, channels = (count * width for count in (5, 4, 7, 8))
    w.words("small-net", version, PLANES, NUMBERS)
    if version >= 13:
        w.words(20.0, 20.0, 20.0, 15.0, 40.0, 0.25, 30.0)
    if version >= 15:
        w.words(int(human), *[0] * 7)
    w.words("trunk", len(blocks), channels, c5, c5, c4, c4)
    if version >= 15:
        w.words(int(tip != "norm"), *[0] * 5)
    stem, numbers = w.convolution(PLANES, channels), w.matrix(NUMBERS, channels)
    people: Layer = lambda x: np.zeros(channels)  # noqa: E731 (as the others)
    if human:
        w.name()
        w.words(192)
        mul1, act1 = w.matrix(192, c7, has_bias=True), w.active()
        mul2, act2, mul3 = w.matrix(c7, c5, has_bias=True), w.active(), w.matrix(c5, channels)
        people = lambda x: mul3(act2(mul2(act1(mul1(x)))))  # noqa: E731
    trunk = [w.block(kind) for kind in blocks]
    tipped = w.tip(tip)
    policies = 4 if version >= 16 else 2 if version >= 12 else 1
    w.words("policy")
    if version >= 17:
        w.words(policies, 0, 0, 0)
    p1, g1, gnorm = w.convolution(channels, c5, 1), w.convolution(channels, c4, 1), w.norm(c4)
    gspread, pnorm, p2 = w.matrix(3 * c4, c5), w.norm(c5), w.convolution(c5, policies, 1)
    passing = w.matrix(3 * c4, c5 if version >= 15 else policies, has_bias=version >= 15)
    if version >= 15:
        first, active, second = passing, w.active(), w.matrix(c5, policies)
        passing = lambda g: second(active(first(g)))  # noqa: E731 (as the others)
    w.words("value")
    if version >= 17:
        w.words(0, 0, 0)
    v1, vnorm, v2 = w.convolution(channels, c5, 1), w.norm(c5), w.matrix(3 * c5, c7, has_bias=True)
    v2_active, v3 = w.active(), w.matrix(c7, 3, has_bias=True)
    sv3, owners = w.matrix(c7, 6 if version >= 9 else 4, has_bias=True), w.convolution(c5, 1, 1)
    path.write_bytes(gzip.compress(b"".join(w.parts)))

    def net(planes: np.ndarray) -> dict[str, np.ndarray]:
        known = PLANES + NUMBERS
        x = stem(planes[:PLANES]) + (numbers(planes[PLANES:known, 0, 0]) + people(planes[known:, 0, 0]))[:, None, None]
        for block in trunk:
            x = block(x)
        x = tipped(x)
        g, y = pooled(gnorm(g1(x))), vnorm(v1(x))
        points = p2(pnorm(p1(x) + gspread(g)[:, None, None]))[0]
        h = v2_active(v2(pooled_for_value(y)))
        win, loss, none = v3(h)
        if planes[PLANES + 6, 0, 0] and not planes[PLANES + 9, 0, 0]:
            none -= 20
        return {
            "policy": np.append(points, passing(g)[0]),
            "value": np.array([win, none, loss]),
            "ownership": 2 * owners(y).ravel(),
            "score": sv3(h)[2] * (15 if version >= 13 else 20) / 10,
        }

    return net


def some_planes(size: int, count: int = 2) -> np.ndarray:
    """(count, 41, size, size); the rules have a superko in every other one."""
    random = np.random.default_rng(size)
    planes = random.integers(0, 2, (count, PLANES + NUMBERS, size, size)).astype(np.float32)
    planes[:, 0] = 1
    planes[:, PLANES:] = random.uniform(-1, 1, (count, NUMBERS, 1, 1))
    planes[:, PLANES + 6], planes[:, PLANES + 9] = np.arange(count)[:, None, None] % 2, 0
    return planes
