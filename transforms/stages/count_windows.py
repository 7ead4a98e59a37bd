"""Stages 2 and 3 of 5 for bounded input, put together: Beam's windows, groupings and combiners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows

from ldpbeam.accounting import CountedEpoch, Entry
from ldpbeam.collection.collection import Collection

from ..composite import composite
from ..rows import RejectedRow
from .columns_on_disk import Spill
from .entries import entries_without_epoch, join_accounting
from .epoch_limit import EpochLimit, largest_epochs
from .epochs import once_per_report_id, window_by_epoch
from .reports import ACCOUNTING, EpochParts
from .support import CountSupportOfEach


@dataclass(frozen=True)
class WindowOptions:
    shard_bits: int | None
    max_epochs: int
    spill: Spill | None = None


class CountedWindows(NamedTuple):
    counted: beam.PCollection
    rejected: beam.PCollection
    entries: beam.PCollection


@composite
def count_windows(
    inputs: tuple[beam.PCollection, beam.PCollection], collections: Sequence[Collection], how: WindowOptions
) -> CountedWindows:
    """Columns and entries of all collections to counted epochs, each once."""
    columns, entries = inputs
    epochs = {c.digest_hex: c.epochs for c in collections}
    epoch_limit = EpochLimit(collections, largest_epochs(entries, how.max_epochs))
    of_no_epoch = entries | "WithoutEpoch" >> entries_without_epoch()
    columns = columns | "Epoch" >> window_by_epoch(epochs)
    if how.shard_bits is not None:
        single = columns | "OncePerReportId" >> once_per_report_id(how.shard_bits, how.spill)
        repeats = single[ACCOUNTING] | "Repeats" >> beam.WindowInto(GlobalWindows())
        # Columns have waited for all epochs to be known anyway; not even a table of counts is made of more.
        columns = epoch_limit.without(single.columns, EpochParts, "Columns", windowed=True)
        entries = (entries, repeats) | "AllEntries" >> beam.Flatten().with_output_types(Entry)
    support = columns | "Support" >> beam.CombinePerKey(CountSupportOfEach(collections))
    counted = join_accounting(support, entries, epochs)
    counted = epoch_limit.without(counted, tuple[str, CountedEpoch], "Epochs")
    rejected = epoch_limit.rejections | "LeftOut" >> beam.Flatten().with_output_types(RejectedRow)
    uncounted = (of_no_epoch, *epoch_limit.entries) | "Uncounted" >> beam.Flatten().with_output_types(Entry)
    return CountedWindows(counted, rejected, uncounted)
