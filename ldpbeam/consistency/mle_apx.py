"""MLE-Apx: maximum of the Gaussian approximation of the likelihood, with two-round variance."""

from __future__ import annotations

from ldpbeam.consistency._simplex import fit
from ldpbeam.consistency.base import FloatArray, Method, Noise, checked, uniform


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
