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
    """Maximise the Gaussian approximation of the likelihood over all histograms."""
    values = checked(estimates)
    if noise.n == 0:
        return uniform(values.size)
    values = noise.realisable(values)
    floor = noise.other * (1.0 - noise.other) / noise.gap**2
    slope = (1.0 - noise.own - noise.other) / noise.gap
    return fit(values, floor, slope)


MLE_APX = Method("mle_apx", mle_apx, True, True, "most likely under Gaussian noise of unequal variance")


def mle(estimates: FloatArray, noise: Noise) -> FloatArray:
    """Find the histogram under which the support counts are most likely."""
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
    """Solve λμ² - (1+λ)μ + c = 0 for the root in [0, 1], without cancellation."""
    linear = 1.0 + multiplier
    root = np.sqrt(np.maximum(linear * linear - 4.0 * multiplier * shares, 0.0))
    stable = linear > 0.0
    supports = 2.0 * shares / (linear + root) if stable else (root - linear) / (-2.0 * multiplier)
    return np.clip(supports, 0.0, 1.0), root


MLE = Method("mle", mle, True, True, "most likely under the true channel (composite unless direct)")
