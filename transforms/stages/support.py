"""Stage 3 of 5, support: one CombineFn counts for every protocol (adapts ldpbeam.support)."""

from __future__ import annotations

from collections.abc import Iterable

import apache_beam as beam

from ldpbeam.collection.collection import Collection
from ldpbeam.epoch_result import count_support
from ldpbeam.reports import ReportColumns
from ldpbeam.support import Support
from ldpbeam.transforms.coders import SupportCoder


class CountSupport(beam.CombineFn):
    """Columns in, integer counts out. ``add_input`` takes a whole batch; merging is addition.

    Pure: accumulators are fresh arrays and only ever owned by one caller.
    """

    def __init__(self, collection: Collection) -> None:
        self._collection = collection

    def create_accumulator(self, *_: object) -> Support:
        """Zero."""
        return count_support(self._collection, ())

    def add_input(self, accumulator: Support, columns: ReportColumns, *_: object) -> Support:
        """Hash matching, bit sums or scatter, in place."""
        return count_support(self._collection, (columns,), accumulator)

    def merge_accumulators(self, accumulators: Iterable[Support], *_: object) -> Support:
        """The sum, in a fresh accumulator."""
        total = self.create_accumulator()
        for accumulator in accumulators:
            total.merge(accumulator)
        return total

    def extract_output(self, accumulator: Support, *_: object) -> Support:
        """The accumulator itself; the next stage turns it into support per value."""
        return accumulator

    def get_accumulator_coder(self) -> SupportCoder:
        """Narrow raw integers."""
        return SupportCoder()
