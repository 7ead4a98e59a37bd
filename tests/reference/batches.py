"""One ReportBatch of a test's own making, judged as those that came in bytes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ldpbeam.admission import Admission
from ldpbeam.collection.collection import Collection
from ldpbeam.reports import admit_batches
from ldpbeam.wire.codec import Batch, Batches


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
