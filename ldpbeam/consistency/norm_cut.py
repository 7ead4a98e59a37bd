"""Norm-Cut: the smallest positives become 0 until the sum is at most 1."""

from __future__ import annotations

import numpy as np

from ldpbeam.consistency.base import FloatArray, Method, Noise, checked

SLACK = 1e-12
"""A sum this little above 1 is rounding, not excess."""


def norm_cut(estimates: FloatArray, noise: Noise) -> FloatArray:
    """Replace negatives by 0, then the smallest positives, until what is left sums to at most 1.

    Formula: x_v = f̂_v for the longest run of the largest positives whose sum is <= 1, else 0. Of
    equal values the one with the higher index goes first. Guarantees: non-negative; sum at most 1
    (+1e-12), not always 1: it is lower when the positives fall short of 1 (they are left alone) or
    when the last value cut was large. If the largest estimate alone exceeds 1 it is returned as 1;
    cutting it too would leave nothing.
    Bias: negative for values about as large as the noise, slightly positive for rarer ones, none
    well above the cut; the sum is below 1 by up to the last value cut.
    Use it when few frequent values matter and must stay unbiased. The Consistency paper sees no
    advantage over norm_sub.
    Source: Wang et al., NDSS 2020 ("Norm-Cut"); the Consistency paper's Table 1. Nothing positive,
    or n = 0: zeros.
    """
    values = np.maximum(checked(estimates), 0.0)
    if noise.n == 0:
        return np.zeros_like(values)
    if float(np.sum(values)) <= 1.0 + SLACK:
        return values
    order = np.argsort(-values, kind="stable")
    kept = int(np.count_nonzero(np.cumsum(values[order]) <= 1.0 + SLACK))
    result = np.zeros_like(values)
    if kept == 0:
        result[order[0]] = 1.0
    else:
        result[order[:kept]] = values[order[:kept]]
    return result


NORM_CUT = Method("norm_cut", norm_cut, True, False, "smallest positives to 0 until the sum is <= 1")
