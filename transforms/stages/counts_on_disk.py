"""Beside stage 3: counts of epochs wait on this disk, so that a run's memory does not grow with its epochs.

A run in one process has the accumulators of all its epochs at once: in the table of the step that counts, in
the runner between two steps, and there once more where they meet their accounts. A large accumulator goes to
a file, and the place of the file goes on in its stead, until the epoch is estimated. Only for runners whose
steps share a disk.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apache_beam as beam

from ldpbeam.admission import Parts
from ldpbeam.support import Accumulated, Support, SupportCounter, UncountedReports

from ..coders import OptionalSupportCoder
from .support import CountSupportOfEach
from .waiting import Contents, FileReader, FileWriter, Place, SpillFile, WaitingCoder, WaitingValue

_CODER = OptionalSupportCoder()

_SMALL = 1 << 16
"""Bytes of an accumulator that stays in memory whatever happens: a file would cost more than it saves."""

_IN_MEMORY = 1 << 27
"""Bytes of accumulators that one step keeps in memory: less than estimating a million values takes."""


@dataclass(frozen=True)
class CountsOnDisk(Place):
    """Where an accumulator is: a file that is never changed."""

    file: SpillFile
    size: int
    checksum: int
    reports: int

    def read(self) -> Support | UncountedReports:
        """The accumulator, in fresh memory."""
        encoded = bytearray(self.size)
        with closing(FileReader()) as reader:
            reader.read(self.file, 0, memoryview(encoded), self.checksum)
        return _CODER.accumulated(memoryview(encoded).toreadonly())

    def counted(self, protocol: SupportCounter) -> Support:
        value = self.read()
        return value if isinstance(value, Support) else value.counted(protocol)


class WaitingCount(WaitingValue[Accumulated | CountsOnDisk | None]):
    """The accumulator of one key: in memory, or on disk, or nothing yet."""

    __slots__ = ("own",)

    def __init__(self, held: Accumulated | CountsOnDisk | None = None) -> None:
        super().__init__(held)
        self.own = False

    def read(self) -> Accumulated | None:
        """The accumulator, from wherever it is."""
        return self.held.read() if isinstance(self.held, CountsOnDisk) else self.held


class WaitingCountCoder(WaitingCoder):
    """:class:`WaitingCount` between steps, the accumulator in memory as narrow integers or payloads."""

    values, waiting = _CODER, WaitingCount


@beam.typehints.with_input_types(Parts)
@beam.typehints.with_output_types(Any)  # as of CountSupportOfEach
class CountWithSpill(beam.CombineFn):
    """:class:`CountSupportOfEach` with accumulators that wait on disk where they are large."""

    def __init__(self, count: CountSupportOfEach, folder: str) -> None:
        """``folder`` is local, made when it is needed; whoever runs the pipeline removes it."""
        self._count, self._folder = count, folder
        self._sizes: dict[WaitingCount, int] = {}  # bytes of each; what was used last comes last
        self._bytes = 0

    def create_accumulator(self, *_: object) -> WaitingCount:
        """An accumulator without reports, in memory."""
        return WaitingCount(self._count.create_accumulator())

    def add_input(self, waiting: WaitingCount, parts: Parts, *_: object) -> WaitingCount:
        """Count batches; the accumulator that was used longest ago goes to disk where there are too many."""
        self._let_go(waiting)
        before, accumulator = waiting.held, waiting.read()
        waiting.held = self._count.add_input(accumulator, parts)
        if waiting.own and isinstance(before, CountsOnDisk):
            Path(before.file.path).unlink()
        size = _size(waiting.held)
        if size >= _SMALL:
            self._sizes[waiting] = size
            self._bytes += size
        while self._bytes > _IN_MEMORY and len(self._sizes) > 1:
            oldest = next(iter(self._sizes))
            self._to_disk(oldest)
            oldest.own = True
        return waiting

    def compact(self, waiting: WaitingCount, *_: object) -> WaitingCount:
        self._to_disk(waiting)
        waiting.own = False
        return waiting

    def merge_accumulators(self, accumulators: Iterable[WaitingCount], *_: object) -> WaitingCount:
        """The sum, in a fresh accumulator, on disk unless it is small; one that is alone is its own sum."""
        some = [each for each in accumulators if each.held is not None]
        if len(some) == 1 and isinstance(some[0].held, CountsOnDisk):
            return WaitingCount(some[0].held)
        # One after the other: there are two in memory at a time.
        return self.compact(WaitingCount(self._count.merge_accumulators(each.read() for each in some)))

    def extract_output(self, waiting: WaitingCount, *_: object) -> Accumulated | CountsOnDisk | None:
        """The accumulator, or where it is; the next stage turns it into support per value."""
        counts = self.compact(waiting).held
        return counts if isinstance(counts, CountsOnDisk) else self._count.extract_output(counts)

    def get_accumulator_coder(self) -> WaitingCountCoder:
        """Places of files, and small accumulators as they are."""
        return WaitingCountCoder()

    def _let_go(self, waiting: WaitingCount) -> None:
        self._bytes -= self._sizes.pop(waiting, 0)

    def _to_disk(self, waiting: WaitingCount) -> None:
        self._let_go(waiting)
        counts = waiting.held
        if not (counts is None or isinstance(counts, CountsOnDisk) or _size(counts) < _SMALL):
            waiting.held = self._written(counts)

    def _written(self, accumulator: Accumulated) -> CountsOnDisk:
        encoded = _CODER.encode(accumulator)
        with closing(FileWriter(self._folder, Contents.COUNTS)) as writer:
            writer.write(memoryview(encoded))
        return CountsOnDisk(writer.file, len(encoded), zlib.crc32(encoded), accumulator.reports)


def _size(accumulator: Accumulated | None) -> int:
    """Bytes of memory, about."""
    if isinstance(accumulator, UncountedReports):
        return accumulator.nbytes
    return 0 if accumulator is None else accumulator.counts.nbytes + accumulator.signs.nbytes
