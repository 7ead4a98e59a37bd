"""The estimates of one attribute over several epochs: in memory, or in files where they are too many.

What is worked out of a series is worked out in pieces of some values over all epochs, or in blocks of some
epochs over all values, so that memory depends neither on how many epochs nor on how many values there are.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from ldpbeam.arrays import Flags, Floats, Ints

CELLS = 1 << 19
"""Estimates that are worked on at once: formulas make some twenty arrays of them."""

HELD = 1 << 22
"""Estimates of an attribute that are held in memory; with their errors they take 96 MiB."""


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
    basis: Series | None = None

    def __post_init__(self) -> None:
        """Raises ValueError for arrays that do not fit, or epochs that do not rise."""
        shape = (len(self.epochs), self.estimate.shape[-1])
        if not self.n.shape == self.estimate.shape == self.std_error.shape == shape:
            raise ValueError(f"a series of {shape[0]} epochs needs arrays of that many rows, all alike")
        if (np.diff(self.epochs) <= 0).any():
            raise ValueError("the epochs of a series must rise")

    @property
    def width(self) -> int:
        return int(self.estimate.shape[-1])

    @property
    def known(self) -> Flags:
        """Where there is an estimate with its error, (T, k)."""
        return np.isfinite(self.estimate) & np.isfinite(self.std_error) & (self.n > 0)

    def rows(self, where: Flags | slice) -> Series:
        """Some of the epochs; of such as follow one another nothing is copied."""
        if not isinstance(where, slice):
            places = np.flatnonzero(where)
            if places.size and places[-1] - places[0] + 1 == places.size:
                where = slice(places[0], places[-1] + 1)
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


SeriesRow = tuple[Ints, Floats, Floats]
"""Reports, estimates and standard errors of one epoch, (k,) each."""


def series_of(epochs: Ints, rows: Iterable[SeriesRow], width: int) -> Series:
    shape = len(epochs), width
    made = Series(epochs, *(_array(kind, shape) for kind in (np.int64, np.float64, np.float64)))
    for place, (n, estimate, std_error) in enumerate(rows):
        made.n[place], made.estimate[place], made.std_error[place] = n, estimate, std_error
    return made


def _array(kind: type[Any], shape: tuple[int, int]) -> Any:
    """In memory up to :data:`HELD` cells, otherwise in a temporary file, which is gone with it."""
    cells = shape[0] * shape[1]
    if cells <= HELD:
        return np.empty(shape, kind)
    with tempfile.TemporaryFile() as file:
        if hasattr(os, "posix_fallocate"):  # else a full disk ends the process, and macOS has no such call
            os.posix_fallocate(file.fileno(), 0, cells * np.dtype(kind).itemsize)
        return np.memmap(file, kind, "r+", shape=shape)


def joined(first: Series, second: Series) -> Series:
    """Two series of the same values and of different epochs as one."""
    epochs = np.concatenate([first.epochs, second.epochs])
    order = np.argsort(epochs)
    rows = [row for one in (first, second) for row in zip(one.n, one.estimate, one.std_error, strict=True)]
    made = series_of(epochs[order], (rows[place] for place in order), first.width)
    if first.basis is None or second.basis is None:
        return made
    return replace(made, basis=joined(first.basis, second.basis))


def _cut(length: int, other: int) -> Iterator[slice]:
    """Slices of so many cells at most that together are the whole length, at least one."""
    step = max(CELLS // max(other, 1), 1)
    for begin, end in pairwise([*range(0, max(length, 1), step), length]):
        yield slice(begin, end)
