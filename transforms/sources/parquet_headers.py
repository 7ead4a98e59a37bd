"""What a Parquet file says about itself: its footer, and the headers of its pages, read without pyarrow.

A page may stand for any number of rows and for values of any size, so these are read before any is decoded.
Numbers of fields are those of parquet-format (FileMetaData, ColumnMetaData, PageHeader).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ldpbeam.transforms.sources.stored import StoredFile
from ldpbeam.transforms.sources.thrift import INTEGERS, LIST, fields, list_head, skip_struct, struct, zigzag
from ldpbeam.wire.codec import MAX_RECORD

COLUMNS = ("digest", "epoch", "report_id", "payload")
"""What a file of reports has to hold."""

ROWS_AT_ONCE = 1 << 16
BYTES_AT_ONCE = 4 << 20
"""Rows, and bytes of payloads, that are decoded together at most."""

_MAX_PAGE = MAX_RECORD
_MAX_PAGE_ROWS = 1 << 20  # where all lengths of a page are decoded at once
_HEADER = 16 << 10
_DICTIONARY_PAGE, _DATA_PAGES = 2, (0, 3)
_DICTIONARY_ENCODINGS, _DELTA_LENGTH, _DELTA_VALUES = (2, 8), 6, 7
_PATH, _VALUES, _COMPRESSED, _DATA_OFFSET, _DICTIONARY_OFFSET = 3, 5, 7, 9, 11  # fields of ColumnMetaData


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
    columns: dict[str, dict[int, Any]] = field(default_factory=dict)

    @property
    def claims(self) -> list[int]:
        """How many rows there are, as the group and each of its columns say; −1 where one does not say."""
        return [self.rows, *(int(column.get(_VALUES, -1)) for column in self.columns.values())]


def footer(stored: StoredFile) -> bytes:
    """The bytes of a file's footer, as long as its last bytes say."""
    stored.seek(max(stored.size - 8, 0))
    length = int.from_bytes(stored.read(4), "little")
    stored.seek(max(stored.size - 8 - length, 0))
    return stored.read(length)


def row_groups(data: bytes) -> Iterator[RowGroup]:
    """What the footer says of each row group, one after the other; a footer may list very many.

    Raises:
        IndexError, ValueError: the footer is not sound.
    """
    for number, kind, at in fields(data, 0):
        if number == 4 and kind == LIST:
            _, count, place = list_head(data, at)
            for _ in range(count):
                group = RowGroup()
                for inner, of, where in fields(data, place):
                    if inner == 1 and of == LIST:
                        group.columns = _columns(data, where)
                    elif inner == 3 and of in INTEGERS:
                        group.rows, _ = zigzag(data, where)
                yield group
                place = skip_struct(data, place)


def _columns(data: bytes, at: int) -> dict[str, dict[int, Any]]:
    _, count, at = list_head(data, at)
    found: dict[str, dict[int, Any]] = {}
    for _ in range(count):
        chunk, at = struct(data, at)
        about = chunk.get(3)
        if not isinstance(about, dict):
            continue
        path = about.get(_PATH)
        if isinstance(path, list) and len(path) == 1 and (name := _name(path[0])) in COLUMNS:
            found[name] = {key: value for key, value in about.items() if isinstance(value, int)}
    return found


def _name(path: object) -> str:
    return path.decode("utf-8", "replace") if isinstance(path, bytes) else ""


def pages_of(stored: StoredFile, column: dict[int, Any], allowed: int) -> Pages:
    """What the headers of a column's pages in one row group say.

    Raises:
        TooLarge: a page, or all of them, stand for too much.
        ValueError, IndexError: they are no headers.
    """
    offsets = [int(column.get(which, 0)) for which in (_DATA_OFFSET, _DICTIONARY_OFFSET)]
    at = min((offset for offset in offsets if offset > 0), default=0)
    end = at + int(column.get(_COMPRESSED, -1))
    if not 4 <= at <= end <= stored.size:
        raise ValueError("pages lie outside of the file")
    found = Pages()
    left = 1024 + (end - at) // 256
    while at < end:
        left -= 1
        if left < 0:
            raise ValueError("too many pages for so few bytes")
        stored.seek(at)
        head = stored.read(min(_HEADER, end - at))
        header, size = struct(head)
        kind, plain, compressed = (int(header.get(i, -1)) for i in (1, 2, 3))
        if plain < 0 or compressed < 0 or at + size + compressed > end:
            raise ValueError("a page has no size")
        found.size += plain
        if plain > _MAX_PAGE or found.size > allowed:
            raise TooLarge
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
        return ROWS_AT_ONCE
    if encoding in (_DELTA_LENGTH, _DELTA_VALUES) and values > _MAX_PAGE_ROWS:
        raise TooLarge
    if encoding == _DELTA_VALUES:
        # A value may begin like the one before it: any row may be as long as the page.
        return max(BYTES_AT_ONCE // max(plain, 1), 1)
    return max(BYTES_AT_ONCE * values // max(plain, 1), 1)
