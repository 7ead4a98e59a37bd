"""The protobuf form of what a collection says, and the digest of that form, which travels in every report."""

from __future__ import annotations

import hashlib
from typing import Any

from ldpbeam.collection.domain import Attribute, Domain
from ldpbeam.collection.string_domain import StringDomain
from ldpbeam.hashing.listed import FUNCTIONS
from ldpbeam.protocols import LocalProtocol, Parameters
from ldpbeam.protocols.parameters import LEVELS, PARAMETER_KEYS
from ldpbeam.wire import collection_pb2

SERVER_FIELDS = (
    "owner",
    "allowed_lateness_seconds",
    "consistency",
    "min_reports",
    "future_tolerance_seconds",
    "retired_seconds",
    "slices",
)
"""Fields of the message that are not part of the digest: the server's own, and slices."""


def set_domain(message: collection_pb2.Domain, domain: Domain) -> None:
    """Set the fields of a message to a domain: its size, labels, maximum, label of the rest; or strings."""
    if isinstance(domain, StringDomain):
        strings = domain.strings
        for name in ("max_length", "symbols", "fold", "drop"):
            setattr(message.strings, name, getattr(strings, name))
        message.strings.lengths.extend(strings.lengths)
        message.strings.weights.extend(strings.weights)
        message.strings.functions = FUNCTIONS
        return
    message.size = domain.size
    message.labels.extend(domain.labels or ())
    if domain.maximum is not None:
        message.maximum = domain.maximum
    if domain.other is not None:
        message.other = domain.other


def add_attributes(
    message: collection_pb2.Collection,
    attributes: tuple[Attribute, ...],
    parts: tuple[LocalProtocol[Any], ...],
) -> None:
    """Write every attribute with the protocol that it was given, and what that resolved."""
    for attribute, part in zip(attributes, parts, strict=True):
        entry = message.attributes.add(name=attribute.name, protocol=part.NAME)
        set_domain(entry.domain, attribute.domain)
        _set(entry, part.resolved_parameters())


def taken(kind: type[LocalProtocol[Any]], parameters: Parameters) -> tuple[dict[str, Any], dict[str, Any]]:
    """(levels, choices) that the protocol takes: the parameters that the message has as they were given."""
    levels = {name: parameters.level(name) for name in LEVELS if name in kind.PARAMETERS}
    choices = {
        name: getattr(parameters, name)
        for name, key in PARAMETER_KEYS.items()
        if name in kind.OPTIONAL and not key.resolved and name not in LEVELS
    }
    return levels, {name: getattr(value, "value", value) for name, value in choices.items()}


def set_parameters(
    message: collection_pb2.Collection,
    kind: type[LocalProtocol[Any]],
    parameters: Parameters,
    resolved: dict[str, int | float | str],
) -> None:
    """Write the parameters that the protocol takes, as given or as resolved."""
    levels, choices = taken(kind, parameters)
    _set(message, levels | choices | resolved)


def _set(message: collection_pb2.Collection | collection_pb2.Attribute, values: dict[str, Any]) -> None:
    for name, value in values.items():
        setattr(message, PARAMETER_KEYS[name].name, value)


def canonical(message: collection_pb2.Collection) -> bytes:
    """The canonical form: what devices need to know, serialised in field order."""
    device_facing = collection_pb2.Collection()
    device_facing.CopyFrom(message)
    for name in SERVER_FIELDS:
        device_facing.ClearField(name)
    return device_facing.SerializeToString(deterministic=True)


def full_digest_of(message: collection_pb2.Collection) -> bytes:
    return hashlib.sha256(canonical(message)).digest()


def digest_hex(digest: int) -> str:
    """16 hexadecimal digits of a digest, in the order of the hash's bytes."""
    return digest.to_bytes(8, "little").hex()
