"""Polynomials whose coefficients are vectors of four, for kernels that evaluate them at four targets at once.

Compilers keep four sums beside each other in one register when a loop says so; numba's says so only for loops
over arrays that are long. So these few instructions are written out.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

SIDE = 4


def polynomial(length: int) -> Any:
    """A function for kernels: the four values of a polynomial.

    ``function(array, at, x)`` reads ``length`` vectors in row ``at`` of a C-contiguous float64 array of two
    dimensions, and gives a tuple. By Horner's rule over x², for even and odd powers side by side: each step
    waits for the one before. No product is fused with a sum, so values are the same everywhere.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, at, variable = arguments
        kind = ir.VectorType(ir.DoubleType(), SIDE)

        def constant(number: int, bits: int = 64) -> Any:
            return ir.Constant(ir.IntType(bits), number)

        view = context.make_array(signature.args[0])(context, builder, array)
        row = builder.mul(at, builder.extract_value(view.shape, 1))
        begin = builder.bitcast(builder.gep(view.data, [row]), kind.as_pointer())
        x = ir.Constant(kind, ir.Undefined)
        for i in range(SIDE):
            x = builder.insert_element(x, variable, constant(i, 32))

        def coefficient(i: int) -> Any:
            return builder.load(builder.gep(begin, [constant(i)]), align=8)

        square = builder.fmul(x, x)
        halves = []
        for last in (length - 1, length - 2):
            found = coefficient(last)
            for i in range(last - 2, -1, -2):
                found = builder.fadd(builder.fmul(found, square), coefficient(i))
            halves.append(found)
        odd, even = halves if length % 2 == 0 else halves[::-1]
        found = builder.fadd(builder.fmul(odd, x), even)
        each = [builder.extract_element(found, constant(i, 32)) for i in range(SIDE)]
        return context.make_tuple(builder, signature.return_type, each)

    def one(typing: Any, array: Any, at: Any, x: Any) -> Any:
        return types.UniTuple(types.float64, SIDE)(array, at, x), generate

    return intrinsic(one)
