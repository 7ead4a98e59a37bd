"""Kernels that read length-delimited protobuf records as columns, without one Python object per report."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldp.kernels._jit import kernel

# Results of split_frames.
NEED_MORE, FULL, OVERSIZE, BAD_LENGTH, EMPTIES = 0, 1, 2, 3, 4
# Kinds of records; UNUSUAL is legal protobuf that only the protobuf library should read.
MALFORMED, REPORT, BATCH, UNUSUAL = 0, 1, 2, 3


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
def parse_records(  # noqa: PLR0912, PLR0915 - one loop; calls would have to be inlined by hand
    buffer: Any, offsets: Any, lengths: Any, words: Any, spans: Any, kinds: Any
) -> None:
    """Read the fields of Report or ReportBatch messages.

    Args:
        buffer: uint8 (size,).
        offsets, lengths: int64 (m,).
        words: uint64 (m, 4), written: digest, epoch (two's complement), report id, count.
        spans: int64 (m, 4), written: payload offset and length, ids offset and length.
        kinds: uint8 (m,), written.
    """
    for i in range(offsets.size):
        at = offsets[i]
        end = at + lengths[i]
        for j in range(4):
            words[i, j] = np.uint64(0)
            spans[i, j] = 0
        single = False
        many = False
        # An empty message has no digest and so is nothing.
        kind = REPORT if at < end else MALFORMED
        while at < end:
            tag = np.uint64(0)
            shift = 0
            whole = False
            while at < end and shift <= 28:
                byte = buffer[at]
                at += 1
                tag |= np.uint64(byte & 127) << np.uint64(shift)
                shift += 7
                if byte < 128:
                    whole = True
                    break
            field = tag >> np.uint64(3)
            wire = tag & np.uint64(7)
            # Tags are 32-bit in at most five bytes; a longer one, or field 0, is not protobuf.
            if not whole or tag > np.uint64(0xFFFFFFFF) or field == np.uint64(0):
                kind = MALFORMED
                break
            if wire == np.uint64(0):
                value = np.uint64(0)
                shift = 0
                whole = False
                while at < end and shift <= 63:
                    byte = buffer[at]
                    at += 1
                    value |= np.uint64(byte & 127) << np.uint64(shift)
                    shift += 7
                    if byte < 128:
                        whole = True
                        break
                if not whole:
                    kind = MALFORMED
                    break
                if field == np.uint64(2):
                    # Zigzag.
                    words[i, 1] = (value >> np.uint64(1)) ^ (
                        np.uint64(0xFFFFFFFFFFFFFFFF) * (value & np.uint64(1))
                    )
                elif field == np.uint64(5):
                    words[i, 3] = value
                    many = True
            elif wire == np.uint64(1):
                if at + 8 > end:
                    kind = MALFORMED
                    break
                value = np.uint64(0)
                for j in range(8):
                    value |= np.uint64(buffer[at + j]) << np.uint64(8 * j)
                at += 8
                if field == np.uint64(1):
                    words[i, 0] = value
                elif field == np.uint64(3):
                    words[i, 2] = value
                    single = True
                elif field == np.uint64(6):
                    kind = UNUSUAL
                    break
            elif wire == np.uint64(2):
                length = np.uint64(0)
                shift = 0
                whole = False
                while at < end and shift <= 63:
                    byte = buffer[at]
                    at += 1
                    length |= np.uint64(byte & 127) << np.uint64(shift)
                    shift += 7
                    if byte < 128:
                        whole = True
                        break
                if not whole or length > np.uint64(end - at):
                    kind = MALFORMED
                    break
                span = np.int64(length)
                if field == np.uint64(4):
                    spans[i, 0] = at
                    spans[i, 1] = span
                    single = True
                elif field == np.uint64(7):
                    spans[i, 0] = at
                    spans[i, 1] = span
                    many = True
                elif field == np.uint64(6):
                    if spans[i, 3] > 0:
                        # A packed field may be split; its parts then belong together.
                        kind = UNUSUAL
                        break
                    spans[i, 2] = at
                    spans[i, 3] = span
                    many = True
                at += span
            elif wire == np.uint64(5):
                if at + 4 > end:
                    kind = MALFORMED
                    break
                at += 4
            elif wire == np.uint64(3):
                kind = UNUSUAL
                break
            else:
                kind = MALFORMED
                break
        if kind == REPORT and many:
            kind = BATCH
            # Fields written out although 0 or empty count as absent; the library sorts that out.
            if single or (words[i, 3] == np.uint64(0) and spans[i, 1] == 0 and spans[i, 3] == 0):
                kind = UNUSUAL
        kinds[i] = kind


@kernel
def gather(buffer: Any, offsets: Any, out: Any) -> None:
    """out[i] = the out.shape[1] bytes of ``buffer`` from offsets[i]."""
    for i in range(offsets.size):
        at = offsets[i]
        for j in range(out.shape[1]):
            out[i, j] = buffer[at + j]
