"""Stage 4 of 5, estimate: integer counts of an epoch become estimates (adapts ldp.histogram)."""

from __future__ import annotations

from collections.abc import Iterator

import apache_beam as beam

from ldp.collection import Collection
from ldp.histogram import EpochHistogram, estimate_epoch
from ldp.support import Support
from transforms.accounting import Entry
from transforms.reports import ACCOUNTING

__all__ = ["EstimateEpoch"]


class EstimateEpoch(beam.DoFn):
    """(epoch, Support) to :class:`EpochHistogram`; books ``counted`` from the accumulator itself."""

    def __init__(self, collection: Collection) -> None:
        """Estimate for this collection."""
        super().__init__()
        self._collection = collection

    def process(
        self, counted: tuple[int, Support]
    ) -> Iterator[EpochHistogram | beam.pvalue.TaggedOutput]:
        """Debias once, with everything integer up to here."""
        epoch, support = counted
        entry: Entry = (((self._collection.digest_hex, epoch), "counted"), support.reports)
        yield beam.pvalue.TaggedOutput(ACCOUNTING, entry)
        yield estimate_epoch(self._collection, epoch, support)
