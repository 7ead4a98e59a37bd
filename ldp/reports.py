"""Stage 1 of 5, report: which records are admitted, and why the others are not. Total, pure, columnar.

A record is admitted when its digest names a known collection, its epoch is one of that collection's, and its
payload is one that a device with these parameters can send. Everything else becomes a :class:`Rejection`,
which says what, where and why and never carries a payload.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ldp.collection import Collection, digest_hex
from ldp.errors import Reason
from ldp.kernels import framing
from ldp.protocols.base import CHECK_CODES, frozen_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ldp.wire.codec import Batch, Rows

__all__ = [
    "LISTED",
    "Admission",
    "Key",
    "Rejection",
    "ReportColumns",
    "admit_batch",
    "admit_rows",
]

LISTED = 100
"""Rejections of one kind in one piece of a source that are listed one by one; the rest share one.

A run given the wrong collection refuses every report there is, and must not hold an object for each.
"""

Key = tuple[str, int | None]
"""What accounting is kept by: digest (empty when unknown) and epoch (None when unknown)."""

UNATTRIBUTED: Key = ("", None)


@dataclass(frozen=True, eq=False)
class ReportColumns:
    """Admitted reports of one collection and one epoch.

    Attributes:
        digest: the collection's.
        epoch: index.
        report_ids: uint64 (n,).
        payloads: uint8 (n, payload_size), read-only.
    """

    digest: int
    epoch: int
    report_ids: NDArray[np.uint64]
    payloads: NDArray[np.uint8]

    def __len__(self) -> int:
        """Number of reports."""
        return len(self.payloads)


@dataclass(frozen=True)
class Rejection:
    """Records that were not counted, for one reason, in one place.

    Attributes:
        reason: why.
        source: file, or where the record came from.
        place: position in the source: byte offset of the record, or row of a table; -1 for the source
            itself. The first one when several records are concerned.
        index: first report concerned inside a batch; -1 when the record as a whole is.
        count: reports concerned.
        digest: 16 hexadecimal digits, or empty (also when the records concerned differ).
        epoch: as the record says, or None (also when the records concerned differ).
    """

    reason: Reason
    source: str
    place: int
    index: int = -1
    count: int = 1
    digest: str = ""
    epoch: int | None = None

    @property
    def key(self) -> Key:
        """Where accounting books it: unknown digests and foreign epochs get no line of their own."""
        if self.reason is Reason.UNKNOWN_COLLECTION:
            return UNATTRIBUTED
        return (self.digest, None if self.reason is Reason.FOREIGN_EPOCH else self.epoch)


@dataclass
class Admission:
    """What became of some records.

    Attributes:
        admitted: columns per collection and epoch.
        rejections: everything else.
        read: records seen, by accounting key, counted before any of them is judged.
    """

    admitted: list[ReportColumns] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)
    read: Counter[Key] = field(default_factory=Counter)

    def reject_source(self, reason: Reason, source: str, place: int = -1, count: int = 1) -> None:
        """Book something that is no report at all as records read and refused."""
        self.read[UNATTRIBUTED] += count
        self.rejections.append(Rejection(reason, source, place, count=count))

    def reject_places(self, reason: Reason, source: str, places: NDArray[np.int64]) -> None:
        """Book records that are no report at all, by their places; see :data:`LISTED`."""
        for place in places[:LISTED]:
            self.reject_source(reason, source, int(place))
        if places.size > LISTED:
            self.reject_source(reason, source, int(places[LISTED]), places.size - LISTED)


def _key(collection: Collection | None, digest: int, epoch: int) -> Key:
    """Only planned epochs of known collections get a line of their own, so junk cannot grow the books."""
    if collection is None:
        return UNATTRIBUTED
    return (collection.digest_hex, epoch if collection.epochs.contains(epoch) else None)


def admit_batch(batch: Batch, collections: Mapping[int, Collection], source: str, into: Admission) -> None:
    """Judge one ReportBatch; reports in it are admitted one by one once its columns fit together."""
    ids = batch.report_ids
    n = ids.size
    if batch.count != n:
        into.reject_source(Reason.MALFORMED, source, batch.place)
        return
    collection = collections.get(batch.digest)
    key = _key(collection, batch.digest, batch.epoch)
    # A batch without reports is still a record that was read.
    into.read[key] += max(n, 1)

    def refuse(reason: Reason, count: int, index: int = -1) -> None:
        digest = digest_hex(batch.digest)
        into.rejections.append(Rejection(reason, source, batch.place, index, count, digest, batch.epoch))

    if collection is None:
        refuse(Reason.UNKNOWN_COLLECTION, max(n, 1))
    elif not collection.epochs.contains(batch.epoch):
        refuse(Reason.FOREIGN_EPOCH, max(n, 1))
    elif n == 0:
        refuse(Reason.MALFORMED, 1)
    elif batch.payloads.size != n * collection.protocol.payload_size:
        refuse(Reason.WRONG_LENGTH, n)
    else:
        payloads = frozen_columns(batch.payloads.reshape(n, -1))
        codes = collection.protocol.check(payloads)
        if codes.any():
            for reason, bad in _refused(codes):
                for i in bad[:LISTED]:
                    refuse(reason, 1, int(i))
                if bad.size > LISTED:
                    refuse(reason, bad.size - LISTED, int(bad[LISTED]))
            sound = codes == 0
            ids, payloads = ids[sound], frozen_columns(payloads[sound])
        if ids.size:
            into.admitted.append(ReportColumns(batch.digest, batch.epoch, ids, payloads))


def admit_rows(rows: Rows, collections: Mapping[int, Collection], source: str, into: Admission) -> None:
    """Judge single reports, gathering those of one collection and epoch into columns."""
    known = np.isin(rows.digest, np.array(list(collections), np.uint64))
    if not known.all():
        strange = np.flatnonzero(~known)
        into.read[UNATTRIBUTED] += strange.size
        into.rejections.extend(_single(Reason.UNKNOWN_COLLECTION, source, rows, strange))
    for digest, chosen in _groups(rows.digest, np.flatnonzero(known)):
        collection = collections[digest]
        width = collection.protocol.payload_size
        epochs = rows.epoch[chosen]
        planned = (epochs >= 0) & (epochs < collection.epochs.count)
        if not planned.all():
            strange = chosen[~planned]
            into.read[collection.digest_hex, None] += strange.size
            into.rejections.extend(_single(Reason.FOREIGN_EPOCH, source, rows, strange))
        for epoch, group in _groups(rows.epoch, chosen[planned]):
            into.read[collection.digest_hex, epoch] += group.size
            fits = rows.payload_length[group] == width
            into.rejections.extend(_single(Reason.WRONG_LENGTH, source, rows, group[~fits]))
            some = group[fits]
            payloads = np.empty((some.size, width), np.uint8)
            framing.gather(rows.buffer, rows.payload_at[some], payloads)
            codes = collection.protocol.check(payloads)
            if codes.any():
                for reason, bad in _refused(codes):
                    into.rejections.extend(_single(reason, source, rows, some[bad]))
                some, payloads = some[codes == 0], payloads[codes == 0]
            if some.size:
                into.admitted.append(
                    ReportColumns(digest, epoch, rows.report_id[some], frozen_columns(payloads))
                )


def _refused(codes: NDArray[np.uint8]) -> Iterator[tuple[Reason, NDArray[np.int64]]]:
    """(reason, positions) for every reason there is to refuse a payload, from a protocol's check."""
    for code, reason in enumerate(CHECK_CODES):
        if reason is not None:
            yield reason, np.flatnonzero(codes == code)


def _single(reason: Reason, source: str, rows: Rows, which: NDArray[np.int64]) -> Iterator[Rejection]:
    """One rejection per record, since each has its own place; one for those beyond :data:`LISTED`."""
    listed, rest = which[:LISTED], which[LISTED:]
    for i in listed:
        digest, epoch = digest_hex(int(rows.digest[i])), int(rows.epoch[i])
        yield Rejection(reason, source, int(rows.place[i]), digest=digest, epoch=epoch)
    if rest.size:
        digests, epochs = rows.digest[rest], rows.epoch[rest]
        yield Rejection(
            reason,
            source,
            int(rows.place[rest].min()),
            count=rest.size,
            digest=digest_hex(int(digests[0])) if (digests == digests[0]).all() else "",
            epoch=int(epochs[0]) if (epochs == epochs[0]).all() else None,
        )


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
