"""Slow, obvious reading of a Parquet file's footer and of the headers of its pages, value by value.

What ``transforms/sources/parquet_headers.py`` reads is compared with this, which shares no code with it. A
number has 64 bits at most, and a field that is to be a number and is none makes a header unsound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

COLUMNS = ("digest", "epoch", "report_id", "payload")
INTEGERS, LIST, STRUCT = (4, 5, 6), 9, 12


@dataclass
class RowGroup:
    """Rows, and numbers of each column's metadata by name; which columns are encrypted; where pages lie."""

    rows: int = -1
    columns: dict[str, dict[int, int]] = field(default_factory=dict)
    encrypted: set[str] = field(default_factory=set)
    in_other_files: bool = False


def fields(data: bytes, at: int) -> Iterator[tuple[int, int, int]]:
    """(number, type, position of the value) of each field of a struct."""
    number = 0
    while head := data[at]:
        at += 1
        kind, step = head & 15, head >> 4
        if step:
            number += step
        else:
            number, at = zigzag(data, at)
        yield number, kind, at
        _, at = _field(data, at, kind, 0)


def list_head(data: bytes, at: int) -> tuple[int, int, int]:
    """Type and number of elements, and position of the first."""
    head = data[at]
    count, at = (head >> 4, at + 1) if head >> 4 < 15 else unsigned(data, at + 1)
    if count > len(data) - at:
        raise ValueError("a list is longer than what holds it")
    return head & 15, count, at


def struct(data: bytes, at: int = 0, depth: int = 0) -> tuple[dict[int, Any], int]:
    """Values of a struct by the numbers of its fields, and the position behind it.

    Raises:
        IndexError, ValueError: there is no struct, or it is longer than the data.
    """
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
            number, at = zigzag(data, at)
        found[number], at = _field(data, at, kind, depth)


def skip_struct(data: bytes, at: int) -> int:
    """The position behind a struct."""
    return _field(data, at, STRUCT, 0)[1]


def _field(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    value: Any = None
    if kind in (1, 2):  # true, false
        value = kind == 1
    elif kind == 3:  # byte
        value, at = data[at], at + 1
    elif kind in (4, 5, 6):  # i16, i32, i64
        value, at = zigzag(data, at)
    elif kind == 7:  # double
        at += 8
    elif kind == 8:  # binary
        length, at = unsigned(data, at)
        value, at = data[at : at + length], at + length
    elif kind == STRUCT and depth < 16:
        value, at = struct(data, at, depth + 1)
    elif kind == LIST and depth < 16:
        of, count, at = list_head(data, at)
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


def unsigned(data: bytes, at: int) -> tuple[int, int]:
    """A number of at most 64 bits, and the position behind it."""
    value = shift = 0
    while shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            if value >= 1 << 64:
                break
            return value, at
    raise ValueError("a number of more than 64 bits")


def zigzag(data: bytes, at: int) -> tuple[int, int]:
    """A signed number, and the position behind it."""
    value, at = unsigned(data, at)
    return value >> 1 ^ -(value & 1), at


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
                        group.columns, group.encrypted, group.in_other_files = _columns(data, where)
                    elif inner == 3 and of in INTEGERS:
                        group.rows, _ = zigzag(data, where)
                yield group
                place = skip_struct(data, place)


def _columns(data: bytes, at: int) -> tuple[dict[str, dict[int, Any]], set[str], bool]:
    _, count, at = list_head(data, at)
    found: dict[str, dict[int, Any]] = {}
    encrypted: set[str] = set()
    in_other_files = False
    for _ in range(count):
        chunk, at = struct(data, at)
        about = chunk.get(3)
        if not isinstance(about, dict):
            continue
        path = about.get(3)
        if isinstance(path, list) and len(path) == 1 and (name := _name(path[0])) in COLUMNS:
            found[name] = {key: value for key, value in about.items() if isinstance(value, int)}
            if 8 in chunk or 9 in chunk:
                encrypted.add(name)
            in_other_files = in_other_files or 1 in chunk
    return found, encrypted, in_other_files


def _name(path: object) -> str:
    return path.decode("utf-8", "replace") if isinstance(path, bytes) else ""


def page_headers(data: bytes, longest: int) -> tuple[list[tuple[int, int, int, int, int]], bool]:
    """Kind, size, compressed size, values and encoding of each page, and whether all headers were sound.

    A page without a size is the last one; one that ends behind the data has no compressed size.
    """
    found: list[tuple[int, int, int, int, int]] = []
    at = 0
    while at < len(data):
        try:
            header, size = struct(data[at : at + longest])
            kind, plain, compressed = (_number(header.get(i, -1)) for i in (1, 2, 3))
            values, encoding = 0, -1
            if kind in (0, 3):
                about = header[8 if kind else 5]
                if not isinstance(about, dict):
                    return found, False
                values = _number(about.get(1, 0))
                encoding = _number(about.get(4 if kind else 2, -1))
        except (ValueError, IndexError, KeyError):
            return found, False
        if at + size + compressed > len(data):
            compressed = -1
        found.append((kind, plain, compressed, values, encoding))
        if plain < 0 or compressed < 0:
            break
        at += size + compressed
    return found, True


def _number(value: Any) -> int:
    if not isinstance(value, int):
        raise ValueError("not a number")
    return int(value)
