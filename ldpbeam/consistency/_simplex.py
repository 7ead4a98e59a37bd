"""The problem behind norm_sub, mle_apx and the multinomial mle, solved exactly by sorting.

    minimise  Σ_v (x_v - y_v)² / (a + b·x_v)    subject to  Σ x_v = 1,  x_v >= 0

Here a >= 0 and a + b >= 0. With s = a + b·x and s° = a + b·y, one term is (s - 2s° + s°²/s)/b²,
convex, of derivative (1 - (s°/s)²)/b in x. Equal derivatives on the active set therefore mean one
common ratio s/s° = r, that is x = r·y + (r - 1)·a/b. The sum over an active set of m values whose y
add up to S fixes r = (b + m·a)/(b·S + m·a), and the result needs no division by b:

    x_v = [ y_v·(b + m·a) + a·(1 - S) ] / (b·S + m·a).

The active set is a prefix of the values in descending order. The m-th value u is in it if the sum
is still below 1 at the ratio which just brings it to 0, that is if a·(S_m - m·u - 1) < b·u. At b =
0 this is the projection onto the simplex, and at a = 0 plain rescaling.
"""

from __future__ import annotations

import numpy as np

from ldpbeam.consistency.base import FloatArray

ROUNDING = 8.0 * float(np.finfo(np.float64).eps)
"""A sum of positive terms smaller than this, relative to what it is computed from, is 0."""


def fit(targets: FloatArray, floor: float, slope: float) -> FloatArray:
    """Solve the problem above for y = targets, a = floor, b = slope, in O(k log k)."""
    descending = np.sort(targets)[::-1]
    ranks = np.arange(1, targets.size + 1)
    sums = np.cumsum(descending)
    inside = floor * (sums - ranks * descending - 1.0) < slope * descending
    active = int(np.count_nonzero(inside))
    total = float(np.sum(descending[:active]))
    denominator = slope * total + active * floor
    if not denominator > ROUNDING * (abs(slope * total) + active * floor):
        return project(targets)
    solution = targets * (slope + active * floor) + floor * (1.0 - total)
    np.maximum(solution, 0.0, out=solution)
    return np.asarray(solution / np.sum(solution), dtype=np.float64)


def project(targets: FloatArray) -> FloatArray:
    """Project onto the simplex in the Euclidean sense; defined for all finite targets."""
    return fit(np.maximum(targets - np.max(targets), -1.0), 1.0, 0.0)
