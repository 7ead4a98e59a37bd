"""Which epochs a device reports in, where a collection lets it report only a few times in its life.

A device draws ``reports`` of the collection's ``of`` epochs once, uniformly, before it knows any value, and
is silent in all others. Its epochs then tell nothing about its values, and whatever it sends in its life is
that many reports: a bound on all of them together, however values change (docs/privacy.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ldpbeam.errors import CollectionError
from ldpbeam.randomness import Randomness

LONGEST = 1 << 16
"""Epochs of which a device may draw some."""


@dataclass(frozen=True)
class Participation:
    """``reports`` of ``of`` epochs, drawn by each device for life."""

    reports: int
    of: int

    def __post_init__(self) -> None:
        """Raises CollectionError unless 1 <= reports <= of <= :data:`LONGEST`."""
        if not _whole(self.of) or not 1 <= self.of <= LONGEST:
            raise _unsound(f"participation.of must be an integer in 1 .. {LONGEST}, not {self.of}")
        if not _whole(self.reports) or not 1 <= self.reports <= self.of:
            raise _unsound(f"participation.reports must be an integer in 1 .. {self.of}, not {self.reports}")

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


def _whole(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def _unsound(message: str) -> CollectionError:
    return CollectionError(
        "E-COLLECTION-VALUE",
        message,
        key="participation",
        remedy="Write participation: {reports: 1, of: 30} for one report in 30 epochs.",
    )
