"""Kernels that read Thrift's compact protocol, in which Parquet writes its footer and the headers of pages.

Whatever the bytes are, nothing is read outside of them, and the time is linear in them. tests/reference has
the same in plain Python.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldpbeam.kernels._jit import kernel

BINARY, LIST, STRUCT = 8, 9, 12
"""Types of values: bytes, lists, structs. Those from 1 to 6 are numbers: true, false, 8, 16, 32, 64 bits."""

_LARGEST_NUMBER = 6
_DEEPEST = 16  # structs and lists in one another

# Columns of what page_headers writes.
KIND, PLAIN, COMPRESSED, VALUES, ENCODING = 0, 1, 2, 3, 4


@kernel
def unsigned(data: Any, at: Any) -> Any:
    """A varint of at most 64 bits: (its value, position behind it or -1)."""
    value = np.uint64(0)
    shift = 0
    while at < data.size:
        byte = data[at]
        at += 1
        if shift == 63 and byte > 1:
            return value, np.int64(-1)
        value |= np.uint64(byte & 127) << np.uint64(shift)
        shift += 7
        if byte < 128:
            return value, np.int64(at)
    return value, np.int64(-1)


@kernel
def signed(data: Any, at: Any) -> Any:
    """A signed number of at most 64 bits: (its value, position behind it or -1)."""
    value, behind = unsigned(data, at)
    return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), behind


@kernel
def list_head(data: Any, at: Any) -> Any:
    """(type of the elements, how many there are, position of the first or -1)."""
    if at >= data.size:
        return 0, np.int64(0), np.int64(-1)
    head = data[at]
    count, at = np.uint64(head >> 4), np.int64(at + 1)
    if head >> 4 == 15:
        count, at = unsigned(data, at)
    # Every element takes a byte or more.
    if at < 0 or count > np.uint64(data.size - at):
        return 0, np.int64(0), np.int64(-1)
    return np.int64(head & 15), np.int64(count), at


@kernel
def field_head(data: Any, at: Any, number: Any) -> Any:
    """(number, type, position of the value or -1) of the next field behind the field ``number``.

    The type is 0 where the struct ends, and the position then lies behind it.
    """
    if at < 0 or at >= data.size:
        return np.int64(0), np.int64(0), np.int64(-1)
    head = data[at]
    behind = np.int64(at + 1)
    if head == 0:
        return np.int64(0), np.int64(0), behind
    kind, step = np.int64(head & 15), np.int64(head >> 4)
    if kind == 0:
        kind = np.int64(15)  # as little a type as 0, and not to be taken for the end
    if step > 0:
        return number + step, kind, behind
    number, behind = signed(data, behind)
    return number, kind, behind


@kernel
def skip_value(  # noqa: PLR0911, PLR0912 - a case for each type
    data: Any, at: Any, kind: Any, depth: Any
) -> Any:
    """The position behind a value, or -1 where it is not sound.

    Args:
        data: uint8 (size,).
        at: int64, where it begins.
        kind: int64, its type.
        depth: int64, how many structs and lists it lies in.
    """
    left = np.empty(_DEEPEST + 1, np.int64)  # elements that are still to come; -1 in a struct
    of = np.empty(_DEEPEST + 1, np.int64)  # type of the elements; in a struct the number of the last field
    opened = 0
    while True:
        if kind == 3:
            at += 1
        elif 4 <= kind <= _LARGEST_NUMBER:
            _, at = unsigned(data, at)
            if at < 0:
                return np.int64(-1)
        elif kind == 7:
            at += 8
        elif kind == BINARY:
            length, at = unsigned(data, at)
            if at < 0 or length > np.uint64(data.size - at):
                return np.int64(-1)
            at += np.int64(length)
        elif kind == STRUCT and depth + opened < _DEEPEST:
            left[opened], of[opened] = -1, 0
            opened += 1
        elif kind == LIST and depth + opened < _DEEPEST:
            element, count, at = list_head(data, at)
            if at < 0:
                return np.int64(-1)
            # Elements that are true or false take a byte, unlike fields.
            left[opened], of[opened] = count, 3 if element in (1, 2) else element
            opened += 1
        elif kind not in (1, 2):
            return np.int64(-1)  # sets and maps do not occur
        if at > data.size:
            return np.int64(-1)
        while opened > 0:
            if left[opened - 1] == -1:
                of[opened - 1], kind, at = field_head(data, at, of[opened - 1])
                if at < 0:
                    return np.int64(-1)
                if kind != 0:
                    break
                opened -= 1
            elif left[opened - 1] == 0:
                opened -= 1
            else:
                left[opened - 1] -= 1
                kind = of[opened - 1]
                break
        if opened == 0:
            return np.int64(at)


@kernel
def number_at(data: Any, at: Any, kind: Any) -> Any:
    """The number of a field of one of the types 1 to 6, whose value is sound."""
    if kind <= 2:
        return np.int64(kind == 1)
    if kind == 3:
        return np.int64(data[at])
    return signed(data, at)[0]


@kernel
def numbers_of_struct(data: Any, at: Any, depth: Any, wanted: Any, values: Any, there: Any) -> Any:
    """Some numbers of a struct; the position behind it, or -1 where it is not sound.

    Of a field that appears twice the last one holds, as for every reader of Parquet.

    Args:
        data: uint8 (size,).
        at: int64, where it begins.
        depth: int64, how many structs and lists it lies in.
        wanted: int64 (f,), numbers of fields.
        values: int64 (f,), written where a field is there.
        there: int64 (f,), written: 0 for no such field, 1 for a number, 2 for anything else.
    """
    there[:] = 0
    number = np.int64(0)
    while True:
        number, kind, at = field_head(data, at, number)
        if at < 0 or kind == 0:
            return at
        behind = skip_value(data, at, kind, depth)
        if behind < 0:
            return behind
        for i in range(wanted.size):
            if wanted[i] == number:
                there[i] = 1 if kind <= _LARGEST_NUMBER else 2
                if there[i] == 1:
                    values[i] = number_at(data, at, kind)
        at = behind


@kernel
def page_header(data: Any, wanted: Any, inner: Any, values: Any, there: Any, out: Any) -> Any:
    """The header of a page; its size, or -1 where there is none.

    Args:
        data: uint8 (size,), begins with it.
        wanted, inner: int64 (3,) and (2, 2): fields of a header, and of what it says about data pages of the
            first and the second version.
        values, there: int64 (3,), scratch.
        out: int64 (5,), written, by KIND to ENCODING; numbers that are absent are −1, and 0 for VALUES.
    """
    behind = numbers_of_struct(data, 0, 0, wanted, values, there)
    if behind < 0:
        return np.int64(-1)
    for i in range(3):
        if there[i] == 2:
            return np.int64(-1)
        out[i] = values[i] if there[i] == 1 else -1
    out[VALUES], out[ENCODING] = 0, -1
    version = 0 if out[KIND] == 0 else 1 if out[KIND] == 3 else -1
    if version < 0:
        return behind
    about = np.int64(-1)
    at, number = np.int64(0), np.int64(0)
    while True:
        number, kind, at = field_head(data, at, number)
        if kind == 0:
            break
        if number == (5 if version == 0 else 8):
            about = at if kind == STRUCT else np.int64(-1)
        at = skip_value(data, at, kind, 0)
    if about < 0:
        return np.int64(-1)  # it does not say what it holds
    numbers_of_struct(data, about, 1, inner[version], values, there)
    if there[0] == 2 or there[1] == 2:
        return np.int64(-1)
    if there[0] == 1:
        out[VALUES] = values[0]
    if there[1] == 1:
        out[ENCODING] = values[1]
    return behind


@kernel
def page_headers(data: Any, at: Any, end: Any, longest: Any, found: Any) -> Any:
    """The headers of pages that follow one another, as far as they lie in ``data``.

    Args:
        data: uint8 (size,), where the first one begins.
        at, end: int64, positions of ``data`` and of the end of the pages in the file.
        longest: int64, bytes that a header may have.
        found: int64 (m, 5), written as by :func:`page_header`.

    Returns:
        (pages found, position of the next one in the file; -1 where its header is not sound).
        A page that has no size is the last one found; one that ends behind ``end`` has no compressed size.
    """
    wanted = np.array([1, 2, 3])
    inner = np.array([[1, 2], [1, 4]])
    values, there = np.empty(3, np.int64), np.empty(3, np.int64)
    begin = at
    pages = 0
    while pages < found.shape[0] and at < end:
        first = at - begin
        last = min(first + longest, end - begin)
        # A header that may go on behind the data is left, unless it is all there will be.
        if first > 0 and last > data.size:
            break
        last = min(last, data.size)
        out = found[pages]
        size = page_header(data[first:last], wanted, inner, values, there, out)
        if size < 0:
            return pages, np.int64(-1)
        pages += 1
        if out[COMPRESSED] > end - at - size:
            out[COMPRESSED] = -1
        if out[PLAIN] < 0 or out[COMPRESSED] < 0:
            break
        at += size + out[COMPRESSED]
    return pages, np.int64(at)


@kernel
def row_group(data: Any, at: Any, names: Any, wanted: Any, found: Any, there: Any) -> Any:
    """What a RowGroup says of itself and of its columns.

    Returns:
        (its rows, −1 where it does not say; whether it is sound; position behind it). The position is −1 also
        where a sound one has values in one another that, counted from further out, lie too deep.

    Args:
        data: uint8 (size,).
        at: int64, where it begins.
        names, wanted, found, there: as of :func:`column_chunks`.
    """
    there[:] = -1
    rows, number, begin = np.int64(-1), np.int64(0), at
    while True:
        number, kind, at = field_head(data, at, number)
        if at < 0:
            return rows, False, np.int64(-1)
        if kind == 0:
            break
        behind = skip_value(data, at, kind, 0)
        if behind < 0 or (
            number == 1 and kind == LIST and not column_chunks(data, at, names, wanted, found, there)
        ):
            return rows, False, np.int64(-1)
        if number == 3 and 4 <= kind <= _LARGEST_NUMBER:
            rows = number_at(data, at, kind)
        at = behind
    return rows, True, skip_value(data, begin, STRUCT, 0)


@kernel
def column_chunks(data: Any, at: Any, names: Any, wanted: Any, found: Any, there: Any) -> Any:
    """What a list of ColumnChunk says of the columns with certain names; False where it is not sound.

    Of a column that appears twice the last one holds.

    Args:
        data: uint8 (size,).
        at: int64, where the list begins.
        names: uint8 (c, w), the names, each followed by zeros.
        wanted: int64 (f,), numbers of fields of ColumnMetaData.
        found: int64 (c, f), written as by :func:`numbers_of_struct`.
        there: int64 (c, f + 1), likewise, and at the end whether the column is in clear and has only words of
            64 bits as statistics, or none; −1 where there is no such column.
    """
    there[:] = -1
    _, count, at = list_head(data, at)
    if at < 0:
        return False
    for _ in range(count):
        about, number, clear = np.int64(-1), np.int64(0), True
        while True:
            number, kind, at = field_head(data, at, number)
            if at < 0:
                return False
            if kind == 0:
                break
            if number == 3:
                about = at if kind == STRUCT else np.int64(-1)
            clear = clear and number not in (8, 9)
            at = skip_value(data, at, kind, 0)
        if about < 0:
            continue
        which = named(data, about, names)
        if which >= 0:
            last = wanted.size
            numbers_of_struct(data, about, 1, wanted, found[which], there[which, :last])
            there[which, last] = clear and words_at_most(data, about)
    return True


@kernel
def words_at_most(data: Any, at: Any) -> Any:
    """Whether all bytes among the statistics of a sound ColumnMetaData are words of 64 bits."""
    number = np.int64(0)
    while True:
        number, kind, at = field_head(data, at, number)
        if kind == 0:
            return True
        behind = skip_value(data, at, kind, 1)
        if number == 12 and kind == STRUCT:
            inner = np.int64(0)
            while True:
                inner, of, at = field_head(data, at, inner)
                if of == 0:
                    break
                if of == BINARY and unsigned(data, at)[0] != 8:
                    return False
                at = skip_value(data, at, of, 2)
        at = behind


@kernel
def named(data: Any, at: Any, names: Any) -> Any:
    """Which of some names a sound ColumnMetaData has; -1 for none of them, also where the path is longer."""
    path, number = np.int64(-1), np.int64(0)
    while True:
        number, kind, at = field_head(data, at, number)
        if kind == 0:
            break
        if number == 3:
            path = at if kind == LIST else np.int64(-1)
        at = skip_value(data, at, kind, 1)
    if path < 0:
        return -1
    element, parts, first = list_head(data, path)
    if parts != 1 or element != BINARY:
        return -1
    long, first = unsigned(data, first)
    length = np.int64(long)
    for which in range(names.shape[0]):
        same = length <= names.shape[1]
        for i in range(names.shape[1]):
            inside = i < length
            same = same and inside == (names[which, i] != 0)
            same = same and (not inside or data[first + i] == names[which, i])
        if same:
            return which
    return -1
