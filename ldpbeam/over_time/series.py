"""The estimates of one attribute over several epochs: as arrays, or row by row where they are too many.

What is worked out of a series is worked out in pieces of some values over all epochs, or in blocks of some
epochs over all values, so that memory depends neither on how many epochs nor on how many values there are.
"""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, Protocol, overload

import numpy as np

from ldpbeam.arrays import Flags, Floats, Ints

CELLS = 1 << 19
"""Estimates that are worked on at once: formulas make some twenty arrays of them."""

HELD = 1 << 22
"""Estimates of an attribute that are held in memory; with their errors they take 96 MiB."""

_CELL = np.dtype([("n", "<i8"), ("estimate", "<f8"), ("std_error", "<f8")])


@dataclass(frozen=True, eq=False)
class Series:
    """One row per epoch, in rising order, and one column per value (a single one for a mean).

    Attributes:
        epochs: int64 (T,), indices.
        n: int64 (T, k), reports behind each estimate.
        estimate: float64 (T, k), raw ones; NaN where an epoch has none.
        std_error: float64 (T, k).
        basis: of all values, over the same epochs, whose sums the estimates are; None where the estimates are
            those of the values themselves. What errors depend on.
    """

    epochs: Ints
    n: Ints
    estimate: Floats
    std_error: Floats
    basis: AnySeries | None = None

    def __post_init__(self) -> None:
        """Raises ValueError for arrays that do not fit, or epochs that do not rise."""
        shape = (len(self.epochs), self.estimate.shape[-1])
        if not self.n.shape == self.estimate.shape == self.std_error.shape == shape:
            raise ValueError(f"a series of {shape[0]} epochs needs arrays of that many rows, all alike")
        _require_rising(self.epochs)

    @property
    def width(self) -> int:
        """Its number of columns."""
        return int(self.estimate.shape[-1])

    @property
    def known(self) -> Flags:
        """Where there is an estimate with its error, (T, k)."""
        return np.isfinite(self.estimate) & np.isfinite(self.std_error) & (self.n > 0)

    def rows(self, where: Flags | slice) -> Series:
        """Some of the epochs."""
        basis = None if self.basis is None else self.basis.rows(where)
        return Series(self.epochs[where], self.n[where], self.estimate[where], self.std_error[where], basis)

    def pieces(self) -> Iterator[Series]:
        """Some columns at a time, all epochs of them; sums, which are few, in one piece."""
        if self.basis is not None:
            yield self
            return
        for some in _cut(self.width, len(self.epochs)):
            yield replace(
                self, n=self.n[:, some], estimate=self.estimate[:, some], std_error=self.std_error[:, some]
            )

    def blocks(self) -> Iterator[Series]:
        """Some epochs at a time, all columns of them."""
        for some in _cut(len(self.epochs), self.width):
            yield self.rows(some)

    def frequencies(self) -> Iterator[Floats]:
        """What errors depend on, (some epochs, values), block after block; 0 where there is no estimate."""
        for block in (self if self.basis is None else self.basis).blocks():
            known = block.known
            if self.basis is not None:  # a sum is known where all values are
                known = np.asarray(known.all(axis=1))[:, None]
            yield np.where(known, block.estimate, 0.0)

    def average(self) -> Floats:
        """The mean of :meth:`frequencies` over the epochs that have them, (values,); 0 where none has."""
        if self.basis is None:
            number = self.known.sum(axis=0)
        else:
            number = sum(block.known.all(axis=1).sum() for block in self.basis.blocks())
        total = sum(row for block in self.frequencies() for row in block)
        return np.asarray(total / np.maximum(number, 1), np.float64)


class StoredSeries:
    """A series in a temporary file, which is deleted with it."""

    def __init__(self, epochs: Ints, sources: Sequence[_RowSource], width: int) -> None:
        """Of one source per epoch; see :func:`stored` and :func:`joined`."""
        _require_rising(epochs)
        self.epochs, self.width = epochs, width
        self._sources = sources

    def rows(self, where: Flags | slice) -> StoredSeries:
        """Some of the epochs."""
        places = np.arange(len(self.epochs))[where].tolist()
        return StoredSeries(self.epochs[where], [self._sources[place] for place in places], self.width)

    def pieces(self) -> Iterator[Series]:
        """Some columns at a time, all epochs of them."""
        for some in _cut(self.width, len(self.epochs)):
            yield self._read(self.epochs, self._sources, some)

    def blocks(self) -> Iterator[Series]:
        """Some epochs at a time, all columns of them."""
        for some in _cut(len(self.epochs), self.width):
            yield self._read(self.epochs[some], self._sources[some], slice(0, self.width))

    def _read(self, epochs: Ints, sources: Sequence[_RowSource], columns: slice) -> Series:
        n, estimate, std_error = zip(*(source.cells(columns) for source in sources), strict=True)
        return Series(epochs, np.stack(n), np.stack(estimate), np.stack(std_error))


AnySeries = Series | StoredSeries


class SeriesRow(NamedTuple):
    """One epoch of a series, (k,) each."""

    n: Ints
    estimate: Floats
    std_error: Floats

    def cells(self, columns: slice) -> SeriesRow:
        return SeriesRow(self.n[columns], self.estimate[columns], self.std_error[columns])


class _RowSource(Protocol):
    """One epoch, in memory or in a file."""

    def cells(self, columns: slice) -> SeriesRow:
        """Some of its columns."""


class _CellFile:
    """A temporary file of cells, row after row, which is gone when nobody reads it any more."""

    def __init__(self, width: int) -> None:
        self._file = tempfile.TemporaryFile("w+b")  # noqa: SIM115 - it is open as long as this object is there
        self._width = width
        weakref.finalize(self, self._file.close)

    def write(self, row: int, column: int, cells: SeriesRow) -> None:
        """Put cells in their place."""
        packed = np.empty(len(cells.n), _CELL)
        for name, numbers in zip(SeriesRow._fields, cells, strict=True):
            packed[name] = numbers
        self._file.seek((row * self._width + column) * _CELL.itemsize)
        self._file.write(packed.data)

    def read(self, row: int, columns: slice) -> SeriesRow:
        """Some cells of a row."""
        self._file.seek((row * self._width + columns.start) * _CELL.itemsize)
        size = (columns.stop - columns.start) * _CELL.itemsize
        packed = np.frombuffer(self._file.read(size), _CELL)
        return SeriesRow(*(np.ascontiguousarray(packed[name]) for name in SeriesRow._fields))

    def series(self, epochs: Ints) -> StoredSeries:
        """Its rows as a series."""
        sources = [_RowOfFile(self, row) for row in range(len(epochs))]
        return StoredSeries(epochs, sources, self._width)


@dataclass(frozen=True, eq=False)
class _RowOfFile:
    """One epoch in a file."""

    file: _CellFile
    row: int

    def cells(self, columns: slice) -> SeriesRow:
        return self.file.read(self.row, columns)


def series_of(epochs: Ints, rows: Iterator[SeriesRow], width: int, held: int = HELD) -> AnySeries:
    """A series of one row after the other: in memory up to so many estimates, otherwise in a temporary
    file."""
    if len(epochs) * width <= held:
        shape = len(epochs), width
        n, estimate, std_error = np.zeros(shape, np.int64), np.empty(shape), np.empty(shape)
        for place, row in enumerate(rows):
            n[place], estimate[place], std_error[place] = row
        return Series(epochs, n, estimate, std_error)
    file = _CellFile(width)
    for place, row in enumerate(rows):
        file.write(place, 0, row)
    return file.series(epochs)


@overload
def of_pieces(like: Series, pieces: Iterable[Series]) -> Series: ...
@overload
def of_pieces(like: AnySeries, pieces: Iterable[Series]) -> AnySeries: ...
def of_pieces(like: AnySeries, pieces: Iterable[Series]) -> AnySeries:
    """A series made of its columns, some at a time; in memory where one of its size is that was read."""
    if isinstance(like, Series):
        rows = list(pieces)
        n, estimate, std_error = (
            np.concatenate([getattr(piece, name) for piece in rows], axis=1) for name in SeriesRow._fields
        )
        return replace(like, n=n, estimate=estimate, std_error=std_error)
    file, column = _CellFile(like.width), 0
    for piece in pieces:
        for place, row in enumerate(zip(piece.n, piece.estimate, piece.std_error, strict=True)):
            file.write(place, column, SeriesRow(*row))
        column += piece.width
    return file.series(like.epochs)


def joined(first: AnySeries, second: AnySeries) -> AnySeries:
    """Two series of the same values and of different epochs as one."""
    epochs = np.concatenate([first.epochs, second.epochs])
    order = np.argsort(epochs)
    if isinstance(first, Series) and isinstance(second, Series):
        n, estimate, std_error = (
            np.concatenate([getattr(first, name), getattr(second, name)])[order] for name in SeriesRow._fields
        )
        basis = None
        if first.basis is not None and second.basis is not None:
            basis = joined(first.basis, second.basis)
        return Series(epochs[order], n, estimate, std_error, basis)
    sources = [*_sources(first), *_sources(second)]
    return StoredSeries(epochs[order], [sources[place] for place in order.tolist()], first.width)


def _sources(series: AnySeries) -> Sequence[_RowSource]:
    if isinstance(series, StoredSeries):
        return series._sources
    return [SeriesRow(*row) for row in zip(series.n, series.estimate, series.std_error, strict=True)]


def _cut(length: int, other: int) -> Iterator[slice]:
    """Slices of so many cells at most that together are the whole length, at least one."""
    step = max(CELLS // max(other, 1), 1)
    for begin, end in pairwise([*range(0, max(length, 1), step), length]):
        yield slice(begin, end)


def _require_rising(epochs: Ints) -> None:
    if (np.diff(epochs) <= 0).any():
        raise ValueError("the epochs of a series must rise")
