"""Limits of what was found are those of an estimate that is known to lie above a threshold."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from ldpbeam.estimation.whole_strings import given_choice

ERROR, LEAST = 0.004, 0.02


def given(estimates: np.ndarray, tail: float) -> np.ndarray:
    return given_choice(estimates, np.full(len(estimates), ERROR), LEAST, tail)


def test_far_above_the_threshold_the_limits_are_the_plain_ones() -> None:
    far = np.array([LEAST + 9 * ERROR, 0.3, 0.999])
    assert np.allclose(given(far, 0.025)[:2], far[:2] - 1.959964 * ERROR)
    assert np.allclose(given(far, 0.975), np.minimum(far + 1.959964 * ERROR, 1))
    assert np.allclose(given(far, 0.5), far)


def test_limits_solve_the_law_that_is_cut_off() -> None:
    estimates = LEAST + ERROR * np.array([0.01, 0.5, 1.0, 2.0, 4.0])
    for tail in (0.025, 0.5, 0.975):
        share = given(estimates, tail)
        above = np.asarray(norm.sf(estimates, share, ERROR) / norm.sf(LEAST, share, ERROR))
        assert np.allclose(above[share > 0], tail)
        # At the end 0 the law would have to lie lower still.
        assert (above[share == 0] > tail).all()
    assert (np.diff([given(estimates, tail) for tail in (0.025, 0.5, 0.975)], axis=0) >= 0).all()


@pytest.mark.parametrize("height", [-3.0, -1.0, 0.0, 0.7, 2.0, 5.0])
def test_limits_cover_95_percent_of_what_passes(height: float) -> None:
    """Over the law of estimates above the threshold, of a share so many errors above it."""
    share = LEAST + height * ERROR
    estimates = LEAST + ERROR * np.linspace(0, 12, 40_001)
    density = norm.pdf(estimates, share, ERROR)
    density /= density.sum()
    inside = (given(estimates, 0.025) <= share) & (share <= given(estimates, 0.975))
    assert density[inside].sum() == pytest.approx(0.95, abs=0.001)
    plain = np.abs(estimates - share) <= 1.959964 * ERROR
    if height < 0:
        assert density[plain].sum() < 0.85
