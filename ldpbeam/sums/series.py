"""Sums of frequencies as histories: what roll-ups, differences and comparisons over time take."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ldpbeam.arrays import Floats, Ints
from ldpbeam.collection.collection import Collection
from ldpbeam.errors import UsageError
from ldpbeam.over_time.results import History
from ldpbeam.over_time.series import Series
from ldpbeam.protocols.estimator import Result
from ldpbeam.sums.distribution import no_single_values
from ldpbeam.sums.quantity import Sums
from ldpbeam.sums.question import Question
from ldpbeam.sums.sum_errors import SumErrors, sum_errors


def require_frequencies(collection: Collection) -> None:
    """Raise UsageError for a collection of means, of distributions, or of strings."""
    if collection.is_distribution:
        raise no_single_values(collection)
    require_listed(collection)
    if collection.protocol.estimator.result is not Result.FREQUENCIES:
        raise UsageError(
            "E-USAGE-SUMS",
            f"{collection.name} collects a mean, which has no values to add up",
            remedy="Its estimate is the mean: use export without such an option, or the column estimate.",
        )


def require_listed(collection: Collection) -> None:
    """Raise UsageError for a collection of strings that nobody listed."""
    if collection.is_discovery:
        raise UsageError(
            "E-USAGE-SUMS",
            f"{collection.name} finds strings, and one that an epoch does not find has no estimate there, so "
            "there are no sums, means over epochs or changes",
            remedy="Count those that were found: ldpbeam init NEW.yaml --from RESULTS.",
        )


def errors_of_sums(collection: Collection, attribute: str, sums: Sums, *, sampled: bool = False) -> SumErrors:
    """How the errors of sums of an attribute go together; ``sampled`` as of :func:`over_time.errors_of`."""
    names = [name for name, _ in collection.histograms]
    estimator = collection.estimators[names.index(attribute)]
    estimator = estimator.of_sample if sampled else estimator
    life = collection.participation
    return sum_errors(estimator, sums.centred, None if life is None else (life.reports, life.of))


def summed(
    collection: Collection, history: History, question: Question, *, sampled: bool = False
) -> tuple[Sums, History, SumErrors | None]:
    """The sums that a question asks of an attribute, as a history, and how their errors go together."""
    require_frequencies(collection)
    sums = question.sums(dict(collection.histograms)[history.key.attribute])
    errors = errors_of_sums(collection, history.key.attribute, sums, sampled=sampled)
    history_summed = history_of_sums(history, sums, errors)
    return sums, history_summed, None if errors.independent else errors


def history_of_sums(history: History, sums: Sums, errors: SumErrors) -> History:
    """A history with a column per sum in the place of one per value."""
    made = [_rows_of_sums(block, sums, errors) for block in history.series.blocks()]
    n, estimate, std_error = (np.concatenate(column) for column in zip(*made, strict=True))
    series = Series(history.series.epochs, n, estimate, std_error, history.series)
    return replace(history, values=np.arange(len(sums.names)), labels=sums.names, series=series)


def _rows_of_sums(series: Series, sums: Sums, errors: SumErrors) -> tuple[Ints, Floats, Floats]:
    """Reports, estimates and standard errors of some epochs, (T, sums) each."""
    whole = np.asarray(series.known.all(axis=1), np.bool_)
    estimate = sums.estimate(np.where(whole[:, None], series.estimate, np.nan))
    std_error, n = np.full_like(estimate, np.nan), np.zeros(estimate.shape, np.int64)
    if whole.any():
        variance = errors.variance(series.estimate[whole], series.n[whole])
        std_error[whole] = np.sqrt(variance)
        n[whole] = errors.reports(series.n[whole])
    # Rounding leaves tiny errors where the exact error is 0, as for the share of all values.
    return n, estimate, np.where(std_error < 1e-12, 0.0, std_error)
