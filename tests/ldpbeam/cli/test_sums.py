"""``export --group``, ``--cumulative``, ``--quantile``, ``--mean`` and ``compare --group``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import ldpbeam
from ldpbeam.over_time import DrawnAnew
from tests.ldpbeam.cli.calling import call, rows

TEXT = """
name: minutes
domain: {range: {max: 120, buckets: 12}}
protocol: l_osue
epsilon_longitudinal: 2.0
epsilon_first: 1.0
epoch: {length: 1d, origin: 2026-01-01T00:00:00Z}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight days of one collection; from the fifth on twice as many stay for half an hour or less."""
    folder = tmp_path_factory.mktemp("sums")
    (folder / "minutes.yaml").write_text(TEXT)
    (folder / "groups.csv").write_text("group,value\nshort,0..30\nlong,30..120\n")
    (folder / "results" / "latest").mkdir(parents=True)
    collection = ldpbeam.load_collection(folder / "minutes.yaml")
    before = np.repeat(np.arange(12), 2000 // 10)[:2000]
    after = np.where(np.arange(2000) % 2, before // 5, before)
    fleet = ldpbeam.Fleet(collection, 2000)
    for epoch in range(8):
        table = ldpbeam.estimate(collection, fleet.report(ldpbeam.Index(after if epoch > 3 else before)))
        pq.write_table(table, folder / "results" / "latest" / f"{epoch}.parquet")
    return folder


def asked(place: Path) -> tuple[object, ...]:
    return (place / "results", "--collection", place / "minutes.yaml")


@pytest.mark.thorough
def test_the_command_and_python_agree(place: Path, tmp_path: Path) -> None:
    collection = ldpbeam.load_collection(place / "minutes.yaml")
    table = ldpbeam.read(place / "results")
    groups = {"short": range(3), "long": range(3, 12)}
    for options, made in (
        (("--group", place / "groups.csv"), ldpbeam.group_shares(collection, table, groups)),
        (("--cumulative",), ldpbeam.cumulative_shares(collection, table)),
        (("--quantile", "0.5,0.9"), ldpbeam.quantiles(collection, table, [0.5, 0.9])),
        (("--mean",), ldpbeam.value_mean(collection, table)),
        (
            ("--group", place / "groups.csv", "--every", 4, "--drawn-anew", "0.1..0.2"),
            ldpbeam.group_shares(collection, table, groups, every=4, drawn_anew=DrawnAnew(0.1, 0.2)),
        ),
        (("--mean", "--by", "month"), ldpbeam.value_mean(collection, table, every="month")),
    ):
        target = tmp_path / "answers.parquet"
        done = call("export", *asked(place), *options, "--output", target, "--json")
        assert done.exit_code == 0, done.exception
        assert json.loads(done.stdout)["rows"] == made.num_rows
        assert pq.read_table(target).equals(made)
        shown = rows("export", *asked(place), *options)
        assert list(shown[0]) == made.column_names
        assert len(shown) == made.num_rows


def test_one_rate_of_false_alarms_for_all_groups(place: Path, tmp_path: Path) -> None:
    given = ("compare", *asked(place), "--group", place / "groups.csv")
    span = ("--epochs", "0..3", "--against", "4..7")
    lines = call(*given, *span).stdout.splitlines()
    assert lines[0] == "minutes: epochs 0..3 against 4..7 (each epoch weighs the same)"
    assert lines[1] == "2 of 2 groups changed (false-discovery rate 0.05)"
    assert {line.split()[0] + line.split()[1] for line in lines[2:]} == {"shortrose", "longfell"}
    document = json.loads(call(*given, *span, "--json", "--output", tmp_path / "all.csv").stdout)
    assert set(document["changed"]) == {"short", "long"}
    one, two = document["rows"]
    assert (one["group"], "value" in one) == ("short", False)
    # A group and the rest change by as much, and are equally sure.
    assert one["change"] == pytest.approx(-two["change"])
    assert one["std_error"] == pytest.approx(two["std_error"])
    assert one["adjusted"] == pytest.approx(two["adjusted"])
    assert len((tmp_path / "all.csv").read_text().splitlines()) == 3
    assert "0 of 2 groups" in call(*given, "--epochs", 0, "--against", 1).stdout


def test_two_runs_of_one_collection_are_one_series(place: Path, tmp_path: Path) -> None:
    for name, epochs in (("a", range(4)), ("b", range(4, 8))):
        (tmp_path / name).mkdir()
        for epoch in epochs:
            shutil.copy(place / "results" / "latest" / f"{epoch}.parquet", tmp_path / name)
    given = ("--collection", place / "minutes.yaml", "--group", place / "groups.csv")
    options = (*given, "--drawn-anew", "0.1", "--json")
    both = json.loads(call("compare", tmp_path / "a", tmp_path / "b", *options).stdout)
    one = call("compare", place / "results", *options, "--epochs", "0..3", "--against", "4..7")
    assert both["rows"] == json.loads(one.stdout)["rows"]


def test_an_order_in_the_file_of_the_collection(tmp_path: Path) -> None:
    for name, domain in (("plain", "{size: 12}"), ("ordered", "{size: 12, ordered: true}")):
        text = TEXT.replace("{range: {max: 120, buckets: 12}}", domain)
        (tmp_path / f"{name}.yaml").write_text(text)
    collection = ldpbeam.load_collection(tmp_path / "plain.yaml")
    (tmp_path / "r").mkdir()
    table = ldpbeam.estimate(collection, ldpbeam.simulate(collection, ldpbeam.Index(np.arange(2000) % 12)))
    pq.write_table(table, tmp_path / "r" / "0.parquet")
    refused = call("export", tmp_path / "r", "--collection", tmp_path / "plain.yaml", "--quantile", "0.5")
    assert "ordered: true" in str(refused.exception)
    found = rows("export", tmp_path / "r", "--collection", tmp_path / "ordered.yaml", "--quantile", "0.5")
    assert int(found[0]["value_low"]) <= 5 <= int(found[0]["value_high"])


SEVERAL = """
name: several
attributes:
  - {name: age, domain: {size: 6, ordered: true}}
  - {name: team, domain: {labels: [a, b, c]}}
allocation: sample
protocol: oue
epsilon: 2.0
epoch: {length: 1d}
"""


def test_one_of_several_attributes(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(SEVERAL)
    (tmp_path / "g.csv").write_text("group,value\nab,a\nab,b\n")
    collection = ldpbeam.load_collection(tmp_path / "c.yaml")
    (tmp_path / "r").mkdir()
    values = np.stack([np.arange(2000) % 6, np.arange(2000) % 3], axis=1)
    pq.write_table(
        ldpbeam.estimate(collection, ldpbeam.simulate(collection, ldpbeam.Index(values))),
        tmp_path / "r" / "0.parquet",
    )
    given = ("export", tmp_path / "r", "--collection", tmp_path / "c.yaml")
    # Teams have no order: the curve is that of ages.
    assert {row["attribute"] for row in rows(*given, "--cumulative")} == {"age"}
    assert "Name it: --name, --attribute" in str(call(*given, "--group", tmp_path / "g.csv").exception)
    assert len(rows(*given, "--group", tmp_path / "g.csv", "--attribute", "team")) == 1
    assert "Name one: --name, --attribute" in str(call("compare", *given[1:]).exception)
    refused = call(*given, "--mean", "--attribute", "none").exception
    assert "There are: several/age, several/team." in str(refused)


@pytest.mark.parametrize(
    ("options", "code", "why"),
    [
        (("--group", "g", "--mean"), "E-USAGE-OPTION", "exclude each other"),
        (("--mean", "--drawn-anew", "0.1"), "E-USAGE-OPTION", "no effect on single epochs"),
        (("--name", "minutes"), "E-USAGE-OPTION", "say of what a sum is"),
        (("--group", "none.csv"), "E-USAGE-GROUPS", "cannot be read"),
    ],
)
def test_what_cannot_work_is_refused(place: Path, options: tuple[object, ...], code: str, why: str) -> None:
    done = call("export", *asked(place), *options)
    assert isinstance(done.exception, ldpbeam.LdpError)
    assert (done.exception.code, done.exception.exit_code) == (code, 2)
    assert why in str(done.exception)


@pytest.mark.parametrize("shares", ["", "a", "0", "0.5,2"])
def test_shares_that_are_none(place: Path, shares: str) -> None:
    done = call("export", *asked(place), "--quantile", shares)
    assert done.exit_code == 2
    assert "no list of shares between 0 and 1" in done.stderr
