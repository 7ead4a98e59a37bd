"""The most likely histogram, knowing the two-round channel: exactly, and for Gaussian noise."""

from __future__ import annotations

import numpy as np

from ldpbeam.consistency._simplex import fit
from ldpbeam.consistency.base import FloatArray, Method, Noise, checked, uniform

STEPS = 200
"""Bisection alone halves the bracket to nothing in fewer; Newton takes about ten."""

SUM_TOLERANCE = 1e-14
"""How near to 1 the sum must come before the search stops early."""


def mle_apx(estimates: FloatArray, noise: Noise) -> FloatArray:
    """Maximise the Gaussian approximation of the likelihood over all histograms.

    Derivation. By docs/maths.md section 1 an estimate of a value of frequency x has variance (a + b·x)/n
    with a = other(1-other)/(own-other)² and b = (1-own-other)/(own-other), because own(1-own) -
    other(1-other) = (own-other)(1-own-other). Treat the estimates as independent Gaussians and
    keep, as Wang does, the exponent of their density and not its normaliser:

        minimise  Σ_v (x_v - f̂_v)² / (a + b·x_v)   subject to  Σ x = 1, x >= 0,

    where n cancels. The problem is convex. Equal derivatives on the active set make (a + b·x_v)/(a
    + b·f̂_v) one common ratio r, so x_v = r·f̂_v + (r - 1)·a/b: Wang's closed form, one scale and
    one shift, here with the *composed* own and other, which the Consistency paper's section 8 found
    missing. The sum fixes r, a sort the active set; see `_simplex.py`.

    Guarantees: non-negative, sums to 1. Bias: as norm_sub, to which it tends as own + other -> 1
    (symmetric rounds, b = 0).
    Use it where variances differ much between rare and frequent values and n is large; mle needs no
    approximation.
    Source: Wang et al., NDSS 2020 ("MLE-Apx"). Estimates that no support count can produce are
    first moved to the nearest that one can (where a + b·f̂ >= 0). At n = 0: uniform. If own = 1 and
    an estimate reaches 1, or the channel has no noise, the objective is degenerate and the
    projection of norm_sub is returned.
    """
    values = checked(estimates)
    if noise.n == 0:
        return uniform(values.size)
    values = noise.realisable(values)
    floor = noise.other * (1.0 - noise.other) / noise.gap**2
    slope = (1.0 - noise.own - noise.other) / noise.gap
    return fit(values, floor, slope)


MLE_APX = Method("mle_apx", mle_apx, True, True, "most likely under Gaussian noise of unequal variance")


def mle(estimates: FloatArray, noise: Noise) -> FloatArray:
    """Find the histogram under which the support counts are most likely.

    The counts are recovered as C_v = n·c_v, c_v = other + f̂_v(own-other) clipped to [0, 1], and a
    report supports v with probability μ_v = other + x_v(own-other). What is maximised over all
    histograms x depends on the encoding:

    - exclusive supports (direct encoding, any number of rounds): the *exact* multinomial
      log-likelihood Σ C_v log μ_v. Its optimum is μ_v = max(other, τ·C_v), found exactly by one
      sort: it is the problem of `_simplex.py` with a = other, b = own-other. This is where EM
      ("iterative Bayesian update") converges to; no iteration here.
    - all others (unary bits, hashed reports): the *composite* log-likelihood Σ [C_v log μ_v +
      (n-C_v) log(1-μ_v)], the product of the k binomial marginals. It ignores that the bits of one
      report depend on each other through the value, which only the reports themselves could tell;
      it is consistent but not the full likelihood. Separable and strictly concave: with a
      multiplier λ, (c-μ)/(μ(1-μ)) = λ is a quadratic for each value, and λ is found by guarded
      Newton steps in a bracket given by the uniform histogram. n cancels.

    Guarantees: non-negative, sums to 1. Bias: as norm_sub, vanishing as n grows.
    Use it when there is time to prefer the true channel to a Gaussian one: few reports, direct
    encoding, extreme counts.
    Source: asked for by the Consistency paper's section 8. The direct case has a closed form also
    in Pinzón et al. (arXiv:2601.08603). n = 0, or exclusive and no count above 0: uniform.
    """
    values = checked(estimates)
    if noise.n == 0 or values.size == 1:
        return uniform(values.size)
    values = noise.realisable(values)
    if noise.exclusive:
        return fit(values, noise.other, noise.gap)
    return _composite(np.clip(noise.other + values * noise.gap, 0.0, 1.0), noise)


def _composite(shares: FloatArray, noise: Noise) -> FloatArray:
    """Maximise Σ c log μ + (1-c) log(1-μ) for shares c in [0, 1], k >= 2."""
    flat = noise.other + noise.gap / shares.size
    pulls = (shares - flat) / (flat * (1.0 - flat))
    # At the lowest pull every μ is >= flat, at the highest <= flat: they bracket the multiplier.
    low, high = float(np.min(pulls)), float(np.max(pulls))
    multiplier = 0.5 * (low + high)
    for _ in range(STEPS):
        supports, root = _supports(shares, multiplier)
        masses = np.maximum(supports - noise.other, 0.0) / noise.gap
        excess = float(np.sum(masses)) - 1.0
        if abs(excess) <= SUM_TOLERANCE:
            break
        if excess > 0.0:
            low = multiplier
        else:
            high = multiplier
        active = (masses > 0.0) & (root > 0.0)
        fall = float(np.sum((supports * (1.0 - supports))[active] / root[active])) / noise.gap
        proposal = multiplier + excess / fall if fall > 0.0 else low
        if not low < proposal < high:
            proposal = 0.5 * (low + high)
        if proposal in (low, high, multiplier):
            break
        multiplier = proposal
    total = float(np.sum(masses))
    return masses / total if total > 0.0 else uniform(shares.size)


def _supports(shares: FloatArray, multiplier: float) -> tuple[FloatArray, FloatArray]:
    """Solve λμ² - (1+λ)μ + c = 0 for the root in [0, 1], without cancellation.

    Also returns the square root of the discriminant: it is -μ(1-μ)/(dμ/dλ), for Newton's step.
    """
    linear = 1.0 + multiplier
    root = np.sqrt(np.maximum(linear * linear - 4.0 * multiplier * shares, 0.0))
    stable = linear > 0.0
    supports = 2.0 * shares / (linear + root) if stable else (root - linear) / (-2.0 * multiplier)
    return np.clip(supports, 0.0, 1.0), root


MLE = Method("mle", mle, True, True, "most likely under the true channel (composite unless direct)")
