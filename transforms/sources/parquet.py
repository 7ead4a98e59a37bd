"""Parquet files as columns of reports, in pieces whose size does not depend on what a file claims.

A Parquet file says in several places how many rows it has: in its footer, for each row group and for each
column of one. What is missing from what they agree on is rejected, and a disagreement is too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ldpbeam.admission import Written
from ldpbeam.errors import Reason
from ldpbeam.wire.codec import EvenRows, Rows

from .arrow_columns import epochs, even_payloads, payloads, words
from .chunks import BadSource, ReportTable
from .report_columns import Layout, WrongColumns, layout_of
from .stored_file import StoredFile

ROWS_AT_ONCE = 1 << 16
BYTES_AT_ONCE = 4 << 20
"""Rows, and bytes of values, that are decoded together, about."""
_LONG_AT_ONCE = 256
"""Rows that are decoded together where each may be far longer than the mean of what is stored."""
_ROW = 24  # bytes of a row beside its payload
_STORED_ROW = 8  # a report id is random, so no sound file takes fewer bytes for a row
_MAX_FOOTER = 2 << 20
_AROUND_FOOTER = 12  # bytes: PAR1, the footer's length, PAR1
_READ_AT_ONCE = 1 << 18
"""Bytes of a column that are read together."""
_UNSOUND = (pa.ArrowException, OSError, ValueError, TypeError, KeyError, IndexError, EOFError, OverflowError)
"""What is raised about a file that is not sound."""
_SUMMARY = "The file is the summary of a dataset (_metadata): its rows lie in other files; give their folder."
_NO_NUMBER = (
    "The row has a null in digest, epoch, report_id or payload, or a number that is not whole, not in "
    "decimal digits (a digest in hex, for example), or has more than 64 bits."
)


class TooLarge(Exception):  # noqa: N818 - a signal inside this module
    """A column stands for more than it may."""


@dataclass
class _Progress:
    source: str  # the file
    left: int  # bytes that it may still stand for
    written_by: Written | None  # as in :class:`Chunk`
    believable: int  # rows that may still be rejected as missing
    unused: int  # stored bytes that no column was found in so far
    done: int = 0  # rows delivered or rejected
    doubts: bool = False  # whether anything contradicted itself without a row being missing
    lost: bool = False  # whether any row was missing

    def use(self, stored: int, plain: int) -> None:
        """Read a column that has so many bytes, and stands for so many."""
        self.unused -= stored
        if min(stored, plain, self.unused) < 0:
            raise ValueError("a column has no size, or columns lie over one another")
        if plain > self.left:
            raise TooLarge

    def missing(self, rows: int, reason: Reason = Reason.CORRUPT_FILE, detail: str = "") -> BadSource:
        """Rows that ought to follow what is done, and do not; at least one."""
        count = max(min(rows, self.believable), 1)
        self.believable -= count
        self.lost = True
        bad = BadSource(self.source, reason, self.done, count, detail=detail)
        self.done += count
        return bad


def read_tables(
    source: str, stored: StoredFile, allowed: int, written_by: Written | None, folders: Mapping[str, str]
) -> Iterator[ReportTable | BadSource]:
    """Rows of a file with the columns digest, epoch, report_id and payload."""
    reading = _Progress(source, allowed, written_by, max(stored.size // _STORED_ROW, 1), stored.size)
    try:
        readers = _Readers(stored)
    except TooLarge:
        yield reading.missing(1, Reason.EXPANSION_LIMIT)
        return
    except _UNSOUND:
        if stored.unreadable:
            raise
        yield reading.missing(1)
        return
    claimed = int(readers.metadata.num_rows)
    if claimed and stored.size == readers.metadata.serialized_size + _AROUND_FOOTER:
        yield reading.missing(1, Reason.UNSUPPORTED_FORMAT, _SUMMARY)
        return
    try:
        layout = layout_of(readers.schema, readers.arrow_schema, folders)
    except WrongColumns as error:
        yield reading.missing(claimed, Reason.WRONG_COLUMNS, str(error))
        return
    yield from _read_groups(readers, stored, layout, claimed, reading)


def _read_groups(
    readers: _Readers, stored: StoredFile, layout: Layout, claimed: int, reading: _Progress
) -> Iterator[ReportTable | BadSource]:
    """The rows of all row groups, and what is missing of the rows that the footer claims."""
    for number in range(readers.metadata.num_row_groups):
        yield from _read_group(readers, stored, number, layout, reading)
        if reading.left <= 0:
            # What is left was not looked at; the footer says how much there would be.
            if claimed > reading.done:
                yield reading.missing(claimed - reading.done, Reason.EXPANSION_LIMIT)
            return
    if claimed == reading.done == 0 and not reading.doubts:
        yield BadSource(reading.source, Reason.EMPTY_FILE)
    elif claimed > reading.done and reading.believable:
        yield reading.missing(claimed - reading.done)
    elif (reading.doubts or claimed < reading.done) and not reading.lost:
        yield BadSource(reading.source, Reason.CORRUPT_FILE)


class _Readers:
    """pyarrow's readers of one file, each made when it is needed, from one footer."""

    def __init__(self, stored: StoredFile) -> None:
        """Read the footer; raises TooLarge where it is not of a bearable size, and what pyarrow raises."""
        stored.seek(max(stored.size - 8, 0))
        tail = stored.read(8)
        if tail[4:] == b"PAR1" and _MAX_FOOTER < int.from_bytes(tail[:4], "little") < stored.size:
            raise TooLarge
        stored.seek(0)
        self._stored, self._made = stored, dict[frozenset[str], Any]()
        file = self._reader(frozenset())
        self.metadata, self.schema, self.arrow_schema = file.metadata, file.schema, file.schema_arrow

    def batches(
        self, rows: int, group: int, columns: list[str], dictionaries: frozenset[str] = frozenset()
    ) -> Iterator[Any]:
        """Record batches of a row group; some columns as dictionaries: each value once."""
        return self._reader(dictionaries).iter_batches(  # type: ignore[no-any-return]
            rows, row_groups=[group], columns=columns, use_threads=False
        )

    def _reader(self, dictionaries: frozenset[str]) -> Any:
        if dictionaries not in self._made:
            self._made[dictionaries] = pq.ParquetFile(
                _SharedFile(self._stored),
                metadata=self.metadata if self._made else None,
                read_dictionary=sorted(dictionaries) or None,
                buffer_size=_READ_AT_ONCE,
                pre_buffer=False,
                page_checksum_verification=True,
            )
        return self._made[dictionaries]


class _SharedFile:
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


def believed(claims: list[int]) -> int:
    """What most say; where as many say something else, the larger number."""
    votes = Counter(claim for claim in claims if claim >= 0)
    return max(votes, key=lambda claim: (votes[claim], claim), default=0)


def _read_group(
    readers: _Readers, stored: StoredFile, number: int, layout: Layout, reading: _Progress
) -> Iterator[ReportTable | BadSource]:
    trouble, detail = None, ""
    claims, begun = list[int](), reading.done
    try:
        group = readers.metadata.row_group(number)
        claims.append(group.num_rows)
        _refuse_locked(readers, number, layout)
        columns = {name: group.column(leaf) for name, leaf in layout.leaves.items()}
        claims += [column.num_values for column in columns.values()]
        for column in columns.values():
            reading.use(column.total_compressed_size, column.total_uncompressed_size)
        for batch in _batches(readers, number, layout, columns):
            yield from _tables(batch, layout, reading)
            if reading.left <= 0:
                return
    except TooLarge:
        trouble = Reason.EXPANSION_LIMIT
    except WrongColumns as error:
        trouble, detail = Reason.WRONG_COLUMNS, str(error)
    except _UNSOUND:
        if stored.unreadable:
            raise
        trouble = Reason.CORRUPT_FILE
    wanted = believed(claims)
    delivered = reading.done - begun
    if delivered < wanted or trouble:
        yield reading.missing(wanted - delivered, trouble or Reason.CORRUPT_FILE, detail)
    elif len(set(claims)) > 1 or delivered > wanted:
        reading.doubts = True


def _refuse_locked(readers: _Readers, group: int, layout: Layout) -> None:
    """Read a row of each column: pyarrow ends the process when it is asked about one without its key."""
    locked = []
    for name in layout.leaves:
        try:
            next(readers.batches(1, group, [name]), None)
        except (pa.ArrowException, OSError) as error:
            if "decrypt" not in str(error):
                raise
            locked.append(name)
    if locked:
        names = ", ".join(sorted(locked))
        raise WrongColumns(f"The table is sound, but encrypted: {names}; decrypt it first.")


def _batches(readers: _Readers, group: int, layout: Layout, columns: dict[str, Any]) -> Iterator[Any]:
    """Record batches of a row group, each of a bearable size."""
    rows, dictionaries = ROWS_AT_ONCE, set[str]()
    for name, about in columns.items():
        of = readers.schema.column(layout.leaves[name])
        if of.physical_type == "FIXED_LEN_BYTE_ARRAY":
            rows = min(rows, BYTES_AT_ONCE // max(int(of.length), 1))
        elif name in layout.lengths:
            rows = min(rows, BYTES_AT_ONCE * about.num_values // max(about.total_uncompressed_size, 1))
            if not about.has_dictionary_page:
                long = "DELTA_BYTE_ARRAY" in about.encodings
            elif long := pa.types.is_decimal(readers.arrow_schema.field(name).type):
                pass  # decimals are not read as dictionaries
            else:
                dictionaries.add(name)
            rows = min(rows, _LONG_AT_ONCE) if long else rows
    yield from readers.batches(max(rows, 1), group, list(columns), frozenset(dictionaries))


def _number_columns(batch: Any, layout: Layout) -> tuple[Any, Any, Any, Any]:
    """digest, epoch and report_id of a record batch, (n,) each, and in which rows all are there and whole."""
    n = batch.num_rows
    columns: dict[str, Any] = {}
    sound = np.ones(n, bool)
    for name in ("digest", "epoch", "report_id"):
        if name in layout.shared:
            kind = np.int64 if name == "epoch" else np.uint64
            number = layout.shared[name]
            columns[name] = np.broadcast_to(kind(number if name == "epoch" else number % (1 << 64)), (n,))
            continue
        column = batch.column(name)
        columns[name], whole = epochs(column) if name == "epoch" else words(column)
        if column.null_count:
            whole = whole & np.asarray(column.is_valid())
        sound &= whole
    return columns["digest"], columns["epoch"], columns["report_id"], sound


def _even_tables(rows: EvenRows, reading: _Progress) -> Iterator[ReportTable]:
    """Rows as tables of a bearable size."""
    n, width = rows.payloads.shape
    reading.done += n
    reading.left -= n * (width + _ROW)
    step = max(2 * BYTES_AT_ONCE // (width + _ROW), 1)
    for first in range(0, n, step):
        some = slice(first, first + step)
        columns = rows.digest[some], rows.epoch[some], rows.report_id[some], rows.payloads[some]
        yield ReportTable(reading.source, EvenRows(*columns, rows.first + first), reading.written_by)


def _tables(batch: Any, layout: Layout, reading: _Progress) -> Iterator[ReportTable | BadSource]:
    """A record batch as tables of a bearable size; rows with a null, or without a number, are refused."""
    n = batch.num_rows
    if not n:
        return
    digest, epoch, report_id, sound = _number_columns(batch, layout)
    column = batch.column("payload")
    if not column.null_count and sound.all():
        payload = even_payloads(column)
        if payload is not None and n * (payload.shape[1] + _ROW) <= reading.left:
            yield from _even_tables(EvenRows(digest, epoch, report_id, payload, reading.done), reading)
            return
    if column.null_count:
        sound &= np.asarray(column.is_valid())
    buffer, at, length = payloads(column)
    sound_rows = np.flatnonzero(sound)
    if sound_rows.size < n:
        bad = np.flatnonzero(~sound)
        place = reading.done + int(bad[0])
        yield BadSource(reading.source, Reason.MALFORMED, place, bad.size, detail=_NO_NUMBER)
        reading.left -= _ROW * bad.size
    begun = reading.done
    reading.done += n
    weight = np.cumsum(length[sound_rows] + _ROW)
    if weight.size and weight[-1] > reading.left:
        fits = int(np.searchsorted(weight, reading.left, "right"))
        left_out = sound_rows[fits:]
        yield BadSource(reading.source, Reason.EXPANSION_LIMIT, begun + int(left_out[0]), left_out.size)
        sound_rows, weight = sound_rows[:fits], weight[:fits]
        reading.left = 0
    else:
        reading.left -= int(weight[-1]) if weight.size else 0
    first = 0
    while first < sound_rows.size:
        before = int(weight[first - 1]) if first else 0
        last = max(int(np.searchsorted(weight, before + 2 * BYTES_AT_ONCE, "right")), first + 1)
        # Where every row is kept, a part of each column is no copy.
        some = sound_rows[first:last] if sound_rows.size < n else slice(first, last)
        rows = Rows(
            digest=digest[some],
            epoch=epoch[some],
            report_id=report_id[some],
            buffer=buffer,
            payload_at=at[some],
            payload_length=length[some],
            place=begun + sound_rows[first:last],
        )
        first = last
        yield ReportTable(reading.source, rows, reading.written_by)
