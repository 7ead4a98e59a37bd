"""Norm-Mul: negatives become 0, the rest is rescaled. The Consistency paper warns against it."""

from __future__ import annotations

import numpy as np

from ldpbeam.consistency.base import FloatArray, Method, Noise, checked, uniform


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
