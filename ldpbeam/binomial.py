"""Limits of a binomial probability, with the tie of the observed count split (Stevens, 1950).

Of a count c of n and a split t in (0, 1), the lower limit at a tail area α is the p with
P(X > c | p) + t·P(X = c | p) = α, the upper one that with 1 − α in its place. Both fall as t rises: from the
limits of Clopper and Pearson for c + 1 at t = 0 to those for c at t = 1.
"""

from __future__ import annotations

import numpy as np

from ldpbeam.arrays import Floats, Ints
from ldpbeam.kernels import binomial


def binomial_limits(count: Ints, n: Ints, ties: Floats, tails: Floats) -> tuple[Floats, Floats]:
    """Both limits at every tail area; right to about ten digits.

    Args:
        count: int64 (k,), 0 .. n.
        n: int64 (k,), at least 1.
        ties: (k,), the splits.
        tails: (levels, 1), tail areas below 1/2.

    Returns:
        (low, high), each (levels, k), in [0, 1]. What is found for a value does not depend on the others.
    """
    # Above the middle, limits of the reports that do not support: small numbers keep their digits.
    turned = np.flatnonzero(2 * count > n)
    rest = 1 - ties
    if turned.size:
        count, ties = count.copy(), ties.copy()
        count[turned] = n[turned] - count[turned]
        ties[turned], rest[turned] = rest[turned], ties[turned]
    limits = np.empty((2 * len(tails), count.size))
    lower, upper = limits[: len(tails)], limits[len(tails) :]
    none, some = np.flatnonzero(count == 0), np.flatnonzero(count)
    lower[:, none], upper[:, none] = _of_none(rest[none], n[none], tails)
    if some.size:
        _of_some(some, count, n, ties, tails, limits)
    if turned.size:
        lower[:, turned], upper[:, turned] = 1 - upper[:, turned], 1 - lower[:, turned]
    return lower, upper


def _of_none(rest: Floats, n: Ints, tails: Floats) -> tuple[Floats, Floats]:
    """Limits of count 0, where rest·(1 − p)^n is 1 − α and α; 0 where no p is that small."""
    known = np.log(np.maximum(rest, 2.0**-60))  # a split of 1 leaves 0
    lower, upper = (np.maximum(-np.expm1((np.log(each) - known) / n), 0.0) for each in (1 - tails, tails))
    return lower, upper


def _of_some(some: Ints, count: Ints, n: Ints, ties: Floats, tails: Floats, limits: Floats) -> None:
    """Write the limits, first all lower ones, of those values ``some`` whose counts are 1 .. n/2."""
    from scipy.special import betainccinv, betaincinv

    # The limit is known where the tie falls wholly to one side: that of P(X >= c), or of P(X >= c + 1).
    anchor = count[some] + (ties[some] <= 0.5)
    reports = n[some]
    key = anchor
    if reports.min() < reports.max():
        kinds, which = np.unique(reports, return_inverse=True)
        key = anchor * kinds.size + which
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    begins = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    one = order[begins]
    a, b = anchor[one].astype(np.float64), (reports[one] - anchor[one] + 1).astype(np.float64)
    anchored = np.concatenate([betaincinv(a, b, tails), betainccinv(a, b, tails)])
    binomial.limits(anchored, np.append(begins, order.size), some[order], count, n, ties, limits)
