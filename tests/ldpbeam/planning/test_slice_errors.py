"""Errors of slices, and of the difference of two, against formulas written out here."""

from __future__ import annotations

from math import exp, sqrt
from typing import Any

import pytest

from ldpbeam.collection.slice_shares import SliceShares
from ldpbeam.planning.needs import FrequencyNeeds, MeanNeeds, Needs, Ordered, OrderedNeeds
from ldpbeam.planning.plan import Row, rows_of
from ldpbeam.planning.slice_errors import SlicePlan
from ldpbeam.planning.spread import published_half_width
from tests.narrow import frequencies

ARM = SliceShares.parse("arm=treatment:10%,control:90%")
COUNTRY = SliceShares.parse("country=50%,30%,20%")
FOUND = 1.959964 + 0.841621


def row(needs: Needs, label: str) -> Row:
    return next(row for row in rows_of(needs) if row.setting.label == label)


def differences(needs: Needs, label: str, wanted: float | None = None) -> list[Any]:
    record = SlicePlan.of(row(needs, label), needs, [ARM], wanted).as_record()
    return [(one["epochs"], one["least_difference"], one["devices_needed"]) for one in record["differences"]]


def test_a_difference_of_one_epoch_is_that_of_two_counts_of_reports() -> None:
    # A report names the value of frequency 1/2 with the chance s, whoever sends it: n reports are binomial.
    needs = FrequencyNeeds(2, 10_000, 1, longitudinal=1.0, frequencies=(0.5, 0.5))
    p = exp(1) / (exp(1) + 1)
    s = 0.5
    square = s * (1 - s) / (2 * p - 1) ** 2
    wanted = 0.05
    (found,) = differences(needs, "grr", wanted)
    assert found[:2] == (1, pytest.approx(FOUND * sqrt(square * (1 / 1_000 + 1 / 9_000)), rel=1e-6))
    needed = (FOUND / wanted) ** 2 * square * (1 / 0.1 + 1 / 0.9)
    assert found[2] == pytest.approx(needed, abs=10)  # sizes of arms are whole numbers
    at = [differences(FrequencyNeeds(2, n, 1, longitudinal=1.0, frequencies=(0.5, 0.5)), "grr")[0][1]
          for n in (found[2] - 1, found[2])]  # fmt: skip
    assert at[1] <= wanted < at[0]


def test_in_a_mean_over_epochs_the_memo_and_the_values_stay() -> None:
    # l_sue: each bit is memoised with p1 = e/(e + 1) at ε∞ = 2, and ε1 = 1 is that of two rounds.
    needs = FrequencyNeeds(4, 20_000, 14, longitudinal=2.0, first=1.0, frequencies=(0.25,) * 4)
    memo, whole = exp(1) / (exp(1) + 1), exp(0.5) / (exp(0.5) + 1)
    first, both = ((p * (1 - p)) / (2 * p - 1) ** 2 for p in (memo, whole))
    values = 0.25 * 0.75
    found = differences(needs, "l_sue")
    assert [one[0] for one in found] == [1, 7, 14]
    for epochs, least, _ in found:
        square = first + (both - first) / epochs + values
        assert least == pytest.approx(FOUND * sqrt(square * (1 / 2_000 + 1 / 18_000)), rel=1e-3)


def test_arms_of_a_mean_differ_by_the_values_of_their_devices() -> None:
    needs = MeanNeeds(61, 20_000, 1, longitudinal=2.0)
    e = exp(2.0)
    # Bits are those of a coin whose chance is 1/2, whatever the values are that have this mean.
    bit = (60 * (e + 1) / (e - 1) / 2) ** 2
    both = 1 / 2_000 + 1 / 18_000
    assert differences(needs, "one_bit_mean")[0][1] == pytest.approx(FOUND * sqrt(bit * both), rel=1e-3)
    for name in ("laplace_mean", "piecewise_mean"):
        noise = (row(needs, name).figures.half_width / 1.959964) ** 2 * 20_000
        least = differences(needs, name)[0][1]
        assert least == pytest.approx(FOUND * sqrt((noise + 60**2 / 4) * both), rel=1e-3)


@pytest.mark.parametrize("asked", Ordered)
@pytest.mark.parametrize("label", ["oue", "olh g=4 interval", "loloha g=2 interval"])
def test_so_do_arms_of_values_in_an_order(asked: Ordered, label: str) -> None:
    spread = {Ordered.SHARE: 1 / 4, Ordered.QUANTILE: 90**2 / 4, Ordered.MEAN: 90**2 / 12}[asked]

    def of(devices: int) -> tuple[OrderedNeeds, Row]:
        needs = OrderedNeeds(36, devices, 5, longitudinal=2.0, asked=asked, length=90.0)
        return needs, row(needs, label)

    needs, one = of(20_000)
    squares = sum((of(n)[1].figures.half_width / 1.959964) ** 2 for n in (2_000, 18_000))
    again = (one.figures.mean_7 / one.figures.half_width) ** 2
    for found in SlicePlan.of(one, needs, [ARM]).differences:
        added = spread * (1 / 2_000 + 1 / 18_000)
        if "interval" in label and asked is not Ordered.MEAN:
            # Counts of stretches are Poisson: an epoch has it, and the memo of loloha repeats it.
            added *= 0.0 if "loloha" in label or found.epochs == 1 else 4 / 5
        square = squares * (1.0 if found.epochs == 1 else again) + added
        assert found.least_difference == pytest.approx(FOUND * sqrt(square), rel=1e-6)


def test_the_smallest_slice_is_a_combination_and_the_largest_a_label() -> None:
    needs = FrequencyNeeds(24, 10_000, 7, longitudinal=2.0)
    one = row(needs, "l_osue")
    made = SlicePlan.of(one, needs, [COUNTRY, ARM])
    small, large = made.smallest, made.largest
    assert (small.labels, small.devices) == ({"country": None, "arm": "treatment"}, 200)
    assert (large.labels, large.devices) == ({"arm": "control"}, 9_000)
    support = frequencies(one.setting.protocol).estimator.support
    for some in (small, large):
        widest = max(published_half_width(support, some.devices, f) for f in needs.shares)
        assert some.half_width == pytest.approx(widest, rel=1e-9)
    assert [(each.dimension, each.epochs) for each in made.differences] == [
        *(("country", 1), ("country", 7)),
        *(("arm", 1), ("arm", 7)),
    ]
    alike = SlicePlan.of(one, needs, [SliceShares("arm", ("a", "b"), (0.5, 0.5))])
    assert (alike.smallest.labels, alike.largest.labels) == ({"arm": "a"}, {"arm": "b"})
    said = list(made.sentences())
    assert "the smallest, country, arm=treatment (2 %, 200 devices) ±" in said[0]
    assert said[1].startswith("The smallest slice has no estimates")
    assert "no estimates" not in " ".join(SlicePlan.of(one, needs, [COUNTRY]).sentences())


@pytest.mark.parametrize(
    "text",
    ["50%,50%", "arm", "arm=", "arm=100%", "=50%,50%", "arm=50,50", "arm=a:50%,50%", "arm=0%,100%",
     "arm=x%,50%", "arm=-50%,150%", "arm=nan%,50%"],
)  # fmt: skip
def test_shares_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="neither shares such as"):
        SliceShares.parse(text)
    with pytest.raises(ValueError, match=r"add up to 99\.99 %"):
        SliceShares.parse("arm=33.33%,33.33%,33.33%")


def test_labels_may_have_colons() -> None:
    assert SliceShares.parse("v=a:b:25%, é:75%") == SliceShares("v", ("a:b", "é"), (0.25, 0.75))
