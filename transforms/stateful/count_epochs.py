"""Stages 2 and 3 of 5 for unbounded input, put together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam

from ldpbeam.accounting import Entry
from ldpbeam.transforms.stateful.count_before_shuffle import CountBeforeShuffle
from ldpbeam.transforms.stateful.count_shard import CountShard
from ldpbeam.transforms.stateful.keys import EpochKey, Schedules, ShardKey
from ldpbeam.transforms.stateful.split_by_shard import SplitByShard
from ldpbeam.transforms.stateful.sum_shards import SumShards

__all__ = ["CountEpochs"]


class CountEpochs(beam.PTransform):
    """Columns and entries of all collections to results, revision by revision.

    Takes ``{"columns": (epoch, ReportColumns), "entries": Entry}``, gives :class:`CountedEpoch` under the
    digest of each collection.
    """

    def __init__(
        self, schedules: Schedules, *, shard_bits: int, deduplicate: bool, label: str | None = None
    ) -> None:
        """2**shard_bits shards per epoch; one without de-duplication, where nothing but counts is kept."""
        super().__init__(label)
        self._schedules = dict(schedules)
        self._bits = shard_bits if deduplicate else 0
        self._deduplicate = deduplicate

    def expand(self, inputs: dict[str, beam.PCollection]) -> beam.pvalue.DoOutputsTuple:
        """Two steps with state, each behind a shuffle."""
        kind = f"Of{1 << self._bits}" if self._deduplicate else "OfCounts"
        if self._deduplicate:
            parts = inputs["columns"] | "ShardById" >> beam.ParDo(SplitByShard(self._bits))
        else:
            parts = inputs["columns"] | "CountBeforeShuffle" >> beam.ParDo(
                CountBeforeShuffle(self._schedules)
            )
        counted = (
            parts
            | "ByShard" >> beam.Map(_same).with_output_types(tuple[ShardKey, bytes])
            # Another number of shards, or another kind of parts, must not find the state of this one.
            | f"CountShard{kind}" >> beam.ParDo(CountShard(self._schedules, deduplicate=self._deduplicate))
            | "ByEpoch" >> beam.Map(_same).with_output_types(tuple[EpochKey, Any])
        )
        entries = inputs["entries"] | "Entries" >> beam.FlatMap(_of_an_epoch).with_output_types(
            tuple[EpochKey, Any]
        )
        total = SumShards(self._schedules, 1 << self._bits)
        return (
            (counted, entries)
            | "Updates" >> beam.Flatten()
            | f"SumShards{kind}" >> beam.ParDo(total).with_outputs(*self._schedules)
        )


def _same(element: Any) -> Any:
    """Nothing changes but the declared type, which chooses how keys are encoded."""
    return element


def _of_an_epoch(entry: Entry) -> Iterator[tuple[EpochKey, tuple[str, int]]]:
    ((digest, epoch), what), count = entry
    if epoch is not None:
        yield (digest, epoch), (what, count)
