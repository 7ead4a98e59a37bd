"""Stage 4 of 5, estimate: unbiased frequencies with their variance and intervals, once for every protocol.

Everything follows from n reports, the support C(v) and the protocol's (own, other) (docs/maths.md section 1):

* estimate   f̂ = (C/n − other)/(own − other), unbiased, may be negative;
* variance   [f·own(1−own) + (1−f)·other(1−other)] / (n (own−other)²), with the shares nearest to all
  estimates of a histogram for f;
* interval   the values of f that a two-sided test of that level does not reject. Where counts are few, the
  test uses the exact law of the count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from math import ceil, floor, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from ldpbeam.arrays import Floats, Ints
from ldpbeam.support import SupportProbabilities

if TYPE_CHECKING:
    from ldpbeam.estimation.distribution import Distribution
    from ldpbeam.estimation.prefix_walk import Walk

Chances = tuple[float, float, float, float]
"""As of :attr:`ldpbeam.support.SupportProbabilities.chances`."""

CONFIDENCE = 0.95
"""Level of every interval that the pipeline writes."""

FEW = 50.0
"""Variance of a support count below which limits come from the count's exact law."""

_REMEMBERED = 4096
"""Chances of the exact law that one call remembers: values of a hundred different counts need as many."""

_SCRATCH = 1025
"""More than 9 deviations of a count to either side, wherever a limit of few counts can lie."""

_TIES, _UNLIKELY = 32, 1e-9
"""Ties for each of few counts, and the chance of counts that are left out, where a width is expected."""

_PLACES = np.linspace(-4.5, 4.5, 61)
"""Deviations from the mean where a width is expected of many counts."""

_WEIGHTS = np.exp(-(_PLACES**2) / 2) / np.exp(-(_PLACES**2) / 2).sum()
"""Their chances."""


@dataclass(frozen=True)
class Estimates:
    """What one histogram says; every array has one entry per row (k of them, or 1 for a mean)."""

    n: Ints
    support: Ints
    numbers: Floats
    distribution: Distribution | None = None
    labels: tuple[str, ...] | None = None
    """Of the rows, where these are what was found."""
    walk: Walk | None = None
    """How they were found."""

    @property
    def frequency(self) -> Floats:
        """Unbiased estimates (for a mean: the mean, in the units of the value)."""
        return self._row(0)

    @property
    def std_error(self) -> Floats:
        return self._row(1)

    @property
    def low(self) -> Floats:
        """Lower ends of pointwise intervals at :data:`CONFIDENCE`."""
        return self._row(2)

    @property
    def high(self) -> Floats:
        return self._row(3)

    @property
    def low_all(self) -> Floats:
        """Lower ends of intervals that hold for all rows at once at that level (Bonferroni)."""
        return self._row(4)

    @property
    def high_all(self) -> Floats:
        return self._row(5)

    def _row(self, place: int) -> Floats:
        row: Floats = self.numbers[place]
        return row

    def scaled(self, factor: float) -> Estimates:
        """The same in other units: ``factor`` times every number but the counts."""
        return Estimates(self.n, self.support, self.numbers * factor)

    def rows(self, where: slice) -> Estimates:
        return Estimates(self.n[where], self.support[where], self.numbers[:, where])

    @classmethod
    def joined(cls, parts: Sequence[Estimates]) -> Estimates:
        n, support = np.concatenate([one.n for one in parts]), np.concatenate([one.support for one in parts])
        return cls(n, support, np.concatenate([one.numbers for one in parts], axis=1))

    @classmethod
    def unknown(cls, rows: int) -> Estimates:
        """What is known without a report."""
        zero = np.zeros(rows, np.int64)
        return cls(zero, zero, np.full((6, rows), np.nan))


def support_variance(frequency: Floats, own: float, other: float) -> Floats:
    """Variance of whether a report supports a value of this true frequency, the population being fixed."""
    return np.asarray(frequency * own * (1 - own) + (1 - frequency) * other * (1 - other), np.float64)


def variance(frequency: Floats, n: int | Ints, probabilities: SupportProbabilities) -> Floats:
    """Variance of the estimates for a fixed population of these true frequencies."""
    own, other, gap, unasked = probabilities.chances
    clipped = np.clip(frequency, 0.0, 1.0)
    spread = support_variance(clipped, own, other)
    drawn = unasked * clipped * (1 - clipped)
    return np.asarray((spread / gap**2 + drawn) / n, np.float64)


def interval(
    support: Ints,
    n: int | Ints,
    probabilities: SupportProbabilities,
    ties: Floats | None = None,
    confidence: float = CONFIDENCE,
) -> tuple[Floats, Floats]:
    """Pointwise confidence limits, by inverting a test instead of adding a Wald margin."""
    levels = confidence, confidence
    _, numbers = _with_limits(support, n, probabilities.chances, ties, levels, False)
    return numbers[2], numbers[3]


def expected_half_width(
    frequency: Floats | float, n: int, probabilities: SupportProbabilities, confidence: float = CONFIDENCE
) -> Floats:
    """What half of the width of an :func:`interval` is on average, with uniform ties, before any report."""
    chances, true = probabilities.chances, np.asarray(frequency, np.float64)
    widths = [_half_width(f, n, chances, confidence) for f in true.ravel().tolist()]
    return np.array(widths).reshape(true.shape)


@lru_cache(maxsize=1 << 16)
def _half_width(frequency: float, n: int, chances: Chances, confidence: float) -> float:
    counts, ties, weights = _likely_counts(frequency, n, chances)
    _, numbers = _with_limits(counts, n, chances, ties, (confidence, confidence), False)
    return float(weights @ (numbers[3] - numbers[2])) / 2


def _likely_counts(frequency: float, n: int, chances: Chances) -> tuple[Ints, Floats, Floats]:
    """Counts with ties, and weights of all of them that add up to 1."""
    second, third = _kernels().cumulants(frequency, chances)
    mean, deviation = n * (chances[1] + frequency * chances[2]), sqrt(n * second)
    if n * second >= FEW:
        place = mean + deviation * _PLACES + third / second * (_PLACES * _PLACES - 1) / 6
        counts = np.clip(np.ceil(place - 0.5), 0, n)
        return counts.astype(np.int64), np.clip(counts + 0.5 - place, 0.0, 1.0), _WEIGHTS
    from ldpbeam.estimation.exact_limits import law

    first, last = floor(mean - 9 * deviation) - 9, ceil(mean + 9 * deviation) + 18
    counts = np.arange(max(first, 0), min(last, n) + 1)
    scratch = np.empty(_SCRATCH), np.empty(_SCRATCH)
    chance = np.array([law(c, n, frequency * n, chances, *scratch)[1] for c in counts.tolist()])
    likely = chance > _UNLIKELY
    ties = np.tile((np.arange(_TIES) + 0.5) / _TIES, np.count_nonzero(likely))
    weights = np.repeat(chance[likely], _TIES)
    return np.repeat(counts[likely], _TIES), ties, weights / weights.sum()


@cache
def _kernels() -> Any:
    from ldpbeam.estimation import intervals  # who only plans needs none

    return intervals


def _with_limits(
    support: Ints,
    n: int | Ints,
    chances: Chances,
    ties: Floats | None,
    levels: tuple[float, float],
    sum_to_one: bool,
) -> tuple[Ints, Floats]:
    """Reports; and frequencies, errors, low and high of either level, (6, k), NaN without a report."""
    size = support.size
    counts, numbers = _plain(support), np.empty((6, size))
    reports = n.astype(np.int64) if isinstance(n, np.ndarray) else np.full(size, n, np.int64)
    split = np.full(size, 0.5) if ties is None else _plain(ties)
    kernels = _kernels()
    quantiles, tails = _quantiles_and_tails(levels)
    kernels.frequencies(counts, reports, chances, sum_to_one, numbers)
    kernels.score_limits(counts, reports, split, chances, quantiles, numbers)
    own, other, _, _ = chances
    least = int(reports[reports.argmin()])  # half of the time that min() takes
    if least * min(own * (1 - own), other * (1 - other)) < FEW:
        keys, known = np.full((_REMEMBERED, 3), -1, np.int64), np.empty((_REMEMBERED, 2))
        memory = keys, known, np.empty(_SCRATCH), np.empty(_SCRATCH)
        kernels.exact_limits((counts, reports, split), FEW, chances, tails, memory, numbers)
    kernels.end_within(numbers)
    return reports, numbers


def nearest_shares(frequency: Floats) -> Floats:
    """The frequencies that are not negative and add up to 1 that lie nearest to these, row by row."""
    return np.asarray(np.maximum(frequency - share_levels(frequency), 0.0), np.float64)


def share_levels(frequency: Floats) -> Floats:
    """What :func:`nearest_shares` takes off the frequencies of each row, float64 (..., 1)."""
    levels = np.empty((*frequency.shape[:-1], 1))
    for row in np.ndindex(frequency.shape[:-1]):
        levels[row] = _kernels().threshold(np.ascontiguousarray(frequency[row]))
    return levels


def _somebody(n: int | Ints) -> bool:
    """Whether there is any report; where the first value has some, no other needs to be looked at."""
    if isinstance(n, np.ndarray):
        return bool(n.size and n[0]) or bool(n.any())
    return bool(n)


def _plain(array: Any) -> Any:
    """The array, or a copy where it is read-only or has gaps: kernels compile for one kind, and read fast."""
    return array if array.flags.carray else array.copy()


@lru_cache(maxsize=1024)
def _quantiles_and_tails(levels: tuple[float, float]) -> tuple[Floats, Floats]:
    """Two-sided quantiles of the normal law, and the areas of a tail."""
    quantiles = np.array([NormalDist().inv_cdf(0.5 + level / 2) for level in levels])
    return quantiles, (1 - np.array(levels)) / 2


def tie_breakers(digest: int, epoch: int, size: int) -> Floats:
    """Public, reproducible uniforms that split ties of few counts: a function of collection, epoch, value."""
    # Philox is counter-based: entry v does not depend on how many values there are.
    # Typed: numpy turns a list with an integer above 2**63 into floats.
    key = np.array([digest, 0x6C6470], np.uint64)
    counter = np.array([0, 0, epoch % (1 << 64), 0], np.uint64)
    generator = np.random.Philox(key=key, counter=counter)
    words = generator.random_raw(size)
    return (np.asarray(words >> np.uint64(11), np.float64) + 0.5) * 2.0**-53


def estimate(
    support: Ints,
    n: int | Ints,
    probabilities: SupportProbabilities,
    ties: Floats | None = None,
    sum_to_one: bool = False,
) -> Estimates:
    """Estimates, standard errors and intervals from support counts.

    Args:
        support: int64 (k,).
        n: number of reports behind them, one number or one per value.
        probabilities: own and other of the protocol.
        ties: see :func:`interval`.
        sum_to_one: whether each device holds exactly one of the values, so that the frequencies in the
            variances are :func:`nearest_shares`; without it, estimates clipped to [0, 1].

    Raises:
        ValueError: no report at all; there is nothing to estimate.
    """
    if not _somebody(n):
        raise ValueError("an estimate needs at least one report")
    levels = CONFIDENCE, 1 - (1 - CONFIDENCE) / support.size
    reports, numbers = _with_limits(support, n, probabilities.chances, ties, levels, sum_to_one)
    return Estimates(reports, support, numbers)
