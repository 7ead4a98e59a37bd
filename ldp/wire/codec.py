"""Reading wire records as columns. Total: whatever the bytes are, every record gets a place and a kind.

Records are parsed by a compiled loop; the protobuf library reads the few legal forms that the loop leaves to
it (a packed field sent in parts, groups), so that both always agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from google.protobuf.message import DecodeError

from ldp.kernels import framing
from ldp.wire import report_pb2

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MAX_RECORD", "Batch", "Frames", "Rows", "framed", "frames", "joined", "parse", "varint"]

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
        status: one of NEED_MORE, FULL, OVERSIZE, BAD_LENGTH, EMPTIES of :mod:`ldp.kernels.framing`.
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
) -> tuple[Rows, list[Batch], NDArray[np.int64]]:
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
    spans = np.empty((m, 4), np.int64)
    kinds = np.empty(m, np.uint8)
    framing.parse_records(found.buffer, found.offsets, found.lengths, words, spans, kinds)
    place = found.offsets + base
    batches: list[Batch] = []
    for i in np.flatnonzero(kinds >= framing.BATCH):
        if kinds[i] == framing.UNUSUAL:
            at, length = int(found.offsets[i]), int(found.lengths[i])
            unusual = _parse_with_library(found.buffer[at : at + length].tobytes(), int(place[i]))
            if unusual is None:
                kinds[i] = framing.MALFORMED
            elif isinstance(unusual, Batch):
                batches.append(replace(unusual, arrival=None if arrivals is None else int(arrivals[i])))
            else:
                # A single report spelt unusually: its columns replace what the loop could not read.
                words[i, :3], payload = unusual
                kinds[i] = framing.REPORT
                spans[i, 0], spans[i, 1] = _find(found.buffer, at, length, payload)
            continue
        at, length, ids_at, ids_length = (int(x) for x in spans[i])
        if ids_length % 8:
            kinds[i] = framing.MALFORMED
            continue
        ids = np.frombuffer(found.buffer[ids_at : ids_at + ids_length], "<u8")
        epoch = int(words[i, 1].astype(np.int64))
        payloads = found.buffer[at : at + length]
        arrival = None if arrivals is None else int(arrivals[i])
        number = int(words[i, 3])
        batches.append(Batch(int(words[i, 0]), epoch, number, ids, payloads, int(place[i]), arrival))
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


def _parse_with_library(message: bytes, place: int) -> Batch | tuple[NDArray[np.uint64], bytes] | None:
    try:
        batch = report_pb2.ReportBatch.FromString(message)
        report = report_pb2.Report.FromString(message)
    except DecodeError:
        return None
    single = bool(report.report_id or report.payload)
    many = bool(batch.count or batch.report_ids or batch.payloads)
    if single and many:
        return None
    if many:
        ids = np.array(batch.report_ids, np.uint64)
        payloads = np.frombuffer(batch.payloads, np.uint8)
        return Batch(batch.digest, batch.epoch, batch.count, ids, payloads, place)
    epoch = np.array([report.epoch], np.int64).astype(np.uint64)[0]
    return np.array([report.digest, epoch, report.report_id], np.uint64), report.payload


def _find(buffer: NDArray[np.uint8], at: int, length: int, payload: bytes) -> tuple[int, int]:
    """Where the payload of an unusually spelt report lies in the buffer."""
    position = buffer[at : at + length].tobytes().rfind(payload)
    return at + max(position, 0), len(payload)
