"""Parquet files as columns of reports, in pieces whose size does not depend on what a file claims.

A Parquet file says in several places how many rows it has: in its footer, for each row group, for each column
of one, and for each page. What is missing from what they agree on is rejected, and a disagreement is too. The
headers of pages (parquet_headers.py) decide how many rows are decoded at a time, and whether any are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ldpbeam.errors import Reason
from ldpbeam.transforms.sources.arrow_columns import epochs, payloads, words
from ldpbeam.transforms.sources.chunks import BadSource, Table
from ldpbeam.transforms.sources.parquet_headers import (
    BYTES_AT_ONCE,
    COLUMNS,
    ROWS_AT_ONCE,
    Pages,
    RowGroup,
    TooLarge,
    footer,
    pages_of,
    row_groups,
)
from ldpbeam.transforms.sources.stored import StoredFile
from ldpbeam.wire.codec import Rows

_ROW = 24  # bytes of a row beside its payload
_STORED_ROW = 8  # a report id is random, so no sound file takes fewer bytes for a row
_MAX_FOOTER = 2 << 20


@dataclass
class _Reading:
    """How far the reading of a file is."""

    source: str  # the file
    left: int  # bytes that it may still stand for
    written_by: int | None  # as in :class:`Chunk`
    believable: int  # rows that may still be rejected as missing
    done: int = 0  # rows delivered or rejected
    doubts: bool = False  # whether anything contradicted itself without a row being missing
    lost: bool = False  # whether any row was missing

    def missing(self, rows: int, reason: Reason = Reason.CORRUPT_FILE) -> BadSource:
        """Rows that ought to follow what is done, and do not; at least one."""
        count = max(min(rows, self.believable), 1)
        self.believable -= count
        self.lost = True
        bad = BadSource(self.source, reason, self.done, count)
        self.done += count
        return bad


def read_tables(
    source: str, stored: StoredFile, allowed: int, written_by: int | None
) -> Iterator[Table | BadSource]:
    """Rows of a file with the columns digest, epoch, report_id and payload.

    What is missing is rejected as ``corrupt_file``: of a row group, what most of its counts of rows say, less
    what was delivered; of the file, what the footer says beyond its row groups. No more than one row for
    every eight stored bytes is rejected so, whatever is claimed. A file that contradicts itself although no
    row is missing is rejected as one record more.

    Args:
        source: name for rejects.
        stored: the file.
        allowed: bytes of reports that it may stand for.
        written_by: as in :class:`Chunk`.

    Raises:
        OSError: the file cannot be read.
    """
    reading = _Reading(source, allowed, written_by, max(stored.size // _STORED_ROW, 1))
    try:
        file = _opened(stored)
    except TooLarge:
        yield reading.missing(1, Reason.EXPANSION_LIMIT)
        return
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, EOFError, OverflowError):
        if stored.unreadable:
            raise
        yield reading.missing(1)
        return
    claimed = int(file.metadata.num_rows)
    leaves = _leaves(file.schema)
    groups = enumerate(row_groups(footer(stored)))
    while True:
        try:
            g, group = next(groups, (-1, RowGroup()))
        except (ValueError, IndexError):
            break  # what is missing then is what the footer says beyond what was delivered
        if g < 0:
            break
        if leaves is None:
            continue
        yield from _read_group(file, stored, g, group, leaves, reading)
        if reading.left <= 0:
            # What is left was not looked at; the footer says how much there would be.
            if claimed > reading.done:
                yield reading.missing(claimed - reading.done, Reason.EXPANSION_LIMIT)
            return
    if claimed == reading.done == 0 and not reading.doubts:
        yield BadSource(source, Reason.EMPTY_FILE)
    elif claimed > reading.done and reading.believable:
        yield reading.missing(claimed - reading.done)
    elif (reading.doubts or claimed < reading.done) and not reading.lost:
        yield BadSource(source, Reason.CORRUPT_FILE)


def _opened(stored: StoredFile, **options: Any) -> Any:
    """A Parquet file; raises TooLarge where its footer is not of a bearable size."""
    stored.seek(max(stored.size - 8, 0))
    tail = stored.read(8)
    if tail[4:] == b"PAR1" and _MAX_FOOTER < int.from_bytes(tail[:4], "little") < stored.size:
        raise TooLarge
    stored.seek(0)
    return pq.ParquetFile(
        _Unclosed(stored),
        buffer_size=ROWS_AT_ONCE,
        pre_buffer=False,
        page_checksum_verification=True,
        **options,
    )


class _Unclosed:
    """A file that others may close without anything happening to it."""

    closed = False

    def __init__(self, stored: StoredFile) -> None:
        self.read, self.seek, self.tell = stored.read, stored.seek, stored.tell

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def close(self) -> None:
        return None


def _leaves(schema: Any) -> dict[str, int] | None:
    """Which leaf each column is; None where one is missing, repeated, nested or of another kind."""
    found: dict[str, list[int]] = {name: [] for name in COLUMNS}
    for i in range(len(schema)):
        if (name := schema.column(i).path) in found:
            found[name].append(i)
    kinds = {
        "payload": ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"),
        "epoch": ("INT32", "INT64", "FLOAT", "DOUBLE"),
    }
    for name, where in found.items():
        if len(where) != 1:
            return None
        leaf = schema.column(where[0])
        if leaf.max_repetition_level or leaf.max_definition_level > 1:
            return None
        if leaf.physical_type not in kinds.get(name, ("INT32", "INT64")):
            return None
    return {name: where[0] for name, where in found.items()}


def believed(claims: list[int]) -> int:
    """What most say; where as many say something else, the larger number."""
    said = Counter(claim for claim in claims if claim >= 0)
    return max(said, key=lambda claim: (said[claim], claim), default=0)


def _read_group(
    file: Any, stored: StoredFile, number: int, group: RowGroup, leaves: dict[str, int], reading: _Reading
) -> Iterator[Table | BadSource]:
    """The rows of one row group, and what is missing of them."""
    trouble: Reason | None = None
    claims = group.claims
    pages, begun = {}, reading.done
    try:
        for name in COLUMNS:
            pages[name] = pages_of(stored, group.columns[name], reading.left)
            claims.append(pages[name].values)
        for batch in _batches(file, stored, number, leaves, pages):
            yield from _tables(batch, reading)
            if reading.left <= 0:
                return
    except TooLarge:
        trouble = Reason.EXPANSION_LIMIT
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, IndexError, EOFError, OverflowError):
        if stored.unreadable:
            raise
        trouble = Reason.CORRUPT_FILE
    wanted = believed(claims)
    delivered = reading.done - begun
    if delivered < wanted or trouble:
        yield reading.missing(wanted - delivered, trouble or Reason.CORRUPT_FILE)
    elif len(set(claims)) > 1 or delivered > wanted:
        reading.doubts = True


def _batches(
    file: Any, stored: StoredFile, group: int, leaves: dict[str, int], pages: dict[str, Pages]
) -> Iterator[Any]:
    """Record batches of a row group, each of a bearable size."""
    rows = pages["payload"].rows_at_once
    leaf = file.schema.column(leaves["payload"])
    if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY":
        rows = min(rows, max(BYTES_AT_ONCE // max(int(leaf.length), 1), 1))
    elif pages["payload"].dictionary:
        # Each value once, however many rows have it.
        file = _opened(stored, read_dictionary=["payload"])
    yield from file.iter_batches(rows, row_groups=[group], columns=list(COLUMNS), use_threads=False)


def _tables(batch: Any, reading: _Reading) -> Iterator[Table | BadSource]:
    """A record batch as tables of a bearable size; rows with a null, or without an epoch, are refused."""
    n = batch.num_rows
    sound = np.ones(n, bool)
    for name in COLUMNS:
        column = batch.column(name)
        if column.null_count:
            sound &= np.asarray(column.is_valid())
    digest, report_id = (words(batch.column(name)) for name in ("digest", "report_id"))
    epoch, whole = epochs(batch.column("epoch"))
    sound &= whole
    buffer, at, length = payloads(batch.column("payload"))
    kept = np.flatnonzero(sound)
    if kept.size < n:
        bad = np.flatnonzero(~sound)
        yield BadSource(reading.source, Reason.MALFORMED, reading.done + int(bad[0]), bad.size)
        reading.left -= _ROW * bad.size
    begun = reading.done
    reading.done += n
    weight = np.cumsum(length[kept] + _ROW)
    if weight.size and weight[-1] > reading.left:
        fits = int(np.searchsorted(weight, reading.left, "right"))
        left_out = kept[fits:]
        yield BadSource(reading.source, Reason.EXPANSION_LIMIT, begun + int(left_out[0]), left_out.size)
        kept, weight = kept[:fits], weight[:fits]
        reading.left = 0
    else:
        reading.left -= int(weight[-1]) if weight.size else 0
    first = 0
    while first < kept.size:
        before = int(weight[first - 1]) if first else 0
        last = max(int(np.searchsorted(weight, before + 2 * BYTES_AT_ONCE, "right")), first + 1)
        # Where every row is kept, a part of each column is no copy.
        some = kept[first:last] if kept.size < n else slice(first, last)
        rows = Rows(
            digest=digest[some],
            epoch=epoch[some],
            report_id=report_id[some],
            buffer=buffer,
            payload_at=at[some],
            payload_length=length[some],
            place=begun + kept[first:last],
        )
        first = last
        yield Table(reading.source, rows, reading.written_by)
