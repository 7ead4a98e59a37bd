"""Quantiles from a cumulative curve: the estimate, and the values that a test does not reject."""

from __future__ import annotations

import numpy as np

from ldpbeam.arrays import Floats


def isotonic(curve: Floats) -> Floats:
    """The rising curve nearest to this one by least squares (pool adjacent violators), float64 (k,)."""
    levels: list[float] = []
    sizes: list[int] = []
    for one in curve.tolist():
        level, size = one, 1
        while levels and levels[-1] >= level:
            before = sizes.pop()
            level = (levels.pop() * before + level * size) / (before + size)
            size += before
        levels.append(level)
        sizes.append(size)
    return np.repeat(levels, sizes)


def quantile(
    rising: Floats, curve: Floats, std_error: Floats, share: float, limit: float
) -> tuple[int, int, int]:
    """The first value at or below which a share of the devices lies, with confidence limits."""
    last = len(curve) - 1
    place = min(int(np.searchsorted(rising, share)), last)
    enough = curve + limit * std_error >= share
    before = np.concatenate([[True], (curve - limit * std_error)[:-1] <= share])
    left = np.flatnonzero(enough & before)
    if not left.size:
        return place, place, place
    return place, min(int(left[0]), place), max(int(left[-1]), place)
