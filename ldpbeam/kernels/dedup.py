"""Kernels that keep one report per report id, at array speed."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldpbeam.kernels._jit import kernel


@kernel
def shard_order(ids: Any, shift: Any, ends: Any, order: Any) -> None:
    """A stable counting sort of reports by the top bits of their mixed id.

    Args:
        ids: uint64 (n,).
        shift: uint64, 64 minus the number of bits; 64 for one shard.
        ends: int64 (shards,), zeroed, written: end of each shard in ``order``.
        order: int64 (n,), written.
    """
    odd = np.uint64(0x9E3779B97F4A7C15)
    for i in range(ids.size):
        ends[np.int64((ids[i] * odd) >> shift)] += 1
    total: Any = 0
    for s in range(ends.size):
        size = ends[s]
        ends[s] = total
        total += size
    for i in range(ids.size):
        shard = np.int64((ids[i] * odd) >> shift)
        order[ends[shard]] = i
        ends[shard] += 1


@kernel
def mixed(name: Any, key: Any) -> Any:
    """An id spread over 64 bits, differently for every odd ``key``."""
    x = name * key
    x ^= x >> np.uint64(32)
    x *= key
    return x ^ (x >> np.uint64(29))


@kernel
def repeats(ids: Any, key: Any, table: Any) -> Any:
    """Whether some id appears twice; stops at the first that does.

    Args:
        ids: uint64 (n,).
        key: odd uint64, secret of this process: crafted ids cannot make probing slow.
        table: int32 (a power of two above n), zeroed, scratch.
    """
    mask = np.uint64(table.size - 1)
    for i in range(ids.size):
        slot = mixed(ids[i], key) & mask
        while table[slot] != 0:
            if ids[table[slot] - 1] == ids[i]:
                return True
            slot = (slot + np.uint64(1)) & mask
        table[slot] = i + 1
    return False


@kernel
def keep_one(ids: Any, payloads: Any, key: Any, table: Any, keep: Any) -> Any:
    """Mark one report per id; among different payloads under one id, the smallest one.

    Which copy stays therefore does not depend on the order of arrival.

    Args:
        ids: uint64 (n,).
        payloads: uint8 (n, w).
        key: odd uint64, secret of this process: crafted ids cannot make probing slow.
        table: int32 (a power of two above n), zeroed, scratch.
        keep: uint8 (n,), zeroed, written.

    Returns:
        Number of reports not kept.
    """
    mask = np.uint64(table.size - 1)
    dropped = 0
    for i in range(ids.size):
        slot = mixed(ids[i], key) & mask
        while True:
            held = table[slot]
            if held == 0:
                table[slot] = i + 1
                keep[i] = 1
                break
            j = held - 1
            if ids[j] == ids[i]:
                dropped += 1
                for b in range(payloads.shape[1]):
                    if payloads[i, b] != payloads[j, b]:
                        if payloads[i, b] < payloads[j, b]:
                            keep[j] = 0
                            keep[i] = 1
                            table[slot] = i + 1
                        break
                break
            slot = (slot + np.uint64(1)) & mask
    return dropped
