"""Quartiles of two epochs: limits of what changed, and how often they see a change that is none."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom, norm

from ldpbeam.estimation.distribution import WalkPosterior
from ldpbeam.estimation.stretches import Stretches
from ldpbeam.hashing.interval import IntervalFamily
from ldpbeam.sums.distribution import Curve, curve_quantile
from ldpbeam.sums.quartiles import compare_quartiles

NO_ROWS = pa.table({})


def curve(shares: list[float], low: list[float], high: list[float]) -> Curve:
    return Curve(NO_ROWS, *(np.array(one) for one in (shares, low, high)))


def test_uneven_limits_go_the_way_they_point() -> None:
    """A change is limited downwards by the lower limit after and the upper one before; all three at once."""
    before = curve([0.3, 0.6, 0.9, 1.0], [0.27, 0.56, 0.88, 1.0], [0.32, 0.61, 0.95, 1.0])
    after = curve([0.2, 0.5, 0.9, 1.0], [0.17, 0.49, 0.85, 1.0], [0.26, 0.53, 0.92, 1.0])
    first, second, third = compare_quartiles(before, after)
    wider = norm.ppf(1 - 0.05 / 6) / norm.ppf(0.975)
    assert first.change == pytest.approx(-0.1)
    assert first.low == pytest.approx(-0.1 - wider * np.hypot(0.03, 0.02))
    assert first.high == pytest.approx(-0.1 + wider * np.hypot(0.06, 0.03))
    assert (second.before[0], second.after[0], second.clear) == (1, 1, True)
    assert second.high == pytest.approx(-0.1 + wider * np.hypot(0.03, 0.04))
    assert (third.change, third.clear) == (0, False)


def test_a_value_is_left_out_only_where_the_curve_is_surely_past_it() -> None:
    one = curve([0.1, 0.4, 0.7, 1.0], [0.0, 0.3, 0.5, 1.0], [0.2, 0.5, 0.8, 1.0])
    assert curve_quantile(one.shares, one.low, one.high, 0.5) == (2, 1, 3)
    assert curve_quantile(one.shares, one.low, one.high, 0.51) == (2, 2, 3)
    assert curve_quantile(one.shares, one.low, one.high, 0.2) == (1, 0, 1)
    assert curve_quantile(one.shares, one.low, one.high, 0.999) == (3, 3, 3)


def test_where_nothing_changes_few_changes_are_seen() -> None:
    """In 5 of 100 pairs at most some quartile; the test fails by chance once in a million.

    And where the values rise by a tenth of the domain, in most pairs.
    """
    k, pairs, rng = 64, 80, np.random.default_rng(3)
    built = WalkPosterior(Stretches(IntervalFamily(4, k).bounds(), np.e / (np.e + 3), 1 / (np.e + 3)))

    def epoch(shift: float) -> Curve:
        values = np.clip(((rng.beta(2, 4, 5000) + shift) * k).astype(int), 0, k - 1)
        function = rng.integers(0, 64, values.size)
        stretch = (built.stretches.bounds[function, 1:-1] <= values[:, None]).sum(axis=1)
        lies = (stretch + rng.integers(1, 4, values.size)) % 4
        answer = np.where(rng.random(values.size) < built.stretches.own, stretch, lies)
        found = built.estimate(np.bincount(function * 4 + answer, minlength=256))
        return Curve(NO_ROWS, found.cumulative, *found.limits(0.95))

    still = sum(any(one.clear for one in compare_quartiles(epoch(0), epoch(0))) for _ in range(pairs))
    assert still <= binom.ppf(1 - 1e-6, pairs, 0.05)
    moved = [compare_quartiles(epoch(0), epoch(0.15)) for _ in range(10)]
    assert sum(any(one.clear for one in changes) for changes in moved) >= 8
    assert all(one.change < 0 for changes in moved for one in changes if one.clear)
