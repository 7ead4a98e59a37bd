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
from ldpbeam.sums.quantity import Sums
from ldpbeam.sums.question import Cumulative, Groups, Quantiles, Question
from ldpbeam.sums.series import summed
from ldpbeam.tables import instants, numbers

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
    weight = None if periods is None else periods.weight
    for period in roll_up(summed_history, periods or Periods(_single), errors, rate):
        columns = _columns(question, sums, period)
        rows = len(next(iter(columns.values())))
        front = _front(history, period, rows, weight)
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


def _single(epoch: int, _: int) -> int:
    return epoch


def _front(history: History, period: Period, rows: int, weight: Weight | None) -> dict[str, Any]:
    """What the rows of a period have in common; without a weight it is a single epoch."""
    import pyarrow as pa

    whole, begin, end = {"epoch": period.first}, "epoch_start", "epoch_end"
    several: dict[str, Any] = {}
    if weight is not None:
        whole, begin, end = {"first_epoch": period.first, "last_epoch": period.last}, "start", "end"
        epochs = pa.array([int(period.mean.epochs[0])] * rows, pa.int64())
        several = {"epochs": epochs, "weight": [weight] * rows}
    key = history.key
    return {
        "collection": [key.collection] * rows,
        "version": pa.array([key.version] * rows, pa.int64()),
        "digest": [key.digest] * rows,
        **{name: pa.array([one] * rows, pa.int64()) for name, one in whole.items()},
        begin: instants([period.start] * rows),
        end: instants([period.end] * rows),
        **several,
        "provisional": pa.array([period.provisional] * rows),
        "attribute": [key.attribute] * rows,
    }


def _columns(question: Question, sums: Sums, period: Period) -> dict[str, Any]:
    """What is asked for, with its limits."""
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
    several: dict[str, Any] = {}
    if len(sums.names) > 1 or names:
        low, high = _limits(sums, mean.estimate, together * mean.std_error)
        several = {"ci_low_all": numbers(low), "ci_high_all": numbers(high)}
    low, high = _limits(sums, mean.estimate, z * mean.std_error)
    return {
        **names,
        "n": pa.array(period.n, pa.int64()),
        "estimate": numbers(mean.estimate),
        "std_error": numbers(mean.std_error),
        "std_error_floor": numbers(mean.std_error_floor),
        "ci_low": numbers(low),
        "ci_high": numbers(high),
        **several,
    }


def _limits(sums: Sums, estimate: Floats, half: Floats) -> tuple[Floats, Floats]:
    """The ends of intervals, not beyond the least or the largest weight unless the estimate is."""
    least, most = sums.weights.min(axis=1), sums.weights.max(axis=1)
    low = np.maximum(estimate - half, np.minimum(least, estimate))
    return low, np.minimum(estimate + half, np.maximum(most, estimate))


def _quantiles(question: Quantiles, sums: Sums, curve: Floats, std_error: Floats) -> dict[str, Any]:
    """Places on the curve and their names; null where nothing is known."""
    import pyarrow as pa

    known = bool(np.isfinite(curve).all())
    z = normal_limit(CONFIDENCE)
    rising = isotonic(curve) if known else curve
    places: list[tuple[int | None, ...]] = [
        quantile(rising, curve, std_error, share, z) if known else (None, None, None)
        for share in question.shares
    ]
    columns: dict[str, Any] = {"quantile": pa.array(question.shares, pa.float64())}
    for number, name in enumerate(("", "_low", "_high")):
        at = [place[number] for place in places]
        columns[f"value{name}"] = pa.array(at, pa.int64())
        labels = [None if one is None else sums.names[one] for one in at]
        columns[f"label{name}"] = pa.array(labels, pa.string())
    return columns
