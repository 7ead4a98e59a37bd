"""Weights, quantiles, and answers as tables: for one epoch and for several, from Python."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression
from scipy.stats import binom, norm

import ldpbeam
from ldpbeam.collection.domain import Domain
from ldpbeam.errors import UsageError
from ldpbeam.estimation.quantiles import isotonic, quantile
from ldpbeam.over_time import DrawnAnew, difference
from ldpbeam.over_time.results import histories
from ldpbeam.protocols import Parameters, protocol
from ldpbeam.protocols.part_estimator import PartEstimator
from ldpbeam.sums import Groups
from ldpbeam.sums.quantity import MOST_STEPS, cumulative, of_groups, of_mean
from ldpbeam.sums.series import errors_of_sums, history_of_sums
from ldpbeam.sums.sum_errors import sum_errors
from tests.conftest import FALSE_ALARM_SUITE
from tests.narrow import present

Z = norm.ppf(0.975)
RANGE = """
name: minutes
domain: {range: {max: 360, buckets: 12}}
protocol: PROTOCOL
epoch: {length: 1d}
"""
LOLOHA = "loloha\nepsilon_longitudinal: 2.0\nepsilon_first: 1.0\nhash_family: linear\ng: 3"
VALUES = np.repeat(np.arange(12), [300, 200, 150, 100, 80, 60, 40, 30, 20, 10, 5, 5])


def collected(name: str = LOLOHA, text: str = RANGE, epochs: int = 3) -> tuple[Any, Any]:
    collection = ldpbeam.parse_collection(text.replace("PROTOCOL", name))
    fleet = ldpbeam.Fleet(collection, VALUES.size, seed=3)
    reports = [fleet.report(ldpbeam.Index(VALUES)) for _ in range(epochs)]
    return collection, ldpbeam.estimate(collection, reports)


# --- weights


def test_weights_of_groups_curves_and_means() -> None:
    domain = Domain(4, None, 8.0)
    assert of_groups(domain, {"a": [0, 2], "b": [2, 2]}).weights.tolist() == [[1, 0, 1, 0], [0, 0, 1, 0]]
    assert cumulative(domain).weights.tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    assert of_mean(domain).weights.tolist() == [[1, 3, 5, 7]]  # the middles
    assert of_mean(Domain(4, None, 3.0)).weights.tolist() == [[0, 1, 2, 3]]  # whole numbers
    assert of_mean(Domain(4, ordered=True)).weights.tolist() == [[0, 1, 2, 3]]


@given(st.lists(st.floats(-1, 2), min_size=4, max_size=4))
def test_a_group_and_the_rest_add_up_to_one(estimates: list[float]) -> None:
    found = of_groups(Domain(4), {"a": [0, 2], "rest": [1, 3], "all": range(4)}).estimate(np.array(estimates))
    assert found[0] + found[1] == pytest.approx(1)
    assert found[2] == pytest.approx(1)
    # Where estimates do add up to 1, it is their sum.
    level = np.array(estimates) - (sum(estimates) - 1) / 4
    assert of_groups(Domain(4), {"a": [0, 2]}).estimate(level)[0] == pytest.approx(level[0] + level[2])


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: cumulative(Domain(3, ("a", "b", "c"))), "need values in order"),
        (lambda: cumulative(Domain(3)), "need values in order"),
        (lambda: cumulative(Domain(MOST_STEPS + 1, ordered=True)), "up to 4,096 values"),
        (lambda: of_mean(Domain(3, ("1", "2", "3"), ordered=True)), "labels are names"),
        (lambda: of_mean(Domain(3)), "a mean needs values in order"),
    ],
)
def test_domains_that_cannot_be_asked(make: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why) as caught:
        make()
    assert caught.value.code == "E-USAGE-SUMS"


# --- quantiles


@given(st.lists(st.floats(-1, 2), min_size=1, max_size=30))
def test_the_nearest_rising_curve(curve: list[float]) -> None:
    assert isotonic(np.array(curve)) == pytest.approx(isotonic_regression(curve).x, abs=1e-9)


def test_quantiles_of_a_known_curve() -> None:
    curve, none = np.array([0.1, 0.4, 0.4, 0.9, 1.0]), np.zeros(5)
    shares = (0.05, 0.1, 0.25, 0.5, 0.9, 0.95)
    assert [quantile(isotonic(curve), curve, none, one, Z)[0] for one in shares] == [0, 0, 1, 3, 3, 4]
    assert quantile(isotonic(curve), curve, none, 0.5, Z) == (3, 3, 3)
    error = np.array([0.05, 0.06, 0.06, 0.02, 0.0])
    # F(1) = 0.4 ± 0.12 may reach a half, F(2) may exceed it; F(0) may not, F(3) surely does.
    assert quantile(isotonic(curve), curve, error, 0.5, Z) == (3, 1, 3)
    # A first crossing by chance is none: the curve falls below a half again.
    for falling, share, place in (([0.6, 0.2, 0.3, 1.0], 0.5, 3), ([-0.1, 0.3, 0.2, 1.0], 0.25, 1)):
        curve = np.array(falling)
        assert quantile(isotonic(curve), curve, np.full(4, 1e-9), share, Z)[0] == place


def test_limits_of_quantiles_hold_the_true_one() -> None:
    """2,000 fleets of `oue`; limits hold at least as often as 0.95 but for one in 10^8."""
    k, n, fleets, shares = 20, 1000, 2000, (0.25, 0.5, 0.9)
    built: Any = protocol("oue", k, Parameters(epsilon=1.0))
    values = np.repeat(np.arange(k), np.diff(np.rint(n * np.linspace(0, 1, k + 1) ** 0.5)).astype(int))
    counts = np.bincount(values, minlength=k)
    true = [int(np.searchsorted(np.cumsum(counts) / n, share)) for share in shares]
    generator, own, other = (
        np.random.default_rng(4),
        float(built.estimator.support.own),
        float(built.estimator.support.other),
    )
    support = generator.binomial(counts, own, (fleets, k)) + generator.binomial(
        n - counts, other, (fleets, k)
    )
    frequency = (support / n - other) / (own - other)
    sums = cumulative(Domain(k, ordered=True))
    error = np.sqrt(
        sum_errors(PartEstimator(built), sums.centred).variance(frequency, np.full((fleets, k), n))
    )
    held = np.zeros(len(shares))
    for curve, spread in zip(sums.estimate(frequency), error, strict=True):
        for at, share in enumerate(shares):
            found, low, high = quantile(isotonic(curve), curve, spread, share, Z)
            assert low <= found <= high
            held[at] += low <= true[at] <= high
    least = binom.ppf(FALSE_ALARM_SUITE / 300, fleets, 0.95)
    assert (held >= least).all(), held
    # Not without end: half of the values are not in them.
    first = sums.estimate(frequency)[0]
    assert quantile(isotonic(first), first, error[0], 0.5, Z)[2] < k - 1


# --- tables


def test_groups_of_single_epochs_and_of_all() -> None:
    collection, table = collected()
    groups = {"first": [0, 1], "late": range(6, 12), "all": range(12)}
    found = ldpbeam.group_shares(collection, table, groups)
    assert found.num_rows == 9
    assert found.column_names[-10:] == [
        "group", "values", "n", "estimate", "std_error", "std_error_floor",
        "ci_low", "ci_high", "ci_low_all", "ci_high_all",
    ]  # fmt: skip
    first = found.to_pylist()[0]
    raw = np.array(table["estimate"]).reshape(3, 12)[0]
    assert first["estimate"] == pytest.approx(raw[:2].sum() - (raw.sum() - 1) * 2 / 12)
    assert (first["n"], first["values"], first["epoch"]) == (1000, 2, 0)
    assert first["ci_high"] - first["ci_low"] == pytest.approx(2 * Z * first["std_error"])
    wide = norm.ppf(1 - 0.025 / 3)
    assert first["ci_high_all"] - first["estimate"] == pytest.approx(wide * first["std_error"])
    whole = found.to_pylist()[2]
    assert (whole["estimate"], whole["std_error"]) == (pytest.approx(1), 0)
    means = ldpbeam.group_shares(collection, table, groups, every=3).to_pylist()
    assert [(row["first_epoch"], row["last_epoch"], row["epochs"], row["n"]) for row in means] == [
        (0, 2, 3, 3000)
    ] * 3
    V, kept = first["std_error"] ** 2, first["std_error_floor"] ** 2
    assert means[0]["std_error"] ** 2 == pytest.approx(kept + (V - kept) / 3, rel=0.05)
    known = ldpbeam.group_shares(
        collection, table, groups, every="week", drawn_anew=DrawnAnew(1, 1)
    ).to_pylist()
    assert known[0]["std_error"] < means[0]["std_error"]


def test_epochs_without_estimates_have_nothing() -> None:
    collection, table = collected(epochs=1)
    empty = table.set_column(
        table.column_names.index("estimate"), "estimate", [[None, *table["estimate"].to_pylist()[1:]]]
    )
    (row,) = ldpbeam.group_shares(collection, empty, {"a": [3]}).to_pylist()
    assert (row["estimate"], row["std_error"], row["ci_low"], row["n"]) == (None, None, None, 0)
    (row,) = ldpbeam.quantiles(collection, empty, [0.5]).to_pylist()
    assert (row["value"], row["label_low"]) == (None, None)


def test_changes_of_groups_from_python() -> None:
    """A row per group, equal to the difference of means; each side takes epochs of its own."""
    collection, table = collected(epochs=4)
    groups: dict[str, Iterable[int | ldpbeam.Index]] = {
        "first": np.arange(2),
        "last": [ldpbeam.Index(11)],
    }  # numpy's integers are indices too
    found = ldpbeam.group_changes(collection, table, groups, [0, 1], [2, 3]).to_pylist()
    sums = Groups(groups).sums(collection.histograms[0][1])
    errors = errors_of_sums(collection, "", sums)
    (history,) = histories(table)
    series = history_of_sums(history, sums, errors).series
    wanted = difference(series, np.arange(4) > 1, np.arange(4) < 2, errors)
    assert [(row["group"], row["values"]) for row in found] == [("first", 2), ("last", 1)]
    assert [row["estimate"] for row in found] == wanted.estimate.tolist()
    assert [row["std_error"] for row in found] == wanted.std_error.tolist()
    for row in found:
        assert row["ci_high"] - row["ci_low"] == pytest.approx(2 * Z * row["std_error"])
    (back,) = ldpbeam.group_changes(collection, table, {"first": [0, 1]}, [2, 3], [0, 1]).to_pylist()
    assert back["estimate"] == pytest.approx(-found[0]["estimate"])
    kept = ldpbeam.group_changes(collection, table, groups, [0], [3], drawn_anew=DrawnAnew(0, 0))
    assert (
        kept["std_error"][0].as_py()
        < ldpbeam.group_changes(collection, table, groups, [0], [3])["std_error"][0].as_py()
    )
    for before, after in (([], [1]), ([0], []), ([0, 1], [1, 2])):
        with pytest.raises(ValueError, match="none in common"):
            ldpbeam.group_changes(collection, table, groups, before, after)
    with pytest.raises(ValueError, match="there are no results"):
        ldpbeam.group_changes(collection, table, groups, [0], [1], attribute="x")


def test_reports_weigh_alike_as_if_they_were_of_one_epoch() -> None:
    """Estimates of one round are linear in counts, so the mean of reports is the estimate of the sum."""
    collection = ldpbeam.parse_collection(RANGE.replace("PROTOCOL", "grr\nepsilon: 2.0"))
    values = enumerate((VALUES[:300], VALUES, VALUES))
    reports = [ldpbeam.simulate(collection, ldpbeam.Index(v), epoch=day, seed=day) for day, v in values]
    table, groups = ldpbeam.estimate(collection, reports), {"few": [0, 1], "many": range(6)}
    support, n = table["support"].to_numpy().reshape(3, 12), table["n"].to_numpy().reshape(3, 12)
    law = present(collection.estimators[0].support)
    single = (support[:2].sum(axis=0) / n[:2].sum(axis=0) - float(law.other)) / float(law.gap)
    wanted = [single[:2].sum(), single[:6].sum()]
    found = ldpbeam.group_shares(collection, table, groups, every=2, weight="reports")[:2]
    assert found["estimate"].to_pylist() == pytest.approx(wanted)
    assert found["n"].to_pylist() == [300 + VALUES.size] * 2
    equal = ldpbeam.group_shares(collection, table, groups, every=2)[:2]
    assert [one["weight"].to_pylist() for one in (found, equal)] == [["reports"] * 2, ["epochs"] * 2]
    assert abs(equal["estimate"][0].as_py() - wanted[0]) > 0.05
    change = ldpbeam.group_changes(collection, table, groups, [0, 1], [2], weight="reports")["estimate"][0]
    last = ldpbeam.group_shares(collection, table, groups)["estimate"][4]
    assert change.as_py() == pytest.approx(last.as_py() - wanted[0])


def test_what_cannot_be_asked() -> None:
    collection, table = collected(epochs=1)
    with pytest.raises(ValueError, match="between 0 and 1"):
        ldpbeam.quantiles(collection, table, [1.0])
    with pytest.raises(ValueError, match="is not a label"):
        ldpbeam.group_shares(collection, table, {"a": ["x"]})
    with pytest.raises(ValueError, match="at least one epoch"):
        ldpbeam.value_mean(collection, table, every=0)
    with pytest.raises(ValueError, match="epoch that the results have"):
        ldpbeam.group_changes(collection, table, {"a": [0]}, [99], [0])
    with pytest.raises(ValueError, match="give every as well"):
        ldpbeam.group_shares(collection, table, {"a": [0]}, drawn_anew=DrawnAnew(0, 1))
    with pytest.raises(ValueError, match="weight has no effect"):
        ldpbeam.group_shares(collection, table, {"a": [0]}, weight="reports")
    mean = ldpbeam.parse_collection(
        "name: m\ndomain: {range: {max: 9}}\nprotocol: one_bit_mean\nepsilon: 1\nepoch: {length: 1d}"
    )
    results = ldpbeam.estimate(mean, ldpbeam.simulate(mean, VALUES % 10))
    with pytest.raises(UsageError, match="collects a mean"):
        ldpbeam.value_mean(mean, results)


# --- several collections together


def versions(*sizes: int) -> tuple[list[Any], list[Any]]:
    made, tables = [], []
    for at, size in enumerate(sizes):
        collection = ldpbeam.parse_collection(RANGE.replace("PROTOCOL", LOLOHA).replace("minutes", f"v{at}"))
        fleet = ldpbeam.Fleet(collection, size, seed=at)
        reports = [fleet.report(ldpbeam.Index(VALUES[:size])) for _ in range(2)]
        made.append(collection)
        results = ldpbeam.estimate(collection, reports)
        tables.append(ldpbeam.group_shares(collection, results, {"a": [0, 1], "b": [5]}))
    return made, tables


def test_means_of_other_weights_are_not_pooled() -> None:
    tables = []
    for name, weight in (("a", "epochs"), ("b", "reports")):
        collection, results = collected("grr\nepsilon: 2.0", RANGE.replace("minutes", name), 2)
        tables.append(ldpbeam.group_shares(collection, results, {"x": [0]}, every=2, weight=weight))  # type: ignore[arg-type]
    found = ldpbeam.pooled(tables)
    assert found["weight"].to_pylist() == ["epochs", "reports"]
    assert found["collections"].to_pylist() == [1, 1]


def test_pooled_shares_weigh_by_reports() -> None:
    _, tables = versions(1000, 500, 300)
    found = ldpbeam.pooled(tables).to_pylist()
    assert [(row["epoch"], row["group"], row["n"], row["collections"]) for row in found] == [
        (0, "a", 1800, 3), (0, "b", 1800, 3), (1, "a", 1800, 3), (1, "b", 1800, 3),
    ]  # fmt: skip
    parts = [table.to_pylist()[0] for table in tables]
    share = np.array([1000, 500, 300]) / 1800
    assert found[0]["estimate"] == pytest.approx(share @ [one["estimate"] for one in parts])
    expected = np.sqrt(share**2 @ np.square([one["std_error"] for one in parts]))
    assert found[0]["std_error"] == pytest.approx(expected)
    assert found[0]["std_error"] < min(one["std_error"] for one in parts)
    assert found[0]["ci_high"] - found[0]["estimate"] == pytest.approx(Z * expected)
    (alone,) = (row for row in ldpbeam.pooled(tables[:1]).to_pylist()[:1])
    assert alone["std_error"] == pytest.approx(parts[0]["std_error"])


def test_what_cannot_be_pooled() -> None:
    _, tables = versions(1000, 500)
    with pytest.raises(ValueError, match="no table"):
        ldpbeam.pooled([])
    with pytest.raises(ValueError, match="twice"):
        ldpbeam.pooled([tables[0], tables[0]])
    with pytest.raises(ValueError, match="one question"):
        ldpbeam.pooled([tables[1], tables[0].drop_columns(["group"])])
    # Without the estimates of one of them nothing is known about all.
    first = tables[0].set_column(tables[0].column_names.index("estimate"), "estimate", [[None] * 4])
    rows = ldpbeam.pooled([first, tables[1]]).to_pylist()
    assert {(row["estimate"], row["ci_low"], row["collections"]) for row in rows} == {(None, None, 1)}
