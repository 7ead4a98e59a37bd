"""Limits of Clopper and Pearson (1934), from which exact limits and bounds begin."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ldpbeam.arrays import Floats

_WRONG = 1e-9
"""Relative error of a tail area from which on a limit is sought anew."""


def clopper_pearson(count: Floats, n: Floats, tails: Floats) -> Floats:
    """The p where P(X >= c), for X ~ B(n, p), is a tail area, and where it is 1 less that.

    As functions of c and n they need no whole numbers. scipy's inverse of the incomplete beta function is
    wrong at a few arguments, by any amount: (1000, 9106) at 0.025 gives 0.25 in place of 0.105. So what it
    finds is looked at, and sought by halving where it is wrong.

    Args:
        count: float64 (k,), c, above 0.
        n: float64 (k,), at least c.
        tails: float64 (levels,), below 1/2.

    Returns:
        float64 (k, 2·levels): first those with the tail area.
    """
    import numpy as np
    from scipy.special import betainc, betaincc, betainccinv, betaincinv

    found, other = [], n - count + 1
    for inverse, area in ((betaincinv, betainc), (betainccinv, betaincc)):
        for tail in tails:
            limit = inverse(count, other, tail)
            error = np.abs(area(count, other, limit) - tail)
            wrong = np.flatnonzero(~(error <= _WRONG * tail))
            left, right = np.zeros(wrong.size), np.ones(wrong.size)
            for _ in range(200 if wrong.size else 0):
                limit[wrong] = (left + right) / 2
                below = area(count[wrong], other[wrong], limit[wrong]) < tail
                rises = below if area is betainc else ~below
                left, right = np.where(rises, limit[wrong], left), np.where(rises, right, limit[wrong])
            found.append(limit)
    return np.stack(found, 1)
