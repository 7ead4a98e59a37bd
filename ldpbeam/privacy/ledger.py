"""What devices spend: distinct memoised inputs times ε∞ (LOLOHA Eq. 8).

It is about *which* inputs a device held: see :mod:`ldpbeam.privacy.loss` for what it does not cover. A device
keeps its own figures (:mod:`ldpbeam.client.spending`); a fleet's ledger takes the counts of a simulation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import fsum, inf, nextafter

from ldpbeam.channels.exact import float_above
from ldpbeam.privacy.guarantee import Guarantee


def total_cap(guarantees: Iterable[Guarantee]) -> float:
    """The most that a device can spend over several collections, their versions or attributes, rounded up."""
    caps = [guarantee.lifetime_cap for guarantee in guarantees]
    # fsum is off by half an ulp at most, and exact for a single value.
    return caps[0] if len(caps) == 1 else nextafter(fsum(caps), inf) if any(caps) else 0.0


@dataclass(frozen=True)
class FleetLedger:
    """The ledgers of many devices, summed up."""

    mean: float
    maximum: float
    histogram: Mapping[int, int]


def fleet_ledger(inputs_per_device: Iterable[int], guarantee: Guarantee) -> FleetLedger:
    """Sum up how many inputs each device has memoised, all at the level ε∞ of ``guarantee``."""
    histogram = dict(sorted(Counter(inputs_per_device).items()))
    if not histogram:
        raise ValueError("a fleet without devices has no mean loss")
    possible = guarantee.memoised_inputs or 0
    if min(histogram) < 0 or max(histogram) > possible:
        raise ValueError(
            f"a device memoises 0 to {possible} inputs, not {min(histogram)} or {max(histogram)}"
        )
    level = guarantee.per_memoised_input or 0.0
    devices = sum(histogram.values())
    inputs = sum(count * number for count, number in histogram.items())
    return FleetLedger(_times(level, Fraction(inputs, devices)), _times(level, max(histogram)), histogram)


def _times(level: float, number: Fraction | int) -> float:
    """level · number as a float, rounded up."""
    return float_above(Fraction(level) * number)
