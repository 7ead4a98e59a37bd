"""What is known about estimates is checked, and agrees with the rest of the project."""

import math

import numpy as np
import pytest

from ldpbeam.consistency.base import Noise


@pytest.mark.parametrize(
    ("n", "own", "other", "what"),
    [
        (-1, 0.6, 0.2, "negative"),
        (1, 0.2, 0.6, "other < own"),
        (1, 0.5, 0.5, "other < own"),
        (1, 1.1, 0.5, "own <= 1"),
        (1, 0.5, -0.1, "0 <= other"),
        (1, math.nan, 0.1, "own=nan"),
        (1, 1e-30, 0.0, "2\\^-64"),
    ],
)
def test_impossible_noise_is_refused(n: int, own: float, other: float, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        Noise(n, own, other, False)


def test_variance_is_that_of_a_support_count() -> None:
    """A fixed population: n·f own bits and n·(1-f) others, each Bernoulli."""
    noise = Noise(1000, 0.7, 0.2, False)
    frequencies = np.array([0.0, 0.3, 1.0])

    support_variance = 1000 * frequencies * 0.7 * 0.3 + 1000 * (1 - frequencies) * 0.2 * 0.8

    np.testing.assert_allclose(noise.variance(frequencies), support_variance / (1000 * 0.5) ** 2)
    assert math.isclose(noise.floor_variance, noise.other * (1 - noise.other) / (noise.n * noise.gap**2))


def test_frequencies_outside_the_unit_interval_are_taken_as_its_ends() -> None:
    noise = Noise(1000, 0.7, 0.2, False)

    np.testing.assert_array_equal(noise.variance(np.array([-2.0, 2.0])), noise.variance(np.array([0.0, 1.0])))


def test_without_reports_the_variance_is_infinite() -> None:
    noise = Noise(0, 0.7, 0.2, False)

    assert noise.floor_variance == math.inf
    assert np.all(np.isinf(noise.variance(np.array([0.0, 0.5]))))


def test_realisable_estimates_are_those_of_counts_from_none_to_all() -> None:
    noise = Noise(100, 0.7, 0.2, False)
    counts = np.array([0.0, 100.0])

    ends = (counts / 100 - 0.2) / (0.7 - 0.2)

    np.testing.assert_allclose(noise.realisable(np.array([-1e9, 1e9])), ends)
