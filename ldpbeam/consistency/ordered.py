"""A histogram of values in an order: neighbours are alike as far as the estimates say so."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ldpbeam.consistency._simplex import project
from ldpbeam.consistency.base import FloatArray, Method, Noise, checked, uniform
from ldpbeam.consistency.bayes import transposed

ROUNDS = 100
"""Steps of the fit of each scale."""

WEIGHT_OF_NONE = 3.0
"""Differences of size zero that are added to those that each scale has, lest a prior believe a few."""

STEPS = 8
"""Rows of differences in one standard deviation, and above :data:`FINE` in a factor of two."""

FINE = 16.0
"""Standard deviations up to which rows are equally wide."""

SMALLEST = 2.0**-4
"""The smallest variance of the prior above zero, in variances of the noise; each next one is twice it."""


def ordered(estimates: FloatArray, noise: Noise) -> FloatArray:
    """Shrink the differences of neighbouring stretches, at all scales, by priors they teach; norm_sub."""
    values = checked(estimates)
    if noise.n == 0:
        return uniform(values.size)
    return project(smooth(values, noise))


def smooth(values: FloatArray, noise: Noise) -> FloatArray:
    """The posterior means x′, float64 (k,), which sum to 1 and may be negative; noise.n is above 0."""
    k = values.size
    values = noise.realisable(values)
    line = values - (np.sum(values) - 1.0) / k
    spread = noise.variance(project(values))
    means, variances = np.concatenate([line, line[::-1]]), np.concatenate([spread, spread[::-1]])
    details, stretch = [], 1
    while 2 * stretch <= means.size:
        following = np.roll(means, -stretch)
        variances = (variances + np.roll(variances, -stretch)) / 4.0
        # Differences of stretches that do not overlap are as many as two stretches fit into the values.
        details.append(shrunk((means - following) / 2.0, variances, k / (2.0 * stretch)))
        means = (means + following) / 2.0
        stretch *= 2
    left = 1.0 - stretch / means.size
    means = 1.0 / k + (shrunk(means - 1.0 / k, variances * left, 1.0) if left > 0.0 else np.zeros(2 * k))
    for detail in reversed(details):
        stretch //= 2
        means = (means + detail + np.roll(means - detail, stretch)) / 2.0
    return np.asarray(means[:k], np.float64)


def shrunk(differences: FloatArray, variances: FloatArray, independent: float) -> FloatArray:
    """The posterior mean of each difference."""
    from ldpbeam.kernels import prior as kernel

    noisy = variances > 0.0
    if not noisy.any():
        return differences
    sizes = np.abs(differences[noisy]) / np.sqrt(variances[noisy])
    row = row_of(sizes)
    repeats = np.bincount(row)
    held = np.flatnonzero(repeats)
    repeats, rows = repeats[held], np.bincount(row, sizes)[held] / repeats[held]
    largest = 2.0 * np.log2(max(float(np.max(sizes)), 1.0)) + 1.0
    variance = np.concatenate([[0.0], 2.0 ** np.arange(np.log2(SMALLEST), largest)])
    likelihood = likelihoods(rows, variance)
    # A difference of zero that is certain: only a prior of variance 0 explains it.
    none = np.eye(1, variance.size)
    weights = np.concatenate([[WEIGHT_OF_NONE], repeats * (independent / sizes.size)])
    band = (
        np.arange(rows.size + 2) * variance.size,
        np.zeros(rows.size + 1, np.int64),
        np.concatenate([none, likelihood]).ravel(),
    )
    prior = np.full(variance.size, 1.0 / variance.size)
    kernel.fit(band, transposed(band, variance.size), weights / float(np.sum(weights)), prior, ROUNDS)
    # Between the ends of its row, never towards a row far away.
    ends = end_of(np.union1d(held, held + 1))
    likelihood = likelihoods(ends, variance)
    share = likelihood @ (prior * (variance / (1.0 + variance))) / (likelihood @ prior)
    result = differences.copy()
    result[noisy] *= np.interp(sizes, ends, share)
    return result


def likelihoods(sizes: FloatArray, variance: FloatArray) -> FloatArray:
    """Of each size under each variance of the prior, float64 (sizes, variances); a size's largest is 1."""
    logs = -0.5 * (np.square(sizes)[:, None] / (1.0 + variance) + np.log1p(variance))
    return np.asarray(np.exp(logs - np.max(logs, axis=1, keepdims=True)), np.float64)


def row_of(sizes: FloatArray) -> npt.NDArray[np.int64]:
    """The number of each size's row; rows are few, however many sizes there are."""
    fine = np.floor(sizes * STEPS)
    coarse = np.floor(FINE * STEPS + STEPS * np.log2(np.maximum(sizes, FINE) / FINE))
    return np.where(sizes < FINE, fine, coarse).astype(np.int64)


def end_of(row: npt.NDArray[np.int64]) -> FloatArray:
    """The lower end of each row, which is the upper end of the one before it."""
    beyond = np.maximum(row - FINE * STEPS, 0.0)
    return np.asarray(np.minimum(row / STEPS, FINE) * 2.0 ** (beyond / STEPS), np.float64)


ORDERED = Method(
    "ordered", ordered, True, True, "neighbours in an order shrunk to each other; for many values"
)
