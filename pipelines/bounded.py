"""The pipeline over files, as a table of contents: report, epoch, support, estimate, histogram."""

from __future__ import annotations

import apache_beam as beam

from ldpbeam.job.config import RunConfig
from ldpbeam.records.outcome import write_outcome
from ldpbeam.transforms import AdmitReports
from ldpbeam.transforms.composite import composite
from ldpbeam.transforms.count import CountSupportOnDisk
from ldpbeam.transforms.estimate import EstimateHistograms
from ldpbeam.transforms.sinks.file_record import FileRecord
from ldpbeam.transforms.sinks.publish import write_histograms
from ldpbeam.transforms.sinks.rejects import rejects_by_source

from .run_files import read_inputs, spill


@composite
def collect_reports(pipeline: beam.Pipeline, config: RunConfig) -> beam.PCollection[FileRecord]:
    """Files of reports to published epochs, rejects, and what the record of the run needs."""
    counting, outputs, collections = config.counting, config.outputs, config.collections
    # Stage 1, report: records become columns of reports, or rejected rows.
    admitted = pipeline | "Read" >> read_inputs(config) | "Admit" >> AdmitReports(collections)
    # Stages 2 and 3, epoch and support: each report counts once in its epoch, in integers.
    counted = admitted | "Count" >> CountSupportOnDisk(
        spill(config),
        collections,
        deduplicate=counting.deduplicate,
        shards=1 << counting.shard_bits,
        max_epochs=config.input.max_epochs,
    )
    # Stages 4 and 5, estimate and histogram: unbiased estimates from counts, then a consistent histogram.
    limit = counting.max_error_fraction
    estimate = EstimateHistograms(collections, max_error_fraction=limit)
    published = counted | "Estimate" >> estimate | "Write" >> write_histograms(collections, outputs)
    rejects = counted.rejected | "Rejects" >> rejects_by_source(outputs.output)
    return (counted.entries, published, rejects) | "Outcome" >> write_outcome(outputs.output)
