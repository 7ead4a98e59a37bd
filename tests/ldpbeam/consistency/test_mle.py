"""mle finds the global maximum of the likelihood it states."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldpbeam.consistency import consistent
from ldpbeam.consistency.base import Noise
from tests.reference import consistency as reference

CHANNELS = [(0.62, 0.2), (0.5, 0.05), (0.9, 0.001), (0.55, 0.45), (0.8, 0.6), (0.999, 0.4)]


def estimates_of(shares: np.ndarray, noise: Noise) -> np.ndarray:
    return (shares - noise.other) / (noise.own - noise.other)


@st.composite
def problems(draw: st.DrawFn, exclusive: bool) -> tuple[np.ndarray, Noise]:
    own, other = draw(st.sampled_from(CHANNELS))
    counts = draw(st.lists(st.integers(0, 64), min_size=2, max_size=15))
    if exclusive and sum(counts) == 0:
        counts[0] = 1
    total = sum(counts) if exclusive else 64
    return np.array(counts) / total, Noise(total, own, other, exclusive)


@given(st.booleans().flatmap(problems))
def test_no_histogram_makes_the_counts_likelier(problem: tuple[np.ndarray, Noise]) -> None:
    shares, noise = problem

    x = consistent("mle", estimates_of(shares, noise), noise)

    weights, matrix = reference.outcomes(shares, noise.own, noise.other, noise.exclusive)
    assert reference.optimality_gap(x, weights, matrix) <= 1e-11


@pytest.mark.parametrize("exclusive", [True, False])
def test_counts_of_none_and_of_all(exclusive: bool) -> None:
    noise = Noise(100, 0.7, 0.1, exclusive)
    low, high = estimates_of(np.array([0.0, 1.0]), noise)

    nothing = consistent("mle", np.array([low, low, low]), noise)
    everything = consistent("mle", np.array([high, high]), noise)
    one = consistent("mle", np.array([high, low, low]), noise)

    np.testing.assert_allclose(nothing, np.full(3, 1 / 3), atol=1e-15)
    np.testing.assert_allclose(everything, [0.5, 0.5], atol=1e-15)
    np.testing.assert_allclose(one, [1.0, 0.0, 0.0], atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_large_histograms_converge(seed: int) -> None:
    k = 20_000
    random = np.random.default_rng(seed)
    noise = Noise(10**6, 0.5, 0.25, False)
    true = random.dirichlet(np.full(k, 0.05))
    estimates = true + random.normal(size=k) * np.sqrt(noise.variance(true))

    x = consistent("mle", estimates, noise)

    mu = noise.other + x * noise.gap
    pull = (noise.other + estimates * noise.gap - mu) / (mu * (1 - mu))
    assert np.ptp(pull[x > 0]) <= 1e-12
    assert np.max(pull[x == 0]) <= np.min(pull[x > 0]) + 1e-12
