"""Methods that make the estimates add up to 1, or to 1 at most."""

from __future__ import annotations

import numpy as np

from ldpbeam.consistency._simplex import project
from ldpbeam.consistency.base import FloatArray, Method, Noise, checked, uniform

SLACK = 1e-12
"""A sum this little above 1 is rounding, not excess."""


def norm(estimates: FloatArray, noise: Noise) -> FloatArray:
    """Add one constant to all estimates so that they sum to 1.

    Formula: x_v = f̂_v + (1 - Σ f̂)/k. Guarantees: sums to 1 (up to rounding of the largest
    estimate); may be negative.
    Bias: none (f̂ sums to 1 in expectation). It is the least-squares fit to the sum alone.
    Use it where unbiased numbers must add up; for direct encoding it changes nothing, as they add
    up already.
    Source: Wang et al., NDSS 2020 ("Norm"); the Consistency paper's Table 1 ("Norm Std"). At n = 0: uniform.
    """
    values = checked(estimates)
    if noise.n == 0:
        return uniform(values.size)
    shifted = values + (1.0 - np.sum(values)) / values.size
    return np.asarray(shifted, dtype=np.float64)


NORM = Method("norm", norm, False, True, "one constant added to all; unbiased, may be negative")


def norm_mul(estimates: FloatArray, noise: Noise) -> FloatArray:
    """Replace negatives by 0 and divide by the sum.

    Formula: x_v = max(f̂_v, 0) / Σ_w max(f̂_w, 0). Guarantees: non-negative, sums to 1.
    Bias: large; negative for frequent values and positive for rare ones, growing with k·sqrt(V*).
    Use it only to reproduce published curves: Fig. 3 of LOLOHA was made with it (docs/maths.md,
    correction 4). Section 8 of the Consistency paper warns against it: its error may *grow* with ε,
    and looks good on sparse data only because it drifts to uniform.
    Source: Wang et al., NDSS 2020 ("Norm-Mul"). Nothing positive, or n = 0: uniform.
    """
    positives = np.maximum(checked(estimates), 0.0)
    total = float(np.sum(positives))
    if noise.n == 0 or total == 0.0:
        return uniform(positives.size)
    return np.asarray(positives / total, dtype=np.float64)


NORM_MUL = Method("norm_mul", norm_mul, True, True, "clip and rescale; strongly biased, avoid")


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
    positive = int(np.count_nonzero(np.cumsum(values[order]) <= 1.0 + SLACK))
    result = np.zeros_like(values)
    if positive == 0:
        result[order[0]] = 1.0
    else:
        result[order[:positive]] = values[order[:positive]]
    return result


NORM_CUT = Method("norm_cut", norm_cut, True, False, "smallest positives to 0 until the sum is <= 1")


def norm_sub(estimates: FloatArray, noise: Noise) -> FloatArray:
    """Find the histogram nearest to the estimates.

    Formula: x_v = max(f̂_v + δ, 0) with the δ for which Σ x = 1: the Euclidean projection onto the
    simplex, found exactly by one sort. It is the fixed point of Wang's iteration (clip, add one δ
    to the positives, repeat) whenever the positives sum to 1 or more, as they do for any estimates
    that sum to 1. Below that Wang's first clip would throw away order among the negatives, which
    the projection keeps; so it is defined for every input.
    Guarantees: non-negative; sums to 1 within a few ulp. Bias: negative for frequent values and positive for
    rare ones as in norm_mul, but by the same δ each, so much smaller for what is frequent.
    Use it for fewer than 50 values (the Consistency paper's section 8: reliable for most uses). It is the
    maximum-likelihood histogram when the noise is Gaussian and equal for all values.
    Source: Wang et al., NDSS 2020 ("Norm-Sub", and the theorem that it solves constrained least
    squares). At n = 0: uniform.
    """
    values = checked(estimates)
    if noise.n == 0:
        return uniform(values.size)
    return project(values)


NORM_SUB = Method("norm_sub", norm_sub, True, True, "nearest histogram; the default for few values")
