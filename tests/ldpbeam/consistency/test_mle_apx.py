"""mle_apx solves the problem it states."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldpbeam.consistency import consistent
from ldpbeam.consistency.base import Noise

CHANNELS = [(0.62, 0.2), (0.5, 0.05), (0.9, 0.001), (0.55, 0.45), (0.8, 0.6), (0.999, 0.4)]


def line(noise: Noise) -> tuple[float, float]:
    """Variance at frequency 0 and its slope, read off Noise.variance (times n)."""
    ends = noise.variance(np.array([0.0, 1.0])) * noise.n
    return float(ends[0]), float(ends[1] - ends[0])


@st.composite
def problems(draw: st.DrawFn) -> tuple[np.ndarray, Noise]:
    own, other = draw(st.sampled_from(CHANNELS))
    noise = Noise(draw(st.sampled_from([50, 1000, 10**6])), own, other, False)
    raw = draw(st.lists(st.floats(-0.5, 1.0), min_size=2, max_size=12))
    return noise.realisable(np.array(raw)), noise


@given(problems())
def test_no_histogram_has_a_smaller_objective(problem: tuple[np.ndarray, Noise]) -> None:
    """Kuhn-Tucker: the derivative is one number where x > 0, and no smaller elsewhere."""
    estimates, noise = problem
    floor, slope = line(noise)

    x = consistent("mle_apx", estimates, noise)

    variance = floor + slope * x
    off = x - estimates
    derivative = 2 * off / variance - slope * off**2 / variance**2
    scale = max(1.0, float(np.max(np.abs(derivative))))
    assert np.ptp(derivative[x > 1e-12]) <= 1e-8 * scale
    assert np.min(derivative) >= np.min(derivative[x > 1e-12]) - 1e-8 * scale


@pytest.mark.parametrize(
    ("estimates", "expected"),
    [([1.0, 1.0, 0.0], [0.5, 0.5, 0.0]), ([0.6, 0.5], [0.55, 0.45])],
)
def test_degenerate_channels_fall_back_to_the_projection(
    estimates: list[float], expected: list[float]
) -> None:
    other = 0.3 if len(estimates) == 3 else 0.0

    result = consistent("mle_apx", np.array(estimates), Noise(1000, 1.0, other, False))

    np.testing.assert_allclose(result, expected, atol=1e-15)
