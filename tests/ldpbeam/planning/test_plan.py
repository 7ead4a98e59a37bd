"""What a plan says, against formulas written out here, enumeration, and the collections that it makes."""

from __future__ import annotations

from dataclasses import replace
from math import exp, inf, sqrt
from statistics import NormalDist

import numpy as np
import pytest

from ldpbeam.channels.calibration import Calibration
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.file import parse_collection
from ldpbeam.collection.participation import Participation
from ldpbeam.errors import UsageError
from ldpbeam.estimates import variance
from ldpbeam.over_time import DrawnAnew, Series, difference, mean, memo_errors
from ldpbeam.over_time.covariance import slotted_errors
from ldpbeam.planning.collection_check import expected, lateness_advice
from ldpbeam.planning.collection_text import Particulars, collection_text
from ldpbeam.planning.figures import figures
from ldpbeam.planning.needs import FrequencyNeeds, MeanNeeds, zipf
from ldpbeam.planning.plan import (
    ALIKE,
    Plan,
    Row,
    best,
    devices_needed,
    loss_order,
    make_plan,
    rows_of,
)
from ldpbeam.planning.sentences import asked, recommendation
from ldpbeam.planning.settings import Setting
from ldpbeam.planning.spread import WIDE
from ldpbeam.protocols import PROTOCOLS, FrequencyProtocol, Parameters, protocol
from ldpbeam.protocols.estimator import Result
from ldpbeam.protocols.part_estimator import PartEstimator
from tests.narrow import present

TWO_MILLION = FrequencyNeeds(values=360, devices=2_000_000, epochs=365, target=0.01, lifetime=2.0)
NEEDS = [
    TWO_MILLION,
    FrequencyNeeds(values=360, devices=100_000, longitudinal=2.0, first=1.0),
    FrequencyNeeds(values=3, devices=5_000, epochs=4, longitudinal=1.0, bits=8),
    FrequencyNeeds(values=24, devices=20_000, epochs=30, inputs_cap=6.0, target=0.02),
    FrequencyNeeds(values=1000, devices=10_000, epochs=7, first=0.7),
    FrequencyNeeds(values=50, devices=10_000, epochs=2, lifetime=8.0, first=1.0),
    FrequencyNeeds(values=16, devices=10_000, epochs=1, longitudinal=4.0, drawn_anew=DrawnAnew(0, 0)),
]
MEANS = [
    MeanNeeds(86_401, 300_000, 30, longitudinal=2.0),
    MeanNeeds(86_401, 2_000_000, 30, target=60.0, lifetime=2.0),
    MeanNeeds(13, 5_000, 4, inputs_cap=6.0, bits=8, drawn_anew=DrawnAnew(0, 0)),
    MeanNeeds(1_001, 20_000, 10, longitudinal=3.0, first=0.7, drawn_anew=DrawnAnew(0.2, 0.2)),
    MeanNeeds(2, 1_000, 1, target=0.2),
]
WHERE = Particulars("planned", Domain(2), "1d", 1_767_225_600)


@pytest.fixture(scope="module", params=[*NEEDS, *MEANS], ids=asked)
def plan(request: pytest.FixtureRequest) -> Plan:
    return make_plan(request.param)


def anew(rate: float | tuple[float, float] | None) -> DrawnAnew | None:
    """Exactly this rate, or this range of rates; None where none is known."""
    if rate is None:
        return None
    return DrawnAnew(*rate) if isinstance(rate, tuple) else DrawnAnew(rate, rate)


def setting(name: str, k: int, reports: int = 10, epochs: int = 10, **given: object) -> Setting:
    parameters = Parameters(**given)  # type: ignore[arg-type]
    built = protocol(name, k, parameters)
    assert isinstance(built, FrequencyProtocol)
    return Setting(name, parameters, built, reports, epochs)


def named(plan: Plan, label: str) -> Row:
    return next(row for row in plan.rows if row.setting.label == label)


def test_the_question_of_every_user_is_answered_with_its_caveat() -> None:
    """2 million devices, 360 values, daily for a year, error under 1 point, total ε at most 2."""
    plan = make_plan(TWO_MILLION)
    row, weaker = present(plan.recommended), present(plan.weaker)
    assert not plan.meets
    assert (row.setting.reports, row.setting.epochs) == (1, 365)
    assert row.figures.promise.any_loss <= 2.0
    # 4e^ε/(e^ε − 1)² · T per device, at ε = 2; 1.0 % and the drawing of the devices above it.
    assert row.figures.rare_error == pytest.approx(sqrt(365 * 4 * exp(2) / (exp(2) - 1) ** 2 / 2e6), rel=0.01)
    assert weaker.setting.label == "loloha g=2"
    assert weaker.figures.half_width < 0.01
    assert weaker.figures.promise.inputs_loss == weaker.figures.promise.cap == pytest.approx(2.0)
    assert weaker.figures.promise.any_loss > 100
    said = " ".join(recommendation(plan))
    assert "Nothing meets all of it" in said
    assert "With a weaker promise loloha g=2" in said
    assert "is no limit for what they tell about its values" in said
    # What would meet it does, and with one device less it does not.
    needed = present(devices_needed(plan))
    assert make_plan(replace(TWO_MILLION, devices=needed)).meets
    assert not make_plan(replace(TWO_MILLION, devices=needed - 1)).meets


def test_all_protocols_that_yield_frequencies_are_looked_at() -> None:
    found = {row.setting.name for row in make_plan(NEEDS[1]).rows}
    # At ε∞ = 2 and ε1 = 1 all of them can be had.
    assert found == {kind.NAME for kind in PROTOCOLS.values() if kind.RESULT is Result.FREQUENCIES}
    labels = [row.setting.label for row in make_plan(NEEDS[1]).rows]
    assert {"loloha g=3", "loloha g=3 published", "loloha g=4 affine", "oue (1 of 365)"} <= set(labels)


def test_errors_are_those_of_the_closed_forms() -> None:
    k, n = 100, 50_000
    rows = {
        row.setting.label: row.figures
        for row in rows_of(FrequencyNeeds(k, n, 10, longitudinal=2.0, first=1.0))
    }
    p, q = 0.5, 1 / (exp(1) + 1)
    rare = q * (1 - q) / (p - q) ** 2 / n
    held = p * (1 - p) / (p - q) ** 2 / n
    assert rows["l_osue"].rare_error == pytest.approx(sqrt(rare), rel=1e-6)
    oue = rows["oue"]
    assert oue.std_error == pytest.approx(sqrt(held / k + rare * (1 - 1 / k)), rel=1e-6)
    most = zipf(k)[0]
    widest = sqrt(held * most + rare * (1 - most))
    assert oue.widest_frequency == most
    assert oue.half_width == pytest.approx(1.959963985 * widest, rel=2e-3)
    # An interval of a rare value ends at 0: on average so much of its half-width is left.
    normal = NormalDist(1 / k, oue.std_error)
    draws = np.array([normal.inv_cdf((i + 0.5) / 2000) for i in range(2000)])
    ends = draws + 1.959963985 * oue.std_error, np.maximum(draws - 1.959963985 * oue.std_error, 0)
    left = (np.maximum(ends[0], 0) - np.minimum(ends[1], np.maximum(ends[0], 0))).mean() / 2
    assert oue.even_half_width == pytest.approx(left, rel=0.03)
    assert oue.promise.inputs_loss == oue.promise.any_loss == pytest.approx(10)
    assert oue.promise.cap is None
    assert oue.fake_device == pytest.approx((1 - q) / (p - q) / n, rel=1e-6)
    # The uniform answer for 1/rank: the sum written out.
    squares = sum((f - 1 / k) ** 2 for f in zipf(k)) / k
    assert oue.against_nothing == pytest.approx(oue.std_error / sqrt(squares), rel=1e-9)
    # 1.96 standard errors of an absent value, and 1.645 of this one.
    f = present(oue.least_frequency)
    here = sqrt(held * f + rare * (1 - f))
    assert f == pytest.approx(1.959964 * sqrt(rare) + 1.644854 * here, rel=1e-5)
    assert oue.least_change == pytest.approx(3.604818 * sqrt(2) * widest, rel=1e-6)
    assert oue.mean_7 == pytest.approx(1.959963985 * widest / sqrt(7))
    assert oue.mean_30 == pytest.approx(1.959963985 * widest / sqrt(10))  # there are ten epochs only


def test_participation_costs_t_over_m_of_the_devices() -> None:
    needs = FrequencyNeeds(20, 60_000, 12, lifetime=3.0)
    third = figures(setting("oue", 20, 3, 12, epsilon=1.0), needs)
    whole = figures(setting("oue", 20, 12, 12, epsilon=1.0), needs)
    assert present(third.rare_error) ** 2 == pytest.approx(4 * present(whole.rare_error) ** 2)
    drawn = (1 - 0.25) * (1 / 20) * (19 / 20) * 4 / 60_000  # of a value that a twentieth holds
    assert third.std_error**2 == pytest.approx(4 * whole.std_error**2 + drawn)
    assert third.promise.any_loss == pytest.approx(3.0)
    assert third.promise.any_exact
    assert third.fake_device == pytest.approx(4 * present(whole.fake_device))
    assert third.mean_7 == pytest.approx(third.half_width / sqrt(7), rel=2e-3)


@pytest.mark.parametrize("rate", [None, 0.0, 0.3, 1.0, (0.0, 0.3), (0.1, 0.6)])
@pytest.mark.parametrize(
    "one",
    [
        setting("l_osue", 30, epsilon_longitudinal=2.0, epsilon_first=1.0),
        setting("loloha", 30, epsilon_longitudinal=2.0, epsilon_first=1.0, g=3),
        setting("loloha", 30, epsilon_longitudinal=6.0, epsilon_first=5.0, g=7),  # opposed answers
        setting("l_grr", 30, epsilon_longitudinal=3.0, epsilon_first=2.0),
        setting("olh", 30, epsilon=1.0),
        setting("grr", 30, 1, 2, epsilon=6.0),
        setting("l_osue", 30, 3, 10, epsilon_longitudinal=4.0, epsilon_first=3.5),
    ],
    ids=lambda one: one.label,
)
def test_errors_over_epochs_are_those_that_results_get(
    one: Setting, rate: float | tuple[float, float] | None
) -> None:
    """What export and compare compute of seven such epochs, for the value whose interval is widest."""
    shares = zipf(30)
    needs = FrequencyNeeds(
        30,
        4000,
        10,
        drawn_anew=anew(rate),
        longitudinal=2.0,
        frequencies=tuple(shares.tolist()),
    )
    found = figures(one, needs)
    frequencies = np.tile(shares, (7, 1))
    reports = np.full(frequencies.shape, 4000 * one.reports // one.epochs)
    assert isinstance(one.protocol, FrequencyProtocol)
    errors = np.sqrt(variance(frequencies, reports, one.protocol.estimator.support.among(one.share)))
    series = Series(np.arange(7), reports, frequencies, errors)
    known = anew(rate)
    estimator = PartEstimator(one.protocol)
    memo = memo_errors(estimator)
    if one.participates:
        memo = slotted_errors(estimator, one.reports, one.epochs)
    widest = int(np.flatnonzero(shares == found.widest_frequency)[0])
    assert found.mean_7 == pytest.approx(WIDE * mean(series, memo, known).std_error[widest], rel=0.005)
    last, before = np.arange(7) == 6, np.arange(7) == 5
    error = difference(series, last, before, memo, known).std_error[widest]
    assert found.least_change == pytest.approx((WIDE + 1.644854) * error, rel=0.005)
    # The halves of eleven epochs, without the one in the middle; of ten, for which turns are planned.
    for epochs in (10,) if one.participates else (10, 11):
        first = (np.tile(part[0], (epochs, 1)) for part in (reports, frequencies, errors))
        several = Series(np.arange(epochs), next(first), next(first), next(first))
        after, before = np.arange(epochs) >= epochs - 5, np.arange(epochs) < 5
        error = difference(several, after, before, memo, known).std_error[widest]
        found = figures(one, replace(needs, epochs=epochs))
        assert found.least_half_change == pytest.approx((WIDE + 1.644854) * error, rel=0.005)


def test_bounds_on_any_change_pattern_hold() -> None:
    """The exact losses, as far as they are enumerated, never pass the bound; the last exact one is exact."""
    for one in (
        setting("loloha", 40, 6, 6, epsilon_longitudinal=2.0, epsilon_first=1.0, g=2),
        setting("loloha", 40, 6, 6, epsilon_longitudinal=1.0, epsilon_first=0.9, g=3),
        setting("l_grr", 12, 6, 6, epsilon_longitudinal=2.0, epsilon_first=1.0),
        setting("l_sue", 12, 5, 6, epsilon_longitudinal=2.0, epsilon_first=1.0),
    ):
        found = figures(one, FrequencyNeeds(one.protocol.domain_size, 100, 6, longitudinal=2.0))
        losses = present(one.protocol.losses)
        exact = present(losses.any_changes(one.reports))
        assert not found.promise.any_exact
        assert exact <= found.promise.any_loss <= 3 * exact
        three = figures(
            replace(one, reports=3), FrequencyNeeds(one.protocol.domain_size, 100, 6, longitudinal=2.0)
        )
        assert (three.promise.any_loss, three.promise.any_exact) == (losses.any_changes(3), True)
        assert found.promise.inputs_loss == min(
            one.protocol.guarantee.cap_over_inputs or 0, losses.same_changes(one.reports)
        )


@pytest.mark.parametrize(("limit", "figure", "less"), [("bits", "bits", 1), ("target", "half_width", 1e-6)])
@pytest.mark.cases(1)
def test_a_limit_may_be_met_exactly_and_not_by_less(limit: str, figure: str, less: float) -> None:
    """Some rows' own figures as the limit: they meet it; with a bit, or a millionth, less they miss it."""
    asked = FrequencyNeeds(values=24, devices=20_000, epochs=30, longitudinal=2.0, first=1.0)
    levels = sorted({getattr(row.figures, figure) for row in rows_of(asked)})
    for level in levels[1 :: max(1, len(levels) // 3)]:
        for given in (level, level - less):
            rows = rows_of(replace(asked, **{limit: given}))
            same = [limit in row.missed for row in rows if getattr(row.figures, figure) == level]
            assert set(same) == {given < level}, (level, given)


def test_a_target_that_is_met_exactly_needs_no_more_devices(plan: Plan) -> None:
    """With a millionth less it takes more devices."""
    row = plan.recommended
    if row is None:
        return
    exactly = row.figures.half_width
    met = replace(plan, needs=replace(plan.needs, target=exactly))
    assert devices_needed(met) is None
    less = replace(plan, needs=replace(plan.needs, target=exactly * (1 - 1e-6)))
    assert present(devices_needed(less)) > plan.needs.devices


@pytest.mark.cases(3)
def test_what_misses_nothing_keeps_every_limit(plan: Plan) -> None:
    """Looked up in the guarantee of the collection that would be written, not in the figures."""
    for row in plan.rows:
        if row.missed:
            continue
        needs, guarantee, losses = plan.needs, row.setting.protocol.guarantee, row.setting.protocol.losses
        reports = row.setting.reports
        if needs.target is not None:
            assert row.figures.half_width <= needs.target * (1 + 1e-9)
        if needs.bits is not None:
            assert row.setting.protocol.device.payload_bits <= needs.bits
        if needs.first is not None:
            assert guarantee.first_report <= needs.first * (1 + 1e-12)
        for_good = guarantee.per_memoised_input
        if for_good is None:
            for_good = reports * guarantee.first_report
        if needs.longitudinal is not None:
            assert for_good <= needs.longitudinal * (1 + 1e-12)
        if needs.inputs_cap is not None:
            assert (guarantee.cap_over_inputs or for_good) <= needs.inputs_cap * (1 + 1e-12)
        if needs.lifetime is not None:
            strict = for_good if losses is None else losses.any_changes(reports)
            assert present(strict) <= needs.lifetime * (1 + 1e-12)
        if losses is not None and not needs.nobody_changes and reports > 1:
            assert losses.any_changes(2) != inf


def test_the_recommendation_is_the_best_there_is(plan: Plan) -> None:
    row = present(plan.recommended)
    fit = [other for other in plan.rows if other.missed.keys() <= row.missed.keys()]
    assert row.figures.std_error <= ALIKE * min(other.figures.std_error for other in fit)
    assert not row.setting.published
    if plan.meets:
        alike = [other for other in fit if other.figures.std_error <= ALIKE * fit[0].figures.std_error]
        exact = [other for other in alike if other.setting.parameters.calibration is Calibration.EXACT]
        shared = [other for other in exact if (other.figures.sharing or inf) >= 1] or exact
        assert loss_order(row, plan.needs)[0] == min(loss_order(other, plan.needs)[0] for other in shared)
        assert row in shared
    assert best(plan.rows, plan.needs, allowed=set(row.missed)) is row


def test_no_heavy_report_is_taken_and_shared_hash_functions_decide_before_the_loss() -> None:
    plan = make_plan(FrequencyNeeds(20_000, 2_000, longitudinal=2.0, first=1.0))
    row = present(plan.recommended)
    assert (row.setting.label, row.figures.bits) == ("loloha g=3", 18)
    rows = {one.setting.label: one for one in plan.rows}
    light = rows["loloha g=4 affine"].figures
    assert rows["l_osue"].figures.bits == 20_000 > 10 * light.bits
    assert light.std_error < row.figures.std_error  # a device may lose more by it
    said = list(recommendation(plan))
    assert "18 bits per report: ±" in said[0]
    assert "% of the least (l_osue, 20,000 bits)" in said[1]
    assert any("Each device has its own hash function" in one for one in said)
    shared = make_plan(FrequencyNeeds(1000, 100_000, longitudinal=2.0, first=1.0))
    assert shared.recommended is not None
    assert shared.recommended.setting.label == "loloha g=3"


@pytest.mark.cases(3)
def test_every_setting_becomes_a_collection(plan: Plan) -> None:
    """The file says what was planned: the same integers, epochs, domain, and the error that check says."""
    needs = plan.needs
    domain = Domain(needs.values, maximum=needs.values - 1.0 if isinstance(needs, MeanNeeds) else None)
    for row in plan.rows:
        collection = parse_collection(collection_text(row, needs, replace(WHERE, domain=domain)))
        some = Participation(row.setting.reports, row.setting.epochs)
        assert collection.participation == (some if row.setting.participates else None)
        if row.setting.participates:
            assert collection.promise == row.figures.promise
        assert collection.protocol == row.setting.protocol
        assert collection.epochs.count == needs.epochs
        assert collection.domain == domain
        assert not collection.ignored
        (said,) = expected(collection, needs.devices)
        assert said.half_width == pytest.approx(row.figures.half_width, rel=1e-12)
        if isinstance(needs, MeanNeeds):
            (enough,) = expected(collection, int(collection.min_reports / row.setting.share) + 1)
            assert enough.half_width <= (needs.values - 1) / 2


@pytest.mark.parametrize(("epoch", "allowed"), [("6h", "1d"), ("1d", "1d"), ("2w", "14d"), ("36h", "36h")])
def test_a_planned_collection_allows_an_epoch_of_lateness_and_a_day(epoch: str, allowed: str) -> None:
    """Whatever spread its devices have, a report that is sent when a device next runs counts."""
    plan = make_plan(FrequencyNeeds(4, 10_000, 10, longitudinal=2.0))
    text = collection_text(
        present(plan.recommended), plan.needs, replace(WHERE, domain=Domain(4), epoch=epoch)
    )
    assert (
        f"(spread=0), and again when they next run where that failed.\nallowed_lateness: {allowed}\n" in text
    )
    collection = parse_collection(text)
    assert lateness_advice(collection) == ()


def test_a_first_level_above_what_a_cap_leaves_does_not_drop_protocols() -> None:
    """A cap of 6 leaves l_osue ε∞ = 0.25 over 24 values; ε1 is then half of that, not 1."""
    found = {
        row.setting.label: row.setting.parameters
        for row in rows_of(FrequencyNeeds(24, 1000, inputs_cap=6.0, first=1.0))
    }
    assert found["l_osue"].epsilon_longitudinal == 0.25
    assert found["l_osue"].epsilon_first == 0.125
    assert found["loloha g=2"].epsilon_longitudinal == 3.0
    assert found["loloha g=2"].epsilon_first == 1.0


def test_known_frequencies_decide_what_uniform_answers_are_worth() -> None:
    flat = FrequencyNeeds(4, 1000, longitudinal=1.0, frequencies=(0.25,) * 4)
    assert flat.uniform_error == 0
    plan = make_plan(flat)
    assert present(plan.recommended).figures.against_nothing == inf
    assert any("Not worth collecting" in line for line in recommendation(plan))
    one = replace(flat, frequencies=(1.0, 0.0, 0.0, 0.0))
    assert one.uniform_error == pytest.approx(sqrt((0.75**2 + 3 * 0.25**2) / 4))


def test_what_proves_changes_is_taken_only_where_nothing_changes() -> None:
    changing = make_plan(FrequencyNeeds(16, 10_000, 5, longitudinal=4.0))
    row = next(row for row in changing.rows if row.setting.label == "dbitflip_pm d=16")
    assert "change" in row.missed
    still = make_plan(FrequencyNeeds(16, 10_000, 5, longitudinal=4.0, drawn_anew=DrawnAnew(0, 0)))
    assert named(still, "dbitflip_pm d=16").missed == {}


@pytest.mark.parametrize(
    "wrong", [{"values": 1}, {"longitudinal": 1.0, "first": 1.0}, {"inputs_cap": 1e9}, {"target": 1.0}]
)
def test_needs_that_cannot_be_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError) as caught:
        FrequencyNeeds(**{"values": 10, "devices": 10, **wrong})  # type: ignore[arg-type]
    assert caught.value.code == "E-USAGE-OPTION"


@pytest.mark.parametrize(("limit", "first"), [("lifetime", "any_loss"), ("inputs_cap", "inputs_loss")])
def test_rows_are_compared_by_the_loss_that_was_asked_for(limit: str, first: str) -> None:
    needs = FrequencyNeeds(24, 20_000, 30, **{limit: 6.0})  # type: ignore[arg-type]
    rows = rows_of(needs)
    assert any(row.figures.promise.any_loss != row.figures.promise.inputs_loss for row in rows)
    assert all(loss_order(row, needs)[0] == getattr(row.figures.promise, first) for row in rows)


def test_labels_of_a_domain_are_kept_as_they_are() -> None:
    plan = make_plan(FrequencyNeeds(4, 10_000, 10, longitudinal=2.0))
    domain = Domain(4, ("yes", 'a "b": {c}, #d', "1.0", "ü\u200f"), other=2)
    text = collection_text(present(plan.recommended), plan.needs, replace(WHERE, domain=domain))
    assert parse_collection(text).domain == domain
