"""Sums over epochs: their variances against whole covariance matrices, and against simulated fleets."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import ldpbeam
from benchmarks.over_time import (
    EVENT_EPOCHS,
    EVENT_SETTINGS,
    ONCE,
    PANELS,
    SETTINGS,
    Population,
    alarms,
    coverage,
    events,
    fleets,
    returning,
)
from ldpbeam.estimates import nearest_shares, variance
from ldpbeam.over_time import DrawnAnew, Series, combined, difference, errors_of, mean, memo_errors, trend
from ldpbeam.over_time.compare import compare_epochs
from ldpbeam.over_time.covariance import MemoErrors, slotted_errors
from ldpbeam.over_time.results import histories
from ldpbeam.over_time.smooth import smooth
from ldpbeam.protocols import Parameters, protocol
from ldpbeam.protocols.part_estimator import PartEstimator
from ldpbeam.simulators.participation import silenced
from ldpbeam.simulators.protocol_fleet import ProtocolFleet
from ldpbeam.simulators.random_words import RandomWords
from tests.conftest import REPOSITORY
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


def test_without_a_rate_each_pair_takes_what_is_worst_for_it() -> None:
    given, errors = series(), memo_of("l_osue")
    kept = errors.floor_variance(SHARES) / 1000
    after = np.array([False, True, True, True])
    assert mean(given, errors).std_error == pytest.approx(np.sqrt(kept + (0.01 - kept) / 4))
    assert mean(given, errors).std_error_floor == pytest.approx(np.sqrt(kept))
    found = difference(given, after, ~after, errors)
    assert found.std_error == pytest.approx(np.sqrt(2 * kept + (0.01 - kept) * (1 + 1 / 3)))
    time = EPOCHS - EPOCHS.mean()
    weights = time / (time**2).sum()
    for value in range(4):
        matrix = np.where(np.outer(weights, weights) > 0, kept[value], 0.0)
        np.fill_diagonal(matrix, 0.01)
        assert trend(given, errors).std_error[value] == pytest.approx(quadratic(weights, matrix))
    # Independent errors are those of no memo at all.
    assert mean(given, None).std_error == pytest.approx(np.full(4, 0.05))
    assert mean(given, None).std_error_floor.tolist() == [0.0] * 4


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
    """Of the estimates of all values; also with a rate, and where it is smoothed."""
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
    smoothed = [smooth(one, errors).std_error for one in given]
    assert smoothed[0] == pytest.approx(smoothed[1], rel=1e-6)
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


@pytest.mark.parametrize(
    ("name", "rate", "band"),
    [
        ("loloha", 0.25, (0.90, 0.985)),
        ("l_osue", 0.0, (0.90, 0.985)),
        ("l_osue", ONCE, (0.90, 1.0)),
    ],
)
@pytest.mark.cases(1)
def test_intervals_of_simulated_fleets_cover(name: str, rate: float, band: tuple[float, float]) -> None:
    """A small part of benchmarks/over_time.py; the naive interval of a mean fails in all of them."""
    built = protocol(name, 8, TWO)
    table = coverage(fleets(built, 50, 500, 10, Population(rate), 5), rate)
    for found in table.values():
        assert found["unknown rate"] >= band[0]
        assert band[0] <= found["stated rate"] <= band[1]
    assert table["mean"]["naive"] < 0.9
    if rate == ONCE:
        assert table["difference"]["naive"] < 0.93
        # The bound without a rate is reached.
        assert table["difference"]["unknown rate"] < 0.985


@pytest.mark.parametrize("name", ["l_osue", "loloha", "dbitflip_pm"])
@pytest.mark.parametrize("epochs", [7, 30])
def test_a_share_that_changes_is_no_rate_where_devices_come_back(name: str, epochs: int) -> None:
    """The variance of a mean, exactly: devices leave a home value with the chance .5, and return with .5.

    So after any number of epochs it is at home both times with the chance 1/4, and rests away with less. From
    0 to the share that changes is enough; the share alone is too little.
    """
    parameters = {"dbitflip_pm": Parameters(epsilon_longitudinal=2.0, d=2)}.get(name, TWO)
    errors, n, error = memo_of(name, parameters), 1000, 0.1
    given = Series(
        np.arange(epochs), np.full((epochs, 4), n), np.tile(SHARES, (epochs, 1)), np.full((epochs, 4), error)
    )
    kept, anew = errors.floor_variance(SHARES) / n, errors.drawn_anew(SHARES, SHARES)[0] / n
    lags = np.abs(np.arange(epochs)[:, None] - np.arange(epochs))
    # Apart from a chance to hold the same value, which only adds to it.
    stays = np.where(lags == 0, 1.0, 0.25 + 0.25 * 0.5**lags)
    alone, ranged = (mean(given, errors, DrawnAnew(least, 0.5)).std_error for least in (0.5, 0.0))
    for value in range(4):
        matrix = stays * kept[value] + (1 - stays) * anew[value]
        np.fill_diagonal(matrix, error**2)
        true = quadratic(np.full(epochs, 1 / epochs), matrix)
        assert ranged[value] >= true
        if epochs == 30:
            assert alone[value] < true
    # A range from 0 is no rate at all, as far as means go.
    assert ranged == pytest.approx(mean(given, errors).std_error, rel=1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", PANELS)
def test_means_cover_where_devices_come_back(kind: str) -> None:
    """Every protocol with a memo, 15 fleets each: at least .94 with a range from 0, and less with the share.

    Values of a fleet count as half of them, so a protocol has 60 independent means of 30: at .94 it falls
    below .78 once in 10⁷. All of them have 850 and cover .97 or more, so that they fall below .94 as rarely.
    The share alone covers about .89.
    """
    covered: dict[str, list[dict[int, float]]] = {"from 0": [], "share": []}
    for number, setting in enumerate(SETTINGS):
        if setting.name == "sample grr":
            continue
        found = fleets(setting.build(), 15, 500, EVENT_EPOCHS, PANELS[kind], number)
        table = returning(found)
        assert min(table["from 0"].values()) >= 0.78, setting.name
        for name, row in table.items():
            covered[name].append(row)
    for length in (7, 30):
        assert np.mean([row[length] for row in covered["from 0"]]) >= 0.94
    exact = [row for row, setting in zip(covered["share"], SETTINGS, strict=False) if setting.exact]
    assert np.mean([row[30] for row in exact]) < 0.94 - 0.02


def test_nothing_is_said_to_have_changed_where_nothing_did() -> None:
    """Values go from device to device all at once: independent errors would be too small for this."""
    built = protocol("l_osue", 8, Parameters(epsilon_longitudinal=2.0, epsilon_first=1.8))
    heard, naive = alarms(fleets(built, 60, 500, 10, Population(ONCE, permuted=True), 3))
    assert heard <= 0.15
    assert naive >= 0.5


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["l_osue", "loloha"])
def test_smoothed_bands_of_fleets_cover_events(name: str) -> None:
    """A small part of benchmarks/over_time.py, where devices take a value for one epoch and return.

    At .90 less than .68 of 60 fleets are covered by chance once in 10⁸; a plain random walk covers
    a tenth.
    """
    assert events(EVENT_SETTINGS[name](), 60, 4, False, 7)["at"] >= 0.68


@pytest.mark.thorough
def test_devices_that_report_in_some_epochs_only() -> None:
    """One of four epochs each: nothing repeats itself, and the mean's error is that of independent epochs."""
    text = (REPOSITORY / "examples" / "first_choice.yaml").read_text("utf-8")
    life = "participation: {reports: 1, of: 4}\n"
    agreed = ldpbeam.parse_collection(re.sub(r"epoch:.*", "epoch: {length: 1d, count: 4}", text) + life)
    held = np.arange(4000) % 2
    misses = []
    for seed in range(60):
        table = ldpbeam.estimate(
            agreed,
            [ldpbeam.simulate(agreed, ldpbeam.Index(held), epoch=epoch, seed=seed) for epoch in range(4)],
        )
        assert np.asarray(table["n"])[::4].sum() == 4000
        assert (np.asarray(table["std_error_floor"]) == 0).all()
        (history,) = histories(table)
        found = mean(history.series, errors_of(agreed)[0])
        misses.append((found.estimate - [0.5, 0.5, 0.0, 0.0]) / found.std_error)
    assert 0.6 < np.mean(np.square(misses)) < 1.4


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "levels", "reports", "of"),
    [
        ("grr", {"epsilon": 4.0}, 1, 2),
        ("l_osue", {"epsilon_longitudinal": 3.0, "epsilon_first": 2.9}, 2, 3),
        ("laplace_mean", {"epsilon": 6.0}, 1, 2),
    ],
)
def test_differences_know_who_reports_in_some_epochs_only(
    name: str, levels: dict[str, float], reports: int, of: int
) -> None:
    """Devices of one epoch are less likely in another: where all values stay, that opposes the errors.

    Errors that leave it out are too small, with the rate as without one. Half of the devices of a group hold
    0 and half 1, for good; memos are kept by the fleet.
    """
    agreed = ldpbeam.parse_collection(
        f"name: some\nversion: 1\ndomain: {{size: 2}}\nprotocol: {name}\n"
        + "".join(f"{key}: {level}\n" for key, level in levels.items())
        + f"epoch: {{length: 1d, count: {of}}}\nparticipation: {{reports: {reports}, of: {of}}}\n"
    )
    groups, devices, words = 400, 600, RandomWords(3)
    held = np.arange(groups * devices) % 2
    fleet, (estimator,), (errors,) = (
        ProtocolFleet(agreed.protocol, len(held), words),
        agreed.estimators,
        errors_of(agreed),
    )
    found: list[list[Any]] = [[] for _ in range(groups)]
    for epoch in (0, 1):
        present = silenced(agreed.participation, words, epoch, held)
        payloads = np.concatenate([batch.payloads for batch in fleet.reports(epoch, present)])
        of_group = np.flatnonzero(present >= 0) // devices
        for group, mine in enumerate(np.split(payloads, np.searchsorted(of_group, np.arange(1, groups)))):
            counts = np.zeros(agreed.protocol.counter.counts_length, np.int64)
            agreed.protocol.counter.add(mine, counts)
            found[group].append(estimator.estimate(counts, len(mine)))
    last, first = np.array([False, True]), np.array([True, False])
    squares: dict[str, list[float]] = {"rate 0": [], "no rate": [], "apart": [], "mean": []}
    heard = []
    for one in found:
        n, share, error = (
            np.array([getattr(epoch, part)[:1] for epoch in one]) for part in ("n", "frequency", "std_error")
        )
        series = Series(np.arange(2), n, share, error)
        for kind, rate, known in (
            ("rate 0", DrawnAnew(0, 0), errors),
            ("no rate", None, errors),
            ("apart", None, None),
        ):
            change = difference(series, last, first, known, rate)
            squares[kind].append(float((change.estimate[0] / change.std_error[0]) ** 2))
        both = mean(series, errors)
        squares["mean"].append(float(((both.estimate[0] - 0.5) / both.std_error[0]) ** 2))
        heard.append(compare_epochs(series, first, last, errors).moved(0.05).size > 0)
    # A mean square of 400 strays by 0.07, and alarms of 0.05 by 0.011.
    square = {kind: float(np.mean(one)) for kind, one in squares.items()}
    assert square["rate 0"] == pytest.approx(1, abs=0.3)
    assert square["no rate"] < 1.3
    assert square["mean"] < 1.3
    assert np.mean(heard) <= 0.1
    if reports == 1:
        assert square["apart"] > 1.4
