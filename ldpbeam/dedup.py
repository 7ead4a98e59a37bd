"""One report per report id: which of several under one id counts, and what becomes of the others.

Pure functions over columns, used by every way to run stage 2: in one process, and on a cluster in shards.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ldpbeam.arrays import Flags, read_only
from ldpbeam.kernels import dedup
from ldpbeam.reports import ReportColumns


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
    ends, order = np.zeros(1 << bits, np.int64), np.empty(ids.size, np.int64)
    dedup.shard_order(ids, np.uint64(64 - bits), ends, order)
    begin = 0
    for shard, end in enumerate(ends.tolist()):
        if end > begin:
            chosen = order[begin:end]
            payloads = read_only(columns.payloads[chosen])
            yield shard, ReportColumns(columns.digest, columns.epoch, ids[chosen], payloads)
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
    together = _together(parts)
    keep, dropped = _kept(together, key)
    if not dropped:
        return OnePerId(together, 0, 0)
    different = _different(together, keep)
    conflicting = int(different.sum()) - int(keep.sum())
    return OnePerId(_chosen(together, keep), dropped - conflicting, conflicting)


def distinct_reports(parts: Iterable[ReportColumns], key: int) -> tuple[ReportColumns, int]:
    """All parts together without copies that equal another report, and how many of those there were.

    Reports that share an id and differ in their payloads all stay, so that :func:`keep_one_per_id` can tell
    conflicts from copies however often parts are put together before it. Arguments as there.
    """
    together = _together(parts)
    keep, dropped = _kept(together, key)
    if not dropped:
        return together, 0
    different = _different(together, keep)
    return _chosen(together, different), int(different.size - different.sum())


def _together(parts: Iterable[ReportColumns]) -> ReportColumns:
    held = list(parts)
    ids = np.concatenate([p.report_ids for p in held])
    payloads = np.concatenate([p.payloads for p in held])
    return ReportColumns(held[0].digest, held[0].epoch, ids, read_only(payloads))


def _chosen(columns: ReportColumns, rows: Flags) -> ReportColumns:
    payloads = read_only(columns.payloads[rows])
    return ReportColumns(columns.digest, columns.epoch, columns.report_ids[rows], payloads)


def _kept(columns: ReportColumns, key: int) -> tuple[Flags, int]:
    """Which report of each id has the smallest payload, and how many have not."""
    n = len(columns)
    keep, table = np.zeros(n, np.uint8), np.zeros(_slots(n), np.int32)
    dropped: Any = dedup.keep_one(columns.report_ids, columns.payloads, np.uint64(key), table, keep)
    return keep.view(bool), int(dropped)


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
    return bool(dedup.repeats(ids, np.uint64(key), np.zeros(_slots(ids.size), np.int32)))


def _slots(reports: int) -> int:
    """Size of a hash table that stays at most half full."""
    return 1 << max(4, int(reports * 2 - 1).bit_length())
