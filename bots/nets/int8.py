"""Nets in small integers on processors with AVX-512 VNNI, faster and closer to float32 than int8 in ONNX Runtime; and
faster again, with the same sums, where there is AMX.

Matrices and convolutions multiply integers and add them up in 32 bits: 8-bit integers in 3x3 convolutions of blocks and
in the last matrix of feed-forward blocks, 16-bit integers elsewhere. Inputs are rounded by the range of each point, or
of the board before a 3x3 convolution. All other numbers are float32.
``bots.nets.packing`` makes a net a list of steps over rows (points, channels), which one kernel executes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from safetensors.numpy import load_file

from arena import CheckpointError
from arena.files import reason
from arena.go.jit import inlined, kernel
from bots.nets import lanes, packing
from bots.nets.checkpoint import Checkpoint
from bots.nets.lanes import LANES, larger, load, products, smaller, spread, store
from bots.nets.packing import INPUT, LINE, MAX_INT16_LEVEL, ROWS, SLACK, TILED_ROWS, PackedNet, Unfit, pack

HEADS = ("policy", "value", "score", "ownership")  # in the order of the kernel's outputs
SEARCHED = 2  # how many of them a search needs


class Packed(NamedTuple):
    """What ``forward`` needs to compute a net's outputs."""

    net: PackedNet
    tokens: PackedNet | None  # the net again if it has steps of a transformer; for None, Numba leaves out their code
    config: np.ndarray | None  # (64,) uint8, scratch, for a processor that has tiles


class PackedModel:
    """The outputs for a position don't depend on the rest of the batch."""

    def __init__(self, state: Mapping[str, np.ndarray], size: int, tiles: bool = True):
        """Pack the net for boards of ``size``; ``state`` is that of ``pack``. ``tiles``, where the processor has them,
        change no output. Raises as ``pack``."""
        self._state, self._tiles = state, tiles and lanes.has_tiles()
        self._nets: dict[tuple[int, bool], tuple[PackedNet, PackedNet | None]] = {}  # by size and ``area``
        self.packed(size)
        has_area = "tip.activation" in state or "ownership.conv.weight" in state
        self.outputs = {*HEADS} if has_area else {*HEADS[:SEARCHED]}

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> PackedModel:
        """Raises Unfit, and CheckpointError for weights that can't be packed."""
        try:
            return cls(load_file(checkpoint.weights), checkpoint.manifest.size)
        except Unfit:
            raise
        except Exception as error:
            words = f"{checkpoint.weights}: can't be packed ({reason(error)}); export the net again"
            raise CheckpointError(words) from error

    def packed(self, size: int, area: bool = False) -> Packed:
        """The net for boards of ``size``; without ``area`` it computes policy and value only."""
        if (size, area) not in self._nets:
            whole = pack(self._state, size, self._tiles)
            has_tokens = np.isin(whole.steps["code"], (packing.RMS, packing.QKV, packing.ATTEND)).any()
            for with_area, net in ((True, whole), (False, whole._replace(steps=whole.steps[: whole.searched]))):
                self._nets[size, with_area] = net, net if has_tokens else None
        return Packed(*self._nets[size, area], np.zeros(64, np.uint8) if self._tiles else None)

    def run(self, heads: Sequence[str], planes: np.ndarray) -> list[np.ndarray]:
        """The outputs of these heads for ``planes`` (B, P, n, n) float32, each (B, ...) float32."""
        count, depth, size, _ = planes.shape
        points, area = size * size, not {*heads} <= {*HEADS[:SEARCHED]}
        packed = self.packed(size, area)
        if depth != packed.net.planes:
            raise CheckpointError(f"{depth} planes don't fit a net of {packed.net.planes}")
        found = np.empty((count, 2 * points + 5 if area else points + 4), np.float32)
        forward(*packed, np.ascontiguousarray(planes.reshape(count, depth, points)), found)
        ends = 0, points + 1, points + 4, points + 5, 2 * points + 5
        parts = {head: found[:, ends[at] : ends[at + 1]] for at, head in enumerate(HEADS)}
        return [np.ascontiguousarray(parts[head][:, 0] if head == "score" else parts[head]) for head in heads]


# --- Kernels ---

_bytes_1, _bytes_2, _bytes_3 = products("uint8", 1, ROWS), products("uint8", 2, ROWS), products("uint8", 3, ROWS)
_shorts_1, _shorts_2, _shorts_3 = products("int16", 1, ROWS), products("int16", 2, ROWS), products("int16", 3, ROWS)
_floats_2 = products("float32", 2, ROWS)
_tiled_bytes_1, _tiled_bytes_2 = lanes.tile_products(lanes.BYTES, 1), lanes.tile_products(lanes.BYTES, 2)
_tiled_split_1, _tiled_split_2 = lanes.tile_products(lanes.SPLIT, 1), lanes.tile_products(lanes.SPLIT, 2)

SIZE = 4  # bytes of a number


class Memory(NamedTuple):
    """Addresses, for a kernel's parts."""

    points: int
    work: int
    sums: int
    numbers: int
    acts: int
    places: int


class Reader(NamedTuple):
    """Where a step reads: see ``_value``."""

    is_whole: int
    source: int
    stride: int
    scale: int
    fix: int
    shift: int
    extra: int


@inlined
def _address(array):  # type: ignore[no-untyped-def]
    return np.int64(array.ctypes.data)


@inlined
def _exp(x):  # type: ignore[no-untyped-def]
    """e ** x, as 2 ** n times a polynomial in the rest of the exponent, to within 1e-7."""
    x = x * spread(np.float32(1.44269504))
    n = lanes.rounded(x)
    r = x - n
    y = spread(np.float32(0.0013264727)) * r + spread(np.float32(0.009671513))
    y = y * r + spread(np.float32(0.055507336))
    y = y * r + spread(np.float32(0.24022242))
    y = y * r + spread(np.float32(0.693147))
    return lanes.scaled(y * r + spread(np.float32(1)), n)


@inlined
def _activate(kind, x):  # type: ignore[no-untyped-def]
    """An activation of lanes."""
    if kind == packing.RELU:
        x = larger(x, spread(np.float32(0)))
    elif kind == packing.SILU:
        x = x / (spread(np.float32(1)) + _exp(spread(np.float32(0)) - x))
    elif kind == packing.MISH:  # tanh(log(1 + e)) = (e² + 2e) / (e² + 2e + 2)
        e = _exp(smaller(x, spread(np.float32(30))))
        e = e * (e + spread(np.float32(2)))
        x = x * (e / (e + spread(np.float32(2))))
    return x


@inlined
def _reader(memory, step):  # type: ignore[no-untyped-def]
    is_whole = step.source < 0
    source = memory.sums + SIZE * step.first if is_whole else memory.work + SIZE * step.source
    extra = memory.work + SIZE * step.extra if step.extra >= 0 else 0
    scale, shift = memory.numbers + SIZE * step.scale, memory.numbers + SIZE * step.shift
    fix = memory.numbers + SIZE * step.fix if step.fix >= 0 else 0
    return Reader(int(is_whole), source, SIZE * step.stride, scale, fix, shift, extra)


@inlined
def _factors(reader, channel):  # type: ignore[no-untyped-def]
    """The arguments ``factors`` of ``_value``: lanes of channels' scales, shifts and sums of weights."""
    at = SIZE * channel
    shift, fix = load(reader.shift + at), spread(np.float32(0))
    if reader.extra:
        shift = shift + load(reader.extra + at)
    if reader.fix:
        fix = load(reader.fix + at)
    return load(reader.scale + at), shift, fix


@inlined
def _value(reader, row, channel, factors, scale, zero):  # type: ignore[no-untyped-def]
    """Lanes of a step's input; each row has its own scale and zero."""
    place = reader.source + row * reader.stride + SIZE * channel
    value = lanes.load_whole(place) if reader.is_whole else load(place)
    return (value * factors[0] - zero * factors[2]) * scale + factors[1]


@inlined
def _steps(low, high, bits):  # type: ignore[no-untyped-def]
    """The size and the zero of the rounding steps for numbers from ``low`` <= 0 to ``high`` >= 0."""
    least, most = -lanes.largest(spread(np.float32(0)) - low), lanes.largest(high)
    if bits == 8:  # 254, not 255: two roundings up stay in range
        size = (most - least) / np.float32(254) + np.float32(1e-30)
        return size, np.float32(np.rint(-least / size))
    return max(most, -least) / np.float32(MAX_INT16_LEVEL) + np.float32(1e-30), np.float32(0)


@inlined
def _round(row, channels, bits, split, size, zero, out):  # type: ignore[no-untyped-def]
    """Write a row, rounded, in units of steps; if ``split``, the low bytes first."""
    inverse, middle = spread(np.float32(1) / size), spread(zero)
    for o in range(0, channels, LANES):
        value = load(row + SIZE * o) * inverse + middle
        if bits == 8:
            lanes.store_byte(out + o, value)
        elif split:
            lanes.store_split(out + o, out + channels + o, value)
        else:
            lanes.store_short(out + 2 * o, value)


@inlined
def _write_planes(net, step, board, acts, work):  # type: ignore[no-untyped-def]
    """The first ``channels`` planes (P, n²) become steps of 1 / INPUT; of the others the first point is a number."""
    apart, shorts = (step.channels + 1) // 2 * 2, acts.view(np.int16)
    shorts[: net.room * apart] = 0
    for plane in range(step.channels):
        for p in range(board.shape[1]):
            value = board[plane, p] * np.float32(INPUT)
            shorts[net.places[p] * apart + plane] = np.int16(
                np.rint(min(max(value, np.float32(-MAX_INT16_LEVEL)), np.float32(MAX_INT16_LEVEL)))
            )
    for plane in range(step.channels, board.shape[0]):
        work[step.target + plane - step.channels] = board[plane, 0]


@inlined
def _clear_gaps(net, acts, apart, zero):  # type: ignore[no-untyped-def]
    """Write ``zero`` to the bytes of all places that aren't points of the board."""
    at = 0
    for row in range(net.size):
        until = net.places[row * net.size] * apart
        acts[at:until] = zero
        at = until + net.size * apart
    acts[at : net.room * apart] = zero


@inlined
def _multiply(net, step, memory):  # type: ignore[no-untyped-def]
    """The sums for panels of two registers, the last of up to three, while the next panel's weights are prefetched."""
    table, weights = _address(net.tables) + 8 * step.table, _address(net.weights) + step.weights
    acts, count, apart, bits, left = memory.acts, step.count, step.apart, step.bits, step.outputs // LANES
    stride, out, all_places = SIZE * step.outputs, memory.sums, memory.places if step.whole else _address(net.rows)
    while left:
        vectors = left if left <= 3 else 2
        ahead = weights + 64 * vectors * count
        share = 64 * (vectors * count * ROWS // memory.points + 1)
        for p in range(0, memory.points, ROWS):
            for line in range(ahead, ahead + share, 64):
                lanes.prefetch(line)
            ahead += share
            places, to = all_places + 8 * p, out + p * stride
            if bits == 8:
                if vectors == 2:
                    _bytes_2(acts, places, apart, table, count, weights, to, stride)
                elif vectors == 3:
                    _bytes_3(acts, places, apart, table, count, weights, to, stride)
                else:
                    _bytes_1(acts, places, apart, table, count, weights, to, stride)
            elif vectors == 2:
                _shorts_2(acts, places, apart, table, count, weights, to, stride)
            elif vectors == 3:
                _shorts_3(acts, places, apart, table, count, weights, to, stride)
            else:
                _shorts_1(acts, places, apart, table, count, weights, to, stride)
        weights, out, left = weights + 64 * vectors * count, out + 64 * vectors, left - vectors


@inlined
def _multiply_tiles(net, step, memory, config):  # type: ignore[no-untyped-def]
    """As ``_multiply``, by tiles. ``config`` (64,) uint8 is scratch."""
    split, apart, parts = step.bits == 16, step.apart, step.parts
    depth = apart // (2 if split else 1) // parts
    config[:], config[0] = 0, 1  # palette 1: eight tiles
    for tile in range(8):  # the bytes of a row, and the rows
        config[16 + 2 * tile] = depth if tile in lanes.POINTS else 64
        config[48 + tile] = depth // 4 if tile in lanes.WEIGHTS else LANES
    lanes.set_tiles(_address(config))
    table, weights = _address(net.tables) + 8 * step.table, _address(net.weights) + step.weights
    begin = memory.acts + (apart * net.places[0] if step.whole else 0)
    of_rows = net.points_of[1] if step.whole else net.points_of[0]
    taps, left, stride, out = step.count * 4 // apart, step.outputs // LANES, SIZE * step.outputs, memory.sums
    while left:
        vectors = left if left <= 3 else 2
        line = 64 * vectors
        ahead, share = weights + line * step.count, line * step.count * TILED_ROWS // of_rows.shape[0]
        for vector in range(0, vectors, 2):
            w, to, is_pair = weights + 64 * vector, out + 64 * vector, vectors > vector + 1
            for row in range(0, of_rows.shape[0], TILED_ROWS):
                for place in range(ahead, ahead + share, 64):
                    lanes.prefetch(place)
                ahead += share
                acts, rows = begin + row * apart, _address(of_rows) + 8 * row
                if split and is_pair:
                    _tiled_split_2(acts, apart, rows, depth, parts, table, taps, w, line, to, stride)
                elif split:
                    _tiled_split_1(acts, apart, rows, depth, parts, table, taps, w, line, to, stride)
                elif is_pair:
                    _tiled_bytes_2(acts, apart, rows, depth, parts, table, taps, w, line, to, stride)
                else:
                    _tiled_bytes_1(acts, apart, rows, depth, parts, table, taps, w, line, to, stride)
        weights, out, left = weights + line * step.count, out + line, left - vectors


@inlined
def _round_rows(net, step, memory, scales, zeros):  # type: ignore[no-untyped-def]
    """Read rows, activate and round each by its own range."""
    none, one, reader = spread(np.float32(0)), spread(np.float32(1)), _reader(memory, step)
    channels, act, scaled, gated, bits = step.channels, step.act, step.scaled, step.gated, step.bits
    at = memory.work + SIZE * step.target
    for p in range(memory.points):
        scale, zero = (spread(scales[p]), spread(zeros[p])) if scaled else (one, none)
        low, high = none, none
        for o in range(0, channels, LANES):
            value = _activate(act, _value(reader, p, o, _factors(reader, o), scale, zero))
            if gated:
                more = channels + o
                value = value * _value(reader, p, more, _factors(reader, more), scale, zero)
            low, high = smaller(low, value), larger(high, value)
            store(at + SIZE * o, value)
        scales[p], zeros[p] = _steps(low, high, bits)
        _round(at, channels, bits, step.parts, scales[p], zeros[p], memory.acts + p * channels * bits // 8)


@inlined
def _round_board(net, step, memory, acts, scales, zeros):  # type: ignore[no-untyped-def]
    """Read rows, activate and round them to 8 bits by the range of all."""
    none, one, reader = spread(np.float32(0)), spread(np.float32(1)), _reader(memory, step)
    channels, act, scaled, target = step.channels, step.act, step.scaled, memory.work + SIZE * step.target
    low, high = none, none
    for o in range(0, channels, LANES):
        factors = _factors(reader, o)
        for p in range(memory.points):
            scale, zero = (spread(scales[p]), spread(zeros[p])) if scaled else (one, none)
            value = _activate(act, _value(reader, p, o, factors, scale, zero))
            low, high = smaller(low, value), larger(high, value)
            store(target + SIZE * (p * channels + o), value)
    size, middle = _steps(low, high, np.int64(8))
    scales[:], zeros[:] = size, middle
    _clear_gaps(net, acts, channels, np.uint8(middle))
    for p in range(memory.points):
        row, out = target + SIZE * p * channels, memory.acts + net.places[p] * channels
        _round(row, channels, np.int64(8), 0, size, middle, out)


@inlined
def _mean_squares(step, memory, epsilon, scales, zeros):  # type: ignore[no-untyped-def]
    """The factors of an RMS norm, of each point or of the whole board."""
    channels, whole = step.channels, np.float32(0)
    for p in range(memory.points):
        squares, row = spread(np.float32(0)), memory.work + SIZE * (step.source + p * channels)
        for o in range(0, channels, LANES):
            value = load(row + SIZE * o)
            squares = squares + value * value
        scales[p] = lanes.total(squares) / np.float32(channels)
        whole += scales[p]
    for p in range(memory.points):
        mean = whole / np.float32(memory.points) if step.whole else scales[p]
        scales[p] = np.float32(1) / np.sqrt(mean + epsilon)
        zeros[p] = np.float32(0)


@inlined
def _split_heads(step, memory, work, scales, zeros):  # type: ignore[no-untyped-def]
    """Queries and keys, rotated by the positions of their points; keys in panels of 32 points, (depth, 32) each; values
    in panels of 32 channels, (points, 32) each."""
    points, reader = memory.points, _reader(memory, step)
    heads, groups, depth, values = step.heads, step.groups, step.depth, step.values
    rows, half, keys = points + SLACK, depth // 2, (points + 31) // 32 * 32
    q, k = step.target, step.target + heads * rows * depth
    v = k + groups * keys * depth
    aside = v + groups * points * values
    for p in range(points):
        scale, zero = spread(scales[p]), spread(zeros[p])
        for head in range(heads + groups):
            group = head // (heads // groups) if head < heads else head - heads
            for o in range(0, half, LANES):
                turn = memory.numbers + SIZE * (step.turns + ((group * points + p) * 2) * half + o)
                cos, sin = load(turn), load(turn + SIZE * half)
                first, second = head * depth + o, head * depth + half + o
                a = _value(reader, p, first, _factors(reader, first), scale, zero)
                b = _value(reader, p, second, _factors(reader, second), scale, zero)
                at = q + (head * rows + p) * depth + o if head < heads else aside
                apart = half if head < heads else LANES
                store(memory.work + SIZE * at, a * cos - b * sin)
                store(memory.work + SIZE * (at + apart), a * sin + b * cos)
                if head >= heads:
                    at = k + (group * keys + p // 32 * 32) * depth + p % 32
                    for lane in range(LANES):
                        work[at + (o + lane) * 32] = work[aside + lane]
                        work[at + (half + o + lane) * 32] = work[aside + LANES + lane]
        for group in range(groups):
            for o in range(0, values, LANES):
                channel = (heads + groups) * depth + group * values + o
                value = _value(reader, p, channel, _factors(reader, channel), scale, zero)
                at = v + group * points * values + (o // 32 * points + p) * 32 + o % 32
                store(memory.work + SIZE * at, value)


@inlined
def _attend(net, step, memory):  # type: ignore[no-untyped-def]
    """The attention of each head at each point, from the buffers of ``_split_heads``; to ``extra`` (points, C)."""
    points, places, words = memory.points, _address(net.rows), _address(net.words)
    heads, groups, depth, values = step.heads, step.groups, step.depth, step.values
    rows, keys, width = points + SLACK, (points + 31) // 32 * 32, SIZE * heads * values
    q = memory.work + SIZE * step.target
    k = q + SIZE * heads * rows * depth
    v = k + SIZE * groups * keys * depth
    shares, found = v + SIZE * groups * points * values, memory.work + SIZE * step.extra  # (ROWS, keys)
    factors, nothing, one = shares + SIZE * ROWS * keys, spread(np.float32(-1e30)), spread(np.float32(1))
    for head in range(heads):
        group = head // (heads // groups)
        for p in range(0, points, ROWS):
            given = q + SIZE * head * rows * depth
            for key in range(0, keys, 32):
                panel = k + SIZE * (group * keys + key) * depth
                out = shares + SIZE * key
                _floats_2(given, places + 8 * p, SIZE * depth, words, depth, panel, out, SIZE * keys)
            for row in range(ROWS):
                at, high, summed = shares + SIZE * row * keys, nothing, spread(np.float32(0))
                for key in range(0, keys, LANES):
                    score = load(at + SIZE * key)
                    if key + LANES > points:
                        score = lanes.first_lanes(points - key, score, nothing)
                        store(at + SIZE * key, score)
                    high = larger(high, score)
                high = spread(lanes.largest(high))
                for key in range(0, keys, LANES):
                    share = _exp(load(at + SIZE * key) - high)
                    summed = summed + share
                    store(at + SIZE * key, share)
                store(factors + SIZE * LANES * row, one / spread(lanes.total(summed)))
            for o in range(0, values, 32):
                panel = v + SIZE * (group * values + o) * points
                out = found + p * width + SIZE * (head * values + o)
                _floats_2(shares, places, SIZE * keys, words, points, panel, out, width)
                for row in range(ROWS):
                    factor = load(factors + SIZE * LANES * row)
                    store(out + row * width, load(out + row * width) * factor)
                    store(out + row * width + 64, load(out + row * width + 64) * factor)


@inlined
def _pool(step, memory, scales, zeros):  # type: ignore[no-untyped-def]
    """The means, then the maxima of the input's channels."""
    reader, act, channels = _reader(memory, step), step.act, step.channels
    target, share = memory.work + SIZE * step.target, spread(np.float32(1) / np.float32(memory.points))
    for o in range(0, channels, LANES):
        mean, high, factors = spread(np.float32(0)), spread(np.float32(-1e30)), _factors(reader, o)
        for p in range(memory.points):
            value = _activate(act, _value(reader, p, o, factors, spread(scales[p]), spread(zeros[p])))
            mean, high = mean + value, larger(high, value)
        store(target + SIZE * o, mean * share)
        store(target + SIZE * (channels + o), high)


@inlined
def _dense(step, memory, work):  # type: ignore[no-untyped-def]
    """``channels`` numbers times a matrix, whose last row is added."""
    channels, outputs, source, table = step.channels, step.outputs, step.source, memory.numbers + SIZE * step.scale
    for o in range(0, outputs, LANES):
        value = load(table + SIZE * (channels * outputs + o))
        for i in range(channels):
            value = value + spread(work[source + i]) * load(table + SIZE * (i * outputs + o))
        store(memory.work + SIZE * (step.target + o), _activate(step.act, value))


@inlined
def _add(step, memory, scales, zeros):  # type: ignore[no-untyped-def]
    """Write the input to rows, or add it to them."""
    reader, adds, channels, target = _reader(memory, step), step.adds, step.channels, memory.work + SIZE * step.target
    for o in range(0, channels, LANES):
        factors = _factors(reader, o)
        for p in range(memory.points):
            at = target + SIZE * (p * channels + o)
            value = _value(reader, p, o, factors, spread(scales[p]), spread(zeros[p]))
            store(at, value + load(at) if adds else value)


@inlined
def _score_points(step, memory, work, scales, zeros):  # type: ignore[no-untyped-def]
    """The product of each point's numbers with a vector of weights."""
    reader, act, weights = _reader(memory, step), step.act, memory.numbers + SIZE * step.vector
    for p in range(memory.points):
        scale, zero, value = spread(scales[p]), spread(zeros[p]), spread(np.float32(0))
        for o in range(0, step.channels, LANES):
            read = _activate(act, _value(reader, p, o, _factors(reader, o), scale, zero))
            value = value + read * load(weights + SIZE * o)
        work[step.target + p] = lanes.total(value)


@kernel
def forward(net, tokens, config, planes, found):  # type: ignore[no-untyped-def]
    """Write the outputs for ``planes`` (B, P, n²) float32 to ``found`` (B, outputs) float32."""
    points = net.size * net.size
    room, sums = np.empty(net.room * net.apart + LINE, np.uint8), np.empty(net.room * net.outputs, np.int32)
    acts = room[-_address(room) % LINE :][: net.room * net.apart]
    work, scales, zeros = np.empty(net.work, np.float32), np.empty(points, np.float32), np.empty(points, np.float32)
    memory = Memory(points, _address(work), _address(sums), _address(net.numbers), _address(acts), _address(net.places))
    for i in range(planes.shape[0]):
        for at in range(net.steps.shape[0]):
            step = net.steps[at]
            code = step.code
            if code == packing.MULTIPLY:
                if config is not None:
                    if step.parts:
                        _multiply_tiles(net, step, memory, config)
                if not step.parts:
                    _multiply(net, step, memory)
            elif code == packing.NORM and step.whole:
                _round_board(net, step, memory, acts, scales, zeros)
            elif code == packing.NORM:
                _round_rows(net, step, memory, scales, zeros)
            elif code == packing.ADD:
                _add(step, memory, scales, zeros)
            elif code == packing.POOL:
                _pool(step, memory, scales, zeros)
            elif code == packing.DENSE:
                _dense(step, memory, work)
            elif code == packing.POINTS:
                _score_points(step, memory, work, scales, zeros)
            elif code == packing.PLANES:
                _write_planes(net, step, planes[i], acts, work)
                scales[:], zeros[:] = np.float32(1 / INPUT), np.float32(0)
            elif tokens is not None:
                if code == packing.RMS:
                    _mean_squares(step, memory, net.numbers[step.shift], scales, zeros)
                elif code == packing.QKV:
                    _split_heads(step, memory, work, scales, zeros)
                else:  # ATTEND
                    _attend(net, step, memory)
        for o in range(found.shape[1]):
            found[i, o] = work[net.answer + o]
    if config is not None:
        lanes.end_tiles()
    sums[0] = 0  # keeps Numba from freeing the array once its address is taken
