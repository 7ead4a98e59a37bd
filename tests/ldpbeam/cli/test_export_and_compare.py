"""``ldpbeam export`` and ``ldpbeam compare``: what they print, write and refuse."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ldpbeam
from ldpbeam.cli.shared.histories import harmless
from ldpbeam.over_time import DrawnAnew, difference, errors_of, mean
from ldpbeam.over_time.results import histories
from ldpbeam.over_time.significance import p_values
from tests.conftest import REPOSITORY
from tests.ldpbeam.cli.calling import call, rows

FILE = REPOSITORY / "examples" / "first_choice.yaml"
GIVEN = ("--collection", FILE)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine days of one collection; on the last two `blue` is frequent."""
    folder = tmp_path_factory.mktemp("results")
    (folder / "latest").mkdir()
    collection = ldpbeam.load_collection(FILE)
    for epoch in range(9):
        values = np.full(4000, 2) if epoch > 6 else np.arange(4000) % 4
        reports = ldpbeam.Fleet(collection, 4000, seed=epoch).report(ldpbeam.Index(values), epoch)
        pq.write_table(ldpbeam.estimate(collection, reports), folder / "latest" / f"{epoch}.parquet")
    return folder


def series(results: Path) -> Any:
    (history,) = histories(ldpbeam.read(results))
    return history.series


ERRORS = errors_of(ldpbeam.load_collection(FILE))[0]


def test_export_of_single_epochs(results: Path, tmp_path: Path) -> None:
    shown = rows("export", results)
    table = ldpbeam.read(results)
    assert [float(row["estimate"]) for row in shown] == table["estimate"].to_pylist()
    assert list(shown[0]) == table.column_names
    for name in ("a.csv", "deep/b.parquet"):
        target = tmp_path / name
        done = call("export", results, "--output", target, "--json")
        assert json.loads(done.stdout) == {"export": str(target), "rows": 36, "columns": table.column_names}
        assert [path.name for path in target.parent.iterdir() if path.is_file()] == [target.name]
    assert pq.read_table(tmp_path / "deep" / "b.parquet").equals(table)
    assert (tmp_path / "a.csv").read_text() == call("export", results).stdout
    assert call("export", results, "--quiet").stdout == ""
    assert (
        json.loads(call("export", results, "--json").stdout)["rows"][0]["epoch_start"]
        == "2026-01-01T00:00:00Z"
    )


@pytest.mark.parametrize(
    ("given", "rate"),
    [
        ((), None),
        (("--drawn-anew", "0..0.5"), DrawnAnew(0, 0.5)),
    ],
)
def test_export_of_roll_ups(results: Path, given: tuple[str, ...], rate: DrawnAnew | None) -> None:
    shown = rows("export", results, "--every", 4, "--collection", FILE, *given)
    assert [(row["first_epoch"], row["last_epoch"], row["epochs"]) for row in shown[::4]] == [
        ("0", "3", "4"), ("4", "7", "4"), ("8", "8", "1")
    ]  # fmt: skip
    expected = mean(series(results).rows(slice(4, 8)), ERRORS, rate)
    second = shown[4:8]
    assert [float(row["estimate"]) for row in second] == pytest.approx(expected.estimate)
    assert [float(row["std_error"]) for row in second] == pytest.approx(expected.std_error)
    assert [float(row["std_error_floor"]) for row in second] == pytest.approx(expected.std_error_floor)
    half = [float(row["ci_high"]) - float(row["ci_low"]) for row in second]
    assert half == pytest.approx(2 * 1.959964 * expected.std_error)
    assert {row["n"] for row in second} == {"16000"}


def test_reports_weigh_alike_where_that_is_asked(results: Path, tmp_path: Path) -> None:
    """Of epochs with 1000 and 3000 reports, and one that they are compared with."""
    collection = ldpbeam.load_collection(FILE)
    (tmp_path / "groups.csv").write_text("group,value\ncold,green\n")
    for epoch, devices in enumerate((1000, 3000, 2000)):
        held = ldpbeam.Index(np.arange(devices) % (4 - epoch))
        reports = ldpbeam.Fleet(collection, devices, seed=epoch).report(held, epoch)
        pq.write_table(ldpbeam.estimate(collection, reports), tmp_path / f"{epoch}.parquet")
    made, groups = series(tmp_path), ("--group", tmp_path / "groups.csv")
    single = [float(row["estimate"]) for row in rows("export", tmp_path, *groups, *GIVEN)[:2]]
    for weight, shares in (("epochs", [0.5, 0.5]), ("reports", [0.25, 0.75])):
        wanted = shares @ made.estimate[:2]
        asked = "--weight", weight, *GIVEN
        shown = rows("export", tmp_path, "--every", 2, *asked)[:4]
        assert [float(row["estimate"]) for row in shown] == pytest.approx(wanted)
        cold = rows("export", tmp_path, "--every", 2, *groups, *asked)[0]
        assert float(cold["estimate"]) == pytest.approx(np.dot(shares, single))
        assert {row["weight"] for row in (*shown, cold)} == {weight}
        document = call("compare", tmp_path, "--epochs", "0..1", "--against", 2, *asked, "--json").stdout
        found = json.loads(document)
        assert [row["before"] for row in found["rows"]] == pytest.approx(wanted)
        assert found["weight"] == weight
        assert found["compared"] == f"epochs 0..1 against 2 (each {weight[:-1]} weighs the same)"
        for other in ("1..8", "8"):  # with an epoch in common, and without
            sides = tmp_path, results, "--epochs", "0..1", "--against", other, *asked, "--json"
            found = json.loads(call("compare", *sides).stdout)
            assert [row["before"] for row in found["rows"]] == pytest.approx(wanted)


def test_compare_says_what_changed(results: Path, tmp_path: Path) -> None:
    asked = ("compare", results, "--collection", FILE, "--epochs", "0..6", "--against", "7..8")
    lines = call(*asked).stdout.splitlines()
    late = np.arange(9) > 6
    found = difference(series(results), late, ~late, ERRORS)
    assert lines[0] == "first_choice: epochs 0..6 against 7..8 (each epoch weighs the same)"
    assert lines[1] == "4 of 4 values changed (false-discovery rate 0.05)"
    assert lines[2].startswith(
        f"  blue rose by {found.estimate[2]:.4g} ± {1.959964 * found.std_error[2]:.2g} (95 %)"
    )
    assert sum("fell" in line for line in lines) == 3
    document = json.loads(call(*asked, "--json", "--output", tmp_path / "all.csv").stdout)
    assert [row["std_error"] for row in document["rows"]] == pytest.approx(found.std_error)
    assert document["changed"][0] == 2
    assert len((tmp_path / "all.csv").read_text().splitlines()) == 5
    assert len(call(*asked, "--limit", 1).stdout.splitlines()) == 3
    assert call(*asked, "--quiet").stdout == ""
    # The last two days are alike.
    assert "0 of 4 values changed" in call("compare", results, "--collection", FILE).stdout


def test_compare_of_values_chosen_beforehand(results: Path) -> None:
    """With a p-value of their own; several share the false-alarm rate."""
    asked = ("compare", results, "--collection", FILE, "--epochs", "0..6", "--against", "7..8")
    late = np.arange(9) > 6
    found = difference(series(results), late, ~late, ERRORS)
    p = p_values(found.estimate, found.std_error)
    two = 2.241403  # standard errors, at 2.5 %
    for names, limit in ((("blue",), 1.959964), (("blue", "0"), two), (("2", "blue", "0"), two)):
        typed = [part for name in names for part in ("--value", name)]
        chosen = json.loads(call(*asked, *typed, "--json").stdout)["chosen"]
        places = [2] if len(names) == 1 else [2, 0]
        assert [one["value"] for one in chosen] == places
        assert [one["p_value"] for one in chosen] == pytest.approx(p[places])
        assert [one["change"] for one in chosen] == pytest.approx(found.estimate[places])
        low = found.estimate[places] - limit * found.std_error[places]
        high = found.estimate[places] + limit * found.std_error[places]
        assert [one["low"] for one in chosen] == pytest.approx(low, rel=1e-5)
        assert [one["high"] for one in chosen] == pytest.approx(high, rel=1e-5)
        assert [one["changed"] for one in chosen] == [True] * len(places)
    lines = call(*asked, "--value", "blue").stdout.splitlines()
    assert lines[0] == "first_choice: epochs 0..6 against 7..8 (each epoch weighs the same)"
    assert lines[1].startswith(f"  blue: changed: {found.estimate[2]:+.4g} (+")
    assert lines[1].endswith(f"p = {p[2]:.3g}")
    assert lines[2:] == [
        "p is of that value alone, not adjusted for any other. The interval and the verdict have a "
        "false-alarm rate of 5 %,",
        "where the value was chosen before the results were seen.",
    ]
    assert "no change is clear" in call("compare", results, "--collection", FILE, "--value", "blue").stdout
    refused = call(*asked, "--value", "bleu")
    assert "there is no value 'bleu' to compare. Did you mean blue? [E-USAGE-OPTION]" in str(
        refused.exception
    )
    refused = call(*asked, "--value", "blue", "--false-discoveries", "0.1")
    assert "Leave one of them out" in str(refused.exception)


def test_compare_two_runs(results: Path, tmp_path: Path) -> None:
    second = tmp_path / "second.yaml"
    second.write_text(FILE.read_text().replace("version: 1", "version: 2"))
    other = ldpbeam.load_collection(second)
    zeros = ldpbeam.Index(np.zeros(4000, np.int64))
    table = ldpbeam.estimate(other, ldpbeam.Fleet(other, 4000).report(zeros, epoch=3))
    folder, both = tmp_path / "other", tmp_path / "both"
    folder.mkdir()
    pq.write_table(table, folder / "3.parquet")
    shutil.copytree(results, both)
    shutil.copy(folder / "3.parquet", both / "latest" / "second.parquet")
    files = ("--collection", FILE, "--collection", second)

    def compared(*given: object) -> Any:
        return json.loads(call("compare", *given, "--json").stdout)

    document = compared(results, folder, *files, "--epochs", "2", "--drawn-anew", "0")
    row = document["rows"][0]
    # Two versions have memos of their own: their errors are independent, whether devices change or not.
    assert row["change"] == pytest.approx(table["estimate"][0].as_py() - series(results).estimate[2, 0])
    assert row["std_error"] == pytest.approx(np.hypot(row["before_std_error"], row["after_std_error"]))
    assert document["changed"][0] == 0
    # In one folder each side is the newest version that has the epochs, and a line says which.
    later = (*files, "--epochs", "2", "--against", "3")
    assert compared(both, *later)["rows"] == compared(results, folder, *later)["rows"]
    said = call("compare", both, *later).stdout
    assert f"{both} has versions 1, 2 of" in said
    assert "compared for epochs 2 is version 1" in said
    assert "compared for epochs 3 is version 2" in said
    older = ("--epochs", "0", "--against", "8")
    one = compared(results, "--collection", FILE, *older)["rows"]
    assert compared(both, *files, *older)["rows"] == one
    assert compared(results, results, "--collection", FILE, *older)["rows"] == one


@pytest.mark.parametrize(
    ("asked", "code", "why"),
    [
        (("export", "--every", 2, "--by", "week"), "E-USAGE-OPTION", "exclude each other"),
        (("export", "--drawn-anew", "0.1"), "E-USAGE-OPTION", "no effect"),
        (("export", "--weight", "reports"), "E-USAGE-OPTION", "no effect"),
        (("export", "--output", "x.txt"), "E-USAGE-OPTION", "no format"),
        (("export", "--every", 2), "E-USAGE-COLLECTION", "nothing says how first_choice"),
        (("compare", "--collection", FILE, "--epochs", 1), "E-USAGE-OPTION", "belong together"),
        (("compare", *GIVEN, "--epochs", 1, "--against", "0..3"), "E-USAGE-OPTION", "with itself"),
        (("compare", *GIVEN, "--epochs", 1, "--against", 99), "E-USAGE-OPTION", "no result of epochs 99"),
        (("compare", "--collection", FILE, "--name", "x"), "E-USAGE-OPTION", "no such collection"),
    ],
)
def test_what_cannot_work_is_refused(results: Path, asked: tuple[object, ...], code: str, why: str) -> None:
    done = call(asked[0], results, *asked[1:])
    assert isinstance(done.exception, ldpbeam.LdpError)
    assert done.exception.code == code
    assert done.exception.exit_code == 2
    assert why in str(done.exception)


def test_epochs_without_a_result_are_named(results: Path) -> None:
    done = call("compare", results, "--collection", FILE, "--epochs", "7..9", "--against", "0..3")
    assert done.exit_code == 0
    assert done.stderr.count("W-RESULTS-EPOCHS") == 1
    assert "of epochs 7..9 1 have no result; compared is what there is: 7, 8." in done.stderr


def test_the_last_period_is_compared_with_the_one_before(results: Path) -> None:
    asked = ("compare", results, "--collection", FILE)
    dates, words, *_ = call(*asked, "--by", "week").stdout.splitlines()
    assert dates == "by week: 2026-01-01 .. 2026-01-04 (4 epochs) against 2026-01-05 .. 2026-01-09 (5 epochs)"
    assert words.endswith(": epochs 0..3 against 4..8 (each epoch weighs the same)")


@pytest.mark.parametrize(("rate", "warned"), [("0.5..0.774", True), ("0..0.774", False)])
def test_a_rate_that_rests_on_devices_that_never_come_back_is_warned_of(
    results: Path, rate: str, warned: bool
) -> None:
    done = call("compare", results, "--collection", FILE, "--drawn-anew", rate)
    assert done.exit_code == 0
    assert ("[W-USAGE-ANEW]" in done.stderr) == warned
    assert ("Write --drawn-anew 0..0.774 if" in done.stderr) == warned


def test_texts_that_a_spreadsheet_would_run_are_marked_and_nothing_else() -> None:
    marked = ["=1", "+1+1", "-a", "@x", "\tx", "\rx", "-", "+.", "-1e"]
    plain = ["1-", "-5", "+.5", "-1.5E-3", "a=1", None, ""]
    table = pa.table({"label": [*marked, *plain], "estimate": [-0.5] * 16, "n": [-1] * 16})
    found = harmless(table)
    assert found["label"].to_pylist() == [*(f"'{text}" for text in marked), *plain]
    assert found.drop(["label"]).equals(table.drop(["label"]))
    assert found.schema.equals(table.schema)
