"""What the errors of two epochs have in common, for means over epochs and for differences of two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import sqrt
from typing import Self

import numpy as np

from ldpbeam.arrays import Floats, Ints
from ldpbeam.estimates import variance
from ldpbeam.over_time.covariance import DrawnAnew, MemoErrors, memo_errors, slotted_errors
from ldpbeam.planning.needs import FrequencyNeeds, MeanNeeds, Ordered, OrderedNeeds
from ldpbeam.planning.ordered_errors import errors_of_sum, even, lasting_part, period_error
from ldpbeam.planning.settings import Setting
from ldpbeam.planning.spread import BEYOND, WIDE
from ldpbeam.protocols import FrequencyProtocol
from ldpbeam.protocols.interval_hash import IntervalHash
from ldpbeam.protocols.part_estimator import PartEstimator


@dataclass(frozen=True)
class Repeats:
    """Covariances of two epochs, as shares of the variance of one (docs/over-time.md)."""

    unchanged: float
    unchanged_least: float
    anew: float
    anew_least: float
    opposed: float
    rate: DrawnAnew | None
    error_of_curve: Callable[[int], float] | None = None
    """Of the cumulative share that is asked for, from one fit of so many epochs."""

    @classmethod
    def of_frequencies(cls, setting: Setting, needs: FrequencyNeeds, frequency: float) -> Self:
        protocol = setting.protocol
        assert isinstance(protocol, FrequencyProtocol)  # noqa: S101 - the needs are for frequencies
        middle = np.array([frequency])
        whole = float(variance(middle, 1, protocol.estimator.support.among(setting.share))[0])
        place = int(np.flatnonzero(needs.shares == frequency)[0])
        return cls._of(_errors(setting), middle, whole, needs.shares, needs.drawn_anew, place)

    @classmethod
    def of_mean(cls, setting: Setting, needs: MeanNeeds, whole: float) -> Self:
        middle = np.array([needs.maximum / 2])
        return cls._of(_errors(setting), middle, whole, middle, needs.drawn_anew, 0)

    @classmethod
    def of_ordered(cls, setting: Setting, needs: OrderedNeeds) -> Self:
        """Of a sum of frequencies, or of a distribution, where all values are equally frequent."""
        protocol = setting.protocol
        if isinstance(protocol, IntervalHash):
            again = Fraction(setting.reports - 1, max(setting.epochs - 1, 1)) if setting.participates else 1
            most = float(again) * lasting_part(protocol, needs, needs.devices, setting.share)
            if needs.asked is Ordered.MEAN:
                return cls(most, most, most, -most, most, needs.drawn_anew)
            curve = partial(period_error, protocol, needs, share=setting.share)
            return cls(1.0, most, 1.0, -most, most, needs.drawn_anew, curve)
        assert isinstance(protocol, FrequencyProtocol)  # noqa: S101 - there is no third kind
        few = (setting.reports, setting.epochs) if setting.participates else None
        errors = errors_of_sum(protocol, setting.share, needs.asked, few)
        counts = np.ones((1, needs.values), np.int64)
        whole = float((errors.variance(even(needs)[None], counts) * errors.reports(counts))[0, 0])
        return cls._of(
            None if errors.independent else errors, even(needs), whole, even(needs), needs.drawn_anew, 0
        )

    @classmethod
    def _of(
        cls,
        errors: MemoErrors | None,
        middle: Floats,
        whole: float,
        estimates: Floats,
        rate: DrawnAnew | None,
        place: int,
    ) -> Self:
        if errors is None:
            return cls(0.0, 0.0, 0.0, 0.0, 0.0, rate)
        anew = least = 0.0
        if rate is not None:
            few, many = errors.drawn_anew(estimates, estimates)
            least, anew = float(few[place]), float(many[place])
        opposed = float((errors.opposed(middle, errors.place(middle)) ** 2).sum())
        unchanged = float(errors.floor_variance(middle)[0])
        unchanged_least = float((errors.least_floor_variance(middle) - errors.drawn_apart(middle))[0])
        return cls(
            min(unchanged / whole, 1.0),
            min(unchanged_least / whole, 1.0),
            anew / whole,
            least / whole,
            opposed / whole,
            rate,
        )

    def most(self, lags: Ints) -> Floats:
        """The largest covariance of two epochs that are so far apart, (L,)."""
        if self.rate is None:
            return np.full(lags.shape, self.unchanged)
        return np.maximum(
            *(same * self.unchanged + (1 - same) * self.anew for same in self.rate.unchanged(lags))
        )

    def least(self, lags: Ints) -> Floats:
        """The least covariance of two epochs that are so far apart, (L,)."""
        if self.rate is None:
            return np.full(lags.shape, -self.opposed)
        return np.minimum(
            *(
                same * self.unchanged_least + (1 - same) * self.anew_least
                for same in self.rate.unchanged(lags)
            )
        )

    def mean(self, epochs: int) -> float:
        """Variance of a mean over T epochs at most: (1/T)·[1 + 2·Σ (1 − l/T)·most(l)], l = 1 .. T − 1."""
        if self.error_of_curve is not None:
            return (self.error_of_curve(epochs) / self.error_of_curve(1)) ** 2
        lags = np.arange(1, epochs)
        pairs = float(((1 - lags / epochs) * self.most(lags)).sum())
        return max(0.0, (1 + 2 * pairs) / epochs)

    def difference(self, epochs: int, apart: int) -> float:
        """Variance at most of the difference of two means over H successive epochs each."""
        lags = np.arange(1 - epochs, epochs)
        common = float(((epochs - abs(lags)) * self.least(apart + lags)).sum()) / epochs**2
        return 2 * max(0.0, self.mean(epochs) - common)

    def half_width(self, error: float, epochs: int) -> float:
        """Of the 95 % interval of a mean over epochs, for the standard error of one."""
        return WIDE * error * sqrt(self.mean(epochs))

    def least_change(self, error: float, epochs: int, apart: int) -> float:
        """Smallest change between two means that differs from none in 95 of 100 cases."""
        return BEYOND * error * sqrt(self.difference(epochs, apart))


def _errors(setting: Setting) -> MemoErrors | None:
    estimator = PartEstimator(setting.protocol)
    if setting.participates:
        return slotted_errors(estimator, setting.reports, setting.epochs)
    return memo_errors(estimator)
