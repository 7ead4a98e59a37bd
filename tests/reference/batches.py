"""Batches one by one: those that came in bytes, and those of a test's own making."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ldpbeam.arrays import Bytes, Uints
from ldpbeam.collection.collection import Collection
from ldpbeam.reports import Admission, admit_batches
from ldpbeam.wire.codec import Batches


@dataclass(frozen=True)
class Batch:
    """One ReportBatch.

    Attributes:
        digest, epoch: as in the message.
        count: as claimed.
        report_ids: uint64, possibly unaligned; its length is what the bytes hold.
        payloads: uint8, end to end.
        place: position of the record in its source.
        arrival: when it arrived, microseconds since 1970; None where nobody knows.
    """

    digest: int
    epoch: int
    count: int
    report_ids: Uints
    payloads: Bytes
    place: int
    arrival: int | None = None


def each(batches: Batches) -> Iterator[Batch]:
    """One after the other, as views of the columns."""
    for i in range(len(batches)):
        one = np.array([i])
        yield Batch(
            digest=int(batches.digest[i]),
            epoch=int(batches.epoch[i]),
            count=int(batches.count[i]),
            report_ids=batches.ids_together(one),
            payloads=batches.payloads_together(one),
            place=int(batches.place[i]),
            arrival=None if batches.arrival is None else int(batches.arrival[i]),
        )


def admit_batch(
    batch: Batch, collections: Mapping[int, Collection], source: str, admission: Admission
) -> None:
    """Judge one batch, whose ids and payloads may be of any length and need not fit together."""
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
