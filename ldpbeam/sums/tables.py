"""Answers as tables: one row per period and group, value or quantile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ldpbeam.arrays import Floats
from ldpbeam.collection.collection import Collection
from ldpbeam.estimates import CONFIDENCE
from ldpbeam.estimation.quantiles import isotonic, quantile
from ldpbeam.over_time.covariance import DrawnAnew
from ldpbeam.over_time.results import History
from ldpbeam.over_time.rollup import Period, Periods, roll_up
from ldpbeam.over_time.significance import normal_limit
from ldpbeam.over_time.weighted_sums import Weight, difference
from ldpbeam.sums.columns import front_columns, quantile_columns, sum_columns
from ldpbeam.sums.quantity import Sums
from ldpbeam.sums.question import Cumulative, Groups, Quantiles, Question
from ldpbeam.sums.series import summed
from ldpbeam.tables import numbers

if TYPE_CHECKING:
    import pyarrow as pa


def answers(
    collection: Collection,
    history: History,
    question: Question,
    periods: Periods | None = None,
    rate: DrawnAnew | None = None,
) -> pa.Table:
    """A question answered for an attribute, epoch by epoch or for whole periods."""
    import pyarrow as pa

    sums, summed_history, errors = summed(collection, history, question)
    tables = []
    for period in roll_up(summed_history, periods, errors, rate):
        columns = _columns(question, sums, period)
        rows = len(next(iter(columns.values())))
        front = front_columns(history, period, periods, int(period.mean.epochs[0]), rows)
        tables.append(pa.table({**front, **columns}))
    return pa.concat_tables(tables)


def changes(
    collection: Collection,
    history: History,
    question: Groups,
    sides: tuple[set[int], set[int]],
    rate: DrawnAnew | None,
    weight: Weight,
) -> pa.Table:
    """The means of the second side's epochs less those of the first side's, a row per group."""
    import pyarrow as pa

    sums, history_of_groups, errors = summed(collection, history, question)
    series = history_of_groups.series
    before, after = (np.isin(series.epochs, sorted(side)) for side in sides)
    change = difference(series, after, before, errors, rate, weight)
    reach = normal_limit(CONFIDENCE) * change.std_error
    return pa.table(
        {
            "group": list(sums.names),
            "values": pa.array(sums.values, pa.int64()),
            "estimate": numbers(change.estimate),
            "std_error": numbers(change.std_error),
            "ci_low": numbers(change.estimate - reach),
            "ci_high": numbers(change.estimate + reach),
        }
    )


def _columns(question: Question, sums: Sums, period: Period) -> dict[str, Any]:
    import pyarrow as pa

    mean = period.mean
    if isinstance(question, Quantiles):
        return _quantiles(question, sums, mean.estimate, mean.std_error)
    names: dict[str, Any] = {}
    if isinstance(question, Groups):
        names = {"group": list(sums.names), "values": pa.array(sums.values, pa.int64())}
    elif isinstance(question, Cumulative):
        names = {"value": pa.array(range(len(sums.names)), pa.int64()), "label": list(sums.names)}
    z, together = normal_limit(CONFIDENCE), normal_limit(1 - (1 - CONFIDENCE) / len(sums.names))
    limits = [*_limits(sums, mean.estimate, z * mean.std_error)]
    if len(sums.names) > 1 or names:
        limits += _limits(sums, mean.estimate, together * mean.std_error)
    return {
        **names,
        **sum_columns(period.n, mean.estimate, mean.std_error, mean.std_error_floor, *limits),
    }


def _limits(sums: Sums, estimate: Floats, half: Floats) -> tuple[Floats, Floats]:
    """The ends of intervals, not beyond the least or the largest weight unless the estimate is."""
    least, most = sums.weights.min(axis=1), sums.weights.max(axis=1)
    low = np.maximum(estimate - half, np.minimum(least, estimate))
    return low, np.minimum(estimate + half, np.maximum(most, estimate))


def _quantiles(question: Quantiles, sums: Sums, curve: Floats, std_error: Floats) -> dict[str, Any]:
    """Places on the curve; null where nothing is known."""
    places: list[tuple[int | None, ...]] = [(None, None, None)] * len(question.shares)
    if np.isfinite(curve).all():
        rising, z = isotonic(curve), normal_limit(CONFIDENCE)
        places = [quantile(rising, curve, std_error, share, z) for share in question.shares]
    return quantile_columns(question.shares, places, sums.names.__getitem__)
