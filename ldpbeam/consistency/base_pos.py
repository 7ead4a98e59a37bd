"""Base-Pos: negatives become 0."""

from __future__ import annotations

import numpy as np

from ldpbeam.consistency.base import FloatArray, Method, Noise, checked


def base_pos(estimates: FloatArray, noise: Noise) -> FloatArray:
    """Replace negative estimates by 0.

    Formula: x_v = max(f̂_v, 0). Guarantees: non-negative; the sum is not controlled (usually above
    1).
    Bias: positive for rare values (at f = 0 by sqrt(V*/2π)), none for frequent ones.
    Use it when single values are read one by one and totals do not matter.
    Source: Wang et al., NDSS 2020 ("Base-Pos"); the Consistency paper's Table 1. At n = 0: zeros.
    """
    values = checked(estimates)
    if noise.n == 0:
        return np.zeros_like(values)
    return np.maximum(values, 0.0)


BASE_POS = Method("base_pos", base_pos, True, False, "negatives to 0; rare values biased upwards")
