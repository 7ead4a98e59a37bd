"""Kernels of the two hash families (MATHS section 3)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldp.kernels._jit import kernel

_TILE = 4096


@kernel
def read_affine(payloads: Any, a: Any, c: Any, y: Any) -> None:
    """Split rows of ``a`` (8 bytes), ``c`` (8 bytes) and the symbol into columns.

    Args:
        payloads: uint8 (n, w), w >= 17, little-endian fields.
        a, c, y: uint64 (n,), written.
    """
    for i in range(payloads.shape[0]):
        x = np.uint64(0)
        z = np.uint64(0)
        for j in range(8):
            x |= np.uint64(payloads[i, j]) << np.uint64(8 * j)
            z |= np.uint64(payloads[i, 8 + j]) << np.uint64(8 * j)
        a[i] = x
        c[i] = z
        x = np.uint64(0)
        for j in range(16, payloads.shape[1]):
            x |= np.uint64(payloads[i, j]) << np.uint64(8 * (j - 16))
        y[i] = x


@kernel
def add_affine(a: Any, c: Any, y: Any, g: Any, counts: Any) -> None:
    """counts[v] += 1 for every report i and value v with hash(v) == y[i].

    ``a v + c`` is an arithmetic progression in v: one add, shift, multiply, shift and compare per pair, in
    vector registers. Values are walked in tiles that stay in the first-level cache.

    Args:
        a, c, y: uint64 (n,).
        g: uint64, below 2**32.
        counts: int64 (k,), added to.
    """
    half = np.uint64(32)
    low = np.uint64(0xFFFFFFFF)
    g = g & low
    k = counts.size
    for start in range(0, k, _TILE):
        stop = min(start + _TILE, k)
        for i in range(a.size):
            step = a[i]
            x = c[i] + step * np.uint64(start)
            wanted = y[i]
            for v in range(start, stop):
                counts[v] += np.int64(((x >> half) * g) >> half == wanted)
                x += step


@kernel
def hash_affine(a: Any, c: Any, values: Any, g: Any, out: Any) -> None:
    """out[i] = floor(((a v + c mod 2**64) >> 32) g / 2**32) for v = values[i].

    Args:
        a, c: uint64 (n,).
        values: int64 (n,).
        g: uint64, below 2**32.
        out: int64 (n,), written.
    """
    half = np.uint64(32)
    for i in range(values.size):
        x = a[i] * np.uint64(values[i]) + c[i]
        out[i] = np.int64(((x >> half) * g) >> half)


@kernel
def hash_linear(seeds: Any, values: Any, g: Any, out: Any) -> None:
    """out[i] = sum over digits of seed digit times value digit, mod g, in base g.

    Args:
        seeds: int64 (n,), 1 .. g**m - 1.
        values: int64 (n,), 0 .. g**m - 1.
        g: int64, prime.
        out: int64 (n,), written.
    """
    for i in range(values.size):
        s = seeds[i]
        v = values[i]
        total = 0
        while s > 0 and v > 0:
            total += (s % g) * (v % g)
            s //= g
            v //= g
        out[i] = total % g


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
