"""What a device in another language is given of a collection: JSON with every integer worked out.

Such a device computes no exponential and knows no calibration; docs/wire.md says what it does with this.
"""

from __future__ import annotations

import json
from typing import Any

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.prices import Prices
from ldpbeam.collection.string_domain import StringDomain
from ldpbeam.protocols import LocalProtocol
from ldpbeam.protocols.prefixes import Prefixes

FORMAT = "ldpbeam device definition 1"
"""Names the format; a change that devices must know about gets another number."""

WITH_PARTICIPATION = "ldpbeam device definition 2"
"""The format of a collection with participation: a device that does not know it would report too often."""


def device_definition(collection: Collection) -> dict[str, Any]:
    epochs, attributes, few = collection.epochs, collection.attributes, collection.participation
    return {
        "format": FORMAT if few is None else WITH_PARTICIPATION,
        "name": collection.name,
        "version": collection.version,
        "digest": collection.digest_hex,
        "full_digest": collection.full_digest.hex(),
        "epochs": {
            "length_seconds": epochs.length,
            "origin_seconds": epochs.origin,
            "count": epochs.count,
        },
        **({} if few is None else {"participation": few.as_record()}),
        **({"slices": _slices(collection)} if collection.slices else {}),
        "domain": None if collection.domain is None else _domain(collection.domain),
        "attributes": [{"name": one.name, "domain": _domain(one.domain)} for one in attributes],
        "protocol": _protocol(collection.protocol, several=bool(attributes)),
        "spending": _spending(collection.prices),
    }


def device_definition_text(collection: Collection) -> str:
    """The definition as a file holds it: ASCII, and the same bytes for the same collection."""
    return json.dumps(device_definition(collection), indent=1, allow_nan=False) + "\n"


def _spending(prices: Prices) -> dict[str, Any]:
    return {"report": prices.report, "parts": [one._asdict() for one in prices.parts]}


def _slices(collection: Collection) -> list[dict[str, Any]]:
    return [{"name": one.name, "labels": list(one.labels)} for one in collection.slices.dimensions]


def _domain(domain: Domain) -> dict[str, Any]:
    if isinstance(domain, StringDomain):
        strings = domain.strings
        rule = {"max_length": strings.max_length, "symbols": strings.symbols}
        return {
            "strings": {**rule, "fold": strings.fold, "drop": strings.drop, "lengths": list(strings.lengths)}
        }
    labels = None if domain.labels is None else list(domain.labels)
    return {"size": domain.size, "labels": labels, "maximum": domain.maximum, "other": domain.other}


def _protocol(protocol: LocalProtocol[Any], *, several: bool = False) -> dict[str, Any]:
    parts: dict[str, Any] = {"parts": [_protocol(part) for part in protocol.parts]} if several else {}
    if isinstance(protocol, Prefixes):
        parts = {"level": _protocol(protocol.parts[0])}
    return {
        "id": protocol.ID,
        "name": protocol.NAME,
        "encoding": protocol.device.ENCODING,
        "domain_size": protocol.domain_size,
        "payload_size": protocol.device.payload_size,
        **protocol.device.definition(),
        **parts,
    }
