"""Questions about slices: ``export``, ``compare``, and the same tables in Python."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from scipy.stats import norm

import ldpbeam
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.slices import Slice
from ldpbeam.estimates import nearest_shares
from ldpbeam.over_time.period import EpochCounts
from ldpbeam.over_time.significance import adjusted
from ldpbeam.sums.distribution import Curve
from ldpbeam.sums.quartiles import compare_quartiles
from tests.ldpbeam.cli.calling import call, rows, told
from tests.ldpbeam.cli.sliced import run_of
from tests.narrow import present

DE = "=DE, <b>/&"
YAML = f"""\
name: first_screen
domain: {{labels: [home, search, feed]}}
protocol: l_osue
epsilon_longitudinal: 4
epsilon_first: 2
min_reports: 40
epoch: {{length: 1d, origin: 2026-01-01T00:00:00Z, count: 30}}
slices:
  arm: [treatment, control]
  country: ["{DE}", FR, other]
"""
EPOCHS, DEVICES = 4, 3000
HELD = np.arange(DEVICES) % 3


def slice_of(device: int) -> Slice:
    country = DE if device % 7 < 4 else "FR" if device < 2900 else "other"
    return (("arm", ("control", "treatment")[device % 2]), ("country", country))


SLICES = [slice_of(device) for device in range(DEVICES)]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_of(tmp_path_factory.mktemp("sliced"), YAML, [(HELD.tolist(), SLICES)] * EPOCHS)


def test_a_slice_is_read_as_the_results_of_its_reports_alone(results: Path) -> None:
    whole, counted = ldpbeam.read(results), Counter(pair for slice_ in SLICES for pair in slice_)
    assert set(whole["n"].to_pylist()) == {DEVICES}
    singles = [{name: label} for name, label in counted]
    both = [
        {"arm": arm, "country": country} for arm, country in product(("treatment", "control"), (DE, "FR"))
    ]
    for chosen in (*singles, *both):
        table = ldpbeam.read(results, slice=chosen)
        assert table.schema == whole.schema
        sizes = [all(pair in slice_ for pair in chosen.items()) for slice_ in SLICES]
        assert table["n"].to_pylist() == [sum(sizes)] * 3 * EPOCHS
        assert table["epoch"].to_pylist() == whole["epoch"].to_pylist()
    parts = [ldpbeam.read(results, slice={"country": label}) for label in (DE, "FR", "other")]
    assert np.sum([part["support"] for part in parts], axis=0).tolist() == whole["support"].to_pylist()
    # A slice has its own errors, and its rows are withheld by themselves.
    assert ldpbeam.read(results, slice={})["std_error"].to_pylist() == whole["std_error"].to_pylist()
    assert min(parts[1]["std_error"].to_pylist()) > max(whole["std_error"].to_pylist())
    few = ldpbeam.read(results, slice={"arm": "control", "country": "other"})
    assert few["estimate"].null_count == few.num_rows and few["n"][0].as_py() < 40
    assert set(few["status"].to_pylist()) == {"insufficient_reports"}


def test_questions_are_answered_for_a_slice(results: Path, tmp_path: Path) -> None:
    (tmp_path / "groups.csv").write_text("group,value\nfound,search\nfound,feed\n")
    group = "--group", tmp_path / "groups.csv"
    collection = ldpbeam.load_collection(results.parent / "c.yaml")
    for chosen in ({"country": DE}, {"arm": "control", "country": "FR"}):
        table = ldpbeam.read(results, slice=chosen)
        given = [part for pair in chosen.items() for part in ("--slice", "=".join(pair))]
        target = tmp_path / "a.parquet"
        told("export", results, *given, "--output", target)
        assert pq.read_table(target).equals(table)
        shares = ldpbeam.group_shares(collection, table, {"found": ["search", "feed"]}, every=4)
        told("export", results, *given, *group, "--every", 4, "--output", target)
        assert pq.read_table(target).equals(shares)
        told("export", results, *given, "--every", 4, "--output", target)
        rolled = pq.read_table(target)
        assert rolled["n"].to_pylist() == [sum(table["n"].to_pylist()) / 3] * 3


MINUTES = YAML.replace("{labels: [home, search, feed]}", "{range: {max: 240, buckets: 24}}").replace(
    "l_osue", "loloha\nhash_family: interval"
)


def test_distributions_have_summaries_and_counts_of_a_slice(tmp_path: Path) -> None:
    held = [np.where([dict(one)["arm"] == "control" for one in SLICES], 4, 18) + HELD] * 2
    out = run_of(tmp_path, MINUTES, [(values.tolist(), SLICES) for values in held])
    collection = ldpbeam.load_collection(tmp_path / "c.yaml")
    tables = []
    for arm, place in (("control", 5), ("treatment", 19)):
        chosen = {"arm": arm}
        table, counts = ldpbeam.read(out, slice=chosen), ldpbeam.read_counts(out, slice=chosen)
        assert counts["n"].to_pylist() == [DEVICES // 2] * 2
        assert [sum(cells) for cells in counts["counts"].to_pylist()] == [DEVICES // 2] * 2
        curve = ldpbeam.cumulative_shares(collection, table, every=2, counts=counts)
        printed = rows("export", out, "--slice", f"arm={arm}", "--cumulative", "--every", 2)
        assert [float(row["estimate"]) for row in printed] == pytest.approx(curve["estimate"].to_pylist())
        summaries = ldpbeam.read_summaries(out, slice=chosen)
        means = [row for row in summaries.to_pylist() if row["statistic"] == "mean"]
        assert [row["n"] for row in means] == [DEVICES // 2] * 2
        assert [row["estimate"] for row in means] == pytest.approx([10 * place + 5] * 2, abs=15)
        tables.append(told("export", out, "--slice", f"arm={arm}", "--mean", "--every", 2))
    both = told("export", out, "--by-slice", "arm", "--mean", "--every", 2)
    assert both.splitlines()[1:] == [
        f'"{arm}",{table.splitlines()[1]}'
        for arm, table in zip(("treatment", "control"), tables[::-1], strict=True)
    ]
    assert ldpbeam.read_counts(out, slice={"arm": "control", "country": "other"}).num_rows == 0
    for reader in (ldpbeam.read_counts, ldpbeam.read_summaries):
        with pytest.raises(ldpbeam.LdpError, match="there are no results of arm=a"):
            reader(out, slice={"arm": "a"})
    shutil.rmtree(out / "slice_counts")
    assert (
        "[W-RUN-COUNTS]" in call("export", out, "--slice", "arm=control", "--every", 2, "--cumulative").stderr
    )


def test_labels_stand_one_below_the_other(results: Path, tmp_path: Path) -> None:
    for more in ((), ("--every", 2), ("--slice", "arm=control")):
        told("export", results, "--by-slice", "country", *more, "--output", tmp_path / "all.parquet")
        whole = pq.read_table(tmp_path / "all.parquet")
        assert whole.column_names[0] == "slice_country"
        assert list(dict.fromkeys(whole["slice_country"].to_pylist())) == [DE, "FR", "other"]
        for label in (DE, "FR", "other"):
            one = tmp_path / "one.parquet"
            told("export", results, "--slice", f"country={label}", *more, "--output", one)
            part = whole.filter(pc.equal(whole["slice_country"], label)).drop_columns(["slice_country"])
            assert part.equals(pq.read_table(one))
    # In CSV a label is harmless to a spreadsheet.
    assert rows("export", results, "--by-slice", "country")[0]["slice_country"] == f"'{DE}"


def test_slices_that_results_do_not_have(results: Path, tmp_path: Path) -> None:
    unknown = str(call("export", results, "--by-slice", "county").exception)
    named = (
        "the results have no dimension of slices called 'county'. Name one of: arm, country. [E-USAGE-OPTION]"
    )
    assert unknown == f"{results}: {named}"
    there = f"arm=treatment|control, country={DE}|FR|other. [E-USAGE-OPTION]"
    for given, named in (
        (("--slice", "country=GB"), "country=GB"),
        (("--slice", "county=FR"), "county=FR"),
        (("--by-slice", "country", "--slice", "arm=treat"), f"arm=treat, country={DE}"),
    ):
        line = str(call("export", results, *given).exception)
        assert line.startswith(f"{results}: there are no results of {named}. ") and line.endswith(there)
    for given in (("--slice", "country"), ("--slice", "arm=control", "--slice", "arm=treatment")):
        assert "is no slice such as channel=beta" in call("export", results, *given).output
    with pytest.raises(ldpbeam.LdpError, match="there are no results of arm=a"):
        ldpbeam.read(results, slice={"arm": "a"})
    plain = tmp_path / "plain"
    shutil.copytree(results, plain, ignore=shutil.ignore_patterns("slices"))
    for given in (("--slice", "arm=control"), ("--by-slice", "arm")):
        line = str(call("export", plain, *given).exception)
        assert line.startswith(f"{plain} holds no results by slice. Give the output of a run whose ")
    assert "does not exist" in str(call("export", tmp_path / "no", "--slice", "arm=control").exception)
    # An epoch whose table is gone, and one that is damaged.
    torn = tmp_path / "torn"
    shutil.copytree(results, torn)
    first, second, *_ = sorted((torn / "slices").iterdir())
    first.unlink()
    done = call("export", torn, "--slice", "arm=control")
    assert "1 of its tables are missing" in done.stderr and "[W-RUN-DAMAGED]" in done.stderr
    assert {row["epoch"] for row in csv.DictReader(io.StringIO(done.stdout))} == {"1", "2", "3"}
    second.write_bytes(second.read_bytes()[:-100])
    for given in (("--slice", "arm=control"), ("--by-slice", "arm")):
        assert "is cut short or damaged" in str(call("export", torn, *given).exception)


def test_a_label_that_came_later_has_the_epochs_since(results: Path, tmp_path: Path) -> None:
    later = tmp_path / "later"
    shutil.copytree(results, later)
    *_, last = sorted((later / "slices").iterdir())
    table = pq.read_table(last)
    renamed = pc.replace_substring(table["slice_country"], "FR", "GB")
    pq.write_table(table.set_column(1, table.schema.field(1), renamed), last)
    assert set(ldpbeam.read(later, slice={"country": "FR"})["epoch"].to_pylist()) == {0, 1, 2}
    assert set(ldpbeam.read(later, slice={"country": "GB"})["epoch"].to_pylist()) == {3}
    told("export", later, "--by-slice", "country", "--output", tmp_path / "all.parquet")
    labels = pa.compute.unique(pq.read_table(tmp_path / "all.parquet")["slice_country"])
    assert labels.to_pylist() == [DE, "FR", "other", "GB"]


def compared(*given: object) -> Any:
    return json.loads(told("compare", *given, "--json"))


ARMS = ("--slice", "arm=treatment", "--against-slice", "arm=control")


def sampled(table: pa.Table, collection: Collection) -> tuple[np.ndarray, np.ndarray]:
    """The mean over epochs of devices that keep their values, and its variance, as if they were drawn."""
    estimate, n = (np.array(table[name]).reshape(-1, 3) for name in ("estimate", "n"))
    support, lasting = present(collection.estimators[0].support), present(collection.estimators[0].lasting)
    parts = []
    for round_ in (support, lasting):
        chance = float(round_.other) + nearest_shares(estimate) * float(round_.gap)
        parts.append(chance * (1 - chance) / n / float(round_.gap) ** 2)
    whole, floor = parts
    variance = (whole - floor).sum(axis=0) / len(estimate) ** 2 + np.sqrt(floor).mean(axis=0) ** 2
    return estimate.mean(axis=0), variance


def test_two_slices_have_the_errors_of_other_devices(results: Path, tmp_path: Path) -> None:
    collection = ldpbeam.load_collection(results.parent / "c.yaml")
    for given, epochs in (((), range(EPOCHS)), (("--epochs", "1..2"), (1, 2)), (("--epochs", 3), (3,))):
        found = compared(results, *ARMS, *given)
        tables = [ldpbeam.read(results, slice={"arm": arm}) for arm in ("treatment", "control")]
        some = [table.filter(pc.is_in(table["epoch"], pa.array(epochs))) for table in tables]
        (high, first), (low, second) = (sampled(table, collection) for table in some)
        assert [row["change"] for row in found["rows"]] == pytest.approx(high - low)
        assert [row["before"] for row in found["rows"]] == pytest.approx(low)
        assert [row["after"] for row in found["rows"]] == pytest.approx(high)
        # Published errors follow from the nearest shares, and these from the estimates.
        errors = [row["std_error"] for row in found["rows"]]
        assert errors == pytest.approx(np.sqrt(first + second), rel=5e-3)
    words = "arm=treatment against arm=control, epochs 0..3 (each epoch weighs the same)"
    assert compared(results, *ARMS)["compared"] == words
    lines = told("compare", results, *ARMS, "--value", "search").splitlines()
    assert lines[0] == f"first_screen: {words}" and "  search: no difference is clear: " in lines[1]
    (tmp_path / "groups.csv").write_text("group,value\nall,home\nall,search\nall,feed\none,search\n")
    every, one = compared(results, *ARMS, "--group", tmp_path / "groups.csv")["rows"]
    assert every["std_error"] == pytest.approx(0, abs=1e-9)
    total = 0.0
    for arm in ("treatment", "control"):
        table = ldpbeam.read(results, slice={"arm": arm})
        (row,) = ldpbeam.group_shares(collection, table, {"one": ["search"]}, every=EPOCHS).to_pylist()
        total += row["std_error"] ** 2 + row["estimate"] * (1 - row["estimate"]) / table["n"][0].as_py()
    assert one["std_error"] == pytest.approx(np.sqrt(total), rel=5e-3)


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """In FR the treatment makes all devices search; in the second epoch `other` has one arm alone."""

    def slice_in(epoch: int, device: int) -> Slice:
        arm, (_, country) = SLICES[device]
        elsewhere = device > 2500 and country != DE and (epoch == 0 or arm[1] == "treatment")
        return arm, ("country", "other" if elsewhere else "FR" if country == "other" else country)

    moved = [[slice_in(epoch, device) for device in range(DEVICES)] for epoch in (0, 1)]
    reached = (("arm", "treatment"), ("country", "FR"))
    held = [1 if slice_ == reached else value for value, slice_ in zip(HELD.tolist(), moved[0], strict=True)]
    return run_of(tmp_path_factory.mktemp("experiment"), YAML, [(held, slices) for slices in moved])


def of_country(label: str) -> tuple[str, ...]:
    within = f"country={label}"
    return (*ARMS[:2], "--slice", within, *ARMS[2:], "--against-slice", within)


def test_slices_within_each_label_of_a_dimension(experiment: Path, tmp_path: Path) -> None:
    by = (*ARMS, "--by-slice", "country")
    done = call("compare", experiment, *by, "--output", tmp_path / "all.csv")
    assert (
        "country=other: compared are the 1 epoch of which both slices have min_reports reports; 1 of "
        in done.stderr
    )
    lines = done.stdout.splitlines()
    assert lines[0].startswith(
        "first_screen: arm=treatment against arm=control by country, epochs 0..1 (each"
    )
    assert lines[1] == "3 of 9 values differ (false-discovery rate 0.05)"
    assert lines[2].startswith("  country=FR: search is higher by 0.") and " against 0." in lines[2]
    assert all("country=FR" in line and "is lower by" in line for line in lines[3:5])
    found = compared(experiment, *by)
    every = found["rows"]
    assert [row["slice_country"] for row in every] == [DE] * 3 + ["FR"] * 3 + ["other"] * 3
    assert found["changed"][0] == {"slice_country": "FR", "value": 1}
    # All tests of all labels are under one rate; a single comparison has the same p-values.
    p_values = [row["p_value"] for row in every]
    assert [row["adjusted"] for row in every] == pytest.approx(adjusted(np.array(p_values)))
    for place, label in enumerate((DE, "FR")):
        alone = compared(experiment, *of_country(label))["rows"]
        assert [row["p_value"] for row in alone] == pytest.approx(p_values[3 * place : 3 * place + 3])
    first = compared(experiment, *of_country("other"), "--epochs", 0)["rows"]
    assert [row["p_value"] for row in first] == pytest.approx(p_values[6:])
    chosen = compared(experiment, *by, "--value", "search", "--value", 1)["chosen"]
    assert [(one["slice_country"], one["value"]) for one in chosen] == [(DE, 1), ("FR", 1), ("other", 1)]
    assert [one["changed"] for one in chosen] == [False, True, False]
    half = [(one["high"] - one["low"]) / 2 for one in chosen]
    limit = norm.ppf(1 - 0.05 / 6)
    assert half == pytest.approx([limit * row["std_error"] for row in every if row["value"] == 1], rel=1e-6)
    printed = told("compare", experiment, *by, "--value", "search").splitlines()
    assert printed[2].startswith("  country=FR: search: higher: +0.")
    assert "All 3 intervals and verdicts together" in printed[4]
    assert len((tmp_path / "all.csv").read_text().splitlines()) == 10


def test_one_slice_is_compared_over_time_as_its_results_alone(experiment: Path, tmp_path: Path) -> None:
    chosen = {"country": "FR"}
    pq.write_table(ldpbeam.read(experiment, slice=chosen), tmp_path / "a.parquet")
    alone = compared(tmp_path, "--collection", experiment.parent / "c.yaml")
    found = compared(experiment, "--slice", "country=FR")
    assert found["rows"] == alone["rows"] and found["compared"] == "country=FR, epochs 0 against 1"
    both = compared(experiment, experiment, "--slice", "country=FR", "--epochs", 0, "--against", 1)
    assert both["rows"] == alone["rows"]


def test_comparisons_of_slices_that_are_none(results: Path) -> None:
    for given, why in (
        (("--against-slice", "arm=control"), "the slices all and arm=control can have devices in common"),
        ((*ARMS, "--against", 1), "for which --against says nothing"),
        ((results, *ARMS), "for which B says nothing"),
        (("--by-slice", "country"), "--by-slice is for two slices"),
        ((*ARMS, "--by-slice", "arm"), "--by-slice is for another dimension"),
    ):
        error = call("compare", results, *given).exception
        assert isinstance(error, ldpbeam.LdpError) and why in str(error), (given, error)
    withheld = ("--slice", "arm=treatment", "--slice", "country=other", "--against-slice", "arm=control")
    error = call("compare", results, *withheld, "--against-slice", "country=other").exception
    assert "there is no epoch in which both slices have results" in str(error)


def test_distributions_of_two_slices(tmp_path: Path) -> None:
    held = np.where([dict(one)["arm"] == "control" for one in SLICES], 8, 12) + HELD
    out = run_of(tmp_path, MINUTES, [(held.tolist(), SLICES)] * 2)
    target = tmp_path / "all.csv"
    lines = told("compare", out, *ARMS, "--output", target).splitlines()
    assert (
        lines[0]
        == "first_screen: arm=treatment against arm=control, epochs 0..1 (each epoch weighs the same)"
    )
    assert re.fullmatch(r"  mean: higher, 1\d\d\.\d+ against \d\d\.\d+, by [34]\d\.\d+ ± \d\.\d+", lines[1])
    assert re.match(r"  median: .* against .*; values are higher: the share up to .* differs by −", lines[3])
    assert lines[5] == "All four verdicts together have a false-alarm rate of 5 %."
    one = compared(out, *ARMS)
    by = compared(out, *ARMS, "--by-slice", "country")
    assert list(by["labels"]) == [DE, "FR"]
    # Twice the verdicts share the rate, and half of the devices have larger errors.
    assert by["labels"]["FR"]["mean"]["after_std_error"] > one["mean"]["after_std_error"]
    assert "All 8 verdicts together" in told(
        "compare", out, *ARMS, "--by-slice", "country", "--output", target
    )
    assert {row["slice_country"] for row in csv.DictReader(io.StringIO(target.read_text()))} == {
        f"'{DE}",
        "FR",
    }
    # Errors are those of devices that are drawn: what they hold differs by chance too.
    chosen = {"arm": "control"}
    row = next(x for x in ldpbeam.read_summaries(out, slice=chosen).to_pylist() if x["statistic"] == "mean")
    shares = np.array(ldpbeam.read(out, slice=chosen)["cumulative"][:24])
    middles, frequency = 5 + 10 * np.arange(24), np.diff(shares, prepend=0.0)
    values = frequency @ (middles - frequency @ middles) ** 2 / row["n"]
    first = compared(out, *ARMS, "--epochs", 0)["mean"]["before_std_error"]
    assert first == pytest.approx(np.sqrt(row["std_error"] ** 2 + values))


def test_quartiles_of_slices_without_a_memo_hold_what_repeats(tmp_path: Path) -> None:
    """Values that devices keep are the same sample in every epoch, whatever is drawn anew."""
    one_round = (
        MINUTES.replace("loloha", "olh").replace("_longitudinal: 4", ": 2").replace("epsilon_first: 2\n", "")
    )
    out = run_of(tmp_path, one_round, [(HELD.tolist(), SLICES)] * 3)
    collection = ldpbeam.load_collection(tmp_path / "c.yaml")
    curves: list[Curve] = []
    for arm in ("control", "treatment"):
        table, counts = ldpbeam.read(out, slice={"arm": arm}), ldpbeam.read_counts(out, slice={"arm": arm})
        epochs = [Curve.of(table.slice(24 * epoch, 24)) for epoch in range(3)]
        curves.append(Curve.of_epochs(collection, epochs, EpochCounts(counts), "epochs", sampled=True))
    control, treatment = curves
    (expected,) = compare_quartiles(control, treatment, (), 4)[1].tested
    found = compared(out, *ARMS)["quartiles"][1]
    assert (found["low"], found["high"]) == pytest.approx((expected.low, expected.high))
