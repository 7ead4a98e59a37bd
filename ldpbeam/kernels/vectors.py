"""Instructions on vectors for kernels, where no loop that numba compiles comes to the same.

Compilers keep several sums beside each other in one register when a loop says so; numba's says so only for
loops over arrays that are long. And unless rows are copied first, it takes those that a loop reads for some
that the loop may write. So these few instructions are written out.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

REPORTS = 8
"""Reports whose ones are counted together: as many as a register holds numbers."""

LANE = 64
"""Bytes that :func:`sixteen_rows` takes at once: what the widest registers hold."""


_SECOND_CACHE = 2
"""Where what is asked of memory is put: the first cache holds the rows at hand, and would lose them."""


def _at(context: Any, builder: Any, kind: Any, array: Any, offset: Any, lanes: Any) -> Any:
    """A pointer to vectors, ``offset`` elements into an array."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [offset]), lanes.as_pointer())


def sixteen_rows(columns: int) -> Any:
    """A function for kernels: carry-save addition of the bits of 16 rows.

    ``function(rows, at, step, ahead, work, j)`` adds :data:`LANE` bytes of each of 16 rows, which lie
    ``step`` bytes apart in a one-dimensional uint8 array, to counters in binary, one for each of their bits.
    The digits of weight 1, 2, 4 and 8 lie from work[j] on, ``columns`` bytes apart, and behind them the
    carry of weight 16. What lies ``ahead`` bytes behind each row is asked of memory, also beyond the end,
    where nothing is read: a processor does not foresee that 16 rows are read in turn.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows, at, step, ahead, work, j = arguments
        lanes = ir.VectorType(ir.IntType(64), LANE // 8)

        def add(x: Any, y: Any, z: Any) -> tuple[Any, Any]:
            """Sum and carry of three bits of equal weight."""
            half = builder.xor(x, y)
            return builder.xor(half, z), builder.or_(builder.and_(x, y), builder.and_(half, z))

        places = [
            _at(context, builder, signature.args[4], work, builder.add(j, j.type(columns * i)), lanes)
            for i in range(5)
        ]
        digits = [builder.load(place, align=1) for place in places[:4]]
        waiting: list[list[Any]] = [[] for _ in range(5)]
        byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        prefetch = builder.module.declare_intrinsic(
            "llvm.prefetch", (byte,), ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        )
        for _ in range(16):
            later = builder.bitcast(
                _at(context, builder, signature.args[0], rows, builder.add(at, ahead), lanes), byte
            )
            builder.call(prefetch, [later, flag(0), flag(_SECOND_CACHE), flag(1)])
            row = _at(context, builder, signature.args[0], rows, at, lanes)
            waiting[0].append(builder.load(row, align=1))
            at = builder.add(at, step)
            for weight, digit in enumerate(digits):
                if len(waiting[weight]) < 2:
                    break
                digits[weight], carry = add(digit, *waiting[weight])
                waiting[weight] = []
                waiting[weight + 1].append(carry)
        for value, place in zip([*digits, *waiting[4]], places, strict=True):
            builder.store(value, place, align=1)
        return context.get_dummy_value()

    def one(typing: Any, rows: Any, at: Any, step: Any, ahead: Any, work: Any, j: Any) -> Any:
        return types.none(rows, at, step, ahead, work, j), generate

    return intrinsic(one)


def _ones_together(
    typing: Any, payloads: Any, at: Any, width: Any, masks: Any, bounds: Any, ones: Any, j: Any
) -> Any:
    """ones[j + i] = the number of ones in report i of :data:`REPORTS`, and whether one of them is unusual.

    ``function(payloads, at, width, masks, (least, reach), ones, j)`` reads reports of ``width`` bytes, one
    after the other, in a one-dimensional uint8 array, the first of them at ``at``, and up to LANE - 1 bytes
    behind the last one. Of ``masks``, uint8 (2 · LANE,), the first half has the bits of a report's last
    :data:`LANE` bytes, which may be fewer, and the second half those of them that are beyond the domain.
    ``ones`` is int64.

    Returns:
        int64, 0 where no report has a bit beyond the domain, nor less than ``least`` ones, or more than
        ``least + reach``.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        payloads, at, width, masks, bounds, ones, j = arguments
        least, reach = (builder.extract_value(bounds, i) for i in range(2))
        word, lanes = ir.IntType(64), ir.VectorType(ir.IntType(64), REPORTS)
        unary = ir.FunctionType(lanes, [lanes])
        ones_of = builder.module.declare_intrinsic("llvm.ctpop.v8i64", (), unary)
        mask = _at(context, builder, signature.args[3], masks, word(0), lanes)
        held = builder.load(mask, align=1)
        beyond = builder.load(builder.gep(mask, [word(1)]), align=1)
        none = ir.Constant(lanes, [0] * REPORTS)

        def loaded(place: Any) -> Any:
            place = _at(context, builder, signature.args[0], payloads, place, lanes)
            return builder.load(place, align=1)

        def summed(x: Any, y: Any, step: int) -> Any:
            """Lanes of both, each the sum of two that lie ``step`` apart: those of x and of y in turn."""
            first = [i if not i & step else REPORTS + i - step for i in range(REPORTS)]
            kind = ir.VectorType(ir.IntType(32), REPORTS)
            low = builder.shuffle_vector(x, y, ir.Constant(kind, first))
            high = builder.shuffle_vector(x, y, ir.Constant(kind, [i + step for i in first]))
            return builder.add(low, high)

        # All but the last LANE bytes of each report, or fewer: nothing is masked there.
        sums = [cgutils.alloca_once_value(builder, none) for _ in range(REPORTS)]
        whole = builder.sdiv(builder.sub(width, word(1)), word(LANE))
        with cgutils.for_range(builder, whole) as loop:
            place = builder.add(at, builder.mul(loop.index, word(LANE)))
            for total in sums:
                here = builder.call(ones_of, [loaded(place)])
                builder.store(builder.add(builder.load(total), here), total)
                place = builder.add(place, width)
        place = builder.add(at, builder.mul(whole, word(LANE)))
        found, seen = [], none
        for total in sums:
            last = loaded(place)
            seen = builder.or_(seen, builder.and_(last, beyond))
            here = builder.call(ones_of, [builder.and_(last, held)])
            found.append(builder.add(builder.load(total), here))
            place = builder.add(place, width)
        for step in (1, 2, 4):
            found = [summed(x, y, step) for x, y in zip(found[::2], found[1::2], strict=True)]
        (found,) = found
        builder.store(found, _at(context, builder, signature.args[5], ones, j, lanes), align=8)

        def everywhere(number: Any) -> Any:
            one = builder.insert_element(ir.Constant(lanes, ir.Undefined), number, ir.IntType(32)(0))
            kind = ir.VectorType(ir.IntType(32), REPORTS)
            return builder.shuffle_vector(one, one, ir.Constant(kind, [0] * REPORTS))

        # Unsigned, what is below the least number is above all others.
        outside = builder.icmp_unsigned(">", builder.sub(found, everywhere(least)), everywhere(reach))
        unusual = builder.or_(outside, builder.icmp_unsigned("!=", seen, none))
        return builder.zext(builder.bitcast(unusual, ir.IntType(REPORTS)), word)

    return types.int64(payloads, at, width, masks, bounds, ones, j), generate


ones_together = intrinsic(_ones_together)
