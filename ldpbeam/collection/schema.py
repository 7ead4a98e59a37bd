"""A JSON Schema of the collection file, for editors: made from the same tables as the reader.

It says which keys there are, how their values are written and which go together. What needs arithmetic, such
as that ε1 lies below ε∞, stays with the reader (:mod:`ldpbeam.collection.file`), which is stricter.
"""

from __future__ import annotations

from typing import Any

from ldpbeam.collection.collection import MANY_IN_ORDER, MANY_VALUES
from ldpbeam.collection.domain import MAX_DOMAIN
from ldpbeam.collection.epochs import DEFAULT_COUNT
from ldpbeam.collection.file import KEYS
from ldpbeam.collection.participation import LONGEST
from ldpbeam.protocols import PROTOCOLS, LocalProtocol
from ldpbeam.protocols.attributes.allocate import ALLOCATIONS
from ldpbeam.protocols.attributes.sample import Allomfree
from ldpbeam.protocols.parameters import PARAMETER_KEYS, ParameterKey, ParameterKind

_NAME = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$"}
_DURATION = {
    "anyOf": [{"type": "string", "pattern": "^\\s*(0|([0-9]+[smhdwSHDW])+)\\s*$"}, {"const": 0}],
    "description": "Such as 90s, 15m, 6h, 1d12h or 2w.",
}
_INSTANT = {
    "type": "string",
    "description": "ISO 8601 with a time zone, such as 2026-01-01T00:00:00Z.",
}
# An editor reads yes, 1.0 and null as what YAML takes them for; the reader takes the text as it is written.
_LABEL = {"type": ["string", "number", "boolean", "null"]}


def collection_schema() -> dict[str, Any]:
    """JSON Schema, draft 2020-12, of one collection file."""
    from ldpbeam.consistency import NAMES

    domain = {
        "type": "object",
        "properties": {
            "size": {"type": "integer", "minimum": 2, "maximum": MAX_DOMAIN},
            "labels": {"type": "array", "items": _LABEL, "minItems": 2, "uniqueItems": True},
            "other": _LABEL,
            "ordered": {"type": "boolean", "description": "Whether the order of the values means something."},
            "atoms": {
                "type": "array",
                "items": _LABEL,
                "minItems": 1,
                "uniqueItems": True,
                "description": "Labels or numbers that may be far more frequent than values near them; "
                "for hash_family: interval.",
            },
            "range": {
                "type": "object",
                "properties": {
                    "max": {"type": "number", "exclusiveMinimum": 0},
                    "buckets": {"type": "integer", "minimum": 2, "maximum": MAX_DOMAIN},
                },
                "required": ["max"],
                "additionalProperties": False,
            },
        },
        "additionalProperties": False,
        "oneOf": [{"required": ["size"]}, {"required": ["labels"]}, {"required": ["range"]}],
        "dependentRequired": {"other": ["labels"]},
    }
    attribute = {
        "type": "object",
        "properties": {"name": _NAME, "domain": domain},
        "required": ["name", "domain"],
        "additionalProperties": False,
    }
    known: dict[str, Any] = {
        "name": _NAME,
        "version": {"type": "integer", "minimum": 1, "maximum": (1 << 32) - 1, "default": 1},
        "owner": {"type": "string", "description": "Whom to ask."},
        "domain": domain,
        "attributes": {"type": "array", "items": attribute, "minItems": 2},
        "allocation": {"enum": list(ALLOCATIONS)},
        "protocol": {"enum": list(PROTOCOLS)},
        **{name: _parameter(key) for name, key in PARAMETER_KEYS.items()},
        "epoch": {
            "type": "object",
            "properties": {
                "length": _DURATION,
                "origin": _INSTANT,
                "count": {"type": "integer", "minimum": 1, "default": DEFAULT_COUNT},
            },
            "required": ["length"],
            "additionalProperties": False,
        },
        "participation": {
            "type": "object",
            "properties": {
                "reports": {"type": "integer", "minimum": 1, "maximum": LONGEST},
                "of": {"type": "integer", "minimum": 1, "maximum": LONGEST},
            },
            "required": ["reports", "of"],
            "additionalProperties": False,
        },
        "allowed_lateness": _DURATION,
        "consistency": {
            "enum": list(NAMES),
            "description": f"norm_sub unless given; bayes for {MANY_VALUES} values or more; ordered for "
            f"{MANY_IN_ORDER} values or more that are in an order.",
        },
        "min_reports": {"type": "integer", "minimum": 1, "default": 1},
        "future_tolerance": _DURATION,
        "retired": _INSTANT,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "ldpbeam collection",
        "type": "object",
        "properties": {name: known[name] for name in KEYS},
        "additionalProperties": False,
        "required": ["name", "epoch"],
        "oneOf": [{"required": ["domain"]}, {"required": ["attributes", "allocation"]}],
        "dependentRequired": {"allocation": ["attributes"]},
        "allOf": [
            {
                "if": {"properties": {"allocation": {"const": Allomfree.NAME}}, "required": ["allocation"]},
                "then": _takes(ALLOCATIONS[Allomfree.NAME]),
                "else": {"required": ["protocol"]},
            },
            *(
                {
                    "if": {"properties": {"protocol": {"const": name}}, "required": ["protocol"]},
                    "then": _takes(kind),
                }
                for name, kind in PROTOCOLS.items()
            ),
        ],
    }


def _parameter(key: ParameterKey) -> dict[str, Any]:
    """How the value of a key about the protocol is written."""
    kinds: dict[ParameterKind, dict[str, Any]] = {
        ParameterKind.LEVEL: {"type": "number", "minimum": 1e-6, "maximum": 32},
        ParameterKind.NUMBER: {"type": "number"},
        ParameterKind.INTEGER: {"type": "integer", "minimum": key.least, "maximum": key.most},
        ParameterKind.CHOICE: {"enum": list(key.choices)},
    }
    schema = kinds[key.kind]
    if key.default is not None:
        schema = schema | {"default": getattr(key.default, "value", key.default)}
    return {"anyOf": [{"const": key.word}, schema]} if key.word else schema


def _takes(kind: type[LocalProtocol[Any]]) -> dict[str, Any]:
    """The keys that a protocol needs, and those that it refuses; keys without effect are let through."""
    refused = [
        name
        for name, key in PARAMETER_KEYS.items()
        if name not in (*kind.PARAMETERS, *kind.OPTIONAL) and not key.harmless
    ]
    return {"required": list(kind.PARAMETERS), "properties": dict.fromkeys(refused, False)}
