"""Kernels that find the values of a Parquet column where they lie, if its pages hold them as they are.

That is the case where pages are not compressed and values have one width and are never null: then a page is a
header and its values end to end (PLAIN), or every value is the only one of a dictionary. Nothing else is
recognised, not even where it would mean the same: a reader of Parquet has to read that. Numbers of fields are
those of parquet-format (PageHeader); tests/reference has the same in plain Python.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldpbeam.kernels import thrift
from ldpbeam.kernels._jit import kernel

_NUMBER, _STATISTICS = 0x15, 0x1C  # the next field is a number of 32 bits, is a struct
_DATA, _DICTIONARY = 0x2C, 0x4C  # two and four fields on: what a page of these kinds says of itself
_SORTED = (0x11, 0x12)  # whether a dictionary is sorted: true, false
_PLAIN, _OLD_DICTIONARY, _RLE, _BIT_PACKED, _RLE_DICTIONARY = 0, 2, 3, 4, 8  # encodings
_LARGEST = (1 << 31) - 1
_LONGEST = 5  # bytes of the length of a run


@kernel
def small(data: Any, at: Any) -> Any:
    """A field that is the next one and a number of 31 bits: (its value, position behind it or -1)."""
    if at < 0 or at >= data.size or data[at] != _NUMBER:
        return np.int64(0), np.int64(-1)
    value, behind = thrift.signed(data, at + 1)
    if value < 0 or value > _LARGEST:
        return np.int64(0), np.int64(-1)
    return value, behind


@kernel
def statistics(data: Any, at: Any) -> Any:
    """The position behind a struct of bytes, numbers of 64 bits and booleans, or -1 where it is none."""
    number = np.int64(0)
    while True:
        number, kind, at = thrift.field_head(data, at, number)
        if at < 0 or kind == 0:
            return at
        if kind not in (1, 2, 6, thrift.BINARY):
            return np.int64(-1)
        at = thrift.skip_value(data, at, kind, 1)


@kernel
def plain_header(data: Any, at: Any, out: Any) -> Any:
    """The header of a page that is not compressed, has no checksum and nothing unusual; its end, or -1.

    Args:
        data: uint8 (size,).
        at: int64, where it begins.
        out: int64 (4,), written: 0 for a data page and 2 for a dictionary, bytes, values, encoding.
    """
    out[0], at = small(data, at)
    out[1], at = small(data, at)
    stored, at = small(data, at)
    if at < 0 or at >= data.size or stored != out[1]:
        return np.int64(-1)
    if data[at] != (_DATA if out[0] == 0 else _DICTIONARY) or out[0] not in (0, 2):
        return np.int64(-1)
    out[2], at = small(data, at + 1)
    out[3], at = small(data, at)
    if out[0] == 0:
        # How levels are encoded; there are none, but a page has to say so.
        for _ in range(2):
            levels, at = small(data, at)
            if levels not in (_RLE, _BIT_PACKED):
                return np.int64(-1)
        if 0 <= at < data.size and data[at] == _STATISTICS:
            at = statistics(data, at + 1)
    elif 0 <= at < data.size and data[at] in _SORTED:
        at += 1
    if at < 0 or at + 2 > data.size or data[at] != 0 or data[at + 1] != 0:
        return np.int64(-1)
    return np.int64(at + 2)


@kernel
def first_only(data: Any, at: Any, size: Any, values: Any) -> Any:
    """Whether a page of indices is one run of so many zeros, and nothing else.

    Args:
        data: uint8 (size,).
        at, size: int64, where the page lies in it.
        values: int64, how many indices there are to be.
    """
    # A byte for the width of an index, the length of the run, an index of one byte.
    if size < 3 or not 1 <= data[at] <= 8 or data[at + size - 1] != 0:
        return False
    run, behind = thrift.unsigned(data[: at + size], at + 1)
    if behind != at + size - 1 or behind - at > 1 + _LONGEST:
        return False
    return run == np.uint64(values) << np.uint64(1)


@kernel
def values_of(data: Any, width: Any, rows: Any, largest: Any, bodies: Any) -> Any:
    """Where the values of a column lie, if its pages hold so many rows as they are.

    Args:
        data: uint8 (size,), the pages of the column, of one row group.
        width: int64, bytes of a value, positive.
        rows: int64, how many values there are to be, positive.
        largest: int64, bytes that a page may have.
        bodies: int64 (m, 2), written: where the values of each page begin, and their bytes.

    Returns:
        How many pages there are to join; 0 where ``bodies[0]`` is the one value of all rows; -1 where pages
        are others than that, or more than m.
    """
    head = np.empty(4, np.int64)
    at, left, pages, joined = np.int64(0), rows, 0, 0
    constant = False
    while at < data.size:
        at = plain_header(data, at, head)
        kind, size, values, encoding = head
        if at < 0 or size > data.size - at or size > largest or pages == bodies.shape[0]:
            return -1
        if kind == 2:
            if pages > 0 or values != 1 or size != width or encoding not in (_PLAIN, _OLD_DICTIONARY):
                return -1
            constant = True
            bodies[0, 0], bodies[0, 1] = at, size
        else:
            if values < 1 or values > left:
                return -1
            left -= values
            if constant:
                sound = encoding in (_OLD_DICTIONARY, _RLE_DICTIONARY) and first_only(data, at, size, values)
            else:
                sound = encoding == _PLAIN and size == values * width
                bodies[joined, 0], bodies[joined, 1] = at, size
                joined += 1
            if not sound:
                return -1
        pages += 1
        at += size
    return joined if left == 0 and pages > 0 else -1
