"""Stage 1 of 5, report: records become columns, rejections and accounting (adapts ldpbeam.reports)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import apache_beam as beam
import numpy as np

from ldpbeam.accounting import Entry
from ldpbeam.collection.collection import Collection, digest_hex
from ldpbeam.reports import (
    Admission,
    FilePart,
    Parts,
    Rejection,
    ReportColumns,
    admit_even_rows,
    admit_frames,
    admit_rows,
    by_epoch,
    put_together,
)
from ldpbeam.wire.codec import EvenRows

from ..coders import register_coders
from ..sources.chunks import BadSource, Chunk, Table

REJECTED = "rejected"
ACCOUNTING = "accounting"
COLUMNS = "columns"

EpochKey = tuple[str, int]
"""(digest, epoch): what everything is keyed by that belongs to an epoch of a collection."""

EpochColumns = tuple[EpochKey, ReportColumns]
"""Columns of one epoch."""

EpochParts = tuple[EpochKey, Parts]
"""Columns of one epoch in several parts: an element costs Beam as much as thousands of reports cost here, and
putting parts together would copy them."""


def calendar_tag(collection: Collection) -> str:
    """The output that carries the columns of all collections whose epochs begin and end with this one's."""
    length, offset = collection.epochs.calendar
    return f"Every{length}s" + f"From{offset}s" * (offset > 0)


def by_calendar(collections: Sequence[Collection]) -> dict[str, list[Collection]]:
    """Collections by :func:`calendar_tag`, in their order."""
    found: dict[str, list[Collection]] = {}
    for collection in collections:
        found.setdefault(calendar_tag(collection), []).append(collection)
    return found


def admit_reports(collections: Sequence[Collection], *, together: bool = False) -> beam.ParDo:
    """:class:`AdmitReports` with the types of its outputs."""
    admit = AdmitReports({c.digest: c for c in collections}, together=together)
    outputs: dict[str, Any] = dict.fromkeys(admit.tags.values(), EpochColumns if together else EpochParts)
    outputs |= {REJECTED: tuple[str, Rejection], ACCOUNTING: Entry}
    return beam.ParDo(admit).with_output_types(Any, **outputs).with_outputs(*outputs)


class AdmitReports(beam.DoFn):
    """Decode and admit; never raises, whatever the bytes.

    Outputs: one tag per calendar with :data:`EpochParts`, one element for each epoch in a piece of a source,
    :data:`REJECTED` with ``(source, Rejection)``, :data:`ACCOUNTING` with accounting entries of all but what
    was admitted.
    """

    def __init__(self, collections: Mapping[int, Collection], *, together: bool = False) -> None:
        """Keep the collections by digest.

        ``together``: all columns under :data:`COLUMNS`, as :data:`EpochColumns`, for steps that keep or send
        them; what only counts takes parts as they are.
        """
        self._collections = dict(collections)
        self._together = together
        self.tags = {d: COLUMNS if together else calendar_tag(c) for d, c in collections.items()}

    def setup(self) -> None:
        """Make sure this process knows how to send columns between workers."""
        register_coders()

    def process(self, element: Chunk | Table | BadSource) -> Iterator[beam.pvalue.TaggedOutput]:
        """Judge everything in one element."""
        written_by = getattr(element, "written_by", None)
        done = Admission(written_by=written_by, part=_part_of(element))
        if isinstance(element, BadSource):
            where = element.source, element.place, element.count
            done.reject_source(element.reason, *where, element.missing, element.detail)
        elif isinstance(element, Table) and isinstance(element.rows, EvenRows):
            admit_even_rows(element.rows, self._collections, element.source, done)
        elif isinstance(element, Table):
            admit_rows(element.each(), self._collections, element.source, done)
        else:
            rest = (element.source, done, element.base, element.arrivals)
            admit_frames(element.found, self._collections, *rest)
        rejections = done.rejections
        if isinstance(element, Chunk) and element.names:
            rejections = [_named(r, element) for r in rejections]
        yield from self._outputs(done, rejections)

    def _outputs(self, done: Admission, rejections: list[Rejection]) -> Iterator[beam.pvalue.TaggedOutput]:
        for parts in by_epoch(done.admitted):
            first = parts[0]
            columns: Parts | ReportColumns = parts
            if self._together:
                columns = first if len(parts) == 1 else put_together(parts)
            key = digest_hex(first.digest), first.epoch
            yield beam.pvalue.TaggedOutput(self.tags[first.digest], (key, columns))
        for rejection in rejections:
            by_source: tuple[str, Rejection] = (rejection.source, rejection)
            yield beam.pvalue.TaggedOutput(REJECTED, by_source)
        for entry in done.entries():
            yield beam.pvalue.TaggedOutput(ACCOUNTING, entry)


def _part_of(element: Chunk | Table | BadSource) -> FilePart | None:
    """What of a file a chunk's buffer is, where its bytes are those of a file."""
    if not isinstance(element, Chunk) or element.file is None:
        return None
    return FilePart(element.file, element.base)


def _named(rejection: Rejection, chunk: Chunk) -> Rejection:
    """A message that has a name is known by it, not by where it lay among those that came with it."""
    at = int(np.searchsorted(chunk.found.offsets, rejection.place - chunk.base, "right")) - 1
    name = chunk.names[max(at, 0)]
    return replace(rejection, source=f"{chunk.source}/messages/{name}", place=0) if name else rejection
