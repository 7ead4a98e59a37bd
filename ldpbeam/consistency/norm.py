"""Norm: one constant added to every estimate so that the sum is 1."""

from __future__ import annotations

import numpy as np

from ldpbeam.consistency.base import FloatArray, Method, Noise, checked, uniform


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
