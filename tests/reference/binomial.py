"""Binomial limits by halving: slow, and obvious."""

from __future__ import annotations

import numpy as np
from scipy.special import betainc, betaincc


def binomial_limits(
    count: np.ndarray, n: np.ndarray, ties: np.ndarray, tails: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(low, high), each (levels, k), of binomial probabilities: what ldpbeam.binomial computes.

    The lower limit is where t·P(X >= c) + (1 − t)·P(X > c), which rises with p, reaches the tail area; the
    upper one where t·P(X < c) + (1 − t)·P(X <= c), which falls, does. Both are sums of incomplete beta
    functions, with the usual values where c is 0 or n. Their inverses would save steps, but scipy's are wrong
    by any amount at some arguments.
    """
    c, tails = count.astype(np.float64), tails[:, np.newaxis]
    tiny = np.finfo(np.float64).tiny

    def halved(above: np.ufunc, nothing: float, everything: float) -> np.ndarray:
        left, right = np.zeros((tails.size, c.size)), np.ones((tails.size, c.size))
        rising = nothing < everything
        for _ in range(110):
            p = (left + right) / 2
            at_least = np.where(c > 0, above(np.maximum(c, tiny), n - c + 1, p), everything)
            more = np.where(c < n, above(c + 1, np.maximum(n - c, tiny), p), nothing)
            below = (ties * at_least + (1 - ties) * more < tails) == rising
            left, right = np.where(below, p, left), np.where(below, right, p)
        return (left + right) / 2

    return halved(betainc, 0.0, 1.0), halved(betaincc, 1.0, 0.0)
