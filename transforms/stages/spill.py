"""Beside stage 2: columns that wait for their duplicates, in memory up to a limit, beyond it on this disk.

A run in one process keeps what a GroupByKey gathers in memory. Report ids and payloads are all of the input,
so memory would grow with it; a place in a file is a few bytes. Only for runners whose steps share a disk.

Columns that lie in a file of the input as they are stay there, and are read from it once more; others are
written to a file of our own. Of what comes back, report ids come first, a bounded number of them at once.
Payloads follow in blocks, each straight into the memory that it is counted from.
"""

from __future__ import annotations

import io
import os
import secrets
import struct
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
from ldpbeam.errors import LdpError, disk_errors
from ldpbeam.file_version import FileVersion

from ..coders import ReportColumnsCoder
from ..sources.stored_file import printable
from .reports import EpochKey, EpochParts

_PLACES = struct.Struct("<QqQQQ")
_FILE = struct.Struct("<?QQQqI")
_COLUMNS = ReportColumnsCoder()

_PART = 6
"""Numbers that say where a part is."""

_BLOCK = 1 << 16
"""Reports whose payloads are read together, at least, where there are so many."""

_IDS = 1 << 25
"""Report ids that are looked at together, about, and at most 16 bytes in memory for each of them."""

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


@dataclass(frozen=True)
class SpillFile:
    """A file that one step has written: nobody else writes to it."""

    path: str


@dataclass(frozen=True, eq=False)
class Places:
    """Where columns of one collection and epoch are.

    Attributes:
        files: the files that they are in.
        digest, epoch: of the columns.
        width: bytes of a payload.
        table: int64 (m, 6): for each part its file, as a position in ``files``, the offset of its report ids,
            that of its payloads, both in bytes, its number of reports, and the CRC-32 of either, which is 0
            in files of the input.
    """

    files: tuple[SpillFile | FileVersion, ...]
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
        places = _places(value)
        sizes = len(places.files), len(places.table)
        head = _PLACES.pack(places.digest, places.epoch, places.width, *sizes)
        table = np.ascontiguousarray(places.table, "<i8").tobytes()
        return b"".join([self._ON_DISK, head, table, *map(_encoded_file, places.files)])

    def decode(self, encoded: bytes) -> WaitingColumns:
        """Columns in memory, or their places on disk; no file is read."""
        if not encoded.startswith(self._ON_DISK):
            return WaitingColumns(_COLUMNS.decode(encoded))
        start = len(self._ON_DISK)
        digest, epoch, width, count, parts = _PLACES.unpack_from(encoded, start)
        start += _PLACES.size
        table = np.frombuffer(encoded, "<i8", _PART * parts, start).reshape(parts, _PART)
        start += table.nbytes
        files: list[SpillFile | FileVersion] = []
        for _ in range(count):
            read, *version, length = _FILE.unpack_from(encoded, start)
            start += _FILE.size
            path = os.fsdecode(encoded[start : start + length])
            start += length
            files.append(FileVersion(path, *version) if read else SpillFile(path))
        return WaitingColumns(places=Places(tuple(files), digest, epoch, width, table))

    def estimate_size(self, value: WaitingColumns) -> int:
        """Bytes of the columns, or of the places."""
        if value.columns is not None:
            return _COLUMNS.estimate_size(value.columns)
        places = _places(value)
        files = sum(_FILE.size + len(file.path) for file in places.files)
        return len(self._ON_DISK) + _PLACES.size + places.table.nbytes + files

    def is_deterministic(self) -> bool:
        """Equal values give equal bytes."""
        return True


def _encoded_file(file: SpillFile | FileVersion) -> bytes:
    path = os.fsencode(file.path)
    version = file[1:] if isinstance(file, FileVersion) else (0,) * 4
    return _FILE.pack(isinstance(file, FileVersion), *version, len(path)) + path


def _places(waiting: WaitingColumns) -> Places:
    if waiting.places is None:
        raise TypeError("neither columns nor places")
    return waiting.places


def register_waiting_columns() -> None:
    """Tell Beam; idempotent."""
    coders.registry.register_coder(WaitingColumns, WaitingColumnsCoder)


class _Pieces(NamedTuple):
    """Where a bundle has found columns of a shard, and the timestamp and window of the first of them."""

    digest: int
    epoch: int
    width: int
    files: dict[SpillFile | FileVersion, int]
    parts: list[tuple[int, int, int, int, int, int]]
    timestamp: Any
    window: Any


class ShardWithSpill(beam.DoFn):
    """:data:`EpochParts` to ``((key, shard), waiting columns)``.

    An instance keeps ``spill.above`` bytes in memory. What comes after them stays where it was read, if it
    lies there as it is and is not to be split, and else goes to a file of the instance's own. One element per
    shard says where, at the end of the bundle: elements are few, since each costs the runner as much time as
    hundreds of reports cost here.
    """

    def __init__(self, bits: int, spill: Spill) -> None:
        self._bits, self._spill = bits, spill
        self._in_memory = 0
        self._descriptor: int | None = None
        self._file, self._size = SpillFile(""), 0
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
        """Split by report id.

        Raises:
            LdpError: the disk is full, or may not be written to.
        """
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
        file: SpillFile | FileVersion
        stored, ordered = columns.stored, None
        if stored is not None and not self._bits:
            file, ids_at, payloads_at, ends = stored.file, stored.ids_at, stored.payloads_at, [len(columns)]
        else:
            ordered, ends = by_shard(columns, self._bits)
            ids_at, payloads_at = self._write(ordered)
            file = self._file
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
            places = Places(tuple(pieces.files), pieces.digest, pieces.epoch, pieces.width, table)
            value = (shard, WaitingColumns(places=places))
            yield WindowedValue(value, pieces.timestamp, (pieces.window,))

    def _write(self, columns: ReportColumns) -> tuple[int, int]:
        """Append report ids and then payloads to the file; at which bytes of it they begin.

        Raises:
            LdpError: the disk is full, or may not be written to.
        """
        ids = np.ascontiguousarray(columns.report_ids, np.uint64).view(np.uint8)
        if self._descriptor is None:
            self._file = SpillFile(f"{self._spill.folder}/{secrets.token_hex(8)}")
        with disk_errors(default=self._file.path):
            if self._descriptor is None:
                os.makedirs(self._spill.folder, mode=0o700, exist_ok=True)  # noqa: PTH103 - Beam paths are text
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
                self._descriptor = os.open(self._file.path, flags, 0o600)
            for array in (ids, columns.payloads.reshape(-1)):
                left = array.data
                while left:
                    left = left[os.write(self._descriptor, left) :]
        begin = self._size
        self._size += ids.nbytes + columns.payloads.nbytes
        return begin, begin + ids.nbytes

    def teardown(self) -> None:
        """Close the file; it is read by its name."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _checksums(columns: ReportColumns) -> tuple[int, int]:
    """Of report ids and payloads as they are written."""
    ids = np.ascontiguousarray(columns.report_ids, np.uint64)
    return zlib.crc32(ids.data), zlib.crc32(np.ascontiguousarray(columns.payloads).data)


class _ReportBlock(NamedTuple):
    """Reports that are read together.

    Attributes:
        begin, end: which of the shard they are.
        held: the columns, or in which file they are and which parts of it.
    """

    begin: int
    end: int
    held: ReportColumns | tuple[Places, slice]


class _Reader:
    """Reads columns where they are, one file open at a time."""

    def __init__(self) -> None:
        self._file: SpillFile | FileVersion | None = None
        self._opened: io.FileIO | None = None

    def ids(self, places: Places, parts: slice) -> Uints:
        """uint64 (n,), report ids of parts, end to end."""
        ids = np.empty(int(places.table[parts, 3].sum()), np.uint64)
        self._read(places, parts, 1, 8, ids.view(np.uint8))
        return ids

    def payloads(self, places: Places, parts: slice) -> Bytes:
        """uint8 (n, width), payloads of parts, likewise."""
        payloads = np.empty((int(places.table[parts, 3].sum()), places.width), np.uint8)
        self._read(places, parts, 2, places.width, payloads.reshape(-1))
        return read_only(payloads)

    def close(self) -> None:
        """Close what is open."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _read(self, places: Places, parts: slice, column: int, width: int, into: Bytes) -> None:
        """Fill ``into`` with bytes of parts, whose offsets are in one column of the table, end to end.

        They are checked before anybody sees them: what counts them relies on their having been judged, and
        would write anywhere for others.

        Raises:
            LdpError: a file of the input has changed, or one that a step has written.
        """
        left = into.data
        for row in places.table[parts].tolist():
            file = places.files[row[0]]
            opened = self._open(file)
            opened.seek(row[column])
            part, left = left[: row[3] * width], left[row[3] * width :]
            wanted = part
            while wanted:
                count = opened.readinto(wanted)
                if not count:
                    break
                wanted = wanted[count:]
            if isinstance(file, FileVersion):
                sound = FileVersion.of(file.path, os.fstat(opened.fileno())) == file
            else:
                sound = zlib.crc32(part) == row[column + 3]
            if wanted or not sound:
                raise _changed(file)

    def _open(self, file: SpillFile | FileVersion) -> io.FileIO:
        if self._opened is None or file != self._file:
            self.close()
            try:
                self._file, self._opened = file, io.FileIO(file.path)
            except OSError as error:
                if isinstance(file, FileVersion) or isinstance(error, FileNotFoundError):
                    raise _changed(file) from None
                raise
        return self._opened


def not_as_written(path: str, what: str, when: str) -> LdpError:
    """The error about a file of a step that is gone, or is not what the step wrote.

    Args:
        path: of the file.
        what: that it holds, such as ``a file of counts``.
        when: the moment before which that happened, as an end of a sentence.
    """
    return LdpError(
        "E-RUN-FILES",
        f"{what} was changed or taken away before {when}",
        where=printable(path),
        remedy="Keep others away from the output, and run again; earlier results are as they were.",
    )


def _changed(file: SpillFile | FileVersion) -> LdpError:
    if isinstance(file, SpillFile):
        return not_as_written(file.path, "a file of reports", "they were counted")
    return LdpError(
        "E-RUN-INPUT",
        "a file of reports was changed or taken away while the run was reading it",
        where=printable(file.path),
        remedy="Run again when nobody writes to it any more; earlier results are as they were.",
    )


class Gathered:
    """The columns of one shard: those in memory, then those on disk in the order of their places.

    A context, which closes the files that it has opened.
    """

    def __init__(self, waiting: Iterable[WaitingColumns]) -> None:
        in_memory: list[ReportColumns] = []
        on_disk: list[Places] = []
        for one in waiting:
            if one.columns is not None:
                in_memory.append(one.columns)
            else:
                on_disk.append(_places(one))
        on_disk.sort(key=_first)
        self._reader = _Reader()
        self._blocks: list[_ReportBlock] = []
        self._left_out: Bytes | None = None  # a bit for each report
        end = 0
        for columns in in_memory:
            begin, end = end, end + len(columns)
            self._blocks.append(_ReportBlock(begin, end, columns))
        for places in on_disk:
            for parts in _together(places.table[:, 3]):
                begin, end = end, end + int(places.table[parts, 3].sum())
                self._blocks.append(_ReportBlock(begin, end, (places, parts)))
        self._size = end

    def __enter__(self) -> Gathered:
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
        """Leave out what :func:`ldpbeam.dedup.keep_one_per_id` leaves out: duplicates, conflicting reports.

        Raises:
            LdpError: a file of the input has changed.
        """
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
        """All columns but what has been left out, block by block.

        Raises:
            LdpError: a file of the input has changed.
        """
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
        places = held[0]
        ids, payloads = self._reader.ids(*held), self._reader.payloads(*held)
        return ReportColumns(places.digest, places.epoch, ids, payloads)


def _first(places: Places) -> tuple[str, int]:
    """Where columns begin, for an order in which files are read from their beginning to their end."""
    return places.files[int(places.table[0, 0])].path, int(places.table[0, 1])


def _together(reports: Ints) -> Iterator[slice]:
    """Parts in a row that make up blocks, given how many reports each has."""
    begin = held = 0
    for end, count in enumerate(reports.tolist(), 1):
        held += count
        if held >= _BLOCK or end == reports.size:
            yield slice(begin, end)
            begin, held = end, 0
