"""Stage 4 of 5, estimate: integer counts of an epoch become estimates (adapts ldp.histogram)."""

from __future__ import annotations

import apache_beam as beam

from ldp.collection import Collection
from ldp.histogram import EpochHistogram, estimate_epoch
from ldp.support import Support

__all__ = ["EstimateEpoch"]


class EstimateEpoch(beam.DoFn):
    """(epoch, Support) to :class:`EpochHistogram`: unbiased estimates, standard errors, intervals."""

    def __init__(self, collection: Collection) -> None:
        """Estimate for this collection."""
        super().__init__()
        self._collection = collection

    def process(self, counted: tuple[int, Support]) -> list[EpochHistogram]:
        """Debias once, with everything integer up to here."""
        epoch, support = counted
        return [estimate_epoch(self._collection, epoch, support)]
