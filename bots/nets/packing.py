"""Nets as lists of steps for the kernel of ``bots.nets.int8``: the arena's own, and KataGo's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

LANES = 16  # numbers in a register
LINE = 64  # bytes in a line of the cache
PANEL = 2 * LANES  # outputs that a product computes at once
INPUT = 64  # steps of 1 in a plane's value, as the first convolution gets it
MAX_INT16_LEVEL = 2047  # the largest number of 16-bit rows
ROWS = 9  # that a product computes at once: 81 are 9 times as many
SLACK = ROWS  # rows behind the points that products may run over
TILED_ROWS = 32  # rows that tiles multiply at once
UNITS = 1 << 31  # a bound of sums of products

PLANES, MULTIPLY, ADD, NORM, RMS, QKV, ATTEND, POOL, DENSE, POINTS = range(10)  # steps; see the kernel's functions
IDENTITY, RELU, MISH, SILU = range(4)  # activations

FIELDS = (
    *("code", "bits", "whole", "act", "adds", "scaled", "gated"),
    *("source", "target", "extra"),  # indices in the kernel's work; a source of -1 is the sums of the last product
    *("channels", "outputs", "first", "stride"),
    *("scale", "fix", "shift", "vector", "turns"),  # indices in the net's numbers
    *("weights", "apart", "table", "count"),  # of a product: first byte, bytes of a point, first offset, offsets
    *("parts",),  # of a point's bytes, each of which fits a tile; 0 if the product isn't for tiles
    *("heads", "groups", "depth", "values"),
)
STEP = np.dtype([(name, np.int64) for name in FIELDS])


def aligned(array: np.ndarray) -> np.ndarray:
    """A copy that begins with a line of the cache: a register of another place is loaded from two lines."""
    room = np.empty(array.nbytes + LINE, np.uint8)
    begin = -room.ctypes.data % LINE
    copy = room[begin : begin + array.nbytes].view(array.dtype)
    copy[:] = array
    return copy


class Unfit(ValueError):
    """The net has another shape than the kernel's."""


class PackedNet(NamedTuple):
    """A net as the kernel takes it, for boards of one size."""

    size: int
    planes: int
    steps: np.ndarray  # (steps,) STEP
    weights: np.ndarray  # int8: of all products
    numbers: np.ndarray  # float32: all others
    tables: np.ndarray  # int64: for each kind of product, the offsets in bytes of its 4-byte parts from a point
    places: np.ndarray  # (n² + SLACK,) int64: the indices of the points on the board with a border
    rows: np.ndarray  # (n² + SLACK,) int64: 0, 1, 2, ...
    points_of: tuple[np.ndarray, np.ndarray]  # int64: the point of each row and of each place from the first point on
    words: np.ndarray  # int64: 0, 4, 8, ...
    room: int  # places of the board with a border, or rows
    apart: int  # bytes of a point, at most
    outputs: int  # sums of a point, at most
    work: int  # float32 numbers of the kernel's work
    answer: int  # the index of the outputs in the work
    searched: int  # how many of the steps, the first ones, compute policy and value


@dataclass(frozen=True, slots=True)
class Source:
    """The input of a step: rows (points, channels) float32, or the sums of a product, columns from ``first`` on, with
    their scales. ``fix`` (columns,) are the sums of weights, by which the zero of the multiplied rows is corrected."""

    at: int
    channels: int
    first: int = 0
    stride: int = 0
    scale: Any = 1.0
    fix: Any = None

    def __getitem__(self, columns: slice) -> Source:
        start, stop, _ = columns.indices(self.channels)
        fix = None if self.fix is None else self.fix[columns]
        return Source(self.at, stop - start, self.first + start, self.stride, self.scale[columns], fix)


class Norm(NamedTuple):
    """Scale, shift and activation of numbers as they are read; for each channel, or one for all."""

    scale: Any = 1.0
    shift: Any = 0.0
    act: int = IDENTITY


AS_IT_IS = Norm()


class Program:
    """Collects the steps of a net with their weights and numbers."""

    def __init__(self, size: int, border: int, tiles: bool):
        self.size, self.points, self._tiles = size, size**2, tiles
        self._border, self._wide = border, size + border
        self._steps, self._weights, self._numbers = list[dict[str, int]](), list[np.ndarray](), list[np.ndarray]()
        self._tables: dict[tuple[int, int], tuple[int, np.ndarray]] = {}
        self._bytes = self._count = self._most = self._apart = self._outputs = self._planes = 0
        self._bits, self._has_zero, self._whole = 16, False, True  # of the rows that were rounded last
        self._split = False  # whether their low bytes and their high ones are apart
        self.taken = 0  # numbers of the kernel's work in use; set back to free them
        self._searched = 0

    def end_search(self) -> None:
        """The steps so far compute policy and value."""
        self._searched = len(self._steps)

    def step(self, code: int, **fields: int) -> None:
        self._steps.append({"extra": -1, "fix": -1, "code": code} | fields)

    def room(self, count: int) -> int:
        """Reserve ``count`` numbers of the kernel's work; returns their index."""
        begin = self.taken
        self.taken += -(-count // LANES) * LANES
        self._most = max(self._most, self.taken)
        return begin

    def rows(self, channels: int) -> Source:
        return Source(self.room((self.points + SLACK) * channels), channels, stride=channels)

    def keep(self, numbers: Any) -> int:
        """Add numbers to the net's; returns their index."""
        flat = np.asarray(numbers, np.float32).ravel()
        self._numbers.append(np.pad(flat, (0, -len(flat) % LANES)))
        self._count += len(self._numbers[-1])
        return self._count - len(self._numbers[-1])

    def read(self, code: int, source: Source, norm: Norm = AS_IT_IS, **fields: int) -> None:
        """A step that reads ``source``. Raises Unfit."""
        if source.channels % LANES:
            raise Unfit(f"{source.channels} channels don't fill registers")
        ones = np.ones(source.channels)
        read = {"source": source.at, "channels": source.channels, "first": source.first, "stride": source.stride}
        read |= {"scale": self.keep(norm.scale * source.scale * ones), "shift": self.keep(norm.shift * ones)}
        if source.fix is not None:
            read["fix"] = self.keep(norm.scale * source.fix)
        self.step(code, **(read | {"act": norm.act} | fields))

    def start(self, channels: int, count: int = 0, numbers: int = 0) -> None:
        """Round planes for the first convolution; ``count`` more are numbers, written to the work at ``numbers``."""
        self._planes = channels + count
        self.step(PLANES, channels=channels, target=numbers)

    def round(self, source: Source, norm: Norm = AS_IT_IS, wide: bool = False, scaled: int = 0, **fields: int) -> None:
        """Round rows for the next product: by the board's range to 8 bits if ``wide``, else by each row's own range."""
        self._bits = fields.pop("bits", 8 if wide else 16)
        self._has_zero = self._bits == 8 and norm.act != RELU
        self._whole, self._split = wide, self._tiles and self._bits == 16
        target = self.room(self.points * source.channels if wide else source.channels)
        rows = {"bits": self._bits, "whole": int(wide), "target": target, "scaled": scaled or int(source.at < 0)}
        rows["parts"] = int(self._split)
        self.read(NORM, source, norm, **(rows | fields))

    def multiply(self, weights: np.ndarray) -> Source:
        """Convolve the rows that were rounded last with weights (O, I, k, k); returns the sums. Raises Unfit."""
        outputs, inputs, width, height = weights.shape
        each = 32 // self._bits
        if outputs % LANES or width != height or not np.isfinite(weights).all():
            raise Unfit(f"{outputs} outputs don't fill registers, or weights aren't square or not finite")
        taps = weights.transpose(0, 2, 3, 1).reshape(outputs, width * width, inputs)
        rows = np.pad(taps, ((0, 0), (0, 0), (0, -inputs % each))).reshape(outputs, -1)
        highest, added = np.abs(rows).max(1) + 1e-30, np.abs(rows).sum(1) + 1e-30
        most = (
            127 if self._bits == 8 else np.minimum(32767, (UNITS // MAX_INT16_LEVEL - rows.shape[1]) * highest / added)
        )
        steps = highest / most  # in 16 bits large enough for sums to stay within 32 bits
        levels = np.rint(rows / steps[:, None]).astype(f"int{self._bits}")
        ends = range(PANEL, outputs - LANES, PANEL)  # of panels; the last has up to three registers
        kinds = [levels.astype(np.uint8), (levels >> 8).astype(np.int8)] if self._split else [levels]
        shaped = [np.split(kind.reshape(outputs, -1, 4 // kind.itemsize), ends) for kind in kinds]
        for panels in zip(*shaped, strict=True):
            self._weights += [np.ascontiguousarray(panel.transpose(1, 0, 2)).view(np.int8).ravel() for panel in panels]
        apart = (inputs + -inputs % each) * self._bits // 8
        if (apart, width) not in self._tables:
            reach = range(-(width // 2), width // 2 + 1)
            starts = [(row * self._wide + column) * apart for row in reach for column in reach]
            table = np.add.outer(starts, np.arange(0, apart, 4)).ravel()
            self._tables[apart, width] = sum(len(table) for _, table in self._tables.values()), table
        begin, table = self._tables[apart, width]
        product = {"weights": self._bytes, "bits": self._bits, "outputs": outputs, "apart": apart}
        parts, part = 0, apart // 2 if self._split else apart
        if self._tiles and (self._split or self._bits == 8):
            parts = next(parts for parts in range(-(-part // 64), part) if part % (4 * parts) == 0)
        self.step(MULTIPLY, **product, table=begin, count=len(table), parts=parts, whole=int(self._whole))
        self._bytes += levels.nbytes
        self._apart, self._outputs = max(self._apart, apart), max(self._outputs, outputs)
        return Source(-1, outputs, 0, outputs, steps, levels.sum(1) * steps if self._has_zero else None)

    def convolve(self, source: Source, norm: Norm, *weights: np.ndarray, **fields: int) -> Source:
        """The sums, side by side, of several convolutions of ``source`` after a norm."""
        self.round(source, norm, wide=weights[0].shape[-1] > 1, **fields)
        return self.multiply(np.concatenate(weights))

    def score(self, source: Source, norm: Norm, weights: np.ndarray, target: int, extra: int = -1) -> None:
        """Write one number for each point to ``target``, by weights (1, C, 1, 1)."""
        if weights.shape != (1, source.channels, 1, 1):
            raise Unfit(f"a head ends with weights of shape {weights.shape}")
        self.read(POINTS, source, norm, vector=self.keep(weights), target=target, extra=extra)

    def pool(self, source: Source, norm: Norm) -> int:
        """The index of the means, then the maxima of the channels."""
        target = self.room(2 * source.channels)
        self.read(POOL, source, norm, target=target)
        return target

    def dense(self, source: int, table: np.ndarray, bias: Any = 0.0, act: int = IDENTITY, to: int | None = None) -> int:
        """Multiply numbers at ``source`` by a matrix (inputs, outputs) and add a bias; the index of the outputs."""
        inputs, outputs = table.shape
        padded = np.zeros((inputs + 1, -(-outputs // LANES) * LANES), np.float32)
        padded[:inputs, :outputs], padded[inputs, :outputs] = table, bias
        target = self.room(padded.shape[1]) if to is None else to
        fields = {"source": source, "target": target, "act": act, "channels": inputs, "outputs": padded.shape[1]}
        self.step(DENSE, **fields, scale=self.keep(padded))
        return target

    def end(self, answer: int) -> PackedNet:
        steps = np.array([tuple(fields.get(name, 0) for name in FIELDS) for fields in self._steps], STEP)
        row, column = np.divmod(np.arange(self.points), self.size)
        places = self._border + (row + self._border) * self._wide + column
        points_of_rows, points_of_places = (
            np.full(-(-span // TILED_ROWS) * TILED_ROWS, self.points)
            for span in (self.points, places[-1] - places[0] + 1)
        )
        points_of_rows[: self.points] = points_of_places[places - places[0]] = np.arange(self.points)
        return PackedNet(
            size=self.size,
            planes=self._planes,
            steps=steps.view(np.recarray),
            weights=aligned(np.concatenate(self._weights)),
            numbers=np.concatenate(self._numbers),
            tables=np.concatenate([table for _, table in self._tables.values()]),
            places=np.pad(places, (0, SLACK), mode="edge"),
            rows=np.arange(self.points + SLACK),
            points_of=(points_of_rows, points_of_places),
            words=np.arange(0, 4 * max(self.points, 1024), 4),
            room=2 * places[0] + len(points_of_places),
            apart=self._apart,
            outputs=self._outputs,
            work=self._most,
            answer=answer,
            searched=self._searched,
        )


# --- Batch norms, folded into the convolutions before them; states have NumPy arrays or tensors ---

EPSILON = 1e-5  # what a norm adds to its variance (PyTorch's default)

# The norms of a module that can be folded, and the convolutions, if they exist, whose sum each of them takes.
FOLDS = {"norm": ("conv", "spread"), "norm2": ("conv1", "spread"), "norm_pool": ("pool",)}


def affine(state: Mapping[str, Any], norm: str) -> tuple[Any, Any]:
    """A norm's factor and summand, (C,) each."""
    scale = state[f"{norm}.weight"] / (state[f"{norm}.running_var"] + EPSILON) ** 0.5
    return scale, state[f"{norm}.bias"] - state[f"{norm}.running_mean"] * scale


def fold_norms(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state of the same net without the norms of ``FOLDS``; nothing in ``state`` is changed."""
    folded = dict(state)
    for variance in [name for name in state if name.endswith(".running_var")]:
        norm = variance.removesuffix(".running_var")
        module, _, name = norm.rpartition(".")
        convolutions = [conv for each in FOLDS.get(name, ()) if f"{(conv := f'{module}.{each}')}.weight" in state]
        if not convolutions:
            continue
        scale, shift = affine(state, norm)
        for conv in convolutions:
            folded[f"{conv}.weight"] = state[f"{conv}.weight"] * scale[:, None, None, None]
            folded[f"{conv}.bias"] = state[f"{conv}.bias"] * scale if f"{conv}.bias" in state else 0 * scale
        folded[f"{convolutions[0]}.bias"] = folded[f"{convolutions[0]}.bias"] + shift
        for part in [part for part in folded if part.startswith(f"{norm}.")]:
            del folded[part]
    return folded


# --- Nets ---

State = Mapping[str, np.ndarray]


def pack(state: State, size: int, tiles: bool = False) -> PackedNet:
    """The net with this state, by PyTorch's names, for boards of ``size``, and for a processor that has ``tiles`` or
    not. Its outputs are the policy's (n² + 1), the value's (3) and, of KataGo's, the score (1) and ownership (n²).
    Raises Unfit, and KeyError for another net."""
    if "tip.activation" in state:
        return pack_katago(state, size, tiles)
    return pack_residual(fold_norms(state), size, tiles)


def matrix(state: State, name: str) -> np.ndarray:
    """(inputs, outputs) of a 1x1 convolution."""
    return state[f"{name}.weight"][:, :, 0, 0].T


def pack_residual(state: State, size: int, tiles: bool) -> PackedNet:
    """A net of ``bots.nets.network``, its norms folded."""
    program = Program(size, 1, tiles)

    def weights(*names: str) -> list[np.ndarray]:
        return [state[f"{name}.weight"] for name in names]

    def relu(name: str) -> Norm:
        return Norm(1.0, state[f"{name}.bias"], RELU)

    def dense(source: int, name: str, act: int = IDENTITY, to: int | None = None) -> int:
        return program.dense(source, matrix(state, name), state[f"{name}.bias"], act, to)

    (stem,) = weights("stem")
    end = program.points + 5
    answer, x = program.room(end + program.points + LANES), program.rows(len(stem))
    program.start(stem.shape[1])
    program.read(ADD, program.multiply(stem), target=x.at)
    taken = program.taken
    for block in range(1 + max(int(name.split(".")[1]) for name in state if name.startswith("tower."))):
        name, extra, program.taken = f"tower.{block}", -1, taken
        pools = [f"{name}.pool"] if f"{name}.pool.weight" in state else []
        sums = program.convolve(x, Norm(*affine(state, f"{name}.norm1"), RELU), *weights(f"{name}.conv1", *pools))
        if pools:
            extra = dense(program.pool(sums[x.channels :], relu(f"{name}.pool")), f"{name}.spread")
        sums = program.convolve(sums[: x.channels], relu(f"{name}.conv1"), *weights(f"{name}.conv2"), extra=extra)
        program.read(ADD, sums, target=x.at, adds=1)
    names = ["policy.conv", "policy.pool", "value.conv"]
    names += [name for name in ("score.conv", "ownership.conv") if f"{name}.weight" in state]
    parts = weights(*names)
    starts = np.cumsum([len(part) for part in parts]).tolist()
    sums = program.convolve(x, Norm(*affine(state, "norm"), RELU), *parts)
    policy, pool, value, *area = (sums[slice(*ends)] for ends in pairwise([0, *starts]))
    g = program.pool(pool, relu("policy.pool"))
    dense(g, "policy.passing", to=answer + program.points)
    extra = dense(g, "policy.spread")
    program.score(policy, relu("policy.conv"), state["policy.points.weight"], answer, extra)

    def dense_twice(source: Source, head: str, to: int) -> None:
        h = dense(program.pool(source, relu(f"{head}.conv")), f"{head}.hidden", RELU)
        dense(h, f"{head}.result", to=to)

    dense_twice(value, "value", answer + program.points + 1)
    program.end_search()
    if area:
        dense_twice(area[0], "score", answer + program.points + 4)
        points = np.pad(state["ownership.points.weight"], ((0, LANES - 1), (0, 0), (0, 0), (0, 0)))
        owners = program.convolve(area[1], relu("ownership.conv"), points)
        one = np.eye(1, LANES)[:, :, None, None]
        program.score(owners, Norm(1.0, state["ownership.points.bias"]), one, answer + end)
    return program.end(answer)


# --- KataGo's nets (bots.nets.katago) ---


def pack_katago(state: State, size: int, tiles: bool) -> PackedNet:
    """A net of ``bots.nets.katago``."""
    if "people.mul1.weight" in state:
        raise Unfit("a human-SL net")
    stem, off = state["stem.weight"], 0.1 * (size - 14)
    border = max(1, *(part.shape[-1] // 2 for part in state.values() if part.ndim == 4))
    program = Program(size, border, tiles)
    end = program.points + 5
    answer, x, numbers = program.room(end + program.points + LANES), program.rows(len(stem)), program.room(64)
    program.start(stem.shape[1], state["numbers.weight"].shape[1], numbers)
    extra = program.dense(numbers, matrix(state, "numbers"))
    program.read(ADD, program.multiply(stem), target=x.at, extra=extra)
    pack_blocks(program, state, "trunk", x)
    has_rms, act = "tip.gamma" in state, int(state["tip.activation"])
    if has_rms:
        epsilon = program.keep(state["tip.epsilon"])
        program.step(RMS, source=x.at, channels=x.channels, whole=int(state["tip.spatial"]), shift=epsilon)
    scale, shift = (state[f"tip.{name}"].ravel() for name in (("gamma", "beta") if has_rms else ("scale", "bias")))
    parts = [state[f"{name}.weight"] for name in ("p1", "g1", "v1")]
    sums = program.convolve(x, Norm(scale, shift, act), *parts, scaled=int(has_rms))
    policy, value = sums[: len(parts[0])], sums[len(parts[0]) + len(parts[1]) :]
    g = program.pool(sums[policy.channels : policy.channels + len(parts[1])], norm_of(state, "gnorm"))
    norm = norm_of(state, "pnorm")
    program.score(policy, norm, state["p2.weight"], answer, spread(program, state, "gspread", g, norm.scale))
    if "passing2.weight" in state:
        g = spread(program, state, "passing", g, 1.0, state["passing.bias"], int(state["passing_activation"]))
        program.dense(g, matrix(state, "passing2"), to=answer + program.points)
    else:
        program.dense(g, spread_matrix(state, "passing", off), to=answer + program.points)
    mean, by_size, by_square = np.split(matrix(state, "v2"), 3)
    table, hidden = mean + off * by_size + (off * off - 0.1) * by_square, len(state["v2.bias"])
    h = program.room(hidden + LANES)
    means = program.pool(value, norm_of(state, "vnorm"))
    program.dense(means, table, state["v2.bias"], int(state["v2_activation"]), h)
    rules = np.zeros((10, 1))
    rules[6], rules[9] = 1, -1  # with superko and area scoring every game has a result
    program.dense(numbers, rules, act=RELU, to=h + hidden)
    rows = np.concatenate([matrix(state, "v3"), -state["no_result"].reshape(1, 3)])
    program.dense(h, rows, state["v3.bias"], to=answer + program.points + 1)
    program.end_search()
    program.dense(h, matrix(state, "sv3"), state["sv3.bias"], to=answer + program.points + 4)
    program.score(value, norm_of(state, "vnorm"), state["owners.weight"], answer + end)
    return program.end(answer)


def norm_of(state: State, name: str) -> Norm:
    return Norm(state[f"{name}.scale"].ravel(), state[f"{name}.bias"].ravel(), int(state[f"{name}.activation"]))


def spread_matrix(state: State, name: str, off: float) -> np.ndarray:
    """(2C, outputs) for means and maxima, from the state's matrix for means, means times ``off`` and maxima."""
    mean, by_size, highest = np.split(matrix(state, name), 3)
    return np.concatenate([mean + off * by_size, highest])


def spread(
    program: Program, state: State, name: str, pooled: int, scale: Any, bias: Any = 0.0, act: int = IDENTITY
) -> int:
    """The index of a dense layer's outputs for ``pooled`` channels, each times its ``scale``."""
    return program.dense(pooled, spread_matrix(state, name, 0.1 * (program.size - 14)) * scale, bias, act)


def pack_blocks(program: Program, state: State, prefix: str, x: Source) -> None:
    """The blocks of a trunk, or of a nested one."""
    for number in range(1 + max(int(name.split(".")[1]) for name in state if name.startswith(f"{prefix}."))):
        taken, name = program.taken, f"{prefix}.{number}."
        part = {key.removeprefix(name): value for key, value in state.items() if key.startswith(name)}
        if "q.weight" in part:
            pack_attention(program, part, x)
        elif "one.weight" in part:
            pack_feed_forward(program, part, x)
        elif "post.scale" in part:
            h = program.rows(len(part["conv1.weight"]))
            program.read(ADD, program.convolve(x, norm_of(part, "pre"), part["conv1.weight"]), target=h.at)
            pack_blocks(program, part, "blocks", h)
            program.read(ADD, program.convolve(h, norm_of(part, "post"), part["conv2.weight"]), target=x.at, adds=1)
        else:
            norm, channels, extra = norm_of(part, "mid"), len(part["conv1.weight"]), -1
            pools = [part["convg.weight"]] if "convg.weight" in part else []
            sums = program.convolve(x, norm_of(part, "pre"), part["conv1.weight"], *pools)
            if pools:
                pooled = program.pool(sums[channels:], norm_of(part, "normg"))
                extra = spread(program, part, "spread", pooled, norm.scale)
            sums = program.convolve(sums[:channels], norm, part["conv2.weight"], extra=extra)
            program.read(ADD, sums, target=x.at, adds=1)
        program.taken = taken


def multiply_tokens(program: Program, part: State, x: Source, *tables: np.ndarray) -> Source:
    """The products of each point's RMS norm with matrices (inputs, outputs), side by side."""
    program.step(RMS, source=x.at, channels=x.channels, shift=program.keep(part["norm.epsilon"]))
    program.round(x, Norm(part["norm.weight"]), scaled=1)
    return program.multiply(as_convolution(np.concatenate(tables, 1)))


def as_convolution(table: np.ndarray) -> np.ndarray:
    """A matrix (inputs, outputs) as weights (O, I, 1, 1)."""
    return table.T[:, :, None, None]


def padded_heads(table: np.ndarray, heads: int, halves: int = 1) -> np.ndarray:
    """A matrix (inputs, outputs) whose outputs are padded to panels for each head, or each half of a head."""
    parts = table.reshape(len(table), heads, halves, -1)
    more = -parts.shape[3] % (PANEL // halves)
    return np.pad(parts, ((0, 0), (0, 0), (0, 0), (0, more))).reshape(len(table), -1)


def pack_attention(program: Program, part: State, x: Source) -> None:
    heads, groups, depth, _ = (int(number) for number in part["shape"])
    points, values = program.points, part["v.weight"].shape[1] // groups
    tables = [padded_heads(part["q.weight"], heads, 2), padded_heads(part["k.weight"], groups, 2)]
    sums = multiply_tokens(program, part, x, *tables, padded_heads(part["v.weight"], groups))
    wide, wide_values = tables[0].shape[1] // heads, -(-values // PANEL) * PANEL
    angles = np.zeros((groups, points, wide // 2))
    row, column = np.divmod(np.arange(points)[:, None], program.size)
    across, down = part["freqs"][:, None, :, 0], part["freqs"][:, None, :, 1]
    angles[:, :, : depth // 2] = across * column + down * row
    scale = np.ones(sums.channels)
    scale[: heads * wide] = depth**-0.5
    keys = -(-points // PANEL) * PANEL
    buffers = heads * (points + SLACK) * wide + groups * (keys * wide + points * wide_values) + ROWS * (keys + LANES)
    h = program.rows(heads * wide_values)
    shape = {"heads": heads, "groups": groups, "depth": wide, "values": wide_values, "target": program.room(buffers)}
    program.read(QKV, sums, Norm(scale), turns=program.keep(np.stack([np.cos(angles), np.sin(angles)], 2)), **shape)
    program.step(ATTEND, **(shape | {"extra": h.at}))
    out = padded_heads(part["out.weight"].T, heads).T
    program.read(ADD, program.convolve(h, AS_IT_IS, as_convolution(out)), target=x.at, adds=1)


def pack_feed_forward(program: Program, part: State, x: Source) -> None:
    tables = [part[f"{name}.weight"] for name in ("one", "gate") if f"{name}.weight" in part]
    sums = multiply_tokens(program, part, x, *tables)
    gate = {"gated": 1, "channels": sums.channels // 2} if len(tables) > 1 else {}
    sums = program.convolve(sums, Norm(act=SILU), as_convolution(part["two.weight"]), bits=8, **gate)
    program.read(ADD, sums, target=x.at, adds=1)
