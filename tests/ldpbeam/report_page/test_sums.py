"""What the page says about values added up: a curve for values in order."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.stats import norm

import ldpbeam
from ldpbeam.durable.document import document
from ldpbeam.records.collection_record import collection_entry
from ldpbeam.report_page import charts
from ldpbeam.report_page.curve import drawn_places
from ldpbeam.report_page.document import write_page
from ldpbeam.report_page.sums import MOST
from tests.ldpbeam.report_page.reader import Reader, harmless
from tests.ldpbeam.report_page.synthetic import Fake, write_run

TEXT = """
name: minutes
domain: DOMAIN
protocol: oue
epsilon: 3.0
epoch: {length: 1d, origin: 2026-01-01T00:00:00Z}
"""
RANGE = "{range: {max: 120, buckets: 12}}"


def run(folder: Path, domain: str = RANGE, devices: int = 4000) -> Path:
    """A folder as a run leaves it, with one epoch and the collection in its record."""
    output, _ = write_run(folder, [Fake(k=2, epochs=1)])
    collection = ldpbeam.parse_collection(TEXT.replace("DOMAIN", domain))
    size = collection.histograms[0][1].size
    for path in (output / "estimates").iterdir():
        path.unlink()
    values = (np.arange(devices) % size) ** 2 // size
    table = ldpbeam.estimate(collection, ldpbeam.simulate(collection, ldpbeam.Index(values)))
    pq.write_table(table, output / "estimates" / "a.parquet")
    record = json.loads((output / "run.json").read_text())
    record["collections"] = [collection_entry(collection)]
    (output / "run.json").write_bytes(document(record))
    return output


def page(output: Path) -> Reader:
    return harmless(write_page(output, output / "page.html").read_text("utf-8"))


def test_a_curve_with_a_band_for_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[charts.Row] = []
    draw = charts.curve

    def drawing(rows: Sequence[charts.Row]) -> Any:
        drawn.extend(rows)
        return draw(rows)

    monkeypatch.setattr(charts, "curve", drawing)
    output = run(tmp_path)
    reader = page(output)
    text = reader.text
    collection = ldpbeam.parse_collection(TEXT.replace("DOMAIN", RANGE))
    table = ldpbeam.read(output)
    (median,) = ldpbeam.quantiles(collection, table, [0.5]).to_pylist()
    assert "Values added up" in text
    assert f"Half of them are at {median['label']} or below" in text
    assert f"(95 %: {median['label_low']} to {median['label_high']})" in text
    curve = ldpbeam.cumulative_shares(collection, table).to_pylist()
    labels = [
        a["data-says"] or "" for _, a in reader.elements if (a.get("data-says") or "").startswith("up to")
    ]
    assert len(labels) == len(curve) == 12
    wide = norm.ppf(1 - 0.025 / 12)
    for said, row, point in zip(labels, curve, drawn, strict=True):
        found = re.fullmatch(r"up to (.*): ([\d.−]+) %( ± ([\d.]+) %)?", said)
        assert found, said
        assert found[1] == row["label"]
        assert float(found[2].replace("−", "-")) == pytest.approx(100 * row["estimate"], abs=0.06)
        assert float(found[4] or 0) == pytest.approx(196 * row["std_error"], abs=0.06)
        assert (found[4] is None) == (row["std_error"] == 0)
        assert point["high"] - point["estimate"] == pytest.approx(wide * row["std_error"])
        assert point["estimate"] - point["low"] == pytest.approx(wide * row["std_error"])


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("domain", "shown", "absent"),
    [
        ("{size: 12}", "Histogram", "Values added up"),
        ("{labels: [never, seldom, daily], ordered: true}", "cumulative shares", "Curves are drawn of"),
        (f"{{size: {MOST + 1}, ordered: true}}", f"Curves are drawn of up to {MOST} values", "cumulative sh"),
    ],
)
def test_few_values_in_an_order_have_a_curve(tmp_path: Path, domain: str, shown: str, absent: str) -> None:
    text = page(run(tmp_path, domain)).text
    assert shown in text
    assert absent not in text


@pytest.mark.parametrize(("size", "most", "places"), [(5, 60, [0, 1, 2, 3, 4]), (6, 3, [1, 3, 5])])
def test_few_places_of_many_are_drawn_and_always_the_last(size: int, most: int, places: list[int]) -> None:
    """The curve ends at 1, whatever the number of values."""
    assert drawn_places(size, most) == places


@pytest.mark.thorough
def test_a_page_with_a_curve_stays_small(tmp_path: Path) -> None:
    output = run(tmp_path, f"{{size: {MOST}, ordered: true}}", devices=8 * MOST)
    assert (write_page(output, output / "page.html")).stat().st_size < 2_000_000
