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

_TINY = 1e-300
_ONE = np.int64(1023 << 52)
"""The bits of 1.0; those of x less these are about 2**52 times its logarithm to base 2."""

_OVER = 1.0 / np.arange(1, _ORDER + 1)


@kernel
def _expand(at: Any, counts: Any, reports: Any, a: Any, scratch: Any, reach: Any) -> None:
    """Taylor coefficients a[1:, w] of p(at[w] − s), where p = a[0, w] at s = 0, and how far they reach.

    With u = p² the equation is (c t p)' and half ((n − c − n t) u)' without derivatives of products of
    unknowns: c t·p' + (n − c − n t)·u'/2 = u − p. A coefficient then follows from one sum of products.

    Args:
        at, counts, reports: float64 (4,): split, c and n of each walk, 1 <= c < n.
        a: float64 (order + 1, 4); a[0] in (0, 1), the rest written.
        scratch: float64 (3, 4), overwritten.
        reach: float64 (4,), written: up to which s the series is exact up to rounding, within a few percent.
    """
    inverse, q, square = scratch[0], scratch[1], scratch[2]
    for w in range(_SIDE):
        q[w] = reports[w] - counts[w] - reports[w] * at[w]
        inverse[w] = 1.0 / (counts[w] * at[w] + q[w] * a[0, w])
        square[w] = a[0, w] * a[0, w]
    for k in range(_ORDER):
        # Half of the coefficient k + 1 of u, but for the two terms with a[0].
        half0, half1, half2, half3 = 0.0, 0.0, 0.0, 0.0
        for i in range(1, k // 2 + 1):
            j = k + 1 - i
            half0 += a[i, 0] * a[j, 0]
            half1 += a[i, 1] * a[j, 1]
            half2 += a[i, 2] * a[j, 2]
            half3 += a[i, 3] * a[j, 3]
        if k % 2 == 1:
            i = (k + 1) // 2
            half0 += 0.5 * a[i, 0] * a[i, 0]
            half1 += 0.5 * a[i, 1] * a[i, 1]
            half2 += 0.5 * a[i, 2] * a[i, 2]
            half3 += 0.5 * a[i, 3] * a[i, 3]
        for w, half in enumerate((half0, half1, half2, half3)):
            right = (1.0 + k * counts[w]) * a[k, w] - (1.0 + 0.5 * k * reports[w]) * square[w]
            a[k + 1, w] = (right * _OVER[k] - q[w] * half) * inverse[w]
            square[w] = 2.0 * (a[0, w] * a[k + 1, w] + half)
    _reach(a, scratch, reach)


@inlined
def _reach(a: Any, scratch: Any, reach: Any) -> None:
    """Where the last terms are small; of the last two coefficients one can vanish by chance."""
    other = scratch[0]
    for w in range(_SIDE):
        small = _ROUNDING * a[0, w]
        reach[w] = small / max(abs(a[_ORDER, w]), _TINY)
        other[w] = small / max(abs(a[_ORDER - 1, w]), _TINY)
    # Roots by dividing logarithms, which the bits of a float are: wrong by at most 6 %.
    bits, other_bits = reach.view(np.int64), other.view(np.int64)
    for w in range(_SIDE):
        bits[w] = _ONE + (bits[w] - _ONE) // _ORDER
        other_bits[w] = _ONE + (other_bits[w] - _ONE) // (_ORDER - 1)
        reach[w] = min(reach[w], other[w])


@inlined
def _value(a: Any, w: Any, step: Any) -> Any:
    """The series of a walk at ``step``: even and odd terms beside each other."""
    even, odd, square = 0.0, 0.0, step * step
    for k in range(_ORDER, 0, -2):
        even = even * square + a[k, w]
        odd = odd * square + a[k - 1, w]
    return even * square + a[0, w] + odd * step


@kernel
def blocks(folded: Any, reports: Any, begins: Any, ends: Any) -> Any:
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
def _log_target(target: Any, tails: Any) -> Any:
    """Logarithm of 1 less the target: 1 − α for a lower limit, α for an upper one."""
    if target < tails.size:
        return math.log1p(-tails[target])
    return math.log(tails[target - tails.size])


@kernel
def limits_of_none(folded: Any, reports: Any, rest: Any, tails: Any, out: Any) -> None:
    """Limits of count 0, where (1 − t)·(1 − p)^n is 1 − α and α; 0 where no p is that small.

    Args:
        rest: float64 (k,), 1 − t, with the digits that t beside 1 has lost.
        folded, reports, tails, out: as of :func:`limits`; what others write is left alone.
    """
    for target in range(out.shape[0]):
        known = _log_target(target, tails)
        for v in range(folded.size):
            if folded[v] == 0:
                # A split of 1 leaves 0.
                out[target, v] = max(
                    -math.expm1((known - math.log(max(rest[v], 2.0**-60))) / reports[v]), 0.0
                )


@inlined
def _stop(folded: Any, ties: Any, place: Any, end: Any, count: Any, until: Any) -> Any:
    """The first value from ``place`` on that a walk at ``count`` does not pass above the split ``until``."""
    while place < end and folded[place] == count and (ties[place] > until or until == 0.0):
        place += 1
    return place


@kernel
def limits(
    begins: Any, ends: Any, folded: Any, reports: Any, ties: Any, tails: Any, anchors: Any, out: Any
) -> None:
    """out[i, v] = the p with P(X > c) + t·P(X = c) = target i, for X ~ B(n, p), c = folded[v] and so on.

    What is found for a value does not depend on the others: each walk is its own, from its block's begin.

    Args:
        begins, ends: int64 (blocks,), as :func:`blocks` writes them.
        folded, reports: int64 (k,), 0 <= c <= n/2, by n and then by c.
        ties: float64 (k,), the splits t, in [0, 1], falling where n and c are the same.
        tails: float64 (levels,), tail areas α; the targets are every α, then every 1 − α.
        anchors: float64 (targets, blocks), the limit of P(X >= j), j being the multiple of ``BLOCK`` at or
            below the block's counts; anything where that is 0.
        out: float64 (targets, k), written where c is above 0.
    """
    targets, begun, going = out.shape[0], 0, 0
    a, scratch, reach = np.full((_ORDER + 1, _SIDE), 0.5), np.ones((3, _SIDE)), np.ones(_SIDE)
    at, count, n, last = np.ones(_SIDE), np.ones(_SIDE), np.full(_SIDE, 2.0), np.ones(_SIDE)
    # Which target a walk seeks, -1 for none; the first value that it has not passed; where its block ends.
    walk, first, end = np.full(_SIDE, -1), np.zeros(_SIDE, np.int64), np.zeros(_SIDE, np.int64)
    while True:
        for w in range(_SIDE):
            if walk[w] < 0 and begun < targets * begins.size:
                block, walk[w] = begun // targets, begun % targets
                first[w], end[w], at[w] = begins[block], ends[block], 1.0
                least = folded[first[w]] // BLOCK * BLOCK
                n[w], count[w], last[w] = reports[first[w]], max(least, 1), folded[end[w] - 1]
                if least > 0:
                    a[0, w] = anchors[walk[w], block]
                else:
                    a[0, w] = -math.expm1(_log_target(walk[w], tails) / n[w])
                begun, going = begun + 1, going + 1
        if going == 0:
            return
        _expand(at, count, n, a, scratch, reach)
        for w in range(_SIDE):
            if walk[w] >= 0:
                step = reach[w] if reach[w] < at[w] else at[w]
                until = at[w] - step
                stop = _stop(folded, ties, first[w], end[w], count[w], until)
                row, begin = out[walk[w]], at[w]
                for v in range(first[w], stop):
                    row[v] = _value(a, w, begin - ties[v])
                a[0, w], at[w], first[w] = _value(a, w, step), until, stop
                if until == 0.0:
                    # At split 0 the limit is that of the next count at split 1.
                    count[w], at[w] = count[w] + 1.0, 1.0
                    if count[w] > last[w]:
                        walk[w], going = -1, going - 1
                        a[0, w] = 0.5


@kernel
def unsort(order: Any, turned: Any, ordered: Any, out: Any) -> None:
    """Put limits in their places; those of a turned count are the other limit, from the other end.

    Args:
        order: int64 (k,), which value each one is of.
        turned: bool (k,), by value.
        ordered: float64 (2·levels, k), lower limits and then upper ones, in that order.
        out: float64 (2·levels, k), written.
    """
    half = out.shape[0] // 2
    for level in range(half):
        for i in range(order.size):
            v = order[i]
            if turned[v]:
                out[level, v] = 1.0 - ordered[level + half, i]
                out[level + half, v] = 1.0 - ordered[level, i]
            else:
                out[level, v] = ordered[level, i]
                out[level + half, v] = ordered[level + half, i]
