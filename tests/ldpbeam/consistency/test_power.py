"""power is the posterior mean under the power law that fits best."""

import numpy as np
import pytest
from scipy import optimize

from ldpbeam.arrays import Floats
from ldpbeam.consistency import consistent
from ldpbeam.consistency._posterior import (
    EXACT_ROWS,
    CountNoise,
    Posterior,
    best_exponent,
    log_mass,
)
from ldpbeam.consistency.base import Noise
from ldpbeam.consistency.power import posterior_means
from tests.reference import consistency as reference

CHANNELS = [
    (0.62, 0.2),
    (0.9999, 4.5e-5),
    (0.5, 1e-6),
    (0.55, 0.5),
    (0.999, 0.9),
    (1.0, 0.3),
    (1.0, 0.0),
    (0.3, 0.29),
    (0.2, 0.0),
]
EXPONENTS = [0.0, 1.0, 2.0, 4.0, 16.0]


def estimated_counts(noise: CountNoise) -> np.ndarray:
    """Everywhere within 8 standard deviations of 0..n, densest near 0."""
    random = np.random.default_rng(noise.n)
    first, last = noise.std(np.array([0.0, float(noise.n)]))
    low, high = -8.0 * first, noise.n + 8.0 * last
    near = random.uniform(-8.0 * first, 60.0 * first, 30)
    return np.unique(np.clip(np.concatenate([np.linspace(low, high, 30), near]), low, high))


@pytest.mark.parametrize("n", [1, 50, 1024, 1025, 20_000])
@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.thorough
def test_accuracy_is_the_documented_one(n: int, channel: tuple[float, float]) -> None:
    noise = CountNoise.of(Noise(n, *channel, False))
    counts = estimated_counts(noise)
    many = np.concatenate([counts, np.random.default_rng(0).choice(counts, EXACT_ROWS)])
    std = noise.std(np.clip(counts, 0.0, n))
    for exponent in EXPONENTS:
        slow = reference.power_direct(counts, n, noise.floor, noise.slope, exponent)
        fast = posterior_means(counts, noise, exponent)
        gridded = posterior_means(many, noise, exponent)[: counts.size]

        assert np.all(np.abs(fast - slow) <= 0.5 + 3e-4 * std)
        assert np.all(np.abs(gridded - slow) <= 0.5 + 2e-3 * std)
        if n <= 1024:
            np.testing.assert_allclose(fast, slow, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n", [10_000, pytest.param(40_000, marks=pytest.mark.thorough)])
def test_where_noise_is_wide_there_is_no_half_count(n: int) -> None:
    noise = CountNoise.of(Noise(n, 0.62, 0.2, False))
    std = np.sqrt(noise.floor)
    counts = np.linspace(-6.0 * std, 40.0 * std, 80)
    for exponent in EXPONENTS[:4]:
        slow = reference.power_direct(counts, n, noise.floor, noise.slope, exponent)
        fast = posterior_means(counts, noise, exponent)
        np.testing.assert_allclose(fast, slow, atol=1e-4 * std)


@pytest.mark.parametrize("exponent", [0.0, 0.3, 1.0, 1.7, 16.0])
@pytest.mark.parametrize("n", [1, 1023, 1024, 10**6])
def test_the_prior_is_normalised(exponent: float, n: int) -> None:
    direct = np.log(np.sum(np.arange(1.0, n + 2.0) ** -exponent))

    assert np.isclose(log_mass(exponent, n), direct, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n", [500, 5000])
def test_the_fitted_exponent_maximises_the_marginal_likelihood(n: int) -> None:
    noise = Noise(n, 0.62, 0.2, False)
    scale = CountNoise.of(noise)
    random = np.random.default_rng(n)
    true: Floats = np.arange(1.0, 41.0) ** -1.3
    true /= true.sum()
    counts = n * (true + random.normal(size=40) * np.sqrt(noise.variance(true)))

    posterior = Posterior(counts, scale)
    fitted = best_exponent(lambda exponent: float(np.sum(posterior.log_marginals(exponent))))
    direct = optimize.minimize_scalar(
        lambda a: -reference.power_log_likelihood(counts, n, scale.floor, scale.slope, a),
        bounds=(0.0, 16.0),
        method="bounded",
        options={"xatol": 1e-7},
    )

    assert 0.1 < fitted < 15.0
    assert np.isclose(fitted, direct.x, atol=1e-3)


@pytest.mark.parametrize("best", [0.0, 3.9, 5.5, 9.0, 15.9, 16.0])
def test_the_exponent_is_sought_up_to_16(best: float) -> None:
    assert best_exponent(lambda exponent: -((exponent - best) ** 2)) == pytest.approx(best, abs=1e-5)


@pytest.mark.thorough
def test_the_grid_fits_the_same_exponent_as_single_rows() -> None:
    """The same 1000 estimates alone, and doubled (which selects the grid but moves no maximum)."""
    noise = Noise(100_000, 0.5, 0.25, False)
    true: Floats = np.arange(1.0, 1001.0) ** -1.2
    true /= true.sum()
    draws = np.random.default_rng(6).normal(size=1000)
    estimates = true + draws * np.sqrt(noise.variance(true))

    alone = consistent("power", estimates, noise)
    doubled = consistent("power", np.concatenate([estimates, estimates]), noise)

    std = np.sqrt(noise.floor_variance)
    np.testing.assert_allclose(doubled[:1000], alone, atol=2e-3 * std)
    np.testing.assert_array_equal(doubled[:1000], doubled[1000:])


def test_power_ns_is_power_then_norm_sub() -> None:
    noise = Noise(2000, 0.5, 0.25, False)
    estimates = np.array([0.54, 0.31, 0.19, 0.06, -0.03, -0.05])

    both = consistent("norm_sub", consistent("power", estimates, noise), noise)

    np.testing.assert_array_equal(consistent("power_ns", estimates, noise), both)
