"""Between stages 3 and 4: an epoch's counts meet its books (adapts ldpbeam.accounting)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import apache_beam as beam

from ldpbeam.accounting import Account, CountedEpoch, Entry, Publication
from ldpbeam.support import Support

__all__ = ["CloseBooks", "EntriesOf", "EpochEntry"]

EpochEntry = tuple[int, tuple[str, int]]
"""(epoch, (what, how many)): an entry of a collection that is known from the context."""


class EntriesOf(beam.PTransform):
    """The entries of one collection's epochs, out of all there are."""

    def __init__(self, digest_hex: str, label: str | None = None) -> None:
        """Choose by digest; entries without an epoch are nobody's."""
        super().__init__(label)
        self._digest = digest_hex

    def expand(self, entries: beam.PCollection[Entry]) -> beam.PCollection[EpochEntry]:
        """Filter and key by epoch."""
        digest = self._digest

        def own(entry: Entry) -> Iterator[EpochEntry]:
            ((whose, epoch), what), count = entry
            if whose == digest and epoch is not None:
                yield epoch, (what, count)

        return entries | "Own" >> beam.FlatMap(own).with_output_types(EpochEntry)


class CloseBooks(beam.PTransform):
    """Counts and entries of a bounded input, brought together once per epoch.

    Takes ``{"support": (epoch, Support), "entries": (epoch, (what, n))}``, both in the windows of their
    epochs, gives :class:`CountedEpoch`. An epoch of which nothing was admitted has no support, and books
    all the same.
    """

    def __init__(self, told: Mapping[int, Publication] | None = None, label: str | None = None) -> None:
        """``told`` says by epoch what its result is; by default it is the first and last one."""
        super().__init__(label)
        self._told = told or {}

    def expand(self, inputs: dict[str, beam.PCollection]) -> beam.PCollection[CountedEpoch]:
        """One group per epoch."""
        together = (inputs["support"], inputs["entries"]) | "Both" >> beam.Flatten()
        return together | "Epochs" >> beam.GroupByKey() | "Sum" >> beam.ParDo(_SumBooks(self._told))


class _SumBooks(beam.DoFn):
    def __init__(self, told: Mapping[int, Publication]) -> None:
        super().__init__()
        self._told = told

    def process(self, group: tuple[int, Iterable[Support | tuple[str, int]]]) -> Iterator[CountedEpoch]:
        account, support = Account(), None
        for item in group[1]:
            if isinstance(item, Support):
                support = item
                account.add("counted", item.reports)
            else:
                account.add(*item)
        yield CountedEpoch.of(group[0], support, account, self._told.get(group[0], Publication()))
