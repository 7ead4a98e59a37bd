"""One report per report id: which of several under one id counts, and what becomes of the others.

Pure functions over columns, used by every way to run stage 2: in one process, and on a cluster in shards.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from ldpbeam.admission import ReportColumns, put_together
from ldpbeam.arrays import Bytes, Flags, Ints, Uints, read_only
from ldpbeam.kernels import dedup

_AT_ONCE = 1 << 16
"""Payloads that are compared together."""

_SORTED = 4096
"""Up to so many ids are sorted: that takes a fraction of a millisecond, and no kernel has to be there."""

_MOST_MARKS = 26
"""Bits of a mark, at most: 8 MiB of marks. With more of them each waits longer for memory than it saves."""


_FOR_RANGES = 0xD6E8FEB86659FD93
"""An odd number: the key of the hashes by which ids are told apart into ranges, as a multiple of the key."""


def secret_key() -> int:
    """A key for the hashes below: odd, and unknown to whoever chooses report ids."""
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
    # Not the key itself: ids that agree in the top bits of their hashes would share few marks later.
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
    """Those reports that share their id with another one; which stay: one of each id, one of each payload."""

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
    rows = np.arange(ids.size) if ids.size <= _SORTED else _suspects(ids, key)
    names = ids[rows]
    before, after = _pairs(names)
    if not after.size:
        return None
    shared = np.zeros(rows.size, bool)
    shared[before] = shared[after] = True
    place = np.cumsum(shared) - 1
    rows, pairs = rows[shared], (place[before], place[after])
    return _RepeatedIds(rows, *_flags(names[shared], read_only(payloads_of(rows)), *pairs))


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


def _pairs(ids: Uints) -> tuple[Ints, Ints]:
    """Where the two reports of some pairs with one id are; m reports with an id are in m − 1 pairs."""
    ordered = np.sort(ids)
    if not (ordered[1:] == ordered[:-1]).any():  # as a rule; to sort is far quicker than to find an order
        return np.empty(0, np.int64), np.empty(0, np.int64)
    order = np.argsort(ids, kind="stable")
    again = ids[order[1:]] == ids[order[:-1]]
    return order[:-1][again], order[1:][again]


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


def _flags(ids: Uints, payloads: Bytes, before: Ints, after: Ints) -> tuple[Flags, Flags]:
    """One report of each id, with the smallest payload, and one of each (id, payload); pairs as of
    :func:`_pairs`."""
    keep = np.ones(ids.size, bool)
    keep[after] = False
    different = keep.copy()
    several = [
        _unlike(ids, payloads, before[at : at + _AT_ONCE], after[at : at + _AT_ONCE])
        for at in range(0, after.size, _AT_ONCE)
    ]
    rows = np.flatnonzero(np.isin(ids, np.concatenate(several)))
    if rows.size:
        # Byte strings of one length, the id first, are sorted as numpy's void is: byte by byte.
        joined = np.empty((rows.size, 8 + payloads.shape[1]), np.uint8)
        joined[:, :8] = ids[rows].astype("<u8")[:, None].view(np.uint8)
        joined[:, 8:] = payloads[rows]
        _, first = np.unique(joined.view(f"V{joined.shape[1]}")[:, 0], return_index=True)
        _, least = np.unique(ids[rows[first]], return_index=True)
        keep[rows] = different[rows] = False
        keep[rows[first[least]]] = different[rows[first]] = True
    return keep, different


def _unlike(ids: Uints, payloads: Bytes, before: Ints, after: Ints) -> Uints:
    """The ids of those of some pairs of reports with one id whose payloads differ."""
    differ = (payloads[before] != payloads[after]).any(axis=1)
    return np.asarray(ids[after[differ]], np.uint64)
