"""Between stages 3 and 4: an epoch's counts meet its account (adapts ldpbeam.accounting)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import apache_beam as beam

from ldpbeam.accounting import Account, CountedEpoch, Entry
from ldpbeam.collection.collection import Collection
from ldpbeam.support import Support
from ldpbeam.transforms.composite import composite
from ldpbeam.transforms.stages.epochs import window_by_epoch

EpochEntry = tuple[int, tuple[str, int]]
"""(epoch, (what, how many)): an entry of a collection that is known from the context."""


@composite
def entries_of(entries: beam.PCollection[Entry], digest_hex: str) -> beam.PCollection[EpochEntry]:
    """The entries of one collection's epochs, out of all there are; those without an epoch are left out."""

    def own(entry: Entry) -> Iterator[EpochEntry]:
        ((whose, epoch), what), count = entry
        if whose == digest_hex and epoch is not None:
            yield epoch, (what, count)

    return entries | "Own" >> beam.FlatMap(own).with_output_types(EpochEntry)


@composite
def sum_by_epoch(inputs: dict[str, beam.PCollection]) -> beam.PCollection[CountedEpoch]:
    """Counts and entries of a bounded input, brought together once per epoch.

    Takes ``{"support": (epoch, Support), "entries": (epoch, (what, n))}``, both in the windows of their
    epochs. An epoch of which nothing was admitted has no support, and an account all the same.
    """
    together = (inputs["support"], inputs["entries"]) | "Both" >> beam.Flatten()
    return together | "Epochs" >> beam.GroupByKey() | "Sum" >> beam.Map(_counted_epoch)


def _counted_epoch(group: tuple[int, Iterable[Support | tuple[str, int]]]) -> CountedEpoch:
    account, support = Account(), None
    for item in group[1]:
        if isinstance(item, Support):
            support = item
            account.add("counted", item.reports)
        else:
            account.add(*item)
    return CountedEpoch(group[0], support, account)


def join_accounting(
    support: beam.PCollection[tuple[int, Support]], entries: beam.PCollection[Entry], collection: Collection
) -> beam.PCollection[CountedEpoch]:
    """Counts of a collection's epochs, with the entries of these epochs out of all there are."""
    own = (
        entries
        | "Entries" >> entries_of(collection.digest_hex)
        | "Line" >> window_by_epoch(collection.epochs, EpochEntry)
    )
    return {"support": support, "entries": own} | "Books" >> sum_by_epoch()
