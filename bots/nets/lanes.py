"""Sixteen float32 numbers as one value in kernels, and sums of products of small integers, by instructions of AVX-512
and AMX."""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba.core import cgutils, types
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

LANES = 16
FLOATS, WORDS = (ir.VectorType(kind, LANES) for kind in (ir.FloatType(), ir.IntType(32)))
NONE = ir.Constant(WORDS, [0] * LANES)
ALL, AS_SET = ir.Constant(ir.IntType(16), -1), ir.Constant(ir.IntType(32), 4)  # all lanes; the current rounding mode


class Lanes(types.Type):
    """The type of 16 float32 in a register."""

    def __init__(self) -> None:
        super().__init__("Lanes")


lanes = Lanes()


@register_model(Lanes)
class LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any):
        super().__init__(manager, kind, FLOATS)


def _call(builder: Any, name: str, result: Any, *arguments: Any, flags: tuple[str, ...] = ()) -> Any:
    kinds = ir.FunctionType(result, [argument.type for argument in arguments])
    function = cgutils.get_or_insert_function(builder.module, kinds, f"llvm.{name}")
    return builder.call(function, arguments, fastmath=flags)


_NAMES = {operator.add: "fadd", operator.sub: "fsub", operator.mul: "fmul", operator.truediv: "fdiv"}
for _operator, _name in _NAMES.items():
    infer_global(_operator)(type(_name, (ConcreteTemplate,), {"cases": [signature(lanes, lanes, lanes)]}))
    lower_builtin(_operator, lanes, lanes)(
        lambda context, builder, signature, given, name=_name: getattr(builder, name)(*given, flags=("contract",))
    )

Code = Callable[..., Any]


def _lowered(code: Code, result: Any) -> Any:
    def lower(context, builder, signature, values):  # type: ignore[no-untyped-def]
        found = code(builder, *values)
        return context.get_dummy_value() if result is types.void else found

    return lower


def _one(code: Code, result: Any = lanes) -> Any:
    """The function of one argument that ``code(builder, argument)`` computes."""

    @intrinsic
    def function(typing_context, a):  # type: ignore[no-untyped-def]
        return result(a), _lowered(code, result)

    return function


def _two(code: Code, result: Any = lanes) -> Any:
    @intrinsic
    def function(typing_context, a, b):  # type: ignore[no-untyped-def]
        return result(a, b), _lowered(code, result)

    return function


def _spread(builder: Any, number: Any, kind: Any = FLOATS) -> Any:
    unknown = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(unknown, number, ir.IntType(32)(0))
    return builder.shuffle_vector(first, unknown, NONE)


ZERO = ir.FloatType()(0.0)
spread = _one(_spread)  # from a float32
rounded = _one(lambda builder, a: _call(builder, "rint.v16f32", FLOATS, a))
scaled = _two(  # a * 2 ** b
    lambda builder, a, b: _call(builder, "x86.avx512.mask.scalef.ps.512", FLOATS, a, b, a, ALL, AS_SET)
)
larger = _two(lambda builder, a, b: builder.select(builder.fcmp_ordered(">", a, b), a, b))
smaller = _two(lambda builder, a, b: builder.select(builder.fcmp_ordered("<", a, b), a, b))
largest = _one(lambda builder, a: _call(builder, "vector.reduce.fmax.v16f32", ir.FloatType(), a), types.float32)
total = _one(
    lambda builder, a: _call(builder, "vector.reduce.fadd.v16f32", ZERO.type, ZERO, a, flags=("reassoc",)),
    types.float32,
)


@intrinsic
def first_lanes(typing_context, count, a, b):  # type: ignore[no-untyped-def]
    """The first ``count`` lanes of ``a``, the others of ``b``."""

    def code(builder: Any, count: Any, a: Any, b: Any) -> Any:
        count = _spread(builder, builder.trunc(count, ir.IntType(32)), WORDS)
        return builder.select(builder.icmp_signed("<", ir.Constant(WORDS, [*range(LANES)]), count), a, b)

    return lanes(count, a, b), _lowered(code, lanes)


def _load(builder: Any, address: Any, kind: Any = FLOATS) -> Any:
    return builder.load(builder.inttoptr(address, kind.as_pointer()), align=1)


def _store(builder: Any, address: Any, value: Any) -> None:
    builder.store(value, builder.inttoptr(address, value.type.as_pointer()), align=1)


def _rounding_store(bits: int) -> Any:
    def code(builder: Any, address: Any, value: Any) -> None:
        words = _call(builder, "x86.avx512.mask.cvtps2dq.512", WORDS, value, NONE, ALL, AS_SET)
        _store(builder, address, builder.trunc(words, ir.VectorType(ir.IntType(bits), LANES)))

    return _two(code, types.void)


# Lanes at an address: Numba's reference counts of arrays would take longer than the arithmetic.
load = _one(_load)
load_whole = _one(lambda builder, address: builder.sitofp(_load(builder, address, WORDS), FLOATS))  # from int32
store, store_byte, store_short = _two(_store, types.void), _rounding_store(8), _rounding_store(16)


@intrinsic
def store_split(typing_context, low, high, value):  # type: ignore[no-untyped-def]
    """Write the low and the high bytes of rounded numbers to two addresses."""

    def code(builder: Any, low: Any, high: Any, value: Any) -> None:
        words = _call(builder, "x86.avx512.mask.cvtps2dq.512", WORDS, value, NONE, ALL, AS_SET)
        eight, some = ir.Constant(WORDS, [8] * LANES), ir.VectorType(ir.IntType(8), LANES)
        _store(builder, low, builder.trunc(words, some))
        _store(builder, high, builder.trunc(builder.lshr(words, eight), some))

    return types.void(low, high, value), _lowered(code, types.void)


def _prefetch(builder: Any, address: Any) -> None:
    word, place = ir.IntType(32), builder.inttoptr(address, ir.IntType(8).as_pointer())
    _call(builder, "prefetch.p0", ir.VoidType(), place, word(0), word(2), word(1))


prefetch = _one(_prefetch, types.void)  # the 64 bytes at an address to the second-level cache


def products(kind: str, vectors: int, points: int) -> Any:
    """The kernel ``multiply(acts, places, apart, offsets, steps, weights, out, stride)`` for ``points`` points and 16 *
    ``vectors`` outputs. Point p begins at ``acts + apart * places[p]``. The products of its 4 bytes at each of
    ``steps`` ``offsets`` with the weights are added up at ``out + stride * p``. Four bytes are, by ``kind``, four uint8
    (with int8 weights), two int16 or a float32."""
    sums_kind = FLOATS if kind == "float32" else WORDS
    name = {"uint8": "x86.avx512.vpdpbusd.512", "int16": "x86.avx512.vpdpwssd.512", "float32": "fma.v16f32"}[kind]

    @intrinsic
    def multiply(typing_context, acts, places, apart, offsets, steps, weights, out, stride):  # type: ignore[no-untyped-def]
        def code(builder: Any, *values: Any) -> None:
            acts, places, apart, offsets, steps, weights, out, stride = values
            number = acts.type
            sums = [[cgutils.alloca_once(builder, sums_kind) for _ in range(vectors)] for _ in range(points)]
            for row in sums:
                for place in row:
                    builder.store(ir.Constant(sums_kind, [0] * LANES), place)
            rows = [_load(builder, builder.add(places, number(8 * p)), number) for p in range(points)]
            starts = [builder.add(acts, builder.mul(apart, row)) for row in rows]
            with cgutils.for_range(builder, steps) as loop:
                offset = _load(builder, builder.add(offsets, builder.mul(loop.index, number(8))), number)
                row_of_weights = builder.add(weights, builder.mul(loop.index, number(64 * vectors)))
                by = [_load(builder, builder.add(row_of_weights, number(64 * v)), sums_kind) for v in range(vectors)]
                for p in range(points):
                    part = _load(builder, builder.add(starts[p], offset), sums_kind.element)
                    four = _spread(builder, part, sums_kind)
                    for v in range(vectors):
                        so_far = builder.load(sums[p][v])
                        given = (four, by[v], so_far) if kind == "float32" else (so_far, four, by[v])
                        builder.store(_call(builder, name, sums_kind, *given), sums[p][v])
            for p in range(points):
                for v in range(vectors):
                    place = builder.add(builder.add(out, builder.mul(stride, number(p))), number(64 * v))
                    _store(builder, place, builder.load(sums[p][v]))

        return types.void(*[types.intp] * 8), _lowered(code, types.void)

    return multiply


# --- Tiles of AMX: eight registers of 16 rows of 64 bytes ---

# The kinds of products: groups whose sums are each 256 times as much as those of the group before. A product is an
# instruction, and whether it takes the high bytes of points and of weights; low bytes of 16-bit integers are unsigned.
BYTES = ((("tdpbusd", 0, 0),),)
SPLIT = ((("tdpbuud", 0, 0),), (("tdpbsud", 1, 0), ("tdpbusd", 0, 1)), (("tdpbssd", 1, 1),))
POINTS, WEIGHTS = (4, 5), (6, 7)  # numbers of tiles; the first four are sums, enough to hide how long a product takes


def has_tiles() -> bool:
    """Whether the processor multiplies tiles of bytes, and Linux lets this process do so (Linux, "Using XSTATE features
    in user space applications")."""
    found = get_host_cpu_features()
    arch_prctl, request, tile_data = 158, 0x1023, 18
    return found.get("amx-int8", False) and ctypes.CDLL(None).syscall(arch_prctl, request, tile_data) == 0


def _instruct(builder: Any, name: str, *operands: Any) -> None:
    """An instruction on tiles, which are given by their numbers."""
    byte = ir.IntType(8)
    _call(builder, f"x86.{name}", ir.VoidType(), *(byte(each) if isinstance(each, int) else each for each in operands))


def _pointer(builder: Any, *parts: Any) -> Any:
    """The address that is the sum of these numbers."""
    return builder.inttoptr(reduce(builder.add, parts), ir.IntType(8).as_pointer())


set_tiles = _one(lambda builder, at: _instruct(builder, "ldtilecfg", _pointer(builder, at)), types.void)


@intrinsic
def end_tiles(typing_context):  # type: ignore[no-untyped-def]
    """Have the processor forget its tiles, or each change of threads would store them."""
    return types.void(), _lowered(lambda builder: _instruct(builder, "tilerelease"), types.void)


def tile_products(kind: Any, vectors: int) -> Any:
    """The kernel ``multiply(acts, apart, rows, depth, parts, table, taps, weights, line, out, stride)`` for 32 points,
    in rows ``apart`` bytes apart, and 16 * ``vectors`` outputs. The bytes of a point at each of ``taps`` offsets are
    multiplied in ``parts`` of ``depth`` bytes, by weights in lines ``line`` bytes apart. A point's sums are written to
    the row of ``out`` that ``rows`` names. For ``SPLIT`` the low bytes of a point's integers come before the high ones;
    so do those of the weights."""
    tiles = 2 * vectors
    eight = ir.Constant(WORDS, [8] * LANES)

    @intrinsic
    def multiply(typing_context, acts, apart, rows, depth, parts, table, taps, weights, line, out, stride):  # type: ignore[no-untyped-def]
        def code(builder: Any, *values: Any) -> None:
            acts, apart, rows, depth, parts, table, taps, weights, line, out, stride = values
            number, add, times = acts.type, builder.add, builder.mul
            memory = cgutils.alloca_once(builder, ir.ArrayType(WORDS, len(kind) * tiles * LANES))
            sums = [add(builder.ptrtoint(memory, number), number(1024 * tile)) for tile in range(len(kind) * tiles)]
            of_part = times(builder.sdiv(depth, number(4)), line)  # bytes of weights
            high_acts, high_weights = times(depth, parts), times(times(taps, parts), of_part)

            def add_products(name: str, acts: Any, weights: Any) -> None:
                ahead = cgutils.alloca_once(builder, number)
                builder.store(weights, ahead)
                with cgutils.for_range(builder, taps) as tap:
                    entry = times(tap.index, times(apart, number(2)))  # 8 bytes for every 4 of a point
                    begin = add(acts, _load(builder, add(table, entry), number))
                    with cgutils.for_range(builder, parts) as part:
                        point, weight = add(begin, times(part.index, depth)), builder.load(ahead)
                        for v in range(vectors):
                            place = _pointer(builder, weight, number(64 * v))
                            _instruct(builder, "tileloadd64", WEIGHTS[v], place, line)
                        for p in range(2):
                            place = _pointer(builder, point, times(apart, number(LANES * p)))
                            _instruct(builder, "tileloadd64", POINTS[p], place, apart)
                            for v in range(vectors):
                                _instruct(builder, name, p * vectors + v, POINTS[p], WEIGHTS[v])
                        builder.store(add(weight, of_part), ahead)

            for group, products in enumerate(kind):
                for tile in range(tiles):
                    _instruct(builder, "tilezero", tile)
                for name, high, high_weight in products:
                    of_weights = add(weights, high_weights) if high_weight else weights
                    add_products(name, add(acts, high_acts) if high else acts, of_weights)
                for tile in range(tiles):
                    place = _pointer(builder, sums[group * tiles + tile])
                    _instruct(builder, "tilestored64", tile, place, number(64))
            for tile in range(tiles):
                with cgutils.for_range(builder, number(LANES)) as row:
                    name_of_row = add(rows, times(number(8), add(row.index, number(tile // vectors * LANES))))
                    shift, at = number(64 * (tile % vectors)), times(row.index, number(64))
                    parts_of = [_load(builder, add(each, at), WORDS) for each in sums[tile::tiles]]
                    total = reduce(lambda high, low: add(builder.shl(high, eight), low), reversed(parts_of))
                    place = add(add(out, times(stride, _load(builder, name_of_row, number))), shift)
                    _store(builder, place, total)

        return types.void(*[types.intp] * 11), _lowered(code, types.void)

    return multiply
