"""The main pipeline, which reads as its table of contents: report, epoch, support, estimate, histogram."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows

from ldp.accounting import Entry
from ldp.collection import Collection
from ldp.reports import Rejection
from pipelines.options import RunConfig
from transforms.accounting import CloseBooks, EntriesOf, EpochEntry, Told
from transforms.coders import register_coders
from transforms.elsewhere import told_elsewhere
from transforms.epochs import EpochColumns, OncePerReportId, WindowByEpoch
from transforms.estimate import EstimateEpoch
from transforms.files import FileRecord, publish
from transforms.histogram import MakeConsistent
from transforms.rejects import WriteRejects
from transforms.reports import ACCOUNTING, REJECTED, AdmitReports, collection_tag
from transforms.sinks import Noticed, WriteEpochs
from transforms.sources import ReadFiles
from transforms.support import CountSupport

__all__ = ["LEDGER", "CollectReports", "PublishCollection"]

LEDGER = "ledger.json"
"""What the pipeline leaves for the run record: books and files."""

Outcome = Entry | FileRecord | Noticed
"""What stages report about themselves: records booked, files written, signs of forged reports noticed."""


class PublishCollection(beam.PTransform):
    """Stages 2 to 5 for one collection: columns in, published epochs out. Gives the outcome."""

    def __init__(
        self,
        collection: Collection,
        config: RunConfig,
        told: Mapping[int, Told] | None = None,
        label: str | None = None,
    ) -> None:
        """Keep the frozen configuration; ``told`` as in :class:`CloseBooks`."""
        super().__init__(label)
        self._collection = collection
        self._config = config
        self._told = told

    def expand(self, inputs: dict[str, beam.PCollection]) -> beam.PCollection[Outcome]:
        """The stages, in order; ``inputs`` are ``columns`` and the ``entries`` that were booked for them."""
        collection, config = self._collection, self._config
        booked = inputs["entries"]
        columns = inputs["columns"] | "Epoch" >> WindowByEpoch(collection.epochs)
        outcome: list[beam.PCollection[Outcome]] = []
        if config.deduplicate:
            once = OncePerReportId(collection.digest_hex, config.shard_bits)
            kept = columns | "OncePerReportId" >> once
            columns, repeated = kept.columns, kept[ACCOUNTING]
            outcome.append(repeated)
            repeated = repeated | "Repeats" >> beam.WindowInto(GlobalWindows())
            booked = (booked, repeated) | "Booked" >> beam.Flatten()
        support = columns | "Support" >> beam.CombinePerKey(CountSupport(collection))
        entries = (
            booked
            | "Entries" >> EntriesOf(collection.digest_hex)
            | "Line" >> WindowByEpoch(collection.epochs, EpochEntry)
        )
        final = (
            {"support": support, "entries": entries}
            | "Books" >> CloseBooks(self._told)
            | "Estimate" >> beam.ParDo(EstimateEpoch(collection, config.max_error_fraction))
            | "Histogram" >> beam.ParDo(MakeConsistent(collection))
        )
        told = told_elsewhere(
            final, collection, config.publish_topic, config.bigquery_table, config.output, config.job
        )
        outcome.append(told | "Write" >> beam.ParDo(WriteEpochs(collection, config.output, config.job)))
        return outcome | "All" >> beam.Flatten() | "Outcome" >> beam.WindowInto(GlobalWindows())


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
        by_tag = {collection_tag(c): c for c in config.collections}
        outputs: dict[str, Any] = dict.fromkeys(by_tag, EpochColumns)
        outputs |= {REJECTED: tuple[str, Rejection], ACCOUNTING: Entry}
        admit = AdmitReports({c.digest: c for c in config.collections})
        files = pipeline | "Files" >> beam.Create(list(config.inputs), reshuffle=False)
        if config.spread:
            files = files | "Spread" >> beam.Reshuffle()
        reports = (
            files
            | "Read" >> beam.ParDo(ReadFiles())
            | "Report" >> beam.ParDo(admit).with_output_types(Any, **outputs).with_outputs(*outputs)
        )
        rejects = reports[REJECTED] | "RejectsBySource" >> beam.GroupByKey()
        outcome = [
            reports[ACCOUNTING],
            rejects | "WriteRejects" >> beam.ParDo(WriteRejects(config.output)),
        ]
        for tag, collection in by_tag.items():
            label = f"{collection.name}@{collection.version}"
            inputs = {"columns": reports[tag], "entries": reports[ACCOUNTING]}
            outcome.append(inputs | label >> PublishCollection(collection, config))
        return (
            outcome
            | "Outcome" >> beam.Flatten()
            | "OneKey" >> beam.Map(lambda item: (0, item)).with_output_types(tuple[int, Any])
            | "Together" >> beam.GroupByKey()
            | "Ledger" >> beam.ParDo(_WriteLedger(config.output))
        )


class _WriteLedger(beam.DoFn):
    """Add the books up, list the files, and write both where the run record finds them."""

    def __init__(self, output: str) -> None:
        super().__init__()
        self._output = output

    def process(self, group: tuple[int, Iterable[Outcome]]) -> Iterator[FileRecord]:
        lines: list[Entry] = []
        files: list[FileRecord] = []
        noticed: list[Noticed] = []
        for item in group[1]:
            if isinstance(item, FileRecord):
                files.append(item)
            elif isinstance(item, Noticed):
                noticed.append(item)
            else:
                lines.append(item)
        record = {
            "books": [[digest, epoch, what, count] for ((digest, epoch), what), count in lines],
            "files": [f.as_record() for f in files],
            "noticed": [[one.digest, one.epoch, one.indicators] for one in noticed],
        }
        yield publish(self._output, LEDGER, json.dumps(record).encode())
