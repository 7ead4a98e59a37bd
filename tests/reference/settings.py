"""Settings of every protocol in the table, chosen from what each says it takes.

A protocol added to the table is picked up by the law suite unedited, as long as it takes parameters
named here; a new parameter name needs one line in ``LEVELS`` or ``CHOICES``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, TypedDict

from ldpbeam.channels.calibration import Calibration
from ldpbeam.hashing import FAMILIES, IntervalFamily
from ldpbeam.protocols import PROTOCOLS, FrequencyProtocol, LocalProtocol, Parameters
from ldpbeam.protocols.contract import SupportProtocol
from tests.narrow import frequencies


class Levels(TypedDict, total=False):
    """Privacy levels, as :class:`Parameters` takes them."""

    epsilon: float
    epsilon_longitudinal: float
    epsilon_first: float


# Every protocol can reach half of ε∞ in its first report.
LEVELS: dict[str, float] = {"epsilon": 1.0, "epsilon_longitudinal": 2.0, "epsilon_first": 1.0}
CHOICES: dict[str, tuple[Any, ...]] = {
    "calibration": tuple(Calibration),
    "hash_family": tuple(FAMILIES),
    "g": (None, 3),
    "p2": (0.75, 0.9),
    "q2": (0.25,),
    "gamma": (0.2, 0.0),
    # Divides every domain's largest value; None is that value.
    "segment": (None, 1),
    # Possible in every domain; None is another one for more than a few values.
    "w": (None, 1),
}
SIZED: dict[str, Callable[[int], tuple[Any, ...]]] = {
    # The first is what vectors show: several buckets, but not all.
    "d": lambda size: tuple(dict.fromkeys((min(2, size), 1, size))),
}
"""Required choices that depend on the domain."""


@dataclass(frozen=True)
class Setting:
    """A protocol with the parameters it was built from."""

    name: str
    domain_size: int
    parameters: Parameters

    @property
    def kind(self) -> type[LocalProtocol[Any]]:
        return PROTOCOLS[self.name]

    def build(self) -> LocalProtocol[Any]:
        return self.kind.from_parameters(self.domain_size, self.parameters)

    @property
    def nominal_first(self) -> float:
        """The level that one report may spend: ε∞ where no other is asked for."""
        p = self.parameters
        given = (p.epsilon_first, p.epsilon, p.epsilon_longitudinal)
        return next(level for level in given if level is not None)

    @property
    def unary(self) -> bool:
        """Whether a draw takes one word per value."""
        return self.build().simulation.word_plan.instant.count > 1

    def __str__(self) -> str:
        p = self.parameters
        parts = [self.name, f"k{self.domain_size}"]
        if "hash_family" in self.kind.OPTIONAL:
            parts.append(p.hash_family)
        if "calibration" in self.kind.OPTIONAL:
            parts.append(p.calibration.value)
        if p.g is not None:
            parts.append(f"g{p.g}")
        if p.d is not None:
            parts.append(f"d{p.d}")
        if "p2" in self.kind.OPTIONAL:
            parts.append(f"p{p.p2}")
        if "gamma" in self.kind.OPTIONAL:
            parts.append(f"gamma{p.gamma}")
        if p.segment is not None:
            parts.append(f"s{p.segment}")
        if p.w is not None:
            parts.append(f"w{p.w}")
        return "-".join(parts)


@dataclass(frozen=True)
class FrequencySetting(Setting):
    """One of a protocol that counts support."""

    def build(self) -> FrequencyProtocol[Any]:
        return frequencies(super().build())


def supporting_settings(sizes: tuple[int, ...], **levels: float) -> list[Setting]:
    """Those of all protocols whose reports support values, also of those that estimate a distribution."""
    built = ((s, s.build()) for s in settings(sizes, **levels))
    return [s for s, one in built if isinstance(one, SupportProtocol)]


def choices(kind: type[LocalProtocol[Any]], size: int) -> Iterator[dict[str, Any]]:
    """Every combination of what the protocol lets a collection of that many values choose."""
    unknown = set(kind.PARAMETERS) - set(LEVELS) - set(SIZED) | set(kind.OPTIONAL) - set(CHOICES)
    assert not unknown, f"{kind.NAME} takes {sorted(unknown)}: add values to {__name__}"
    options = {name: SIZED[name](size) for name in kind.PARAMETERS if name in SIZED}
    options |= {name: CHOICES[name] for name in kind.OPTIONAL}
    for values in product(*options.values()):
        chosen = dict(zip(options, values, strict=True))
        # A given g does not meet the calibration anywhere: once is enough.
        if chosen.get("g") is not None and chosen.get("calibration") is Calibration.PUBLISHED:
            continue
        # No more stretches than values.
        if chosen.get("hash_family") == IntervalFamily.NAME and (chosen.get("g") or 2) > size:
            continue
        yield chosen


def levels_of(kind: type[LocalProtocol[Any]], **levels: float) -> dict[str, Any]:
    """The levels that a protocol takes."""
    return {name: (LEVELS | levels)[name] for name in kind.PARAMETERS if name in LEVELS}


def settings(sizes: tuple[int, ...], **levels: float) -> list[Setting]:
    """Every protocol in the table with every choice at every domain size."""
    return [
        Setting(
            name,
            size,
            Parameters(**levels_of(kind, **levels), **chosen),
        )
        for name, kind in PROTOCOLS.items()
        for size in sizes
        for chosen in choices(kind, size)
    ]


def frequency_settings(sizes: tuple[int, ...], **levels: float) -> list[FrequencySetting]:
    """Those of the protocols that count support, to which the laws about own and other apply."""
    return [
        FrequencySetting(s.name, s.domain_size, s.parameters)
        for s in settings(sizes, **levels)
        if isinstance(s.build(), FrequencyProtocol)
    ]


def hash_families() -> list[Setting | Any]:
    """Every protocol once, once more per hash family where it hashes: names of vector files."""
    found: dict[str, Setting] = {}
    for setting in settings((11,)):
        key = setting.name
        if "hash_family" in setting.kind.OPTIONAL:
            key += f"_{setting.parameters.hash_family}"
        found.setdefault(key, setting)
    return list(found.values())
