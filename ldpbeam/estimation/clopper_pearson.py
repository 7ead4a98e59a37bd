"""Limits of Clopper and Pearson (1934), from which an audit draws its bounds.

scipy's inverse of the incomplete beta function is wrong at a few arguments, by any amount: (1000, 9106) at
0.025 gives 0.25 in place of 0.105. So what it finds is looked at, and sought by halving where it is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ldpbeam.arrays import Floats

_WRONG = 1e-9
"""Relative error of a tail area from which on a limit is sought anew."""


def lower_limits(count: Floats, n: Floats, tail: float) -> Floats:
    """The p where P(X >= c), for X ~ B(n, p), is the tail area."""
    from scipy.special import betainc, betaincinv

    return _looked_at(betaincinv, betainc, True, count, n, tail)


def upper_limits(count: Floats, n: Floats, tail: float) -> Floats:
    """The p where P(X >= c) is 1 less the tail area; arguments as of :func:`lower_limits`."""
    from scipy.special import betaincc, betainccinv

    return _looked_at(betainccinv, betaincc, False, count, n, tail)


def _looked_at(inverse: Any, area: Any, rises: bool, count: Floats, n: Floats, tail: float) -> Floats:
    """What scipy's inverse finds, or halving; ``rises`` says whether the area does so with p."""
    import numpy as np

    other = n - count + 1
    limit: Floats = inverse(count, other, tail)
    error = np.abs(area(count, other, limit) - tail)
    wrong = np.flatnonzero(~(error <= _WRONG * tail))
    left, right = np.zeros(wrong.size), np.ones(wrong.size)
    for _ in range(200 if wrong.size else 0):
        limit[wrong] = (left + right) / 2
        above = (area(count[wrong], other[wrong], limit[wrong]) < tail) == rises
        left, right = np.where(above, limit[wrong], left), np.where(above, right, limit[wrong])
    return limit
