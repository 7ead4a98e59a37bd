"""Stage 2 of 5, epoch: columns go into the window of their collection epoch, one report per report id.

Event time is the epoch index carried by the reports; clocks of devices, files and brokers play no part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from ldpbeam.accounting import CONFLICTING, Entry
from ldpbeam.collection.epochs import Epochs
from ldpbeam.dedup import secret_key, shard_columns, unrepeated
from ldpbeam.reports import ReportColumns
from ldpbeam.transforms.composite import composite
from ldpbeam.transforms.stages.reports import ACCOUNTING
from ldpbeam.transforms.stages.spill import (
    ShardWithSpill,
    Spill,
    WaitingColumns,
    gathered,
    register_waiting_columns,
)

EpochColumns = tuple[int, ReportColumns]
"""What flows from here to the counting step: the epoch as key, columns of that epoch."""

_Sharded = tuple[tuple[int, int], ReportColumns]
_Waiting = tuple[tuple[int, int], WaitingColumns]


@composite
def window_by_epoch(
    columns: beam.PCollection[Any], epochs: Epochs, kind: Any = EpochColumns
) -> beam.PCollection[Any]:
    """Give everything that is keyed by epoch the window of that epoch: [start, start + length).

    Windows have the epochs' own length and origin, timestamps are at the end; ``kind`` is the type of the
    elements.
    """
    length, origin = epochs.length, epochs.origin

    def stamp(pair: tuple[int, Any]) -> TimestampedValue:
        end = origin + (pair[0] + 1) * length
        return TimestampedValue(pair, Timestamp(seconds=end - 1, micros=999_000))

    stamped = columns | "EndOfEpoch" >> beam.Map(stamp).with_output_types(kind)
    return stamped | "Windows" >> beam.WindowInto(FixedWindows(length, origin % length))


def _shards(pair: EpochColumns, bits: int) -> Iterator[_Sharded]:
    epoch, columns = pair
    for shard, part in shard_columns(columns, bits):
        yield (epoch, shard), part


class _KeepOne(beam.DoFn):
    def __init__(self, digest_hex: str) -> None:
        self._digest = digest_hex
        self._key = 1

    def setup(self) -> None:
        self._key = secret_key()

    def process(
        self, group: tuple[tuple[int, int], Iterable[ReportColumns]]
    ) -> Iterator[EpochColumns | beam.pvalue.TaggedOutput]:
        yield from self._kept(group[0][0], list(group[1]))

    def _kept(
        self, epoch: int, parts: list[ReportColumns]
    ) -> Iterator[EpochColumns | beam.pvalue.TaggedOutput]:
        columns, duplicate, conflicting = unrepeated(parts, self._key)
        for what, count in (("duplicate", duplicate), (CONFLICTING, conflicting)):
            if count:
                entry: Entry = (((self._digest, epoch), what), count)
                yield beam.pvalue.TaggedOutput(ACCOUNTING, entry)
        for part in columns:
            yield epoch, part


class _KeepOneOfWaiting(_KeepOne):
    def process(self, group: Any) -> Iterator[EpochColumns | beam.pvalue.TaggedOutput]:
        yield from self._kept(group[0][0], gathered(group[1]))


@composite
def once_per_report_id(
    columns: beam.PCollection[EpochColumns], digest_hex: str, bits: int, spill: Spill | None = None
) -> beam.pvalue.DoOutputsTuple:
    """One report per report id within an epoch, however often and in whatever order copies arrive.

    Columns are sharded by id (2**bits shards per epoch), grouped, and repeats dropped by a compiled loop: no
    state cell per id. With ``spill`` columns wait on disk from a size on, for runners whose steps share one.
    Gives the columns as main output, and entries for copies and conflicts under :data:`ACCOUNTING`.
    """
    if spill is None:
        shard: beam.ParDo = beam.FlatMap(_shards, bits).with_output_types(_Sharded)
        keep = beam.ParDo(_KeepOne(digest_hex))
    else:
        register_waiting_columns()
        shard = beam.ParDo(ShardWithSpill(bits, spill)).with_output_types(_Waiting)
        keep = beam.ParDo(_KeepOneOfWaiting(digest_hex))
    grouped = columns | "ShardById" >> shard | "Gather" >> beam.GroupByKey()
    typed = keep.with_output_types(EpochColumns, **{ACCOUNTING: Entry})
    return grouped | "KeepOne" >> typed.with_outputs(ACCOUNTING, main="columns")
