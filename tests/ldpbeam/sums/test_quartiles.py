"""Quartiles of two epochs: limits of what changed, and how often they see a change that is none."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import norm

from ldpbeam.sums.distribution import Curve, MeanOfEpochs, curve_quantile
from ldpbeam.sums.quartiles import (
    ShareChange,
    compare_means,
    compare_quartiles,
    compared_places,
)

NO_ROWS = pa.table({})


def curve(shares: list[float], low: list[float], high: list[float]) -> Curve:
    return Curve(NO_ROWS, *(np.array(one) for one in (shares, low, high)))


def test_uneven_limits_go_the_way_they_point() -> None:
    """A change is limited downwards by the lower limit after and the upper one before; all three at once."""
    before = curve([0.3, 0.6, 0.9, 1.0], [0.27, 0.56, 0.88, 1.0], [0.32, 0.61, 0.95, 1.0])
    after = curve([0.2, 0.5, 0.9, 1.0], [0.17, 0.49, 0.85, 1.0], [0.26, 0.53, 0.92, 1.0])
    first, second, third = compare_quartiles(before, after, (), 3)
    wider = norm.ppf(1 - 0.05 / 6) / norm.ppf(0.975)
    (share,) = first.tested
    assert share.place == 0 and share.change == pytest.approx(-0.1)
    assert share.low == pytest.approx(-0.1 - wider * np.hypot(0.03, 0.02))
    assert share.high == pytest.approx(-0.1 + wider * np.hypot(0.06, 0.03))
    assert (second.before[0], second.after[0], second.clear) == (1, 1, True)
    assert second.tested[0].high == pytest.approx(-0.1 + wider * np.hypot(0.03, 0.04))
    assert (third.tested[0].change, third.clear) == (0, False)


def test_shares_on_both_sides_of_an_atom_share_the_rate_of_a_quartile() -> None:
    """Either may be the clear one, and the clearest is told by its limits, not by its change."""
    shares = np.linspace(0.05, 1, 20)
    before = curve(shares.tolist(), (shares - 0.02).tolist(), (shares + 0.02).tolist())
    other = shares + 0.01
    other[11] = shares[11] - 0.12
    after = curve(other.tolist(), (other - 0.02).tolist(), (other + 0.02).tolist())
    _, second, _ = compare_quartiles(before, after, (12,), 4)
    assert [one.place for one in second.tested] == [10]  # the quartile itself
    _, second, _ = compare_quartiles(before, after, (10,), 4)
    assert [one.place for one in second.tested] == [8, 11]
    wider = norm.ppf(1 - 0.05 / 16) / norm.ppf(0.975)
    for one, change in zip(second.tested, (0.01, -0.12), strict=True):
        reach = wider * np.hypot(0.02, 0.02)
        assert [one.change, one.low, one.high] == pytest.approx([change, change - reach, change + reach])
    assert second.clear and second.clearest == second.tested[1]
    narrow, wide = ShareChange(1, 0.1, 0.05, 0.2), ShareChange(2, -0.2, -0.5, -0.05)
    assert narrow.certainty == pytest.approx(2) and wide.certainty == pytest.approx(4 / 3)


def test_what_is_kept_widens_the_change_of_a_mean_within_one_memo() -> None:
    """Errors by what devices keep add up there, and are independent of each other elsewhere."""
    before, after = MeanOfEpochs(10.0, 3.0, 1.0), MeanOfEpochs(21.0, 4.0, 2.0)
    assert before.std_error == pytest.approx(np.sqrt(10))
    z = norm.ppf(1 - 0.05 / 8)
    one = compare_means(before, after, 4, one_memo=True)
    assert (one.change, one.half_width) == pytest.approx((11, z * np.sqrt(9 + 16 + 3**2)))
    assert not one.clear
    two = compare_means(before, after, 4, one_memo=False)
    assert two.half_width == pytest.approx(z * np.sqrt(9 + 16 + 1 + 4))
    lower = compare_means(MeanOfEpochs(36.0, 3.0, 1.0), after, 4, one_memo=True)
    assert lower.change == -15 and lower.clear


def test_places_clear_of_atoms() -> None:
    """The middle of the gap to the next atom or end, at most a sixteenth of the domain away."""
    assert compared_places(40, (), 96) == (40,)
    atoms = (0, 12, 24, 95)
    assert compared_places(12, atoms, 96) == compared_places(7, atoms, 96) == (5, 17)
    assert compared_places(17, atoms, 96) == (17,)  # the middle of a gap is clear itself
    assert (
        compared_places(18, atoms, 96) == compared_places(24, atoms, 96) == (17, 30)
    )  # 35 would be the middle
    assert compared_places(30, atoms, 96) == (30,) == compared_places(30, (), 96)
    assert compared_places(0, atoms, 96) == compared_places(4, atoms, 96) == (5,)
    assert compared_places(95, atoms, 96) == compared_places(90, atoms, 96) == (88,)
    assert compared_places(3, (3,), 96) == (1, 9)  # an end counts as an atom without being declared
    assert compared_places(0, (3,), 96) == (0,)
    assert compared_places(3, (3, 4), 96) == (1, 3)
    assert compared_places(4, (3, 4), 96) == (3, 10)
    assert compared_places(0, (0,), 2) == compared_places(1, (1,), 2) == (0,)


def test_a_value_is_left_out_only_where_the_curve_is_surely_past_it() -> None:
    one = curve([0.1, 0.4, 0.7, 1.0], [0.0, 0.3, 0.5, 1.0], [0.2, 0.5, 0.8, 1.0])
    assert curve_quantile(one.shares, one.low, one.high, 0.5) == (2, 1, 3)
    assert curve_quantile(one.shares, one.low, one.high, 0.51) == (2, 2, 3)
    assert curve_quantile(one.shares, one.low, one.high, 0.2) == (1, 0, 1)
    assert curve_quantile(one.shares, one.low, one.high, 0.999) == (3, 3, 3)
