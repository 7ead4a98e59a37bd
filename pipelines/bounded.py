"""The pipeline over files, as a table of contents: report, epoch, support, estimate, histogram."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows

from ldpbeam.accounting import Entry
from ldpbeam.collection.collection import Collection
from ldpbeam.pipelines.config import RunConfig
from ldpbeam.support import Support
from ldpbeam.transforms.coders import register_coders
from ldpbeam.transforms.sinks.atomic import FileRecord, publish
from ldpbeam.transforms.sinks.estimates import PublishedIndicators
from ldpbeam.transforms.sinks.rejects import WriteRejects
from ldpbeam.transforms.sources.files import ReadFiles
from ldpbeam.transforms.stages.accounting import join_accounting
from ldpbeam.transforms.stages.epochs import EpochColumns, OncePerReportId, WindowByEpoch
from ldpbeam.transforms.stages.left_out import LeftOut, largest_epochs, leave_out_entries
from ldpbeam.transforms.stages.publish import publish_epochs
from ldpbeam.transforms.stages.reports import ACCOUNTING, REJECTED, admit_reports, collection_tag
from ldpbeam.transforms.stages.support import CountSupport

__all__ = ["LEDGER", "CollectReports", "PublishCollection"]

LEDGER = "ledger.json"
"""What the pipeline leaves for the record of the run: accounting entries, files and indicators."""

Outcome = Entry | FileRecord | PublishedIndicators
"""What steps report about themselves: accounting entries, files written, signs of forged reports."""


class CollectReports(beam.PTransform):
    """Files of reports to published epochs, rejects, and what the record of the run needs."""

    def __init__(self, config: RunConfig, label: str | None = None) -> None:
        super().__init__(label)
        self._config = config

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection[FileRecord]:
        """Build the graph; every transform is labelled, so that a running job can be replaced."""
        register_coders()
        config = self._config
        files = pipeline | "Files" >> beam.Create(config.input.encoded, reshuffle=False)
        if config.job.spread:
            files = files | "Spread" >> beam.Reshuffle()
        chunks = files | "Read" >> beam.ParDo(ReadFiles(config.input.read_limits))
        reports = chunks | "Report" >> admit_reports(config.collections)
        kept = largest_epochs(reports[ACCOUNTING], config.input.max_epochs)
        entries = reports[ACCOUNTING] | "Lines" >> leave_out_entries(kept)
        outcome = [entries, reports[REJECTED] | "Rejects" >> WriteRejects(config.outputs.output)]
        for collection in config.collections:
            inputs = {"columns": reports[collection_tag(collection)], "entries": entries, "kept": kept}
            label = f"{collection.name}@{collection.version}"
            outcome.append(inputs | label >> PublishCollection(collection, config))
        return (
            outcome
            | "Outcome" >> beam.Flatten()
            | "OneKey" >> beam.Map(lambda item: (0, item)).with_output_types(tuple[int, Any])
            | "Together" >> beam.GroupByKey()
            | "Ledger" >> beam.ParDo(_WriteLedger(config.outputs.output))
        )


class PublishCollection(beam.PTransform):
    """Stages 2 to 5 for one collection: columns in, published epochs out. Gives the outcome."""

    def __init__(self, collection: Collection, config: RunConfig, label: str | None = None) -> None:
        super().__init__(label)
        self._collection = collection
        self._config = config

    def expand(self, inputs: dict[str, beam.PCollection]) -> beam.PCollection[Outcome]:
        """The stages, in order.

        ``inputs`` are ``columns``, ``entries`` of the accounting, and which epochs are ``kept``.
        """
        collection, config = self._collection, self._config
        left_out = LeftOut(collection, inputs["kept"])
        entries = inputs["entries"]
        outcome: list[beam.PCollection[Outcome]] = []
        columns = inputs["columns"] | "Epoch" >> WindowByEpoch(collection.epochs)
        if config.counting.deduplicate:
            once = OncePerReportId(collection.digest_hex, config.counting.shard_bits)
            single = columns | "OncePerReportId" >> once
            repeats = single[ACCOUNTING] | "Repeats" >> beam.WindowInto(GlobalWindows())
            repeats = left_out.without(repeats, Entry, "Repeats")
            columns = left_out.without(single.columns, EpochColumns)
            entries = (entries, repeats) | "Booked" >> beam.Flatten()
            outcome.append(repeats)
        support = columns | "Support" >> beam.CombinePerKey(CountSupport(collection))
        if not config.counting.deduplicate:
            # Only counts are few enough to wait until all epochs are known.
            support = left_out.without(support, tuple[int, Support])
        counted = join_accounting(support, entries, collection)
        published = publish_epochs(counted, collection, config.outputs, config.counting.max_error_fraction)
        rejections = left_out.rejections | "LeftOutRejects" >> beam.Flatten()
        rejects = rejections | "WriteLeftOut" >> WriteRejects(config.outputs.output)
        written = published | "Outcome" >> beam.WindowInto(GlobalWindows())
        return [*outcome, *left_out.entries, rejects, written] | "All" >> beam.Flatten()


class _WriteLedger(beam.DoFn):
    """Everything that steps report about themselves, to one file, where the record of the run finds it."""

    def __init__(self, output: str) -> None:
        super().__init__()
        self._output = output

    def process(self, group: tuple[int, Iterable[Outcome]]) -> Iterator[FileRecord]:
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
        yield publish(self._output, LEDGER, json.dumps(record).encode())
