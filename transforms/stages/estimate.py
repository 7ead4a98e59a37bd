"""Stage 4 of 5, estimate: integer counts of an epoch become estimates (adapts ldpbeam.histogram)."""

from __future__ import annotations

import apache_beam as beam

from ldpbeam.accounting import CountedEpoch
from ldpbeam.collection.collection import Collection
from ldpbeam.histogram import EpochHistogram, estimate_counted

__all__ = ["EstimateEpoch"]


class EstimateEpoch(beam.DoFn):
    """:class:`CountedEpoch` to :class:`EpochHistogram`: unbiased estimates, standard errors, intervals."""

    def __init__(self, collection: Collection, max_error_fraction: float = 1.0) -> None:
        """Estimate for this collection, unless a larger part of an epoch's records was rejected."""
        super().__init__()
        self._collection = collection
        self._max_error_fraction = max_error_fraction

    def process(self, counted: CountedEpoch) -> list[EpochHistogram]:
        """Debias once, with everything integer up to here."""
        return [estimate_counted(self._collection, counted, self._max_error_fraction)]
