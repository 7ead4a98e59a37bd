"""Settings of every protocol in the table, chosen from what each says it takes.

A protocol added to the table is picked up by the law suite unedited, as long as it takes parameters
named here; a new parameter name needs one line in ``LEVELS`` or ``CHOICES``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from ldp.calibration import Calibration
from ldp.hashing import FAMILIES
from ldp.protocols import PROTOCOLS, FrequencyProtocol, Parameters

# Every protocol can reach half of ε∞ in its first report.
LEVELS: dict[str, float] = {"epsilon": 1.0, "epsilon_longitudinal": 2.0, "epsilon_first": 1.0}
CHOICES: dict[str, tuple[Any, ...]] = {
    "calibration": tuple(Calibration),
    "hash_family": tuple(FAMILIES),
    "g": (None, 3),
}


@dataclass(frozen=True)
class Setting:
    """A protocol with the parameters it was built from."""

    name: str
    domain_size: int
    parameters: Parameters

    @property
    def kind(self) -> type[FrequencyProtocol[Any]]:
        return PROTOCOLS[self.name]

    def build(self) -> FrequencyProtocol[Any]:
        return self.kind.from_parameters(self.domain_size, self.parameters)

    @property
    def nominal_first(self) -> float:
        """The level that one report may spend."""
        p = self.parameters
        level = p.epsilon_first if p.epsilon_first is not None else p.epsilon
        assert level is not None
        return level

    @property
    def unary(self) -> bool:
        """Whether a draw takes one word per value."""
        return self.build().instant_words.count > 1

    def __str__(self) -> str:
        p = self.parameters
        parts = [self.name, f"k{self.domain_size}"]
        if "hash_family" in self.kind.OPTIONAL:
            parts.append(p.hash_family)
        if "calibration" in self.kind.OPTIONAL:
            parts.append(p.calibration.value)
        if p.g is not None:
            parts.append(f"g{p.g}")
        return "-".join(parts)


def choices(kind: type[FrequencyProtocol[Any]]) -> Iterator[dict[str, Any]]:
    """Every combination of what the protocol lets a collection choose."""
    unknown = set(kind.PARAMETERS) - set(LEVELS) | set(kind.OPTIONAL) - set(CHOICES)
    assert not unknown, f"{kind.NAME} takes {sorted(unknown)}: add values to {__name__}"
    for values in product(*(CHOICES[name] for name in kind.OPTIONAL)):
        chosen = dict(zip(kind.OPTIONAL, values, strict=True))
        # A given g does not meet the calibration anywhere: once is enough.
        if chosen.get("g") is None or chosen.get("calibration") is not Calibration.PUBLISHED:
            yield chosen


def settings(sizes: tuple[int, ...], **levels: float) -> list[Setting]:
    """Every protocol in the table with every choice at every domain size."""
    return [
        Setting(
            name,
            size,
            Parameters(**{n: (LEVELS | levels)[n] for n in kind.PARAMETERS}, **chosen),
        )
        for name, kind in PROTOCOLS.items()
        for chosen in choices(kind)
        for size in sizes
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
