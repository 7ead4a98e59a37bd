"""Kernel of positional population counts: how often each bit of packed rows is set.

Bits are added in place, 8 rows at a time, by carry-save adders (Harley and Seal): three bits of equal weight
become a sum and a carry, with logical operations that work on as many columns at once as a register holds.
Columns have counters of their own in binary, one stretch of the scratch per digit, and are read at the end.

``np.uint8`` around every operation keeps lanes 8 bits wide, without which the compiler takes 64. Rows are
copied to scratch at distances that the compiler knows, without which it suspects that they overlap what is
written; the copy also reads memory in order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldpbeam.kernels._jit import kernel

COLUMNS = 1024
"""Columns that are counted together: their scratch stays in the first-level cache."""

DIGITS = 13
"""Of a column's counter above the lowest three."""

_BLOCKS = (1 << DIGITS) - 2
"""Blocks of 8 rows whose counts fit the 16-bit cells."""


@kernel
def _add_eight(size: Any, work: Any) -> None:
    """Add the 8 rows in scratch to the lowest three digits, and leave the carry of weight 8."""
    byte = np.uint8
    for j in range(size):
        one, two, four = work[j], work[COLUMNS + j], work[2 * COLUMNS + j]
        a, b, c, d = (
            work[4 * COLUMNS + j],
            work[5 * COLUMNS + j],
            work[6 * COLUMNS + j],
            work[7 * COLUMNS + j],
        )
        e, f, g, h = (
            work[8 * COLUMNS + j],
            work[9 * COLUMNS + j],
            work[10 * COLUMNS + j],
            work[11 * COLUMNS + j],
        )
        # (x, y, z) to the sum x ^ y ^ z and the carry (x & y) | ((x ^ y) & z), seven times.
        half = byte(one ^ a)
        left = byte(byte(one & a) | byte(half & b))
        one = byte(half ^ b)
        half = byte(one ^ c)
        right = byte(byte(one & c) | byte(half & d))
        one = byte(half ^ d)
        half = byte(two ^ left)
        lower = byte(byte(two & left) | byte(half & right))
        two = byte(half ^ right)
        half = byte(one ^ e)
        left = byte(byte(one & e) | byte(half & f))
        one = byte(half ^ f)
        half = byte(one ^ g)
        right = byte(byte(one & g) | byte(half & h))
        one = byte(half ^ h)
        half = byte(two ^ left)
        upper = byte(byte(two & left) | byte(half & right))
        two = byte(half ^ right)
        half = byte(four ^ lower)
        work[j] = one
        work[COLUMNS + j] = two
        work[2 * COLUMNS + j] = byte(half ^ upper)
        work[3 * COLUMNS + j] = byte(byte(four & lower) | byte(half & upper))


@kernel
def _carry(blocks: Any, size: Any, work: Any, levels: Any) -> None:
    """Take the carry of weight 8 up: a digit takes every second one in, and keeps the other in waiting."""
    byte = np.uint8
    digit = 0
    while blocks & 1:
        level = levels[digit]
        for j in range(size):
            carry, held, waiting = work[3 * COLUMNS + j], level[j], level[COLUMNS + j]
            half = byte(held ^ waiting)
            level[j] = byte(half ^ carry)
            work[3 * COLUMNS + j] = byte(byte(held & waiting) | byte(half & carry))
        blocks >>= 1
        digit += 1
    level = levels[digit]
    for j in range(size):
        level[COLUMNS + j] = work[3 * COLUMNS + j]


@kernel
def _total(done: Any, size: Any, byte: Any, width: Any, levels: Any, cells: Any, counts: Any) -> None:
    """Read the digits of ``done`` blocks and add the columns up by the bits of a report.

    Args:
        done: number of blocks.
        size: number of columns; the first one is byte ``byte`` of a report of ``width`` bytes.
        levels, cells, counts: as for :func:`add_rows`; the lowest digits stand behind the higher ones.
    """
    for b in range(8):
        for j in range(COLUMNS):
            cells[b, j] = 0
    for half in range(2 * DIGITS + 3):
        row, digit, held = half >> 1, half - 2 * DIGITS, 1
        if row < DIGITS:
            # A carry waits after every odd one, and is taken in after every second one.
            digit, held = row + 3, (done >> row) & 1 if half & 1 else done >> (row + 1)
        if held:
            source = levels[row, (half & 1) * COLUMNS : (half & 1) * COLUMNS + size]
            for b in range(8):
                cell = cells[b]
                for j in range(size):
                    bit = np.uint16(source[j] >> np.uint8(b)) & np.uint16(1)
                    cell[j] = np.uint16(cell[j] + np.uint16(bit << np.uint16(digit)))
    value = 8 * byte
    for j in range(size):
        for b in range(min(8, counts.size - value)):
            counts[value + b] += cells[b, j]
        value += 8
        if value == 8 * width:
            value = 0


@kernel
def add_rows(rows: Any, width: Any, work: Any, levels: Any, cells: Any, counts: Any) -> None:
    """counts[v] += how often bit v of a report is set, where every row holds whole reports.

    Args:
        rows: uint8 (n, m · width), n a multiple of 8; bit v of a report is bit v & 7 of its byte v >> 3.
        width: bytes of a report.
        work: uint8 (12 · COLUMNS,), scratch: digits of weight 1, 2 and 4, a carry, and 8 rows.
        levels: uint8 (DIGITS + 2, 2 · COLUMNS), scratch: higher digits, each with a carry in waiting.
        cells: uint16 (8, COLUMNS), scratch.
        counts: int64 (k,), k <= 8 · width, added to.
    """
    blocks = rows.shape[0] // 8
    for first in range(0, rows.shape[1], COLUMNS):
        size = min(COLUMNS, rows.shape[1] - first)
        for begin in range(0, blocks, _BLOCKS):
            done = min(_BLOCKS, blocks - begin)
            for j in range(work.size):
                work[j] = 0
            for row in range(DIGITS):
                for j in range(COLUMNS):
                    levels[row, j] = 0
            for block in range(done):
                for row in range(8):
                    source = rows[8 * (begin + block) + row, first : first + size]
                    for j in range(size):
                        work[(4 + row) * COLUMNS + j] = source[j]
                _add_eight(size, work)
                _carry(block, size, work, levels)
            for j in range(3 * COLUMNS):
                levels[DIGITS + j // (2 * COLUMNS), j % (2 * COLUMNS)] = work[j]
            _total(done, size, first % width, width, levels, cells, counts)
