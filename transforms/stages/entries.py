"""Between stages 3 and 4, entries of the accounting: counts meet accounts (adapts ldpbeam.accounting)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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


def entries_by_epoch() -> beam.ParDo:
    """The entries that belong to an epoch, by their epoch; those without one are left out."""
    return beam.FlatMap(_of_an_epoch).with_output_types(EpochEntry)


def _of_an_epoch(entry: Entry) -> Iterator[EpochEntry]:
    ((digest, epoch), what), count = entry
    if epoch is not None:
        yield (digest, epoch), (what, count)


def entries_without_epoch() -> beam.ParDo:
    return beam.Filter(_of_no_epoch).with_output_types(Entry)


def _of_no_epoch(entry: Entry) -> bool:
    return entry[0][0][1] is None


@composite
def sum_by_epoch(
    inputs: tuple[beam.PCollection, beam.PCollection],
) -> beam.PCollection[tuple[str, CountedEpoch]]:
    """Counts and entries of a bounded input, brought together once per epoch."""
    # The type says how keys are encoded: by the same coder on both sides of the grouping, in any language.
    both = beam.Flatten().with_output_types(tuple[EpochKey, Any])
    together = inputs | "Both" >> both
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
    """Counts of epochs, with the entries of these epochs out of all there are."""
    own = entries | "Entries" >> entries_by_epoch() | "EntriesByEpoch" >> window_by_epoch(epochs, EpochEntry)
    return (support, own) | "Accounts" >> sum_by_epoch()
