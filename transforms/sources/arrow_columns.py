"""Columns of Arrow as columns of numpy, not copied where types allow; whatever is no report is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa


def _numbers(column: Any) -> Any:
    """The numbers of a column, whatever stands where it is null; TypeError where it holds others."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind)):
        raise TypeError("not a column of numbers")
    name = {"float": "float32", "double": "float64"}.get(str(kind), str(kind))
    data = np.frombuffer(column.buffers()[1] or b"", name)
    return data[column.offset : column.offset + len(column)]


def words(column: Any) -> Any:
    """64 random bits each. Writers without unsigned types store the same bits as signed numbers.

    Raises:
        TypeError: fractions have lost bits.
    """
    numbers = _numbers(column)
    if numbers.dtype.kind == "u":
        return numbers.astype(np.uint64, copy=False)
    if numbers.dtype.kind != "i":
        raise TypeError("not a column of integers")
    return numbers.astype(np.int64, copy=False).view(np.uint64)


def epochs(column: Any) -> tuple[Any, Any]:
    """Epochs, and which of them are whole numbers of 64 bits (columns with nulls often become fractions)."""
    numbers = _numbers(column)
    if numbers.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            whole = (np.abs(numbers) < 2.0**53) & (np.floor(numbers) == numbers)
        return np.where(whole, numbers, 0).astype(np.int64), whole
    if numbers.dtype == np.uint64:
        return numbers.view(np.int64), numbers <= np.uint64((1 << 63) - 1)
    return numbers.astype(np.int64, copy=False), np.ones(numbers.size, bool)


def even_payloads(column: Any) -> Any:
    """The bytes of a column without nulls as uint8 (n, w), not copied; None where lengths differ or are 0."""
    kind, n, first = column.type, len(column), column.offset
    if pa.types.is_fixed_size_binary(kind):
        buffer, width, begin = column.buffers()[1], kind.byte_width, first * kind.byte_width
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        _, places, buffer = column.buffers()
        edges = np.frombuffer(places, np.int64 if pa.types.is_large_binary(kind) else np.int32)
        edges = edges[first : first + n + 1]
        begin, width = int(edges[0]), int(edges[1] - edges[0])
        if not (np.diff(edges) == width).all():
            return None
    else:
        return None
    if not width:
        return None
    return np.frombuffer(buffer, np.uint8)[begin : begin + n * width].reshape(n, width)


def payloads(column: Any) -> tuple[Any, Any, Any]:
    """Where the bytes of a column lie: buffer, begin of each row, length of each row; nothing is copied.

    Raises:
        pyarrow.ArrowException, TypeError: they are no bytes.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        index = _numbers(column.indices).astype(np.int64)
        buffer, at, length = payloads(column.dictionary)
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
