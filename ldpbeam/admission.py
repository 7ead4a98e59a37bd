"""What stage 1 says about records: admitted columns, rejections, and their accounting entries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ldpbeam.accounting import Entry, Key
from ldpbeam.arrays import Bytes, Ints, Uints, read_only
from ldpbeam.collection.collection import Collection, digest_hex
from ldpbeam.errors import Reason
from ldpbeam.slice_support import SLICE_BYTES, digests_in
from ldpbeam.wire import report_pb2
from ldpbeam.wire.codec import varint

LISTED = 100
"""Rejections of one kind in one source that are listed one by one; the rest share one.

A run given the wrong collection refuses every report there is, and must not hold an object for each.
"""

UNATTRIBUTED: Key = ("", None)
"""Key of the accounting of records that name no known collection."""


MICROS = 1_000_000
"""Of a second."""


@dataclass(frozen=True)
class Written:
    """When some records had been written, microseconds since 1970."""

    by: int
    read: int | None = None

    def before(self, collection: Collection, epoch: int) -> bool:
        """Whether no report of the epoch can be among them, since they had been written before it began."""
        by = self.by
        if self.read is not None and by < collection.opens(0) * MICROS:
            by = self.read
        return by < collection.opens(epoch) * MICROS


@dataclass(frozen=True, eq=False)
class ReportColumns:
    """Admitted reports of one collection and epoch; slices as :func:`ldpbeam.slice_support.with_slices`."""

    digest: int
    epoch: int
    report_ids: Uints
    payloads: Bytes

    def __len__(self) -> int:
        return len(self.payloads)


def as_sent(collection: Collection, columns: ReportColumns) -> list[ReportColumns]:
    """Admitted columns as devices sent them: for each digest the plain payloads, in the order they had."""
    if not collection.slices:
        return [columns]
    width = columns.payloads.shape[1] - SLICE_BYTES
    digests = digests_in(read_only(columns.payloads))
    sent = []
    for digest in np.unique(digests):
        rows = np.flatnonzero(digests == digest)
        payloads = read_only(np.ascontiguousarray(columns.payloads[rows, :width]))
        sent.append(ReportColumns(int(digest), columns.epoch, columns.report_ids[rows], payloads))
    return sent


class Parts(tuple[ReportColumns, ...]):
    """Columns of one collection and epoch, at least one part of them, which lie where they were read."""

    __slots__ = ()


def by_epoch(columns: Iterable[ReportColumns]) -> list[Parts]:
    """The columns of each collection and epoch, in the order in which they come."""
    groups: dict[tuple[int, int], list[ReportColumns]] = {}
    for each in columns:
        groups.setdefault((each.digest, each.epoch), []).append(each)
    return list(map(Parts, groups.values()))


def put_together(parts: Sequence[ReportColumns]) -> ReportColumns:
    """Copies of all parts end to end, aligned; one collection and epoch, at least one part."""
    ids = np.concatenate([part.report_ids for part in parts])
    payloads = np.concatenate([part.payloads for part in parts])
    return ReportColumns(parts[0].digest, parts[0].epoch, ids, read_only(payloads))


def batch_message(columns: ReportColumns, arrival: int | None = None) -> bytes:
    """Columns as a ``ReportBatch``, byte for byte as protobuf writes it."""
    # Fields stand in the order of their numbers; each mark is a number with its wire type (report.proto).
    head = report_pb2.ReportBatch(digest=columns.digest, epoch=columns.epoch, count=len(columns))
    ids = np.ascontiguousarray(columns.report_ids, "<u8").tobytes()
    payloads = columns.payloads.tobytes()
    parts = [head.SerializeToString(), b"\x32", varint(len(ids)), ids]
    parts += [b"\x3a", varint(len(payloads)), payloads]
    if arrival is not None:
        parts += [b"\x40", varint(arrival)]
    return b"".join(parts)


@dataclass(frozen=True)
class Rejection:
    """Records that were not counted, for one reason, in one place."""

    reason: Reason
    source: str
    place: int
    index: int = -1
    count: int = 1
    digest: str = ""
    epoch: int | None = None
    missing: int | None = None
    detail: str = ""

    @property
    def explanation(self) -> str:
        """One sentence for a person: what happened and what usually mends it."""
        return self.detail or self.reason.explanation


def capped(rejections: Iterable[Rejection]) -> list[Rejection]:
    """The first :data:`LISTED` rejections of one reason and source, and one for all that follow."""
    ordered = sorted(rejections, key=lambda r: (r.place, r.index, r.count, r.digest, r.epoch or 0))
    listed, rest = ordered[:LISTED], ordered[LISTED:]
    if len(rest) > 1:
        first = rest[0]
        digests, epochs = {r.digest for r in rest}, {r.epoch for r in rest}
        together = replace(
            first,
            index=first.index if all(r.place == first.place for r in rest) else -1,
            count=sum(r.count for r in rest),
            digest=first.digest if len(digests) == 1 else "",
            epoch=first.epoch if len(epochs) == 1 else None,
            missing=None,
        )
        rest = [together]
    return listed + rest


@dataclass(frozen=True, eq=False)
class Rejected:
    """Records rejected for one reason, as columns of shape (n,); one that is None has nothing to say."""

    reason: Reason
    source: str
    places: Ints
    indices: Ints | None = None
    counts: Ints | None = None
    digests: Uints | None = None
    epochs: Ints | None = None
    missing: Ints | None = None
    detail: str = ""

    def first(self) -> list[Rejection]:
        """As rejections, see :func:`capped`."""
        order = np.arange(self.places.size)
        if self.places.size > LISTED:
            keys = (self.places,) if self.indices is None else (self.indices, self.places)
            order = np.lexsort(keys)
        listed, rest = order[:LISTED], order[LISTED:]
        samples = [self._one(int(i)) for i in listed]
        if rest.size:
            together = self._one(int(rest[0]))
            if rest.size > 1:
                together = replace(
                    together,
                    index=together.index if (self.places[rest] == together.place).all() else -1,
                    count=rest.size if self.counts is None else int(self.counts[rest].sum()),
                    digest=together.digest if _all_equal(self.digests, rest) else "",
                    epoch=together.epoch if _all_equal(self.epochs, rest) else None,
                )
            samples.append(together)
        return samples

    def _one(self, i: int) -> Rejection:
        return Rejection(
            self.reason,
            self.source,
            int(self.places[i]),
            -1 if self.indices is None else int(self.indices[i]),
            1 if self.counts is None else int(self.counts[i]),
            "" if self.digests is None else digest_hex(int(self.digests[i])),
            None if self.epochs is None else int(self.epochs[i]),
            None if self.missing is None else int(self.missing[i]),
            self.detail,
        )


def _all_equal(column: NDArray[np.generic] | None, which: Ints) -> bool:
    return column is None or bool((column[which] == column[which[0]]).all())


@dataclass
class Admission:
    """What became of some records."""

    admitted: list[ReportColumns] = field(default_factory=list)
    read: Counter[Key] = field(default_factory=Counter)
    late: Counter[Key] = field(default_factory=Counter)
    rejected: Counter[tuple[Key, Reason]] = field(default_factory=Counter)
    repeated: Counter[Key] = field(default_factory=Counter)
    written_by: Written | None = None
    _rejected: list[Rejected] = field(default_factory=list)

    @property
    def rejected_places(self) -> list[tuple[Reason, Ints]]:
        """(reason, places) of all records with a rejection, also of those that are not listed."""
        return [(each.reason, each.places) for each in self._rejected]

    @property
    def rejections(self) -> list[Rejection]:
        """What was rejected, as :func:`capped` lists it for each source and reason."""
        by_reason: dict[tuple[str, Reason], list[Rejection]] = {}
        for each in self._rejected:
            held = by_reason.setdefault((each.source, each.reason), [])
            held += each.first()
            if len(held) > 8 * LISTED:
                held[:] = capped(held)
        return [one for held in by_reason.values() for one in (capped(held) if len(held) > 1 else held)]

    def reject_source(
        self,
        reason: Reason,
        source: str,
        place: int = -1,
        count: int = 1,
        missing: int | None = None,
        detail: str = "",
    ) -> None:
        """Count something that is no report at all as records read and rejected."""
        self.read[UNATTRIBUTED] += count
        lacking = None if missing is None else np.array([missing])
        rejected = Rejected(
            reason, source, np.array([place]), counts=np.array([count]), missing=lacking, detail=detail
        )
        self.reject(UNATTRIBUTED, rejected)

    def reject_places(self, reason: Reason, source: str, places: Ints) -> None:
        """Count records that are no report at all, by their places, as read and rejected."""
        if places.size:
            self.read[UNATTRIBUTED] += places.size
            self.reject(UNATTRIBUTED, Rejected(reason, source, places))

    def reject(self, key: Key, rejected: Rejected) -> None:
        """Count records as rejected that have been counted as read already."""
        count = rejected.places.size if rejected.counts is None else int(rejected.counts.sum())
        self.rejected[key, rejected.reason] += count
        self._rejected.append(rejected)

    def entries(self) -> Iterator[Entry]:
        """Everything but what was admitted, as entries of the accounting."""
        for key, count in self.read.items():
            yield (key, "read"), count
        for what, counted in (("late", self.late), ("repeated", self.repeated)):
            for key, count in counted.items():
                if count:
                    yield (key, what), count
        for (key, reason), count in self.rejected.items():
            yield (key, f"rejected.{reason.value}"), count
