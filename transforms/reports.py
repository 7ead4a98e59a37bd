"""Stage 1 of 5, report: records become admitted columns, rejections and books (adapts ldp.reports)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import apache_beam as beam

from ldp.collection import Collection
from ldp.errors import Reason
from ldp.reports import Admission, Key, Rejection, ReportColumns, admit_batch, admit_rows
from ldp.wire import codec
from transforms.accounting import Entry
from transforms.coders import register_coders
from transforms.sources import BadSource, Chunk, Table

__all__ = ["ACCOUNTING", "REJECTED", "AdmitReports", "collection_tag"]

REJECTED = "rejected"
ACCOUNTING = "accounting"


def collection_tag(collection: Collection) -> str:
    """The output that carries a collection's columns, as ``(epoch, columns)`` pairs."""
    return f"collection-{collection.digest_hex}"


class AdmitReports(beam.DoFn):
    """Decode and admit; never raises, whatever the bytes.

    Outputs: one tag per collection with ``(epoch, ReportColumns)``, :data:`REJECTED` with
    ``(source, Rejection)``, :data:`ACCOUNTING` with accounting entries ``read`` and rejections.
    """

    def __init__(self, collections: Mapping[int, Collection]) -> None:
        """Keep the collections by digest."""
        super().__init__()
        self._collections = dict(collections)
        self._tags = {digest: collection_tag(c) for digest, c in collections.items()}

    def setup(self) -> None:
        """Make sure this process knows how to send columns between workers."""
        register_coders()

    def process(self, element: Chunk | Table | BadSource) -> Iterator[beam.pvalue.TaggedOutput]:
        """Judge everything in one element."""
        done = Admission()
        if isinstance(element, BadSource):
            done.reject_source(element.reason, element.source, element.place, element.count)
        elif isinstance(element, Table):
            admit_rows(element.rows, self._collections, element.source, done)
        else:
            rows, batches, malformed = codec.parse(element.found, element.base)
            done.reject_places(Reason.MALFORMED, element.source, malformed)
            for batch in batches:
                admit_batch(batch, self._collections, element.source, done)
            admit_rows(rows, self._collections, element.source, done)
        yield from self._outputs(done)

    def _outputs(self, done: Admission) -> Iterator[beam.pvalue.TaggedOutput]:
        for columns in done.admitted:
            pair: tuple[int, ReportColumns] = (columns.epoch, columns)
            yield beam.pvalue.TaggedOutput(self._tags[columns.digest], pair)
        for rejection in done.rejections:
            by_source: tuple[str, Rejection] = (rejection.source, rejection)
            yield beam.pvalue.TaggedOutput(REJECTED, by_source)
        for entry in _entries(done.read, done.rejections):
            yield beam.pvalue.TaggedOutput(ACCOUNTING, entry)


def _entries(read: Counter[Key], rejections: list[Rejection]) -> Iterator[Entry]:
    for key, count in read.items():
        yield (key, "read"), count
    refused: Counter[tuple[Key, str]] = Counter()
    for rejection in rejections:
        refused[rejection.key, f"rejected.{rejection.reason.value}"] += rejection.count
    yield from refused.items()
