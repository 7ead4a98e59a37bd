"""What a run over files did, as its steps say it: from the pipeline to the run's record (run.json)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems

from ldpbeam.accounting import Accounting, Entry
from ldpbeam.durable.document import document, parse_document
from ldpbeam.durable.errors import DamageError
from ldpbeam.durable.record import read_fields, write_fields
from ldpbeam.errors import LdpError
from ldpbeam.transforms.composite import composite
from ldpbeam.transforms.sinks.atomic import publish
from ldpbeam.transforms.sinks.estimates import PublishedIndicators
from ldpbeam.transforms.sinks.file_record import FileRecord

OUTCOME = "outcome.json"
"""The file in the output that the pipeline writes last; it is gone once run.json is there."""

Outcome = Entry | FileRecord | PublishedIndicators
"""An accounting entry, a file that was written, or signs of forged reports."""


@composite
def write_outcome(parts: tuple[beam.PCollection[Outcome], ...], output: str) -> beam.PCollection[FileRecord]:
    """Everything that steps report about themselves, to one file, where :func:`read_outcome` finds it.

    Args:
        parts: of all steps.
        output: directory or URL of an object store.
    """
    outcome = beam.pvalue.AsIter(parts | "Parts" >> beam.Flatten())
    return parts[0].pipeline | "End" >> beam.Impulse() | "Write" >> beam.Map(_write, output, outcome)


def _write(_: bytes, output: str, outcome: Iterable[Outcome]) -> FileRecord:
    entries: list[Entry] = []
    files: list[FileRecord] = []
    indicators: list[PublishedIndicators] = []
    for item in outcome:
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


def read_outcome(output: str) -> tuple[Accounting, list[FileRecord], list[tuple[str, int, Any]]]:
    """What the pipeline left: its accounting, its files, and the indicators of each result.

    Raises:
        LdpError: the file is not what was written.
    """
    path = FileSystems.join(output, OUTCOME)
    with FileSystems.open(path) as handle:
        try:
            record = parse_document(handle.read())
        except (ValueError, DamageError):
            raise LdpError(
                "E-ACCOUNTING-DAMAGED",
                "the accounting of the run is not what its pipeline wrote",
                where=path,
                remedy="Run again.",
            ) from None
    entries = ((((digest, epoch), what), count) for digest, epoch, what, count in record["entries"])
    return (
        Accounting.from_entries(entries),
        [read_fields(FileRecord, one) for one in record["files"]],
        record["indicators"],
    )
