"""Residual nets in int8 on processors with AVX-512 VNNI, faster and closer to float32 than in ONNX Runtime.

Convolutions multiply 8-bit numbers and add up in 32 bits; all else is float32, and so is the residual stream. The
points of a board lie in a row, with an empty point at the end of each line and an empty line above and below, so that a
3x3 convolution is nine shifted products. Not here: several sizes in one batch, ownership and score; how a net gets its
8 bits (``packing.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from arena.go.jit import inlined, kernel

U = np.uint64

LANES = 16
"""32-bit sums in a register."""

INPUT, ZERO = 64.0, 128
"""A plane's value v is given to the first convolution as INPUT * v + ZERO."""

SLACK = 12
"""Points behind the board that products may run over."""


def is_supported(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the processor has the instructions, by its own description; False where there is none."""
    try:
        words = cpuinfo.read_text(encoding="utf-8", errors="replace").split()
    except OSError:
        return False
    return {"avx512f", "avx512bw", "avx512vl", "avx512_vnni"} <= set(words)


# --- Products ---


def _products(vectors: int, points: int) -> Any:
    """``multiply(acts, apart, offsets, steps, weights, out, stride)``: for each of ``points`` points, ``apart`` bytes
    from each other from ``acts`` on, add up the products of 4 bytes at each of ``steps`` ``offsets`` with the weights
    of 16 * ``vectors`` outputs; the sums go to ``out``, ``stride`` bytes from each other. All are addresses or
    numbers."""

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
def _convolve(acts, base, apart, length, offsets, weights, first, outputs, sums):  # type: ignore[no-untyped-def]
    """The sums (length, outputs) int32 of a convolution over ``acts`` uint8, whose points are ``apart`` bytes from each
    other, from point ``base`` on. Its weights begin at ``first``."""
    steps = offsets.shape[0]
    given, table = acts.ctypes.data + base * apart, offsets.ctypes.data
    packed, out = weights.ctypes.data + first, sums.ctypes.data
    done = 0
    while outputs - done >= 2 * LANES:
        for p in range(0, length, 6):
            _two_rows(
                given + p * apart,
                apart,
                table,
                steps,
                packed + done * steps * 4,
                out + 4 * (p * outputs + done),
                4 * outputs,
            )
        done += 2 * LANES
    if done < outputs:
        for p in range(0, length, 12):
            _one_row(
                given + p * apart,
                apart,
                table,
                steps,
                packed + done * steps * 4,
                out + 4 * (p * outputs + done),
                4 * outputs,
            )


# --- A net ---


class Packed(NamedTuple):
    """A net as the kernel takes it, for boards of one size. Scales and shifts turn sums into numbers; tables by point
    are 0 where a line ends, so that what is empty stays empty."""

    size: int
    channels: int
    pooled: int
    head: int
    pools: np.ndarray  # (blocks,) int64: whether a block pools
    weights: np.ndarray  # int8: of all convolutions
    begins: np.ndarray  # (convolutions,) int64: where each one's weights begin
    near: np.ndarray  # (steps,) int64: offsets of a 3x3 convolution of the planes
    around: np.ndarray  # (steps,) int64: of one of the tower
    here: np.ndarray  # (steps,) int64: of a 1x1 convolution of the tower
    within: np.ndarray  # (steps,) int64: of one of the policy's features
    stem_scale: np.ndarray  # (points * channels,) float32; so are the next
    stem_shift: np.ndarray
    norm_scale: np.ndarray  # (blocks + 1, points * channels): before each block and after the last, in 8-bit steps
    norm_shift: np.ndarray
    inner_scale: np.ndarray  # (blocks, points * channels): after the first convolution, in 8-bit steps
    inner_shift: np.ndarray
    outer_scale: np.ndarray  # (blocks, points * channels): after the second
    outer_shift: np.ndarray
    pool_scale: np.ndarray  # (blocks, pooled)
    pool_shift: np.ndarray
    spread: np.ndarray  # (blocks, 2 * pooled, channels), in the steps of inner_scale
    head_scale: np.ndarray  # (head + pooled + head,): policy, pool, value
    head_shift: np.ndarray
    policy_spread: np.ndarray  # (2 * pooled, head)
    policy_steps: np.float32  # how many steps 1 is of the policy's features
    point_scale: np.float32
    passing: np.ndarray  # (2 * pooled + 1,): the last is the bias
    hidden: np.ndarray  # (2 * head + 1, 2 * head): the last row is the bias
    result: np.ndarray  # (2 * head + 1, 3)


@inlined
def _step(told):  # type: ignore[no-untyped-def]
    """A number in 8-bit steps as one of them."""
    told = told if told > np.float32(0) else np.float32(0)
    told = told if told < np.float32(255) else np.float32(255)
    return np.uint8(np.int32(told + np.float32(0.5)))


@inlined
def _to_steps(numbers, scale, shift, out):  # type: ignore[no-untyped-def]
    """Write relu(numbers * scale + shift) into ``out``, all of one length. Here and below, indices are unsigned so that
    loops become vector instructions."""
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
                told = np.float32(sums[at + o]) * scale[o] + shift[o]
                told = told if told > np.float32(0) else np.float32(0)
                pooled[o] += told
                highest = pooled[width + o]
                pooled[width + o] = told if told > highest else highest
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
def forward(net, planes, logits, values):  # type: ignore[no-untyped-def]
    """Write the logits of the policy (B, n² + 1) and of win, draw and loss (B, 3) of ``planes`` (B, P, n²), all
    float32."""
    size, channels, pooled, head = net.size, net.channels, net.pooled, net.head
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
                    told = board[U(row * size) + column] * np.float32(INPUT) + np.float32(ZERO)
                    given[at + column * U(apart_in)] = _step(told)
        _convolve(given, base, apart_in, length, net.near, net.weights, net.begins[0], channels, sums)
        for k in range(U(numbers)):
            x[k] = np.float32(sums[k]) * net.stem_scale[k] + net.stem_shift[k]
        for b in range(blocks):
            _to_steps(x, net.norm_scale[b], net.norm_shift[b], inner)
            _convolve(acts, base, channels, length, net.around, net.weights, net.begins[3 * b + 1], channels, sums)
            scale, shift = net.inner_scale[b], net.inner_shift[b]
            if net.pools[b]:
                _convolve(acts, base, channels, length, net.around, net.weights, net.begins[3 * b + 2], pooled, aside)
                _pool(aside, pooled, 0, pooled, size, net.pool_scale[b], net.pool_shift[b], means)
                _times(means, 2 * pooled, net.spread[b], channels, False, biases)
                for row in range(size):
                    for point in range(row * wide, row * wide + size):
                        at = U(point * channels)
                        for o in range(U(channels)):
                            told = np.float32(sums[at + o]) * scale[at + o] + shift[at + o]
                            outer[at + o] = _step(told + biases[o])
            else:
                _to_steps(sums, scale, shift, outer)
            _convolve(between, base, channels, length, net.around, net.weights, net.begins[3 * b + 3], channels, sums)
            scale, shift = net.outer_scale[b], net.outer_shift[b]
            for k in range(U(numbers)):
                x[k] += np.float32(sums[k]) * scale[k] + shift[k]
        _to_steps(x, net.norm_scale[blocks], net.norm_shift[blocks], inner)
        _convolve(acts, base, channels, length, net.here, net.weights, net.begins[3 * blocks + 1], outputs, sums)
        _pool(sums, outputs, head, pooled, size, net.head_scale[head:], net.head_shift[head:], means)
        passing = net.passing[2 * pooled]
        for o in range(2 * pooled):
            passing += means[o] * net.passing[o]
        logits[i, size * size] = passing
        _times(means, 2 * pooled, net.policy_spread, head, False, biases)
        for o in range(U(head)):
            biases[o] += net.head_shift[o]
        for row in range(size):
            for point in range(row * wide, row * wide + size):
                at, to = U(point * outputs), U(point * head)
                for o in range(U(head)):
                    told = np.float32(sums[at + o]) * net.head_scale[o] + biases[o]
                    features[to + o] = _step(told * net.policy_steps)
        _convolve(features, 0, head, length, net.within, net.weights, net.begins[3 * blocks + 2], LANES, aside)
        for row in range(size):
            for column in range(size):
                sum_here = aside[U((row * wide + column) * LANES)]
                logits[i, row * size + column] = np.float32(sum_here) * net.point_scale
        value = head + pooled
        _pool(sums, outputs, value, head, size, net.head_scale[value:], net.head_shift[value:], means)
        _times(means, 2 * head, net.hidden, 2 * head, True, biases)
        for o in range(2 * head):
            means[o] = max(np.float32(0), biases[o])
        _times(means, 2 * head, net.result, 3, True, values[i])


# --- One size ---


def lay_out(arrays: Mapping[str, np.ndarray], size: int) -> Packed:
    """The net of these arrays (``bots.nets.packing.pack``) for boards of ``size``. Raises KeyError, TypeError or
    IndexError for others."""
    wide = size + 1
    valid = np.tile(np.arange(wide) < size, size).astype(np.float32)[:, None]  # (points, 1)

    def by_point(numbers: np.ndarray) -> np.ndarray:
        """(..., channels) as (..., points * channels)."""
        told = valid * numbers[..., None, :]
        return np.ascontiguousarray(told.reshape(*numbers.shape[:-1], -1), np.float32)

    channels, pooled = arrays["stem_scale"].shape[0], arrays["pool_scale"].shape[1]
    head = (arrays["head_scale"].shape[0] - pooled) // 2
    deep = int(arrays["begins"][1]) // (9 * channels)
    tables = {name: by_point(arrays[name]) for name in BY_POINT}
    others = {name: arrays[name] for name in arrays if name not in BY_POINT}
    steps, scale = (np.float32(others.pop(name)[0]) for name in ("policy_steps", "point_scale"))
    return Packed(
        size=size,
        channels=channels,
        pooled=pooled,
        head=head,
        near=_offsets(3, wide, deep),
        around=_offsets(3, wide, channels),
        here=_offsets(1, wide, channels),
        within=_offsets(1, wide, head),
        policy_steps=steps,
        point_scale=scale,
        **tables,
        **others,
    )


BY_POINT = tuple(f"{part}_{what}" for part in ("stem", "norm", "inner", "outer") for what in ("scale", "shift"))
"""What a packed net has for each channel, and the kernel takes for each point and channel."""


def _offsets(width: int, wide: int, apart: int) -> np.ndarray:
    reach = range(-(width // 2), width // 2 + 1)
    return np.array([(r * wide + c) * apart + 4 * q for r in reach for c in reach for q in range(apart // 4)], np.int64)


def evaluate(net: Packed, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The logits of the policy (B, n² + 1) and of win, draw and loss (B, 3) of ``planes`` (B, P, n, n), float32; n is
    that of ``lay_out``. Each position's are the same bit for bit whatever else is in the batch."""
    count, depth, size, _ = planes.shape
    logits, values = np.empty((count, size * size + 1), np.float32), np.empty((count, 3), np.float32)
    forward(net, np.ascontiguousarray(planes.reshape(count, depth, size * size)), logits, values)
    return logits, values
