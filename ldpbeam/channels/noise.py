"""Discrete Laplace noise from a fixed number of random words, with integer weights and a proven ε.

The noise is z with P(z) = (1−r)/(1+r)·r^|z|, r = e^−λ: a sign, and a magnitude M with P(M = i) = (1−r)·r^i
that stands for z = M or z = −1−M. The magnitude is written as M = digit·2^b + Σ bit_i·2^i. In a geometric law
the parts are independent: bit i is 1 with probability r^(2^i)/(1+r^(2^i)), and the digit is geometric again.
So a draw takes two words for the sign, two for the digit (a table of some thirty entries) and one per bit,
whatever comes out, and no table over all values exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from math import prod, sinh

from ldpbeam.arrays import Flags, Ints, Uints
from ldpbeam.randomness import FULL, Randomness

WIDE = FULL * FULL
"""Total of the weights of sign and digit, which take two words: their tails are as small as e^−64."""

_CONTEXT = Context(prec=80)


@dataclass(frozen=True)
class LaplaceNoise:
    """Two-sided geometric noise, cut off beyond ``reach``; made by :meth:`for_level`."""

    rate: float
    negative: int
    tails: tuple[int, ...]
    bits: tuple[int, ...]

    @classmethod
    def for_level(cls, epsilon: float, spread: int, reach: int) -> LaplaceNoise:
        """Noise for values at most ``spread`` apart: no output's likelihood ratio exceeds e**epsilon."""
        bits = 0
        # The bits cover 2^bits·λ in (1, 2], so that their probabilities are far from 0.
        while Fraction(epsilon) * (1 << bits) <= spread:
            bits += 1
        last = -(-reach >> bits)
        nominal = _decimal(Fraction(epsilon) / spread)
        rounded = Fraction(_exp(nominal, 1)) + Fraction(_exp(nominal, last << bits))
        eta = 2 * (bits * Fraction(1, 1 << 62) + rounded / (1 << 127))
        rate = _decimal((Fraction(epsilon) - eta) / spread)

        def odds(distance: int, total: int) -> int:
            r = _exp(rate, -distance)
            return _nearest(_CONTEXT.divide(r, _CONTEXT.add(r, Decimal(1))), total)

        return cls(
            float(rate),
            odds(1, WIDE),
            tuple(_nearest(_exp(rate, -(q << bits)), WIDE) for q in range(1, last + 1)),
            tuple(odds(1 << i, FULL) for i in range(bits)),
        )

    @property
    def words(self) -> int:
        return 4 + len(self.bits)

    @property
    def variance(self) -> float:
        """Of the noise before it is cut off: 2r/(1−r)²."""
        return 0.5 / sinh(self.rate / 2) ** 2

    def definition(self) -> dict[str, str | list[str]]:
        tails, bits = (list(map(str, weights)) for weights in (self.tails, self.bits))
        return {"negative": str(self.negative), "tails": tails, "bits": bits}

    def draw(self, randomness: Randomness) -> int:
        """One noise value; always :attr:`words` words."""
        sign = randomness.word() * FULL + randomness.word()
        digit = randomness.word() * FULL + randomness.word()
        # Tails fall, so the digit is the number of them that the word lies below.
        magnitude = sum(digit < tail for tail in self.tails) << len(self.bits)
        for i, weight in enumerate(self.bits):
            magnitude += (randomness.word() < weight) << i
        return -1 - magnitude if sign < self.negative else magnitude

    def draw_many(self, words: Uints) -> Ints:
        """:meth:`draw` for arrays: ``words`` is uint64 (n, words). Shape (n,)."""
        import numpy as np

        def below(first: int, weight: int) -> Flags:
            high, low = (np.uint64(half) for half in divmod(weight, FULL))
            top = words[:, first]
            flags: Flags = (top < high) | ((top == high) & (words[:, first + 1] < low))
            return flags

        magnitudes = np.zeros(len(words), np.int64)
        for tail in self.tails:
            magnitudes += below(2, tail)
        magnitudes <<= len(self.bits)
        for i, weight in enumerate(self.bits):
            magnitudes += (words[:, 4 + i] < np.uint64(weight)).astype(np.int64) << i
        return np.where(below(0, self.negative), -1 - magnitudes, magnitudes)

    def at_least(self, least: int) -> Fraction:
        """P(magnitude >= least), exact, for 0 <= least <= the reach."""
        digit, rest = divmod(least, 1 << len(self.bits))
        beyond, here = self._tail(digit + 1), self._tail(digit)
        # P(the bits' number >= rest), from the lowest bit up.
        share = Fraction(1)
        for i, weight in enumerate(self.bits):
            one = Fraction(weight, FULL)
            share = share * one if rest >> i & 1 else share * (1 - one) + one
        return beyond + (here - beyond) * share

    def probability(self, noise: int) -> Fraction:
        """P(z = noise), exact, where the magnitude lies below the reach."""
        magnitude = noise if noise >= 0 else -1 - noise
        digit = magnitude >> len(self.bits)
        # In integers: fractions would be reduced at every step.
        weights = (w if magnitude >> i & 1 else FULL - w for i, w in enumerate(self.bits))
        share = Fraction(prod(weights), FULL ** len(self.bits))
        return (self._tail(digit) - self._tail(digit + 1)) * share * self._sign(noise < 0)

    def above(self, noise: int) -> Fraction:
        """P(z >= noise), exact, noise >= 0."""
        return self.at_least(noise) * self._sign(False)

    def below(self, noise: int) -> Fraction:
        """P(z <= noise), exact, noise < 0."""
        return self.at_least(-1 - noise) * self._sign(True)

    def _sign(self, negative: bool) -> Fraction:
        share = Fraction(self.negative, WIDE)
        return share if negative else 1 - share

    def _tail(self, digit: int) -> Fraction:
        if digit == 0:
            return Fraction(1)
        return Fraction(self.tails[digit - 1], WIDE) if digit <= len(self.tails) else Fraction(0)


# Operators would round to the digits of the thread's own context: every step names _CONTEXT.


def _decimal(number: Fraction) -> Decimal:
    return _CONTEXT.divide(Decimal(number.numerator), Decimal(number.denominator))


def _exp(rate: Decimal, factor: int) -> Decimal:
    return _CONTEXT.exp(_CONTEXT.multiply(rate, Decimal(factor)))


def _nearest(probability: Decimal, total: int) -> int:
    return int(_CONTEXT.to_integral_value(_CONTEXT.multiply(probability, Decimal(total))))
