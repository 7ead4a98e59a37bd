"""Axis ranges, ticks and label places: the arithmetic of the charts."""

from __future__ import annotations

import math
from collections.abc import Sequence


def span(epochs: Sequence[int]) -> list[float]:
    """The epochs' range; a single epoch is put in the middle."""
    low, high = min(epochs), max(epochs)
    return [low, high] if high > low else [low - 1, high + 1]


def whole(low: float, high: float, count: int) -> list[int]:
    """About `count` whole numbers in a range, evenly apart by 1, 2 or 5 times a power of ten."""
    first, last = math.ceil(low), math.floor(high)
    step = next(
        size * 10**power
        for power in range(19)
        for size in (1, 2, 5)
        if (last - first) // (size * 10**power) < max(count, 2)
    )
    return list(range(-(-first // step) * step, last + 1, step))


def nice(values: Sequence[float], logarithmic: bool) -> tuple[float, float]:
    """The axis range: from 0 to a little above the largest value, or with room on both sides."""
    if not logarithmic:
        return 0.0, max(values) * 1.06 or 1.0
    return min(values) / 1.6, max(values) * 1.6


def ticks(domain: tuple[float, float]) -> list[float]:
    """Decades, with 2 and 5 between them where there are few."""
    low, high = (math.log10(end) for end in domain)
    steps = (1, 2, 5) if high - low < 2.2 else (1,)
    ticks = [step * 10.0**power for power in range(math.floor(low), math.ceil(high) + 1) for step in steps]
    inside = [tick for tick in ticks if domain[0] <= tick <= domain[1]]
    return inside[:: math.ceil(len(inside) / 8) or 1]


def apart(
    ends: Sequence[tuple[str, str, float]], domain: tuple[float, float], logarithmic: bool, gap: float
) -> list[tuple[str, str, float]]:
    """Move labels that would overlap: at least `gap` (a share of the height) between them."""

    def unit(value: float) -> float:
        return math.log10(value) if logarithmic else value

    low, high = unit(domain[0]), unit(domain[1])
    ordered = sorted(ends, key=lambda end: end[2])
    places = [(unit(end[2]) - low) / (high - low) for end in ordered]
    for _ in range(50):
        for i in range(len(places) - 1):
            lack = gap - (places[i + 1] - places[i])
            if lack > 1e-9:
                places[i] -= lack / 2
                places[i + 1] += lack / 2
        places = [min(1.0, max(0.0, place)) for place in places]
    moved = [low + place * (high - low) for place in places]
    values = [10.0**place if logarithmic else place for place in moved]
    return [(name, colour, y) for (name, colour, _), y in zip(ordered, values, strict=True)]
