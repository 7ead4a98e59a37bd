"""Between stages 3 and 4: an epoch's counts meet its account (adapts ldpbeam.accounting)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows

from ldpbeam.accounting import Account, CountedEpoch, Entry
from ldpbeam.collection.epochs import Epochs
from ldpbeam.support import Support, Uncounted

from ..composite import composite
from .epochs import window_by_epoch
from .reports import EpochKey

EpochEntry = tuple[EpochKey, tuple[str, int]]
"""((digest, epoch), (what, how many)): an entry of an epoch."""


@composite
def entries_of(entries: beam.PCollection[Entry], digests: Collection[str]) -> beam.PCollection[EpochEntry]:
    """The entries of some collections' epochs, out of all there are; those without an epoch are left out."""

    def own(entry: Entry) -> Iterator[EpochEntry]:
        ((digest, epoch), what), count = entry
        if digest in digests and epoch is not None:
            yield (digest, epoch), (what, count)

    return entries | "Own" >> beam.FlatMap(own).with_output_types(EpochEntry)


@composite
def sum_by_epoch(inputs: dict[str, beam.PCollection]) -> beam.PCollection[tuple[str, CountedEpoch]]:
    """Counts and entries of a bounded input, brought together once per epoch.

    Takes ``{"support": ((digest, epoch), Support), "entries": ((digest, epoch), (what, n))}``, both in the
    windows of their epochs; gives counted epochs by the digest of their collection, which need no windows
    any more. An epoch of which nothing was admitted has no support, and an account all the same.
    """
    # The type says how keys are encoded: by the same coder on both sides of the grouping, in any language.
    both = beam.Flatten().with_output_types(tuple[EpochKey, Any])
    together = (inputs["support"], inputs["entries"]) | "Both" >> both
    counted = together | "Epochs" >> beam.GroupByKey() | "Sum" >> beam.Map(_counted_epoch)
    return counted | "Whole" >> beam.WindowInto(GlobalWindows())


def _counted_epoch(
    group: tuple[EpochKey, Iterable[Support | Uncounted | tuple[str, int]]],
) -> tuple[str, CountedEpoch]:
    account = Account()
    support: Support | Uncounted | None = None
    for item in group[1]:
        if isinstance(item, tuple):
            account.add(*item)
        else:
            support = item
            account.add("counted", item.reports)
    digest, epoch = group[0]
    return digest, CountedEpoch(epoch, support, account)


def join_accounting(
    support: beam.PCollection[tuple[EpochKey, Support]],
    entries: beam.PCollection[Entry],
    epochs: Mapping[str, Epochs],
) -> beam.PCollection[tuple[str, CountedEpoch]]:
    """Counts of some collections' epochs, with the entries of these epochs out of all there are."""
    own = entries | "Entries" >> entries_of(frozenset(epochs)) | "Line" >> window_by_epoch(epochs, EpochEntry)
    return {"support": support, "entries": own} | "Books" >> sum_by_epoch()
