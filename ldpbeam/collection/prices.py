"""What reports of a collection spend of a device's budget, by its guarantee."""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple

from ldpbeam.protocols.contract import LocalProtocol


class Price(NamedTuple):
    """Of an attribute, or prefix length: ε of a memoised input, and how many of these there are at most."""

    epsilon: float
    inputs: int


class Prices(NamedTuple):
    """What counts is ``parts``; where it is empty nothing is memoised, and each report spends ``report``."""

    report: float
    parts: tuple[Price, ...] = ()


def prices_of(protocol: LocalProtocol[Any]) -> Prices:
    """The prices; their logarithms in 60 digits take longer than a report."""
    whole = protocol.guarantee
    if whole.memoised_ratio is None:
        return Prices(whole.first_report)
    # Attributes of equal domains are one and the same protocol.
    guarantees = {id(part): part.guarantee for part in protocol.parts}
    prices = {
        part: Price(one.per_memoised_input or inf, one.memoised_inputs or 0)
        for part, one in guarantees.items()
    }
    return Prices(whole.first_report, tuple(prices[id(part)] for part in protocol.parts))
