"""Kernels over packed bit vectors: bit v of a row is bit ``v & 7`` of byte ``v >> 3``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldpbeam.arrays import Bytes, Ints
from ldpbeam.kernels._jit import kernel
from ldpbeam.kernels.check_codes import CheckCode

_SOUND = np.uint8(CheckCode.SOUND)
_UNUSED_BITS = np.uint8(CheckCode.UNUSED_BITS)


@kernel
def count_ones(words: Any) -> Ints:
    """The number of ones in each row of words, uint64 (n, w): int64 (n,)."""
    ones = np.empty(words.shape[0], np.int64)
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
    return ones


@kernel
def check_unused(payloads: Any, mask: Any) -> Bytes:
    """``UNUSED_BITS`` where the last byte of payloads[i] has a bit of ``mask``, else ``SOUND``: uint8 (n,).

    Args:
        payloads: uint8 (n, w).
        mask: int64, the bits beyond the domain.
    """
    codes = np.empty(payloads.shape[0], np.uint8)
    last = payloads.shape[1] - 1
    for i in range(payloads.shape[0]):
        codes[i] = _UNUSED_BITS if payloads[i, last] & np.uint8(mask) else _SOUND
    return codes


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
def draw_one_hot(values: Any, words: Any, one: Any, zero: Any) -> Bytes:
    """The one-hot vectors of ``values``, randomised bit by bit: packed rows, uint8 (n, (k + 7) // 8).

    Args:
        values: int64 (n,).
        words: uint64 (n, k), one word per bit.
        one, zero: uint64, weights of reporting 1 for a true 1 and a true 0.
    """
    out = np.zeros((words.shape[0], (words.shape[1] + 7) // 8), np.uint8)
    for i in range(words.shape[0]):
        for v in range(words.shape[1]):
            bit = words[i, v] < (one if v == values[i] else zero)
            out[i, v >> 3] |= np.uint8(bit) << np.uint8(v & 7)
    return out


@kernel
def redraw(rows: Any, words: Any, one: Any, zero: Any) -> Bytes:
    """Packed bit vectors, randomised once more bit by bit: uint8, of the shape of ``rows``.

    Args:
        rows: uint8 (n, w), the memoised vectors.
        words: uint64 (n, k).
        one, zero: uint64, weights of reporting 1 for a memoised 1 and 0.
    """
    out = np.zeros(rows.shape, np.uint8)
    for i in range(words.shape[0]):
        for v in range(words.shape[1]):
            memoised = (rows[i, v >> 3] >> np.uint8(v & 7)) & np.uint8(1)
            bit = words[i, v] < (one if memoised else zero)
            out[i, v >> 3] |= np.uint8(bit) << np.uint8(v & 7)
    return out
