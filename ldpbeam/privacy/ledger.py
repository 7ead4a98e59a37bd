"""What a device has spent: distinct memoised inputs times ε∞ (LOLOHA Eq. 8), counted as they come.

The ledger speaks about *which* inputs a device held, like the cap it runs up to: see
:mod:`ldpbeam.privacy.loss` for what it does not cover. :class:`Ledger` and its sums are plain Python for
programs that count by themselves; the client keeps its figures with :mod:`ldpbeam.client.spending`, and a
fleet's ledger takes the counts that a simulation has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import fsum, inf, nextafter

from ldpbeam.channels.exact import float_above, log_above, log_above_power
from ldpbeam.privacy.guarantee import Guarantee


@dataclass(frozen=True)
class Ledger:
    """The ledger of one device for one collection; for one attribute where attributes have own levels.

    Attributes:
        guarantee: the collection's.
        inputs: memoised inputs so far, as the device's memo names them.
        reports: reports so far, counted for one-round protocols only: each of them spends again.
    """

    guarantee: Guarantee
    inputs: frozenset[Hashable] = field(default=frozenset(), repr=False)  # they give the values away
    reports: int = 0

    def __post_init__(self) -> None:
        """Raises ValueError for more inputs than can be memoised."""
        possible = self.guarantee.memoised_inputs
        if possible is not None and len(self.inputs) > possible:
            raise ValueError(f"{len(self.inputs)} memoised inputs are more than the {possible} that exist")

    def spend(self, key: Hashable) -> Ledger:
        """The ledger after a report about the input ``key``; the same object when that spends nothing."""
        if self.guarantee.memoised_ratio is None:
            return replace(self, reports=self.reports + 1)
        if key in self.inputs:
            return self
        return replace(self, inputs=self.inputs | {key})

    @property
    def spent_ratio(self) -> Fraction:
        """The likelihood ratio that was spent, exact."""
        if self.guarantee.memoised_ratio is None:
            return self.guarantee.first_ratio**self.reports
        return self.guarantee.memoised_ratio ** len(self.inputs)

    @property
    def spent(self) -> float:
        """ε̌, its logarithm, rounded up; 0 for a device that never reported."""
        ratio = self.spent_ratio
        return 0.0 if ratio == 1 else log_above(ratio)

    @property
    def cap(self) -> float:
        """The most that can ever be spent; for one-round protocols infinite, unless reports are limited."""
        if self.guarantee.memoised_ratio is None and self.guarantee.reports is not None:
            return log_above_power([(self.guarantee.first_ratio, self.guarantee.reports)])
        cap = self.guarantee.cap_over_inputs
        return inf if cap is None else cap

    def remaining(self, budget: float) -> float:
        """What is left of a budget, rounded down; negative when it is overspent."""
        return remaining([self], budget)


def total_spent(ledgers: Iterable[Ledger]) -> float:
    """What a device spent over several collections, versions or attributes: the sum, rounded up.

    A new version of a collection has a memo of its own, so its spending adds up too.
    """
    return _sum_above([ledger.spent for ledger in ledgers])


def total_cap(ledgers: Iterable[Ledger]) -> float:
    """The most that a device can spend over several collections, versions or attributes."""
    return _sum_above([ledger.cap for ledger in ledgers])


def remaining(ledgers: Iterable[Ledger], budget: float) -> float:
    """What several collections leave of one budget, rounded down; negative when it is overspent."""
    spent = total_spent(ledgers)
    # A float difference is off by half an ulp at most; nothing was lost where nothing was subtracted.
    return budget if spent == 0 else nextafter(budget - spent, -inf)


@dataclass(frozen=True)
class FleetLedger:
    """The ledgers of many devices, summed up.

    Attributes:
        mean: mean ε̌ of all devices, LOLOHA Eq. 8.
        maximum: largest ε̌ of a device.
        histogram: number of devices by number of memoised inputs, ascending.
    """

    mean: float
    maximum: float
    histogram: Mapping[int, int]


def fleet_ledger(inputs_per_device: Iterable[int], guarantee: Guarantee) -> FleetLedger:
    """Sum up how many inputs each device has memoised, all at the level ε∞ of ``guarantee``.

    Raises:
        ValueError: no devices, or a count that no device can have.
    """
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
    """The product, rounded up."""
    return float_above(Fraction(level) * number)


def _sum_above(values: list[float]) -> float:
    """The sum, rounded up: ``fsum`` is off by half an ulp at most, and exact for a single value."""
    return values[0] if len(values) == 1 else nextafter(fsum(values), inf) if any(values) else 0.0
