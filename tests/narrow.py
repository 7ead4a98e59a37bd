"""Types that a test knows and its reader cannot see: each function looks, then says so."""

from __future__ import annotations

from typing import Any, TypeVar

from ldpbeam.protocols import FrequencyProtocol
from ldpbeam.protocols.contract import SupportProtocol

Value = TypeVar("Value")
Kind = TypeVar("Kind")


def present(value: Value | None) -> Value:
    """A value that is there."""
    assert value is not None
    return value


def of_kind(kind: type[Kind], value: object) -> Kind:
    """A value that is an instance of a class."""
    assert isinstance(value, kind), f"{value!r} is no {kind.__name__}"
    return value


def supporting(protocol: object) -> SupportProtocol[Any]:
    """A protocol whose reports support values, whatever it estimates from them."""
    assert isinstance(protocol, SupportProtocol)
    return protocol


def frequencies(protocol: object) -> FrequencyProtocol[Any]:
    """A protocol whose reports support values."""
    assert isinstance(protocol, FrequencyProtocol)
    return protocol
