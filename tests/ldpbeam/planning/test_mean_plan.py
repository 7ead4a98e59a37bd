"""What a plan of a mean says, against formulas written out here, enumeration, and collections."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import exp, inf, log, sqrt, tanh
from typing import Any

import numpy as np
import pytest

from ldpbeam.channels.exact import log_above
from ldpbeam.errors import UsageError
from ldpbeam.over_time import DrawnAnew, Series, difference, mean, memo_errors
from ldpbeam.planning.figures import Figures, figures
from ldpbeam.planning.needs import MeanNeeds
from ldpbeam.planning.plan import Row, make_plan, rows_of
from ldpbeam.planning.settings import Setting
from ldpbeam.planning.spread import WIDE
from ldpbeam.privacy.point_loss import PointLosses
from ldpbeam.protocols import Parameters, protocol
from ldpbeam.protocols.one_bit_mean import OneBitRRPM
from ldpbeam.protocols.part_estimator import PartEstimator
from ldpbeam.randomness import FULL
from tests.ldpbeam.planning.test_plan import MEANS, anew
from tests.narrow import present


def setting(name: str, m: int, reports: int = 10, epochs: int = 10, **given: Any) -> Setting:
    parameters = Parameters(**given)
    return Setting(name, parameters, protocol(name, m + 1, parameters), reports, epochs)


def of(one: Setting, needs: MeanNeeds) -> Figures:
    found = figures(one, needs)
    assert found.of_range is not None
    return found


def test_errors_are_those_of_the_closed_forms() -> None:
    m, n = 86_400, 300_000
    needs = MeanNeeds(m + 1, n, 10, longitudinal=2.0)
    bit = of(setting("one_bit_mean", m, epsilon=1.0), needs)
    assert bit.std_error == pytest.approx(m / (2 * tanh(0.5) * sqrt(n)), rel=1e-9)
    assert bit.half_width == pytest.approx(1.959963985 * bit.std_error)
    assert bit.of_range == bit.half_width / m
    assert bit.promise.inputs_loss == bit.promise.any_loss == pytest.approx(10)
    assert bit.promise.two_reports == pytest.approx(2)
    assert (bit.promise.cap, bit.promise.any_exact, bit.bits) == (None, True, 1)
    assert bit.fake_device == pytest.approx(m / (1 - exp(-1)) / n, rel=1e-9)
    assert bit.mean_7 == pytest.approx(bit.half_width / sqrt(7))
    assert bit.least_change == pytest.approx(3.604818 * sqrt(2) * bit.std_error, rel=1e-6)
    laplace = of(setting("laplace_mean", m, epsilon=1.0), needs)
    r = exp(-1 / m)
    assert laplace.std_error == pytest.approx(sqrt(2 * r / (1 - r) ** 2 / n), rel=1e-6)
    some = of(setting("laplace_mean", m, 2, 10, epsilon=1.0), needs)
    drawn = 0.8 * m * m / 4
    assert some.std_error**2 == pytest.approx((2 * r / (1 - r) ** 2 + drawn) / (n / 5), rel=1e-6)
    third = of(setting("one_bit_mean", m, 2, 10, epsilon=1.0), needs)
    assert third.std_error == pytest.approx(sqrt(5) * bit.std_error)
    assert third.promise.any_loss == pytest.approx(2)
    assert third.promise.any_exact
    flipped = of(setting("one_bit_rrpm", m, epsilon_longitudinal=2.0, gamma=0.1, segment=m // 2), needs)
    assert flipped.std_error == pytest.approx(m / (2 * 0.8 * tanh(1) * sqrt(n)), rel=1e-9)
    p = exp(2) / (exp(2) + 1)
    assert flipped.promise.first_report == pytest.approx(
        log((0.8 * p + 0.1) / (0.8 * (1 - p) + 0.1)), rel=1e-9
    )
    assert flipped.promise.inputs_loss <= present(flipped.promise.cap) == pytest.approx(6)
    # V_one is (1 − 2γ)² of V: bits of devices that keep their values.
    square = flipped.std_error**2 * (0.64 + 0.36 / 7)
    assert flipped.mean_7 == pytest.approx(WIDE * sqrt(square), rel=1e-9)


@pytest.mark.parametrize("rate", [None, 0.0, 0.3, 1.0, (0.0, 0.3), (0.1, 0.6)])
@pytest.mark.parametrize(
    "one",
    [
        setting("one_bit_rrpm", 60, epsilon_longitudinal=2.0, gamma=0.1),
        setting("one_bit_rrpm", 60, epsilon_longitudinal=1.0),
        setting("one_bit_mean", 60, epsilon=1.0),
    ],
    ids=lambda one: one.label,
)
def test_errors_over_epochs_are_those_that_results_get(
    one: Setting, rate: float | tuple[float, float] | None
) -> None:
    """What export and compare compute of seven epochs whose mean is m/2."""
    m, n = 60, 4000
    found = of(
        one,
        MeanNeeds(m + 1, n, 10, drawn_anew=anew(rate), longitudinal=2.0),
    )
    middle = np.full((7, 1), m / 2)
    series = Series(np.arange(7), np.full((7, 1), n), middle, np.full((7, 1), found.std_error))
    known = anew(rate)
    errors = memo_errors(PartEstimator(one.protocol))
    assert found.mean_7 == pytest.approx(WIDE * mean(series, errors, known).std_error[0], rel=1e-9)
    last, before = np.arange(7) == 6, np.arange(7) == 5
    square = difference(series, last, before, errors, known).std_error[0]
    assert found.least_change == pytest.approx((WIDE + 1.644854) * square, rel=1e-6)


# Losses


def likelihoods(built: OneBitRRPM, reports: int) -> dict[tuple[int, ...], list[tuple[Fraction, Fraction]]]:
    """For each sequence of reports: (P under a sequence of points, P under one of values with α drawn)."""
    points = range(0, built.domain_size, built.segment)
    ones = [Fraction(built.bit.weight(point), FULL) for point in points]
    gamma = Fraction(built.flip, FULL)

    def made(sent: tuple[int, ...], held: tuple[int, ...]) -> Fraction:
        """Σ over all tables of memoised bits."""
        total = Fraction(0)
        for memo in product((0, 1), repeat=len(ones)):
            chance = Fraction(1)
            for bit, one in zip(memo, ones, strict=True):
                chance *= one if bit else 1 - one
            for bit, point in zip(sent, held, strict=True):
                chance *= 1 - gamma if bit == memo[point] else gamma
            total += chance
        return total

    found = {}
    for sent in product((0, 1), repeat=reports):
        by_points = {held: made(sent, held) for held in product(range(len(ones)), repeat=reports)}
        by_values = [
            sum(
                by_points[tuple(built.device.point(value, alpha) for value in values)]
                for alpha in range(built.segment)
            )
            / Fraction(built.segment)
            for values in product(range(built.domain_size), repeat=reports)
        ]
        found[sent] = [(min(by_points.values()), max(by_points.values())), (min(by_values), max(by_values))]
    return found


@pytest.mark.parametrize(
    ("m", "segment", "gamma", "reports"),
    [(2, 2, 0.1, 3), (2, 2, 0.3, 4), (2, 1, 0.1, 3), (2, 1, 0.05, 2), (4, 2, 0.2, 2)],
)
def test_losses_of_points_are_those_of_all_memos_and_sequences(
    m: int, segment: int, gamma: float, reports: int
) -> None:
    built = OneBitRRPM.from_parameters(
        m + 1, Parameters(epsilon_longitudinal=2.0, gamma=gamma, segment=segment)
    )
    ones = tuple(built.bit.weight(point) for point in range(0, m + 1, segment))
    losses = built.losses
    assert losses == PointLosses(len(ones), ones, built.flip)
    both = likelihoods(built, reports).values()
    points = max(one[0][1] / one[0][0] for one in both)
    values = max(one[1][1] / one[1][0] for one in both)
    assert losses.any_changes(reports) == log_above(points)
    # α hides something; of sequences of values that lie on points, nothing.
    assert values == points
    assert present(losses.any_changes(reports)) <= losses.bound(reports)
    year = losses.bound(365)
    assert 182 * log((1 - gamma) / gamma) < year < 183 * log((1 - gamma) / gamma) + 3 * len(ones)
    assert losses.any_changes(1) == pytest.approx(built.guarantee.first_report)


def test_bits_that_are_sent_as_they_are_prove_changes() -> None:
    losses = PointLosses(2, (FULL // 4, 3 * (FULL // 4)), 0)
    assert losses.any_changes(1) == pytest.approx(log(3))
    assert losses.any_changes(2) == losses.bound(2) == inf
    changing = make_plan(MEANS[0])
    still = make_plan(replace(MEANS[0], drawn_anew=DrawnAnew(0, 0)))
    assert "change" in next(row for row in changing.rows if row.setting.label == "one_bit_rrpm").missed
    assert next(row for row in still.rows if row.setting.label == "one_bit_rrpm").missed == {}


# Limits and levels


def test_flips_spend_the_first_level_that_is_asked_for() -> None:
    found = rows_of(MeanNeeds(1_001, 1_000, 5, longitudinal=3.0, first=0.7))
    memoised: list[Row] = [row for row in found if row.setting.memoised]
    levels = {row.figures.promise.first_report for row in memoised if row.setting.parameters.gamma}
    assert all(0.69999 < level <= 0.7 for level in levels)
    assert levels
    given = [row.setting.parameters for row in memoised]
    assert {one.epsilon_longitudinal for one in given if not one.gamma} == {0.7}


@pytest.mark.parametrize("target", [0.0, 1000.0, -1.0])
def test_a_target_beyond_the_range_is_refused_with_its_unit(target: float) -> None:
    with pytest.raises(
        UsageError, match="must lie between 0 and 1,000, the end of the counter's range"
    ) as caught:
        MeanNeeds(1_001, 10, target=target)
    assert caught.value.code == "E-USAGE-OPTION"
