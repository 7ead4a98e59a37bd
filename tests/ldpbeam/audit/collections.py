"""Collections that clients are audited for, by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ldpbeam.collection.collection import Attribute, Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.epochs import Epochs
from ldpbeam.collection.slices import Slices
from ldpbeam.collection.string_domain import StringDomain
from ldpbeam.hashing.strings import Strings
from ldpbeam.protocols import PROTOCOLS, Parameters

SIZE = 6
EPOCHS = Epochs(3600, 0, 10_000)
LEVELS: dict[str, Any] = {"epsilon": 1.0, "epsilon_longitudinal": 2.0, "epsilon_first": 1.0, "d": 2}


def of(protocol: str, size: int = SIZE, **more: Any) -> Collection:
    """One attribute; whole numbers, so that means can be asked for too."""
    domain = Domain(size, maximum=size - 1.0)
    return Collection(protocol, 1, domain, protocol, Parameters(**(LEVELS | more)), EPOCHS)


def several(allocation: str, protocol: str, sizes: tuple[int, ...] = (3, 4), **more: Any) -> Collection:
    """Several attributes."""
    attributes = tuple(Attribute(f"a{i}", Domain(size, maximum=size - 1.0)) for i, size in enumerate(sizes))
    parameters = Parameters(**(LEVELS | more))
    return Collection(
        allocation, 1, None, protocol, parameters, EPOCHS, attributes=attributes, allocation=allocation
    )


COLLECTIONS: dict[str, Collection] = {name: of(name) for name in PROTOCOLS}
COLLECTIONS |= {
    "blh_affine": of("blh", hash_family="affine"),
    "loloha_affine": of("loloha", hash_family="affine"),
    "olh_interval": of("olh", hash_family="interval"),
    "loloha_interval": of("loloha", hash_family="interval"),
    "bilo": of("loloha", g=2, epsilon_first=1.9),
    "clear": of("l_grr", size=2, epsilon_longitudinal=1.0, epsilon_first=0.95),
    "clear_bits": of("l_osue", epsilon_first=1.9),
    "rrpm_flipped": of("one_bit_rrpm", gamma=0.2, segment=1),
    "bit_of_one_bucket": of("dbitflip_pm", d=1),
    "sliced": replace(of("l_grr"), slices=Slices.of({"channel": ["release", "beta"], "arm": ["a b", "é"]})),
    "two_values": of("l_grr", size=2),
    "sample": several("sample", "loloha"),
    "sample_one_round": several("sample", "blh"),
    "split": several("split", "l_osue", epsilon_longitudinal=6.0, epsilon_first=3.0),
    "split_one_round": several("split", "grr", (3, 3, 3), epsilon=3.0),
    "allomfree": several("allomfree", "", (2, 12)),
    "together": several("together", "one_bit_mean", (4, 4, 4)),
    "together_memoised": several("together", "one_bit_rrpm", (4, 4), epsilon_longitudinal=1.0, gamma=0.2),
    "strings": Collection(
        "strings",
        1,
        StringDomain(strings=Strings.of(8, "abcdefghijklmnop")),
        "loloha",
        Parameters(epsilon_longitudinal=2.0, epsilon_first=1.5, g=2),
        EPOCHS,
    ),
}
