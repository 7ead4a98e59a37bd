"""The unbounded pipeline: the same five stages, with further results published as late reports come.

Runs on every Beam runner with state and event-time timers. Nothing is windowed by Beam and nothing is dropped
by it; transforms/stateful says why.
"""

from __future__ import annotations

from typing import Any

import apache_beam as beam

from ldpbeam.accounting import CountedEpoch
from ldpbeam.collection.collection import Collection
from ldpbeam.pipelines.config import RunConfig
from ldpbeam.schedule import Schedule
from ldpbeam.transforms.coders import register_coders
from ldpbeam.transforms.sinks.unattributed import WriteStreamRejects, WriteUnattributed
from ldpbeam.transforms.stages.publish import publish_epochs
from ldpbeam.transforms.stages.reports import ACCOUNTING, COLUMNS, REJECTED, admit_reports
from ldpbeam.transforms.stateful import CountEpochs

__all__ = ["CollectStream", "PublishStream"]


class CollectStream(beam.PTransform):
    """Chunks of messages, or of files, to published revisions, rejects and accounting."""

    def __init__(self, config: RunConfig, label: str | None = None) -> None:
        super().__init__(label)
        self._config = config

    def expand(self, chunks: beam.PCollection[Any]) -> beam.pvalue.DoOutputsTuple:
        """Build the graph; every transform is labelled, so that a running job can be replaced.

        Returns:
            What was counted (:class:`CountedEpoch`), under the digest of each collection.
        """
        register_coders()
        config = self._config
        reports = chunks | "Report" >> admit_reports(config.collections, together=True)
        _ = reports[REJECTED] | "Rejects" >> WriteStreamRejects(config.outputs)
        _ = reports[ACCOUNTING] | "OtherBooks" >> WriteUnattributed(
            config.outputs, config.counting.late_every
        )
        schedules = {
            c.digest_hex: Schedule(c, config.counting.early_every, config.counting.late_every)
            for c in config.collections
        }
        inputs = {"columns": reports[COLUMNS], "entries": reports[ACCOUNTING]}
        counted = inputs | "Epoch" >> CountEpochs(
            schedules, shard_bits=config.counting.shard_bits, deduplicate=config.counting.deduplicate
        )
        for collection in config.collections:
            label = f"{collection.name}@{collection.version}"
            _ = counted[collection.digest_hex] | label >> PublishStream(collection, config)
        return counted


class PublishStream(beam.PTransform):
    """Stages 4 and 5 for one collection: counted epochs in, published revisions out."""

    def __init__(self, collection: Collection, config: RunConfig, label: str | None = None) -> None:
        super().__init__(label)
        self._collection = collection
        self._config = config

    def expand(self, counted: beam.PCollection[CountedEpoch]) -> beam.PCollection[Any]:
        """Estimate, make consistent, publish."""
        config = self._config
        return publish_epochs(counted, self._collection, config.outputs, config.counting.max_error_fraction)
