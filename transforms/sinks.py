"""After stage 5, sinks: one table per epoch and revision, and the epoch's books, which come last.

Beam's own file sinks lose or repeat late panes, so files are written here: names follow from collection,
digest, epoch and revision; content goes to a temporary file, is forced to disk and renamed. Writing the same
result twice leaves the same files. A revision counts as published once the books name it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import apache_beam as beam

from ldp.accounting import Entry, Line
from ldp.collection import Collection
from ldp.epochs import instant
from ldp.histogram import EpochHistogram
from transforms.files import FileRecord, publish
from transforms.revisions import books_file_name, content_digest, epoch_stem, read_books
from transforms.tables import epoch_table, fixed_columns

__all__ = ["BOOKS_SCHEMA", "WriteEpochs", "books_file_name", "epoch_file_name", "read_books"]

BOOKS_SCHEMA = "ldpbeam.epoch/1"


def epoch_file_name(collection: Collection, epoch: int, revision: int) -> str:
    """``estimates/NAME-DIGEST-epoch-000012-r000.parquet``."""
    return f"estimates/{epoch_stem(collection, epoch)}-r{revision:03d}.parquet"


class WriteEpochs(beam.DoFn):
    """Histograms to Parquet files, books to JSON; gives a :class:`FileRecord` each and the ``counted`` entry.

    What is booked as counted is what the accumulator behind the published numbers has counted.

    In an unbounded job an epoch is written again and again; the books keep every revision.
    """

    def __init__(self, collection: Collection, output: str, job: str = "") -> None:
        """Write epochs of this collection below ``output``; ``job`` names an unbounded job, else empty."""
        super().__init__()
        self._collection = collection
        self._output = output
        self._job = job
        self._fixed: dict[str, Any] = {}

    def setup(self) -> None:
        """Columns that are the same for every epoch, once per worker."""
        self._fixed = fixed_columns(self._collection)

    def process(self, histogram: EpochHistogram) -> Iterator[FileRecord | Entry]:
        """A table unless only the books have changed, then the books."""
        known = read_books(self._output, self._collection, histogram.epoch) if self._job else None
        published = {int(r["revision"]): r for r in known["revisions"]} if known else {}
        if histogram.attributes or histogram.withheld:
            number = histogram.revision
            entry: dict[str, Any] = {
                "revision": number,
                "pane": histogram.pane,
                "n": histogram.reports,
                "withheld": histogram.withheld,
                "content": content_digest(self._collection, histogram),
                **({"job": self._job} if self._job else {}),
                "file": None,
            }
            if histogram.attributes:
                found = self._write_table(histogram, number)
                yield found
                entry |= {
                    "file": found.path,
                    "bytes": found.size,
                    "sha256": found.sha256,
                    "rows": found.rows,
                }
            published[number] = entry
        if histogram.line is not None:
            yield self._write_books(histogram, published)
            key = (self._collection.digest_hex, histogram.epoch)
            counted: Entry = ((key, "counted"), histogram.line.counted)
            yield counted

    def _write_table(self, histogram: EpochHistogram, number: int) -> FileRecord:
        import pyarrow.parquet as pq

        table = epoch_table(self._collection, histogram, self._fixed)
        sink = io.BytesIO()
        pq.write_table(table, sink, compression="zstd")
        name = epoch_file_name(self._collection, histogram.epoch, number)
        return publish(self._output, name, sink.getvalue(), table.num_rows)

    def _write_books(self, histogram: EpochHistogram, published: dict[int, dict[str, Any]]) -> FileRecord:
        record = books_record(
            self._collection,
            histogram.epoch,
            histogram.line or Line(),
            [published[number] for number in sorted(published)],
            closed=histogram.closed,
        )
        if histogram.position is not None:
            record["position"] = dict(histogram.position)
        content = (json.dumps(record, indent=1) + "\n").encode()
        return publish(self._output, books_file_name(self._collection, histogram.epoch), content)


def books_record(
    collection: Collection, epoch: int, line: Line, revisions: list[dict[str, Any]], *, closed: bool
) -> dict[str, Any]:
    """Content of an epoch's file in ``accounting/``."""
    return {
        "schema": BOOKS_SCHEMA,
        "collection": collection.name,
        "version": collection.version,
        "digest": collection.digest_hex,
        "epoch": epoch,
        "epoch_start": instant(collection.epochs.start(epoch)),
        "epoch_end": instant(collection.epochs.end(epoch)),
        "closes": instant(collection.closes(epoch)),
        "closed": closed,
        "accounting": {**line.as_record(), "pending": line.pending},
        "error_fraction": round(line.error_fraction, 9),
        "revisions": revisions,
    }
