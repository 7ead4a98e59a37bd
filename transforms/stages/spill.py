"""Beside stage 2: columns that wait for their duplicates, in memory up to a limit, beyond it on this disk.

A run in one process keeps what a GroupByKey gathers in memory. Report ids and payloads are all of the input,
so memory would grow with it; a place in a file is a few bytes. Only for runners whose steps share a disk.
"""

from __future__ import annotations

import os
import secrets
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import apache_beam as beam
from apache_beam import coders

from ldpbeam.dedup import shard_columns
from ldpbeam.errors import disk_error
from ldpbeam.reports import ReportColumns
from ldpbeam.transforms.coders import ReportColumnsCoder
from ldpbeam.transforms.stages.reports import EpochKey

_PLACE = struct.Struct("<QQ")
_COLUMNS = ReportColumnsCoder()


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
class WaitingColumns:
    """Columns in memory, or where they are in a file.

    Attributes:
        columns: None where they are in a file.
        path, offset, length: the file, and the encoded columns in it; in bytes.
    """

    columns: ReportColumns | None = None
    path: str = ""
    offset: int = 0
    length: int = 0


class WaitingColumnsCoder(coders.Coder):
    """Encoded columns, or an empty head of the same size and then the place."""

    _ON_DISK = b"\xff" * 32
    """No columns begin so: their digest could, their number of reports could not."""

    def encode(self, value: WaitingColumns) -> bytes:
        """Bytes of either."""
        if value.columns is not None:
            return _COLUMNS.encode(value.columns)
        return self._ON_DISK + _PLACE.pack(value.offset, value.length) + os.fsencode(value.path)

    def decode(self, encoded: bytes) -> WaitingColumns:
        """The same."""
        if not encoded.startswith(self._ON_DISK):
            return WaitingColumns(_COLUMNS.decode(encoded))
        start = len(self._ON_DISK)
        offset, length = _PLACE.unpack_from(encoded, start)
        return WaitingColumns(None, os.fsdecode(encoded[start + _PLACE.size :]), offset, length)

    def is_deterministic(self) -> bool:
        """Equal values give equal bytes."""
        return True


def register_waiting_columns() -> None:
    """Tell Beam; idempotent."""
    coders.registry.register_coder(WaitingColumns, WaitingColumnsCoder)


class ShardWithSpill(beam.DoFn):
    """``(key of an epoch, columns)`` to ``((key, shard), waiting columns)``.

    An instance keeps ``spill.above`` bytes in memory and writes what comes after them to a file of its own.
    """

    def __init__(self, bits: int, spill: Spill) -> None:
        self._bits, self._spill = bits, spill
        self._in_memory = 0
        self._file: int | None = None
        self._path, self._size = "", 0

    def process(
        self, pair: tuple[EpochKey, ReportColumns]
    ) -> Iterator[tuple[tuple[EpochKey, int], WaitingColumns]]:
        """Split by report id.

        Raises:
            LdpError: the disk is full, or may not be written to.
        """
        key, columns = pair
        self._in_memory += columns.report_ids.nbytes + columns.payloads.nbytes
        for shard, part in shard_columns(columns, self._bits):
            kept = self._in_memory <= self._spill.above
            yield (key, shard), WaitingColumns(part) if kept else self._written(part)

    def _written(self, columns: ReportColumns) -> WaitingColumns:
        encoded = _COLUMNS.encode(columns)
        try:
            if self._file is None:
                os.makedirs(self._spill.folder, mode=0o700, exist_ok=True)  # noqa: PTH103 - Beam paths are text
                self._path = f"{self._spill.folder}/{secrets.token_hex(8)}"
                self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            left = memoryview(encoded)
            while left:
                left = left[os.write(self._file, left) :]
        except OSError as error:
            found = disk_error(error, self._path or self._spill.folder)
            if found is None:
                raise
            raise found from None
        begin, self._size = self._size, self._size + len(encoded)
        return WaitingColumns(None, self._path, begin, len(encoded))

    def teardown(self) -> None:
        """Close the file; it is read by its name."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def gathered(waiting: Iterable[WaitingColumns]) -> list[ReportColumns]:
    """The columns of one group, read back in the order of their places."""
    found, on_disk = [], []
    for one in waiting:
        if one.columns is not None:
            found.append(one.columns)
        else:
            on_disk.append(one)
    on_disk.sort(key=lambda one: (one.path, one.offset))
    opened, path = None, ""
    try:
        for one in on_disk:
            if opened is None or one.path != path:
                if opened is not None:
                    os.close(opened)
                opened, path = os.open(one.path, os.O_RDONLY), one.path
            found.append(_COLUMNS.decode(os.pread(opened, one.length, one.offset)))
    finally:
        if opened is not None:
            os.close(opened)
    return found
