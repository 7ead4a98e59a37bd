"""Kernels of estimates and their limits: plain passes over the values, and nothing kept between them.

Each number is made by the operations of ``tests/reference/estimates.py``, in their order, so both agree bit
for bit. Limits from the exact law (:mod:`ldpbeam.estimation.exact_limits`) are the exception.
"""

from __future__ import annotations

import math
from typing import Any

from ldpbeam.estimation.exact_limits import limit
from ldpbeam.kernels.jit import copied, kernel

FINE, COARSE = 0.125, 0.0625
"""Nodes lie so many supports apart, or so many deviations of a count, if that is more."""


@kernel
def threshold(frequency: Any) -> Any:
    """What taken off frequencies, clipped at 0, leaves the nearest ones that are at least 0 and add up to
    1."""
    level, before, number = -math.inf, -1, 0
    while number != before:
        before, number, total = number, 0, 0.0
        for v in range(frequency.size):
            if frequency[v] > level:
                number += 1
                total += frequency[v]
        level = (total - 1.0) / number
    return level


@kernel
def frequencies(support: Any, reports: Any, chances: Any, sum_to_one: Any, numbers: Any) -> None:
    """Frequencies and standard errors."""
    own, other, gap, unasked = chances
    steep = 1 / (gap * gap)
    for v in range(support.size):
        numbers[0, v] = (support[v] / reports[v] - other) / gap if reports[v] > 0 else math.nan
    off = threshold(numbers[0]) if sum_to_one else 0.0
    for v in range(support.size):
        share = min(max(numbers[0, v] - off, 0.0), 1.0)
        spread = share * own * (1 - own) + (1 - share) * other * (1 - other)
        error = math.sqrt((spread * steep + unasked * share * (1 - share)) / reports[v])
        numbers[1, v] = error if reports[v] > 0 else math.nan


@kernel
def cumulants(frequency: Any, chances: Any) -> Any:
    """Variance and third cumulant of a count, divided by the number of reports."""
    own, other, gap, unasked = chances
    f = min(max(frequency, 0.0), 1.0)
    mine, theirs, drawn = own * (1 - own), other * (1 - other), unasked * f * (1 - f)
    second = f * mine + (1 - f) * theirs + drawn * gap * gap
    third = f * mine * (1 - 2 * own) + (1 - f) * theirs * (1 - 2 * other)
    third += drawn * gap * (3 * (mine - theirs) + gap * gap * (1 - 2 * f) * (2 * unasked - 1))
    return second, third


@copied
def _root(frequency: Any, s: Any, sign: Any, chances: Any) -> Any:
    """Where the quadratic of :func:`score_limits` is 0: below for a sign of -1, above for 1."""
    own, other, gap, unasked = chances
    floor, drawn = other * (1 - other), unasked * gap * gap
    slope = own * (1 - own) - floor + drawn
    square = gap * gap + s * drawn
    middle = 2 * frequency * gap * gap + s * slope
    inside = middle * middle - 4 * square * (frequency * frequency * gap * gap - s * floor)
    return (middle + sign * math.sqrt(max(inside, 0.0))) / (2 * square)


@kernel
def score_limits(support: Any, reports: Any, ties: Any, chances: Any, z: Any, numbers: Any) -> None:
    """Limits of the score test, its normal law corrected for skewness (Cornish and Fisher, 1937)."""
    _, other, gap, _ = chances
    for side in range(4):
        q, sign = z[side // 2], 2.0 * (side % 2) - 1.0
        for v in range(support.size):
            if reports[v] <= 0:
                numbers[2 + side, v] = math.nan
                continue
            n = 1.0 * reports[v]
            s = q * q / n
            frequency = ((support[v] + 0.5 - ties[v]) / n - other) / gap
            second, third = cumulants(_root(frequency, s, sign, chances), chances)
            skew = third / second if second > 0.0 else 0.0
            frequency -= skew * (q * q - 1.0) / (6.0 * n * gap)
            numbers[2 + side, v] = _root(frequency, s, sign, chances)


@kernel
def distance(n: Any, chances: Any) -> Any:
    """n times the distance of two nodes, a power of 2; where everybody is asked, at least one device."""
    own, other, gap, unasked = chances
    least = n * min(own * (1 - own), other * (1 - other))
    supports = max(FINE, COARSE * math.sqrt(least))
    step = 1.0
    while step * 2.0 * gap <= supports:
        step *= 2.0
    while unasked > 0.0 and step * gap > supports:
        step *= 0.5
    return step


@kernel
def exact_limits(values: Any, few: Any, chances: Any, tails: Any, memory: Any, numbers: Any) -> None:
    """Put limits of the exact law in place of those whose frequency gives a count a variance below
    ``few``."""
    support, reports, ties = values
    before, step = -1, 1.0
    for v in range(support.size):
        n, c, tie = reports[v], support[v], ties[v]
        if n <= 0 or c < 0 or c > n:
            continue  # what is no count of n reports, a sum of cells that were made up, has no exact law
        if c == 0 and chances[1] == 0.0:
            tie = min(tie, 0.5)  # the estimate is 0, and above it begins what the tie must not reject
        elif c == n and chances[0] == 1.0:
            tie = max(tie, 0.5)
        if n != before:
            before, step = n, distance(n, chances)
        for side in range(4):
            second, _ = cumulants(numbers[2 + side, v], chances)
            if n * second < few:
                guess = min(max(numbers[2 + side, v], 0.0), 1.0) * n
                setting = step, chances
                held = limit(c, n, tie, tails[side // 2], side % 2 == 1, guess, setting, memory)
                numbers[2 + side, v] = held / n


@kernel
def end_within(numbers: Any) -> None:
    """End intervals at 0 and 1, or at the estimate where it lies beyond; found float64 (6, k)."""
    for v in range(numbers.shape[1]):
        for low in (2, 4):
            numbers[low, v] = min(max(numbers[low, v], 0.0), 1.0, numbers[0, v])
            numbers[low + 1, v] = max(min(numbers[low + 1, v], 1.0), 0.0, numbers[0, v])
