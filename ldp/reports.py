"""Stage 1 of 5, report: which records are admitted, and why the others are not. Total, pure, columnar.

A record is admitted when its digest names a known collection, its epoch is one of that collection's, and its
payload is one that a device with these parameters can send. Everything else becomes a :class:`Rejection`,
which says what, where and why and never carries a payload.

Where it is known when a record arrived, that decides whether its epoch was still open: a record that came
after the allowed lateness is late, however promptly it is processed, and one that came in time is not, even
if the pipeline stood still in between. Both follow from the record alone, so every runner decides alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ldp.accounting import Entry, Key
from ldp.collection import Collection, digest_hex
from ldp.errors import Reason
from ldp.kernels import framing
from ldp.protocols.base import CHECK_CODES, frozen_columns
from ldp.wire.codec import parse

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ldp.wire.codec import Batch, Frames, Rows

__all__ = [
    "LISTED",
    "Admission",
    "Rejection",
    "ReportColumns",
    "admit_batch",
    "admit_frames",
    "admit_rows",
]

LISTED = 100
"""Rejections of one kind in one piece of a source that are listed one by one; the rest share one.

A run given the wrong collection refuses every report there is, and must not hold an object for each.
"""

UNATTRIBUTED: Key = ("", None)

_EPOCH_AT_FAULT = frozenset({Reason.FOREIGN_EPOCH, Reason.FUTURE_EPOCH, Reason.RETIRED_COLLECTION})
"""Reasons that leave a record without an epoch to book it under: none of those is collected (yet)."""

_MICROS = 1_000_000


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
        """Where accounting books it: unknown digests and epochs not collected get no line of their own."""
        if self.reason is Reason.UNKNOWN_COLLECTION:
            return UNATTRIBUTED
        return (self.digest, None if self.reason in _EPOCH_AT_FAULT else self.epoch)


@dataclass
class Admission:
    """What became of some records.

    Attributes:
        admitted: columns per collection and epoch.
        rejections: everything else.
        read: records seen, by accounting key, counted before any payload is judged.
        late: sound reports that arrived when their epoch was closed; neither admitted nor rejected.
        refused: (reason, places) of all records with a rejection, also of those that are not listed.
    """

    admitted: list[ReportColumns] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)
    read: Counter[Key] = field(default_factory=Counter)
    late: Counter[Key] = field(default_factory=Counter)
    refused: list[tuple[Reason, NDArray[np.int64]]] = field(default_factory=list)

    def reject_source(self, reason: Reason, source: str, place: int = -1, count: int = 1) -> None:
        """Book something that is no report at all as records read and refused."""
        self.refused.append((reason, np.array([place])))
        self._book(reason, source, place, count)

    def _book(self, reason: Reason, source: str, place: int, count: int = 1) -> None:
        self.read[UNATTRIBUTED] += count
        self.rejections.append(Rejection(reason, source, place, count=count))

    def reject_places(self, reason: Reason, source: str, places: NDArray[np.int64]) -> None:
        """Book records that are no report at all, by their places; see :data:`LISTED`."""
        self.refused.append((reason, places))
        for place in places[:LISTED]:
            self._book(reason, source, int(place))
        if places.size > LISTED:
            self._book(reason, source, int(places[LISTED]), places.size - LISTED)

    def entries(self) -> Iterator[Entry]:
        """Everything but what was admitted, as lines for the books."""
        for key, count in self.read.items():
            yield (key, "read"), count
        for key, count in self.late.items():
            if count:
                yield (key, "late"), count
        refused: Counter[tuple[Key, str]] = Counter()
        for rejection in self.rejections:
            refused[rejection.key, f"rejected.{rejection.reason.value}"] += rejection.count
        yield from refused.items()


def _epoch_at_fault(collection: Collection, epoch: int, arrival: int | None = None) -> Reason | None:
    """Why reports of an epoch are not taken, whatever they hold."""
    if not collection.epochs.contains(epoch):
        return Reason.FOREIGN_EPOCH
    if collection.retired is not None and collection.epochs.start(epoch) >= collection.retired:
        return Reason.RETIRED_COLLECTION
    if arrival is not None and arrival < collection.opens(epoch) * _MICROS:
        return Reason.FUTURE_EPOCH
    return None


def admit_frames(
    found: Frames,
    collections: Mapping[int, Collection],
    source: str,
    into: Admission,
    base: int = 0,
    arrivals: NDArray[np.int64] | None = None,
) -> None:
    """Judge records, whatever their bytes; ``base`` and ``arrivals`` as in :func:`ldp.wire.codec.parse`."""
    rows, batches, malformed = parse(found, base, arrivals)
    into.reject_places(Reason.MALFORMED, source, malformed)
    for batch in batches:
        admit_batch(batch, collections, source, into)
    admit_rows(rows, collections, source, into)


def admit_batch(batch: Batch, collections: Mapping[int, Collection], source: str, into: Admission) -> None:
    """Judge one ReportBatch; reports in it are admitted one by one once its columns fit together."""
    ids = batch.report_ids
    n = ids.size
    if batch.count != n:
        into.reject_source(Reason.MALFORMED, source, batch.place)
        return
    collection = collections.get(batch.digest)
    at_fault = _epoch_at_fault(collection, batch.epoch, batch.arrival) if collection else None
    # Only epochs that can be collected get a line of their own, so junk cannot grow the books.
    key = (collection.digest_hex, None if at_fault else batch.epoch) if collection else UNATTRIBUTED
    # A batch without reports is still a record that was read.
    into.read[key] += max(n, 1)

    def refuse(reason: Reason, count: int, index: int = -1) -> None:
        digest = digest_hex(batch.digest)
        into.rejections.append(Rejection(reason, source, batch.place, index, count, digest, batch.epoch))
        into.refused.append((reason, np.array([batch.place])))

    if collection is None:
        refuse(Reason.UNKNOWN_COLLECTION, max(n, 1))
    elif at_fault:
        refuse(at_fault, max(n, 1))
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
        if batch.arrival is not None and batch.arrival >= collection.closes(batch.epoch) * _MICROS:
            into.late[key] += ids.size
        elif ids.size:
            into.admitted.append(ReportColumns(batch.digest, batch.epoch, ids, payloads))


def admit_rows(rows: Rows, collections: Mapping[int, Collection], source: str, into: Admission) -> None:
    """Judge single reports, gathering those of one collection and epoch into columns."""
    known = np.isin(rows.digest, np.array(list(collections), np.uint64))
    if not known.all():
        strange = np.flatnonzero(~known)
        into.read[UNATTRIBUTED] += strange.size
        _singles(Reason.UNKNOWN_COLLECTION, source, rows, strange, into)
    for digest, chosen in _groups(rows.digest, np.flatnonzero(known)):
        collection = collections[digest]
        width = collection.protocol.payload_size
        epochs = rows.epoch[chosen]
        # Epochs of no collection are many (they are anybody's numbers), so they are told apart at once.
        planned = (epochs >= 0) & (epochs < collection.epochs.count)
        _outside(Reason.FOREIGN_EPOCH, collection, rows, chosen[~planned], source, into)
        for epoch, everyone in _groups(rows.epoch, chosen[planned]):
            group = everyone
            if reason := _epoch_at_fault(collection, epoch):
                _outside(reason, collection, rows, everyone, source, into)
                continue
            if rows.arrival is not None:
                early = rows.arrival[everyone] < collection.opens(epoch) * _MICROS
                _outside(Reason.FUTURE_EPOCH, collection, rows, everyone[early], source, into)
                group = everyone[~early]
                if not group.size:
                    continue  # no line in the books for an epoch that nothing was taken of
            key = (collection.digest_hex, epoch)
            into.read[key] += group.size
            fits = rows.payload_length[group] == width
            _singles(Reason.WRONG_LENGTH, source, rows, group[~fits], into)
            some = group[fits]
            payloads = np.empty((some.size, width), np.uint8)
            framing.gather(rows.buffer, rows.payload_at[some], payloads)
            codes = collection.protocol.check(payloads)
            if codes.any():
                for reason, bad in _refused(codes):
                    _singles(reason, source, rows, some[bad], into)
                some, payloads = some[codes == 0], payloads[codes == 0]
            if rows.arrival is not None:
                late = rows.arrival[some] >= collection.closes(epoch) * _MICROS
                if late.any():
                    into.late[key] += int(late.sum())
                    some, payloads = some[~late], payloads[~late]
            if some.size:
                into.admitted.append(
                    ReportColumns(digest, epoch, rows.report_id[some], frozen_columns(payloads))
                )


def _outside(
    reason: Reason,
    collection: Collection,
    rows: Rows,
    which: NDArray[np.int64],
    source: str,
    into: Admission,
) -> None:
    """Reject reports whose epoch is not collected."""
    if which.size:
        into.read[collection.digest_hex, None] += which.size
        _singles(reason, source, rows, which, into)


def _refused(codes: NDArray[np.uint8]) -> Iterator[tuple[Reason, NDArray[np.int64]]]:
    """(reason, positions) for every reason there is to refuse a payload, from a protocol's check."""
    for code, reason in enumerate(CHECK_CODES):
        if reason is not None:
            yield reason, np.flatnonzero(codes == code)


def _singles(reason: Reason, source: str, rows: Rows, which: NDArray[np.int64], into: Admission) -> None:
    """One rejection per record, since each has its own place; one for those beyond :data:`LISTED`."""
    if not which.size:
        return
    into.refused.append((reason, rows.place[which]))
    listed, rest = which[:LISTED], which[LISTED:]
    for i in listed:
        digest, epoch = digest_hex(int(rows.digest[i])), int(rows.epoch[i])
        into.rejections.append(Rejection(reason, source, int(rows.place[i]), digest=digest, epoch=epoch))
    if rest.size:
        digests, epochs = rows.digest[rest], rows.epoch[rest]
        into.rejections.append(
            Rejection(
                reason,
                source,
                int(rows.place[rest].min()),
                count=rest.size,
                digest=digest_hex(int(digests[0])) if (digests == digests[0]).all() else "",
                epoch=int(epochs[0]) if (epochs == epochs[0]).all() else None,
            )
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
