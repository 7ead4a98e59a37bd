"""Kernels of estimates and their score limits: one pass over the values, and nothing kept between them.

Each number is made by the operations of ``tests/reference/estimates.py``, in their order, so both agree bit
for bit.
"""

from __future__ import annotations

import math
from typing import Any

from ldpbeam.kernels._jit import kernel


@kernel
def estimates(support: Any, reports: Any, chances: Any, frequency: Any, error: Any) -> None:
    """Frequencies and their standard errors.

    Args:
        support: int64 (k,).
        reports: int64 (k,); at least 1, or NaN is written.
        chances: own, other, own − other, and which share of the population is not asked.
        frequency, error: float64 (k,), written.
    """
    own, other, gap, unasked = chances
    for v in range(support.size):
        if reports[v] > 0:
            found = (support[v] / reports[v] - other) / gap
            clipped = min(max(found, 0.0), 1.0)
            spread = clipped * own * (1 - own) + (1 - clipped) * other * (1 - other)
            drawn = unasked * clipped * (1 - clipped)
            frequency[v] = found
            error[v] = math.sqrt((spread / (gap * gap) + drawn) / reports[v])
        else:
            frequency[v] = math.nan
            error[v] = math.nan


@kernel
def score_limits(support: Any, reports: Any, chances: Any, z: Any, low: Any, high: Any) -> None:
    """Where the score test's quadratic is 0: (f̂ − f)² gap² = s (floor + f slope − f² drawn), s = z²/n.

    Args:
        support, reports, chances: as of :func:`estimates`.
        z: float64 (levels,), quantiles of the normal law.
        low, high: float64 (levels, k), written.
    """
    own, other, gap, unasked = chances
    floor = other * (1 - other)
    drawn = unasked * gap * gap
    slope = own * (1 - own) - floor + drawn
    for level in range(z.size):
        for v in range(support.size):
            if reports[v] > 0:
                frequency = (support[v] / reports[v] - other) / gap
                s = z[level] * z[level] / reports[v]
                square = gap * gap + s * drawn
                middle = 2 * frequency * gap * gap + s * slope
                inside = middle * middle - 4 * square * (frequency * frequency * gap * gap - s * floor)
                half = math.sqrt(max(inside, 0.0))
                low[level, v] = (middle - half) / (2 * square)
                high[level, v] = (middle + half) / (2 * square)
            else:
                low[level, v] = math.nan
                high[level, v] = math.nan


@kernel
def widen(values: Any, lower: Any, upper: Any, chances: Any, low: Any, high: Any) -> None:
    """Move limits outwards to those of a binomial test.

    Args:
        values: int64 (m,), which values they are of.
        lower, upper: float64 (levels, m), limits of the probability of support.
        chances: as of :func:`estimates`.
        low, high: float64 (levels, k), of frequencies.
    """
    _, other, gap, _ = chances
    for level in range(low.shape[0]):
        for i in range(values.size):
            v = values[i]
            low[level, v] = min(low[level, v], (lower[level, i] - other) / gap)
            high[level, v] = max(high[level, v], (upper[level, i] - other) / gap)
