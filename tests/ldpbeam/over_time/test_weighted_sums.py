"""Sums over epochs: their variances against whole covariance matrices, and against simulated fleets."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import ldpbeam
from ldpbeam.estimates import nearest_shares, variance
from ldpbeam.over_time import (
    DrawnAnew,
    Series,
    combined,
    compare_epochs,
    difference,
    mean,
    memo_errors,
    trend,
)
from ldpbeam.over_time.covariance import MemoErrors, slotted_errors
from ldpbeam.protocols import Parameters, protocol
from ldpbeam.protocols.part_estimator import PartEstimator
from tests.narrow import present

TWO = Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0)
EPOCHS = np.array([0, 1, 2, 5])
SHARES = np.array([0.05, 0.25, 0.6, 0.1])


def memo_of(name: str, parameters: Parameters = TWO, share: Fraction = Fraction(1)) -> MemoErrors:
    found = memo_errors(PartEstimator(protocol(name, 4, parameters), share))
    assert found is not None
    return found


def series(n: Any = 1000, error: float = 0.1) -> Series:
    shape = (len(EPOCHS), len(SHARES))
    return Series(EPOCHS, np.full(shape, n), np.tile(SHARES, (len(EPOCHS), 1)), np.full(shape, error))


def quadratic(weights: np.ndarray, matrix: np.ndarray) -> float:
    return float(np.sqrt(weights @ matrix @ weights))


def test_reports_weigh_alike_where_that_is_asked() -> None:
    """By hand: of the first value 3 of 4 reports are in the first epoch, of the second one 1 of 5."""
    n, estimate = np.array([[3, 1], [1, 4], [9, 9]]), np.array([[1.0, 0.0], [5.0, 10.0], [7.0, 7.0]])
    given = Series(np.arange(3), n, estimate, np.array([[4.0, 5.0], [12.0, 10.0], [3.0, 4.0]]))
    first = np.arange(3) < 2
    found = mean(given.rows(first), None, weight="reports")
    assert found.estimate.tolist() == pytest.approx([2, 8])
    assert (found.std_error**2).tolist() == pytest.approx([18, 65])
    change = difference(given, ~first, first, None, weight="reports")
    assert change.estimate.tolist() == pytest.approx([5, -1])
    assert (change.std_error**2).tolist() == pytest.approx([27, 81])
    compared = compare_epochs(given, first, ~first, None, weight="reports")
    assert compared.before.estimate.tolist() == found.estimate.tolist()
    assert compared.change.tolist() == change.estimate.tolist()
    # An epoch without an estimate has no weight, whatever its reports.
    holes = replace(given, estimate=np.where(np.arange(3)[:, None] == 1, np.nan, estimate))
    assert mean(holes.rows(first), None, weight="reports").estimate.tolist() == [1, 0]


@pytest.mark.parametrize("name", ["l_osue", "loloha"])
@pytest.mark.parametrize("rate", [0.0, 0.1, 1.0])
def test_a_stated_rate_gives_the_whole_covariance_matrix(name: str, rate: float) -> None:
    given, errors = series(), memo_of(name)
    kept, anew = errors.floor_variance(SHARES) / 1000, errors.drawn_anew(SHARES, SHARES)[0] / 1000
    lags = np.abs(EPOCHS[:, None] - EPOCHS)
    time = EPOCHS - EPOCHS.mean()
    after = np.array([False, False, True, True])
    known = DrawnAnew(rate, rate)
    for value in range(4):
        share = (1 - rate) ** lags
        matrix = share * kept[value] + (1 - share) * anew[value]
        np.fill_diagonal(matrix, 0.01)
        for found, weights in (
            (mean(given, errors, known), np.full(4, 0.25)),
            (difference(given, after, ~after, errors, known), np.array([-0.5, -0.5, 0.5, 0.5])),
            (trend(given, errors, known), time / (time**2).sum()),
        ):
            assert found.std_error[value] == pytest.approx(quadratic(weights, matrix), rel=1e-9)
            assert found.estimate[value] == pytest.approx(weights @ given.estimate[:, value], abs=1e-12)
            assert found.epochs[value] == 4


def test_a_range_of_rates_is_at_least_as_wide_as_each_rate_in_it() -> None:
    given, after = series(), np.array([False, False, True, True])
    for name in ("l_osue", "loloha"):
        errors = memo_of(name)
        wide = DrawnAnew(0.05, 0.4)
        for estimand in (mean, trend, lambda s, e, r: difference(s, after, ~after, e, r)):
            bound = estimand(given, errors, wide).std_error
            for rate in (0.05, 0.2, 0.4):
                assert (estimand(given, errors, DrawnAnew(rate, rate)).std_error <= bound * (1 + 1e-12)).all()
            assert (bound <= estimand(given, errors, None).std_error * (1 + 1e-12)).all()


def test_a_difference_can_be_less_certain_than_independent_epochs_say() -> None:
    """Linear hashing of k <= g² values, and values that change among devices drawn for life."""
    given = series()
    g3 = memo_errors(
        PartEstimator(protocol("loloha", 9, Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0, g=3)))
    )
    later = np.array([False, False, False, True])
    first = np.array([True, False, False, False])
    for errors in (g3, memo_of("grr", Parameters(epsilon=1.0), Fraction(1, 2))):
        assert errors is not None
        found = difference(given, later, first, errors)
        opposed = (errors.opposed(SHARES, errors.place(SHARES)) ** 2).sum(axis=0) / 1000
        assert (opposed > 0).all()
        assert found.std_error == pytest.approx(np.sqrt(0.02 + 2 * opposed), rel=1e-9)
    slotted = slotted_errors(PartEstimator(protocol("l_osue", 4, TWO)), 1, 2)
    apart = slotted.drawn_apart(SHARES)
    assert (apart > 0).all()
    common = (slotted.least_floor_variance(SHARES) - apart) / 1000
    found = difference(given, later, first, slotted, DrawnAnew(0.0, 0.0))
    assert found.std_error == pytest.approx(np.sqrt(0.02 - 2 * common), rel=1e-9)


def test_epochs_without_an_estimate_are_left_out() -> None:
    given, errors = series(), memo_of("l_osue")
    estimate, n = given.estimate.copy(), given.n.copy()
    estimate[1:, 0] = np.nan
    estimate[:, 1] = np.nan
    n[0, 2] = 0
    holes = Series(EPOCHS, n, estimate, given.std_error)
    found = mean(holes, errors)
    assert found.epochs.tolist() == [1, 0, 3, 4]
    assert found.estimate[0] == pytest.approx(SHARES[0])
    assert found.std_error[0] == pytest.approx(0.1)
    assert np.isnan([found.estimate[1], found.std_error[1], found.std_error_floor[1]]).all()
    assert np.isnan(trend(holes, errors).estimate[:2]).all()
    after = np.array([False, True, True, True])
    assert np.isnan(difference(holes, after, ~after, errors).estimate[:3]).all()
    assert np.isfinite(difference(holes, after, ~after, errors).estimate[3])
    for wrong in (
        (EPOCHS[::-1], n),
        (EPOCHS, n[:, :2]),
    ):
        with pytest.raises(ValueError, match="series"):
            Series(*wrong, estimate, estimate)


def test_more_reports_in_one_epoch_than_in_another() -> None:
    """No more devices than the smaller epoch has can repeat themselves: covariance V_one·n/larger n."""
    n = np.repeat([[500], [1000], [1000], [1000]], 4, axis=1)
    given, errors = series(n), memo_of("l_osue")
    weights = np.array([0.5, 0.5, 0.0, 0.0])
    found = combined(given, weights, errors, DrawnAnew(0.0, 0.0)).std_error
    assert found == pytest.approx(np.sqrt(0.5 * 0.01 + 0.5 * errors.floor_variance(SHARES) / 1000))


def test_what_repeats_itself_takes_frequencies_that_add_up_to_1() -> None:
    """Of the estimates of all values; also with a rate."""
    built = protocol("l_grr", 4, TWO)
    errors = memo_errors(PartEstimator(built))
    assert errors is not None
    noisy, nearest = np.array([-0.5, 0.3, 0.9, 0.6]), np.array([0.0, 1 / 30, 19 / 30, 1 / 3])
    assert errors.shares(noisy, errors.levels(noisy)) == pytest.approx(nearest)
    slotted = slotted_errors(PartEstimator(built), 1, 2)
    assert slotted.shares(noisy, slotted.levels(noisy)) == pytest.approx(nearest)
    given = [
        Series(np.arange(6), np.full((6, 4), 1000), np.tile(one, (6, 1)), np.full((6, 4), 1.0))
        for one in (noisy, nearest)
    ]
    for rate in (None, DrawnAnew(0.2, 0.2)):
        first, second = (mean(one, errors, rate) for one in given)
        assert first.std_error == pytest.approx(second.std_error, rel=1e-9)
        assert first.std_error_floor == pytest.approx(second.std_error_floor, rel=1e-9)
    means = memo_errors(PartEstimator(protocol("one_bit_rrpm", 11, Parameters(epsilon_longitudinal=2.0))))
    assert means is not None
    assert means.shares(np.array([12.0]), means.levels(np.array([12.0]))).tolist() == [12.0]


@pytest.mark.parametrize(
    ("collection", "repeats"), [("minutes_in_app", True), ("first_choice", True), ("screen_seconds", False)]
)
def test_tables_say_what_of_an_error_repeats_itself(collection: str, repeats: bool) -> None:
    agreed = ldpbeam.load_collection(f"examples/{collection}.yaml")
    size = present(agreed.domain).size
    table = ldpbeam.estimate(agreed, ldpbeam.simulate(agreed, ldpbeam.Index(np.arange(3000) % size), seed=3))
    floor, error = (np.asarray(table[name]) for name in ("std_error_floor", "std_error"))
    assert table.column_names.index("std_error_floor") == table.column_names.index("std_error") + 1
    if not repeats:
        assert (floor == 0).all()
        return
    lasting = agreed.protocol.estimator.lasting
    assert lasting is not None
    assert floor**2 == pytest.approx(variance(nearest_shares(np.asarray(table["estimate"])), 3000, lasting))
    assert (floor < 0.99 * error).all()
    strict = replace(agreed, min_reports=5000)
    few = ldpbeam.estimate(strict, ldpbeam.simulate(strict, ldpbeam.Index(np.zeros(10, np.int64))))
    assert few["std_error_floor"].null_count == size
