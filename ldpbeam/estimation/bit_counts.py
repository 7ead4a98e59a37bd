"""Positional population counts: how often each bit of packed vectors is set."""

from __future__ import annotations

from ldpbeam.arrays import Bytes, Ints, read_only


def add_bits(payloads: Bytes, counts: Ints) -> None:
    """counts[v] += how often bit v & 7 of byte v >> 3 is set."""
    import numpy as np

    from ldpbeam.kernels import positional

    n, width = payloads.shape
    cells = 8 * positional.COLUMNS
    scratch = np.empty(positional.WORK, np.uint8), np.empty(cells, np.uint8), np.empty(cells, np.uint16)
    # As many reports side by side in a row as there is room for, but no more than give 16 rows.
    beside = max(1, min(positional.COLUMNS // width, -(-n // positional.ROWS)))
    positional.add_rows(read_only(payloads).reshape(-1), beside * width, width, scratch, counts)
