"""Methods that look at one value at a time: the raw estimates, and two ways to replace some by 0."""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist

import numpy as np

from ldpbeam.consistency.base import FloatArray, Method, Noise, checked

FALSE_POSITIVES = 0.05
"""α: the expected number of values nobody holds that are kept, over the whole histogram."""


def none(estimates: FloatArray, noise: Noise) -> FloatArray:
    """Return a copy of the estimates.

    Formula: x_v = f̂_v. Guarantees: none (may be negative, sums to about 1). Bias: none.
    Use it to test, to average over epochs, or to sum over large subsets, where the bias of other
    methods adds up. Errors of several epochs are not independent where devices have a memo: the variance of a
    mean of T epochs falls to V_one + (V - V_one)/T, not to V/T (docs/over-time.md).
    Source: Wang et al., NDSS 2020 ("Base"); the Consistency paper's section 6. At n = 0: the copy
    all the same.
    """
    return checked(estimates)


NONE = Method("none", none, False, False, "the raw unbiased estimates, unchanged")


def base_pos(estimates: FloatArray, noise: Noise) -> FloatArray:
    """Replace negative estimates by 0.

    Formula: x_v = max(f̂_v, 0). Guarantees: non-negative; the sum is not controlled (usually above 1).
    Bias: positive for rare values (at f = 0 by sqrt(V*/2π)), none for frequent ones.
    Use it when single values are read one by one and totals do not matter.
    Source: Wang et al., NDSS 2020 ("Base-Pos"); the Consistency paper's Table 1. At n = 0: zeros.
    """
    values = checked(estimates)
    if noise.n == 0:
        return np.zeros_like(values)
    return np.maximum(values, 0.0)


BASE_POS = Method("base_pos", base_pos, True, False, "negatives to 0; rare values biased upwards")


def threshold(k: int, noise: Noise) -> float:
    """T = Φ⁻¹(1 - α/k)·sqrt(V*), with the two-round V*; infinite for n = 0."""
    return -NormalDist().inv_cdf(FALSE_POSITIVES / k) * sqrt(noise.floor_variance)


def base_cut(estimates: FloatArray, noise: Noise) -> FloatArray:
    """Replace estimates below a significance threshold by 0.

    Formula: x_v = f̂_v if f̂_v >= T else 0, with T = Φ⁻¹(1 - α/k)·sqrt(V*) and α = 0.05, so that among k
    values at most α false ones are expected. Guarantees: non-negative; the sum is not controlled.
    Bias: negative for values of frequency around and below T, none well above it.
    Use it to list the values that certainly occur (heavy hitters). In a smooth histogram it may
    leave nothing.
    Source: Wang et al., NDSS 2020 ("Base-Cut"). The Consistency paper's Table 1 fixes the threshold
    at 4 instead of deriving it. At n = 0, T is infinite: zeros.
    """
    values = checked(estimates)
    values[(values < threshold(values.size, noise)) | (values < 0.0)] = 0.0
    return values


BASE_CUT = Method("base_cut", base_cut, True, False, "insignificant values to 0; finds heavy hitters")
