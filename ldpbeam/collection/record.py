"""A collection as plain JSON values: what a run's record keeps, so that the collection can be had again.

The message (:meth:`Collection.to_message`) is what devices need, with what the protocol worked out; this is
what the file said, with which a server can count again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ldpbeam.channels.calibration import Calibration
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.domain import Attribute, Domain
from ldpbeam.collection.epochs import Epochs
from ldpbeam.collection.participation import Participation
from ldpbeam.errors import CollectionError
from ldpbeam.protocols import Parameters

_PLAIN = (
    "name",
    "version",
    "protocol_name",
    "owner",
    "allowed_lateness",
    "consistency",
    "min_reports",
    "future_tolerance",
    "retired",
    "allocation",
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
        **_participation_record(collection),
    }


def collection_of(record: Mapping[str, Any]) -> Collection:
    """The collection of a :func:`definition`, equal to the one that it was made of.

    Raises:
        CollectionError: the definition is damaged, or comes from a version that meant something else by it.
    """
    try:
        domain = record["domain"]
        parameters = dict(record["parameters"])
        made = Collection(
            **{name: record[name] for name in _PLAIN},
            domain=_domain(domain) if domain else None,
            attributes=tuple(Attribute(a["name"], _domain(a["domain"])) for a in record["attributes"]),
            parameters=Parameters(
                **{**parameters, "calibration": Calibration(parameters.get("calibration"))}
            ),
            epochs=Epochs(**record["epochs"]),
            participation=Participation(**record["participation"]) if "participation" in record else None,
        )
        digest = record["digest"]
    except CollectionError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(f"{type(error).__name__}: {error}") from None
    if made.digest_hex != digest:
        raise _damaged(f"its digest would be {made.digest_hex}, not {digest}")
    return made


def _participation_record(collection: Collection) -> dict[str, Any]:
    found = collection.participation
    return {} if found is None else {"participation": found.as_record()}


def _domain_record(domain: Domain) -> dict[str, Any]:
    labels = None if domain.labels is None else list(domain.labels)
    other = {} if domain.other is None else {"other": domain.other}
    ordered = {"ordered": True} if domain.ordered else {}
    return {"size": domain.size, "labels": labels, "maximum": domain.maximum, **other, **ordered}


def _domain(record: Mapping[str, Any]) -> Domain:
    labels = record["labels"]
    listed = None if labels is None else tuple(labels)
    return Domain(record["size"], listed, record["maximum"], record.get("other"), bool(record.get("ordered")))


def _damaged(why: str) -> CollectionError:
    return CollectionError(
        "E-COLLECTION-DEFINITION",
        f"a collection cannot be made again of its definition ({why})",
        remedy="Give its file with --collection.",
    )
