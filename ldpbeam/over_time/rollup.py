"""Roll-ups: the means of whole periods of epochs, with the errors that they have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from ldpbeam.arrays import Ints
from ldpbeam.over_time.covariance import DrawnAnew, MemoErrors
from ldpbeam.over_time.results import History
from ldpbeam.over_time.weighted_sums import Combined, Weight, mean

_DAY = 86_400_000_000
_MONDAY = 3
"""1 January 1970 was a Thursday, three days after a Monday."""


@dataclass(frozen=True)
class Periods:
    """How epochs make periods: the number of the period in which an epoch lies, from its index and its start
    in microseconds; and what weighs the same in the mean of a period."""

    number: Callable[[int, int], int]
    weight: Weight = "epochs"


@dataclass(frozen=True, eq=False)
class Span:
    """Some epochs that follow one another: which rows of a history they are, and their ends."""

    rows: np.ndarray
    first: int
    last: int
    start: int
    end: int
    provisional: bool


@dataclass(frozen=True, eq=False)
class Period(Span):
    mean: Combined
    n: Ints


def every(epochs: int) -> Periods:
    """Periods of so many epochs, the first of which begins with epoch 0."""
    return Periods(lambda epoch, _: epoch // epochs)


def by_day(_: int, start: int) -> int:
    """Days of UTC; an epoch belongs to the one in which it starts, as for weeks and months."""
    return start // _DAY


def by_week(_: int, start: int) -> int:
    """Weeks from Monday to Sunday."""
    return (start // _DAY + _MONDAY) // 7


def by_month(_: int, start: int) -> int:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=start)
    return 12 * at.year + at.month


CALENDAR = {"day": Periods(by_day), "week": Periods(by_week), "month": Periods(by_month)}


def spans(history: History, periods: Periods | None) -> Iterator[Span]:
    """The epochs of each period, in time order; without periods each epoch alone."""
    epochs, starts = history.series.epochs, history.starts
    where = epochs
    if periods is not None:
        pairs = zip(epochs.tolist(), starts.tolist(), strict=True)
        where = np.array([periods.number(*pair) for pair in pairs], np.int64)
    for number in np.unique(where):
        rows = where == number
        ends = int(starts[rows][0]), int(history.ends[rows][-1])
        own = epochs[rows]
        yield Span(rows, int(own[0]), int(own[-1]), *ends, bool(history.provisional[rows].any()))


def roll_up(
    history: History, periods: Periods | None, errors: MemoErrors | None, rate: DrawnAnew | None = None
) -> Iterator[Period]:
    """The mean of each period, in time order; parameters as of :func:`ldpbeam.over_time.combined`."""
    for span in spans(history, periods):
        some = history.series.rows(span.rows)
        found = mean(some, errors, rate, periods.weight if periods else "epochs")
        n = np.concatenate([np.where(one.known, one.n, 0).sum(axis=0) for one in some.pieces()])
        yield Period(**vars(span), mean=found, n=n)
