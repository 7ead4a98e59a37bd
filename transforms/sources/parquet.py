"""Parquet files as columns of reports, in pieces whose size does not depend on what a file claims.

A Parquet file says in several places how many rows it has: in its footer, for each row group, for each column
of one, and for each page. Whatever is missing from what they agree on is booked, and so is a disagreement. A
page may stand for any number of rows and for values of any size, so the headers of pages are read first: they
decide how many rows are decoded at a time, and whether the pages are decoded at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ldpbeam.errors import Reason
from ldpbeam.transforms.sources.chunks import BadSource, Table
from ldpbeam.transforms.sources.stored import StoredFile
from ldpbeam.wire.codec import MAX_RECORD, Rows

__all__ = ["COLUMNS", "believed", "read_tables"]

COLUMNS = ("digest", "epoch", "report_id", "payload")
_ROWS = 1 << 16
_BYTES = 4 << 20  # of payloads at a time
_ROW = 24  # bytes of a row beside its payload
_STORED_ROW = 8  # a report id is random, so no sound file takes fewer bytes for a row
_MAX_FOOTER = 2 << 20
_MAX_PAGE = MAX_RECORD
_MAX_PAGE_ROWS = 1 << 20  # where all lengths of a page are decoded at once
_HEADER = 16 << 10
_DICTIONARY_PAGE, _DATA_PAGES = 2, (0, 3)
_DICTIONARY_ENCODINGS, _DELTA_LENGTH, _DELTA_VALUES = (2, 8), 6, 7


class _TooLarge(Exception):  # noqa: N818 - a signal inside this module
    """Pages stand for more than they may."""


@dataclass
class _Pages:
    """What the headers of a column's pages say.

    Attributes:
        values: in its data pages.
        size: bytes of all pages, decompressed.
        rows_at_once: how many rows may be decoded together.
        dictionary: whether values are kept in a dictionary.
    """

    values: int = 0
    size: int = 0
    rows_at_once: int = _ROWS
    dictionary: bool = False


@dataclass
class _Reading:
    """How far the reading of a file is.

    Attributes:
        source: the file.
        left: bytes that it may still stand for.
        written_by: as in :class:`Chunk`.
        done: rows delivered or booked.
        believable: rows that may still be booked as missing.
        doubts: whether anything contradicted itself without a row being missing.
        lost: whether any row was missing.
    """

    source: str
    left: int
    written_by: int | None
    believable: int
    done: int = 0
    doubts: bool = False
    lost: bool = False

    def missing(self, rows: int, reason: Reason = Reason.CORRUPT_FILE) -> BadSource:
        """Rows that ought to follow what is done, and do not; at least one."""
        count = max(min(rows, self.believable), 1)
        self.believable -= count
        self.lost = True
        bad = BadSource(self.source, reason, self.done, count)
        self.done += count
        return bad


def read_tables(
    source: str, stored: StoredFile, allowed: int, written_by: int | None
) -> Iterator[Table | BadSource]:
    """Rows of a file with the columns digest, epoch, report_id and payload.

    What is missing is booked as ``corrupt_file``: of a row group, what most of its counts of rows say, less
    what was delivered; of the file, what the footer says beyond its row groups. No more than one row for
    every eight stored bytes is booked so, whatever is claimed. A file that contradicts itself although no row
    is missing is booked as one record more.

    Args:
        source: name for rejects.
        stored: the file.
        allowed: bytes of reports that it may stand for.
        written_by: as in :class:`Chunk`.

    Raises:
        OSError: the file cannot be read.
    """
    import pyarrow as pa

    reading = _Reading(source, allowed, written_by, max(stored.size // _STORED_ROW, 1))
    try:
        file = _opened(stored)
    except _TooLarge:
        yield reading.missing(1, Reason.EXPANSION_LIMIT)
        return
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, EOFError, OverflowError):
        if stored.unreadable:
            raise
        yield reading.missing(1)
        return
    claimed = int(file.metadata.num_rows)
    leaves = _leaves(file.schema)
    groups = enumerate(_row_groups(_footer(stored)))
    while True:
        try:
            g, group = next(groups, (-1, _RowGroup()))
        except (ValueError, IndexError):
            break  # what is missing then is what the footer says beyond what was delivered
        if g < 0:
            break
        if leaves is None:
            continue
        yield from _read_group(file, stored, g, group, leaves, reading)
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


def _opened(stored: StoredFile, **options: Any) -> Any:
    """A file whose footer is of a bearable size.

    Raises:
        _TooLarge: it is not.
        pyarrow.ArrowException, OSError, ValueError: it is no Parquet file.
    """
    import pyarrow.parquet as pq

    stored.seek(max(stored.size - 8, 0))
    tail = stored.read(8)
    if tail[4:] == b"PAR1" and _MAX_FOOTER < int.from_bytes(tail[:4], "little") < stored.size:
        raise _TooLarge
    stored.seek(0)
    return pq.ParquetFile(
        _Unclosed(stored), buffer_size=_ROWS, pre_buffer=False, page_checksum_verification=True, **options
    )


class _Unclosed:
    """A file that others may close without anything happening to it."""

    closed = False

    def __init__(self, stored: StoredFile) -> None:
        self.read, self.seek, self.tell = stored.read, stored.seek, stored.tell

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
    file: Any,
    stored: StoredFile,
    number: int,
    group: _RowGroup,
    leaves: dict[str, int],
    reading: _Reading,
) -> Iterator[Table | BadSource]:
    """The rows of one row group, and what is missing of them."""
    import pyarrow as pa

    trouble: Reason | None = None
    claims = [group.rows, *(int(column.get(_VALUES, -1)) for column in group.columns.values())]
    pages, begun = {}, reading.done
    try:
        for name in COLUMNS:
            pages[name] = _walk(stored, group.columns[name], reading.left)
            claims.append(pages[name].values)
        for batch in _batches(file, stored, number, leaves, pages):
            yield from _tables(batch, reading)
            if reading.left <= 0:
                return
    except _TooLarge:
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


def _batches(
    file: Any, stored: StoredFile, group: int, leaves: dict[str, int], pages: dict[str, _Pages]
) -> Iterator[Any]:
    """Record batches of a row group, each of a bearable size."""
    rows = pages["payload"].rows_at_once
    leaf = file.schema.column(leaves["payload"])
    if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY":
        rows = min(rows, max(_BYTES // max(int(leaf.length), 1), 1))
    elif pages["payload"].dictionary:
        # Each value once, however many rows have it.
        file = _opened(stored, read_dictionary=["payload"])
    yield from file.iter_batches(rows, row_groups=[group], columns=list(COLUMNS), use_threads=False)


def _tables(batch: Any, reading: _Reading) -> Iterator[Table | BadSource]:
    """A record batch as tables of a bearable size; rows with a null, or without an epoch, are refused."""
    n = batch.num_rows
    sound = np.ones(n, bool)
    for name in COLUMNS:
        column = batch.column(name)
        if column.null_count:
            sound &= np.asarray(column.is_valid())
    digest, report_id = (_words(batch.column(name)) for name in ("digest", "report_id"))
    epoch, whole = _epochs(batch.column("epoch"))
    sound &= whole
    buffer, at, length = _payloads(batch.column("payload"))
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
        last = max(int(np.searchsorted(weight, before + 2 * _BYTES, "right")), first + 1)
        some = kept[first:last]
        first = last
        rows = Rows(
            digest=digest[some],
            epoch=epoch[some],
            report_id=report_id[some],
            buffer=buffer,
            payload_at=at[some],
            payload_length=length[some],
            place=begun + some,
        )
        yield Table(reading.source, rows, reading.written_by)


def _numbers(column: Any) -> Any:
    """The numbers of a column, whatever stands where it is null.

    Raises:
        TypeError: they are none.
    """
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind)):
        raise TypeError("not a column of numbers")
    name = {"float": "float32", "double": "float64"}.get(str(kind), str(kind))
    data = np.frombuffer(column.buffers()[1] or b"", name)
    return data[column.offset : column.offset + len(column)]


def _words(column: Any) -> Any:
    """64 random bits each. Writers without unsigned types store the same bits as signed numbers.

    Raises:
        TypeError: fractions have lost bits.
    """
    numbers = _numbers(column)
    if numbers.dtype.kind == "u":
        return numbers.astype(np.uint64)
    if numbers.dtype.kind != "i":
        raise TypeError("not a column of integers")
    return numbers.astype(np.int64).view(np.uint64)


def _epochs(column: Any) -> tuple[Any, Any]:
    """Epochs, and which of them are whole numbers of 64 bits (columns with nulls often become fractions)."""
    numbers = _numbers(column)
    if numbers.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            whole = (np.abs(numbers) < 2.0**53) & (np.floor(numbers) == numbers)
        return np.where(whole, numbers, 0).astype(np.int64), whole
    if numbers.dtype == np.uint64:
        return numbers.view(np.int64), numbers <= np.uint64((1 << 63) - 1)
    return numbers.astype(np.int64), np.ones(numbers.size, bool)


def _payloads(column: Any) -> tuple[Any, Any, Any]:
    """Where the bytes of a column lie: buffer, begin of each row, length of each row; nothing is copied.

    Raises:
        pyarrow.ArrowException, TypeError: they are no bytes.
    """
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        index = _numbers(column.indices).astype(np.int64)
        buffer, at, length = _payloads(column.dictionary)
        if not at.size:
            return buffer, np.zeros(index.size, np.int64), np.zeros(index.size, np.int64)
        if column.null_count:
            index = np.where(np.asarray(column.is_valid()), index, 0)
        if index.size and not 0 <= index.min() <= index.max() < at.size:
            raise ValueError("an index is not in the dictionary")
        return buffer, at[index], length[index]
    n = len(column)
    if pa.types.is_fixed_size_binary(kind):
        width = kind.byte_width
        buffer = np.frombuffer(column.buffers()[1] or b"", np.uint8)
        at = (np.arange(n, dtype=np.int64) + column.offset) * width
        return buffer, at, np.full(n, width, np.int64)
    column = column.cast(pa.large_binary())
    edges = np.frombuffer(column.buffers()[1] or bytes(8), np.int64)[column.offset : column.offset + n + 1]
    return np.frombuffer(column.buffers()[2] or b"", np.uint8), edges[:-1].copy(), np.diff(edges)


# --- footer and headers of pages, in Thrift's compact protocol (parquet-format: FileMetaData, PageHeader)
#
# pyarrow tells the same of a sound footer, and ends the process over some that are not.

_PATH, _VALUES, _COMPRESSED, _DATA_OFFSET, _DICTIONARY_OFFSET = 3, 5, 7, 9, 11  # fields of ColumnMetaData


@dataclass
class _RowGroup:
    """What the footer says of a row group: rows, and fields of the columns' metadata by name."""

    rows: int = -1
    columns: dict[str, dict[int, Any]] = field(default_factory=dict)


def _footer(stored: StoredFile) -> bytes:
    stored.seek(max(stored.size - 8, 0))
    length = int.from_bytes(stored.read(4), "little")
    stored.seek(max(stored.size - 8 - length, 0))
    return stored.read(length)


def _row_groups(data: bytes) -> Iterator[_RowGroup]:
    """One after the other; a footer may list very many.

    Raises:
        IndexError, ValueError: the footer is not sound.
    """
    for number, kind, at in _fields(data, 0):
        if number == 4 and kind == _LIST:
            _, count, place = _list_head(data, at)
            for _ in range(count):
                group = _RowGroup()
                for inner, of, where in _fields(data, place):
                    if inner == 1 and of == _LIST:
                        group.columns = _columns(data, where)
                    elif inner == 3 and of in _INTEGERS:
                        group.rows, _ = _zigzag(data, where)
                yield group
                _, place = _field(data, place, _STRUCT, 0)


def _columns(data: bytes, at: int) -> dict[str, dict[int, Any]]:
    _, count, at = _list_head(data, at)
    found: dict[str, dict[int, Any]] = {}
    for _ in range(count):
        chunk, at = _struct(data, at, 0)
        about = chunk.get(3)
        if not isinstance(about, dict):
            continue
        path = about.get(_PATH)
        if isinstance(path, list) and len(path) == 1 and (name := _name(path[0])) in COLUMNS:
            found[name] = {key: value for key, value in about.items() if isinstance(value, int)}
    return found


def _name(path: object) -> str:
    return path.decode("utf-8", "replace") if isinstance(path, bytes) else ""


def _fields(data: bytes, at: int) -> Iterator[tuple[int, int, int]]:
    """(number, type, position of the value) of each field of a struct."""
    number = 0
    while head := data[at]:
        at += 1
        kind, step = head & 15, head >> 4
        if step:
            number += step
        else:
            number, at = _zigzag(data, at)
        yield number, kind, at
        _, at = _field(data, at, kind, 0)


def _list_head(data: bytes, at: int) -> tuple[int, int, int]:
    """Type and number of elements, and position of the first."""
    head = data[at]
    count, at = (head >> 4, at + 1) if head >> 4 < 15 else _unsigned(data, at + 1)
    if count > len(data) - at:
        raise ValueError("a list is longer than what holds it")
    return head & 15, count, at


_INTEGERS, _LIST, _STRUCT = (4, 5, 6), 9, 12


def _walk(stored: StoredFile, column: dict[int, Any], allowed: int) -> _Pages:
    """What the headers of a column's pages in one row group say.

    Raises:
        _TooLarge: a page, or all of them, stand for too much.
        ValueError, IndexError: they are no headers.
    """
    offsets = [int(column.get(which, 0)) for which in (_DATA_OFFSET, _DICTIONARY_OFFSET)]
    at = min((offset for offset in offsets if offset > 0), default=0)
    end = at + int(column.get(_COMPRESSED, -1))
    if not 4 <= at <= end <= stored.size:
        raise ValueError("pages lie outside of the file")
    found = _Pages()
    left = 1024 + (end - at) // 256
    while at < end:
        left -= 1
        if left < 0:
            raise ValueError("too many pages for so few bytes")
        stored.seek(at)
        head = stored.read(min(_HEADER, end - at))
        header, size = _page_header(head)
        kind, plain, compressed = (int(header.get(i, -1)) for i in (1, 2, 3))
        if plain < 0 or compressed < 0 or at + size + compressed > end:
            raise ValueError("a page has no size")
        found.size += plain
        if plain > _MAX_PAGE or found.size > allowed:
            raise _TooLarge
        if kind == _DICTIONARY_PAGE:
            found.dictionary = True
        elif kind in _DATA_PAGES:
            about = header.get(8 if kind else 5)
            if not isinstance(about, dict):
                raise ValueError("a page does not say what it holds")
            values, encoding = int(about.get(1, 0)), int(about.get(4 if kind else 2, -1))
            if values < 0:
                raise ValueError("a page holds less than nothing")
            found.values += values
            found.rows_at_once = min(found.rows_at_once, _rows_at_once(plain, values, encoding))
        at += size + compressed
    return found


def _rows_at_once(plain: int, values: int, encoding: int) -> int:
    """How many rows of a page may be decoded together."""
    if encoding in _DICTIONARY_ENCODINGS:
        return _ROWS
    if encoding in (_DELTA_LENGTH, _DELTA_VALUES) and values > _MAX_PAGE_ROWS:
        raise _TooLarge
    if encoding == _DELTA_VALUES:
        # A value may begin like the one before it: any row may be as long as the page.
        return max(_BYTES // max(plain, 1), 1)
    return max(_BYTES * values // max(plain, 1), 1)


def _page_header(data: bytes) -> tuple[dict[int, Any], int]:
    """Fields of a Thrift struct by their numbers, and its length.

    Raises:
        IndexError, ValueError: it is none, or longer than the data.
    """
    return _struct(data, 0, 0)


def _struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    found: dict[int, Any] = {}
    number = 0
    while True:
        head = data[at]
        at += 1
        if head == 0:
            return found, at
        kind, step = head & 15, head >> 4
        if step:
            number += step
        else:
            number, at = _zigzag(data, at)
        found[number], at = _field(data, at, kind, depth)


def _field(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    value: Any = None
    if kind in (1, 2):  # true, false
        value = kind == 1
    elif kind == 3:  # byte
        value, at = data[at], at + 1
    elif kind in (4, 5, 6):  # i16, i32, i64
        value, at = _zigzag(data, at)
    elif kind == 7:  # double
        at += 8
    elif kind == 8:  # binary
        length, at = _unsigned(data, at)
        value, at = data[at : at + length], at + length
    elif kind == _STRUCT and depth < 16:
        value, at = _struct(data, at, depth + 1)
    elif kind == _LIST and depth < 16:
        of, count, at = _list_head(data, at)
        value = []
        for _ in range(count):
            # Elements that are true or false take a byte, unlike fields.
            one, at = _field(data, at, 3 if of in (1, 2) else of, depth + 1)
            if len(value) < 2:
                value.append(one)  # as much as a path needs to be told from a nested one
    else:
        # Sets and maps do not occur.
        raise ValueError("neither a footer nor the header of a page")
    if at > len(data):
        raise ValueError("a header is longer than its page")
    return value, at


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at
    raise ValueError("a number without end")


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value, at = _unsigned(data, at)
    return value >> 1 ^ -(value & 1), at
