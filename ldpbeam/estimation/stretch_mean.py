"""The mean of an ordered domain from reports that name stretches: without a prior, so without a bias.

Every report counts as a number m(s, y), chosen so that its expectation is the device's value, whatever that
is, and so that its variance is least where all values are equally frequent (weighted least squares). With 64
functions, crowds of different size would add to the error; what the histogram says of each crowd's mean is
taken off instead, so only what it does not explain is left (the difference estimator: Särndal, Swensson and
Wretman, Model Assisted Survey Sampling, 1992, chapter 6). It need not be right for that: the numbers keep
their expectation.

Values that no function tells apart count as the middle of theirs. There are such values where the domain has
more than all functions have cuts; the mean is then off by half of the distance between two neighbouring cuts
at the very most.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ldpbeam.arrays import Floats, Ints
from ldpbeam.estimation.posterior import applied, inverse_root
from ldpbeam.estimation.stretches import Stretches


@dataclass(frozen=True, eq=False)
class StretchMean:
    """Means from counts of stretches, in places 0 .. k − 1 of the domain."""

    stretches: Stretches

    @cached_property
    def _cuts(self) -> Ints:
        """Places where some function cuts, in rising order."""
        inner = np.unique(self.stretches.bounds[:, 1:-1])
        return inner[(inner > 0) & (inner < self.stretches.domain_size)]

    @cached_property
    def _rises(self) -> Floats:
        """How much a share below each cut takes off the mean: the distance of the middles beside it."""
        edges = np.concatenate([[0], self._cuts, [self.stretches.domain_size]])
        return np.asarray(np.diff((edges[:-1] + edges[1:] - 1) / 2), np.float64)

    @cached_property
    def _solution(self) -> tuple[Floats, float]:
        """A⁻¹w at each cut, and wᵀA⁻¹w: the variance of one report, all values equally frequent."""
        stretches, cuts = self.stretches, self._cuts
        ends = np.searchsorted(cuts, stretches.bounds)  # the edges 0 and k have a share that is known
        known = (stretches.bounds == 0) | (stretches.bounds == stretches.domain_size)
        weights = stretches.gap**2 / (stretches.functions * stretches.chances(stretches.even_shares))
        information = np.zeros((cuts.size, cuts.size))
        for low, high in zip(range(stretches.g), range(1, stretches.g + 1), strict=True):
            for i, j, sign in ((low, low, 1), (high, high, 1), (low, high, -1), (high, low, -1)):
                at = ~(known[:, i] | known[:, j])
                np.add.at(information, (ends[at, i], ends[at, j]), sign * weights[at, low])
        root, solved = np.zeros_like(information), np.zeros(cuts.size)
        inverse_root(information, root)
        applied(root, -self._rises, solved)
        return solved, float((-self._rises * solved).sum())

    @cached_property
    def numbers(self) -> Floats:
        """m(s, y), float64 (functions, g)."""
        stretches, (solved, _) = self.stretches, self._solution
        full = np.zeros(stretches.domain_size + 1)
        full[self._cuts] = solved
        steps = (
            np.diff(full[stretches.bounds], axis=1) * stretches.gap / stretches.chances(stretches.even_shares)
        )
        return np.asarray((stretches.domain_size - 1) / 2 + steps, np.float64)

    @property
    def even_variance(self) -> float:
        """The variance of one report where all values are equally frequent, their drawing included."""
        return self._solution[1]

    @property
    def most_moved(self) -> float:
        """How far one report moves the mean at most, times all reports, all values equally frequent."""
        chances = self.stretches.chances(self.stretches.even_shares)
        apart = self.numbers - (chances * self.numbers).sum(axis=1, keepdims=True)
        return float(np.abs(apart).max())

    def estimate(self, counts: Ints, cumulative: Floats, share: float) -> tuple[float, float]:
        """The mean and its standard error."""
        numbers, n = self.numbers, int(counts.sum())
        expected, drawn = self._expected(cumulative), self._drawn(cumulative)
        apart = numbers - expected
        mean = float(expected.mean() + (counts * apart).sum() / n)
        least = self._least(cumulative)
        seen = float((counts * apart**2).sum() / n)
        return mean, float(np.sqrt(max(seen - drawn, least) + (1 - share) * drawn) / np.sqrt(n))

    def lasting_part(self, memoised: tuple[float, float], cumulative: Floats, share: float) -> float:
        """The part of the variance of a mean that repeats while devices keep their values."""
        stretches, numbers, drawn = self.stretches, self.numbers, self._drawn(cumulative)
        own, other = memoised
        # What the second round leaves of a number, given the permanent answer.
        slope = stretches.gap / (own - other)
        averaged = slope * numbers + (stretches.other - slope * other) * numbers.sum(axis=1, keepdims=True)
        shares, expected = stretches.shares(cumulative), self._expected(cumulative)
        chances = other + (own - other) * shares
        lasting = float((chances * (averaged - expected) ** 2).sum() / stretches.functions) - drawn
        whole = (
            float((stretches.chances(shares) * (numbers - expected) ** 2).sum() / stretches.functions) - drawn
        )
        return min(1.0, lasting / (whole + (1 - share) * drawn))

    def _expected(self, cumulative: Floats) -> Floats:
        """What the number of a report with a function is expected to be, float64 (functions, 1)."""
        chances = self.stretches.chances(self.stretches.shares(cumulative))
        return np.asarray((chances * self.numbers).sum(axis=1, keepdims=True), np.float64)

    def _drawn(self, cumulative: Floats) -> float:
        """The variance of the value of a device that is drawn at random."""
        values, frequency = np.arange(self.stretches.domain_size), np.diff(cumulative)
        return float(((values - (values * frequency).sum()) ** 2 * frequency).sum())

    def _least(self, cumulative: Floats) -> float:
        """The variance of a number once the function is known: what the whole is never below."""
        stretches, numbers = self.stretches, self.numbers
        total, squared = numbers.sum(axis=1, keepdims=True), (numbers**2).sum(axis=1, keepdims=True)
        first = stretches.gap * numbers + stretches.other * total
        second = stretches.gap * numbers**2 + stretches.other * squared
        return float((stretches.shares(cumulative) * (second - first**2)).sum() / stretches.functions)
