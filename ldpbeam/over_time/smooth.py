"""Smoothing over epochs: a level that drifts and may jump, seen through errors that partly repeat themselves.

The model of a value: its frequency is a random walk that jumps now and then; its estimate is the frequency,
plus what devices keep for life, plus fresh noise. What is kept cannot be told from the frequency, so it
changes no weight and is in the error of every smoothed number: smoothing takes away fresh noise only
(docs/over-time.md section 5).

One filter (Kalman 1960) runs over the epochs before an epoch, one over those after it, and both are combined
with the estimate of the epoch itself (Fraser and Potter 1969). How fast a frequency drifts is not known: each
of several speeds is taken as far as its likelihood says. Whether it jumps just before an epoch, just after
it, or both, is weighed in the same way; jumps further away are merged into one normal distribution at each
step (Harrison and Stevens 1976).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import overload

import numpy as np

from ldpbeam.arrays import Flags, Floats
from ldpbeam.estimates import CONFIDENCE
from ldpbeam.over_time.covariance import MemoErrors, levels_of
from ldpbeam.over_time.series import AnySeries, Series, of_pieces
from ldpbeam.over_time.significance import normal_limit

_SPEEDS = (0.0, *(10.0**power for power in np.arange(-4.0, 1.25, 0.5)))
"""Variances of a frequency's step from one epoch to the next, over that of an estimate."""

_JUMP = 100.0
"""Variance of a jump, over that of an estimate."""

_JUMPS = 0.2
"""How many jumps of a value are expected in the whole series."""

_APART = 2.3
"""Standard errors from the estimate of an epoch to what all others say, from which on the band is widened.

Less widens the band of too many quiet epochs, more leaves events out of it (docs/over-time.md section 5).
"""

_SIDES = 2.6
"""The same between what the epochs before and those after say, which are apart where the level steps."""

_DIFFUSE = 1e6
"""Variance of the first frequency before anything is seen, over that of an estimate."""

_LEAST = 1e-9
"""Of an estimate's variance: what fresh noise has at least, so that no variance is 0."""


@overload
def smooth(series: Series, errors: MemoErrors | None) -> Series: ...
@overload
def smooth(series: AnySeries, errors: MemoErrors | None) -> AnySeries: ...
def smooth(series: AnySeries, errors: MemoErrors | None) -> AnySeries:
    """Smooth each value over all epochs of the series, those without an estimate too."""
    levels = None if errors is None else levels_of(series, errors)
    return of_pieces(series, (_smooth(piece, errors, levels) for piece in series.pieces()))


def _smooth(series: Series, errors: MemoErrors | None, levels: Floats | None) -> Series:
    """Some values; ``levels`` see :meth:`MemoErrors.levels`."""
    known = series.known
    raw_error = np.where(known, series.std_error, np.nan)
    square = raw_error**2
    whole = _mean(square, known)
    floor = np.zeros_like(square)
    if errors is not None:
        shares = errors.shares(np.where(known, series.estimate, 0.0), levels)
        floor = np.where(known, errors.floor_variance(shares) / np.maximum(series.n, 1), 0.0)
        floor = np.minimum(floor, square)
    common = _mean(floor, known)
    noise = np.where(known, np.maximum(square - floor, _LEAST * whole), 1.0)
    raw = np.where(known, series.estimate, 0.0)
    smooth = _smoothed(series.epochs.astype(np.float64), raw, noise, known, whole)
    std_error = np.sqrt(smooth.variance + common)
    apart = (raw - smooth.expected) ** 2 > _APART**2 * (noise + smooth.doubt)
    apart |= smooth.sides > _SIDES**2
    reach = np.abs(raw - smooth.mean) / normal_limit(CONFIDENCE) + raw_error
    std_error = np.where(known & apart, np.fmax(std_error, reach), std_error)
    none = ~known.any(axis=0)
    mean, error = (np.where(none, np.nan, one) for one in (smooth.mean, std_error))
    return replace(series, estimate=mean, std_error=error)


def _mean(numbers: Floats, known: Flags) -> Floats:
    total = np.where(known, numbers, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return np.asarray(np.where(total > 0, total, 0.0), np.float64)


@dataclass
class _Levels:
    mean: Floats
    variance: Floats
    expected: Floats
    doubt: Floats
    sides: Floats


def _smoothed(epochs: Floats, raw: Floats, noise: Floats, known: Flags, whole: Floats) -> _Levels:
    """The level of each epoch: forward over the epochs, and backward while each epoch is combined."""
    model = _LevelModel(
        np.array(_SPEEDS)[:, None] * whole,
        _JUMP * whole,
        min(_JUMPS / max(float(epochs[-1] - epochs[0]), 1.0), 0.5) if len(epochs) else 0.0,
    )
    start = model.start(np.where(known, noise, 0.0).max(axis=0, initial=0.0))
    gaps = np.diff(epochs)
    before, likelihood = [start], np.zeros_like(model.speeds)
    for place, gap in enumerate(gaps):
        seen, more = model.seen(before[place], raw[place], noise[place], known[place])
        likelihood += more
        before.append(model.onward(seen, gap))
    if len(epochs):
        likelihood += model.seen(before[-1], raw[-1], noise[-1], known[-1])[1]
    weights = np.exp(likelihood - likelihood.max(axis=0))
    weights /= weights.sum(axis=0)
    levels = _Levels(*(np.zeros_like(raw) for _ in range(5)))
    after = start
    for place in range(len(epochs) - 1, -1, -1):
        here = raw[place], noise[place], known[place]
        level = model.combined(before[place], after, *here)
        rest = _product(before[place].mean, before[place].variance, after.mean, after.variance)
        levels.mean[place], levels.variance[place] = _mixture(weights, *level)
        levels.expected[place], levels.doubt[place] = ((weights * one).sum(axis=0) for one in rest)
        step = (weights * (before[place].mean - after.mean)).sum(axis=0) ** 2
        levels.sides[place] = step / (weights * (before[place].variance + after.variance)).sum(axis=0)
        if place:
            after = model.onward(model.seen(after, *here)[0], gaps[place - 1])
    return levels


@dataclass(frozen=True, eq=False)
class _Level:
    """What the epochs on one side of an epoch say of its level."""

    mean: Floats
    variance: Floats
    jumped: Floats
    started: Flags


@dataclass(frozen=True, eq=False)
class _LevelModel:
    """How a level moves."""

    speeds: Floats
    jump: Floats
    chance: float

    def start(self, scale: Floats) -> _Level:
        """Before anything is seen."""
        variance = np.broadcast_to(_DIFFUSE * scale + 1.0, self.speeds.shape)
        nothing = np.zeros(self.speeds.shape[1])
        return _Level(np.zeros_like(variance), variance, nothing, nothing > 0)

    def onward(self, level: _Level, gap: float) -> _Level:
        """So many epochs further."""
        jumped = 1 - (1 - level.jumped) * (1 - self.chance) ** gap
        return _Level(
            level.mean,
            level.variance + gap * self.speeds,
            np.where(level.started, jumped, 0.0),
            level.started,
        )

    def seen(self, level: _Level, raw: Floats, noise: Floats, known: Flags) -> tuple[_Level, Floats]:
        """After the estimate of the epoch, and the logarithm of its likelihood, (speeds, k)."""
        several = [
            (chance, *_updated(level.mean, variance, raw, noise))
            for chance, variance in (
                (1 - level.jumped, level.variance),
                (level.jumped, level.variance + self.jump),
            )
        ]
        weights, total = _weights([_log(chance) + likelihood for chance, _, _, likelihood in several])
        mean, variance = _mixture(
            weights, np.stack([one for _, one, _, _ in several]), np.stack([one for _, _, one, _ in several])
        )
        then = _Level(
            np.where(known, mean, level.mean),
            np.where(known, variance, level.variance),
            np.where(known, 0.0, level.jumped),
            level.started | known,
        )
        return then, np.where(known & level.started, total, 0.0)

    def combined(
        self, before: _Level, after: _Level, raw: Floats, noise: Floats, known: Flags
    ) -> tuple[Floats, Floats]:
        """Mean and variance of the level, (speeds, k), from both sides and the estimate between them."""
        first, second = before.jumped, after.jumped
        cases = (
            ((1 - first) * (1 - second), 0.0, 0.0),
            (first * (1 - second), self.jump, 0.0),
            ((1 - first) * second, 0.0, self.jump),
            (np.where(known, np.minimum(first, second), 0.0), self.jump, self.jump),
        )
        logs, means, variances = [], [], []
        for chance, early, late in cases:
            one, other = before.variance + early, after.variance + late
            agree = -0.5 * (np.log(one + other) + (before.mean - after.mean) ** 2 / (one + other))
            mean, variance = _product(before.mean, one, after.mean, other)
            mean_then, variance_then, likelihood = _updated(mean, variance, raw, noise)
            logs.append(_log(chance) + agree + np.where(known, likelihood, 0.0))
            means.append(np.where(known, mean_then, mean))
            variances.append(np.where(known, variance_then, variance))
        return _mixture(_weights(logs)[0], np.stack(means), np.stack(variances))


def _product(mean: Floats, variance: Floats, other: Floats, other_variance: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of the normal distribution that is the product of two."""
    both = variance + other_variance
    return (mean * other_variance + other * variance) / both, variance * other_variance / both


def _updated(mean: Floats, variance: Floats, raw: Floats, noise: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean and variance after an estimate, and the logarithm of its likelihood but for a constant."""
    total, off = variance + noise, raw - mean
    gain = variance / total
    return mean + gain * off, gain * noise, -0.5 * (np.log(total) + off**2 / total)


def _log(chance: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.log(chance)


def _weights(logs: list[Floats]) -> tuple[Floats, Floats]:
    """Weights that add up to 1 from their logarithms, and the logarithm of their sum."""
    stacked = np.stack(logs)
    most = stacked.max(axis=0)
    weights = np.exp(stacked - most)
    total = weights.sum(axis=0)
    return weights / total, most + np.log(total)


def _mixture(weights: Floats, means: Floats, variances: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of a mixture over the first axis."""
    mean = (weights * means).sum(axis=0)
    return mean, (weights * (variances + (means - mean) ** 2)).sum(axis=0)
