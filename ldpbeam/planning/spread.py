"""How far an estimate is from the truth, before there is any report: for plans, checks and explanations."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi, sqrt
from statistics import NormalDist

import numpy as np

from ldpbeam.arrays import Floats
from ldpbeam.estimates import expected_half_width, variance
from ldpbeam.protocols.contract import MeanProtocol
from ldpbeam.protocols.part_estimator import PartEstimator
from ldpbeam.support import SupportProbabilities

WIDE = NormalDist().inv_cdf(0.975)
"""Standard errors of the half-width of a 95 % interval."""

BEYOND = WIDE + NormalDist().inv_cdf(0.95)
"""Standard errors from which on a difference is beyond such an interval in 95 of 100 cases."""


@dataclass(frozen=True)
class Spread:
    """Variance of one epoch's estimate of a value of frequency f: absent + slope·f − drawn·f²."""

    absent: float
    slope: float
    drawn: float

    @classmethod
    def of(cls, support: SupportProbabilities, devices: int) -> Spread:
        """Of a population of so many devices, of which a share ``support.sampled`` is behind a value."""
        # Through three frequencies: it is a quadratic.
        reports = devices * float(support.sampled)
        zero, half, one = (variance(np.array([0.0, 0.5, 1.0]), 1, support) / reports).tolist()
        drawn = 4 * half - 2 * (zero + one)
        return cls(zero, one - zero + drawn, drawn)

    def error(self, frequency: float) -> float:
        """Standard error of the estimate of a value that has this frequency; both are shares of one."""
        return sqrt(self.absent + self.slope * frequency - self.drawn * frequency**2)

    @property
    def least_frequency(self) -> float:
        """The f with f = 1.96·se(0) + 1.645·se(f), at most 1: the larger root of a quadratic."""
        low, square = WIDE * sqrt(self.absent), (BEYOND - WIDE) ** 2
        a, b, c = 1 + square * self.drawn, 2 * low + square * self.slope, low**2 - square * self.absent
        return min(1.0, (b + sqrt(max(b * b - 4 * a * c, 0.0))) / (2 * a))


@dataclass(frozen=True)
class Widths:
    """Half-widths of the 95 % intervals that a run publishes for an epoch, on average."""

    widest: float
    half_width: float
    even: float

    @classmethod
    def of(cls, support: SupportProbabilities, devices: int, shares: Floats) -> Widths:
        spread = Spread.of(support, devices)
        squares = spread.absent + spread.slope * shares - spread.drawn * shares**2
        # Intervals end at 0 and 1, which narrows that of a rare value, whatever its error is.
        errors = np.sqrt(squares)
        reach = WIDE * errors
        low, high = (_positive_part(end, errors) for end in (shares - reach, 1 - shares - reach))
        widest = float(shares[int(np.argmax(1 - low - high))])
        half_width, even = (published_half_width(support, devices, one) for one in (widest, 1 / shares.size))
        return cls(widest, half_width, even)


def _positive_part(means: Floats, errors: Floats) -> Floats:
    """E max(0, X) of normal X with these means and standard deviations: μ·Φ(μ/σ) + σ·φ(μ/σ)."""
    from scipy.special import ndtr

    places = means / errors
    return np.asarray(means * ndtr(places) + errors * np.exp(-places * places / 2) / sqrt(2 * pi), np.float64)


def published_half_width(support: SupportProbabilities, devices: int, frequency: float) -> float:
    """The half-width of the 95 % interval of a value, on average over epochs."""
    reports = max(1, int(devices * support.sampled))
    return float(expected_half_width(frequency, reports, support))


def mean_error(estimator: PartEstimator, devices: int, *, worst: bool = False) -> float:
    """The standard error of one epoch's mean in the units of the values: of such as are spread evenly, or of
    those that have the largest."""
    protocol, share = estimator.protocol, float(estimator.share * estimator.present)
    if isinstance(protocol, MeanProtocol):
        of = protocol.estimator
        return sqrt((of.worst_variance if worst else of.even_variance)(share) / (devices * share))
    ends = protocol.forgery.ends
    if ends is None:
        raise TypeError("neither a mean nor a distribution is asked for")
    # Of stretches, as of one bit, no values have more noise than those that are spread evenly.
    return (protocol.domain_size - 1) / (2 * float(ends.gap) * sqrt(devices * share))
