"""What the page says by slice: a chart for each label, and the last epoch of each slice to choose from."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import ldpbeam
from ldpbeam.collection.slices import Slice
from ldpbeam.report_page import over_epochs
from ldpbeam.report_page.data import CollectionData, load
from ldpbeam.report_page.document import write_page
from ldpbeam.report_page.explorer import explorer
from ldpbeam.report_page.parts import Detail
from tests.ldpbeam.cli.sliced import run_of
from tests.ldpbeam.report_page.reader import Reader
from tests.narrow import present

ODD = "</svg><b>&"
COUNTRIES = [ODD, *(f"land {number}" for number in range(9)), "rare"]
YAML = f"""\
name: first_screen
domain: {{labels: [home, search, feed]}}
protocol: l_osue
epsilon_longitudinal: 6
epsilon_first: 5
min_reports: 20
epoch: {{length: 1d, origin: 2026-01-01T00:00:00Z, count: 30}}
slices: {{arm: [treatment, control], country: {json.dumps(COUNTRIES)}}}
"""
DEVICES = 2000
HELD = np.minimum(np.arange(DEVICES) % 4, 2)
SLICES: list[Slice] = [
    (
        ("arm", ("treatment", "control")[device % 2]),
        ("country", COUNTRIES[device // 2 % 10 if device > 9 else -1]),
    )
    for device in range(DEVICES)
]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_of(tmp_path_factory.mktemp("page"), YAML, [(HELD.tolist(), SLICES)] * 3)


def data_of(results: Path) -> CollectionData:
    (data,) = load(results).collections
    return data


def test_each_label_of_a_dimension_has_a_small_chart(results: Path) -> None:
    data = data_of(results)
    arm, country = over_epochs.by_slice(data, Detail.of(1), "c0")
    assert [one.label for one in arm.multiples] == ["treatment", "control"] and arm.sentence == ""
    assert [one.label for one in country.multiples] == COUNTRIES[: over_epochs.LABELS]
    assert country.sentence == "Not drawn: land 7, land 8. Too few reports: rare."
    # What a chart says under the pointer are the numbers of that label.
    table = ldpbeam.read(results, slice={"arm": "control"}).to_pylist()
    rows = [row for row in table if row["value"] == data.ranked[0]]
    for row in rows:
        said = f": {data.written(row['estimate'], row['std_error'])} ("
        assert said in arm.multiples[1].chart and said not in arm.multiples[0].chart


def test_the_page_has_slices_where_the_collection_has(results: Path, tmp_path: Path) -> None:
    html = write_page(results, tmp_path / "page.html").read_text("utf-8")
    page = Reader(html)
    assert "By slice search in each slice" in page.text.replace("home in", "search in").replace(
        "feed in", "search in"
    )
    assert ODD in page.text and ODD not in html
    plain = tmp_path / "plain"
    shutil.copytree(results, plain)
    shutil.rmtree(plain / "slices")
    without = write_page(plain, tmp_path / "plain.html").read_text("utf-8")
    assert "By slice" not in without and '"slice"' not in without
    assert html.count('class="chart"') - without.count('class="chart"') == 2 + over_epochs.LABELS


def test_the_last_epoch_of_each_slice_can_be_chosen(results: Path) -> None:
    data = data_of(results)
    about = json.loads(present(explorer(data, {}, 100_000)).epochs)
    whole = [epoch for epoch in about["epochs"] if "slice" not in epoch]
    assert len(whole) == 3 and about["chosen"] == 2
    by_slice = {epoch["slice"]: epoch for epoch in about["epochs"] if "slice" in epoch}
    assert len(by_slice) == 2 + 11 + 22
    for name, chosen in (
        ("arm=control", {"arm": "control"}),
        (f"arm=control, country={ODD}", {"arm": "control", "country": ODD}),
    ):
        rows = [row for row in ldpbeam.read(results, slice=chosen).to_pylist() if row["epoch"] == 2]
        shown = by_slice[name]
        assert [cells[0] for cells in shown["rows"]] == [
            round(100 * row["estimate"], shown["digits"]) for row in rows
        ]
        assert shown["note"].startswith(f"{rows[0]['n']:,} reports.")
    rare = by_slice["country=rare"]
    assert rare["name"].endswith(", withheld") and "too few reports" in rare["note"]
    assert all(cell is None for cells in rare["rows"] for cell in cells)


def test_slices_do_not_crowd_values_out_of_a_page(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert explorer(data_of(results), {}, 1_500) is None
    monkeypatch.setattr("ldpbeam.report_page.explorer._SLICES", 3)
    about = json.loads(present(explorer(data_of(results), {}, 1_500)).epochs)
    assert [epoch["slice"] for epoch in about["epochs"][3:]] == [
        "arm=treatment",
        "arm=control",
        f"country={ODD}",
    ]
