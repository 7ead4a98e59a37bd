"""Methods that make the estimates add up to 1, or to 1 at most."""

from __future__ import annotations

import numpy as np

from ldpbeam.consistency._simplex import project
from ldpbeam.consistency.base import FloatArray, Method, Noise, checked, uniform

SLACK = 1e-12
"""A sum this little above 1 is rounding, not excess."""


def norm(estimates: FloatArray, noise: Noise) -> FloatArray:
    """Add one constant to all estimates so that they sum to 1."""
    values = checked(estimates)
    if noise.n == 0:
        return uniform(values.size)
    shifted = values + (1.0 - np.sum(values)) / values.size
    return np.asarray(shifted, dtype=np.float64)


NORM = Method("norm", norm, False, True, "one constant added to all; unbiased, may be negative")


def norm_mul(estimates: FloatArray, noise: Noise) -> FloatArray:
    """Replace negatives by 0 and divide by the sum."""
    positives = np.maximum(checked(estimates), 0.0)
    total = float(np.sum(positives))
    if noise.n == 0 or total == 0.0:
        return uniform(positives.size)
    return np.asarray(positives / total, dtype=np.float64)


NORM_MUL = Method("norm_mul", norm_mul, True, True, "clip and rescale; strongly biased, avoid")


def norm_cut(estimates: FloatArray, noise: Noise) -> FloatArray:
    """Replace negatives by 0, then the smallest positives, until what is left sums to at most 1."""
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
    """Find the histogram nearest to the estimates."""
    values = checked(estimates)
    if noise.n == 0:
        return uniform(values.size)
    return project(values)


NORM_SUB = Method("norm_sub", norm_sub, True, True, "nearest histogram; the default for few values")
