"""Which of many changes are more than chance: p-values, and the procedure of Benjamini and Hochberg."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from ldpbeam.arrays import Floats


def p_values(change: Floats, std_error: Floats) -> Floats:
    """Two-sided, of a normal error; 1 where nothing is known or nothing can change."""
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.abs(change) / std_error
    # Errors that cancel leave some rounding; a change of that size is none.
    known = np.isfinite(change) & np.isfinite(std_error)
    z = np.where(known & (np.abs(change) > 1e-12) & (std_error > 0), z, 0.0)
    return np.array([math.erfc(one / math.sqrt(2)) for one in z.tolist()], np.float64)


def adjusted(p: Floats) -> Floats:
    """The least false-discovery rate at which each test is a discovery (Benjamini and Hochberg 1995)."""
    order = np.argsort(p, kind="stable")
    ranked = p[order] * p.size / np.arange(1, p.size + 1)
    values = np.empty_like(p)
    values[order] = np.minimum.accumulate(ranked[::-1])[::-1]
    return values


def normal_limit(confidence: float) -> float:
    """How many standard errors an interval of a normal error reaches to either side."""
    return NormalDist().inv_cdf(0.5 + confidence / 2)
