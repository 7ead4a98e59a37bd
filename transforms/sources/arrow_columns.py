"""Columns of Arrow as columns of numpy, not copied where types allow; and which values are sound numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_DIGITS = "^-?[0-9]{1,38}$"
_LONGEST = pa.decimal128(38, 0)
"""Whole numbers of 38 digits: 16 bytes each, the low half first, in two's complement."""


def is_text(kind: Any) -> bool:
    """Whether a column of this type is text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_bytes(kind: Any) -> bool:
    """Whether a column of this type is bytes, of one length or several."""
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


def is_number(kind: Any) -> bool:
    """Whether a column of this type holds whole numbers, none of them longer than 38 digits."""
    return bool(
        pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and not kind.scale and kind.precision <= 38)
    )


def _buffer(column: Any, kind: Any) -> Any:
    """The values of a column of fixed width, whatever stands where it is null."""
    data = np.frombuffer(column.buffers()[1] or b"", kind)
    return data[column.offset : column.offset + len(column)]


def words(column: Any) -> tuple[Any, Any]:
    """64 random bits each, uint64 (n,), and which values are whole numbers of 64 bits, bool (n,)."""
    return _whole(column, unsigned=True)


def epochs(column: Any) -> tuple[Any, Any]:
    """Epochs as int64 (n,), and which of them are whole numbers of that type; else as :func:`words`."""
    bits, whole = _whole(column, unsigned=False)
    return bits.view(np.int64), whole


def _whole(column: Any, *, unsigned: bool) -> tuple[Any, Any]:
    """Bits of whole numbers, uint64 (n,), and which are some: up to 2⁶⁴ − 1 if ``unsigned``, else 2⁶³ − 1."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        bits, whole = _whole(column.dictionary, unsigned=unsigned)
        return _taken(column, bits, whole)
    if pa.types.is_integer(kind):
        numbers = _buffer(column, np.dtype(str(kind)))
        if numbers.dtype.kind == "u":
            bits = numbers.astype(np.uint64, copy=False)
            whole = np.ones(bits.size, bool) if unsigned else bits <= np.uint64((1 << 63) - 1)
            return bits, whole
        return numbers.astype(np.int64, copy=False).view(np.uint64), np.ones(numbers.size, bool)
    if pa.types.is_decimal(kind):
        return _of_decimals(column, unsigned=unsigned)
    if is_text(kind):
        text = column.cast(pa.large_string())
        sound = pc.match_substring_regex(text, _DIGITS)
        return _of_decimals(pc.if_else(sound, text, None).cast(_LONGEST), unsigned=unsigned)
    raise TypeError("a column of neither numbers nor text")


def _of_decimals(column: Any, *, unsigned: bool) -> tuple[Any, Any]:
    column = column.cast(_LONGEST)
    halves = np.frombuffer(column.buffers()[1] or b"", np.uint64).reshape(-1, 2)
    halves = halves[column.offset : column.offset + len(column)]
    bits, top_half = halves[:, 0], halves[:, 1].view(np.int64)
    top = bits >> np.uint64(63)
    whole = (top_half == -1) & (top == 1) | (top_half == 0) & (unsigned | (top == 0))
    if column.null_count:
        whole &= np.asarray(column.is_valid())
    return np.ascontiguousarray(bits), whole


def _taken(column: Any, *parts: Any) -> tuple[Any, ...]:
    """Of columns about a dictionary, the row for each index; zeros where there is none."""
    index = _buffer(column.indices, np.dtype(str(column.indices.type))).astype(np.int64)
    if column.null_count:
        index = np.where(np.asarray(column.is_valid()), index, 0)
    size = parts[0].size
    if not size:
        if index.size and column.null_count < index.size:
            raise ValueError("an index is not in the dictionary")
        return tuple(np.zeros(index.size, part.dtype) for part in parts)
    if index.size and not 0 <= index.min() <= index.max() < size:
        raise ValueError("an index is not in the dictionary")
    return tuple(part[index] for part in parts)


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
    """Where the bytes of a column lie: buffer, begin of each row, length of each row; nothing is copied."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        buffer, at, length = payloads(column.dictionary)
        return buffer, *_taken(column, at, length)
    n = len(column)
    if pa.types.is_fixed_size_binary(kind):
        width = kind.byte_width
        buffer = np.frombuffer(column.buffers()[1] or b"", np.uint8)
        at = (np.arange(n, dtype=np.int64) + column.offset) * width
        return buffer, at, np.full(n, width, np.int64)
    column = column.cast(pa.large_binary())
    edges = np.frombuffer(column.buffers()[1] or bytes(8), np.int64)[column.offset : column.offset + n + 1]
    return np.frombuffer(column.buffers()[2] or b"", np.uint8), edges[:-1].copy(), np.diff(edges)
