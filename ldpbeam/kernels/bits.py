"""Kernels over packed bit vectors: bit v of a row is bit ``v & 7`` of byte ``v >> 3``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldpbeam.arrays import Bytes
from ldpbeam.kernels.check_codes import CheckCode
from ldpbeam.kernels.jit import copied, inlined, kernel
from ldpbeam.kernels.philox import four

_SOUND = np.uint8(CheckCode.SOUND)
_UNUSED_BITS = np.uint8(CheckCode.UNUSED_BITS)
_DEGENERATE = np.uint8(CheckCode.DEGENERATE)


@inlined
def _word(row: Any, at: Any) -> Any:
    """The 8 bytes of a row from ``at`` on, as a little-endian uint64: one load, written so that it is one."""
    i = np.uint64(at)  # of a kind that is never negative: else each index is compared with 0
    a, b, c, d = row[i], row[i + np.uint64(1)], row[i + np.uint64(2)], row[i + np.uint64(3)]
    i += np.uint64(4)
    e, f, g, h = row[i], row[i + np.uint64(1)], row[i + np.uint64(2)], row[i + np.uint64(3)]
    low = np.uint64(a) | np.uint64(b) << np.uint64(8) | np.uint64(c) << np.uint64(16)
    middle = np.uint64(d) << np.uint64(24) | np.uint64(e) << np.uint64(32) | np.uint64(f) << np.uint64(40)
    return low | middle | np.uint64(g) << np.uint64(48) | np.uint64(h) << np.uint64(56)


@inlined
def _ones(x: Any) -> Any:
    """The number of ones in a uint64; compilers know these steps for one instruction."""
    x -= (x >> np.uint64(1)) & np.uint64(0x5555555555555555)
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (x * np.uint64(0x0101010101010101)) >> np.uint64(56)


@copied
def _ones_at(payloads: Any, at: Any, width: Any) -> Any:
    """The number of ones in ``width`` bytes from payloads[at] on."""
    total, rest, whole = np.uint64(0), np.uint64(0), width >> 3 << 3
    for j in range(0, whole, 8):
        total += _ones(_word(payloads, at + np.uint64(j)))
    if whole < width and width >= 8:
        # The last 8 bytes, without those that were looked at.
        rest = _word(payloads, at + np.uint64(width - 8)) >> np.uint64(8 * (8 - width + whole))
    elif whole < width:
        for j in range(width):
            rest = rest << np.uint64(8) | np.uint64(payloads[at + np.uint64(j)])
    return total + _ones(rest)


@kernel
def check_bits(payloads: Any, width: Any, unused: Any, least: Any, most: Any, codes: Any) -> None:
    """codes[i] = ``UNUSED_BITS`` where payload i has a bit beyond the domain; else ``DEGENERATE`` where it
    has fewer than ``least`` or more than ``most`` ones; else ``SOUND``."""
    at, last, reach = np.uint64(0), np.uint64(width - 1), np.uint64(most - least)
    for i in range(codes.size):
        # Unsigned, a difference below 0 is above all others: one comparison, and no branch to foresee.
        outside = _ones_at(payloads, at, width) - np.uint64(least) > reach
        code = _DEGENERATE * np.uint8(outside)
        codes[i] = _UNUSED_BITS if payloads[at + last] & np.uint8(unused) else code
        at += np.uint64(width)


@kernel
def count_rare(payloads: Any, width: Any, few: Any, many: Any, totals: Any) -> None:
    """found[0] += the number of payloads with at least ``many`` ones, found[1] += with at most ``few``."""
    at, above, below = np.uint64(0), np.int64(0), np.int64(0)
    for _ in range(payloads.size // width):
        ones = np.int64(_ones_at(payloads, at, width))
        above += np.int64(ones >= many)
        below += np.int64(ones <= few)
        at += np.uint64(width)
    totals[0] += above
    totals[1] += below


@kernel
def check_unused(payloads: Any, mask: Any) -> Bytes:
    """``UNUSED_BITS`` where the last byte of payloads[i] has a bit of ``mask``, else ``SOUND``: uint8
    (n,)."""
    codes = np.empty(payloads.shape[0], np.uint8)
    last = payloads.shape[1] - 1
    for i in range(payloads.shape[0]):
        codes[i] = _UNUSED_BITS if payloads[i, last] & np.uint8(mask) else _SOUND
    return codes


@kernel
def one_hot(values: Any, bits: Any) -> Bytes:
    """Packed rows of ``bits`` bits, of which bit values[i] is 1: uint8 (n, (bits + 7) // 8)."""
    out = np.zeros((values.size, (bits + 7) // 8), np.uint8)
    for i in range(values.size):
        v = values[i]
        if v < bits:
            out[i, v >> 3] = np.uint8(1) << np.uint8(v & 7)
    return out


@kernel
def _some(row: Any, at: Any, width: Any) -> Any:
    """The ``width`` bytes of a row from ``at`` on, at most 8, as a little-endian uint64."""
    if width == 8:
        return _word(row, at)
    x = np.uint64(0)
    for j in range(width):
        x |= np.uint64(row[at + j]) << np.uint64(8 * j)
    return x


@kernel
def randomise(rows: Any, devices: Any, bits: Any, one: Any, zero: Any, stream: Any) -> None:
    """Packed bit vectors, each bit of them drawn once: 1 with probability one/2**64 or zero/2**64."""
    full = ~np.uint64(0)
    blocks = (bits + 63) >> 6
    # A weight's digit in all 64 places: that of zero, and where that of one is another.
    of_zero, differs = np.empty(64, np.uint64), np.empty(64, np.uint64)
    last = 0
    for j in range(64):
        shift = np.uint64(63 - j)
        of_zero[j] = full * ((zero >> shift) & np.uint64(1))
        differs[j] = of_zero[j] ^ full * ((one >> shift) & np.uint64(1))
        if of_zero[j] | differs[j]:
            last = j + 1
    for i in range(rows.shape[0]):
        row, place = rows[i], np.uint64(devices[i]) * np.uint64(blocks)
        for b in range(blocks):
            width = min(8, rows.shape[1] - 8 * b)
            held = _some(row, 8 * b, width)
            open_ = full >> np.uint64(64 - min(64, bits - 64 * b))
            drawn = np.uint64(0)
            place += np.uint64(1)
            j = 0
            # Random words that equal their weight up to its last digit that is 1 do not lie below it.
            while open_ and j < last:
                digits = four(place, np.uint64(j >> 2), stream)
                for digit in digits:
                    weight = of_zero[j] ^ (held & differs[j])
                    drawn |= open_ & weight & ~digit
                    open_ &= ~(weight ^ digit)
                    j += 1
            if width == 8:
                for at in range(8):
                    row[8 * b + at] = np.uint8(drawn >> np.uint64(8 * at))
            else:
                for at in range(width):
                    row[8 * b + at] = np.uint8(drawn >> np.uint64(8 * at))
