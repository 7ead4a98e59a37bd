"""The methods that are one line of arithmetic: base_pos, base_cut, norm, norm_mul, norm_cut."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ldpbeam.consistency import consistent
from ldpbeam.consistency.base import Noise
from ldpbeam.consistency.clip import threshold
from tests.reference import consistency as reference

NOISE = Noise(10_000, 0.5, 0.25, False)


def test_base_pos_clips() -> None:
    result = consistent("base_pos", np.array([0.6, -0.1, 0.0, 0.7]), NOISE)

    np.testing.assert_array_equal(result, [0.6, 0.0, 0.0, 0.7])


@pytest.mark.parametrize("k", [1, 2, 100, 10**6])
def test_base_cut_threshold_is_the_two_round_normal_quantile(k: int) -> None:
    expected = stats.norm.isf(0.05 / k) * np.sqrt(0.25 * 0.75 / (10_000 * 0.25**2))

    assert np.isclose(threshold(k, NOISE), expected, rtol=1e-9)


def test_base_cut_keeps_what_reaches_the_threshold() -> None:
    cut = threshold(3, NOISE)

    result = consistent("base_cut", np.array([cut, np.nextafter(cut, 0.0), -1.0]), NOISE)

    np.testing.assert_array_equal(result, [cut, 0.0, 0.0])


def test_base_cut_without_noise_clips() -> None:
    result = consistent("base_cut", np.array([0.6, -0.1, 1e-9]), Noise(100, 1.0, 0.0, True))

    np.testing.assert_array_equal(result, [0.6, 0.0, 1e-9])


def test_norm_adds_one_constant() -> None:
    result = consistent("norm", np.array([0.6, -0.1, 0.2]), NOISE)

    np.testing.assert_allclose(result, [0.7, 0.0, 0.3], atol=1e-15)


def test_norm_mul_rescales_the_positives() -> None:
    result = consistent("norm_mul", np.array([0.6, -0.1, 0.2]), NOISE)

    np.testing.assert_allclose(result, [0.75, 0.0, 0.25])


@pytest.mark.parametrize("estimates", [[-1.0, -2.0], [0.0, 0.0], [-5e-324, 0.0]])
def test_norm_mul_of_nothing_positive_is_uniform(estimates: list[float]) -> None:
    np.testing.assert_array_equal(consistent("norm_mul", np.array(estimates), NOISE), [0.5, 0.5])


@pytest.mark.parametrize(
    ("estimates", "expected"),
    [
        ([0.5, 0.2, -0.1], [0.5, 0.2, 0.0]),  # below 1: left alone
        ([0.5, 0.4, 0.3], [0.5, 0.4, 0.0]),  # the smallest goes
        ([0.4, 0.4, 0.4], [0.4, 0.4, 0.0]),  # of equals the last goes
        ([0.4, 0.3, 0.4, 0.3], [0.4, 0.0, 0.4, 0.0]),
        ([0.1] * 10, [0.1] * 10),  # 0.9999999999999999 or so: rounding is not excess
        ([0.2, 1.5, 1.5], [0.0, 1.0, 0.0]),  # one value alone above 1 is all there is
        ([-0.5, -0.2], [0.0, 0.0]),
    ],
)
def test_norm_cut(estimates: list[float], expected: list[float]) -> None:
    np.testing.assert_array_equal(consistent("norm_cut", np.array(estimates), NOISE), expected)


@given(st.lists(st.integers(-20, 60).map(lambda x: x / 64), min_size=1, max_size=30))
def test_norm_cut_is_dropping_one_by_one(estimates: list[float]) -> None:
    values = np.array(estimates)

    result = consistent("norm_cut", values, NOISE)

    np.testing.assert_array_equal(result, reference.norm_cut_one_by_one(values))
    assert result.sum() <= 1.0 + 1e-12
