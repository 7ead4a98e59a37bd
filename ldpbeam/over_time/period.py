"""The mean curve of a period of distributions, by one fit of the counts of its epochs (docs/over-time.md)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ldpbeam.arrays import Ints
from ldpbeam.estimation.distribution import CumulativeCurve
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


def fit_period(estimator: PartEstimator, epochs: Sequence[Ints]) -> CumulativeCurve:
    """The mean of the curves of some epochs, each with the same weight, however many reports it has.

    Args:
        estimator: of the attribute.
        epochs: counts of each epoch, as its accumulator has them; every one has reports.
    """
    reports = [int(counts.sum()) for counts in epochs]
    harmonic = len(reports) / sum(Fraction(1, n) for n in reports)
    weights = [float(harmonic / n) for n in reports]  # all 1 where all have as many reports
    total = np.sum([weight * counts for weight, counts in zip(weights, epochs, strict=True)], axis=0)
    # Errors that repeat themselves add up, those of independent epochs add up squared.
    times = sum(map(sqrt, weights)) ** 2 / len(weights)
    return estimator.curve_of_epochs(total, times)
