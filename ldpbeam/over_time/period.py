"""The mean curve of a period of distributions, by one fit of the counts of its epochs (docs/over-time.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ldpbeam.arrays import Ints
from ldpbeam.estimation.distribution import CumulativeCurve
from ldpbeam.over_time.weighted_sums import Weight
from ldpbeam.protocols.part_estimator import PartEstimator

if TYPE_CHECKING:
    import pyarrow as pa


class ResultKey(NamedTuple):
    """One attribute in one revision of an epoch."""

    digest: str
    epoch: int
    revision: int
    attribute: str


class EpochCounts:
    """The counts of results, and the epochs that were asked for and have none."""

    def __init__(self, table: pa.Table | None) -> None:
        """From a table of :func:`ldpbeam.read_counts`; None where there is none."""
        rows = [] if table is None else table.select([*ResultKey._fields, "counts"]).to_pylist()
        cells = {ResultKey(*list(row.values())[:-1]): np.array(row["counts"], np.int64) for row in rows}
        self._cells: dict[ResultKey, Ints] = cells
        self.missing: set[int] = set()

    def of(self, results: Sequence[ResultKey]) -> list[Ints] | None:
        """The counts of all these results; None where some have none."""
        lost = [key.epoch for key in results if key not in self._cells]
        self.missing.update(lost)
        return None if lost else [self._cells[key] for key in results]


def fit_period(
    estimator: PartEstimator, epochs: Sequence[Ints], weight: Weight = "epochs"
) -> CumulativeCurve:
    """The mean of the curves of some epochs."""
    reports = [int(counts.sum()) for counts in epochs]
    if weight == "reports":
        factors = [1.0] * len(reports)
        parts = [float(Fraction(n * len(reports), sum(reports))) for n in reports]
    else:
        harmonic = len(reports) / sum(Fraction(1, n) for n in reports)
        parts = factors = [float(harmonic / n) for n in reports]
    total = np.sum([factor * counts for factor, counts in zip(factors, epochs, strict=True)], axis=0)
    # parts of the variance of the total, 1 on average: errors that repeat themselves add up, those of
    # independent epochs add up squared.
    times = sum(map(sqrt, parts)) ** 2 / len(parts)
    fit = estimator.distribution.curve_of_epochs(total, times, estimator.atoms)
    if not estimator.is_sample or estimator.protocol.guarantee.memoised_ratio is not None:
        return fit  # what is memoised holds the values
    values = times * fit.cumulative * (1 - fit.cumulative) / total.sum()
    return replace(fit, std_error=np.sqrt(fit.std_error**2 + values))
