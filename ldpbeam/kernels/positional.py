"""Kernel of positional population counts: how often each bit of packed rows is set.

While rows lie in the cache, the same pass can look at the reports in them: how many have very many ones, or
very few, or what no device sends.

Bits are added in place, 16 rows at a time, by carry-save adders (Harley and Seal): three bits of equal weight
become a sum and a carry, with logical operations that work on as many columns at once as a register holds.
Columns have counters of their own in binary, one stretch of the scratch per digit, and are read at the end.

``np.uint8`` around every operation keeps lanes 8 bits wide, without which the compiler takes 64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldpbeam.kernels.jit import kernel
from ldpbeam.kernels.vectors import LANE, REPORTS, ones_together, sixteen_rows

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

_LOOKED_AT = 16
"""Blocks that are added before the reports in them are looked at: they lie in the second-level cache."""

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
def _look(rows: Any, at: Any, width: Any, reports: Any, bounds: Any, looking: Any, found: Any) -> None:
    """Add up what is to be said about some reports, of which the first begins at rows[at].

    Args:
        rows, width, bounds, looking, found: as for :func:`add_rows`.
        at: int64.
        reports: how many; empty ones fill the last :data:`REPORTS` up.
    """
    masks, ones = looking
    least, most, few, many = bounds
    unused = masks[LANE + (width - 1) % LANE]
    for begin in range(0, reports, REPORTS):
        # Numbers between few and many, as nearly always, are none of these.
        if ones_together(rows, at, width, masks, (few + 1, many - few - 2), ones, 0):
            for j in range(min(REPORTS, reports - begin)):
                found[0] += np.int64(ones[j] >= many)
                found[1] += np.int64(ones[j] <= few)
                found[2] += np.int64(ones[j] < least) + np.int64(ones[j] > most)
                found[2] += np.int64(rows[at + j * width + width - 1] & unused)
        at += REPORTS * width


@kernel
def add_rows(
    rows: Any, rest: Any, shape: Any, bounds: Any, scratch: Any, looking: Any, counts: Any, found: Any
) -> None:
    """counts[v] += how often bit v of a report is set, where every row holds whole reports.

    Args:
        rows: uint8 (n,), whole blocks of :data:`ROWS` rows, and at least LANE - 1 bytes behind the last one.
        rest: the same, further blocks; empty reports fill the last one up.
        shape: (reports, step, width): how many reports there are; bytes of a row, a multiple of ``width``;
            bytes of a report, of which bit v is bit v & 7 of byte v >> 3.
        bounds: (least, most, few, many), numbers of ones, least <= few + 1 < many <= most + 1.
        scratch: (work, levels, cells): uint8 ((LOW + 1) · COLUMNS,), digits of weight 1, 2, 4 and 8, and a
            carry; uint8 (DIGITS + 2, 2 · COLUMNS), higher digits, each with a carry in waiting; uint16
            (8, COLUMNS).
        looking: (masks, ones): as of :func:`ldpbeam.kernels.vectors.ones_together`, and int64 (REPORTS,),
            scratch; if that is empty, reports are not looked at.
        counts: int64 (k,), k <= 8 · width, added to.
        found: int64 (3,), added to: reports with at least ``many`` ones; with at most ``few``; and 0 only if
            no report has less than ``least`` or more than ``most``, or bits beyond the domain.
    """
    reports, step, width = shape
    work, levels, cells = scratch
    block = ROWS * step
    whole, more = max(rows.size - LANE + 1, 0) // block, max(rest.size - LANE + 1, 0) // block
    for first in range(0, step, COLUMNS):
        size = min(COLUMNS, step - first)
        look = first == 0 and looking[1].size > 0
        for begin in range(0, whole + more, _BLOCKS):
            done = min(_BLOCKS, whole + more - begin)
            for j in range(work.size):
                work[j] = 0
            for row in range(DIGITS):
                for j in range(size):
                    levels[row, j] = 0
            at = 0
            while at < done:
                # Some blocks, all of rows or all of the rest.
                early = begin + at < whole
                until = min(at + _LOOKED_AT, min(whole - begin, done) if early else done)
                source = rows if early else rest
                place = (begin + at - (0 if early else whole)) * block
                _add_blocks(at, until, source, step, place + first, size, work, levels)
                if look:
                    here = min((until - at) * block // width, reports - (begin + at) * (block // width))
                    _look(source, place, width, here, bounds, looking, found)
                at = until
            for j in range(LOW * COLUMNS):
                levels[DIGITS + j // (2 * COLUMNS), j % (2 * COLUMNS)] = work[j]
            _total(done, size, first % width, width, levels, cells, counts)
