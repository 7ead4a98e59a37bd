"""How the files of a collector's folder are called, and what is in them.

``reports-START-TOKEN.pb`` is finished: length-delimited ``ReportBatch`` messages, which every run reads, each
with the second in which its reports arrived. ``.journal-START-TOKEN`` is being written; a finished file takes
its place. START is the first second of arrival in it, and TOKEN is random, so no name ever comes again.
"""

from __future__ import annotations

import os
import secrets
import struct
import zlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from ldpbeam.admission import ReportColumns
from ldpbeam.wire import codec, report_pb2

JOURNAL_PREFIX, REPORT_SUFFIX = ".journal-", ".pb"
JOURNALS = f"{JOURNAL_PREFIX}*"

_STAMP = "%Y%m%dT%H%M%SZ"
_ENTRY = struct.Struct("<QQI")
"""Seconds of arrival, bytes of the content, CRC-32 of both and the content."""
_HEAD = struct.Struct("<QQ")

_REPORT_IDS, _PAYLOADS, _ARRIVAL = b"\x32", b"\x3a", b"\x40"
"""Field numbers and wire types of report.proto."""


def journal_name(second: int) -> str:
    """A name that nothing else has."""
    return f"{JOURNAL_PREFIX}{datetime.fromtimestamp(second, UTC):{_STAMP}}-{secrets.token_hex(8)}"


def finished_name(journal: str) -> str:
    """What takes the place of a journal."""
    return f"reports-{journal.removeprefix(JOURNAL_PREFIX)}{REPORT_SUFFIX}"


def started(name: str) -> int | None:
    """The first second of arrival in a file or journal; None where its name does not say so."""
    try:
        return int(datetime.strptime(name.split("-")[1], _STAMP).replace(tzinfo=UTC).timestamp())
    except (IndexError, ValueError):
        return None


def batch_message(columns: ReportColumns, arrival: int | None = None) -> bytes:
    """Columns as a ``ReportBatch``, byte for byte as protobuf writes it.

    Args:
        columns: at least one report.
        arrival: seconds since 1970; None to leave it out.
    """
    head = report_pb2.ReportBatch(digest=columns.digest, epoch=columns.epoch, count=len(columns))
    ids = np.ascontiguousarray(columns.report_ids, "<u8").tobytes()
    payloads = columns.payloads.tobytes()
    parts = [head.SerializeToString(), _REPORT_IDS, codec.varint(len(ids)), ids]
    parts += [_PAYLOADS, codec.varint(len(payloads)), payloads]
    if arrival is not None:
        parts += [_ARRIVAL, codec.varint(arrival)]
    return b"".join(parts)


# --- the journal: what was committed together is one entry with a checksum


def entry(second: int, columns: Iterable[ReportColumns]) -> bytes:
    """Reports that arrived in one second and are made safe together."""
    parts = (part for some in columns for part in of_a_size(some, codec.MAX_RECORD // 4))
    content = b"".join(codec.framed(batch_message(part)) for part in parts)
    head = _HEAD.pack(second, len(content))
    return head + zlib.crc32(content, zlib.crc32(head)).to_bytes(4, "little") + content


def read_entries(journal: bytes) -> Iterator[tuple[int, bytes]]:
    """(second, content) of the entries, up to the first that is not whole: it was never answered."""
    at = 0
    while at + _ENTRY.size <= len(journal):
        second, length, check = _ENTRY.unpack_from(journal, at)
        begin = at + _ENTRY.size
        content = journal[begin : begin + length]
        head = journal[at : at + _HEAD.size]
        if len(content) != length or zlib.crc32(content, zlib.crc32(head)) != check:
            return
        yield second, content
        at = begin + length


def file_content(journal: bytes) -> bytes:
    """What the finished file of a journal holds; the same for the same journal, and empty for an empty one.

    The reports of one collection, epoch and second are together and in the order of their ids, so that
    nothing in a file says which came one after the other, or from whom several came.
    """
    parts: dict[tuple[int, int, int], list[codec.Batch]] = {}
    for second, content in read_entries(journal):
        for batch in _batches(content):
            parts.setdefault((second, batch.digest, batch.epoch), []).append(batch)
    records = []
    for (second, digest, epoch), some in sorted(parts.items(), key=lambda item: item[0]):
        ids = np.concatenate([batch.report_ids for batch in some])
        payloads = np.concatenate([batch.payloads for batch in some]).reshape(ids.size, -1)
        order = np.argsort(ids, kind="stable")
        columns = ReportColumns(digest, epoch, ids[order], payloads[order])
        for part in of_a_size(columns, codec.MAX_RECORD // 4):
            records.append(codec.framed(batch_message(part, second)))
    return b"".join(records)


def _batches(content: bytes) -> Iterator[codec.Batch]:
    """The batches of an entry."""
    buffer, at = np.frombuffer(content, np.uint8), 0
    while at < buffer.size:
        found = codec.frames(buffer, at)
        assert found.end > at  # noqa: S101 - an entry with its checksum is what was written
        yield from codec.parse(found)[1]
        at = found.end


def of_a_size(columns: ReportColumns, limit: int) -> list[ReportColumns]:
    """The same reports in parts of so many bytes, or of one report."""
    rows = max(1, limit // (8 + columns.payloads.shape[1]))
    return [
        ReportColumns(
            columns.digest,
            columns.epoch,
            columns.report_ids[at : at + rows],
            columns.payloads[at : at + rows],
        )
        for at in range(0, len(columns), rows)
    ]


def put(folder: Path, name: str, content: bytes) -> None:
    """Put a whole file in place: temporary file, fsync, rename, fsync of the folder.

    Raises:
        OSError: the disk does not take it. Nothing half-written stays behind.
    """
    temporary = folder / f".{name}.tmp"
    try:
        with open(temporary, "xb", opener=_for_the_group) as handle:
            handle.write(content)
            handle.flush()
            os.fsync(handle.fileno())
        temporary.rename(folder / name)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync(folder)


def sync(folder: Path) -> None:
    """Force to disk which names a folder holds."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _for_the_group(path: str, flags: int) -> int:
    """Never for everybody, whatever the umask."""
    return os.open(path, flags, 0o640)
