"""The unbounded pipeline: the same five stages, with results told again as late reports come.

Runs on every Beam runner with state and event-time timers. Nothing is windowed by Beam and nothing is dropped
by it; transforms/stateful says why.
"""

from __future__ import annotations

from typing import Any

import apache_beam as beam

from ldpbeam.accounting import CountedEpoch, Entry
from ldpbeam.collection.collection import Collection
from ldpbeam.pipelines.config import RunConfig
from ldpbeam.reports import Rejection
from ldpbeam.schedule import Schedule
from ldpbeam.transforms.coders import register_coders
from ldpbeam.transforms.sinks.estimates import WriteEpochs
from ldpbeam.transforms.sinks.optional import write_optional_sinks
from ldpbeam.transforms.sinks.unattributed import WriteOtherBooks, WriteStreamRejects
from ldpbeam.transforms.stages.epochs import EpochColumns
from ldpbeam.transforms.stages.estimate import EstimateEpoch
from ldpbeam.transforms.stages.histogram import MakeConsistent
from ldpbeam.transforms.stages.reports import ACCOUNTING, COLUMNS, REJECTED, AdmitReports
from ldpbeam.transforms.stateful import CountEpochs

__all__ = ["CollectStream", "PublishStream"]


class PublishStream(beam.PTransform):
    """Stages 4 and 5 for one collection: results in, published revisions and books out."""

    def __init__(self, collection: Collection, config: RunConfig, label: str | None = None) -> None:
        """Keep the frozen configuration."""
        super().__init__(label)
        self._collection = collection
        self._config = config

    def expand(self, counted: beam.PCollection[CountedEpoch]) -> beam.PCollection[Any]:
        """Estimate, make consistent, write."""
        collection, config = self._collection, self._config
        final = (
            counted
            | "Estimate" >> beam.ParDo(EstimateEpoch(collection, config.counting.max_error_fraction))
            | "Histogram" >> beam.ParDo(MakeConsistent(collection))
        )
        told = write_optional_sinks(final, collection, config.outputs)
        return told | "Write" >> beam.ParDo(
            WriteEpochs(collection, config.outputs.output, config.outputs.job)
        )


class CollectStream(beam.PTransform):
    """Chunks of messages, or of files, to published revisions, rejects and books."""

    def __init__(self, config: RunConfig, label: str | None = None) -> None:
        """Keep the frozen configuration."""
        super().__init__(label)
        self._config = config

    def expand(self, chunks: beam.PCollection[Any]) -> beam.pvalue.DoOutputsTuple:
        """Build the graph; every transform is labelled, so that a running job can be replaced.

        Returns:
            What was counted (:class:`CountedEpoch`), under the digest of each collection.
        """
        register_coders()
        config, counting = self._config, self._config.counting
        outputs = {COLUMNS: EpochColumns, REJECTED: tuple[str, Rejection], ACCOUNTING: Entry}
        admit = AdmitReports({c.digest: c for c in config.collections}, together=True)
        reports = chunks | "Report" >> beam.ParDo(admit).with_output_types(Any, **outputs).with_outputs(
            *outputs
        )
        _ = reports[REJECTED] | "Rejects" >> WriteStreamRejects(config.outputs.output, config.outputs.job)
        _ = reports[ACCOUNTING] | "OtherBooks" >> WriteOtherBooks(
            config.outputs.output, config.outputs.job, config.counting.late_every
        )
        schedules = {
            c.digest_hex: Schedule(c, config.counting.early_every, config.counting.late_every)
            for c in config.collections
        }
        inputs = {"columns": reports[COLUMNS], "entries": reports[ACCOUNTING]}
        counted = inputs | "Epoch" >> CountEpochs(
            schedules, shard_bits=counting.shard_bits, deduplicate=counting.deduplicate
        )
        for collection in config.collections:
            label = f"{collection.name}@{collection.version}"
            _ = counted[collection.digest_hex] | label >> PublishStream(collection, config)
        return counted
