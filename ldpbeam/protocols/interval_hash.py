"""Local hashing over a domain in order: reports tell of stretches of values (``hash_family: interval``).

The channel, the memo, the losses and the calibration are those of :mod:`ldpbeam.protocols.local_hash`. Only
the counts mean something else: the distribution over the domain, not single values.
"""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Self

from ldpbeam.arrays import Floats, Ints
from ldpbeam.hashing import IntervalFamily
from ldpbeam.protocols.contract import DistributionProtocol
from ldpbeam.protocols.estimator import EVERYONE, DistributionEstimator
from ldpbeam.protocols.forgery import Forgery
from ldpbeam.protocols.hashed import (
    BinaryHash,
    FamilyAndRounds,
    Hashed,
    HashedLaw,
    HashedProtocol,
    LongitudinalHash,
    OptimalHash,
)
from ldpbeam.support import SupportProbabilities

if TYPE_CHECKING:
    from ldpbeam.estimates import Estimates
    from ldpbeam.estimation.distribution import CumulativeCurve, WalkPosterior
    from ldpbeam.estimation.stretches import Repeated


@dataclass(frozen=True)
class IntervalEstimator(DistributionEstimator):
    """From reports by function and stretch to the distribution."""

    size: int
    family: IntervalFamily
    symbol: tuple[Fraction, Fraction]
    memoised: tuple[Fraction, Fraction] | None

    def estimate(
        self, counts: Ints, reports: int, ties: Floats | None = None, share: Fraction = EVERYONE
    ) -> Estimates:
        return self.estimate_with(counts, reports, share, ())

    def estimate_with(self, counts: Ints, reports: int, share: Fraction, atoms: tuple[int, ...]) -> Estimates:
        """See :meth:`DistributionEstimator.estimate_with`."""
        import numpy as np

        from ldpbeam.estimates import Estimates

        n = np.full(self.size, reports, np.int64)
        nothing = np.full((6, self.size), np.nan)
        distribution = self.posterior(atoms).estimate(counts, float(share))
        return Estimates(n, self.family.support_counts(counts), nothing, distribution)

    def posterior(self, atoms: tuple[int, ...] = ()) -> WalkPosterior:
        """What makes a distribution of counts, and says before any how far off it will be."""
        own, other = self.symbol
        return _posterior(self.family, float(own), float(other), atoms)

    def curve_of_epochs(self, counts: Floats, times: float, atoms: tuple[int, ...]) -> CumulativeCurve:
        """See :meth:`DistributionEstimator.curve_of_epochs`."""
        return self.posterior(atoms).curve(counts, self.repeated(times))

    def repeated(self, times: float) -> Repeated | None:
        """What repeats itself in reports of several epochs; None where devices keep nothing."""
        from ldpbeam.estimation.stretches import Repeated

        return None if self.memoised is None else Repeated(times, *map(float, self.memoised))

    def lasting_part_of_mean(self, cumulative: Floats, share: Fraction) -> float:
        """See :meth:`DistributionEstimator.lasting_part_of_mean`."""
        import numpy as np

        if self.memoised is None:
            return 0.0
        memoised = float(self.memoised[0]), float(self.memoised[1])
        below = np.concatenate([[0.0], cumulative])
        return self.posterior().mean.lasting_part(memoised, below, float(share))

    def consistent(self, method: str, estimates: Estimates) -> Floats:
        assert estimates.distribution is not None  # noqa: S101 - there are reports
        return estimates.distribution.frequency


@lru_cache(maxsize=8)
def _posterior(family: IntervalFamily, own: float, other: float, atoms: tuple[int, ...]) -> WalkPosterior:
    """Held, since what does not depend on counts takes longer than all that does."""
    from ldpbeam.estimation.distribution import WalkPosterior
    from ldpbeam.estimation.stretches import Stretches

    return WalkPosterior(Stretches(family.bounds(), own, other), atoms)


@dataclass(frozen=True)
class IntervalHashLaw(HashedLaw):
    """Of functions that tell distant values apart more often than near ones."""

    def guess_from_functions(self, reports: int) -> float:
        """The mean largest posterior of a value over 4,096 simulated devices, always the same ones."""
        from ldpbeam.privacy.guess_laws import from_cuts

        family, (own, other) = self.family, self.rounds.composed
        assert isinstance(family, IntervalFamily)  # noqa: S101 - of every such device
        return from_cuts(family.bounds(), float(own), float(other), reports)


@dataclass(frozen=True)
class IntervalHash(HashedProtocol, DistributionProtocol[Hashed], ABC):
    """Functions that cut the domain into stretches."""

    SOURCE = "made for this library: ldpbeam docs maths, section 3"

    family: IntervalFamily

    @classmethod
    def of_rounds(cls, domain_size: int, chosen: FamilyAndRounds) -> Self:
        """Of a collection whose hash family is ``interval``."""
        family, rounds = chosen
        assert isinstance(family, IntervalFamily)  # noqa: S101 - the table of protocols chose by it
        return cls(domain_size, family, rounds)

    @cached_property
    def estimator(self) -> IntervalEstimator:
        return IntervalEstimator(self.domain_size, self.family, self.symbol, self.rounds.lasting)

    @property
    def forgery(self) -> Forgery:
        """Of a stretch, and of the numbers of all stretches.

        A device with the last value answers g − 1 with probability own, and each other number with ``other``:
        Σ of y·P(y) is (g − 1)·(own + other·(g − 2)/2). With the first value it is (g − 1)·other·g/2.
        """
        own, other = self.symbol
        last, first = own + other * Fraction(self.g - 2, 2), other * Fraction(self.g, 2)
        return Forgery(ends=SupportProbabilities(own, other), stretch_ends=SupportProbabilities(last, first))

    @property
    def worth(self) -> float:
        own, other = map(float, self.symbol)
        return self.family.information(own, other)

    @cached_property
    def law(self) -> IntervalHashLaw:
        return IntervalHashLaw(self.domain_size, self.family, self.rounds)


class IntervalBLH(BinaryHash, IntervalHash):
    """Binary local hashing (BLH) whose functions cut the domain into two stretches; one round."""


class IntervalOLH(OptimalHash, IntervalHash):
    """Local hashing (OLH) whose functions cut the domain into g stretches; one round."""


class IntervalLOLOHA(LongitudinalHash, IntervalHash):
    """LOLOHA whose functions cut the domain into g stretches; two rounds, at most g answers in the memo."""
