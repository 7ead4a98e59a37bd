"""Two sets of epochs compared value by value: of one series, or of two with other devices or memos."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from ldpbeam.arrays import Flags, Floats, Ints
from ldpbeam.estimates import CONFIDENCE
from ldpbeam.over_time.covariance import DrawnAnew, MemoErrors
from ldpbeam.over_time.series import Series, joined
from ldpbeam.over_time.significance import adjusted, normal_limit, p_values
from ldpbeam.over_time.weighted_sums import Combined, Weight, difference, mean
from ldpbeam.protocols.part_estimator import PartEstimator


@dataclass(frozen=True, eq=False)
class Comparison:
    """What changed from A to B, one entry per value.

    Attributes:
        before, after: the means of A and of B.
        change: B less A.
        std_error: of the change, never too small as far as the rate that values are drawn anew at is known.
        p_value: two-sided, of no change.
        adjusted: the least false-discovery rate at which the value is among those that changed.
    """

    before: Combined
    after: Combined
    change: Floats
    std_error: Floats
    p_value: Floats
    adjusted: Floats

    def moved(self, rate: float) -> Ints:
        """Which values changed at this false-discovery rate, the clearest first."""
        order = np.argsort(self.p_value, kind="stable")
        return np.asarray(order[self.adjusted[order] <= rate], np.int64)


@dataclass(frozen=True)
class ChosenChange:
    """The change of a value that was chosen before the results were seen."""

    place: int
    change: float
    low: float
    high: float
    p_value: float
    clear: bool


def chosen_changes(
    comparison: Comparison, places: Sequence[int], false_alarms: float = 1 - CONFIDENCE
) -> list[ChosenChange]:
    """Tests and intervals of some values that were chosen beforehand, whatever the others do."""
    level = false_alarms / len(places)
    limit = normal_limit(1 - level)
    changes = []
    for place in places:
        change, half = float(comparison.change[place]), limit * float(comparison.std_error[place])
        p = float(comparison.p_value[place])
        changes.append(ChosenChange(place, change, change - half, change + half, p, p <= level))
    return changes


def compare_epochs(
    series: Series,
    before: Flags,
    after: Flags,
    errors: MemoErrors | None,
    rate: DrawnAnew | None = None,
    weight: Weight = "epochs",
) -> Comparison:
    """Two sets of epochs of the same devices.

    Args:
        series: of all these epochs.
        before, after: bool (T,), which epochs are A and which are B.
        errors, rate, weight: as for :func:`ldpbeam.over_time.mean`.
    """
    change = difference(series, after, before, errors, rate, weight)
    first, second = (mean(series.rows(which), errors, rate, weight) for which in (before, after))
    return _tested(first, second, change.estimate, change.std_error)


def pooled(comparisons: Sequence[Comparison]) -> Comparison:
    """All values of all comparisons, one behind the other, tested together."""

    def side(parts: Sequence[Combined]) -> Combined:
        return Combined(*(np.concatenate([getattr(one, x.name) for one in parts]) for x in fields(Combined)))

    return _tested(
        side([one.before for one in comparisons]),
        side([one.after for one in comparisons]),
        np.concatenate([one.change for one in comparisons]),
        np.concatenate([one.std_error for one in comparisons]),
    )


def of_sample(series: Series, estimator: PartEstimator) -> Series:
    """The estimates of devices that are a sample: published errors are for the values that they have."""

    wider = [
        np.sqrt(block.std_error**2 + estimator.value_variance(block.estimate) / np.maximum(block.n, 1))
        for block in series.blocks()
    ]
    return replace(series, std_error=np.concatenate(wider))


def together(first: Series, second: Series) -> Series | None:
    """Two series of the same devices as one; None where they have an epoch in common."""
    if np.intersect1d(first.epochs, second.epochs).size:
        return None
    return joined(first, second)


def compare_runs(first: Combined, second: Combined) -> Comparison:
    """Means of two runs whose errors are independent, or go together so that this bound is the larger one."""
    return _tested(
        first, second, second.estimate - first.estimate, np.sqrt(first.std_error**2 + second.std_error**2)
    )


def _tested(before: Combined, after: Combined, change: Floats, std_error: Floats) -> Comparison:
    p = p_values(change, std_error)
    return Comparison(before, after, change, std_error, p, adjusted(p))
