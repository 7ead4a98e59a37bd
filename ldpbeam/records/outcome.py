"""What a run over files did, as its steps say it: from the pipeline to the run's record (run.json)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems

from ldpbeam.accounting import Accounting, Entry
from ldpbeam.durable.document import document, parse_document
from ldpbeam.durable.errors import DamageError
from ldpbeam.durable.record import read_fields, write_fields
from ldpbeam.errors import LdpError
from ldpbeam.indicators import EXPLANATIONS, FALSE_ALARM
from ldpbeam.records.run_record import Alarm, Indicators
from ldpbeam.transforms.composite import composite
from ldpbeam.transforms.sinks.atomic import publish
from ldpbeam.transforms.sinks.estimates import Published, PublishedIndicators
from ldpbeam.transforms.sinks.file_record import FileRecord

OUTCOME = "outcome.json"
"""The file in the output that the pipeline writes last; it is gone once run.json is there."""


class RunOutcome(NamedTuple):
    accounting: Accounting
    files: list[FileRecord]
    indicators: Indicators | None = None


@composite
def write_outcome(
    parts: tuple[beam.PCollection[Published], ...], output: str
) -> beam.PCollection[FileRecord]:
    """Everything that steps report about themselves, to one file, where :func:`read_outcome` finds it."""
    published = beam.pvalue.AsIter(parts | "Parts" >> beam.Flatten())
    return parts[0].pipeline | "End" >> beam.Impulse() | "Write" >> beam.Map(_write, output, published)


def _write(_: bytes, output: str, published: Iterable[Published]) -> FileRecord:
    entries: list[Entry] = []
    files: list[FileRecord] = []
    indicators: list[PublishedIndicators] = []
    for item in published:
        if isinstance(item, FileRecord):
            files.append(item)
        elif isinstance(item, PublishedIndicators):
            indicators.append(item)
        else:
            entries.append(item)
    record = {
        "entries": [[digest, epoch, what, count] for ((digest, epoch), what), count in entries],
        "files": list(map(write_fields, files)),
        "indicators": [[one.digest, one.epoch, one.indicators] for one in indicators],
    }
    return publish(output, OUTCOME, document(record, indent=None))


def read_outcome(output: str) -> RunOutcome:
    path = FileSystems.join(output, OUTCOME)
    with FileSystems.open(path) as handle:
        try:
            record = parse_document(handle.read())
        except (ValueError, DamageError):
            raise LdpError(
                "E-RUN-DAMAGED",
                "the accounting of the run is not what its pipeline wrote",
                where=path,
                remedy="Run again.",
            ) from None
    entries = ((((digest, epoch), what), count) for digest, epoch, what, count in record["entries"])
    return RunOutcome(
        Accounting.from_entries(entries),
        [read_fields(FileRecord, one) for one in record["files"]],
        indicators_record(PublishedIndicators(*one) for one in record["indicators"]),
    )


def indicators_record(newest: Iterable[PublishedIndicators]) -> Indicators:
    """What run.json says about signs of forged reports; the accounting of an epoch has all its indicators."""
    results = sorted((one for one in newest if one.indicators), key=lambda one: (one.digest, one.epoch))
    alarms = tuple(
        Alarm(digest=one.digest, epoch=one.epoch, **each, meaning=EXPLANATIONS[each["indicator"]])
        for one in results
        for each in one.indicators
        if each["alarm"]
    )
    return Indicators(FALSE_ALARM, len(results), sum(len(one.indicators) for one in results), alarms)
