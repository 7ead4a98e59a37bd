"""Kernels that read length-delimited protobuf records as columns, without one Python object per report."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldpbeam.kernels.jit import kernel

# Results of split_frames.
NEED_MORE, FULL, OVERSIZE, BAD_LENGTH, EMPTIES = 0, 1, 2, 3, 4
# Kinds of records; the ids of a SCATTERED batch come in several parts, or unpacked.
MALFORMED, REPORT, BATCH, SCATTERED = 0, 1, 2, 3

# The wire type of each field of Report and ReportBatch that is not repeated, by its number; 9 for none.
_ONCE = np.array([9, 1, 0, 1, 2, 0, 9, 2], np.uint64)

# So deep may groups be nested, as in the protobuf library.
_DEPTH = 100

# So many empty records in a row are passed over at once: zeros compress a thousandfold, and a file
# system that lost power leaves them behind.
_EMPTIES = 4096


@kernel
def split_frames(buffer: Any, start: Any, limit: Any, offsets: Any, lengths: Any) -> Any:
    """Find the frames (varint length, then that many bytes) that lie whole inside ``buffer``.

    Args:
        buffer: uint8 (size,).
        start: int64, where to begin.
        limit: int64, longest record allowed.
        offsets, lengths: int64 (m,), written.

    Returns:
        (frames found, position after the last one, status, length of an oversize record or number
        of empty ones).
    """
    position = start
    size = buffer.size
    found = 0
    zeros = start  # end of the last run of zeros
    while found < offsets.size:
        if position >= zeros:
            zeros = position
            while zeros < size and buffer[zeros] == 0:
                zeros += 1
            if zeros - position >= _EMPTIES:
                return found, zeros, EMPTIES, zeros - position
        length = np.uint64(0)
        at = position
        shift = 0
        while True:
            if at >= size:
                return found, position, NEED_MORE, 0
            byte = buffer[at]
            at += 1
            if shift > 56:
                return found, position, BAD_LENGTH, 0
            length |= np.uint64(byte & 127) << np.uint64(shift)
            shift += 7
            if byte < 128:
                break
        if length > np.uint64(limit):
            # The caller needs to know how many bytes to skip; absurd lengths run to the end of the file.
            return found, at, OVERSIZE, np.int64(length & np.uint64(0x7FFFFFFFFFFFFFFF))
        if at + np.int64(length) > size:
            return found, position, NEED_MORE, 0
        offsets[found] = at
        lengths[found] = np.int64(length)
        found += 1
        position = at + np.int64(length)
    return found, position, FULL, 0


@kernel
def _varint(buffer: Any, at: Any, end: Any, last: Any) -> Any:
    """A varint of at most ``last`` / 7 + 1 bytes: (its lowest 64 bits, position behind it or -1).

    Callers give ``last`` as an int64: for a literal each value would be compiled on its own.
    """
    value = np.uint64(0)
    shift = 0
    while at < end and shift <= last:
        byte = buffer[at]
        at += 1
        value |= np.uint64(byte & 127) << np.uint64(shift)
        shift += 7
        if byte < 128:
            return value, at
    return value, np.int64(-1)


@kernel
def _skip_group(  # noqa: PLR0911, PLR0912 - as below
    buffer: Any, begin: Any, end: Any, field: Any, open_groups: Any
) -> Any:
    """Where a group that began at ``begin`` with the number ``field`` ends, or -1 where it is not sound.

    Args:
        buffer: uint8 (size,).
        begin, end: int64, behind the group's first tag, and end of the message.
        field: uint64.
        open_groups: uint64 (depth,), scratch.
    """
    at = begin
    depth = 1
    open_groups[0] = field
    while depth > 0:
        tag, at = _varint(buffer, at, end, np.int64(28))
        number, wire = tag >> np.uint64(3), tag & np.uint64(7)
        if at < 0 or tag > np.uint64(0xFFFFFFFF) or number == np.uint64(0):
            return np.int64(-1)
        if wire == np.uint64(0) or wire == np.uint64(2):
            value, at = _varint(buffer, at, end, np.int64(63))
            if at < 0 or (wire == np.uint64(2) and value > np.uint64(end - at)):
                return np.int64(-1)
            if wire == np.uint64(2):
                at += np.int64(value)
        elif wire == np.uint64(1):
            at += 8
        elif wire == np.uint64(5):
            at += 4
        elif wire == np.uint64(3):
            if depth == open_groups.size:
                return np.int64(-1)
            open_groups[depth] = number
            depth += 1
        elif wire == np.uint64(4):
            depth -= 1
            if open_groups[depth] != number:
                return np.int64(-1)
        else:
            return np.int64(-1)
        if at > end:
            return np.int64(-1)
    return at


@kernel
def parse_records(  # noqa: PLR0912, PLR0915 - a case for each wire type and field
    buffer: Any, offsets: Any, lengths: Any, words: Any, spans: Any, kinds: Any
) -> None:
    """Read the fields of Report or ReportBatch messages.

    Every legal spelling is read, in one pass and in time linear in the bytes: an unusual one costs whoever
    sends it no less than whoever reads it. A field that is not repeated occurs once at most: protobuf takes
    the last one, and of two messages end to end all but the last would be lost.

    Args:
        buffer: uint8 (size,).
        offsets, lengths: int64 (m,).
        words: uint64 (m, 4), written: digest, epoch (two's complement), report id, count.
        spans: int64 (m, 6), written: offset and length of a report's payload, of a batch's payloads, and of
            its ids; of a scattered batch's ids the total length.
        kinds: uint8 (m,), written.
    """
    open_groups = np.empty(_DEPTH, np.uint64)
    for i in range(offsets.size):
        at = offsets[i]
        end = at + lengths[i]
        for j in range(4):
            words[i, j] = np.uint64(0)
        for j in range(6):
            spans[i, j] = 0
        scattered = False
        seen = np.uint64(0)  # bit f: field f has been read
        # An empty message has no digest and so is nothing.
        kind = REPORT if at < end else MALFORMED
        while at < end:
            tag, at = _varint(buffer, at, end, np.int64(28))
            field = tag >> np.uint64(3)
            wire = tag & np.uint64(7)
            # Tags are 32-bit in at most five bytes; a longer one, or field 0, is not protobuf.
            if at < 0 or tag > np.uint64(0xFFFFFFFF) or field == np.uint64(0):
                kind = MALFORMED
                break
            if field < np.uint64(8) and _ONCE[field] == wire:
                bit = np.uint64(1) << field
                if seen & bit:
                    kind = MALFORMED
                    break
                seen |= bit
            value = np.uint64(0)
            if wire == np.uint64(0) or wire == np.uint64(2):
                value, at = _varint(buffer, at, end, np.int64(63))
                if at < 0 or (wire == np.uint64(2) and value > np.uint64(end - at)):
                    kind = MALFORMED
                    break
            if wire == np.uint64(0):
                if field == np.uint64(2):
                    # Zigzag.
                    words[i, 1] = (value >> np.uint64(1)) ^ (
                        np.uint64(0xFFFFFFFFFFFFFFFF) * (value & np.uint64(1))
                    )
                elif field == np.uint64(5):
                    words[i, 3] = value
            elif wire == np.uint64(1):
                if at + 8 > end:
                    kind = MALFORMED
                    break
                for j in range(8):
                    value |= np.uint64(buffer[at + j]) << np.uint64(8 * j)
                at += 8
                if field == np.uint64(1):
                    words[i, 0] = value
                elif field == np.uint64(3):
                    words[i, 2] = value
                elif field == np.uint64(6):
                    scattered = True
                    spans[i, 5] += 8
            elif wire == np.uint64(2):
                span = np.int64(value)
                if field == np.uint64(4):
                    spans[i, 0] = at
                    spans[i, 1] = span
                elif field == np.uint64(7):
                    spans[i, 2] = at
                    spans[i, 3] = span
                elif field == np.uint64(6):
                    if span % 8 != 0:
                        kind = MALFORMED
                        break
                    # A packed field may be split; its parts then belong together.
                    scattered = scattered or spans[i, 5] > 0
                    spans[i, 4] = at
                    spans[i, 5] += span
                at += span
            elif wire == np.uint64(5):
                if at + 4 > end:
                    kind = MALFORMED
                    break
                at += 4
            elif wire == np.uint64(3):
                at = _skip_group(buffer, at, end, field, open_groups)
                if at < 0:
                    kind = MALFORMED
                    break
            else:
                kind = MALFORMED
                break
        if kind == REPORT:
            # A field that is 0 or empty counts as absent, as proto3 has it.
            single = words[i, 2] != np.uint64(0) or spans[i, 1] > 0
            if words[i, 3] != np.uint64(0) or spans[i, 3] > 0 or spans[i, 5] > 0:
                kind = SCATTERED if scattered else BATCH
                if single:
                    kind = MALFORMED
        kinds[i] = kind


@kernel
def gather_scattered(buffer: Any, offsets: Any, lengths: Any, which: Any, starts: Any, out: Any) -> None:
    """The ids of scattered batches, each batch's together and in the order of its bytes.

    Args:
        buffer: uint8 (size,).
        offsets, lengths: int64 (m,), of messages that :func:`parse_records` has read.
        which: int64 (b,), the scattered ones.
        starts: int64 (b,), where in ``out`` the ids of each begin.
        out: uint8, written.
    """
    open_groups = np.empty(_DEPTH, np.uint64)
    for i in range(which.size):
        at = offsets[which[i]]
        end = at + lengths[which[i]]
        into = starts[i]
        while at < end:
            tag, at = _varint(buffer, at, end, np.int64(28))
            field, wire = tag >> np.uint64(3), tag & np.uint64(7)
            span = np.int64(0)
            if wire == np.uint64(0):
                _, at = _varint(buffer, at, end, np.int64(63))
            elif wire == np.uint64(1):
                span = np.int64(8)
            elif wire == np.uint64(2):
                length, at = _varint(buffer, at, end, np.int64(63))
                span = np.int64(length)
            elif wire == np.uint64(3):
                at = _skip_group(buffer, at, end, field, open_groups)
            else:
                at += 4
            if field == np.uint64(6):
                for j in range(span):
                    out[into + j] = buffer[at + j]
                into += span
            at += span


@kernel
def gather_into(buffer: Any, at: Any, lengths: Any, starts: Any, out: Any) -> None:
    """Stretches of ``buffer`` to their places in ``out``.

    Args:
        buffer: uint8 (size,).
        at, lengths: int64 (m,), into ``buffer``.
        starts: int64 (m,), into ``out``.
        out: uint8, written.
    """
    for i in range(at.size):
        for j in range(lengths[i]):
            out[starts[i] + j] = buffer[at[i] + j]


@kernel
def gather(buffer: Any, offsets: Any, out: Any) -> None:
    """out[i] = the out.shape[1] bytes of ``buffer`` from offsets[i]."""
    for i in range(offsets.size):
        at = offsets[i]
        for j in range(out.shape[1]):
            out[i, j] = buffer[at + j]
