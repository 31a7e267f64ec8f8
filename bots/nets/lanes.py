"""Sixteen float32 numbers as one value in kernels, and sums of products of small integers, by AVX-512 instructions."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
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
