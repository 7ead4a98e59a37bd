"""Kernel of positional population counts: how often each bit of packed rows is set.

Bits are added in place, 16 rows at a time, by carry-save adders (Harley and Seal): three bits of equal weight
become a sum and a carry, with logical operations that work on as many columns at once as a register holds.
Columns have counters of their own in binary, one stretch of the scratch per digit, and are read at the end.

``np.uint8`` around every operation keeps lanes 8 bits wide, without which the compiler takes 64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldpbeam.kernels._jit import kernel
from ldpbeam.kernels._vectors import LANE, sixteen_rows

COLUMNS = 2048
"""Columns that are counted together: their scratch stays in the first-level cache."""

ROWS, LOW = 16, 4
"""Rows that are added together, and digits that they are added to."""

DIGITS = 12
"""Of a column's counter above those."""

_BLOCKS = (1 << DIGITS) - 2
"""Blocks of rows whose counts fit the 16-bit cells."""

_AHEAD = 2
"""Blocks ahead of the one at hand of which memory is asked."""

_add_sixteen = sixteen_rows(COLUMNS)


@kernel
def _carry(blocks: Any, size: Any, work: Any, levels: Any) -> None:
    """Take the carry of weight 16 up: a digit takes every second one in, and keeps the other in waiting."""
    byte = np.uint8
    digit = 0
    while blocks & 1:
        level = levels[digit]
        for j in range(size):
            carry, held, waiting = work[LOW * COLUMNS + j], level[j], level[COLUMNS + j]
            half = byte(held ^ waiting)
            level[j] = byte(half ^ carry)
            work[LOW * COLUMNS + j] = byte(byte(held & waiting) | byte(half & carry))
        blocks >>= 1
        digit += 1
    level = levels[digit]
    for j in range(size):
        level[COLUMNS + j] = work[LOW * COLUMNS + j]


@kernel
def _total(done: Any, size: Any, byte: Any, width: Any, levels: Any, cells: Any, counts: Any) -> None:
    """Read the digits of ``done`` blocks and add the columns up by the bits of a report.

    Args:
        done: number of blocks.
        size: number of columns; the first one is byte ``byte`` of a report of ``width`` bytes.
        levels, cells, counts: as for :func:`add_rows`; the lowest digits stand behind the higher ones.
    """
    for b in range(8):
        for j in range(size):
            cells[b, j] = 0
    for half in range(2 * DIGITS + LOW):
        row, digit, held = half >> 1, half - 2 * DIGITS, 1
        if row < DIGITS:
            # A carry waits after every odd one, and is taken in after every second one.
            digit, held = row + LOW, (done >> row) & 1 if half & 1 else done >> (row + 1)
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
def _add_blocks(
    begin: Any, end: Any, rows: Any, step: Any, at: Any, size: Any, work: Any, levels: Any
) -> None:
    """Add blocks, of which ``begin`` were added before; the first one begins at rows[at]."""
    for block in range(begin, end):
        # Up to LANE - 1 columns of what lies behind: nobody looks at their counters.
        for j in range(0, size, LANE):
            _add_sixteen(rows, at + j, step, _AHEAD * ROWS * step, work, j)
        _carry(block, size, work, levels)
        at += ROWS * step


@kernel
def add_rows(
    rows: Any, rest: Any, step: Any, width: Any, work: Any, levels: Any, cells: Any, counts: Any
) -> None:
    """counts[v] += how often bit v of a report is set, where every row holds whole reports.

    Args:
        rows: uint8 (n,), whole blocks of :data:`ROWS` rows, and at least LANE - 1 bytes behind the last one.
        rest: the same, further blocks.
        step: bytes of a row, a multiple of ``width``.
        width: bytes of a report; bit v of it is bit v & 7 of its byte v >> 3.
        work: uint8 ((LOW + 1) · COLUMNS,), scratch: digits of weight 1, 2, 4 and 8, and a carry.
        levels: uint8 (DIGITS + 2, 2 · COLUMNS), scratch: higher digits, each with a carry in waiting.
        cells: uint16 (8, COLUMNS), scratch.
        counts: int64 (k,), k <= 8 · width, added to.
    """
    block = ROWS * step
    whole, more = max(rows.size - LANE + 1, 0) // block, max(rest.size - LANE + 1, 0) // block
    for first in range(0, step, COLUMNS):
        size = min(COLUMNS, step - first)
        for begin in range(0, whole + more, _BLOCKS):
            done = min(_BLOCKS, whole + more - begin)
            for j in range(work.size):
                work[j] = 0
            for row in range(DIGITS):
                for j in range(size):
                    levels[row, j] = 0
            early = min(max(whole - begin, 0), done)
            _add_blocks(0, early, rows, step, begin * block + first, size, work, levels)
            late = (begin + early - whole) * block + first
            _add_blocks(early, done, rest, step, late, size, work, levels)
            for j in range(LOW * COLUMNS):
                levels[DIGITS + j // (2 * COLUMNS), j % (2 * COLUMNS)] = work[j]
            _total(done, size, first % width, width, levels, cells, counts)
