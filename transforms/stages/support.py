"""Stage 3 of 5, support: one CombineFn counts for every protocol (adapts ldpbeam.support)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import apache_beam as beam

from ldpbeam.admission import Parts, ReportColumns
from ldpbeam.collection.collection import Collection
from ldpbeam.epoch_result import count_support
from ldpbeam.support import Accumulated, Support, UncountedReports, is_large, merged

from ..coders import OptionalSupportCoder, SupportCoder


class CountCollection(beam.CombineFn):
    """Columns in, integer counts out. ``add_input`` takes a whole batch; merging is addition.

    Pure: accumulators are fresh arrays and only ever owned by one caller.
    """

    def __init__(self, collection: Collection) -> None:
        """Count for a collection."""
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


@beam.typehints.with_input_types(Parts)
@beam.typehints.with_output_types(Any)  # else Beam infers that from the code of its own step
class CountSupportOfEach(beam.CombineFn):
    """The same for several collections, of which a key has one: that of the columns that come first.

    ``add_input`` takes all parts of an element, since Beam's way to it costs as much as thousands of reports.
    An accumulator is None as long as nothing is in it. Where the protocol's counts are a large table, it is
    :class:`UncountedReports` until these are as large, and may be so at the end: a step has the accumulators
    of many epochs at once.
    """

    def __init__(self, collections: Sequence[Collection]) -> None:
        """Count for each of some collections."""
        self._collections = {c.digest: c for c in collections}
        self._large = {c.digest: c.protocol.counter for c in collections if is_large(c.protocol.counter)}

    def create_accumulator(self, *_: object) -> Accumulated | None:
        """Nothing; of which collection it is, nobody knows yet."""
        return None

    def add_input(self, accumulator: Accumulated | None, parts: Parts, *_: object) -> Accumulated | None:
        """Count batches of a collection, or let them wait."""
        for columns in parts:
            if isinstance(accumulator, Support) or columns.digest not in self._large:
                assert not isinstance(accumulator, UncountedReports)  # noqa: S101 - of large tables only
                accumulator = count_support(self._collections[columns.digest], (columns,), accumulator)
            else:
                # A copy: the columns may be a part of something larger.
                some = UncountedReports(columns.digest, [columns.payloads.copy()])
                accumulator = merged(accumulator, some, self._large)
        return accumulator

    def merge_accumulators(
        self, accumulators: Iterable[Accumulated | None], *_: object
    ) -> Accumulated | None:
        """The sum, in a fresh accumulator; None if there is nothing to add."""
        total: Accumulated | None = None
        for accumulator in accumulators:
            total = merged(total, accumulator, self._large)
        return total

    def extract_output(self, accumulator: Accumulated | None, *_: object) -> Accumulated | None:
        """The accumulator itself; a key has columns, so it has one."""
        return accumulator

    def get_accumulator_coder(self) -> OptionalSupportCoder:
        """Narrow raw integers or payloads, or nothing."""
        return OptionalSupportCoder()
