"""Kernels over tables of hash functions: what the values that share a symbol weigh together."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldpbeam.kernels.jit import kernel


@kernel
def class_weights(symbols: Any, weights: Any, sums: Any) -> None:
    """sums[s, y] = Σ of the weights of the values v with symbols[s, v] = y."""
    for s in range(symbols.shape[0]):
        for y in range(sums.shape[1]):
            sums[s, y] = 0.0
        for v in range(symbols.shape[1]):
            sums[s, symbols[s, v]] += weights[v]


@kernel
def add_class_squares(symbols: Any, weights: Any, counted: Any, squares: Any) -> None:
    """squares[i, x] += Σ over functions s of (Σ of weights[i] over the values with the symbol of x)²."""
    held = np.empty(counted.size, np.float64)
    for s in range(symbols.shape[0]):
        for i in range(weights.shape[0]):
            held[:] = 0.0
            for v in range(symbols.shape[1]):
                held[symbols[s, v]] += weights[i, v]
            for y in range(counted.size):
                held[y] *= held[y] * counted[y]
            for x in range(symbols.shape[1]):
                squares[i, x] += held[symbols[s, x]]
