"""Parquet files as columns of reports, in pieces whose size does not depend on what a file claims.

A Parquet file says in several places how many rows it has: in its footer, for each row group, for each column
of one, and for each page. What is missing from what they agree on is rejected, and a disagreement is too. The
headers of pages (parquet_headers.py) decide how many rows are decoded at a time, and whether any are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ldpbeam.admission import Written
from ldpbeam.arrays import Bytes
from ldpbeam.errors import Reason
from ldpbeam.transforms.sources import plain_columns
from ldpbeam.transforms.sources.arrow_columns import epochs, even_payloads, payloads, words
from ldpbeam.transforms.sources.chunks import BadSource, Table
from ldpbeam.transforms.sources.parquet_headers import (
    BYTES_AT_ONCE,
    COLUMNS,
    ROWS_AT_ONCE,
    Pages,
    RowGroup,
    TooLarge,
    footer,
    pages_lie,
    pages_of,
    row_groups,
)
from ldpbeam.transforms.sources.stored import StoredFile
from ldpbeam.wire.codec import EvenRows, Rows

_ROW = 24  # bytes of a row beside its payload
_STORED_ROW = 8  # a report id is random, so no sound file takes fewer bytes for a row
_MAX_FOOTER = 2 << 20
_HELD = 12 << 20
"""Bytes that a column may take in a row group that is held in memory: a million words, and their headers."""


@dataclass
class _Reading:
    """How far the reading of a file is."""

    source: str  # the file
    left: int  # bytes that it may still stand for
    written_by: Written | None  # as in :class:`Chunk`
    believable: int  # rows that may still be rejected as missing
    done: int = 0  # rows delivered or rejected
    doubts: bool = False  # whether anything contradicted itself without a row being missing
    lost: bool = False  # whether any row was missing

    def missing(self, rows: int, reason: Reason = Reason.CORRUPT_FILE) -> BadSource:
        """Rows that ought to follow what is done, and do not; at least one."""
        count = max(min(rows, self.believable), 1)
        self.believable -= count
        self.lost = True
        bad = BadSource(self.source, reason, self.done, count)
        self.done += count
        return bad


def read_tables(
    source: str, stored: StoredFile, allowed: int, written_by: Written | None
) -> Iterator[Table | BadSource]:
    """Rows of a file with the columns digest, epoch, report_id and payload.

    What is missing is rejected as ``corrupt_file``: of a row group, what most of its counts of rows say, less
    what was delivered; of the file, what the footer says beyond its row groups. No more than one row for
    every eight stored bytes is rejected so, whatever is claimed. A file that contradicts itself although no
    row is missing is rejected as one record more.

    Args:
        source: name for rejects.
        stored: the file.
        allowed: bytes of reports that it may stand for.
        written_by: as in :class:`Chunk`.

    Raises:
        OSError: the file cannot be read.
    """
    reading = _Reading(source, allowed, written_by, max(stored.size // _STORED_ROW, 1))
    try:
        readers = _Readers(stored)
    except TooLarge:
        yield reading.missing(1, Reason.EXPANSION_LIMIT)
        return
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, EOFError, OverflowError):
        if stored.unreadable:
            raise
        yield reading.missing(1)
        return
    claimed = int(readers.metadata.num_rows)
    leaves = _leaves(readers.schema)
    groups = enumerate(row_groups(footer(stored)))
    while True:
        try:
            g, group = next(groups, (-1, RowGroup()))
        except (ValueError, IndexError):
            break  # what is missing then is what the footer says beyond what was delivered
        if g < 0:
            break
        if leaves is None:
            continue
        yield from _read_group(readers, stored, g, group, leaves, reading)
        if reading.left <= 0:
            # What is left was not looked at; the footer says how much there would be.
            if claimed > reading.done:
                yield reading.missing(claimed - reading.done, Reason.EXPANSION_LIMIT)
            return
    if claimed == reading.done == 0 and not reading.doubts:
        yield BadSource(source, Reason.EMPTY_FILE)
    elif claimed > reading.done and reading.believable:
        yield reading.missing(claimed - reading.done)
    elif (reading.doubts or claimed < reading.done) and not reading.lost:
        yield BadSource(source, Reason.CORRUPT_FILE)


class _Readers:
    """pyarrow's readers of one file, each made when it is needed, from one footer.

    Some read a little at a time, whatever a row group holds. Others read a column of a row group at once, and
    are for those that are in memory already, see :meth:`hold`.
    """

    def __init__(self, stored: StoredFile) -> None:
        """Read the footer; raises TooLarge where it is not of a bearable size, and what pyarrow raises."""
        stored.seek(max(stored.size - 8, 0))
        tail = stored.read(8)
        if tail[4:] == b"PAR1" and _MAX_FOOTER < int.from_bytes(tail[:4], "little") < stored.size:
            raise TooLarge
        stored.seek(0)
        self._stored, self._made = stored, dict[tuple[bool, bool], tuple[_Unclosed, Any]]()
        self._may_hold = stored.size
        file = self.reader(held=False, dictionary=False)
        self.metadata, self.schema = file.metadata, file.schema
        self.plain = plain_columns.widths(file.schema, file.schema_arrow)

    def reader(self, *, held: bool, dictionary: bool) -> Any:
        """One for row groups that are ``held``; with ``dictionary`` each payload once, however many rows."""
        if (held, dictionary) not in self._made:
            source = _Unclosed(self._stored, _HELD if held else None)
            file = pq.ParquetFile(
                source,
                metadata=self.metadata if self._made else None,
                read_dictionary=["payload"] if dictionary else None,
                buffer_size=0 if held else ROWS_AT_ONCE,
                pre_buffer=False,
                page_checksum_verification=True,
            )
            self._made[held, dictionary] = source, file
        return self._made[held, dictionary][1]

    def columns_of(self, places: dict[str, tuple[int, int]]) -> dict[str, Bytes]:
        """Parts of the file, by name, none of them large; none if all would be more than the file in all.

        Each is uint8, writable and apart from the others. Parts that follow one another are read at once.

        Raises:
            OSError: the file cannot be read.
        """
        places = {name: (at, end) for name, (at, end) in places.items() if end - at <= _HELD}
        size = sum(end - at for at, end in places.values())
        if size > self._may_hold:
            return {}
        self._may_hold -= size
        ordered = sorted(places.items(), key=lambda item: item[1])
        data, found = np.empty(size, np.uint8), dict[str, Bytes]()
        begun = filled = 0
        for i, (name, (at, end)) in enumerate(ordered):
            found[name] = data[filled : filled + end - at]
            filled += end - at
            if i + 1 < len(ordered) and ordered[i + 1][1][0] == end:
                continue  # the next part is read with it
            self._stored.seek(end - (filled - begun))
            if self._stored.readinto(data[begun:filled].data) < filled - begun:
                return {}
            begun = filled
        return found

    def agree(self, number: int, group: RowGroup, leaves: dict[str, int]) -> bool:
        """Whether pyarrow makes of the footer what we do, see :func:`plain_columns.agree`."""
        try:
            return plain_columns.agree(group, self.metadata.row_group(number), leaves)
        except (pa.ArrowException, OSError, ValueError, TypeError, IndexError):
            return False

    def hold(self, parts: dict[int, Bytes]) -> None:
        """Have the readers for what is held take these parts, by where they begin, from memory."""
        for source, _ in self._made.values():
            source.parts = parts


class _Unclosed:
    """A file that others may close without anything happening to it, and parts of it in memory."""

    closed = False

    def __init__(self, stored: StoredFile, at_once: int | None) -> None:
        """Read from ``stored``, no more than so many bytes at once where that is given."""
        self.read, self.seek, self.tell = stored.read, stored.seek, stored.tell
        self.parts: dict[int, Bytes] = {}
        self._at_once = at_once

    def read_buffer(self, size: int) -> Any:
        """As ``read``, without a copy of what is in memory; pyarrow asks for this where it can.

        Raises:
            ValueError: more is asked for at once than any part may have.
        """
        part = self.parts.get(self.tell())
        if part is not None and size <= len(part):
            self.seek(size, 1)
            return part[:size].data
        if self._at_once is not None and size > self._at_once:
            raise ValueError("a column is longer than its footer says")
        return self.read(size)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def close(self) -> None:
        return None


def _leaves(schema: Any) -> dict[str, int] | None:
    """Which leaf each column is; None where one is missing, repeated, nested or of another kind."""
    found: dict[str, list[int]] = {name: [] for name in COLUMNS}
    for i in range(len(schema)):
        if (name := schema.column(i).path) in found:
            found[name].append(i)
    kinds = {
        "payload": ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"),
        "epoch": ("INT32", "INT64", "FLOAT", "DOUBLE"),
    }
    for name, where in found.items():
        if len(where) != 1:
            return None
        leaf = schema.column(where[0])
        if leaf.max_repetition_level or leaf.max_definition_level > 1:
            return None
        if leaf.physical_type not in kinds.get(name, ("INT32", "INT64")):
            return None
    return {name: where[0] for name, where in found.items()}


def believed(claims: list[int]) -> int:
    """What most say; where as many say something else, the larger number."""
    said = Counter(claim for claim in claims if claim >= 0)
    return max(said, key=lambda claim: (said[claim], claim), default=0)


def _read_group(
    readers: _Readers,
    stored: StoredFile,
    number: int,
    group: RowGroup,
    leaves: dict[str, int],
    reading: _Reading,
) -> Iterator[Table | BadSource]:
    """The rows of one row group, and what is missing of them."""
    trouble: Reason | None = None
    held = _columns_of(readers, stored, group)
    if rows := _as_they_lie(readers, number, group, leaves, held, reading):
        yield from _even_tables(rows, reading)
        return
    claims = group.claims
    pages, begun, parts = {}, reading.done, dict[int, Bytes]()
    try:
        for name in COLUMNS:
            at, end = pages_lie(stored, group.columns[name])
            if name in held:
                parts[at] = held[name]
            pages[name] = pages_of(stored, at, end, reading.left, held.get(name))
            claims.append(pages[name].values)
        for batch in _batches(readers, number, leaves, pages, parts):
            yield from _tables(batch, reading)
            if reading.left <= 0:
                return
    except TooLarge:
        trouble = Reason.EXPANSION_LIMIT
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, IndexError, EOFError, OverflowError):
        if stored.unreadable:
            raise
        trouble = Reason.CORRUPT_FILE
    wanted = believed(claims)
    delivered = reading.done - begun
    if delivered < wanted or trouble:
        yield reading.missing(wanted - delivered, trouble or Reason.CORRUPT_FILE)
    elif len(set(claims)) > 1 or delivered > wanted:
        reading.doubts = True


def _columns_of(readers: _Readers, stored: StoredFile, group: RowGroup) -> dict[str, Bytes]:
    """Columns of a row group in memory, by name; not those that are large, or lie nowhere."""
    places: dict[str, tuple[int, int]] = {}
    with suppress(ValueError, KeyError):
        for name in COLUMNS:
            places[name] = pages_lie(stored, group.columns[name])
    return readers.columns_of(places)


def _as_they_lie(
    readers: _Readers,
    number: int,
    group: RowGroup,
    leaves: dict[str, int],
    held: dict[str, Bytes],
    reading: _Reading,
) -> EvenRows | None:
    """The rows of a row group that need not be decoded, if nothing is to be said about any; else None."""
    width = readers.plain
    if width is None or len(held) < len(COLUMNS) or not readers.agree(number, group, leaves):
        return None
    # Then no column stands for more than is left: without headers, none is as large as all rows.
    if group.rows * (width["payload"] + _ROW) > reading.left:
        return None
    return plain_columns.even_rows(held, group.rows, width, reading.done)


def _batches(
    readers: _Readers, group: int, leaves: dict[str, int], pages: dict[str, Pages], parts: dict[int, Bytes]
) -> Iterator[Any]:
    """Record batches of a row group, each of a bearable size; ``parts`` are columns that are in memory."""
    rows = pages["payload"].rows_at_once
    leaf = readers.schema.column(leaves["payload"])
    fixed = leaf.physical_type == "FIXED_LEN_BYTE_ARRAY"
    if fixed:
        rows = min(rows, max(BYTES_AT_ONCE // max(int(leaf.length), 1), 1))
    file = readers.reader(
        held=len(parts) == len(COLUMNS), dictionary=pages["payload"].dictionary and not fixed
    )
    readers.hold(parts)
    yield from file.iter_batches(rows, row_groups=[group], columns=list(COLUMNS), use_threads=False)


def _even(batch: Any, reading: _Reading) -> EvenRows | None:
    """A record batch whose rows are all there, with payloads of one length, and may all be read."""
    n = batch.num_rows
    if not n or any(batch.column(name).null_count for name in COLUMNS):
        return None
    epoch, whole = epochs(batch.column("epoch"))
    payload = even_payloads(batch.column("payload"))
    if payload is None or not whole.all() or n * (payload.shape[1] + _ROW) > reading.left:
        return None
    digest, report_id = (words(batch.column(name)) for name in ("digest", "report_id"))
    return EvenRows(digest, epoch, report_id, payload, reading.done)


def _even_tables(rows: EvenRows, reading: _Reading) -> Iterator[Table]:
    """Rows as tables of a bearable size."""
    n, width = rows.payloads.shape
    reading.done += n
    reading.left -= n * (width + _ROW)
    step = max(2 * BYTES_AT_ONCE // (width + _ROW), 1)
    for first in range(0, n, step):
        some = slice(first, first + step)
        columns = rows.digest[some], rows.epoch[some], rows.report_id[some], rows.payloads[some]
        yield Table(reading.source, EvenRows(*columns, rows.first + first), reading.written_by)


def _tables(batch: Any, reading: _Reading) -> Iterator[Table | BadSource]:
    """A record batch as tables of a bearable size; rows with a null, or without an epoch, are refused."""
    if even := _even(batch, reading):
        yield from _even_tables(even, reading)
        return
    n = batch.num_rows
    sound = np.ones(n, bool)
    for name in COLUMNS:
        column = batch.column(name)
        if column.null_count:
            sound &= np.asarray(column.is_valid())
    digest, report_id = (words(batch.column(name)) for name in ("digest", "report_id"))
    epoch, whole = epochs(batch.column("epoch"))
    sound &= whole
    buffer, at, length = payloads(batch.column("payload"))
    kept = np.flatnonzero(sound)
    if kept.size < n:
        bad = np.flatnonzero(~sound)
        yield BadSource(reading.source, Reason.MALFORMED, reading.done + int(bad[0]), bad.size)
        reading.left -= _ROW * bad.size
    begun = reading.done
    reading.done += n
    weight = np.cumsum(length[kept] + _ROW)
    if weight.size and weight[-1] > reading.left:
        fits = int(np.searchsorted(weight, reading.left, "right"))
        left_out = kept[fits:]
        yield BadSource(reading.source, Reason.EXPANSION_LIMIT, begun + int(left_out[0]), left_out.size)
        kept, weight = kept[:fits], weight[:fits]
        reading.left = 0
    else:
        reading.left -= int(weight[-1]) if weight.size else 0
    first = 0
    while first < kept.size:
        before = int(weight[first - 1]) if first else 0
        last = max(int(np.searchsorted(weight, before + 2 * BYTES_AT_ONCE, "right")), first + 1)
        # Where every row is kept, a part of each column is no copy.
        some = kept[first:last] if kept.size < n else slice(first, last)
        rows = Rows(
            digest=digest[some],
            epoch=epoch[some],
            report_id=report_id[some],
            buffer=buffer,
            payload_at=at[some],
            payload_length=length[some],
            place=begun + kept[first:last],
        )
        first = last
        yield Table(reading.source, rows, reading.written_by)
