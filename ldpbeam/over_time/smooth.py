"""Smoothing over epochs: a local level that drifts, seen through errors of which a part repeats itself.

The model of a value: its frequency is a random walk; its estimate is the frequency, plus what devices keep
for life, plus fresh noise. What is kept has a part that is common to all epochs, and with a change rate one
that fades as values are drawn anew. The common part cannot be told from the frequency, so it changes no
weight and is in the error of every smoothed number: smoothing takes away fresh noise only (docs/over-time.md
section 5).

The smoother is that of Rauch, Tung and Striebel. How fast a frequency drifts is not known: each of several
speeds is taken as far as its likelihood says.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ldpbeam.arrays import Floats
from ldpbeam.over_time.covariance import ChangeRate, MemoErrors
from ldpbeam.over_time.series import Series

_SPEEDS = (0.0, *(10.0**power for power in np.arange(-4.0, 1.25, 0.5)))
"""Variances of a frequency's step from one epoch to the next, over that of an estimate."""

_DIFFUSE = 1e6
"""Variance of the first frequency before anything is seen, over that of an estimate."""

_LEAST = 1e-9
"""Of an estimate's variance: what a part has at least, so that no matrix is singular."""


@dataclass(frozen=True, eq=False)
class Smoothed:
    """Smoothed estimates and their standard errors, (T, k); NaN for values without any estimate."""

    estimate: Floats
    std_error: Floats


def smooth(series: Series, errors: MemoErrors | None, rate: ChangeRate | None = None) -> Smoothed:
    """Smooth each value over all epochs of the series, those without an estimate too.

    Args:
        series: raw estimates.
        errors: of the attribute; None for independent errors.
        rate: how often devices draw their values anew. Without it all that is kept counts as common: the
            error is then never too small.
    """
    known = series.known
    square = np.where(known, series.std_error, np.nan) ** 2
    whole = _mean(square, known)
    kept = np.zeros_like(square)
    common = np.zeros_like(whole)
    if errors is not None:
        reports = np.maximum(series.n, 1)
        shares = errors.shares(np.where(known, series.estimate, 0.0))
        kept = np.minimum(np.where(known, errors.kept(shares) / reports, 0.0), square)
        common = _mean(kept, known)
    fading = np.zeros_like(whole)
    if errors is not None and rate is not None and rate.most > 0:
        average = errors.shares(series.average)
        anew = errors.drawn_anew(average, average)[1]
        with np.errstate(divide="ignore", invalid="ignore"):
            stays = np.where(common > 0, np.minimum(anew / errors.kept(average), 1.0), 1.0)
        common, fading = common * stays, common * (1 - stays)
    noise = np.maximum(square - kept, _LEAST * whole)
    fading = np.maximum(fading, _LEAST * whole)
    gaps = np.diff(series.epochs).astype(np.float64)
    # Between the two ends of a range the slower fading one leaves more in the error.
    keeping = np.ones_like(gaps) if rate is None else (1 - rate.least) ** gaps
    speeds = np.array(_SPEEDS)[:, None] * whole
    filtered = _filter(np.where(known, series.estimate, np.nan), noise, fading, gaps, keeping, speeds)
    level, spread = _backwards(filtered, fading, gaps, keeping, speeds)
    weights = np.exp(filtered.likelihood - filtered.likelihood.max(axis=0))
    weights = (weights / weights.sum(axis=0))[None]
    estimate = (weights * level).sum(axis=1)
    variance = (weights * (spread + (level - estimate[:, None]) ** 2)).sum(axis=1) + common
    none = ~known.any(axis=0)
    return Smoothed(np.where(none, np.nan, estimate), np.where(none, np.nan, np.sqrt(variance)))


def _mean(numbers: Floats, known: np.ndarray) -> Floats:
    total = np.where(known, numbers, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return np.asarray(np.where(total > 0, total, 0.0), np.float64)


@dataclass
class _Filtered:
    """Means (level, memo) and covariances (level, both, memo) after each epoch: (T, 2 or 3, speeds, k)."""

    means: Floats
    covariances: Floats
    likelihood: Floats


def _filter(
    seen: Floats, noise: Floats, fading: Floats, gaps: Floats, keeping: Floats, speeds: Floats
) -> _Filtered:
    epochs = len(seen)
    shape = speeds.shape
    means, covariances = np.zeros((epochs, 2, *shape)), np.zeros((epochs, 3, *shape))
    likelihood = np.zeros(shape)
    started = np.zeros(shape[1], np.bool_)
    scale = np.nanmax(np.where(np.isfinite(noise), noise, 0.0), axis=0) + fading
    mean = np.zeros((2, *shape))
    covariance = np.stack(
        [np.broadcast_to(_DIFFUSE * scale + 1.0, shape), np.zeros(shape), np.broadcast_to(fading, shape)]
    )
    for place in range(epochs):
        if place:
            mean, covariance = _forward(mean, covariance, gaps[place - 1], keeping[place - 1], fading, speeds)
        there = np.isfinite(seen[place])
        level, both, memo = covariance
        total = level + 2 * both + memo + np.where(there, noise[place], 1.0)
        total = np.where(total > 0, total, 1.0)
        off = np.where(there, seen[place] - mean[0] - mean[1], 0.0)
        gain = np.where(there, np.stack([level + both, both + memo]) / total, 0.0)
        mean = mean + gain * off
        covariance = covariance - total * np.stack([gain[0] ** 2, gain[0] * gain[1], gain[1] ** 2])
        # What is seen first only says where the level starts.
        likelihood -= np.where(there & started, 0.5 * (np.log(total) + off**2 / total), 0.0)
        started |= there
        means[place], covariances[place] = mean, covariance
    return _Filtered(means, covariances, likelihood)


def _forward(
    mean: Floats, covariance: Floats, gap: float, keeping: float, fading: Floats, speeds: Floats
) -> tuple[Floats, Floats]:
    """One step ahead: the level drifts, what is kept fades and is replaced."""
    level, both, memo = covariance
    ahead = np.stack([level + gap * speeds, keeping * both, keeping**2 * memo + (1 - keeping**2) * fading])
    return np.stack([mean[0], keeping * mean[1]]), ahead


def _backwards(
    found: _Filtered, fading: Floats, gaps: Floats, keeping: Floats, speeds: Floats
) -> tuple[Floats, Floats]:
    """Smoothed level and its variance, (T, speeds, k) each."""
    epochs = len(found.means)
    level, spread = np.zeros((epochs, *speeds.shape)), np.zeros((epochs, *speeds.shape))
    mean, covariance = found.means[-1], found.covariances[-1]
    level[-1], spread[-1] = mean[0], covariance[0]
    for place in range(epochs - 2, -1, -1):
        at, p = found.means[place], found.covariances[place]
        ahead, q = _forward(at, p, gaps[place], keeping[place], fading, speeds)
        determinant = q[0] * q[2] - q[1] ** 2
        inverse = np.stack([q[2], -q[1], q[0]]) / np.where(determinant > 0, determinant, 1.0)
        c = keeping[place]
        # The gain P·Aᵀ·Q⁻¹, with A = diag(1, c).
        g00, g01 = p[0] * inverse[0] + c * p[1] * inverse[1], p[0] * inverse[1] + c * p[1] * inverse[2]
        g10, g11 = p[1] * inverse[0] + c * p[2] * inverse[1], p[1] * inverse[1] + c * p[2] * inverse[2]
        off, d = mean - ahead, covariance - q
        mean = np.stack([at[0] + g00 * off[0] + g01 * off[1], at[1] + g10 * off[0] + g11 * off[1]])
        covariance = np.stack(
            [
                p[0] + g00 * (g00 * d[0] + g01 * d[1]) + g01 * (g00 * d[1] + g01 * d[2]),
                p[1] + g00 * (g10 * d[0] + g11 * d[1]) + g01 * (g10 * d[1] + g11 * d[2]),
                p[2] + g10 * (g10 * d[0] + g11 * d[1]) + g11 * (g10 * d[1] + g11 * d[2]),
            ]
        )
        level[place], spread[place] = mean[0], np.maximum(covariance[0], 0.0)
    return level, spread
