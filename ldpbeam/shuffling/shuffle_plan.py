"""What a shuffler would add, for plans and checks: :mod:`ldpbeam.shuffling.shuffle` in milliseconds.

A plan compares dozens of settings within a second, and loads nothing but numpy. The accounting is the same.

What two values differ by is Σ max(0, P − e^ε·Q). With N others that are surely of one of three kinds, each
of the first two with probability s/2, P and Q are linear in the numbers i, j, l of reports of the kinds:

    P − e^ε·Q = α·w/(a·(N + 1)) · M(i, j, l) · [(p − e^ε)·i + (1 − e^ε·p)·j + κ·(1 − e^ε)·l],

with w = 2a + z, κ = (γ/z)/(α/a), and M the multinomial distribution of N + 1 reports (p, α, γ, a and z as in
the exact accounting). The sum is therefore α·w/(a·(N + 1)) times the mean of the positive
part of a sum of N + 1 independent numbers. For each c > 0 that is (1/2π)·∫ φ(c + iu)^(N + 1)/(c + iu)² du, φ
their moment generating function (Carr, Madan: Option valuation using the fast Fourier transform, 1999). Only
the main part of the integral is taken: what recurs far out is how the exact sum jumps from a whole number to
the next. How many others hide a device is bounded by Chernoff, not by the exact tail, so that these figures
lie above the exact ones, by less than a twenty-fifth (tests/ldpbeam/shuffling/test_shuffle_plan.py). Where
fewer than 64 others are sure to speak of the two values the local ε is stated.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import inf, log, log1p, pi, sqrt
from typing import Any

import numpy as np

from ldpbeam.arrays import Floats
from ldpbeam.shuffling.randomiser import DELTA, Chances, Randomiser

_NODES, _WIDTH = 40, 8.5
"""Points of the integral, and how many standard deviations of its bell they go."""

_NEAR, _SEARCH = 0.02, 100
"""How near to the saddle point the integral is taken, and steps of Newton's method at most to get there."""

_FEWEST = 64.0
"""Reports of the first two kinds below which nothing is gained at a delta this small."""

_ABOVE = 1.0005
"""By what a figure is rounded up: the rest of the integral, which is far less, is within it."""

_STEPS = 48
"""Steps of the grid of losses between 0 and the largest one, as in the exact accounting."""

_WINDOW = 14.0
"""Standard deviations to either side that a sum of losses is followed: beyond lies less than 1e-20."""


@lru_cache(1024)
def planned_epsilon(randomiser: Randomiser, devices: int, epochs: int = 1, delta: float = DELTA) -> float:
    """:func:`ldpbeam.shuffling.shuffle.central_epsilon`, at most a twenty-fifth above it."""
    local = epochs * randomiser.local
    among = 1 + _surely(devices - 1, 1 / randomiser.functions, delta / 200)
    chances = randomiser.chances
    others = _surely(among - 1, chances.hiding, delta / (200 * epochs))
    if others * chances.speaking < _FEWEST:
        return local
    curve = _Curve(chances, others + 1)
    spare = delta * 0.99
    if epochs == 1:
        return min(local, _ABOVE * _inverse(curve, spare, randomiser.local))
    worst = _inverse(curve, spare / (20 * epochs), randomiser.local)
    return min(local, _ABOVE * _added_up(curve, worst, epochs, spare))


def _surely(n: int, q: float, failing: float) -> int:
    """A count that B(n, q) falls below with at most that probability (Chernoff)."""
    if q >= 1 or n == 0:
        return n
    if n * -log1p(-q) <= -log(failing):
        return 0
    low, high = 0.0, q  # P(B <= x·n) <= exp(−n·D(x, q)), D falling in x
    for _ in range(60):
        middle = (low + high) / 2
        apart = (1 - middle) * log((1 - middle) / (1 - q)) + (middle * log(middle / q) if middle else 0.0)
        low, high = (middle, high) if n * apart >= -log(failing) else (low, middle)
    return int(low * n)


class _Curve:
    """δ at each ε >= 0: the mean of the positive part of a sum of ``many`` numbers of three kinds."""

    def __init__(self, chances: Chances, many: int) -> None:
        self.p, self.speaking, self.many = chances.p, chances.speaking, many
        self.weight = chances.alpha * (2 * chances.each + chances.neither) / chances.each
        self.third = chances.third if chances.speaking < 1 else 0.0

    def __call__(self, epsilon: Floats) -> Floats:
        p, n = self.p, self.many
        # At p nothing is positive, and there is no saddle point; a little below, δ is no smaller.
        e = np.minimum(np.exp(epsilon), p * (1 - 1e-9))[:, None]
        base = self.third * (1 - e)  # of the third kind; how far the others are from it
        up, down = p - e - base, 1 - e * p - base
        c, curvature = self._saddle(base, up, down)
        z = c + 1j * np.arange(_NODES) * (_WIDTH / _NODES / np.sqrt(curvature))
        exponents = n * (z * base + self._grown(z, up, down)) - 2 * np.log(z)
        values = (np.exp(np.minimum(exponents.real, 600.0) + 1j * exponents.imag)).real
        values[:, 0] /= 2
        chances = values.sum(axis=1) * (z[:, 1].imag / pi)
        return np.asarray(np.clip(self.weight / n * chances, 0.0, 1.0))

    def _grown(self, z: Any, up: Floats, down: Floats) -> Any:
        """log of the mean of e^(z·X), X the number without ``base``; no sum is beyond what a float holds."""
        s, most = self.speaking, np.maximum(z.real * np.maximum(up, down), 0.0)
        return most + np.log(
            (1 - s) * np.exp(-most) + s / 2 * (np.exp(z * up - most) + np.exp(z * down - most))
        )

    def _saddle(self, base: Floats, up: Floats, down: Floats) -> tuple[Floats, Floats]:
        """Where φ^n/z² is the least on the real axis, nearly, and the curvature of its logarithm there."""
        n, s = self.many, self.speaking
        mean = s / 2 * (up + down)
        variance = n * (s / 2 * (up**2 + down**2) - mean**2)
        drift = n * (base + mean)  # not above 0
        c = (-drift + np.sqrt(drift**2 + 8 * variance)) / (2 * variance)  # of a normal sum
        for _ in range(_SEARCH):
            most = np.maximum(c * np.maximum(up, down), 0.0)
            ones, twos = s / 2 * np.exp(c * up - most), s / 2 * np.exp(c * down - most)
            none = (1 - s) * np.exp(-most)
            whole = none + ones + twos
            first = (ones * up + twos * down) / whole
            second = (none * first**2 + ones * (up - first) ** 2 + twos * (down - first) ** 2) / whole
            uphill, curvature = n * (base + first) - 2 / c, n * second + 2 / c**2
            step = np.clip(c - uphill / curvature, c / 2, 2 * c)
            near = np.abs(step - c) <= _NEAR * c
            if np.all(near):
                break
            c = np.where(near, c, step)
        return c, curvature


def _inverse(curve: Callable[[Floats], Floats], delta: float, most: float) -> float:
    """The smallest ε with at most this δ, from above, found by looking at 16 levels at a time."""
    low, high = most * 1e-6, most
    if float(curve(np.array([high]))[0]) > delta:
        return most
    for _ in range(4):
        levels = np.exp(np.linspace(log(low), log(high), 16))
        fits = np.flatnonzero(curve(levels) <= delta)
        first = int(fits[0]) if fits.size else 15
        if first == 0:
            return float(levels[0])
        low, high = float(levels[first - 1]), float(levels[first])
    return high


def _added_up(curve: _Curve, worst: float, epochs: int, delta: float) -> float:
    """ε of so many epochs: losses on a grid that dominates the curve, as in the exact accounting."""
    steps = np.arange(-_STEPS, _STEPS + 1)
    step = worst / _STEPS
    grid = steps * step
    right = curve(np.asarray(grid[_STEPS:], np.float64))
    # P and Q may be exchanged: δ(−ε) = 1 − e^−ε + e^−ε·δ(ε).
    left = -np.expm1(grid[:_STEPS]) + np.exp(grid[:_STEPS]) * right[:0:-1]
    heights, odds = np.concatenate([left, right]), np.exp(grid)
    slopes = np.diff(np.concatenate([[1.0], heights])) / np.diff(np.concatenate([[0.0], odds]))
    chances = np.maximum(odds * np.diff(np.concatenate([slopes, [0.0]])), 0.0)
    chances /= chances.sum() + heights[-1]
    never = -np.expm1(epochs * np.log1p(-heights[-1]))
    mean = epochs * float(chances @ steps)
    spread = sqrt(epochs * (float(chances @ steps**2) - (mean / epochs) ** 2))
    length = 1 << int(min(epochs * 2 * _STEPS, 2 * _WINDOW * spread + 2)).bit_length()
    wrapped = np.zeros(length)
    np.add.at(wrapped, steps % length, chances)
    sums = np.maximum(np.fft.irfft(np.fft.rfft(wrapped) ** epochs, length), 0.0)
    first = round(mean) - length // 2
    places = np.arange(first, first + length)
    losses, sums = places * step, sums[places % length]
    # Σ over losses above ε of chance·(1 − e^(ε − loss)), added up from the largest loss down; relative to a
    # loss in the middle, and no exponent beyond what a float holds: what is cut off there has no chance.
    middle = mean * step
    beyond = np.append(np.cumsum(sums[::-1])[::-1], 0.0)
    faded = np.append(np.cumsum((sums * np.exp(np.minimum(middle - losses, 700.0)))[::-1])[::-1], 0.0)

    def of(levels: Floats) -> Floats:
        above = np.searchsorted(losses, levels, "right")
        grown = np.exp(np.minimum(levels - middle, 700.0))
        return np.asarray(beyond[above] - grown * faded[above] + never + 1e-12)

    return _inverse(of, delta, epochs * worst) if never < delta else inf
