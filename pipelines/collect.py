"""The main pipeline, which reads as its table of contents: report, epoch, support, estimate, histogram."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows

from ldp.collection import Collection
from ldp.histogram import EpochHistogram
from ldp.reports import Rejection
from pipelines.options import RunConfig
from transforms.accounting import Entry
from transforms.coders import register_coders
from transforms.epochs import EpochColumns, OncePerReportId, WindowByEpoch
from transforms.estimate import EstimateEpoch
from transforms.histogram import MakeConsistent
from transforms.reports import ACCOUNTING, REJECTED, AdmitReports, collection_tag
from transforms.sinks import FileRecord, WriteEpochs, WriteRejects, publish
from transforms.sources import ReadFiles
from transforms.support import CountSupport

__all__ = ["LEDGER", "CollectReports", "EstimateCollection"]

LEDGER = "ledger.json"
"""What the pipeline leaves for the run record: books and files."""


class EstimateCollection(beam.PTransform):
    """Stages 2 to 5 for one collection: columns in, histograms out, entries beside them."""

    def __init__(self, collection: Collection, config: RunConfig, label: str | None = None) -> None:
        """Keep the frozen configuration."""
        super().__init__(label)
        self._collection = collection
        self._config = config

    def expand(
        self, columns: beam.PCollection[EpochColumns]
    ) -> tuple[beam.PCollection[object], list[beam.PCollection[Entry]]]:
        """The stages, in order."""
        collection, books = self._collection, []
        columns = columns | "Epoch" >> WindowByEpoch(collection.epochs)
        if self._config.deduplicate:
            once = columns | "OncePerReportId" >> OncePerReportId(
                collection.digest_hex, self._config.shard_bits
            )
            columns, books = once.columns, [once[ACCOUNTING]]
        support = columns | "Support" >> beam.CombinePerKey(CountSupport(collection))
        estimates = (
            support
            | "Estimate"
            >> beam.ParDo(EstimateEpoch(collection))
            .with_output_types(EpochHistogram, **{ACCOUNTING: Entry})
            .with_outputs(ACCOUNTING, main="estimates")
        )
        histograms = estimates.estimates | "Histogram" >> beam.ParDo(MakeConsistent(collection))
        return histograms, [*books, estimates[ACCOUNTING]]


class CollectReports(beam.PTransform):
    """Files of reports to published epochs, rejects and books."""

    def __init__(self, config: RunConfig, label: str | None = None) -> None:
        """Keep the frozen configuration."""
        super().__init__(label)
        self._config = config

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection[FileRecord]:
        """Build the graph; every transform is labelled, so that a running job can be replaced."""
        register_coders()
        config = self._config
        tags = [collection_tag(c) for c in config.collections]
        outputs = {tag: EpochColumns for tag in tags} | {REJECTED: Rejection, ACCOUNTING: Entry}
        admit = AdmitReports({c.digest: c for c in config.collections})
        admitted = (
            pipeline
            | "Files" >> beam.Create(list(config.inputs), reshuffle=False)
            | "Spread" >> beam.Reshuffle()
            | "Read" >> beam.ParDo(ReadFiles())
            | "Report"
            >> beam.ParDo(admit).with_output_types(Any, **outputs).with_outputs(*outputs)
        )
        books: list[beam.PCollection[Entry]] = [admitted[ACCOUNTING]]
        written: list[beam.PCollection[FileRecord]] = []
        for collection, tag in zip(config.collections, tags, strict=True):
            name = f"{collection.name}@{collection.version}"
            histograms, entries = admitted[tag] | f"Collection {name}" >> EstimateCollection(
                collection, config
            )
            books += entries
            written.append(
                histograms | f"Write {name}" >> beam.ParDo(WriteEpochs(collection, config.output))
            )
        written.append(admitted[REJECTED] | "Rejects" >> _Rejects(config.output))
        return _ledger(books, written, config.output)


class _Rejects(beam.PTransform):
    def __init__(self, output: str) -> None:
        super().__init__()
        self._output = output

    def expand(self, rejections: beam.PCollection[Rejection]) -> beam.PCollection[FileRecord]:
        return (
            rejections
            | "BySource" >> beam.Map(lambda r: (r.source, r)).with_output_types(tuple[str, Rejection])
            | "Gather" >> beam.GroupByKey()
            | "Write" >> beam.ParDo(WriteRejects(self._output))
        )


def _ledger(
    books: list[beam.PCollection[Entry]],
    written: list[beam.PCollection[FileRecord]],
    output: str,
) -> beam.PCollection[FileRecord]:
    """Add the books up, list the files and write both where the run record finds them."""

    def globally(parts: list[beam.PCollection[object]], label: str) -> beam.PCollection[object]:
        whole = [p | f"{label}{i}" >> beam.WindowInto(GlobalWindows()) for i, p in enumerate(parts)]
        return whole | f"All{label}" >> beam.Flatten()

    sums = globally(books, "Books") | "SumBooks" >> beam.CombinePerKey(sum)
    files = globally(written, "Written")
    return (
        (sums, files)
        | "Everything" >> beam.Flatten()
        | "OneGroup" >> beam.Map(lambda item: (0, item)).with_output_types(tuple[int, object])
        | "Together" >> beam.GroupByKey()
        | "Ledger" >> beam.ParDo(_WriteLedger(output))
    )


class _WriteLedger(beam.DoFn):
    def __init__(self, output: str) -> None:
        super().__init__()
        self._output = output

    def process(self, group: tuple[int, Iterable[Entry | FileRecord]]) -> Iterator[FileRecord]:
        lines: list[Entry] = []
        files: list[FileRecord] = []
        for item in group[1]:
            if isinstance(item, FileRecord):
                files.append(item)
            else:
                lines.append(item)
        record = {
            "books": [[digest, epoch, what, count] for ((digest, epoch), what), count in lines],
            "files": [f.as_record() for f in files],
        }
        yield publish(self._output, LEDGER, json.dumps(record).encode())
