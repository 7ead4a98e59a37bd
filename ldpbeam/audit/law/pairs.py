"""The pairs of values that an audit compares, and the model of a protocol's reports about one."""

from __future__ import annotations

from typing import Any

from ldpbeam.protocols.contract import LocalProtocol
from ldpbeam.protocols.history_model import Model


def audited_pair(protocol: LocalProtocol[Any]) -> tuple[Any, Any]:
    """The two values that are compared: the first one and the last one, of every attribute."""
    parts = protocol.parts
    if len(parts) == 1:
        return 0, protocol.domain_size - 1
    most = protocol.device.sum_limit
    if most is not None:
        # The sum is bounded, so one counter has it all.
        return (most, *(0 for _ in parts[1:])), (*(0 for _ in parts[1:]), most)
    return tuple(0 for _ in parts), tuple(part.domain_size - 1 for part in parts)


def pair_with(protocol: LocalProtocol[Any], value: Any) -> tuple[Any, Any]:
    """A pair whose second value is the given one; the first differs from it in every attribute."""
    mine = value if len(protocol.parts) > 1 else (value,)
    other = tuple((own + 1) % part.domain_size for own, part in zip(mine, protocol.parts, strict=True))
    return (other, value) if len(protocol.parts) > 1 else (other[0], value)


def model_of(protocol: LocalProtocol[Any], pair: tuple[Any, Any] | None = None) -> Model:
    """The model of a protocol's reports about a pair of values, which differ in every attribute."""
    return protocol.law.model(pair or audited_pair(protocol))
