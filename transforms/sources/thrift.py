"""Thrift's compact protocol, in which Parquet writes its footer and the headers of pages.

pyarrow reads the same from a sound file, and ends the process over some that are not sound.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

INTEGERS, LIST, STRUCT = (4, 5, 6), 9, 12
"""Types of values that callers ask for: numbers of 16, 32 and 64 bits, lists, structs."""


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
    count, at = (head >> 4, at + 1) if head >> 4 < 15 else _unsigned(data, at + 1)
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
        length, at = _unsigned(data, at)
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


def zigzag(data: bytes, at: int) -> tuple[int, int]:
    """A signed number, and the position behind it."""
    value, at = _unsigned(data, at)
    return value >> 1 ^ -(value & 1), at
