"""A Parquet file's footer, and the headers of its pages, read without pyarrow.

A page may stand for any number of rows and for values of any size, so these are read before any is decoded.
Numbers of fields are those of parquet-format (FileMetaData, ColumnMetaData, PageHeader), in Thrift's compact
protocol. Bytes that are not sound raise ValueError or IndexError, whatever they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ldpbeam.wire.codec import MAX_RECORD

from .stored_file import StoredFile

COLUMNS = ("digest", "epoch", "report_id", "payload")
"""The columns of a report."""

ROWS_AT_ONCE = 1 << 16
BYTES_AT_ONCE = 4 << 20
"""Rows, and bytes of values, that are decoded together at most."""

MAX_PAGE = MAX_RECORD
"""Bytes of a page at most, decompressed."""

_MAX_PAGE_ROWS = 1 << 20  # where all lengths of a page are decoded at once
_HEADER = 16 << 10
_DICTIONARY_PAGE, _DATA_PAGES = 2, (0, 3)
_DICTIONARY_ENCODINGS, _DELTA_LENGTH, _DELTA_VALUES = (2, 8), 6, 7
VALUES, COMPRESSED, DATA_OFFSET, DICTIONARY_OFFSET = _KEYS = 5, 7, 9, 11
"""Fields of ColumnMetaData."""
_NAMES = {name.encode(): name for name in COLUMNS}


class TooLarge(Exception):  # noqa: N818 - a signal inside these modules
    """Pages stand for more than they may."""


# --- Thrift

_INTEGERS = frozenset({4, 5, 6})
_NUMBERS = _INTEGERS | {1, 2, 3}  # true, false and a byte are numbers too
_TRUE, _BYTE, _DOUBLE, _BINARY, _LIST, _STRUCT = 1, 3, 7, 8, 9, 12
_DEPTH = 16  # how deep structs and lists are nested at most

_Places = dict[int, tuple[int, int]]
"""Type and position of the value of each field of a struct, by its number; of two the last one."""


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    """A number of at most 64 bits, seven in a byte, and the position behind it."""
    byte = data[at]
    if byte < 128:
        return byte, at + 1
    value, shift = byte & 127, 7
    while shift < 70:
        at += 1
        byte = data[at]
        value |= (byte & 127) << shift
        if byte < 128:
            if value >> 64:
                break
            return value, at + 1
        shift += 7
    raise ValueError("a number of more than 64 bits")


def _signed(data: bytes, at: int) -> tuple[int, int]:
    value, at = _unsigned(data, at)
    return value >> 1 ^ -(value & 1), at


def _value(data: bytes, kind: int, at: int) -> int:
    """A field that is a number."""
    if kind in _INTEGERS:
        byte = data[at]
        return byte >> 1 ^ -(byte & 1) if byte < 128 else _signed(data, at)[0]
    if kind == _BYTE:
        return data[at]
    if kind not in _NUMBERS:
        raise ValueError("not a number")
    return int(kind == _TRUE)


def _elements(data: bytes, at: int) -> tuple[int, int, int]:
    """Type and number of the elements of a list, and the position of the first; each takes a byte or more."""
    head, at = data[at], at + 1
    count = head >> 4
    if count == 15:
        count, at = _unsigned(data, at)
    if count > len(data) - at:
        raise ValueError("a list is longer than the bytes around it")
    return head & 15, count, at


def _behind(data: bytes, kind: int, at: int, depth: int) -> int:
    """The position behind a value."""
    if kind in _INTEGERS:
        _, at = _unsigned(data, at)
    elif kind == _BINARY:
        length, at = _unsigned(data, at)
        at += length
    elif kind == _STRUCT and depth < _DEPTH:
        _, at = _struct(data, at, depth + 1)
    elif kind == _LIST and depth < _DEPTH:
        of, count, at = _elements(data, at)
        for _ in range(count):
            # True and false take a byte as elements, and none as fields.
            at = _behind(data, _BYTE if of in (1, 2) else of, at, depth + 1)
    elif kind == _DOUBLE:
        at += 8
    elif kind == _BYTE:
        at += 1
    elif kind not in _NUMBERS:
        raise ValueError("a type that neither footers nor headers have")
    if at > len(data):
        raise ValueError("a value is longer than the bytes around it")
    return at


def _field(data: bytes, at: int, number: int) -> tuple[int, int, int]:
    """Number, type and position of the value of a field; ``number`` is that of the field before."""
    head = data[at]
    if head >> 4:
        return number + (head >> 4), head & 15, at + 1
    number, at = _signed(data, at + 1)
    return number, head & 15, at


def _struct(data: bytes, at: int, depth: int = 0) -> tuple[_Places, int]:
    """Where the values of a struct lie, and the position behind it."""
    places: _Places = {}
    number = 0
    while head := data[at]:
        number, kind, at = (
            (number + (head >> 4), head & 15, at + 1) if head > 15 else _field(data, at, number)
        )
        places[number] = kind, at
        # Nearly all that is in a header are small numbers.
        at = at + 1 if kind in _INTEGERS and data[at] < 128 else _behind(data, kind, at, depth)
    return places, at + 1


# --- the footer


@dataclass
class RowGroup:
    """What the footer says of a row group: rows, and fields of the columns' metadata by name."""

    rows: int = -1
    columns: dict[str, dict[int, int]] = field(default_factory=dict)
    encrypted: set[str] = field(default_factory=set)
    """Columns that cannot be read without a key."""
    in_other_files: bool = False
    """Whether a column's pages lie in another file, as in a summary of a dataset."""

    @property
    def claims(self) -> list[int]:
        """How many rows there are, as the group and each of its columns say; −1 where one does not say."""
        return [self.rows, *(column.get(VALUES, -1) for column in self.columns.values())]


def footer(stored: StoredFile) -> bytes:
    """The bytes of a file's footer, as long as its last bytes say."""
    stored.seek(max(stored.size - 8, 0))
    length = int.from_bytes(stored.read(4), "little")
    stored.seek(max(stored.size - 8 - length, 0))
    return stored.read(length)


def row_groups(data: bytes) -> Iterator[RowGroup]:
    """What the footer says of each row group, one after the other; a footer may list very many."""
    number = at = 0
    while data[at]:
        number, kind, at = _field(data, at, number)
        if number == 4 and kind == _LIST:
            _, count, place = _elements(data, at)
            for _ in range(count):
                group, place = _row_group(data, place)
                yield group
        at = _behind(data, kind, at, 0)


def _row_group(data: bytes, at: int) -> tuple[RowGroup, int]:
    places, behind = _struct(data, at)
    group = RowGroup()
    kind, place = places.get(3, (0, 0))
    if kind in _INTEGERS:
        group.rows = _value(data, kind, place)
    kind, place = places.get(1, (0, 0))
    if kind == _LIST:
        _, count, place = _elements(data, place)
        for _ in range(count):
            chunk, place = _struct(data, place)
            _add_column(group, data, chunk)
    return group, behind


def _add_column(group: RowGroup, data: bytes, chunk: _Places) -> None:
    """From a ColumnChunk: of one of our columns, if that is a column by itself."""
    kind, at = chunk.get(3, (0, 0))
    if kind != _STRUCT:
        return
    about, _ = _struct(data, at)
    kind, at = about.get(3, (0, 0))
    if kind != _LIST:
        return
    of, count, at = _elements(data, at)
    if (of, count) != (_BINARY, 1):
        return
    length, at = _unsigned(data, at)
    name = _NAMES.get(data[at : at + length])
    if name is not None:
        group.columns[name] = {
            key: _value(data, *about[key]) for key in _KEYS if key in about and about[key][0] in _NUMBERS
        }
        if {8, 9} & chunk.keys():
            group.encrypted.add(name)
        group.in_other_files |= 1 in chunk


# --- pages


@dataclass
class Pages:
    """What the headers of a column's pages say."""

    values: int = 0  # in its data pages
    size: int = 0  # bytes of all pages, decompressed
    rows_at_once: int = ROWS_AT_ONCE  # how many rows may be decoded together
    dictionary: int = -1  # bytes of the values that are kept in a dictionary; −1 where there is none


def pages_lie(stored: StoredFile, column: dict[int, int]) -> tuple[int, int]:
    """Where a column's pages begin and end in a file, as the footer says."""
    offsets = [column.get(which, 0) for which in (DATA_OFFSET, DICTIONARY_OFFSET)]
    at = min((offset for offset in offsets if offset > 0), default=0)
    end = at + column.get(COMPRESSED, -1)
    if not 4 <= at <= end <= stored.size:
        raise ValueError("pages lie outside of the file")
    return at, end


def pages_of(stored: StoredFile, at: int, end: int, allowed: int) -> Pages:
    """What the headers of a column's pages in one row group say."""
    pages = Pages()
    left = 1024 + (end - at) // 256
    for kind, plain, compressed, values, encoding in page_headers(stored, at, end):
        left -= 1
        if left < 0:
            raise ValueError("too many pages for so few bytes")
        if plain < 0 or compressed < 0:
            raise ValueError("a page has no size")
        pages.size += plain
        if plain > MAX_PAGE or pages.size > allowed:
            raise TooLarge
        if kind == _DICTIONARY_PAGE:
            pages.dictionary = max(pages.dictionary, plain)
        elif kind in _DATA_PAGES:
            if values < 0:
                raise ValueError("a page holds less than nothing")
            pages.values += values
            pages.rows_at_once = min(pages.rows_at_once, _rows_at_once(plain, values, encoding))
    return pages


def page_headers(
    stored: StoredFile, at: int, end: int, longest: int = _HEADER
) -> Iterator[tuple[int, int, int, int, int]]:
    """Kind, size, compressed size, values and encoding of each page that lies between two positions."""
    begin, data = at, b""
    while at < end:
        header = _page_header(data, at - begin)
        if header is None and (at > begin or not data):
            # What was read may end inside a header.
            stored.seek(at)
            begin, data = at, stored.read(min(longest, end - at))
            header = _page_header(data, 0)
        if header is None:
            raise ValueError("not the header of a page")
        (kind, plain, compressed, values, encoding), behind = header
        if behind + begin + compressed > end:
            compressed = -1
        yield kind, plain, compressed, values, encoding
        if plain < 0 or compressed < 0:
            return
        at = begin + behind + compressed


def _page_header(data: bytes, at: int) -> tuple[tuple[int, int, int, int, int], int] | None:
    """One header, and the position behind it; None where there is none, or not all of it."""
    try:
        places, behind = _struct(data, at)
        kind, plain, compressed = (_value(data, *places[i]) if i in places else -1 for i in (1, 2, 3))
        values, encoding = 0, -1
        if kind in _DATA_PAGES:
            of, place = places[8 if kind else 5]
            if of != _STRUCT:
                return None
            about, _ = _struct(data, place)
            values = _value(data, *about[1]) if 1 in about else 0
            where = 4 if kind else 2
            encoding = _value(data, *about[where]) if where in about else -1
    except (ValueError, IndexError, KeyError):
        return None
    return (kind, plain, compressed, values, encoding), behind


def _rows_at_once(plain: int, values: int, encoding: int) -> int:
    """How many rows of a page may be decoded together."""
    if encoding in _DICTIONARY_ENCODINGS:
        return ROWS_AT_ONCE
    if encoding in (_DELTA_LENGTH, _DELTA_VALUES) and values > _MAX_PAGE_ROWS:
        raise TooLarge
    if encoding == _DELTA_VALUES:
        # A value may begin like the one before it: any row may be as long as the page.
        return max(BYTES_AT_ONCE // max(plain, 1), 1)
    return max(BYTES_AT_ONCE * values // max(plain, 1), 1)
