"""The kernel that fits a prior to estimates, of which each concerns a few of its points."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldpbeam.kernels._jit import kernel


@kernel
def times(starts: Any, columns: Any, values: Any, vector: Any, out: Any) -> None:
    """out = M vector, each sum in the order of the columns.

    Args:
        starts: int64 (n + 1,), where the entries of each row of M begin.
        columns, values: int64 and float64 (entries,).
        vector: float64 (m,).
        out: float64 (n,), written.
    """
    for i in range(out.size):
        total = 0.0
        for at in range(starts[i], starts[i + 1]):
            total += values[at] * vector[columns[at]]
        out[i] = total


@kernel
def fit(rows: Any, points: Any, shares: Any, prior: Any, rounds: Any) -> None:
    """prior[j] *= sum over i of shares[i] L[i, j] / (L prior)[i], so many times: expectation maximisation.

    Args:
        rows: (starts, columns, values) of L, as for :func:`times`.
        points: the same of its transpose.
        shares: float64 (n,).
        prior: float64 (m,), overwritten.
        rounds: int64.
    """
    mixed, gain = np.empty(shares.size), np.empty(prior.size)
    for _ in range(rounds):
        times(rows[0], rows[1], rows[2], prior, mixed)
        for i in range(mixed.size):
            mixed[i] = shares[i] / mixed[i]
        times(points[0], points[1], points[2], mixed, gain)
        for j in range(gain.size):
            prior[j] *= gain[j]
