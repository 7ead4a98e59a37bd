"""What is found of texts that nobody listed, before there is any report, and the sentences about it."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite, sqrt

from ldpbeam.estimation.prefix_plan import PlannedWalk, law_variance
from ldpbeam.planning.quantity import points
from ldpbeam.planning.spread import WIDE
from ldpbeam.protocols.prefixes import Prefixes

SHOWN = (
    "a string that many devices hold is published as it stands, a rare one is not found: ask for nothing "
    "that names a person"
)


def planned(protocol: Prefixes) -> PlannedWalk:
    strings, level = protocol.strings, protocol.estimator.level
    own = float(level.symbol[0])
    return PlannedWalk(own, level.g, strings.lengths, strings.weights, len(strings.alphabet))


def smallest_found(protocol: Prefixes, devices: float) -> tuple[float, float]:
    """The smallest share of the devices whose string is found in 95 of 100 cases, infinite where none is, and
    half of the width of its interval."""
    walk, asked = planned(protocol), float(protocol.share)
    least = walk.smallest_share(devices)
    of_least = law_variance(min(least, 1.0), walk.own, walk.g, asked)
    return least, WIDE * sqrt(of_least / (devices * asked))


def strings_found(least: float | None, half_width: float) -> str:
    if least is None or not isfinite(least):
        return "no string is sure to be found, even if all devices hold the same one"
    return (
        f"a string of {points(least)} % of them is found in 95 of 100 cases, and its share is known to "
        f"±{points(half_width)} points (95 %)"
    )


def lengths_drawn(protocol: Prefixes) -> str:
    strings = protocol.strings
    drawn = ", ".join(
        f"{length} ({weight / sum(strings.weights):.0%})"
        for length, weight in zip(strings.lengths, strings.weights, strict=True)
    )
    return f"a device draws a prefix length for life: {drawn}"


def what_devices_do(protocol: Prefixes) -> Iterator[str]:
    """How a string becomes the fingerprint that a device reports."""
    strings = protocol.strings
    folded = ", A to Z taken for a to z" if strings.fold else ""
    outside = "others are left out, and a longer string is cut"
    if not strings.drop:
        outside = "a string with others, or a longer one, is reported as one that cannot be written"
    yield f"a string has up to {strings.max_length} of the symbols {strings.symbols!r}{folded}; {outside}"
    yield f"{lengths_drawn(protocol)}; its value is 32 bits of that prefix's SHA-256"


COUNTED = "C(length, s, y) = number of reports of that length whose function s gives the symbol y"
ESTIMATED = (
    "from the shortest length to the longest, a prefix is kept that more reports name than chance explains, "
    "and tried with all symbols behind it",
    "what is found at the end: in at most 5 of 100 epochs it holds a string that no device holds",
    "intervals hold after that choice",
)
