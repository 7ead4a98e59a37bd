"""What the server does with a protocol: columns of payloads become counts, and counts become estimates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from ldpbeam.arrays import Bytes, Floats, Ints
from ldpbeam.support import Recurrence, SupportProbabilities

if TYPE_CHECKING:
    from ldpbeam.estimates import Estimates

EVERYONE = Fraction(1)
"""The share of the population that reports, where nobody is left out at random."""


class Result(Enum):
    """What an epoch's estimates are; the values are published (run.json) and never change."""

    FREQUENCIES = "frequencies"
    """One frequency for each value of the domain."""
    MEAN = "mean"
    """One mean, in the units of the values."""


class ServerSide(ABC):
    """Counting and estimating.

    Class constants:
        RESULT: what the estimates are. Ways to report several attributes ask their parts for it.
    """

    RESULT: ClassVar[Result]
    domain_size: int

    @property
    def result(self) -> Result:
        """Frequencies or a mean; of several attributes, what each of them has."""
        return self.RESULT

    @property
    def results(self) -> int:
        """Numbers that an epoch's result has: one per value, or one for a mean."""
        return self.domain_size

    @property
    def support(self) -> SupportProbabilities | None:
        """P(support | own value) and P(support | another) of one report, exact; None for a mean."""
        return None

    @property
    def lasting(self) -> SupportProbabilities | None:
        """P(support | own value) and P(support | another) of what a device keeps for life, taken alone.

        The variance that follows from them is the part of an estimate's error that repeats itself while
        devices keep their values: no number of epochs averages it away. None where nothing is kept.
        """
        return None

    @property
    def recurrence(self) -> Recurrence:
        """What the memoised answers of a device have in common when its value changed between them.

        Nothing where each value has an answer of its own.
        """
        return Recurrence()

    # Counting

    @property
    @abstractmethod
    def counts_length(self) -> int:
        """Cells of the int64 accumulator."""

    @abstractmethod
    def check(self, payloads: Bytes) -> Bytes:
        """A ``CheckCode`` per payload, uint8 (n,), that agrees with the device side's ``decode``."""

    @abstractmethod
    def add_support(self, payloads: Bytes, counts: Ints) -> None:
        """Add checked payloads (n, payload_size) into ``counts`` (counts_length,) in place."""

    @abstractmethod
    def support_counts(self, counts: Ints) -> Ints:
        """What was counted for each result, int64 (results,), from an accumulator."""

    def report_counts(self, counts: Ints, reports: int) -> int | Ints:
        """Reports behind each result: all of them, or those that sampled the value, int64 (results,)."""
        return reports

    # Estimating

    @abstractmethod
    def estimate(
        self, counts: Ints, reports: int, ties: Floats | None = None, share: Fraction = EVERYONE
    ) -> Estimates:
        """Unbiased estimates with their errors from an accumulator.

        Args:
            counts: int64 (counts_length,).
            reports: number of reports in it, at least 1.
            ties: (results,), see :func:`ldpbeam.estimates.interval`.
            share: of the population, drawn at random, that reports; errors include the drawing.
        """

    @abstractmethod
    def consistent(self, method: str, estimates: Estimates) -> Floats:
        """The estimates after post-processing, float64 (results,)."""

    @property
    def estimators(self) -> tuple[PartEstimator, ...]:
        """One per attribute; a protocol of one attribute is estimated by itself."""
        return (PartEstimator(self),)

    def part_counts(self, counts: Ints, reports: int) -> tuple[tuple[Ints, int], ...]:
        """Accumulator and number of reports of each attribute."""
        return ((counts, reports),)


@dataclass(frozen=True)
class PartEstimator:
    """One attribute as the server estimates it: the attribute's protocol, reported by a share of the devices.

    Attributes:
        protocol: of the attribute.
        share: of the population, drawn at random for life, that reports the attribute.
        present: share of the population, drawn at random for each epoch, that reports at all.
    """

    protocol: ServerSide
    share: Fraction = EVERYONE
    present: Fraction = EVERYONE

    @property
    def support(self) -> SupportProbabilities | None:
        """As of the protocol, among the devices that report the attribute."""
        support = self.protocol.support
        return None if support is None else support.among(self.share * self.present)

    @property
    def lasting(self) -> SupportProbabilities | None:
        """As of the protocol; a device also keeps for life which attribute it reports.

        Where other devices report in another epoch, less of an error repeats itself than this says.
        """
        if self.support is None or self.share == EVERYONE:
            return self.protocol.lasting
        kept = self.protocol.lasting or SupportProbabilities(Fraction(1), Fraction(0))
        return kept.among(self.share)

    def estimate(self, counts: Ints, reports: int, ties: Floats | None = None) -> Estimates:
        """As :meth:`ServerSide.estimate`; rows of NaN without a report."""
        from ldpbeam.estimates import Estimates

        if not reports:
            return Estimates.unknown(self.protocol.results)
        return self.protocol.estimate(counts, reports, ties, self.share * self.present)

    def consistent(self, method: str, estimates: Estimates) -> Floats:
        """As :meth:`ServerSide.consistent`; NaN without a report."""
        import numpy as np

        if not estimates.n.any():
            return np.full(self.protocol.results, np.nan)
        return self.protocol.consistent(method, estimates)
