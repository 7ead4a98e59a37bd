"""Row groups of Parquet whose values are taken from where they lie, as our own writers lay them out.

Most of what a reader of Parquet does is not needed where pages are not compressed and values are never null:
the bytes of a file are then those of the columns, but for a header between pages. Such a row group is read at
once, and nothing is decoded. Whatever else a row group is, sound or not, is left to pyarrow, and so is every
one of which our reading of the footer and pyarrow's differ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ldpbeam.arrays import Bytes, read_only
from ldpbeam.kernels import plain_pages
from ldpbeam.transforms.sources.parquet_headers import (
    COLUMNS,
    COMPRESSED,
    DATA_OFFSET,
    DICTIONARY_OFFSET,
    MAX_PAGE,
    VALUES,
    RowGroup,
)
from ldpbeam.wire.codec import EvenRows

_MOST_PAGES = 512  # of a column that has one in 2 KiB or so
_WORD = 8  # bytes
_SHARED = ("digest", "epoch")
_KINDS = dict.fromkeys(COLUMNS, "INT64") | {"payload": "FIXED_LEN_BYTE_ARRAY"}


def widths(schema: Any, arrow_schema: Any) -> dict[str, int] | None:
    """Bytes of a value of each column, if all are never null, of one width, and of the type for reports.

    Args:
        schema: the file's schema as Parquet has it, in which each column is one leaf.
        arrow_schema: the same as Arrow has it.
    """
    words = (pa.uint64(), pa.int64())
    found: dict[str, int] = {}
    for i in range(len(schema)):
        leaf = schema.column(i)
        if (name := leaf.path) not in COLUMNS:
            continue
        if leaf.max_definition_level or leaf.max_repetition_level or arrow_schema.names.count(name) != 1:
            return None
        kind = arrow_schema.field(name).type
        if leaf.physical_type != _KINDS[name]:
            return None
        if name == "payload" and pa.types.is_fixed_size_binary(kind):
            found[name] = kind.byte_width
        elif name != "payload" and kind in (words[1:] if name == "epoch" else words):
            found[name] = _WORD
        else:
            return None
    return found if len(found) == len(COLUMNS) and all(found.values()) else None


def agree(group: RowGroup, metadata: Any, leaves: dict[str, int]) -> bool:
    """Whether pyarrow finds the same rows in the same places as we do, and pages are not compressed.

    Args:
        group: what we make of the footer.
        metadata: what pyarrow makes of it, of the same row group.
        leaves: which leaf each column is.
    """
    # pyarrow refuses a column whose statistics are none. Asked for them, it may end the process.
    if not group.rows == metadata.num_rows > 0 or not all(group.usual.values()):
        return False
    for name, leaf in leaves.items():
        column, ours = metadata.column(leaf), group.columns.get(name, {})
        theirs = column.num_values, column.total_compressed_size, column.data_page_offset
        dictionary = column.dictionary_page_offset
        if theirs != tuple(map(ours.get, (VALUES, COMPRESSED, DATA_OFFSET))) or theirs[0] != group.rows:
            return False
        if dictionary != ours.get(DICTIONARY_OFFSET) or min(theirs[2], dictionary or 1) < 1:
            return False
        if column.physical_type != _KINDS[name] or column.compression != "UNCOMPRESSED":
            return False
    return True


def even_rows(held: dict[str, Bytes], rows: int, width: dict[str, int], first: int) -> EvenRows | None:
    """The rows of a row group in memory, if its pages hold them as they are; else nothing is changed.

    Digest and epoch have to be the same in all rows, which then keep no memory but that of ids and payloads.

    Args:
        held: uint8, the pages of each column, writable and apart from one another. The rows keep this memory,
            and pages of a column are moved together in it.
        rows: how many there are to be, positive.
        width: bytes of a value of each column.
        first: position of the first row in the file.
    """
    found: dict[str, list[list[int]]] = {}
    for name in COLUMNS:
        bodies = np.empty((_MOST_PAGES, 2), np.int64)
        pages = plain_pages.values_of(read_only(held[name]), width[name], rows, MAX_PAGE, bodies)
        if pages < 0 or (pages == 0) != (name in _SHARED):
            return None
        found[name] = bodies[: max(pages, 1)].tolist()
    digest, epoch = (_shared(held[name], found[name], rows) for name in _SHARED)
    report_id = (
        _joined(held["report_id"], found["report_id"], _WORD).view("<u8").astype(np.uint64, copy=False)
    )
    payloads = _joined(held["payload"], found["payload"], 1).reshape(rows, width["payload"])
    return EvenRows(digest, epoch.view(np.int64), report_id, payloads, first)


def _shared(data: Bytes, places: list[list[int]], rows: int) -> Any:
    """The word of 64 bits that all rows have, (n,), in memory once."""
    ((at, size),) = places
    return np.broadcast_to(np.uint64(int.from_bytes(data[at : at + size].tobytes(), "little")), (rows,))


def _joined(data: Bytes, places: list[list[int]], unit: int) -> Bytes:
    """The values of all pages end to end, the first of them at a multiple of ``unit`` bytes in memory.

    Args:
        data: uint8, the pages of a column, which are moved.
        places: where the values of each page begin in them, and their bytes.
        unit: no more than 8.
    """
    first = places[0][0]
    # In front of them is a header, which has more than eight bytes.
    begin = end = first - (data.ctypes.data + first) % unit
    memory = data.data
    for at, size in places:
        if at != end:
            # In the same memory, forward: what is written over is a header, or has been moved.
            memory[end : end + size] = memory[at : at + size]
        end += size
    return data[begin:end]
