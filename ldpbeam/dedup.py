"""One report per report id: which of several under one id counts, and what becomes of the others.

Pure functions over columns, used by every way to run stage 2: in one process, and on a cluster in shards.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ldpbeam.arrays import Flags, Ints, Uints, read_only
from ldpbeam.kernels import dedup
from ldpbeam.reports import ReportColumns

_BUCKET = 4096
"""Ids whose hash table fits into a processor's own cache: fewer gain nothing, more wait for memory."""


def secret_key() -> int:
    """A key for the hash tables below: odd, and unknown to whoever chooses report ids."""
    return secrets.randbits(64) | 1


def unrepeated(parts: list[ReportColumns], key: int) -> tuple[list[ReportColumns], int, int]:
    """One report per report id: the parts as they are where no id is repeated, which is the usual case.

    Args:
        parts: columns of one collection and epoch, at least one.
        key: :func:`secret_key`; results do not depend on it.

    Returns:
        Columns, and how many duplicates and conflicting reports :func:`keep_one_per_id` has left out.
    """
    if not any_repeat(parts, key):
        return parts, 0, 0
    found = keep_one_per_id(parts, key)
    return [found.columns], found.duplicate, found.conflicting


def shard_columns(columns: ReportColumns, bits: int) -> Iterator[tuple[int, ReportColumns]]:
    """Split columns by report id into at most 2**bits parts; equal ids meet in the same part."""
    if bits == 0:
        yield 0, columns
        return
    ids = np.ascontiguousarray(columns.report_ids, np.uint64)
    if not ids.flags.aligned:
        ids = ids.copy()
    ends = np.zeros(1 << bits, np.int64)
    names, rows = np.empty(ids.size, np.uint64), np.empty_like(columns.payloads, order="C")
    dedup.split_by_id(ids, columns.payloads, np.uint64(64 - bits), ends, names, rows)
    payloads, begin = read_only(rows), 0
    for shard, end in enumerate(ends.tolist()):
        if end > begin:
            yield shard, ReportColumns(columns.digest, columns.epoch, names[begin:end], payloads[begin:end])
        begin = end


class OnePerId(NamedTuple):
    """What is left of reports, and what was left out.

    Attributes:
        columns: one report per id.
        duplicate: copies left out that equal another report in id and payload.
        conflicting: reports left out that share an id with another one, and not its payload.
    """

    columns: ReportColumns
    duplicate: int
    conflicting: int


def keep_one_per_id(parts: Iterable[ReportColumns], key: int) -> OnePerId:
    """All parts together with one report per id: the one with the smallest payload.

    Of an id with p different payloads among c reports, one report counts, p − 1 conflict and c − p are
    duplicates. That does not depend on the order, and neither on what a :func:`distinct_reports` before it
    has left out, as long as its copies are booked as duplicates.

    Args:
        parts: columns of one collection and epoch, at least one.
        key: odd, secret of this process; results do not depend on it.
    """
    return _one_per_id(_repeats(parts, key))


def distinct_reports(parts: Iterable[ReportColumns], key: int) -> tuple[ReportColumns, int]:
    """All parts together without copies that equal another report, and how many of those there were.

    Reports that share an id and differ in their payloads all stay, so that :func:`keep_one_per_id` can tell
    conflicts from copies however often parts are put together before it. Arguments as there.
    """
    return _distinct(_repeats(parts, key))


def distinct_and_one_per_id(
    parts: Iterable[ReportColumns], key: int
) -> tuple[tuple[ReportColumns, int], OnePerId]:
    """What :func:`distinct_reports` gives, and what :func:`keep_one_per_id` gives of that, looked at once."""
    found = _repeats(parts, key)
    distinct, one = _distinct(found), _one_per_id(found)
    return distinct, one._replace(duplicate=0)


class _Repeats(NamedTuple):
    """Reports, which of them to keep for each id, and one of each (id, payload); None where no id repeats."""

    together: ReportColumns
    keep: Flags | None
    different: Flags | None


def _repeats(parts: Iterable[ReportColumns], key: int) -> _Repeats:
    together = _together(parts)
    keep = _kept(together, key)
    return _Repeats(together, keep, None if keep is None else _different(together, keep))


def _distinct(found: _Repeats) -> tuple[ReportColumns, int]:
    if found.different is None:
        return found.together, 0
    return _chosen(found.together, found.different), int(found.different.size - found.different.sum())


def _one_per_id(found: _Repeats) -> OnePerId:
    if found.keep is None or found.different is None:
        return OnePerId(found.together, 0, 0)
    different = int(found.different.sum())
    duplicate, conflicting = found.keep.size - different, different - int(found.keep.sum())
    return OnePerId(_chosen(found.together, found.keep), duplicate, conflicting)


def _together(parts: Iterable[ReportColumns]) -> ReportColumns:
    held = list(parts)
    ids = np.concatenate([p.report_ids for p in held])
    payloads = np.concatenate([p.payloads for p in held])
    return ReportColumns(held[0].digest, held[0].epoch, ids, read_only(payloads))


def _chosen(columns: ReportColumns, rows: Flags) -> ReportColumns:
    payloads = read_only(columns.payloads[rows])
    return ReportColumns(columns.digest, columns.epoch, columns.report_ids[rows], payloads)


def _kept(columns: ReportColumns, key: int) -> Flags | None:
    """Which report of each id has the smallest payload; None where no id repeats."""
    order = np.empty(len(columns), np.int32)
    names, ends, table = _buckets(columns.report_ids, key, order)
    keep = np.ones(len(columns), np.uint8)
    dropped: Any = dedup.keep_one(names, order, ends, columns.payloads, np.uint64(key), table, keep)
    return keep.view(bool) if dropped else None


def _different(columns: ReportColumns, keep: Flags) -> Flags:
    """One report of every (id, payload) that there is; ``keep`` has one of every id.

    Sorted, and only what shares an id with a report that is not kept: a thousand payloads under one id take
    no longer than a thousand ids, which no chain of a hash table promises.
    """
    ids = np.ascontiguousarray(columns.report_ids)
    several = np.unique(ids[~keep])
    at = np.minimum(np.searchsorted(several, ids), several.size - 1)
    rows = np.flatnonzero(several[at] == ids)
    # Byte strings of one length, behind their id, compare as numpy's void does: equal where all bytes are.
    joined = np.empty((rows.size, 8 + columns.payloads.shape[1]), np.uint8)
    joined[:, :8] = ids[rows].astype("<u8")[:, None].view(np.uint8)
    joined[:, 8:] = columns.payloads[rows]
    _, first = np.unique(joined.view(f"V{joined.shape[1]}")[:, 0], return_index=True)
    found = keep.copy()
    found[rows] = False
    found[rows[first]] = True
    return found


def any_repeat(parts: Sequence[ReportColumns], key: int) -> bool:
    """Whether a report id appears twice in the parts; ``key`` as in :func:`keep_one_per_id`."""
    ids = np.concatenate([p.report_ids for p in parts])
    names, ends, table = _buckets(ids, key, np.empty(0, np.int32))
    return bool(dedup.repeats(names, ends, np.uint64(key), table))


def _buckets(ids: Uints, key: int, order: Any) -> tuple[Uints, Ints, Ints]:
    """Ids in buckets, their ends, a table for the largest bucket; ``order`` is written unless it is empty."""
    bits = max(ids.size // _BUCKET, 1).bit_length() - 1
    ends, names = np.zeros(1 << bits, np.int64), np.empty(ids.size, np.uint64)
    dedup.into_buckets(ids, np.uint64(key), np.uint64(63 - bits), ends, names, order)
    largest = int(np.diff(ends, prepend=0).max())
    return names, ends, np.empty(dedup.slots(largest), np.int32)
