"""Stage 2 of 5, epoch: columns go into the window that ends with their epoch, one report per report id.

Event time is the epoch index carried by the reports; clocks of devices, files and brokers play no part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import gcd
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from ldpbeam.accounting import CONFLICTING, Entry
from ldpbeam.admission import Parts, ReportColumns
from ldpbeam.collection.epochs import Epochs
from ldpbeam.dedup import secret_key, shard_columns, unrepeated

from ..composite import composite
from .columns_on_disk import (
    GatheredColumns,
    Shard,
    ShardWithSpill,
    Spill,
    WaitingColumns,
    register_waiting_columns,
)
from .reports import ACCOUNTING, EpochKey, EpochParts

_Sharded = tuple[Shard, ReportColumns]
_Waiting = tuple[Shard, WaitingColumns]


def common_windows(epochs: Iterable[Epochs]) -> FixedWindows:
    """The longest fixed windows such that each epoch, of any of the calendars, ends where a window ends."""
    first, *others = epochs
    length = gcd(
        first.length, *(each.length for each in others), *(each.origin - first.origin for each in others)
    )
    return FixedWindows(length, first.origin % length)


@composite
def window_by_epoch(
    columns: beam.PCollection[Any], /, epochs: Mapping[str, Epochs], kind: Any = EpochParts, **into: Any
) -> beam.PCollection[Any]:
    """Give everything that is keyed by epoch the last one of :func:`common_windows` that is in the epoch."""

    def stamp(pair: tuple[EpochKey, Any]) -> TimestampedValue:
        digest, epoch = pair[0]
        return TimestampedValue(pair, Timestamp(seconds=epochs[digest].end(epoch) - 1, micros=999_000))

    stamped = columns | "EndOfEpoch" >> beam.Map(stamp).with_output_types(kind)
    return stamped | "Windows" >> beam.WindowInto(common_windows(epochs.values()), **into)


def _shards(pair: EpochParts, bits: int) -> Iterator[_Sharded]:
    key, parts = pair
    for columns in parts:
        for shard, part in shard_columns(columns, bits):
            yield (key, shard), part


class _KeepOne(beam.DoFn):
    def __init__(self) -> None:
        self._secret = 1

    def setup(self) -> None:
        self._secret = secret_key()

    def process(
        self, group: tuple[Shard, Iterable[ReportColumns]]
    ) -> Iterator[EpochParts | beam.pvalue.TaggedOutput]:
        key = group[0][0]
        columns, duplicate, conflicting = unrepeated(list(group[1]), self._secret)
        yield from _left_out(key, duplicate, conflicting)
        if columns:
            yield key, Parts(columns)


class _KeepOneOfWaiting(_KeepOne):
    def process(self, group: Any) -> Iterator[EpochParts | beam.pvalue.TaggedOutput]:
        key = group[0][0]
        with GatheredColumns(group[1]) as reports:
            yield from _left_out(key, *reports.keep_one_per_id(self._secret))
            for part in reports.columns():  # each is let go once it is counted
                yield key, Parts([part])


def _left_out(key: EpochKey, duplicate: int, conflicting: int) -> Iterator[beam.pvalue.TaggedOutput]:
    for what, count in (("duplicate", duplicate), (CONFLICTING, conflicting)):
        if count:
            entry: Entry = ((key, what), count)
            yield beam.pvalue.TaggedOutput(ACCOUNTING, entry)


@composite
def once_per_report_id(
    columns: beam.PCollection[EpochParts], bits: int, spill: Spill | None = None
) -> beam.pvalue.DoOutputsTuple:
    """One report per report id within an epoch, however often and in whatever order copies arrive."""
    if spill is None:
        shard: beam.ParDo = beam.FlatMap(_shards, bits).with_output_types(_Sharded)
        step = beam.ParDo(_KeepOne())
    else:
        register_waiting_columns()
        shard = beam.ParDo(ShardWithSpill(bits, spill)).with_output_types(_Waiting)
        step = beam.ParDo(_KeepOneOfWaiting())
    grouped = columns | "ShardById" >> shard | "Gather" >> beam.GroupByKey()
    typed = step.with_output_types(EpochParts, **{ACCOUNTING: Entry})
    return grouped | "KeepOne" >> typed.with_outputs(ACCOUNTING, main="columns")
