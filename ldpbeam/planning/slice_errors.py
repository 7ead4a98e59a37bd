"""The errors of slices, and the least difference between two of them, before there is any report.

Labels of different dimensions are taken as independent. Two slices of a dimension have different devices, so
their errors are independent; the errors of one slice over epochs repeat what its devices memoised.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from math import prod, sqrt
from operator import attrgetter
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from ldpbeam.collection.slice_shares import SliceShares
from ldpbeam.planning.needs import FrequencyNeeds, Needs, Ordered, OrderedNeeds
from ldpbeam.planning.plan import Row, fewest, half_width, least_reports
from ldpbeam.planning.quantity import quantity
from ldpbeam.planning.sentences import described
from ldpbeam.planning.spread import WIDE
from ldpbeam.protocols.contract import MeanProtocol
from ldpbeam.protocols.interval_hash import IntervalHash
from ldpbeam.protocols.part_estimator import PartEstimator

FOUND = WIDE + NormalDist().inv_cdf(0.8)
"""Standard errors of a difference that a two-sided test at 5 % finds in 80 of 100 cases."""


class _Label(NamedTuple):
    dimension: str
    share: float
    label: str | None  # None where only shares are known


@dataclass(frozen=True)
class SliceError:
    """What one epoch tells of a slice, which has one label of each of some dimensions."""

    labels: dict[str, str | None]
    share: float
    devices: int
    half_width: float

    def words(self) -> str:
        named = ", ".join(name if label is None else f"{name}={label}" for name, label in self.labels.items())
        return f"{named} ({100 * self.share:.3g} %, {self.devices:,} devices)"


@dataclass(frozen=True)
class Difference:
    """The least difference that is found between the smallest and the largest label of a dimension."""

    dimension: str
    epochs: int
    least_difference: float
    devices_needed: int | None


@dataclass(frozen=True)
class SlicePlan:
    """What a row of a plan tells of slices."""

    row: Row
    needs: Needs
    smallest: SliceError
    largest: SliceError
    differences: tuple[Difference, ...]
    wanted: float | None

    @classmethod
    def of(
        cls, row: Row, needs: Needs, dimensions: Sequence[SliceShares], wanted: float | None = None
    ) -> SlicePlan:
        ends = [_ends(one) for one in dimensions]
        smallest = _slice_error(row, needs, [low for low, _ in ends])
        largest = _slice_error(row, needs, [max((high for _, high in ends), key=_share)])
        spans = dict.fromkeys(min(epochs, needs.epochs) for epochs in (1, 7, 30))
        differences = tuple(_difference(row, needs, *pair, span, wanted) for pair in ends for span in spans)
        return cls(row, needs, smallest, largest, differences, wanted)

    def sentences(self) -> Iterator[str]:
        error = quantity(self.needs).error
        small, large = (f"{one.words()} ±{error(one.half_width)}" for one in (self.smallest, self.largest))
        yield f"Slices with {described(self.row)}: the smallest, {small} (95 %); the largest, {large}."
        publishable = least_reports(self.row, self.needs)
        if self.smallest.devices * self.row.setting.share < publishable:
            yield (
                f"The smallest slice has no estimates: its reports are fewer than {publishable:,}, the "
                "min_reports that --output writes."
            )
        for name in dict.fromkeys(one.dimension for one in self.differences):
            some = [one for one in self.differences if one.dimension == name]
            found = ", ".join(f"{error(one.least_difference)}{_over(one)}" for one in some)
            yield (
                f"Between the smallest and the largest slice of {name} a two-sided test at 5 % finds, in "
                f"80 of 100 cases, a difference of {found}."
            )
            if self.wanted is not None:
                needed = ", ".join(f"{one.devices_needed:,} devices{_over(one)}" for one in some)
                yield f"For a difference of {error(self.wanted)} it takes {needed} in all slices."

    def as_record(self) -> dict[str, Any]:
        return {
            "smallest": asdict(self.smallest),
            "largest": asdict(self.largest),
            "wanted": self.wanted,
            "differences": [asdict(one) for one in self.differences],
        }


def _over(difference: Difference) -> str:
    return " in one epoch" if difference.epochs == 1 else f" over {difference.epochs} epochs"


def _ends(given: SliceShares) -> tuple[_Label, _Label]:
    names = given.labels or (None,) * len(given.shares)
    labels = [_Label(given.name, *pair) for pair in zip(given.shares, names, strict=True)]
    return min(labels, key=_share), max(reversed(labels), key=_share)


_share = attrgetter("share")


def _devices(devices: int, share: float) -> int:
    return max(1, round(devices * share))


def _slice_error(row: Row, needs: Needs, labels: Sequence[_Label]) -> SliceError:
    share = prod(map(_share, labels))
    devices = _devices(needs.devices, share)
    named = {one.dimension: one.label for one in labels}
    return SliceError(named, share, devices, half_width(row, needs, devices))


def _difference(
    row: Row, needs: Needs, low: _Label, high: _Label, epochs: int, wanted: float | None
) -> Difference:
    repeated, values = row.figures.repeats.mean(epochs), _spread_of_values(row, needs, epochs)

    def least(devices: int) -> float:
        sizes = [_devices(devices, label.share) for label in (low, high)]
        return FOUND * sqrt(sum(_error(row, needs, n) ** 2 * repeated + values / n for n in sizes))

    needed = None if wanted is None else fewest(lambda devices: least(devices) <= wanted, 0)
    return Difference(low.dimension, epochs, least(needs.devices), needed)


def _error(row: Row, needs: Needs, devices: int) -> float:
    """The standard error of one epoch with so many devices; of frequencies that of the row's widest value."""
    if isinstance(needs, FrequencyNeeds):
        return row.figures.error * sqrt(needs.devices / devices)
    return half_width(row, needs, devices) / WIDE


def _spread_of_values(row: Row, needs: Needs, epochs: int) -> float:
    """The variance of what devices hold, where the error is that of given devices and leaves it out.

    Two arms that nothing distinguishes hold different values by chance, since different devices are in them.
    """
    protocol = row.setting.protocol
    if isinstance(needs, FrequencyNeeds):
        frequency = row.figures.widest_frequency or 0.0
        return frequency * (1 - frequency)
    if isinstance(protocol, MeanProtocol):
        return float(PartEstimator(protocol).value_variance(np.array(needs.whole / 2)))
    if isinstance(needs, OrderedNeeds) and needs.asked is Ordered.MEAN:
        return needs.length**2 / 12
    values = needs.whole**2 / 4
    if isinstance(protocol, IntervalHash):
        # The error of an epoch has it; what is memoised repeats it, else a mean over epochs leaves it out.
        return 0.0 if protocol.estimator.memoised else values * (1 - 1 / epochs)
    return values
