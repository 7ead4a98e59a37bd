"""Kernels over payloads that are one little-endian integer of a few bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldpbeam.arrays import Bytes, Ints
from ldpbeam.kernels.check_codes import CheckCode
from ldpbeam.kernels.jit import kernel

_SOUND = np.uint8(CheckCode.SOUND)
_VALUE_OUT_OF_RANGE = np.uint8(CheckCode.VALUE_OUT_OF_RANGE)


@kernel
def integer(payloads: Any, row: Any, at: Any, width: Any) -> Any:
    """Some bytes of a row as a little-endian uint64."""
    x = np.uint64(0)
    for j in range(width):
        x |= np.uint64(payloads[row, at + j]) << np.uint64(8 * j)
    return x


@kernel
def check_below(payloads: Any, limit: Any) -> Bytes:
    """``VALUE_OUT_OF_RANGE`` where payloads[i] is not below ``limit``, else ``SOUND``: uint8 (n,)."""
    codes = np.empty(payloads.shape[0], np.uint8)
    for i in range(payloads.shape[0]):
        below = integer(payloads, i, 0, payloads.shape[1]) < np.uint64(limit)
        codes[i] = _SOUND if below else _VALUE_OUT_OF_RANGE
    return codes


@kernel
def add_at(payloads: Any, counts: Any) -> None:
    """counts[integer of payloads[i]] += 1."""
    for i in range(payloads.shape[0]):
        counts[integer(payloads, i, 0, payloads.shape[1])] += 1


@kernel
def add_at_in_order(payloads: Any, shift: Any, starts: Any, ordered: Any, counts: Any) -> None:
    """As :func:`add_at`, for many increments of many cells: brought into order by their upper bits first."""
    n = payloads.shape[0]
    for b in range(starts.size):
        starts[b] = 0
    for i in range(n):
        starts[np.int64(integer(payloads, i, 0, payloads.shape[1])) >> shift] += 1
    before = 0
    for b in range(starts.size):
        here = starts[b]
        starts[b] = before
        before += here
    for i in range(n):
        cell = np.int64(integer(payloads, i, 0, payloads.shape[1]))
        ordered[starts[cell >> shift]] = np.uint32(cell)
        starts[cell >> shift] += 1
    for i in range(n):
        counts[ordered[i]] += 1


@kernel
def add_moments(payloads: Any, last: Any, shift: Any, counts: Any) -> None:
    """counts[0] += x and counts[1] += (2x − last)² >> shift, of the integer x of payloads[i]."""
    for i in range(payloads.shape[0]):
        x = np.int64(integer(payloads, i, 0, payloads.shape[1]))
        counts[0] += x
        counts[1] += ((2 * x - last) * (2 * x - last)) >> shift


@kernel
def pack(symbols: Any, width: Any) -> Bytes:
    """symbols[i], uint64 (n,), as little-endian integers of ``width`` bytes: uint8 (n, width)."""
    payloads = np.empty((symbols.size, width), np.uint8)
    for i in range(symbols.size):
        x = symbols[i]
        for j in range(payloads.shape[1]):
            payloads[i, j] = np.uint8(x >> np.uint64(8 * j))
    return payloads


@kernel
def randomise(symbols: Any, words: Any, keep: Any, each: Any) -> Ints:
    """Randomised response: symbols[i] where words[i] is below ``keep``, else another one: int64 (n,)."""
    out = np.empty(symbols.size, np.int64)
    for i in range(symbols.size):
        word = words[i]
        if word < keep:
            out[i] = symbols[i]
        else:
            other = np.int64((word - keep) // each)
            out[i] = other + (other >= symbols[i])
    return out
