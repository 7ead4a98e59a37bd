"""The kernel of estimates and their limits: one pass over the values, and nothing kept between them.

Each number is made by the operations of ``tests/reference/estimates.py``, in their order, so both agree bit
for bit.
"""

from __future__ import annotations

import math
from typing import Any

from ldpbeam.kernels._jit import copied, kernel


@copied
def _roots(
    frequency: Any, gap: Any, s: Any, square: Any, half: Any, slope: Any, floor: Any
) -> tuple[Any, Any]:
    """Where the quadratic of :func:`estimates` is 0, the lower one first; ``half`` is 0.5/square."""
    middle = 2 * frequency * gap * gap + s * slope
    inside = middle * middle - 4 * square * (frequency * frequency * gap * gap - s * floor)
    root = math.sqrt(max(inside, 0.0))
    return (middle - root) * half, (middle + root) * half


@kernel
def estimates(support: Any, reports: Any, same: Any, chances: Any, z: Any, found: Any) -> None:
    """Frequencies, standard errors, and where the score test's quadratic is 0.

    That is (f̂ − f)² gap² = s (floor + f slope − f² drawn), s = z²/n. Values without a report have NaN.

    Args:
        support: int64 (k,).
        reports: int64 (k,); written where ``same`` is not 0.
        same: number of reports behind every value; 0 where ``reports`` says it.
        chances: own, other, own − other, and which share of the population is not asked.
        z: float64 (2,), quantiles of the normal law.
        found: float64 (6, k), written: frequencies, their standard errors, and low and high of either level.
    """
    own, other, gap, unasked = chances
    floor = other * (1 - other)
    drawn = unasked * gap * gap
    slope = own * (1 - own) - floor + drawn
    steep = 1 / (gap * gap)
    for v in range(support.size if same else 0):
        reports[v] = same
    for v in range(support.size):
        frequency = (support[v] / reports[v] - other) / gap if reports[v] > 0 else math.nan
        clipped = min(max(frequency, 0.0), 1.0)
        spread = clipped * own * (1 - own) + (1 - clipped) * other * (1 - other)
        error = math.sqrt((spread * steep + unasked * clipped * (1 - clipped)) / reports[v])
        found[0, v] = frequency
        found[1, v] = error if reports[v] > 0 else math.nan
    for level in range(2 if same else 0):
        # What follows from the number of reports alone is divided once.
        s = z[level] * z[level] / same
        square = gap * gap + s * drawn
        half = 0.5 / square
        for v in range(support.size):
            frequency = found[0, v]
            low, high = _roots(frequency, gap, s, square, half, slope, floor)
            found[2 + 2 * level, v], found[3 + 2 * level, v] = low, high
    for level in range(0 if same else 2):  # range(z.size) would keep these loops out of vector registers
        for v in range(support.size):
            frequency = found[0, v]  # NaN where there is no report, and so is all that follows
            s = z[level] * z[level] / reports[v]
            square = gap * gap + s * drawn
            half = 0.5 / square
            low, high = _roots(frequency, gap, s, square, half, slope, floor)
            found[2 + 2 * level, v], found[3 + 2 * level, v] = low, high
