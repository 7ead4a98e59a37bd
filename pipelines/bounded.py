"""The main pipeline, which reads as its table of contents: report, epoch, support, estimate, histogram."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows

from ldpbeam.accounting import Entry
from ldpbeam.collection.collection import Collection
from ldpbeam.pipelines.config import RunConfig
from ldpbeam.reports import Rejection
from ldpbeam.support import Support
from ldpbeam.transforms.coders import register_coders
from ldpbeam.transforms.sinks.atomic import FileRecord, publish
from ldpbeam.transforms.sinks.estimates import PublishedIndicators, WriteEpochs
from ldpbeam.transforms.sinks.optional import write_optional_sinks
from ldpbeam.transforms.sinks.rejects import WriteRejects
from ldpbeam.transforms.sources.files import ReadFiles
from ldpbeam.transforms.stages.accounting import CloseBooks, EntriesOf, EpochEntry, Publication
from ldpbeam.transforms.stages.epochs import EpochColumns, OncePerReportId, WindowByEpoch
from ldpbeam.transforms.stages.estimate import EstimateEpoch
from ldpbeam.transforms.stages.histogram import MakeConsistent
from ldpbeam.transforms.stages.left_out import LeaveOutEpochs, LeaveOutLines, largest_epochs
from ldpbeam.transforms.stages.reports import ACCOUNTING, REJECTED, AdmitReports, collection_tag
from ldpbeam.transforms.stages.support import CountSupport

__all__ = ["LEDGER", "CollectReports", "PublishCollection"]

LEDGER = "ledger.json"
"""What the pipeline leaves for the run record: books and files."""

Outcome = Entry | FileRecord | PublishedIndicators
"""What stages report about themselves: records booked, files written, signs of forged reports noticed."""


class PublishCollection(beam.PTransform):
    """Stages 2 to 5 for one collection: columns in, published epochs out. Gives the outcome."""

    def __init__(
        self,
        collection: Collection,
        config: RunConfig,
        told: Mapping[int, Publication] | None = None,
        label: str | None = None,
    ) -> None:
        """Keep the frozen configuration; ``told`` as in :class:`CloseBooks`."""
        super().__init__(label)
        self._collection = collection
        self._config = config
        self._told = told

    def expand(self, inputs: dict[str, beam.PCollection]) -> beam.PCollection[Outcome]:
        """The stages, in order.

        ``inputs`` are ``columns``, the ``entries`` that were booked for them, and for a run over files which
        epochs are ``kept``.
        """
        collection, config = self._collection, self._config
        booked = inputs["entries"]
        columns = inputs["columns"] | "Epoch" >> WindowByEpoch(collection.epochs)
        outcome: list[beam.PCollection[Outcome]] = []
        left_out: list[beam.PCollection[tuple[str, Rejection]]] = []
        kept = beam.pvalue.AsSingleton(inputs["kept"]) if "kept" in inputs else None
        if config.counting.deduplicate:
            once = OncePerReportId(collection.digest_hex, config.counting.shard_bits)
            single = columns | "OncePerReportId" >> once
            columns, repeated = single.columns, single[ACCOUNTING]
            repeated = repeated | "Repeats" >> beam.WindowInto(GlobalWindows())
            if kept is not None:
                repeated = self._kept(repeated, kept, outcome, left_out, Entry, "Repeats")
                columns = self._kept(columns, kept, outcome, left_out, EpochColumns)
            outcome.append(repeated)
            booked = (booked, repeated) | "Booked" >> beam.Flatten()
        support = columns | "Support" >> beam.CombinePerKey(CountSupport(collection))
        if kept is not None and not config.counting.deduplicate:
            # Only counts are few enough to wait until all epochs are known.
            support = self._kept(support, kept, outcome, left_out, tuple[int, Support])
        entries = (
            booked
            | "Entries" >> EntriesOf(collection.digest_hex)
            | "Line" >> WindowByEpoch(collection.epochs, EpochEntry)
        )
        final = (
            {"support": support, "entries": entries}
            | "Books" >> CloseBooks(self._told)
            | "Estimate" >> beam.ParDo(EstimateEpoch(collection, config.counting.max_error_fraction))
            | "Histogram" >> beam.ParDo(MakeConsistent(collection))
        )
        told = write_optional_sinks(final, collection, config.outputs)
        written = told | "Write" >> beam.ParDo(
            WriteEpochs(collection, config.outputs.output, config.outputs.job)
        )
        if left_out:
            together = left_out | "LeftOutRejects" >> beam.Flatten()
            outcome.append(together | "WriteLeftOut" >> WriteRejects(config.outputs.output))
        outcome.append(written | "Outcome" >> beam.WindowInto(GlobalWindows()))
        return outcome | "All" >> beam.Flatten()

    def _kept(
        self,
        found: beam.PCollection,
        kept: Any,
        outcome: list[beam.PCollection[Outcome]],
        left_out: list[beam.PCollection[tuple[str, Rejection]]],
        kind: Any,
        of: str = "",
    ) -> beam.PCollection:
        """What is of epochs that the run has; the rest is rejected, and listed as left out."""
        leave_out = beam.ParDo(LeaveOutEpochs(self._collection), kept)
        typed = leave_out.with_output_types(kind, **{ACCOUNTING: Entry, REJECTED: tuple[str, Rejection]})
        chosen = found | f"Kept{of}" >> typed.with_outputs(ACCOUNTING, REJECTED, main="kept")
        outcome.append(chosen[ACCOUNTING] | f"LeftOut{of}" >> beam.WindowInto(GlobalWindows()))
        rejected = chosen[REJECTED] | f"Rejected{of}" >> beam.WindowInto(GlobalWindows())
        left_out.append(rejected)
        return chosen.kept


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
        files = pipeline | "Files" >> beam.Create(config.input.encoded, reshuffle=False)
        if config.job.spread:
            files = files | "Spread" >> beam.Reshuffle()
        reports = (
            files
            | "Read" >> beam.ParDo(ReadFiles(config.input.read_limits))
            | "Report" >> beam.ParDo(admit).with_output_types(Any, **outputs).with_outputs(*outputs)
        )
        kept = largest_epochs(reports[ACCOUNTING], config.input.max_epochs)
        entries = reports[ACCOUNTING] | "Lines" >> beam.ParDo(
            LeaveOutLines(), beam.pvalue.AsSingleton(kept)
        ).with_output_types(Entry)
        outcome = [entries, reports[REJECTED] | "Rejects" >> WriteRejects(config.outputs.output)]
        for tag, collection in by_tag.items():
            label = f"{collection.name}@{collection.version}"
            inputs = {"columns": reports[tag], "entries": entries, "kept": kept}
            outcome.append(inputs | label >> PublishCollection(collection, config))
        return (
            outcome
            | "Outcome" >> beam.Flatten()
            | "OneKey" >> beam.Map(lambda item: (0, item)).with_output_types(tuple[int, Any])
            | "Together" >> beam.GroupByKey()
            | "Ledger" >> beam.ParDo(_WriteLedger(config.outputs.output))
        )


class _WriteLedger(beam.DoFn):
    """Add the books up, list the files, and write both where the run record finds them."""

    def __init__(self, output: str) -> None:
        super().__init__()
        self._output = output

    def process(self, group: tuple[int, Iterable[Outcome]]) -> Iterator[FileRecord]:
        lines: list[Entry] = []
        files: list[FileRecord] = []
        noticed: list[PublishedIndicators] = []
        for item in group[1]:
            if isinstance(item, FileRecord):
                files.append(item)
            elif isinstance(item, PublishedIndicators):
                noticed.append(item)
            else:
                lines.append(item)
        record = {
            "books": [[digest, epoch, what, count] for ((digest, epoch), what), count in lines],
            "files": [f.as_record() for f in files],
            "noticed": [[one.digest, one.epoch, one.indicators] for one in noticed],
        }
        yield publish(self._output, LEDGER, json.dumps(record).encode())
