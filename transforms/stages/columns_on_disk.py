"""Beside stage 2: columns that wait for their duplicates, in memory up to a limit, beyond it on this disk.

A run in one process keeps what a GroupByKey gathers in memory. Report ids and payloads are all of the input,
so memory would grow with it; a place in a file is a few bytes. Only for runners whose steps share a disk.

Of what comes back, report ids come first, a bounded number of them at once. Payloads follow in blocks, each
straight into the memory that it is counted from.
"""

from __future__ import annotations

import io
import os
import pickle
import secrets
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
from ldpbeam.arrays import Bytes, Flags, Ints, Uints, read_only
from ldpbeam.dedup import by_shard, occupied, repeated_by_ranges, rows_between, without
from ldpbeam.errors import LdpError, disk_errors

from ..coders import ReportColumnsCoder
from ..sources.stored_file import printable
from .reports import EpochKey, EpochParts

_BLOCK = 1 << 16
"""Reports whose payloads are read together, at least, where there are so many."""

_IDS = 1 << 25
"""Report ids that are looked at together, about, and at most 16 bytes in memory for each of them."""

_COLUMNS, _PLACE = b"v", b"p"

Shard = tuple[EpochKey, int]
"""What is gathered: the reports of an epoch whose ids have the same top bits once they are mixed."""


@dataclass(frozen=True)
class Spill:
    """The folder where columns wait on disk, and the bytes above which they do."""

    folder: str
    above: int


@dataclass(frozen=True, eq=False)
class ColumnsOnDisk:
    """Where columns of one collection and epoch are.

    A row of ``table``, int64 (parts, 5): offset of ids, offset of payloads, reports, CRC-32 of both.
    """

    path: str
    digest: int
    epoch: int
    width: int
    table: Ints


class WaitingColumns:
    __slots__ = ("held",)

    def __init__(self, held: ReportColumns | ColumnsOnDisk) -> None:
        self.held = held


class WaitingColumnsCoder(coders.Coder):
    """A mark, then columns as raw arrays, or their pickled place; no file is read."""

    _columns = ReportColumnsCoder()

    def encode(self, value: WaitingColumns) -> bytes:
        if isinstance(value.held, ColumnsOnDisk):
            return _PLACE + pickle.dumps(value.held, pickle.HIGHEST_PROTOCOL)
        return _COLUMNS + bytes(self._columns.encode(value.held))

    def decode(self, encoded: bytes) -> WaitingColumns:
        rest = encoded[1:]
        if encoded.startswith(_PLACE):
            return WaitingColumns(pickle.loads(rest))  # noqa: S301 - a step of the same run has written it
        return WaitingColumns(self._columns.decode(rest))

    def estimate_size(self, value: WaitingColumns) -> int:
        if isinstance(value.held, ColumnsOnDisk):
            return len(self.encode(value))
        return 1 + int(self._columns.estimate_size(value.held))


class _FileWriter:
    """Appends to a file of its own, which only this user may read; it is made by the first write."""

    def __init__(self, folder: str) -> None:
        self.path, self.size = f"{folder}/{secrets.token_hex(8)}", 0
        self._folder = folder
        self._descriptor: int | None = None

    def write(self, content: memoryview) -> int:
        begin = self.size
        with disk_errors(default=self.path):
            if self._descriptor is None:
                os.makedirs(self._folder, mode=0o700, exist_ok=True)  # noqa: PTH103 - Beam paths are text
                self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            while content:
                written = os.write(self._descriptor, content)
                self.size += written
                content = content[written:]
        return begin

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class _ColumnsReader:
    """Reads stretches of files, one file open at a time, and checks each before anybody sees it."""

    def __init__(self) -> None:
        self._path = ""
        self._opened: io.FileIO | None = None

    def ids(self, place: ColumnsOnDisk, parts: slice) -> Uints:
        """uint64 (n,), report ids of parts, end to end."""
        ids = np.empty(int(place.table[parts, 2].sum()), np.uint64)
        self._read(place, parts, 0, 8, ids.view(np.uint8).data)
        return ids

    def payloads(self, place: ColumnsOnDisk, parts: slice) -> Bytes:
        """uint8 (n, width), payloads of parts, likewise."""
        payloads = np.empty((int(place.table[parts, 2].sum()), place.width), np.uint8)
        self._read(place, parts, 1, place.width, payloads.reshape(-1).data)
        return read_only(payloads)

    def _read(self, place: ColumnsOnDisk, parts: slice, column: int, width: int, into: memoryview) -> None:
        """Fill ``into`` with bytes of parts, whose offsets are in one column of the table, end to end."""
        for row in place.table[parts].tolist():
            size = row[2] * width
            self._stretch(place.path, row[column], into[:size], row[column + 3])
            into = into[size:]

    def _stretch(self, path: str, offset: int, into: memoryview, checksum: int) -> None:
        """Fill ``into`` with the bytes that begin at an offset."""
        if self._opened is None or path != self._path:
            self.close()
            try:
                self._path, self._opened = path, io.FileIO(path)
            except FileNotFoundError:
                raise _changed(path) from None
        self._opened.seek(offset)
        left = into
        while left:
            count = self._opened.readinto(left)
            if not count:
                break
            left = left[count:]
        if left or zlib.crc32(into) != checksum:
            raise _changed(path)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None


def _changed(path: str) -> LdpError:
    return LdpError(
        "E-RUN-FILES",
        "a file of reports was changed or taken away before they were counted",
        where=printable(path),
        remedy="Keep others away from the output, and run again; earlier results are as they were.",
    )


def register_waiting_columns() -> None:
    coders.registry.register_coder(WaitingColumns, WaitingColumnsCoder)


class _Pieces(NamedTuple):
    """Where a bundle has found columns of a shard, and the timestamp and window of the first of them."""

    digest: int
    epoch: int
    width: int
    parts: list[tuple[int, int, int, int, int]]
    timestamp: Any
    window: Any


class ShardWithSpill(beam.DoFn):
    """:data:`EpochParts` to ``((key, shard), waiting columns)``."""

    def __init__(self, bits: int, spill: Spill) -> None:
        self._bits, self._spill = bits, spill
        self._in_memory = 0
        self._file = _FileWriter(spill.folder)
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
        """Write columns to disk, and remember where they are."""
        width = columns.payloads.shape[1]
        ordered, ends = by_shard(columns, self._bits)
        ids_at, payloads_at = self._write(ordered)
        for shard, begin, end in occupied(ends):
            first = _Pieces(columns.digest, columns.epoch, width, [], timestamp, window)
            pieces = self._pieces.setdefault((key, shard), first)
            place = ids_at + 8 * begin, payloads_at + width * begin
            pieces.parts.append((*place, end - begin, *_checksums(rows_between(ordered, begin, end))))

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for shard, pieces in self._pieces.items():
            table = np.array(pieces.parts, np.int64)
            place = ColumnsOnDisk(self._file.path, pieces.digest, pieces.epoch, pieces.width, table)
            yield WindowedValue((shard, WaitingColumns(place)), pieces.timestamp, (pieces.window,))

    def _write(self, columns: ReportColumns) -> tuple[int, int]:
        """Append report ids, then payloads; give the offsets of both in the file, in bytes."""
        ids, payloads = _as_written(columns)
        return self._file.write(ids), self._file.write(payloads)

    def teardown(self) -> None:
        self._file.close()


def _as_written(columns: ReportColumns) -> tuple[memoryview, memoryview]:
    """Bytes of report ids and of payloads."""
    ids = np.ascontiguousarray(columns.report_ids, np.uint64).view(np.uint8)
    return ids.data, np.ascontiguousarray(columns.payloads).reshape(-1).data


def _checksums(columns: ReportColumns) -> tuple[int, int]:
    ids, payloads = _as_written(columns)
    return zlib.crc32(ids), zlib.crc32(payloads)


class _ReportBlock(NamedTuple):
    begin: int
    end: int
    held: ReportColumns | tuple[ColumnsOnDisk, slice]


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
        self._left_out: Flags | None = None
        end = 0
        for columns in in_memory:
            begin, end = end, end + len(columns)
            self._blocks.append(_ReportBlock(begin, end, columns))
        for place in on_disk:
            for parts in _together(place.table[:, 2]):
                begin, end = end, end + int(place.table[parts, 2].sum())
                self._blocks.append(_ReportBlock(begin, end, (place, parts)))
        self._size = end

    def __enter__(self) -> GatheredColumns:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
                    self._left_out = np.zeros(self._size, bool)
                self._left_out[repeats.rows] = True
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
        return np.flatnonzero(self._left_out[block.begin : block.end])

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
    return place.path, int(place.table[0, 0])


def _together(reports: Ints) -> Iterator[slice]:
    """Parts in a row that make up blocks, given how many reports each has."""
    begin = held = 0
    for end, count in enumerate(reports.tolist(), 1):
        held += count
        if held >= _BLOCK or end == reports.size:
            yield slice(begin, end)
            begin, held = end, 0
