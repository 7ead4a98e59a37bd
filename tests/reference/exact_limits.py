"""Limits from the exact law of few counts: slow, and obvious."""

from __future__ import annotations

from math import floor

import numpy as np
from scipy.stats import binom

from ldpbeam.estimation.exact_limits import NEARLY_ALL


def law_of_two(n: int, m: float, p: float, q: float) -> np.ndarray:
    """P(C = 0 .. n) for C ~ B(m, p) + B(n − m, q); one device is of the first kind with the rest of m."""
    whole = min(floor(m), n)
    if whole < n:
        either = q + (m - whole) * (p - q)
        found = np.convolve(
            binom.pmf(np.arange(whole + 1), whole, p), binom.pmf(np.arange(n - whole), n - whole - 1, q)
        )
        return np.convolve(found, [1 - either, either])
    return np.asarray(binom.pmf(np.arange(n + 1), n, p), np.float64)


def law(n: int, f: float, own: float, other: float, unasked: float) -> np.ndarray:
    """P(C = 0 .. n) where a share f holds the value: ldpbeam.estimation.exact_limits has it."""
    if unasked == 0:
        return law_of_two(n, n * f, own, other)
    kept = 1 - unasked * (1 - f)
    holders = law_of_two(n, min(n * f / kept, n) if f > 0 else 0, other + kept * (own - other), other)
    if unasked >= NEARLY_ALL or f == 0:
        return holders
    kept = 1 - unasked * f
    others = law_of_two(n, min(n * (1 - f) / kept, n), 1 - own + kept * (own - other), 1 - own)
    return (1 - f) * holders + f * others[::-1]


def exact_limits(
    c: int, n: int, tie: float, tail: float, chances: tuple[float, float, float, float], step: float
) -> tuple[float, float]:
    """Both limits of a frequency: node after node, until a test no longer rejects."""
    own, other, _, unasked = chances

    def areas(node: int) -> tuple[float, float]:
        """What of the law lies above count and tie, and what below, less the tail area."""
        pmf = law(n, min(node * step, n) / n, own, other, unasked)
        above, below = pmf[c + 1 :].sum() + tie * pmf[c], pmf[:c].sum() + (1 - tie) * pmf[c]
        return above - tail, tail - below

    found = []
    for side in range(2):
        node, before = 0, areas(0)[side]
        if before >= 0:
            found.append(0.0)
            continue
        while node * step < n:
            node += 1
            after = areas(node)[side]
            if after >= 0:
                break
            before = after
        if after < 0:
            found.append(1.0)
            continue
        begin, end = (node - 1) * step, min(node * step, n)
        found.append((begin + (end - begin) * before / (before - after)) / n)
    return found[0], found[1]
