"""Stage 3 of a collection with slices: a row of counts for each combination of labels.

Rows are named by the digests that reports carry, so they still add up after the collection's file lists more
labels, or in another order. Reports of devices that said no slice, or not all dimensions, have rows too, as
have those that are stored with labels which the file no longer lists: these count in the whole alone.
"""

from __future__ import annotations

from collections.abc import Collection as Some
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldpbeam.arrays import Bytes, Ints, Uints, read_only
from ldpbeam.kernels import slices
from ldpbeam.support import Support, SupportCounter, narrowed

SLICE_BYTES = 8
"""Of the digest of its slice, behind each payload of a collection with slices."""


def with_slices(payloads: Bytes, digests: Uints) -> Bytes:
    """Payloads of a collection with slices as they are admitted, each with the digest that it came with.

    So whatever compares, sorts or stores payloads holds slices too, and an id in two slices is a conflict.

    Args:
        payloads: uint8 (n, payload_size).
        digests: uint64 (n,), of a slice each, or the collection's own where a device said none.

    Returns:
        uint8 (n, payload_size + 8).
    """
    n, width = payloads.shape
    rows = np.empty((n, width + SLICE_BYTES), np.uint8)
    slices.append(read_only(payloads), digests, rows, digests_in(rows))
    return read_only(rows)


def digests_in(rows: Bytes) -> Uints:
    """The digests behind payloads, uint64 (n,), where they are."""
    n, width = rows.shape
    return np.ndarray((n,), np.uint64, rows, width - SLICE_BYTES, (width,)) if n else np.zeros(0, np.uint64)


@dataclass(frozen=True)
class SliceCounter:
    """Counts what :func:`with_slices` gives, with the counter of a protocol."""

    each: SupportCounter
    combinations: int

    @property
    def counts_length(self) -> int:
        """Cells of all rows, which say when reports had better wait for a table."""
        return self.combinations * self.each.counts_length

    @property
    def signs_length(self) -> int:
        return self.each.signs_length

    def zero(self) -> SlicedSupport:
        cells, signs = self.each.counts_length, self.each.signs_length
        return SlicedSupport(*_no_rows(cells), np.zeros(signs, np.int64))


class SlicedSupport(Support):
    """Support by slice: a map from digests to rows of counts.

    Attributes:
        digests: uint64 (slices,), ascending, of the slices that were reported.
        rows: int64 (slices, cells).
        sizes: int64 (slices,), reports of each.
        signs: as of :class:`ldpbeam.support.Support`, of all reports.
    """

    __slots__ = ("digests", "rows", "sizes")

    def __init__(self, digests: Uints, rows: Ints, sizes: Ints, signs: Ints) -> None:
        """Own the given arrays: callers pass fresh ones."""
        super().__init__(rows.reshape(-1), int(sizes.sum()), signs)
        self.digests, self.rows, self.sizes = digests, rows, sizes

    def whole(self) -> Support:
        """All reports together."""
        return Support(self.rows.sum(axis=0), self.reports, self.signs)

    def of(self, digests: Some[int]) -> Support:
        """The reports of some slices together; what tells of forged ones is known of the whole alone."""
        chosen = np.isin(self.digests, np.array(list(digests), np.uint64))
        return Support(self.rows[chosen].sum(axis=0), int(self.sizes[chosen].sum()))

    def add(self, payloads: Bytes, counter: Any) -> SlicedSupport:
        """Count admitted payloads, uint8 (n, payload size + 8), into this one and return it."""
        digests = digests_in(payloads)
        found = np.empty(digests.size, np.int32)
        if slices.find(digests, *self._table(), found):
            self._include(np.unique(digests[found < 0]))
            slices.find(digests, *self._table(), found)
        ends = np.zeros(self.digests.size, np.int64)
        ordered = np.empty((digests.size, payloads.shape[1] - SLICE_BYTES), np.uint8)
        slices.arrange(read_only(payloads), found, ends, ordered)
        begin = 0
        for place, end in enumerate(ends.tolist()):
            if end > begin:
                counter.each.add_reports(read_only(ordered[begin:end]), self.rows[place], self.signs)
                self.sizes[place] += end - begin
            begin = end
        self.reports += digests.size
        return self

    def merge(self, other: Support) -> SlicedSupport:
        """Add another support of the same collection into this one and return it."""
        assert isinstance(other, SlicedSupport)  # noqa: S101 - a collection has slices or has none
        self._include(other.digests)
        at = np.searchsorted(self.digests, other.digests)
        self.rows[at] += other.rows
        self.sizes[at] += other.sizes
        self.signs += other.signs
        self.reports += other.reports
        return self

    def copy(self) -> SlicedSupport:
        return SlicedSupport(self.digests.copy(), self.rows.copy(), self.sizes.copy(), self.signs.copy())

    def _table(self) -> tuple[Uints, Any]:
        """Places by digest, as kernels look them up."""
        size = 1 << (4 * self.digests.size + 1).bit_length()
        keys, places = np.zeros(size, np.uint64), np.full(size, -1, np.int32)
        slices.enter(self.digests, keys, places)
        return keys, places

    def _include(self, digests: Uints) -> None:
        """Make rows of zeros for those of some digests that have none."""
        together = np.union1d(self.digests, digests)
        if together.size == self.digests.size:
            return
        at = np.searchsorted(together, self.digests)
        rows, sizes = (
            np.zeros((together.size, self.rows.shape[1]), np.int64),
            np.zeros(together.size, np.int64),
        )
        rows[at], sizes[at] = self.rows, self.sizes
        self.digests, self.rows, self.sizes = together, rows, sizes
        self.counts = rows.reshape(-1)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        cells = self.rows.shape[1]
        return _widened, (self.digests, narrowed(self.counts), cells, self.sizes, narrowed(self.signs))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SlicedSupport):
            return NotImplemented
        same = np.array_equal(self.digests, other.digests) and np.array_equal(self.sizes, other.sizes)
        return same and super().__eq__(other)

    __hash__ = None


def _no_rows(cells: int) -> tuple[Uints, Ints, Ints]:
    return np.zeros(0, np.uint64), np.zeros((0, cells), np.int64), np.zeros(0, np.int64)


def _widened(digests: Uints, counts: Any, cells: int, sizes: Ints, signs: Any) -> SlicedSupport:
    rows = counts.astype(np.int64).reshape(digests.size, cells)
    return SlicedSupport(digests, rows, sizes, signs.astype(np.int64))
