"""How often the best guess from reports is right: probabilities of counts and scores.

The laws of protocols add these up (``best_guess`` of :mod:`ldpbeam.protocols.law`). Plans ask for them, so
that nothing but numpy is loaded.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import ceil, exp, lgamma, log, log1p, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from ldpbeam.arrays import Floats, Ints
from ldpbeam.channels.channel import SymbolChannel
from ldpbeam.channels.rounds import Rounds

NOTHING = -45.0
"""Logarithm of a probability that changes no digit of the result."""


def highest(own: Floats, other: Floats, k: int) -> float:
    """P(the own score is the highest of k, ties drawn), the k − 1 others independent, where scores rise."""
    below, above = np.cumsum(other), np.cumsum(other[::-1])[::-1] - other
    with np.errstate(divide="ignore", invalid="ignore"):
        level = np.where(above < 0.5, np.log1p(-np.minimum(above, 0.5)), np.log(below))
        share = np.where(below > 0, other / below, 0.0)
        spread = np.where(k * share > 1e-300, -np.expm1(k * np.log1p(-share)) / (k * share), 1.0)
        return float((own * np.exp((k - 1) * level) * spread).sum())


def largest(own: float, each: float, rivals: int, free: int, reports: int) -> float:
    """P(the own cell's count is the largest, ties drawn) in a multinomial of ``reports`` draws."""
    t = reports
    if rivals == 0:
        return 1.0
    if t == 1:
        return own + free * each / (rivals + 1)
    if rivals == 1 and not free:
        return majority(t, Fraction(own))
    counts = np.arange(0 if free else 1, t + 1)
    factorials = _factorials(t)
    # Of the own cell, over P(sum = t).
    chances = counts * log(t * own) - t * own - factorials[counts] + factorials[t] + t - t * log(t)
    terms = _Rival(t * each, int(5 * sqrt(t)) + 25)
    at_least, more = terms.at_least(counts), terms.at_least(counts + 1)
    won = rivals * at_least < exp(NOTHING)
    exact = factorials[t] - factorials[counts] - factorials[t - counts]
    exact += counts * log(own) + (t - counts) * log1p(-own)
    right = float(np.exp(exact[won]).sum())
    lost = chances + rivals * np.log1p(-np.minimum(more, 1 - 1e-16)) < NOTHING
    others = t * each * free * np.expm1(1j * terms.theta)
    for place in np.flatnonzero(~won & ~lost).tolist():
        c = int(counts[place])
        less, same = terms.up_to(c)
        # ln |…| of the integrand: largest at one of the ends of s, as what is raised to r is linear in s.
        size = rivals * np.maximum(_log(less)[0], _log(less + same)[0]) + others.real + chances[place]
        some = np.flatnonzero(size > NOTHING)
        nodes, weights = quadrature(min(rivals, t // c if c else rivals))
        size, turn = _log(less[some] + np.multiply.outer(nodes, same[some]))
        turn = rivals * turn + others.imag[some] + (c - t) * terms.theta[some]
        density = np.exp(rivals * size + others.real[some] + chances[place]) * np.cos(turn)
        right += float(weights @ density @ terms.weights[some])
    return right


def symbols(rounds: Rounds[SymbolChannel], reached: int, reports: int) -> float:
    """Σ over reports y of the largest likelihood among ``reached`` of the symbols: of the one sent most."""
    last = rounds.last
    free = last.size - reached
    right = largest(float(last.own), float(last.other), reached - 1, free, reports)
    if rounds.lasting is None:
        return reached * right
    own, other = map(float, rounds.lasting)
    return reached * (own * right + other * (1 - right)) + free * other


class _Rival:
    """A Poisson number X, and E e^(iθX) − 1 term by term; less 1, since a large power of it is taken."""

    def __init__(self, rate: float, steps: int) -> None:
        self.theta = np.linspace(0.0, pi, steps + 1)
        self.weights = np.full(steps + 1, 1.0 / steps)
        self.weights[[0, -1]] /= 2
        size = int(rate + 14 * sqrt(rate)) + 60
        self._mass = np.exp(np.arange(size + 1) * log(rate) - rate - _factorials(size))
        self._tail = np.cumsum(self._mass[::-1])[::-1]
        self._summed, self._sum = 0, np.zeros(steps + 1, complex)

    def at_least(self, counts: NDArray[np.int64]) -> Floats:
        """P(X >= c) for each of the counts, of their shape."""
        chances: Floats = self._tail[np.minimum(counts, self._tail.size - 1)]
        return chances

    def up_to(self, count: int) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
        """The terms below ``count``, less 1, and that of ``count``; it never falls from call to call."""
        for j in range(self._summed, count):
            if self._mass[j] > 1e-22:
                self._sum += self._mass[j] * np.expm1(1j * j * self.theta)
        self._summed = count
        return self._sum - self._tail[count], self._mass[count] * np.exp(1j * count * self.theta)


def _log(less: NDArray[np.complex128]) -> tuple[Floats, Floats]:
    """Real and imaginary part of ln(1 + z), also where z is small."""
    x, y = less.real, less.imag
    with np.errstate(divide="ignore"):
        return 0.5 * np.log1p(np.maximum(x * (2 + x) + y * y, -1.0)), np.arctan2(y, 1 + x)


def majority(reports: int, chance: Fraction) -> float:
    """P(more than half of the reports are ones), and half of P(just half are)."""
    ones = binomial(reports, chance)[::-1]
    half, odd = divmod(reports, 2)
    return float(ones[: half + odd].sum() + (0.0 if odd else ones[half] / 2))


def sum_of(first: Floats, second: Floats) -> Floats:
    """The law of the sum of two independent numbers; what is too rare to matter is left out."""
    total = np.zeros(first.size + second.size - 1)
    (a, b), (c, d) = (np.flatnonzero(law > exp(NOTHING))[[0, -1]] for law in (first, second))
    total[a + c : b + d + 1] = np.convolve(first[a : b + 1], second[c : d + 1])
    return total


def steps(reports: int, sampled: Fraction, one: Fraction) -> Floats:
    """The law of ones less zeros over the reports, from −t to t, of a bucket that each samples or not."""
    law = np.array([float(sampled * (1 - one)), float(1 - sampled), float(sampled * one)])
    return np.maximum(np.fft.irfft(np.fft.rfft(law, 2 * reports + 1) ** reports, 2 * reports + 1), 0.0)


def binomial(reports: int, chance: Fraction) -> Floats:
    """P(0 .. t ones) among t reports whose bit is 1 with that chance, float64 (t + 1,)."""
    ones = np.arange(reports + 1.0)
    if chance == 1:
        return np.where(ones == reports, 1.0, 0.0)
    logs = ones * log(chance) + (reports - ones) * log(1 - chance)
    chances: Floats = np.exp(choices(reports) + logs)
    return chances


def choices(reports: int) -> Floats:
    """ln of the binomial coefficients of t over 0 .. t."""
    logs = _factorials(reports)
    logs_of_choices: Floats = logs[-1] - logs - logs[::-1]
    return logs_of_choices


def _factorials(largest: int) -> Floats:
    """ln of 0! .. n!."""
    return _factorial_table(1 << largest.bit_length())[: largest + 1]


@lru_cache(8)
def _factorial_table(size: int) -> Floats:
    return np.array([lgamma(n + 1) for n in range(size)])


@lru_cache(64)
def quadrature(degree: int) -> tuple[Floats, Floats]:
    """Gauss–Legendre nodes and weights on [0, 1] for x^i·(1 − x)^j, i + j up to ``degree``."""
    count = min(degree // 2 + 1, ceil(4.5 * sqrt(degree)) + 8)
    x = np.cos(pi * (np.arange(count) + 0.75) / (count + 0.5))
    slope = np.ones(count)
    for _ in range(5):
        before, value = np.ones(count), x
        for j in range(2, count + 1):
            before, value = value, ((2 * j - 1) * x * value - (j - 1) * before) / j
        slope = count * (before - x * value) / (1 - x * x)
        x = x - value / slope
    return (1 + x) / 2, 1 / ((1 - x * x) * slope * slope)


_SIMULATED_REPORTS = 1 << 18
"""Reports that :func:`from_windows` simulates, of 16 to 2048 devices."""


def from_windows(size: int, width: int, ratio: Fraction, own: Fraction, reports: int) -> float:
    """P(the best guess of a value is right), from reports that are likelier in a window of the value.

    Value v of 0 .. size − 1 has the window v .. v + width − 1; a report in it is ``ratio`` times as likely as
    one elsewhere, and lies in it with probability ``own``.
    """
    generator = np.random.Generator(np.random.Philox(key=np.array([0x6C6470, 0x77696E], np.uint64)))
    devices = min(max(_SIMULATED_REPORTS // reports, 16), 2048)
    right = 0.0
    for held in _values(devices, size):
        near = generator.random(reports) < float(own)
        other = generator.integers(size - 1, size=reports)
        said = np.where(near, held + generator.integers(width, size=reports), other + (other >= held) * width)
        # A report supports the values from said − width + 1 to said, of those that there are.
        ends = np.concatenate(([0, size], np.maximum(said - width + 1, 0), np.minimum(said + 1, size)))
        places, of_place = np.unique(ends, return_inverse=True)
        changes = np.repeat([0, 1, -1], [2, reports, reports])
        right += _right(places, of_place, changes, float(ratio))
    return right / devices


_DEVICES = 1 << 12
"""Simulated devices of :func:`from_cuts`."""


def from_cuts(bounds: Ints, own: float, other: float, reports: int) -> float:
    """P(the best guess of a value is right), from reports that each have a function that cuts the domain."""
    functions, g = bounds.shape[0], bounds.shape[1] - 1
    places, ends = np.unique(bounds, return_inverse=True)
    ends = ends.reshape(bounds.shape)
    changed = np.concatenate((ends[:, :-1].ravel(), ends[:, 1:].ravel()))
    # The same chances for every value: of how far the report's stretch comes after that of the value.
    chances = np.full((functions, g), other / functions)
    chances[:, 0] = own / functions
    chances /= chances.sum()
    generator = np.random.Generator(np.random.Philox(key=np.array([0x6C6470, 0x63757473], np.uint64)))
    right = 0.0
    for held in _values(_DEVICES, int(places[-1])):
        drawn = generator.multinomial(reports, chances.ravel()).reshape(functions, g)
        hashed = (bounds[:, 1:-1] <= held).sum(axis=1)
        counts = np.take_along_axis(drawn, (np.arange(g) - hashed[:, None]) % g, axis=1).ravel()
        right += _right(places, changed, np.concatenate((counts, -counts)), own / other)
    return right / _DEVICES


def _values(devices: int, size: int) -> list[int]:
    """What simulated devices hold, spread evenly."""
    values: list[int] = ((2 * np.arange(devices) + 1) * size // (2 * devices)).tolist()
    return values


def _right(places: Ints, of_place: Ints, changes: Ints, ratio: float) -> float:
    """The chance of the likeliest value, where the support of values changes at some places."""
    supports = np.cumsum(np.bincount(of_place, changes))[:-1]
    return 1 / float(np.diff(places) @ np.exp(log(ratio) * (supports - supports.max())))
