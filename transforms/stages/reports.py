"""Stage 1 of 5, report: records become columns, rejections and accounting (adapts ldpbeam.reports)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import apache_beam as beam
import numpy as np

from ldpbeam.accounting import Entry
from ldpbeam.admission import Admission, Parts, Rejection, by_epoch
from ldpbeam.collection.collection import Collection, digest_hex
from ldpbeam.collection.distinct_collections import by_wire_digest
from ldpbeam.reports import admit_even_rows, admit_frames, admit_rows
from ldpbeam.wire.codec import EvenRows

from ..coders import register_coders
from ..metrics import count_entries
from ..rows import RejectedRow, rejected_row
from ..sources.chunks import BadSource, Chunk, ReportTable

_LOG = logging.getLogger(__name__)

REJECTED = "rejected"
ACCOUNTING = "accounting"
COLUMNS = "columns"

EpochKey = tuple[str, int]
"""(digest, epoch): what everything is keyed by that belongs to an epoch of a collection."""

EpochParts = tuple[EpochKey, Parts]
"""Columns of one epoch in several parts: an element costs Beam as much as thousands of reports cost here, and
putting parts together would copy them."""


def admit_reports(collections: Sequence[Collection]) -> beam.ParDo:
    """:class:`AdmitPieces` with the types of its outputs."""
    admit = beam.ParDo(AdmitPieces(by_wire_digest(collections)))
    outputs: dict[str, Any] = {COLUMNS: EpochParts, REJECTED: RejectedRow, ACCOUNTING: Entry}
    return admit.with_output_types(Any, **outputs).with_outputs(*outputs)


MANY_LATE = 100
"""Records of a bundle that may all be late before a worker warns of it: single late ones are ordinary."""


class AdmitPieces(beam.DoFn):
    """Decode and admit; never raises, whatever the bytes."""

    def __init__(self, collections: Mapping[int, Collection]) -> None:
        """``collections`` as of :func:`ldpbeam.reports.admit_frames`."""
        self._collections = dict(collections)
        self._read = self._admitted = self._late = 0
        self._warned = False

    def setup(self) -> None:
        register_coders()

    def start_bundle(self) -> None:
        self._read = self._admitted = self._late = 0

    def process(self, element: Chunk | ReportTable | BadSource) -> Iterator[beam.pvalue.TaggedOutput]:
        written_by = getattr(element, "written_by", None)
        done = Admission(written_by=written_by)
        if isinstance(element, BadSource):
            where = element.source, element.place, element.count
            done.reject_source(element.reason, *where, element.missing, element.detail)
        elif isinstance(element, ReportTable) and isinstance(element.rows, EvenRows):
            admit_even_rows(element.rows, self._collections, element.source, done)
        elif isinstance(element, ReportTable):
            admit_rows(element.each(), self._collections, element.source, done)
        else:
            rest = (element.source, done, element.base, element.arrivals)
            admit_frames(element.frames, self._collections, *rest)
        rejections = done.rejections
        if isinstance(element, Chunk) and element.names:
            rejections = [_named(r, element) for r in rejections]
        yield from self._outputs(done, rejections)

    def finish_bundle(self) -> None:
        """Warn, once in a worker, where no record of a bundle was admitted: mostly a mistake."""
        rejected = self._read - self._admitted - self._late
        if not self._admitted and not self._warned and (rejected or self._late >= MANY_LATE):
            self._warned = True
            _LOG.warning(
                "none of %d records was admitted as a report of %s: %d were rejected, see the rejected rows "
                "or Beam's counters reports_rejected_…; %d came later than allowed_lateness allows, see the "
                "accounts [W-TRANSFORM-NOTHING]",
                self._read,
                ", ".join({f"{one.name} ({one.digest_hex})": 1 for one in self._collections.values()}),
                rejected,
                self._late,
            )

    def _outputs(self, done: Admission, rejections: list[Rejection]) -> Iterator[beam.pvalue.TaggedOutput]:
        for parts in by_epoch(done.admitted):
            first = parts[0]
            key = digest_hex(first.digest), first.epoch
            yield beam.pvalue.TaggedOutput(COLUMNS, (key, parts))
        for rejection in rejections:
            yield beam.pvalue.TaggedOutput(REJECTED, rejected_row(rejection))
        entries = list(done.entries())
        self._read += sum(done.read.values())
        self._admitted += count_entries(entries)
        self._late += sum(done.late.values())
        for entry in entries:
            yield beam.pvalue.TaggedOutput(ACCOUNTING, entry)


def _named(rejection: Rejection, chunk: Chunk) -> Rejection:
    """A message that has a name is known by it, not by where it lay among those that came with it."""
    at = int(np.searchsorted(chunk.frames.offsets, rejection.place - chunk.base, "right")) - 1
    name = chunk.names[max(at, 0)]
    return replace(rejection, source=f"{chunk.source}/messages/{name}", place=0) if name else rejection
