"""Slow, obvious counting and hashing in plain Python, to be compared with the fast code.

Nothing here is shared with ``ldpbeam``'s array methods: integers of any length, no numpy, no
transforms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import ceil
from typing import Any

from ldpbeam.protocols.contract import SupportProtocol


def count_support(protocol: SupportProtocol[Any], payloads: Iterable[bytes]) -> list[int]:
    """Support of every value: ask every report about every value, and equal ones once for all of them."""
    counts, supports = [0] * protocol.domain_size, protocol.law.supports
    for payload, times in Counter(payloads).items():
        response = protocol.device.decode(payload)
        for value in range(protocol.domain_size):
            if supports(response, value):
                counts[value] += times
    return counts


def count_reports(protocol: SupportProtocol[Any], payloads: Iterable[bytes]) -> list[int]:
    """Reports behind every value: all, or those that sampled it."""
    everyone = range(protocol.domain_size)
    counts = [0] * protocol.domain_size
    for payload in payloads:
        for value in getattr(protocol.device.decode(payload), "indices", everyone):
            counts[value] += 1
    return counts


def digits(number: int, base: int, length: int) -> list[int]:
    """Digits of a number, least significant first."""
    found = []
    for _ in range(length):
        number, digit = divmod(number, base)
        found.append(digit)
    assert number == 0, "the number has more digits"
    return found


def linear_hash(seed: int, value: int, g: int, length: int) -> int:
    """⟨s, v⟩ mod g."""
    pairs = zip(digits(seed, g, length), digits(value, g, length), strict=True)
    return sum(s * v for s, v in pairs) % g


def linear_transform(table: Sequence[Sequence[int]], g: int, size: int) -> list[int]:
    """C(v) = Σ_s T[s][⟨s, v⟩ mod g], from the table T with a row per vector s (the zero one included)."""
    length = 0
    while g**length < len(table):
        length += 1
    return [sum(row[linear_hash(s, v, g, length)] for s, row in enumerate(table)) for v in range(size)]


def affine_hash(a: int, c: int, value: int, g: int, bits: int = 64) -> int:
    """The upper half of (a·v + c) mod 2**bits, scaled to g symbols. ``bits`` is 64 on devices."""
    half = bits // 2
    upper = ((a * value + c) & ((1 << bits) - 1)) >> half
    return upper * g >> half


def cuts(seed: int, g: int, size: int) -> list[int]:
    """Where the function ``seed`` of the interval family cuts 0 .. size − 1: before each of these values."""
    shares = (i + (Fraction(11**i * seed % 64) + Fraction(1, 2)) / 64 for i in range(g - 1))
    return [ceil(share / (g - 1) * (size - 1)) for share in shares]


def interval_hash(seed: int, value: int, g: int, size: int) -> int:
    """How many cuts are at most the value."""
    return sum(cut <= value for cut in cuts(seed, g, size))
