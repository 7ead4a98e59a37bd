"""Stage 1 of 5, report: which records are admitted, and why the others are not. Total, pure, columnar.

A record is admitted when its digest names a known collection, its epoch is one of that collection's, and its
payload is one that a device with these parameters can send. Everything else becomes a :class:`Rejection`,
which says what, where and why and never carries a payload.

Where it is known when a record arrived, that decides whether its epoch was still open: a record that came
after the allowed lateness is late, however promptly it is processed, and one that came in time is not, even
if the pipeline stood still in between. Both follow from the record alone, so every runner decides alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam.accounting import Key
from ldpbeam.admission import (
    MICROS,
    UNATTRIBUTED,
    Admission,
    Rejected,
    ReportColumns,
    Written,
)
from ldpbeam.arrays import Flags, Ints, Uints, read_only
from ldpbeam.collection.collection import Collection, digest_hex
from ldpbeam.collection.epochs import instant
from ldpbeam.errors import Reason, UsageError
from ldpbeam.kernels import framing
from ldpbeam.kernels.check_codes import CheckCode
from ldpbeam.slice_support import with_slices
from ldpbeam.wire.codec import Batches, EvenRows, Frames, Rows, parse

_SMALL = 1024
"""Batches of fewer reports are judged together with others, larger ones by themselves, without a copy."""


def epoch_at_fault(collection: Collection, epoch: int, written_by: Written | None = None) -> Reason | None:
    """Why reports of an epoch are not taken, whatever they hold and whenever they arrived."""
    if not collection.epochs.contains(epoch):
        return Reason.FOREIGN_EPOCH
    if collection.retired is not None and collection.epochs.start(epoch) >= collection.retired:
        return Reason.RETIRED_COLLECTION
    if written_by is not None and written_by.before(collection, epoch):
        return Reason.FUTURE_EPOCH
    return None


def columns_by_epoch(
    collection: Collection, given: ReportColumns | Admission | Iterable[ReportColumns | Admission]
) -> dict[int, list[ReportColumns]]:
    """The admitted reports that a person gives, by their epochs."""
    by_epoch: dict[int, list[ReportColumns]] = {}
    for columns in _given_columns(given):
        if columns.digest != collection.digest:
            raise UsageError(
                "E-ESTIMATE-REPORTS",
                f"reports with digest {digest_hex(columns.digest)} do not belong to collection "
                f"{collection.name!r}, whose digest is {collection.digest_hex}",
                remedy="Give the collection that the devices had; of an admission of several collections, "
                "give the columns whose digest is collection.digest.",
            )
        fault = epoch_at_fault(collection, columns.epoch)
        if fault is not None:
            when = collection.retired
            retired = "" if when is None else f", and was retired on {instant(when)}"
            raise UsageError(
                "E-ESTIMATE-REPORTS",
                f"a run would reject reports of epoch {columns.epoch} ({fault.value}): {collection.name!r} "
                f"has {collection.epochs.count:,} epochs, counted from 0{retired}",
                remedy="Leave them out, or correct epoch.count or retired in the collection's file.",
            )
        by_epoch.setdefault(columns.epoch, []).append(columns)
    return by_epoch


def _given_columns(given: Any) -> Iterator[ReportColumns]:
    if isinstance(given, ReportColumns):
        yield given
    elif isinstance(given, Admission):
        yield from given.admitted
    elif isinstance(given, Iterable) and not isinstance(given, (str, bytes, bytearray, memoryview, Mapping)):
        for one in given:
            if not isinstance(one, (ReportColumns, Admission)):
                raise _no_columns(one)
            yield from _given_columns(one)
    else:
        raise _no_columns(given)


def _no_columns(given: object) -> UsageError:
    messages = isinstance(given, (bytes, bytearray, memoryview))
    remedy = (
        "Let ldpbeam.admit(collection, messages) judge them, and give what it returns."
        if messages
        else "Give what ldpbeam.admit, ldpbeam.simulate or a fleet's report() returns, or a list of that."
    )
    held = "the bytes of messages are" if messages else f"an object of type {type(given).__name__} is"
    return UsageError("E-ESTIMATE-REPORTS", f"{held} no admitted reports", remedy=remedy)


def admit_frames(
    frames: Frames,
    collections: Mapping[int, Collection],
    source: str,
    admission: Admission,
    base: int = 0,
    arrivals: Ints | None = None,
) -> None:
    """Judge records, whatever their bytes.

    Args:
        frames, base, arrivals: as in :func:`ldpbeam.wire.codec.parse`.
        collections: by every digest that a report can carry, see
            :func:`ldpbeam.collection.distinct_collections.by_wire_digest`.
        source: of the records, for rejections.
        admission: what is said about them is added to it.
    """
    rows, batches, malformed = parse(frames, base, arrivals)
    admission.reject_places(Reason.MALFORMED, source, malformed)
    admit_batches(batches, collections, source, admission)
    admit_rows(rows, collections, source, admission)


def admit_batches(
    batches: Batches, collections: Mapping[int, Collection], source: str, admission: Admission
) -> None:
    """Judge ReportBatch messages; the reports in one are judged one by one once its columns fit together."""
    n = batches.ids_length >> 3
    sizes = np.maximum(n, 1)  # a batch without reports is still a record that was read
    agree = batches.count == n.astype(np.uint64)
    admission.reject_places(Reason.MALFORMED, source, batches.place[~agree])
    for collection, epoch, rows in _attributed(batches, agree, sizes, collections, source, admission):
        key: Key = (collection.digest_hex, epoch)
        width = collection.protocol.device.payload_size
        empty = n[rows] == 0
        if empty.any():
            admission.reject(key, _refused(Reason.MALFORMED, source, batches, rows[empty], sizes))
        group = rows[~empty]
        fits = batches.payloads_length[group] == n[group] * width
        wrong, group = group[~fits], group[fits]
        if wrong.size:
            admission.reject(key, _refused(Reason.WRONG_LENGTH, source, batches, wrong, sizes))
            sizes_of = (batches.ids_length[wrong] + batches.payloads_length[wrong]) // (8 + width)
            owners = np.repeat(np.arange(wrong.size), n[wrong])
            admission.repeated[key] += _repeated(batches.ids_together(wrong), owners, sizes_of)
        small = n[group] < _SMALL
        shares = [group[i : i + 1] for i in np.flatnonzero(~small)]
        if small.any():
            shares.append(group[small])
        for share in shares:
            ids, payloads = batches.ids_together(share), batches.payloads_together(share)
            columns = ReportColumns(collection.digest, epoch, ids, payloads.reshape(ids.size, -1))
            _admit_columns(collection, columns, batches, share, n[share], source, admission)


def admit_rows(rows: Rows, collections: Mapping[int, Collection], source: str, admission: Admission) -> None:
    """Judge single reports, gathering those of one collection and epoch into columns."""
    every = np.ones(rows.digest.size, bool)
    for collection, epoch, group in _attributed(rows, every, None, collections, source, admission):
        width = collection.protocol.device.payload_size
        fits = rows.payload_length[group] == width
        if not fits.all():
            wrong = _refused(Reason.WRONG_LENGTH, source, rows, group[~fits], None)
            admission.reject((collection.digest_hex, epoch), wrong)
        some = group[fits]
        payloads = np.empty((some.size, width), np.uint8)
        framing.gather(rows.buffer, rows.payload_at[some], payloads)
        columns = ReportColumns(collection.digest, epoch, rows.report_id[some], payloads)
        _admit_columns(collection, columns, rows, some, None, source, admission)


def admit_even_rows(
    rows: EvenRows, collections: Mapping[int, Collection], source: str, admission: Admission
) -> None:
    """Judge single reports whose payloads lie end to end."""
    if not _admitted_whole(rows, collections, admission):
        admit_rows(rows.rows(), collections, source, admission)


def _admitted_whole(rows: EvenRows, collections: Mapping[int, Collection], admission: Admission) -> bool:
    """Admit all reports if nothing is to be said about any of them; else leave things as they are."""
    n, width = rows.payloads.shape
    if not n or not _all_same(rows.epoch):
        return False
    known, bases = _bases(rows.digest, collections)
    if not (known.all() and _all_same(bases)):
        return False
    collection, epoch = collections[int(bases[0])], int(rows.epoch[0])
    if width != collection.protocol.device.payload_size:
        return False
    if epoch_at_fault(collection, epoch, admission.written_by):
        return False
    payloads = read_only(rows.payloads)
    if collection.protocol.counter.check(payloads).any():
        return False
    admission.read[collection.digest_hex, epoch] += n
    if collection.slices:
        payloads = with_slices(payloads, rows.digest)
    admission.admitted.append(ReportColumns(collection.digest, epoch, rows.report_id, payloads))
    return True


def _all_same(column: NDArray[np.generic]) -> bool:
    """Whether all of some numbers are the first of them; there is nothing to do if they share its memory."""
    return column.strides == (0,) or bool((column == column[0]).all())


def _attributed(
    records: Rows | Batches,
    among: Flags,
    sizes: Ints | None,
    collections: Mapping[int, Collection],
    source: str,
    admission: Admission,
) -> Iterator[tuple[Collection, int, Ints]]:
    """(collection, epoch, positions) of records whose epoch takes reports; others are refused."""

    def refuse(key: Key, reason: Reason, which: Ints) -> None:
        if which.size:
            admission.read[key] += which.size if sizes is None else int(sizes[which].sum())
            admission.reject(key, _refused(reason, source, records, which, sizes))

    known, bases = _bases(records.digest, collections)
    refuse(UNATTRIBUTED, Reason.UNKNOWN_COLLECTION, np.flatnonzero(among & ~known))
    for digest, chosen in _groups(bases, np.flatnonzero(among & known)):
        collection = collections[digest]
        nowhere: Key = (collection.digest_hex, None)
        epochs = records.epoch[chosen]
        # Only epochs that can be collected have an account of their own, so junk cannot grow the accounting.
        # Others are anybody's numbers, hence many, and are told apart at once.
        planned = (epochs >= 0) & (epochs < collection.epochs.count)
        refuse(nowhere, Reason.FOREIGN_EPOCH, chosen[~planned])
        for epoch, everyone in _groups(records.epoch, chosen[planned]):
            group = everyone
            if reason := epoch_at_fault(collection, epoch, admission.written_by):
                refuse(nowhere, reason, everyone)
                continue
            if records.arrival is not None:
                early = records.arrival[everyone] < collection.opens(epoch) * MICROS
                refuse(nowhere, Reason.FUTURE_EPOCH, everyone[early])
                group = everyone[~early]
                if not group.size:
                    continue  # no account for an epoch that nothing was taken of
            admission.read[collection.digest_hex, epoch] += (
                group.size if sizes is None else int(sizes[group].sum())
            )
            yield collection, epoch, group


def _bases(digests: Uints, collections: Mapping[int, Collection]) -> tuple[Flags, Uints]:
    """Which digests are of a known collection or slice, and the digest of the collection of each of these."""
    if not digests.size or not collections:
        return np.zeros(digests.size, bool), digests
    if _all_same(digests):  # as of records that lie together
        collection = collections.get(int(digests[0]))
        base = digests[:1] if collection is None else np.array([collection.digest], np.uint64)
        return np.full(digests.size, collection is not None), np.broadcast_to(base, digests.shape)
    keys = np.array(sorted(collections), np.uint64)
    of = np.array([collections[int(key)].digest for key in keys], np.uint64)
    at = np.minimum(np.searchsorted(keys, digests), keys.size - 1)
    return keys[at] == digests, of[at]


def _refused(
    reason: Reason, source: str, records: Rows | Batches, which: Ints, sizes: Ints | None
) -> Rejected:
    """Records refused as they are, each at its own place; ``sizes`` as in :func:`_attributed`."""
    counts = None if sizes is None else sizes[which]
    columns = records.place[which], None, counts, records.digest[which], records.epoch[which]
    return Rejected(reason, source, *columns)


def _admit_columns(
    collection: Collection,
    columns: ReportColumns,
    records: Rows | Batches,
    which: Ints,
    sizes: Ints | None,
    source: str,
    admission: Admission,
) -> None:
    """Judge the payloads of reports that are of one collection and epoch, and hand the sound ones on."""
    if not len(columns):
        return
    key: Key = (collection.digest_hex, columns.epoch)
    ids, payloads = columns.report_ids, read_only(columns.payloads)
    codes, rows = collection.protocol.counter.check(payloads), None
    if collection.slices:
        came_with = records.digest[which]
        payloads = with_slices(payloads, came_with if sizes is None else np.repeat(came_with, sizes))
    if codes.any():
        for code in CheckCode:
            bad = np.flatnonzero(codes == code)
            if code.reason is not None and bad.size:
                of, index = _owners(which, sizes, bad)
                columns_of = records.place[of], index, None, records.digest[of], records.epoch[of]
                admission.reject(key, Rejected(code.reason, source, *columns_of))
        if sizes is not None:
            bad = np.flatnonzero(codes)
            admission.repeated[key] += _repeated(ids[bad], _owners(which, sizes, bad)[0])
        rows = np.flatnonzero(codes == 0)
        ids, payloads = ids[rows], read_only(payloads[rows])
    if records.arrival is not None and ids.size:
        # Of the records first: there are fewer of them than reports, and hardly ever is one of them late.
        came_late = records.arrival[which] >= collection.closes(columns.epoch) * MICROS
        if came_late.any():
            late = np.repeat(came_late, 1 if sizes is None else sizes)
            late = late if rows is None else late[rows]
            admission.late[key] += int(late.sum())
            ids, payloads = ids[~late], read_only(payloads[~late])
    if ids.size:
        admission.admitted.append(ReportColumns(collection.digest, columns.epoch, ids, payloads))


def _owners(which: Ints, sizes: Ints | None, rows: Ints) -> tuple[Ints, Ints | None]:
    """The record that each of some reports came in, and its index there; None where it came by itself."""
    if sizes is None:
        return which[rows], None
    ends = np.cumsum(sizes)
    at = np.searchsorted(ends, rows, "right")
    return which[at], rows - (ends - sizes)[at]


def _repeated(ids: Uints, owners: Ints, limits: Ints | None = None) -> int:
    """How many of some refused reports in batches the error fraction passes over."""
    order = np.lexsort((ids, owners))
    ids, owners = ids[order], owners[order]
    first = np.ones(ids.size, bool)
    first[1:] = (ids[1:] != ids[:-1]) | (owners[1:] != owners[:-1])
    if limits is None:
        return int(ids.size - first.sum())
    distinct = np.bincount(owners[first], minlength=limits.size)
    return int(ids.size - np.minimum(distinct, np.maximum(limits, 1)).sum())


def _groups(column: NDArray[np.generic], chosen: Ints) -> Iterator[tuple[int, Ints]]:
    """(key, positions) for every distinct key at the chosen positions, which stay in order."""
    if chosen.size == 0:
        return
    keys = column[chosen]
    if (keys == keys[0]).all():
        yield int(keys[0]), chosen
        return
    order = np.argsort(keys, kind="stable")
    arranged = keys[order]
    edges = np.flatnonzero(arranged[1:] != arranged[:-1]) + 1
    for group in np.split(order, edges):
        yield int(keys[group[0]]), chosen[group]
