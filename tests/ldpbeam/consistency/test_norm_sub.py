"""norm_sub is the Euclidean projection onto the simplex."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldpbeam.consistency import consistent
from ldpbeam.consistency.base import Noise
from tests.reference import consistency as reference

NOISE = Noise(10_000, 0.5, 0.25, False)

estimate_lists = st.lists(
    st.floats(-2.0, 2.0) | st.integers(-8, 8).map(lambda x: x / 8), min_size=1, max_size=40
)


def norm_sub(estimates: list[float]) -> np.ndarray:
    return consistent("norm_sub", np.array(estimates), NOISE)


@pytest.mark.parametrize(
    ("estimates", "expected"),
    [
        ([0.54, 0.31, 0.19, 0.06, -0.03, -0.05], [0.515, 0.285, 0.165, 0.035, 0.0, 0.0]),
        ([0.5, 0.5], [0.5, 0.5]),
        ([2.0, 0.0], [1.0, 0.0]),
        ([-1.0, -1.5], [0.75, 0.25]),
        ([-1.0, -9.0], [1.0, 0.0]),
        ([1e100, 1e100, -1e100], [0.5, 0.5, 0.0]),
        ([1e100, 0.5, 0.5], [1.0, 0.0, 0.0]),
    ],
)
def test_known_answers(estimates: list[float], expected: list[float]) -> None:
    np.testing.assert_allclose(norm_sub(estimates), expected, atol=1e-15)


@given(estimate_lists)
@pytest.mark.thorough
def test_agrees_with_the_iteration_from_all_values(estimates: list[float]) -> None:
    np.testing.assert_allclose(
        norm_sub(estimates), reference.norm_sub_iterated(np.array(estimates)), atol=1e-13
    )


@given(estimate_lists)
@pytest.mark.thorough
def test_agrees_with_wangs_iteration_where_positives_reach_one(estimates: list[float]) -> None:
    values = np.array(estimates)
    values = np.append(values, max(0.0, 1.0 - np.sum(np.maximum(values, 0.0))))

    np.testing.assert_allclose(norm_sub(list(values)), reference.norm_sub_wang(values), atol=1e-13)


@given(estimate_lists)
@pytest.mark.thorough
def test_no_histogram_is_nearer(estimates: list[float]) -> None:
    """Kuhn-Tucker: f̂ - x is one number where x > 0, and no larger elsewhere."""
    result = norm_sub(estimates)
    moved = np.array(estimates) - result

    assert np.ptp(moved[result > 0.0]) <= 1e-13
    assert np.max(moved) <= np.max(moved[result > 0.0]) + 1e-13


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=40).filter(lambda x: sum(x) > 0.1))
def test_a_histogram_is_left_as_it_is(weights: list[float]) -> None:
    histogram = np.array(weights) / math.fsum(weights)

    np.testing.assert_allclose(norm_sub(list(histogram)), histogram, atol=1e-15)


def test_the_sum_is_one_within_some_ulp() -> None:
    random = np.random.default_rng(4)
    for k in (2, 10, 1000, 10**5):
        result = consistent("norm_sub", random.normal(size=k), NOISE)
        assert abs(math.fsum(result) - 1.0) <= 4 * np.finfo(float).eps
