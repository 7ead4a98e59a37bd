"""The pipeline over files, as a table of contents: report, epoch, support, estimate, histogram."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows

from ldpbeam.accounting import Entry
from ldpbeam.collection.collection import Collection
from ldpbeam.pipelines.config import RunConfig
from ldpbeam.support import Support
from ldpbeam.transforms.coders import register_coders
from ldpbeam.transforms.composite import composite
from ldpbeam.transforms.sinks.atomic import publish
from ldpbeam.transforms.sinks.estimates import PublishedIndicators
from ldpbeam.transforms.sinks.file_record import FileRecord
from ldpbeam.transforms.sinks.rejects import rejects_by_source
from ldpbeam.transforms.sources.files import read_files
from ldpbeam.transforms.stages.accounting import join_accounting
from ldpbeam.transforms.stages.epochs import EpochColumns, once_per_report_id, window_by_epoch
from ldpbeam.transforms.stages.left_out import LeftOut, largest_epochs, leave_out_entries
from ldpbeam.transforms.stages.publish import publish_epochs_of_each
from ldpbeam.transforms.stages.reports import ACCOUNTING, REJECTED, EpochKey, admit_reports, by_calendar
from ldpbeam.transforms.stages.spill import Spill
from ldpbeam.transforms.stages.support import CountSupportOfEach

LEDGER = "ledger.json"
"""What the pipeline leaves for the record of the run: accounting entries, files and indicators."""

SPILLED = "spilled"
"""Folder below the output for columns that wait on disk; whoever runs the pipeline removes it."""

Outcome = Entry | FileRecord | PublishedIndicators
"""What steps report about themselves: accounting entries, files written, signs of forged reports."""


@composite
def collect_reports(pipeline: beam.Pipeline, config: RunConfig) -> beam.PCollection[FileRecord]:
    """Files of reports to published epochs, rejects, and what the record of the run needs.

    Every transform is labelled, so that a running job can be replaced.
    """
    register_coders()
    files = pipeline | "Files" >> beam.Create(config.input.encoded, reshuffle=False)
    if config.job.spread:
        files = files | "Spread" >> beam.Reshuffle()
    chunks = files | "Read" >> read_files(config.input.read_limits)
    reports = chunks | "Report" >> admit_reports(config.collections)
    kept = largest_epochs(reports[ACCOUNTING], config.input.max_epochs)
    of_kept = beam.FlatMap(leave_out_entries, beam.pvalue.AsSingleton(kept)).with_output_types(Entry)
    entries = reports[ACCOUNTING] | "Lines" >> of_kept
    outcome = [entries, reports[REJECTED] | "Rejects" >> rejects_by_source(config.outputs.output)]
    for tag, collections in by_calendar(config.collections).items():
        inputs = {"columns": reports[tag], "entries": entries, "kept": kept}
        outcome.append(inputs | tag >> publish_collections(collections, config))
    return (
        outcome
        | "Outcome" >> beam.Flatten()
        | "OneKey" >> beam.Map(lambda item: (0, item)).with_output_types(tuple[int, Any])
        | "Together" >> beam.GroupByKey()
        | "Ledger" >> beam.Map(_write_ledger, config.outputs.output)
    )


@composite
def publish_collections(
    inputs: dict[str, beam.PCollection], collections: Sequence[Collection], config: RunConfig
) -> beam.PCollection[Outcome]:
    """Stages 2 to 5: columns in, published epochs out, in the order of the stages.

    One branch serves all collections whose epochs begin and end together: what a graph costs grows with the
    square of its branches. Takes ``columns``, ``entries`` of the accounting, and which epochs are ``kept``;
    gives the outcome.
    """
    epochs = {c.digest_hex: c.epochs for c in collections}
    left_out = LeftOut(collections, inputs["kept"])
    entries = inputs["entries"]
    outcome: list[beam.PCollection[Outcome]] = []
    columns = inputs["columns"] | "Epoch" >> window_by_epoch(epochs)
    if config.counting.deduplicate:
        once = once_per_report_id(config.counting.shard_bits, _spill(config))
        single = columns | "OncePerReportId" >> once
        repeats = single[ACCOUNTING] | "Repeats" >> beam.WindowInto(GlobalWindows())
        repeats = left_out.without(repeats, Entry, "Repeats")
        columns = left_out.without(single.columns, EpochColumns)
        entries = (entries, repeats) | "Booked" >> beam.Flatten()
        outcome.append(repeats)
    count = CountSupportOfEach(collections, aside=not config.job.spread)
    support = columns | "Support" >> beam.CombinePerKey(count)
    if not config.counting.deduplicate:
        # Only counts are few enough to wait until all epochs are known.
        support = left_out.without(support, tuple[EpochKey, Support])
    counted = join_accounting(support, entries, epochs)
    limit = config.counting.max_error_fraction
    published = publish_epochs_of_each(counted, collections, config.outputs, limit)
    rejections = left_out.rejections | "LeftOutRejects" >> beam.Flatten()
    rejects = rejections | "WriteLeftOut" >> rejects_by_source(config.outputs.output)
    written = published | "Outcome" >> beam.WindowInto(GlobalWindows())
    return [*outcome, *left_out.entries, rejects, written] | "All" >> beam.Flatten()


def _spill(config: RunConfig) -> Spill | None:
    """On disk where one process does all the work; workers of a cluster share none."""
    output = config.outputs.output
    if config.job.runner != "FnApiRunner" or "://" in output:
        return None
    return Spill(f"{output}/{SPILLED}", config.counting.spill_above << 20)


def _write_ledger(group: tuple[int, Iterable[Outcome]], output: str) -> FileRecord:
    """Everything that steps report about themselves, to one file, where the record of the run finds it."""
    entries: list[Entry] = []
    files: list[FileRecord] = []
    indicators: list[PublishedIndicators] = []
    for item in group[1]:
        if isinstance(item, FileRecord):
            files.append(item)
        elif isinstance(item, PublishedIndicators):
            indicators.append(item)
        else:
            entries.append(item)
    record = {
        "books": [[digest, epoch, what, count] for ((digest, epoch), what), count in entries],
        "files": [f.as_record() for f in files],
        "noticed": [[one.digest, one.epoch, one.indicators] for one in indicators],
    }
    return publish(output, LEDGER, json.dumps(record).encode())
