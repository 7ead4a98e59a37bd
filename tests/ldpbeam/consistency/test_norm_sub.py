"""norm_sub is the Euclidean projection onto the simplex."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldpbeam.consistency import consistent
from ldpbeam.consistency.base import Noise

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
def test_no_histogram_is_nearer(estimates: list[float]) -> None:
    """Kuhn-Tucker: f̂ - x is one number where x > 0, and no larger elsewhere."""
    result = norm_sub(estimates)
    moved = np.array(estimates) - result

    assert np.ptp(moved[result > 0.0]) <= 1e-13
    assert np.max(moved) <= np.max(moved[result > 0.0]) + 1e-13
