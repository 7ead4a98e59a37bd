"""Protocols at the levels of the papers, and what theory says of them."""

from __future__ import annotations

from functools import cache
from typing import Any

from ldpbeam.channels.calibration import Calibration
from ldpbeam.consistency.base import Noise
from ldpbeam.protocols import FrequencyProtocol, Parameters, protocol


@cache
def frequency_protocol(
    name: str, size: int, *, published: bool = False, **parameters: Any
) -> FrequencyProtocol[Any]:
    """A protocol, its second round as it is published where that is asked for."""
    calibration = Calibration.PUBLISHED if published else Calibration.EXACT
    made = protocol(name, size, Parameters(**parameters, calibration=calibration))
    if not isinstance(made, FrequencyProtocol):
        raise TypeError(f"{name} estimates no frequencies")
    return made


def two_rounds_of(
    name: str, size: int, longitudinal: float, first: float, **more: Any
) -> FrequencyProtocol[Any]:
    """A protocol of two rounds at these levels, ε∞ and ε1."""
    return frequency_protocol(name, size, epsilon_longitudinal=longitudinal, epsilon_first=first, **more)


def floor(one: FrequencyProtocol[Any], n: int = 1) -> float:
    """V*, the variance of a value that nobody holds, of n reports."""
    return float(one.estimator.support.floor) / n


def noise(one: FrequencyProtocol[Any], n: int) -> Noise:
    support = one.estimator.support
    return Noise(n, float(support.own), float(support.other), one.estimator.EXCLUSIVE)
