"""Kernels that put the reports of each slice together, at array speed."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldpbeam.kernels.jit import kernel


@kernel
def append(payloads: Any, digests: Any, rows: Any, tails: Any) -> None:
    """Payloads into the front of rows, and digests into their tails."""
    for i in range(digests.size):
        for b in range(payloads.shape[1]):
            rows[i, b] = payloads[i, b]
        tails[i] = digests[i]


@kernel
def enter(digests: Any, keys: Any, places: Any) -> None:
    """Write digests and their places into a hash table of a power of two entries; −1 is no place."""
    mask = np.uint64(keys.size - 1)
    for i in range(digests.size):
        at = digests[i] & mask
        while places[at] >= 0:
            at = (at + np.uint64(1)) & mask
        keys[at] = digests[i]
        places[at] = i


@kernel
def find(digests: Any, keys: Any, places: Any, found: Any) -> Any:
    """Look up the place of each digest, −1 for one that is not in the table; gives how many are not."""
    mask = np.uint64(keys.size - 1)
    missing: Any = 0
    for i in range(digests.size):
        at = digests[i] & mask
        while places[at] >= 0 and keys[at] != digests[i]:
            at = (at + np.uint64(1)) & mask
        found[i] = places[at]
        missing += np.int64(places[at] < 0)
    return missing


@kernel
def arrange(payloads: Any, found: Any, ends: Any, ordered: Any) -> None:
    """Payloads without their last bytes in the order of their places, and where each place ends: a stable
    counting sort."""
    for i in range(found.size):
        ends[found[i]] += 1
    total: Any = 0
    for place in range(ends.size):
        size = ends[place]
        ends[place] = total
        total += size
    width = ordered.shape[1]
    for i in range(found.size):
        at = ends[found[i]]
        ends[found[i]] = at + 1
        for b in range(width):
            ordered[at, b] = payloads[i, b]
