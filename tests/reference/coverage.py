"""Exact coverage of intervals, from the law of the counts, with ties that are uniform in (0, 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import binom, hypergeom

from ldpbeam.estimates import CONFIDENCE, interval
from ldpbeam.support import SupportProbabilities

Interval = Callable[..., tuple[np.ndarray, np.ndarray]]

SLACK = 1e-12
"""Frequencies that differ by less are the same one, rounded."""

_HALVINGS = 40


@dataclass(frozen=True)
class Law:
    """The law of a count, and the frequency behind it."""

    counts: np.ndarray
    chances: np.ndarray
    n: int
    probabilities: SupportProbabilities
    truth: float

    @property
    def possible(self) -> tuple[float, float]:
        """The chances that an interval that holds its estimate can lie above the truth, and below it."""
        other, gap = float(self.probabilities.other), float(self.probabilities.gap)
        error = (self.counts / self.n - other) / gap - self.truth
        above, below = (float(self.chances[one].sum()) for one in (error > SLACK, error < -SLACK))
        return above if self.truth < 1 else 0.0, below if self.truth > 0 else 0.0

    @property
    def bounded(self) -> bool:
        """Whether intervals whose ends miss 0.025 each at most can cover as little as they are to."""
        if 0 < self.truth < 1:
            return min(self.possible) >= 0.01
        return max(self.possible) >= 0.02


def _binomial(n: int, p: float, tail: float) -> tuple[int, np.ndarray]:
    first, last = max(int(binom.ppf(tail, n, p)), 0), int(binom.isf(tail, n, p))
    return first, binom.pmf(np.arange(first, last + 1), n, p)


def fixed(probabilities: SupportProbabilities, holders: int, n: int, tail: float = 1e-15) -> Law:
    """All devices report, and ``holders`` of them hold the value."""
    first, mine = _binomial(holders, float(probabilities.own), tail)
    begin, theirs = _binomial(n - holders, float(probabilities.other), tail)
    chances = np.convolve(mine, theirs)
    counts = np.arange(first + begin, first + begin + chances.size)
    return Law(counts, chances, n, probabilities, holders / n)


def drawn(probabilities: SupportProbabilities, holders: int, n: int) -> Law:
    """A share ``probabilities.sampled`` of the population is drawn; ``holders`` of all hold the value."""
    population = round(n / probabilities.sampled)
    assert n == population * probabilities.sampled
    of = hypergeom(population, holders, n)
    total = np.zeros(n + 1)
    for mine in range(max(int(of.ppf(1e-13)), 0), int(of.isf(1e-13)) + 1):
        one = fixed(probabilities, mine, n)
        total[one.counts] += of.pmf(mine) * one.chances
    likely = np.flatnonzero(total > 1e-17)
    counts = np.arange(likely[0], likely[-1] + 1)
    return Law(counts, total[counts], n, probabilities, holders / population)


def missed(law: Law, confidence: float = CONFIDENCE, by: Interval = interval) -> tuple[float, float]:
    """The chances that an interval lies above the truth, and below it."""
    found = []
    for side in range(2):
        low, high = np.zeros(law.counts.size), np.ones(law.counts.size)
        for _ in range(_HALVINGS):
            ties = (low + high) / 2
            limit = by(law.counts, law.n, law.probabilities, ties, confidence)[side]
            lower = limit <= law.truth + SLACK if side == 0 else limit < law.truth - SLACK
            low, high = np.where(lower, low, ties), np.where(lower, ties, high)
        place = (low + high) / 2
        found.append(float(law.chances @ (place if side == 0 else 1 - place)))
    return found[0], found[1]


def coverage(law: Law, confidence: float = CONFIDENCE, by: Interval = interval) -> float:
    """The chance that an interval holds the truth."""
    return 1 - sum(missed(law, confidence, by))
