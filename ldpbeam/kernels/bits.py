"""Kernels over packed bit vectors: bit v of a row is bit ``v & 7`` of byte ``v >> 3``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldpbeam.kernels._jit import kernel
from ldpbeam.kernels.check_codes import CheckCode

_SOUND = np.uint8(CheckCode.SOUND)
_UNUSED_BITS = np.uint8(CheckCode.UNUSED_BITS)


@kernel
def count_ones(words: Any, ones: Any) -> None:
    """ones[i] = number of ones in words[i].

    Args:
        words: uint64 (n, w), packed rows that were filled up with zeros.
        ones: int64 (n,), written.
    """
    pairs = np.uint64(0x5555555555555555)
    fours = np.uint64(0x3333333333333333)
    bytes_ = np.uint64(0x0F0F0F0F0F0F0F0F)
    sums = np.uint64(0x0101010101010101)
    for i in range(words.shape[0]):
        found = np.uint64(0)
        for j in range(words.shape[1]):
            x = words[i, j]
            x -= (x >> np.uint64(1)) & pairs
            x = (x & fours) + ((x >> np.uint64(2)) & fours)
            x = (x + (x >> np.uint64(4))) & bytes_
            found += (x * sums) >> np.uint64(56)
        ones[i] = np.int64(found)


@kernel
def check_unused(payloads: Any, mask: Any, codes: Any) -> None:
    """codes[i] = ``UNUSED_BITS`` where the last byte of payloads[i] has a bit of ``mask``, else ``SOUND``.

    Args:
        payloads: uint8 (n, w).
        mask: uint8, the bits beyond the domain.
        codes: uint8 (n,), written.
    """
    last = payloads.shape[1] - 1
    for i in range(payloads.shape[0]):
        codes[i] = _UNUSED_BITS if payloads[i, last] & mask else _SOUND


@kernel
def add_rows(payloads: Any, planes: Any, counts: Any) -> None:
    """counts[v] += number of rows whose bit v is set.

    Bytes are added bit plane by bit plane into 8-bit cells, which the compiler turns into wide vector
    adds; cells are emptied into ``counts`` before they can overflow.

    Args:
        payloads: uint8 (n, w).
        planes: uint8 (8, w), scratch.
        counts: int64 (k,), k <= 8 w, added to.
    """
    n, width = payloads.shape
    done = 0
    while done < n:
        stop = min(done + 255, n)
        for b in range(8):
            for j in range(width):
                planes[b, j] = 0
        for i in range(done, stop):
            row = payloads[i]
            for b in range(8):
                plane = planes[b]
                for j in range(width):
                    plane[j] += (row[j] >> np.uint8(b)) & np.uint8(1)
        for v in range(counts.size):
            counts[v] += planes[v & 7, v >> 3]
        done = stop


@kernel
def draw_one_hot(values: Any, words: Any, one: Any, zero: Any, out: Any) -> None:
    """Randomise the one-hot vectors of ``values`` bit by bit into packed rows.

    Args:
        values: int64 (n,).
        words: uint64 (n, k), one word per bit.
        one, zero: uint64, weights of reporting 1 for a true 1 and a true 0.
        out: uint8 (n, w), zeroed, written.
    """
    for i in range(words.shape[0]):
        for v in range(words.shape[1]):
            bit = words[i, v] < (one if v == values[i] else zero)
            out[i, v >> 3] |= np.uint8(bit) << np.uint8(v & 7)


@kernel
def redraw(rows: Any, words: Any, one: Any, zero: Any, out: Any) -> None:
    """Randomise packed bit vectors once more, bit by bit.

    Args:
        rows: uint8 (n, w), the memoised vectors.
        words: uint64 (n, k).
        one, zero: uint64, weights of reporting 1 for a memoised 1 and 0.
        out: uint8 (n, w), zeroed, written.
    """
    for i in range(words.shape[0]):
        for v in range(words.shape[1]):
            memoised = (rows[i, v >> 3] >> np.uint8(v & 7)) & np.uint8(1)
            bit = words[i, v] < (one if memoised else zero)
            out[i, v >> 3] |= np.uint8(bit) << np.uint8(v & 7)
