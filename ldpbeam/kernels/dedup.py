"""Kernels that keep one report per report id, at array speed."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldpbeam.kernels.jit import kernel


@kernel
def begins(sizes: Any) -> None:
    """Sizes of parts into where each begins, in place."""
    total: Any = 0
    for s in range(sizes.size):
        size = sizes[s]
        sizes[s] = total
        total += size


@kernel
def split_by_id(ids: Any, payloads: Any, shift: Any, ends: Any, names: Any, rows: Any) -> None:
    """Reports in the order of their shards, which are the top bits of the mixed id; a stable counting
    sort."""
    odd = np.uint64(0x9E3779B97F4A7C15)
    for i in range(ids.size):
        ends[np.int64((ids[i] * odd) >> shift)] += 1
    begins(ends)
    for i in range(ids.size):
        shard = np.int64((ids[i] * odd) >> shift)
        at = ends[shard]
        ends[shard] = at + 1
        names[at] = ids[i]
        for b in range(payloads.shape[1]):
            rows[at, b] = payloads[i, b]


@kernel
def in_range(
    ids: Any, key: Any, shift: Any, which: Any, begin: Any, names: Any, positions: Any, filled: Any
) -> Any:
    """Append the ids of one range of their hashes, and where they are."""
    for i in range(ids.size):
        # Written in any case, and kept by counting: which ids are of the range cannot be foretold.
        names[filled] = ids[i]
        positions[filled] = begin + i
        filled += np.int64(((ids[i] * key) >> shift) == which)
    return filled


@kernel
def marked_before(ids: Any, key: Any, shift: Any, marks: Any, seen: Any) -> Any:
    """Ids before which another one with the same mark has come: each second copy of an id, and a few
    others."""
    count: Any = 0
    for i in range(ids.size):
        mark = (ids[i] * key) >> shift
        byte, bit = np.int64(mark >> np.uint64(3)), mark & np.uint64(7)
        before = marks[byte]
        marks[byte] = before | np.uint8(1 << bit)
        # Written in any case, and kept by counting: which ids are found cannot be foretold by a processor.
        seen[count] = ids[i]
        count += np.int64((before >> bit) & 1)
    return count


@kernel
def mark_each(ids: Any, key: Any, shift: Any, marks: Any) -> None:
    """Set the marks of ids."""
    for i in range(ids.size):
        mark = (ids[i] * key) >> shift
        marks[np.int64(mark >> np.uint64(3))] |= np.uint8(1 << (mark & np.uint64(7)))


@kernel
def marked(ids: Any, key: Any, shift: Any, marks: Any, rows: Any) -> Any:
    """Where the ids are whose marks are set."""
    count: Any = 0
    for i in range(ids.size):
        mark = (ids[i] * key) >> shift
        rows[count] = i
        count += np.int64((marks[np.int64(mark >> np.uint64(3))] >> (mark & np.uint64(7))) & 1)
    return count
