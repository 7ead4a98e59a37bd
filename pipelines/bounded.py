"""The pipeline over files, as a table of contents: report, epoch, support, estimate, histogram."""

from __future__ import annotations

from collections.abc import Sequence

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows

from ldpbeam.accounting import CountedEpoch
from ldpbeam.collection.collection import Collection
from ldpbeam.job.config import RunConfig
from ldpbeam.job.inputs import waits_on_disk
from ldpbeam.records.outcome import Outcome, write_outcome
from ldpbeam.transforms.coders import register_coders
from ldpbeam.transforms.composite import composite
from ldpbeam.transforms.sinks.file_record import FileRecord
from ldpbeam.transforms.sinks.rejects import rejects_by_source
from ldpbeam.transforms.sources.files import read_files
from ldpbeam.transforms.stages.accounting import join_accounting
from ldpbeam.transforms.stages.counts_on_disk import CountWithSpill
from ldpbeam.transforms.stages.epochs import once_per_report_id, window_by_epoch
from ldpbeam.transforms.stages.left_out import LeftOut, largest_epochs
from ldpbeam.transforms.stages.publish import publish_epochs_of_each
from ldpbeam.transforms.stages.reports import ACCOUNTING, REJECTED, EpochParts, admit_reports, by_calendar
from ldpbeam.transforms.stages.spill import Spill
from ldpbeam.transforms.stages.support import CountSupportOfEach

SPILLED = "spilled"
"""Folder below the output for columns and counts that wait on disk; whoever runs the pipeline removes it."""


@composite
def collect_reports(pipeline: beam.Pipeline, config: RunConfig) -> beam.PCollection[FileRecord]:
    """Files of reports to published epochs, rejects, and what the record of the run needs.

    Every transform is labelled, so that a running job can be replaced.
    """
    register_coders()
    files = pipeline | "Start" >> beam.Impulse() | "Files" >> beam.FlatMap(_paths, config.input.encoded)
    if config.job.spread:
        files = files | "Spread" >> beam.Reshuffle()
    chunks = files | "Read" >> read_files(config.input.read_limits)
    reports = chunks | "Report" >> admit_reports(config.collections)
    entries = reports[ACCOUNTING]
    kept, of_no_epoch = largest_epochs(entries, config.input.max_epochs)
    outcome: list[beam.PCollection[Outcome]] = [of_no_epoch]  # entries of an epoch are booked with it
    rejections = [reports[REJECTED]]
    for tag, collections in by_calendar(config.collections).items():
        inputs = {"columns": reports[tag], "entries": entries, "kept": kept}
        published = inputs | tag >> publish_collections(collections, config)
        outcome.extend(published["outcome"])
        rejections.extend(published["rejections"])
    # A graph costs by the number of its groupings: one for all rejections, and one reader of all outcome.
    rejected = rejections | "Rejections" >> beam.Flatten()
    outcome.append(rejected | "Rejects" >> rejects_by_source(config.outputs.output))
    parts = beam.pvalue.AsIter(outcome | "Outcome" >> beam.Flatten())
    written = beam.Map(write_outcome, config.outputs.output, parts)
    return pipeline | "End" >> beam.Impulse() | "WriteOutcome" >> written


def _paths(_: bytes, paths: Sequence[str | bytes]) -> Sequence[str | bytes]:
    return paths


@composite
def publish_collections(
    inputs: dict[str, beam.PCollection], collections: Sequence[Collection], config: RunConfig
) -> dict[str, list[beam.PCollection]]:
    """Stages 2 to 5: columns in, published epochs out, in the order of the stages.

    One branch serves all collections whose epochs begin and end together: what a graph costs grows with the
    square of its branches. Takes ``columns``, ``entries`` of the accounting, and which epochs are ``kept``;
    gives the parts of the ``outcome``, and ``rejections`` by their source.
    """
    epochs = {c.digest_hex: c.epochs for c in collections}
    left_out = LeftOut(collections, inputs["kept"])
    entries = inputs["entries"]
    columns = inputs["columns"] | "Epoch" >> window_by_epoch(epochs)
    if config.counting.deduplicate:
        spill = Spill(_spilled(config), config.counting.spill_above << 20) if _on_disk(config) else None
        once = once_per_report_id(config.counting.shard_bits, spill)
        single = columns | "OncePerReportId" >> once
        repeats = single[ACCOUNTING] | "Repeats" >> beam.WindowInto(GlobalWindows())
        # Columns have waited for all epochs to be known anyway; not even a table of counts is made of more.
        columns = left_out.without(single.columns, EpochParts, "Columns", windowed=True)
        entries = (entries, repeats) | "Booked" >> beam.Flatten()
    support = columns | "Support" >> beam.CombinePerKey(_count(collections, config))
    counted = join_accounting(support, entries, epochs)
    counted = left_out.without(counted, tuple[str, CountedEpoch], "Epochs")
    limit = config.counting.max_error_fraction
    published = publish_epochs_of_each(counted, collections, config.outputs, limit)
    return {"outcome": [*left_out.entries, published], "rejections": left_out.rejections}


def _count(collections: Sequence[Collection], config: RunConfig) -> beam.CombineFn:
    """What counts; on disk where steps share one."""
    count = CountSupportOfEach(collections)
    return CountWithSpill(count, _spilled(config)) if _on_disk(config) else count


def _on_disk(config: RunConfig) -> bool:
    return waits_on_disk(config.job.runner, config.outputs.output)


def _spilled(config: RunConfig) -> str:
    return f"{config.outputs.output}/{SPILLED}"
