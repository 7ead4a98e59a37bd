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
from ldpbeam.kernels._vectors import SIDE, polynomial

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

EXACT = 16
"""Numbers of reports below it have cells of their own; from it on, a cell spans a range of them."""

SPLITS, REPORTS, COUNTS = 7, 6, 6
"""Coefficients of a cell along split and number of reports, and along the count where it spans some."""

PARABOLA, RARE, MARGIN = 3, 64, 24
"""Coefficients along the number of reports, where there are so many for each support and for so many more."""

# A range is an eighth of an octave: what the first bits of a number say, counted from 16, or 512, on.
SHIFT = 52 - 3
"""Bits behind those that tell which eighth of which octave a number lies in."""
_REST = (1 << SHIFT) - 1
_SCALE = 2.0 ** (1 - SHIFT)
_MANTISSA = (1 << 52) - 1
_ROWS_FROM = (1023 + 4) * 8 - EXACT
_COLUMNS_FROM = (1023 + 9) * 8 - SMALL

_along_parabola = polynomial(((SPLITS, 1), (PARABOLA, SPLITS)))
_along_all = polynomial(((SPLITS, 1), (REPORTS, SPLITS)))
"""n·p at the four targets, of the split and the number of reports."""


@copied
def _eighth(number: Any) -> Any:
    """Which eighth of an octave a number lies in, where that begins, and where in it, from -1 to 1."""
    bits = np.float64(number).view(np.int64)
    return bits >> SHIFT, np.int64(bits & ~_REST).view(np.float64), (bits & _REST) * _SCALE - 1.0


@copied
def _row(n: Any) -> Any:
    """The row of a number of reports, and where its range begins and ends."""
    if n < EXACT:
        return n, 1.0 * n, n + 1.0
    eighth, begin, _ = _eighth(n)
    octave = np.int64(np.float64(n).view(np.int64) & ~_MANTISSA).view(np.float64)
    return eighth - _ROWS_FROM, begin, begin + 0.125 * octave


@copied
def _column(c: Any) -> Any:
    """The column of a count, where its range begins, and where in it the count lies, from -1 to 1."""
    if c < SMALL:
        return c, 1.0 * c, 0.0
    eighth, begin, z = _eighth(c)
    return eighth - _COLUMNS_FROM, begin, z


@copied
def _without(n: Any, rest: Any, known: Any) -> Any:
    """n·p where n·log(1 − p) is ``rest`` less what is known; 0 where no p is that small."""
    return -n * math.expm1((rest - known) / n) if rest < known else 0.0


@copied
def _cell(t: Any, height: Any, side: Any) -> Any:
    """Which of a count's cells a split lies in, and where in it, from -1 to 1."""
    eighth, _, y = _eighth(min(min(t, 1.0 - t) + height, side))
    return 2 * (eighth - _eighth(height)[0]) + (t > 0.5), y


@copied
def _value(cells: Any, cell: Any, last: Any, parabola: Any, y: Any, x: Any, z: Any) -> Any:
    """n·p at the four targets, of the cells from ``cell`` on that are coefficients along the count."""
    if parabola:
        return _along_parabola(cells, cell, y, x)
    p0 = p1 = p2 = p3 = 0.0
    for j in range(last, -1, -1):
        q0, q1, q2, q3 = _along_all(cells, cell + j, y, x)
        p0, p1, p2, p3 = p0 * z + q0, p1 * z + q1, p2 * z + q2, p3 * z + q3
    return p0, p1, p2, p3


@kernel
def widen(
    values: Any, few: Any, table: Any, chances: Any, missing: Any, bounds: Any, begin: Any, end: Any
) -> Any:
    """Move limits outwards to those of a binomial test, where counts are few.

    Args:
        values: (support, reports, ties), int64, int64 and float64 (k,).
        few: share and bound: counts are few where the number of reports, times the share, is below the bound.
        table: (places, cells, rests, heights, sides), see :class:`ldpbeam.binomial.Limits`.
        chances: as of :func:`ldpbeam.kernels.intervals.estimates`.
        missing: int64 (2, m), written: rows and columns of ``places`` where cells are missing.
        bounds: (low, high), float64 (2, k), of frequencies.
        begin, end: the values that are looked at.

    Returns:
        How many are missing; values that need them are left as they are.
    """
    (support, reports, ties), (low, high) = values, bounds
    places, cells, rests, heights, sides = table
    shift = chances[1] / chances[2]
    found, before = 0, -1
    asked, scale, row, least, most = False, 0.0, 0, 0.0, 0.0
    for v in range(begin, end):
        n = reports[v]
        if n != before:
            before, asked, scale = n, n > 0 and n * few[0] < few[1], 1.0 / (n * chances[2])
            row, least, most = _row(n)
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
            p0, p1 = _without(n, rests[0], known), _without(n, rests[1], known)
            p2, p3 = _without(n, rests[2], known), _without(n, rests[3], known)
        else:
            column, least_count, z = _column(c)
            cell = places[row, column]
            if cell <= 0:
                if cell == 0 and found < missing.shape[1]:
                    missing[0, found], missing[1, found] = row, column
                    places[row, column] = -1
                    found += 1
                continue
            # Along 1/(n − c/2) a limit is nearly a straight line: from 1 to -1 within the range of n.
            first, final = least - 0.5 * least_count, most - 0.5 * least_count
            x = (2.0 * first * final / (n - 0.5 * least_count) - (first + final)) / (most - least)
            last, y = COUNTS - 1, 2.0 * t - 1.0
            if c < SMALL:
                beyond, y = _cell(t, heights[c], sides[c])
                last, cell = 0, cell + beyond
            rare = n < EXACT or least >= RARE * (least_count + MARGIN)
            parabola = last == 0 and rare
            p0, p1, p2, p3 = _value(cells, cell, last, parabola, y, x, z)
        if turned:
            p0, p1, p2, p3 = n - p2, n - p3, n - p0, n - p1
        low[0, v] = min(low[0, v], p0 * scale - shift)
        low[1, v] = min(low[1, v], p1 * scale - shift)
        high[0, v] = max(high[0, v], p2 * scale - shift)
        high[1, v] = max(high[1, v], p3 * scale - shift)
    return found
