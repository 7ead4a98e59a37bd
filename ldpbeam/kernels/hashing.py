"""Kernels of the two hash families (docs/maths.md section 3)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldpbeam.arrays import Ints
from ldpbeam.kernels._jit import kernel
from ldpbeam.kernels.philox import product
from ldpbeam.kernels.symbols import integer

_TILE = 4096


@kernel
def read_affine(payloads: Any, g: Any, start: Any, step: Any, width: Any) -> None:
    """Turn reports into arithmetic progressions whose members below ``width`` are the supported values.

    The words whose symbol is y form one interval [L, L + W): floor(z g / 2**32) = y for half-words z from
    ceil(y 2**32 / g) up to the next such bound. Value v is supported where a v + c - L, mod 2**64, is
    below W. Everything is shifted by 2**63, since signed comparison is what vector units have.

    Args:
        payloads: uint8 (n, w), w >= 17: a and c (8 bytes each), then the symbol, little-endian.
        g: uint64, 2 .. 65536.
        start, step, width: int64 (n,), written: c - L, a and W, the first and last shifted.
    """
    half = np.uint64(32)
    below = g - np.uint64(1)
    sign = np.uint64(1) << np.uint64(63)
    for i in range(payloads.shape[0]):
        y = integer(payloads, i, 16, payloads.shape[1] - 16)
        low = ((y << half) + below) // g
        high = (((y + np.uint64(1)) << half) + below) // g
        start[i] = np.int64(integer(payloads, i, 8, 8) - (low << half) + sign)
        step[i] = np.int64(integer(payloads, i, 0, 8))
        width[i] = np.int64(((high - low) << half) + sign)


@kernel
def add_affine(start: Any, step: Any, width: Any, counts: Any) -> None:
    """counts[v] += number of reports i with start[i] + step[i] v < width[i], in wrapping arithmetic.

    One addition and one comparison per pair (report, value). Four reports share each load and store of the
    counts; values are walked in tiles that stay in the first-level cache.

    Args:
        start, step, width: int64 (n,), from :func:`read_affine`.
        counts: int64 (k,), added to.
    """
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
def hash_affine(a: Any, c: Any, values: Any, g: Any) -> Ints:
    """floor(((a v + c mod 2**64) >> 32) g / 2**32) for v = values[i]: int64 (n,).

    Args:
        a, c: uint64 (n,).
        values: int64 (n,).
        g: uint64, below 2**32.
    """
    out = np.empty(values.size, np.int64)
    half = np.uint64(32)
    for i in range(values.size):
        x = a[i] * np.uint64(values[i]) + c[i]
        out[i] = np.int64(((x >> half) * g) >> half)
    return out


@kernel
def seeds_linear(words: Any, seeds: Any) -> Any:
    """1 + words[i] mod ``seeds``: uint64 (n,).

    The quotient by multiplication with floor((2**64 − 1) / seeds) is right or a little too small.

    Args:
        words: uint64 (n,).
        seeds: uint64, at least 1.
    """
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
    """The sum over digits of seed digit times value digit, mod g, in base g: int64 (n,).

    Division by g is a multiplication by ceil(2**64 / g), exact for numbers below 2**32 (Lemire, Kaser, Kurz:
    Faster remainder by direct computation, 2019).

    Args:
        seeds: uint64 (n,), 1 .. g**m - 1, below 2**32.
        values: int64 (n,), 0 .. g**m - 1.
        g: int64, prime, below 2**16 and so that m (g − 1)**2 is below 2**32.
    """
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
def pack_linear(seeds: Any, symbols: Any, g: Any, width: Any) -> Any:
    """(seeds[i] − 1)·g + symbols[i] as little-endian integers of ``width`` bytes: uint8 (n, width).

    Args:
        seeds: uint64 (n,), at least 1.
        symbols: int64 (n,), below g.
        g, width: int64.
    """
    payloads = np.empty((seeds.size, width), np.uint8)
    for i in range(seeds.size):
        cell = (seeds[i] - np.uint64(1)) * np.uint64(g) + np.uint64(symbols[i])
        for j in range(payloads.shape[1]):
            payloads[i, j] = np.uint8(cell >> np.uint64(8 * j))
    return payloads


@kernel
def transform_linear(table: Any, g: Any, scratch: Any, counts: Any) -> None:
    """Support counts from the table T[s, y]: C(v) = sum over s of T[s, <s, v> mod g].

    One butterfly per base-g digit replaces the digit of s by the digit of v; the last one needs only the
    column y = 0 and the values that exist. O(m g^2 K) integer additions, K = g**m.

    Args:
        table: int64 (K, g), overwritten.
        g: int64, prime.
        scratch: int64 (g, g).
        counts: int64 (k,), k <= K, written.
    """
    size = table.shape[0]
    stride = 1
    while stride * g < size:
        for block in range(0, size, stride * g):
            for low in range(stride):
                base = block + low
                for v in range(g):
                    for y in range(g):
                        total = np.int64(0)
                        column = y
                        for s in range(g):
                            total += table[base + s * stride, column]
                            column += v
                            if column >= g:
                                column -= g
                        scratch[v, y] = total
                for v in range(g):
                    for y in range(g):
                        table[base + v * stride, y] = scratch[v, y]
        stride *= g
    for value in range(counts.size):
        digit = value // stride
        base = value - digit * stride
        total = np.int64(0)
        column = 0
        for s in range(g):
            total += table[base + s * stride, column]
            column += digit
            if column >= g:
                column -= g
        counts[value] = total


@kernel
def transform_signs(sums: Any) -> None:
    """x(v) = sum over s of (−1)^<s, v> x(s), in place: the Walsh–Hadamard transform.

    Short distances first, stretch by stretch, each of which stays in the first-level cache.

    Args:
        sums: int64 (K,), K a power of two.
    """
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
