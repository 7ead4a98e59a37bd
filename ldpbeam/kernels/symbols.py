"""Kernels over payloads that are one little-endian integer of a few bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldpbeam.kernels._jit import kernel
from ldpbeam.kernels.check_codes import CheckCode

_SOUND = np.uint8(CheckCode.SOUND)
_VALUE_OUT_OF_RANGE = np.uint8(CheckCode.VALUE_OUT_OF_RANGE)


@kernel
def check_below(payloads: Any, limit: Any, codes: Any) -> None:
    """codes[i] = ``VALUE_OUT_OF_RANGE`` where payloads[i] is not below ``limit``, else ``SOUND``.

    Args:
        payloads: uint8 (n, w), w <= 8, little-endian.
        limit: uint64.
        codes: uint8 (n,), written.
    """
    for i in range(payloads.shape[0]):
        x = np.uint64(0)
        for j in range(payloads.shape[1]):
            x |= np.uint64(payloads[i, j]) << np.uint64(8 * j)
        codes[i] = _VALUE_OUT_OF_RANGE if x >= limit else _SOUND


@kernel
def add_at(payloads: Any, counts: Any) -> None:
    """counts[integer of payloads[i]] += 1.

    Args:
        payloads: uint8 (n, w), w <= 8, little-endian, every integer below counts.size.
        counts: int64 (m,), added to.
    """
    for i in range(payloads.shape[0]):
        x = np.uint64(0)
        for j in range(payloads.shape[1]):
            x |= np.uint64(payloads[i, j]) << np.uint64(8 * j)
        counts[x] += 1


@kernel
def pack(symbols: Any, payloads: Any) -> None:
    """Write symbols[i] as a little-endian integer into payloads[i].

    Args:
        symbols: uint64 (n,).
        payloads: uint8 (n, w), written.
    """
    for i in range(payloads.shape[0]):
        x = symbols[i]
        for j in range(payloads.shape[1]):
            payloads[i, j] = np.uint8(x >> np.uint64(8 * j))
