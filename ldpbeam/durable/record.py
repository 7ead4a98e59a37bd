"""Frozen dataclasses as records of JSON, and back: a key for each field, read by the field's type.

A class attribute ``KEYS`` has the keys that differ from the names of fields. A class whose record is of
another shape has methods ``as_record`` and ``from_record`` of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import lru_cache
from itertools import repeat
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

Kind = TypeVar("Kind")

MOST = 1 << 53
"""No number of a record is larger: everything counted is below it, and a chart can draw it."""


def number(raw: Any) -> Any:
    """A number of a JSON document, as it is."""
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        raise TypeError(f"a number is needed, not {type(raw).__name__}")
    if not -MOST <= raw <= MOST:
        raise ValueError("a number is too large")
    return raw


def whole(raw: Any) -> int:
    """A whole number of a JSON document."""
    if not isinstance(raw, int):
        raise TypeError(f"a whole number is needed, not {type(raw).__name__}")
    return int(number(raw))


def read_fields(kind: type[Kind], record: Mapping[str, Any], **given: Any) -> Kind:
    """The dataclass ``kind`` from a record, which may lack fields that have a default, or hold null there."""
    for name, key, hint, needed in _fields(kind):  # type: ignore[arg-type]
        if name not in given and (needed or record.get(key) is not None):
            given[name] = _read(hint, record[key])
    return kind(**given)


def write_fields(value: Any) -> dict[str, Any]:
    """The record of a dataclass, keys in the order of its fields, without those that have their default."""
    held = ((_key(value, each.name), getattr(value, each.name), each.default) for each in fields(value))
    return {key: _written(own) for key, own, default in held if own != default}


def _read(kind: Any, raw: Any) -> Any:  # noqa: PLR0911 - a case for each kind of type
    origin, inner = get_origin(kind), get_args(kind)
    if origin is UnionType:
        return None if raw is None else _read(next(one for one in inner if one is not NoneType), raw)
    if origin is tuple:
        several = inner[-1] is Ellipsis
        return tuple(
            _read(one, each)
            for one, each in zip(repeat(inner[0], len(raw)) if several else inner, raw, strict=True)
        )
    if origin is list:
        return [_read(inner[0], each) for each in raw]
    if origin in (Mapping, dict):
        return {_read(inner[0], name): _read(inner[1], each) for name, each in raw.items()}
    if is_dataclass(kind):
        own = getattr(kind, "from_record", None)
        return own(raw) if own else read_fields(kind, raw)  # type: ignore[arg-type]
    if kind in (int, float):
        return whole(raw) if kind is int else number(raw)
    if kind is not Any and not isinstance(raw, kind):
        raise TypeError(f"{kind.__name__} is needed, not {type(raw).__name__}")
    return raw


def _written(value: Any) -> Any:
    if hasattr(value, "as_record"):
        return value.as_record()
    if is_dataclass(value):
        return write_fields(value)
    if isinstance(value, tuple | list):
        return list(map(_written, value))
    return dict(value) if isinstance(value, Mapping) else value


@lru_cache
def _fields(kind: Any) -> list[tuple[str, str, Any, bool]]:
    """Name, key, type, and whether a field has no default."""
    hints = get_type_hints(kind)
    return [
        (each.name, _key(kind, each.name), hints[each.name], each.default is each.default_factory is MISSING)
        for each in fields(kind)
    ]


def _key(of: Any, name: str) -> str:
    return str(getattr(of, "KEYS", {}).get(name, name))
