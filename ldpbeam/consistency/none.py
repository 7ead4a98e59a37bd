"""No post-processing: the raw estimates."""

from __future__ import annotations

from ldpbeam.consistency.base import FloatArray, Method, Noise, checked


def none(estimates: FloatArray, noise: Noise) -> FloatArray:
    """Return a copy of the estimates.

    Formula: x_v = f̂_v. Guarantees: none (may be negative, sums to about 1). Bias: none.
    Use it to test, to average over epochs, or to sum over large subsets, where the bias of other
    methods adds up. Errors of several epochs are not independent where devices have a memo: the variance
    of a mean of T epochs falls to V_one + (V - V_one)/T, not to V/T
    (:func:`ldpbeam.estimates.lasting_share`).
    Source: Wang et al., NDSS 2020 ("Base"); the Consistency paper's section 6. At n = 0: the copy
    all the same.
    """
    return checked(estimates)


NONE = Method("none", none, False, False, "the raw unbiased estimates, unchanged")
