"""Limits of a binomial probability, with the tie of the observed count split (Stevens, 1950).

Of a count c of n and a split t in (0, 1), the lower limit at a tail area α is the p with
P(X > c | p) + t·P(X = c | p) = α, the upper one that with 1 − α in its place. Both fall as t rises: from the
limits of Clopper and Pearson for c + 1 at t = 0 to those for c at t = 1.

At a given tail area, n·p is a smooth function of c, n and t, and hardly one of n. So polynomials stand for
it, each in a small cell, which is made when a value first falls into it, and kept. Epochs of one
collection need mostly the same ones (docs/decisions/0032-limits-by-cells.md).
"""

from __future__ import annotations

import os
import threading
from functools import cache, lru_cache
from itertools import groupby

import numpy as np

from ldpbeam.arrays import Floats, Ints
from ldpbeam.clopper_pearson import clopper_pearson
from ldpbeam.kernels import binomial as kernels
from ldpbeam.kernels._vectors import SIDE
from ldpbeam.kernels.binomial import COUNTS, EXACT, PARABOLA, REPORTS, SMALL, SPLITS

_PAIRS = 64
"""Pairs of tail areas of which cells are kept: attributes with as many values share one."""

_MOST = 1 << 13
"""Cells, of 2.2 KiB, with which those of a pair are forgotten and made anew; some 2,000 are usual."""

_TOGETHER = 1 << 11
"""Values for whose sake nothing is forgotten: they need some thirty thousand cells at most."""

_AT_ONCE = 256
"""Ranges that are made at once: about a MiB of limits."""

_ROWS = EXACT + (63 - 6) * 8
_COLUMNS = SMALL + (63 - 9) * 8
"""Numbers of reports, and counts, that are told apart: up to 64, or 512, each; then eighths of octaves."""

_FINEST = 40
"""Octaves of distances from a split of 0 or 1, at most: 34 for a count of 1 at a tail area of 1e-20."""

_WIDE = 7
"""Coefficients along the split of a range of counts; more of them would lose digits of large counts."""

_RARE, _MARGIN = 64, 24
"""So many reports for each support, and for so many more, and a parabola along them does."""


@cache
def _nodes(number: int) -> Floats:
    """Chebyshev's nodes in [-1, 1], falling."""
    return np.asarray(np.cos((np.arange(number) + 0.5) * np.pi / number), np.float64)


def _coefficients(values: Floats, axis: int) -> Floats:
    """Of the polynomials with these values at Chebyshev's nodes, along ``axis``.

    Sums term by term, so that a polynomial does not depend on what is made beside it.
    """
    along = np.moveaxis(values, axis, 0)
    inverse = np.linalg.inv(np.vander(_nodes(len(along)), increasing=True))
    rows = [sum(factor * value for factor, value in zip(row, along, strict=True)) for row in inverse]
    return np.moveaxis(np.stack(rows), 0, axis)


def _ends(index: Ints, exact: int) -> tuple[Floats, Floats]:
    """Where the ranges of these rows or columns begin and end: the same number where it is its own range."""
    octave, part = np.divmod(index - exact, 8)
    step = np.where(index < exact, 0.0, 0.125 * exact * 2.0**octave)
    begin = np.where(index < exact, index, (8 + part) * step)
    return begin, begin + step


def _splits(octaves: int) -> Floats:
    """Splits at the nodes of each cell of a count, (cells, splits): those near 0 and near 1 in turn.

    Of a distance d from 0 or 1, d + 2^-octaves is cut into halves of octaves, as by the kernel.
    """
    height = 0.5**octaves
    first, last = (
        np.float64(x).view(np.int64) >> kernels.HALVES for x in (height, np.nextafter(0.5 + height, 0))
    )
    edges = (np.arange(first, last + 2) << kernels.HALVES).view(np.float64) - height
    near = edges[:-1, None] + np.diff(edges)[:, None] * (_nodes(SPLITS) + 1) / 2
    return np.stack([near, 1 - near], 1).reshape(-1, SPLITS)


class Limits:
    """Limits at two tail areas. Threads take turns, for a few microseconds.

    Its table for :func:`ldpbeam.kernels.binomial.widen`, the four targets innermost:

    * ``places``, int64 (rows, columns): the first cell of a number of reports and a count, 0 for none, -1
      where it was asked for;
    * ``cells``, float64 (cells, 6, 10·4): coefficients of n·p along the number of reports and the split. A
      count below 512 has as many of them as :func:`_splits` has rows. A range of counts has six, its
      coefficients along the count;
    * ``settled``, int64 (cells, 2): for which number of reports the row of ``now`` is, 0 for none, and how
      many coefficients of a cell along the number of reports are not 0;
    * ``now``, float64 (cells, 10·4): coefficients along the split for one number of reports;
    * ``fixed``, float64 (3, 512): logarithms of 1 less the targets; and for each count 2^-octaves, and what
      a distance of 1/2 must stay below.
    """

    def __init__(self, tails: tuple[float, float]) -> None:
        """Tail areas below 1/2; from 1e-20 on, limits are right."""
        self._tails = np.array(tails)
        # The curve of a count is singular about α^(1/(c + 1)) beyond a split of 0 or 1: found by trying.
        octaves = np.floor(np.log2(1 / min(tails)) / (np.arange(SMALL) + 1) + 0.7)
        self._octaves = np.minimum(octaves, _FINEST).astype(np.int64)
        heights = 0.5**self._octaves
        self._fixed = np.zeros((3, SMALL))
        self._fixed[0, :SIDE] = *np.log1p(-self._tails), *np.log(self._tails)
        self._fixed[1:] = heights, np.nextafter(0.5 + heights, 0)
        self._missing = np.empty((2, _AT_ONCE), np.int64)
        self._turn = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._used = 1  # the first one is none
        self._places = np.zeros((_ROWS, _COLUMNS), np.int64)
        self._cells = _in_lines((self._used, REPORTS, SPLITS * SIDE))
        self._settled = np.zeros((self._used, 2), np.int64)
        self._now = _in_lines((self._used, SPLITS * SIDE))

    def widen(
        self,
        values: tuple[Ints, Ints, Floats],
        few: tuple[float, float],
        chances: tuple[float, float, float, float],
        found: Floats,
    ) -> None:
        """Move limits outwards to these, where counts are few; arguments as of the kernel."""
        size = values[0].size
        with self._turn:
            for begin in range(0, size, _TOGETHER):
                if self._used > _MOST:
                    self._forget()
                end, unknown = min(begin + _TOGETHER, size), -1
                while unknown:
                    table = self._places, self._cells, self._settled, self._now, self._fixed
                    unknown = kernels.widen(values, few, table, chances, self._missing, found, begin, end)
                    if unknown:
                        self._make_missing(unknown)

    def _make_missing(self, unknown: int) -> None:
        try:
            self._make(*self._missing[:, :unknown].copy())
        except BaseException:
            self._forget()  # what was asked for and not made would stay so, and its values without limits
            raise

    def _make(self, rows: Ints, columns: Ints) -> None:
        """Make the cells of these numbers of reports and counts."""
        octaves = np.where(columns < SMALL, self._octaves[np.minimum(columns, SMALL - 1)], -1)
        rare = _ends(rows, EXACT)[0] >= _RARE * (_ends(columns, SMALL)[0] + _MARGIN)
        nodes = np.where(rows < EXACT, 1, np.where(rare, PARABOLA, REPORTS))
        kinds = list(zip(octaves.tolist(), nodes.tolist(), strict=True))
        for kind, places in groupby(sorted(range(rows.size), key=kinds.__getitem__), key=kinds.__getitem__):
            some = np.fromiter(places, np.int64)
            self._add(rows[some], columns[some], *kind)

    def _add(self, rows: Ints, columns: Ints, octaves: int, nodes: int) -> None:
        """The same where all are cut alike: ``octaves`` is -1 for ranges of counts."""
        least, most = (end[:, None] for end in _ends(columns, SMALL))
        if octaves < 0:
            counts = least + (most - least) * (_nodes(COUNTS) + 1) / 2
            splits = (_nodes(_WIDE) + 1)[None] / 2
        else:
            counts, splits = least, _splits(octaves)
        first, last = (end[:, None] - least / 2 for end in _ends(rows, EXACT))
        if nodes == 1:
            reports = first + least / 2
        else:
            reports = 2 * first * last / ((last - first) * _nodes(nodes) + last + first) + least / 2
        shape = rows.size, counts.shape[1], reports.shape[1]
        count, n = (
            np.broadcast_to(side, shape).flatten() for side in (counts[:, :, None], reports[:, None, :])
        )
        order = np.argsort(-splits.ravel(), kind="stable")
        curves = np.empty((count.size, order.size, SIDE))
        begins = clopper_pearson(count, n, self._tails)
        scratch = np.empty(kernels.COEFFICIENTS)
        kernels.curves(count, n, begins, splits.ravel()[order], kernels.OVER, scratch, curves)
        limits = np.empty_like(curves)
        limits[:, order] = curves * n[:, None, None]
        # Ranges; counts; reports; cells; splits; targets.
        found = _coefficients(limits.reshape(*shape, *splits.shape, SIDE), 4)
        made = np.zeros((*shape[:2], REPORTS, len(splits), SPLITS, SIDE))
        made[:, :, :nodes, :, : splits.shape[1]] = _coefficients(found, 2)
        if octaves < 0:
            made = _coefficients(made, 1)
        each = counts.shape[1] * len(splits)
        self._keep(made.transpose(0, 1, 3, 2, 4, 5).reshape(-1, REPORTS, SPLITS * SIDE), nodes)
        self._places[rows, columns] = self._used - each * np.arange(rows.size, 0, -1)

    def _keep(self, cells: Floats, order: int) -> None:
        begin, self._used = self._used, self._used + len(cells)
        if self._used > len(self._cells):
            room = 2 * self._used
            self._cells = _longer(self._cells, room)
            self._settled = np.concatenate(
                [self._settled, np.zeros((room - len(self._settled), 2), np.int64)]
            )
            self._now = _longer(self._now, room)
        self._cells[begin : self._used] = cells
        self._settled[begin : self._used] = 0, order


def _in_lines(shape: tuple[int, ...]) -> Floats:
    """An empty array that begins with a line of the cache: vectors in rows of whole lines lie in one each."""
    size, line = int(np.prod(shape)), 64 // 8
    held = np.empty(size + line)
    begin = -held.ctypes.data // 8 % line
    return held[begin : begin + size].reshape(shape)


def _longer(array: Floats, length: int) -> Floats:
    """A copy with room for more rows."""
    copy = _in_lines((length, *array.shape[1:]))
    copy[: len(array)] = array
    return copy


@lru_cache(maxsize=_PAIRS)
def limits(tails: tuple[float, float]) -> Limits:
    """What this process knows about a pair of tail areas."""
    return Limits(tails)


# A lock that a thread holds while another one forks would stay locked in the child.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=limits.cache_clear)
