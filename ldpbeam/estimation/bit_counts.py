"""Positional population counts: how often each bit of packed vectors is set."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ldpbeam.arrays import Bytes, Ints, read_only, unused_bits

_TOGETHER = 704
"""Bytes of reports side by side in one row of the kernel: enough for wide registers, and sixteen such rows
and their digits fit the first-level cache."""


class OnesBounds(NamedTuple):
    """Numbers of ones, by which a report is told apart; least <= few + 1 < many <= most + 1."""

    least: int
    most: int
    few: int
    many: int


class Looked(NamedTuple):
    """What there is to be said about some reports.

    Attributes:
        many, few: how many have at least that many ones, and at most that few.
        sound: whether none has fewer ones than the least number, or more than the most, or bits beyond the
            domain.
    """

    many: int
    few: int
    sound: bool


@lru_cache(maxsize=1024)
def masks_of(bits: int) -> Bytes:
    """Which bits of a report's last bytes are looked at, and which of them lie beyond ``bits``.

    As :func:`ldpbeam.kernels.vectors.ones_together` reads them: uint8 (2 · LANE,).
    """
    import numpy as np

    from ldpbeam.kernels.vectors import LANE

    last = (-(-bits // 8) - 1) % LANE
    masks = np.zeros(2 * LANE, np.uint8)
    masks[: last + 1] = 0xFF
    masks[LANE + last] = unused_bits(bits)
    masks.setflags(write=False)
    return masks


def add_bits(payloads: Bytes, counts: Ints) -> None:
    """counts[v] += how often bit v & 7 of byte v >> 3 is set.

    Args:
        payloads: uint8 (n, w).
        counts: int64 (k,), 8 w - 8 < k <= 8 w, added to.
    """
    _add(payloads, counts, None)


def add_bits_and_look(payloads: Bytes, counts: Ints, bounds: OnesBounds) -> Looked:
    """As :func:`add_bits`; what there is to be said about the reports is found in the same pass."""
    many, few, wrong = _add(payloads, counts, bounds).tolist()
    return Looked(many, few, not wrong)


def _add(payloads: Bytes, counts: Ints, bounds: OnesBounds | None) -> Ints:
    """Count, and look where there are bounds: ``found`` of :func:`ldpbeam.kernels.positional.add_rows`."""
    import numpy as np

    from ldpbeam.kernels import positional
    from ldpbeam.kernels.vectors import LANE, REPORTS

    n, width = payloads.shape
    columns, digits = positional.COLUMNS, positional.DIGITS
    scratch = (
        np.empty((positional.LOW + 1) * columns, np.uint8),
        np.empty((digits + 2, 2 * columns), np.uint8),
        np.empty((8, columns), np.uint16),
    )
    looking = masks_of(counts.size), np.empty(REPORTS if bounds else 0, np.int64)
    found = np.zeros(3, np.int64)
    step = max(1, _TOGETHER // width) * width
    block = positional.ROWS * step
    rows = read_only(payloads).reshape(-1)
    whole = max(rows.size - LANE + 1, 0) // block * block
    # Empty reports fill the last rows up.
    behind = rows.size - whole
    rest = np.zeros(-(-behind // block) * block + LANE - 1, np.uint8)
    rest[:behind] = rows[whole:]
    shape, asked = (n, step, width), tuple(bounds or (0, 0, 0, 0))
    positional.add_rows(rows, read_only(rest), shape, asked, scratch, looking, counts, found)
    return found
