"""Kernels of binomial limits with a split tie: curves along the split, and polynomials that stand for them.

With S(p) = P(X > c | p) and m(p) = P(X = c | p) for X ~ B(n, p), the limit p(t) solves S(p) + t·m(p) = target
for a split t in [0, 1]. Since S' = m (n − c)/(1 − p) and m'/m = c/p − (n − c)/(1 − p), differentiating along
t eliminates both:

    p'·[c t + p (n − c − n t)] = −p (1 − p),

a differential equation of polynomials only, which Taylor series solve from t = 1, where the limit is that of
P(X >= c). Nothing in it needs whole numbers, so n·p is a smooth function of c, n and t, and a polynomial
stands for it in each of many small cells (:mod:`ldpbeam.binomial` makes them).

The limits of one value at all targets, four, go side by side: each coefficient of a series, and each step of
a polynomial, waits for the one before.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ldpbeam.kernels._jit import copied, inlined, kernel
from ldpbeam.kernels._vectors import SIDE, along_rows, polynomial

_ORDER = 16
_ROUNDING = 1e-13
"""The last terms of a series at the end of its piece, relative to the limit."""

_SHORTEST = 1e-12
"""Reach of a series that something is wrong with: a curve ends in any case."""

_TINY = 1e-300
_BEFORE = 5.4
"""0.9**-16: makes the root of order 16 of what coefficient 15 gives about that of order 15, or less."""

COEFFICIENTS = _ORDER + 5, SIDE
"""Shape of the scratch of a curve: coefficients, and four rows for what is between."""
_INVERSE, _SQUARE, _HALF, _VALUE = range(_ORDER + 1, _ORDER + 5)

OVER = 1.0 / np.arange(1, _ORDER + 1)
"""Inverses of the orders. They are an argument, since loops of known length take long to compile."""


@inlined
def _expand(a: Any, over: Any, at: Any, count: Any, reports: Any) -> Any:
    """Taylor coefficients a[1:, w] of p(at − s), where p = a[0, w] at s = 0, and how far all of them reach.

    With u = p² the equation is c t·p' + (n − c − n t)·u'/2 = u − p: a coefficient is one sum of products.

    Args:
        a: float64 :data:`COEFFICIENTS`; a[0] in (0, 1), the rest written.
        over: :data:`OVER`.
        at, count, reports: split, c and n, 1 <= c < n.

    Returns:
        Up to which s the series are exact up to rounding.
    """
    q = reports - count - reports * at
    for w in range(SIDE):
        a[_INVERSE, w] = 1.0 / (count * at + q * a[0, w])
        a[_SQUARE, w] = a[0, w] * a[0, w]
    for k in range(over.size):
        # Half of the coefficient k + 1 of u, but for the two terms with a[0].
        middle, weight = (k + 1) // 2, 0.5 * (k % 2)
        for w in range(SIDE):
            a[_HALF, w] = weight * a[middle, w] * a[middle, w]
        for i in range(1, k // 2 + 1):
            for w in range(SIDE):
                a[_HALF, w] += a[i, w] * a[k + 1 - i, w]
        for w in range(SIDE):
            right = (1.0 + k * count) * a[k, w] - (1.0 + 0.5 * k * reports) * a[_SQUARE, w]
            a[k + 1, w] = (right * over[k] - q * a[_HALF, w]) * a[_INVERSE, w]
            a[_SQUARE, w] = 2.0 * (a[0, w] * a[k + 1, w] + a[_HALF, w])
    reach = 1.0
    for w in range(SIDE):
        # Of the last two coefficients one can vanish by chance.
        last = max(abs(a[_ORDER, w]), _BEFORE * abs(a[_ORDER - 1, w]), _TINY)
        reach = min(reach, _ROUNDING * a[0, w] / last)
    return math.sqrt(math.sqrt(math.sqrt(math.sqrt(reach))))


@kernel
def curves(counts: Any, reports: Any, begins: Any, splits: Any, over: Any, a: Any, out: Any) -> None:
    """out[i, j, w] = the p with P(X > c) + t·P(X = c) = target w, for X ~ B(n, p) with counts[i] and so on.

    Args:
        counts, reports: float64 (curves,), 1 <= c < n.
        begins: float64 (curves, 4), the limits of P(X >= c).
        splits: float64 (m,), in [0, 1], falling.
        over: :data:`OVER`.
        a: float64 :data:`COEFFICIENTS`, scratch.
        out: float64 (curves, m, 4).
    """
    for i in range(counts.size):
        at, until, place = 1.0, 1.0, 0
        for w in range(SIDE):
            a[0, w] = begins[i, w]
        while place < splits.size:
            if until == at:
                reach = _expand(a, over, at, counts[i], reports[i])
                until = max(at - reach, 0.0) if reach > _SHORTEST else 0.0
            wanted = splits[place] >= until
            step = at - (splits[place] if wanted else until)
            for w in range(SIDE):
                a[_VALUE, w] = a[_ORDER, w]
            for k in range(over.size - 1, -1, -1):
                for w in range(SIDE):
                    a[_VALUE, w] = a[_VALUE, w] * step + a[k, w]
            for w in range(SIDE):
                if wanted:
                    out[i, place, w] = a[_VALUE, w]
                else:
                    a[0, w] = a[_VALUE, w]
            if wanted:
                place += 1
            else:
                at = until


SMALL = 512
"""Counts below it have cells of their own; from it on, a cell spans a range of counts."""

EXACT = 64
"""Numbers of reports below it have cells of their own; from it on, a cell spans a range of them."""

SPLITS, REPORTS, COUNTS = 10, 6, 6
"""Coefficients of a cell along split and number of reports, and along the count where it spans some."""

PARABOLA = 3
"""Coefficients along the number of reports where that is so large, or so small, that the others are 0."""

# A range is an eighth of an octave, and a cell half an octave of splits: what the first bits of a number say.
EIGHTHS, HALVES = 52 - 3, 52 - 1
"""Bits behind those that tell which part of which octave a number lies in."""
_MANTISSA = (1 << 52) - 1
_ROWS_FROM = (1023 + 6) * 8 - EXACT
_COLUMNS_FROM = (1023 + 9) * 8 - SMALL

_along_splits = polynomial(SPLITS)
_along_reports = along_rows(SPLITS * SIDE, REPORTS)
_few_along_reports = along_rows(SPLITS * SIDE, PARABOLA)


@copied
def _part(number: Any, shift: Any) -> Any:
    """Which part of an octave a number lies in, where that begins, and where in it, from -1 to 1."""
    bits = np.float64(number).view(np.int64)
    part = bits >> shift
    rest = np.float64(bits - (part << shift)) / np.float64(1 << (shift - 1))
    return part, np.int64(part << shift).view(np.float64), rest - 1.0


@copied
def _row(n: Any) -> Any:
    """The row of a number of reports, and where its range begins and ends."""
    if n < EXACT:
        return n, (1.0 * n, n + 1.0)
    eighth, begin, _ = _part(n, EIGHTHS)
    octave = np.int64(np.float64(n).view(np.int64) & ~_MANTISSA).view(np.float64)
    return eighth - _ROWS_FROM, (begin, begin + 0.125 * octave)


@copied
def _column(c: Any) -> Any:
    """The column of a count, where its range begins, and where in it the count lies, from -1 to 1."""
    if c < SMALL:
        return c, 1.0 * c, 0.0
    eighth, begin, z = _part(c, EIGHTHS)
    return eighth - _COLUMNS_FROM, begin, z


@copied
def _without(n: Any, rest: Any, known: Any) -> Any:
    """n·p where n·log(1 − p) is ``rest`` less what is known; 0 where no p is that small."""
    return -n * math.expm1((rest - known) / n) if rest < known else 0.0


@copied
def _cell(t: Any, height: Any, side: Any) -> Any:
    """Which of a count's cells a split lies in, and where in it, from -1 to 1."""
    half, _, y = _part(min(min(t, 1.0 - t) + height, side), HALVES)
    return 2 * (half - _part(height, HALVES)[0]) + (t > 0.5), y


@copied
def _settle(table: Any, cell: Any, last: Any, n: Any, count: Any, ends: Any) -> None:
    """Coefficients along the split for one number of reports, of the cells from ``cell`` on."""
    _, cells, settled, now, _ = table
    # Along 1/(n − c/2) a limit is nearly a straight line: from 1 to -1 within the range of n.
    first, final = ends[0] - 0.5 * count, ends[1] - 0.5 * count
    x = (2.0 * first * final / (n - 0.5 * count) - (first + final)) / (ends[1] - ends[0])
    parabola = settled[cell, 1] <= PARABOLA
    for j in range(cell, cell + last + 1):
        if parabola:
            _few_along_reports(cells, j, x, now)
        else:
            _along_reports(cells, j, x, now)
    settled[cell, 0] = n


@kernel
def widen(
    values: Any, few: Any, table: Any, chances: Any, missing: Any, found: Any, begin: Any, end: Any
) -> Any:
    """Move limits outwards to those of a binomial test, where counts are few.

    Args:
        values: (support, reports, ties), int64, int64 and float64 (k,).
        few: share and bound: counts are few where the number of reports, times the share, is below the bound.
        table: (places, cells, settled, now, fixed), see :class:`ldpbeam.binomial.Limits`.
        chances: as of :func:`ldpbeam.kernels.intervals.estimates`.
        missing: int64 (2, m), written: rows and columns of ``places`` where cells are missing.
        found: float64 (6, k), as of that kernel; its last four rows are moved.
        begin, end: the values that are looked at.

    Returns:
        How many are missing; values that need them are left as they are.
    """
    support, reports, ties = values
    places, _, settled, now, fixed = table
    shift = chances[1] / chances[2]
    unknown, before = 0, -1
    asked, scale, row, ends = False, 0.0, 0, (0.0, 0.0)
    for v in range(np.uint64(begin), np.uint64(end)):
        n = reports[v]
        if n != before:
            before, asked, scale = n, n > 0 and n * few[0] < few[1], 1.0 / (n * chances[2])
            row, ends = _row(n)
        c, t = support[v], ties[v]
        if not asked or c < 0 or c > n:
            continue  # what is no count of n reports, a sum of cells that were made up, has no limits
        turned = 2 * c > n
        if turned:
            # Limits of the reports that do not support: small numbers keep their digits.
            c, t = n - c, 1.0 - t
        if c == 0:
            # (1 − t)·(1 − p)^n is 1 less the target.
            known = math.log(max(1.0 - t, 2.0**-60))
            p0, p1 = _without(n, fixed[0, 0], known), _without(n, fixed[0, 1], known)
            p2, p3 = _without(n, fixed[0, 2], known), _without(n, fixed[0, 3], known)
        else:
            column, least_count, z = _column(c)
            cell = places[np.uint64(row), np.uint64(column)]
            if cell <= 0:
                if cell == 0 and unknown < missing.shape[1]:
                    missing[0, unknown], missing[1, unknown] = row, column
                    places[row, column] = -1
                    unknown += 1
                continue
            last, y = COUNTS - 1, 2.0 * t - 1.0
            if c < SMALL:
                beyond, y = _cell(t, fixed[1, np.uint64(c)], fixed[2, np.uint64(c)])
                last, cell = 0, cell + beyond
            if settled[np.uint64(cell), 0] != n:
                _settle(table, cell, last, n, least_count, ends)
            p0, p1, p2, p3 = _along_splits(now, cell + last, y)
            for j in range(cell + last - 1, cell - 1, -1):
                q0, q1, q2, q3 = _along_splits(now, j, y)
                p0, p1, p2, p3 = p0 * z + q0, p1 * z + q1, p2 * z + q2, p3 * z + q3
        if turned:
            p0, p1, p2, p3 = n - p2, n - p3, n - p0, n - p1
        found[2, v] = min(found[2, v], p0 * scale - shift)
        found[3, v] = max(found[3, v], p2 * scale - shift)
        found[4, v] = min(found[4, v], p1 * scale - shift)
        found[5, v] = max(found[5, v], p3 * scale - shift)
    return unknown
