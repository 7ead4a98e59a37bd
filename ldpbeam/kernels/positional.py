"""Kernel of positional population counts: how often each bit of packed rows is set.

Bits are added in place, 16 rows at a time, by carry-save adders (Harley and Seal): three bits of equal weight
become a sum and a carry, with logical operations that work on as many columns at once as a register holds. A
column is a byte of a row. Its eight bits have digits of weight 1, 2, 4 and 8 in four bytes; each carry of
weight 16 is added to a cell of the bit.

``np.uint8`` around every operation keeps lanes 8 bits wide, without which the compiler takes 64. Rows are
copied to scratch at distances that the compiler knows, without which it suspects that they overlap what is
written; the copy also reads memory in order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldpbeam.kernels.jit import inlined, kernel

COLUMNS = 2048
"""Columns that are counted together: their scratch stays in the caches of one core."""

ROWS = 16
"""Rows that are added together."""

_DIGITS = 4
"""Of weight 1, 2, 4 and 8: what 16 rows leave beside their carries."""

_BLOCKS = 255
"""Blocks of rows, each with one carry a bit, that the cells of a byte can hold."""

_CARRY, _ROWS_AT = _DIGITS * COLUMNS, (_DIGITS + 1) * COLUMNS
"""Where in the scratch the carries of weight 16 lie, behind the digits, and where the copied rows begin."""

WORK = (_DIGITS + 1 + ROWS) * COLUMNS
"""Bytes of scratch for digits, carries and rows."""


@inlined
def _add(x: Any, y: Any, z: Any) -> Any:
    """Sum and carry of three bits of equal weight, in each of 8 places."""
    byte = np.uint8
    half = byte(x ^ y)
    return byte(half ^ z), byte(byte(x & y) | byte(half & z))


@kernel
def _copy(rows: Any, at: Any, step: Any, size: Any, work: Any) -> None:
    """Copy ``size`` bytes of each of 16 rows to scratch; what lies behind the last row is 0."""
    for row in range(ROWS):
        place = _ROWS_AT + row * COLUMNS
        some = max(0, min(size, rows.size - at))
        source = rows[at : at + some]
        for j in range(some):
            work[place + j] = source[j]
        for j in range(some, size):
            work[place + j] = 0
        at += step


@kernel
def _add_sixteen(size: Any, work: Any) -> None:
    """Add the 16 rows in scratch to the four digits, and leave the carry of weight 16."""
    n, rows = COLUMNS, _ROWS_AT
    for j in range(size):
        one, two, four, eight = work[j], work[n + j], work[2 * n + j], work[3 * n + j]
        one, a = _add(one, work[rows + j], work[rows + n + j])
        one, b = _add(one, work[rows + 2 * n + j], work[rows + 3 * n + j])
        two, c = _add(two, a, b)
        one, a = _add(one, work[rows + 4 * n + j], work[rows + 5 * n + j])
        one, b = _add(one, work[rows + 6 * n + j], work[rows + 7 * n + j])
        two, d = _add(two, a, b)
        four, left = _add(four, c, d)
        one, a = _add(one, work[rows + 8 * n + j], work[rows + 9 * n + j])
        one, b = _add(one, work[rows + 10 * n + j], work[rows + 11 * n + j])
        two, c = _add(two, a, b)
        one, a = _add(one, work[rows + 12 * n + j], work[rows + 13 * n + j])
        one, b = _add(one, work[rows + 14 * n + j], work[rows + 15 * n + j])
        two, d = _add(two, a, b)
        four, right = _add(four, c, d)
        work[j], work[n + j], work[2 * n + j] = one, two, four
        work[3 * n + j], work[_CARRY + j] = _add(eight, left, right)


@kernel
def _add_carries(size: Any, work: Any, cells: Any) -> None:
    """Add the eight bits of each carry to their cells."""
    byte = np.uint8
    for b in range(8):
        cell = b * COLUMNS
        for j in range(size):
            bit = byte(byte(work[_CARRY + j] >> byte(b)) & byte(1))
            cells[cell + j] = byte(cells[cell + j] + bit)


@kernel
def _total(size: Any, byte: Any, width: Any, scratch: Any, counts: Any) -> None:
    """Add cells and digits of the columns up by the bits of a report."""
    work, cells, sums = scratch
    for b in range(8):
        place = b * COLUMNS
        for j in range(size):
            total = np.uint16(np.uint16(cells[place + j]) << np.uint16(_DIGITS))
            for digit in range(_DIGITS):
                bit = np.uint16(np.uint16(work[digit * COLUMNS + j] >> np.uint8(b)) & np.uint16(1))
                total = np.uint16(total + np.uint16(bit << np.uint16(digit)))
            sums[place + j] = total
    value = 8 * byte
    for j in range(size):
        for b in range(min(8, counts.size - value)):
            counts[value + b] += np.int64(sums[b * COLUMNS + j])
        value += 8
        if value == 8 * width:
            value = 0


@kernel
def add_rows(rows: Any, step: Any, width: Any, scratch: Any, counts: Any) -> None:
    """counts[v] += how often bit v of a report is set, where every row holds whole reports."""
    work, cells, _ = scratch
    block = ROWS * step
    for first in range(0, step, COLUMNS):
        size = min(COLUMNS, step - first)
        for begin in range(0, rows.size, _BLOCKS * block):
            for j in range(_DIGITS * COLUMNS):
                work[j] = 0
            for j in range(8 * COLUMNS):
                cells[j] = 0
            for at in range(begin, min(begin + _BLOCKS * block, rows.size), block):
                _copy(rows, at + first, step, size, work)
                _add_sixteen(size, work)
                _add_carries(size, work, cells)
            _total(size, first % width, width, scratch, counts)
