"""Norm-Sub: the Euclidean projection onto the simplex. The recommended default."""

from __future__ import annotations

from ldpbeam.consistency._simplex import project
from ldpbeam.consistency.base import FloatArray, Method, Noise, checked, uniform


def norm_sub(estimates: FloatArray, noise: Noise) -> FloatArray:
    """Find the histogram nearest to the estimates.

    Formula: x_v = max(f̂_v + δ, 0) with the δ for which Σ x = 1: the Euclidean projection onto the
    simplex, found exactly by one sort. It is the fixed point of Wang's iteration (clip, add one δ
    to the positives, repeat) whenever the positives sum to 1 or more, as they do for any estimates
    that sum to 1. Below that Wang's first clip would throw away order among the negatives, which
    the projection keeps; so it is defined for every input.
    Guarantees: non-negative; sums to 1 within a few ulp. Bias: negative for frequent values and
    positive for rare ones as in norm_mul, but by the same δ each, so much smaller for what is
    frequent.
    Use it by default (the Consistency paper's section 8: reliable for most uses). It is the
    maximum-likelihood histogram when the noise is Gaussian and equal for all values.
    Source: Wang et al., NDSS 2020 ("Norm-Sub", and the theorem that it solves constrained least
    squares). At n = 0: uniform.
    """
    values = checked(estimates)
    if noise.n == 0:
        return uniform(values.size)
    return project(values)


NORM_SUB = Method("norm_sub", norm_sub, True, True, "nearest histogram; the default")
