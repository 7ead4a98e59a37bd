"""Local hashing whose counts say how frequent each value is (BLH, OLH, LOLOHA)."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Self

from ldpbeam.arrays import Floats
from ldpbeam.hashing import UniversalFamily
from ldpbeam.protocols.contract import FrequencyProtocol
from ldpbeam.protocols.estimator import FrequencyEstimator
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
from ldpbeam.protocols.interval_hash import IntervalBLH, IntervalHash, IntervalLOLOHA, IntervalOLH
from ldpbeam.support import Recurrence, SupportProbabilities

if TYPE_CHECKING:
    from ldpbeam.protocols.sum_laws import SumLaw


@dataclass(frozen=True)
class LocalHashEstimator(FrequencyEstimator):
    """A report supports all values with its symbol."""

    family: UniversalFamily = field(kw_only=True)
    composed: Fraction = field(kw_only=True)
    memoised: Fraction | None = field(kw_only=True)

    def sum_law(self, weights: Floats, *, lasting: bool = False) -> SumLaw:
        from ldpbeam.protocols.sum_laws import HashedSymbol

        probabilities, lie = (self.lasting, self.memoised) if lasting else (self.support, self.composed)
        assert probabilities is not None and lie is not None  # noqa: S101 - asked of what is memoised only
        return HashedSymbol(
            weights, float(probabilities.own), float(probabilities.other), float(lie), self.family
        )


@dataclass(frozen=True)
class LocalHashLaw(HashedLaw):
    """Of functions that tell any two values apart as often as any others."""

    support: SupportProbabilities

    def guess_from_functions(self, reports: int) -> float:
        """The value that most reports support, as if the numbers of the others were independent."""
        from ldpbeam.privacy.guess_laws import binomial, highest

        own, other = (binomial(reports, p) for p in (self.support.own, self.support.other))
        return highest(own, other, self.domain_size)


@dataclass(frozen=True)
class LocalHash(HashedProtocol, FrequencyProtocol[Hashed], ABC):
    """Functions under which all pairs of values collide as often: counts say how frequent each value is."""

    OVER_STRETCHES: ClassVar[type[IntervalHash]]

    family: UniversalFamily

    @classmethod
    def of_rounds(cls, domain_size: int, chosen: FamilyAndRounds) -> Self | IntervalHash:
        family, rounds = chosen
        if isinstance(family, UniversalFamily):
            return cls(domain_size, family, rounds)
        return cls.OVER_STRETCHES.of_rounds(domain_size, chosen)

    def _supported(self, own: Fraction, lie: Fraction) -> SupportProbabilities:
        """other = c·own + (1 − c)·lie: another value is supported where it collides, or by a lie."""
        collision = self.family.collision
        return SupportProbabilities(own, collision * own + (1 - collision) * lie)

    @cached_property
    def estimator(self) -> LocalHashEstimator:
        memoised, lasting, recurrence = self.rounds.lasting, None, Recurrence()
        if memoised is not None:
            lasting, recurrence = self._supported(*memoised), self._recurrence(*map(float, memoised))
        return LocalHashEstimator(
            self.counter,
            self.domain_size,
            self._supported(*self.symbol),
            lasting,
            recurrence,
            family=self.family,
            composed=self.symbol[1],
            memoised=None if memoised is None else memoised[1],
        )

    @property
    def worth(self) -> float:
        return 1 / float(self.estimator.support.floor)

    def _recurrence(self, p: float, q: float) -> Recurrence:
        """Two values with one hash have one answer."""
        c = float(self.family.collision)

        def apart(three: float) -> float:
            return c * q * (1 - q) - (c * (p - q)) ** 2 + three * (p - q) * (1 - 2 * q)

        average, least = self.family.collision_of_three
        # 1 − 2q is not negative, as q is at most 1/2.
        return Recurrence(c * p * (1 - p), apart(average), apart(least))

    @property
    def forgery(self) -> Forgery:
        """The variance of the number of values that a report supports, from what is known of pairs of values.

        Of triples it is only known that they collide no more often than pairs. A report supports the n_y
        values with its symbol y. P(y | seed, x) is lie + (own − lie)·[y = H(x)], so E n_y² is
        lie·E Σ_y n_y² + (own − lie)·E n_H(x)². The first sum counts pairs that collide; in the second n_H(x)
        is at most the largest class.
        """
        k, c, most = self.domain_size, float(self.family.collision), self.family.largest_class
        (own, lie), support = map(float, self.symbol), self.estimator.support
        mean = float(support.own + (k - 1) * support.other)
        pairs = k + k * (k - 1) * c
        with_own = (1 + (k - 1) * c) * most
        known = lie * pairs + (own - lie) * with_own - mean * mean
        least = min(known, mean * (most - mean)) if most > mean else known
        return Forgery(ends=support, most_supported=most, asked_about=k, supported_variance=least)

    @cached_property
    def law(self) -> LocalHashLaw:
        return LocalHashLaw(self.domain_size, self.family, self.rounds, self.estimator.support)


class BLH(BinaryHash, LocalHash):
    """Binary local hashing, one round, g = 2."""

    SOURCE = "LOLOHA section 2.3.2"
    OVER_STRETCHES = IntervalBLH


class OLH(OptimalHash, LocalHash):
    """Local hashing with the best g (or a given one), one round."""

    SOURCE = "LOLOHA section 2.3.2"
    OVER_STRETCHES = IntervalOLH


class LOLOHA(LongitudinalHash, LocalHash):
    """Two rounds over the hash of the value; the memo holds at most g answers for life."""

    SOURCE = "LOLOHA Algorithm 1; exact calibration: ldpbeam docs maths, correction 1"
    OVER_STRETCHES = IntervalLOLOHA
