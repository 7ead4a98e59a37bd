"""The kernels that fit a prior to estimates, of which each concerns a few neighbouring points of it.

A matrix is a band: the entries of a row are those of consecutive columns, and the rows that have an entry in
a column are consecutive too. It is given as (starts, firsts, values): int64 (n + 1,), where the entries of
each row begin; int64 (n,), the first column of each row; float64 (entries,). Every sum is added up in the
order of its terms, several sums side by side, so that results do not depend on the processor.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldpbeam.kernels.jit import kernel


@kernel
def add_rows(band: Any, vector: Any, out: Any) -> None:
    """out = Mᵀ vector, each sum in the order of the rows of M."""
    starts, firsts, values = band
    out[:] = 0.0
    for i in range(vector.size):
        row = values[starts[i] : starts[i + 1]]
        into = out[firsts[i] : firsts[i] + row.size]
        factor = vector[i]
        for at in range(row.size):
            into[at] += row[at] * factor


@kernel
def fit(rows: Any, points: Any, shares: Any, prior: Any, rounds: Any) -> None:
    """prior[j] *= sum over i of shares[i] L[i, j] / (L prior)[i], so many times: expectation maximisation."""
    mixed, gain = np.empty(shares.size), np.empty(prior.size)
    for _ in range(rounds):
        add_rows(points, prior, mixed)
        for i in range(mixed.size):
            mixed[i] = shares[i] / mixed[i]
        add_rows(rows, mixed, gain)
        for j in range(gain.size):
            prior[j] *= gain[j]
