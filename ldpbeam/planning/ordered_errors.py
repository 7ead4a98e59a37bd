"""How far off the distribution of values in an order is, before there is any report.

All values are taken as equally frequent: nobody knows yet where they lie close together. Of a quantile that
is the median: its error is that of the share at or below it over the density there, which is 1/length.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from math import sqrt
from typing import Any

import numpy as np

from ldpbeam.arrays import Floats
from ldpbeam.estimation.distribution import ExpectedErrors
from ldpbeam.planning.needs import Ordered, OrderedNeeds
from ldpbeam.protocols import FrequencyProtocol, LocalProtocol
from ldpbeam.protocols.interval_hash import IntervalEstimator, IntervalHash
from ldpbeam.protocols.part_estimator import PartEstimator
from ldpbeam.sums.sum_errors import SumErrors, sum_errors


def ordered_error(protocol: LocalProtocol[Any], needs: OrderedNeeds, devices: int, share: Fraction) -> float:
    """The standard error of one epoch, in the unit of the needs."""
    if isinstance(protocol, IntervalHash):
        return _of_stretches(protocol.estimator, needs, devices, share)
    if not isinstance(protocol, FrequencyProtocol):
        raise TypeError(f"{protocol.NAME} tells nothing of a distribution")
    errors = errors_of_sum(protocol, share, needs.asked)
    counts = np.full((1, needs.values), max(1, round(_reports(devices, share) * protocol.estimator.asked[0])))
    return _in_unit(needs) * sqrt(float(errors.variance(even(needs)[None], counts)[0, 0]))


def period_error(protocol: IntervalHash, needs: OrderedNeeds, epochs: int, share: Fraction) -> float:
    """The standard error of the curve of several epochs, in the unit of the needs."""
    estimator = protocol.estimator
    reports = epochs * _reports(needs.devices, share)
    errors = estimator.posterior().expected_errors(reports, float(share), estimator.repeated(epochs))
    return _in_unit(needs) * errors.at_median


def moved_by_fake(protocol: LocalProtocol[Any], needs: OrderedNeeds, devices: int, share: Fraction) -> float:
    """How far one forged report moves what is asked for at most, in the unit of the needs."""
    if isinstance(protocol, IntervalHash):
        errors = _expected(protocol.estimator, devices, share)
        return needs.whole * (errors.mean_moved if needs.asked is Ordered.MEAN else errors.median_moved)
    if not isinstance(protocol, FrequencyProtocol):
        raise TypeError(f"{protocol.NAME} tells nothing of a distribution")
    weights = _weights(protocol.domain_size, needs.asked is Ordered.MEAN)
    return _in_unit(needs) * leverage_of_sum(protocol, weights, share) / devices


def leverage_of_sum(
    protocol: FrequencyProtocol[Any], weights: Floats, sampled: Fraction = Fraction(1)
) -> float:
    """What one forged report among n moves a sum Σ w·f of raw frequencies by, at most, in units of 1/n."""
    support, forgery = protocol.estimator.support, protocol.forgery
    other = float(support.other)
    most = 0.0
    for signed in (weights, -weights):
        if forgery.asked_about < weights.size:
            gains, number = np.maximum(signed * (1 - other), -signed * other), forgery.asked_about
        else:
            gains, number = np.maximum(signed, 0.0), forgery.most_supported
        most = max(most, float(np.sort(gains)[::-1][:number].sum()))
    return most / float(support.gap * support.sampled * sampled)


def lasting_part(protocol: IntervalHash, needs: OrderedNeeds, devices: int, share: Fraction) -> float:
    """The part of the variance of one epoch that the permanent round causes; 0 where there is none."""
    estimator = protocol.estimator
    if estimator.memoised is None:
        return 0.0
    alone = replace(estimator, symbol=estimator.memoised)
    whole, lasting = (_of_stretches(one, needs, devices, share) for one in (estimator, alone))
    return min(1.0, (lasting / whole) ** 2)


def errors_of_sum(
    protocol: FrequencyProtocol[Any],
    share: Fraction,
    asked: Ordered,
    participation: tuple[int, int] | None = None,
) -> SumErrors:
    """Of the sum that is asked for: the share below the middle of the domain, or the mean in places."""
    return _errors_of_sum(protocol, share, asked is Ordered.MEAN, participation)


@lru_cache(maxsize=256)
def _errors_of_sum(
    protocol: FrequencyProtocol[Any], share: Fraction, mean: bool, participation: tuple[int, int] | None
) -> SumErrors:
    weights = _weights(protocol.domain_size, mean)
    return sum_errors(PartEstimator(protocol, present=share), weights[None], participation)


def _weights(size: int, mean: bool) -> Floats:
    """Of the values in the sum, less their mean, float64 (k,)."""
    places = np.arange(size, dtype=np.float64)
    weights = places if mean else (places < size // 2).astype(np.float64)
    return np.asarray(weights - weights.mean(), np.float64)


def even(needs: OrderedNeeds) -> Floats:
    return np.full(needs.values, 1 / needs.values)


def _in_unit(needs: OrderedNeeds) -> float:
    """What an error of a share, or of a mean in places, is in the unit of the needs."""
    if needs.asked is Ordered.SHARE:
        return 1.0
    return needs.length if needs.asked is Ordered.QUANTILE else needs.length / needs.values


def _of_stretches(estimator: IntervalEstimator, needs: OrderedNeeds, devices: int, share: Fraction) -> float:
    errors = _expected(estimator, devices, share)
    if needs.asked is Ordered.SHARE:
        return errors.at_median
    return needs.length * (errors.quantile if needs.asked is Ordered.QUANTILE else errors.mean)


def _expected(estimator: IntervalEstimator, devices: int, share: Fraction) -> ExpectedErrors:
    return estimator.posterior().expected_errors(_reports(devices, share), float(share))


def _reports(devices: int, share: Fraction) -> int:
    return max(1, round(devices * share))
