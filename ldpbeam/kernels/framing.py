"""Kernels that read length-delimited protobuf records as columns, without one Python object per report."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldpbeam.kernels.jit import kernel

# Results of split_frames.
NEED_MORE, FULL, OVERSIZE, BAD_LENGTH, EMPTIES = 0, 1, 2, 3, 4
# Kinds of records; the ids of a SCATTERED batch come in several parts, or unpacked.
MALFORMED, REPORT, BATCH, SCATTERED = 0, 1, 2, 3

# Where fields of Report and ReportBatch go, by tag (8 * number + wire type): the column of a number in the
# words, and the first of two columns of bytes in the spans.
_WORD, _SPAN, _IDS = np.full(64, -1), np.full(64, -1), 4
_WORD[[8 * 1 + 1, 8 * 2, 8 * 3 + 1, 8 * 5]] = 0, 1, 2, 3
_SPAN[[8 * 4 + 2, 8 * 7 + 2, 8 * 6 + 1, 8 * 6 + 2]] = 0, 2, _IDS, _IDS
# The tag of an id that is not packed.
_ONE_ID = 8 * 6 + 1

# So deep may groups be nested, as in the protobuf library.
_DEPTH = 100

# So many empty records in a row are passed over at once: zeros compress a thousandfold, and a file
# system that lost power leaves them behind.
_EMPTIES = 4096


@kernel
def split_frames(buffer: Any, start: Any, limit: Any, offsets: Any, lengths: Any) -> Any:
    """Find the frames (varint length, then that many bytes) that lie whole inside ``buffer``."""
    position = start
    size = buffer.size
    frames = 0
    zeros = start  # end of the last run of zeros
    while frames < offsets.size:
        if position >= zeros:
            zeros = position
            while zeros < size and buffer[zeros] == 0:
                zeros += 1
            if zeros - position >= _EMPTIES:
                return frames, zeros, EMPTIES, zeros - position
        length = np.uint64(0)
        at = position
        shift = 0
        while True:
            if at >= size:
                return frames, position, NEED_MORE, 0
            byte = buffer[at]
            at += 1
            if shift > 56:
                return frames, position, BAD_LENGTH, 0
            length |= np.uint64(byte & 127) << np.uint64(shift)
            shift += 7
            if byte < 128:
                break
        if length > np.uint64(limit):
            # The caller needs to know how many bytes to skip; absurd lengths run to the end of the file.
            return frames, at, OVERSIZE, np.int64(length & np.uint64(0x7FFFFFFFFFFFFFFF))
        if at + np.int64(length) > size:
            return frames, position, NEED_MORE, 0
        offsets[frames] = at
        lengths[frames] = np.int64(length)
        frames += 1
        position = at + np.int64(length)
    return frames, position, FULL, 0


@kernel
def _varint(buffer: Any, at: Any, end: Any, last: Any) -> Any:
    """A varint of at most ``last`` / 7 + 1 bytes: (its lowest 64 bits, position behind it or -1)."""
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
    """Where a group that began at ``begin`` with the number ``field`` ends, or -1 where it is not sound."""
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
def _field(tag: Any, seen: Any) -> Any:
    """(whether the tag may stand here, ``seen`` with it, wire type, column of words or -1, of spans or
    -1)."""
    wire = tag & np.uint64(7)
    # A tag has 32 bits, and 0 is no field; a group's end without its beginning is no field either.
    sound = np.uint64(8) <= tag <= np.uint64(0xFFFFFFFF) and wire <= np.uint64(5) and wire != np.uint64(4)
    if tag >= np.uint64(64):
        return sound, seen, wire, np.int64(-1), np.int64(-1)
    word, span = _WORD[tag], _SPAN[tag]
    if word >= 0 or 0 <= span < 4:
        bit = np.uint64(1) << tag
        return sound and seen & bit == np.uint64(0), seen | bit, wire, word, span
    return sound, seen, wire, word, span


@kernel
def _kind(scattered: Any, report_id: Any, payload: Any, count: Any, payloads: Any, ids: Any) -> Any:
    """The kind of a sound message. A field that is 0 or empty counts as absent, as proto3 has it."""
    if count == np.uint64(0) and payloads == 0 and ids == 0:
        return REPORT
    if report_id != np.uint64(0) or payload > 0:
        return MALFORMED
    return SCATTERED if scattered else BATCH


@kernel
def parse_records(  # noqa: PLR0912 - a case for each wire type
    buffer: Any, offsets: Any, lengths: Any, words: Any, spans: Any, kinds: Any
) -> None:
    """Read the fields of Report or ReportBatch messages, in any legal spelling and in linear time."""
    open_groups = np.empty(_DEPTH, np.uint64)
    for i in range(offsets.size):
        at, end = offsets[i], offsets[i] + lengths[i]
        for j in range(4):
            words[i, j] = np.uint64(0)
        for j in range(6):
            spans[i, j] = 0
        # An empty message has no digest and so is nothing.
        sound, scattered, seen = at < end, False, np.uint64(0)
        while sound and at < end:
            tag, at = _varint(buffer, at, end, np.int64(28))
            sound, seen, wire, word, span = _field(tag, seen)
            if at < 0 or not sound:
                sound = False
                break
            value = length = np.uint64(0)
            if wire == np.uint64(0):
                value, at = _varint(buffer, at, end, np.int64(63))
            elif wire == np.uint64(2):
                length, at = _varint(buffer, at, end, np.int64(63))
            elif tag == _ONE_ID:
                length = np.uint64(8)
            elif wire == np.uint64(1):
                for j in range(8 if at + 8 <= end else 0):
                    value |= np.uint64(buffer[at + j]) << np.uint64(8 * j)
                at += 8
            elif wire == np.uint64(3):
                at = _skip_group(buffer, at, end, tag >> np.uint64(3), open_groups)
            else:
                at += 4
            sound = 0 <= at <= end and length <= np.uint64(end - at)
            if word >= 0:
                words[i, word] = value
            elif span >= 0:
                if span == _IDS:
                    sound = sound and length % np.uint64(8) == 0
                    scattered = scattered or spans[i, _IDS + 1] > 0
                spans[i, span] = at
                spans[i, span + 1] += np.int64(length)
            at += np.int64(length)
        # Zigzag.
        words[i, 1] = (words[i, 1] >> np.uint64(1)) ^ -(words[i, 1] & np.uint64(1))
        kinds[i] = MALFORMED
        if sound:
            kinds[i] = _kind(scattered, words[i, 2], spans[i, 1], words[i, 3], spans[i, 3], spans[i, 5])


@kernel
def gather_scattered(buffer: Any, offsets: Any, lengths: Any, which: Any, starts: Any, out: Any) -> None:
    """The ids of scattered batches, each batch's together and in the order of its bytes."""
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
    """Stretches of ``buffer`` to their places in ``out``."""
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
