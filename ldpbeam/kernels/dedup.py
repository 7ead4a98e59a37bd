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
    """Reports in the order of their shards, which are the top bits of the mixed id; a stable counting sort.

    Args:
        ids: uint64 (n,).
        payloads: uint8 (n, w).
        shift: uint64, 64 minus the number of bits, which is above 0.
        ends: int64 (shards,), zeroed, written: the end of each shard.
        names: uint64 (n,), written: ids.
        rows: uint8 (n, w), written: payloads.
    """
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
def mixed(name: Any, key: Any) -> Any:
    """An id spread over 64 bits, differently for every odd ``key``."""
    x = name * key
    x ^= x >> np.uint64(32)
    x *= key
    return x ^ (x >> np.uint64(29))


@kernel
def in_range(
    ids: Any, key: Any, shift: Any, which: Any, begin: Any, names: Any, positions: Any, filled: Any
) -> Any:
    """Append the ids of one range of their mixed form, and where they are.

    Args:
        ids: uint64 (n,).
        key: odd uint64, secret of this process.
        shift: uint64, 64 minus the number of bits of a range, of which there is at least one.
        which: uint64, the range.
        begin: int64, the position of the first of ``ids``.
        names: uint64, written from ``filled`` on: ids; room for all n.
        positions: int64, written likewise: their positions.
        filled: int64, how many have been written before.

    Returns:
        How many are written then.
    """
    for i in range(ids.size):
        # Written in any case, and kept by counting: which ids are of the range cannot be foretold.
        names[filled] = ids[i]
        positions[filled] = begin + i
        filled += np.int64((mixed(ids[i], key) >> shift) == which)
    return filled


@kernel
def marked_before(ids: Any, key: Any, shift: Any, marks: Any, seen: Any) -> Any:
    """Ids before which another one with the same mark has come: each second copy of an id, and a few others.

    A mark is the top of id · key. For a secret odd key any two ids share it with a probability of at most
    2 / marks, whatever ids somebody has chosen (Dietzfelbinger et al., 1997).

    Args:
        ids: uint64 (n,).
        key: odd uint64, secret of this process.
        shift: uint64, 64 minus the number of bits of a mark, of which there are at least 3.
        marks: uint8, a bit for each mark, zeroed; written.
        seen: uint64 (n,), written from the start.

    Returns:
        Number of ids found.
    """
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
    """Set the marks of ids.

    Args:
        ids, key, shift: as of :func:`marked_before`.
        marks: uint8, a bit for each mark; written.
    """
    for i in range(ids.size):
        mark = (ids[i] * key) >> shift
        marks[np.int64(mark >> np.uint64(3))] |= np.uint8(1 << (mark & np.uint64(7)))


@kernel
def marked(ids: Any, key: Any, shift: Any, marks: Any, rows: Any) -> Any:
    """Where the ids are whose marks are set.

    Args:
        ids, key, shift, marks: as of :func:`marked_before`; nothing is written to the marks.
        rows: int32 (n,), written from the start: positions, ascending.

    Returns:
        Number of positions.
    """
    count: Any = 0
    for i in range(ids.size):
        mark = (ids[i] * key) >> shift
        rows[count] = i
        count += np.int64((marks[np.int64(mark >> np.uint64(3))] >> (mark & np.uint64(7))) & 1)
    return count


@kernel
def into_buckets(ids: Any, key: Any, shift: Any, ends: Any, names: Any, order: Any) -> None:
    """Bring ids together that agree in the top bits of their mixed form: a stable counting sort.

    The hash table of one bucket stays in the processor's own cache, that of millions of ids does not.

    Args:
        ids: uint64 (n,).
        key: odd uint64, secret of this process.
        shift: uint64, 63 minus the number of bits.
        ends: int64 (buckets,), zeroed, written: the end of each bucket.
        names: uint64 (n,), written: ids.
        order: int32 (n,), written: where each was; or of no length, and then nobody asks.
    """
    one = np.uint64(1)
    for i in range(ids.size):
        ends[np.int64((mixed(ids[i], key) >> one) >> shift)] += 1
    begins(ends)
    for i in range(ids.size):
        bucket = np.int64((mixed(ids[i], key) >> one) >> shift)
        at = ends[bucket]
        ends[bucket] = at + 1
        names[at] = ids[i]
        if order.size:
            order[at] = i


@kernel
def slots(size: Any) -> Any:
    """How long a hash table of so many ids is: a power of two, at most half full."""
    size_of_table = 16
    while size_of_table < 2 * size:
        size_of_table *= 2
    return size_of_table


@kernel
def repeats(names: Any, ends: Any, key: Any, table: Any) -> Any:
    """Whether some id appears twice; stops at the first that does.

    Args:
        names: uint64 (n,), in buckets.
        ends: int64 (buckets,).
        key: odd uint64, secret of this process: crafted ids cannot make probing slow.
        table: int32, scratch, long enough for the largest bucket.
    """
    begin: Any = 0
    for s in range(ends.size):
        end = ends[s]
        length = slots(end - begin)
        table[:length] = 0
        mask = np.uint64(length - 1)
        for i in range(begin, end):
            slot = mixed(names[i], key) & mask
            while table[slot] != 0:
                if names[begin + table[slot] - 1] == names[i]:
                    return True
                slot = (slot + np.uint64(1)) & mask
            table[slot] = i - begin + 1
        begin = end
    return False


@kernel
def keep_one(
    names: Any, order: Any, ends: Any, payloads: Any, key: Any, table: Any, keep: Any, differ: Any
) -> None:
    """Mark all but one report per id; among different payloads under one id the smallest one stays.

    Which copy stays therefore does not depend on the order of arrival.

    Args:
        names: uint64 (n,), in buckets, those of each in the order in which they came.
        order: int32 (n,), which report each is of.
        ends: int64 (buckets,).
        payloads: uint8 (n, w), of the reports.
        key: odd uint64, secret of this process: crafted ids cannot make probing slow.
        table: int32, scratch, long enough for the largest bucket.
        keep: uint8 (n,), of the reports, all 1; 0 is written for those that do not stay.
        differ: uint8 (n,), of the reports, zeroed; 1 is written for one report at least of every id that has
            different payloads, and for no other report.
    """
    begin: Any = 0
    for s in range(ends.size):
        end = ends[s]
        length = slots(end - begin)
        table[:length] = 0
        mask = np.uint64(length - 1)
        for at in range(begin, end):
            slot = mixed(names[at], key) & mask
            while True:
                held = table[slot]
                if held == 0:
                    table[slot] = at - begin + 1
                    break
                if names[begin + held - 1] == names[at]:
                    i, j = order[at], order[begin + held - 1]
                    loser = i
                    for b in range(payloads.shape[1]):
                        if payloads[i, b] != payloads[j, b]:
                            differ[i] = 1
                            if payloads[i, b] < payloads[j, b]:
                                loser = j
                                table[slot] = at - begin + 1
                            break
                    keep[loser] = 0
                    break
                slot = (slot + np.uint64(1)) & mask
        begin = end
