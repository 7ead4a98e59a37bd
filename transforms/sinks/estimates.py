"""After stage 5, sinks: one table per epoch and revision, and the epoch's books, which come last.

Beam's own file sinks lose or repeat late panes, so files are written here: names follow from collection,
digest, epoch and revision; content goes to a temporary file, is forced to disk and renamed. Writing the same
result twice leaves the same files. A revision counts as published once the books name it.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import Any

import apache_beam as beam

from ldpbeam.accounting import Account, Entry
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.epochs import instant
from ldpbeam.histogram import EpochHistogram
from ldpbeam.transforms.sinks.accounting import books_file_name, content_digest, epoch_stem, read_books
from ldpbeam.transforms.sinks.atomic import FileRecord, link, publish, remove
from ldpbeam.transforms.sinks.tables import epoch_table, fixed_columns

__all__ = [
    "BOOKS_SCHEMA",
    "EpochFiles",
    "Noticed",
    "WriteEpochs",
    "books_file_name",
    "epoch_file_name",
    "latest_file_name",
    "read_books",
]

BOOKS_SCHEMA = "ldpbeam.epoch/1"


def epoch_file_name(collection: Collection, epoch: int, revision: int) -> str:
    """``estimates/NAME-DIGEST-epoch-000012-r000.parquet``."""
    return f"estimates/{epoch_stem(collection, epoch)}-r{revision:03d}.parquet"


def latest_file_name(collection: Collection, epoch: int) -> str:
    """``latest/NAME-DIGEST-epoch-000012.parquet``: the newest revision of an epoch."""
    return f"latest/{epoch_stem(collection, epoch)}.parquet"


@dataclass(frozen=True)
class Noticed:
    """Indicators of one result, as its books have them.

    Attributes:
        digest: of the collection, 16 hexadecimal digits.
        epoch: index.
        indicators: records, see :meth:`ldpbeam.indicators.Indicator.as_record`.
    """

    digest: str
    epoch: int
    indicators: list[dict[str, Any]]


class EpochFiles:
    """Files of one collection's epochs: a table of estimates for each revision, and the epoch's accounting.

    In an unbounded job an epoch is written again and again; its accounting keeps every revision.
    ``latest/`` has the newest one of each epoch: it changes from one whole table to the next, just before the
    accounting names it, so that it is never behind; an epoch whose newest result is withheld has none.
    """

    def __init__(self, collection: Collection, output: str, job: str = "") -> None:
        """Write epochs of this collection below ``output``; ``job`` names an unbounded job, else empty."""
        self._collection = collection
        self._output = output
        self._job = job
        self._fixed = fixed_columns(collection)
        self._names = [name for name, _ in collection.histograms]

    def write(self, histogram: EpochHistogram) -> list[FileRecord | Noticed | Entry]:
        """Write a table, unless only the accounting has changed, then the accounting.

        Returns:
            The files, indicators of forged reports if there are any, and the ``counted`` entry: what is
            accounted as counted is what the accumulator behind the published numbers has counted.
        """
        done: list[FileRecord | Noticed | Entry] = []
        known = read_books(self._output, self._collection, histogram.epoch) if self._job else None
        published = {int(r["revision"]): r for r in known["revisions"]} if known else {}
        key = (self._collection.digest_hex, histogram.epoch)
        if histogram.attributes or histogram.withheld:
            number = histogram.revision
            # A job that was set back publishes older revisions once more.
            newest = number >= max(published, default=0)
            entry: dict[str, Any] = {
                "revision": number,
                "pane": histogram.pane,
                "n": histogram.reports,
                "withheld": histogram.withheld,
                "content": content_digest(self._collection, histogram),
                **({"job": self._job} if self._job else {}),
                "indicators": [one.as_record(self._names) for one in histogram.indicators],
                "file": None,
            }
            if histogram.attributes:
                table = self._write_table(histogram, number, newest)
                done.append(table)
                entry |= {
                    "file": table.path,
                    "bytes": table.size,
                    "sha256": table.sha256,
                    "rows": table.rows,
                }
            elif known and newest:
                remove(self._output, latest_file_name(self._collection, histogram.epoch))
            published[number] = entry
            if histogram.indicators:
                done.append(Noticed(*key, entry["indicators"]))
        if histogram.account is not None:
            done.append(self._write_books(histogram, published))
            counted: Entry = ((key, "counted"), histogram.account.counted)
            done.append(counted)
        return done

    def _write_table(self, histogram: EpochHistogram, number: int, newest: bool) -> FileRecord:
        import pyarrow.parquet as pq

        table = epoch_table(self._collection, histogram, self._fixed)
        sink = io.BytesIO()
        pq.write_table(table, sink, compression="zstd")
        name = epoch_file_name(self._collection, histogram.epoch, number)
        made = publish(self._output, name, sink.getvalue(), table.num_rows)
        if newest:
            latest = latest_file_name(self._collection, histogram.epoch)
            # A run over files forces the folder to disk once, before its record.
            link(self._output, latest, name, sink.getvalue(), sync=bool(self._job))
        return made

    def _write_books(self, histogram: EpochHistogram, published: dict[int, dict[str, Any]]) -> FileRecord:
        record = books_record(
            self._collection,
            histogram.epoch,
            histogram.account or Account(),
            [published[number] for number in sorted(published)],
            closed=histogram.closed,
        )
        if histogram.position is not None:
            record["position"] = dict(histogram.position)
        content = (json.dumps(record, indent=1) + "\n").encode()
        return publish(self._output, books_file_name(self._collection, histogram.epoch), content)


class WriteEpochs(beam.DoFn):
    """:class:`EpochFiles` as a step of a pipeline; gives what :meth:`EpochFiles.write` returns."""

    def __init__(self, collection: Collection, output: str, job: str = "") -> None:
        """Parameters as of :class:`EpochFiles`."""
        super().__init__()
        self._parameters = (collection, output, job)
        self._files: EpochFiles

    def setup(self) -> None:
        """Make the columns that are the same for every epoch, once per worker."""
        self._files = EpochFiles(*self._parameters)

    def process(self, histogram: EpochHistogram) -> list[FileRecord | Noticed | Entry]:
        """Write one histogram."""
        return self._files.write(histogram)


def books_record(
    collection: Collection, epoch: int, account: Account, revisions: list[dict[str, Any]], *, closed: bool
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
        "accounting": {**account.as_record(), "pending": account.pending},
        "error_fraction": round(account.error_fraction, 9),
        "revisions": revisions,
    }
