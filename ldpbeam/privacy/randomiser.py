"""What the accounting of a shuffler has to know of a randomiser: how a device reports, and how the others do.

For such a randomiser the ratio of two values' probabilities is p, 1/p or 1 for every report. So the worst
ratio p and the largest total variation distance say how far two values' reports are apart
(:mod:`ldpbeam.shuffling.shuffle`). What hides a device are the chances with which every other device sends a
report of the same kind, **whatever the server knows of that other device**: a server that has seen other
epochs knows the permanent answers that the others repeat in all of them, so for memoising protocols these
chances are those of the second round alone. docs/privacy.md derives both statements, of one report and of
many, from this.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf, nextafter

from ldpbeam.channels.channel import SymbolChannel
from ldpbeam.channels.exact import log_above


@dataclass(frozen=True)
class Chances:
    """A randomiser in floats, each rounded to the side on which less is promised."""

    p: float
    alpha: float
    rest: float
    each: float
    neither: float

    @property
    def hiding(self) -> float:
        """The least chance of another device's report to be of any of the three kinds."""
        return min(1.0, 2 * self.each + self.neither)

    @property
    def speaking(self) -> float:
        """Of those, the share of the two kinds that tell."""
        return 2 * self.each / (2 * self.each + self.neither) if self.neither else 1.0

    @property
    def third(self) -> float:
        """(γ/neither)/(α/each): the weight of a report of the third kind beside those of the other two."""
        return self.rest * self.each / (max(self.neither, 1e-30) * self.alpha)


@dataclass(frozen=True)
class Randomiser:
    """What the accounting has to know of a randomiser."""

    ratio: Fraction
    distance: Fraction
    functions: int = 1
    others: tuple[Fraction, Fraction] | None = None

    @property
    def local(self) -> float:
        """ε without a shuffler, rounded up."""
        return log_above(self.ratio)

    @property
    def chances(self) -> Chances:
        """Of the device, p and β rounded up; of the others, rounded down."""
        p = nextafter(float(self.ratio), inf)
        alpha = nextafter(float(self.distance), inf) / (p - 1)
        rest = max(0.0, 1 - alpha - p * alpha)
        if self.others is None:
            return Chances(p, alpha, rest, alpha, rest / p)
        each, neither = (nextafter(float(one), 0.0) if one else 0.0 for one in self.others)
        return Chances(p, alpha, rest, each, neither)


def other_symbols(instant: SymbolChannel) -> tuple[Fraction, Fraction]:
    """Whatever symbol another device memoised, its report names each symbol with at least this chance."""
    return instant.other, (instant.size - 2) * instant.other
