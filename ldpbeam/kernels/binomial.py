"""Kernel of binomial limits with a split tie: each limit, as a function of the split, followed over counts.

With S(p) = P(X > c | p) and m(p) = P(X = c | p) for X ~ B(n, p), the limit p(t) solves S(p) + t·m(p) = target
for a split t in [0, 1]. Since S' = m (n − c)/(1 − p) and m'/m = c/p − (n − c)/(1 − p), differentiating along
t eliminates both:

    p'·[c t + p (n − c − n t)] = −p (1 − p),

a differential equation of polynomials only, which Taylor series solve. P(X > c) = P(X >= c + 1), so the limit
of count c at split 0 is that of count c + 1 at split 1: one walk, from a limit that is known, passes all
splits of a count and goes on with the next count. A walk keeps S + t·m as it is: what rounding adds to that
sum at one count, it has at all later ones, and moves no limit by more than the same area would.

Four walks go side by side, since each coefficient of a series waits for the one before.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ldpbeam.kernels._jit import inlined, kernel

BLOCK = 12
"""Counts that one walk passes: less often a limit must be known, but a count costs those before it."""

_ORDER = 16
_SIDE = 4
_ROUNDING = 1e-13
"""The last terms of a series at the end of its piece, relative to the limit."""

_SHORTEST = 1e-12
"""Reach of a series that something is wrong with: a walk ends in any case."""

_TINY = 1e-300
_BEFORE = 5.4
"""0.9**-16: makes the root of order 16 of what coefficient 15 gives about that of order 15, or less."""

_OVER = 1.0 / np.arange(1, _ORDER + 1)

COEFFICIENTS = _ORDER + 1, _SIDE
"""Shape of the coefficients of all walks."""

NUMBERS = 9, _SIDE
"""Shape of what else walks have: split, count, n, last count of the block; reach; and four for scratch."""
_AT, _COUNT, _REPORTS, _LAST, _REACH, _INVERSE, _Q, _SQUARE, _HALF = range(9)

PLACES = 3, _SIDE
"""Shape of their targets, -1 for none, of the first values that they have not passed, and of blocks' ends."""
_TARGET, _FIRST, _END = range(3)


@inlined
def _expand(a: Any, walks: Any) -> None:
    """Taylor coefficients a[1:, w] of p(at − s), where p = a[0, w] at s = 0, and how far they reach.

    With u = p² the equation is c t·p' + (n − c − n t)·u'/2 = u − p: a coefficient is one sum of products.

    Args:
        a: float64 (order + 1, 4); a[0] in (0, 1), the rest written.
        walks: float64 :data:`NUMBERS`, with split, c and n of each walk, 1 <= c < n. Up to which s the series
            is exact up to rounding, is written.
    """
    for w in range(_SIDE):
        q = walks[_REPORTS, w] - walks[_COUNT, w] - walks[_REPORTS, w] * walks[_AT, w]
        walks[_INVERSE, w] = 1.0 / (walks[_COUNT, w] * walks[_AT, w] + q * a[0, w])
        walks[_Q, w] = q
        walks[_SQUARE, w] = a[0, w] * a[0, w]
    for k in range(_ORDER):
        # Half of the coefficient k + 1 of u, but for the two terms with a[0].
        middle, weight = (k + 1) // 2, 0.5 * (k % 2)
        for w in range(_SIDE):
            walks[_HALF, w] = weight * a[middle, w] * a[middle, w]
        for i in range(1, k // 2 + 1):
            for w in range(_SIDE):
                walks[_HALF, w] += a[i, w] * a[k + 1 - i, w]
        for w in range(_SIDE):
            half, square = walks[_HALF, w], walks[_SQUARE, w]
            right = (1.0 + k * walks[_COUNT, w]) * a[k, w] - (1.0 + 0.5 * k * walks[_REPORTS, w]) * square
            a[k + 1, w] = (right * _OVER[k] - walks[_Q, w] * half) * walks[_INVERSE, w]
            walks[_SQUARE, w] = 2.0 * (a[0, w] * a[k + 1, w] + half)
    for w in range(_SIDE):
        # Of the last two coefficients one can vanish by chance.
        last = max(abs(a[_ORDER, w]), _BEFORE * abs(a[_ORDER - 1, w]), _TINY)
        walks[_REACH, w] = math.sqrt(math.sqrt(math.sqrt(math.sqrt(_ROUNDING * a[0, w] / last))))


@inlined
def _value(a: Any, w: Any, step: Any) -> Any:
    """The series of a walk at ``step``: even and odd terms beside each other."""
    even, odd, square = 0.0, 0.0, step * step
    for k in range(_ORDER, 0, -2):
        even = even * square + a[k, w]
        odd = odd * square + a[k - 1, w]
    return even * square + a[0, w] + odd * step


@kernel
def find_blocks(folded: Any, reports: Any, begins: Any, ends: Any) -> Any:
    """begins[b] .. ends[b] = the values of block b: the same n, and up to ``BLOCK`` neighbouring counts.

    Values with count 0 are in none.

    Args:
        folded, reports: int64 (k,), by n and then by count.
        begins, ends: int64 (k,), written as far as needed.

    Returns:
        How many blocks there are.
    """
    found = 0
    for v in range(folded.size):
        if folded[v] > 0:
            new = v == 0 or folded[v - 1] == 0
            if new or reports[v] != reports[v - 1] or folded[v] // BLOCK != folded[v - 1] // BLOCK:
                begins[found] = v
                found += 1
            ends[found - 1] = v + 1
    return found


@inlined
def _stop(folded: Any, ties: Any, place: Any, end: Any, count: Any, until: Any) -> Any:
    """The first value from ``place`` on that a walk at ``count`` does not pass above the split ``until``."""
    while place < end and folded[place] == count and (ties[place] > until or until == 0.0):
        place += 1
    return place


@kernel
def limits(blocks: Any, values: Any, anchors: Any, scratch: Any, out: Any) -> None:
    """out[i, v] = the p with P(X > c) + t·P(X = c) = target i, for X ~ B(n, p), c = folded[v] and so on.

    What is found for a value does not depend on the others: each walk is its own, from its block's begin.

    Args:
        blocks: (begins, ends), int64 (blocks,), as :func:`find_blocks` writes them.
        values: (folded, reports, ties): int64 (k,), int64 (k,), float64 (k,); 0 <= c <= n/2, by n and then by
            c, and where both are the same, by splits t that fall, in [0, 1].
        anchors: float64 (targets, blocks), the limit of P(X >= j), j being the multiple of ``BLOCK`` at or
            below the block's counts, or 1 where that is 0.
        scratch: float64 :data:`COEFFICIENTS`, float64 :data:`NUMBERS`, int64 :data:`PLACES`.
        out: float64 (targets, k), written where c is above 0.
    """
    (begins, ends), (folded, reports, ties), (a, walks, places) = blocks, values, scratch
    targets, begun, going = out.shape[0], 0, 0
    for w in range(_SIDE):
        places[_TARGET, w] = -1
        # A walk that stands still is computed as well.
        a[0, w], walks[_AT, w], walks[_COUNT, w], walks[_REPORTS, w] = 0.5, 1.0, 1.0, 2.0
    while True:
        for w in range(_SIDE):
            if places[_TARGET, w] < 0 and begun < targets * begins.size:
                block, target = begun // targets, begun % targets
                first, end = begins[block], ends[block]
                least = folded[first] // BLOCK * BLOCK
                places[_TARGET, w], places[_FIRST, w], places[_END, w] = target, first, end
                walks[_AT, w], walks[_COUNT, w] = 1.0, max(least, 1)
                walks[_REPORTS, w], walks[_LAST, w] = reports[first], folded[end - 1]
                a[0, w] = anchors[target, block]
                begun, going = begun + 1, going + 1
        if going == 0:
            return
        _expand(a, walks)
        for w in range(_SIDE):
            if places[_TARGET, w] >= 0:
                begin, count = walks[_AT, w], walks[_COUNT, w]
                # None is that short at a tail area of 1e-20; one that is, or is not a number, is the last.
                step = min(walks[_REACH, w], begin) if walks[_REACH, w] > _SHORTEST else begin
                until = begin - step
                v, end = places[_FIRST, w], places[_END, w]
                row = out[places[_TARGET, w]]
                stop = _stop(folded, ties, v, end, count, until)
                for each in range(v, stop):
                    row[each] = _value(a, w, begin - ties[each])
                a[0, w], walks[_AT, w], places[_FIRST, w] = _value(a, w, step), until, stop
                if until == 0.0:
                    # At split 0 the limit is that of the next count at split 1.
                    walks[_COUNT, w], walks[_AT, w] = count + 1.0, 1.0
                    if count == walks[_LAST, w]:
                        places[_TARGET, w], going = -1, going - 1
                        a[0, w] = 0.5
