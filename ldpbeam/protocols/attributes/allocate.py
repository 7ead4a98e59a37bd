"""The protocol of a collection with several attributes, by the name of its allocation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import nextafter
from typing import Any

from ldpbeam.errors import CollectionError
from ldpbeam.protocols import protocol
from ldpbeam.protocols.attributes.base import AttributeProtocol
from ldpbeam.protocols.attributes.bounded_counters import BoundedCounters, bounded_counters
from ldpbeam.protocols.attributes.sample import Allomfree, Sample
from ldpbeam.protocols.attributes.split import Split
from ldpbeam.protocols.contract import FrequencyProtocol
from ldpbeam.protocols.direct import LGRR
from ldpbeam.protocols.parameters import LEVELS, Parameters
from ldpbeam.protocols.unary import LOSUE

ALLOCATIONS: dict[str, type[AttributeProtocol[Any]]] = {
    kind.NAME: kind for kind in (Sample, Split, Allomfree, BoundedCounters)
}
"""Ways to report several attributes, by the name that a collection file uses."""


def allocate(
    allocation: str, protocol_name: str | None, sizes: Sequence[int], parameters: Parameters
) -> AttributeProtocol[Any]:
    if allocation not in ALLOCATIONS:
        raise CollectionError(
            "E-COLLECTION-VALUE",
            f"allocation {allocation!r} does not exist",
            key="allocation",
            remedy=f"Use one of: {', '.join(ALLOCATIONS)}.",
        )
    if not 2 <= len(sizes) <= 1 << 16:
        raise CollectionError(
            "E-COLLECTION-VALUE",
            f"allocation is for 2 to 65536 attributes, not {len(sizes)}",
            key="attributes",
            remedy="Use domain for a single attribute.",
        )
    if allocation == Allomfree.NAME:
        if protocol_name:
            raise CollectionError(
                "E-COLLECTION-VALUE",
                "allomfree chooses the protocol of each attribute itself",
                key="protocol",
                remedy="Remove protocol, or use allocation: sample.",
            )
        better = {size: _better(size, parameters) for size in set(sizes)}
        return Allomfree(tuple(better[size] for size in sizes))
    if not protocol_name:
        raise CollectionError(
            "E-COLLECTION-KEY",
            f"allocation {allocation} needs a protocol",
            key="allocation",
            remedy="Add it, for example protocol: loloha.",
        )
    if allocation == Split.NAME:
        parameters = _share(parameters, len(sizes))
    made = {size: protocol(protocol_name, size, parameters) for size in set(sizes)}
    parts = tuple(made[size] for size in sizes)
    if allocation == BoundedCounters.NAME:
        return bounded_counters(parts)
    return Sample(parts) if allocation == Sample.NAME else Split(parts)


def _better(size: int, parameters: Parameters) -> FrequencyProtocol[int]:
    """The candidate of least V* at that size, exactly; L-GRR on a tie, as in the paper."""
    candidates = (LGRR.from_parameters(size, parameters), LOSUE.from_parameters(size, parameters))
    return min(candidates, key=lambda built: built.estimator.support.floor)


def _share(parameters: Parameters, attributes: int) -> Parameters:
    """Every level divided, rounded so that the shares never add up to more than the whole."""
    shares: dict[str, Any] = {}
    for name in LEVELS:
        if getattr(parameters, name) is None:
            continue
        whole = parameters.level(name)
        share = whole / attributes
        if Fraction(share) * attributes > Fraction(whole):
            share = nextafter(share, 0.0)
        shares[name] = share
        if share < 1e-6:
            raise CollectionError(
                "E-COLLECTION-VALUE",
                f"{name} = {whole:g} leaves {share:.3g} for each of {attributes} attributes, below 0.000001",
                key=name,
                remedy=f"Raise {name}, or use allocation: sample.",
            )
    return replace(parameters, **shares)
