"""Which epochs a device reports in, where a collection lets it report only a few times in its life.

A device draws ``reports`` of the collection's ``of`` epochs once, uniformly, before it knows any value, and
is silent in all others. Its epochs then tell nothing about its values, and whatever it sends in its life is
that many reports: a bound on all of them together, however values change (docs/privacy.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ldpbeam.errors import require
from ldpbeam.randomness import Randomness

LONGEST = 1 << 16
"""Epochs of which a device may draw some."""


@dataclass(frozen=True)
class Participation:
    reports: int
    of: int

    def __post_init__(self) -> None:
        for name, number, most in (("of", self.of, LONGEST), ("reports", self.reports, self.of)):
            require(
                1 <= number <= most,
                "participation",
                f"participation.{name} must be an integer in 1 .. {most}, not {number}",
                "Write participation: {reports: 1, of: 30} for one report in 30 epochs.",
            )

    @property
    def share(self) -> Fraction:
        """The chance that a device reports in an epoch: which share of a fleet does."""
        return Fraction(self.reports, self.of)

    @property
    def limits(self) -> range:
        """Limits of the words that the choice takes, in order."""
        return range(self.of - self.reports + 1, self.of + 1)

    def chosen(self, randomness: Randomness) -> tuple[int, ...]:
        """The epochs of one device, ascending: every set of that many epochs has the same probability."""
        epochs: set[int] = set()
        for limit in self.limits:
            drawn = randomness.word(limit)
            epochs.add(limit - 1 if drawn in epochs else drawn)
        return tuple(sorted(epochs))

    def as_record(self) -> dict[str, int]:
        return {"reports": self.reports, "of": self.of}
