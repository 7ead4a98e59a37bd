"""The posterior mean under a prior that is estimated from the estimates themselves, and its projection."""

from __future__ import annotations

import numpy as np

from ldpbeam.arrays import Ints
from ldpbeam.consistency._posterior import CountNoise
from ldpbeam.consistency._simplex import project
from ldpbeam.consistency.base import FloatArray, Method, Noise, checked, uniform

_Band = tuple[Ints, Ints, FloatArray]
"""A matrix as the kernels take it: where the entries of each row begin, its first column, and the entries."""

ROUNDS = 400
"""Steps of the fit."""

POINTS = 4
"""Points of the prior in one standard deviation."""

BINS = (32, 16, 8)
"""Rows in one standard deviation, where estimates are too many to have one each: the first that is coarse
enough, or the last."""

ROWS = 2048
"""Up to so many different estimates, each gets its own row."""

LEAST_MOVED = 0.5
"""Share of the variance of the noise by which posterior means have to move estimates, to be worth a bias."""

REACH = 8.0
"""Standard deviations beyond which an estimate and a point of the prior do not concern each other."""


def bayes(estimates: FloatArray, noise: Noise) -> FloatArray:
    """Replace each estimate by its posterior mean under the prior that explains all of them best;
    norm_sub."""
    values = checked(estimates)
    if noise.n == 0:
        return uniform(values.size)
    posterior = shrunk(values, noise)
    # Variances are linear in frequencies, which add up to 1. Sorted: one sum, however values are numbered.
    variance = values.size * noise.floor_variance + float(np.diff(noise.variance(np.array([0.0, 1.0])))[0])
    moved = float(np.sum(np.sort(np.square(posterior - values))))
    return posterior if moved >= LEAST_MOVED * variance else project(values)


def shrunk(values: FloatArray, noise: Noise) -> FloatArray:
    """The histogram of posterior means, whether or not they take much noise away; noise.n is above 0."""
    counts = noise.realisable(values) * float(noise.n)
    scale = CountNoise.of(noise)
    rows, weights = binned(counts, scale)
    means = posterior_means(rows, weights, scale)
    return project(np.interp(counts, rows, means) / float(noise.n))


def binned(counts: FloatArray, noise: CountNoise) -> tuple[FloatArray, FloatArray]:
    """Rows in ascending order, and how many estimates each stands for."""
    rows, multiplicity = np.unique(counts, return_counts=True)
    if rows.size > ROWS:
        steps = positions(rows, noise)
        for bins in BINS:
            places = np.floor(steps * bins)
            # Ends first and last, so that nothing is extrapolated.
            first = np.flatnonzero(np.diff(places, prepend=-np.inf))
            if first.size <= ROWS:
                break
        total = np.add.reduceat(multiplicity, first)
        centres = np.add.reduceat(rows * multiplicity, first) / total
        rows, multiplicity = np.maximum.accumulate(centres), total
    return rows, multiplicity.astype(np.float64)


def positions(counts: FloatArray, noise: CountNoise) -> FloatArray:
    """Estimated counts in standard deviations from 0, also where they lie outside 0..n."""
    last = float(noise.n)
    inside = noise.steps(np.clip(counts, 0.0, last))
    ends = noise.std(np.array([0.0, last]))
    outside = np.minimum(counts, 0.0) / ends[0] + np.maximum(counts - last, 0.0) / ends[1]
    return np.asarray(inside + outside, np.float64)


def prior_points(rows: FloatArray, noise: CountNoise) -> FloatArray:
    """Places of the prior, in standard deviations from 0: multiples of 1/4 near some row, within 0..n."""
    inside = np.clip(positions(rows, noise), 0.0, noise.last_step)
    near = np.unique(np.rint(inside * POINTS))
    points = np.unique(near[:, None] + np.arange(-POINTS, POINTS + 1.0))
    last = np.floor(min(float(inside[-1]), noise.last_step) * POINTS)
    return np.asarray(points[(points >= 0.0) & (points <= max(last, 0.0))] / POINTS, np.float64)


def posterior_means(rows: FloatArray, weights: FloatArray, noise: CountNoise) -> FloatArray:
    """The fit, and the posterior mean of the true count of each row."""
    from ldpbeam.kernels import prior as kernel

    points = prior_points(rows, noise)
    counts = noise.counts(points)
    likelihood = _likelihoods(rows, points, counts, noise)
    by_point = transposed(likelihood, points.size)
    shares = weights / float(np.sum(weights))
    prior = np.full(points.size, 1.0 / points.size)
    kernel.fit(likelihood, by_point, shares, prior, ROUNDS)
    above, below = np.empty(rows.size), np.empty(rows.size)
    kernel.add_rows(by_point, prior * counts, above)
    kernel.add_rows(by_point, prior, below)
    return np.asarray(above / below, np.float64)


def transposed(band: _Band, columns: int) -> _Band:
    """The same entries by column, those of a column in the order of its rows."""
    starts, firsts, values = band
    sizes = np.diff(starts)
    places = np.arange(starts[-1]) - np.repeat(starts[:-1] - firsts, sizes)
    order = np.argsort(places, kind="stable")
    begins = np.concatenate([[0], np.cumsum(np.bincount(places, minlength=columns))])
    first = np.searchsorted(firsts + sizes, np.arange(columns), side="right")
    return begins, first, values[order]


def _likelihoods(rows: FloatArray, points: FloatArray, counts: FloatArray, noise: CountNoise) -> _Band:
    """Density of each row at each point near it, up to a factor of the row."""
    # No row's points begin or end before those of an earlier one, also where rounding would have it so.
    centres = np.maximum.accumulate(np.clip(positions(rows, noise), 0.0, float(points[-1])))
    begin = np.searchsorted(points, centres - REACH, side="left")
    end = np.searchsorted(points, centres + REACH, side="right")
    starts = np.concatenate([[0], np.cumsum(end - begin)])
    columns = np.arange(starts[-1]) - np.repeat(starts[:-1] - begin, end - begin)
    std = noise.std(counts)[columns]
    logs = -0.5 * ((np.repeat(rows, end - begin) - counts[columns]) / std) ** 2 - np.log(std)
    highest = np.maximum.reduceat(logs, starts[:-1])
    values = np.exp(logs - np.repeat(highest, end - begin))
    return starts, begin, values


BAYES = Method("bayes", bayes, True, True, "posterior mean under the prior that fits best; for many values")
