"""Stage 1 of 5, report: which records are admitted, and why the others are not. Total, pure, columnar.

A record is admitted when its digest names a known collection, its epoch is one of that collection's, and its
payload is one that a device with these parameters can send. Everything else becomes a :class:`Rejection`,
which says what, where and why and never carries a payload.

Where it is known when a record arrived, that decides whether its epoch was still open: a record that came
after the allowed lateness is late, however promptly it is processed, and one that came in time is not, even
if the pipeline stood still in between. Both follow from the record alone, so every runner decides alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from ldpbeam.accounting import Key
from ldpbeam.admission import LISTED, UNATTRIBUTED, Admission, Rejected, Rejection, ReportColumns, capped
from ldpbeam.collection.collection import Collection
from ldpbeam.errors import Reason
from ldpbeam.kernels import framing
from ldpbeam.kernels.check_codes import CheckCode
from ldpbeam.kernels.columns import read_only
from ldpbeam.wire.codec import Batches, parse

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ldpbeam.wire.codec import Batch, Frames, Rows

__all__ = [
    "LISTED",
    "Admission",
    "Rejection",
    "ReportColumns",
    "admit_batch",
    "admit_batches",
    "admit_frames",
    "admit_rows",
    "capped",
    "epoch_at_fault",
]

_SMALL = 1024
"""Batches of fewer reports are judged together with others, larger ones by themselves, without a copy."""

_MICROS = 1_000_000


def epoch_at_fault(collection: Collection, epoch: int, written_by: int | None = None) -> Reason | None:
    """Why reports of an epoch are not taken, whatever they hold and whenever they arrived."""
    if not collection.epochs.contains(epoch):
        return Reason.FOREIGN_EPOCH
    if collection.retired is not None and collection.epochs.start(epoch) >= collection.retired:
        return Reason.RETIRED_COLLECTION
    if written_by is not None and written_by < collection.opens(epoch) * _MICROS:
        return Reason.FUTURE_EPOCH
    return None


def admit_frames(
    found: Frames,
    collections: Mapping[int, Collection],
    source: str,
    admission: Admission,
    base: int = 0,
    arrivals: NDArray[np.int64] | None = None,
) -> None:
    """Judge records, whatever their bytes; ``base``, ``arrivals`` as in :func:`ldpbeam.wire.codec.parse`."""
    rows, batches, malformed = parse(found, base, arrivals)
    admission.reject_places(Reason.MALFORMED, source, malformed)
    admit_batches(batches, collections, source, admission)
    admit_rows(rows, collections, source, admission)


def admit_batch(
    batch: Batch, collections: Mapping[int, Collection], source: str, admission: Admission
) -> None:
    """Judge one ReportBatch, as :func:`admit_batches` does."""
    one = np.ones(1, np.int64)
    batches = Batches(
        digest=np.array([batch.digest], np.uint64),
        epoch=np.array([batch.epoch], np.int64),
        count=np.array([batch.count], np.uint64),
        buffer=np.ascontiguousarray(batch.payloads),
        scattered=np.ascontiguousarray(batch.report_ids).view(np.uint8),
        in_parts=np.ones(1, bool),
        ids_at=0 * one,
        ids_length=8 * batch.report_ids.size * one,
        payloads_at=0 * one,
        payloads_length=batch.payloads.size * one,
        place=batch.place * one,
        arrival=None if batch.arrival is None else batch.arrival * one,
    )
    admit_batches(batches, collections, source, admission)


def admit_batches(
    batches: Batches, collections: Mapping[int, Collection], source: str, admission: Admission
) -> None:
    """Judge ReportBatch messages; the reports in one are judged one by one once its columns fit together.

    Small batches of a collection and epoch are judged together: they cost as much as reports by themselves.
    """
    if not len(batches):
        return
    n = batches.ids_length >> 3
    sizes = np.maximum(n, 1)  # a batch without reports is still a record that was read
    agree = batches.count == n.astype(np.uint64)
    admission.reject_places(Reason.MALFORMED, source, batches.place[~agree])
    known = np.isin(batches.digest, np.array(list(collections), np.uint64))

    def refuse(key: Key, reason: Reason, which: NDArray[np.int64], *, read: bool = True) -> None:
        if not which.size:
            return
        if read:
            admission.read[key] += int(sizes[which].sum())
        columns = (batches.place[which], None, sizes[which], batches.digest[which], batches.epoch[which])
        admission.reject(key, Rejected(reason, source, *columns))

    refuse(UNATTRIBUTED, Reason.UNKNOWN_COLLECTION, np.flatnonzero(agree & ~known))
    for digest, chosen in _groups(batches.digest, np.flatnonzero(agree & known)):
        collection = collections[digest]
        width = collection.protocol.payload_size
        nowhere: Key = (collection.digest_hex, None)
        epochs = batches.epoch[chosen]
        # Only epochs that can be collected have an account of their own, so junk cannot grow the accounting.
        planned = (epochs >= 0) & (epochs < collection.epochs.count)
        refuse(nowhere, Reason.FOREIGN_EPOCH, chosen[~planned])
        for epoch, everyone in _groups(batches.epoch, chosen[planned]):
            group = everyone
            if reason := epoch_at_fault(collection, epoch, admission.written_by):
                refuse(nowhere, reason, everyone)
                continue
            if batches.arrival is not None:
                early = batches.arrival[everyone] < collection.opens(epoch) * _MICROS
                refuse(nowhere, Reason.FUTURE_EPOCH, everyone[early])
                group = everyone[~early]
                if not group.size:
                    continue
            key: Key = (collection.digest_hex, epoch)
            admission.read[key] += int(sizes[group].sum())
            empty = n[group] == 0
            refuse(key, Reason.MALFORMED, group[empty], read=False)
            group = group[~empty]
            fits = batches.payloads_length[group] == n[group] * width
            wrong = group[~fits]
            if wrong.size:
                refuse(key, Reason.WRONG_LENGTH, wrong, read=False)
                sizes_of = (batches.ids_length[wrong] + batches.payloads_length[wrong]) // (8 + width)
                owners = np.repeat(np.arange(wrong.size), n[wrong])
                admission.repeated[key] += _repeated(batches.ids_together(wrong), owners, sizes_of)
            group = group[fits]
            small = n[group] < _SMALL
            shares = [group[i : i + 1] for i in np.flatnonzero(~small)]
            if small.any():
                shares.append(group[small])
            for share in shares:
                _admit_reports_of(batches, share, collection, epoch, source, admission)


def _admit_reports_of(
    batches: Batches,
    which: NDArray[np.int64],
    collection: Collection,
    epoch: int,
    source: str,
    admission: Admission,
) -> None:
    """Judge the reports of batches whose columns fit together."""
    if which.size == 1:
        batch = batches[int(which[0])]
        ids, payloads = batch.report_ids, batch.payloads
        sizes = np.array([ids.size])
    else:
        ids, payloads = batches.ids_together(which), batches.payloads_together(which)
        sizes = batches.ids_length[which] >> 3

    def owner(rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Which batch a report is in, and its index there."""
        ends = np.cumsum(sizes)
        at = np.searchsorted(ends, rows, "right")
        return which[at], rows - (ends - sizes)[at]

    def listed(reason: Reason, rows: NDArray[np.int64]) -> Rejected:
        of, index = owner(rows)
        return Rejected(
            reason, source, batches.place[of], index, digests=batches.digest[of], epochs=batches.epoch[of]
        )

    def arrivals(rows: NDArray[np.int64]) -> NDArray[np.int64]:
        assert batches.arrival is not None  # noqa: S101 - asked only where it is known
        return batches.arrival[owner(rows)[0]]

    shaped = payloads.reshape(ids.size, -1)
    known = None if batches.arrival is None else arrivals
    _admit_columns(collection, epoch, ids, shaped, listed, known, admission, lambda rows: owner(rows)[0])


def _admit_columns(
    collection: Collection,
    epoch: int,
    ids: NDArray[np.uint64],
    payloads: NDArray[np.uint8],
    listed: Callable[[Reason, NDArray[np.int64]], Rejected],
    arrivals: Callable[[NDArray[np.int64]], NDArray[np.int64]] | None,
    admission: Admission,
    owners: Callable[[NDArray[np.int64]], NDArray[np.int64]] | None = None,
) -> None:
    """Judge the payloads of reports that are of one collection and epoch, and hand the sound ones on.

    Args:
        collection, epoch: theirs.
        ids, payloads: uint64 (n,), uint8 (n, width).
        listed: makes the rejection of rows.
        arrivals: int64, microseconds since 1970, of rows; None where nobody knows.
        admission: where all this goes.
        owners: which batch rows are in; None for reports that came by themselves.
    """
    if not ids.size:
        return
    key: Key = (collection.digest_hex, epoch)
    payloads = read_only(payloads)
    codes = collection.protocol.check(payloads)
    rows = None
    if codes.any():
        for reason, bad in _refused(codes):
            if bad.size:
                admission.reject(key, listed(reason, bad))
        rows = np.flatnonzero(codes == 0)
        if owners is not None:
            admission.repeated[key] += _repeated(ids[codes != 0], owners(np.flatnonzero(codes)))
        ids, payloads = ids[rows], read_only(payloads[rows])
    if arrivals is not None and ids.size:
        at = arrivals(np.arange(ids.size) if rows is None else rows)
        late = at >= collection.closes(epoch) * _MICROS
        if late.any():
            admission.late[key] += int(late.sum())
            ids, payloads = ids[~late], read_only(payloads[~late])
    if ids.size:
        admission.admitted.append(ReportColumns(collection.digest, epoch, ids, payloads))


def admit_rows(rows: Rows, collections: Mapping[int, Collection], source: str, admission: Admission) -> None:
    """Judge single reports, gathering those of one collection and epoch into columns."""
    known = np.isin(rows.digest, np.array(list(collections), np.uint64))
    if not known.all():
        unknown = np.flatnonzero(~known)
        admission.read[UNATTRIBUTED] += unknown.size
        admission.reject(UNATTRIBUTED, _singles(Reason.UNKNOWN_COLLECTION, source, rows, unknown))
    for digest, chosen in _groups(rows.digest, np.flatnonzero(known)):
        collection = collections[digest]
        width = collection.protocol.payload_size
        epochs = rows.epoch[chosen]
        # Epochs of no collection are many (they are anybody's numbers), so they are told apart at once.
        planned = (epochs >= 0) & (epochs < collection.epochs.count)
        _outside(Reason.FOREIGN_EPOCH, collection, rows, chosen[~planned], source, admission)
        for epoch, everyone in _groups(rows.epoch, chosen[planned]):
            group = everyone
            if reason := epoch_at_fault(collection, epoch, admission.written_by):
                _outside(reason, collection, rows, everyone, source, admission)
                continue
            if rows.arrival is not None:
                early = rows.arrival[everyone] < collection.opens(epoch) * _MICROS
                _outside(Reason.FUTURE_EPOCH, collection, rows, everyone[early], source, admission)
                group = everyone[~early]
                if not group.size:
                    continue  # no account for an epoch that nothing was taken of
            key = (collection.digest_hex, epoch)
            admission.read[key] += group.size
            fits = rows.payload_length[group] == width
            if not fits.all():
                wrong = group[~fits]
                admission.reject(key, _singles(Reason.WRONG_LENGTH, source, rows, wrong))
            some = group[fits]
            payloads = np.empty((some.size, width), np.uint8)
            framing.gather(rows.buffer, rows.payload_at[some], payloads)
            _admit_group(collection, epoch, rows, some, payloads, source, admission)


def _admit_group(
    collection: Collection,
    epoch: int,
    rows: Rows,
    some: NDArray[np.int64],
    payloads: NDArray[np.uint8],
    source: str,
    admission: Admission,
) -> None:
    """Single reports of one collection and epoch whose payloads have the right length."""
    arrival = rows.arrival

    def listed(reason: Reason, which: NDArray[np.int64]) -> Rejected:
        return _singles(reason, source, rows, some[which])

    def arrivals(which: NDArray[np.int64]) -> NDArray[np.int64]:
        assert arrival is not None  # noqa: S101 - asked only where it is known
        return arrival[some[which]]

    known = None if arrival is None else arrivals
    _admit_columns(collection, epoch, rows.report_id[some], payloads, listed, known, admission)


def _repeated(
    ids: NDArray[np.uint64], owners: NDArray[np.int64], limits: NDArray[np.int64] | None = None
) -> int:
    """How many of some refused reports in batches the error fraction passes over.

    What is refused of a batch counts against an epoch like as many reports as could have been sent with so
    many distinct ids in so many bytes; else eight bytes without a payload, or a compressed batch of one id,
    would do as much harm as thousands of devices. Each batch is weighed by itself, so that the sum does not
    depend on what is judged together.

    Args:
        ids: uint64 (n,).
        owners: int64 (n,), which batch each is in; 0..b−1 in order where there are limits.
        limits: int64 (b,), how many reports the bytes of each could have been.
    """
    order = np.lexsort((ids, owners))
    ids, owners = ids[order], owners[order]
    first = np.ones(ids.size, bool)
    first[1:] = (ids[1:] != ids[:-1]) | (owners[1:] != owners[:-1])
    if limits is None:
        return int(ids.size - first.sum())
    distinct = np.bincount(owners[first], minlength=limits.size)
    return int(ids.size - np.minimum(distinct, np.maximum(limits, 1)).sum())


def _outside(
    reason: Reason,
    collection: Collection,
    rows: Rows,
    which: NDArray[np.int64],
    source: str,
    admission: Admission,
) -> None:
    """Reject reports whose epoch is not collected."""
    if which.size:
        key: Key = (collection.digest_hex, None)
        admission.read[key] += which.size
        admission.reject(key, _singles(reason, source, rows, which))


def _refused(codes: NDArray[np.uint8]) -> Iterator[tuple[Reason, NDArray[np.int64]]]:
    """(reason, positions) for every reason there is to refuse a payload, from a protocol's check."""
    for code in CheckCode:
        if code.reason is not None:
            yield code.reason, np.flatnonzero(codes == code)


def _singles(reason: Reason, source: str, rows: Rows, which: NDArray[np.int64]) -> Rejected:
    """Single reports refused: each has its own place."""
    return Rejected(reason, source, rows.place[which], None, None, rows.digest[which], rows.epoch[which])


def _groups(
    column: NDArray[np.generic], chosen: NDArray[np.int64]
) -> Iterator[tuple[int, NDArray[np.int64]]]:
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
