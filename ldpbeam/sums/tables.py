"""Answers as tables: one row per period and group, value or quantile."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ldpbeam.arrays import Floats
from ldpbeam.collection.collection import Collection
from ldpbeam.estimates import CONFIDENCE
from ldpbeam.over_time.combined import difference
from ldpbeam.over_time.covariance import DrawnAnew
from ldpbeam.over_time.results import History
from ldpbeam.over_time.rollup import Period, Place, roll_up
from ldpbeam.over_time.significance import normal_limit
from ldpbeam.sums.quantiles import quantile
from ldpbeam.sums.quantity import Sums
from ldpbeam.sums.question import Cumulative, Groups, Quantiles, Question
from ldpbeam.sums.series import errors_of_sums, history_of_sums, require_frequencies

if TYPE_CHECKING:
    import pyarrow as pa


def answers(
    histories: Iterable[tuple[Collection, History]],
    question: Question,
    place: Place | None = None,
    rate: DrawnAnew | None = None,
) -> pa.Table:
    """A question answered for attributes, epoch by epoch or for whole periods.

    Args:
        histories: attributes with their collections.
        question: what is asked of each of them.
        place: which epochs make a period; None for single epochs.
        rate: how often devices change their values, as for :func:`ldpbeam.over_time.combined`.

    Returns:
        A row per attribute, period and sum or quantile; docs/groups.md explains the columns.

    Raises:
        UsageError, ValueError: the question cannot be asked of an attribute.
    """
    import pyarrow as pa

    tables = []
    for collection, history in histories:
        domain = dict(collection.histograms)[history.key.attribute]
        require_frequencies(collection)
        sums = question.sums(domain)
        errors = errors_of_sums(collection, history.key.attribute, sums)
        found = history_of_sums(history, sums, errors)
        memo = None if errors.independent else errors
        for period in roll_up(found, place or _single, memo, rate):
            columns = _columns(question, sums, period)
            rows = len(next(iter(columns.values())))
            front = _front(history, period, rows, single=place is None)
            tables.append(pa.table({**front, **columns}))
    return pa.concat_tables(tables)


def changes(
    collection: Collection,
    history: History,
    question: Groups,
    sides: tuple[set[int], set[int]],
    rate: DrawnAnew | None,
) -> pa.Table:
    """The means of the second side's epochs less those of the first side's, a row per group."""
    import pyarrow as pa

    require_frequencies(collection)
    sums = question.sums(dict(collection.histograms)[history.key.attribute])
    errors = errors_of_sums(collection, history.key.attribute, sums)
    series = history_of_sums(history, sums, errors).series
    before, after = (np.isin(series.epochs, sorted(side)) for side in sides)
    found = difference(series, after, before, None if errors.independent else errors, rate)
    reach = normal_limit(CONFIDENCE) * found.std_error
    return pa.table(
        {
            "group": list(sums.names),
            "values": pa.array(sums.values, pa.int64()),
            "estimate": _numbers(found.estimate),
            "std_error": _numbers(found.std_error),
            "ci_low": _numbers(found.estimate - reach),
            "ci_high": _numbers(found.estimate + reach),
        }
    )


def _single(epoch: int, _: int) -> int:
    return epoch


def _front(history: History, period: Period, rows: int, *, single: bool) -> dict[str, Any]:
    """What the rows of a period have in common."""
    import pyarrow as pa

    whole = {"epoch": period.first} if single else {"first_epoch": period.first, "last_epoch": period.last}
    begin, end = ("epoch_start", "epoch_end") if single else ("start", "end")
    key = history.key
    return {
        "collection": [key.collection] * rows,
        "version": pa.array([key.version] * rows, pa.int64()),
        "digest": [key.digest] * rows,
        **{name: pa.array([one] * rows, pa.int64()) for name, one in whole.items()},
        begin: _instants(period.start, rows),
        end: _instants(period.end, rows),
        **({} if single else {"epochs": pa.array([int(period.found.epochs[0])] * rows, pa.int64())}),
        "provisional": pa.array([period.provisional] * rows),
        "attribute": [key.attribute] * rows,
    }


def _instants(microseconds: int, rows: int) -> Any:
    import pyarrow as pa

    plain = [None if microseconds < 0 else microseconds] * rows
    return pa.array(plain, pa.int64()).cast(pa.timestamp("us", "UTC"))


def _columns(question: Question, sums: Sums, period: Period) -> dict[str, Any]:
    """What is asked for, with its limits."""
    import pyarrow as pa

    found = period.found
    if isinstance(question, Quantiles):
        return _quantiles(question, sums, found.estimate, found.std_error)
    names: dict[str, Any] = {}
    if isinstance(question, Groups):
        names = {"group": list(sums.names), "values": pa.array(sums.values, pa.int64())}
    elif isinstance(question, Cumulative):
        names = {"value": pa.array(range(len(sums.names)), pa.int64()), "label": list(sums.names)}
    z, together = normal_limit(CONFIDENCE), normal_limit(1 - (1 - CONFIDENCE) / len(sums.names))
    several: dict[str, Any] = {}
    if len(sums.names) > 1 or names:
        low, high = _limits(sums, found.estimate, together * found.std_error)
        several = {"ci_low_all": _numbers(low), "ci_high_all": _numbers(high)}
    low, high = _limits(sums, found.estimate, z * found.std_error)
    return {
        **names,
        "n": pa.array(period.n, pa.int64()),
        "estimate": _numbers(found.estimate),
        "std_error": _numbers(found.std_error),
        "std_error_floor": _numbers(found.std_error_floor),
        "ci_low": _numbers(low),
        "ci_high": _numbers(high),
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
    places: list[tuple[int | None, ...]] = [
        quantile(curve, std_error, share, z) if known else (None, None, None) for share in question.shares
    ]
    columns: dict[str, Any] = {"quantile": pa.array(question.shares, pa.float64())}
    for number, name in enumerate(("", "_low", "_high")):
        at = [place[number] for place in places]
        columns[f"value{name}"] = pa.array(at, pa.int64())
        labels = [None if one is None else sums.names[one] for one in at]
        columns[f"label{name}"] = pa.array(labels, pa.string())
    return columns


def _numbers(column: Floats) -> Any:
    import pyarrow as pa

    return pa.array(column, pa.float64(), from_pandas=True)
