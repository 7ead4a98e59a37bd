"""Base-Cut: what is not significantly above 0 becomes 0."""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist

from ldpbeam.consistency.base import FloatArray, Method, Noise, checked

FALSE_POSITIVES = 0.05
"""α: the expected number of values nobody holds that are kept, over the whole histogram."""


def threshold(k: int, noise: Noise) -> float:
    """T = Φ⁻¹(1 - α/k)·sqrt(V*), with the two-round V*; infinite for n = 0."""
    return -NormalDist().inv_cdf(FALSE_POSITIVES / k) * sqrt(noise.floor_variance)


def base_cut(estimates: FloatArray, noise: Noise) -> FloatArray:
    """Replace estimates below a significance threshold by 0.

    Formula: x_v = f̂_v if f̂_v >= T else 0, with T = Φ⁻¹(1 - α/k)·sqrt(V*) and α = 0.05, so that
    among k values at most α false ones are expected. Guarantees: non-negative; the sum is not
    controlled.
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
