"""Which strings are found, and how frequent they are, from all levels at which they are whole."""

from __future__ import annotations

from math import log
from typing import NamedTuple

import numpy as np

from ldpbeam.arrays import Floats, Ints
from ldpbeam.estimation.prefix_plan import law_variance
from ldpbeam.estimation.prefix_table import PrefixTable, sum_of_moments, threshold

TAIL = 0.025
"""Beyond each limit."""
_HALVINGS = 50


class FoundStrings(NamedTuple):
    """Strings that are whole from one level on.

    Attributes:
        threshold: estimate from which on one is found; infinite where there was no candidate.
        texts: those found.
        counts: reports, and those that support each, int64 (2, k).
        numbers: as :class:`ldpbeam.estimation.prefix_walk.Walk` has them, float64 (6, k).
        medians: shares of whose estimates above the threshold half are larger, float64 (k,).
        errors: of the sum of estimates, by level and function, float64 (levels, F).
    """

    threshold: float
    texts: list[str]
    counts: Ints
    numbers: Floats
    medians: Floats
    errors: Floats


def find(tables: list[PrefixTable], texts: list[str], quantile: float, wide: float) -> FoundStrings:
    """Find strings among those that may be frequent.

    Args:
        tables: of all levels at which these strings are whole.
        texts: the strings.
        quantile: deviations above which one is found.
        wide: deviations to the limits that hold for all candidates at once.
    """
    n, unit = sum(table.n for table in tables), sum(table.unit for table in tables)
    least = threshold(quantile, sum_of_moments(tables)) / unit
    pairs = [(table, table.fingerprints(texts)) for table in tables]
    estimates = np.sum([table.excess(row) for table, row in pairs], axis=0) / unit
    # Of several strings with one fingerprint nobody knows which is held.
    shared = np.any([np.isin(row, table.shared) for table, row in pairs], axis=0)
    among = np.flatnonzero((estimates >= least) & ~shared)
    estimates, pairs = estimates[among], [(table, row[among]) for table, row in pairs]
    residuals = np.array([table.residuals(row) for table, row in pairs]) / unit
    support = np.sum([table.support(row) for table, row in pairs], axis=0)
    # Residuals do not know that the population is fixed.
    share, asked = np.clip(estimates, 0, 1), sum(table.level.asked for table in tables)
    fixed = (residuals**2).sum(axis=(0, 2)) - asked * share * (1 - share) / max(n, 1)
    errors = np.sqrt(np.maximum(fixed, law_variance(share, tables[0].own, tables[0].g, asked) / max(n, 1)))
    low, median, high = (given_choice(estimates, errors, least, tail) for tail in (TAIL, 0.5, 1 - TAIL))
    # An interval holds its estimate, as everywhere.
    lows = np.minimum([low, np.maximum(estimates - wide * errors, 0)], estimates)
    highs = np.maximum([high, np.minimum(estimates + wide * errors, 1)], estimates)
    numbers = np.vstack([estimates, errors, lows[0], highs[0], lows[1], highs[1]])
    counts = np.vstack([np.full(len(among), n), support])
    return FoundStrings(least, [texts[j] for j in among], counts, numbers, median, residuals.sum(axis=1))


def given_choice(estimates: Floats, errors: Floats, least: float, tail: float) -> Floats:
    """The share of which a part ``tail`` of the estimates above the threshold is at least the one there is.

    By the normal law, cut off at the threshold; within 0 and 1.
    """
    from scipy.special import log_ndtr

    low, high = np.zeros(len(estimates)), np.ones(len(estimates))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        above = log_ndtr((middle - estimates) / errors) - log_ndtr((middle - least) / errors)
        low, high = np.where(above < log(tail), [middle, high], [low, middle])
    return low
