"""What sources hand to stage 1: pieces of files and of messages; and how much of a file is read at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ldpbeam.admission import Written
from ldpbeam.errors import Reason
from ldpbeam.wire.codec import EvenRows, Frames, Rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FREE_BYTES = 1 << 20
"""Bytes of reports that any file may stand for, however small it is."""


@dataclass(frozen=True)
class ReadLimits:
    """How much of a file is read."""

    expansion: int = 100
    attempts: int = 3
    not_after: int | None = None


class Piece:
    """What a source reads: one of the classes below."""

    @property
    def nbytes(self) -> int:
        """About how many bytes of memory it takes; none that matter, unless a class says otherwise."""
        return 0


@dataclass(frozen=True, eq=False)
class Chunk(Piece):
    """Whole protobuf records from one file."""

    source: str
    base: int
    frames: Frames
    arrivals: NDArray[np.int64] | None = None
    names: tuple[str, ...] = ()
    written_by: Written | None = None

    @property
    def nbytes(self) -> int:
        return self.frames.buffer.nbytes


@dataclass(frozen=True, eq=False)
class ReportTable(Piece):
    """Single reports that arrived as columns already (Parquet); ``written_by`` as in :class:`Chunk`."""

    source: str
    rows: Rows | EvenRows
    written_by: Written | None = None

    @property
    def nbytes(self) -> int:
        held = self.rows.payloads if isinstance(self.rows, EvenRows) else self.rows.buffer
        return held.nbytes

    def each(self) -> Rows:
        """The reports as rows, each with its place and payload, however they came."""
        return self.rows.rows() if isinstance(self.rows, EvenRows) else self.rows


@dataclass(frozen=True)
class BadSource(Piece):
    """A place where a file is not readable, and how many records that concerns."""

    source: str
    reason: Reason
    place: int = -1
    count: int = 1
    missing: int | None = None
    detail: str = ""

    @property
    def explanation(self) -> str:
        """One sentence for a person: what happened and what usually mends it."""
        return self.detail or self.reason.explanation
