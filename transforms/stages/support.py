"""Stage 3 of 5, support: one CombineFn counts for every protocol (adapts ldpbeam.support)."""

from __future__ import annotations

from collections.abc import Iterable

import apache_beam as beam

from ldpbeam.collection.collection import Collection
from ldpbeam.epoch_result import count_support
from ldpbeam.reports import ReportColumns
from ldpbeam.support import Support
from ldpbeam.transforms.coders import SupportCoder
from ldpbeam.transforms.stages.counting_threads import PartlyCounted, current, settle


class CountSupport(beam.CombineFn):
    """Columns in, integer counts out. ``add_input`` takes a whole batch; merging is addition.

    Pure: accumulators are fresh arrays and only ever owned by one caller.
    """

    def __init__(self, collection: Collection, *, aside: bool = False) -> None:
        """Count for a collection; with ``aside`` also in the further threads that a run has for it."""
        self._collection, self._aside = collection, aside

    def create_accumulator(self, *_: object) -> Support:
        """Zero."""
        return count_support(self._collection, ())

    def add_input(self, accumulator: Support, columns: ReportColumns, *_: object) -> Support:
        """Hash matching, bit sums or scatter, in place."""
        threads = current() if self._aside else None
        if threads is None:
            return count_support(self._collection, (columns,), accumulator)
        counting = accumulator if isinstance(accumulator, PartlyCounted) else PartlyCounted(accumulator)
        threads.add(self._collection, columns, counting)
        return counting

    def compact(self, accumulator: Support, *_: object) -> Support:
        """The accumulator with everything in it that other threads were given; it may travel then."""
        settle(self._collection, accumulator)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[Support], *_: object) -> Support:
        """The sum, in a fresh accumulator."""
        total = self.create_accumulator()
        for accumulator in accumulators:
            total.merge(self.compact(accumulator))
        return total

    def extract_output(self, accumulator: Support, *_: object) -> Support:
        """The accumulator itself; the next stage turns it into support per value."""
        return self.compact(accumulator)

    def get_accumulator_coder(self) -> SupportCoder:
        """Narrow raw integers."""
        return SupportCoder()
