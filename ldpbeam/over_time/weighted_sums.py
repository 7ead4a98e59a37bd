"""Weighted sums of estimates over epochs, with errors that are not too small (docs/over-time.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np

from ldpbeam.arrays import Flags, Floats, Ints
from ldpbeam.over_time.covariance import DrawnAnew, MemoErrors, levels_of
from ldpbeam.over_time.series import Series

Weight = Literal["epochs", "reports"]
"""What weighs the same in a mean of several epochs: each epoch, or each report."""


@dataclass(frozen=True, eq=False)
class Combined:
    """A weighted sum of estimates, (k,) each; NaN where no epoch has an estimate.

    Attributes:
        estimate: the sum.
        std_error: at least its standard error, as far as the rate that values are drawn anew at is known.
        std_error_floor: what of that would stay if all reports were repeated endlessly by the same devices.
        epochs: int64, how many epochs have an estimate of the value.
    """

    estimate: Floats
    std_error: Floats
    std_error_floor: Floats
    epochs: Ints

    def without(self, which: Flags | np.bool_) -> Combined:
        """The same with NaN for some of the values."""
        numbers = (self.estimate, self.std_error, self.std_error_floor)
        estimate, error, floor = (np.where(which, np.nan, one) for one in numbers)
        return Combined(estimate, error, floor, self.epochs)


@dataclass(frozen=True, eq=False)
class _Totals:
    """What the errors of some values take from all of them."""

    levels: Floats | None
    average_levels: Floats | None = None
    agreement: Floats | None = None

    @classmethod
    def of(cls, series: Series, errors: MemoErrors, rate: DrawnAnew | None) -> _Totals:
        """The totals of a series that has all values."""
        levels = levels_of(series, errors)
        if rate is None:
            return cls(levels)
        average = np.concatenate([piece.average() for piece in series.pieces()])
        average_levels = errors.levels(average)
        shares = errors.shares(average, average_levels)
        return cls(levels, average_levels, errors.agreement(shares, shares))


def combined(
    series: Series, weights: Floats, errors: MemoErrors | None, rate: DrawnAnew | None = None
) -> Combined:
    """Σ w·estimate over the epochs.

    Args:
        series: raw estimates.
        weights: (T,); an estimate that is not there counts as 0.
        errors: of the attribute, see :func:`ldpbeam.over_time.memo_errors`; None for independent errors.
        rate: how often devices draw their values anew. Without it every pair of epochs takes the covariance
            that is worst for it: the largest where the weights have one sign, the least where they have two.
    """
    return _by_pieces(series, lambda piece: (weights[:, None], np.False_), errors, rate)


def _by_pieces(
    series: Series,
    weigh: Callable[[Series], tuple[Floats, Flags | np.bool_]],
    errors: MemoErrors | None,
    rate: DrawnAnew | None,
) -> Combined:
    """A sum with weights that depend on where there are estimates."""
    totals = None
    if errors is not None and len(series.epochs) > 0:
        totals = _Totals.of(series, errors, rate)
    results = []
    for piece in series.pieces():
        weights, nothing = weigh(piece)
        results.append(_combined(piece, weights, errors, totals, rate).without(nothing))
    if len(results) == 1:
        return results[0]
    return Combined(
        *(np.concatenate([getattr(one, part.name) for one in results]) for part in fields(Combined))
    )


def _combined(
    series: Series,
    weights: Floats,
    errors: MemoErrors | None,
    totals: _Totals | None,
    rate: DrawnAnew | None,
) -> Combined:
    """The sums of some values; weights are (T, 1) or (T, k)."""
    known = series.known
    w = np.where(known, weights, 0.0)
    estimate = np.where(known, series.estimate, 0.0)
    error = np.where(known, series.std_error, 0.0)
    total = (w * estimate).sum(axis=0)
    fresh = (w**2 * error**2).sum(axis=0)
    repeated = floor = np.zeros_like(total)
    if errors is not None and totals is not None:
        reports = np.maximum(series.n, 1)
        floors = np.minimum(
            np.sqrt(np.where(known, _floor_variance(series, errors, totals), 0.0) / reports), error
        )
        if rate is None:
            opposed = np.zeros((0, *w.shape))
            if (w < 0).any():  # else nothing opposes anything
                opposed = np.where(known, _opposed(series, errors), 0.0) / np.sqrt(reports)
            repeated = _worst(w, floors, opposed)
        else:
            repeated = _modelled(series, w, floors, errors, totals, rate)
        floor = (w**2 * floors**2).sum(axis=0) + repeated
    none = ~known.any(axis=0)
    std_error, below = (np.sqrt(np.maximum(one, 0.0)) for one in (fresh + repeated, floor))
    return Combined(total, std_error, below, known.sum(axis=0)).without(none)


def _floor_variance(series: Series, errors: MemoErrors, totals: _Totals) -> Floats:
    """The :meth:`MemoErrors.floor_variance` of each epoch, (T, k)."""
    variances, place = [], 0
    for rows in series.frequencies():
        levels = None if totals.levels is None else totals.levels[place : place + len(rows)]
        variances.append(errors.floor_variance(errors.shares(rows, levels)))
        place += len(rows)
    return np.concatenate(variances)


def _opposed(series: Series, errors: MemoErrors) -> Floats:
    """The :meth:`MemoErrors.opposed` of each epoch, (parts, T, k)."""
    place = np.concatenate([errors.place(rows) for rows in series.frequencies()])
    average = place.mean(axis=0)
    return np.concatenate([errors.opposed(rows, average) for rows in series.frequencies()], axis=1)


def _worst(w: Floats, floors: Floats, opposed: Floats) -> Floats:
    """What all pairs of epochs add to the variance at most, whatever devices do."""
    total = np.zeros(w.shape[1])
    sides = np.maximum(w, 0.0), np.maximum(-w, 0.0)
    for side in sides:
        part = side * floors
        total += part.sum(axis=0) ** 2 - (part**2).sum(axis=0)
    for cause in opposed:
        total += 2 * (sides[0] * cause).sum(axis=0) * (sides[1] * cause).sum(axis=0)
    return total


def _modelled(
    series: Series, w: Floats, floors: Floats, errors: MemoErrors, totals: _Totals, rate: DrawnAnew
) -> Floats:
    """What all pairs add if values are drawn anew at this rate; at most, where the rate is a range."""
    reports = np.maximum(series.n, 1)
    average = errors.shares(series.average(), totals.average_levels)
    anew = errors.drawn_anew(average, average, totals.agreement)
    # What kept answers have in common at least is a part of what they have at most.
    part = _ratio(errors.least_floor_variance(average), errors.floor_variance(average))
    apart = errors.drawn_apart(average)
    total = np.zeros(w.shape[1])
    for place in range(len(series.epochs) - 1):
        later = slice(place + 1, None)
        few, many = (one[:, None] for one in rate.unchanged(series.epochs[later] - series.epochs[place]))
        # As many devices as report in both epochs at most: n·n' over that is the larger n.
        both = np.minimum(reports[place], reports[later]) / np.maximum(reports[place], reports[later])
        same = floors[place] * floors[later] * np.sqrt(both)
        larger = np.maximum(reports[place], reports[later])
        new_least, new_most, less = (one / larger for one in (*anew, apart))
        same_least = same * part - less
        least = np.minimum(*(share * same_least + (1 - share) * new_least for share in (few, many)))
        most = np.maximum(*(share * same + (1 - share) * new_most for share in (few, many)))
        product = w[place] * w[later]
        total += 2 * (product * np.where(product > 0, most, least)).sum(axis=0)
    return total


def _ratio(part: Floats, whole: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(whole > 0, np.minimum(part / whole, 1.0), 1.0)


def mean(
    series: Series,
    errors: MemoErrors | None,
    rate: DrawnAnew | None = None,
    weight: Weight = "epochs",
) -> Combined:
    """The mean over the epochs that have an estimate of the value.

    Args:
        series, errors, rate: as of :func:`combined`.
        weight: what weighs the same, each epoch or each report about the value.
    """
    return _by_pieces(series, lambda piece: (shares(piece.known, piece.n, weight), np.False_), errors, rate)


def difference(
    series: Series,
    after: Flags,
    before: Flags,
    errors: MemoErrors | None,
    rate: DrawnAnew | None = None,
    weight: Weight = "epochs",
) -> Combined:
    """The mean of some epochs less the mean of others; NaN where either has no estimate.

    Args:
        series: of all these epochs.
        after, before: bool (T,), which epochs; none may be in both.
        errors, rate: as for :func:`combined`.
        weight: as for :func:`mean`.
    """

    def weigh(piece: Series) -> tuple[Floats, Flags]:
        later, earlier = piece.known & after[:, None], piece.known & before[:, None]
        nothing = np.asarray(~(later.any(axis=0) & earlier.any(axis=0)), np.bool_)
        return shares(later, piece.n, weight) - shares(earlier, piece.n, weight), nothing

    return _by_pieces(series, weigh, errors, rate)


def trend(series: Series, errors: MemoErrors | None, rate: DrawnAnew | None = None) -> Combined:
    """The slope of the least-squares line, per epoch; NaN where fewer than two epochs have an estimate.

    Args:
        series, errors, rate: as of :func:`combined`.
    """

    def weigh(piece: Series) -> tuple[Floats, Flags]:
        known = piece.known
        time = (series.epochs - series.epochs[:1]).astype(np.float64)[:, None]
        off = np.where(known, time - (shares(known, piece.n) * time).sum(axis=0), 0.0)
        spread = (off**2).sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(spread > 0, off / spread, 0.0), np.asarray(spread == 0, np.bool_)

    return _by_pieces(series, weigh, errors, rate)


def shares(known: Flags, n: Ints, weight: Weight = "epochs") -> Floats:
    """Weights of epochs that add up to 1 over the marked ones of each value, which have n reports."""
    size = np.where(known, n, 0) if weight == "reports" else known
    return np.asarray(size / np.maximum(size.sum(axis=0), 1), np.float64)


def weight_in_words(weight: Weight, *epochs: Ints | int) -> str:
    """What the means of sides of so many epochs are, for people; nothing where both are single ones."""
    several = max(map(np.max, epochs)) > 1
    return f" (each {weight.removesuffix('s')} weighs the same)" if several else ""
