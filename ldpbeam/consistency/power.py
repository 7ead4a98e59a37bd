"""The posterior mean under a power-law prior fitted to the estimates, and its projection."""

from __future__ import annotations

import numpy as np

from ldpbeam.consistency._posterior import EXACT_ROWS, CountNoise, Posterior, best_exponent, grid
from ldpbeam.consistency._simplex import project
from ldpbeam.consistency.base import FloatArray, Method, Noise, checked, uniform


def power(estimates: FloatArray, noise: Noise) -> FloatArray:
    """Replace each estimate by the posterior mean of its true frequency under a fitted power law."""
    values = checked(estimates)
    if noise.n == 0:
        return np.zeros_like(values)
    counts = noise.realisable(values) * float(noise.n)
    return posterior_means(counts, CountNoise.of(noise)) / float(noise.n)


def posterior_means(counts: FloatArray, noise: CountNoise, exponent: float | None = None) -> FloatArray:
    """Posterior mean of the count behind each estimated one; fits the exponent unless given."""
    if counts.size <= EXACT_ROWS:
        rows, multiplicity = np.unique(counts, return_counts=True)
        weights = multiplicity.astype(np.float64)
    else:
        rows = grid(float(np.min(counts)), float(np.max(counts)), noise)
        weights = _interpolation_weights(np.sort(counts), rows)
    posterior = Posterior(rows, noise)
    if exponent is None:
        exponent = best_exponent(lambda tried: float(weights @ posterior.log_marginals(tried)))
    means = posterior.means(exponent)
    # Where each estimate has its own row, interpolation only looks it up.
    return np.asarray(np.interp(counts, rows, means), dtype=np.float64)


def _interpolation_weights(points: FloatArray, rows: FloatArray) -> FloatArray:
    """Weights w with w @ g(rows) = Σ linear interpolation of g at the points."""
    if rows.size == 1:
        return np.array([float(points.size)])
    left = np.clip(np.searchsorted(rows, points, side="right") - 1, 0, rows.size - 2)
    share = (points - rows[left]) / (rows[left + 1] - rows[left])
    lower = np.bincount(left, weights=1.0 - share, minlength=rows.size)
    upper = np.bincount(left + 1, weights=share, minlength=rows.size)
    return np.asarray(lower + upper, dtype=np.float64)


POWER = Method("power", power, True, False, "posterior mean under a fitted power law")


def power_ns(estimates: FloatArray, noise: Noise) -> FloatArray:
    """Apply power, then norm_sub."""
    values = checked(estimates)
    if noise.n == 0:
        return uniform(values.size)
    return project(power(values, noise))


POWER_NS = Method("power_ns", power_ns, True, True, "power, then norm_sub; for very noisy estimates")
