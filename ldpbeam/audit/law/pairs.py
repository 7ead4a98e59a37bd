"""The pairs of values that an audit compares, and the model of a protocol's reports about one."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Any

from ldpbeam.hashing.strings import Strings
from ldpbeam.protocols.contract import LocalProtocol
from ldpbeam.protocols.history_model import Model
from ldpbeam.protocols.prefixes import Prefixes

_TEXTS = 48
"""Texts that are held in turn."""


class Text(tuple[int, ...]):
    """The value of a device that holds a text: its fingerprints. A client is given the text itself."""

    text: str

    def __str__(self) -> str:
        """The text for people."""
        return repr(self.text)


@lru_cache(maxsize=4)
def texts_of(strings: Strings) -> tuple[Text, ...]:
    """Texts with and without a common prefix; the first two share the shortest of several lengths."""
    symbols, most = strings.symbols, strings.max_length
    shared = strings.lengths[0] if len(strings.lengths) > 1 else 0
    first = symbols[0] * most
    foreign = next(sign for sign in map(chr, range(0xE9, 0x400)) if sign not in symbols)
    chosen = [
        first,
        first[:shared] + symbols[-1] * (most - shared),
        "",
        first + symbols[0],
        f"{foreign}{symbols[1]}",
    ]
    coins = random.Random(1)  # noqa: S311 - which texts are asked about is no secret, and the same every time
    for length in strings.lengths * _TEXTS:
        common = coins.randrange(length)
        chosen.append(first[:common] + "".join(coins.choices(symbols, k=length - common)))
    found = []
    for text in dict.fromkeys(chosen):
        value = Text(strings.fingerprints(text))
        value.text = text
        found.append(value)
    return tuple(dict.fromkeys(found))[:_TEXTS]


def audited_pair(protocol: LocalProtocol[Any]) -> tuple[Any, Any]:
    """The two values that are compared: the first one and the last one, of every attribute."""
    parts = protocol.parts
    if isinstance(protocol, Prefixes):
        first, second, *_ = texts_of(protocol.strings)
        return first, second
    if not protocol.SEVERAL:
        return 0, protocol.domain_size - 1
    most = protocol.device.sum_limit
    if most is not None:
        # The sum is bounded, so one counter has it all.
        return (most, *(0 for _ in parts[1:])), (*(0 for _ in parts[1:]), most)
    return tuple(0 for _ in parts), tuple(part.domain_size - 1 for part in parts)


def pair_with(protocol: LocalProtocol[Any], value: Any) -> tuple[Any, Any]:
    """A pair whose second value is the given one; the first differs from it in every attribute."""
    mine = value if protocol.SEVERAL else (value,)
    other = tuple((own + 1) % part.domain_size for own, part in zip(mine, protocol.parts, strict=True))
    return (other, value) if protocol.SEVERAL else (other[0], value)


def model_of(protocol: LocalProtocol[Any], pair: tuple[Any, Any] | None = None) -> Model:
    """The model of a protocol's reports about two texts, or two values that differ in every attribute."""
    return protocol.law.model(pair or audited_pair(protocol))
