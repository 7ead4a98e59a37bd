"""The two local channels everything is made of, with integer probabilities.

``SymbolChannel`` is generalised randomised response over ``size`` symbols (docs/maths.md section 1, direct),
``BitChannel`` flips one bit. Their probabilities are integers over a common total of (almost) 2**64, rounded
toward privacy: device, simulator, server and certificate all use these same integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from operator import lt

from ldpbeam.arrays import Ints, Uints
from ldpbeam.channels.exact import exp_below
from ldpbeam.randomness import FULL, Randomness

Row = tuple[Fraction, ...]
"""Probabilities of outputs, given one input; they add up to 1."""

Rows = tuple[Row, ...]
"""A row for each input."""

_CHUNK = 1 << 12
"""Words that are held at once."""

_DIGITS = bytes.maketrans(b"\0\1", b"01")
"""From a byte per bit to the digits that ``int`` reads."""


@dataclass(frozen=True)
class SymbolChannel:
    """Randomised response over ``size`` symbols: keep with weight ``keep``, else uniform over the others."""

    size: int
    keep: int
    each: int

    def __post_init__(self) -> None:
        """Raises ValueError for fewer than two symbols, weights out of order, or a total above 2**64."""
        if self.size < 2:
            raise ValueError(f"a symbol channel needs at least 2 symbols, not {self.size}")
        if not 1 <= self.each <= self.keep:
            raise ValueError(
                f"weights must satisfy 1 <= each <= keep, not each={self.each}, keep={self.keep}"
            )
        if self.total > FULL:
            raise ValueError(f"weights sum to {self.total}, above 2**64")

    @classmethod
    def from_ratio(cls, size: int, ratio: Fraction) -> SymbolChannel:
        """The channel whose likelihood ratio is the largest integer-weighted one at most ``ratio``."""
        # q = 1/(r + m − 1), p = r·q for the ratio r; one beyond what the words can say is cut to the largest.
        each = max(1, int(FULL / (ratio + size - 1)))
        keep = min(int(each * ratio), FULL - (size - 1) * each)
        return cls(size, max(each, keep), each)

    @classmethod
    def from_epsilon(cls, size: int, epsilon: float) -> SymbolChannel:
        """GRR at ``epsilon``: p = e^ε/(e^ε+m−1), q = 1/(e^ε+m−1), rounded toward privacy."""
        return cls.from_ratio(size, exp_below(epsilon))

    @property
    def total(self) -> int:
        return self.keep + (self.size - 1) * self.each

    @property
    def own(self) -> Fraction:
        """p = P(output = s | input = s)."""
        return Fraction(self.keep, self.total)

    @property
    def other(self) -> Fraction:
        """q = P(output = s | input = t), s ≠ t; p + (m − 1)·q = 1."""
        return Fraction(self.each, self.total)

    @property
    def ratio(self) -> Fraction:
        """Worst likelihood ratio over outputs and pairs of inputs; its logarithm is ε."""
        return Fraction(self.keep, self.each)

    @property
    def same_twice(self) -> Fraction:
        """P(two outputs for one input are equal); the same for every input."""
        return self.own**2 + (self.size - 1) * self.other**2

    def definition(self) -> dict[str, str]:
        return {"size": str(self.size), "keep": str(self.keep), "each": str(self.each)}

    def draw(self, symbol: int, randomness: Randomness) -> int:
        word = randomness.word(self.total)
        if word < self.keep:
            return symbol
        lie = (word - self.keep) // self.each
        return lie + (lie >= symbol)

    def draw_many(self, symbols: Ints, words: Uints) -> Ints:
        """:meth:`draw` for arrays: ``words[i]`` must lie below :attr:`total`. Shape (n,)."""
        import numpy as np

        from ldpbeam.kernels import symbols as kernels

        held, drawn = np.ascontiguousarray(symbols, np.int64), np.ascontiguousarray(words)
        return kernels.randomise(held, drawn, np.uint64(self.keep), np.uint64(self.each))

    def then(self, second: SymbolChannel) -> tuple[Fraction, Fraction]:
        """(own, other) of this channel followed by ``second``: again a symmetric channel."""
        others = self.size - 1
        own = self.own * second.own + others * self.other * second.other  # p = p₁·p₂ + (m − 1)·q₁·q₂
        return own, (1 - own) / others  # q = (1 − p)/(m − 1)

    def rows(self, size: int) -> Rows:
        """P(output | input), exact, of symbols 0 .. ``size`` − 1; one last symbol stands for all others."""
        own, other, lumped = self.own, self.other, self.size - size
        rows = []
        for given in range(size):
            row = [own if given == output else other for output in range(size)]
            rows.append(tuple([*row, lumped * other] if lumped else row))
        if lumped:
            rows.append((*(other for _ in range(size)), own + (lumped - 1) * other))
        return tuple(rows)


@dataclass(frozen=True)
class BitChannel:
    """A bit reported as 1 with probability ``one``/2**64 when it is 1 and ``zero``/2**64 when it is 0."""

    one: int
    zero: int

    def __post_init__(self) -> None:
        """Raises ValueError for a probability of 0 or 1, or ``zero`` above ``one``."""
        if not 0 < self.zero <= self.one < FULL:
            raise ValueError(f"weights must satisfy 0 < zero <= one < 2**64, not {self.zero}, {self.one}")

    @classmethod
    def symmetric(cls, odds: Fraction) -> BitChannel:
        """p = odds/(odds+1) rounded down, q = 1 − p: the ratio p/q never exceeds ``odds``."""
        one = int(FULL * odds / (odds + 1))
        return cls(one, FULL - one)

    @property
    def own(self) -> Fraction:
        """P(output 1 | input 1), exact."""
        return Fraction(self.one, FULL)

    @property
    def other(self) -> Fraction:
        """P(output 1 | input 0), exact."""
        return Fraction(self.zero, FULL)

    def definition(self) -> dict[str, str]:
        return {"one": str(self.one), "zero": str(self.zero)}

    def draw(self, bit: bool, randomness: Randomness) -> bool:
        return randomness.word() < (self.one if bit else self.zero)

    def draw_bits(self, bits: int, count: int, randomness: Randomness) -> int:
        """Bits 0 .. count − 1 of ``bits``, randomised with a word each in that order."""
        drawn = 0
        for first in range(0, count, _CHUNK):
            size = min(_CHUNK, count - first)
            # Digits are written from the highest on, words are drawn for the lowest first.
            digits = format(bits >> first & (1 << size) - 1, f"0{size}b")
            weights = map({"0": self.zero, "1": self.one}.__getitem__, digits)
            ones = bytes(map(lt, reversed(randomness.words(size)), weights))
            drawn |= int(ones.translate(_DIGITS), 2) << first
        return drawn

    def then(self, second: BitChannel) -> tuple[Fraction, Fraction]:
        """(own, other) of this channel followed by ``second`` (docs/maths.md section 2)."""
        p, q, p2, q2 = self.own, self.other, second.own, second.other
        return p * p2 + (1 - p) * q2, q * p2 + (1 - q) * q2

    def rows(self, size: int) -> Rows:
        """P(output | input), exact, of vectors of ``size`` independent bits; bit i of a number is entry i."""

        def chance(given: int, output: int) -> Fraction:
            product = Fraction(1)
            for i in range(size):
                one = self.own if given >> i & 1 else self.other
                product *= one if output >> i & 1 else 1 - one
            return product

        numbers = range(1 << size)
        return tuple(tuple(chance(given, output) for output in numbers) for given in numbers)


def unary_ratio(own: Fraction, other: Fraction) -> Fraction:
    """Worst likelihood ratio of a one-hot vector of independent bits: own(1−other)/((1−own)·other)."""
    return own * (1 - other) / ((1 - own) * other)
