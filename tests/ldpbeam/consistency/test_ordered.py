"""`ordered`: against a plain version, and what it does to shapes in an order."""

from __future__ import annotations

import numpy as np
import pytest

from ldpbeam.consistency import consistent
from ldpbeam.consistency import ordered as module
from ldpbeam.consistency._simplex import project
from ldpbeam.consistency.base import FloatArray, Noise
from tests.reference.consistency import haar_of_all_shifts


def drawn(true: FloatArray, noise: Noise, seed: int) -> FloatArray:
    """Raw estimates of a fleet with these frequencies."""
    random = np.random.default_rng(seed)
    held = random.multinomial(noise.n, true)
    support = random.binomial(held, noise.own) + random.binomial(noise.n - held, noise.other)
    return np.asarray((support / noise.n - noise.other) / noise.gap, np.float64)


def shapes(k: int) -> dict[str, FloatArray]:
    """Smooth, with an edge, and with a single value that many have."""
    place = (np.arange(k) + 0.5) / k
    two = np.exp(-0.5 * ((place - 0.3) / 0.08) ** 2) + 0.6 * np.exp(-0.5 * ((place - 0.7) / 0.12) ** 2)
    blocks = 0.2 + (place > 0.25) - 0.6 * (place > 0.6)
    atom = 0.7 * two / two.sum()
    atom[k // 3] += 0.3
    return {name: shape / shape.sum() for name, shape in (("two", two), ("blocks", blocks), ("atom", atom))}


@pytest.mark.parametrize("n", [1_000, 100_000])
@pytest.mark.parametrize("k", [1, 2, 5, 16, 33])
@pytest.mark.thorough
def test_a_plain_version_gives_the_same(k: int, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With narrow rows: 512 times narrower, which errs 512² times less than the rows of the next test."""
    monkeypatch.setattr(module, "STEPS", 512 * module.STEPS)
    noise = Noise(n, 0.5, 0.25, False)
    near = 1.3e-7 * noise.floor_variance**0.5
    for seed, true in enumerate(shapes(k).values()):
        estimates = drawn(true, noise, seed)
        line = estimates - (estimates.sum() - 1.0) / k
        slow = haar_of_all_shifts(line, noise.variance(project(line)))
        assert module.smooth(estimates, noise) == pytest.approx(slow, abs=near)
        assert consistent("ordered", estimates, noise) == pytest.approx(project(slow), abs=2 * near)


@pytest.mark.parametrize("n", [1_000, 100_000])
@pytest.mark.parametrize("k", [5, 33, 128, 500])
def test_rows_of_differences_change_little(k: int, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """0.034 standard deviations at most; the seeds are fixed, so nothing fails by chance."""
    noise = Noise(n, 0.5, 0.25, False)
    for seed, true in enumerate(shapes(k).values()):
        estimates = drawn(true, noise, seed)
        few = module.smooth(estimates, noise)
        with monkeypatch.context() as patch:
            patch.setattr(module, "STEPS", 512 * module.STEPS)
            each = module.smooth(estimates, noise)
        assert few == pytest.approx(each, abs=0.034 * noise.floor_variance**0.5)
        assert not np.array_equal(few, each)


@pytest.mark.parametrize("k", [3, 64, 100])
def test_it_reads_alike_from_both_ends(k: int) -> None:
    noise = Noise(10_000, 0.5, 0.25, False)
    estimates = drawn(np.full(k, 1.0 / k), noise, k)
    forward = consistent("ordered", estimates, noise)
    assert consistent("ordered", estimates[::-1], noise)[::-1] == pytest.approx(forward, abs=1e-12)


@pytest.mark.parametrize(("name", "share"), [("two", 0.3), ("blocks", 0.22), ("atom", 0.33)])
def test_most_of_the_noise_goes_and_shapes_stay(name: str, share: float) -> None:
    """Squared error beside norm_sub, twelve fleets; the seeds are fixed."""
    noise, true = Noise(20_000, 0.5, 0.2689, False), shapes(128)[name]
    error = dict.fromkeys(("ordered", "norm_sub"), 0.0)
    for seed in range(12):
        estimates = drawn(true, noise, seed)
        for method in error:
            error[method] += float(np.sum((consistent(method, estimates, noise) - true) ** 2))
    assert error["ordered"] < share * error["norm_sub"]


def test_without_noise_nothing_moves() -> None:
    true = np.array([0.5, 0.0, 0.25, 0.25])
    assert consistent("ordered", true, Noise(100, 1.0, 0.0, True)) == pytest.approx(true, abs=1e-12)
