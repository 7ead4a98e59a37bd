"""How columns, accumulators, and pieces of sources travel between workers.

Columns and accumulators are encoded as raw arrays; equal ones give equal bytes. Pieces are pickled: they are
of several classes with many optional fields, and the steps that read and admit them run in one worker as a
rule, without encoding. Beam itself pickles elements without a coder of their own, such as the counts of an
epoch with its account.

Beam asks for the size of some of the elements that pass between steps. It gets an estimate here, since what
it would do by itself is to encode them.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from apache_beam import coders
from numpy.typing import NDArray

from ldpbeam.admission import Parts, ReportColumns
from ldpbeam.slice_support import SlicedSupport
from ldpbeam.support import NARROW_TYPES, Support, UncountedReports, narrowed

from .sources.chunks import Piece

_HEAD = struct.Struct("<QqQQ")
_SUPPORT = struct.Struct("<QQB")
_COUNT = struct.Struct("<Q")
_UNCOUNTED, _SLICED = len(NARROW_TYPES), len(NARROW_TYPES) + 1
"""In the place of a width: payloads follow, or rows of slices."""


class ReportColumnsCoder(coders.Coder):
    """Digest, epoch, number of reports, payload length; then ids and payloads."""

    def encode(self, value: ReportColumns) -> bytes:
        return b"".join(self.views([value]))

    @staticmethod
    def views(parts: Sequence[ReportColumns]) -> list[Any]:
        first = parts[0]
        head = _HEAD.pack(first.digest, first.epoch, sum(map(len, parts)), first.payloads.shape[1])
        ids = [np.ascontiguousarray(part.report_ids, "<u8").view(np.uint8) for part in parts]
        return [head, *ids, *(part.payloads.reshape(-1) for part in parts)]

    def estimate_size(self, value: ReportColumns) -> int:
        return _HEAD.size + value.report_ids.nbytes + value.payloads.nbytes

    @staticmethod
    def reports(encoded: bytes) -> int:
        return int(_HEAD.unpack_from(encoded)[2])

    def decode(self, encoded: bytes) -> ReportColumns:
        digest, epoch, n, width = _HEAD.unpack_from(encoded)
        ids = np.frombuffer(encoded, "<u8", n, _HEAD.size)
        payloads = np.frombuffer(encoded, np.uint8, n * width, _HEAD.size + 8 * n)
        return ReportColumns(digest, epoch, ids, payloads.reshape(n, width))

    def is_deterministic(self) -> bool:
        return True


class PartsCoder(coders.Coder):
    """Parts of an epoch as the columns that they are together: parts only spare a worker the copy of them."""

    def encode(self, value: Parts) -> bytes:
        return b"".join(ReportColumnsCoder.views(value))

    def decode(self, encoded: bytes) -> Parts:
        return Parts([ReportColumnsCoder().decode(encoded)])

    def estimate_size(self, value: Parts) -> int:
        return _HEAD.size + sum(part.report_ids.nbytes + part.payloads.nbytes for part in value)

    def is_deterministic(self) -> bool:
        return True


class SupportCoder(coders.Coder):
    """Reports, number of cells, width; then the cells in the narrowest type that holds them.

    In front of the cells of slices: reports, slices, a mark; the cells of a slice; digests, reports of each.
    """

    def encode(self, value: Support) -> bytes:
        if isinstance(value, SlicedSupport):
            head = _SUPPORT.pack(value.reports, value.digests.size, _SLICED) + _COUNT.pack(
                value.rows.shape[1]
            )
            sizes = value.digests.astype("<u8").tobytes() + value.sizes.astype("<i8").tobytes()
            return head + sizes + _cells(value.counts, 0) + _cells(value.signs, 0)
        encoded = _cells(value.counts, value.reports)
        return encoded + _cells(value.signs, 0) if value.signs.size else encoded

    def decode(self, encoded: bytes | memoryview) -> Support:
        reports, slices, code = _SUPPORT.unpack_from(encoded)
        if code == _SLICED:
            (cells,), at = _COUNT.unpack_from(encoded, _SUPPORT.size), _SUPPORT.size + _COUNT.size
            digests = np.frombuffer(encoded, "<u8", slices, at).astype(np.uint64)
            sizes = np.frombuffer(encoded, "<i8", slices, at + digests.nbytes).astype(np.int64)
            counts, _, end = _read_cells(encoded, at + 2 * digests.nbytes)
            rows = counts.reshape(slices, cells)
            return SlicedSupport(digests, rows, sizes, _read_cells(encoded, end)[0])
        counts, reports, end = _read_cells(encoded, 0)
        signs = _read_cells(encoded, end)[0] if end < len(encoded) else None
        return Support(counts, reports, signs)

    def estimate_size(self, value: Support) -> int:
        return 2 * _SUPPORT.size + value.counts.nbytes + value.signs.nbytes

    @staticmethod
    def reports(encoded: bytes) -> int:
        return int(_SUPPORT.unpack_from(encoded)[0])

    def is_deterministic(self) -> bool:
        return True


class OptionalSupportCoder(coders.Coder):
    """As :class:`SupportCoder`, or reports that wait for a table; no bytes at all are no accumulators."""

    def encode(self, value: Support | UncountedReports | None) -> bytes:
        if isinstance(value, UncountedReports):
            head = _SUPPORT.pack(value.reports, value.digest, _UNCOUNTED)
            return b"".join([head, *(part.tobytes() for part in value.payloads)])
        return b"" if value is None else SupportCoder().encode(value)

    def estimate_size(self, value: Support | UncountedReports | None) -> int:
        if isinstance(value, UncountedReports):
            return _SUPPORT.size + value.nbytes
        return 0 if value is None else SupportCoder().estimate_size(value)

    def decode(self, encoded: bytes) -> Support | UncountedReports | None:
        return self.accumulated(encoded) if encoded else None

    @staticmethod
    def accumulated(encoded: bytes | memoryview) -> Support | UncountedReports:
        """Fresh, writable accumulators, or payloads that share the memory of ``encoded``."""
        reports, digest, code = _SUPPORT.unpack_from(encoded)
        if code != _UNCOUNTED:
            return SupportCoder().decode(encoded)
        payloads = np.frombuffer(encoded, np.uint8, offset=_SUPPORT.size)
        # Of no reports nobody knows the width of a payload.
        return UncountedReports(digest, [payloads.reshape(reports, -1)] if reports else [])

    def is_deterministic(self) -> bool:
        return True


class PieceCoder(coders.Coder):
    """Pieces of sources, pickled. Admission follows in the same worker, so they are hardly ever encoded."""

    def encode(self, value: Piece) -> bytes:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)

    def decode(self, encoded: bytes) -> Piece:
        piece: Piece = pickle.loads(encoded)  # noqa: S301 - a worker of the same job has written it
        return piece

    def estimate_size(self, value: Piece) -> int:
        return value.nbytes


def register_coders() -> None:
    """Tell Beam; idempotent, and needed in every process that encodes."""
    coders.registry.register_coder(ReportColumns, ReportColumnsCoder)
    coders.registry.register_coder(Parts, PartsCoder)
    for kind in (Support, SlicedSupport):
        coders.registry.register_coder(kind, SupportCoder)
    coders.registry.register_coder(Piece, PieceCoder)


def _cells(counts: NDArray[np.int64], reports: int) -> bytes:
    cells = narrowed(counts)
    code = next(i for i, name in enumerate(NARROW_TYPES) if np.dtype(name) == cells.dtype)
    return b"".join([_SUPPORT.pack(reports, counts.size, code), cells.tobytes()])


def _read_cells(encoded: bytes | memoryview, at: int) -> tuple[NDArray[np.int64], int, int]:
    """Cells, reports, and where they end."""
    reports, cells, code = _SUPPORT.unpack_from(encoded, at)
    at += _SUPPORT.size
    counts = np.frombuffer(encoded, NARROW_TYPES[code], cells, at)
    return counts.astype(np.int64), reports, at + counts.nbytes
