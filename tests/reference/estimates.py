"""Estimates and their limits in numpy: the formulas, one after the other, over whole arrays."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from ldpbeam.support import SupportProbabilities
from tests.reference.binomial import binomial_limits


def frequencies(
    support: np.ndarray, n: np.ndarray, probabilities: SupportProbabilities
) -> tuple[np.ndarray, np.ndarray]:
    """Estimates and their standard errors, where every n is at least 1."""
    own, other, gap = (float(p) for p in (probabilities.own, probabilities.other, probabilities.gap))
    frequency = (support / n - other) / gap
    clipped = np.clip(frequency, 0.0, 1.0)
    spread = clipped * own * (1 - own) + (1 - clipped) * other * (1 - other)
    drawn = (1 - float(probabilities.sampled)) * clipped * (1 - clipped)
    return frequency, np.sqrt((spread * (1 / (gap * gap)) + drawn) / n)


def limits(
    support: np.ndarray,
    n: np.ndarray,
    probabilities: SupportProbabilities,
    ties: np.ndarray,
    level: float,
    few: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Those of the score test; where n·other or n·(1 − own) is below ``few``, the hull of both tests."""
    own, other, gap = (float(p) for p in (probabilities.own, probabilities.other, probabilities.gap))
    z = NormalDist().inv_cdf(0.5 + level / 2)
    frequency = (support / n - other) / gap
    floor = other * (1 - other)
    drawn = (1 - float(probabilities.sampled)) * gap * gap
    slope = own * (1 - own) - floor + drawn
    s = z * z / n
    square = gap * gap + s * drawn
    middle = 2 * frequency * gap * gap + s * slope
    inside = middle**2 - 4 * square * (frequency**2 * gap * gap - s * floor)
    half, root = 0.5 / square, np.sqrt(np.maximum(inside, 0.0))
    low, high = (middle - root) * half, (middle + root) * half
    counts_are_few = n * min(other, 1 - own) < few
    some = support[counts_are_few], n[counts_are_few], ties[counts_are_few]
    lower, upper = binomial_limits(*some, np.array([(1 - level) / 2]))
    low[counts_are_few] = np.minimum(low[counts_are_few], (lower[0] - other) / gap)
    high[counts_are_few] = np.maximum(high[counts_are_few], (upper[0] - other) / gap)
    return low, high
