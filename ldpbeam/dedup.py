"""One report per report id: which of several under one id counts, and what becomes of the others.

Pure functions over columns, used by every way to run stage 2: in one process, and on a cluster in shards.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ldpbeam.admission import ReportColumns, put_together
from ldpbeam.arrays import Bytes, Flags, Ints, Uints, read_only
from ldpbeam.kernels import dedup

_BUCKET = 4096
"""Ids whose hash table fits into a processor's own cache: fewer gain nothing, more wait for memory."""

_SORTED = 4096
"""Up to so many ids are sorted: that takes a fraction of a millisecond, and no kernel has to be there."""

_MOST_MARKS = 26
"""Bits of a mark, at most: 8 MiB of marks. With more of them each waits longer for memory than it saves."""


_FOR_RANGES = 0xD6E8FEB86659FD93
"""An odd number: the key of the hashes by which ids are told apart into ranges, as a multiple of the key."""


def secret_key() -> int:
    """A key for the hash tables below: odd, and unknown to whoever chooses report ids."""
    return secrets.randbits(64) | 1


class Repeated(NamedTuple):
    """What is to be left out of reports so that one report per report id stays."""

    rows: Ints
    duplicate: int
    conflicting: int


def repeated(ids: Uints, payloads_of: Callable[[Ints], Bytes], key: int) -> Repeated:
    """Which reports :func:`keep_one_per_id` leaves out; of nearly all of them no payload is looked at."""
    repeats = _repeats(ids, payloads_of, key)
    if repeats is None:
        return Repeated(np.empty(0, np.int64), 0, 0)
    return Repeated(repeats.rows[~repeats.keep], repeats.duplicate, repeats.conflicting)


def repeated_by_ranges(
    blocks: Callable[[], Iterable[Uints]],
    size: int,
    payloads_of: Callable[[Ints], Bytes],
    key: int,
    at_once: int,
) -> Iterator[Repeated]:
    """:func:`repeated` for more ids than are to be in memory together: range by range of their hashes."""
    bits = max(-(-size // max(at_once, 1)) - 1, 0).bit_length()
    if not bits:
        names = np.empty(size, np.uint64)
        end = 0
        for ids in blocks():
            names[end : end + ids.size] = ids
            end += ids.size
        yield repeated(names, payloads_of, key)
        return
    for which in range(1 << bits):
        yield _repeated_in_range(blocks(), payloads_of, key, (bits, which))


def _repeated_in_range(
    blocks: Iterable[Uints], payloads_of: Callable[[Ints], Bytes], key: int, chosen: tuple[int, int]
) -> Repeated:
    """What is repeated among ids whose hashes begin with so many bits that are this number."""
    bits, which = chosen
    # Not the key itself: ids that agree in the top bits of their hashes would all be in a few buckets later.
    hashed_by = np.uint64(key * _FOR_RANGES & (1 << 64) - 1)
    names, positions = np.empty(0, np.uint64), np.empty(0, np.int64)
    filled = begin = 0
    for block in blocks:
        if names.size < filled + block.size:
            longer = max(2 * names.size, filled + block.size)
            names = np.concatenate([names[:filled], np.empty(longer - filled, np.uint64)])
            positions = np.concatenate([positions[:filled], np.empty(longer - filled, np.int64)])
        ids = np.require(block, np.uint64, ("C", "A"))
        arguments = (ids, hashed_by, np.uint64(64 - bits), np.uint64(which), begin, names, positions, filled)
        filled = dedup.in_range(*arguments)
        begin += ids.size
    at = positions[:filled]
    one = repeated(names[:filled], lambda rows: payloads_of(at[rows]), key)
    return one._replace(rows=at[one.rows])


def without(columns: ReportColumns, rows: Ints) -> ReportColumns:
    """Columns without the reports at some positions; the same object where there are none."""
    if not rows.size:
        return columns
    stay = np.ones(len(columns), bool)
    stay[rows] = False
    payloads = read_only(columns.payloads[stay])
    return ReportColumns(columns.digest, columns.epoch, columns.report_ids[stay], payloads)


def unrepeated(parts: list[ReportColumns], key: int) -> tuple[list[ReportColumns], int, int]:
    """One report per report id: parts as they are where no id is repeated, which is the usual case."""
    ids = np.concatenate([part.report_ids for part in parts])
    ends = np.cumsum([len(part) for part in parts])

    def payloads_of(rows: Ints) -> Bytes:
        some = np.split(rows, np.searchsorted(rows, ends[:-1]))
        begins = [0, *ends[:-1].tolist()]
        chosen = zip(parts, some, begins, strict=True)
        return np.concatenate([part.payloads[each - begin] for part, each, begin in chosen])

    repeats = repeated(ids, payloads_of, key)
    if not repeats.rows.size:
        return parts, 0, 0
    left, begin = [], 0
    for part, end in zip(parts, ends.tolist(), strict=True):
        first, last = np.searchsorted(repeats.rows, (begin, end))
        if last - first < len(part) or not len(part):
            left.append(without(part, repeats.rows[first:last] - begin))
        begin = end
    return left, repeats.duplicate, repeats.conflicting


def by_shard(columns: ReportColumns, bits: int) -> tuple[ReportColumns, list[int]]:
    """Columns in the order of their 2**bits shards, and where each shard ends; equal ids meet in one
    shard."""
    if bits == 0:
        return columns, [len(columns)]
    ids = np.ascontiguousarray(columns.report_ids, np.uint64)
    if not ids.flags.aligned:
        ids = ids.copy()
    ends = np.zeros(1 << bits, np.int64)
    names, rows = np.empty(ids.size, np.uint64), np.empty_like(columns.payloads, order="C")
    dedup.split_by_id(ids, columns.payloads, np.uint64(64 - bits), ends, names, rows)
    return ReportColumns(columns.digest, columns.epoch, names, read_only(rows)), ends.tolist()


def shard_columns(columns: ReportColumns, bits: int) -> Iterator[tuple[int, ReportColumns]]:
    """Split columns by report id into at most 2**bits parts; equal ids meet in the same part."""
    if bits == 0:
        yield 0, columns
        return
    ordered, ends = by_shard(columns, bits)
    for shard, begin, end in occupied(ends):
        yield shard, rows_between(ordered, begin, end)


def occupied(ends: Iterable[int]) -> Iterator[tuple[int, int, int]]:
    """(shard, begin, end) of those shards that hold something, given where each ends."""
    begin = 0
    for shard, end in enumerate(ends):
        if end > begin:
            yield shard, begin, end
        begin = end


def rows_between(columns: ReportColumns, begin: int, end: int) -> ReportColumns:
    """The reports at positions ``begin`` to ``end``, without a copy."""
    ids, payloads = columns.report_ids[begin:end], columns.payloads[begin:end]
    return ReportColumns(columns.digest, columns.epoch, ids, payloads)


class OnePerId(NamedTuple):
    """What is left of reports, and what was left out."""

    columns: ReportColumns
    duplicate: int
    conflicting: int


def keep_one_per_id(parts: Iterable[ReportColumns], key: int) -> OnePerId:
    """All parts together with one report per id: the one with the smallest payload."""
    together = put_together(list(parts))
    return _one_per_id(together, _repeats_of(together, key))


def distinct_reports(parts: Iterable[ReportColumns], key: int) -> tuple[ReportColumns, int]:
    """All parts together without copies that equal another report, and how many of those there were."""
    together = put_together(list(parts))
    return _distinct(together, _repeats_of(together, key))


def distinct_and_one_per_id(
    parts: Iterable[ReportColumns], key: int
) -> tuple[tuple[ReportColumns, int], OnePerId]:
    """What :func:`distinct_reports` gives, and what :func:`keep_one_per_id` gives of that, looked at once."""
    together = put_together(list(parts))
    repeats = _repeats_of(together, key)
    return _distinct(together, repeats), _one_per_id(together, repeats)._replace(duplicate=0)


class _RepeatedIds(NamedTuple):
    """Those reports among which all are that share their id with another one."""

    rows: Ints
    keep: Flags
    different: Flags

    @property
    def duplicate(self) -> int:
        return int(self.different.size - self.different.sum())

    @property
    def conflicting(self) -> int:
        return int(self.different.sum() - self.keep.sum())


def _repeats(ids: Uints, payloads_of: Callable[[Ints], Bytes], key: int) -> _RepeatedIds | None:
    """What :func:`repeated` looks at; None where no id repeats."""
    few = ids.size <= _SORTED
    rows = _sharing(ids) if few else _suspects(ids, key)
    names = ids[rows]
    if not rows.size or not (few or any_repeat(names, key)):
        return None
    payloads = read_only(payloads_of(rows))
    keep, differ = _flags(names, payloads, key)
    return _RepeatedIds(rows, keep, _different(names, payloads, keep, differ))


def _repeats_of(columns: ReportColumns, key: int) -> _RepeatedIds | None:
    return _repeats(columns.report_ids, lambda rows: columns.payloads[rows], key)


def _distinct(together: ReportColumns, repeats: _RepeatedIds | None) -> tuple[ReportColumns, int]:
    if repeats is None:
        return together, 0
    return without(together, repeats.rows[~repeats.different]), repeats.duplicate


def _one_per_id(together: ReportColumns, repeats: _RepeatedIds | None) -> OnePerId:
    if repeats is None:
        return OnePerId(together, 0, 0)
    return OnePerId(without(together, repeats.rows[~repeats.keep]), repeats.duplicate, repeats.conflicting)


def _sharing(ids: Uints) -> Ints:
    """int64 (m,), ascending: where those ids are that appear twice."""
    ordered = np.sort(ids)
    return np.flatnonzero(np.isin(ids, ordered[1:][ordered[1:] == ordered[:-1]]))


def _suspects(ids: Uints, key: int) -> Ints:
    """int64 (m,), ascending: where all ids are that are repeated, and those of some other reports."""
    candidates = np.empty(ids.size, np.uint64)
    # 4 to 8 marks per id: one id in 10 is found by chance. More marks would fall out of the cache.
    bits = min(ids.size.bit_length() + 2, _MOST_MARKS)
    marks, shift = _marks(bits)
    second = candidates[: dedup.marked_before(ids, np.uint64(key), shift, marks, candidates)]
    if not second.size:
        return np.empty(0, np.int64)
    marks, shift = _marks(min(second.size.bit_length() + 5, _MOST_MARKS))
    # Another key: ids that shared a mark by chance are not to share one again.
    other = np.uint64(key * key & (1 << 64) - 1)
    dedup.mark_each(second, other, shift, marks)
    rows = np.empty(ids.size, np.int32)
    return rows[: dedup.marked(ids, other, shift, marks, rows)].astype(np.int64)


def _marks(bits: int) -> tuple[Bytes, np.uint64]:
    """2**bits marks, none of them set, and by how much a hash of 64 bits is shifted to be one of them."""
    bits = max(bits, 3)
    return np.zeros(1 << bits - 3, np.uint8), np.uint64(64 - bits)


def _flags(ids: Uints, payloads: Bytes, key: int) -> tuple[Flags, Flags]:
    """Which report of each id has the smallest payload; some reports of each id with several payloads."""
    order = np.empty(ids.size, np.int32)
    names, ends, table = _buckets(ids, key, order)
    keep, differ = np.ones(ids.size, np.uint8), np.zeros(ids.size, np.uint8)
    dedup.keep_one(names, order, ends, payloads, np.uint64(key), table, keep, differ)
    return keep.view(bool), differ.view(bool)


def _different(ids: Uints, payloads: Bytes, keep: Flags, differ: Flags) -> Flags:
    """One report of every (id, payload) that there is; ``keep`` has one of every id, ``differ`` as of
    _kept."""
    several = np.unique(ids[differ])
    if not several.size:
        return keep
    at = np.minimum(np.searchsorted(several, ids), several.size - 1)
    rows = np.flatnonzero(several[at] == ids)
    # Byte strings of one length, behind their id, compare as numpy's void does: equal where all bytes are.
    joined = np.empty((rows.size, 8 + payloads.shape[1]), np.uint8)
    joined[:, :8] = ids[rows].astype("<u8")[:, None].view(np.uint8)
    joined[:, 8:] = payloads[rows]
    _, first = np.unique(joined.view(f"V{joined.shape[1]}")[:, 0], return_index=True)
    flags = keep.copy()
    flags[rows] = False
    flags[rows[first]] = True
    return flags


def any_repeat(ids: Uints, key: int) -> bool:
    """Whether a report id appears twice; ``ids`` and ``key`` as of :func:`repeated`."""
    names, ends, table = _buckets(ids, key, np.empty(0, np.int32))
    return bool(dedup.repeats(names, ends, np.uint64(key), table))


def _buckets(ids: Uints, key: int, order: Any) -> tuple[Uints, Ints, Ints]:
    """Ids in buckets, their ends, a table for the largest bucket; ``order`` is written unless it is empty."""
    bits = max(ids.size // _BUCKET, 1).bit_length() - 1
    ends, names = np.zeros(1 << bits, np.int64), np.empty(ids.size, np.uint64)
    dedup.into_buckets(ids, np.uint64(key), np.uint64(63 - bits), ends, names, order)
    largest = int(np.diff(ends, prepend=0).max())
    return names, ends, np.empty(dedup.slots(largest), np.int32)
