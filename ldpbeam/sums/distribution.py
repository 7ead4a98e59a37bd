"""Questions about collections whose result is a distribution: read off what is published, never added up.

The rows of the values have the cumulative shares with their limits, so they have the quantiles too. The mean
is not in them: it follows from an epoch's counts and stands in ``summaries/``.

Of several epochs the answer is about the mean of their curves. It is one fit of the epochs' counts
(``counts/``). Results without counts have the mean of the curves, and limits that are the means of the
epochs' limits. The mean of means needs no counts: of its error it is known what repeats.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ldpbeam.answer_counts import counts_schema
from ldpbeam.arrays import Floats, Ints
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.errors import UsageError
from ldpbeam.estimates import CONFIDENCE
from ldpbeam.estimation.distribution import mean_limits
from ldpbeam.over_time.covariance import DrawnAnew
from ldpbeam.over_time.period import EpochCounts, ResultKey, fit_period
from ldpbeam.over_time.results import History, published_rows
from ldpbeam.over_time.rollup import Periods, spans
from ldpbeam.over_time.significance import normal_limit
from ldpbeam.over_time.slice_results import require_slice, table_folder
from ldpbeam.over_time.weighted_sums import Weight
from ldpbeam.over_time.weighted_sums import shares as shares_of_epochs
from ldpbeam.protocols.part_estimator import PartEstimator
from ldpbeam.summaries import mean_in_units
from ldpbeam.sums.columns import front_columns, quantile_columns, sum_columns
from ldpbeam.sums.question import Cumulative, Mean, Quantiles, Question
from ldpbeam.table_file import newest_revisions
from ldpbeam.tables import CUMULATIVE

if TYPE_CHECKING:
    import pyarrow as pa


def curve_quantile(shares: Floats, low: Floats, high: Floats, part: float) -> tuple[int, int, int]:
    """The first value at or below which a part of the devices lies, and its limits, as places."""
    place = min(int(np.searchsorted(shares, part)), shares.size - 1)
    below = np.concatenate([[0.0], low[:-1]])
    left = np.flatnonzero((high >= part) & (below <= part))
    return place, int(left[0]), int(left[-1])


def mean_curve(
    shares: Floats, low: Floats, high: Floats, weights: Floats | None = None
) -> tuple[Floats, Floats, Floats]:
    """The mean of the curves of some epochs and its limits; without weights each epoch weighs the same."""
    uncut_low = np.where(low <= 0.0, np.minimum(low, 2 * shares - high), low)
    uncut_high = np.where(high >= 1.0, np.maximum(high, 2 * shares - low), high)
    return (
        np.asarray(np.average(shares, 0, weights), np.float64),
        np.maximum(np.average(uncut_low, 0, weights), 0.0),
        np.minimum(np.average(uncut_high, 0, weights), 1.0),
    )


@dataclass(frozen=True, eq=False)
class Curve:
    """The cumulative shares of one attribute in one epoch, with 95 % limits; NaN where there are none."""

    rows: pa.Table
    shares: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(cls, rows: pa.Table) -> Curve:
        if not set(CUMULATIVE) <= set(rows.column_names):
            raise UsageError(
                "E-USAGE-RESULTS",
                f"the results have no column {CUMULATIVE[0]}, which a collection of stretches has",
                remedy="Give the results as a run wrote them, with all columns.",
            )
        columns = (np.asarray(rows[name].to_numpy(), np.float64) for name in CUMULATIVE)
        return cls(rows, *columns)

    @classmethod
    def of_epochs(
        cls,
        collection: Collection,
        curves: Sequence[Curve],
        counts: EpochCounts,
        weight: Weight,
        *,
        sampled: bool = False,
    ) -> Curve:
        """The mean of the curves of some epochs, by one fit of their counts where all are there."""
        cells = counts.of([one.key for one in curves]) if len(curves) > 1 else None
        if cells is None:
            shares, low, high = np.array([(one.shares, one.low, one.high) for one in curves]).swapaxes(0, 1)
            return cls(curves[-1].rows, *mean_curve(shares, low, high, _weights(curves, weight)))
        estimator = _estimator(collection, curves[0].key.attribute, sampled=sampled)
        fit = fit_period(estimator, cells, weight)
        return cls(curves[-1].rows, fit.cumulative, *fit.limits(CONFIDENCE))

    @property
    def key(self) -> ResultKey:
        return ResultKey(*(self.rows[name][0].as_py() for name in ResultKey._fields))

    @property
    def known(self) -> bool:
        return bool(np.isfinite(self.shares).all())

    @property
    def n(self) -> Ints:
        """Reports that speak about each value, int64 (k,)."""
        return np.asarray(self.rows["n"].to_numpy(), np.int64)

    def quantile(self, share: float) -> tuple[int, int, int]:
        """The first value at or below which a share of the devices lies, and its 95 % limits, as places."""
        return curve_quantile(self.shares, self.low, self.high, share)


def _estimator(collection: Collection, attribute: str, *, sampled: bool) -> PartEstimator:
    estimator = collection.estimators[[name for name, _ in collection.histograms].index(attribute)]
    return estimator.of_sample if sampled else estimator


def _weights(curves: Sequence[Curve], weight: Weight) -> Floats:
    """Of epochs that have results; they add up to 1."""
    n = np.array([one.n[0] for one in curves], np.int64)
    return shares_of_epochs(n > 0, n, weight)


@dataclass(frozen=True, eq=False)
class _Period:
    """Some epochs that are answered for together, or a single one."""

    curves: list[Curve]
    periods: Periods | None
    collection: Collection
    counts: EpochCounts

    @cached_property
    def known(self) -> list[Curve]:
        return [one for one in self.curves if one.known]

    @cached_property
    def curve(self) -> Curve:
        """The mean of those; without any, one that is not known."""
        if not self.known:
            return self.curves[-1]
        return Curve.of_epochs(self.collection, self.known, self.counts, self.weight)

    @property
    def weight(self) -> Weight:
        return self.periods.weight if self.periods else "epochs"

    @property
    def reports(self) -> Ints:
        if self.periods is None:
            return self.curves[0].n
        return np.asarray(sum(one.n * one.known for one in self.curves), np.int64)


def answers_of_distribution(
    collection: Collection,
    history: History,
    epochs: Iterable[pa.Table],
    question: Question,
    summaries: pa.Table | None,
    counts: EpochCounts,
    periods: Periods | None = None,
) -> Iterator[pa.Table]:
    """A question answered for each epoch or period, in the columns of :func:`ldpbeam.sums.answers`."""
    import pyarrow as pa

    domain, curves = dict(collection.histograms)[history.key.attribute], map(Curve.of, epochs)
    for span in spans(history, periods):
        period = _Period(list(islice(curves, int(span.rows.sum()))), periods, collection, counts)
        if isinstance(question, Cumulative):
            columns = _cumulative(period)
        elif isinstance(question, Quantiles):
            columns = _quantiles(period, domain, question)
        elif isinstance(question, Mean):
            columns = _mean(period, collection, domain, summaries)
        else:
            raise no_single_values(collection)
        rows = len(next(iter(columns.values())))
        yield pa.table({**front_columns(history, span, periods, len(period.known), rows), **columns})


def no_single_values(collection: Collection) -> UsageError:
    """The error about a question that takes estimates of single values, of a collection that has none."""
    return UsageError(
        "E-USAGE-SUMS",
        f"{collection.name} has hash_family interval, whose result is the distribution of each epoch: it has "
        "no estimates of single values to add up or to take means of",
        remedy="Ask for --cumulative, --quantile or --mean; add --every or --by for periods of epochs.",
    )


def require_no_rate(rate: DrawnAnew | None) -> None:
    """Raise UsageError for a rate of values drawn anew, which says nothing about a distribution."""
    if rate is not None:
        raise UsageError(
            "E-USAGE-SUMS",
            "a rate of values drawn anew is for frequencies; the limits of distributions over several epochs "
            "hold whatever devices do",
            remedy="Leave out --drawn-anew.",
        )


def read_summaries(folder: Path, slice_: Mapping[str, str]) -> pa.Table:
    """What ``summaries/`` of a run holds: mean and quantiles of the newest revision of every epoch."""
    import pyarrow as pa

    place = table_folder(folder, "summaries", slice_)
    paths = sorted(path for path in place.glob("*.parquet") if path.name[0] != ".")
    if not paths:
        raise UsageError(
            "E-USAGE-RESULTS",
            f"{folder} holds no {place.name}",
            remedy="Give the directory that was --output of a run with a collection of hash_family interval.",
        )
    rows = pa.concat_tables(published_rows(path, slice_) for path in paths)
    if slice_ and not rows.num_rows:
        require_slice(folder, slice_)
    return rows


def read_counts(folder: Path, slice_: Mapping[str, str]) -> pa.Table:
    """What ``counts/`` of a run holds of the newest revision of each epoch; no row for nothing."""
    import pyarrow as pa

    place = table_folder(folder, "counts", slice_)
    names = [path.name for path in place.glob("*.parquet")]
    # Of slices there are newest ones alone.
    newest = names if slice_ else newest_revisions(names).values()
    tables = [published_rows(place / name, slice_) for name in sorted(newest)]
    if slice_ and not any(table.num_rows for table in tables):
        require_slice(folder, slice_)
    return pa.concat_tables([counts_schema().empty_table(), *tables])


def _cumulative(period: _Period) -> dict[str, Any]:
    curve = period.curve
    nothing = np.full(curve.shares.size, np.nan)
    limits = curve.low, curve.high, nothing, nothing
    sums = sum_columns(period.reports, curve.shares, nothing, nothing, *limits)
    return {"value": curve.rows["value"], "label": curve.rows["label"], **sums}


def _quantiles(period: _Period, domain: Domain, question: Quantiles) -> dict[str, Any]:
    unknown, curve = (None, None, None), period.curve
    places = [curve.quantile(share) if curve.known else unknown for share in question.shares]
    return quantile_columns(question.shares, places, domain.label)


def _mean(
    period: _Period, collection: Collection, domain: Domain, summaries: pa.Table | None
) -> dict[str, Any]:
    if summaries is None:
        raise UsageError(
            "E-USAGE-SUMS",
            "the mean of a distribution follows from an epoch's counts, which estimates do not have",
            remedy="Take it from summaries/ in the output of a run: ldpbeam.read_summaries(DIR).",
        )
    if period.periods is None:
        row = _row_of_mean(period.curves[0], summaries)
        low, high = row["ci_low"], row["ci_high"]
        mean, error, n = row["estimate"], row["std_error"], row["n"]
    else:
        known = None
        if period.known:
            known = mean_of_epochs(collection, period.known, summaries, period.weight)
        mean, error = (known.mean, known.std_error) if known else (np.nan, np.nan)
        ends = mean_in_units(domain, 0), mean_in_units(domain, domain.size - 1)
        low, high = mean_limits(mean, normal_limit(CONFIDENCE) * error, ends)
        n = sum(int(curve.n[0]) for curve in period.known)
    return sum_columns([n], [mean], [error], [np.nan], [low], [high])


def _row_of_mean(curve: Curve, summaries: pa.Table) -> dict[str, Any]:
    """The row of the mean of an epoch, with NaN where nothing is known."""
    import pyarrow.compute as pc

    wanted = pc.equal(summaries["statistic"], "mean")
    for name, one in curve.key._asdict().items():
        wanted = pc.and_(wanted, pc.equal(summaries[name], one))
    rows = summaries.filter(wanted).to_pylist()
    if len(rows) != 1:
        raise UsageError(
            "E-USAGE-RESULTS",
            f"summaries/ does not have the mean of epoch {curve.key.epoch} as the estimates have it",
            remedy="Run ldpbeam replay, or run again.",
        )
    return {name: np.nan if value is None else value for name, value in rows[0].items()}


@dataclass(frozen=True)
class MeanOfEpochs:
    mean: float
    fresh: float
    lasting: float

    @classmethod
    def of(cls, means: Floats, variances: Floats, parts: Floats, weights: Floats) -> MeanOfEpochs:
        """From the means of the epochs and weights that add up to 1, whatever devices do."""
        lasting = variances * parts
        fresh = np.sqrt(weights**2 @ (variances - lasting))
        return cls(*(float(one) for one in (weights @ means, fresh, weights @ np.sqrt(lasting))))

    @property
    def std_error(self) -> float:
        return float(np.hypot(self.fresh, self.lasting))


def mean_of_epochs(
    collection: Collection,
    curves: Sequence[Curve],
    summaries: pa.Table,
    weight: Weight,
    *,
    sampled: bool = False,
) -> MeanOfEpochs:
    """The mean over some epochs; ``sampled`` as of :func:`ldpbeam.over_time.errors_of`."""
    rows = [_row_of_mean(curve, summaries) for curve in curves]
    attribute = rows[0]["attribute"]
    estimator = _estimator(collection, attribute, sampled=False)
    means, errors = (np.array([row[name] for row in rows], np.float64) for name in ("estimate", "std_error"))
    lasting, share = estimator.distribution.lasting_part_of_mean, estimator.share * estimator.present
    parts = np.array([lasting(curve.shares, share) for curve in curves])
    variances = errors**2
    if sampled:
        asked, domain = float(share), dict(collection.histograms)[attribute]
        values = np.array([asked * _value_variance(curve, domain) / curve.n[0] for curve in curves])
        parts = (parts * variances + values) / (variances + values)
        variances = variances + values
    return MeanOfEpochs.of(means, variances, parts, _weights(curves, weight))


def _value_variance(curve: Curve, domain: Domain) -> float:
    """The variance of the values of the devices, in the units of the domain."""
    values = np.array([mean_in_units(domain, place) for place in range(domain.size)])
    frequency = np.diff(curve.shares, prepend=0.0)
    return float(frequency @ (values - frequency @ values) ** 2)
