"""Kernel of binomial limits with a split tie: each limit, as a function of the split, followed from its ends.

With S(p) = P(X > c | p) and m(p) = P(X = c | p) for X ~ B(n, p), the limit p(t) solves S(p) + t·m(p) = target
for a split t in [0, 1]. Since S' = m (n − c)/(1 − p) and m'/m = c/p − (n − c)/(1 − p), differentiating along
t eliminates both:

    p'·[c t + p (n − c − n t)] = −p (1 − p),

a differential equation of polynomials only. At t = 0 and at t = 1 the limit is a quantile of a beta
distribution. From the nearer of the two, Taylor series whose coefficients follow from the equation lead to
every other t: some steps serve all values with the same count, and a value costs one polynomial per limit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldpbeam.kernels._jit import kernel

_ORDER = 16
_PIECES = 64
_HALF = 0.5
_ROUNDING = 1e-15
"""The last term of a series at the end of its piece, relative to the limit."""


@kernel
def _expand(t: Any, count: Any, n: Any, a: Any, e: Any) -> Any:
    """Taylor coefficients a[1:] of p about ``t``, where p = a[0], and how far they reach.

    With E = c t + p (n − c − n t), coefficients e, the equation E·p' = p² − p is solved order by order.

    Args:
        t: split, 0 .. 1.
        count, n: float64, 1 <= count < n.
        a, e: float64 (order + 1,); a[0] in (0, 1), the rest written.

    Returns:
        Distance from ``t`` on either side within which the series is exact up to rounding.
    """
    order = a.size - 1
    q = n - count - n * t
    e[0] = count * t + q * a[0]
    for k in range(order):
        if k > 0:
            e[k] = q * a[k] - n * a[k - 1] + (count if k == 1 else 0.0)
        right = -a[k]
        for i in range(k + 1):
            right += a[i] * a[k - i]
        for i in range(1, k + 1):
            right -= e[i] * ((k - i + 1) * a[k - i + 1])
        a[k + 1] = right / (e[0] * (k + 1))
    # Of the last two coefficients one can vanish by chance.
    reach = 2.0
    for k in range(order - 1, order + 1):
        if a[k] != 0.0:
            reach = min(reach, (_ROUNDING * a[0] / abs(a[k])) ** (1.0 / k))
    return reach


@kernel
def _follow(side: Any, count: Any, n: Any, away: Any, a: Any, e: Any, series: Any, places: Any) -> Any:
    """Write the next series of a limit: as many as there is room for, or as lead to a split of one half.

    Args:
        side: 0 to go from split 0 up, 1 from split 1 down.
        count, n: as for :func:`_expand`.
        away: distance from where the side began; a[0] is the limit there, and moves on.
        a, e: scratch of :func:`_expand`.
        series: float64 (pieces, order + 1), written.
        places: float64 (pieces + 1,), where the pieces begin and the last one ends, written.

    Returns:
        How many pieces there are.
    """
    pieces = 0
    while pieces < series.shape[0] and away < _HALF:
        reach = min(_expand(away if side == 0 else 1.0 - away, count, n, a, e), _HALF - away)
        for k in range(a.size):
            series[pieces, k] = a[k]
        places[pieces] = away
        away += reach
        a[0] = _value(series, pieces, reach if side == 0 else -reach)
        pieces += 1
    places[pieces] = away
    return pieces


@kernel
def _value(series: Any, piece: Any, step: Any) -> Any:
    """The polynomial with the coefficients of a row at ``step``."""
    there = 0.0
    for k in range(series.shape[1] - 1, -1, -1):
        there = there * step + series[piece, k]
    return there


@kernel
def _piece_of(away: Any, pieces: Any, places: Any) -> Any:
    """The first of the pieces, as :func:`_follow` wrote them, that does not end before ``away``."""
    first, last = 0, pieces - 1
    while first < last:
        middle = (first + last) // 2
        if places[middle + 1] < away:
            first = middle + 1
        else:
            last = middle
    return first


@kernel
def limits(anchored: Any, firsts: Any, order: Any, counts: Any, reports: Any, ties: Any, out: Any) -> None:
    """out[i, v] = the p with P(X > c) + t·P(X = c) = target i, for X ~ B(n, p), c = counts[v] and so on.

    Values are grouped by their anchor j, the limit of P(X >= j): that is count j at split 1 and count j − 1
    at split 0. Members above one half have the count j, the others j − 1. What is found for a value does not
    depend on the other members.

    Args:
        anchored: float64 (targets, groups), the limits of P(X >= j) of every group.
        firsts: int64 (groups + 1,), where in ``order`` each group begins.
        order: int64 (m,), the values, group by group.
        counts, reports: int64 (k,), 1 <= counts < reports.
        ties: float64 (k,), the splits, in [0, 1].
        out: float64 (targets, k), written for the values in ``order``.
    """
    a, e = np.empty(_ORDER + 1), np.empty(_ORDER + 1)
    series, places = np.empty((_PIECES, _ORDER + 1)), np.empty(_PIECES + 1)
    # Every group twice: its side that begins at split 0, and the one that begins at split 1.
    for half in range(2 * (firsts.size - 1)):
        group, side = half >> 1, half & 1
        one = -1
        for place in range(firsts[group], firsts[group + 1]):
            if (ties[order[place]] > _HALF) == (side == 1):
                one = order[place]
        for target in range(out.shape[0] if one >= 0 else 0):
            a[0] = anchored[target, group]
            away = 0.0
            while away < _HALF:
                pieces = _follow(
                    side, np.float64(counts[one]), np.float64(reports[one]), away, a, e, series, places
                )
                away = places[pieces]
                for place in range(firsts[group], firsts[group + 1]):
                    tie = ties[order[place]]
                    there = tie if side == 0 else 1.0 - tie
                    if (tie > _HALF) == (side == 1) and places[0] <= there <= away:
                        piece = _piece_of(there, pieces, places)
                        step = there - places[piece]
                        out[target, order[place]] = _value(series, piece, step if side == 0 else -step)
