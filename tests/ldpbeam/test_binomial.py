"""Binomial limits against halving, and against the equation that they solve."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betainccinv, betaincinv
from scipy.stats import binom

from ldpbeam.binomial import binomial_limits
from ldpbeam.estimates import estimate
from ldpbeam.kernels import binomial as kernels
from ldpbeam.protocols import FrequencyProtocol, Parameters, protocol
from tests.reference import binomial as reference

TAILS = np.array([0.4, 0.025, 1e-5, 2.5e-8, 1e-12])
"""The last but one: an interval for a million values at once."""

SIZES = (1, 2, 3, 5, 10, 50, 300, 10**4, 10**6, 10**10)


def settings(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Counts and splits: both ends, the middle, few, many; and splits at the ends and beside one half."""
    draw = np.random.default_rng(n)
    ends = np.concatenate([np.arange(8), n - np.arange(8), [n // 2, n // 2 + 1]])
    many = 12 if n < 10**6 else 2  # halving takes long there
    drawn = np.concatenate([draw.poisson(20, many), draw.poisson(200, many), draw.integers(0, n + 1, many)])
    counts = np.unique(np.clip(np.concatenate([ends, drawn]), 0, n))
    splits = [0.5, np.nextafter(0.5, 1), 1e-9, 2.0**-40, 1 - 1e-9, 1e-4, *draw.random(4)]
    return np.repeat(counts, len(splits)), np.tile(splits, counts.size)


@pytest.mark.thorough(but=3)
@pytest.mark.parametrize("n", SIZES)
def test_limits_are_those_found_by_halving(n: int) -> None:
    """To 1e-10 of an interval's width and ten digits: far within what a published limit may move by."""
    counts, ties = settings(n)
    reports = np.full(counts.size, n)
    low, high = binomial_limits(counts, reports, ties, TAILS)
    left, right = reference.binomial_limits(counts, reports, ties, TAILS)
    # Beside 1 the spacing of floats is wider than that, from 10**6 reports on; and from millions of supports
    # on, digits are lost in the incomplete beta function itself.
    slack = 1e-10 * np.maximum(right - left, 0.01 / n) + 2.0**-51
    for found, slow in ((low, left), (high, right)):
        assert (np.abs(found - slow) <= slack + 1e-10 * np.minimum(slow, 1 - slow)).all()
    assert ((low >= 0) & (low <= high) & (high <= 1)).all()


def test_small_limits_keep_their_digits() -> None:
    """Below 1e-4 the slack of the test above would hide a limit of half its size."""
    n = 10**10
    counts, ties = settings(n)
    few = counts < 100
    counts, ties = counts[few], ties[few]
    reports = np.full(counts.size, n)
    found = binomial_limits(counts, reports, ties, TAILS)
    for limits, slow in zip(found, reference.binomial_limits(counts, reports, ties, TAILS), strict=True):
        np.testing.assert_allclose(limits, slow, rtol=1e-9, atol=1e-22)


def test_walks_end_whatever_the_tail_area() -> None:
    """Far below any that is asked for they may be wrong, but come to an end; down to 1e-20 they are right."""
    counts, tails = np.arange(1, 30), np.array([1e-17, 1e-20, 1e-60, 1e-300])
    reports, ties = np.full(counts.size, 10**6), np.tile([0.3], counts.size)
    low, high = binomial_limits(counts, reports, ties, tails)
    below = binom.cdf(counts - 1, reports, high[:2]) + 0.7 * binom.pmf(counts, reports, high[:2])
    above = binom.sf(counts, reports, low[:2]) + 0.3 * binom.pmf(counts, reports, low[:2])
    for areas in (below, above):
        np.testing.assert_allclose(areas, np.broadcast_to(tails[:2, None], areas.shape), rtol=1e-7)


def test_a_tie_that_falls_to_one_side_leaves_the_limits_of_clopper_and_pearson() -> None:
    """At split 1 those of the count, at split 0 those of the next one: also where a walk ends and begins."""
    n = 200
    count = np.arange(1, n)
    for tie, shift in ((1.0, 0), (0.0, 1)):
        low, high = binomial_limits(count, np.full(count.size, n), np.full(count.size, tie), TAILS)
        a, b = count + shift, n - count - shift + 1
        np.testing.assert_allclose(low, betaincinv(a, b, TAILS[:, None]), rtol=1e-10)
        np.testing.assert_allclose(high, betainccinv(a, b, TAILS[:, None]), rtol=1e-10)


def test_a_series_whose_last_coefficient_vanishes_is_not_trusted_far() -> None:
    def series(at: float) -> tuple[float, float]:
        """The last coefficient, and the reach."""
        coefficients, walks = np.full(kernels.COEFFICIENTS, 0.02), np.ones(kernels.NUMBERS)
        walks[kernels._AT], walks[kernels._COUNT], walks[kernels._REPORTS] = at, 5, 100
        kernels._expand.py_func(coefficients, walks)
        return coefficients[-1, 0], walks[kernels._REACH, 0]

    splits = np.linspace(0.05, 0.95, 60)
    changes = [pair for pair in pairwise(splits) if series(pair[0])[0] * series(pair[1])[0] < 0]
    assert changes
    for low, high in changes:
        begin, end = float(low), float(high)
        for _ in range(60):
            middle = (begin + end) / 2
            begin, end = (begin, middle) if series(begin)[0] * series(middle)[0] < 0 else (middle, end)
        assert abs(series(begin)[0]) < 1e-9 * max(abs(series(float(low))[0]), abs(series(float(high))[0]))
        assert series(begin)[1] < 1.5 * max(series(float(low))[1], series(float(high))[1])


@given(
    n=st.integers(1, 2000),
    share=st.floats(0, 1),
    tie=st.floats(1e-6, 1 - 1e-6),
    tail=st.floats(1e-9, 0.45),
)
def test_the_tail_areas_are_as_asked(n: int, share: float, tie: float, tail: float) -> None:
    count = round(share * n)
    low, high = (
        float(bound[0, 0])
        for bound in binomial_limits(np.array([count]), np.array([n]), np.array([tie]), np.array([tail]))
    )
    if low > 0:
        area = binom.sf(count, n, low) + tie * binom.pmf(count, n, low)
        assert area == pytest.approx(tail, rel=1e-8)
    else:  # only a split tail can be too large for every p
        assert count == 0
        assert tie >= tail * (1 - 1e-12)
    if high < 1:
        area = binom.cdf(count - 1, n, high) + (1 - tie) * binom.pmf(count, n, high)
        assert area == pytest.approx(tail, rel=1e-8) or (high == 0 and area <= tail * (1 + 1e-12))
    else:
        assert count == n
        assert 1 - tie >= tail * (1 - 1e-12)


@given(data=st.data())
def test_a_limit_does_not_depend_on_what_stands_beside_it(data: st.DataObject) -> None:
    """Bit for bit: a result may be estimated in any parts."""
    draw = np.random.default_rng(data.draw(st.integers(0, 1000)))
    size = 300
    n = draw.choice([7, 90, 5000], size) if data.draw(st.booleans()) else np.full(size, 5000)
    counts = np.minimum(draw.poisson(4, size), n)
    ties = draw.random(size)
    tails = np.array([0.025, 1e-6])
    together = np.concatenate(binomial_limits(counts, n, ties, tails))
    some = draw.permutation(size)[: data.draw(st.integers(1, size))]
    alone = np.concatenate(binomial_limits(counts[some], n[some], ties[some], tails))
    assert np.array_equal(together[:, some], alone)


def _published() -> Iterator[tuple[FrequencyProtocol, int]]:
    two = {"epsilon_longitudinal": 3.0, "epsilon_first": 1.0}
    for n in (1, 100, 10_336):
        yield protocol("grr", 200, Parameters(epsilon=2.0)), n
        yield protocol("l_grr", 360, Parameters(**two)), n
        yield protocol("oue", 96, Parameters(epsilon=5.0)), n
        yield protocol("loloha", 360, Parameters(**two)), n
        yield protocol("blh", 50, Parameters(epsilon=8.0)), n


def test_published_intervals_are_those_found_by_halving(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both published intervals of protocols whose counts are few for want of reports, or of noise."""
    for kind, n in _published():
        draw = np.random.default_rng(n)
        chances = np.where(
            np.arange(kind.domain_size) % 9, float(kind.support.other), float(kind.support.own)
        )
        support, ties = draw.binomial(n, chances), draw.random(kind.domain_size)
        fast = estimate(support, n, kind.support, ties)
        with monkeypatch.context() as patch:
            patch.setattr("ldpbeam.binomial.binomial_limits", reference.binomial_limits)
            slow = estimate(support, n, kind.support, ties)
        for name in ("low", "high", "low_all", "high_all"):
            limits = getattr(slow, name)
            slack = 1e-9 * np.maximum(1.0, np.abs(limits))
            assert (np.abs(getattr(fast, name) - limits) <= slack).all()
