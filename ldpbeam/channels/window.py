"""A channel over integers in order: a report is likelier near the value than elsewhere.

Reports are 0 .. m + width − 1. The value x in 0 .. m has the window x .. x + width − 1 of them. Each report
in the window has the weight ``keep``, each of the m others ``each``. All windows are equally wide, so that
the total of the weights is the same for every value, and the mean report is low + gain·x exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ldpbeam.arrays import Ints, Uints
from ldpbeam.channels.exact import exp_below, largest
from ldpbeam.randomness import FULL, Randomness


@dataclass(frozen=True)
class WindowChannel:
    """Reports about values 0 .. ``maximum``, which is m."""

    maximum: int
    width: int
    keep: int
    each: int

    def __post_init__(self) -> None:
        """Raises ValueError for no value or window, weights out of order, or a total above 2**64."""
        if min(self.maximum, self.width) < 1 or not 1 <= self.each < self.keep or self.total > FULL:
            raise ValueError(f"a window needs 1 <= each < keep and a total up to 2**64, not {self}")

    @classmethod
    def from_epsilon(cls, maximum: int, epsilon: float) -> WindowChannel:
        """The width nearest to m·e^(−ε/3): on average over all values the variance is then the least.

        No ratio of two weights exceeds e**epsilon.
        """
        ratio = exp_below(epsilon)
        width = largest(1, maximum, lambda w: (2 * w - 1) ** 3 * ratio <= (2 * maximum) ** 3) or 1
        each = int(FULL / (ratio * width + maximum))
        return cls(maximum, width, min(int(each * ratio), (FULL - each * maximum) // width), each)

    @property
    def size(self) -> int:
        """Number of reports."""
        return self.maximum + self.width

    @property
    def total(self) -> int:
        """Number of words a draw chooses from."""
        return self.keep * self.width + self.each * self.maximum

    @property
    def ratio(self) -> Fraction:
        """Worst likelihood ratio of a report."""
        return Fraction(self.keep, self.each)

    @property
    def own(self) -> Fraction:
        """P(the report lies in the window of the value)."""
        return Fraction(self.keep * self.width, self.total)

    @property
    def gain(self) -> Fraction:
        """What the mean report rises by where the value rises by 1."""
        return Fraction((self.keep - self.each) * self.width, self.total)

    @property
    def low(self) -> Fraction:
        """The mean report about the value 0."""
        return (self.size - 1 - self.gain * self.maximum) / 2

    @property
    def spread(self) -> Fraction:
        """Variance of a report about m/2; about x it is larger by (gain − gain²)·(x − m/2)²."""
        everywhere = self.each * self.size * (self.size**2 - 1)
        window = (self.keep - self.each) * self.width * (self.width**2 - 1)
        return Fraction(everywhere + window, 12 * self.total)

    def definition(self) -> dict[str, str]:
        return {"width": str(self.width), "keep": str(self.keep), "each": str(self.each)}

    def probability(self, reports: range, value: int) -> Fraction:
        """P(the report is one of these | value)."""
        inside = range(max(reports.start, value), min(reports.stop, value + self.width))
        return Fraction(len(reports) * self.each + len(inside) * (self.keep - self.each), self.total)

    def draw(self, value: int, randomness: Randomness) -> int:
        """One report; always one word."""
        word = randomness.word(self.total)
        inside = self.keep * self.width
        if word < inside:
            return value + word // self.keep
        other = (word - inside) // self.each
        return other + (other >= value) * self.width

    def draw_many(self, values: Ints, words: Uints) -> Ints:
        """:meth:`draw` for arrays: ``words[i]`` must lie below :attr:`total`. Shape (n,)."""
        import numpy as np

        inside, keep, each = (np.uint64(weight) for weight in (self.keep * self.width, self.keep, self.each))
        near = values + (words // keep).astype(np.int64)
        # Of a word inside the window the difference wraps around, and is not used.
        other = ((words - inside) // each).astype(np.int64)
        return np.where(words < inside, near, other + (other >= values) * self.width)
