"""Reading wire records as columns. Total: whatever the bytes are, every record gets a place and a kind.

A compiled loop reads every legal spelling of a message, also those that no writer uses (a packed field sent
in parts, groups): an unusual one must not cost more than a usual one. Tests compare it with the protobuf
library.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ldpbeam.arrays import Bytes, Flags, Ints, Uints
from ldpbeam.kernels import framing

MAX_RECORD = 16 << 20
"""Longest record read, bytes; a longer one is refused before it is parsed."""

_FRAMES_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class Frames:
    """Whole records found in one buffer."""

    buffer: Bytes
    offsets: Ints
    lengths: Ints
    end: int
    status: int
    size: int


@dataclass(frozen=True)
class Rows:
    """Single reports as columns; all arrays have shape (n,)."""

    digest: Uints
    epoch: Ints
    report_id: Uints
    buffer: Bytes
    payload_at: Ints
    payload_length: Ints
    place: Ints
    arrival: Ints | None = None


@dataclass(frozen=True, eq=False)
class EvenRows:
    """Single reports as columns, whose payloads have one length and lie end to end."""

    digest: Uints
    epoch: Ints
    report_id: Uints
    payloads: Bytes
    first: int

    def rows(self) -> Rows:
        """The same with a place, and a position and a length of its payload, for each of them."""
        n, width = self.payloads.shape
        return Rows(
            digest=self.digest,
            epoch=self.epoch,
            report_id=self.report_id,
            buffer=self.payloads.reshape(-1),
            payload_at=np.arange(n) * width,
            payload_length=np.full(n, width),
            place=np.arange(n) + self.first,
        )


@dataclass(frozen=True)
class Batch:
    """One ReportBatch."""

    digest: int
    epoch: int
    count: int
    report_ids: Uints
    payloads: Bytes
    place: int
    arrival: int | None = None


@dataclass(frozen=True, eq=False)
class Batches:
    """The batches among some records, as columns of shape (b,)."""

    digest: Uints
    epoch: Ints
    count: Uints
    buffer: Bytes
    scattered: Bytes
    in_parts: Flags
    ids_at: Ints
    ids_length: Ints
    payloads_at: Ints
    payloads_length: Ints
    place: Ints
    arrival: Ints | None = None

    def __len__(self) -> int:
        return self.digest.size

    def __iter__(self) -> Iterator[Batch]:
        """One after the other, as views of the columns."""
        for i in range(len(self)):
            one = np.array([i])
            yield Batch(
                digest=int(self.digest[i]),
                epoch=int(self.epoch[i]),
                count=int(self.count[i]),
                report_ids=self.ids_together(one),
                payloads=self.payloads_together(one),
                place=int(self.place[i]),
                arrival=None if self.arrival is None else int(self.arrival[i]),
            )

    def ids_together(self, which: Ints) -> Uints:
        """The report ids of some batches end to end, perhaps unaligned; of one batch without a copy."""
        at, lengths = self.ids_at[which], self.ids_length[which]
        if which.size == 1:
            held = self.scattered if self.in_parts[which[0]] else self.buffer
            return held[at[0] : at[0] + lengths[0]].view("<u8")
        out = np.empty(int(lengths.sum()), np.uint8)
        starts = np.cumsum(lengths) - lengths
        for buffer, loose in ((self.buffer, False), (self.scattered, True)):
            chosen = self.in_parts[which] == loose
            if chosen.any():
                framing.gather_into(buffer, at[chosen], lengths[chosen], starts[chosen], out)
        return out.view("<u8")

    def payloads_together(self, which: Ints) -> Bytes:
        """The payloads of some batches end to end; of one batch without a copy."""
        at, lengths = self.payloads_at[which], self.payloads_length[which]
        if which.size == 1:
            return self.buffer[at[0] : at[0] + lengths[0]]
        out = np.empty(int(lengths.sum()), np.uint8)
        framing.gather_into(self.buffer, at, lengths, np.cumsum(lengths) - lengths, out)
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


def bytes_missing(rest: Bytes) -> int | None:
    """How many bytes a record lacks of which the buffer has only the beginning."""
    length = 0
    for at, byte in enumerate(rest.tolist()[:10]):
        length |= (byte & 0x7F) << 7 * at
        if byte < 0x80:
            return int(length + at + 1 - rest.size)
    return None


def frames(buffer: Bytes, start: int = 0) -> Frames:
    """The records that lie whole in ``buffer`` from ``start`` on, at most 65,536 of them."""
    offsets = np.empty(_FRAMES_AT_ONCE, np.int64)
    lengths = np.empty(_FRAMES_AT_ONCE, np.int64)
    count, end, status, size = framing.split_frames(buffer, start, MAX_RECORD, offsets, lengths)
    return Frames(buffer, offsets[:count], lengths[:count], int(end), int(status), int(size))


def joined(messages: Sequence[bytes]) -> Frames:
    """Messages that are their own frames, together: as many records as there are messages."""
    lengths = np.fromiter(map(len, messages), np.int64, len(messages))
    ends = np.cumsum(lengths + 1)
    buffer = np.frombuffer(b"\0".join(messages), np.uint8)
    return Frames(buffer, ends - lengths - 1, lengths, buffer.size, framing.NEED_MORE, 0)


def parse(frames: Frames, base: int = 0, arrivals: Ints | None = None) -> tuple[Rows, Batches, Ints]:
    """Decode records."""
    m = frames.offsets.size
    words = np.empty((m, 4), np.uint64)
    spans = np.empty((m, 6), np.int64)
    kinds = np.empty(m, np.uint8)
    framing.parse_records(frames.buffer, frames.offsets, frames.lengths, words, spans, kinds)
    place = frames.offsets + base
    many = np.flatnonzero(kinds >= framing.BATCH)
    in_parts = kinds[many] == framing.SCATTERED
    parted = many[in_parts]
    sizes = spans[parted, 5]
    scattered = np.empty(int(sizes.sum()), np.uint8)
    if parted.size:
        starts = np.cumsum(sizes) - sizes
        framing.gather_scattered(frames.buffer, frames.offsets, frames.lengths, parted, starts, scattered)
        spans[parted, 4] = starts
    batches = Batches(
        digest=words[many, 0],
        epoch=words[many, 1].astype(np.int64),
        count=words[many, 3],
        buffer=frames.buffer,
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
        buffer=frames.buffer,
        payload_at=spans[single, 0],
        payload_length=spans[single, 1],
        place=place[single],
        arrival=None if arrivals is None else arrivals[single],
    )
    return rows, batches, place[kinds == framing.MALFORMED]
