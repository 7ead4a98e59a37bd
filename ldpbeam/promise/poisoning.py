"""What forged reports can do to an estimate, from the estimator alone.

A frequency is estimated as (C/n − other)/(own − other), where C counts the reports that support the value. A
report adds (1 − other)/((own − other)·n) to it where it supports the value, and takes other/((own − other)·n)
from it where it does not. A forger chooses which; a device's report does so at random, and on average adds
1/n to the frequency of its own value. These figures, times n, are the leverage of a report.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from ldpbeam.protocols.contract import LocalProtocol
from ldpbeam.protocols.estimator import Result
from ldpbeam.protocols.part_estimator import part_estimators

TARGETS = 10
"""Values of which :class:`Leverage` states the sum that one report adds to."""


@dataclass(frozen=True)
class Leverage:
    """What one forged report among n moves an estimate by, in units of 1/n (of m/n for a mean of 0 .. m)."""

    one_value: float
    one_value_down: float
    ten_values: float | None = None
    values_supported_at_most: int | None = None


def leverage(protocol: LocalProtocol[Any], sampled: Fraction = Fraction(1)) -> Leverage:
    weight, support, numbers = 1 / sampled, protocol.estimator.support, protocol.forgery.numbers
    if support is not None:
        weight /= support.sampled
        up, down = weight * (1 - support.other) / support.gap, weight * support.other / support.gap
        if protocol.estimator.result is Result.DISCOVERED:
            return Leverage(float(up), float(down))
        targets = min(TARGETS, protocol.domain_size)
        hit = min(targets, protocol.forgery.most_supported)
        ten = hit * up - (min(targets, protocol.forgery.asked_about) - hit) * down
        return Leverage(float(up), float(down), float(ten), protocol.forgery.most_supported)
    ends = protocol.forgery.stretch_ends or protocol.forgery.ends
    if ends is not None:
        up, down = (1 - ends.other) / ends.gap, ends.other / ends.gap
    elif numbers is not None:
        rise = numbers.high - numbers.low
        up, down = (numbers.most - numbers.low) / rise, (numbers.low - numbers.least) / rise
    else:
        raise TypeError(f"the leverage of {protocol.NAME} is not known")
    return Leverage(float(weight * up), float(weight * down))


def leverage_record(protocol: LocalProtocol[Any]) -> list[dict[str, float | int | None]]:
    """For run.json: one record for each attribute, in order, with the fields of :class:`Leverage`."""
    pairs = zip(protocol.parts, part_estimators(protocol), strict=True)
    return [asdict(leverage(part, estimator.share)) for part, estimator in pairs]
