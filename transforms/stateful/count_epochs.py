"""Stages 2 and 3 of 5 for unbounded input, put together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam

from ldpbeam.accounting import Entry

from ..composite import composite
from ..stages.reports import EpochKey
from .count_before_shuffle import CountBeforeShuffle
from .count_shard import CountShard
from .split_by_shard import SplitByShard
from .state import Schedules, ShardKey
from .sum_shards import SumShards


@composite
def count_epochs(
    inputs: dict[str, beam.PCollection], schedules: Schedules, shard_bits: int, deduplicate: bool
) -> beam.pvalue.DoOutputsTuple:
    """Columns and entries of all collections to results, revision by revision: two steps with state.

    Takes ``{"columns": ((digest, epoch), ReportColumns), "entries": Entry}``, gives :class:`CountedEpoch`
    under the digest of each collection. There are 2**shard_bits shards per epoch; one without
    de-duplication, where nothing but counts is kept.
    """
    if deduplicate:
        bits, kind = shard_bits, f"Of{1 << shard_bits}"
        parts = inputs["columns"] | "ShardById" >> beam.ParDo(SplitByShard(bits))
    else:
        bits, kind = 0, "OfCounts"
        parts = inputs["columns"] | "CountBeforeShuffle" >> beam.ParDo(CountBeforeShuffle(schedules))
    counted = (
        parts
        | "ByShard" >> beam.Map(_same).with_output_types(tuple[ShardKey, bytes])
        # Another number of shards, or another kind of parts, must not find the state of this one.
        | f"CountShard{kind}" >> beam.ParDo(CountShard(schedules, deduplicate=deduplicate))
        | "ByEpoch" >> beam.Map(_same).with_output_types(tuple[EpochKey, Any])
    )
    of_epochs = beam.FlatMap(_of_an_epoch).with_output_types(tuple[EpochKey, Any])
    entries = inputs["entries"] | "Entries" >> of_epochs
    total = SumShards(schedules, 1 << bits)
    return (
        (counted, entries)
        | "Updates" >> beam.Flatten()
        | f"SumShards{kind}" >> beam.ParDo(total).with_outputs(*schedules)
    )


def _same(element: Any) -> Any:
    """Nothing changes but the declared type, which chooses how keys are encoded."""
    return element


def _of_an_epoch(entry: Entry) -> Iterator[tuple[EpochKey, tuple[str, int]]]:
    ((digest, epoch), what), count = entry
    if epoch is not None:
        yield (digest, epoch), (what, count)
