"""What a Parquet file says about itself: its footer, and the headers of its pages, read without pyarrow.

A page may stand for any number of rows and for values of any size, so these are read before any is decoded.
Numbers of fields are those of parquet-format (FileMetaData, ColumnMetaData, PageHeader).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ldpbeam.arrays import Bytes, read_only
from ldpbeam.kernels import thrift
from ldpbeam.transforms.sources.stored import StoredFile
from ldpbeam.wire.codec import MAX_RECORD

COLUMNS = ("digest", "epoch", "report_id", "payload")
"""What a file of reports has to hold."""

ROWS_AT_ONCE = 1 << 16
BYTES_AT_ONCE = 4 << 20
"""Rows, and bytes of payloads, that are decoded together at most."""

MAX_PAGE = MAX_RECORD
"""Bytes of a page at most, decompressed."""

_MAX_PAGE_ROWS = 1 << 20  # where all lengths of a page are decoded at once
_HEADER = 16 << 10
_DICTIONARY_PAGE, _DATA_PAGES = 2, (0, 3)
_DICTIONARY_ENCODINGS, _DELTA_LENGTH, _DELTA_VALUES = (2, 8), 6, 7
VALUES, COMPRESSED, DATA_OFFSET, DICTIONARY_OFFSET = _KEYS = 5, 7, 9, 11
"""Fields of ColumnMetaData."""
_NUMBERS = np.array(_KEYS)
_SHAPE = (len(COLUMNS), _NUMBERS.size)
_NAMES = np.array(COLUMNS, "S").view(np.uint8).reshape(len(COLUMNS), -1)
_AT_ONCE = 256  # headers of pages


class TooLarge(Exception):  # noqa: N818 - a signal inside these modules
    """Pages stand for more than they may."""


@dataclass
class Pages:
    """What the headers of a column's pages say."""

    values: int = 0  # in its data pages
    size: int = 0  # bytes of all pages, decompressed
    rows_at_once: int = ROWS_AT_ONCE  # how many rows may be decoded together
    dictionary: bool = False  # whether values are kept in a dictionary


@dataclass
class RowGroup:
    """What the footer says of a row group: rows, and fields of the columns' metadata by name."""

    rows: int = -1
    columns: dict[str, dict[int, int]] = field(default_factory=dict)
    usual: dict[str, bool] = field(default_factory=dict)
    """Which columns are in clear, and have words of 64 bits as statistics, if any."""

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
    """What the footer says of each row group, one after the other; a footer may list very many.

    Raises:
        ValueError: the footer is not sound.
    """
    held = np.frombuffer(data, np.uint8)
    for number, kind, at in _fields(held, 0):
        if number == 4 and kind == thrift.LIST:
            _, count, place = thrift.list_head(held, at)
            _sound(place)
            values, there = np.empty(_SHAPE, np.int64), np.empty((_SHAPE[0], _SHAPE[1] + 1), np.int64)
            for _ in range(count):
                rows, sound, place = thrift.row_group(held, place, _NAMES, _NUMBERS, values, there)
                if not sound:
                    raise ValueError("not a sound row group")
                yield _row_group(rows, values.tolist(), there.tolist())
                _sound(place)


def _fields(data: Bytes, at: int) -> Iterator[tuple[int, int, int]]:
    """(number, type, position of the value) of each field of a struct."""
    number = 0
    while True:
        number, kind, place = thrift.field_head(data, at, number)
        at = _sound(place)
        if kind == 0:
            return
        yield number, kind, at
        at = _sound(thrift.skip_value(data, at, kind, 0))


def _sound(at: int) -> int:
    """A position, unless it is the one that kernels give for what is not sound."""
    if at < 0:
        raise ValueError("not a sound footer")
    return at


def _row_group(rows: int, values: list[list[int]], there: list[list[int]]) -> RowGroup:
    """From what :func:`thrift.row_group` writes."""
    group = RowGroup(rows)
    for name, row, (*which, usual) in zip(COLUMNS, values, there, strict=True):
        if usual >= 0:
            group.columns[name] = {
                key: one for key, one, is_there in zip(_KEYS, row, which, strict=True) if is_there == 1
            }
            group.usual[name] = usual == 1
    return group


def pages_lie(stored: StoredFile, column: dict[int, int]) -> tuple[int, int]:
    """Where a column's pages begin and end in a file, as the footer says.

    Raises:
        ValueError: they would lie outside of it.
    """
    offsets = [column.get(which, 0) for which in (DATA_OFFSET, DICTIONARY_OFFSET)]
    at = min((offset for offset in offsets if offset > 0), default=0)
    end = at + column.get(COMPRESSED, -1)
    if not 4 <= at <= end <= stored.size:
        raise ValueError("pages lie outside of the file")
    return at, end


def pages_of(stored: StoredFile, at: int, end: int, allowed: int, held: Bytes | None = None) -> Pages:
    """What the headers of a column's pages in one row group say.

    Args:
        stored: the file.
        at, end: where the pages lie in it.
        allowed: bytes that they may stand for.
        held: uint8, those bytes, where they have been read already.

    Raises:
        TooLarge: a page, or all of them, stand for too much.
        ValueError: they are no headers.
    """
    found = Pages()
    left = 1024 + (end - at) // 256
    headers = np.empty((_AT_ONCE, 5), np.int64)
    begin = at
    while at < end:
        if held is None:
            stored.seek(at)
            data = np.frombuffer(stored.read(min(_HEADER, end - at)), np.uint8)
        else:
            data = read_only(held)[at - begin :]
        pages, behind = thrift.page_headers(data, at, end, _HEADER, headers)
        for kind, plain, compressed, values, encoding in headers[: min(pages, left)].tolist():
            if plain < 0 or compressed < 0:
                raise ValueError("a page has no size")
            found.size += plain
            if plain > MAX_PAGE or found.size > allowed:
                raise TooLarge
            if kind == _DICTIONARY_PAGE:
                found.dictionary = True
            elif kind in _DATA_PAGES:
                if values < 0:
                    raise ValueError("a page holds less than nothing")
                found.values += values
                found.rows_at_once = min(found.rows_at_once, _rows_at_once(plain, values, encoding))
        left -= pages
        if behind < 0 or left < 0 or (left == 0 and behind < end):
            raise ValueError("not the header of a page, or too many for so few bytes")
        at = behind
    return found


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
