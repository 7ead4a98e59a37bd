"""Limits from the exact law of a support count, for few counts.

Where the population is fixed, the count of a value that j of n devices hold is the sum of two binomials,
B(j, own) + B(n − j, other). Of an observed count c and a tie t in (0, 1), the test of j rejects where

    P(C > c | j) + t·P(C = c | j)

is below a tail area, or above 1 less that area. It rises with j, so the limits are where it meets these two
areas. It is computed at whole numbers j, or at every h-th one where they lie close together (*nodes*), and is
a straight line between them. So the coverage at a node is nominal, whatever the counts.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ldpbeam.kernels.jit import inlined, kernel

NEGLIGIBLE = 1e-18
"""Chances of a binomial that are left out, relative to the greatest one."""

NEARLY_ALL = 0.95
"""From this share on that is not asked, one of the two laws of :func:`law` stands for both."""


@inlined
def _binomial(n: Any, p: Any, weights: Any) -> Any:
    """P(X = mode + i) for X ~ B(n, p) in weights[middle + i], and (mode, least i, greatest i)."""
    middle = weights.size // 2
    mode = min(np.int64((n + 1) * p), n)
    odds = p / (1.0 - p) if p < 1.0 else 0.0
    most = min(mode, middle) if p < 1.0 else 0
    weights[middle] = weight = total = 1.0
    low = 0
    while low < most and weight > NEGLIGIBLE:
        weight *= (mode - low) / ((n - mode + low + 1) * odds)
        low += 1
        weights[middle - low] = weight
        total += weight
    most = min(n - mode, middle)
    weight, high = 1.0, 0
    while high < most and weight > NEGLIGIBLE:
        weight *= (n - mode - high) * odds / (mode + high + 1)
        high += 1
        weights[middle + high] = weight
        total += weight
    for i in range(middle - low, middle + high + 1):
        weights[i] /= total
    return mode, -low, high


@kernel
def _sum_of_two(c: Any, n: Any, m: Any, p: Any, q: Any, mine: Any, theirs: Any) -> Any:
    """P(C < c) and P(C = c) for C ~ B(m, p) + B(n − m, q)."""
    whole = min(np.int64(m), n)
    rest = m - whole
    one = 1 if rest > 0.0 and whole < n else 0
    mode, low, high = _binomial(whole, p, mine)
    other_mode, least, greatest = _binomial(n - whole - one, q, theirs)
    middle = mine.size // 2
    # With i more than the mode of the first kind, i + j more than both modes, as many of the second: i falls.
    wanted = c - mode - other_mode
    below, at, before = 0.0, 0.0, 0.0
    fewer, j = 0.0, least
    for i in range(high, low - 1, -1):
        while j < wanted - i and j <= greatest:
            fewer += theirs[middle + j]
            j += 1
        chance = mine[middle + i]
        below += chance * fewer
        if least <= wanted - i <= greatest:
            at += chance * theirs[middle + wanted - i]
        if one and least <= wanted - i - 1 <= greatest:
            before += chance * theirs[middle + wanted - i - 1]
    if one:
        either = q + rest * (p - q)
        below -= either * before
        at += either * (before - at)
    return below, at


@kernel
def law(c: Any, n: Any, held: Any, chances: Any, mine: Any, theirs: Any) -> Any:
    """P(C < c) and P(C = c), where the share held/n of the population holds the value."""
    own, other, gap, unasked = chances
    if unasked == 0.0:
        return _sum_of_two(c, n, held, own, other, mine, theirs)
    f = held / n
    asked = 1.0 - unasked * (1.0 - f)
    m = min(held / asked, 1.0 * n) if f > 0.0 else 0.0
    below, at = _sum_of_two(c, n, m, other + asked * gap, other, mine, theirs)
    if unasked < NEARLY_ALL and f > 0.0:
        asked = 1.0 - unasked * f
        m = min((n - held) / asked, 1.0 * n)
        over, same = _sum_of_two(n - c, n, m, 1.0 - own + asked * gap, 1.0 - own, mine, theirs)
        below += f * (1.0 - over - same - below)
        at += f * (same - at)
    return below, at


@kernel
def excess(c: Any, n: Any, node: Any, tie: Any, tail: Any, upper: Any, setting: Any, memory: Any) -> Any:
    """How far the test's probability lies above its area at a node: rises with the node, 0 at the limit."""
    step, chances = setting
    keys, known, mine, theirs = memory
    mixed = (np.uint64(n) * np.uint64(31) + np.uint64(c)) * np.uint64(1021) + np.uint64(node)
    slot = np.int64(mixed & np.uint64(keys.shape[0] - 1))
    if keys[slot, 0] != n or keys[slot, 1] != c or keys[slot, 2] != node:
        known[slot, 0], known[slot, 1] = law(c, n, min(node * step, 1.0 * n), chances, mine, theirs)
        keys[slot, 0], keys[slot, 1], keys[slot, 2] = n, c, node
    below, at = known[slot, 0], known[slot, 1]
    if upper:
        return tail - (below + (1.0 - tie) * at)
    return 1.0 - below - (1.0 - tie) * at - tail


@kernel
def limit(c: Any, n: Any, tie: Any, tail: Any, upper: Any, guess: Any, setting: Any, memory: Any) -> Any:
    """n times the frequency where a test of this tail area just does not reject; within 0 and n."""
    step = setting[0]
    last: Any = np.int64(math.ceil(n / step))
    low: Any = min(max(np.int64(guess / step), 0), last)
    at_low = excess(c, n, low, tie, tail, upper, setting, memory)
    # The limit lies in front of the first node where the excess is not negative.
    high: Any = low
    at_high, reach = at_low, 1
    if at_low < 0.0:
        while at_high < 0.0 and high < last:
            low, at_low = high, at_high
            high = min(high + reach, last)
            at_high = excess(c, n, high, tie, tail, upper, setting, memory)
            reach *= 2
    else:
        while at_low >= 0.0 and low > 0:
            high, at_high = low, at_low
            low = max(low - reach, 0)
            at_low = excess(c, n, low, tie, tail, upper, setting, memory)
            reach *= 2
    if at_low >= 0.0:
        return 0.0
    if at_high < 0.0:
        return 1.0 * n
    while high - low > 1:
        middle = (low + high) // 2
        at_middle = excess(c, n, middle, tie, tail, upper, setting, memory)
        if at_middle < 0.0:
            low, at_low = middle, at_middle
        else:
            high, at_high = middle, at_middle
    begin, end = low * step, min(high * step, 1.0 * n)
    return begin + (end - begin) * (at_low / (at_low - at_high))
