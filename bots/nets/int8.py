"""Residual nets in int8 on processors with AVX-512 VNNI, faster and closer to float32 than in ONNX Runtime.

Convolutions multiply 8-bit numbers and add up in 32 bits; all else is float32, and so is the residual stream. The
points of a board lie in a row, with an empty point at the end of each line and an empty line above and below, so that a
3x3 convolution is nine shifted products.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from safetensors.numpy import load_file

from arena import CheckpointError
from arena.files import reason
from arena.go.jit import inlined, kernel
from bots.nets.checkpoint import Checkpoint, cpu_flags
from bots.nets.norms import affine, fold_norms

if TYPE_CHECKING:
    from bots.nets.inference import Model, OnnxModel

U = np.uint64

LANES = 16  # 32-bit sums in a register
INPUT, ZERO = 64.0, 128  # a plane's value v is given to the first convolution as INPUT * v + ZERO
SLACK = 12  # points behind the board that products may run over


def is_supported() -> bool:
    """Whether the processor has the instructions, by its own description."""
    return {"avx512f", "avx512bw", "avx512vl", "avx512_vnni"} <= cpu_flags()


class PackedModel:
    """A net in int8 for policy and value; other heads are those of ``rest``. Its outputs for a position don't depend on
    what else is in the batch."""

    def __init__(self, state: Mapping[str, np.ndarray], ranges: Sequence[float], rest: Model | None = None):
        """``state`` and ``ranges`` are those of ``pack``, the norms not yet folded."""
        self.outputs: set[str] = {"policy", "value"} | (rest.outputs if rest else set())
        self._state, self._ranges, self._rest = fold_norms(state), ranges, rest
        self._nets: dict[int, PackedNet] = {}  # by size

    @classmethod
    def of(cls, checkpoint: Checkpoint, rest: OnnxModel) -> PackedModel:
        """Raises CheckpointError for weights that can't be packed."""
        try:
            model = cls(load_file(checkpoint.weights), rest.ranges, rest)
            model._net(checkpoint.manifest.size)
        except Exception as error:
            words = f"{checkpoint.weights}: can't be packed ({reason(error)}); export the net again"
            raise CheckpointError(words) from error
        return model

    def _net(self, size: int) -> PackedNet:
        if size not in self._nets:
            self._nets[size] = pack(self._state, self._ranges, size)
        return self._nets[size]

    def run(self, heads: Sequence[str], planes: np.ndarray) -> list[np.ndarray]:
        if self._rest is not None and not {"policy", "value"}.issuperset(heads):
            return self._rest.run(heads, planes)
        count, depth, size, _ = planes.shape
        outputs = {"policy": np.empty((count, size**2 + 1), np.float32), "value": np.empty((count, 3), np.float32)}
        planes = np.ascontiguousarray(planes.reshape(count, depth, size * size))
        _forward(self._net(size), planes, outputs["policy"], outputs["value"])
        return [outputs[head] for head in heads]


# --- Packing ---


class PackedNet(NamedTuple):
    """A net as the kernel takes it, for boards of one size. Scales and shifts turn sums into numbers; tables by point
    are 0 where a line ends, so that what is empty stays empty."""

    size: int
    pools: np.ndarray  # (blocks,) bool: whether a block pools
    weights: np.ndarray  # int8: of all convolutions
    begins: np.ndarray  # (convolutions + 1,) int64: where each one's weights begin
    stem: np.ndarray  # (2, points * channels) float32: scale and shift; so are the next
    norms: np.ndarray  # (blocks + 1, 2, points * channels): before each block and after the last, in 8-bit steps
    inner: np.ndarray  # (blocks, 2, points * channels): after the first convolution, in 8-bit steps
    outer: np.ndarray  # (blocks, points * channels): after the second, which has no shift
    pool: np.ndarray  # (blocks, 2, pooled)
    gpool: np.ndarray  # (blocks, 2 * pooled, channels): pooled features to biases, in the steps of ``inner``
    heads: np.ndarray  # (2, head + pooled + head): policy, pool, value
    policy_gpool: np.ndarray  # (2 * pooled, head)
    policy_steps: np.float32  # 8-bit steps of 1 in the policy's features
    point_scale: np.float32
    passing: np.ndarray  # (2 * pooled + 1, 1): the last row is the bias
    hidden: np.ndarray  # (2 * head + 1, 2 * head): the last row is the bias
    result: np.ndarray  # (2 * head + 1, 3)


def _in_steps(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights (O, I, k, k) float32 in 8-bit steps of each output, int8 in the order in which the kernel reads them; the
    steps' sizes, (O rounded up,) float32."""
    outputs, inputs, width, _ = weights.shape
    steps: np.ndarray = np.abs(weights).max((1, 2, 3)) / 127 + 1e-12
    wide, deep = -(-outputs // LANES) * LANES, -(-inputs // 4) * 4
    levels = np.zeros((wide, width * width, deep), np.int8)
    rounded = np.rint(weights / steps[:, None, None, None])
    levels[:outputs, :, :inputs] = rounded.transpose(0, 2, 3, 1).reshape(outputs, width * width, inputs)
    rows = levels.reshape(wide, width * width * deep // 4, 4)
    blocks = np.split(rows, range(2 * LANES, wide, 2 * LANES))  # of two registers, the last may be of one
    packed = np.concatenate([block.transpose(1, 0, 2).reshape(-1) for block in blocks])
    return packed, np.pad(steps, (0, wide - outputs)).astype(np.float32)


def pack(state: Mapping[str, np.ndarray], ranges: Sequence[float], size: int) -> PackedNet:
    """The net with this state, by PyTorch's names and with its norms folded, in 8 bits for boards of ``size``. The
    ``ranges`` are the largest inputs of its convolutions: the two of each block, the policy's first and last. Raises
    KeyError for another net, ValueError where that is not their number."""
    parts = list[np.ndarray]()

    def packed(*convolutions: str) -> np.ndarray:
        """Append the weights of these convolutions, and return their steps."""
        numbers, steps = _in_steps(np.concatenate([state[f"{conv}.weight"] for conv in convolutions]))
        parts.append(numbers)
        return steps

    blocks = 1 + max(int(name.split(".")[1]) for name in state if name.startswith("tower."))
    if len(ranges) != 2 * blocks + 2:
        raise ValueError(f"{len(ranges)} ranges for {blocks} blocks")
    *steps, given, policy_steps = [255 / highest for highest in ranges]
    channels, pooled, head = (len(state[f"{conv}.weight"]) for conv in ("stem", "policy.pool", "policy.conv"))
    valid = np.tile(np.arange(size + 1) < size, size).astype(np.float32)[:, None]  # (points, 1)

    def by_point(rows: Any) -> np.ndarray:
        """(..., channels) as (..., points * channels) float32."""
        table = np.array(rows)
        return np.ascontiguousarray((valid * table[..., None, :]).reshape(*table.shape[:-1], -1), np.float32)

    def matrix(conv: str, factor: float = 1.0) -> np.ndarray:
        """(inputs, outputs) of a 1x1 convolution."""
        return np.ascontiguousarray(state[f"{conv}.weight"][:, :, 0, 0].T * factor, np.float32)

    def dense(conv: str) -> np.ndarray:
        """(inputs + 1, outputs) of a 1x1 convolution; the last row is the bias."""
        return np.concatenate([matrix(conv), state[f"{conv}.bias"][None]])

    stem = packed("stem")
    levels = np.rint(state["stem.weight"] / stem[:, None, None, None])
    pools = np.array([f"tower.{block}.pool.weight" in state for block in range(blocks)])
    norms, inner, outer = list[Any](), list[Any](), list[np.ndarray]()
    pool = np.zeros((blocks, 2, pooled), np.float32)
    gpool = np.zeros((blocks, 2 * pooled, channels), np.float32)
    for block in range(blocks):
        name, before, between = f"tower.{block}", steps[2 * block], steps[2 * block + 1]
        scale, shift = affine(state, f"{name}.norm1")
        norms.append((scale * before, shift * before))
        bias, scale = state[f"{name}.conv1.bias"], packed(f"{name}.conv1") / before * between
        if pools[block]:
            pool[block] = packed(f"{name}.pool") / before, state[f"{name}.pool.bias"]
            gpool[block], bias = matrix(f"{name}.spread", between), bias + state[f"{name}.spread.bias"]
        else:
            parts.append(np.zeros(0, np.int8))
        inner.append((scale, bias * between))
        outer.append(packed(f"{name}.conv2") / between)
    scale, shift = affine(state, "norm")
    norms.append((scale * given, shift * given))
    convolutions = ("policy.conv", "policy.pool", "value.conv")
    head_scale = packed(*convolutions) / given
    head_shift = np.concatenate([state[f"{conv}.bias"] for conv in convolutions])
    head_shift[:head] += state["policy.spread.bias"]
    point_scale = packed("policy.points")[0] / policy_steps
    return PackedNet(
        size=size,
        pools=pools,
        weights=np.concatenate(parts),
        begins=np.cumsum([0, *(len(part) for part in parts)]),
        stem=by_point((stem / INPUT, -ZERO * levels.sum((1, 2, 3)) * stem / INPUT)),
        norms=by_point(norms),
        inner=by_point(inner),
        outer=by_point(outer),
        pool=pool,
        gpool=gpool,
        heads=np.array((head_scale, head_shift), np.float32),
        policy_gpool=matrix("policy.spread"),
        policy_steps=np.float32(policy_steps),
        point_scale=np.float32(point_scale),
        passing=dense("policy.passing"),
        hidden=dense("value.hidden"),
        result=dense("value.result"),
    )


# --- Kernels ---


def _products(vectors: int, points: int) -> Any:
    """``multiply(acts, apart, offsets, steps, weights, out, stride)``: for each of ``points`` points, ``apart`` bytes
    from each other from ``acts`` on, add up the products of 4 bytes at each of ``steps`` ``offsets`` with the weights
    of 16 * ``vectors`` outputs; the sums go to ``out``, ``stride`` bytes from each other."""

    @intrinsic
    def multiply(typing_context, acts, apart, offsets, steps, weights, out, stride):  # type: ignore[no-untyped-def]
        def code(context, builder, signature, values):  # type: ignore[no-untyped-def]
            acts, apart, offsets, steps, weights, out, stride = values
            number, word, lanes = acts.type, ir.IntType(32), ir.VectorType(ir.IntType(32), LANES)
            product = ir.FunctionType(lanes, [lanes, lanes, lanes])
            dot = cgutils.get_or_insert_function(builder.module, product, "llvm.x86.avx512.vpdpbusd.512")
            none = ir.Constant(lanes, [0] * LANES)
            sums = [[cgutils.alloca_once(builder, lanes) for _ in range(vectors)] for _ in range(points)]
            for row in sums:
                for place in row:
                    builder.store(none, place)

            def load(address: Any, kind: Any) -> Any:
                return builder.load(builder.inttoptr(address, kind.as_pointer()), align=1)

            with cgutils.for_range(builder, steps) as loop:
                offset = load(builder.add(offsets, builder.mul(loop.index, number(8))), number)
                row_of_weights = builder.add(weights, builder.mul(loop.index, number(64 * vectors)))
                rows = [load(builder.add(row_of_weights, number(64 * v)), lanes) for v in range(vectors)]
                start = builder.add(acts, offset)
                for p in range(points):
                    four = load(builder.add(start, builder.mul(apart, number(p))), word)
                    unknown = ir.Constant(lanes, ir.Undefined)
                    first = builder.insert_element(unknown, four, word(0))
                    spread = builder.shuffle_vector(first, unknown, none)
                    for v in range(vectors):
                        builder.store(builder.call(dot, [builder.load(sums[p][v]), spread, rows[v]]), sums[p][v])
            for p in range(points):
                for v in range(vectors):
                    place = builder.add(builder.add(out, builder.mul(stride, number(p))), number(64 * v))
                    builder.store(builder.load(sums[p][v]), builder.inttoptr(place, lanes.as_pointer()), align=1)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 7), code

    return multiply


_two_rows, _one_row = _products(2, 6), _products(1, 12)


@inlined
def _offsets(width, wide, stride):  # type: ignore[no-untyped-def]
    """Where the 4-byte steps of a convolution are from its point, in bytes."""
    offsets = np.empty(width * width * (stride // 4), np.int64)
    count = 0
    for row in range(-(width // 2), width // 2 + 1):
        for column in range(-(width // 2), width // 2 + 1):
            for four in range(stride // 4):
                offsets[count] = (row * wide + column) * stride + 4 * four
                count += 1
    return offsets


@inlined
def _convolve(acts, base, apart, length, offsets, weights, first, outputs, sums):  # type: ignore[no-untyped-def]
    """The sums (length, outputs) int32 of a convolution over ``acts`` uint8, whose points are ``apart`` bytes from each
    other, from point ``base`` on. Its weights begin at ``first``."""
    steps = offsets.shape[0]
    given, table = acts.ctypes.data + base * apart, offsets.ctypes.data
    packed, out, stride = weights.ctypes.data + first, sums.ctypes.data, 4 * outputs
    done = 0
    while outputs - done >= 2 * LANES:
        for p in range(0, length, 6):
            place = out + 4 * (p * outputs + done)
            _two_rows(given + p * apart, apart, table, steps, packed + done * steps * 4, place, stride)
        done += 2 * LANES
    if done < outputs:
        for p in range(0, length, 12):
            place = out + 4 * (p * outputs + done)
            _one_row(given + p * apart, apart, table, steps, packed + done * steps * 4, place, stride)


@inlined
def _step(value):  # type: ignore[no-untyped-def]
    """A number in 8-bit steps as one of them."""
    value = value if value > np.float32(0) else np.float32(0)
    value = value if value < np.float32(255) else np.float32(255)
    return np.uint8(np.int32(value + np.float32(0.5)))


@inlined
def _to_steps(numbers, affine, out):  # type: ignore[no-untyped-def]
    """Write relu(numbers * scale + shift) into ``out``, all of one length. Here and below, indices are unsigned so that
    loops become vector instructions."""
    scale, shift = affine[0], affine[1]
    for k in range(U(out.shape[0])):
        out[k] = _step(np.float32(numbers[k]) * scale[k] + shift[k])


@inlined
def _pool(sums, stride, first, count, size, scale, shift, pooled):  # type: ignore[no-untyped-def]
    """The means, then the maxima of relu(sums * scale + shift) over the points of a board."""
    width = U(count)
    for o in range(U(2) * width):
        pooled[o] = np.float32(0)
    for row in range(size):
        for point in range(row * (size + 1), row * (size + 1) + size):
            at = U(point * stride + first)
            for o in range(width):
                value = np.float32(sums[at + o]) * scale[o] + shift[o]
                value = value if value > np.float32(0) else np.float32(0)
                pooled[o] += value
                highest = pooled[width + o]
                pooled[width + o] = value if value > highest else highest
    for o in range(width):
        pooled[o] /= np.float32(size * size)


@inlined
def _times(given, count, matrix, outputs, bias, out):  # type: ignore[no-untyped-def]
    """``given`` (count,) @ ``matrix``, whose row ``count`` is added where ``bias``."""
    for o in range(U(outputs)):
        out[o] = matrix[U(count), o] if bias else np.float32(0)
    for i in range(U(count)):
        factor = given[i]
        for o in range(U(outputs)):
            out[o] += factor * matrix[i, o]


@kernel
def _forward(net, planes, logits, values):  # type: ignore[no-untyped-def]
    """Write logits of the policy (B, n² + 1) and of win, draw and loss (B, 3) of ``planes`` (B, P, n²); float32."""
    size, channels, pooled, head = net.size, net.gpool.shape[2], net.pool.shape[2], net.policy_gpool.shape[1]
    wide = size + 1
    length = size * wide
    base = wide + 1
    room = (size + 2) * wide + 2 + SLACK
    count_in = planes.shape[1]
    apart_in = (count_in + 3) // 4 * 4
    outputs = 2 * head + pooled
    given = np.full(room * apart_in, ZERO, np.uint8)
    acts = np.zeros(room * channels, np.uint8)
    between = np.zeros(room * channels, np.uint8)
    features = np.zeros((length + SLACK) * head, np.uint8)
    sums = np.empty((length + SLACK) * max(channels, outputs), np.int32)
    aside = np.empty((length + SLACK) * max(pooled, LANES), np.int32)
    x = np.empty(length * channels, np.float32)
    means = np.empty(2 * max(pooled, head), np.float32)
    biases = np.empty(max(channels, 2 * head), np.float32)
    near, around = _offsets(3, wide, apart_in), _offsets(3, wide, channels)
    here, within = _offsets(1, wide, channels), _offsets(1, wide, head)
    blocks = net.pools.shape[0]
    numbers = length * channels
    inner = acts[base * channels : base * channels + numbers]
    outer = between[base * channels : base * channels + numbers]
    for i in range(planes.shape[0]):
        for plane in range(count_in):
            board = planes[i, plane]
            for row in range(size):
                at = U((base + row * wide) * apart_in + plane)
                for column in range(U(size)):
                    value = board[U(row * size) + column] * np.float32(INPUT) + np.float32(ZERO)
                    given[at + column * U(apart_in)] = _step(value)
        _convolve(given, base, apart_in, length, near, net.weights, net.begins[0], channels, sums)
        scale, shift = net.stem[0], net.stem[1]
        for k in range(U(numbers)):
            x[k] = np.float32(sums[k]) * scale[k] + shift[k]
        for b in range(blocks):
            _to_steps(x, net.norms[b], inner)
            _convolve(acts, base, channels, length, around, net.weights, net.begins[3 * b + 1], channels, sums)
            if net.pools[b]:
                _convolve(acts, base, channels, length, around, net.weights, net.begins[3 * b + 2], pooled, aside)
                _pool(aside, pooled, 0, pooled, size, net.pool[b, 0], net.pool[b, 1], means)
                _times(means, 2 * pooled, net.gpool[b], channels, False, biases)
                scale, shift = net.inner[b, 0], net.inner[b, 1]
                for row in range(size):
                    for point in range(row * wide, row * wide + size):
                        at = U(point * channels)
                        for o in range(U(channels)):
                            value = np.float32(sums[at + o]) * scale[at + o] + shift[at + o]
                            outer[at + o] = _step(value + biases[o])
            else:
                _to_steps(sums, net.inner[b], outer)
            _convolve(between, base, channels, length, around, net.weights, net.begins[3 * b + 3], channels, sums)
            scale = net.outer[b]
            for k in range(U(numbers)):
                x[k] += np.float32(sums[k]) * scale[k]
        _to_steps(x, net.norms[blocks], inner)
        _convolve(acts, base, channels, length, here, net.weights, net.begins[3 * blocks + 1], outputs, sums)
        _pool(sums, outputs, head, pooled, size, net.heads[0, head:], net.heads[1, head:], means)
        _times(means, 2 * pooled, net.passing, 1, True, logits[i, size * size :])
        _times(means, 2 * pooled, net.policy_gpool, head, False, biases)
        for o in range(U(head)):
            biases[o] += net.heads[1, o]
        for row in range(size):
            for point in range(row * wide, row * wide + size):
                at, to = U(point * outputs), U(point * head)
                for o in range(U(head)):
                    value = np.float32(sums[at + o]) * net.heads[0, o] + biases[o]
                    features[to + o] = _step(value * net.policy_steps)
        _convolve(features, 0, head, length, within, net.weights, net.begins[3 * blocks + 2], LANES, aside)
        for row in range(size):
            for column in range(size):
                sum_here = aside[U((row * wide + column) * LANES)]
                logits[i, row * size + column] = np.float32(sum_here) * net.point_scale
        at_value = head + pooled
        _pool(sums, outputs, at_value, head, size, net.heads[0, at_value:], net.heads[1, at_value:], means)
        _times(means, 2 * head, net.hidden, 2 * head, True, biases)
        for o in range(2 * head):
            means[o] = max(np.float32(0), biases[o])
        _times(means, 2 * head, net.result, 3, True, values[i])
