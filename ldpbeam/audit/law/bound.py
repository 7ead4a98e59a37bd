"""Exact binomial limits: the lower bound of a level from counts, and the two-sided test of a probability."""

from __future__ import annotations

from fractions import Fraction
from math import inf, log
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from ldpbeam.arrays import Floats, Ints


def lower_limit(count: int, trials: int, alpha: float) -> float:
    """Clopper–Pearson: the true probability lies below it with probability at most ``alpha``."""
    from ldpbeam.estimation.clopper_pearson import lower_limits

    return _one(lower_limits, count, trials, alpha) if count else 0.0


def upper_limit(count: int, trials: int, alpha: float) -> float:
    """Clopper–Pearson: the true probability lies above it with probability at most ``alpha``."""
    from ldpbeam.estimation.clopper_pearson import upper_limits

    return _one(upper_limits, count + 1, trials, alpha) if count < trials else 1.0


def _one(limits: Callable[..., Floats], count: int, trials: int, alpha: float) -> float:
    import numpy as np

    return float(limits(np.array([float(count)]), np.array([float(trials)]), alpha)[0])


def level_bound(count: int, trials: int, other_count: int, other_trials: int, alpha: float) -> float:
    """A lower bound of ln(p/q), wrong with probability at most ``alpha``."""
    low = lower_limit(count, trials, alpha / 2)
    return log(low / upper_limit(other_count, other_trials, alpha / 2)) if low else -inf


def expected_bound(p: float, q: float, trials: float, other_trials: float, alpha: float) -> float:
    """:func:`level_bound` at the counts that theory expects; it chooses events before anything is drawn."""
    counts = round(p * trials), round(q * other_trials)
    n = max(round(trials), 1), max(round(other_trials), 1)
    return level_bound(min(counts[0], n[0]), n[0], min(counts[1], n[1]), n[1], alpha)


def two_sided(counts: Ints, trials: Ints, probabilities: list[Fraction]) -> Floats:
    """P-values of exact two-sided binomial tests: twice the lesser tail, at most 1."""
    import numpy as np
    from scipy.special import betainc, betaincc  # scipy.stats takes half a second to import

    p: NDArray[np.float64] = np.array([float(one) for one in probabilities])
    # At most so many, and at least so many; a shape of 0 has no value, and stands for a tail of 1.
    most = np.where(counts < trials, betaincc(counts + 1, np.maximum(trials - counts, 1), p), 1.0)
    least = np.where(counts > 0, betainc(np.maximum(counts, 1), trials - counts + 1, p), 1.0)
    p_values: Floats = np.minimum(1.0, 2 * np.minimum(most, least))
    return p_values


def chernoff(count: int, devices: int, trials: int, law: Sequence[tuple[float, float]]) -> float:
    """A two-sided p-value, never too small: twice the lesser of two bounds of Chernoff's, at most 1.

    The number of events is a sum over independent devices; each is of a kind, and its trials are independent
    given the kind. P(sum ≥ s) ≤ E(e^{λ(sum − s)}) for every λ > 0, and likewise below.

    Args:
        count: events over all devices.
        devices: how many.
        trials: of each.
        law: (probability of a kind, P(event) in a trial of it).
    """
    import numpy as np

    if not devices or not trials:
        return 1.0
    weights, chances = (np.array(column) for column in zip(*law, strict=True))
    weights, chances = weights[weights > 0], chances[weights > 0]
    steps = np.geomspace(1e-5, 200.0, 600)
    best = 0.0
    for sign in (1, -1):
        slopes = (sign * steps)[:, None]
        # log(1 − p + p·e^λ), where λ may be large: the larger term is taken out.
        with np.errstate(divide="ignore"):
            each = np.logaddexp(np.log1p(-chances), np.log(chances) + slopes)
            whole = trials * each + np.log(weights)
        top = whole.max(1)
        mean = top + np.log(np.exp(whole - top[:, None]).sum(1))
        best = min(best, float((devices * mean - slopes[:, 0] * count).min()))
    return min(1.0, 2 * float(np.exp(best)))
