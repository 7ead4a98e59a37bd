"""Beside stage 3: counts of epochs wait on this disk, so that a run's memory does not grow with its epochs.

A run in one process has the accumulators of all its epochs at once: in the table of the step that counts, in
the runner between two steps, and there once more where they meet their accounts. A large accumulator goes to
a file, and the place of the file goes on in its stead, until the epoch is estimated. Only for runners whose
steps share a disk.
"""

from __future__ import annotations

import os
import secrets
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam import coders

from ldpbeam.admission import Parts
from ldpbeam.errors import LdpError, disk_errors
from ldpbeam.support import Accumulated, Support, SupportCounter, UncountedReports

from ..coders import OptionalSupportCoder
from .spill import not_as_written
from .support import CountSupportOfEach

_CODER = OptionalSupportCoder()
_PLACE = struct.Struct("<?QI")
_IN_PLACE = b"\0"

_SMALL = 1 << 16
"""Bytes of an accumulator that stays in memory whatever happens: a file would cost more than it saves."""

_IN_MEMORY = 1 << 27
"""Bytes of accumulators that one step keeps in memory: less than estimating a million values takes."""


@dataclass(frozen=True)
class CountsOnDisk:
    """Where an accumulator is: a file that is never changed.

    Attributes:
        path: of the file, which holds the encoded accumulator; whoever runs the pipeline removes it.
        reports: number of reports counted, or waiting to be.
        checksum: CRC-32 of the file.
    """

    path: str
    reports: int
    checksum: int

    def read(self) -> Support | UncountedReports:
        """The accumulator, in fresh memory.

        Raises:
            LdpError: the file is gone, or is not what was written.
        """
        try:
            encoded = Path(self.path).read_bytes()
        except FileNotFoundError:
            raise self._changed() from None
        value = _CODER.decode(encoded) if zlib.crc32(encoded) == self.checksum else None
        if value is None:
            raise self._changed()
        return value

    def counted(self, protocol: SupportCounter) -> Support:
        """The support that it is.

        Raises:
            LdpError: as :meth:`read`.
        """
        value = self.read()
        return value if isinstance(value, Support) else value.counted(protocol)

    def _changed(self) -> LdpError:
        return not_as_written(self.path, "a file of counts", "its epoch was estimated")


class WaitingCount:
    """The accumulator of one key: in memory, or on disk, or nothing yet.

    Attributes:
        counts: which of these.
        own: whether nobody else knows of the file that it is in.
    """

    __slots__ = ("counts", "own")

    def __init__(self, counts: Accumulated | CountsOnDisk | None = None) -> None:
        self.counts = counts
        self.own = False

    def read(self) -> Accumulated | None:
        """The accumulator, from wherever it is.

        Raises:
            LdpError: as :meth:`CountsOnDisk.read`.
        """
        return self.counts.read() if isinstance(self.counts, CountsOnDisk) else self.counts


class WaitingCoder(coders.Coder):
    """A mark, and then where an accumulator is, or what :class:`OptionalSupportCoder` makes of it."""

    def encode(self, value: WaitingCount) -> bytes:
        """Bytes of either."""
        where = value.counts
        if isinstance(where, CountsOnDisk):
            return _PLACE.pack(True, where.reports, where.checksum) + os.fsencode(where.path)
        return _IN_PLACE + _CODER.encode(where)

    def decode(self, encoded: bytes) -> WaitingCount:
        """An accumulator in memory, or its place on disk; no file is read."""
        if encoded.startswith(_IN_PLACE):
            return WaitingCount(_CODER.decode(encoded[len(_IN_PLACE) :]))
        _, reports, checksum = _PLACE.unpack_from(encoded)
        return WaitingCount(CountsOnDisk(os.fsdecode(encoded[_PLACE.size :]), reports, checksum))

    def estimate_size(self, value: WaitingCount) -> int:
        """Bytes of either, without encoding it."""
        where = value.counts
        if isinstance(where, CountsOnDisk):
            return _PLACE.size + len(where.path)
        return len(_IN_PLACE) + _CODER.estimate_size(where)

    def is_deterministic(self) -> bool:
        """Equal values give equal bytes."""
        return True


@beam.typehints.with_input_types(Parts)
@beam.typehints.with_output_types(Any)  # as of CountSupportOfEach
class CountWithSpill(beam.CombineFn):
    """:class:`CountSupportOfEach` with accumulators that wait on disk where they are large.

    While reports are added, a step keeps the accumulators in memory that it has used last. What leaves it is
    on disk.
    """

    def __init__(self, count: CountSupportOfEach, folder: str) -> None:
        """``folder`` is local, made when it is needed; whoever runs the pipeline removes it."""
        self._count, self._folder = count, folder
        self._sizes: dict[WaitingCount, int] = {}  # bytes of each; what was used last comes last
        self._bytes = 0

    def create_accumulator(self, *_: object) -> WaitingCount:
        """An accumulator without reports, in memory."""
        return WaitingCount(self._count.create_accumulator())

    def add_input(self, waiting: WaitingCount, parts: Parts, *_: object) -> WaitingCount:
        """Count batches; the accumulator that was used longest ago goes to disk where there are too many.

        Raises:
            LdpError: the disk is full, or may not be written to; a file is not as it was written.
        """
        self._let_go(waiting)
        before, accumulator = waiting.counts, waiting.read()
        waiting.counts = self._count.add_input(accumulator, parts)
        if waiting.own and isinstance(before, CountsOnDisk):
            Path(before.path).unlink()
        size = _size(waiting.counts)
        if size >= _SMALL:
            self._sizes[waiting] = size
            self._bytes += size
        while self._bytes > _IN_MEMORY and len(self._sizes) > 1:
            oldest = next(iter(self._sizes))
            self._to_disk(oldest)
            oldest.own = True
        return waiting

    def compact(self, waiting: WaitingCount, *_: object) -> WaitingCount:
        """The same on disk, unless it is small.

        Raises:
            LdpError: the disk is full, or may not be written to.
        """
        self._to_disk(waiting)
        waiting.own = False
        return waiting

    def merge_accumulators(self, accumulators: Iterable[WaitingCount], *_: object) -> WaitingCount:
        """The sum, in a fresh accumulator, on disk unless it is small; one that is alone is its own sum.

        Raises:
            LdpError: the disk is full, or may not be written to; a file is not as it was written.
        """
        some = [each for each in accumulators if each.counts is not None]
        if len(some) == 1 and isinstance(some[0].counts, CountsOnDisk):
            return WaitingCount(some[0].counts)
        # One after the other: there are two in memory at a time.
        return self.compact(WaitingCount(self._count.merge_accumulators(each.read() for each in some)))

    def extract_output(self, waiting: WaitingCount, *_: object) -> Accumulated | CountsOnDisk | None:
        """The accumulator, or where it is; the next stage turns it into support per value.

        Raises:
            LdpError: the disk is full, or may not be written to.
        """
        counts = self.compact(waiting).counts
        return counts if isinstance(counts, CountsOnDisk) else self._count.extract_output(counts)

    def get_accumulator_coder(self) -> WaitingCoder:
        """Places of files, and small accumulators as they are."""
        return WaitingCoder()

    def _let_go(self, waiting: WaitingCount) -> None:
        self._bytes -= self._sizes.pop(waiting, 0)

    def _to_disk(self, waiting: WaitingCount) -> None:
        self._let_go(waiting)
        counts = waiting.counts
        if not (counts is None or isinstance(counts, CountsOnDisk) or _size(counts) < _SMALL):
            waiting.counts = self._written(counts)

    def _written(self, accumulator: Accumulated) -> CountsOnDisk:
        encoded = _CODER.encode(accumulator)
        path = f"{self._folder}/{secrets.token_hex(8)}"
        with disk_errors(path):
            os.makedirs(self._folder, mode=0o700, exist_ok=True)  # noqa: PTH103 - Beam paths are text
            with open(path, "xb", opener=_private) as file:
                file.write(encoded)
        return CountsOnDisk(path, accumulator.reports, zlib.crc32(encoded))


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _size(accumulator: Accumulated | None) -> int:
    """Bytes of memory, about."""
    if isinstance(accumulator, UncountedReports):
        return accumulator.nbytes
    return 0 if accumulator is None else accumulator.counts.nbytes + accumulator.signs.nbytes
