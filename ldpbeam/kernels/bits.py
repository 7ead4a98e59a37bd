"""Kernels over packed bit vectors: bit v of a row is bit ``v & 7`` of byte ``v >> 3``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldpbeam.arrays import Bytes
from ldpbeam.kernels._jit import kernel
from ldpbeam.kernels.check_codes import CheckCode

_SOUND = np.uint8(CheckCode.SOUND)
_UNUSED_BITS = np.uint8(CheckCode.UNUSED_BITS)


@kernel
def _word(row: Any, at: Any) -> Any:
    """The 8 bytes of a row from ``at`` on, as a little-endian uint64: one load, written so that it is one."""
    a, b, c, d = row[at], row[at + 1], row[at + 2], row[at + 3]
    e, f, g, h = row[at + 4], row[at + 5], row[at + 6], row[at + 7]
    low = np.uint64(a) | np.uint64(b) << np.uint64(8) | np.uint64(c) << np.uint64(16)
    middle = np.uint64(d) << np.uint64(24) | np.uint64(e) << np.uint64(32) | np.uint64(f) << np.uint64(40)
    return low | middle | np.uint64(g) << np.uint64(48) | np.uint64(h) << np.uint64(56)


@kernel
def _ones(x: Any) -> Any:
    """The number of ones in a uint64; compilers know these steps for one instruction."""
    x -= (x >> np.uint64(1)) & np.uint64(0x5555555555555555)
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (x * np.uint64(0x0101010101010101)) >> np.uint64(56)


@kernel
def count_ones(payloads: Any, ones: Any) -> None:
    """ones[i] = the number of ones in payloads[i].

    Args:
        payloads: uint8 (n, w).
        ones: int64 (n,), written.
    """
    width = payloads.shape[1]
    whole = width >> 3 << 3
    for i in range(payloads.shape[0]):
        row = payloads[i]
        found, rest = np.uint64(0), np.uint64(0)
        for at in range(0, whole, 8):
            found += _ones(_word(row, at))
        for at in range(whole, width):
            rest = rest << np.uint64(8) | np.uint64(row[at])
        ones[i] = np.int64(found + _ones(rest))


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
