"""``bayes``: its fit is the slow one, binning changes little, and it does what it is there for."""

from __future__ import annotations

import numpy as np
import pytest

from ldpbeam.consistency import bayes as module
from ldpbeam.consistency import consistent
from ldpbeam.consistency._posterior import CountNoise
from ldpbeam.consistency._simplex import project
from ldpbeam.consistency.base import FloatArray, Noise
from tests.reference.consistency import kiefer_wolfowitz

NOISE = Noise(20_000, 0.5, 0.25, False)


def drawn(true: FloatArray, noise: Noise, seed: int) -> FloatArray:
    random = np.random.default_rng(seed)
    held = np.round(true * noise.n).astype(np.int64)
    support = random.binomial(held, noise.own) + random.binomial(noise.n - held, noise.other)
    return np.asarray((support / noise.n - noise.other) / noise.gap)


def zipf(k: int, exponent: float = 1.5) -> FloatArray:
    true = np.arange(1.0, k + 1.0) ** -exponent
    return np.asarray(true / true.sum())


@pytest.mark.parametrize(
    ("noise", "k"),
    [
        (NOISE, 40),
        (Noise(300, 0.6, 0.1, False), 25),
        (Noise(10**7, 0.5, 0.01, False), 12),
        (Noise(50, 0.9, 0.3, True), 3),
        (Noise(40, 1.0, 0.0, False), 6),
    ],
)
def test_the_fit_is_the_slow_one(noise: Noise, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROUNDS", 25)
    estimates = drawn(zipf(k), noise, k)
    scale = CountNoise.of(noise)
    counts = noise.realisable(estimates) * noise.n
    points = scale.counts(module.prior_points(np.unique(counts), scale))
    slow = kiefer_wolfowitz(counts, points, scale.floor, scale.slope, 25)
    fast = module.shrunk(estimates, noise)
    # Only points beyond 8 standard deviations are left out: a density below 1e-13.
    np.testing.assert_allclose(fast, project(slow / noise.n), rtol=0, atol=1e-9)


@pytest.mark.parametrize(("rows", "sd"), [(0, 0.02), (300, 0.002)])
def test_bins_change_little(rows: int, sd: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where estimates are too many for rows of their own: hundredths of a standard deviation."""
    estimates = drawn(zipf(5000, 1.1), NOISE, 5)
    exact = module.shrunk(estimates, NOISE)
    monkeypatch.setattr(module, "ROWS", rows)
    fewer = module.shrunk(estimates, NOISE)
    assert not np.array_equal(fewer, exact)
    assert np.max(np.abs(fewer - exact)) < sd * np.sqrt(NOISE.floor_variance)


def test_rows_do_not_grow_with_the_number_of_values() -> None:
    noise = Noise(10**9, 0.5, 0.25, False)
    scale = CountNoise.of(noise)
    sizes = []
    for k in (20_000, 400_000):
        random = np.random.default_rng(1)
        rows, weights = module.binned(random.normal(0, np.sqrt(scale.floor), k), scale)
        assert weights.sum() == k
        assert np.all(np.diff(rows) > 0)
        sizes.append(rows.size)
    assert sizes[1] < 1.3 * sizes[0] < 500


@pytest.mark.parametrize("shape", ["zipf", "uniform", "sparse", "two levels"])
@pytest.mark.parametrize("k", [100, 1000])
def test_it_has_less_error_than_norm_sub_where_values_are_many(shape: str, k: int) -> None:
    rank = np.arange(1, k + 1)
    true = {
        "zipf": zipf(k),
        "uniform": np.full(k, 1 / k),
        "sparse": np.where(rank <= k // 20, 20 / k, 0.0),
        "two levels": np.where(rank <= k // 10, 9.0, 1.0) / (1.8 * k),
    }[shape]
    error = {"norm_sub": 0.0, "bayes": 0.0}
    for seed in range(5):
        estimates = drawn(true, NOISE, seed)
        for name in error:
            error[name] += float(np.mean((consistent(name, estimates, NOISE) - true) ** 2))
    assert error["bayes"] < 0.85 * error["norm_sub"]


def moved(found: FloatArray, estimates: FloatArray, noise: Noise) -> float:
    """By how much of the noise's variance, which is taken at a uniform histogram: any has the same sum."""
    spread = np.sum(noise.variance(np.full(estimates.size, 1 / estimates.size)))
    return float(np.sum((found - estimates) ** 2) / spread)


@pytest.mark.parametrize(("k", "noise"), [(60, NOISE), (90, Noise(5000, 0.6, 0.01, True))])
def test_it_is_norm_sub_where_it_would_move_little(
    k: int, noise: Noise, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit, on either side of the limit, whatever the limit is."""
    estimates = drawn(zipf(k, 1.1), noise, k)
    shrunk = module.shrunk(estimates, noise)
    share = moved(shrunk, estimates, noise)
    assert not np.array_equal(shrunk, project(estimates))
    for limit, expected in ((share * 0.999, shrunk), (share * 1.001, project(estimates))):
        monkeypatch.setattr(module, "LEAST_MOVED", limit)
        assert np.array_equal(consistent("bayes", estimates, noise), expected)
