"""The unbounded pipeline: the same five stages, with further results published as late reports come.

Runs on every Beam runner with state and event-time timers. Nothing is windowed by Beam and nothing is dropped
by it; transforms/stateful says why.
"""

from __future__ import annotations

from typing import Any

import apache_beam as beam

from ldpbeam.accounting import CountedEpoch
from ldpbeam.job.config import RunConfig
from ldpbeam.transforms import AdmitReports
from ldpbeam.transforms.composite import composite
from ldpbeam.transforms.count import CountSupportOfStream
from ldpbeam.transforms.estimate import EstimateHistograms
from ldpbeam.transforms.sinks.publish import write_histograms
from ldpbeam.transforms.sinks.unattributed_records import rejects_by_minute, write_unattributed


@composite
def collect_stream(
    messages: beam.PCollection[Any], config: RunConfig
) -> beam.PCollection[tuple[str, CountedEpoch]]:
    """Messages, or pieces of files, to published revisions, rejects and accounting."""
    counting, outputs, collections = config.counting, config.outputs, config.collections
    source = config.input.source
    admitted = messages | "Admit" >> AdmitReports(collections, source=source)
    counted = admitted | "Count" >> CountSupportOfStream(
        collections,
        deduplicate=counting.deduplicate,
        shards=1 << counting.shard_bits,
        early_every=counting.early_every,
        late_every=counting.late_every,
    )
    _ = counted.rejected | "Rejects" >> rejects_by_minute(outputs)
    _ = counted.entries | "Unattributed" >> write_unattributed(outputs, counting.late_every)
    limit = counting.max_error_fraction
    estimate = EstimateHistograms(collections, max_error_fraction=limit)
    _ = counted | "Estimate" >> estimate | "Write" >> write_histograms(collections, outputs)
    return counted.counted
