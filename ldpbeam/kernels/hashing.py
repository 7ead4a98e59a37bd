"""Kernels of the hash families (docs/maths.md section 3)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldpbeam.arrays import Bytes, Ints
from ldpbeam.kernels.check_codes import CheckCode
from ldpbeam.kernels.jit import kernel
from ldpbeam.kernels.philox import product
from ldpbeam.kernels.symbols import integer

_SOUND = np.uint8(CheckCode.SOUND)
_DEGENERATE = np.uint8(CheckCode.DEGENERATE)

_TILE = 4096
_NEAR = 1 << 16
"""Cells that the second-level cache holds."""
_VALUES_AT_ONCE = 512
"""Values that each row of a table is looked at for: they and their sums stay in the first-level cache."""


@kernel
def check_affine(payloads: Any, limit: Any, refused: Any, reach: Any) -> Bytes:
    """``refused`` where a symbol is not below ``limit``, else ``DEGENERATE`` where a multiplier is near 0."""
    codes = np.empty(payloads.shape[0], np.uint8)
    before = reach - np.uint64(1)
    for i in range(payloads.shape[0]):
        near = integer(payloads, i, 0, 8) + before < reach + before
        code = _DEGENERATE if near else _SOUND
        codes[i] = code if integer(payloads, i, 16, payloads.shape[1] - 16) < limit else refused
    return codes


@kernel
def add_seeds(payloads: Any, times: Any, shift: Any, cells: Any) -> None:
    """cells[((a ^ c) · times mod 2**64) >> shift] += 1, for a and c of each report."""
    for i in range(payloads.shape[0]):
        mixed = (integer(payloads, i, 0, 8) ^ integer(payloads, i, 8, 8)) * times
        cells[np.int64(mixed >> shift)] += 1


@kernel
def read_affine(payloads: Any, bounds: Any, start: Any, step: Any, width: Any) -> None:
    """Turn reports into arithmetic progressions whose members below ``width`` are the supported values."""
    half = np.uint64(32)
    sign = np.uint64(1) << np.uint64(63)
    for i in range(payloads.shape[0]):
        y = integer(payloads, i, 16, payloads.shape[1] - 16)
        low, high = bounds[y], bounds[y + np.uint64(1)]
        start[i] = np.int64(integer(payloads, i, 8, 8) - (low << half) + sign)
        step[i] = np.int64(integer(payloads, i, 0, 8))
        width[i] = np.int64(((high - low) << half) + sign)


@kernel
def add_affine(start: Any, step: Any, width: Any, counts: Any) -> None:
    """counts[v] += number of reports i with start[i] + step[i] v < width[i], in wrapping arithmetic."""
    n = start.size
    k = counts.size
    for first in range(0, k, _TILE):
        # A slice walked from 0 keeps indices provably non-negative, without which nothing is vectorised.
        tile = counts[first : min(first + _TILE, k)]
        i = 0
        while i + 4 <= n:
            s0, s1, s2, s3 = step[i], step[i + 1], step[i + 2], step[i + 3]
            w0, w1, w2, w3 = width[i], width[i + 1], width[i + 2], width[i + 3]
            x0, x1 = start[i] + s0 * first, start[i + 1] + s1 * first
            x2, x3 = start[i + 2] + s2 * first, start[i + 3] + s3 * first
            for v in range(tile.size):
                tile[v] += np.int64(x0 < w0) + np.int64(x1 < w1) + np.int64(x2 < w2) + np.int64(x3 < w3)
                x0 += s0
                x1 += s1
                x2 += s2
                x3 += s3
            i += 4
        while i < n:
            s0, w0 = step[i], width[i]
            x0 = start[i] + s0 * first
            for v in range(tile.size):
                tile[v] += np.int64(x0 < w0)
                x0 += s0
            i += 1


@kernel
def count_affine(payloads: Any, bounds: Any, start: Any, step: Any, width: Any, counts: Any) -> None:
    """counts[v] += number of reports that support v; some at a time, so that all stays in the cache."""
    for first in range(0, payloads.shape[0], start.size):
        some = payloads[first : first + start.size]
        n = some.shape[0]
        read_affine(some, bounds, start[:n], step[:n], width[:n])
        add_affine(start[:n], step[:n], width[:n], counts)


@kernel
def hash_affine(a: Any, c: Any, values: Any, g: Any) -> Ints:
    """floor(((a v + c mod 2**64) >> 32) g / 2**32) for v = values[i]: int64 (n,)."""
    out = np.empty(values.size, np.int64)
    half = np.uint64(32)
    for i in range(values.size):
        x = a[i] * np.uint64(values[i]) + c[i]
        out[i] = np.int64(((x >> half) * g) >> half)
    return out


@kernel
def add_listed(table: Any, a: Any, c: Any, values: Any, sums: Any) -> None:
    """sums[i] += the sum over f of table[f, h_f(values[i])], for values of 32 bits."""
    half, g = np.uint64(32), np.uint64(table.shape[1])
    for first in range(0, values.size, _VALUES_AT_ONCE):
        some = values[first : min(first + _VALUES_AT_ONCE, values.size)]
        into = sums[first : min(first + _VALUES_AT_ONCE, values.size)]
        for f in range(table.shape[0]):
            row, step, start = table[f], a[f], c[f]
            for i in range(some.size):
                x = step * np.uint64(some[i]) + start
                into[i] += row[np.int64(((x >> half) * g) >> half)]


@kernel
def seeds_linear(words: Any, seeds: Any) -> Any:
    """1 + words[i] mod ``seeds``: uint64 (n,)."""
    out = np.empty(words.size, np.uint64)
    inverse = ~np.uint64(0) // seeds
    for i in range(words.size):
        rest = words[i] - product(inverse, words[i])[0] * seeds
        while rest >= seeds:
            rest -= seeds
        out[i] = rest + np.uint64(1)
    return out


@kernel
def hash_linear(seeds: Any, values: Any, g: Any) -> Ints:
    """The sum over digits of seed digit times value digit, mod g, in base g: int64 (n,)."""
    out = np.empty(values.size, np.int64)
    base = np.uint64(g)
    inverse = ~np.uint64(0) // base + np.uint64(1)
    largest, digits = np.int64(0), 0
    for i in range(values.size):
        largest = max(largest, values[i])
    while largest:
        largest //= g
        digits += 1
    for i in range(values.size):
        s = seeds[i]
        v = np.uint64(values[i])
        total = np.uint64(0)
        for _ in range(digits):
            s_rest, v_rest = product(inverse, s)[0], product(inverse, v)[0]
            total += (s - s_rest * base) * (v - v_rest * base)
            s, v = s_rest, v_rest
        out[i] = np.int64(total - product(inverse, total)[0] * base)
    return out


@kernel
def hash_interval(seeds: Any, values: Any, bounds: Any) -> Ints:
    """How many inner ends of stretches, bounds[seeds[i], 1 .. g − 1], are at most values[i]: int64 (n,)."""
    out = np.empty(values.size, np.int64)
    for i in range(values.size):
        ends, below = bounds[seeds[i]], np.int64(0)
        for y in range(1, ends.size - 1):
            below += np.int64(ends[y] <= values[i])
        out[i] = below
    return out


@kernel
def merge_classes(counts: Any, g: Any, size: Any, low: Any, table: Any) -> None:
    """Put cells that tell the same together, for the seeds whose highest digit is one certain digit."""
    times = np.empty(low, np.int64)
    column = np.empty(g, np.int64)
    for c in range(1, g):
        for y in range(g):
            column[y] = c * y % g
        times[0] = 0
        for s in range(1, low):
            times[s] = times[s // g] * g + column[s % g]
        for block in range(size // low):
            seed, weight, rest = c * size - 1, low, block
            while rest > 0:
                seed += column[rest % g] * weight
                weight *= g
                rest //= g
            for y in range(g):
                into = table[(block * g + y) * low : (block * g + y + 1) * low]
                base = seed * g + column[y]
                for s in range(low):
                    into[s] += counts[base + times[s] * g]


@kernel
def replace_digit(table: Any, first: Any, apart: Any, width: Any, g: Any, scratch: Any) -> None:
    """Row v becomes the sum over s of row s rotated by s v, for g rows: a digit of s gives way to one of
    v."""
    cells = g * width
    for v in range(g):
        for s in range(g):
            # Slices walked from 0 keep indices provably non-negative, without which nothing is vectorised.
            cut = s * v % g * width
            source = table[first + s * apart : first + s * apart + cells]
            for part in range(2):
                begin, end, at = (cut, cells, 0) if part == 0 else (0, cut, cells - cut)
                some, into = source[begin:end], scratch[v * cells + at : (v + 1) * cells]
                if s == 0:
                    for x in range(some.size):
                        into[x] = some[x]
                else:
                    for x in range(some.size):
                        into[x] += some[x]
    for v in range(g):
        some, into = (
            scratch[v * cells : (v + 1) * cells],
            table[first + v * apart : first + v * apart + cells],
        )
        for x in range(some.size):
            into[x] = some[x]


@kernel
def replace_digits(table: Any, low: Any, g: Any) -> None:
    """Replace those digits of s that say which row it is, each by one of v."""
    cells = g * low
    scratch = np.empty(g * cells, np.int64)
    near = cells
    while near * g <= min(table.size, _NEAR):
        near *= g
    for phase in range(2):
        whole = near if phase == 0 else table.size
        for begin in range(0, table.size, whole):
            apart = cells if phase == 0 else near
            while apart < whole:
                for block in range(begin, begin + whole, apart * g):
                    for first in range(block, block + apart, cells):
                        replace_digit(table, first, apart, low, g, scratch)
                apart *= g


@kernel
def rows_to_columns(table: Any, low: Any, begin: Any, g: Any, turned: Any) -> None:
    """Some rows of a table side by side, so that the digits within a row say which row it is."""
    cells = turned.size // low
    wide = cells // g
    for b in range(wide):
        for y in range(g):
            source = table[((begin + b) * g + y) * low : ((begin + b) * g + y + 1) * low]
            for s in range(low):
                turned[s * cells + y * wide + b] = source[s]


@kernel
def add_columns(turned: Any, low: Any, begin: Any, g: Any, before: Any, counts: Any) -> None:
    """Put columns back into rows, and add what seeds of fewer digits tell."""
    cells = turned.size // low
    wide = cells // g
    for y in range(g):
        for b in range(wide):
            at = (begin + b) * low
            into, lower = (
                counts[y * before.size + at : y * before.size + at + low],
                before[at : at + low],
            )
            for s in range(low):
                into[s] = lower[s] + turned[s * cells + y * wide + b]


@kernel
def transform_signs(sums: Any) -> None:
    """x(v) = sum over s of (−1)^<s, v> x(s), in place: the Walsh–Hadamard transform."""
    size = sums.size
    stretch = min(size, _TILE)
    for phase in range(2):
        # Phase 0 transforms every stretch alone, phase 1 goes over all from the distance of a stretch on.
        whole, distance = (stretch, 1) if phase == 0 else (size, stretch)
        for first in range(0, size, whole):
            apart = distance
            while apart < whole:
                for begin in range(first, first + whole, 2 * apart):
                    low, high = sums[begin : begin + apart], sums[begin + apart : begin + 2 * apart]
                    for j in range(apart):
                        a, b = low[j], high[j]
                        low[j] = a + b
                        high[j] = a - b
                apart *= 2
