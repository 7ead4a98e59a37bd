"""Every reader of results is asked about a collection whose result is a distribution.

Such results have no estimates of single values. A reader either answers from the distribution, or refuses in
one line; none may take what is null for 0.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import norm

import ldpbeam
from ldpbeam.accounting import Account
from ldpbeam.answer_counts import counts_table
from ldpbeam.collection.values import Index
from ldpbeam.engine.run import _require_own
from ldpbeam.epoch_result import result_of_epoch
from ldpbeam.histogram import TOO_MANY_ERRORS
from ldpbeam.over_time import DrawnAnew
from ldpbeam.over_time.period import fit_period
from ldpbeam.protocols.interval_hash import IntervalEstimator
from ldpbeam.summaries import SHARES, summary_table
from ldpbeam.sums.distribution import mean_curve
from ldpbeam.table_file import published_table
from ldpbeam.tables import CUMULATIVE, epoch_table, fixed_columns
from ldpbeam.transforms.sinks.accounting import read_epoch_accounting
from ldpbeam.transforms.sinks.estimates import EpochFiles
from tests.ldpbeam.cli.calling import call, told
from tests.ldpbeam.cli.calling import rows as table_of
from tests.narrow import of_kind, present

YAML = """\
name: minutes
domain: {range: {max: 240, buckets: 60}}
protocol: loloha
hash_family: interval
epsilon_longitudinal: 2.0
epsilon_first: 1.0
epoch: {length: 1d, origin: 2026-01-01T00:00:00Z, count: 30}
min_reports: 100
"""
WITH_ATOMS = YAML.replace("60}}", "60}, atoms: {every: 60}}")
EPOCHS, DEVICES = 3, 3000
ESTIMATED = ("estimate", "std_error", "std_error_floor", "ci_low", "ci_high", "ci_low_all", "ci_high_all")


def refused(*given: object) -> str:
    """The one line with which it refuses."""
    error = call(*given).exception
    assert isinstance(error, ldpbeam.LdpError), (given, error)
    line = str(error)
    assert error.exit_code == 2 and "\n" not in line and re.search(r"\[E-[A-Z-]+\]$", line)
    return line


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("distribution"), (DEVICES,) * EPOCHS)


def made(folder: Path, devices: tuple[int, ...], definition: str = YAML) -> Path:
    """The results of three epochs, whose values rise from the second to the third, and their truth."""
    (folder / "c.yaml").write_text(definition)
    rng = np.random.default_rng(6)
    rows = ["device,epoch,value"]
    for epoch, number in enumerate(devices):
        values = np.minimum(rng.gamma(2, 25 + 35 * (epoch == 2), number), 239)
        rows += [f"{device},{epoch},{value:.2f}" for device, value in enumerate(values)]
    (folder / "panel.csv").write_text("\n".join(rows) + "\n")
    panel = f"panel:{folder / 'panel.csv'}:device,epoch,value"
    options = "--collection", folder / "c.yaml", "--population", panel, "--seed", 5
    told("simulate", *options, "--output", folder / "sent", "--truth")
    told(
        *("run", "--collection", folder / "c.yaml"),
        *("--input", folder / "sent" / "reports", "--output", folder / "out"),
    )
    return folder


@pytest.fixture(scope="module")
def tables(run: Path) -> pa.Table:
    return ldpbeam.read(run / "out")


def of_epoch(tables: pa.Table, epoch: int) -> list[dict[str, Any]]:
    return [row for row in tables.to_pylist() if row["epoch"] == epoch]


def test_rows_have_shares_up_to_values_and_no_estimates(run: Path, tables: pa.Table) -> None:
    truth = pq.read_table(run / "sent" / "truth.parquet").to_pylist()
    held = np.zeros((EPOCHS, 60))
    for row in truth:
        held[row["epoch"], row["value"]] = row["frequency"]
    inside = 0
    for epoch in range(EPOCHS):
        rows = of_epoch(tables, epoch)
        assert all(row[name] is None for row in rows for name in ESTIMATED)
        shares, low, high = (np.array([row[name] for row in rows]) for name in CUMULATIVE)
        assert np.cumsum([row["consistent"] for row in rows]) == pytest.approx(shares)
        assert (low <= shares).all() and (shares <= high).all() and shares[-1] == 1
        inside += int(((low <= np.cumsum(held[epoch])) & (np.cumsum(held[epoch]) <= high)).sum())
        assert {row["method"] for row in rows} == {"ordered"}
    assert inside >= 0.8 * EPOCHS * 60  # three epochs with these words of chance: shares move together


def test_summaries_are_a_table_of_their_own(run: Path, tables: pa.Table) -> None:
    found = ldpbeam.read_summaries(run / "out").to_pylist()
    assert len(found) == EPOCHS * (1 + len(SHARES))
    held = np.loadtxt(run / "panel.csv", delimiter=",", skiprows=1)
    for epoch in range(EPOCHS):
        values = held[held[:, 1] == epoch, 2]
        mean, *quantiles = [row for row in found if row["epoch"] == epoch]
        assert (mean["statistic"], mean["share"], mean["n"]) == ("mean", None, DEVICES)
        # z = 5: once in two million, with three epochs
        assert abs(mean["estimate"] - values.mean()) < 5 * mean["std_error"] + 2
        assert mean["ci_low"] < mean["estimate"] < mean["ci_high"]
        for row, share in zip(quantiles, SHARES, strict=True):
            assert (row["statistic"], row["share"], row["std_error"]) == ("quantile", share, None)
            assert row["ci_low"] <= row["estimate"] <= row["ci_high"]
            assert row["label_low"].startswith(f"[{row['ci_low']:g},")
            assert row["label_high"].endswith(f" {row['ci_high']:g})")
            curve = [one["cumulative"] for one in of_epoch(tables, epoch)]
            at = row["estimate"] / 4
            below = [0.0, *curve][int(at)]
            assert below + (at % 1) * (curve[int(at)] - below) == pytest.approx(share)


def test_export_reads_the_distribution(run: Path, tables: pa.Table) -> None:
    out = run / "out"
    rows = table_of("export", out, "--cumulative")
    assert [float(row["estimate"]) for row in rows] == tables["cumulative"].to_pylist()
    assert [float(row["ci_high"]) for row in rows] == tables["cumulative_ci_high"].to_pylist()
    assert {row["std_error"] for row in rows} == {row["ci_low_all"] for row in rows} == {""}
    quantiles = table_of("export", out, "--quantile", ".25,.5,.75,.9")
    summaries = ldpbeam.read_summaries(out).to_pylist()
    labelled = [row for row in summaries if row["statistic"] == "quantile"]
    names = ("label", "label_low", "label_high")
    assert [[row[name] for name in names] for row in quantiles] == [
        [row[name] for name in names] for row in labelled
    ]
    means = table_of("export", out, "--mean")
    expected = [row for row in summaries if row["statistic"] == "mean"]
    for name in ("estimate", "std_error", "ci_low", "ci_high"):
        assert [float(row[name]) for row in means] == [row[name] for row in expected]
    plain = table_of("export", out)
    assert {row["estimate"] for row in plain} == {""}


def test_export_refuses_what_takes_single_values(run: Path) -> None:
    (run / "groups.csv").write_text("group,value\nfew,0..20\n")
    for options in (
        ("--every", 2),
        ("--by", "week"),
        ("--group", run / "groups.csv"),
        ("--mean", "--every", 2, "--drawn-anew", "0.1"),
    ):
        assert "distribution" in refused("export", run / "out", *options)


def test_periods_are_one_fit_of_their_counts(run: Path, tables: pa.Table) -> None:
    collection, counts = ldpbeam.load_collection(run / "c.yaml"), ldpbeam.read_counts(run / "out")
    (estimator,) = collection.estimators
    kept = [np.array(row["counts"]) for row in counts.to_pylist()]
    assert [row.sum() for row in kept] == counts["n"].to_pylist() == [DEVICES] * EPOCHS
    for epoch, one in enumerate(kept):
        found = present(estimator.estimate(one, DEVICES).distribution)
        assert found.cumulative.tolist() == [row["cumulative"] for row in of_epoch(tables, epoch)]
    fit = fit_period(estimator, kept[:2])
    rows = table_of("export", run / "out", "--cumulative", "--every", 2)
    for name, expected in zip(
        ("estimate", "ci_low", "ci_high"), (fit.cumulative, *fit.limits(0.95)), strict=True
    ):
        assert [float(row[name]) for row in rows[:60]] == expected.tolist()
    assert [float(row["estimate"]) for row in rows[60:]] == [row["cumulative"] for row in of_epoch(tables, 2)]
    curve = ldpbeam.cumulative_shares(collection, tables, every=2, counts=counts)
    assert curve["estimate"].to_pylist() == [float(row["estimate"]) for row in rows]
    medians = ldpbeam.quantiles(collection, tables, [0.5], every=2, counts=counts).to_pylist()
    exported = table_of("export", run / "out", "--quantile", "0.5", "--every", 2)
    assert [str(row["value_low"]) for row in medians] == [row["value_low"] for row in exported]
    with pytest.raises(ldpbeam.LdpError, match="epoch 1"):
        ldpbeam.quantiles(collection, tables, [0.5], every=2, counts=counts.filter([True, False, True]))


def test_periods_without_counts_have_the_mean_of_their_curves(
    run: Path, tables: pa.Table, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    shutil.copytree(run / "out", out)
    shutil.rmtree(out / "counts")
    curves = np.array([[[row[name] for row in of_epoch(tables, e)] for name in CUMULATIVE] for e in range(3)])
    both = np.array(mean_curve(*curves[:2].swapaxes(0, 1)))
    inner = ((curves[:2, 1] > 0) & (curves[:2, 2] < 1)).all(axis=0)  # no limit is cut
    assert inner.sum() > 20
    assert both[:, inner] == pytest.approx(curves[:2].mean(axis=0)[:, inner])
    options = "export", out, "--cumulative", "--every", 2
    assert "2 epochs are missing, the first is 0" in call(*options).stderr
    rows = table_of(*options)
    collection = ldpbeam.load_collection(run / "c.yaml")
    assert ldpbeam.cumulative_shares(collection, tables, every=2)["estimate"].to_pylist() == pytest.approx(
        [float(row["estimate"]) for row in rows]
    )
    assert [(row["first_epoch"], row["last_epoch"], row["epochs"]) for row in rows[::60]] == [
        ("0", "1", "2"),
        ("2", "2", "1"),
    ]
    assert {row["n"] for row in rows[:60]} == {str(2 * DEVICES)}
    assert {(row["start"][:10], row["end"][:10]) for row in rows[:60]} == {("2026-01-01", "2026-01-03")}
    for name, expected, alone in zip(("estimate", "ci_low", "ci_high"), both, curves[2], strict=True):
        assert [float(row[name]) for row in rows[:60]] == pytest.approx(expected, abs=1e-12)
        assert [float(row[name]) for row in rows[60:]] == alone.tolist()
    shares = (0.25, 0.5, 0.9)
    found = table_of("export", out, "--quantile", ",".join(map(str, shares)), "--by", "week")
    start = datetime(2026, 1, 1, tzinfo=UTC)  # a Thursday, and the next Monday begins a week
    assert {row["start"][:10] for row in found} == {f"{start:%Y-%m-%d}"}
    whole, low, high = mean_curve(*curves.swapaxes(0, 1))
    for row, share in zip(found, shares, strict=True):
        assert int(row["value"]) == int(np.argmax(whole >= share))
        fits = (high >= share) & (np.concatenate([[0], low[:-1]]) <= share)
        assert [int(row["value_low"]), int(row["value_high"])] == np.flatnonzero(fits)[[0, -1]].tolist()


def test_the_mean_of_a_period_knows_what_repeats(run: Path) -> None:
    summaries = ldpbeam.read_summaries(run / "out").to_pylist()
    single = [row for row in summaries if row["statistic"] == "mean"]
    (row,) = table_of("export", run / "out", "--mean", "--every", 3)
    assert float(row["estimate"]) == pytest.approx(np.mean([one["estimate"] for one in single]))
    errors = np.array([one["std_error"] for one in single])
    collection = ldpbeam.load_collection(run / "c.yaml")
    (estimator,) = collection.estimators
    shares = ldpbeam.cumulative_shares(collection, ldpbeam.read(run / "out"))["estimate"].to_numpy()
    parts = [
        estimator.distribution.lasting_part_of_mean(shares[60 * e : 60 * e + 60], Fraction(1))
        for e in range(3)
    ]
    assert all(0.1 < part < 0.3 for part in parts)
    common = np.sqrt(parts) * errors
    expected = np.sqrt((errors**2 - common**2).sum() + common.sum() ** 2) / 3
    assert float(row["std_error"]) == pytest.approx(expected)
    assert np.sqrt((errors**2).sum()) / 3 < expected < errors.mean()
    assert float(row["ci_high"]) - float(row["estimate"]) == pytest.approx(1.959963984540054 * expected)
    assert int(row["n"]) == 3 * DEVICES


def test_epochs_without_a_result_count_for_nothing_in_a_period(tmp_path: Path) -> None:
    once = YAML.replace("protocol: loloha", "protocol: olh")
    levels = "epsilon_longitudinal: 2.0\nepsilon_first: 1.0\n"
    (tmp_path / "once.yaml").write_text(once.replace(levels, "epsilon: 1.0\n"))
    collection = ldpbeam.load_collection(tmp_path / "once.yaml")
    reports = [
        ldpbeam.simulate(collection, Index([at] * n), epoch=epoch, seed=epoch)
        for epoch, (at, n) in enumerate([(5, 400), (30, 99), (50, 300), (50, 20), (50, 20)])
    ]
    tables = ldpbeam.estimate(collection, reports)
    pair, alone, nothing = (
        ldpbeam.cumulative_shares(collection, tables, every=every).to_pylist()[at]
        for every, at in ((3, 10), (1, 10), (3, 70))
    )
    assert (pair["epochs"], pair["n"], pair["last_epoch"]) == (2, 700, 2)
    last = ldpbeam.cumulative_shares(collection, tables).to_pylist()[130]
    assert pair["estimate"] == pytest.approx((alone["estimate"] + last["estimate"]) / 2)
    by_reports = ldpbeam.cumulative_shares(collection, tables, every=3, weight="reports")["estimate"][10]
    assert by_reports.as_py() == pytest.approx((4 * alone["estimate"] + 3 * last["estimate"]) / 7)
    assert (nothing["epochs"], nothing["n"], nothing["estimate"], nothing["ci_low"]) == (0, 0, None, None)
    for folder in ("latest", "summaries"):
        (tmp_path / folder).mkdir()
    for epoch, one in enumerate(reports):
        result = ldpbeam.result_of_epoch(collection, epoch, [one])
        pq.write_table(ldpbeam.estimate(collection, one), tmp_path / "latest" / f"{epoch}.parquet")
        pq.write_table(summary_table(collection, result), tmp_path / "summaries" / f"{epoch}.parquet")
    means = table_of("export", tmp_path, "--collection", tmp_path / "once.yaml", "--mean", "--every", 3)
    assert [row["n"] for row in means] == ["700", "0"]
    at = tables.schema.get_field_index("pane")
    panes = ["early" if epoch == 1 else "on_time" for epoch in tables["epoch"].to_pylist()]
    open_yet = tables.set_column(at, tables.schema.field(at), pa.array(panes))
    found = ldpbeam.quantiles(collection, open_yet, [0.5], every=3)
    assert found["provisional"].to_pylist() == [True, False]
    medians = ldpbeam.quantiles(collection, tables, [0.5], every=3).to_pylist()
    assert [row["value"] is None for row in medians] == [False, True]
    with pytest.raises(ldpbeam.LdpError, match="whatever devices do"):
        ldpbeam.quantiles(collection, tables, [0.5], every=3, drawn_anew=DrawnAnew(0, 0.1))


def test_a_mean_without_its_summaries_is_refused(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run / "out", tmp_path / "out")
    older, lost, _ = sorted((tmp_path / "out" / "summaries").iterdir())
    whole = lost.read_bytes()
    lost.unlink()
    assert "epoch 1" in refused("export", tmp_path / "out", "--mean")
    lost.write_bytes(whole)
    table = pq.read_table(older)
    at = table.schema.get_field_index("revision")
    pq.write_table(
        table.set_column(at, table.schema.field(at), pa.array([7] * len(table), pa.int32())), older
    )
    assert "epoch 0" in refused("export", tmp_path / "out", "--mean")  # of another revision
    shutil.rmtree(tmp_path / "out" / "summaries")
    assert "summaries" in refused("export", tmp_path / "out", "--mean")


def test_from_python(run: Path, tables: pa.Table) -> None:
    collection = ldpbeam.load_collection(run / "c.yaml")
    calls: list[Callable[[], Any]] = [
        lambda: ldpbeam.value_mean(collection, tables),
        lambda: ldpbeam.group_changes(collection, tables, {"few": [0]}, [0], [1]),
        lambda: ldpbeam.quantiles(collection, tables.drop_columns(["cumulative"]), [0.5]),
    ]
    for one in calls:
        with pytest.raises(ldpbeam.LdpError, match=r"distribution|cumulative"):
            one()
    with pytest.raises(ValueError, match="standard error"):
        ldpbeam.pooled([ldpbeam.cumulative_shares(collection, tables)])


def test_reports_weigh_alike_where_that_is_asked(tmp_path: Path) -> None:
    out = made(tmp_path, (400, 1200, 800), WITH_ATOMS) / "out"
    collection, cells = ldpbeam.load_collection(tmp_path / "c.yaml"), ldpbeam.read_counts(out).to_pylist()
    fit = fit_period(collection.estimators[0], [np.array(row["counts"]) for row in cells[:2]], "reports")
    summaries = ldpbeam.read_summaries(out).to_pylist()
    first, second, _ = (row["estimate"] for row in summaries if row["statistic"] == "mean")
    asked = "export", out, "--every", 2, "--weight", "reports"
    curve = table_of(*asked, "--cumulative")[:60]
    assert [float(row["estimate"]) for row in curve] == fit.cumulative.tolist()
    mean = table_of(*asked, "--mean")[0]
    assert float(mean["estimate"]) == pytest.approx((first + 3 * second) / 4)
    assert {row["weight"] for row in (*curve, mean)} == {"reports"}
    sides = "--epochs", "0..1", "--against", 2, "--weight", "reports", "--json"
    found = json.loads(told("compare", out, *sides))
    assert found["mean"]["before"] == pytest.approx((first + 3 * second) / 4)
    median = int(np.argmax(fit.cumulative >= 0.5))
    assert found["quartiles"][1]["before"] == collection.histograms[0][1].label(median)
    assert found["weight"] == "reports" and found["compared"].endswith("(each report weighs the same)")


@pytest.mark.thorough
def test_compare_says_which_quartiles_moved(run: Path, tmp_path: Path) -> None:
    def compared(*given: object) -> Any:
        return json.loads(told("compare", *given, "--json"))

    several = "epochs 0..1 against epoch 2 (each epoch weighs the same)"
    for epochs, name, sign, changed in (
        ((), "epoch 1 against epoch 2", -1, True),
        (("--epochs", 2, "--against", 0), "epoch 2 against epoch 0", 1, True),
        (("--epochs", "0..1", "--against", 2), several, -1, True),
        (("--epochs", 0, "--against", 1), "epoch 0 against epoch 1", 0, False),
    ):
        found = compared(run / "out", *epochs)
        assert found["compared"] == name
        assert [row["share"] for row in found["quartiles"]] == [0.25, 0.5, 0.75]
        assert all(row["changed"] == changed for row in found["quartiles"])
        assert not changed or all(row["change"] * sign > 0 for row in found["quartiles"])
    assert "values rose" in told("compare", run / "out")
    shutil.copytree(run / "out", tmp_path / "bare")
    shutil.rmtree(tmp_path / "bare" / "counts")
    asking = "--epochs", "0..1", "--against", 2
    done = call("compare", tmp_path / "bare", *asking, "--json")
    assert "[W-RUN-COUNTS]" in done.stderr
    bare = json.loads(done.stdout)
    pairs = zip(compared(run / "out", *asking)["quartiles"], bare["quartiles"], strict=True)
    assert all(fit["high"] - fit["low"] < mean["high"] - mean["low"] for fit, mean in pairs)
    shutil.copytree(run / "out", tmp_path / "other")
    runs = run / "out", tmp_path / "other"
    alike = compared(*runs, "--epochs", 0, "--against", 0)
    assert alike["compared"] == f"{runs[0]} (epochs 0) against {runs[1]} (epochs 0)"
    assert [row["change"] for row in alike["quartiles"]] == [0, 0, 0]
    whole = told("compare", *runs, "--against", "1..2").splitlines()[0]
    assert (
        whole
        == f"minutes: {runs[0]} (all epochs) against {runs[1]} (epochs 1..2) (each epoch weighs the same)"
    )
    for options in (
        (run / "out",),
        ("--epochs", 1),
        ("--epochs", 1, "--against", 1),
        ("--epochs", "0..1", "--against", "1..2"),
        ("--epochs", 7, "--against", 2),
        ("--value", 3),
        ("--false-discoveries", 0.1),
        ("--drawn-anew", "0.1"),
        ("--group", run / "panel.csv"),
    ):
        refused("compare", run / "out", *options)


def test_compare_tests_shares_beside_declared_atoms(run: Path, tmp_path: Path) -> None:
    """The file of a collection may name its atoms at any time; the quartiles of epoch 1 lie near these."""
    _, row, _ = json.loads(told("compare", run / "out", "--json"))["quartiles"]
    alone = [row[f"other_{name}"] for name in ("up_to", "change", "low", "high")]
    assert (row["up_to"], alone) == (row["before"], [None] * 4)
    least = int(re.findall(r"\d+", row["before"])[0])
    named = YAML.replace("buckets: 60}", f"buckets: 60}}, atoms: [{least}]")
    (tmp_path / "c.yaml").write_text(named)
    asking = "compare", run / "out", "--collection", tmp_path / "c.yaml"
    _, row, _ = json.loads(told(*asking, "--json"))["quartiles"]
    places = sorted(int(re.findall(r"\d+", row[name])[0]) for name in ("up_to", "other_up_to"))
    assert places == [least - 4 - 12, least + 12]  # a sixteenth of 60 buckets is 3
    assert row["changed"] and row["low"] <= row["change"] <= row["high"] < 0
    assert row["other_low"] <= row["other_change"] <= row["other_high"]
    line = next(one for one in told(*asking).splitlines() if "median" in one)
    assert re.search(r"values rose: the shares up to \S+ \S+ and up to \S+ \S+ changed by \S+ .* and ", line)


@pytest.mark.thorough
def test_compare_says_how_far_the_mean_moved(run: Path, tmp_path: Path) -> None:
    known = [row for row in ldpbeam.read_summaries(run / "out").to_pylist() if row["statistic"] == "mean"]
    found = json.loads(told("compare", run / "out", "--json"))["mean"]
    names = ("before", "before_std_error", "after", "after_std_error")
    expected = [row[name] for row in known[1:] for name in ("estimate", "std_error")]
    assert [found[name] for name in names] == pytest.approx(expected)
    assert found["change"] == pytest.approx(known[2]["estimate"] - known[1]["estimate"])
    assert found["changed"] and 0 < found["low"] < found["change"] < found["high"]
    independent = norm.ppf(1 - 0.05 / 8) * np.hypot(expected[1], expected[3])
    half = found["high"] - found["change"]
    assert independent < half < independent * np.sqrt(1.3)  # less than .3 of a variance repeats
    lines = told("compare", run / "out").splitlines()
    words = re.fullmatch(r"  mean: rose from (\S+) to (\S+), by (\S+) ± (\S+)", lines[1])
    assert words and [float(x) for x in words.groups()] == pytest.approx(
        [found["before"], found["after"], found["change"], half], abs=0.05
    )
    assert lines[-1] == "All four verdicts together have a false-alarm rate of 5 %."
    several = json.loads(told("compare", run / "out", "--epochs", "0..1", "--against", 2, "--json"))["mean"]
    (row, _) = table_of("export", run / "out", "--mean", "--every", 2)
    assert [several["before"], several["before_std_error"]] == pytest.approx(
        [float(row["estimate"]), float(row["std_error"])]
    )
    told("compare", run / "out", "--output", tmp_path / "verdicts.csv")
    *quartiles, mean = csv.DictReader((tmp_path / "verdicts.csv").read_text().splitlines())
    assert [row["statistic"] for row in quartiles] == ["quantile"] * 3
    assert (mean["statistic"], mean["share"], float(mean["change"])) == ("mean", "", found["change"])
    assert float(mean["before"]) == found["before"]
    back = told("compare", run / "out", "--epochs", 2, "--against", 1)
    assert f"mean: fell from {words[2]} to {words[1]}, by {words[3]} ± {words[4]}" in back
    still = told("compare", run / "out", "--epochs", 0, "--against", 1)
    assert re.search(r"mean: no change is clear: from \S+ to \S+, by [+−]\S+ ± \S+\n", still)
    shutil.copytree(run / "out", tmp_path / "other")
    told("compare", run / "out", tmp_path / "other")
    shutil.rmtree(tmp_path / "other" / "summaries")
    assert "summaries" in refused("compare", run / "out", tmp_path / "other")


def checksums(out: Path) -> dict[str, str]:
    """Of the files in summaries/, by their paths."""
    return {
        f"summaries/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (out / "summaries").iterdir()
    }


def refused_summaries(folder: Path) -> str:
    with pytest.raises(ldpbeam.LdpError) as error:
        ldpbeam.read_summaries(folder)
    return error.value.message


def test_too_few_reports_are_null_and_say_so(run: Path) -> None:
    collection = ldpbeam.load_collection(run / "c.yaml")
    reports = ldpbeam.simulate(collection, Index([3] * 99), seed=1)
    result = result_of_epoch(collection, 0, [reports])
    rows = epoch_table(collection, result, fixed_columns(collection)).to_pylist()
    summaries = summary_table(collection, result).to_pylist()
    assert all(row[name] is None for row in rows for name in (*CUMULATIVE, "consistent"))
    assert {row["status"] for row in rows + summaries} == {"insufficient_reports"}
    assert {row["estimate"] for row in summaries} == {None}
    assert not counts_table(collection, result).num_rows  # estimates would follow from them
    (median,) = ldpbeam.quantiles(collection, pa.Table.from_pylist(rows), [0.5]).to_pylist()
    assert median["value"] is median["value_low"] is None


def test_what_the_collection_says_reaches_the_estimator() -> None:
    text = YAML.replace("buckets: 60}", "buckets: 60}, atoms: [90]").replace("min_reports: 100\n", "")
    plain = ldpbeam.parse_collection(text.replace(", atoms: [90]", ""))
    with_atom = ldpbeam.parse_collection(text)
    few = ldpbeam.parse_collection(text + "participation: {reports: 3, of: 30}\n")
    assert with_atom.digest == plain.digest and with_atom.histograms[0][1].atoms == (22,)
    values = np.concatenate([np.full(800, 22), np.arange(1600) % 60])
    counts = np.zeros(plain.protocol.counter.counts_length, np.int64)
    reports = ldpbeam.simulate(plain, Index(values.tolist()), seed=3)
    plain.protocol.counter.add(reports.payloads, counts)
    estimator = of_kind(IntervalEstimator, plain.protocol.estimator)
    for collection, atoms, share in ((plain, (), 1.0), (with_atom, (22,), 1.0), (few, (22,), 0.1)):
        (part,) = collection.estimators
        found = part.estimate(counts, values.size).distribution
        expected = estimator.posterior(atoms).estimate(counts, share)
        assert found is not None and np.array_equal(found.cumulative, expected.cumulative)
        assert np.array_equal(found.std_error, expected.std_error)
        assert found.mean_std_error == expected.mean_std_error
    assert not np.array_equal(
        estimator.posterior((22,)).estimate(counts).std_error,
        estimator.posterior().estimate(counts).std_error,
    )


def test_streams_keep_the_summaries_of_the_newest_revision(run: Path, tmp_path: Path) -> None:
    collection = ldpbeam.load_collection(run / "c.yaml")
    files = EpochFiles(collection, str(tmp_path), "job")
    account = Account(read=400, counted=400)
    results = [
        replace(
            result_of_epoch(collection, 0, [ldpbeam.simulate(collection, Index([at] * 400), seed=at)]),
            revision=number,
            account=account,
        )
        for number, at in ((0, 5), (1, 30))
    ]
    for result in (*results, results[0]):
        files.write(result)
    named = present(read_epoch_accounting(str(tmp_path), collection, 0)).summaries
    assert {present(named).path: present(named).sha256} == checksums(tmp_path)
    assert ldpbeam.read_summaries(tmp_path).equals(summary_table(collection, results[1]))
    files.write(replace(results[0], attributes=(), revision=2, withheld=TOO_MANY_ERRORS))
    assert "no summaries" in refused_summaries(tmp_path)
    *revisions, withheld = present(read_epoch_accounting(str(tmp_path), collection, 0)).revisions
    assert withheld.counts is None and len(list((tmp_path / "counts").iterdir())) == 2
    for result, revision in zip(results, revisions, strict=True):
        made = present(revision.counts)
        assert hashlib.sha256((tmp_path / made.path).read_bytes()).hexdigest() == made.sha256
        assert published_table(tmp_path / made.path).read().equals(counts_table(collection, result))
    assert present(read_epoch_accounting(str(tmp_path), collection, 0)).summaries is None
    files.write(replace(results[1], revision=3))
    (tmp_path / "landing").mkdir()
    _require_own(str(tmp_path))  # a stream goes on in this folder
