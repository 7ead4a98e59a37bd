"""How far an estimate is from the truth, before there is any report: for plans, checks and explanations."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

import numpy as np

from ldpbeam.arrays import Floats
from ldpbeam.estimates import variance
from ldpbeam.protocols.server_side import PartEstimator, ServerSide
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
        """The standard error."""
        return sqrt(self.absent + self.slope * frequency - self.drawn * frequency**2)

    def widest(self, frequencies: Floats) -> float:
        """Of these frequencies, (k,), the one with the largest standard error."""
        squares = self.absent + self.slope * frequencies - self.drawn * frequencies**2
        return float(frequencies[int(np.argmax(squares))])

    @property
    def least_frequency(self) -> float:
        """The f with f = 1.96·se(0) + 1.645·se(f), at most 1: the larger root of a quadratic.

        An estimate of it is beyond what an absent value has in 95 of 100 epochs.
        """
        low, square = WIDE * sqrt(self.absent), (BEYOND - WIDE) ** 2
        a, b, c = 1 + square * self.drawn, 2 * low + square * self.slope, low**2 - square * self.absent
        return min(1.0, (b + sqrt(max(b * b - 4 * a * c, 0.0))) / (2 * a))


def mean_error(estimator: PartEstimator, devices: int) -> float:
    """The largest standard error that one epoch's mean can have, in the units of the values.

    Bits are coins of the mean probability, whose variance is at most 1/4; noise is added to values whose
    population variance is at most m²/4, where only a share of the devices is drawn.

    Raises:
        TypeError: the protocol yields no mean.
    """
    protocol, share = estimator.protocol, float(estimator.share * estimator.present)
    reports, m = devices * share, protocol.domain_size - 1
    ends, noise = _ends_and_noise(protocol)
    if ends is not None:
        return m / (2 * float(ends.gap) * sqrt(reports))
    if noise is None:
        raise TypeError("only protocols for a mean have the error of one")
    return sqrt((noise + (1 - share) * m * m / 4) / reports)


def _ends_and_noise(protocol: ServerSide) -> tuple[SupportProbabilities | None, float | None]:
    added = getattr(protocol, "added_noise", None)
    return getattr(protocol, "ends", None), None if added is None else added.variance
