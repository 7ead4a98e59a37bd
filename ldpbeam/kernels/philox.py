"""Random words of a counter: Philox4x64-10, as numpy's ``Philox`` has it, inside kernels.

A pure function of its arguments: four words for every 256-bit counter and 128-bit key (Salmon, Moraes, Dror,
Shaw: Parallel random numbers: as easy as 1, 2, 3; SC 2011). Nothing is remembered between calls, so a word
depends on nothing but its address.

The counter's words are, low to high, a place, a number that is counted up where a place needs more words, and
two that name a stream. A ``stream`` is uint64 (4,): these two, then the key.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldpbeam.kernels.jit import inlined, kernel

_ROUNDS = 10
_MULTIPLIERS = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
_STEPS = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)


@inlined
def product(a: Any, b: Any) -> Any:
    """The upper and the lower 64 bits of the product of two uint64; compilers know one instruction for it."""
    upper, lower, other, under = a >> _HALF, a & _LOW, b >> _HALF, b & _LOW
    cross = upper * under + (lower * under >> _HALF)
    rest = (cross & _LOW) + lower * other
    return upper * other + (cross >> _HALF) + (rest >> _HALF), a * b


@inlined
def four(place: Any, number: Any, stream: Any) -> Any:
    """The four words at one counter, uint64 each."""
    a, b, c, d = place, number, stream[0], stream[1]
    k, m = stream[2], stream[3]
    for _ in range(_ROUNDS):
        high, low = product(_MULTIPLIERS[0], a)
        other, under = product(_MULTIPLIERS[1], c)
        a, b, c, d = other ^ b ^ k, under, high ^ d ^ m, low
        k += _STEPS[0]
        m += _STEPS[1]
    return a, b, c, d


@kernel
def draw(first: Any, most: Any, mask: Any, stream: Any, out: Any) -> None:
    """out[i] = word ``first + i`` of a stream, at most ``most``."""
    at: Any = 0
    n = out.size
    place = (first >> np.uint64(2)) + np.uint64(1)
    lane: Any = np.int64(first & np.uint64(3))
    while at < n:
        words = four(place, np.uint64(0), stream)
        if lane == 0 and at + 4 <= n:
            out[at], out[at + 1], out[at + 2], out[at + 3] = words
            at += 4
        else:
            while lane < 4 and at < n:
                out[at] = words[lane]
                lane += 1
                at += 1
            lane = 0
        place += np.uint64(1)
    if most == ~np.uint64(0):
        return
    for i in range(n):
        word = out[i] & mask
        number = np.uint64(0)
        while word > most:
            number += np.uint64(1)
            position = first + np.uint64(i)
            words = four((position >> np.uint64(2)) + np.uint64(1), number, stream)
            word = words[np.int64(position & np.uint64(3))] & mask
        out[i] = word
