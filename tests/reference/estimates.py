"""Estimates, and their limits where counts are many, in numpy: the formulas, one after the other."""

from __future__ import annotations

import numpy as np

from ldpbeam.estimates import Chances
from ldpbeam.support import SupportProbabilities


def nearest_shares(estimates: np.ndarray) -> np.ndarray:
    """The projection onto the simplex (Held, Wolfe and Crowder, 1974): sort, and try every number."""
    falling = np.sort(estimates)[::-1]
    thresholds = (np.cumsum(falling) - 1) / np.arange(1, falling.size + 1)
    number = np.flatnonzero(falling > thresholds)[-1]
    return np.maximum(estimates - thresholds[number], 0.0)


def frequencies(
    support: np.ndarray, n: np.ndarray, probabilities: SupportProbabilities, sum_to_one: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Estimates and their standard errors, where every n is at least 1."""
    own, other, gap, unasked = probabilities.chances
    frequency = (support / n - other) / gap
    share = nearest_shares(frequency) if sum_to_one else np.clip(frequency, 0.0, 1.0)
    spread = share * own * (1 - own) + (1 - share) * other * (1 - other)
    return frequency, np.sqrt((spread * (1 / (gap * gap)) + unasked * share * (1 - share)) / n)


def cumulants(frequency: np.ndarray, chances: Chances) -> tuple[np.ndarray, np.ndarray]:
    """Variance and third cumulant of a count, for one report: two binomials, drawn from a population."""
    own, other, gap, unasked = chances
    f = np.clip(frequency, 0.0, 1.0)
    mine, theirs, drawn = own * (1 - own), other * (1 - other), unasked * f * (1 - f)
    second = f * mine + (1 - f) * theirs + drawn * gap * gap
    third = f * mine * (1 - 2 * own) + (1 - f) * theirs * (1 - 2 * other)
    return second, third + drawn * gap * (3 * (mine - theirs) + gap * gap * (1 - 2 * f) * (2 * unasked - 1))


def score_limits(
    support: np.ndarray, n: np.ndarray, chances: Chances, ties: np.ndarray, z: float
) -> tuple[np.ndarray, np.ndarray]:
    """Those of the score test, with the term for skewness."""
    own, other, gap, unasked = chances
    frequency = ((support + 0.5 - ties) / n - other) / gap
    s = z * z / n
    floor, drawn = other * (1 - other), unasked * gap * gap
    slope = own * (1 - own) - floor + drawn

    def root(f: np.ndarray, sign: float) -> np.ndarray:
        square = gap * gap + s * drawn
        middle = 2 * f * gap * gap + s * slope
        inside = middle * middle - 4 * square * (f * f * gap * gap - s * floor)
        return (middle + sign * np.sqrt(np.maximum(inside, 0.0))) / (2 * square)

    def corrected(sign: float) -> np.ndarray:
        second, third = cumulants(root(frequency, sign), chances)
        skew = np.divide(third, second, out=np.zeros_like(third), where=second > 0)
        return root(frequency - skew * (z * z - 1.0) / (6.0 * n * gap), sign)

    return corrected(-1.0), corrected(1.0)


def end_within(low: np.ndarray, high: np.ndarray, frequency: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ends at 0 and 1, or at the estimate beyond them."""
    return np.minimum(np.clip(low, 0, 1), frequency), np.maximum(np.clip(high, 0, 1), frequency)
