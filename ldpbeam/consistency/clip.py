"""Methods that look at one value at a time: the raw estimates, and two ways to replace some by 0."""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist

import numpy as np

from ldpbeam.consistency.base import FloatArray, Method, Noise, checked

FALSE_POSITIVES = 0.05
"""α: the expected number of values nobody holds that are kept, over the whole histogram."""


def none(estimates: FloatArray, noise: Noise) -> FloatArray:
    """Return a copy of the estimates."""
    return checked(estimates)


NONE = Method("none", none, False, False, "the raw unbiased estimates, unchanged")


def base_pos(estimates: FloatArray, noise: Noise) -> FloatArray:
    """Replace negative estimates by 0."""
    values = checked(estimates)
    if noise.n == 0:
        return np.zeros_like(values)
    return np.maximum(values, 0.0)


BASE_POS = Method("base_pos", base_pos, True, False, "negatives to 0; rare values biased upwards")


def threshold(k: int, noise: Noise) -> float:
    """T = Φ⁻¹(1 - α/k)·sqrt(V*), with the two-round V*; infinite for n = 0."""
    return -NormalDist().inv_cdf(FALSE_POSITIVES / k) * sqrt(noise.floor_variance)


def base_cut(estimates: FloatArray, noise: Noise) -> FloatArray:
    """Replace estimates below a significance threshold by 0."""
    values = checked(estimates)
    values[(values < threshold(values.size, noise)) | (values < 0.0)] = 0.0
    return values


BASE_CUT = Method("base_cut", base_cut, True, False, "insignificant values to 0; finds heavy hitters")
