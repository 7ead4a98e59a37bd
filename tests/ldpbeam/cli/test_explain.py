"""``ldpbeam explain``: every stage with its numbers, and one published row computed again."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from ldpbeam.cli.main import cli
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.file import load_collection, parse_collection
from ldpbeam.collection.values import Index
from ldpbeam.epoch_result import result_of_epoch
from ldpbeam.errors import LdpError
from ldpbeam.planning.explanation import explained
from ldpbeam.protocols import PROTOCOLS
from ldpbeam.simulators.fleet import Fleet
from ldpbeam.tables import epoch_table, fixed_columns
from tests.conftest import REPOSITORY

SEVERAL = """\
name: both
attributes: [{name: x, domain: {size: 3}}, {name: y, domain: {labels: [left, right, none]}}]
allocation: sample
protocol: loloha
epsilon_longitudinal: 3.0
epsilon_first: 1.5
epoch: {length: 1d, count: 9}
"""
MEAN = "name: m\ndomain: {range: {max: 10}}\nprotocol: one_bit_mean\nepsilon: 1.0\nepoch: {length: 1d}\n"
CHOICE = (REPOSITORY / "examples" / "first_choice.yaml").read_text("utf-8").replace("500", "100")
VALUES = {"epsilon": 1.0, "epsilon_longitudinal": 2.0, "epsilon_first": 1.0, "d": 2, "segment": 1}


def call(*arguments: object) -> str:
    done = CliRunner().invoke(cli, ["explain", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def write(collection: Collection, folder: Path, reports: int = 400, changed: str = "") -> Path:
    """The published table of epoch 2 of a run, with the second row of a column changed."""
    draw = np.random.default_rng(3)
    sizes = [domain.size for _, domain in collection.histograms]
    held = np.column_stack([draw.integers(0, size, reports) for size in sizes])
    sent = Fleet(collection, reports, 5).report(Index(held if len(sizes) > 1 else held[:, 0]), 2)
    table = epoch_table(collection, result_of_epoch(collection, 2, [sent]), fixed_columns(collection))
    if changed:
        place, kind = table.schema.get_field_index(changed), table.schema.field(changed)
        first, second, *rest = table.column(changed).to_pylist()
        second = second + 1 if isinstance(second, int) else second * 1.001 + 1e-6
        table = table.set_column(place, kind, pa.array([first, second, *rest], kind.type))
    (folder / "latest").mkdir(parents=True)
    name = f"{collection.name}-{collection.digest_hex}-epoch-000002.parquet"
    pq.write_table(table, folder / "latest" / name)
    return folder


def yaml_of(text: str, folder: Path) -> tuple[Path, Collection]:
    path = folder / "collection.yaml"
    path.write_text(text, "utf-8")
    return path, load_collection(path)


def test_the_stages_have_the_integers_that_devices_draw_with() -> None:
    path = REPOSITORY / "examples" / "minutes_in_app.yaml"
    protocol: Any = load_collection(path).protocol
    out = call(path)
    assert f"keep = {protocol.rounds.permanent.keep}, each = {protocol.rounds.permanent.each}" in out
    assert f"keep = {protocol.rounds.last.keep}, each = {protocol.rounds.last.each}" in out
    found = dict(re.findall(r"^  (own|other) = .* = ([0-9.]+)$", out, re.MULTILINE))
    assert float(found["own"]) == pytest.approx(float(protocol.estimator.support.own), abs=1e-9)
    assert float(found["other"]) == pytest.approx(float(protocol.estimator.support.other), abs=1e-9)
    p2, q2 = re.findall(r"p2 = keep/total = ([0-9.]+), q2 = each/total = ([0-9.]+)", out)[0]
    assert float(p2) + 2 * float(q2) == pytest.approx(1, abs=3e-6)
    assert "Two reports tell at most ε = 2.136" in out
    document = json.loads(call(path, "--json"))
    assert [stage["title"][0] for stage in document["stages"][:5]] == list("12345")
    assert call(path, "--quiet") == ""


@pytest.mark.parametrize("name", sorted(PROTOCOLS))
def test_every_protocol_is_explained(name: str) -> None:
    kind = PROTOCOLS[name]
    levels = "".join(f"{key}: {VALUES[key]}\n" for key in kind.PARAMETERS)
    text = f"name: a\ndomain: {{size: 5}}\nprotocol: {name}\nepoch: {{length: 1d}}\n{levels}"
    stages = explained(parse_collection(text), 1000)
    assert len(stages) == 8
    for stage in stages:
        assert stage.lines
        assert all(line and "None" not in line and "nan" not in line for line in stage.lines), stage.title


def test_attributes_are_named() -> None:
    out = {line.split(":")[0] for stage in explained(parse_collection(SEVERAL), 1000) for line in stage.lines}
    assert {"x", "y"} <= out


@pytest.mark.parametrize(
    ("text", "value", "attribute"),
    [
        (CHOICE, "green", ()),
        (SEVERAL, "none", ("--attribute", "y")),
        (CHOICE.replace("1d,", "1d, count: 4,") + "participation: {reports: 3, of: 4}\n", "green", ()),
        (MEAN, "mean", ()),
        (MEAN.replace("one_bit", "laplace"), "0", ()),
        (MEAN.replace("one_bit_mean", "dbitflip\nd: 2").replace("{range: {max: 10}}", "{size: 6}"), "3", ()),
    ],
)  # fmt: skip
def test_a_published_row_is_computed_again(
    text: str, value: str, attribute: tuple[str, ...], tmp_path: Path
) -> None:
    path, collection = yaml_of(text, tmp_path)
    results = write(collection, tmp_path / "results")
    out = call(path, "--row", 2, value, results, *attribute)
    assert out.endswith("the stored row is exactly this\n")
    document = json.loads(call(path, "--row", 2, value, results, *attribute, "--json"))
    assert document["differs"] == []
    assert document["computed"]["estimate"] == document["stored"]["estimate"]
    assert document["computed"]["consistent"] == pytest.approx(document["stored"]["consistent"], rel=1e-9)


@pytest.mark.parametrize(
    "column",
    ["support", "estimate", "std_error", "ci_low", "ci_high_all", "consistent", "n", "std_error_floor"],
)
def test_a_row_that_was_changed_is_noticed(column: str, tmp_path: Path) -> None:
    path, collection = yaml_of(CHOICE, tmp_path)

    results = write(collection, tmp_path / "results", changed=column)
    with pytest.raises(LdpError) as caught:
        call(path, "--row", 2, "green", results)
    assert (caught.value.code, caught.value.exit_code) == ("E-RUN-DAMAGED", 6)
    if column in {"estimate", "std_error", "consistent", "std_error_floor"}:
        assert column in str(caught.value)
        # The other rows are what they were, and say that one is not.
        assert "1 other rows of its table are not" in call(path, "--row", 2, "red", results)


def test_an_epoch_with_few_reports_has_nothing_to_follow(tmp_path: Path) -> None:
    path, collection = yaml_of(CHOICE, tmp_path)
    results = write(collection, tmp_path / "results", reports=50)
    assert "fewer than min_reports = 100: no estimate" in call(path, "--row", 2, "red", results)


@pytest.mark.parametrize(
    ("row", "more", "text"),
    [
        ((1, "red", "results"), (), "no result for epoch 1"),
        ((2, "blau", "results"), (), "no such value"),
        ((2, "red", "nowhere"), (), "no result for epoch 2"),
        ((2, "red", "results"), ("--attribute", "y"), "no attribute 'y'"),
        ((1, "red", "results/latest"), (), "no result for epoch 1"),
        ((2, "red", "collection.yaml"), (), "damaged"),
    ],
)
def test_what_cannot_be_followed_is_refused(
    row: tuple[int, str, str],
    more: tuple[str, ...],
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    path, collection = yaml_of(CHOICE, tmp_path)
    write(collection, tmp_path / "results", reports=600)
    with pytest.raises(LdpError) as caught:
        call(path, "--row", *row, *more)
    assert (caught.value.code, caught.value.exit_code) == ("E-USAGE-OPTION", 2)
    assert text in str(caught.value)


def test_the_number_of_a_value_is_taken_where_it_is_no_label(tmp_path: Path) -> None:
    text = "name: a\ndomain: {labels: ['1', '0']}\nprotocol: grr\nepsilon: 1.0\nepoch: {length: 1d}\n"
    path, collection = yaml_of(text, tmp_path)
    results = write(collection, tmp_path / "results")
    assert json.loads(call(path, "--row", 2, "0", results, "--json"))["stored"]["value"] == 1
    assert np.isfinite(json.loads(call(path, "--row", 2, "1", results, "--json"))["computed"]["ci_low"])
