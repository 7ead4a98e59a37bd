"""Reading wire records as columns. Total: whatever the bytes are, every record gets a place and a kind.

A compiled loop reads every legal spelling of a message, also those that no writer uses (a packed field sent
in parts, groups): an unusual one must not cost more than a usual one. Tests compare it with the protobuf
library.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ldpbeam.kernels import framing

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "MAX_RECORD",
    "Batch",
    "Batches",
    "Frames",
    "Rows",
    "framed",
    "frames",
    "joined",
    "parse",
    "varint",
]

MAX_RECORD = 16 << 20
"""Longest record read, bytes; a longer one is refused before it is parsed."""

_FRAMES_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class Frames:
    """Whole records found in one buffer.

    Attributes:
        buffer: uint8.
        offsets, lengths: int64 (m,), where each record's message lies.
        end: position after the last record.
        status: one of NEED_MORE, FULL, OVERSIZE, BAD_LENGTH, EMPTIES of :mod:`ldpbeam.kernels.framing`.
        size: length of the record that was too long, or number of empty records passed over, when
            the status says so.
    """

    buffer: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    lengths: NDArray[np.int64]
    end: int
    status: int
    size: int


@dataclass(frozen=True)
class Rows:
    """Single reports as columns; all arrays have shape (n,).

    Attributes:
        digest, report_id: uint64.
        epoch: int64.
        buffer: uint8, where payloads lie.
        payload_at, payload_length: int64, into ``buffer``.
        place: int64, position of each record in its source, for rejections.
        arrival: int64, when each record arrived, microseconds since 1970; None where nobody knows.
    """

    digest: NDArray[np.uint64]
    epoch: NDArray[np.int64]
    report_id: NDArray[np.uint64]
    buffer: NDArray[np.uint8]
    payload_at: NDArray[np.int64]
    payload_length: NDArray[np.int64]
    place: NDArray[np.int64]
    arrival: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Batch:
    """One ReportBatch.

    Attributes:
        digest, epoch: as in the message.
        count: as claimed.
        report_ids: uint64, possibly unaligned; its length is what the bytes hold.
        payloads: uint8, end to end.
        place: position of the record in its source.
        arrival: when it arrived, microseconds since 1970; None where nobody knows.
    """

    digest: int
    epoch: int
    count: int
    report_ids: NDArray[np.uint64]
    payloads: NDArray[np.uint8]
    place: int
    arrival: int | None = None


@dataclass(frozen=True, eq=False)
class Batches:
    """The batches among some records, as columns of shape (b,); an item is made when it is asked for.

    Attributes:
        digest, count: uint64.
        epoch: int64.
        buffer: uint8, where payloads and most ids lie.
        scattered: uint8, where the ids of batches lie that had them in several parts.
        in_parts: bool, which those are.
        ids_at, ids_length: int64, bytes, into ``buffer`` or ``scattered``.
        payloads_at, payloads_length: int64, into ``buffer``.
        place: int64, position of each record in its source.
        arrival: int64, microseconds since 1970; None where nobody knows.
    """

    digest: NDArray[np.uint64]
    epoch: NDArray[np.int64]
    count: NDArray[np.uint64]
    buffer: NDArray[np.uint8]
    scattered: NDArray[np.uint8]
    in_parts: NDArray[np.bool_]
    ids_at: NDArray[np.int64]
    ids_length: NDArray[np.int64]
    payloads_at: NDArray[np.int64]
    payloads_length: NDArray[np.int64]
    place: NDArray[np.int64]
    arrival: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        """How many."""
        return self.digest.size

    def __iter__(self) -> Iterator[Batch]:
        """One after the other."""
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, index: int) -> Batch:
        """One batch, which shares the memory of the columns."""
        i = range(len(self))[index]
        at, size = int(self.ids_at[i]), int(self.ids_length[i])
        ids = (self.scattered if self.in_parts[i] else self.buffer)[at : at + size]
        at, size = int(self.payloads_at[i]), int(self.payloads_length[i])
        return Batch(
            digest=int(self.digest[i]),
            epoch=int(self.epoch[i]),
            count=int(self.count[i]),
            report_ids=np.frombuffer(ids, "<u8"),
            payloads=self.buffer[at : at + size],
            place=int(self.place[i]),
            arrival=None if self.arrival is None else int(self.arrival[i]),
        )

    def ids_together(self, which: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The report ids of some batches end to end."""
        lengths = self.ids_length[which]
        out = np.empty(int(lengths.sum()), np.uint8)
        starts = np.cumsum(lengths) - lengths
        for buffer, loose in ((self.buffer, False), (self.scattered, True)):
            chosen = self.in_parts[which] == loose
            some = which[chosen]
            if some.size:
                framing.gather_into(buffer, self.ids_at[some], self.ids_length[some], starts[chosen], out)
        return out.view("<u8")

    def payloads_together(self, which: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The payloads of some batches end to end."""
        lengths = self.payloads_length[which]
        out = np.empty(int(lengths.sum()), np.uint8)
        starts = np.cumsum(lengths) - lengths
        framing.gather_into(self.buffer, self.payloads_at[which], lengths, starts, out)
        return out


def varint(number: int) -> bytes:
    """Seven bits a byte, lowest first, the high bit set on all but the last."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def framed(message: bytes) -> bytes:
    """A message as :func:`frames` reads it: its length, then itself."""
    return varint(len(message)) + message


def frames(buffer: NDArray[np.uint8], start: int = 0) -> Frames:
    """The records that lie whole in ``buffer`` from ``start`` on, at most 65,536 of them."""
    offsets = np.empty(_FRAMES_AT_ONCE, np.int64)
    lengths = np.empty(_FRAMES_AT_ONCE, np.int64)
    found, end, status, size = framing.split_frames(buffer, start, MAX_RECORD, offsets, lengths)
    return Frames(buffer, offsets[:found], lengths[:found], int(end), int(status), int(size))


def joined(messages: Sequence[bytes]) -> Frames:
    """Messages that are their own frames, together: as many records as there are messages.

    No two begin at the same place, not even empty ones.
    """
    lengths = np.fromiter(map(len, messages), np.int64, len(messages))
    ends = np.cumsum(lengths + 1)
    buffer = np.frombuffer(b"\0".join(messages), np.uint8)
    return Frames(buffer, ends - lengths - 1, lengths, buffer.size, framing.NEED_MORE, 0)


def parse(
    found: Frames, base: int = 0, arrivals: NDArray[np.int64] | None = None
) -> tuple[Rows, Batches, NDArray[np.int64]]:
    """Decode records.

    Args:
        found: frames of one buffer.
        base: position of the buffer in its source.
        arrivals: int64 (m,), when each record arrived, microseconds since 1970.

    Returns:
        Single reports, batches, and the places of records that are neither.
    """
    m = found.offsets.size
    words = np.empty((m, 4), np.uint64)
    spans = np.empty((m, 6), np.int64)
    kinds = np.empty(m, np.uint8)
    framing.parse_records(found.buffer, found.offsets, found.lengths, words, spans, kinds)
    place = found.offsets + base
    many = np.flatnonzero(kinds >= framing.BATCH)
    in_parts = kinds[many] == framing.SCATTERED
    parted = many[in_parts]
    sizes = spans[parted, 5]
    scattered = np.empty(int(sizes.sum()), np.uint8)
    if parted.size:
        starts = np.cumsum(sizes) - sizes
        framing.gather_scattered(found.buffer, found.offsets, found.lengths, parted, starts, scattered)
        spans[parted, 4] = starts
    batches = Batches(
        digest=words[many, 0],
        epoch=words[many, 1].astype(np.int64),
        count=words[many, 3],
        buffer=found.buffer,
        scattered=scattered,
        in_parts=in_parts,
        ids_at=spans[many, 4],
        ids_length=spans[many, 5],
        payloads_at=spans[many, 2],
        payloads_length=spans[many, 3],
        place=place[many],
        arrival=None if arrivals is None else arrivals[many],
    )
    single = np.flatnonzero(kinds == framing.REPORT)
    rows = Rows(
        digest=words[single, 0],
        epoch=words[single, 1].astype(np.int64),
        report_id=words[single, 2],
        buffer=found.buffer,
        payload_at=spans[single, 0],
        payload_length=spans[single, 1],
        place=place[single],
        arrival=None if arrivals is None else arrivals[single],
    )
    return rows, batches, place[kinds == framing.MALFORMED]
