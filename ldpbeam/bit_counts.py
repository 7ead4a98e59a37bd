"""Positional population counts: how often each bit of packed vectors is set."""

from __future__ import annotations

from ldpbeam.arrays import Bytes, Ints, read_only

_TOGETHER = 704
"""Bytes of reports side by side in one row of the kernel: enough for wide registers, and sixteen such rows
and their digits fit the first-level cache."""


def add_bits(payloads: Bytes, counts: Ints) -> None:
    """counts[v] += how often bit v & 7 of byte v >> 3 is set.

    Args:
        payloads: uint8 (n, w).
        counts: int64 (k,), k <= 8 w, added to.
    """
    import numpy as np

    from ldpbeam.kernels import positional
    from ldpbeam.kernels._vectors import LANE

    width = payloads.shape[1]
    columns, digits = positional.COLUMNS, positional.DIGITS
    scratch = (
        np.empty((positional.LOW + 1) * columns, np.uint8),
        np.empty((digits + 2, 2 * columns), np.uint8),
        np.empty((8, columns), np.uint16),
    )
    step = max(1, _TOGETHER // width) * width
    block = positional.ROWS * step
    rows = read_only(payloads).reshape(-1)
    whole = max(rows.size - LANE + 1, 0) // block * block
    # Empty reports fill the last rows up.
    behind = rows.size - whole
    rest = np.zeros(-(-behind // block) * block + LANE - 1, np.uint8)
    rest[:behind] = rows[whole:]
    positional.add_rows(rows, read_only(rest), step, width, *scratch, counts)
