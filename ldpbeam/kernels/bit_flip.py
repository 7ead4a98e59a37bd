"""Kernels of bit-flip protocols: sampled sets of buckets, and payloads of (index, bit) entries.

An entry is the integer 2·index + bit in ``width`` little-endian bytes; a payload holds d of them with
strictly ascending indices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldpbeam.arrays import Bytes, Ints
from ldpbeam.kernels.check_codes import CheckCode
from ldpbeam.kernels.jit import kernel
from ldpbeam.kernels.symbols import integer

_DEGENERATE = np.uint8(CheckCode.DEGENERATE)
_SOUND = np.uint8(CheckCode.SOUND)
_VALUE_OUT_OF_RANGE = np.uint8(CheckCode.VALUE_OUT_OF_RANGE)
_REPEATED_INDEX = np.uint8(CheckCode.REPEATED_INDEX)
_PIECE = 512
"""Entries that are checked at once: few, since one that is wrong costs a closer look at all of them."""


@kernel
def sample(words: Any, b: Any) -> Ints:
    """Draw d of b buckets per row: the first d steps of a Fisher–Yates shuffle, then sorted: int64 (n, d)."""
    half = np.uint64(32)
    low = np.uint64(0xFFFFFFFF)
    n, d = words.shape
    deck, swapped, sets = np.arange(b), np.empty(d, np.int64), np.empty((n, d), np.int64)
    for r in range(n):
        for i in range(d):
            left = np.uint64(b - i)
            word = words[r, i]
            place = ((word >> half) * left + (((word & low) * left) >> half)) >> half
            j = i + np.int64(place)
            deck[i], deck[j] = deck[j], deck[i]
            swapped[i] = j
        for i in range(d):
            # Insertion: d is small, and the payload wants them ascending.
            drawn = deck[i]
            at = i
            while at > 0 and sets[r, at - 1] > drawn:
                sets[r, at] = sets[r, at - 1]
                at -= 1
            sets[r, at] = drawn
        for i in range(d - 1, -1, -1):
            j = swapped[i]
            deck[i], deck[j] = deck[j], deck[i]
    return sets


@kernel
def locate(sets: Any, values: Any) -> Ints:
    """Where values[i], int64 (n,), stands in sets[i], int64 (n, d), or d where it was not sampled."""
    n, d = sets.shape
    positions = np.empty(n, np.int64)
    for r in range(n):
        place = d
        for i in range(d):
            if sets[r, i] == values[r]:
                place = i
        positions[r] = place
    return positions


@kernel
def pack(sets: Any, bits: Any, width: Any) -> Bytes:
    """The entries of every row: uint8 (n, d · width)."""
    n, d = sets.shape
    payloads = np.empty((n, d * width), np.uint8)
    for r in range(n):
        for i in range(d):
            bit = (bits[r, i >> 3] >> np.uint8(i & 7)) & np.uint8(1)
            entry = np.uint64(sets[r, i]) << np.uint64(1) | np.uint64(bit)
            for j in range(width):
                payloads[r, i * width + j] = np.uint8(entry >> np.uint64(8 * j))
    return payloads


@kernel
def widen(payloads: Any) -> Any:
    """The integers of three little-endian bytes in payloads, uint8 (3 · m,): uint32 (m,)."""
    entries = np.empty(payloads.size // 3, np.uint32)
    for i in range(np.uint64(entries.size)):
        at = np.uint64(3) * i
        x = np.uint32(payloads[at])
        x |= np.uint32(payloads[at + np.uint64(1)]) << np.uint32(8)
        x |= np.uint32(payloads[at + np.uint64(2)]) << np.uint32(16)
        entries[i] = x
    return entries


@kernel
def find_wrong(entries: Any, d: Any, limit: Any, least: Any, most: Any, codes: Any) -> Any:
    """Mark every report of those pieces of some hundred entries in which one breaks a rule."""
    # Every step stays in the entries' own type: one that is wider would halve what a vector holds.
    narrow = entries.dtype.type
    size, last, first, marked = np.uint64(d), narrow(2 * limit - 1), np.uint64(0), False
    reports = min(np.uint64(codes.size), max(np.uint64(1), np.uint64(_PIECE) // size))
    # The first index of a report may be below the last one of the report before it.
    ruled = np.ones(np.int64(reports * size), entries.dtype)
    for r in range(reports):
        ruled[r * size] = narrow(0)
    while first < np.uint64(codes.size):
        reports = min(reports, np.uint64(codes.size) - first)
        at = first * size
        wrong, largest = narrow(0), entries[at]
        for i in range(np.uint64(1), reports * size):
            # The index ascends where an entry is above its predecessor with a bit of 1.
            entry, before = entries[at + i], narrow(entries[at + i - np.uint64(1)] | narrow(1))
            wrong = narrow(wrong | (ruled[i] if entry <= before else narrow(0)))
            largest = max(largest, entry)
        broken = wrong != narrow(0) or largest > last
        for r in range(reports if least > 0 or most < d else np.uint64(0)):
            ones = narrow(0)
            for i in range(size):
                ones = narrow(ones + narrow(entries[at + r * size + i] & narrow(1)))
            broken |= np.int64(ones) < least or np.int64(ones) > most
        if broken:
            marked = True
            for r in range(reports):
                codes[first + r] = _VALUE_OUT_OF_RANGE
        first += reports
    return marked


@kernel
def check_entries(entries: Any, d: Any, limit: Any, least: Any, most: Any, codes: Any) -> None:
    """The code of each marked report's first entry that breaks a rule, or ``SOUND``."""
    size, last = np.uint64(d), np.uint64(2 * limit - 1)
    for r in range(np.uint64(codes.size)):
        if codes[r] == _SOUND:
            continue
        # Nearly all marked reports are sound: whether one is takes no branch at an entry.
        above, ones, wrong = np.uint64(0), np.uint64(0), np.int64(0)
        for i in range(size):
            entry = np.uint64(entries[r * size + i])
            wrong |= np.int64(entry < above) | np.int64(entry > last)
            above = (entry | np.uint64(1)) + np.uint64(1)
            ones += entry & np.uint64(1)
        codes[r] = _SOUND if least <= np.int64(ones) <= most else _DEGENERATE
        above = np.uint64(0)
        for i in range(size if wrong else np.uint64(0)):
            entry = np.uint64(entries[r * size + i])
            if entry > last or entry < above:
                codes[r] = _VALUE_OUT_OF_RANGE if entry > last else _REPEATED_INDEX
                break
            above = (entry | np.uint64(1)) + np.uint64(1)


@kernel
def add_entries(entries: Any, counts: Any) -> None:
    """counts[b + index] += 1 and counts[index] += bit, for every entry 2·index + bit."""
    b = np.uint64(counts.size >> 1)
    for i in range(entries.size):
        index = np.uint64(entries[i]) >> np.uint64(1)
        counts[b + index] += 1
        counts[index] += np.int64(np.uint64(entries[i]) & np.uint64(1))


@kernel
def add_many_entries(entries: Any, cells: Any, counts: Any) -> None:
    """As :func:`add_entries`, for many entries: one increment for each."""
    for i in range(entries.size):
        cells[entries[i]] += np.uint32(1)
    b = counts.size >> 1
    for index in range(b):
        ones = np.int64(cells[2 * index + 1])
        counts[index] += ones
        counts[b + index] += ones + np.int64(cells[2 * index])


@kernel
def read_accepted(payloads: Any, threshold: Any, start: Any, step: Any, width: Any) -> Any:
    """Turn accepted public strings into the progressions of :func:`ldpbeam.kernels.hashing.add_affine`."""
    sign = np.uint64(1) << np.uint64(63)
    edge = np.int64((threshold << np.uint64(32)) + sign)
    accepted = 0
    for i in range(payloads.shape[0]):
        if payloads[i, 16] == np.uint8(0):
            continue
        start[accepted] = np.int64(integer(payloads, i, 8, 8) + sign)
        step[accepted] = np.int64(integer(payloads, i, 0, 8))
        width[accepted] = edge
        accepted += 1
    return accepted


@kernel
def draw_verdicts(
    a: Any, c: Any, values: Any, threshold: Any, words: Any, one: Any, zero: Any, payloads: Any
) -> None:
    """Write a, c and one bit per row: 1 with weight ``one`` where the string's bit of the value is 1."""
    for i in range(values.size):
        upper = (a[i] * np.uint64(values[i]) + c[i]) >> np.uint64(32)
        for j in range(8):
            payloads[i, j] = np.uint8(a[i] >> np.uint64(8 * j))
            payloads[i, 8 + j] = np.uint8(c[i] >> np.uint64(8 * j))
        payloads[i, 16] = np.uint8(words[i] < (one if upper < threshold else zero))
