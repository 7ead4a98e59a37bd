"""The pipeline over files, as a table of contents: report, epoch, support, estimate, histogram."""

from __future__ import annotations

from collections.abc import Sequence

import apache_beam as beam

from ldpbeam.job.config import RunConfig
from ldpbeam.job.inputs import waits_on_disk
from ldpbeam.records.outcome import Outcome, write_outcome
from ldpbeam.transforms import AdmitReports, CountSupport, EstimateFrequencies, ReadReports
from ldpbeam.transforms.composite import composite
from ldpbeam.transforms.sinks.file_record import FileRecord
from ldpbeam.transforms.sinks.publish import write_histograms
from ldpbeam.transforms.sinks.rejects import rejects_by_source
from ldpbeam.transforms.stages.spill import Spill

SPILLED = "spilled"
"""Folder below the output for columns and counts that wait on disk; whoever runs the pipeline removes it."""


@composite
def collect_reports(pipeline: beam.Pipeline, config: RunConfig) -> beam.PCollection[FileRecord]:
    """Files of reports to published epochs, rejects, and what the record of the run needs.

    Every transform has a label of ours: a runner's page and its metrics name the steps by it.
    """
    collections, counting, limits = config.collections, config.counting, config.input.read_limits
    files = pipeline | "Start" >> beam.Impulse() | "Files" >> beam.FlatMap(_paths, config.input.encoded)
    if config.job.spread:
        files = files | "Spread" >> beam.Reshuffle()
    # Stage 1, report: records become columns of reports, or rejected rows.
    read = ReadReports(max_expansion=limits.expansion, attempts=limits.attempts, not_after=limits.not_after)
    admitted = files | "Read" >> read | "Admit" >> AdmitReports(collections)
    # Stages 2 and 3, epoch and support: each report counts once in its epoch, in integers.
    counted = admitted | "Count" >> CountSupport(
        collections,
        deduplicate=counting.deduplicate,
        shards=1 << counting.shard_bits,
        max_epochs=config.input.max_epochs,
        _spill=_spill(config),
    )
    # Stages 4 and 5, estimate and histogram: without the noise of devices, and then consistent.
    estimate = EstimateFrequencies(
        collections, max_error_fraction=counting.max_error_fraction, _histograms=True
    )
    published = counted | "Estimate" >> estimate | "Write" >> write_histograms(collections, config.outputs)
    rejects = counted.rejected | "Rejects" >> rejects_by_source(config.outputs.output)
    outcome: list[beam.PCollection[Outcome]] = [counted.entries, published, rejects]
    parts = beam.pvalue.AsIter(outcome | "Outcome" >> beam.Flatten())
    written = beam.Map(write_outcome, config.outputs.output, parts)
    return pipeline | "End" >> beam.Impulse() | "WriteOutcome" >> written


def _paths(_: bytes, paths: Sequence[str | bytes]) -> Sequence[str | bytes]:
    return paths


def _spill(config: RunConfig) -> Spill | None:
    """Where columns and counts wait on disk; nowhere but where steps share one."""
    if not waits_on_disk(config.job.runner, config.outputs.output):
        return None
    return Spill(f"{config.outputs.output}/{SPILLED}", config.counting.spill_above << 20)
