"""After stage 5, the files: one table per epoch and revision, then the epoch's accounting.

Beam's own file sinks lose or repeat late panes, so files are written here: names follow from collection,
digest, epoch and revision; content goes to a temporary file, is forced to disk and renamed. Writing the same
result twice leaves the same files. A revision counts as published once the accounting names it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import apache_beam as beam

from ldpbeam.accounting import Entry
from ldpbeam.answer_counts import counts_table
from ldpbeam.collection.collection import Collection
from ldpbeam.histogram import EpochHistogram
from ldpbeam.summaries import summary_table
from ldpbeam.table_file import as_parquet
from ldpbeam.tables import epoch_table, fixed_columns, table_by_slice

from .accounting import (
    EpochAccounting,
    Revision,
    content_digest,
    epoch_stem,
    read_epoch_accounting,
    write_accounting,
)
from .atomic import link, publish, remove
from .file_record import FileRecord


def epoch_file_name(collection: Collection, epoch: int, revision: int) -> str:
    """``estimates/NAME-DIGEST-epoch-000012-r000.parquet``."""
    return f"estimates/{epoch_stem(collection, epoch)}-r{revision:03d}.parquet"


def counts_file_name(collection: Collection, epoch: int, revision: int) -> str:
    """``counts/NAME-DIGEST-epoch-000012-r000.parquet``: what the estimates of a revision follow from."""
    return f"counts/{epoch_stem(collection, epoch)}-r{revision:03d}.parquet"


def summaries_file_name(collection: Collection, epoch: int) -> str:
    """``summaries/NAME-DIGEST-epoch-000012.parquet``: mean and quantiles of an epoch's newest revision."""
    return f"summaries/{epoch_stem(collection, epoch)}.parquet"


def slice_file_names(collection: Collection, epoch: int) -> tuple[str, ...]:
    """``slices/NAME-DIGEST-epoch-000012.parquet``: the newest revision of an epoch by slice.

    Where it has summaries, with those by slice, and of distributions counts, in folders of their own.
    """
    if not collection.slices:
        return ()
    stem = f"{epoch_stem(collection, epoch)}.parquet"
    folders = "slices", "slice_summaries", "slice_counts"
    number = 3 if collection.is_distribution else 2 if collection.has_summaries else 1
    return tuple(f"{folder}/{stem}" for folder in folders[:number])


def latest_file_name(collection: Collection, epoch: int) -> str:
    """``latest/NAME-DIGEST-epoch-000012.parquet``: the newest revision of an epoch."""
    return f"latest/{epoch_stem(collection, epoch)}.parquet"


@dataclass(frozen=True)
class PublishedIndicators:
    digest: str  # of the collection, 16 hexadecimal digits
    epoch: int  # index
    indicators: list[dict[str, Any]]  # records, see :meth:`ldpbeam.indicators.Indicator.as_record`


Published = FileRecord | PublishedIndicators | Entry
"""What a step says of its own work: a file that it wrote, signs of forged reports, or an accounting entry."""


class EpochFiles:
    """Files of one collection's epochs: a table of estimates for each revision, and the epoch's
    accounting."""

    def __init__(self, collection: Collection, output: str, job: str = "") -> None:
        self._collection = collection
        self._output = output
        self._job = job
        self._fixed = fixed_columns(collection)
        self._names = [name for name, _ in collection.histograms]
        self._distribution = collection.is_distribution

    def write(self, histogram: EpochHistogram) -> list[Published]:
        done: list[Published] = []
        key = (self._collection.digest_hex, histogram.epoch)
        known = read_epoch_accounting(self._output, self._collection, histogram.epoch) if self._job else None
        files, accounting = self.write_tables(histogram, known)
        done += files
        new = histogram.revision if histogram.attributes or histogram.withheld else None
        for revision in accounting.revisions:
            if revision.number == new and revision.indicators:
                done.append(PublishedIndicators(*key, revision.indicators))
        if histogram.account is not None:
            done.append(write_accounting(self._output, accounting))
            counted: Entry = ((key, "counted"), histogram.account.counted)
            done.append(counted)
        return done

    def write_tables(
        self, histogram: EpochHistogram, known: EpochAccounting | None
    ) -> tuple[list[FileRecord], EpochAccounting]:
        """Write a table and the epoch's summaries, unless only the accounting has changed."""
        published = {revision.number: revision for revision in known.revisions} if known else {}
        summaries, slices = (known.summaries, known.slices) if known else (None, ())
        made: list[FileRecord] = []
        if histogram.attributes or histogram.withheld:
            # A job that was set back publishes older revisions once more.
            newest = histogram.revision >= max(published, default=0)
            table = counts = own = None
            if histogram.attributes:
                counts = self._write_counts(histogram)
                table, own = self._write_table(histogram, newest)
            if not histogram.attributes and known and newest:
                self._remove_newest(histogram.epoch)
            by_slice = self._write_slices(histogram) if newest and histogram.attributes else ()
            if newest:
                summaries, slices = own, by_slice
            made = [*(file for file in (table, counts, own) if file is not None), *by_slice]
            published[histogram.revision] = self._revision(histogram, table, counts)
        revisions = tuple(published[number] for number in sorted(published))
        return made, EpochAccounting.of_histogram(self._collection, histogram, revisions, summaries, slices)

    def _revision(
        self, histogram: EpochHistogram, table: FileRecord | None, counts: FileRecord | None
    ) -> Revision:
        return Revision(
            histogram.revision,
            histogram.pane,
            histogram.reports,
            histogram.withheld,
            content_digest(self._collection, histogram),
            self._job,
            [one.as_record(self._names) for one in histogram.indicators],
            table,
            counts,
        )

    def _write_counts(self, histogram: EpochHistogram) -> FileRecord | None:
        """The counts behind a result; none where all of it is withheld, or it is no distribution."""
        table = counts_table(self._collection, histogram) if self._distribution else None
        if table is None or not table.num_rows:
            return None
        name = counts_file_name(self._collection, histogram.epoch, histogram.revision)
        return publish(self._output, name, as_parquet(table), table.num_rows)

    def _write_slices(self, histogram: EpochHistogram) -> tuple[FileRecord, ...]:
        """The tables of the whole and of all slices; none without slices."""
        collection, made = self._collection, []
        each = (
            lambda one: epoch_table(collection, one, self._fixed),
            lambda one: summary_table(collection, one),
            lambda one: counts_table(collection, one),
        )
        for name, table_of in zip(slice_file_names(collection, histogram.epoch), each, strict=False):
            table = table_by_slice(collection, histogram, table_of)
            made.append(publish(self._output, name, as_parquet(table), table.num_rows))
        return tuple(made)

    def _write_table(self, histogram: EpochHistogram, newest: bool) -> tuple[FileRecord, FileRecord | None]:
        """The table of a result; of the newest one, summaries where there are some, and ``latest/``."""
        table = epoch_table(self._collection, histogram, self._fixed)
        content = as_parquet(table)
        name = epoch_file_name(self._collection, histogram.epoch, histogram.revision)
        made, own = publish(self._output, name, content, table.num_rows), None
        if newest and self._collection.has_summaries:
            summaries = summary_table(self._collection, histogram)
            place = summaries_file_name(self._collection, histogram.epoch)
            own = publish(self._output, place, as_parquet(summaries), summaries.num_rows)
        if newest:
            latest = latest_file_name(self._collection, histogram.epoch)
            # A run over files forces the folder to disk once, before its record.
            link(self._output, latest, name, content, sync=bool(self._job))
        return made, own

    def _remove_newest(self, epoch: int) -> None:
        """What readers take as the newest result of an epoch, which is withheld now."""
        remove(self._output, latest_file_name(self._collection, epoch))
        if self._collection.has_summaries:
            remove(self._output, summaries_file_name(self._collection, epoch))
        for name in slice_file_names(self._collection, epoch):
            remove(self._output, name)


class WriteEpochs(beam.DoFn):
    """:class:`EpochFiles` as a step of a pipeline; gives what :meth:`EpochFiles.write` returns."""

    def __init__(self, collection: Collection, output: str, job: str = "") -> None:
        self._parameters = (collection, output, job)
        self._files: EpochFiles

    def setup(self) -> None:
        self._files = EpochFiles(*self._parameters)

    def process(self, histogram: EpochHistogram) -> list[Published]:
        return self._files.write(histogram)
