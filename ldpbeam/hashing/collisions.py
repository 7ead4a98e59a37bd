"""What values that hash alike weigh together: E[(Σ of the weights of the values with the symbol of x)²].

A sum of hashed supports has this in its variance, for every value x. It depends on triples of values that
collide, so pairwise independence does not say it. Expectations are over the functions of a family.

*linear*: exact. Off a line a triple collides with probability t = (g^(m−2) − 1)/(K − 1), K = g^m; on a line
as a pair does, with c. So only pairs of values on one line through x are counted, by a convolution over
(Z_g)^m for every ratio of their distances from x; or all functions are gone through, where they are few.

*affine*: exact for two symbols, whose triples collide with probability 1/4. With more, triples near a line of
small ratios collide more often; the mean is then taken over a fixed set of functions spread evenly over the
family (:func:`spread_functions`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from ldpbeam.arrays import Floats, Ints, Uints
from ldpbeam.kernels import collisions

SPREAD = 1 << 12
"""Functions that stand for the affine family."""
LARGEST = 1 << 20
"""Points of (Z_g)^m up to which pairs on lines are counted; beyond, for g > 2, they are bounded."""
_CELLS_AT_ONCE = 1 << 22
"""Cells that are held at once."""
_GOLDEN = 0x9E3779B97F4A7C15
"""2^64 over the golden ratio."""


def class_squares(tables: Iterator[Any], functions: int, weights: Floats, counted: Floats) -> Floats:
    """The mean over the functions of some tables, float64 (sums, k)."""
    squares = np.zeros_like(weights)
    for symbols in tables:
        collisions.add_class_squares(symbols, weights, counted, squares)
    return np.asarray(squares / functions, np.float64)


def class_weights(symbols: Ints, weights: Floats, g: int) -> Floats:
    """Σ of the weights of the values of each symbol, float64 (sums, functions, g)."""
    sums = np.empty((len(weights), len(symbols), g))
    for row, out in zip(weights, sums, strict=True):
        collisions.class_weights(symbols, row, out)
    return sums


def by_triples(weights: Floats, pair: float, triple: float) -> Floats:
    """Where all pairs collide with probability ``pair`` and all triples with ``triple``."""
    whole, squares = weights.sum(axis=1, keepdims=True), (weights**2).sum(axis=1, keepdims=True)
    pairs = 2 * weights * (whole - weights) + squares - weights**2
    return np.asarray(weights**2 + pair * pairs + triple * (whole**2 - weights**2 - pairs), np.float64)


def on_lines(weights: Floats, g: int, digits: int, pair: float, triple: float) -> Floats:
    """Where triples on one line collide as pairs do: the linear family with g > 2."""
    whole, squares = weights.sum(axis=1, keepdims=True), (weights**2).sum(axis=1, keepdims=True)
    if g**digits > LARGEST:
        # By Cauchy and Schwarz the g − 1 other points of a line weigh at most g − 1 times their squares.
        alike = (g - 1) * (squares - weights**2)
    else:
        alike = _pairs_on_lines(weights, g, digits)
    dependent = weights**2 + 2 * weights * (whole - weights) + alike
    return np.asarray(triple * whole**2 + (pair - triple) * dependent + (1 - pair) * weights**2, np.float64)


def _pairs_on_lines(weights: Floats, g: int, digits: int) -> Floats:
    """Σ of w_v·w_u over the v, u other than x on one line with x, for every value x."""
    from scipy import fft

    k, points = weights.shape[1], g**digits
    squares = (weights**2).sum(axis=1, keepdims=True)
    pairs = squares - weights**2
    places = _digits(g, digits)
    shape, axes = (-1, *(g,) * digits), tuple(range(1, digits + 1))
    rows = max(1, _CELLS_AT_ONCE // points)
    for first in range(0, len(weights), rows):
        some = weights[first : first + rows]
        padded = np.zeros((len(some), points))
        padded[:, :k] = some
        turned = fft.fftn(padded.reshape(shape), axes=axes).reshape(len(some), points)
        total = np.zeros_like(turned)
        for ratio in range(2, g):
            # v and u change places where the ratio is the other one's inverse.
            inverse = pow(ratio, -1, g)
            if inverse < ratio:
                continue
            part = pow(1 - ratio, -1, g)
            lower, upper = (_number(places * by % g, g) for by in (part, part * ratio % g))
            total += (1 if inverse == ratio else 2) * turned[:, lower] * np.conj(turned[:, upper])
        sums = fft.ifftn(total.reshape(shape), axes=axes).real.reshape(len(some), points)[:, :k]
        pairs[first : first + rows] += sums - (g - 2) * some**2
    return np.asarray(pairs, np.float64)


@lru_cache(maxsize=4)
def _digits(g: int, digits: int) -> Ints:
    """The base-g digits of 0 .. g^digits − 1, int64 (digits, points), the lowest first."""
    points = np.arange(g**digits, dtype=np.int64)
    return np.stack([points // g**place % g for place in range(digits)])


def _number(places: Ints, g: int) -> Ints:
    return np.asarray((places * (g ** np.arange(len(places)))[:, None]).sum(axis=0), np.int64)


def spread_functions(g: int) -> tuple[Uints, Uints]:
    """The multipliers and shifts of :data:`SPREAD` affine functions, uint64 each, always the same ones."""
    # Philox with a fixed key gives the same words on every machine.
    generator = np.random.Philox(key=np.array([0x6C6470, 0x73756D73], np.uint64))
    width = np.uint64((1 << 64) // SPREAD)
    part = np.arange(SPREAD, dtype=np.uint64)
    within = np.asarray(generator.random_raw(SPREAD), np.uint64) % width
    return part * width + within, part * np.uint64(_GOLDEN) // np.uint64(g)


def half_words(values: int, g: int) -> Iterator[Uints]:
    """The upper halves of a·v + c, v = 0 .. values − 1, uint64 (functions, values), of spread functions."""
    a, c = spread_functions(g)
    v = np.arange(values, dtype=np.uint64)
    rows = max(1, _CELLS_AT_ONCE // values)
    for first in range(0, SPREAD, rows):
        some = slice(first, first + rows)
        yield (a[some, None] * v + c[some, None]) >> np.uint64(32)
