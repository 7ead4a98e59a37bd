"""What a shuffler would add: the loss towards a server that sees an epoch's reports only as a set.

The assumption is that somebody whom the server does not control takes all reports of an epoch, drops where
they came from, mixes them, and hands them on, and that n devices are honest. Then a report hides among those
that others might have sent just as well, and (ε, δ) bounds hold that are far below the local ε.

A randomiser (:mod:`ldpbeam.shuffling.randomiser`) is known by the worst ratio p of two values' probabilities
and by their largest total variation distance β. With α = β/(p − 1) a device's report is, by what it says
about the two values,

    first value     one kind with probability p·α, the other with α, neither with the rest γ = 1 − (p + 1)·α
    second value    the same with the two kinds exchanged
    any other       each kind with at least a, neither with at least z

The last row is what hides the device. It has to hold given all that the server may know of that other device.
Where every report is drawn afresh, a = α and z = γ/p, whatever value the other device holds. Where devices
memoise, the server may know their permanent answers from other epochs, and a and z are those of the second
round, whatever the permanent answer is: its least chance q2 of each symbol. The first two rows are both
rounds for one report of a device, and the second round alone for one of many.

Of n − 1 others at least B(n − 1, 2a + z) are drawn from the same three distributions, in shares a : a : z,
whatever they hold; how many these are, and what the rest says, may be known. What the two worlds differ by is
then summed exactly, by binomial tails. Over several epochs privacy losses add up; they are rounded up to a
grid by interpolating the hockey-stick curve (Doroshenko et al., Connect the dots, PETS 2022).

With n − 1 others that are of each kind with α, and else like the device's own third kind, the bound would be
a little smaller. It would not hold: with GRR over three values at ε = 1 and two devices, of which the other
one holds the first value, enumeration exceeds it. For many devices both give the same figures.

Without a shuffler none of this holds, and what a device is promised is its local guarantee.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import ceil, exp, log, sqrt
from typing import Any

import numpy as np

from ldpbeam.arrays import Floats
from ldpbeam.shuffling.randomiser import DELTA, Randomiser

_SIGMAS = 8.5
"""How far the number of hiding reports is followed: beyond lies less than 1e-15, which is added."""

_LOST = 1e-15
_STEPS = 48
"""Steps of the grid of losses between 0 and the largest one."""


def crowd(randomiser: Randomiser, devices: int, delta: float = DELTA) -> int:
    """Devices with the same function, one of them included: all, where there is one function."""
    return 1 + _at_least(devices - 1, 1 / randomiser.functions, delta / 200)


def hiding(randomiser: Randomiser, devices: int, failing: float) -> int:
    """Of a crowd, how many others surely are of one of the three kinds, but with so small a probability."""
    return _at_least(devices - 1, randomiser.chances.hiding, failing)


def central_epsilon(randomiser: Randomiser, devices: int, epochs: int = 1, delta: float = DELTA) -> float:
    """The ε towards a server behind a shuffler, at ``delta``, after reports in so many epochs."""
    if devices < 1 or epochs < 1 or not 0 < delta < 1:
        raise ValueError("needs at least one device and one epoch, and a delta between 0 and 1")
    return _central(randomiser, crowd(randomiser, devices, delta), epochs, delta)


@lru_cache(256)
def _central(randomiser: Randomiser, among: int, epochs: int, delta: float) -> float:
    # A hundredth of delta is for the crowd, and for those among it that hide the device in each epoch.
    local, spare = epochs * randomiser.local, delta * 0.99
    curve = hockey_stick(randomiser, hiding(randomiser, among, delta / (200 * epochs)))
    if epochs == 1:
        return min(local, _inverse(curve, spare, randomiser.local))
    worst = _inverse(curve, spare / (20 * epochs), randomiser.local)
    return min(local, _composed_epsilon(curve, worst, epochs, spare, local))


def _at_least(n: int, q: float, failing: float) -> int:
    """The largest count that B(n, q) falls below with at most that probability."""
    from scipy.special import betainc

    if q >= 1 or n == 0:
        return n
    if q <= 0:
        return 0
    low, high = 0, n
    while low < high:
        middle = (low + high + 1) // 2
        # P(B(n, q) < middle)
        if betainc(n - middle + 1, middle, 1 - q) <= failing:
            low = middle
        else:
            high = middle - 1
    return low


# One epoch


def hockey_stick(randomiser: Randomiser, others: int) -> Callable[[float], float]:
    """δ as a function of ε, |ε| at most the local one: the largest Σ max(0, P − e^ε·Q), from above."""
    from scipy.special import betainc, gammaln

    chances = randomiser.chances
    p, alpha, rest, speaking = chances.p, chances.alpha, chances.rest, chances.speaking
    spread = _SIGMAS * sqrt(others * speaking * (1 - speaking)) + 2 * _SIGMAS**2
    low = max(0, ceil(others * speaking - spread))
    high = min(others, int(others * speaking + spread))
    total = np.arange(low, high + 2, dtype=np.float64)  # of both coordinates
    known = np.arange(low - 1, high + 2, dtype=np.float64)
    chance = _binomial(known, others, speaking, gammaln)
    before, same = chance[:-1], chance[1:]  # that the others are total − 1, and that they are total
    neither = chances.third * np.maximum(others - total + 1, 0.0)
    fewer = np.maximum(total - 1, 0.0)

    def delta(epsilon: float) -> float:
        e = exp(epsilon)
        # Of a given total, P exceeds e·Q from this first coordinate on: both are linear in it.
        least = (total * (e * p - 1) + neither * (e - 1)) / ((p - 1) * (1 + e))
        least = np.clip(np.ceil(least), 0.0, total + 1)
        # Tails of B(total − 1, 1/2) from `least` on; from one less on; and of B(total, 1/2).
        beyond = np.where(
            least <= 0,
            1.0,
            np.where(
                least > fewer, 0.0, betainc(np.maximum(least, 1), np.maximum(fewer - least + 1, 1), 0.5)
            ),
        )
        at = np.where((least >= 1) & (least - 1 <= fewer), _half(fewer, least - 1, gammaln), 0.0)
        from_one_less = np.where(least <= 0, 1.0, beyond + at)
        whole = np.where(total > 0, (beyond + from_one_less) / 2, (least <= 0).astype(np.float64))
        terms = before * alpha * ((p - e) * from_one_less + (1 - e * p) * beyond)
        terms += same * rest * (1 - e) * whole
        return float(np.sum(terms)) + _LOST

    return delta


def _binomial(counts: Floats, n: int, q: float, gammaln: Any) -> Floats:
    """P(B(n, q) = count), 0 outside 0..n."""
    inside = (counts >= 0) & (counts <= n)
    k = np.clip(counts, 0, n)
    if q >= 1:
        return np.asarray(counts == n, np.float64)
    logs = gammaln(n + 1.0) - gammaln(k + 1) - gammaln(n - k + 1) + k * log(q) + (n - k) * log(1 - q)
    return np.asarray(np.where(inside, np.exp(logs), 0.0))


def _half(n: Floats, k: Floats, gammaln: Any) -> Floats:
    """P(B(n, 1/2) = k)."""
    k = np.clip(k, 0, n)
    return np.asarray(np.exp(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) - n * log(2)))


def _inverse(curve: Callable[[float], float], delta: float, local: float) -> float:
    """The smallest ε with at most this δ, from above; the local one where there is none below."""
    if curve(local) > delta or curve(0.0) <= delta:
        return local if curve(local) > delta else 0.0
    low, high = 0.0, local
    step = local
    # The curve falls steeply: first the scale, then 20 halvings of it.
    while step > 1e-12 and curve(step / 2) <= delta:
        step /= 2
    low, high = step / 2, step
    for _ in range(20):
        middle = (low + high) / 2
        if curve(middle) <= delta:
            high = middle
        else:
            low = middle
    return high


# Several epochs


def _composed_epsilon(
    curve: Callable[[float], float], worst: float, epochs: int, delta: float, local: float
) -> float:
    """ε of so many epochs: the distribution of losses on a grid that dominates the curve, added up."""
    steps = np.arange(-_STEPS, _STEPS + 1)
    grid = steps * (worst / _STEPS)
    odds = np.exp(grid)
    heights = np.array([curve(float(epsilon)) for epsilon in grid])
    # Convex in e^ε, so that straight lines between points lie above; beyond the last one it stays there.
    slopes = np.diff(np.concatenate([[1.0], heights])) / np.diff(np.concatenate([[0.0], odds]))
    chances = odds * np.diff(np.concatenate([slopes, [0.0]]))
    never = 1 - (1 - float(heights[-1])) ** epochs
    length = 1 << (epochs * 2 * _STEPS).bit_length()
    added = np.fft.irfft(np.fft.rfft(np.maximum(chances, 0.0), length) ** epochs, length)
    losses = (np.arange(length) - epochs * _STEPS) * (worst / _STEPS)
    added = np.where(losses > epochs * worst * (1 + 1e-9), 0.0, np.maximum(added, 0.0))

    def of(epsilon: float) -> float:
        over = losses > epsilon
        return float(np.sum(added[over] * -np.expm1(epsilon - losses[over]))) + never + 1e-12

    return _inverse(of, delta, local)
