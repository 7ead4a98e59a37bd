"""A collection as plain JSON values: what a run's record keeps, so that the collection can be had again.

The message (:meth:`Collection.to_message`) is what devices need, with what the protocol worked out; this is
what the file said, with which a server can count again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.domain import Attribute, Domain
from ldpbeam.collection.epochs import Epochs
from ldpbeam.collection.participation import Participation
from ldpbeam.collection.slices import Slices
from ldpbeam.collection.string_domain import StringDomain
from ldpbeam.errors import CollectionError
from ldpbeam.hashing.strings import Strings
from ldpbeam.protocols import Parameters
from ldpbeam.protocols.parameters import PARAMETER_KEYS, ParameterKind

_PLAIN = (
    *("name", "version", "protocol_name", "owner", "allowed_lateness", "consistency", "min_reports"),
    *("future_tolerance", "retired", "allocation"),
)


def definition(collection: Collection) -> dict[str, Any]:
    """Everything that makes the collection, for JSON."""
    parameters = {**asdict(collection.parameters), "calibration": collection.parameters.calibration.value}
    epochs = collection.epochs
    return {
        **{name: getattr(collection, name) for name in _PLAIN},
        "digest": collection.digest_hex,
        "domain": _domain_record(collection.domain) if collection.domain else None,
        "attributes": [{"name": a.name, "domain": _domain_record(a.domain)} for a in collection.attributes],
        "parameters": parameters,
        "epochs": {"length": epochs.length, "origin": epochs.origin, "count": epochs.count},
        **({"participation": few.as_record()} if (few := collection.participation) else {}),
        **({"slices": collection.slices.as_record()} if collection.slices else {}),
    }


def collection_of(record: Mapping[str, Any]) -> Collection:
    """The collection of a :func:`definition`, equal to the one that it was made of."""
    try:
        domain = record["domain"]
        made = Collection(
            **{name: record[name] for name in _PLAIN},
            domain=_domain(domain) if domain else None,
            attributes=tuple(Attribute(a["name"], _domain(a["domain"])) for a in record["attributes"]),
            parameters=_parameters(record["parameters"]),
            epochs=Epochs(*(record["epochs"][name] for name in ("length", "origin", "count"))),
            participation=Participation(**record["participation"]) if "participation" in record else None,
            slices=Slices.of(record.get("slices", {})),
        )
        digest, computed = record["digest"], made.digest_hex
    except CollectionError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise _damaged(f"{type(error).__name__}: {error}") from None
    if computed != digest:
        raise _damaged(f"its digest would be {computed}")
    return made


def _parameters(record: Mapping[str, Any]) -> Parameters:
    """Parameters of a protocol; an integer outside its limits may cost time without end."""
    parameters: dict[str, Any] = {}
    for name, value in record.items():
        key = PARAMETER_KEYS[name]
        choice = value is not None and key.kind is ParameterKind.CHOICE
        parameters[name] = key.convert(value) if choice else value
        counted = key.kind is ParameterKind.INTEGER and value not in (None, key.default)
        if counted and not key.least <= value <= key.most:
            raise ValueError(f"{name} is outside its limits")
    return Parameters(**parameters)


def _domain_record(domain: Domain) -> dict[str, Any]:
    if isinstance(domain, StringDomain):
        return {"strings": asdict(domain.strings)}
    labels = None if domain.labels is None else list(domain.labels)
    other = {} if domain.other is None else {"other": domain.other}
    ordered = {"ordered": True} if domain.ordered else {}
    atoms = {"atoms": list(domain.atoms)} if domain.atoms else {}
    return {"size": domain.size, "labels": labels, "maximum": domain.maximum, **other, **ordered, **atoms}


def _domain(record: Mapping[str, Any]) -> Domain:
    if "strings" in record:
        rule = dict(record["strings"])
        lengths, weights = tuple(rule.pop("lengths")), tuple(rule.pop("weights"))
        return StringDomain(strings=Strings(**rule, lengths=lengths, weights=weights))
    labels = None if record["labels"] is None else tuple(record["labels"])
    more = record.get("other"), record.get("ordered", False), tuple(record.get("atoms", ()))
    return Domain(record["size"], labels, record["maximum"], *more)


def _damaged(why: str) -> CollectionError:
    return CollectionError(
        "E-COLLECTION-FILE",
        f"a collection cannot be made again of its definition ({why})",
        remedy="Give its file with --collection.",
    )
