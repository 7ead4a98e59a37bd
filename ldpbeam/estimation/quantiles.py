"""Quantiles from a cumulative curve: the estimate, and the values that a test does not reject."""

from __future__ import annotations

import numpy as np

from ldpbeam.arrays import Floats


def isotonic(curve: Floats) -> Floats:
    """The rising curve nearest to this one by least squares (pool adjacent violators), float64 (k,).

    Source: Barlow, Bartholomew, Bremner and Brunk, Statistical Inference under Order Restrictions (1972).
    """
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
    """The first value at or below which a share of the devices lies, with confidence limits.

    The estimate is read off a curve that rises, such as the :func:`isotonic` one, since noise makes an
    unbiased curve fall in places. The limits need no such repair. Value x is the quantile where
    F(x − 1) < share <= F(x). It is rejected where F(x) is surely below the share or F(x − 1) surely above it:
    ``limit`` standard errors, so that the true value is rejected no more often than a normal variable lies
    beyond ±limit. The limits are the least and the largest value that is not rejected; an estimate that lies
    outside widens them.

    Args:
        rising: float64 (k,), estimates of F(x) that rise; the last is 1.
        curve: float64 (k,), estimates of F(x) in the middle of their limits.
        std_error: (k,), of ``curve``.
        share: between 0 and 1.
        limit: standard errors to either side.

    Returns:
        (estimate, low, high), places of values.
    """
    last = len(curve) - 1
    place = min(int(np.searchsorted(rising, share)), last)
    enough = curve + limit * std_error >= share
    before = np.concatenate([[True], (curve - limit * std_error)[:-1] <= share])
    left = np.flatnonzero(enough & before)
    if not left.size:
        return place, place, place
    return place, min(int(left[0]), place), max(int(left[-1]), place)
