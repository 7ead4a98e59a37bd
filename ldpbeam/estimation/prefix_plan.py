"""When a prefix goes on, and the smallest share of devices whose string will be found."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import inf, log, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np

FALSE_FINDS = 0.05
"""Of so many collections at most, a string is found that nobody holds."""
CREDIT = 4.0
"""What a prefix can pay at all levels together before it is dropped, see :func:`deficit`."""
SCREEN = 1.5
"""Deviations of the support as it was counted, below which no candidate is looked at again."""
_CELLS = 401
"""Of the law of what a prefix has paid."""


def deficit(height: Any, extensions: int) -> Any:
    """What a level takes off the credit of a prefix that lies so many deviations high.

    The logarithm of the number of candidates that it makes of the next level, less the evidence for it. So
    prefixes of nobody die out; with a credit of 4, each frequent prefix has about 13 of them beside it.
    """
    return np.maximum(log(extensions) - np.maximum(height, 0.0) ** 2 / 2, 0.0)


def false_find_share(level: int, levels: int) -> float:
    """Chance of a false find for strings that are whole from a level on, the first being 0."""
    if levels == 1:
        return FALSE_FINDS
    # Most candidates are whole at the last level only.
    return FALSE_FINDS / 2 if level == levels - 1 else FALSE_FINDS / 2 / (levels - 1)


def deviations(chance: float, candidates: float) -> float:
    """Above which any of so many candidates lies with this chance at most; infinite where there is none."""
    return -NormalDist().inv_cdf(chance / candidates) if candidates else inf


def law_variance(share: Any, own: float, g: int, asked: float) -> Any:
    """Of the estimate of a share, times the reports: a fixed population, of which a part is at the levels."""
    other, gap = 1 / g, own - 1 / g
    law = share * own * (1 - own) + (1 - share) * other * (1 - other)
    return law / gap**2 + (1 - asked) * share * (1 - share)


def expected_candidates(share: float, lengths: Sequence[int], symbols: int) -> list[float]:
    """Of each level, if as many strings are frequent as can have this share."""
    from scipy.special import ndtr

    paid = np.linspace(0, CREDIT, _CELLS)
    false = symbols ** lengths[0] * np.eye(1, _CELLS)[0]
    candidates = [float(symbols ** lengths[0])]
    for before, after in pairwise(lengths):
        extensions = float(symbols) ** (after - before)
        least = np.maximum(np.sqrt(2 * np.maximum(log(extensions) - paid, 0)), SCREEN)
        false = np.convolve(false, np.diff(ndtr(-least), prepend=0))[:_CELLS] * extensions
        false[0] += extensions / share
        candidates.append(float(false.sum()))
    return candidates


def find_chance(
    share: float,
    devices: float,
    own: float,
    g: int,
    lengths: Sequence[int],
    weights: Sequence[float],
    symbols: int,
) -> float:
    """Chance that a string of the greatest length is found which shares no prefix with a frequent one.

    By the normal law.
    """
    from scipy.special import ndtr

    paid = np.linspace(0, CREDIT, _CELLS)
    spent = np.eye(1, _CELLS)[0]
    for level, weight in enumerate(weights):
        asked = weight / sum(weights)
        none, spread = (sqrt(law_variance(f, own, g, asked) / (devices * asked)) for f in (0.0, share))
        if level < len(lengths) - 1:
            left = log(symbols) * (lengths[level + 1] - lengths[level]) - paid
            least = np.where(left > 0, np.sqrt(2 * np.maximum(left, 0)), -inf) * none
            spent = np.convolve(spent, np.diff(ndtr((share - least) / spread), prepend=0))[:_CELLS]
    candidates = expected_candidates(share, lengths, symbols)[-1]
    quantile = deviations(false_find_share(len(lengths) - 1, len(lengths)), candidates)
    return float(spent.sum() * ndtr((share - quantile * none) / spread))


def smallest_share(
    devices: float,
    own: float,
    g: int,
    lengths: Sequence[int],
    weights: Sequence[float],
    symbols: int,
    chance: float = 0.95,
) -> float:
    """The smallest share of devices whose string is found with this chance, see :func:`find_chance`.

    Infinite where even a string of all devices is not.
    """
    low, high = 0.0, 1.0
    if find_chance(high, devices, own, g, lengths, weights, symbols) < chance:
        return inf
    for _ in range(50):
        middle = (low + high) / 2
        if find_chance(middle, devices, own, g, lengths, weights, symbols) < chance:
            low = middle
        else:
            high = middle
    return high
