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
        tails: (levels,), tail areas below 1/2; from 1e-20 on, limits are right.

    Returns:
        (low, high), each (levels, k), in [0, 1]. What is found for a value does not depend on the others.
    """
    # Above the middle, limits of the reports that do not support: small numbers keep their digits.
    turned = 2 * count > n
    folded, rest = np.where(turned, n - count, count), 1 - ties
    split, rest = np.where(turned, rest, ties), np.where(turned, ties, rest)
    order = np.lexsort((-split, folded, n))
    folded, split, rest, reports = folded[order], split[order], rest[order], n[order]
    begins, ends = np.empty((2, count.size), np.int64)
    found = binomial.find_blocks(folded, reports, begins, ends)
    begins, ends = begins[:found], ends[:found]
    anchors = _anchors(folded[begins] // binomial.BLOCK * binomial.BLOCK, reports[begins], tails)
    ordered, limits = np.empty((2, 2 * tails.size, count.size))
    walks = np.empty(binomial.COEFFICIENTS), np.empty(binomial.NUMBERS), np.empty(binomial.PLACES, np.int64)
    binomial.limits((begins, ends), (folded, reports, split), anchors, walks, ordered)
    none = np.flatnonzero(folded == 0)
    if none.size:
        # (1 − t)·(1 − p)^n is 1 less the target; 0 where no p is that small, and a split of 1 leaves nothing.
        known = np.log(np.maximum(rest[none], 2.0**-60))
        ordered[:, none] = np.maximum(_zeroth(known, reports[none], tails), 0.0)
    limits[:, order] = ordered
    lower, upper = limits[: tails.size], limits[tails.size :]
    if turned.any():
        lower[:, turned], upper[:, turned] = 1 - upper[:, turned], 1 - lower[:, turned]
    return lower, upper


def _zeroth(known: Floats, n: Ints, tails: Floats) -> Floats:
    """The p, (2·levels, k), where (1 − p)^n is 1 less each target, over e to the power of what is known."""
    rests = np.concatenate([np.log1p(-tails), np.log(tails)])[:, np.newaxis]
    return np.asarray(-np.expm1((rests - known) / n))


def _anchors(least: Ints, n: Ints, tails: Floats) -> Floats:
    """Where walks begin, (2·levels, blocks): the limits of P(X >= j), first all lower ones.

    Args:
        least: int64 (blocks,), j, or 0 where j is 1.
        n: int64 (blocks,), numbers of reports.
        tails: as above.
    """
    anchors = _zeroth(np.zeros(least.size), n, tails)  # 1 − (1 − p)^n is the target
    later = least > 0
    if later.any():
        from scipy.special import betainccinv, betaincinv

        lower, upper, each = anchors[: tails.size], anchors[tails.size :], tails[:, np.newaxis]
        betaincinv(least, n - least + 1, each, out=lower, where=later)
        betainccinv(least, n - least + 1, each, out=upper, where=later)
    return anchors
