"""The three atomic steps that let threads share a tree without locks. All else in a tree may be a little stale."""

from __future__ import annotations

from numba.core import cgutils, types
from numba.core.imputils import impl_ret_untracked
from numba.extending import intrinsic


def _pointer(context, builder, signature, values):
    """The address of ``array[row, column]``, the first three arguments."""
    array_type = signature.args[0]
    array = context.make_array(array_type)(context, builder, values[0])
    indices = [
        context.cast(builder, value, given, types.intp)
        for value, given in zip(values[1:3], signature.args[1:3], strict=True)
    ]
    return cgutils.get_item_pointer(context, builder, array_type, array, indices)


def _read_modify_write(operation, order):
    def make(typing_context, array, row, column, value):
        def code(context, builder, signature, values):
            given = context.cast(builder, values[3], signature.args[3], signature.args[0].dtype)
            old = builder.atomic_rmw(operation, _pointer(context, builder, signature, values), given, order)
            return impl_ret_untracked(context, builder, signature.return_type, old)

        return array.dtype(array, row, column, value), code

    return make


fetch_add = intrinsic(_read_modify_write("add", "monotonic"))
"""``fetch_add(array, row, column, value)``: add to an element; what was there before."""

publish = intrinsic(_read_modify_write("xchg", "release"))
"""``publish(array, row, column, value)``: set an element after all that was written before; what was there before."""


@intrinsic
def claim(typing_context, array, row, column, expected, value):
    """``claim(array, row, column, expected, value)``: set an element if it is ``expected``; whether it was."""

    def code(context, builder, signature, values):
        dtype = signature.args[0].dtype
        before, after = (context.cast(builder, values[i], signature.args[i], dtype) for i in (3, 4))
        pair = builder.cmpxchg(_pointer(context, builder, signature, values), before, after, "monotonic", "monotonic")
        return builder.extract_value(pair, 1)

    return types.boolean(array, row, column, expected, value), code
