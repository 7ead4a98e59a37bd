"""The posterior mean under a power-law prior fitted to the estimates, and its projection."""

from __future__ import annotations

import numpy as np

from ldpbeam.consistency._posterior import EXACT_ROWS, CountNoise, Posterior, best_exponent, grid
from ldpbeam.consistency._simplex import project
from ldpbeam.consistency.base import FloatArray, Method, Noise, checked, uniform


def power(estimates: FloatArray, noise: Noise) -> FloatArray:
    """Replace each estimate by the posterior mean of its true frequency under a fitted power law.

    Formula, on the count scale x = 0..n, with x̂_v = n·f̂_v:

        prior      P(x) ∝ (x+1)^-α             (the 1 lets a value be held by nobody)
        noise      x̂ | x  ~  N(x, n²·Var(x/n))  (two-round variance, docs/maths.md section 1)
        α          maximises Σ_v log Σ_x P(x)·density(x̂_v | x), over [0, 16]
        result     E[x | x̂_v] / n

    Fitting the *marginal* likelihood of the noisy estimates, negatives included, does not mistake
    noise for a tail, as a fit to the positive estimates alone would. n·f̂ is first moved into the
    range that support counts can produce.

    Guarantees: non-negative, each at most 1; the sum is not controlled. Bias: towards the prior,
    that is downwards for values below the noise (V*), negligible far above it.
    Use it when raw utility is poor and frequencies fall off like a power law; follow with norm_sub
    (`power_ns`) for a histogram.
    Source: Wang et al., NDSS 2020 ("Power").

    Accuracy against the direct sum over 0..n, at equal α, for estimates within 8 standard
    deviations of [0, 1]: half a count, that is 1/(2n), plus 3e-4 standard deviations for up to 1024
    estimates and 2e-3 beyond, where a grid is interpolated; tested. The half count is felt only
    where noise is below one count or the estimate is near 1. For n <= 1024 and up to 1024 estimates
    the sum is the direct one. A count's standard deviation is taken as 1/2 at least. n = 0: zeros.

    Correction 7 (docs/maths.md): the Power and PowerNS rows of the Consistency paper's Table 2 cannot be
    reproduced by a correct Power. They are constant over six protocols, which no function of the estimates
    and their noise can be. "1 for every value" has MSE 1 - 2/k + Σf²/k and "uniform" has Σf²/k - 1/k², so the
    two differ by (1 - 1/k)² whatever the data: on bfive 0.747 - 0.012 = 0.735 gives k = 7.01, a whole domain
    size within the rounding of the table. So those rows are "answer 1 everywhere" and "answer uniform", as
    when frequencies are fed to a routine that works on counts.
    """
    values = checked(estimates)
    if noise.n == 0:
        return np.zeros_like(values)
    counts = noise.realisable(values) * float(noise.n)
    return posterior_means(counts, CountNoise.of(noise)) / float(noise.n)


def posterior_means(counts: FloatArray, noise: CountNoise, exponent: float | None = None) -> FloatArray:
    """Posterior mean of the count behind each estimated one; fits the exponent unless given.

    The estimates are put in order first: the fit must not depend on how values are numbered, not
    even by rounding.

    Args:
        counts: float64 (k,), estimated.
        noise: of the counts.
        exponent: of the power law; None fits it.
    """
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
    """Apply power, then norm_sub.

    Formula: the projection onto the simplex of the posterior means of `power`. Guarantees:
    non-negative, sums to 1.
    Bias: towards the fitted power law; values below the noise are pulled together.
    Use it when raw utility is poor (noise larger than most frequencies) and frequencies fall off
    like a power law.
    Source: Wang et al., NDSS 2020 ("PowerNS"); the Consistency paper recommends it second, after
    norm_sub. Its PowerNS rows cannot be reproduced by a correct Power: see `power` (docs/maths.md
    correction 7). At n = 0: uniform.
    """
    values = checked(estimates)
    if noise.n == 0:
        return uniform(values.size)
    return project(power(values, noise))


POWER_NS = Method("power_ns", power_ns, True, True, "power, then norm_sub; for very noisy estimates")
