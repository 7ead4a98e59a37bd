"""What ldpbeam.binomial finds, as probabilities instead of frequencies."""

from __future__ import annotations

import numpy as np

from ldpbeam.binomial import Limits, limits


def binomial_limits(
    count: np.ndarray,
    n: np.ndarray,
    ties: np.ndarray,
    tails: tuple[float, float],
    found_by: Limits | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """(low, high), each (2, k)."""
    found = np.empty((6, count.size))
    found[2::2], found[3::2] = np.inf, -np.inf
    values = count.copy(), n.copy(), ties.copy()  # the one kind of arrays for which the kernel is compiled
    # A frequency is the probability itself where own is 1 and other 0; and counts are few, whatever n is.
    (found_by or limits(tails)).widen(values, (0.0, 1.0), (1.0, 0.0, 1.0, 0.0), found)
    return found[2::2], found[3::2]
