"""Beside stage 2: columns that wait for their duplicates, in memory up to a limit, beyond it on this disk.

A run in one process keeps what a GroupByKey gathers in memory. Report ids and payloads are all of the input,
so memory would grow with it; a place in a file is a few bytes. Only for runners whose steps share a disk.

Of what comes back, report ids come first, all those of a shard together. Payloads follow in blocks, each
straight into the memory that it is counted from, and those of a shard are never in memory at once.
"""

from __future__ import annotations

import io
import os
import secrets
import struct
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam import coders
from apache_beam.utils.windowed_value import WindowedValue

from ldpbeam.arrays import Bytes, Ints, Uints, read_only
from ldpbeam.dedup import by_shard, rows_between, without
from ldpbeam.errors import disk_error
from ldpbeam.reports import ReportColumns
from ldpbeam.transforms.coders import ReportColumnsCoder
from ldpbeam.transforms.stages.reports import EpochKey, EpochParts

_FILE = struct.Struct("<QqQQ")
_COLUMNS = ReportColumnsCoder()

_BLOCK = 1 << 16
"""Reports whose payloads are read together, at least, where there are so many."""

Shard = tuple[EpochKey, int]
"""What is gathered: the reports of an epoch whose ids have the same top bits once they are mixed."""


@dataclass(frozen=True)
class Spill:
    """Where columns go, and when.

    Attributes:
        folder: local, made when it is needed; whoever runs the pipeline removes it.
        above: bytes that one step keeps in memory.
    """

    folder: str
    above: int


@dataclass(frozen=True, eq=False)
class Places:
    """Where columns of one collection and epoch are in a file.

    Attributes:
        path: the file.
        digest, epoch: of the columns.
        width: bytes of a payload.
        table: int64 (m, 3): for each part the offset of its report ids, that of its payloads, both in bytes,
            and its number of reports.
    """

    path: str
    digest: int
    epoch: int
    width: int
    table: Ints


@dataclass(frozen=True, eq=False)
class WaitingColumns:
    """Columns in memory, or where they are in a file; either is None where the other is not."""

    columns: ReportColumns | None = None
    places: Places | None = None


class WaitingColumnsCoder(coders.Coder):
    """Encoded columns, or an empty head of the same size and then the places."""

    _ON_DISK = b"\xff" * 32
    """No columns begin so: their digest could, their number of reports could not."""

    def encode(self, value: WaitingColumns) -> bytes:
        """Bytes of either."""
        if value.columns is not None:
            return _COLUMNS.encode(value.columns)
        found = _places(value)
        head = _FILE.pack(found.digest, found.epoch, found.width, len(found.table))
        table = np.ascontiguousarray(found.table, "<i8").tobytes()
        return self._ON_DISK + head + table + os.fsencode(found.path)

    def decode(self, encoded: bytes) -> WaitingColumns:
        """The same."""
        if not encoded.startswith(self._ON_DISK):
            return WaitingColumns(_COLUMNS.decode(encoded))
        start = len(self._ON_DISK)
        digest, epoch, width, parts = _FILE.unpack_from(encoded, start)
        start += _FILE.size
        table = np.frombuffer(encoded, "<i8", 3 * parts, start).reshape(parts, 3)
        path = os.fsdecode(encoded[start + table.nbytes :])
        return WaitingColumns(places=Places(path, digest, epoch, width, table))

    def estimate_size(self, value: WaitingColumns) -> int:
        """Bytes of the columns, or of the places."""
        if value.columns is not None:
            return _COLUMNS.estimate_size(value.columns)
        return len(self._ON_DISK) + _FILE.size + _places(value).table.nbytes

    def is_deterministic(self) -> bool:
        """Equal values give equal bytes."""
        return True


def _places(waiting: WaitingColumns) -> Places:
    if waiting.places is None:
        raise TypeError("neither columns nor places")
    return waiting.places


def register_waiting_columns() -> None:
    """Tell Beam; idempotent."""
    coders.registry.register_coder(WaitingColumns, WaitingColumnsCoder)


class _Written(NamedTuple):
    """What a bundle has written of a shard, and the timestamp and window of its first part."""

    digest: int
    epoch: int
    width: int
    parts: list[tuple[int, int, int]]
    timestamp: Any
    window: Any


class ShardWithSpill(beam.DoFn):
    """:data:`EpochParts` to ``((key, shard), waiting columns)``.

    An instance keeps ``spill.above`` bytes in memory and writes what comes after them to a file of its own.
    Of what it has written one element per shard says where it is, at the end of the bundle: elements are few,
    since each costs the runner as much time as hundreds of reports cost here.
    """

    def __init__(self, bits: int, spill: Spill) -> None:
        self._bits, self._spill = bits, spill
        self._in_memory = 0
        self._file: int | None = None
        self._path, self._size = "", 0
        self._written: dict[Shard, _Written] = {}

    def start_bundle(self) -> None:
        """Forget what bundles before have written: it has been said where that is, or they came to no end."""
        self._written = {}

    def process(
        self,
        pair: EpochParts,
        timestamp: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
    ) -> Iterator[tuple[Shard, WaitingColumns]]:
        """Split by report id.

        Raises:
            LdpError: the disk is full, or may not be written to.
        """
        key, parts = pair
        for columns in parts:
            yield from self._split(key, columns, timestamp, window)

    def _split(
        self, key: EpochKey, columns: ReportColumns, timestamp: Any, window: Any
    ) -> Iterator[tuple[Shard, WaitingColumns]]:
        self._in_memory += columns.report_ids.nbytes + columns.payloads.nbytes
        ordered, ends = by_shard(columns, self._bits)
        kept = self._in_memory <= self._spill.above
        if not kept:
            ids_at, payloads_at = self._write(ordered)
            width = columns.payloads.shape[1]
        begin = 0
        for shard, end in enumerate(ends):
            if end > begin and kept:
                yield (key, shard), WaitingColumns(rows_between(ordered, begin, end))
            elif end > begin:
                first = _Written(columns.digest, columns.epoch, width, [], timestamp, window)
                written = self._written.setdefault((key, shard), first)
                written.parts.append((ids_at + 8 * begin, payloads_at + width * begin, end - begin))
            begin = end

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Say where the columns are that have been written."""
        for shard, written in self._written.items():
            table = np.array(written.parts, np.int64)
            places = Places(self._path, written.digest, written.epoch, written.width, table)
            value = (shard, WaitingColumns(places=places))
            yield WindowedValue(value, written.timestamp, (written.window,))

    def _write(self, columns: ReportColumns) -> tuple[int, int]:
        """Append report ids and then payloads to the file; at which bytes of it they begin.

        Raises:
            LdpError: the disk is full, or may not be written to.
        """
        ids = np.ascontiguousarray(columns.report_ids, np.uint64).view(np.uint8)
        try:
            if self._file is None:
                os.makedirs(self._spill.folder, mode=0o700, exist_ok=True)  # noqa: PTH103 - Beam paths are text
                self._path = f"{self._spill.folder}/{secrets.token_hex(8)}"
                self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            for array in (ids, columns.payloads.reshape(-1)):
                left = array.data
                while left:
                    left = left[os.write(self._file, left) :]
        except OSError as error:
            found = disk_error(error, self._path or self._spill.folder)
            if found is None:
                raise
            raise found from None
        begin = self._size
        self._size += ids.nbytes + columns.payloads.nbytes
        return begin, begin + ids.nbytes

    def teardown(self) -> None:
        """Close the file; it is read by its name."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


class _Block(NamedTuple):
    """Reports that are read together.

    Attributes:
        begin, end: which of the shard they are.
        held: the columns, or in which file they are and which parts of it.
    """

    begin: int
    end: int
    held: ReportColumns | tuple[Places, slice]


class Gathered:
    """The columns of one shard: those in memory, then those on disk in the order of their places.

    A context, which closes the files that it has opened.

    Attributes:
        ids: uint64 (n,), the report ids of all of them, in this order.
    """

    def __init__(self, waiting: Iterable[WaitingColumns]) -> None:
        in_memory: list[ReportColumns] = []
        on_disk: list[Places] = []
        for one in waiting:
            if one.columns is not None:
                in_memory.append(one.columns)
            else:
                on_disk.append(_places(one))
        on_disk.sort(key=lambda places: (places.path, int(places.table[0, 0])))
        self._files: dict[str, io.FileIO] = {}
        self._closing = ExitStack()
        self._blocks: list[_Block] = []
        end = 0
        for columns in in_memory:
            begin, end = end, end + len(columns)
            self._blocks.append(_Block(begin, end, columns))
        for places in on_disk:
            for parts in _together(places.table[:, 2]):
                begin, end = end, end + int(places.table[parts, 2].sum())
                self._blocks.append(_Block(begin, end, (places, parts)))
        self.ids: Uints = np.empty(end, np.uint64)

    def __enter__(self) -> Gathered:
        """Read the report ids."""
        try:
            for begin, end, held in self._blocks:
                if isinstance(held, ReportColumns):
                    self.ids[begin:end] = held.report_ids
                else:
                    self._read(*held, 0, 8, self.ids[begin:end].view(np.uint8))
        except BaseException:
            self._closing.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the files."""
        self._closing.close()

    def payloads_of(self, rows: Ints) -> Bytes:
        """uint8 (m, width), payloads of the reports at ``rows``: positions in ``ids``, ascending."""
        found = []
        for block in self._blocks:
            first, last = np.searchsorted(rows, (block.begin, block.end))
            if last > first:
                found.append(self._columns(block).payloads[rows[first:last] - block.begin])
        return np.concatenate(found)

    def columns_without(self, rows: Ints) -> Iterator[ReportColumns]:
        """All columns but some reports, block by block; ``rows`` as of :meth:`payloads_of`."""
        for block in self._blocks:
            first, last = np.searchsorted(rows, (block.begin, block.end))
            if last - first < block.end - block.begin:
                yield without(self._columns(block), rows[first:last] - block.begin)

    def _columns(self, block: _Block) -> ReportColumns:
        if isinstance(block.held, ReportColumns):
            return block.held
        places, parts = block.held
        payloads = np.empty((block.end - block.begin, places.width), np.uint8)
        self._read(places, parts, 1, places.width, payloads.reshape(-1))
        ids = self.ids[block.begin : block.end]
        return ReportColumns(places.digest, places.epoch, ids, read_only(payloads))

    def _read(self, places: Places, parts: slice, column: int, width: int, into: Bytes) -> None:
        """Fill ``into`` with bytes of parts, whose offsets are in one column of the table, end to end."""
        file = self._files.get(places.path)
        if file is None:
            file = self._closing.enter_context(io.FileIO(places.path))
            self._files[places.path] = file
        left = into.data
        for row in places.table[parts].tolist():
            file.seek(row[column])
            wanted, left = left[: row[2] * width], left[row[2] * width :]
            while wanted:
                found = file.readinto(wanted)
                if not found:
                    raise OSError(f"{places.path} is shorter than what was written to it")
                wanted = wanted[found:]


def _together(reports: Ints) -> Iterator[slice]:
    """Parts in a row that make up blocks, given how many reports each has."""
    begin = held = 0
    for end, count in enumerate(reports.tolist(), 1):
        held += count
        if held >= _BLOCK or end == reports.size:
            yield slice(begin, end)
            begin, held = end, 0
