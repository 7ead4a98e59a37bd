"""Limits of Clopper and Pearson against the areas that they are to leave."""

from __future__ import annotations

import numpy as np
from scipy.special import betainc, betaincc, betainccinv

from ldpbeam.estimation.clopper_pearson import lower_limits, upper_limits

TAILS = np.array([0.4, 0.025, 0.025 / 360, 2.5e-8])


def assert_right(count: np.ndarray, n: np.ndarray) -> None:
    for tail in TAILS:
        for limits, area, sign in ((lower_limits, betainc, 1), (upper_limits, betaincc, -1)):
            limit = limits(count, n, tail)
            assert limit.shape == count.shape
            # Beside 1 the next float has another area.
            less, more = (area(count, n - count + 1, limit * (1 + k * sign * 2.0**-52)) for k in (-2, 2))
            assert (less <= tail * (1 + 2e-9)).all()
            assert (more >= tail * (1 - 2e-9)).all()


def test_limits_leave_the_tail_areas() -> None:
    draw = np.random.default_rng(1)
    n = np.floor(10 ** draw.uniform(0, 6, 2_000))
    assert_right(np.ceil(n ** draw.uniform(0, 1, n.size)), n)
    assert_right(n / 2, n)
    assert_right(n - 0.5, n)


def test_limits_are_right_where_scipy_is_wrong() -> None:
    count, n = np.full(4, 1000.0), np.array([10_105.0, 637_991.0, 2_268_020.0, 9_926_878.0])
    wrong = betaincc(count, n - count + 1, betainccinv(count, n - count + 1, 0.025)) / 0.025 - 1
    assert wrong[0] < -0.9, "scipy is right now, and needs no look"
    assert_right(count, n)
