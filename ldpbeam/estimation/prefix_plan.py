"""When a prefix goes on, and the smallest share of devices whose string will be found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import inf, log, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np

from ldpbeam.arrays import Floats

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


def _chance_above(share: float, none: float, spread: float, height: Any) -> Any:
    """That the estimate of a share, with this deviation, lies so many deviations ``none`` high."""
    from scipy.special import ndtr

    return ndtr((share - height * none) / spread)


def _spent(before: Floats, extensions: float, above: Callable[[Floats], Floats]) -> Floats:
    """The law of what prefixes have paid after one more level: ``above`` is the law of their heights."""
    paid = np.linspace(0, CREDIT, _CELLS)
    least = np.maximum(np.sqrt(2 * np.maximum(log(extensions) - paid, 0)), SCREEN)
    return np.asarray(np.convolve(before, np.diff(above(least), prepend=0))[:_CELLS])


@dataclass(frozen=True)
class PlannedWalk:
    """A walk before there is any report, by the normal law.

    Attributes:
        own: chance that a report supports the prefix of its device.
        g: symbols of a report.
        lengths: of prefixes.
        weights: how many devices draw each.
        symbols: of the alphabet.
    """

    own: float
    g: int
    lengths: Sequence[int]
    weights: Sequence[float]
    symbols: int

    def expected_candidates(self, share: float) -> list[float]:
        """Of each level, if as many strings are frequent as can have this share."""
        from scipy.special import ndtr

        candidates = [float(self.symbols ** self.lengths[0])]
        false = candidates[0] * np.eye(1, _CELLS)[0]
        for before, after in pairwise(self.lengths):
            extensions = float(self.symbols) ** (after - before)
            false = _spent(false, extensions, lambda least: ndtr(-least)) * extensions
            false[0] += extensions / share
            candidates.append(float(false.sum()))
        return candidates

    def find_chance(self, share: float, devices: float) -> float:
        """Chance that a string of the greatest length is found which shares no prefix with a frequent one."""
        spent, last = np.eye(1, _CELLS)[0], len(self.lengths) - 1
        for level, weight in enumerate(self.weights):
            asked = weight / sum(self.weights)
            none, spread = (
                sqrt(law_variance(f, self.own, self.g, asked) / (devices * asked)) for f in (0.0, share)
            )
            chances = partial(_chance_above, share, none, spread)
            if level < last:
                step = self.lengths[level + 1] - self.lengths[level]
                spent = _spent(spent, float(self.symbols) ** step, chances)
        quantile = deviations(false_find_share(last, last + 1), self.expected_candidates(share)[-1])
        return float(spent.sum() * chances(quantile))

    def smallest_share(self, devices: float, chance: float = 0.95) -> float:
        """The smallest share whose string is found with this chance; infinite where there is none."""
        low, high = 0.0, 1.0
        if self.find_chance(high, devices) < chance:
            return inf
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if self.find_chance(middle, devices) < chance else (low, middle)
        return high
