"""Weighted sums of estimates over epochs, with errors that are not too small (docs/over-time.md)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ldpbeam.arrays import Flags, Floats, Ints
from ldpbeam.over_time.covariance import DrawnAnew, MemoErrors
from ldpbeam.over_time.series import Series


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


def combined(
    series: Series, weights: Floats, errors: MemoErrors | None, rate: DrawnAnew | None = None
) -> Combined:
    """Σ w·estimate over the epochs.

    Args:
        series: raw estimates.
        weights: (T,), or (T, k) where values lack estimates in different epochs; without an estimate the
            weight counts as 0.
        errors: of the attribute, see :func:`ldpbeam.over_time.memo_errors`; None for independent errors.
        rate: how often devices draw their values anew. Without it every pair of epochs takes the covariance
            that is worst for it: the largest where the weights have one sign, the least where they have two.
    """
    known = series.known
    w = np.where(known, weights if weights.ndim > 1 else weights[:, None], 0.0)
    estimate = np.where(known, series.estimate, 0.0)
    error = np.where(known, series.std_error, 0.0)
    total = (w * estimate).sum(axis=0)
    fresh = (w**2 * error**2).sum(axis=0)
    repeated = floor = np.zeros_like(total)
    if errors is not None and len(series.epochs) > 0:
        reports = np.maximum(series.n, 1)
        frequencies = series.frequencies
        shares = errors.shares(frequencies)
        kept = np.minimum(np.sqrt(np.where(known, errors.kept(shares), 0.0) / reports), error)
        if rate is None:
            opposed = np.zeros((0, *w.shape))
            if (w < 0).any():  # else nothing opposes anything
                opposed = np.where(known, errors.opposed(frequencies), 0.0) / np.sqrt(reports)
            repeated = _worst(w, kept, opposed)
        else:
            repeated = _modelled(series, w, kept, errors, rate)
        floor = (w**2 * kept**2).sum(axis=0) + repeated
    none = ~known.any(axis=0)
    std_error, below = (np.sqrt(np.maximum(one, 0.0)) for one in (fresh + repeated, floor))
    return Combined(total, std_error, below, known.sum(axis=0)).without(none)


def _worst(w: Floats, kept: Floats, opposed: Floats) -> Floats:
    """What all pairs of epochs add to the variance at most, whatever devices do."""
    found = np.zeros(w.shape[1])
    sides = np.maximum(w, 0.0), np.maximum(-w, 0.0)
    for side in sides:
        part = side * kept
        found += part.sum(axis=0) ** 2 - (part**2).sum(axis=0)
    for cause in opposed:
        found += 2 * (sides[0] * cause).sum(axis=0) * (sides[1] * cause).sum(axis=0)
    return found


def _modelled(series: Series, w: Floats, kept: Floats, errors: MemoErrors, rate: DrawnAnew) -> Floats:
    """What all pairs add if values are drawn anew at this rate; at most, where the rate is a range."""
    reports = np.maximum(series.n, 1)
    average = errors.shares(series.average)
    anew = errors.drawn_anew(average, average)
    # What kept answers have in common at least is a part of what they have at most.
    part = _ratio(errors.kept_least(average), errors.kept(average))
    apart = errors.drawn_apart(average)
    found = np.zeros(w.shape[1])
    for place in range(len(series.epochs) - 1):
        later = slice(place + 1, None)
        shares = np.array([rate.kept(int(lag)) for lag in series.epochs[later] - series.epochs[place]])
        # As many devices as report in both epochs at most: n·n' over that is the larger n.
        both = np.minimum(reports[place], reports[later]) / np.maximum(reports[place], reports[later])
        same = kept[place] * kept[later] * np.sqrt(both)
        larger = np.maximum(reports[place], reports[later])
        new_least, new_most, less = (one / larger for one in (*anew, apart))
        few, many = shares[:, :1], shares[:, 1:]
        same_least = same * part - less
        least = np.minimum(*(share * same_least + (1 - share) * new_least for share in (few, many)))
        most = np.maximum(*(share * same + (1 - share) * new_most for share in (few, many)))
        product = w[place] * w[later]
        found += 2 * (product * np.where(product > 0, most, least)).sum(axis=0)
    return found


def _ratio(part: Floats, whole: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(whole > 0, np.minimum(part / whole, 1.0), 1.0)


def mean(series: Series, errors: MemoErrors | None, rate: DrawnAnew | None = None) -> Combined:
    """The mean over the epochs that have an estimate of the value."""
    return combined(series, _shares(series.known), errors, rate)


def difference(
    series: Series, after: Flags, before: Flags, errors: MemoErrors | None, rate: DrawnAnew | None = None
) -> Combined:
    """The mean of some epochs less the mean of others; NaN where either has no estimate.

    Args:
        series: of all these epochs.
        after, before: bool (T,), which epochs; none may be in both.
        errors, rate: as for :func:`combined`.
    """
    known = series.known
    later, earlier = known & after[:, None], known & before[:, None]
    found = combined(series, _shares(later) - _shares(earlier), errors, rate)
    return found.without(~(later.any(axis=0) & earlier.any(axis=0)))


def trend(series: Series, errors: MemoErrors | None, rate: DrawnAnew | None = None) -> Combined:
    """The slope of the least-squares line, per epoch; NaN where fewer than two epochs have an estimate."""
    known = series.known
    share = _shares(known)
    time = (series.epochs - series.epochs[:1]).astype(np.float64)[:, None]
    centred = np.where(known, time - (share * time).sum(axis=0), 0.0)
    spread = (centred**2).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = np.where(spread > 0, centred / spread, 0.0)
    found = combined(series, weights, errors, rate)
    return found.without(spread == 0)


def _shares(known: Flags) -> Floats:
    """Equal weights that add up to 1 over the marked epochs of each value."""
    return np.asarray(known / np.maximum(known.sum(axis=0), 1), np.float64)
