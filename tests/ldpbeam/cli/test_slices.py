"""Questions about slices: ``export``, and the same tables in Python."""

from __future__ import annotations

import csv
import io
import shutil
from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import ldpbeam
from ldpbeam.collection.slices import Slice
from tests.ldpbeam.cli.calling import call, told
from tests.ldpbeam.cli.sliced import run_of

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
        told("export", results, *given, "--smooth", "--output", target)
        assert pq.read_table(target).drop_columns(["smoothed", "smoothed_std_error"]).equals(table)


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
        told(
            "export",
            out,
            "--slice",
            f"arm={arm}",
            "--cumulative",
            "--every",
            2,
            "--output",
            tmp_path / "a.csv",
        )
        printed = list(csv.DictReader(io.StringIO((tmp_path / "a.csv").read_text())))
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
    for more in ((), ("--every", 2), ("--slice", "arm=control", "--smooth")):
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
    printed = list(csv.DictReader(io.StringIO(told("export", results, "--by-slice", "country"))))
    assert printed[0]["slice_country"] == f"'{DE}"


def test_slices_that_results_do_not_have(results: Path, tmp_path: Path) -> None:
    there = f"arm=treatment|control, country={DE}|FR|other. [E-USAGE-OPTION]"
    for given, named in (
        (("--slice", "country=GB"), "country=GB"),
        (("--slice", "county=FR"), "county=FR"),
        (("--by-slice", "county"), "county=…"),
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
