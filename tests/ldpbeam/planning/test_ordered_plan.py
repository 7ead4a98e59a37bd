"""What a plan of values in an order says, against formulas written out here, and simulated epochs."""

from __future__ import annotations

from fractions import Fraction
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from ldpbeam.cli.main import cli
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.file import load_collection, parse_collection
from ldpbeam.errors import UsageError
from ldpbeam.over_time import DrawnAnew
from ldpbeam.over_time.period import fit_period
from ldpbeam.planning.collection_text import Particulars, collection_text
from ldpbeam.planning.needs import FrequencyNeeds, Ordered, OrderedNeeds
from ldpbeam.planning.ordered_errors import (
    errors_of_sum,
    lasting_part,
    moved_by_fake,
    ordered_error,
    period_error,
)
from ldpbeam.planning.plan import make_plan, rows_of
from ldpbeam.planning.repeats import Repeats
from ldpbeam.planning.settings import Setting
from ldpbeam.planning.spread import WIDE
from ldpbeam.protocols import Parameters, protocol
from ldpbeam.protocols.interval_hash import IntervalHash, IntervalLOLOHA
from ldpbeam.protocols.part_estimator import PartEstimator
from tests.ldpbeam.cli.calling import call
from tests.narrow import frequencies, of_kind, present

ALL = Fraction(1)
_TWO_STRETCHES = Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0, hash_family="interval", g=2)
STRETCHES = of_kind(IntervalLOLOHA, protocol("loloha", 36, _TWO_STRETCHES))


def needs(
    what: Ordered, values: int = 36, length: float = 36.0, devices: int = 20_000, **more: object
) -> OrderedNeeds:
    return OrderedNeeds(values, devices, 30, asked=what, length=length, **more)  # type: ignore[arg-type]


def test_a_share_of_unary_encoding_is_the_formula_of_groups() -> None:
    """Weights ±1/2: bits are independent, and the device's own bit has another variance."""
    one = protocol("oue", 36, Parameters(epsilon=1.0))
    own, other = (float(getattr(present(one.estimator.support), name)) for name in ("own", "other"))
    bits = 36 * other * (1 - other) + own * (1 - own) - other * (1 - other)
    variance = bits / 4 / (20_000 * (own - other) ** 2)
    assert ordered_error(one, needs(Ordered.SHARE), 20_000, ALL) == pytest.approx(sqrt(variance))
    # The density is 1/length.
    error = ordered_error(one, needs(Ordered.QUANTILE, length=90.0), 20_000, ALL)
    assert error == pytest.approx(90 * sqrt(variance))


@pytest.mark.parametrize("what", Ordered)
def test_errors_of_runs_are_those_that_the_estimator_expects(what: Ordered) -> None:
    expected = STRETCHES.estimator.posterior().expected_errors(5_000, 0.25)
    in_unit = {
        Ordered.SHARE: expected.at_median,
        Ordered.QUANTILE: 90 * expected.quantile,
        Ordered.MEAN: 90 * expected.mean,
    }
    found = ordered_error(STRETCHES, needs(what, length=90.0), 20_000, Fraction(1, 4))
    assert found == pytest.approx(in_unit[what])


@pytest.mark.parametrize("name", ["loloha", "l_grr"])
def test_with_participation_fewer_devices_report_in_both_of_two_epochs(name: str) -> None:
    """2 of the other 29 epochs are a device's own, where each reports in 3 of 30."""
    parameters = (
        _TWO_STRETCHES if name == "loloha" else Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0)
    )
    setting = Setting(name, parameters, protocol(name, 36, parameters), 3, 30)
    asked_for = needs(Ordered.MEAN)
    repeats = Repeats.of_ordered(setting, asked_for)
    if name == "loloha":
        whole = lasting_part(STRETCHES, asked_for, 20_000, Fraction(1, 10))
    else:
        one = frequencies(setting.protocol)
        errors, counts = errors_of_sum(one, Fraction(1, 10), Ordered.MEAN), np.ones((1, 36), np.int64)
        even = np.full(36, 1 / 36)
        whole = float(errors.floor_variance(even)[0] / errors.variance(even[None], counts)[0, 0])
    assert repeats.unchanged == pytest.approx(2 / 29 * whole)
    assert 0 < repeats.unchanged < 2 / 29


@pytest.mark.parametrize("rate", [None, DrawnAnew(0, 0), DrawnAnew(0.2, 0.2)])
@pytest.mark.parametrize("what", Ordered)
@pytest.mark.cases(3)
def test_means_of_epochs_lie_between_what_repeats_and_what_does_not(
    what: Ordered, rate: DrawnAnew | None
) -> None:
    asked_for = needs(what, longitudinal=2.0, first=1.0, drawn_anew=rate)
    for row in rows_of(asked_for):
        figures = row.figures
        assert figures.half_width == pytest.approx(WIDE * figures.std_error)
        assert figures.half_width / sqrt(30) <= figures.mean_30 * (1 + 1e-9), row.setting.label
        assert figures.mean_30 <= figures.mean_7 <= figures.half_width * (1 + 1e-9), row.setting.label
        assert 0 < figures.fake_device < figures.half_width * sqrt(20_000)
        if isinstance(row.setting.protocol, IntervalHash) and not row.setting.participates:
            part = lasting_part(row.setting.protocol, asked_for, 20_000, ALL)
            several = figures.half_width * sqrt(part + (1 - part) / 30)
            if what is not Ordered.MEAN:
                several = WIDE * period_error(row.setting.protocol, asked_for, 30, ALL)
                assert several < figures.half_width / 1.3
            assert figures.mean_30 == pytest.approx(several)
            widest = 1 + part if rate is None or rate.most else 1 - part
            most = 2 * (1.959963985 + 1.644853627) ** 2 * figures.std_error**2 * widest
            assert figures.least_change <= sqrt(most) * (1 + 1e-6)
            if rate is None or rate.most == 0:
                assert figures.least_change == pytest.approx(sqrt(most))


def test_the_curve_of_several_epochs_is_as_certain_as_planned() -> None:
    """Of counts as even values give them; the fit also tries the ends as atoms, which says a little less."""
    stretches = STRETCHES.estimator.posterior().stretches
    counts = np.round(20_000 / stretches.functions * stretches.chances(stretches.even_shares)).astype(
        np.int64
    )
    for epochs in (1, 7, 30):
        fit = fit_period(PartEstimator(STRETCHES), [counts.ravel()] * epochs)
        planned = period_error(STRETCHES, needs(Ordered.SHARE), epochs, ALL)
        assert fit.std_error[17] == pytest.approx(planned, rel=0.05)


@pytest.mark.thorough
def test_runs_are_recommended_for_what_an_order_is_for_and_never_for_single_values() -> None:
    for what in Ordered:
        best = present(make_plan(needs(what, 360, 360.0, longitudinal=2.0, first=1.0)).recommended)
        assert isinstance(best.setting.protocol, IntervalHash), what
    labels = [row.setting.label for row in rows_of(FrequencyNeeds(360, 20_000, 30, None, 2.0, 1.0))]
    assert not any("interval" in label for label in labels)


@pytest.mark.parametrize(
    "domain",
    [
        Domain(36, ordered=True),
        Domain(36, maximum=1440.0),
        Domain(36, maximum=0.5, ordered=True),
        Domain(36, tuple(f"step {step}" for step in range(36)), ordered=True),
    ],
)
def test_a_written_collection_has_the_order(domain: Domain) -> None:
    asked_for = needs(Ordered.SHARE, longitudinal=2.0)
    row = present(make_plan(asked_for).recommended)
    made = parse_collection(collection_text(row, asked_for, Particulars("a", domain, "1d", 0)))
    assert made.domain == domain
    assert present(made.domain).ordered == domain.ordered
    assert made.protocol == row.setting.protocol


# --- the command


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--values", 36, "--target-quantile-error", 2), "--target-quantile-error needs values in an order"),
        (("--values", 36, "--target-mean-error", 2), "--target-mean-error needs values in an order"),
        (("--mean", 36, "--ordered"), "--ordered is for the distribution of values"),
        (("--mean", 36, "--target-quantile-error", 2), "--target-quantile-error is for the distribution"),
        (("--values", 36, "--ordered", "--target-error", 2, "--target-mean-error", 2), "ask for different"),
        (("--values", 36, "--ordered", "--target-error", "2%"), "is in percentage points"),
        (("--domain", "LABELS", "--ordered", "--target-quantile-error", 2), "labels, which have no unit"),
        (("--domain", "LABELS", "--ordered", "--target-mean-error", "2%"), "so they have no mean"),
        (("--values", 36, "--ordered", "--target-quantile-error", 36), "must lie between 0 and 36"),
    ],
)
def test_what_goes_together_with_no_order_is_refused(
    arguments: tuple[object, ...], why: str, tmp_path: Path
) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("never\nseldom\ndaily\n")
    given = [str(labels) if one == "LABELS" else str(one) for one in arguments]
    refused = CliRunner().invoke(cli, ["plan", "--devices", "100", *given])
    error = refused.exception
    assert isinstance(error, UsageError)
    assert why in str(error)
    assert error.code == "E-USAGE-OPTION"
    assert "\n" not in str(error)


def test_a_fake_device_moves_a_sum_of_frequencies_by_its_leverage() -> None:
    """A bit vector with a bit for each value below the middle, of a fourth of the devices, in three units."""
    oue = frequencies(protocol("oue", 36, Parameters(epsilon=1.0)))
    gap = float(oue.estimator.support.gap)
    quarter = Fraction(1, 4)
    found = {what: moved_by_fake(oue, needs(what, length=90.0), 20_000, quarter) for what in Ordered}
    assert found[Ordered.SHARE] == pytest.approx(18 / 2 / gap / 5_000)
    assert found[Ordered.QUANTILE] == pytest.approx(90 * found[Ordered.SHARE])
    places = sum(abs(place - 17.5) for place in range(36)) / 2
    assert found[Ordered.MEAN] == pytest.approx(90 / 36 * places / gap / 5_000)


@pytest.mark.parametrize(
    ("domain", "atoms"),
    [
        ("{labels: [a, 'no', c, d, e, f, g, h, i, j, k, l, m, n, o, p], ordered: true, atoms: ['no']}", (1,)),
        ("{range: {max: 100, buckets: 40}, atoms: [50]}", (20,)),
        ("{size: 40, ordered: true, atoms: [7]}", (7,)),
    ],
)
@pytest.mark.cases(1)
def test_atoms_are_written_as_a_file_names_them(domain: str, atoms: tuple[int, ...], tmp_path: Path) -> None:
    given, written = tmp_path / "given.yaml", tmp_path / "written.yaml"
    family = "protocol: olh\nepsilon: 2\nhash_family: interval\nepoch: {length: 1d}\n"
    given.write_text(f"name: a\ndomain: {domain}\n{family}")
    call("plan", "--domain", given, "--devices", 5000, "--epsilon-longitudinal", 4, "--output", written)
    before, after = (present(load_collection(path).domain) for path in (given, written))
    assert after == before
    assert before.atoms == after.atoms == atoms
