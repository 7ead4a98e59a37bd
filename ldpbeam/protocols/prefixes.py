"""Texts that nobody listed: a device reports the prefix of one length for life, by local hashing.

The lengths are what attributes are in :mod:`ldpbeam.protocols.attributes.sample`: each has its own part, over
fingerprints of prefixes. Only the result differs: one list of texts that all lengths together have found.
"""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from ldpbeam.arrays import Floats, Ints
from ldpbeam.errors import CollectionError
from ldpbeam.hashing import ListedFamily
from ldpbeam.hashing.listed import FINGERPRINTS
from ldpbeam.hashing.strings import Strings
from ldpbeam.protocols.attributes.sample import (
    Sample,
    SampleCounter,
    SampleDevice,
    SampleLaw,
)
from ldpbeam.protocols.contract import LocalProtocol
from ldpbeam.protocols.estimator import EVERYONE, Estimator, Result
from ldpbeam.protocols.forgery import Forgery
from ldpbeam.protocols.hashed import (
    FamilyAndRounds,
    Hashed,
    HashedProtocol,
    LongitudinalHash,
    OptimalHash,
)
from ldpbeam.protocols.local_hash import LocalHashLaw
from ldpbeam.protocols.parameters import Parameters
from ldpbeam.support import Recurrence, SupportProbabilities

if TYPE_CHECKING:
    from ldpbeam.estimates import Estimates


@dataclass(frozen=True)
class LevelEstimator(Estimator):
    """Of one length alone nothing is published: estimates follow from a walk over all lengths."""

    result = Result.DISCOVERED
    size = 0
    lasting = None
    recurrence = Recurrence()

    support: SupportProbabilities

    def estimate(
        self, counts: Ints, reports: int, ties: Floats | None = None, share: Fraction = EVERYONE
    ) -> Estimates:
        from ldpbeam.estimates import Estimates

        return Estimates.unknown(0)

    def consistent(self, method: str, estimates: Estimates) -> Floats:
        return estimates.frequency


@dataclass(frozen=True)
class Level(HashedProtocol, ABC):
    """Prefixes of one length: local hashing of their fingerprints."""

    RESULT = Result.DISCOVERED
    SOURCE = "made for this library: ldpbeam docs maths, section 3"

    family: ListedFamily

    @classmethod
    def of_rounds(cls, domain_size: int, chosen: FamilyAndRounds) -> Self:
        family, rounds = chosen
        assert isinstance(family, ListedFamily)  # noqa: S101 - see of_strings
        return cls(domain_size, family, rounds)

    @cached_property
    def estimator(self) -> LevelEstimator:
        own, lie = self.symbol
        collision = Fraction(1, self.g)
        return LevelEstimator(SupportProbabilities(own, collision * own + (1 - collision) * lie))

    @property
    def worth(self) -> float:
        return 1 / float(self.estimator.support.floor)

    @property
    def forgery(self) -> Forgery:
        return Forgery()

    @cached_property
    def law(self) -> LocalHashLaw:
        """As if no two fingerprints collided: no guess is better."""
        return LocalHashLaw(self.domain_size, self.family, self.rounds, SupportProbabilities(*self.symbol))


class LevelOLH(OptimalHash, Level):
    """One round."""


class LevelLOLOHA(LongitudinalHash, Level):
    """Two rounds, at most g answers in the memo."""


_LEVELS: dict[str, type[Level]] = {"olh": LevelOLH, "loloha": LevelLOLOHA}


@dataclass(frozen=True)
class PrefixDevice(SampleDevice):
    """Draws a length once, by weights."""

    ENCODING = "prefixes"

    draws: tuple[int, ...]

    @property
    def weights(self) -> tuple[int, ...]:
        return self.draws

    def definition(self) -> dict[str, Any]:
        return {**super().definition(), "weights": list(self.draws)}


@dataclass(frozen=True)
class PrefixLaw(SampleLaw):
    draws: tuple[int, ...]

    @cached_property
    def shares(self) -> tuple[Fraction, ...]:
        return tuple(Fraction(one, sum(self.draws)) for one in self.draws)


@dataclass(frozen=True)
class PrefixEstimator(Estimator):
    """The texts that a walk over all lengths finds, with their frequencies."""

    result = Result.DISCOVERED
    size = 0
    support = None
    lasting = None
    recurrence = Recurrence()

    strings: Strings
    counter: SampleCounter
    level: Level

    def estimate(
        self, counts: Ints, reports: int, ties: Floats | None = None, share: Fraction = EVERYONE
    ) -> Estimates:
        """The texts that a walk over all lengths finds, see :mod:`ldpbeam.estimation.prefix_walk`."""
        from ldpbeam.estimates import Estimates
        from ldpbeam.estimation.prefix_table import LevelCounts, Reading
        from ldpbeam.estimation.prefix_walk import walk

        strings, family = self.strings, self.level.family
        total = sum(strings.weights)
        levels = [
            LevelCounts(length, weight / total * float(share), counts[span].reshape(-1, family.g))
            for length, weight, span in zip(strings.lengths, strings.weights, self.counter.spans, strict=True)
        ]
        own = float(self.level.symbol[0])
        found = walk(levels, Reading(strings.alphabet, own, family.words(), strings.prints_of))
        return Estimates(
            found.n, found.support, found.numbers, labels=tuple(map(strings.label, found.texts)), walk=found
        )

    def consistent(self, method: str, estimates: Estimates) -> Floats:
        """The raw estimates: what was not found is missing from their sum."""
        return estimates.frequency


@dataclass(frozen=True)
class Prefixes(Sample):
    """One prefix length per device, drawn once by weights and kept for life in the memo's seed."""

    ID = 33
    NAME = "prefixes"
    RESULT = Result.DISCOVERED
    SOURCE = "made for this library: ldpbeam docs maths, section 3"

    strings: Strings

    @property
    def share(self) -> Fraction:
        """Of the devices that report whole texts."""
        return Fraction(self.strings.weights[-1], sum(self.strings.weights))

    def resolved_parameters(self) -> dict[str, int | float | str]:
        return self.parts[0].resolved_parameters()

    @property
    def not_hidden(self) -> tuple[str, ...]:
        drawn = f"Which of {len(self.parts)} prefix lengths a device drew for life stands in every report."
        return (drawn, *self.parts[0].not_hidden)

    @cached_property
    def device(self) -> PrefixDevice:
        return PrefixDevice(self._each(lambda part: part.device), self.strings.weights)

    @cached_property
    def law(self) -> PrefixLaw:
        return PrefixLaw(self._each(lambda part: part.law), self.strings.weights)

    @cached_property
    def estimator(self) -> PrefixEstimator:  # type: ignore[override]
        level = self.parts[0]
        assert isinstance(level, Level)  # noqa: S101 - see of_strings
        return PrefixEstimator(self.strings, self.counter, level)


def of_strings(protocol_name: str, strings: Strings, parameters: Parameters) -> Prefixes:
    """The protocol of a collection whose values are texts."""
    if protocol_name not in _LEVELS:
        raise CollectionError(
            "E-COLLECTION-VALUE",
            f"protocol {protocol_name} is not for strings",
            key="protocol",
            remedy=f"Use one of: {', '.join(_LEVELS)}.",
        )
    listed = replace(parameters, hash_family=ListedFamily.NAME)
    level = _LEVELS[protocol_name].from_parameters(FINGERPRINTS, listed)
    levels: tuple[LocalProtocol[Hashed], ...] = (level,) * len(strings.lengths)
    return Prefixes(levels, strings)
