"""Beside stage 2: columns that wait for their duplicates, in memory up to a limit, beyond it on this disk.

A run in one process keeps what a GroupByKey gathers in memory. Report ids and payloads are all of the input,
so memory would grow with it; a place in a file is a few bytes. Only for runners whose steps share a disk.

Columns that lie in a file of the input as they are stay there, and are read from it once more; others are
written to a file of our own. Of what comes back, report ids come first, a bounded number of them at once.
Payloads follow in blocks, each straight into the memory that it is counted from.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam import coders
from apache_beam.utils.windowed_value import WindowedValue

from ldpbeam.admission import ReportColumns
from ldpbeam.arrays import Bytes, Ints, Uints, read_only
from ldpbeam.dedup import by_shard, occupied, repeated_by_ranges, rows_between, without

from ..coders import ReportColumnsCoder
from .reports import EpochKey, EpochParts
from .waiting import Contents, FileReader, FileWriter, Place, Spill, StoredFile, WaitingCoder, WaitingValue

_BLOCK = 1 << 16
"""Reports whose payloads are read together, at least, where there are so many."""

_IDS = 1 << 25
"""Report ids that are looked at together, about, and at most 16 bytes in memory for each of them."""

Shard = tuple[EpochKey, int]
"""What is gathered: the reports of an epoch whose ids have the same top bits once they are mixed."""


@dataclass(frozen=True, eq=False)
class ColumnsOnDisk(Place):
    """Where columns of one collection and epoch are."""

    files: tuple[StoredFile, ...]
    digest: int
    epoch: int
    width: int
    table: Ints


class WaitingColumns(WaitingValue[ReportColumns | ColumnsOnDisk]):
    """Columns in memory, or where they are."""

    __slots__ = ()


class WaitingColumnsCoder(WaitingCoder):
    """:class:`WaitingColumns` between steps, the columns in memory as raw arrays."""

    values, waiting = ReportColumnsCoder(), WaitingColumns


def register_waiting_columns() -> None:
    """Tell Beam the coder of :class:`WaitingColumns`; a second call changes nothing."""
    coders.registry.register_coder(WaitingColumns, WaitingColumnsCoder)


class _Pieces(NamedTuple):
    """Where a bundle has found columns of a shard, and the timestamp and window of the first of them."""

    digest: int
    epoch: int
    width: int
    files: dict[StoredFile, int]
    parts: list[tuple[int, int, int, int, int, int]]
    timestamp: Any
    window: Any


class ShardWithSpill(beam.DoFn):
    """:data:`EpochParts` to ``((key, shard), waiting columns)``."""

    def __init__(self, bits: int, spill: Spill) -> None:
        self._bits, self._spill = bits, spill
        self._in_memory = 0
        self._file = FileWriter(spill.folder, Contents.COLUMNS)
        self._pieces: dict[Shard, _Pieces] = {}

    def start_bundle(self) -> None:
        """Forget what bundles before have found: it has been said where that is, or they came to no end."""
        self._pieces = {}

    def process(
        self,
        pair: EpochParts,
        timestamp: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
    ) -> Iterator[tuple[Shard, WaitingColumns]]:
        """Split by report id."""
        key, parts = pair
        for columns in parts:
            self._in_memory += columns.report_ids.nbytes + columns.payloads.nbytes
            if self._in_memory <= self._spill.above:
                ordered, ends = by_shard(columns, self._bits)
                for shard, begin, end in occupied(ends):
                    yield (key, shard), WaitingColumns(rows_between(ordered, begin, end))
            else:
                self._leave(key, columns, timestamp, window)

    def _leave(self, key: EpochKey, columns: ReportColumns, timestamp: Any, window: Any) -> None:
        """Leave columns on disk, and remember where they are."""
        width = columns.payloads.shape[1]
        file: StoredFile
        stored, ordered = columns.stored, None
        if stored is not None and not self._bits:
            file, ids_at, payloads_at, ends = stored.file, stored.ids_at, stored.payloads_at, [len(columns)]
        else:
            ordered, ends = by_shard(columns, self._bits)
            file = self._file.file
            ids_at, payloads_at = self._write(ordered)
        for shard, begin, end in occupied(ends):
            first = _Pieces(columns.digest, columns.epoch, width, {}, [], timestamp, window)
            pieces = self._pieces.setdefault((key, shard), first)
            which = pieces.files.setdefault(file, len(pieces.files))
            sums = (0, 0) if ordered is None else _checksums(rows_between(ordered, begin, end))
            place = ids_at + 8 * begin, payloads_at + width * begin
            pieces.parts.append((which, *place, end - begin, *sums))

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Say where the columns are that are on disk."""
        for shard, pieces in self._pieces.items():
            table = np.array(pieces.parts, np.int64)
            place = ColumnsOnDisk(tuple(pieces.files), pieces.digest, pieces.epoch, pieces.width, table)
            yield WindowedValue((shard, WaitingColumns(place)), pieces.timestamp, (pieces.window,))

    def _write(self, columns: ReportColumns) -> tuple[int, int]:
        """Append report ids, then payloads; give the offsets of both in the file, in bytes."""
        ids, payloads = _as_written(columns)
        return self._file.write(ids), self._file.write(payloads)

    def teardown(self) -> None:
        """Close the file; it is read by its name."""
        self._file.close()


def _as_written(columns: ReportColumns) -> tuple[memoryview, memoryview]:
    """Bytes of report ids and of payloads."""
    ids = np.ascontiguousarray(columns.report_ids, np.uint64).view(np.uint8)
    return ids.data, np.ascontiguousarray(columns.payloads).reshape(-1).data


def _checksums(columns: ReportColumns) -> tuple[int, int]:
    ids, payloads = _as_written(columns)
    return zlib.crc32(ids), zlib.crc32(payloads)


class _ReportBlock(NamedTuple):
    """Reports that are read together."""

    begin: int
    end: int
    held: ReportColumns | tuple[ColumnsOnDisk, slice]


class _ColumnsReader:
    """Reads report ids and payloads where they are."""

    def __init__(self) -> None:
        self._reader = FileReader()
        self.close = self._reader.close

    def ids(self, place: ColumnsOnDisk, parts: slice) -> Uints:
        """uint64 (n,), report ids of parts, end to end."""
        ids = np.empty(int(place.table[parts, 3].sum()), np.uint64)
        self._read(place, parts, 1, 8, ids.view(np.uint8).data)
        return ids

    def payloads(self, place: ColumnsOnDisk, parts: slice) -> Bytes:
        """uint8 (n, width), payloads of parts, likewise."""
        payloads = np.empty((int(place.table[parts, 3].sum()), place.width), np.uint8)
        self._read(place, parts, 2, place.width, payloads.reshape(-1).data)
        return read_only(payloads)

    def _read(self, place: ColumnsOnDisk, parts: slice, column: int, width: int, into: memoryview) -> None:
        """Fill ``into`` with bytes of parts, whose offsets are in one column of the table, end to end."""
        for row in place.table[parts].tolist():
            size = row[3] * width
            self._reader.read(place.files[row[0]], row[column], into[:size], row[column + 3])
            into = into[size:]


class GatheredColumns:
    """The columns of one shard: those in memory, then those on disk in the order of their places."""

    def __init__(self, waiting: Iterable[WaitingColumns]) -> None:
        in_memory: list[ReportColumns] = []
        on_disk: list[ColumnsOnDisk] = []
        for one in waiting:
            if isinstance(one.held, ReportColumns):
                in_memory.append(one.held)
            else:
                on_disk.append(one.held)
        on_disk.sort(key=_first)
        self._reader = _ColumnsReader()
        self._blocks: list[_ReportBlock] = []
        self._left_out: Bytes | None = None  # a bit for each report
        end = 0
        for columns in in_memory:
            begin, end = end, end + len(columns)
            self._blocks.append(_ReportBlock(begin, end, columns))
        for place in on_disk:
            for parts in _together(place.table[:, 3]):
                begin, end = end, end + int(place.table[parts, 3].sum())
                self._blocks.append(_ReportBlock(begin, end, (place, parts)))
        self._size = end

    def __enter__(self) -> GatheredColumns:
        """Nothing is read yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close what is open."""
        self._reader.close()

    def __len__(self) -> int:
        return self._size

    def keep_one_per_id(self, key: int) -> tuple[int, int]:
        """Leave out what :func:`ldpbeam.dedup.keep_one_per_id` leaves out: duplicates, conflicting
        reports."""
        duplicate = conflicting = 0
        for repeats in repeated_by_ranges(self._ids, self._size, self._payloads_of, key, _IDS):
            duplicate, conflicting = duplicate + repeats.duplicate, conflicting + repeats.conflicting
            if repeats.rows.size:
                if self._left_out is None:
                    self._left_out = np.zeros(-(-self._size // 8), np.uint8)
                np.bitwise_or.at(
                    self._left_out, repeats.rows >> 3, np.uint8(1) << (repeats.rows & 7).astype(np.uint8)
                )
        return duplicate, conflicting

    def columns(self) -> Iterator[ReportColumns]:
        """All columns but what has been left out, block by block."""
        for block in self._blocks:
            rows = self._left_out_of(block)
            if rows.size < block.end - block.begin:
                yield without(self._columns(block), rows)

    def _left_out_of(self, block: _ReportBlock) -> Ints:
        """int64 (m,), ascending: which reports of a block are left out."""
        if self._left_out is None:
            return np.empty(0, np.int64)
        held = self._left_out[block.begin >> 3 : -(-block.end // 8)]
        bits = np.unpackbits(held, bitorder="little")[block.begin & 7 :]
        return np.flatnonzero(bits[: block.end - block.begin])

    def _ids(self) -> Iterator[Uints]:
        for block in self._blocks:
            held = block.held
            yield held.report_ids if isinstance(held, ReportColumns) else self._reader.ids(*held)

    def _payloads_of(self, rows: Ints) -> Bytes:
        """uint8 (m, width), payloads of the reports at ``rows``: positions among all, ascending."""
        parts = []
        for block in self._blocks:
            first, last = np.searchsorted(rows, (block.begin, block.end))
            if last > first:
                held = block.held
                payloads = held.payloads if isinstance(held, ReportColumns) else self._reader.payloads(*held)
                parts.append(payloads[rows[first:last] - block.begin])
        return np.concatenate(parts)

    def _columns(self, block: _ReportBlock) -> ReportColumns:
        held = block.held
        if isinstance(held, ReportColumns):
            return held
        place = held[0]
        ids, payloads = self._reader.ids(*held), self._reader.payloads(*held)
        return ReportColumns(place.digest, place.epoch, ids, payloads)


def _first(place: ColumnsOnDisk) -> tuple[str, int]:
    """Where columns begin, for an order in which files are read from their beginning to their end."""
    return place.files[int(place.table[0, 0])].path, int(place.table[0, 1])


def _together(reports: Ints) -> Iterator[slice]:
    """Parts in a row that make up blocks, given how many reports each has."""
    begin = held = 0
    for end, count in enumerate(reports.tolist(), 1):
        held += count
        if held >= _BLOCK or end == reports.size:
            yield slice(begin, end)
            begin, held = end, 0
