"""Collections that are audited when none is named: every protocol, at a few settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ldpbeam.collection.collection import Attribute, Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.epochs import Epochs
from ldpbeam.collection.string_domain import StringDomain
from ldpbeam.errors import CollectionError
from ldpbeam.hashing.strings import ALPHABETS, Strings
from ldpbeam.protocols import PROTOCOLS, Parameters

QUICK_DRAWS = 2000
"""Draws of ``--quick``: everything in a minute on two idle cores."""

_DAY = Epochs(86400, 0)
_SIZE = 10
_VARIANTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("blh", {"hash_family": "affine"}),
    ("loloha", {"hash_family": "affine"}),
    ("loloha", {"g": 2}),
    ("olh", {"hash_family": "interval"}),
    ("loloha", {"hash_family": "interval"}),
    ("one_bit_rrpm", {"gamma": 0.2}),
)
_SEVERAL = (
    ("sample", "loloha"),
    ("split", "l_osue"),
    ("allomfree", ""),
    ("together", "one_bit_mean"),
)
_LEVELS = ((2.0, 1.0),)
_MORE_LEVELS = ((1.0, 0.5), (2.0, 1.0), (4.0, 2.0))
"""(ε∞, ε1); protocols of one round have the second as ε."""


def one_collection(protocol: str, size: int, **parameters: Any) -> Collection:
    domain = Domain(size, maximum=float(size - 1))
    return Collection("audited", 1, domain, protocol, Parameters(**parameters), _DAY)


def standard_collections(*, quick: bool) -> Iterator[Collection]:
    """Every protocol, each way to ask for several attributes, and texts, at one pair of levels or three."""
    for longitudinal, first in _LEVELS if quick else _MORE_LEVELS:
        levels: dict[str, Any] = {"epsilon_longitudinal": longitudinal, "epsilon_first": first}
        levels |= {"epsilon": first, "d": 4}
        for name, more in [*((name, {}) for name in PROTOCOLS), *_VARIANTS]:
            try:
                yield one_collection(name, _SIZE, **levels, **more)
            except CollectionError as error:
                # l_oue and l_soue cannot reach every first level; docs/protocols.md has the limits.
                if error.code != "E-COLLECTION-INFEASIBLE":
                    raise
        for allocation, name in _SEVERAL:
            attributes = tuple(Attribute(f"a{i}", Domain(4, maximum=3.0)) for i in range(3))
            yield Collection(
                "audited",
                1,
                None,
                name,
                Parameters(**levels),
                _DAY,
                attributes=attributes,
                allocation=allocation,
            )
        strings = StringDomain(strings=Strings.of(8, ALPHABETS["lower"]))
        yield Collection("audited", 1, strings, "loloha", Parameters(**levels), _DAY)
