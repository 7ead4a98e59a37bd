"""Positional population counts: how often each bit of packed vectors is set."""

from __future__ import annotations

from ldpbeam.arrays import Bytes, Ints, read_only

_TOGETHER = 704
"""Bytes of reports side by side in one row of the kernel: enough for wide registers, and eight such rows and
their digits fit the first-level cache."""


def add_bits(payloads: Bytes, counts: Ints) -> None:
    """counts[v] += how often bit v & 7 of byte v >> 3 is set.

    Args:
        payloads: uint8 (n, w).
        counts: int64 (k,), k <= 8 w, added to.
    """
    import numpy as np

    from ldpbeam.kernels import positional

    n, width = payloads.shape
    columns, digits = positional.COLUMNS, positional.DIGITS
    scratch = (
        np.empty(12 * columns, np.uint8),
        np.empty((digits + 2, 2 * columns), np.uint8),
        np.empty((8, columns), np.uint16),
    )
    beside = max(1, _TOGETHER // width)
    block = 8 * beside
    whole = n // block * block
    if whole:
        rows = read_only(payloads[:whole]).reshape(-1, beside * width)
        positional.add_rows(rows, width, *scratch, counts)
    if whole < n:
        # Empty reports fill the last rows up.
        rest = np.zeros((block, width), np.uint8)
        rest[: n - whole] = payloads[whole:]
        positional.add_rows(read_only(rest.reshape(8, -1)), width, *scratch, counts)
