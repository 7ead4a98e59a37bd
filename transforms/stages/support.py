"""Stage 3 of 5, support: one CombineFn counts for every protocol (adapts ldpbeam.support)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import apache_beam as beam

from ldpbeam.collection.collection import Collection
from ldpbeam.epoch_result import count_support
from ldpbeam.reports import Parts, ReportColumns
from ldpbeam.support import Support
from ldpbeam.transforms.coders import OptionalSupportCoder, SupportCoder
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
        if not isinstance(accumulator, PartlyCounted):
            accumulator = PartlyCounted(self._collection, accumulator)
        threads.add(columns, accumulator)
        return accumulator

    def compact(self, accumulator: Support, *_: object) -> Support:
        """The accumulator with everything in it that other threads were given; it may travel then."""
        settle(accumulator)
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


@beam.typehints.with_input_types(Parts)
@beam.typehints.with_output_types(Any)  # else Beam infers that from the code of its own step
class CountSupportOfEach(beam.CombineFn):
    """The same for several collections, of which a key has one: that of the columns that come first.

    ``add_input`` takes all parts of an element, since Beam's way to it costs as much as thousands of reports.
    An accumulator is None as long as nothing is in it.
    """

    def __init__(self, collections: Sequence[Collection], *, aside: bool = False) -> None:
        """Parameters as of :class:`CountSupport`."""
        self._of = {c.digest: CountSupport(c, aside=aside) for c in collections}

    def create_accumulator(self, *_: object) -> Support | None:
        """Nothing; of which collection it is, nobody knows yet."""
        return None

    def add_input(self, accumulator: Support | None, parts: Parts, *_: object) -> Support | None:
        """Count batches of a collection."""
        for columns in parts:
            count = self._of[columns.digest]
            if accumulator is None:
                accumulator = count.create_accumulator()
            accumulator = count.add_input(accumulator, columns)
        return accumulator

    def compact(self, accumulator: Support | None, *_: object) -> Support | None:
        """As in :class:`CountSupport`."""
        if accumulator is not None:
            settle(accumulator)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[Support | None], *_: object) -> Support | None:
        """The sum, in a fresh accumulator; None if there is nothing to add."""
        total: Support | None = None
        for accumulator in map(self.compact, accumulators):
            if accumulator is None:
                continue
            if total is None:
                total = Support.zero(accumulator.counts.size, accumulator.signs.size)
            total.merge(accumulator)
        return total

    def extract_output(self, accumulator: Support | None, *_: object) -> Support | None:
        """The accumulator itself; a key has columns, so it has one."""
        return self.compact(accumulator)

    def get_accumulator_coder(self) -> OptionalSupportCoder:
        """Narrow raw integers, or nothing."""
        return OptionalSupportCoder()
