"""The distribution of an ordered domain from reports that name stretches: a posterior with honest limits.

The counts' likelihood is taken as normal in the histogram, with the information of the chances that the
histogram before gave, from an even one on (iteratively reweighted least squares). The prior is a random walk:
the difference of neighbouring frequencies is normal with variance 1/λ. Values with a spike of their own, the
*atoms*, are left out of it; of the two ends, all four answers to whether they are atoms are mixed by what the
counts say of them. λ is the one of greatest likelihood (docs/maths.md section 7).

The estimate is the posterior mean. What was learned must not be trusted alone with limits: few reports of a
staircase look smooth, and a twentieth of the devices at one end does not show. So limits come from a
posterior in which both ends are atoms, and that allows ten times the learned variance and always that the
density wanders by :data:`WANDER` over an eighth of the domain.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from statistics import NormalDist

import numpy as np

from ldpbeam.arrays import Floats, Ints
from ldpbeam.estimation.posterior import (
    applied,
    eliminate,
    gram,
    inverse_root,
    log_likelihoods,
    outer,
    squares,
    tridiagonal,
    weighted_sum,
)
from ldpbeam.estimation.quantiles import isotonic, quantile
from ldpbeam.estimation.stretch_mean import StretchMean
from ldpbeam.estimation.stretches import Repeated, Stretches

WANDER = 4.0
"""The standard deviation of the change of the density over an eighth of the domain that limits always allow;
an even density is 1."""

MORE = 10.0
"""How many times the learned variance of the walk limits allow."""

_WANDERS = np.geomspace(0.02, 2000.0, 81)
"""The scales that are tried, as changes of the density over an eighth of the domain."""

_PASSES = 3
"""Of the information: the third changes limits by less than a hundredth of their width."""

_EVEN = 0.1
"""The part of an even histogram in the one that the information is taken at: no chance is then too sure."""

_ATOM = 1.0
"""The precision of the share of an atom beforehand: any share is likely enough. ln 1 = 0 adds nothing to a
likelihood."""


@dataclass(frozen=True, eq=False)
class CumulativeCurve:
    """The shares of the devices up to each value, and their limits; arrays have an entry per value."""

    n: int
    cumulative: Floats
    centre: Floats
    std_error: Floats

    @property
    def frequency(self) -> Floats:
        """The histogram, float64 (k,): at least 0, and it adds up to 1."""
        return np.asarray(np.diff(self.cumulative, prepend=0.0), np.float64)

    def limits(self, confidence: float) -> tuple[Floats, Floats]:
        """Limits of each cumulative share by itself, float64 (k,) twice; they hold the estimate."""
        reach = _reach(confidence) * self.std_error
        low = np.minimum(np.clip(self.centre - reach, 0.0, 1.0), self.cumulative)
        return low, np.maximum(np.clip(self.centre + reach, 0.0, 1.0), self.cumulative)

    def quantile(self, share: float, confidence: float) -> tuple[int, int, int]:
        """The first value at or below which a share of the devices lies, and its limits, in places."""
        return quantile(self.cumulative, self.centre, self.std_error, share, _reach(confidence))


@dataclass(frozen=True, eq=False)
class Distribution(CumulativeCurve):
    """What one epoch says about an ordered domain."""

    mean: float
    mean_std_error: float

    def mean_limits(self, confidence: float) -> tuple[float, float]:
        """Limits of the mean, in places; they end at the first and the last value, or at the mean beyond."""
        reach = _reach(confidence) * self.mean_std_error
        return mean_limits(self.mean, reach, (0.0, float(self.cumulative.size - 1)))


@dataclass(frozen=True, eq=False)
class _Fit:
    """Of some members of the basis: the best likelihood of a scale, that scale, and the mean of θ at it."""

    likelihood: float
    scale: float
    middle: Floats


def _mixed(fits: list[_Fit]) -> Floats:
    """The mean of θ over fits, by their likelihoods."""
    likelihoods = np.array([fit.likelihood for fit in fits])
    weights = np.exp(likelihoods - likelihoods.max())
    mixed = np.zeros_like(fits[0].middle)
    weighted_sum(np.array([fit.middle for fit in fits]), weights / weights.sum(), mixed)
    return mixed


def mean_limits(mean: float, reach: float, ends: tuple[float, float]) -> tuple[float, float]:
    """Limits of a mean, as far to either side; they end at the ends of the domain, or at the mean beyond."""
    low, high = max(mean - reach, ends[0]), min(mean + reach, ends[1])
    return min(low, mean), max(high, mean)


def _reach(confidence: float) -> float:
    """Standard errors to either side."""
    return NormalDist().inv_cdf(0.5 + confidence / 2)


@dataclass(frozen=True)
class ExpectedErrors:
    """Standard errors before any report, and what a forged one does, where all values are equally
    frequent."""

    cumulative: float
    at_median: float
    quantile: float
    mean: float
    median_moved: float
    mean_moved: float


@dataclass(frozen=True, eq=False)
class WalkPosterior:
    """From counts of stretches to the distribution."""

    stretches: Stretches
    atoms: tuple[int, ...] = ()

    @cached_property
    def mean(self) -> StretchMean:
        """What the counts tell of the mean alone, from the same stretches."""
        return StretchMean(self.stretches)

    @cached_property
    def _ends(self) -> tuple[int, ...]:
        """The ends that may turn out to be atoms."""
        return tuple(sorted({0, self.stretches.domain_size - 1} - set(self.atoms)))

    @cached_property
    def _slopes(self) -> Floats:
        return self.stretches.of_stretches(self._spikes)

    @property
    def _spikes(self) -> tuple[int, ...]:
        return (*self._ends, *self.atoms)

    @cached_property
    def _scales(self) -> Floats:
        """λ of each wander c: k³/(8c²)."""
        return np.asarray(self.stretches.domain_size**3 / (8 * _WANDERS**2), np.float64)

    @cached_property
    def _choices(self) -> tuple[Ints, ...]:
        """The members of the basis, for each answer to whether ends are atoms; those with all stand last."""
        others = [True] * (len(self.atoms) + self.stretches.smooth)
        answers = product((False, True), repeat=len(self._ends))
        return tuple(np.flatnonzero([*ends, *others]) for ends in answers)

    @property
    def _every(self) -> Ints:
        return self._choices[-1]

    @property
    def _floor(self) -> float:
        """The largest λ of limits."""
        return float(self.stretches.domain_size**3 / (8 * WANDER**2))

    def estimate(self, counts: Ints, share: float = 1.0) -> Distribution:
        curve, table = self.curve(counts), counts.reshape(self.stretches.functions, self.stretches.g)
        mean = self.mean.estimate(table, np.concatenate([[0.0], curve.cumulative]), share)
        return Distribution(**vars(curve), mean=mean[0], mean_std_error=mean[1])

    def curve(self, counts: Ints | Floats, repeated: Repeated | None = None) -> CumulativeCurve:
        """The cumulative shares from the counts of an epoch, or from those of several, which may be weighted.

        Args:
            counts: (functions·g,).
            repeated: what repeats itself in the reports of several epochs; None where nothing does.
        """
        stretches = self.stretches
        table = counts.reshape(stretches.functions, stretches.g)
        shares = stretches.even_shares
        for _ in range(_PASSES - 1):
            fit = self._fit(*self._linear(table, shares, repeated), self._every)
            frequency = np.maximum(np.diff(self._curve(fit.middle)), 0.0)
            frequency *= (1 - _EVEN) / frequency.sum()
            whole = np.concatenate([[0.0], np.cumsum(frequency + _EVEN / stretches.domain_size)])
            shares = stretches.shares(whole)
        information, score = self._linear(table, shares, repeated)
        fits = [self._fit(information, score, members) for members in self._choices]
        rising = np.clip(isotonic(self._curve(_mixed(fits))[1:-1]), 0.0, 1.0)
        cumulative = np.concatenate([rising, [1.0]])
        scale = min(fits[-1].scale / MORE, self._floor)
        centre, root = self._posterior(information, score, self._every, scale)
        middle, variance = self._curve(centre)[1:], self._variance(outer(root))[1:]
        middle[-1], variance[-1] = 1.0, 0.0
        std_error = np.sqrt(np.maximum(variance, 0.0))
        return CumulativeCurve(round(table.sum()), cumulative, middle, std_error)

    def expected_errors(self, n: int, share: float = 1.0, repeated: Repeated | None = None) -> ExpectedErrors:
        """Standard errors of so many reports, no atoms, all values equally frequent."""
        stretches, ends = self.stretches, len(self._spikes)
        information = np.zeros((stretches.smooth, stretches.smooth))
        weights = n / (stretches.functions * stretches.spreads(stretches.even_shares, repeated))
        gram(np.ascontiguousarray(self._slopes[:, ends:]), weights.ravel(), information)
        information[range(stretches.smooth), range(stretches.smooth)] += self._floor * stretches.roughness
        root, covariance = np.zeros_like(information), np.zeros((ends + stretches.smooth,) * 2)
        inverse_root(information, root)
        covariance[ends:, ends:] = outer(root)
        curve = np.sqrt(np.maximum(self._variance(covariance), 0.0))
        length, middle = stretches.domain_size, stretches.domain_size // 2
        median = float(curve[middle])
        even = (length**2 - 1) / 12
        mean = np.sqrt((self.mean.even_variance - share * even) / n) / length
        # The posterior moves by its covariance times the score of the report.
        below, moved = np.zeros(ends + stretches.smooth), np.zeros(stretches.functions * stretches.g)
        weighted_sum(covariance, stretches.below(np.array(middle), self._spikes), below)
        weighted_sum(np.ascontiguousarray(self._slopes.T), below, moved)
        moved /= stretches.chances(stretches.even_shares).ravel()
        most = self.mean.most_moved / n / length
        return ExpectedErrors(
            float(curve.max()), median, median, float(mean), float(np.abs(moved).max()), most
        )

    def _linear(
        self, table: Ints | Floats, shares: Floats, repeated: Repeated | None
    ) -> tuple[Floats, Floats]:
        """The information on θ, with the prior of spikes, and the score at an even histogram."""
        stretches, d, spikes = self.stretches, self._slopes.shape[1], len(self._spikes)
        spreads, sizes = stretches.spreads(shares, repeated), table.sum(axis=1, keepdims=True)
        information, score = np.zeros((d, d)), np.zeros(d)
        gram(self._slopes, (sizes / spreads).ravel(), information)
        beyond = (table - sizes * stretches.chances(stretches.even_shares)) / spreads
        weighted_sum(self._slopes, beyond.ravel(), score)
        information[range(spikes), range(spikes)] += _ATOM
        return information, score

    def _fit(self, information: Floats, score: Floats, members: Ints) -> _Fit:
        """The scale of greatest likelihood, and the posterior mean at it, of some members of the basis."""
        likelihoods = self._profile(information[np.ix_(members, members)], score[members])
        best = int(likelihoods.argmax())
        scale = float(self._scales[best])
        return _Fit(float(likelihoods[best]), scale, self._posterior(information, score, members, scale)[0])

    def _profile(self, information: Floats, score: Floats) -> Floats:
        """The likelihood of each scale, up to what all of them have in common; spikes stand first."""
        d = self.stretches.smooth
        spikes = score.size - d
        log_determinant, square = eliminate(information, score, spikes)
        # In units in which the penalty is λ itself; its own determinant is the same for all ends.
        unit = np.sqrt(self.stretches.roughness)
        matrix = information[spikes:, spikes:] / unit / unit[:, None]
        vector = score[spikes:] / unit
        diagonal, beside, likelihoods = np.zeros(d), np.zeros(d), np.zeros(self._scales.size)
        tridiagonal(matrix, vector, diagonal, beside)
        log_likelihoods(diagonal, beside, vector, self._scales, likelihoods)
        return np.asarray(likelihoods + (square - log_determinant) / 2, np.float64)

    def _posterior(
        self, information: Floats, score: Floats, members: Ints, scale: float
    ) -> tuple[Floats, Floats]:
        """Mean of θ, 0 for those that are no members, and R with R Rᵀ the covariance of the members."""
        smooth, middle = self.stretches.smooth, np.zeros(score.size)
        matrix, mean = information[np.ix_(members, members)], np.zeros(members.size)
        matrix[range(-smooth, 0), range(-smooth, 0)] += scale * self.stretches.roughness
        root = np.zeros_like(matrix)
        inverse_root(matrix, root)
        applied(root, score[members], mean)
        middle[members] = mean
        return middle, root

    def _curve(self, theta: Floats) -> Floats:
        """The shares below the edges 0 .. k, float64 (k + 1,)."""
        curve = np.arange(self.stretches.domain_size + 1) / self.stretches.domain_size
        for edges in self.stretches.blocks():
            along = np.zeros(edges.size)
            weighted_sum(self.stretches.below(edges, self._spikes).T, theta, along)
            curve[edges] += along
        return curve

    def _variance(self, covariance: Floats) -> Floats:
        """The variances of these shares, float64 (k + 1,)."""
        variance = np.zeros(self.stretches.domain_size + 1)
        for edges in self.stretches.blocks():
            along = np.zeros(edges.size)
            squares(self.stretches.below(edges, self._spikes), covariance, along)
            variance[edges] = along
        return variance
