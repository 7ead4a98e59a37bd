"""Stages 2 and 3 of 5 for unbounded input, put together."""

from __future__ import annotations

from typing import Any

import apache_beam as beam

from ldpbeam.accounting import CountedEpoch

from ..composite import composite
from ..stages.entries import entries_by_epoch
from ..stages.reports import EpochKey
from .count_shard import CountShard
from .parts import CountBeforeShuffle, SplitByShard
from .state import Schedules, ShardKey
from .sum_shards import SumShards


@composite
def count_epochs(
    inputs: tuple[beam.PCollection, beam.PCollection],
    schedules: Schedules,
    shard_bits: int,
    deduplicate: bool,
) -> beam.PCollection[tuple[str, CountedEpoch]]:
    """Columns and entries of all collections to results, revision by revision: two steps with state."""
    columns, records = inputs
    if deduplicate:
        bits, kind = shard_bits, f"Of{1 << shard_bits}"
        parts = columns | "ShardById" >> beam.ParDo(SplitByShard(bits))
    else:
        bits, kind = 0, "OfCounts"
        parts = columns | "CountBeforeShuffle" >> beam.ParDo(CountBeforeShuffle(schedules))
    counted = (
        parts
        | "ByShard" >> beam.Map(_same).with_output_types(tuple[ShardKey, bytes])
        # Another number of shards, or another kind of parts, must not find the state of this one.
        | f"CountShard{kind}" >> beam.ParDo(CountShard(schedules, deduplicate=deduplicate))
        | "ByEpoch" >> beam.Map(_same).with_output_types(tuple[EpochKey, Any])
    )
    entries = records | "Entries" >> entries_by_epoch()
    total = beam.ParDo(SumShards(schedules, 1 << bits)).with_output_types(tuple[str, CountedEpoch])
    return (
        (counted, entries)
        | "Updates" >> beam.Flatten().with_output_types(tuple[EpochKey, Any])
        | f"SumShards{kind}" >> total
    )


def _same(element: Any) -> Any:
    """Nothing changes but the declared type, which chooses how keys are encoded."""
    return element
