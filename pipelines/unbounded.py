"""The unbounded pipeline: the same five stages, with further results published as late reports come.

Runs on every Beam runner with state and event-time timers. Nothing is windowed by Beam and nothing is dropped
by it; transforms/stateful says why.
"""

from __future__ import annotations

from typing import Any

import apache_beam as beam

from ldpbeam.accounting import CountedEpoch
from ldpbeam.collection.collection import Collection
from ldpbeam.job.config import RunConfig
from ldpbeam.schedule import Schedule
from ldpbeam.transforms.coders import register_coders
from ldpbeam.transforms.composite import composite
from ldpbeam.transforms.sinks.unattributed import rejects_by_minute, write_unattributed
from ldpbeam.transforms.stages.publish import publish_epochs
from ldpbeam.transforms.stages.reports import ACCOUNTING, COLUMNS, REJECTED, admit_reports
from ldpbeam.transforms.stateful.count_epochs import count_epochs


@composite
def collect_stream(chunks: beam.PCollection[Any], config: RunConfig) -> beam.pvalue.DoOutputsTuple:
    """Chunks of messages, or of files, to published revisions, rejects and accounting.

    Every transform is labelled, so that a running job can be replaced.

    Returns:
        What was counted (:class:`CountedEpoch`), under the digest of each collection.
    """
    register_coders()
    counting, outputs = config.counting, config.outputs
    reports = chunks | "Report" >> admit_reports(config.collections, together=True)
    _ = reports[REJECTED] | "Rejects" >> rejects_by_minute(outputs)
    _ = reports[ACCOUNTING] | "OtherBooks" >> write_unattributed(outputs, counting.late_every)
    schedules = {
        c.digest_hex: Schedule(c, counting.early_every, counting.late_every) for c in config.collections
    }
    inputs = {"columns": reports[COLUMNS], "entries": reports[ACCOUNTING]}
    counted = inputs | "Epoch" >> count_epochs(schedules, counting.shard_bits, counting.deduplicate)
    for collection in config.collections:
        label = f"{collection.name}@{collection.version}"
        _ = counted[collection.digest_hex] | label >> publish_stream(collection, config)
    return counted


@composite
def publish_stream(
    counted: beam.PCollection[CountedEpoch], collection: Collection, config: RunConfig
) -> beam.PCollection[Any]:
    """Stages 4 and 5 for one collection: counted epochs in, published revisions out."""
    return publish_epochs(counted, collection, config.outputs, config.counting.max_error_fraction)
