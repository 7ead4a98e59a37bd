"""Files in a collector's folder: their names, and what is in them.

``reports-START-TOKEN.pb`` is finished: length-delimited ``ReportBatch`` messages, which every run reads, each
with the second in which its reports arrived. ``.journal-START-TOKEN`` is being written; a finished file takes
its place. ``.committed-START-TOKEN`` holds the size of the journal after its last commit; by it a collector
notices that somebody has cut or deleted the journal. ``.damaged-START-TOKEN`` was a journal that could not be
read whole; the finished file has what stood before the damage. START is the first second of arrival; TOKEN is
random, so no name ever comes again.
"""

from __future__ import annotations

import secrets
import struct
import zlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from ldpbeam.admission import ReportColumns, batch_message
from ldpbeam.wire import codec

JOURNAL_PREFIX, DAMAGED_PREFIX, REPORT_SUFFIX = ".journal-", ".damaged-", ".pb"
COMMITTED_PREFIX = ".committed-"
JOURNALS, COMMITTED = f"{JOURNAL_PREFIX}*", f"{COMMITTED_PREFIX}*"

_STAMP = "%Y%m%dT%H%M%SZ"
_ENTRY = struct.Struct("<QQI")
"""Seconds of arrival, bytes of the content, CRC-32 of both and the content."""
_HEAD = struct.Struct("<QQ")

_COMMITTED = struct.Struct("<QI")
"""Size of a journal after a commit, and the CRC-32 of this number."""


def journal_name(second: int) -> str:
    """A name that nothing else has."""
    return f"{JOURNAL_PREFIX}{datetime.fromtimestamp(second, UTC):{_STAMP}}-{secrets.token_hex(8)}"


def finished_name(journal: str) -> str:
    """What takes the place of a journal."""
    return f"reports-{journal.removeprefix(JOURNAL_PREFIX)}{REPORT_SUFFIX}"


def damaged_name(journal: str) -> str:
    """What a journal is called that cannot be read whole."""
    return f"{DAMAGED_PREFIX}{journal.removeprefix(JOURNAL_PREFIX)}"


def committed_name(journal: str) -> str:
    return f"{COMMITTED_PREFIX}{journal.removeprefix(JOURNAL_PREFIX)}"


def journal_of(committed: str) -> str:
    return f"{JOURNAL_PREFIX}{committed.removeprefix(COMMITTED_PREFIX)}"


def started(name: str) -> int | None:
    """The first second of arrival in a file or journal; None where its name does not say so."""
    try:
        return int(datetime.strptime(name.split("-")[1], _STAMP).replace(tzinfo=UTC).timestamp())
    except (IndexError, ValueError):
        return None


# --- the journal: what was committed together is one entry with a checksum


def entry(second: int, columns: Iterable[ReportColumns]) -> bytes:
    parts = (part for some in columns for part in of_a_size(some, codec.MAX_RECORD // 4))
    content = b"".join(codec.framed(batch_message(part)) for part in parts)
    head = _HEAD.pack(second, len(content))
    return head + zlib.crc32(content, zlib.crc32(head)).to_bytes(4, "little") + content


def committed_content(size: int) -> bytes:
    number = size.to_bytes(8, "little")
    return number + zlib.crc32(number).to_bytes(4, "little")


def committed_size(content: bytes) -> int:
    """The size in a ``.committed-…`` file; 0 where the file is damaged."""
    if len(content) != _COMMITTED.size:
        return 0
    size, check = _COMMITTED.unpack(content)
    return int(size) if zlib.crc32(content[:8]) == check else 0


class Entries(NamedTuple):
    """What a journal holds before its first damage, and the bytes of commits that are lost."""

    whole: list[tuple[int, bytes]]
    damaged: int


def read_entries(journal: bytes, committed: int = 0) -> Entries:
    """All entries up to one that is torn or damaged; ``committed`` bytes were once safe."""
    whole, at = list[tuple[int, bytes]](), 0
    while (entry := _entry_at(journal, at)) is not None:
        whole.append(entry)
        at += _ENTRY.size + len(entry[1])
    rest = len(journal) - at
    # An entry that was being written lacks its end, and nobody was answered.
    torn = rest < _ENTRY.size or rest - _ENTRY.size < _HEAD.unpack_from(journal, at)[1]
    return Entries(whole, max(0 if torn else rest, committed - at))


def _entry_at(journal: bytes, at: int) -> tuple[int, bytes] | None:
    """The entry that begins there; None where none does."""
    if at + _ENTRY.size > len(journal):
        return None
    second, length, check = _ENTRY.unpack_from(journal, at)
    begin = at + _ENTRY.size
    if begin + length > len(journal):
        return None
    content = journal[begin : begin + length]
    if zlib.crc32(content, zlib.crc32(journal[at : at + _HEAD.size])) != check:
        return None
    return second, content


def file_content(entries: Iterable[tuple[int, bytes]]) -> bytes:
    """What the finished file of a journal's entries holds; the same for the same entries, and empty for
    none."""
    parts: dict[tuple[int, int, int, int], list[codec.Batch]] = {}
    for second, content in entries:
        for batch in _batches(content):
            width = batch.payloads.size // batch.report_ids.size
            parts.setdefault((second, batch.digest, batch.epoch, width), []).append(batch)
    records = []
    for (second, digest, epoch, _), some in sorted(parts.items(), key=lambda item: item[0]):
        ids = np.concatenate([batch.report_ids for batch in some])
        payloads = np.concatenate([batch.payloads for batch in some]).reshape(ids.size, -1)
        order = np.argsort(ids, kind="stable")
        columns = ReportColumns(digest, epoch, ids[order], payloads[order])
        for part in of_a_size(columns, codec.MAX_RECORD // 4):
            records.append(codec.framed(batch_message(part, second)))
    return b"".join(records)


def _batches(content: bytes) -> Iterator[codec.Batch]:
    buffer, at = np.frombuffer(content, np.uint8), 0
    while at < buffer.size:
        frames = codec.frames(buffer, at)
        assert frames.end > at  # noqa: S101 - an entry with its checksum is what was written
        yield from codec.parse(frames)[1]
        at = frames.end


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
