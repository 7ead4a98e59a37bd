"""Polynomials whose coefficients are vectors of four, for kernels that evaluate them at four targets at once.

Compilers keep four sums beside each other in one register when a loop says so; numba's says so only for loops
over arrays that are long. So these few instructions are written out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

SIDE = 4


def polynomial(axes: Sequence[tuple[int, int]]) -> Any:
    """A function for kernels: the four values of a polynomial in two variables.

    ``function(array, at, x, y)`` reads a C-contiguous float64 array, from its row ``at`` on, and gives a
    tuple. By Horner's rule, the second variable's innermost; no product is fused with a sum, so values are
    the same everywhere.

    Args:
        axes: of either variable, how many coefficients there are, and how many vectors lie from one to the
            next.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, at, *variables = arguments
        kind = ir.VectorType(ir.DoubleType(), SIDE)
        place = ir.IntType(32)

        def constant(number: int) -> Any:
            return ir.Constant(ir.IntType(64), number)

        def spread(number: Any) -> Any:
            vector = ir.Constant(kind, ir.Undefined)
            for i in range(SIDE):
                vector = builder.insert_element(vector, number, ir.Constant(place, i))
            return vector

        view = context.make_array(signature.args[0])(context, builder, array)
        row = constant(1)
        for length in (builder.extract_value(view.shape, i) for i in range(1, signature.args[0].ndim)):
            row = builder.mul(row, length)
        begin = builder.bitcast(builder.gep(view.data, [builder.mul(at, row)]), kind.as_pointer())
        spreads = [spread(variable) for variable in variables]

        def value(axis: int, offset: int) -> Any:
            if axis == len(axes):
                return builder.load(builder.gep(begin, [constant(offset)]), align=8)
            number, step = axes[axis]
            found = value(axis + 1, offset + (number - 1) * step)
            for i in range(number - 2, -1, -1):
                found = builder.fmul(found, spreads[axis])
                found = builder.fadd(found, value(axis + 1, offset + i * step))
            return found

        found = value(0, 0)
        each = [builder.extract_element(found, ir.Constant(place, i)) for i in range(SIDE)]
        return context.make_tuple(builder, signature.return_type, each)

    def two(typing: Any, array: Any, at: Any, x: Any, y: Any) -> Any:
        return types.UniTuple(types.float64, SIDE)(array, at, x, y), generate

    return intrinsic(two)
