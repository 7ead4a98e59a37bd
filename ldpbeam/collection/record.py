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
from ldpbeam.errors import CollectionError
from ldpbeam.protocols import Parameters
from ldpbeam.protocols.parameters import PARAMETER_KEYS, ParameterKind

_PLAIN: dict[str, Any] = {
    "name": str,
    "version": int,
    "protocol_name": str,
    "owner": str,
    "allowed_lateness": int,
    "consistency": str,
    "min_reports": int,
    "future_tolerance": int | None,
    "retired": int | None,
    "allocation": str,
}
_EPOCHS = ("length", "origin", "count")


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
        **_participation_record(collection),
    }


def collection_of(record: Mapping[str, Any]) -> Collection:
    """The collection of a :func:`definition`, equal to the one that it was made of."""
    try:
        domain = record["domain"]
        plain = {name: _typed(record[name], kind, name) for name, kind in _PLAIN.items()}
        made = Collection(
            **plain,
            domain=_domain(domain) if domain else None,
            attributes=tuple(
                Attribute(_typed(a["name"], str, "name"), _domain(a["domain"])) for a in record["attributes"]
            ),
            parameters=_parameters(record["parameters"]),
            epochs=Epochs(**{name: _typed(record["epochs"][name], int, name) for name in _EPOCHS}),
            participation=Participation(**record["participation"]) if "participation" in record else None,
        )
        digest, computed = record["digest"], made.digest_hex
    except CollectionError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise _damaged(f"{type(error).__name__}: {error}") from None
    if computed != digest:
        raise _damaged(f"its digest would be {computed}")
    return made


def _typed(value: Any, kind: Any, name: str) -> Any:
    """A value of a type; a truth is no number here."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"{name} cannot be {type(value).__name__}")
    return value


def _parameters(record: Mapping[str, Any]) -> Parameters:
    """Parameters of a protocol, within the limits of a collection file."""
    parameters: dict[str, Any] = {}
    for name, value in record.items():
        key = PARAMETER_KEYS.get(name)
        if key is None:
            raise ValueError("it has an unknown parameter")
        if value is None:
            parameters[name] = None
        elif key.kind is ParameterKind.CHOICE:
            parameters[name] = key.convert(_typed(value, str, name))
        elif key.kind is ParameterKind.INTEGER:
            parameters[name] = _typed(value, int, name)
            if not key.least <= value <= key.most and value != key.default:
                raise ValueError(f"{name} is outside its limits")
        else:
            parameters[name] = _typed(value, int | float, name)
    return Parameters(**parameters)


def _participation_record(collection: Collection) -> dict[str, Any]:
    participation = collection.participation
    return {} if participation is None else {"participation": participation.as_record()}


def _domain_record(domain: Domain) -> dict[str, Any]:
    labels = None if domain.labels is None else list(domain.labels)
    other = {} if domain.other is None else {"other": domain.other}
    ordered = {"ordered": True} if domain.ordered else {}
    atoms = {"atoms": list(domain.atoms)} if domain.atoms else {}
    return {"size": domain.size, "labels": labels, "maximum": domain.maximum, **other, **ordered, **atoms}


def _domain(record: Mapping[str, Any]) -> Domain:
    labels = record["labels"]
    listed = None
    if labels is not None:
        listed = tuple(_typed(label, str, "a label") for label in _typed(labels, list, "labels"))
    return Domain(
        _typed(record["size"], int, "size"),
        listed,
        _typed(record["maximum"], int | float | None, "maximum"),
        _typed(record.get("other"), int | None, "other"),
        _typed(record.get("ordered", False), bool, "ordered"),
        tuple(_typed(atom, int, "an atom") for atom in _typed(record.get("atoms", []), list, "atoms")),
    )


def _damaged(why: str) -> CollectionError:
    return CollectionError(
        "E-COLLECTION-FILE",
        f"a collection cannot be made again of its definition ({why})",
        remedy="Give its file with --collection.",
    )
