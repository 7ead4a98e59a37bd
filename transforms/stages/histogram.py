"""Stage 5 of 5, histogram: estimates become a consistent histogram (adapts ldpbeam.consistency)."""

from __future__ import annotations

import apache_beam as beam

from ldpbeam.collection.collection import Collection
from ldpbeam.histogram import EpochHistogram, make_consistent

__all__ = ["MakeConsistent"]


class MakeConsistent(beam.DoFn):
    """Apply the collection's consistency method; raw estimates stay beside the result."""

    def __init__(self, collection: Collection) -> None:
        super().__init__()
        self._collection = collection

    def process(self, histogram: EpochHistogram) -> list[EpochHistogram]:
        """One histogram in, one out."""
        return [make_consistent(self._collection, histogram)]
